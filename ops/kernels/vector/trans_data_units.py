"""TransData of 16-bit weights to FRACTAL_Z, unit by unit as in the library's kernel.

Its tiling and its steps are those of the TransData for tensors whose last axis is not a channel axis (CANN 8.1.RC1, tbe,
trans_data_positive_source_ntc and its tiling: stated). A unit is some output channels of one channel block and one run of
kernel positions. Small kernels take 16 output channels at once and are transposed twice: all rows to [ci][position][16 co],
which are ordered by position, then each position to [co][C0]. Kernels of 32 positions and more are transposed once, one output
channel after the other. Where there is one position, a row of channels consists of blocks already, and nothing is transposed.
One axis alone is dealt out to the cores: the one that gives most of them a share.

Where copies count whole blocks (the 910 and 310P) rows are loaded rounded up; the target has whole blocks. The library
leaves the output channels of the padding to a MemSet before the kernel; here every block writes its share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import CopyLoop, TurnLayout
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.vector.common import SOURCE, TARGET, buffer_queue
from ascend_sim.ops.kernels.vector.trans_data import LIST_INSTRUCTIONS, plane_runs
from ascend_sim.ops.kernels.vector.whole_blocks import load_rows
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut

ITEM = 2
C0 = BLOCK_BYTES // ITEM
_TURNED_ONCE = 2 * C0  # kernel positions from which on (stated)
_KEPT_FREE, _MOST = 1024, 256 * 1024  # bytes of UB that the library's kernels leave, and that they use at most (stated)
LINES = 16
"""Rows that one transposition takes."""


class Unit(NamedTuple):
    """Unit of work: `rows` output channels of `channels` input channels at `positions` kernel positions from `start` on.

    With 0 channels it is padding: `positions` lines of zeros.
    """

    rows: int
    channels: int
    start: int
    positions: int


@frozen
class FilterUnits:
    """Division of a filter [c_out][c_in][k_d][taps] of one group into units of work, for `cores` cores with `ub` bytes
    of UB each; base of the classes for each kernel.

    `by_blocks`: copies between GM and UB count whole blocks.
    """

    c_out: int
    c_in: int
    k_d: int
    taps: int
    cores: int
    ub: int
    by_blocks: bool = False

    @cached_property
    def positions(self) -> int:
        """Return the number of kernel positions of all planes."""
        return self.k_d * self.taps

    @cached_property
    def cin1(self) -> int:
        """Return the number of channel blocks."""
        return ceil_div(self.c_in, C0)

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        """Return (axis that is dealt to the cores, number of its units, units of one block); axis 0 is output channels,
        1 channel blocks, 2 runs of positions. Subclasses define it.
        """
        raise NotImplementedError

    @property
    def blocks(self) -> int:
        """Return the number of blocks (cores) of the launch: those that get at least one unit."""
        _, units, each = self.dealt
        return ceil_div(units, each)


@frozen
class WeightUnits(FilterUnits):
    """Conversion of 16-bit weights to FRACTAL_Z by one or two transpositions."""

    @cached_property
    def padded(self) -> int:
        """Return the number of output channels, padding included."""
        return ceil_to(self.c_out, FRACTAL)

    @cached_property
    def line(self) -> int:
        """Return the elements of one of the 16 lines into which half of UB is divided."""
        half = used_bytes(self.ub) // ITEM // 2
        return half // LINES // C0 * C0

    @property
    def once(self) -> bool:
        """Return True if the weights are transposed once, for kernels of 32 positions and more; others are transposed twice."""
        return self.positions >= _TURNED_ONCE

    @cached_property
    def run(self) -> int:
        """Return the kernel positions of a unit of work (the last may have fewer): all, but at most as many as a `line` of UB
        has elements if weights are transposed `once`, else blocks of 16 channels, rounded down to a multiple of 16.
        """
        return min(self.positions, self.line if self.once else self.line // C0 // C0 * C0)

    @cached_property
    def rows(self) -> int:
        """Return the number of output channels of a unit: up to 16 if transposed twice; else those of a line, or 1 if
        there are no more of them than cores.
        """
        if not self.once:
            return min(self.c_out, FRACTAL)
        return min(self.c_out, self.line // ceil_to(self.run, C0) if self.c_out > self.cores else 1)

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        return deal((ceil_div(self.c_out, self.rows), self.cin1, ceil_div(self.positions, self.run)), self.cores)

    def units(self, block: int) -> Iterator[tuple[Unit, tuple[int, int]]]:
        """Yield (unit, its place) for each unit of a block; of weights that are transposed once, its share of the padding last.

        A place is (first output channel, channel block), of padding (first output channel, first line of FRACTAL_Z).
        """
        axis, _, each = self.dealt
        axes = [steps(self.c_out, self.rows), steps(self.cin1, 1), steps(self.positions, self.run)]
        axes[axis] = axes[axis][block * each :][:each]
        for c1, _ in axes[1]:
            for first, rows in axes[0]:
                for start, count in axes[2]:
                    yield Unit(rows, min(self.c_in - c1 * C0, C0), start, count), (first, c1)
        lines = self.cin1 * self.positions
        share = ceil_div(lines, self.blocks)
        if self.once and self.padded > self.c_out and block * share < lines:
            count = min(share, lines - block * share)
            yield Unit(self.padded - self.c_out, 0, 0, count), (self.c_out, block * share)

    def write(self, k: KernelBuilder, units: Iterable[tuple[Unit, tuple[int, int]]]) -> None:
        """Append a block's instructions: for each unit load, transpose (or write zeros) and store, without loading ahead."""
        room = LINES * self.line * ITEM
        incoming = buffer_queue(k, "in", "MTE2", "V", room, 1)
        outgoing = buffer_queue(k, "out", "V", "MTE3", room, 1)
        for unit, where in k.stamped(units, "units", self):
            k.next_tile()
            target = outgoing.acquire()
            if not unit.channels:
                k.vector_duplicate(target, "float32", self._padding_at_once(unit) * unit.rows * BLOCK_BYTES // 4)
            elif self.once:
                self._turn_once(k, incoming, target, unit, where)
            else:
                self._turn_twice(k, incoming, target, unit, where)
            outgoing.publish()
            self._put(k, outgoing.take(), unit, where)
            outgoing.release()
        incoming.close()
        outgoing.close()

    def _source(self, unit: Unit, where: tuple[int, int], row: int) -> int:
        """Return the GM address of the first element of row `row` (an output channel) of the unit at place `where`."""
        first, c1 = where
        return gm_operand(SOURCE, (((first + row) * self.c_in + c1 * C0) * self.positions + unit.start) * ITEM)

    def _turn_once(self, k: KernelBuilder, incoming: BufferQueue[int], target: int, unit: Unit, where: tuple[int, int]) -> None:
        """Append the loads of the unit at place `where` as [ci][position], one output channel after the other, and
        their transpositions to [position][co][C0] at UB address `target`.
        """
        pitch, step = self.line * ITEM, self.positions * ITEM
        layout = TurnLayout(pitch, unit.rows * BLOCK_BYTES)
        for row in range(unit.rows):
            place = self._source(unit, where, row)
            load_rows(k, incoming.acquire(), place, unit.positions * ITEM, CopyLoop(unit.channels, step, pitch))
            incoming.publish()
            list_addresses(k)
            k.transpose_blocks(target + row * BLOCK_BYTES, incoming.take(), True, ITEM, unit.channels, unit.positions, layout)
            incoming.release()

    def _turn_twice(
        self, k: KernelBuilder, incoming: BufferQueue[int], target: int, unit: Unit, where: tuple[int, int]
    ) -> None:
        """Append the load of the unit at place `where` as [co][ci][position], its transposition to [ci][position][16
        co], and that of each position to [co][C0] at UB address `target`.
        """
        pitch, elements = self.line * ITEM, unit.channels * self.positions
        room = incoming.acquire()
        for row in range(unit.rows):
            load_rows(k, room + row * pitch, self._source(unit, where, row), elements * ITEM)
        incoming.publish()
        source = incoming.take()
        list_addresses(k)
        k.transpose_blocks(target, source, True, ITEM, unit.rows, elements, TurnLayout(pitch))
        k.pipe_barrier("V")
        square = C0 * BLOCK_BYTES
        for channel in range(unit.channels):
            taken = LocalTensor(target + channel * self.positions * BLOCK_BYTES, (self.positions, C0), "float16")
            k.copy(LocalTensor(source + channel * BLOCK_BYTES, (self.positions, C0), "float16", square), taken)
        k.pipe_barrier("V")
        list_addresses(k)
        layout = TurnLayout(BLOCK_BYTES, repeats=self.positions, plain_step=square, block_step=square)
        k.transpose_blocks(target, source, True, ITEM, unit.channels, FRACTAL, layout)
        incoming.release()

    def _padding_at_once(self, unit: Unit) -> int:
        """Return for how many lines of the padding unit one buffer holds the zeros."""
        return min(unit.positions, LINES * self.line * ITEM // (unit.rows * BLOCK_BYTES))

    def _put(self, k: KernelBuilder, result: int, unit: Unit, where: tuple[int, int]) -> None:
        """Append the store of the unit at place `where` from UB address `result` to FRACTAL_Z: one line for each
        position, one copy for each kernel plane; of a padding unit all its lines of zeros.
        """
        first, c1 = where
        pitch = self.padded * BLOCK_BYTES
        if not unit.channels:
            place, size = gm_operand(TARGET, c1 * pitch + first * BLOCK_BYTES), unit.rows * BLOCK_BYTES
            for done, count in cut(unit.positions, self._padding_at_once(unit)):
                k.copy_rows("UB->GM", place + done * pitch, result, size, CopyLoop(count, size, pitch))
            return
        width = (unit.rows if self.once else FRACTAL) * BLOCK_BYTES
        for done, plane, tap, count in plane_runs(unit.start, unit.positions, self.taps):
            line = (plane * self.cin1 + c1) * self.taps + tap
            place = gm_operand(TARGET, line * pitch + first * BLOCK_BYTES)
            k.copy_rows("UB->GM", place, result + done * width, width, CopyLoop(count, width, pitch))


@frozen
class MovedWeights(FilterUnits):
    """Conversion of 16-bit weights with one kernel position and whole channel blocks to FRACTAL_Z, without transposition.

    Channel blocks are copied to their places within UB. That the library's kernel can move data alone is stated (its third
    mode). That it does so here, and how large a unit is, is inferred: its tiling is not public. A unit has all input channels,
    or as many as 16 output channels leave room for, and as many output channels as fit half of UB while every core has a share.
    """

    @cached_property
    def room(self) -> int:
        """Return the bytes that a unit may take, half of UB."""
        return used_bytes(self.ub) // 2 // BLOCK_BYTES * BLOCK_BYTES

    @cached_property
    def channels(self) -> int:
        """Return a unit's input channels: all, or as many whole channel blocks as fit half of UB with 16 output channels."""
        return min(self.c_in, self.room // (FRACTAL * BLOCK_BYTES) * C0)

    @cached_property
    def rows(self) -> int:
        """Return the most output channels of a unit, a multiple of 16: a core's share, rounded up, or as many as fit `room`."""
        share = ceil_to(ceil_div(self.c_out, self.cores), FRACTAL)
        return min(share, self.room // (self.channels * ITEM) // FRACTAL * FRACTAL)

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        """Return (axis dealt to cores, its units, units of a block); axis 0 is output channels, 1 input channels."""
        return deal((ceil_div(self.c_out, self.rows), ceil_div(self.c_in, self.channels)), self.cores)

    def units(self, block: int) -> Iterator[tuple[Unit, tuple[int, int]]]:
        """Yield (unit, (its first output channel, first channel block)) for each unit of a block."""
        axis, _, each = self.dealt
        axes = [steps(self.c_out, self.rows), steps(self.c_in, self.channels)]
        axes[axis] = axes[axis][block * each :][:each]
        for channel, channels in axes[1]:
            for first, rows in axes[0]:
                yield Unit(rows, channels, 0, 1), (first, channel // C0)

    def write(self, k: KernelBuilder, units: Iterable[tuple[Unit, tuple[int, int]]]) -> None:
        """Append a block's instructions: for each unit load, reorder its channel blocks in UB, store; without loading ahead."""
        incoming = buffer_queue(k, "in", "MTE2", "V", self.room, 1)
        outgoing = buffer_queue(k, "out", "V", "MTE3", self.room, 1)
        pitch, padded = self.c_in * ITEM, ceil_to(self.c_out, FRACTAL)
        for unit, (first, c1) in k.stamped(units, "units", self):
            k.next_tile()
            blocks, lines, width = unit.channels // C0, ceil_to(unit.rows, FRACTAL), unit.channels * ITEM
            place = gm_operand(SOURCE, first * pitch + c1 * BLOCK_BYTES)
            k.data_copy("GM", "UB", incoming.acquire(), place, width, unit.rows, pitch, width)
            incoming.publish()
            source, target = incoming.take(), outgoing.acquire()
            if lines > unit.rows:
                k.vector_duplicate(target, "float32", blocks * lines * BLOCK_BYTES // 4)
                k.pipe_barrier("V")
            for block in range(blocks):
                picked = LocalTensor(source + block * BLOCK_BYTES, (unit.rows, C0), "float16", width)
                k.copy(LocalTensor(target + block * lines * BLOCK_BYTES, (unit.rows, C0), "float16"), picked)
            incoming.release()
            outgoing.publish()
            place = gm_operand(TARGET, (c1 * padded + first) * BLOCK_BYTES)
            k.data_copy(
                "UB", "GM", place, outgoing.take(), lines * BLOCK_BYTES, blocks, lines * BLOCK_BYTES, padded * BLOCK_BYTES
            )
            outgoing.release()
        incoming.close()
        outgoing.close()


def used_bytes(ub: int) -> int:
    """Return how many of a Unified Buffer's `ub` bytes the library's kernels use: min(`ub`, 256 KiB) less 1 KiB."""
    return min(ub, _MOST) - _KEPT_FREE


def deal(units: tuple[int, ...], cores: int, spare: Collection[int] = ()) -> tuple[int, int, int]:
    """Return (axis, number of its units, units of one block) for the axis of `units` that keeps the most cores busy,
    the first of equal ones (stated).

    Full rounds of all cores count once, whatever their number; a partial last round counts by its cores. Without a
    partial round a second full round is counted, but not for an axis in `spare`.
    """

    def busy(axis: int) -> int:
        full, rest = divmod(units[axis], cores)
        return cores * (full > 0) + (rest or cores * (axis not in spare))

    axis = max(range(len(units)), key=busy)
    blocks = ceil_div(units[axis], ceil_div(units[axis], cores))
    return axis, units[axis], ceil_div(units[axis], blocks)


def steps(total: int, step: int) -> list[tuple[int, int]]:
    """Return (start, count) of each piece of `step` units of `total`; the last one has the rest."""
    return [(start, min(step, total - start)) for start in range(0, total, step)]


def list_addresses(k: KernelBuilder) -> None:
    """Append a wait of the scalar unit for the vector unit, and its cycles to list the addresses of a transposition."""
    k.scalar_wait("V")
    k.scalar(LIST_INSTRUCTIONS * k.issue_cycles)
