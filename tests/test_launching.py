"""Kernels of one's own: values against numpy, the same times as a kernel of the project, and what is refused."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim import launching
from ascend_sim.chip import load_chip
from ascend_sim.engine.compiled import library
from ascend_sim.errors import DeadlockError, SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.described import described
from ascend_sim.kernel.function import Launch
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.runtime import Device, Task, run_tasks
from tests.support.launched import CHIP, move, product, squares, turns

HERE = Path(__file__)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16, np.int8, np.int32])
def test_what_is_moved_arrives(mode: str, dtype: Any) -> None:
    x = np.arange(7 * 33).reshape(7, 33).astype(dtype)
    run = asim.launch(move, 3, x, asim.empty(x.shape, dtype), chip=CHIP, mode=mode)
    assert list(run.outputs) == ["y"] and run.outputs["y"].dtype == x.dtype
    assert run.outputs["y"].tobytes() == x.tobytes()
    assert run.findings == [] and run.passed
    assert repr(run).startswith(f"<KernelRun on {CHIP}, mode {mode}, ") and repr(run).endswith(f": y [7, 33] {x.dtype}>")


small = st.integers(1, 40)


@settings(max_examples=25)
@given(small, small, small, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["ascend910b3", "ascend950pr_9589"]))
def test_a_product_of_whole_numbers_is_exact(
    m: int, depth: int, n: int, turn_a: bool, turn_b: bool, atomic: bool, chip: str
) -> None:
    if turn_b:  # fractals, as they are
        n = -(-n // 16) * 16
    rng = np.random.default_rng(m * 10_000 + depth * 100 + n)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, depth), (depth, n)))
    start = rng.integers(-9, 9, (m, n)).astype(np.float32)
    given = (a.T.copy() if turn_a else a, b.T.copy() if turn_b else b, start if atomic else asim.empty((m, n), "float32"))
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
    timing = asim.launch(move, 3, asim.empty(x.shape, "float16"), asim.empty(x.shape, "float16"), chip=CHIP, mode="timing")
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

    outcome = run_tasks(device, [Task("move", "move", "AIV", blocks, held, build)], {"mode": "timing"})
    like = asim.empty((rows, columns), "float16")
    run = asim.launch(move, blocks, like, like, chip=CHIP, mode="timing")
    assert run.timeline is not None and outcome.timeline is not None
    for own, theirs in zip(run.timeline.programs, outcome.timeline.programs, strict=True):
        np.testing.assert_array_equal(own.program.rows, theirs.program.rows)
        np.testing.assert_array_equal(own.retire, theirs.retire)


def calls(build: Callable[[int], list[Program]], blocks: int) -> tuple[int, int]:
    """Python functions that `build` calls for all blocks, and the rows of the programs; instructions are described anew."""
    described.cache_clear()
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        made = [one for block in range(blocks) for one in build(block)]
    finally:
        sys.setprofile(None)
    return count, sum(len(program) for program in made)


def test_a_row_of_a_launch_costs_about_as_many_calls_as_in_a_kernel_of_the_project() -> None:
    """Calls are counted because they, unlike seconds, are the same on every machine.

    A smaller product comes before, so that what a process does once is not counted.
    """
    chip = load_chip(CHIP)
    spec = importlib.util.spec_from_file_location("docs_matmul", HERE.parents[1] / "docs" / "kernels" / "matmul.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for size in (512, 1024):
        problem = MatMulProblem(size, size, size, "float16", "float32")
        device = Device(chip, with_values=False)
        tensors = [device.allocate(size * size * width, name) for name, width in (("a", 2), ("b", 2), ("c", 4))]
        task = matmul_task(chip, problem, choose_matmul(problem, chip), tensors)
        theirs, their_rows = calls(task.build, task.block_dim)
        places = [
            Tensor.at(slot, name, (size, size), dtype)
            for slot, (name, dtype) in enumerate((("a", "float16"), ("b", "float16"), ("c", "float32")))
        ]
        launched = Launch.of(module.matmul, chip, 20, places, {})
        own, own_rows = calls(launched.programs, 20)
    assert own / own_rows < 1.1 * theirs / their_rows


@asim.kernel_function(core=("AI_CORE", "AIV"))
def anywhere(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
    move(k, x, y)


@pytest.mark.parametrize(
    ("chip", "core"), [("ascend910a", "AI_CORE"), ("ascend310p3", "AI_CORE"), (CHIP, "AIV"), ("ascend950pr_9589", "AIV")]
)
def test_a_kernel_for_several_cores_runs_on_every_architecture(chip: str, core: str) -> None:
    x = np.arange(5 * 32, dtype=np.float16).reshape(5, 32)
    run = asim.launch(anywhere, 2, x, asim.empty(x.shape, "float16"), chip=chip)
    np.testing.assert_array_equal(run.outputs["y"], x)
    assert {program.core_kind for program in run.programs} == {core}
    assert run.report.to_dict(statements=False)["kernels"][0]["core_type"] == core


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


def test_written_tensors_are_found_with_one_look_at_each_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks share a table of instructions, which may have thousands."""

    @asim.kernel_function(core="AIV")
    def fill(k: asim.Kernel, y: asim.Tensor) -> None:
        row = k.ub_queue("row", 16, y.dtype, "V", "MTE3")
        with row.write() as a:
            k.duplicate(a, 1.0)
        k.ub_to_gm(y[k.block], row)

    programs = asim.launch(fill, 8, asim.empty((8, 16), "float32")).programs
    looks: list[str] = []
    for kind in {type(one) for one in programs[0].table.instructions}:
        monkeypatch.setattr(kind, "writes", lambda self, real=kind.writes: looks.append(self.name) or real(self))
    assert launching._written(programs) == {0} and len(looks) == len(programs[0].table.instructions)


