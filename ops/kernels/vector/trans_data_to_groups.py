"""TransData of weights from FRACTAL_Z of all filters to FRACTAL_Z of merged groups; the graph launches it before a
grouped call.

Its steps are those of the library's kernel (CANN 8.1.RC1, tbe, trans_data_groups, FractalZ to FractalZG: stated):
filters of a group at one position of one channel block at a time. They are copied where the group's channels begin with
a block; else the rows are transposed to lines of channels, moved, and transposed back, in three passes: the first block
behind zeros, each further one behind the end of that before it, and the end of the last where a block follows. All of
the target was cleared by a MemSet.

Three buffers share UB, of which each pass loads, transposes and stores by its own; pipes wait for each other where they must,
and for all between two passes. Which axis the cores share is inferred: the first, with those before it, that keeps them busy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import TurnLayout
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET, Loop, call_info, known_loop, vector_cores
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape
from ascend_sim.ops.kernels.vector.trans_data_groups import HALF, MergedGroups, ungrouped_shape
from ascend_sim.ops.kernels.vector.trans_data_units import LINES, list_addresses, steps, used_bytes
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.problem.sizes import ceil_div

_BUFFERS = 3
_HALVES = BLOCK_BYTES // HALF
"""Number of 16-bit halves of a block's channels, each a line when transposed."""


class Pass(Enum):
    """Pass over the blocks of the target, by the part of them that it writes; COPY is the only one that moves no channels."""

    COPY = "whole blocks"
    FIRST = "the first block, behind zeros"
    INNER = "the end of the block before, and the next one"
    LAST = "the end of the last block"


class FilterHalves(NamedTuple):
    """Unit of work: `rows` filters, whose channels move up by `cut` 16-bit halves (to higher channel numbers) in pass
    `kind`; `turn`: another pass of the block ended before it.
    """

    rows: int
    kind: Pass
    cut: int
    turn: bool


