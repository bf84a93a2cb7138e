"""The vector cores' side of the 950's kernel: zeros over dW and slots before the cubes add to them, then a tree over the slots.

(ops-nn, Conv3DBackpropFilterV2 of arch35: stated.) All vector cores clear their share of dW and meet. A task that several cores
share (StreamK) has a cleared slot for each, to which its cube adds; then the slots are added in pairs, level by level, with a
barrier of all vector cores behind each, and the last sum goes to dW. The vector cores of both blocks of a pair share its work.
Slots have the order of dW here, so that the last level stores it as it is; the vendor's hold the fractals of L0C, which that
level scatters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.arch35.flags import ALL_VECTORS, CLEARED, LEVEL, SLOTS_CLEARED
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.stream_k import CUBE_TO_VECTOR, GRAD_WEIGHT, WORKSPACE, parts_of, slot_bytes
from ascend_sim.ops.kernels.grad_weight.taps import walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.kernels.vector.common import buffer_queue, share
from ascend_sim.ops.layouts import weight_gradient
from ascend_sim.ops.layouts.layout import Portion
from ascend_sim.ops.problem.sizes import ceil_div

_BUFFERS = 8
"""Parts of UB: four for slots that come in, two for sums that leave, one for zeros."""


class DirectVectorBuilder:
    """Writes the program of one vector core; `size` is the bytes of dW, `kernel` what the library's version says."""

    def __init__(
        self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder, size: int, kernel: Mapping[str, Any]
    ) -> None:
        self.call, self.tiling, self.k, self.size = call, tiling, k, size
        self.scatter_cycles: float = kernel["scatter_cycles"]["value"]
        self.inp = walked_input(call.inp, tiling)
        self.dw = weight_gradient(self.inp)
        self.cores = call.chip.cores.aiv_per_aic
        self.shared = [t for t in grad_weight_tasks(tiling, self.inp, k.block) if t.slot is not None]

    def program(self) -> Program:
        """The program."""
        k, tiling, cores = self.k, self.tiling, self.cores
        line = k.chip.memory.l2_line_bytes
        zeros = k.allocate("UB", k.chip.buffers["UB"] // _BUFFERS // line * line, "zeros")
        ready = k.flag("V", "MTE3", "zeros ready")
        room = k.chip.buffers["UB"] // _BUFFERS // line * line
        k.vector_duplicate(zeros, "float32", room // 4)
        k.set_flag(ready)
        k.wait_flag(ready)
        first, lines = share(ceil_div(self.size, line), tiling.block_dim * cores, k.block * cores + k.sub_block)
        self.clear(GRAD_WEIGHT, zeros, room, range(first * line, min((first + lines) * line, self.size)))
        self.meet(CLEARED)
        if tiling.stream_k_type == STREAM_NONE:
            return k.finish()
        if self.shared:
            slot = slot_bytes(tiling, self.inp)
            first, lines = share(ceil_div(slot, line), cores, k.sub_block)
            start = k.block * slot
            self.clear(WORKSPACE, zeros, room, range(start + first * line, start + min((first + lines) * line, slot)))
        self.meet(SLOTS_CLEARED)
        k.cross_core_wait(CUBE_TO_VECTOR, 2, "MTE2")
        self.tree()
        return k.finish()

    def clear(self, tensor: int, zeros: int, room: int, places: range) -> None:
        """Zeros over bytes of a tensor."""
        for start in range(places.start, places.stop, room):
            self.k.data_copy("UB", "GM", gm_operand(tensor, start), zeros, min(room, places.stop - start))

    def meet(self, cubes: int) -> None:
        """A barrier of all vector cores, behind which the block's cube may go on."""
        self.k.cross_core_set(ALL_VECTORS, 0, "MTE3")
        self.k.cross_core_wait(ALL_VECTORS, 0, "MTE3")
        self.k.cross_core_set(cubes, 2, "MTE3")

    # -- the tree ------------------------------------------------------------------------------------------------------

    def tree(self) -> None:
        """Slots 2^level apart are added, and at last those that are left."""
        k = self.k
        levels = max(self.tiling.core_stream_k - 1, 1).bit_length()
        parts = parts_of(self.tiling, self.inp, k.block, self.shared[0]) if self.shared else []
        place = [block for block, _ in parts].index(k.block) if parts else 0
        room = k.chip.buffers["UB"] // _BUFFERS // BLOCK_BYTES * BLOCK_BYTES
        self.pairs = buffer_queue(k, "pair", "MTE2", "V", 2 * room, 2)
        self.sums = buffer_queue(k, "sum", "V", "MTE3", room, 2)
        for level in range(levels):
            if level:
                k.cross_core_set(LEVEL, 0, "MTE3")
                k.cross_core_wait(LEVEL, 0, "MTE2")
            step, last = 1 << level, level == levels - 1
            left = place // (2 * step) * 2 * step
            if place % step or left >= len(parts):
                continue
            pair = [parts[at][0] for at in (left, left + step) if at < len(parts)]
            if len(pair) > 1 or last:
                self.add(self.shared[0], pair, (place - left) // step, last)
        self.pairs.close()
        self.sums.close()

    def add(self, task: GradWeightTask, pair: list[int], side: int, to_dw: bool) -> None:
        """This core's share of a pair of blocks' slots, to the first one's or to dW; a single slot is only brought there."""
        k, slot = self.k, slot_bytes(self.tiling, self.inp)
        room = k.chip.buffers["UB"] // _BUFFERS // BLOCK_BYTES * BLOCK_BYTES
        first, count = share(self.dw.shares(task), len(pair) * self.cores, side * self.cores + k.sub_block)
        if not count:
            return
        if to_dw and self.inp.taps > 1:  # a surrogate for what turns the sum to dW's order
            k.scalar_wait("MTE2")
            k.scalar(round(self.scatter_cycles * task.m_count * task.n_count))
        for portion in self.dw.portions(task, range(first, first + count), room):
            held = self.pairs.acquire()
            for side_of, block in enumerate(pair):
                source = gm_operand(WORKSPACE, block * slot + portion.offset)
                k.data_copy("GM", "UB", held + side_of * room, source, portion.size)
            self.pairs.publish()
            held, total = self.pairs.take(), self.sums.acquire()
            if len(pair) == 1:
                k.vector_duplicate(held + room, "float32", portion.size // 4)
                k.pipe_barrier("V")
            k.vector_binary("add", total, held, held + room, "float32", portion.size // 4)
            self.pairs.release()
            self.sums.publish()
            self.store(portion, None if to_dw else pair[0] * slot, self.sums.take())
            self.sums.release()

    def store(self, portion: Portion, slot: int | None, address: int) -> None:
        """A sum to the slot at that offset, or to dW."""
        if slot is not None:
            self.k.data_copy("UB", "GM", gm_operand(WORKSPACE, slot + portion.offset), address, portion.size)
            return
        for to in portion.stores:
            self.k.data_copy(
                "UB",
                "GM",
                gm_operand(GRAD_WEIGHT, to.target),
                address + to.source,
                to.row_bytes,
                to.rows,
                to.source_stride,
                to.target_stride,
            )
