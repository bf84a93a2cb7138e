"""Numbered memory's answer on an instruction, against the instruction on random bytes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.engine.flow import CONSTANT, cube_flow_of, flow_of
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, Fill
from ascend_sim.isa.vector import Duplicate, TransposeBlocks, VectorBinary, VectorCast
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics import numpy_dtype

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
KIB = 1024
WINDOW = LoadData3D("L0A", 2, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 5, 6, 4, 20, 16, 64)

MOVERS: list[Instruction] = [
    DataCopy("GM", "L1", 64, 3, 160, 96),
    DataCopy("UB", "GM", 64, 3, 64, 128, "float32"),
    DataCopyNd2Nz(5, 24, 2, 100, 16),
    Fill("L1", 256),
    Duplicate("float32", 32),
    LoadData2D("L0B", 2, 3, 2, True),
    LoadData2D("L0A", 4, 3, 2),
    WINDOW,
    replace(WINDOW, destination="L0B"),
    replace(WINDOW, transpose=True),
    TransposeBlocks(True, 2, 5, 32, 64, 32, 3),
    TransposeBlocks(False, 4, 8, 9, 64),
]
CONVERTERS: list[tuple[Instruction, str, str]] = [
    (VectorCast("float32", "float16", 40, "rint"), "float32", "float16"),
    (VectorCast("bfloat16", "float32", 40, "rint"), "bfloat16", "float32"),
    (Fixpipe(20, 32, 32, "float16", 16, 2 * KIB), "float32", "float16"),
    (Fixpipe(20, 24, 32, "float32", 8, 2 * KIB, True), "float32", "float32"),
    (FixpipeNd(20, 24, 32, "bfloat16", 96), "float32", "bfloat16"),
    (FixpipeNd(20, 24, 32, "float32", 96, True), "float32", "float32"),
    (VectorBinary("max", "float32", 40), "float32", "float32"),
    (L0cToUb(16, 2, 32, "float16"), "float32", "float16"),
]


def machine(content: np.ndarray[Any, Any]) -> Memory:
    """A core whose source spaces all hold `content` and whose destinations are zero; GM slot 0 is source, 1 destination."""
    buffers = {name: np.zeros(64 * KIB, np.uint8) for name in ("L1", "L0A", "L0B", "L0C", "UB")}
    for name in ("L1", "L0C", "UB"):
        buffers[name][: len(content)] = content
    local: Any = SimpleNamespace(buffers=buffers)
    return Memory(local, [content.copy(), np.zeros(64 * KIB, np.uint8)], ValueModel.of(CHIP))


def run(instruction: Instruction, content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of the destination from its address on."""
    memory = machine(content)
    (target,) = instruction.writes()
    dst = gm_operand(1, 0) if target.space == "GM" else 32 * KIB
    instruction.commit(memory, dst, instruction.read(memory, dst, gm_operand(0, 0), 0))
    return memory.gm[1] if target.space == "GM" else memory.buffers[target.space][32 * KIB :]


@pytest.mark.parametrize("instruction", MOVERS, ids=lambda i: i.name)
def test_every_byte_comes_from_where_the_flow_says(instruction: Instruction) -> None:
    content = np.random.default_rng(1).integers(0, 256, 16 * KIB, np.uint8)
    if isinstance(instruction, DataCopy) and instruction.atomic:
        content = np.arange(16 * KIB // 4, dtype=np.float32).view(np.uint8)
    got, flow = run(instruction, content), flow_of(instruction, CHIP)
    expected = np.where(flow.source == CONSTANT, 0, content[flow.source])
    np.testing.assert_array_equal(got[flow.touched], expected)
    assert instruction.reads() or (flow.source == CONSTANT).all()


@pytest.mark.parametrize(("instruction", "before", "after"), CONVERTERS, ids=lambda i: getattr(i, "name", None))
def test_every_item_is_converted_from_where_the_flow_says(instruction: Instruction, before: str, after: str) -> None:
    items = np.random.default_rng(2).integers(-99, 99, 2 * KIB).astype(numpy_dtype(before))  # exact in every format
    got, flow = run(instruction, items.view(np.uint8)), flow_of(instruction, CHIP)
    size = numpy_dtype(after).itemsize
    there = flow.source[::size] != CONSTANT
    sources = flow.source[::size][there] // items.itemsize
    converted = got[flow.touched].view(numpy_dtype(after)).astype(np.float64)
    np.testing.assert_array_equal(converted[there], items[sources].astype(np.float64))
    assert there.any()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_element_of_the_cube_is_the_sum_over_its_operands(dtype: str) -> None:
    mmad = Mmad(20, 24, 40, dtype, False)
    flow = cube_flow_of(mmad, CHIP)
    memory = machine(np.zeros(0, np.uint8))
    rng = np.random.default_rng(3)
    for name in ("L0A", "L0B"):
        memory.buffers[name].view(numpy_dtype(dtype))[:] = rng.integers(-9, 9, 64 * KIB // mmad.itemsize)
    mmad.commit(memory, 0, mmad.read(memory, 0, 0, 0))
    left, right = (memory.buffers[name].view(numpy_dtype(dtype)) for name in ("L0A", "L0B"))
    for offset in rng.integers(0, len(flow.place), 30) * 4:
        m, n = flow.element(int(offset))
        products = left[flow.left[m] // mmad.itemsize].astype(float) * right[flow.right[n] // mmad.itemsize]
        assert len(products) == mmad.k
        assert memory.buffers["L0C"].view(np.float32)[offset // 4] == products.sum()


def test_the_cube_has_no_single_source() -> None:
    with pytest.raises(SimError, match="mmad"):
        flow_of(Mmad(16, 16, 16, "float16", False), CHIP)