# -- the verdict -------------------------------------------------------------------------------------------------------


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

    outcome = run_tasks(device, [task], {"mode": "timing"})
    theirs = Report.build(chip, outcome.timeline, [task]).to_dict()
    assert report.keys() == theirs.keys()
    assert report["kernels"][0].keys() == theirs["kernels"][0].keys()
    kernel = report["kernels"][0]
    assert (kernel["macs"], kernel["counts"]["bytes"]["GM->L1:a"]) == (16**3, 512)
    assert kernel["tiling"] == {"turn_a": False, "turn_b": False, "atomic": False}


@pytest.mark.parametrize("fields", [{}, {"turn_a": True}])
def test_an_expectation_may_ask_for_numbers_of_the_kernel_given_or_not(fields: dict[str, bool]) -> None:
    a, b = np.arange(256, dtype=np.float16).reshape(16, 16), np.eye(16, dtype=np.float16)

    def right(a: Any, turn_a: bool) -> Any:
        return a.T if turn_a else a

    assert asim.launch(product, 1, a, b, asim.empty((16, 16), "float32"), chip=CHIP, expected=right, **fields).passed


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


def moved(**options: Any) -> Any:
    """Return the report of a launch that moves a tensor."""
    x = np.ones((64, 64), np.float32)
    return asim.launch(move, 2, x, asim.empty(x.shape, "float32"), **{"chip": CHIP, **options}).report


@pytest.mark.parametrize("engine", ["simpy", None])
def test_scalar_work_before_each_instruction_is_time_of_its_issue(engine: str | None) -> None:
    """The experiment is a chip whose scalar unit takes so many cycles more for each issue, and says that it is one."""
    chip = load_chip(CHIP)
    issue = {kind: one + 70 for kind, one in chip.scalar.issue_cycles.items()}
    slower = chip.model_copy({"scalar": chip.scalar.model_copy({"issue_cycles": issue})})
    plain, asked = (moved(mode="timing", engine=engine, scalar_cycles_per_word=cycles) for cycles in (None, 70))
    assert asked.total_us == moved(mode="timing", engine=engine, chip=slower).total_us > plain.total_us
    assert asked.problem["scalar_work"] == "70 cycles before each instruction"
    assert list(asked.warnings) == ["an experiment: scalar work of 70 cycles before each instruction"]
    assert "scalar_work" not in plain.problem and not plain.warnings


def test_scalar_work_that_no_mode_counts_or_no_clock_holds_is_refused() -> None:
    with pytest.raises(SimError, match="scalar_cycles_per_word: 5 given; functional mode counts no cycles"):
        moved(mode="functional", scalar_cycles_per_word=5)
    with pytest.raises(SimError, match=r"scalar\.issue_cycles\.\w+: is \d+; at most"):
        moved(scalar_cycles_per_word=1 << 31)
    with pytest.raises(SimError, match="scalar_cycles_per_word -1 must be a whole number from 0"):
        moved(scalar_cycles_per_word=-1)
