"""Vector cores' program of grad_weight with StreamK, where several cores share a task's sum and each has a workspace
slot for its part.

Each cube writes its part to its slot; after a barrier of all cores the vector cores add the slots in order and store to dW.
"""

from __future__ import annotations

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.layouts import slotted_gradient
from ascend_sim.ops.layouts.layout import Portion, RowStore
from ascend_sim.ops.problem.tiling_input import TilingInput

GRAD_OUTPUT, INPUT, GRAD_WEIGHT, WORKSPACE = 0, 1, 2, 3
"""The tensors of the launch."""
ALL_CUBES, CUBE_TO_VECTOR = 0, 1
"""Cross-core flags: all cubes have written their slots; so the vector cores of a block may read them."""


def slot_bytes(tiling: GradWeightTiling, inp: TilingInput) -> int:
    """Return the bytes of one slot: the dW of the largest task in fp32, both sides rounded up to 16."""
    return slotted_gradient(walked_input(inp, tiling)).slot_bytes(tiling.single_core_m, tiling.single_core_n)


def parts_of(tiling: GradWeightTiling, inp: TilingInput, block: int, task: GradWeightTask) -> list[tuple[int, GradWeightTask]]:
    """Return (block, its task) of every core that shares the StreamK task of `block`, in slot order."""
    assert task.slot is not None
    first = block - task.slot
    found = []
    for other in range(first, min(first + tiling.core_stream_k, tiling.block_dim)):
        found += [(other, t) for t in grad_weight_tasks(tiling, inp, other) if t.slot is not None]
    return found


class StreamKBuilder:
    """Builder of a vector core's program, which adds its share of a StreamK task's slots, in order, and stores it to dW."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder) -> None:
        self.call, self.tiling, self.k = call, tiling, k
        self.inp = walked_input(call.inp, tiling)
        self.dw = slotted_gradient(self.inp)

    def program(self) -> Program:
        """Return the program: wait for all cubes; if a task of the block has a slot, add up this core's share of the slots and
        store it to dW.
        """
        k, tiling = self.k, self.tiling
        shared = [t for t in grad_weight_tasks(tiling, self.inp, k.block) if t.slot is not None]
        k.cross_core_wait(CUBE_TO_VECTOR, 2, "MTE2")
        if shared:
            self.add(shared[0])
        return k.finish()

    def add(self, task: GradWeightTask) -> None:
        """Append the sum of this core's share of a task's slots, in slot order, and its store to dW, portion by portion."""
        k, parts = self.k, parts_of(self.tiling, self.inp, self.k.block, task)
        cores = self.call.chip.cores.aiv_per_aic
        lanes, lane = len(parts) * cores, [block for block, _ in parts].index(k.block) * cores + k.sub_block
        total = self.dw.shares(task)
        mine = range(lane * total // lanes, (lane + 1) * total // lanes)
        portions = list(self.dw.portions(task, mine, k.chip.buffers["UB"] // 4))
        if not portions:
            return
        size, slot = max(portion.size for portion in portions), slot_bytes(self.tiling, self.inp)
        sums = BufferQueue(k, "sum", "V", "MTE3", [k.allocate("UB", size, f"sum[{i}]") for i in range(2)])
        slots = BufferQueue(k, "slot", "MTE2", "V", [k.allocate("UB", size, f"slot[{i}]") for i in range(2)])
        others = tuple([block for block, _ in parts])
        for (length, stores), (offset, target) in k.stamped([_placed(portion) for portion in portions], others, slot):
            sum_of_slots = sums.acquire()
            k.vector_duplicate(sum_of_slots, "float32", length // 4)
            for block in others:
                source = gm_operand(WORKSPACE, block * slot + offset)
                k.data_copy("GM", "UB", slots.acquire(), source, length)
                slots.publish()
                k.pipe_barrier("V")
                k.vector_binary("add", sum_of_slots, sum_of_slots, slots.take(), "float32", length // 4)
                slots.release()
            sums.publish()
            ready = sums.take()
            for store in stores:
                k.copy_rows(
                    "UB->GM",
                    gm_operand(GRAD_WEIGHT, target + store.target),
                    ready + store.source,
                    store.row_bytes,
                    CopyLoop(store.rows, store.source_stride, store.target_stride),
                )
            sums.release()
        sums.close()
        slots.close()


def _placed(portion: Portion) -> tuple[tuple[int, tuple[RowStore, ...]], tuple[int, int]]:
    """Return ((portion's size, stores with targets relative to the first's), (portion's offset, target of the first store))."""
    first = portion.stores[0].target
    stores = tuple([store._replace(target=store.target - first) for store in portion.stores])
    return (portion.size, stores), (portion.offset, first)
