"""Random programs of one vector core, and what a check sees of them."""

from __future__ import annotations

import numpy as np

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.random_programs import gm_element, ub_element

ONE_BIT = load_chip("ascend910b3")
CHIP = ONE_BIT.model_copy(update={"sync": ONE_BIT.sync.model_copy(update={"flag_max": 99})})
"""A chip whose flags count, so that random sets and waits come to an end."""
SIZE = 4096


def random_program(seed: int, length: int = 40) -> Program:
    """Loads, sums and stores in a corner of UB and of GM, with flags and barriers thrown in between."""
    rng = np.random.default_rng(seed)
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [SIZE, SIZE])
    pipes = ("MTE2", "V", "MTE3")
    raised: list[object] = []

    def place(count: int) -> int:
        return int(rng.integers(0, 6 - count)) * 64

    for _ in range(length):
        what = rng.integers(0, 10)
        if what < 2:
            rows = int(rng.integers(1, 3))
            k.data_copy("GM", "UB", place(rows), gm_operand(int(rng.integers(2)), place(rows)), 32, rows, 64, 64)
        elif what < 4:
            k.vector_binary("add", place(1), place(2), place(1), "float32", int(rng.integers(8, 17)))
        elif what < 6:
            atomic = "float32" if rng.random() < 0.3 else ""
            k.data_copy("UB", "GM", gm_operand(int(rng.integers(2)), place(2)), place(2), 64, 2, 64, 64, atomic)
        elif what < 8:
            source, destination = rng.permutation((*pipes, "S"))[:2]
            flag = k.flag(str(source), str(destination), f"{source}->{destination}")
            k.set_flag(flag)
            raised.append(flag)
        elif what == 8 and raised:
            k.wait_flag(raised.pop(int(rng.integers(len(raised)))))  # type: ignore[arg-type]
        elif rng.random() < 0.2:
            element = gm_element(int(rng.integers(2)), place(1)) if rng.random() < 0.5 else ub_element(place(1))
            k.scalar_load(element) if rng.random() < 0.5 else k.scalar_store(element, 1)
        elif rng.random() < 0.7:
            k.pipe_barrier(str(rng.choice(pipes)))
        elif rng.random() < 0.5:
            k.pipe_barrier("ALL")
        else:
            k.scalar_wait(str(rng.choice(pipes)))
    for flag in raised:
        k.wait_flag(flag)  # type: ignore[arg-type]
    return k.finish()


def subject_of(program: Program) -> Subject:
    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(SIZE, name) for name in ("a", "b")]
    task = Task("random", "Random", "AIV", 1, tensors, lambda block: [program])
    return Subject(CHIP, task, [program], Shapes(CHIP))
