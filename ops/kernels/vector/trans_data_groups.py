"""TransData of fp32 dW from FRACTAL_Z of merged groups to FRACTAL_Z of all filters; the graph launches it behind a
grouped call.

Its steps are those of the library's kernel (CANN 8.1.RC1, tbe, trans_data_fractal_z_g_2_fractal_z: stated): the groups of a
merged one after the other, of each some output channels at one position of the kernel, or at up to 16 of them, a line of UB for
each. Where a group's channels do not begin with a block its lines are transposed as 16-bit halves, moved, and transposed back.
Nothing is loaded ahead, and all of the target was cleared by a MemSet, because padding is not written.

The tiling is not public: lines of half of UB, along the longest axis of the kernel, and the deal of one axis to the
cores as in the kernels beside it are assumed. The library has another method for few output channels, several positions
in a line; not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
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
from ascend_sim.ops.kernels.vector.trans_data_units import LINES, deal, list_addresses, steps, used_bytes
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

HALF = 2
"""Bytes of the halves that are transposed."""


class GroupUnit(NamedTuple):
    """Unit of work: `lines` lines of `rows` output channels, from `parts` adjoining channel blocks (1 or 2) of the source.

    The group begins with channel `shift` of its first block.
    """

    lines: int
    rows: int
    parts: int
    shift: int


@frozen
class MergedGroups:
    """Filter of `shape` in layout `merged`, `extension` groups in one, for `cores` cores with `ub` bytes of UB each."""

    shape: FilterShape
    merged: FractalZ
    extension: int
    cores: int
    ub: int

    @cached_property
    def cell(self) -> int:
        """Return the bytes of one output channel in one channel block."""
        return self.merged.row_bytes

    @cached_property
    def cin1(self) -> int:
        """Return the number of channel blocks of a group."""
        return ceil_div(self.shape.c_in_per_group, self.merged.c0)

    @cached_property
    def filters(self) -> int:
        """Return the output channels of a group."""
        return self.shape.c_out // self.shape.groups

    @cached_property
    def pitch(self) -> int:
        """Return the bytes that all filters, padded to 16, take at one position of a channel block in the ungrouped tensor."""
        return ceil_to(self.shape.c_out, FRACTAL) * self.cell


@frozen
class GroupLines(MergedGroups):
    """Conversion of dW from FRACTAL_Z of merged groups to FRACTAL_Z of all filters."""

    @cached_property
    def line(self) -> int:
        """Return the bytes of one of the 16 lines into which half of UB is divided."""
        return used_bytes(self.ub) // 2 // LINES // BLOCK_BYTES * BLOCK_BYTES

    @cached_property
    def axes(self) -> tuple[tuple[int, int, int], ...]:
        """Return (length, source step, target step) of kernel planes, channel blocks, and positions of a plane; in bytes."""
        merged, taps = self.merged, self.shape.taps
        return (
            (self.shape.k_d, merged.offset(0, 1, 0, 0, 0), self.cin1 * taps * self.pitch),
            (self.cin1, merged.offset(0, 0, 1, 0, 0), taps * self.pitch),
            (taps, merged.line_bytes, self.pitch),
        )

    @cached_property
    def lined(self) -> int:
        """Return the index in `axes` of the axis along which a unit's lines follow each other: the longest.

        Channel blocks are such an axis only if no channels need to be moved.
        """
        aligned = self.shape.c_in_per_group % self.merged.c0 == 0
        return max((2, 0, 1) if aligned else (2, 0), key=lambda axis: self.axes[axis][0])

    @cached_property
    def steps(self) -> list[list[tuple[int, int]]]:
        """Return, for each axis, (start, count) of its units: merged groups, planes, channel blocks, positions, filters.

        Units are up to 16 long along the axis `lined`, of as many filters as fill half a line, and of one in the others.
        """
        of_kernel = [steps(self.axes[axis][0], LINES if axis == self.lined else 1) for axis in range(3)]
        groups = ceil_div(self.shape.groups, self.extension)
        return [steps(groups, 1), *of_kernel, steps(self.filters, self.line // (2 * self.cell))]

    @cached_property
    def dealt(self) -> tuple[int, int, int]:
        """Return (axis of `steps` that is dealt to the cores, number of its units, units of one block)."""
        return deal(tuple(map(len, self.steps)), self.cores)

    @property
    def blocks(self) -> int:
        """Return the number of blocks (cores) of the launch: those that get at least one unit."""
        _, units, each = self.dealt
        return ceil_div(units, each)

    def units(self, block: int) -> Iterator[tuple[GroupUnit, tuple[int, int]]]:
        """Yield (unit, (byte offset in the source, in the target)) for each unit of a block."""
        axis, _, each = self.dealt
        axes = list(self.steps)
        axes[axis] = axes[axis][block * each :][:each]
        c_in, c0 = self.shape.c_in_per_group, self.merged.c0
        for merged, _ in axes[0]:
            for member in range(min(self.extension, self.shape.groups - merged * self.extension)):
                group, (before, shift) = merged * self.extension + member, divmod(member * c_in, c0)
                for first, rows in axes[4]:
                    for plane, planes in axes[1]:
                        for block_of_group, blocks in axes[2]:
                            in_two = block_of_group < self.cin1 - 1 or shift + c_in % c0 > c0
                            for tap, taps in axes[3]:
                                source = self.merged.offset(merged, plane, before + block_of_group, tap, 0)
                                target = ((plane * self.cin1 + block_of_group) * self.shape.taps + tap) * self.pitch
                                yield (
                                    GroupUnit(planes * blocks * taps, rows, 2 if shift and in_two else 1, shift),
                                    (
                                        source + (member * self.filters + first) * self.cell,
                                        target + (group * self.filters + first) * self.cell,
                                    ),
                                )

    def write(self, k: KernelBuilder, units: Iterable[tuple[GroupUnit, tuple[int, int]]]) -> None:
        """Append a block's instructions, unit after unit, without loading ahead: load, move shifted channels, store."""
        size = LINES * self.line
        tile = BufferQueue(k, "tile", "V", "MTE3", [k.allocate("UB", size, "tile")], opener="MTE2")
        loaded = k.flag("MTE2", "V", "loaded")
        other = k.allocate("UB", size, "turned")
        _, source_pitch, target_pitch = self.axes[self.lined]
        to_next_block = self.axes[1][1]
        for unit, (source, target) in k.stamped(units, "groups", self):
            k.next_tile()
            room, row = tile.acquire(), unit.rows * self.cell
            for part in range(unit.parts):
                place = gm_operand(SOURCE, source + part * to_next_block)
                k.data_copy("GM", "UB", room + part * row, place, row, unit.lines, source_pitch, self.line)
            k.set_flag(loaded)
            k.wait_flag(loaded)
            if unit.shift:
                self._move(k, room, other, unit)
            tile.publish()
            taken = tile.take()
            result = other if unit.shift else taken
            k.data_copy("UB", "GM", gm_operand(TARGET, target), result, row, unit.lines, self.line, target_pitch)
            tile.release()
        tile.close()

    def _move(self, k: KernelBuilder, room: int, other: int, unit: GroupUnit) -> None:
        """Append the move of the group's channels from `room`, which is overwritten, to the front of their blocks in `other`.

        They are transposed to lines of 16-bit halves, moved as lines, and transposed back; without a second block zeros follow.
        """
        halves, cut = self.cell // HALF, unit.shift * self.merged.itemsize // HALF
        rest, step = halves - cut, halves * BLOCK_BYTES
        list_addresses(k)
        layout = TurnLayout(self.line)
        k.transpose_blocks(other, room, True, HALF, unit.lines, unit.parts * unit.rows * halves, layout)
        k.pipe_barrier("V")
        if unit.parts == 1:
            k.vector_duplicate(room, "float16", LINES * self.line // HALF)
            k.pipe_barrier("V")
        for target, source, width in (
            (room, other + cut * BLOCK_BYTES, rest),
            (room + rest * BLOCK_BYTES, other + unit.rows * step, cut),
        )[: unit.parts]:
            shape = (unit.rows, width * LINES)
            k.copy(LocalTensor(target, shape, "float16", step), LocalTensor(source, shape, "float16", step))
        k.pipe_barrier("V")
        list_addresses(k)
        k.transpose_blocks(other, room, False, HALF, unit.lines, unit.rows * halves, layout)


def ungrouped_bytes(shape: FilterShape, layout: FractalZ) -> int:
    """Return the bytes of FRACTAL_Z of all filters of `shape`, with the blocks of `layout`."""
    return math.prod(ungrouped_shape(shape, layout)) * layout.itemsize


def ungrouped_shape(shape: FilterShape, layout: FractalZ) -> list[int]:
    """Return the shape of FRACTAL_Z of all filters: [positions of all planes and channel blocks of a group, blocks of
    filters, 16 filters, channels of a block].
    """
    places = shape.k_d * ceil_div(shape.c_in_per_group, layout.c0) * shape.taps
    return [places, ceil_div(shape.c_out, FRACTAL), FRACTAL, layout.c0]


@known_loop
def ungroup_work(chip: ChipSpec, shape: FilterShape, merged: FractalZ, extension: int) -> Loop:
    """Return the work of converting fp32 dW of `shape` from `merged` groups to FRACTAL_Z of all filters.

    Each real group of `merged` has `extension` groups. Padding of the target is not written; a MemSet clears it before.
    """
    groups = ceil_div(shape.groups, extension)
    grouped = [groups * merged.planes * merged.cin1 * merged.taps, merged.cout1, FRACTAL, merged.c0]
    info = call_info(("float32", "float32"), ["FRACTAL_Z_3D"] * 2, [grouped, ungrouped_shape(shape, merged)])
    lines = GroupLines(shape, merged, extension, vector_cores(chip), chip.buffers["UB"])
    return Loop(lines.blocks, lines.units, lines.write, info, "TransData_filters")
