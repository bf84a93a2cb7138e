"""Reports of runs that keep no timeline: the same, but for what only a timeline can say; and the memory that such runs take."""

from __future__ import annotations

import importlib.util
import weakref
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim import AclnnError, SimError
from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from tests.support.places import TOOLS
from tests.support.sampling import part_of_cases

ONLY_WITH_TIMELINE = {"waterfall"}
CHIP = ascend_sim.load_chip("ascend910b3")
PIECE = 4096


def frozen_calls() -> Any:
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOLS / "freeze_calls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same_report(kept: dict[str, Any], lean: dict[str, Any]) -> None:
    assert lean.pop("timeline").startswith("not kept")
    for kernel in kept["kernels"]:
        for name in ONLY_WITH_TIMELINE:
            kernel.pop(name, None)
    assert lean == kept


@part_of_cases(2)
@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("disarm", [None, "every"])
def test_reports_are_the_same(chip: str, disarm: str | None) -> None:
    """Sound kernels, and kernels with a wait disarmed, whose hazards are told in the same words."""
    shapes = (2, 24, 9, 9), (2, 20, 9, 9), (24, 20, 3, 3)
    specs = [ascend_sim.TensorSpec(shape, "float16") for shape in shapes]
    arguments = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True))
    options: dict[str, Any] = {"chip": chip, "mode": "timing"}
    hazards = 0
    first = ascend_sim.convolution_backward(*specs, *arguments, **options)
    waits: list[dict[str, Any]] = [{}]
    if disarm:
        flags = {(first.tasks[run.task].name, flag) for run in first.timeline.programs for flag in run.program.flag_names()}
        waits = [{kernel: [flag]} for kernel, flag in sorted(flags)][::9]
    for wait in waits:
        kept = ascend_sim.convolution_backward(*specs, *arguments, **options, disarm=wait or None)
        lean = ascend_sim.convolution_backward(*specs, *arguments, **options, disarm=wait or None, timeline=False)
        assert lean.timeline is None and lean.recording is None
        assert_same_report(kept.report.to_dict(statements=False), lean.report.to_dict(statements=False))
        hazards += len(lean.report.findings)
    assert bool(hazards) == bool(disarm)


@pytest.mark.slow
def test_reports_of_random_calls_are_the_same() -> None:
    """The calls that are frozen: all families, ranks, dtypes, masks, groups, numbers of blocks."""
    freeze = frozen_calls()
    compared = 0
    for number in range(0, freeze.COUNT, 3):
        call = freeze.make_call(number)
        try:
            kept = freeze.run(call, "timing")
            lean = freeze.run({**call, "options": {**call["options"], "timeline": False}}, "timing")
        except (AclnnError, SimError):
            continue
        assert_same_report(kept.report.to_dict(statements=False), lean.report.to_dict(statements=False))
        compared += 1
    assert compared > 50


def test_a_page_needs_a_timeline() -> None:
    specs = [ascend_sim.TensorSpec(shape, "float16") for shape in ((1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 1, 1))]
    arguments = (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))
    result = ascend_sim.convolution_backward(*specs, *arguments, mode="timing", timeline=False)
    with pytest.raises(SimError, match="kept no timeline; run it with timeline=True"):
        result.write_html("never.html")


def test_a_timeline_of_so_many_instructions_at_most() -> None:
    """The limit holds for a call, and for a kernel of one's own in every mode."""
    specs = [ascend_sim.TensorSpec(shape, "float16") for shape in ((1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 1, 1))]
    arguments = (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))
    options: dict[str, Any] = {"mode": "timing", "chip": "ascend910b3"}
    whole = ascend_sim.convolution_backward(*specs, *arguments, **options)
    rows = sum(len(run.program) for run in whole.timeline.programs)
    same = ascend_sim.convolution_backward(*specs, *arguments, **options, timeline=rows)
    assert same.report.to_dict(statements=False) == whole.report.to_dict(statements=False) and same.recording is not None
    for none in (rows - 1, np.int64(2), 0, np.False_):
        lean = ascend_sim.convolution_backward(*specs, *arguments, **options, timeline=none)
        assert lean.timeline is None and lean.recording is None
        assert_same_report(whole.report.to_dict(statements=False), lean.report.to_dict(statements=False))
    for wrong in (-1, 1.5, "3", None):
        with pytest.raises(SimError, match=r"timeline.*True, False or a number of instructions, 2 or more"):
            ascend_sim.convolution_backward(*specs, *arguments, **options, timeline=wrong)

    @ascend_sim.kernel_function(core="AIV")
    def twice(k: Any, x: Any, y: Any) -> None:
        k.gm_to_ub(0, x)
        k.pipe_barrier("ALL")
        k.ub_to_gm(y, 0)

    x, y = np.zeros(64, np.float16), ascend_sim.empty(64, "float16")
    for mode, programs in (("timing", 0), ("full", 1), ("functional", 1)):
        run = ascend_sim.launch(twice, 1, x, y, chip="ascend910b3", mode=mode, timeline=2)
        assert len(run.programs) == programs and (run.timeline is not None) == (mode == "full")
    assert len(ascend_sim.launch(twice, 1, x, y, chip="ascend910b3", mode="timing", timeline=1).programs) == 1


