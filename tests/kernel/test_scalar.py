"""Scalar loads and stores of kernels: values in both modes and engines against a twin in Python, order, refusals."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import bits_of_number
from ascend_sim.numerics.hifloat8 import decode_hifloat8

pytestmark = pytest.mark.fast
RUNS = [(mode, engine) for mode in ("full", "functional") for engine in ("simpy", "compiled")]


@asim.kernel_function(core=("AIV", "AI_CORE"))
def doubled_places(k: Any, x: Any, y: Any, ordered: bool = True, barrier: bool = False) -> None:
    """Element i of y becomes x[i], but every fourth -i."""
    t = k.local_tensor(64, "float32", "t")
    k.gm_to_ub(t, x)
    if barrier:
        k.pipe_barrier("ALL")
    elif ordered:
        k.set_flag(k.flag("MTE2", "S", "in"))
        k.wait_flag(k.flag("MTE2", "S", "in"))
    for i in range(0, 64, 4):
        k.scalar_load(t[i : i + 1])
        k.scalar_store(t[i : i + 1], -i)
    if barrier:
        k.pipe_barrier("ALL")
    elif ordered:
        k.set_flag(k.flag("S", "MTE3", "out"))
        k.wait_flag(k.flag("S", "MTE3", "out"))
    k.ub_to_gm(y, t)


X = np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize(("mode", "engine"), RUNS)
def test_stores_are_where_a_scalar_loop_puts_them(mode: str, engine: str, barrier: bool) -> None:
    run = asim.launch(doubled_places, 1, X, asim.empty(64, "float32"), mode=mode, engine=engine, barrier=barrier)
    wanted = X.copy()
    for i in range(0, 64, 4):
        wanted[i] = -i
    np.testing.assert_array_equal(run.outputs["y"], wanted)
    assert not run.findings


def test_both_engines_take_the_same_cycles() -> None:
    one, other = (
        asim.launch(doubled_places, 1, X, asim.empty(64, "float32"), mode="timing", engine=engine)
        for engine in ("simpy", "compiled")
    )
    assert one.timeline.finish == other.timeline.finish
    scalar = one.timeline.programs[0]
    rows = [i for i, row in enumerate(scalar.program) if row.instruction.name == "scalar_store"]
    chip = scalar.program.table.chip
    length = chip.scalar.issue_cycles["AIV"] + chip.scalar.ub_cycles
    assert {int(scalar.end[i] - scalar.start[i]) for i in rows} == {length}


def labels(kernel: Any, *tensors: Any, **fields: Any) -> set[str]:
    report = asim.check_kernel(kernel, 1, *tensors, **fields)
    return {" ".join(filter(None, (one.kind, one.space))) for one in report.findings}


def test_a_check_finds_a_scalar_load_that_races_with_a_pipe() -> None:
    y = asim.empty(64, "float32")
    assert not labels(doubled_places, X, y) and not labels(doubled_places, X, y, barrier=True)
    assert {"RAW UB"} <= labels(doubled_places, X, y, ordered=False)
    run = asim.launch(doubled_places, 1, X, y, ordered=False)
    assert any("scalar_load" in one.text for one in run.findings)


def test_a_run_in_time_finds_a_scalar_store_that_races_with_a_pipe() -> None:
    one, other = (
        asim.launch(doubled_places, 1, X, asim.empty(64, "float32"), mode="timing", engine=engine, ordered=False).findings
        for engine in ("simpy", "compiled")
    )
    assert one == other
    assert any(found.kind == "hazard" and "scalar_store" in found.text for found in one)


@asim.kernel_function(core="AIV")
def load_before_overwriting(k: Any, x: Any, y: Any) -> None:
    """A load is over before anything behind it begins, so that no flag is needed between it and a later copy."""
    t = k.local_tensor(64, "float32", "t")
    k.gm_to_ub(t, x)
    k.set_flag(k.flag("MTE2", "S", "in"))
    k.wait_flag(k.flag("MTE2", "S", "in"))
    k.scalar_load(t[0:1])
    k.gm_to_ub(t, x)
    k.set_flag(k.flag("MTE2", "MTE3", "out"))
    k.wait_flag(k.flag("MTE2", "MTE3", "out"))
    k.ub_to_gm(y, t)


def test_a_load_needs_no_flag_before_what_is_issued_later() -> None:
    assert not labels(load_before_overwriting, X, asim.empty(64, "float32"))


@asim.kernel_function(core="AIV")
def through_gm(k: Any, y: Any, z: Any, clean: bool = True) -> None:
    """A store to y that MTE2 reads back."""
    t = k.local_tensor(16, "float32", "t")
    k.scalar_store(y[3], 5)
    if clean:
        k.clean_data_cache(y[0])
    for pair in (("S", "MTE2"), ("MTE2", "MTE3")):
        if pair[1] == "MTE3":
            k.gm_to_ub(t, y)
        k.set_flag(k.flag(*pair, " ".join(pair)))
        k.wait_flag(k.flag(*pair, " ".join(pair)))
    k.ub_to_gm(z, t)


@pytest.mark.parametrize(("mode", "engine"), RUNS)
def test_a_pipe_reads_a_store_to_gm_after_a_clean_alone(mode: str, engine: str) -> None:
    y = np.ones(16, np.float32)
    for clean, seen in ((True, 5), (False, 1)):
        run = asim.launch(through_gm, 1, y, asim.empty(16, "float32"), mode=mode, engine=engine, clean=clean)
        assert run.outputs["z"].tolist() == [1, 1, 1, seen] + [1] * 12
        assert run.outputs["y"].tolist() == [1, 1, 1, 5] + [1] * 12  # written back at the end at the latest


@asim.kernel_function(core="AIV")
def neighbours(k: Any, y: Any) -> None:
    k.scalar_store(y[k.block], k.block + 1)
    k.scalar_store(y[32 + k.block], k.block + 1)


def test_blocks_that_share_a_line_lose_stores_in_time() -> None:
    """asc-devkit, GlobalTensor.SetValue: cores store at least a line apart, or lines overwrite each other."""
    y = np.zeros(48, np.float32)
    assert asim.launch(neighbours, 2, y, mode="functional").outputs["y"][:2].tolist() == [1, 2]
    one, other = (asim.launch(neighbours, 2, y, engine=engine).outputs["y"] for engine in ("simpy", "compiled"))
    assert one[:2].tolist() == [0, 2] and (one == other).all()


def test_a_number_beyond_a_float_format_is_an_infinity(recwarn: pytest.WarningsRecorder) -> None:
    assert bits_of_number(1e30, "float16") == 0x7C00
    assert bits_of_number(-(10**400), "float32") == 0xFF800000
    assert not recwarn.list


@asim.kernel_function(core="AIV")
def two_formats(k: Any, whole: Any, code: Any) -> None:
    k.scalar_store(whole[0], (1 << 64) - 1)
    k.scalar_store(code[0], 1.5)
    k.clean_data_cache()


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_store_in_the_format_of_its_element(engine: str) -> None:
    """The code of hifloat8 is of eight bits, and 1.5 is no whole number; uint64 reaches beyond a signed operand."""
    y = np.zeros(1, np.uint64), asim.empty(1, "hifloat8")
    done = asim.launch(two_formats, 1, *y, chip="ascend950pr_9589", engine=engine).outputs
    assert done["whole"][0] == 2**64 - 1 and decode_hifloat8(done["code"])[0] == 1.5


def refused(call: Any) -> str:
    @asim.kernel_function(core="AIV")
    def kernel(k: Any, x: Any) -> None:
        call(k, x, k.local_tensor(64, "int32", "t"))

    with pytest.raises(SimError) as told:
        asim.launch(kernel, 1, X, mode="timing")
    return str(told.value)


def test_refusals() -> None:
    assert "x[64] float32 has 64 elements; the scalar unit reads and writes one at a time" in refused(
        lambda k, x, t: k.scalar_load(x)
    )
    assert "scalar_load: 3 is not a tensor" in refused(lambda k, x, t: k.scalar_load(3))
    assert "2147483648 does not fit int32" in refused(lambda k, x, t: k.scalar_store(t[0:1], 1 << 31))
    assert "0.5 does not fit int32" in refused(lambda k, x, t: k.scalar_store(t[0:1], 0.5))
    for number in (nan, inf):
        assert f"{number} does not fit int32" in refused(lambda k, x, t, n=number: k.scalar_store(t[0:1], n))
    assert "'a'; a number is allowed" in refused(lambda k, x, t: k.scalar_store(t[0:1], "a"))
    assert "is not in GM; the data cache holds lines of GM" in refused(lambda k, x, t: k.clean_data_cache(t))


@asim.kernel_function(core="AIV")
def extremes(k: Any, x: Any, y: Any) -> None:
    """The largest of each row and its place; then the first of them moves by one pair."""
    t, d = k.local_tensor((4, 64), "float32", "t"), k.local_tensor(16, "float32", "d")
    k.gm_to_ub(t, x)
    k.pipe_barrier("ALL")
    k.duplicate(d, 0.0)
    with k.ordered("V"):
        k.reduce_max_index(d[:8], t)
        k.pair_reduce_sum(d[8:10], t[0, :4])
    k.pipe_barrier("ALL")
    k.scalar_copy(d[12:13], d[2:3])
    k.pipe_barrier("ALL")
    k.ub_to_gm(y, d)


def test_extremes_with_their_index_and_a_copy_of_one() -> None:
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    run = asim.launch(extremes, 1, x, asim.empty(16, "float32"))
    y = run.outputs["y"]
    assert (y[:8:2] == x.max(1)).all() and (y[1:8:2].view(np.uint32) == x.argmax(1)).all()
    assert y[12] == x[1].max() and y[8:10].tolist() == [x[0, 0] + x[0, 1], x[0, 2] + x[0, 3]] and not run.findings


def test_what_does_not_go_together() -> None:
    assert "both must be elements of UB with one format" in refused(lambda k, x, t: k.scalar_copy(x[0], t[0:1]))
    assert "dst must have two elements for each of 1 rows" in refused(lambda k, x, t: k.reduce_min_index(t[:3], t[3:8]))
    assert "src must have twice the elements of dst" in refused(lambda k, x, t: k.pair_reduce_sum(t[:3], t[8:16]))
