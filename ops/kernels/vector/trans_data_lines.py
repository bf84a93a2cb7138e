"""TransData of fp32 weight gradients from FRACTAL_Z in blocks of 16 channels to the plain layout, unit by unit as in
the library's kernel.

Its tiling and its steps are those of the TransData to a tensor whose last axis is not a channel axis (CANN 8.1.RC1, tbe,
trans_data_negative_target_ntc: stated). A unit is some output channels of some channel blocks and one run of kernel
positions. Its blocks are ordered by output channels, a line of UB for each, transposed as pairs of 16-bit halves,
ordered by channels, and transposed back. Where all channels of an output channel are few, several of them share one
line. One axis alone is dealt out to the cores, as in the other direction (`trans_data_units`). A single position is
transposed too: unlike there, no way of the kernel only moves (ways 2001 to 2003: stated).

Where copies count whole blocks (the 910 and 310P) a line, or a channel of a run, that is not whole blocks backs off: its
last 8 elements are copied once more behind its whole blocks before the second transposition. The library's kernel backs
off by units: a last one that is smaller than a block begins earlier (stated). Another difference: chips that transpose
32-bit elements transpose large kernels once; here they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET
from ascend_sim.ops.kernels.vector.trans_data import plane_runs
from ascend_sim.ops.kernels.vector.trans_data_units import C0, LINES, FilterUnits, deal, list_addresses, steps, used_bytes
from ascend_sim.ops.kernels.vector.whole_blocks import store_end, store_rows, with_whole_end
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

ITEM = 4
_CELL = ITEM * C0  # bytes of the channels of a block
_EVEN = BLOCK_BYTES // ITEM  # elements of 32 bytes
_HALVES = _CELL // 2
_FEW = 54 * _EVEN  # elements of an output channel below which several share a line (stated)
_SHARED = 4 * _EVEN  # output channels in a line at most (stated)


class LineUnit(NamedTuple):
    """Unit of work: `lines` lines of `rows` output channels each, with `channels` input channels in `blocks` channel
    blocks, at `positions` kernel positions from `start` on.
    """

    lines: int
    rows: int
    channels: int
    blocks: int
    start: int
    positions: int


@frozen
class GradientLines(FilterUnits):
    """Conversion of an fp32 weight gradient from FRACTAL_Z in blocks of 16 channels to the plain layout."""

    @cached_property
    def line(self) -> int:
        """Return the elements of one of 16 lines in half of UB: an odd number of 32-byte blocks, against bank conflicts."""
        even = used_bytes(self.ub) // ITEM // 2 // LINES // _EVEN
        return (even - (even % 2 == 0)) * _EVEN

    @cached_property
    def most(self) -> int:
        """Return how many positions of one channel block a line holds, as a multiple of 8."""
        return self.line // C0 // _EVEN * _EVEN

    @cached_property
    def run(self) -> int:
        """Return the number of kernel positions of a unit, at most those that a line holds."""
        return min(self.positions, self.most)

    @cached_property
    def blocks_at_once(self) -> int:
        """Return the number of channel blocks of a unit: as many as a line holds with `run` positions each, at most all."""
        return min(self.cin1, self.most // ceil_to(self.run, _EVEN))

    @cached_property
    def shared(self) -> bool:
        """Return True if several output channels share a line: each has fewer than `_FEW` elements, which fit in one."""
        return self.c_in * self.positions < _FEW and self.run == self.positions and self.blocks_at_once == self.cin1

    @cached_property
    def rows(self) -> int:
        """Return how many output channels are dealt out together, at most all: those of one line, up to `_SHARED`, if they
        share it, else of 16 lines; where copies count whole blocks and an output channel has fewer than 8 elements, a multiple
        of 8.
        """
        most = min(self.most // (self.blocks_at_once * self.run), _SHARED) if self.shared else LINES
        if self.by_blocks and self.c_in * self.positions < _EVEN:
            most = most // _EVEN * _EVEN  # so that what is left of a few begins with a block
        return min(self.c_out, most)

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        units = (ceil_div(self.c_out, self.rows), ceil_div(self.cin1, self.blocks_at_once), ceil_div(self.positions, self.run))
        # Runs that fill all rounds count no round more where the last is but half a run.
        return deal(units, self.cores, spare=(2,) if self.positions % self.run <= self.run // 2 else ())

    def units(self, block: int) -> Iterator[tuple[LineUnit, tuple[int, int]]]:
        """Yield (unit, (its first output channel, first channel block)) for each unit of a block.

        Where copies count whole blocks, the last of several runs of positions has at least 8. If a filter has fewer than 8
        positions, the last of several units has at least two channel blocks.
        """
        axis, _, each = self.dealt
        axes = [steps(self.c_out, self.rows), steps(self.cin1, self.blocks_at_once), steps(self.positions, self.run)]
        if self.by_blocks:  # the last run, and the last channels of few positions, have a block
            axes[1] = with_whole_end(axes[1], 2) if self.positions < _EVEN else axes[1]
            axes[2] = with_whole_end(axes[2], _EVEN)
        axes[axis] = axes[axis][block * each :][:each]
        for c1, blocks in axes[1]:
            channels = min(self.c_in - c1 * C0, blocks * C0)
            for first, lines, rows in self._lines(axes[0]):
                for start, count in axes[2]:
                    yield LineUnit(lines, rows, channels, blocks, start, count), (first, c1)

    def _lines(self, dealt: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Yield (first output channel, lines, output channels of each) of units: without shared lines one channel a
        line, else up to 16 full lines, then the rest alone.
        """
        if not self.shared:
            yield from ((first, rows, 1) for first, rows in dealt)
            return
        full = [first for first, rows in dealt if rows == self.rows]
        for number in range(0, len(full), LINES):
            yield full[number], min(LINES, len(full) - number), self.rows
        yield from ((first, 1, rows) for first, rows in dealt[len(full) :])

    def write(self, k: KernelBuilder, units: Iterable[tuple[LineUnit, tuple[int, int]]]) -> None:
        """Append the instructions of a block, unit after unit, without overlap: a unit is stored from the buffer that it was
        loaded to.
        """
        size = LINES * self.line * ITEM
        tile = BufferQueue(k, "tile", "V", "MTE3", [k.allocate("UB", size, "tile")], opener="MTE2")
        loaded = k.flag("MTE2", "V", "loaded")
        other = k.allocate("UB", size, "lines")
        for unit, where in k.stamped(units, "lines", self):
            k.next_tile()
            room = tile.acquire()
            self._load(k, room, unit, where)
            k.set_flag(loaded)
            k.wait_flag(loaded)
            self._turn(k, room, other, unit)
            tile.publish()
            self._put(k, tile.take(), unit, where)
            tile.release()
        tile.close()

    def _load(self, k: KernelBuilder, room: int, unit: LineUnit, where: tuple[int, int]) -> None:
        """Append the load of a unit to [shared line][channel block][position][co][C0], one copy for each kernel plane
        and block, since planes lie apart in GM. `where` is as in `_put`.
        """
        first, c1 = where
        pitch = ceil_to(self.c_out, FRACTAL) * _CELL
        parts, width = (unit.lines, unit.rows) if self.shared else (1, unit.lines)
        for part in range(parts):
            for block in range(unit.blocks):
                for done, plane, tap, count in plane_runs(unit.start, unit.positions, self.taps):
                    line = (plane * self.cin1 + c1 + block) * self.taps + tap
                    place = gm_operand(SOURCE, line * pitch + (first + part * width) * _CELL)
                    cell = (part * unit.blocks + block) * unit.positions + done
                    target, row = room + cell * width * _CELL, width * _CELL
                    k.copy_rows("GM->UB", target, place, row, CopyLoop(count, pitch, row))

    def _pitch(self, unit: LineUnit) -> int:
        """Return the positions in a line from one channel to the next: as many as the unit has if a line is stored in
        one piece, else rounded up to 32 bytes.
        """
        return unit.positions if unit.positions == self.positions else ceil_to(unit.positions, _EVEN)

    def _turn(self, k: KernelBuilder, tile: int, other: int, unit: LineUnit) -> None:
        """Append the transpositions of the unit loaded to UB address `tile`, through the buffer `other` and back to `tile`, to
        lines of [co][ci][position].
        """
        cells, line = unit.blocks * unit.positions, self.line * ITEM
        # Of shared lines each has its own part of the tile, of others one output channel of all of it.
        step, apart = (cells * unit.rows, unit.rows) if self.shared else (1, unit.lines)
        for number in range(unit.lines):
            for row in range(unit.rows):
                place = tile + (number * step + row) * _CELL
                taken = LocalTensor(place, (cells, _HALVES), "float16", apart * _CELL)
                k.copy(LocalTensor(other + number * line + row * cells * _CELL, (cells, _HALVES), "float16"), taken)
        k.pipe_barrier("V")
        list_addresses(k)
        k.transpose_blocks(tile, other, True, 2, unit.lines, unit.rows * cells * _HALVES, TurnLayout(line))
        k.pipe_barrier("V")
        pitch, pair = self._pitch(unit), 2 * BLOCK_BYTES
        if pitch > unit.positions:  # the turn back reads what lies between, which leaves with no channel; never unwritten here
            k.vector_duplicate(other, "float16", unit.channels * pitch * pair // 2)
            k.pipe_barrier("V")
        for group in range(unit.rows):
            for channel in range(unit.channels):
                block, of_block = divmod(channel, C0)
                cell = (group * unit.blocks + block) * unit.positions
                taken = LocalTensor(
                    tile + (cell * C0 + of_block) * pair, (unit.positions, _HALVES), "float16", _HALVES * BLOCK_BYTES
                )
                place = other + (group * unit.channels + channel) * pitch * pair
                k.copy(LocalTensor(place, (unit.positions, _HALVES), "float16"), taken)
        elements = unit.rows * unit.channels * pitch
        if k.copies_whole_blocks and elements > _EVEN:
            elements = ceil_to(elements, _EVEN)
            self._back_off(k, tile, other, unit)
        k.pipe_barrier("V")
        list_addresses(k)
        k.transpose_blocks(tile, other, False, 2, unit.lines, elements * 2, TurnLayout(line))

    def _back_off(self, k: KernelBuilder, tile: int, other: int, unit: LineUnit) -> None:
        """Append copies, from `tile` to `other`, of the last 8 elements of each row that is stored by itself: a line, or the
        unit's positions of one channel. In `other` they follow the row's whole blocks. Nothing if rows are whole blocks.
        """
        count, pair = unit.positions, 2 * BLOCK_BYTES
        every = range(unit.rows * unit.channels)
        rows = [every] if count == self.positions else [range(one, one + 1) for one in every]
        if len(rows[0]) * count % _EVEN == 0:
            return
        k.pipe_barrier("V")
        for row in rows:
            end = len(row) * count
            target = other + row.start * self._pitch(unit) * pair + end // _EVEN * _EVEN * pair
            at = end - _EVEN
            while at < end:
                number, position = divmod(row.start * count + at, count)
                (group, channel), taken = divmod(number, unit.channels), min(count - position, end - at)
                block, of_block = divmod(channel, C0)
                cell = (group * unit.blocks + block) * count + position
                source = LocalTensor(tile + (cell * C0 + of_block) * pair, (taken, _HALVES), "float16", _HALVES * BLOCK_BYTES)
                k.copy(LocalTensor(target, (taken, _HALVES), "float16"), source)
                target, at = target + taken * pair, at + taken

    def _put(self, k: KernelBuilder, result: int, unit: LineUnit, where: tuple[int, int]) -> None:
        """Append the store of a unit from UB byte `result` to the plain gradient in GM: all lines in one copy if the unit
        has all kernel positions, else line by line with a row for each channel.

        `where` is (first output channel, first channel block).
        """
        first, c1 = where
        row, line = self.positions * ITEM, self.line * ITEM
        apart = unit.rows * self.c_in * row
        place = gm_operand(TARGET, (first * self.c_in + c1 * C0) * row + unit.start * ITEM)
        size = unit.rows * unit.channels * row
        if unit.positions == self.positions:
            if size < BLOCK_BYTES and k.copies_whole_blocks:
                store_end(k, place, result, size)
            else:
                store_rows(k, (place, result, size, CopyLoop(unit.lines, line, apart)))
            return
        size, rows = unit.positions * ITEM, CopyLoop(unit.channels, self._pitch(unit) * ITEM, row)
        store_rows(k, *[(place + one * apart, result + one * line, size, rows) for one in range(unit.lines)])
