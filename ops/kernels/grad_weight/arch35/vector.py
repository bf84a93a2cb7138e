"""Vector cores' program of the 950's grad_weight: clear dW and slots before the cubes add to them, then add the slots
up in a tree.

(ops-nn, Conv3DBackpropFilterV2 of arch35: stated.) All vector cores clear their share of dW and meet. A task that several cores
share (StreamK) goes tile by tile: each of its cores has a cleared slot, to which its cube adds; then pieces of the slots are
added by a tree over pairs of cores, with a barrier of all vector cores behind each level. A sum stays in UB as long as its core
goes on adding to it; a core that leaves the tree hands its sum on in GM. The last level brings the sum to the order of dW by
Scatter and writes it in runs as long as dW has them, which between the planes of a kernel is one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.arch35 import slots
from ascend_sim.ops.kernels.grad_weight.arch35.cube import ALL_VECTORS, CLEARED, LEVEL, READ, SLOTS_CLEARED
from ascend_sim.ops.kernels.grad_weight.arch35.slots import Rounds
from ascend_sim.ops.kernels.grad_weight.cube import filter_tiles
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.stream_k import CUBE_TO_VECTOR, GRAD_WEIGHT, WORKSPACE, parts_of
from ascend_sim.ops.kernels.vector.common import buffer_queue, share
from ascend_sim.ops.layouts import turned_gradient
from ascend_sim.ops.layouts.layout import FilterTile, Turned, Writing
from ascend_sim.ops.problem.sizes import ceil_div

_PARTS_OF_UB = 10
"""Number of equal parts of UB: one for zeros, three each for a sum, for the addend, and for the sum in the order of dW."""


class SlotShare(NamedTuple):
    """One core's share of a tile in slots: `size` bytes from byte `offset` of a slot; its stores to dW, if it has any."""

    offset: int
    size: int
    turned: tuple[Turned, ...]


Tile = tuple[tuple[SlotShare, ...], ...]
"""Shares of a core in a tile, a tuple for each part that UB holds; target addresses count from the first store's."""


class Tree(NamedTuple):
    """Place of a block in the tree of `blocks` that add up a tile in pairs. With no blocks this core only takes part in
    the barriers.

    `place` is the block's index. `alone`: its pair has no second block. `levels`: the levels of the tree, for all
    cores. `leaves_at`: the level after which it hands its sum on; None for the pair that keeps the sum.
    """

    blocks: tuple[int, ...]
    place: int
    levels: int
    alone: bool
    leaves_at: int | None

    @classmethod
    def of(cls, blocks: Sequence[int], block: int, levels: int) -> Tree:
        """Return the Tree of `block` among `blocks` with `levels` levels; place 0 if there are no blocks."""
        place = blocks.index(block) if blocks else 0
        pair, alone = place // 2, place + 1 == len(blocks) and place % 2 == 0
        leaving = (n for n in range(levels - 1) if pair >> n & 1 or (alone and not n))
        return cls(tuple(blocks), place, levels, alone, next(leaving, None))

    @property
    def pair(self) -> int:
        """Return the index of the block's pair."""
        return self.place // 2

    @property
    def pairs(self) -> int:
        """Return the number of pairs of blocks; the last may have one block."""
        return ceil_div(len(self.blocks), 2)


