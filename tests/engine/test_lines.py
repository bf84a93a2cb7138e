"""The lines that programs touch, against a loop over rows of rows."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.engine import lines as lines_of
from ascend_sim.engine.lines import LinesOf
from ascend_sim.isa.base import TRANSFER
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from tests.support.engine.machine import CHIP, program
from tests.support.engine.random_runs import RandomRun
from tests.support.engine.stamped_tiles import SIZES, writer
from tests.support.sampling import sample


def naive(made: Program, bases: list[int], line: int) -> tuple[set[int], set[int]]:
    """The lines that a program reads or adds to, and those that it writes, byte range by byte range."""
    read: set[int] = set()
    written: set[int] = set()
    for view in made:
        one = view.instruction
        if one.kind != TRANSFER:
            continue
        for lines, regions in ((read, one.reads()), (read if one.atomic else written, one.writes())):
            for region in regions:
                if region.space != "GM":
                    continue
                operand = getattr(view, region.operand)
                address = bases[operand >> SLOT_SHIFT] + (operand & OFFSET_MASK) + region.offset
                for plane in range(region.planes):
                    for row in range(region.rows):
                        first = address + plane * region.plane_stride + row * region.row_stride
                        lines.update(range(first // line, (first + region.row_bytes - 1) // line + 1))
    return read, written


def marked(lines: LinesOf) -> tuple[set[int], set[int]]:
    """The marks as numbers of lines."""
    return set(np.flatnonzero(lines.read).tolist()), set(np.flatnonzero(lines.written).tolist())


@pytest.mark.parametrize("at_once", [7, 1 << 16])
def test_lines_of_random_programs(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "_AT_ONCE", at_once)
    found = 0
    for seed in range(40):
        run = RandomRun(seed)
        line = run.chip.memory.l2_line_bytes
        bases = [line // 2 * (3 + seed), line * 500]
        for task in run.tasks:
            lines = LinesOf(bases, 4096 * line, line)
            expected: tuple[set[int], set[int]] = set(), set()
            for block in range(task.block_dim):
                for made in task.build(block):
                    lines.add(made)
                    for all_of, its in zip(expected, naive(made, bases, line), strict=True):
                        all_of |= its
            assert marked(lines) == expected, f"Run({seed})"
            found += sum(map(len, expected))
    assert found > 1000


@pytest.mark.parametrize("at_once", [99, 1 << 16])
@pytest.mark.parametrize("seed", range(sample(2, 12)))
def test_lines_of_stamps_at_their_places(seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of, "_AT_ONCE", at_once)
    made = program(CHIP, "AIV", writer(seed, stamping=True), SIZES)
    line = CHIP.memory.l2_line_bytes
    bases = [3 * line, 3 * line + SIZES[0]]
    lines = LinesOf(bases, 3 * line + sum(SIZES), line)
    lines.add(made)
    assert len(made.sheet.which) > 200 and lines.read.sum() > 100
    assert marked(lines) == naive(made, bases, line)


def test_programs_added_after_the_marks_were_read_count() -> None:
    line = CHIP.memory.l2_line_bytes
    first, second = (program(CHIP, "AIV", lambda k, at=at: k.data_copy("GM", "UB", 0, at, 32), [4096]) for at in (0, 2048))
    lines = LinesOf([0], 4096, line)
    for made, expected in ((first, {0}), (second, {0, 2048 // line})):
        lines.add(made)
        assert marked(lines) == (expected, set())


def test_lines_of_a_drain_whose_last_fractal_stands_alone() -> None:
    """A block of 32 bytes, and 16 bytes 2048 bytes on: nothing half-way between them."""
    chip = load_chip("ascend910b3")
    pre, line = Quantisation("int32", 0.5), chip.memory.l2_line_bytes
    made = program(chip, "AIC", lambda k: k.fixpipe(0, 0, 1, 48, 16, "int8", 32, 2048, pre=pre), [4096])
    lines = LinesOf([line], 64 * line, line)
    lines.add(made)
    assert marked(lines) == (set(), {1, 1 + 2048 // line})
