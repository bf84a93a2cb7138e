"""One instruction at a time on buffers full of known bytes, in numpy and, where it was built, in C: equal bytes."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.compiled import library
from ascend_sim.engine.compiled.values import CompiledValues, Workspace, rows_for_python
from ascend_sim.engine.values import ProgramValues
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.kernel.touches import Touches
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.local import LocalMemory
from ascend_sim.memory.regions import Region

CHIP = load_chip("ascend910b3")
SIZES = {"L1": 16384, "L0A": 16384, "L0B": 16384, "L0C": 16384, "UB": 8192, "BT": 1024, "FB": 2048}
GM_BYTES = 16384


@cache
def models_of(chip: ChipSpec) -> tuple[ValueModel, ValueModel]:
    """Return the models of a chip with both ways of overflow."""
    return ValueModel.of(chip), ValueModel.of(chip, overflow="saturate")


MODELS = models_of(CHIP)


def copy_of(memory: Memory, model: ValueModel) -> Memory:
    """Return a copy of the memory, all of it written."""
    local = LocalMemory({name: len(buffer) for name, buffer in memory.buffers.items()})
    for name, buffer in memory.buffers.items():
        local.buffers[name][:] = buffer
        local.written[name][:] = True
    return Memory(local, [tensor.copy() for tensor in memory.gm], model)


def run_in_c(instruction: Instruction, memory: Memory, dst: int, src0: int, src1: int) -> bool:
    """Start and retire in C; False, with nothing changed, where C leaves it to Python."""
    touches = Touches.of((instruction,), memory.model.chip)
    table = SimpleNamespace(instructions=[instruction], touches=touches)
    program = SimpleNamespace(table=table, rows=np.array([[0, dst, src0, src1, 0]], np.int64))
    values = cast(ProgramValues, SimpleNamespace(program=program, local=memory.local, memory=memory))
    work = Workspace(memory.model.chip, memory.model)
    return not list(rows_for_python(CompiledValues(values, work, np.zeros(1, np.int64)), work))


def everything(memory: Memory) -> dict[str, bytes]:
    """Every byte there is."""
    return {name: buffer.tobytes() for name, buffer in (*memory.buffers.items(), *enumerate(memory.gm))}  # type: ignore[misc]


class Workbench:
    """Small buffers and two tensors of random bytes, the same for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        local = LocalMemory(SIZES)
        for buffer in local.buffers.values():
            buffer[:] = rng.integers(0, 256, len(buffer), dtype=np.uint8)
        tensors = [rng.integers(0, 256, GM_BYTES, dtype=np.uint8) for _ in range(2)]
        self.memory = Memory(local, tensors, ValueModel.of(CHIP))

    def space(self, name: str, address: int = 0) -> np.ndarray[Any, Any]:
        """The bytes of a buffer, or of the tensor that a GM address names."""
        return self.memory.gm[address >> SLOT_SHIFT] if name == "GM" else self.memory.buffers[name]

    def put(self, name: str, address: int, values: np.ndarray[Any, Any]) -> None:
        """Store `values` at a byte address."""
        raw = np.ascontiguousarray(values).view(np.uint8).ravel()
        offset = address & OFFSET_MASK if name == "GM" else address
        self.space(name, address)[offset : offset + len(raw)] = raw

    def get(self, name: str, address: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        """`count` values at a byte address."""
        offset = address & OFFSET_MASK if name == "GM" else address
        return self.space(name, address)[offset : offset + count * np.dtype(dtype).itemsize].view(dtype).copy()

    def do(self, instruction: Instruction, dst: int = 0, src0: int = 0, src1: int = 0) -> None:
        """Start and retire. Copies of the memory go through C as well, with both ways of overflow."""
        with np.errstate(all="ignore"):
            if library.load() is not None:
                for model in models_of(self.memory.model.chip):
                    memory, other = copy_of(self.memory, model), copy_of(self.memory, model)
                    if run_in_c(instruction, other, dst, src0, src1):
                        instruction.commit(memory, dst, instruction.read(memory, dst, src0, src1))
                        assert everything(memory) == everything(other), f"{model.overflow}: C differs from numpy"
            instruction.commit(self.memory, dst, instruction.read(self.memory, dst, src0, src1))

    def snapshot(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every byte there is."""
        spaces = dict(self.memory.buffers)
        spaces.update({f"GM{i}": tensor for i, tensor in enumerate(self.memory.gm)})
        return {name: buffer.copy() for name, buffer in spaces.items()}


def covered(regions: tuple[Region, ...], addresses: dict[str, int]) -> dict[str, set[int]]:
    """The bytes of regions, by space ("GM0" for tensor 0)."""
    found: dict[str, set[int]] = {}
    for region in regions:
        address = addresses[region.operand] if region.operand else 0
        name = region.space
        if name == "GM":
            name, address = f"GM{address >> SLOT_SHIFT}", address & OFFSET_MASK
        touched = found.setdefault(name, set())
        for plane in range(region.planes):
            for row in range(region.rows):
                first = address + region.offset + plane * region.plane_stride + row * region.row_stride
                touched.update(range(first, first + region.row_bytes))
    return found
