"""Reports of runs that keep no timeline: the same, but for what only a timeline can say; and the memory that such runs take."""

from __future__ import annotations

import importlib.util
import weakref
from typing import Any

import pytest
from places import TOOLS

import ascend_sim
from ascend_sim import AclnnError, SimError
from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.sharing import MovedProgram, SharedRows
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand

ONLY_WITH_TIMELINE = {"waterfall", "statements"}
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
        flags = {
            (first.tasks[run.task].name, flag) for run in first.timeline.programs for flag in run.program.flag_names()
        }
        waits = [{kernel: [flag]} for kernel, flag in sorted(flags)][::5]
    for wait in waits:
        kept = ascend_sim.convolution_backward(*specs, *arguments, **options, disarm=wait or None)
        lean = ascend_sim.convolution_backward(*specs, *arguments, **options, disarm=wait or None, timeline=False)
        assert lean.timeline is None and lean.recording is None
        assert_same_report(kept.report.to_dict(), lean.report.to_dict())
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
        assert_same_report(kept.report.to_dict(), lean.report.to_dict())
        compared += 1
    assert compared > 50


def test_a_page_needs_a_timeline() -> None:
    specs = [ascend_sim.TensorSpec(shape, "float16") for shape in ((1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 1, 1))]
    arguments = (None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))
    result = ascend_sim.convolution_backward(*specs, *arguments, mode="timing", timeline=False)
    with pytest.raises(SimError, match="kept no timeline; run it with timeline=True"):
        result.write_html("never.html")


class Blocks:
    """A task of many blocks on one core, each of `rows` copies; counts the programs that are alive."""

    def __init__(self, count: int, rows: int, same: bool = True) -> None:
        self.device = Device(CHIP, with_values=False)
        self.table, self.rows, self.same = InstructionTable(CHIP), rows, same
        self.alive = self.most = 0
        tensor = self.device.allocate((count + rows) * PIECE, "t")
        self.task = Task("blocks", "Test", "AIV", count, [tensor], self.build)

    def build(self, block: int) -> list[Program]:
        k = KernelBuilder(self.table, block, "AIV", [self.task.tensors[0].size])
        for i in range(self.rows):
            k.data_copy("GM", "UB", 32 * (0 if self.same else block % 7), gm_operand(0, (block + i) * PIECE), 64)
        program = k.finish()
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(program.rows, self._gone)
        return [program]

    def _gone(self) -> None:
        self.alive -= 1


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
@pytest.mark.parametrize("same", [True, False])
def test_programs_are_gone_when_their_blocks_end(same: bool) -> None:
    """200 blocks on 40 cores: the rows of those that run, and of equal ones only one for all."""
    blocks = Blocks(200, 30, same)
    timeline = Engine(blocks.device, engine="compiled").run([blocks.task], keep=False)
    assert timeline.programs == []
    assert watched(timeline).of_task[0].instructions == 200 * 30
    assert blocks.alive == 0
    assert blocks.most <= (2 if same else CHIP.cores.aiv + 1)
    kept = Blocks(200, 30, same)
    whole = Engine(kept.device, engine="compiled").run([kept.task])
    assert kept.most == 200
    assert watched(whole) == watched(timeline)


def test_rows_are_shared_where_only_places_in_tensors_differ() -> None:
    blocks = Blocks(4, 10)
    shared = SharedRows(1)
    first, second = (shared.share(blocks.build(block)[0]) for block in (0, 3))
    assert isinstance(second, MovedProgram) and second.rows is first.rows
    assert second.moved is not None and second.moved.tolist() == [3 * PIECE]
    assert [str(row) for row in second] == [str(row) for row in blocks.build(3)[0]]
    other = Blocks(4, 10, same=False)
    apart = SharedRows(1)
    held = [apart.share(other.build(block)[0]) for block in (0, 3)]
    assert not any(isinstance(program, MovedProgram) for program in held)