@frozen
class GroupRows(MergedGroups):
    """Conversion of weights from FRACTAL_Z of all filters to FRACTAL_Z of merged groups."""

    @cached_property
    def room(self) -> int:
        """Return the bytes of a UB buffer: the largest odd multiple of 16 filters' bytes in one channel block in UB / 3."""
        times = used_bytes(self.ub) // _BUFFERS // (LINES * self.cell)
        return (times - (times % 2 == 0)) * LINES * self.cell

    @cached_property
    def runs(self) -> list[tuple[int, int]]:
        """Return (start, count) of the filters of each unit, counted within a group."""
        return steps(self.filters, self.room // self.cell)

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Return the number of steps of each axis: groups, planes, channel blocks, positions of a plane, runs of filters."""
        return self.shape.groups, self.shape.k_d, self.cin1, self.shape.taps, len(self.runs)

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        """Return (axis that is cut over blocks, its steps in a block, its number of parts).

        A block has one step of each axis before that one, and all steps of the axes behind it.
        """
        axis, whole = 0, 1
        while axis < len(self.axes) - 1 and whole * self.axes[axis] < self.cores:
            whole *= self.axes[axis]
            axis += 1
        each = ceil_div(self.axes[axis], self.cores // whole)
        return axis, each, ceil_div(self.axes[axis], each)

    @property
    def blocks(self) -> int:
        """Return the number of blocks (cores) of the launch: those that get at least one unit, at most `cores`."""
        axis, _, parts = self.dealt
        return math.prod(self.axes[:axis]) * parts

    def _share(self, block: int) -> list[range]:
        """Return, for each axis, the range of its steps that belongs to a block."""
        axis, each, parts = self.dealt
        rest, part = divmod(block, parts)
        found = [range(part * each, min((part + 1) * each, self.axes[axis]))]
        for length in reversed(self.axes[:axis]):
            rest, index = divmod(rest, length)
            found.insert(0, range(index, index + 1))
        return found + [range(length) for length in self.axes[axis + 1 :]]

    def units(self, block: int) -> Iterator[tuple[FilterHalves, tuple[int, int]]]:
        """Yield (unit, (byte offset in the source, in the target)) for each unit of a block, pass by pass for each group."""
        groups, planes, blocks, taps, runs = self._share(block)
        before = None
        for group in groups:
            merged, member = divmod(group, self.extension)
            gap, shift = divmod(member * self.shape.c_in_per_group, self.merged.c0)
            cut = shift * self.merged.itemsize // HALF
            for kind, of_pass in self._passes(blocks, gap, shift):
                for plane in planes:
                    for index in of_pass:
                        for tap in taps:
                            for start, rows in self.runs[runs.start : runs.stop]:
                                place = plane * self.cin1 + index - (kind is Pass.INNER)
                                source = (place * self.shape.taps + tap) * self.pitch
                                at = gap + index + (kind is Pass.LAST)
                                target = self.merged.offset(merged, plane, at, tap, 0)
                                yield (
                                    FilterHalves(rows, kind, cut, before not in (None, kind)),
                                    (
                                        source + (group * self.filters + start) * self.cell,
                                        target + (member * self.filters + start) * self.cell,
                                    ),
                                )
                                before = kind

    def _passes(self, blocks: range, gap: int, shift: int) -> Iterator[tuple[Pass, range]]:
        """Yield (pass, source channel blocks that it takes) for the channel `blocks` of a group.

        In the target the group begins with channel `shift` of block `gap`. The pass is COPY if `shift` is 0; else
        FIRST, INNER and, if a further target block exists, LAST.
        """
        if not shift:
            yield Pass.COPY, blocks
            return
        yield Pass.FIRST, range(blocks.start, min(blocks.stop, 1))
        yield Pass.INNER, range(max(blocks.start, 1), blocks.stop)
        if gap + self.cin1 < self.merged.cin1:
            yield Pass.LAST, range(max(blocks.start, self.cin1 - 1), blocks.stop)

    def write(self, k: KernelBuilder, units: Iterable[tuple[FilterHalves, tuple[int, int]]]) -> None:
        """Append the instructions of a block, one unit after the other; at a `turn` all pipes wait for all."""
        rows, one, two = (k.allocate("UB", self.room, name) for name in ("rows", "one", "two"))
        copied = BufferQueue(k, "copied", "MTE2", "MTE3", [rows])
        pair = BufferQueue(k, "pair", "MTE2", "V", [rows])
        # What was loaded alone is free as it is turned, and the scalar unit waits for that turn before it lists the next.
        loaded = k.flag("MTE2", "V", "loaded")
        made = BufferQueue(k, "made", "V", "MTE3", [one])
        joined = BufferQueue(k, "joined", "V", "MTE3", [two])
        for unit, (source, target) in k.stamped(units, "groups", self):
            k.next_tile()
            if unit.turn:
                k.pipe_barrier("ALL")
            size, outgoing = unit.rows * self.cell, made
            place = gm_operand(SOURCE, source)
            if unit.kind is Pass.COPY:
                outgoing = copied
                k.data_copy("GM", "UB", copied.acquire(), place, size)
            elif unit.kind is Pass.INNER:
                outgoing = joined
                k.data_copy("GM", "UB", pair.acquire(), place, size)
                k.data_copy("GM", "UB", one, gm_operand(SOURCE, source + self.shape.taps * self.pitch), size)
                pair.publish()
                pair.take()
                joined.acquire()
                self._join(k, unit, (rows, one, two))
                pair.release()
            else:
                k.data_copy("GM", "UB", rows, place, size)
                k.set_flag(loaded)
                k.wait_flag(loaded)
                made.acquire()
                self._move(k, unit, (rows, one, two))
            outgoing.publish()
            k.data_copy("UB", "GM", gm_operand(TARGET, target), outgoing.take(), size)
            outgoing.release()
        for queue in (copied, pair, made, joined):
            queue.close()

    def _move(self, k: KernelBuilder, unit: FilterHalves, buffers: tuple[int, int, int]) -> None:
        """Append, for a FIRST or LAST unit, the move of a block's first channels to the end of the target block, or of
        its last ones to the front, with zeros elsewhere.

        `buffers` are UB addresses: the block is in the first; the result is left in the second; the third is scratch.
        """
        (rows, one, two), lines = buffers, _Lines(k, unit)
        lines.turn(one, rows, back=False)
        kept = _HALVES - unit.cut
        k.pipe_barrier("V")
        if unit.kind is Pass.FIRST:
            lines.clear(two, 0, unit.cut)
            lines.copy((two, unit.cut), (one, 0), kept)
        else:
            lines.clear(two, unit.cut, kept)
            lines.copy((two, 0), (one, kept), unit.cut)
        k.pipe_barrier("V")
        lines.turn(one, two, back=True)

    def _join(self, k: KernelBuilder, unit: FilterHalves, buffers: tuple[int, int, int]) -> None:
        """Append the making of an INNER unit's target block: the last channels of one source block, then the first
        channels of the next.

        `buffers` are UB addresses: the first has the one source block, the second the next, and both are overwritten; the
        result is left in the third.
        """
        (rows, one, two), lines = buffers, _Lines(k, unit)
        lines.turn(two, rows, back=False)
        k.pipe_barrier("V")
        lines.turn(rows, one, back=False)
        k.pipe_barrier("V")
        kept = _HALVES - unit.cut
        lines.copy((one, 0), (two, kept), unit.cut)
        lines.copy((one, unit.cut), (rows, 0), kept)
        k.pipe_barrier("V")
        lines.turn(two, one, back=True)


class _Lines:
    """A unit's transposed filters in UB: a line for each 16-bit half of a block's channels; lines are an odd number of blocks
    apart, against bank conflicts.
    """

    def __init__(self, k: KernelBuilder, unit: FilterHalves) -> None:
        blocks = ceil_div(unit.rows, LINES)
        self.k, self.rows, self.width = k, unit.rows, (blocks + (blocks % 2 == 0)) * LINES

    def turn(self, target: int, source: int, *, back: bool) -> None:
        """Append the transposition of filters at `source` to lines at `target`, or of lines to filters if `back`."""
        list_addresses(self.k)
        layout = TurnLayout(self.width * HALF)
        self.k.transpose_blocks(target, source, back, HALF, _HALVES, self.rows, layout)

    def clear(self, buffer: int, first: int, count: int) -> None:
        """Append zeros over `count` lines of a buffer from line `first` on."""
        self.k.vector_duplicate(buffer + first * self.width * HALF, "float16", count * self.width)

    def copy(self, target: tuple[int, int], source: tuple[int, int], count: int) -> None:
        """Append the copy of `count` lines; source and target are (buffer, first line)."""
        pitch, shape = self.width * HALF, (count, self.rows)
        to, of = (LocalTensor(at + line * pitch, shape, "float16", pitch) for at, line in (target, source))
        self.k.copy(to, of)


@known_loop
def group_work(chip: ChipSpec, shape: FilterShape, merged: FractalZ, extension: int) -> Loop:
    """Return the work of converting weights of `shape` from FRACTAL_Z of all filters to `merged` groups.

    Each real group has `extension` groups. Parts of the target that belong to no group are not written; a MemSet clears
    them before.
    """
    real = ceil_div(shape.groups, extension)
    grouped = [real * merged.planes * merged.cin1 * merged.taps, merged.cout1, FRACTAL, merged.c0]
    element, kind = f"{8 * merged.itemsize}-bit", "FRACTAL_Z" if shape.k_d == 1 else "FRACTAL_Z_3D"
    info = call_info((element, element), [kind] * 2, [ungrouped_shape(shape, merged), grouped])
    rows = GroupRows(shape, merged, extension, vector_cores(chip), chip.buffers["UB"])
    return Loop(rows.blocks, rows.units, rows.write, info, "TransData_filters")
