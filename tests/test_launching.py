"""Kernels of one's own: values against numpy, the same times as a kernel of the project, and what is refused."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.engine.compiled import library
from ascend_sim.engine.deadlock import DeadlockError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.function import _OWN, Launch
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.runtime import Device, RunOptions, Task, run_tasks

CHIP = "ascend910b3"
HERE = Path(__file__)


@asim.kernel_function(core="AIV")
def move(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
    """Rows of x to y through UB."""
    tiles = k.queue("x", "UB", k.row_bytes(x.shape[1] * x.itemsize), "MTE2", "MTE3")
    for row in range(k.block * 2 + k.sub_block if k.core_kind == "MIX" else k.block, len(x), k.blocks):
        k.gm_to_ub(tiles.acquire(), x[row])
        tiles.publish()
        k.ub_to_gm(y[row], tiles.take())
        tiles.release()


@asim.kernel_function(core="AIC")
def product(
    k: asim.Kernel,
    a: asim.Tensor,
    b: asim.Tensor,
    c: asim.Tensor,
    *,
    turn_a: bool = False,
    turn_b: bool = False,
    atomic: bool = False,
) -> None:
    """C = A B of matrices that fit L0, A and B perhaps stored turned; `atomic` adds to what C holds."""
    (m, depth), n = (a.shape[::-1] if turn_a else a.shape), b.shape[0 if turn_b else 1]
    wide = -(-max(m, depth, n) // 32) * 32
    a1, b1 = (k.queue(name, "L1", wide * wide * 4, "MTE2", "MTE1", 1) for name in ("A1", "B1"))
    a0, b0 = (k.queue(name, name, wide * wide * 4, "MTE1", "M", 1) for name in ("L0A", "L0B"))
    tile = k.queue("C", "L0C", wide * wide * 4, "M", "FIX", 1)
    k.gm_to_l1(a1.acquire(), a)
    a1.publish()
    k.gm_to_l1(b1.acquire(), b)
    b1.publish()
    k.l1_to_l0a(a0.acquire(), a1.take(), *a.shape, a.dtype, held=len(a), transpose=turn_a)
    a0.publish()
    k.l1_to_l0b(b0.acquire(), b1.take(), *b.shape, b.dtype, held=len(b), transpose=turn_b)
    b0.publish()
    out = tile.acquire()
    k.mmad(out, a0.take(), b0.take(), m, depth, n, a.dtype, False)
    tile.publish()
    k.l0c_to_gm(c, tile.take(), atomic_add=atomic)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, np.int8, np.int32])
def test_what_is_moved_arrives(mode: str, dtype: Any) -> None:
    x = np.arange(7 * 33).reshape(7, 33).astype(dtype)
    run = asim.launch(move, 3, x, asim.empty(x.shape, dtype), chip=CHIP, mode=mode)
    assert list(run.outputs) == ["y"] and run.outputs["y"].dtype == x.dtype
    assert run.outputs["y"].tobytes() == x.tobytes()
    assert run.findings == [] and run.passed


small = st.integers(1, 40)


@settings(max_examples=25)
@given(
    small,
    small,
    small,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["ascend910b3", "ascend950pr_9589"]),
)
def test_a_product_of_whole_numbers_is_exact(
    m: int, depth: int, n: int, turn_a: bool, turn_b: bool, atomic: bool, chip: str
) -> None:
    if turn_b:  # fractals, as they are
        n = -(-n // 16) * 16
    rng = np.random.default_rng(m * 10_000 + depth * 100 + n)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, depth), (depth, n)))
    start = rng.integers(-9, 9, (m, n)).astype(np.float32)
    given = (
        a.T.copy() if turn_a else a,
        b.T.copy() if turn_b else b,
        start if atomic else asim.empty((m, n), "float32"),
    )
    run = asim.launch(product, 1, *given, chip=chip, turn_a=turn_a, turn_b=turn_b, atomic=atomic)
    right = a.astype(np.float64) @ b.astype(np.float64) + (start if atomic else 0)
    assert run.findings == []
    np.testing.assert_array_equal(run.outputs["c"], right)


def test_pieces_of_a_matrix_in_l1_are_what_numpy_slices() -> None:
    """A piece of the matrices is multiplied, from a row and a column inside them."""

    @asim.kernel_function(core="AIC")
    def pieces(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, c: asim.Tensor) -> None:
        a1, b1 = (k.queue(name, "L1", x.nbytes, "MTE2", "MTE1", 1) for name, x in (("A1", a), ("B1", b)))
        a0, b0 = (k.queue(name, name, 32768, "MTE1", "M", 1) for name in ("L0A", "L0B"))
        tile = k.queue("C", "L0C", 65536, "M", "FIX", 1)
        k.gm_to_l1(a1.acquire(), a)
        a1.publish()
        k.gm_to_l1(b1.acquire(), b)
        b1.publish()
        k.l1_to_l0a(a0.acquire(), a1.take(), 20, 32, "float16", held=48, row=7, column=16)
        a0.publish()
        k.l1_to_l0b(b0.acquire(), b1.take(), 32, 32, "float16", held=64, row=16, column=48, transpose=True)
        b0.publish()
        out = tile.acquire()
        k.mmad(out, a0.take(), b0.take(), 20, 32, 32, "float16", False)
        tile.publish()
        k.l0c_to_gm(c, tile.take())

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((48, 64), (64, 96)))
    run = asim.launch(pieces, 1, a, b, asim.empty((20, 32), "float32"), chip=CHIP)
    np.testing.assert_array_equal(run.outputs["c"], a[7:27, 16:48].astype(np.float64) @ b[16:48, 48:80].T)
    assert run.findings == []


def test_what_the_kernel_writes_is_an_output_and_a_workspace_is_none() -> None:
    x = np.arange(64, dtype=np.float32).reshape(2, 32)
    y = np.full((2, 32), 7, np.float32)
    run = asim.launch(move, 1, x, y, chip=CHIP)
    assert list(run.outputs) == ["y"]
    np.testing.assert_array_equal(run.outputs["y"], x)
    assert (y == 7).all(), "the caller's array is a copy's source"
    assert asim.launch(move, 1, x, asim.empty(x.shape, "float32", workspace=True), chip=CHIP).outputs == {}


def test_timing_needs_no_values_and_takes_as_long() -> None:
    x = np.zeros((9, 64), np.float16)
    full = asim.launch(move, 3, x, asim.empty(x.shape, "float16"), chip=CHIP)
    timing = asim.launch(
        move, 3, asim.empty(x.shape, "float16"), asim.empty(x.shape, "float16"), chip=CHIP, mode="timing"
    )
    spec = asim.TensorSpec(x.shape, "float16")
    assert asim.launch(move, 3, spec, spec, chip=CHIP, mode="timing").report.total_us == full.report.total_us
    assert timing.outputs == {} and timing.report.total_us == full.report.total_us
    warm = asim.launch(move, 3, x, asim.empty(x.shape, "float16"), chip=CHIP, l2="warm")
    assert warm.report.total_us < full.report.total_us


def test_launching_gives_the_programs_and_times_that_the_builder_gives() -> None:
    """Rows, addresses and cycles are those of the same kernel written as the project's own are."""
    rows, columns, blocks = 10, 48, 4
    chip = load_chip(CHIP)
    device = Device(chip, with_values=False)
    held = [device.allocate(rows * columns * 2, name) for name in ("x", "y")]
    table = InstructionTable(chip)

    def build(block: int) -> list[Program]:
        from ascend_sim.kernel.queue import BufferQueue

        k = KernelBuilder(table, block, "AIV", [tensor.size for tensor in held])
        queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", columns * 2, f"x[{i}]") for i in range(2)])
        for row in range(block, rows, blocks):
            k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, row * columns * 2), columns * 2)
            queue.publish()
            k.data_copy("UB", "GM", gm_operand(1, row * columns * 2), queue.take(), columns * 2)
            queue.release()
        queue.close()
        return [k.finish()]

    outcome = run_tasks(device, [Task("move", "move", "AIV", blocks, held, build)], RunOptions(mode="timing"))
    like = asim.empty((rows, columns), "float16")
    run = asim.launch(move, blocks, like, like, chip=CHIP, mode="timing")
    assert run.timeline is not None and outcome.timeline is not None
    for own, theirs in zip(run.timeline.programs, outcome.timeline.programs, strict=True):
        np.testing.assert_array_equal(own.program.rows, theirs.program.rows)
        np.testing.assert_array_equal(own.retire, theirs.retire)


