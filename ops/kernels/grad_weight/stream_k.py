"""The vector cores of grad_weight: a task whose sum several cores share (StreamK) has a slot of the workspace for each part.

Each cube writes its part to its slot; after a barrier of all cores the vector cores add the slots in order and store to dW.
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.fields import STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.taps import cut_input
from ascend_sim.ops.kernels.grad_weight.tasks import GradWeightTask, grad_weight_tasks
from ascend_sim.ops.layouts.blocked import WeightLayout
from ascend_sim.ops.layouts.planar import DirectWeights
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

GRAD_OUTPUT, INPUT, GRAD_WEIGHT, WORKSPACE = 0, 1, 2, 3
"""The tensors of the launch."""
ALL_CUBES, CUBE_TO_VECTOR = 0, 1
"""Cross-core flags: all cubes have written their slots; so the vector cores of a block may read them."""


def workspace_bytes(tiling: GradWeightTiling, inp: TilingInput | None = None) -> int:
    """Bytes of the StreamK slots (fp32 tiles), 0 without StreamK."""
    if tiling.stream_k_type == STREAM_NONE:
        return 0
    return tiling.block_dim * slot_bytes(tiling, inp)


def slot_bytes(tiling: GradWeightTiling, inp: TilingInput | None = None) -> int:
    """Bytes of one slot."""
    if inp is not None and inp.direct:
        return DirectWeights.of(cut_input(inp, tiling)).slot_bytes(tiling.single_core_m, tiling.single_core_n)
    return ceil_to(tiling.single_core_m, FRACTAL) * ceil_to(tiling.single_core_n, FRACTAL) * 4


class StreamKBuilder:
    """Writes the program of one vector core: it adds its share of a StreamK task's slots, in slot order."""

    def __init__(self, call: CubeCall, tiling: GradWeightTiling, k: KernelBuilder) -> None:
        self.call, self.tiling, self.k = call, tiling, k
        self.inp = cut_input(call.inp, tiling)
        self.layout = WeightLayout.of(call.inp, 4)

    def program(self) -> Program:
        """The program."""
        k, tiling = self.k, self.tiling
        shared = [t for t in grad_weight_tasks(tiling, self.inp, k.block) if t.slot is not None]
        k.cross_core_wait(CUBE_TO_VECTOR, 2, "MTE2")
        if shared and self.inp.channels_last:
            self.add_lines(shared[0])
        elif shared and self.inp.direct:
            self.add_direct(shared[0])
        elif shared:
            self.add_slots(shared[0])
        return k.finish()

    def parts(self, task: GradWeightTask) -> list[tuple[int, GradWeightTask]]:
        """(block, task) of every core that holds a slot of the same task, in slot order."""
        assert task.slot is not None
        first = self.k.block - task.slot
        found = []
        for block in range(first, min(first + self.tiling.core_stream_k, self.tiling.block_dim)):
            found += [(block, t) for t in grad_weight_tasks(self.tiling, self.inp, block) if t.slot is not None]
        return found

    def add_slots(self, task: GradWeightTask) -> None:
        """This core's column blocks of the task: load slot 0, add slots 1, 2, ... and store to dW."""
        k = self.k
        parts = self.parts(task)
        c0 = self.inp.c0
        row_bytes = c0 * 4
        rows = ceil_to(task.m_count, FRACTAL)
        block_bytes = rows * row_bytes
        columns = ceil_div(task.n_count, c0)
        lanes = len(parts) * self.call.chip.cores.aiv_per_aic
        lane = [block for block, _ in parts].index(k.block) * self.call.chip.cores.aiv_per_aic + k.sub_block
        mine = range(lane * columns // lanes, (lane + 1) * columns // lanes)
        if not mine:
            return
        most = k.chip.buffers["UB"] // 4 // block_bytes
        at_once = max(1, min(most, len(mine)))
        size = at_once * block_bytes
        sums = BufferQueue(k, "sum", "V", "MTE3", [k.allocate("UB", size, f"sum[{i}]") for i in range(2)])
        slots = BufferQueue(k, "slot", "MTE2", "V", [k.allocate("UB", size, f"slot[{i}]") for i in range(2)])
        per_plane = self.inp.cin1 * self.inp.taps * c0
        for start in range(mine.start, mine.stop, at_once):
            count = min(at_once, mine.stop - start)
            total = sums.acquire()
            k.vector_duplicate(total, "float32", count * block_bytes // 4)
            for block, _ in parts:
                source = block * slot_bytes(self.tiling) + start * block_bytes
                k.data_copy("GM", "UB", slots.acquire(), gm_operand(WORKSPACE, source), count * block_bytes)
                slots.publish()
                if k.chip.vector.latency:  # else a result is there when the next instruction starts
                    k.pipe_barrier("V")
                k.vector_binary("add", total, total, slots.take(), "float32", count * block_bytes // 4)
                slots.release()
            sums.publish()
            ready = sums.take()
            for c in range(count):
                plane, column = divmod(task.n_start + (start + c) * c0, per_plane)
                if task.plane is not None:
                    plane = task.plane
                pitch = self.layout.cout1 * self.layout.fractal_bytes
                offset = (
                    self.layout.offset(task.group, plane, 0, 0, 0) + column // c0 * pitch + task.m_start * row_bytes
                )
                k.data_copy("UB", "GM", gm_operand(GRAD_WEIGHT, offset), ready + c * block_bytes, block_bytes)
            sums.release()
        sums.close()
        slots.close()

    def add_direct(self, task: GradWeightTask) -> None:
        """The same for NCDHW: a slot holds rows [channel][tap] of the task; this core's rows are added and stored."""
        k, dw, inp = self.k, DirectWeights.of(self.inp), self.inp
        parts = self.parts(task)
        height = min(task.m_count, self.call.group_channels(task.group, inp.problem.c_out, inp.cout_g) - task.m_start)
        lanes = len(parts) * self.call.chip.cores.aiv_per_aic
        lane = [block for block, _ in parts].index(k.block) * self.call.chip.cores.aiv_per_aic + k.sub_block
        mine = range(lane * height // lanes, (lane + 1) * height // lanes)
        if not mine:
            return
        pitch, share = dw.slot_pitch(task), k.chip.buffers["UB"] // 4
        first = task.n_start // inp.taps
        last = min(first + task.n_count // inp.taps, self.call.group_channels(task.group, inp.problem.c_in, inp.cin_g))
        if pitch <= share:
            rows_at_once, channels_at_once = min(share // pitch, len(mine)), last - first
        else:  # a row at a time, in runs of channels that keep 32-byte places
            rows_at_once, channels_at_once = 1, max(share // dw.channel_pitch // 8, 1) * 8
        size = rows_at_once * pitch if pitch <= share else ceil_to(channels_at_once * dw.channel_pitch, 32)
        sums = BufferQueue(k, "sum", "V", "MTE3", [k.allocate("UB", size, f"sum[{i}]") for i in range(2)])
        slots = BufferQueue(k, "slot", "MTE2", "V", [k.allocate("UB", size, f"slot[{i}]") for i in range(2)])
        for row in range(mine.start, mine.stop, rows_at_once):
            count = min(rows_at_once, mine.stop - row)
            for channel in range(first, last, channels_at_once):
                channels = min(channels_at_once, last - channel)
                used = count * pitch if pitch <= share else ceil_to(channels * dw.channel_pitch, 32)
                total = sums.acquire()
                k.vector_duplicate(total, "float32", used // 4)
                for block, _ in parts:
                    source = block * slot_bytes(self.tiling, inp) + row * pitch + (channel - first) * dw.channel_pitch
                    k.data_copy("GM", "UB", slots.acquire(), gm_operand(WORKSPACE, source), used)
                    slots.publish()
                    if k.chip.vector.latency:
                        k.pipe_barrier("V")
                    k.vector_binary("add", total, total, slots.take(), "float32", used // 4)
                    slots.release()
                sums.publish()
                ready = sums.take()
                rows = range(task.m_start + row, task.m_start + row + count)
                self.store_direct(task, ready, pitch, rows, range(channel, channel + channels))
                sums.release()
        sums.close()
        slots.close()

    def add_lines(self, task: GradWeightTask) -> None:
        """The same for DHWCN: a slot holds lines [tap][channel] of the task's rows; this core's lines are added and stored."""
        k, dw, inp = self.k, DirectWeights.of(self.inp), self.inp
        parts = self.parts(task)
        height = min(task.m_count, inp.problem.c_out - task.m_start)
        first, held = task.n_start // inp.taps, task.n_count // inp.taps
        channels = min(held, inp.problem.c_in - first)
        lanes = len(parts) * self.call.chip.cores.aiv_per_aic
        lane = [block for block, _ in parts].index(k.block) * self.call.chip.cores.aiv_per_aic + k.sub_block
        total = inp.taps * channels
        mine = range(lane * total // lanes, (lane + 1) * total // lanes)
        if not mine:
            return
        pitch = dw.slot_pitch(task)
        at_once = max(1, min(k.chip.buffers["UB"] // 4 // pitch, len(mine)))
        sums = BufferQueue(k, "sum", "V", "MTE3", [k.allocate("UB", at_once * pitch, f"sum[{i}]") for i in range(2)])
        slots = BufferQueue(k, "slot", "MTE2", "V", [k.allocate("UB", at_once * pitch, f"slot[{i}]") for i in range(2)])
        line = mine.start
        while line < mine.stop:  # lines of one tap adjoin in a slot, and in dW lie a channel apart
            tap, channel = divmod(line, channels)
            count = min(at_once, mine.stop - line, channels - channel)
            size, total_sum = count * pitch, sums.acquire()
            k.vector_duplicate(total_sum, "float32", size // 4)
            for block, _ in parts:
                source = block * slot_bytes(self.tiling, inp) + (tap * held + channel) * pitch
                k.data_copy("GM", "UB", slots.acquire(), gm_operand(WORKSPACE, source), size)
                slots.publish()
                if k.chip.vector.latency:
                    k.pipe_barrier("V")
                k.vector_binary("add", total_sum, total_sum, slots.take(), "float32", size // 4)
                slots.release()
            sums.publish()
            target = gm_operand(GRAD_WEIGHT, dw.offset(0, task.m_start, first + channel, task.plane or 0, tap))
            k.data_copy("UB", "GM", target, sums.take(), height * 4, count, pitch, dw.channel_stride)
            sums.release()
            line += count
        sums.close()
        slots.close()

    def store_direct(self, task: GradWeightTask, ready: int, pitch: int, rows: range, channels: range) -> None:
        """Rows of added channels in UB, `pitch` bytes apart, to dW."""
        dw, taps, plane = DirectWeights.of(self.inp), self.inp.taps, task.plane or 0
        if dw.dense:
            target = gm_operand(GRAD_WEIGHT, dw.offset(task.group, rows.start, channels.start, plane, 0))
            size = len(channels) * taps * 4
            self.k.data_copy("UB", "GM", target, ready, size, len(rows), pitch, dw.filter_stride)
            return
        for row, _, first, count in dw.own_rows(rows, channels):
            target = gm_operand(GRAD_WEIGHT, dw.offset(task.group, row, first, plane, 0))
            source = ready + (row - rows.start) * pitch + (first - channels.start) * dw.channel_pitch
            self.k.data_copy("UB", "GM", target, source, taps * 4, count, dw.channel_pitch, dw.channel_stride)