class CountedBlocks:
    """A task of many blocks, each of `rows` times 3 copies in a stamped loop; counts the programs that are alive."""

    def __init__(self, count: int, rows: int) -> None:
        self.device = Device(CHIP, with_values=False)
        self.table, self.rows = InstructionTable(CHIP), rows
        self.alive = self.most = 0
        self.written: list[bool] = []
        tensor = self.device.allocate((count + rows) * PIECE, "t")
        self.task = Task("blocks", "Test", "AIV", count, [tensor], self.build)

    def build(self, block: int) -> list[Program]:
        k = KernelBuilder(self.table, block, "AIV", [self.task.tensors[0].size])
        for _, start in k.stamped([(0, block + i) for i in range(self.rows)]):
            for part in range(3):
                k.data_copy("GM", "UB", 0, gm_operand(0, start * PIECE + part * 512), 64)
        program = k.finish()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(program.sheet, self._gone)
        return [program]

    def _gone(self) -> None:
        self.alive -= 1


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
def test_programs_are_gone_when_their_blocks_end() -> None:
    """200 blocks on 40 cores."""
    blocks = CountedBlocks(200, 10)
    timeline = Engine(blocks.device, engine="compiled").run([blocks.task], keep=False)
    assert timeline.programs == []
    assert watched(timeline).of_task[0].instructions == 200 * 10 * 3
    assert blocks.alive == 0
    assert blocks.most <= CHIP.cores.aiv + 1
    kept = CountedBlocks(200, 10)
    whole = Engine(kept.device, engine="compiled").run([kept.task])
    assert kept.most == 200
    assert watched(whole) == watched(timeline)


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
@pytest.mark.parametrize("keep", [True, False])
def test_rows_are_written_out_for_whoever_asks(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of many pieces (rows.c), which end inside of stamps; and the engine never asks Python for them."""
    blocks = CountedBlocks(1, 2 * 4096 // 3 + 17)
    with monkeypatch.context() as patch:
        patch.setattr(Program, "rows", property(lambda self: pytest.fail("the rows were written out")))
        timeline = Engine(blocks.device, engine="compiled").run([blocks.task], keep=keep)
    expected = Engine(Device(CHIP, with_values=False), engine="simpy").run([blocks.task], keep=keep)
    assert watched(timeline) == watched(expected)
    for one, other in zip(timeline.programs, expected.programs, strict=True):
        assert one.end.tolist() == other.end.tolist()


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
@pytest.mark.parametrize(("tiles", "numbered"), [(1, True), (2, True), (2, False)])
def test_rows_that_nothing_moves_are_read_where_they_stand(tiles: int, numbered: bool) -> None:
    """Whole pieces of a stamp without a move, one with a single move, tiles that move the tile's number alone, plain rows."""
    device, table = Device(CHIP, with_values=False), InstructionTable(CHIP)
    tensor = device.allocate(4 * PIECE * 64, "t")

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, "AIV", [tensor.size])
        for at in range(5000):
            k.data_copy("GM", "UB", 0, gm_operand(0, at % 64 * 512), 64)
        for _, start in k.stamped([(0, i) for i in range(tiles)]):
            if numbered:
                k.next_tile()
            for at in range(2 * 4096):
                k.data_copy("GM", "UB", 0, gm_operand(0, (start + 100) * 512 if at == 6000 else at % 7 * 512), 64)
        for at in range(20):
            k.data_copy("GM", "UB", 0, gm_operand(0, at * 512), 64)
        return [k.finish()]

    task = Task("blocks", "Test", "AIV", 1, [tensor], build)
    one, other = (Engine(Device(CHIP, with_values=False), engine=name).run([task]) for name in ("compiled", "simpy"))
    assert watched(one) == watched(other)
    for column in ("start", "end", "retire", "l2_hits"):
        found, expected = (getattr(run.programs[0], column).tolist() for run in (one, other))
        assert found == expected
