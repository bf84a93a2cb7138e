"""Little kernels for the report's tests: a double-buffered cube loop, a vector cast, a mixed kernel with cross-core flags."""

from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

KIB = 1024
CHIP = load_chip("ascend910b3")


def cube_task(device, blocks=3, steps=8, name="cube loop"):
    """Each block multiplies 128x64 by 64x128 `steps` times and drains every fourth; odd blocks do half of it."""
    tensors = [
        device.allocate(256 * KIB, "left"),
        device.allocate(256 * KIB, "right"),
        device.allocate(blocks * 32 * KIB, "out"),
    ]
    table = InstructionTable(CHIP)
    sizes = [tensor.size for tensor in tensors]

    def build(block):
        k = KernelBuilder(table, block, "AIC", sizes)
        l1 = BufferQueue(k, "l1", "MTE2", "MTE1", [k.allocate("L1", 32 * KIB, f"l1[{i}]") for i in range(2)])
        l0 = BufferQueue(k, "l0", "MTE1", "M", [0, 1])
        l0c = BufferQueue(k, "l0c", "M", "FIX", [k.allocate("L0C", 64 * KIB, f"l0c[{i}]") for i in range(2)])
        for step in range(steps // (1 + block % 2)):
            room = l1.acquire()
            k.scalar(20)
            k.data_copy("GM", "L1", room, gm_operand(0, step % 16 * 16 * KIB), 16 * KIB, operand="A")
            k.data_copy("GM", "L1", room + 16 * KIB, gm_operand(1, block % 8 * 128), 64, 256, 1024, 64, operand="B")
            l1.publish()
            source, half = l1.take(), l0.acquire()
            k.load_data_2d("L0A", half * 16 * KIB, source, 2, 32)
            k.load_data_2d("L0B", half * 16 * KIB, source + 16 * KIB, 2, 32)
            l0.publish()
            l1.release()
            half = l0.take()
            if step % 4 == 0:
                k.next_tile()
                tile = l0c.acquire()
            k.mmad(tile, half * 16 * KIB, half * 16 * KIB, 128, 64, 128, "float16", step % 4 != 0)
            l0.release()
            if step % 4 == 3:
                l0c.publish()
                k.fixpipe(gm_operand(2, block * 32 * KIB), l0c.take(), 128, 128, 128, "float16", 16, 128 * 32)
                l0c.release()
        for queue in (l1, l0, l0c):
            queue.close()
        return [k.finish()]

    macs = sum(steps // (1 + block % 2) for block in range(blocks)) * 128 * 64 * 128
    info = {
        "macs": macs, "compute_dtype": "float16", "tiling": {"baseM": 128}, "tiling_source": "manual",
        "dtypes": {"left": "float16", "right": "float16", "out": "float16"}, "formats": {"out": "NC1HWC0"},
    }  # fmt: skip
    return Task(name, "Conv2DBackpropInput", "AIC", blocks, tensors, build, info=info)


def cast_task(device, source, blocks=5, pieces=3, name="cast"):
    """float32 to float16, 8 KB at a time, from `source`; blocks lie one behind the other."""
    target = device.allocate(source.size // 2, "half")
    table = InstructionTable(CHIP)

    def build(block):
        k = KernelBuilder(table, block, "AIV", [source.size, target.size])
        wide = BufferQueue(k, "wide", "MTE2", "V", [k.allocate("UB", 8 * KIB, f"wide[{i}]") for i in range(2)])
        narrow = BufferQueue(k, "narrow", "V", "MTE3", [k.allocate("UB", 4 * KIB, f"narrow[{i}]") for i in range(2)])
        for piece in range(pieces):
            k.next_tile()
            place = (block * pieces + piece) * 8 * KIB
            k.data_copy("GM", "UB", wide.acquire(), gm_operand(0, place), 8 * KIB)
            wide.publish()
            out, taken = narrow.acquire(), wide.take()
            k.vector_cast(out, taken, "float32", "float16", 2 * KIB)
            narrow.publish()
            wide.release()
            k.pipe_barrier("MTE3")
            k.data_copy("UB", "GM", gm_operand(1, place // 2), narrow.take(), 4 * KIB)
            narrow.release()
        k.pipe_barrier("ALL")
        for queue in (wide, narrow):
            queue.close()
        return [k.finish()]

    return Task(name, "Cast", "AIV", blocks, [source, target], build)


def mixed_task(device, blocks=2):
    """The AIC of a block writes to GM and raises a flag; both of its AIVs read, then all AIVs meet at a barrier."""
    between = device.allocate(blocks * 64 * KIB, "between")
    table = InstructionTable(CHIP)

    def build(block):
        cube = KernelBuilder(table, block, "AIC", [between.size])
        cube.fill("L1", 0, 32 * KIB)
        cube.next_tile()
        cube.data_copy("L1", "GM", gm_operand(0, block * 64 * KIB), 0, 32 * KIB * (1 + block))
        cube.cross_core_set(0, 2, "MTE3")
        programs = [cube.finish()]
        for sub_block in range(2):
            k = KernelBuilder(table, block, "AIV", [between.size], sub_block=sub_block)
            k.next_tile()
            k.cross_core_wait(0, 2, "MTE2")
            k.data_copy("GM", "UB", 0, gm_operand(0, block * 64 * KIB + sub_block * 16 * KIB), 16 * KIB)
            k.cross_core_set(1, 0, "MTE2")
            k.cross_core_wait(1, 0, "V")
            k.vector_duplicate(32 * KIB, "float16", 128)
            programs.append(k.finish())
        return programs

    return Task("mixed", "Mixed", "MIX", blocks, [between], build, all_cores=True)


def run_three(core_order=None):
    """(tasks, timeline) of the three kernels one after the other; the cast has more blocks than its pieces need cores."""
    device = Device(CHIP, with_values=False)
    wide = device.allocate(45 * 12 * 8 * KIB, "wide")
    tasks = [cast_task(device, wide, blocks=45, pieces=12), cube_task(device), mixed_task(device)]
    return tasks, Engine(device, core_order=core_order).run(tasks)
