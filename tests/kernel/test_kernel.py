"""Copies to GM that keep one of two numbers, on both engines: values, order of cores, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim import SimError
from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.numerics.integers import storage

FORMATS = ("float32", "float16", "bfloat16", "int32", "int16", "int8")
PICKED = {"max": np.maximum, "min": np.minimum}


@ascend_sim.kernel_function(core="AIV")
def kept(k: Kernel, rows: Tensor, y: Tensor, *, keep: str = "max") -> None:
    row = k.local_tensor(rows.shape[1], rows.dtype, "row")
    here, free = k.flag("MTE2", "MTE3", "here"), k.flag("MTE3", "MTE2", "free")
    k.set_flag(free)
    for i in range(k.block, len(rows), k.blocks):
        k.wait_flag(free), k.gm_to_ub(row, rows[i]), k.set_flag(here)
        k.wait_flag(here), k.ub_to_gm(y, row, keep=keep), k.set_flag(free)
    k.wait_flag(free)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("keep", PICKED)
@pytest.mark.parametrize("dtype", FORMATS)
def test_gm_keeps_one_of_all_rows(dtype: str, keep: str, chip: str, engine: str) -> None:
    rng = np.random.default_rng(1)
    rows, held = (rng.integers(-99, 100, shape).astype(storage(dtype)) for shape in ((7, 40), 40))
    run = ascend_sim.launch(kept, 3, rows, held, chip=chip, keep=keep, engine=engine)
    wanted = PICKED[keep].reduce(np.vstack([rows, held[None]]), axis=0)
    assert np.array_equal(run.outputs["y"], wanted)


def test_a_refusal_in_ordered_is_one_finding() -> None:
    """The builder goes on under inspection, and the barrier behind the refused instruction is left out."""

    @ascend_sim.kernel_function(core="AIV")
    def refused(k: Kernel, y: Tensor) -> None:
        row = k.local_tensor(64, "float32", "row")
        with k.ordered("V"):
            k.vector_binary("nothing", row.address, row.address, row.address, "float32", 64)
            k.duplicate(row)
        flag = k.flag("V", "MTE3", "flag")
        k.set_flag(flag), k.wait_flag(flag), k.ub_to_gm(y, row)

    found = ascend_sim.check_kernel(refused, 1, ascend_sim.empty(64, "float32"), chip="ascend910b3").findings
    assert ["no vector operation 'nothing'" in one.title for one in found] == [True]


@pytest.mark.parametrize("way", ["l0c_to_gm", "fixpipe", "fixpipe_nd"])
@pytest.mark.parametrize("keep", PICKED)
def test_a_tile_of_l0c_keeps_one_of_both(keep: str, way: str) -> None:
    @ascend_sim.kernel_function(core="AIC")
    def product(k: Kernel, a: Tensor, b: Tensor, c: Tensor) -> None:
        a1, b1, a0, b0 = (k.allocate(space, 512, space) for space in ("L1", "L1", "L0A", "L0B"))
        c0, steps = k.allocate("L0C", 1024, "c0"), (("MTE2", "MTE1"), ("MTE1", "M"), ("M", "FIX"))
        first, second, third = (k.flag(*step, f"{step}") for step in steps)
        k.gm_to_l1(a1, a), k.gm_to_l1(b1, b), k.set_flag(first), k.wait_flag(first)
        k.l1_to_l0a(a0, a1, 16, 16, a.dtype, held=16), k.l1_to_l0b(b0, b1, 16, 16, b.dtype, held=16)
        k.set_flag(second), k.wait_flag(second)
        k.mmad(c0, a0, b0, 16, 16, 16, a.dtype, accumulate=False), k.set_flag(third), k.wait_flag(third)
        if way == "fixpipe":
            k.fixpipe(c.address, c0, 16, 16, 16, "float32", 16, 1024, keep=keep)
        elif way == "fixpipe_nd":
            k.fixpipe_nd(c.address, c0, 16, 16, 16, "float32", 64, keep=keep)
        else:
            k.l0c_to_gm(c, c0, keep=keep)

    rng = np.random.default_rng(2)
    a, b = (rng.integers(-3, 4, (16, 16)).astype(np.float16) for _ in range(2))
    held = rng.integers(-9, 10, (16, 16)).astype(np.float32)
    wanted = PICKED[keep](held, a.astype(np.float32) @ b.astype(np.float32))
    assert np.array_equal(ascend_sim.launch(product, 1, a, b, held).outputs["c"], wanted)


def test_cores_that_keep_the_same_extreme_share_bytes_and_others_do_not() -> None:
    @ascend_sim.kernel_function(core="AIV")
    def both(k: Kernel, x: Tensor, y: Tensor, *, mixed: bool = False) -> None:
        row = k.local_tensor(x.shape[0], x.dtype, "row")
        here = k.flag("MTE2", "MTE3", "here")
        k.gm_to_ub(row, x), k.set_flag(here), k.wait_flag(here)
        k.ub_to_gm(y, row, keep="min" if mixed and k.block else "max")

    x = np.ones(64, np.float32)
    assert not ascend_sim.check_kernel(both, 2, x, np.zeros(64, np.float32)).findings
    found = ascend_sim.check_kernel(both, 2, x, np.zeros(64, np.float32), mixed=True).findings
    assert [one.kind for one in found]


@pytest.mark.parametrize(
    ("chip", "options", "said"),
    [
        ("ascend910b3", {"keep": "sum"}, "keep is 'sum'; allowed are max, min"),
        ("ascend910b3", {"keep": "max", "atomic_add": True}, "atomic_add and keep='max' given; a copy takes one of them"),
        ("ascend310p3", {"keep": "max"}, "atomic_max of float32; add is possible"),
    ],
)
def test_what_no_copy_keeps_is_refused(chip: str, options: dict[str, object], said: str) -> None:
    @ascend_sim.kernel_function(core=("AIV", "AI_CORE"))
    def one(k: Kernel, y: Tensor) -> None:
        k.ub_to_gm(y, LocalTensor(0, (8,), "float32"), **options)

    with pytest.raises(SimError, match=said):
        ascend_sim.launch(one, 1, np.zeros(8, np.float32), chip=chip)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 16, 1024, True, keep="max"), "atomic_add and keep='max'"),
        (lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 16, 1024, unit_flag=True, keep="min"), "unit_flag and keep='min'"),
        (lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, "float32", 64, True, keep="min"), "atomic_add and keep='min'"),
        (lambda k: k.fixpipe_nd(0, 0, 16, 16, 16, "float8_e4m3fn", 64, keep="min"), "dtype float8_e4m3fn"),
        (lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 16, 1024, keep="sum"), "keep is 'sum'; allowed are max, min"),
        (lambda k: k.data_copy("L1", "GM", 0, 0, 64, keep="max"), "keep='max' needs atomic_add=FORMAT"),
        (lambda k: k.data_copy("GM", "L1", 0, 0, 64, atomic_add="float32", keep="max"), "to L1: only GM"),
    ],
)  # fmt: skip
def test_drains_and_copies_refuse_what_they_cannot_keep(write: Callable[[KernelBuilder], object], said: str) -> None:
    k = KernelBuilder(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [1 << 20])
    with pytest.raises(SimError, match=said) as caught:
        write(k)
    assert "\n" not in str(caught.value)


def test_bytes_of_l1_keep_an_extreme() -> None:
    @ascend_sim.kernel_function(core="AIC")
    def copied(k: Kernel, x: Tensor, y: Tensor) -> None:
        place, here = k.allocate("L1", 256, "row"), k.flag("MTE2", "MTE3", "here")
        k.data_copy("GM", "L1", place, x.address, 256), k.set_flag(here), k.wait_flag(here)
        k.data_copy("L1", "GM", y.address, place, 256, atomic_add="int32", keep="min")

    x, y = np.arange(64, dtype=np.int32) - 30, np.zeros(64, np.int32)
    assert np.array_equal(ascend_sim.launch(copied, 1, x, y).outputs["y"], np.minimum(x, y))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"row": -1}, "row is -1; allowed is a whole number from 0"),
        ({"rows": 0}, "rows is 0; allowed is a whole number from 1"),
        ({"columns": -(2**63)}, "columns is -9223372036854775808; allowed is a whole number from 1"),
        ({"column": 0.5}, "column is 0.5; allowed"),
        ({"held": None}, "held is None; allowed"),
        ({"columns": 2**62}, "16 rows of 4611686018427387904 float16 are .* bytes; L0. has 65536"),
    ],
)
@pytest.mark.parametrize("method", ["l1_to_l0a", "l1_to_l0b"])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_piece_of_a_matrix_lies_inside_it(fields: dict[str, Any], words: str, method: str, transpose: bool) -> None:
    k = Kernel(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [], blocks=1)
    piece = {"rows": 16, "columns": 16, "held": 16, "row": 0, "column": 0, **fields}
    rows, columns = piece.pop("rows"), piece.pop("columns")
    with pytest.raises(SimError, match=f"{method}: {words}"):
        getattr(k, method)(0, 0, rows, columns, "float16", **piece, transpose=transpose)


@pytest.mark.parametrize("method", ["gm_to_ub", "gm_to_l1", "ub_to_gm", "l0c_to_gm"])
def test_what_is_no_tensor_in_gm_is_told_as_such(method: str) -> None:
    k = Kernel(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [], blocks=1)
    order = [3, 0] if method.endswith("gm") else [0, 3]
    with pytest.raises(SimError, match=f"{method}: 3 is not a tensor in GM"):
        getattr(k, method)(*order)
