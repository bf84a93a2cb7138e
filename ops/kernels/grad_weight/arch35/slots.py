"""Slots of the workspace for tasks that several cores share (StreamK): a slot holds a tile of L0C in the pieces that
are added up.

(ops-nn, Conv3DBackpropFilterV2 of arch35: stated.) Each block has two slots, one for sums of its cube and one for sums
that its vector cores hand on. A tile is cut in two pieces, or in four where L0C holds one tile; each lies together, its
fractals [column / 16][row][16]. The cores that share a task are taken in pairs: of a pair, the vector cores of the
first block have the first two pieces, those of the second block the others. A tile of merged groups stays in one piece,
which one core has; it goes to a slot also where no other core shares its task.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.cube import filter_tiles
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.layouts.layout import FilterTile
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

SUM_BYTES = 4
"""Bytes of a sum, which is fp32."""


class SlotPiece(NamedTuple):
    """Part of a tile of dW, and the byte offset in a slot at which it begins."""

    tile: FilterTile
    offset: int

    @property
    def size(self) -> int:
        """Return the bytes of the piece, its columns rounded up to 16."""
        return self.tile.rows * ceil_to(self.tile.columns, FRACTAL) * SUM_BYTES

    def part(self, room: int, number: int) -> SlotPiece | None:
        """Return part `number` of the piece: whole columns of fractals, up to `room` bytes (or one column); None beyond."""
        columns = max(room // (self.tile.rows * SUM_BYTES) // FRACTAL, 1) * FRACTAL
        first = number * columns
        if first >= self.tile.columns:
            return None
        tile = self.tile._replace(column=self.tile.column + first, columns=min(columns, self.tile.columns - first))
        return SlotPiece(tile, self.offset + first * self.tile.rows * SUM_BYTES)


def slot_bytes(tiling: GradWeightTiling) -> int:
    """Return the bytes of a slot, which holds the largest tile."""
    return ceil_to(tiling.base_m, FRACTAL) * ceil_to(tiling.base_n, FRACTAL) * SUM_BYTES


def block_bytes(tiling: GradWeightTiling) -> int:
    """Return the bytes of the workspace that a block has: two slots."""
    return 2 * slot_bytes(tiling)


def pieces(tile: FilterTile, tiling: GradWeightTiling, inp: TilingInput) -> list[SlotPiece]:
    """Return the pieces of a tile in its slot, down the rows first: one for merged groups, two if L0C has two tiles, else
    four; fewer if the tile has too few fractals and channel blocks.
    """
    channels, filters = ceil_div(ceil_div(tile.columns, inp.taps), FRACTAL), ceil_div(tile.rows, FRACTAL)
    if inp.group_extension == 1:
        for _ in range(1 if tiling.cl0_buffers > 1 else 2):
            channels, filters = _halved(channels, filters)
    width, height = channels * inp.taps * FRACTAL, filters * FRACTAL
    found: list[SlotPiece] = []
    for column in range(0, tile.columns, width):
        for row in range(0, tile.rows, height):
            part = tile._replace(
                row=tile.row + row,
                rows=min(height, tile.rows - row),
                column=tile.column + column,
                columns=min(width, tile.columns - column),
            )
            found.append(SlotPiece(part, found[-1].offset + found[-1].size if found else 0))
    return found


def _halved(channels: int, filters: int) -> tuple[int, int]:
    """Return (channels, filters) of a tile, in fractals, with one side halved.

    An even side is halved, filters before channels; of two odd sides the larger one, rounded up.
    """
    if filters % 2 == 0:
        return channels, filters // 2
    if channels % 2 == 0:
        return channels // 2, filters
    if filters > channels:
        return channels, ceil_div(filters, 2)
    return ceil_div(channels, 2), filters


def parts(tiling: GradWeightTiling, inp: TilingInput, room: int) -> int:
    """Return the most parts of at most `room` bytes in which a piece of a whole tile passes through UB."""
    whole = FilterTile(0, 0, 0, tiling.base_m, 0, tiling.base_n)
    found = 0
    for piece in pieces(whole, tiling, inp):
        while piece.part(room, found) is not None:
            found += 1
    return found


class Rounds(NamedTuple):
    """Number of rounds, one for each tile in a slot, at whose begin and end all cores wait for each other: those of
    unshared (own) tasks, then those of shared tasks.
    """

    own: int
    shared: int

    @property
    def total(self) -> int:
        """Return the number of all rounds."""
        return self.own + self.shared


def in_slots(inp: TilingInput) -> bool:
    """Return True if tiles of unshared tasks go through a slot too, because groups are merged.

    The columns of a group begin inside a fractal, from where no Fixpipe takes them; vector cores take them out (ops-nn,
    arch35: stated; there through UB, here through the slot: assumed).
    """
    return inp.group_extension > 1


def tasks_in_slots(tiling: GradWeightTiling, inp: TilingInput, block: int) -> tuple[list[GradWeightTask], list[GradWeightTask]]:
    """Return (unshared tasks, with slot 0, shared tasks) of a block whose tiles go to its slot; the first is empty unless
    `in_slots`.
    """
    tasks = grad_weight_tasks(tiling, inp, block)
    own = [replace(task, slot=0) for task in tasks if task.slot is None] if in_slots(inp) else []
    return own, [task for task in tasks if task.slot is not None]


def rounds(call: CubeCall, tiling: GradWeightTiling) -> Rounds:
    """Return the Rounds of a launch: as many as the busiest of all blocks has tiles in slots, of unshared and shared tasks."""
    inp = walked_input(call.inp, tiling)
    if tiling.stream_k_type == STREAM_NONE and not in_slots(inp):
        return Rounds(0, 0)
    most = [0, 0]
    for block in range(tiling.block_dim):
        for kind, tasks in enumerate(tasks_in_slots(tiling, inp, block)):
            most[kind] = max(most[kind], sum(len(list(filter_tiles(call, tiling, task))) for task in tasks))
    return Rounds(*most)