def calls(work: Callable[[], list[Program]]) -> tuple[int, int]:
    """Python functions that `work` calls, and the rows of the programs that it returns."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        made = work()
    finally:
        sys.setprofile(None)
    return count, sum(len(program) for program in made)


def test_a_row_costs_no_more_calls_than_in_a_kernel_of_the_project() -> None:
    """What a row costs is the same machine's work; calls are counted because they, unlike seconds, are the same everywhere."""
    size, chip = 1024, load_chip(CHIP)
    problem = MatMulProblem(size, size, size, "float16", "float32")
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size * size * width, name) for name, width in (("a", 2), ("b", 2), ("c", 4))]
    task = matmul_task(chip, problem, choose_matmul(problem, chip), tensors)
    theirs, their_rows = calls(lambda: list(task.build(0)))
    places = [
        Tensor.at(slot, name, (size, size), dtype)
        for slot, (name, dtype) in enumerate((("a", "float16"), ("b", "float16"), ("c", "float32")))
    ]
    spec = importlib.util.spec_from_file_location("docs_matmul", HERE.parents[1] / "docs" / "kernels" / "matmul.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    launched = Launch.of(module.matmul, chip, 20, places, {})
    own, own_rows = calls(lambda: launched.programs(0))
    assert own / own_rows < 1.1 * theirs / their_rows


@asim.kernel_function(core=("AI_CORE", "AIV"))
def anywhere(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
    move(k, x, y)


@pytest.mark.parametrize(
    ("chip", "core"),
    [("ascend910a", "AI_CORE"), ("ascend310p3", "AI_CORE"), (CHIP, "AIV"), ("ascend950pr_9589", "AIV")],
)
def test_a_kernel_for_several_cores_runs_on_every_architecture(chip: str, core: str) -> None:
    x = np.arange(5 * 32, dtype=np.float16).reshape(5, 32)
    run = asim.launch(anywhere, 2, x, asim.empty(x.shape, "float16"), chip=chip)
    np.testing.assert_array_equal(run.outputs["y"], x)
    assert {program.core_kind for program in run.programs} == {core}
    assert run.report.to_dict()["kernels"][0]["core_type"] == core


# -- cores together ----------------------------------------------------------------------------------------------------


@asim.kernel_function(core="MIX")
def turns(k: asim.Kernel, a: asim.Tensor, b: asim.Tensor, c: asim.Tensor, d: asim.Tensor) -> None:
    """C = A B by the cube, D = C moved by the vector cores when the cube has written it."""
    if k.is_cube:
        product(k, a, b, c)
        k.cross_core_set(3, 2, "FIX")
        return
    k.cross_core_wait(3, 2, "MTE2")
    tile = k.queue("t", "UB", 2048, "MTE2", "MTE3", 1)
    half = len(c) // 2
    part = slice(k.sub_block * half, (k.sub_block + 1) * half)
    k.gm_to_ub(tile.acquire(), c[part])
    tile.publish()
    k.ub_to_gm(d[part], tile.take())


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_a_mixed_kernel_is_one_program_a_core_and_its_flags_hold(mode: str) -> None:
    a = np.eye(16, dtype=np.float16)
    b = np.arange(256, dtype=np.float16).reshape(16, 16)
    given = (a, b, asim.empty((16, 16), "float32", workspace=True), asim.empty((16, 16), "float32"))
    run = asim.launch(turns, 1, *given, chip=CHIP, mode=mode)
    assert [(p.core_kind, p.sub_block) for p in run.programs] == [("AIC", 0), ("AIV", 0), ("AIV", 1)]
    np.testing.assert_array_equal(run.outputs["d"], b)
    if mode == "full":
        assert asim.launch(turns, 1, *given, chip=CHIP, expected=b).passed
        assert not asim.launch(turns, 1, *given, chip=CHIP, expected=b, disarm=["cross-core 3"]).passed


def test_a_barrier_of_all_cores_is_told_before() -> None:
    def barrier(k: asim.Kernel, x: asim.Tensor) -> None:
        k.cross_core_set(0, 0, "MTE2")
        k.cross_core_wait(0, 0, "MTE2")

    x = np.zeros(32, np.float16)
    with pytest.raises(asim.KernelError, match="all_cores=True"):
        asim.launch(asim.kernel_function(core="AIV")(barrier), 2, x, chip=CHIP)
    together = asim.kernel_function(core="AIV", all_cores=True)(barrier)
    assert asim.launch(together, 40, x, chip=CHIP).findings == []
    with pytest.raises(asim.SimError, match="all blocks of such a kernel must run at once"):
        asim.launch(together, 41, x, chip=CHIP)


def test_waiting_for_each_other_ends_in_a_deadlock_that_names_the_pipes() -> None:
    @asim.kernel_function(core="MIX")
    def stuck(k: asim.Kernel, x: asim.Tensor) -> None:
        k.cross_core_wait(1, 2, "MTE2")

    with pytest.raises(DeadlockError, match="cross_core_wait_flag"):
        asim.launch(stuck, 1, np.zeros(32, np.float16), chip=CHIP)


# -- instructions of one's own -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Square(asim.Instruction):
    """dst = src0 squared, `count` float32."""

    count: int
    cycles: int = 17

    name = "square"

    def pipe(self, chip: Any) -> str:
        return "V"

    def cost(self, chip: Any) -> asim.Cost:
        return asim.Cost(3, 3, self.cycles, 2)

    def reads(self) -> tuple[asim.Region, ...]:
        return (asim.Region("src0", "UB", 4 * self.count),)

    def writes(self) -> tuple[asim.Region, ...]:
        return (asim.Region("dst", "UB", 4 * self.count),)

    def read(self, memory: asim.Memory, dst: int, src0: int, src1: int) -> Any:
        return np.square(memory.array("UB", src0, (self.count,), np.float32))

    def commit(self, memory: asim.Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.count,), np.float32)[...] = pending


@asim.kernel_function(core="AIV")
def squares(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, cycles: int = 17) -> None:
    source = k.queue("in", "UB", x.nbytes, "MTE2", "V", 1)
    target = k.queue("out", "UB", x.nbytes, "V", "MTE3", 1)
    k.gm_to_ub(source.acquire(), x)
    source.publish()
    k.emit(Square(x.size, cycles), target.acquire(), source.take())
    target.publish()
    k.ub_to_gm(y, target.take())


def test_an_instruction_of_ones_own_has_values_cost_and_hazards(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    given = (x, asim.empty(64, "float32"))
    run = asim.launch(squares, 1, *given, chip=CHIP)
    np.testing.assert_array_equal(run.outputs["y"], x * x)
    longer = asim.launch(squares, 1, *given, chip=CHIP, cycles=117)
    assert run.timeline is not None and longer.timeline is not None
    assert longer.timeline.finish == run.timeline.finish + 100
    disarmed = asim.launch(squares, 1, *given, chip=CHIP, disarm=["in[0] full"])
    assert any("square" in finding.text for finding in disarmed.findings)


def test_a_file_of_a_run_with_an_instruction_of_ones_own_is_drawn_and_run_again(tmp_path: Path) -> None:
    from ascend_sim.report.page import open_run
    from ascend_sim.report.what_if import what_if

    x = np.arange(64, dtype=np.float32)
    run = asim.launch(squares, 1, x, asim.empty(64, "float32"), chip=CHIP)
    run.write(tmp_path)
    recording, report = open_run(tmp_path)
    assert report == json.loads(json.dumps(run.report.to_dict()))
    assert run.recording is not None
    assert recording.rerun(recording.chip).finish == run.recording.timeline.finish
    again = {one.key: one.elapsed for one in what_if(recording)}
    assert again == {one.key: one.elapsed for one in what_if(run.recording)}
    named = [one.name for one in recording.timeline.programs[0].program.table.instructions]
    assert "square" in named
    regions = [one.reads() for one in recording.timeline.programs[0].program.table.instructions if one.name == "square"]
    assert regions == [Square(64).reads()]


def broken(**changes: Any) -> type[asim.Instruction]:
    kind = dataclass(frozen=True)(
        type("Broken", (asim.Instruction,), {"name": "broken", "pipe": lambda s, c: "V", **changes})
    )
    return kind


@pytest.mark.parametrize(
    ("instruction", "told"),
    [
        ("nothing", "'nothing' is no instruction"),
        (type("Plain", (asim.Instruction,), {"name": "plain"})(), "Plain must be a frozen dataclass"),
        (broken(name="")(), "has no name"),
        (broken(pipe=lambda s, c: "W")(), "pipe\\(\\) is 'W'; pipes are S, MTE1"),
        (broken(cost=lambda s, c: asim.Cost(1, 1, 2.5, 0))(), "Cost of whole cycles"),
        (broken(cost=lambda s, c: None)(), "Cost of whole cycles"),
        (broken(reads=lambda s: (asim.Region("src7", "UB", 4),))(), "touches Region\\(operand='src7'"),
        (broken(writes=lambda s: (asim.Region("dst", "L0C", 4),))(), "in one of GM, UB is allowed on an AIV"),
    ],
)  # fmt: skip
def test_an_instruction_that_no_engine_could_run_is_refused(instruction: Any, told: str) -> None:
    @asim.kernel_function(core="AIV")
    def emits(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(instruction)

    with pytest.raises(asim.KernelError, match=told):
        asim.launch(emits, 1, np.zeros(8, np.float32), chip=CHIP)


@pytest.mark.parametrize("kernel", ["squares", "turns"])
def test_both_engines_give_the_same_times(kernel: str) -> None:
    """With an instruction that neither of them knows, and with flags between cores."""
    if library.load() is None:
        pytest.skip("the compiled engine was not built")
    eye = np.eye(16, dtype=np.float16)
    given: tuple[Any, ...] = (np.arange(64, dtype=np.float32), asim.empty(64, "float32"))
    if kernel == "turns":
        given = (eye, eye, asim.empty((16, 16), "float32", workspace=True), asim.empty((16, 16), "float32"))
    own = {"squares": squares, "turns": turns}[kernel]
    runs = [asim.launch(own, 1, *given, chip=CHIP, engine=engine) for engine in ("simpy", "compiled")]
    first, second = (run.timeline for run in runs)
    assert first is not None and second is not None
    for one, other in zip(first.programs, second.programs, strict=True):
        np.testing.assert_array_equal(one.start, other.start)
        np.testing.assert_array_equal(one.retire, other.retire)
    assert runs[0].report.to_dict() == runs[1].report.to_dict()


# -- the verdict -------------------------------------------------------------------------------------------------------


def test_a_product_is_judged_as_gradients_are_and_one_wrong_term_fails() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    given = (a, b, asim.empty((32, 32), "float16"))
    right = asim.launch(product, 1, *given, chip=CHIP, expected=lambda a, b: asim.Expected.product(a, b))
    (figures,) = right.report.outputs.values()
    assert right.passed and 0 < figures["worst_error_over_bound"] <= 1
    dropped = asim.Expected.product(a, b)
    values = np.array(dropped.values)
    values[3, 5] -= float(a[3, 7]) * float(b[7, 5])
    wrong = asim.launch(
        product, 1, *given, chip=CHIP, expected=asim.Expected(values, dropped.magnitude, dropped.products)
    )
    assert not wrong.passed and wrong.report.outputs["c"]["first_wrong"] == [3, 5]


def test_integers_must_be_equal_and_moved_numbers_within_a_rounding() -> None:
    x = np.arange(66, dtype=np.int32).reshape(2, 33)
    off = x.copy()
    off[1, 2] += 1
    given = (x, asim.empty(x.shape, "int32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected={"y": x}).passed
    verdict = asim.launch(move, 1, *given, chip=CHIP, expected=off).report.outputs["y"]
    assert (verdict["correct"], verdict["wrong"], verdict["first_wrong"]) == (False, 1, [1, 2])
    real = np.full((2, 33), 1.0, np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    assert asim.launch(move, 1, *given, chip=CHIP, expected=real * (1 + 2.0**-24)).passed
    assert not asim.launch(move, 1, *given, chip=CHIP, expected=real * (1 + 2.0**-20)).passed


def test_precision_widens_the_bound_by_its_unit() -> None:
    real = np.full((2, 33), 1.0, np.float32)
    given = (real, asim.empty(real.shape, "float32"))
    for off, precision, passes in (
        (2.0**-10, "float16", True),
        (2.0**-8, "float16", False),
        (2.0**-10, "float32", False),
    ):
        expected = asim.Expected(real.astype(np.float64) * (1 + off), precision=precision)
        assert asim.launch(move, 1, *given, chip=CHIP, expected=expected).passed == passes


ALLOWED = "allowed are an array of numbers, an Expected, or a dict of them by the outputs' names"


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ({"z": np.zeros((2, 32))}, "no output 'z'; the kernel has y"),
        (np.zeros((2, 31)), r"y has shape \[2, 31\]; the output has \[2, 32\]"),
        (lambda w: w, "asks for w; inputs of the kernel are x"),
        (lambda x: None, f"None for y; {ALLOWED}"),
        (lambda x: (x,), f"a value of type tuple for y; {ALLOWED}"),
        (lambda x: {"y": (x, x[1:])}, f"a value of type tuple for y; {ALLOWED}"),
        ("zeros", f"a value of type str for y; {ALLOWED}"),
        ([[1, 2], [3]], f"a value of type list for y; {ALLOWED}"),
        (asim.Expected(None), f"None for y; {ALLOWED}"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_compared_is_refused(expected: Any, told: str) -> None:
    x = np.zeros((2, 32), np.float16)
    with pytest.raises(asim.SimError, match=told):
        asim.launch(move, 1, x, asim.empty(x.shape, "float16"), chip=CHIP, expected=expected)


# -- what is refused ---------------------------------------------------------------------------------------------------


def told(*arguments: Any, kernel: Any = move, blocks: Any = 1, **options: Any) -> str:
    with pytest.raises(asim.SimError) as caught:
        asim.launch(kernel, blocks, *arguments, **{"chip": CHIP, **options})
    text = str(caught.value)
    assert "\n" not in text
    return text


X = np.zeros((2, 32), np.float16)
Y = asim.empty((2, 32), "float16")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((X,), {}, "kernel move(k"),
        ((X, Y, Y), {}, "too many positional arguments"),
        ((X, Y), {"base_m": 4}, "unexpected keyword argument 'base_m'"),
        ((X, 3), {}, "y is int; a tensor is a numpy array or ascend_sim.empty(...)"),
        ((X, asim.TensorSpec((2, 32), "float16")), {}, "mode 'full' needs values, but y is a TensorSpec"),
        ((X.astype(np.float64), Y), {}, "dtype 'float64': a tensor is one of"),
        ((X.astype(">f2"), Y), {}, "byte order"),
        ((X, Y), {"blocks": 0}, "0 blocks"),
        ((X, Y), {"blocks": 65536}, "65536 blocks; a launch has at most 65535"),
        ((X, Y), {"blocks": True}, "True blocks"),
        ((X, Y), {"blocks": 2.0}, "2.0 blocks"),
        ((X, Y), {"mode": "fast"}, "mode 'fast': allowed are full, functional, timing"),
        ((X, Y), {"engine": "steam"}, "steam"),
        ((X, Y), {"l2": "hot"}, "l2 'hot': allowed are cold and warm"),
        ((X, Y), {"chip": "ascend911"}, "ascend911"),
        ((X, Y), {"chip": "ascend910a"}, "kernel move runs on AIV; ascend910a (dav-1001) has AI_CORE (chip file, cores.kinds)"),
        ((X, Y), {"kernel": turns, "chip": "ascend310p3"}, "runs on AIV"),
        ((X, Y), {"kernel": len}, "is not a kernel"),
        ((X, Y), {"disarm": ["x[7] full"]}, "disarm: no flag 'x[7] full' in move; it has x[0] free, x[0] full"),
        ((asim.empty((2**30, 2**10), "float16"), Y), {"mode": "timing"}, "its tensors take"),
    ],
)  # fmt: skip
def test_a_wrong_launch_is_told_in_one_line(arguments: Sequence[Any], options: dict[str, Any], said: str) -> None:
    if options.get("kernel") is turns:
        arguments, said = (X, X, X, X), "kernel turns runs on MIX; ascend310p3 (dav-2002) has AI_CORE, AIV"
    assert said in told(*arguments, **options)


def test_an_error_inside_the_kernel_names_file_and_line() -> None:
    def bad(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, what: str = "") -> None:
        k.gm_to_ub(0, x)
        if what == "python":
            raise KeyError("lost")
        if what == "builder":
            k.gm_to_ub(10**9, x[0, 99])
        k.ub_to_gm(y, 10**9 if what == "address" else 0)

    kernel = asim.kernel_function(core="AIV")(bad)
    first = bad.__code__.co_firstlineno
    for what, line, said in (
        ("python", 3, "KeyError: 'lost'"),
        ("builder", 5, "x[2, 32] float16: index 99"),
        ("address", 6, "block 0 AIV0: "),
    ):
        assert f"{HERE.name}:{first + line}: kernel bad: {said}" in told(X, Y, kernel=kernel, what=what)


def test_every_keyword_of_launch_is_closed_to_kernels() -> None:
    parameters = inspect.signature(asim.launch).parameters.values()
    assert {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY} == _OWN


def test_a_dtype_that_the_cube_lacks_is_told() -> None:
    kernel = asim.kernel_function(core="AI_CORE")(lambda k, x: k.mmad(0, 0, 0, 16, 16, 16, "bfloat16", False))
    text = told(X, kernel=kernel, chip="ascend910a")
    assert "mmad: ascend910a (dav-1001) multiplies no bfloat16; it has float16, int8 (chip file, cube.rates)" in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: asim.kernel_function(core="GPU"), "core 'GPU'; allowed are AIC, AIV, MIX, AI_CORE"),
        (lambda: asim.kernel_function(core=()), "allowed are AIC"),
        (lambda: asim.kernel_function(core="AIC")(3), "3 is not a function"),
        (lambda: asim.kernel_function(core="AIC")(lambda: None), "first parameter is the builder"),
        (lambda: asim.kernel_function(core="AIC")(lambda k, x, chip: None), "'chip' is a keyword of launch"),
        (lambda: asim.empty((2, -1), "float16"), "sizes are 0 or more"),
        (lambda: asim.empty("ab", "float16"), "shape"),
        (lambda: asim.empty((2,), "float64"), "float64"),
    ],
)
def test_what_makes_no_kernel_is_refused(make: Any, said: str) -> None:
    with pytest.raises(asim.SimError, match=re.escape(said)):
        make()


def test_the_report_has_the_shape_of_a_calls_report() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 16)).astype(np.float16) for _ in range(2))
    run = asim.launch(product, 1, a, b, asim.empty((16, 16), "float32"), chip=CHIP)
    report = run.report.to_dict()
    problem = MatMulProblem(16, 16, 16, "float16", "float32")
    chip = load_chip(CHIP)
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, name) for name, size in (("a", 512), ("b", 512), ("c", 1024))]
    task = matmul_task(chip, problem, choose_matmul(problem, chip), tensors)
    from ascend_sim.report.report import Report

    outcome = run_tasks(device, [task], RunOptions(mode="timing"))
    theirs = Report.build(chip, outcome.timeline, [task]).to_dict()
    assert report.keys() == theirs.keys()
    assert report["kernels"][0].keys() == theirs["kernels"][0].keys()
    kernel = report["kernels"][0]
    assert (kernel["macs"], kernel["counts"]["bytes"]["GM->L1:a"]) == (16**3, 512)
    assert kernel["tiling"] == {"turn_a": False, "turn_b": False, "atomic": False}


def test_a_page_and_a_notebook_show_the_run(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    x = np.arange(64, dtype=np.float16).reshape(1, 64)
    given = (x, asim.empty(x.shape, "float16"))
    run = asim.launch(move, 1, *given, chip=CHIP, expected=x)
    run.write_html(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>move on ascend910b3</h1>" in html and "Outputs against float64" in html and 'id="what-if"' in html
    assert '<b class="good">correct</b>' in run._repr_html_() and "critical path" in run._repr_html_()
    functional = asim.launch(move, 1, *given, chip=CHIP, mode="functional")
    assert "mode functional" in functional._repr_html_()
    with pytest.raises(asim.SimError, match="functional mode has no times"):
        functional.write_html(tmp_path / "none.html")
    with pytest.raises(asim.SimError, match="msprof: needs a mode with time"):
        functional.write(tmp_path / "none", msprof=True)
    assert not (tmp_path / "none").exists() and not (tmp_path / "none.html").exists()