class DirectVectorBuilder:
    """Builder of the program of one vector core; `size` is the bytes of dW, `rounds` the number of rounds over slots."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder, size: int, rounds: Rounds) -> None:
        self.tiling, self.k, self.size = tiling, k, size
        self.inp = walked_input(call.inp, tiling)
        self.dw = turned_gradient(self.inp)
        self.cores = call.chip.cores.aiv_per_aic
        self.tiles: list[tuple[FilterTile | None, Tree]] = []
        own, shared = slots.tasks_in_slots(tiling, self.inp, k.block)
        sharing = [block for task in shared for block, _ in parts_of(tiling, self.inp, k.block, task)]
        of_all = max(tiling.core_stream_k - 1, 1).bit_length()
        for tasks, blocks, levels, count in ((own, [k.block], 1, rounds.own), (shared, sharing, of_all, rounds.shared)):
            tiles = [tile for task in tasks for tile in filter_tiles(call, tiling, task)]
            tree, none = Tree.of(blocks, k.block, levels), Tree.of((), k.block, levels)
            # A block with fewer tiles of its own has no slot in the last rounds; one of a shared task has it to the end.
            missing = [(None, tree if tasks is shared else none)] * (count - len(tiles))
            self.tiles += [*((tile, tree) for tile in tiles), *missing]
        line = k.chip.memory.l2_line_bytes
        unit = k.chip.buffers["UB"] // _PARTS_OF_UB // line * line
        self.zeros = k.allocate("UB", unit, "zeros")
        self.zeroed, self.room = unit, 3 * unit

    def program(self) -> Program:
        """Return the program: clear dW; then, in each round, clear the slot, wait for the cubes, and add a tile's slots."""
        k, tiling = self.k, self.tiling
        ready = k.flag("V", "MTE3", "zeros ready")
        k.vector_duplicate(self.zeros, "float32", self.zeroed // 4)
        k.set_flag(ready)
        k.wait_flag(ready)
        self.clear(GRAD_WEIGHT, 0, self.size, tiling.block_dim * self.cores, k.block * self.cores + k.sub_block)
        self.meet(CLEARED)
        if not self.tiles:
            return k.finish()
        self.places = [k.allocate("UB", self.room, name) for name in ("sum", "slot")]
        self.loaded, self.summed = k.flag("MTE2", "V", "slot loaded"), k.flag("V", "MTE3", "sum ready")
        self.turned = buffer_queue(k, "turned", "V", "MTE3", self.room, 1)
        tiles, size = (self.tile(number) for number in range(len(self.tiles))), slots.slot_bytes(tiling)
        for (again, tree, tile), target in k.stamped(tiles, k.block, size):
            if again:
                self.settle()
            if tree.blocks:
                start = k.block * slots.block_bytes(tiling)
                self.clear(WORKSPACE, start, size, self.cores, k.sub_block)
            self.meet(SLOTS_CLEARED)
            k.cross_core_wait(CUBE_TO_VECTOR, 2, "MTE2")
            self.add_up(tree, tile, target)
        self.turned.close()
        return k.finish()

    def clear(self, tensor: int, start: int, size: int, cores: int, core: int) -> None:
        """Append zeros over core `core`'s share (of `cores`) of `size` bytes of a tensor from `start`, in whole L2 lines."""
        line = self.k.chip.memory.l2_line_bytes
        first, lines = share(ceil_div(size, line), cores, core)
        for at in range(first * line, min((first + lines) * line, size), self.zeroed):
            count = min(self.zeroed, (first + lines) * line - at, size - at)
            self.k.data_copy("UB", "GM", gm_operand(tensor, start + at), self.zeros, count)

    def meet(self, cubes: int) -> None:
        """Append a barrier of all vector cores, then set the flag `cubes`, for which the cubes of their blocks wait."""
        self.k.cross_core_set(ALL_VECTORS, 0, "MTE3")
        self.k.cross_core_wait(ALL_VECTORS, 0, "MTE3")
        self.k.cross_core_set(cubes, 2, "MTE3")

    def settle(self) -> None:
        """Append a barrier after which no vector core reads slots, and this core's UB buffers are free."""
        self.k.pipe_barrier("ALL")
        self.k.cross_core_set(READ, 0, "MTE3")
        self.k.cross_core_wait(READ, 0, "MTE3")

    # -- the tree ------------------------------------------------------------------------------------------------------

    def tile(self, number: int) -> tuple[tuple[bool, Tree, Tile], int]:
        """Return ((True if not the first round, the block's Tree, this core's shares), byte offset in dW of the first store, 0
        if it stores nothing) for round `number`.

        Without a tile in this round the shares are empty. A block that is alone in its pair has the pieces of both.
        """
        parts = range(slots.parts(self.tiling, self.inp, self.room))
        tile, tree = self.tiles[number]
        if tile is None:
            return (number > 0, tree, tuple([() for _ in parts])), 0
        mine = [
            piece
            for place, piece in enumerate(slots.pieces(tile, self.tiling, self.inp))
            if place % self.cores == self.k.sub_block and (tree.alone or place // self.cores == tree.place % 2)
        ]
        found = [[part for piece in mine if (part := piece.part(self.room, one)) is not None] for one in parts]
        last = [part for some in found for part in some] if tree.leaves_at is None else []
        turned = {part: list(self.dw.turned(part.tile, self.room)) for part in last}
        first = next((one.target for way in turned.values() for some in way for one in some.writings), 0)
        held = [tuple([SlotShare(p.offset, p.size, _placed(turned.get(p, []), first)) for p in some]) for some in found]
        return (number > 0, tree, tuple(held)), first

    def add_up(self, tree: Tree, tile: Tile, target: int) -> None:
        """Append the sum of a tile's slots, level by level of the `tree`, and its store to dW from offset `target` on,
        or to the slot from which another core adds it.

        The parts of `tile`, each of which fits UB, follow one after the other.
        """
        k, pair, blocks = self.k, tree.pair, tree.blocks
        for number, shares in enumerate(tile):
            if number:
                self.settle()
            for level in range(tree.levels):
                if level:
                    k.cross_core_set(LEVEL, 0, "MTE3")
                    k.cross_core_wait(LEVEL, 0, "MTE2")
                other = 2 * pair + 1 if not level else 2 * (pair + (1 << level - 1))
                adds = not level or other < 2 * tree.pairs
                if shares and adds:
                    self.add(shares, blocks[2 * pair], None if tree.alone and not level else blocks[other], not level)
                if shares and level == tree.levels - 1:
                    self.turn(shares, target)
                elif shares:
                    if adds:  # a level stands when its sums do
                        k.set_flag(self.summed)
                        k.wait_flag(self.summed)
                    if level == tree.leaves_at:
                        self.hand_on(shares, blocks[2 * pair])
                        shares = ()

    def add(self, parts: tuple[SlotShare, ...], own: int, other: int | None, first: bool) -> None:
        """Append the addition of the slot (or, after the `first` level, the handed-on sum) of block `other` to the sum
        in UB; None adds nothing.

        The `first` time the sum is loaded from slot `own`.
        """
        k, (total, held) = self.k, self.places
        if first:
            for part, address in zip(parts, self.places, strict=False):
                k.data_copy("GM", "UB", address, self.slot(own, part, 0), part.size)
        if other is not None:
            (part,) = parts
            k.data_copy("GM", "UB", held, self.slot(other, part, 0 if first else 1), part.size)
        k.set_flag(self.loaded)
        k.wait_flag(self.loaded)
        if other is not None:
            if not first:
                k.pipe_barrier("V")
            k.vector_binary("add", total, total, held, "float32", part.size // 4)

    def slot(self, block: int, part: SlotShare, which: int) -> int:
        """Return the GM address of a share in a block's slots: `which` 0 is the cube's slot, 1 that of the vector cores."""
        start = block * slots.block_bytes(self.tiling) + which * slots.slot_bytes(self.tiling)
        return gm_operand(WORKSPACE, start + part.offset)

    def hand_on(self, parts: tuple[SlotShare, ...], block: int) -> None:
        """Append stores of the sums in UB to the vector cores' slot of `block`, from where another core adds them."""
        for part, address in zip(parts, self.places, strict=False):
            self.k.data_copy("UB", "GM", self.slot(block, part, 1), address, part.size)

    def turn(self, parts: tuple[SlotShare, ...], target: int) -> None:
        """Append the scatters that bring the sums to the order of dW in UB, and their stores to dW."""
        self.k.pipe_barrier("V")
        for part, address in zip(parts, self.places, strict=False):
            for scatters, writings in part.turned:
                place = self.turned.acquire()
                for source, to, loops in scatters:
                    self.k.scatter(place + to, address + source, "float32", loops)
                self.turned.publish()
                place = self.turned.take()
                for writing in writings:
                    self.write(place, writing, target)
                self.turned.release()

    def write(self, place: int, writing: Writing, first: int) -> None:
        """Append the store of one `writing` from the UB buffer at `place` to dW, where `first` is added to its byte offset."""
        source, target, run, rows, strides, planes, plane_strides = writing
        to, taken = gm_operand(GRAD_WEIGHT, first + target), place + source
        if planes == 1:
            self.k.data_copy("UB", "GM", to, taken, run, rows, *strides)
        else:
            rows_of, planes_of = CopyLoop(rows, *strides), CopyLoop(planes, *plane_strides)
            self.k.data_copy_planes("UB", "GM", to, taken, run, rows_of, planes_of)


def _placed(turned: list[Turned], first: int) -> tuple[Turned, ...]:
    """Return the scatters and stores with the stores' targets reduced by `first`."""
    return tuple(
        [
            Turned(tuple(scatters), tuple([one._replace(target=one.target - first) for one in writings]))
            for scatters, writings in turned
        ]
    )
