"""Cube program of the 950's grad_weight: every tile is added to dW atomically, and each plane begins with the first L1 buffers.

(ops-nn, Conv3DBackpropFilterV2 of arch35: stated.) A plane is one (image, output depth) that a tile of L0C sums over; a
chunk is the part of it that one buffer of L1 holds. Chunks take the buffers of an operand in turn, and the first one of
each plane takes the first buffer: after an odd number of chunks it waits until the last one was read. Newer versions of
the library load a chunk while the one before is multiplied; no version does so from plane to plane.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.arch35.slots import Rounds, block_bytes, in_slots, pieces, tasks_in_slots
from ascend_sim.ops.kernels.grad_weight.cube import CubeBuilder, Image, Piece, Plane, Round, SummedTile
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.steps import Run, Runs, Step, TaskWalks, Where
from ascend_sim.ops.kernels.grad_weight.stream_k import GRAD_OUTPUT, GRAD_WEIGHT, WORKSPACE
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.layouts.layout import DrainPiece, FilterTile, Lattice, MapPixels
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.strips import Strip

ALL_VECTORS, CLEARED, SLOTS_CLEARED, LEVEL, READ = 2, 3, 4, 5, 6
"""Cross-core flags beside those of StreamK (0 and 1): vector cores have cleared their share; so cubes may add to dW, and to
slots; a level of the tree stands in GM; the slots were read, so that they may be cleared again."""


LONGEST_SUM = 65536
"""Pixels, in whole rows or planes rounded up, that are summed in L0C before dW is written (ops-nn, arch35: stated)."""


class PlaneOperand:
    """L1 buffers of one operand, taken in turn by the chunks of a plane; each `restart` begins with the first buffer again.

    The order of calls: `begin` returns where to load a chunk (None if L1 holds it), `loaded` hands it to MTE1, `use` makes it
    the chunk that is read and frees the one read before.
    """

    def __init__(self, k: KernelBuilder, name: str, addresses: Sequence[int], behind: bool) -> None:
        self._k, self._behind = k, behind
        self._queues = [BufferQueue(k, f"{name}[{i}]", "MTE2", "MTE1", [address]) for i, address in enumerate(addresses)]
        self._held: Hashable = None
        self._ahead: Hashable = None
        self._reading = self._loading = -1
        self._next = 0
        k.carry(self, "_held", "_ahead", "_reading", "_loading", "_next")

    def restart(self) -> None:
        """Begin a plane: its first chunk goes to the first buffer."""
        self._next = 0

    def begin(self, key: Hashable) -> int | None:
        """Return the address to load the chunk `key` to, in the next buffer; None where L1 holds it already.

        A chunk that is being read in that buffer is freed first. Without loads ahead the scalar unit waits for MTE1.
        """
        if key == self._ahead:
            return None
        if key == self._held:
            if self._ahead is None:
                self._next = (self._reading + 1) % len(self._queues)
            return None
        index = self._next
        self._next = (index + 1) % len(self._queues)
        if index == self._reading:
            self._drop()
        if self._behind:
            self._k.scalar_wait("MTE1")
        self._loading, self._ahead = index, key
        return self._queues[index].acquire()

    def loaded(self) -> None:
        """Hand the buffer that the last `begin` returned over to MTE1, after its load was issued."""
        self._queues[self._loading].publish()

    def use(self, key: Hashable) -> None:
        """Make `key` the chunk that the next loads to L0 read, and free the one before; it is the one in use or loaded last."""
        if key == self._held:
            return
        if self._reading >= 0:
            self._drop()
        self._reading, self._held, self._ahead = self._loading, key, None
        self._queues[self._reading].take()

    def _drop(self) -> None:
        self._queues[self._reading].release()
        self._reading, self._held = -1, None

    @property
    def address(self) -> int:
        """Return the address of the chunk in use."""
        return self._queues[self._reading].reading

    @property
    def buffers(self) -> int:
        """Return the number of buffers."""
        return len(self._queues)

    def close(self) -> None:
        """Release the chunk in use at the end of the program, and close the queues, so that no flag stays set."""
        if self._reading >= 0:
            self._drop()
        for queue in self._queues:
            queue.close()


class DirectCubeBuilder(CubeBuilder):
    """Builder of one block's cube program of the 950's kernel; `kernel` has what differs between versions of the library."""

    a1: PlaneOperand  # type: ignore[assignment]
    b1: PlaneOperand  # type: ignore[assignment]

    def __init__(
        self,
        call: CubeCall,
        tiling: GradWeightTiling,
        k: KernelBuilder,
        walks: TaskWalks,
        runs: Runs,
        kernel: Mapping[str, Any],
        rounds: Rounds,
    ) -> None:
        self.kernel, self.rounds = kernel, rounds
        super().__init__(call, tiling, k, walks, runs)
        rate = kernel["turn_bytes_per_cycle"]["value"]
        self.grad_output, self.input.map = self.grad_output.turned_at(rate), self.input.map.turned_at(rate)
        self.walked = walked_input(call.inp, tiling).problem

    def held(self, a1: int, b1: int) -> tuple[PlaneOperand, PlaneOperand]:  # type: ignore[override]
        """Return the L1 buffers (of A, of B), newly allocated: all of A, then of B, or, if the library does so and they fit,
        one of each in either half of L1.
        """
        k, half = self.k, self.k.chip.buffers["L1"] // 2
        sizes = {"A1": ceil_to(a1, BLOCK_BYTES), "B1": ceil_to(b1, BLOCK_BYTES)}
        order = [("A1", i) for i in range(self.tiling.al1_buffers)] + [("B1", i) for i in range(self.tiling.bl1_buffers)]
        halves = self.kernel["l1_halves"] and sum(sizes.values()) <= half
        if halves:
            order.sort(key=lambda one: one[1])
        places: dict[str, list[int]] = {"A1": [], "B1": []}
        reached = 0
        for name, i in order:
            unit = half if halves and i > reached else 0
            reached = i
            places[name].append(k.allocate("L1", sizes[name], f"{name}[{i}]", unit))
        behind = not self.kernel["prefetch"]
        return PlaneOperand(k, "A1", places["A1"], behind), PlaneOperand(k, "B1", places["B1"], behind)

    def program(self) -> Program:
        self.k.scalar(self.call.chip.cycles(self.kernel["head_us"]["value"]))
        self.k.cross_core_wait(CLEARED, 2, "FIX")
        if not self.kernel["early_head"]:
            self.k.scalar_wait("FIX")
        return super().program()

    def runs(self) -> Iterator[tuple[Run, Where]]:
        """Yield (run of steps, its place) of the tasks whose sums go to dW, then of the tiles that go to slots.

        Each tile of a slot is a round, at whose begin and end all cores wait for each other; a core without a tile in a
        round only waits.
        """
        inp = walked_input(self.call.inp, self.tiling)
        for task in grad_weight_tasks(self.tiling, self.inp, self.k.block):
            if task.slot is None and not in_slots(inp):
                for part, images in self.parts(task):
                    yield self.run(part, images)
        placed = tasks_in_slots(self.tiling, self.inp, self.k.block)
        for tasks, rounds in zip(placed, self.rounds, strict=True):
            tiles = [(task, tile) for task in tasks for tile in self.tiles(task)]
            group = 0
            for number in range(rounds):
                here = tiles[number : number + 1]
                group = here[0][0].group if here else group
                yield self.meeting(Round.BEGINS, group)
                for task, tile in here:
                    for part, images in self.parts(task):
                        yield self.run(part, images, tile)
                yield self.meeting(Round.ENDS, group)

    def meeting(self, part: Round, group: int) -> tuple[Run, Where]:
        """Return a run with the single step `part`, the begin or the end of a round, and its place in `group`."""
        run, where = self.known.of(part, lambda: [(part, Where())])
        return run, where._replace(group=group)

    def write_piece(self, piece: Piece, where: Where) -> None:
        if piece is Round.BEGINS:
            self.k.cross_core_wait(SLOTS_CLEARED, 2, "FIX" if self.kernel["early_head"] else "M")
        elif piece is Round.ENDS:
            self.slots_done()
        else:
            super().write_piece(piece, where)

    def ended(self) -> None:
        """Do nothing: each round has flagged its own end."""

    def slot(self, task: GradWeightTask) -> tuple[GradWeightTask, int] | None:
        """Return (task with group 0, block to whose slot its tiles go), or None if they go to dW; groups have equal slots."""
        return super().slot(replace(task, group=0))

    def parts(self, task: GradWeightTask) -> Iterator[tuple[GradWeightTask, range]]:
        """Yield (task, images) of each part summed in L0C at a time: the fewest whole planes, or rows of one plane, that have
        `LONGEST_SUM` pixels.
        """
        most = ceil_div(LONGEST_SUM, self.walked.w_out)
        rows = min(most, self.walked.h_out)
        planes = ceil_div(most, rows)
        end = task.image_start + task.images
        for image in range(task.image_start, end, planes):
            for row in range(task.row_start, task.row_start + task.rows, rows):
                count = min(rows, task.row_start + task.rows - row)
                yield replace(task, row_start=row, rows=count), range(image, min(image + planes, end))

    # -- a plane -------------------------------------------------------------------------------------------------------

    def plane(self, plane: Plane, strip: Strip, steps: Sequence[Step], where: Where) -> None:
        """Append the loads and products of a plane, chunk by chunk, from the first L1 buffers on; before them the
        cycles that the library's version takes for a plane.
        """
        if plane_cycles := self.kernel["plane_cycles"]["value"]:
            self.k.scalar(plane_cycles)
        self.a1.restart()
        self.b1.restart()
        tile, batch, row = self.placed(plane.tile, where), where.batch, where.row
        rows_of, columns_of = Image(batch, plane.depth_out), Image(batch, plane.depth)
        # Chunks are known by where the walk has them, and loaded from where they are.
        here = [step.at(strip.problem, row) for step in steps]
        spans = {step.in_a1: placed.in_a1 for step, placed in zip(steps, here, strict=True)}
        windows = {step[2:]: placed[2:] for step, placed in zip(steps, here, strict=True)}
        order_a, order_b = list(spans), list(windows)
        for step in steps:
            at = order_a.index(step.in_a1)
            runs = [spans[span] for span in order_a[at : at + 2]]
            self.bring(self.a1, runs, lambda span: self.load_a1(tile, strip, rows_of, span))
            at = order_b.index(step[2:])
            chunks = [windows[window] for window in order_b[at : at + 2]]
            self.bring(self.b1, chunks, lambda what: self.load_b1(tile, strip, columns_of, *what))
            self.step(plane.tile, strip, step)

    def bring(self, operand: PlaneOperand, chunks: Sequence[Any], load: Callable[[Any], Hashable]) -> None:
        """Load the first of `chunks` to L1 and make it the chunk that loads to L0 read.

        The others are loaded ahead if the library's version does so and the operand has two buffers.
        """
        key = load(chunks[0])
        if self.kernel["prefetch"] and operand.buffers > 1:
            operand.use(key)
            for chunk in chunks[1:]:
                load(chunk)
        operand.use(key)

    def load_a1(self, tile: SummedTile, strip: Strip, image: Image, span: Span) -> Hashable:
        """Load a chunk of gradOutput to L1, unless L1 holds it, and return its key; one transfer where rows are not cut."""
        if strip.columns < self.p.w_out:
            return super().load_a1(tile, strip, image, span)
        key = self.key_of_rows(tile, strip, image, span)
        address = self.a1.begin(key)
        if address is not None:
            lattice = Lattice(span.start, 1, span.length, span.length, 1)
            pixels = MapPixels(self.place_of_rows(tile, image), tile.held.length, lattice)
            self.grad_output.gather(self.k, GRAD_OUTPUT, pixels, address, span.length, "A")
            self.a1.loaded()
        return key

    # -- L0C -> GM -----------------------------------------------------------------------------------------------------

    def write(self, tile: FilterTile, slot: tuple[GradWeightTask, int] | None) -> None:
        """Append the store of the tile in L0C, which adds it to dW or, with `slot` (task, block), in pieces to the cube's slot
        of that block.
        """
        if slot is None:
            self.dw.drain(self.pipeline, GRAD_WEIGHT, tile, True)
            return
        start = slot[1] * block_bytes(self.tiling)
        drained = [
            DrainPiece(
                gm_operand(WORKSPACE, start + offset), piece.row - tile.row, piece.rows,
                piece.column - tile.column, piece.columns,
            )
            for piece, offset in pieces(tile, self.tiling, self.inp)
        ]  # fmt: skip
        self.pipeline.drain_fractals(drained, tile.rows, atomic_add=True)
