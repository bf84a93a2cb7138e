"""`reads` and `writes` of every instruction against what it does to the bytes: nothing outside matters or changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.isa.base import Instruction
from ascend_sim.isa.bias import LoadBias
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.direct import DataCopyDn2Nz, FixpipeDn
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.scalar import ScalarCopy, ScalarLoad, ScalarStore
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, DataCopyPadded, DataCopyPlanes, Fill
from ascend_sim.isa.vector import (
    BroadcastColumn,
    Compare,
    Duplicate,
    Gather,
    GatherMask,
    Interleave,
    Mask,
    ReduceBlocks,
    ReducePieces,
    ReduceRows,
    ReduceWithIndex,
    Scatter,
    Select,
    Transpose,
    TransposeBlocks,
    TransposeHalves,
    VectorBinary,
    VectorCast,
    VectorCopy,
    VectorMulAdd,
    VectorScalar,
    VectorUnary,
)
from ascend_sim.isa.vector.named import NamedInstruction, named
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.workbench import Workbench, covered

pytestmark = pytest.mark.fast

GM0, GM1 = gm_operand(0, 96), gm_operand(1, 40)


def example(kind: type[NamedInstruction], dtype: str) -> tuple[Instruction, int, int, int]:
    """An instruction of a file of its own on the operands of its example, one behind the other in UB."""
    operands: list[LocalTensor | float] = []
    end = 64
    for one in kind.operands(dtype):
        operands.append(tensor := LocalTensor(end, *one) if isinstance(one, tuple) else one)
        end += -(-tensor.nbytes // 64) * 64 + 64 if isinstance(tensor, LocalTensor) else 0
    places = [one.address for one in operands if isinstance(one, LocalTensor)]
    dst, src0, src1, *_ = (*places, 0, 0)
    return kind.of(*operands), dst, src0, src1


CASES: list[tuple[Instruction, int, int, int]] = [
    (DataCopy("GM", "UB", 70, 3, 200, 96), 64, GM0, 0),
    (DataCopy("GM", "L1", 128), 32, GM0, 0),
    (DataCopyPadded("GM", "UB", 10, 3, 14, 32, "", "", 2, 4, 0x1234, 2), 64, GM0, 0),
    (ScalarLoad("UB", 4), 0, 68, 0),
    (ScalarStore("UB", 2), 66, -7, 0),
    (ScalarCopy("UB", 4), 68, 132, 0),
    (ReduceWithIndex(3, 40, 256, "max", "float32"), 1024, 0, 0),
    (ReduceWithIndex(2, 61, 256, "min", "float16", "index", Mask(0x1001100010010101, 128)), 1024, 0, 0),
    (ReducePieces("repeat", "max", "float32", 40, 3, 288, 16, Mask(0x9F00000011, 64), (32, 64), "value index"), 1024, 0, 0),
    (ReducePieces("repeat", "sum", "float16", 128, 2, 256, 6, None, (32, 96)), 2048, 0, 0),
    (ReducePieces("block", "min", "float32", 60, 3, 288, 64, Mask(0xF0F0FF0000FFF0F, 64)), 2048, 0, 0),
    (ReducePieces("pair", "sum", "float16", 32, 2, 256, 256, Mask(0xF0F3F0F3, 128), (32, 64)), 2048, 0, 0),
    (GatherMask("float32", 64, 7, 2, 288), 2048, 0, 0),
    (GatherMask("float16", 128, 7, 2, 512, 0, (32, 64)), 2048, 0, 0),
    (Duplicate("float32", 64, 1.0, 2, 544, Mask(0xFFF0, 64), (64,)), 64, 0, 0),
    (VectorCopy("float16", 32, 2, 96, 160, Mask(0x7FFF00FF, 128), (32, 64)), 64, 2048, 0),
    (VectorCast("float32", "float16", 64, "RINT", 2, 256, 512, Mask(0xFFFF0FFF, 64), (64, 64)), 64, 2048, 0),
    (Compare("lt", "float32", 64, None, 2, 288, 256, (32, 64, 32)), 64, 2048, 4096),
    (Compare("ge", "float16", 128, 1.0, 2, 0, 0, (32, 0)), 64, 2048, 0),
    (Select("float32", 64, 0, 64, None, 2, 544, 256, 288, 8, Mask(0xFF01018101010F01, 64), (64, 32, 32)), 64, 2048, 4096),
    (Select("float16", 128, 32, 0, 2.0, 2, 288, 256), 64, 2048, 4096),
    (PairReduceSum("float16", 45), 1024, 0, 0),
    (DataCopy("UB", "GM", 50, 4, 64, 500), GM1, 96, 0),
    (DataCopy("L1", "GM", 32, 2, 32, 32), GM1, 96, 0),
    (DataCopy("UB", "GM", 64, 2, 96, 100, "float32"), GM1, 96, 0),
    (DataCopyPlanes("UB", "GM", 4, 5, 4, 36, "", "", 3, 64, 400), GM1, 96, 0),
    (DataCopyNd2Nz(5, 20, 2, 100, 8), 32, GM0, 0),
    (DataCopyNd2Nz(5, 20, 4, 100, 5), 32, GM0, 0),
    (DataCopyNd2Nz(5, 20, 4, 100, 11, "", 2), 32, GM0, 0),
    (DataCopyNd2Nz(3, 33, 1, 60, 4), 32, GM0, 0),
    (DataCopyDn2Nz(20, 5, 2, 30, 32, 160), 32, GM0, 0),
    (DataCopyDn2Nz(9, 3, 4, 40, 64, 500, 2, 400, 250), 32, GM0, 0),
    (DataCopyDn2Nz(3, 4, 2, 24, 128, 512, 4, 72, 32), 32, GM0, 0),
    (Fill("L1", 96), 64, 0, 0),
    (Fill("L0A", 512), 512, 0, 0),
    (Fill("L0B", 1024), 512, 0, 0),
    (LoadData2D("L0A", 2, 3, 2), 512, 64, 0),
    (LoadData2D("L0A", 2, 3, 2, True, 3), 512, 64, 0),
    (LoadData2D("L0B", 2, 3, 1, True), 512, 64, 0),
    (LoadData2D("L0B", 4, 2, 3), 512, 64, 0),
    (LoadData2D("L0A", 4, 2, 4, True, 2), 512, 64, 0),
    (LoadData2D("L0B", 4, 2, 4, True, 1, 2), 512, 64, 0),
    (LoadData3D("L0A", 2, 5, 4, 2, 3, 1, 2, 1, 1, 1, 1, 4, 2, 1, 7, 32, 80), 0, 64, 0),
    (LoadData3D("L0A", 2, 5, 4, 2, 3, 1, 1, 1, 1, 0, 0, 4, 2, 1, 7, 32, 80, True), 0, 64, 0),
    (LoadData3D("L0B", 2, 5, 4, 2, 2, 2, 1, 2, 1, 1, 0, 3, 3, 2, 6, 16, 64), 0, 64, 0),
    (LoadData3D("L0B", 4, 5, 4, 2, 2, 2, 1, 2, 1, 1, 0, 3, 3, 2, 6, 16, 40), 0, 64, 0),
    (LoadData3D("L0A", 4, 5, 4, 1, 1, 1, 1, 1, 1, 0, 0, 5, 4, 3, 9, 8, 16, True), 0, 64, 0),
    (LoadData3D("L0A", 2, 2, 2, 1, 1, 1, 1, 1, 1, 3, 0, 2, 2, 0, 4, 0, 16), 0, 64, 0),  # padding only
    (LoadData3D("L0B", 4, 3, 2, 2, 2, 1, 1, 1, 1, 0, 0, 2, 1, 0, 16, 8, 8, False, 2, 4, 3), 0, 64, 0),  # runs of columns
    (Mmad(20, 24, 33, "float16", False), 1024, 512, 512),
    (Mmad(20, 24, 33, "bfloat16", True), 1024, 512, 512),
    (Mmad(16, 12, 17, "float32", True), 1024, 512, 512),
    (Mmad(16, 12, 17, "hf32", False, 11), 1024, 512, 512),
    (Mmad(1, 32, 33, "float16", False, gemv=True), 1024, 512, 512),
    (Mmad(1, 24, 33, "float32", True, gemv=True), 1024, 512, 512),
    (Mmad(20, 24, 33, "float16", False, bias=192), 1024, 512, 512),
    (Mmad(1, 24, 33, "float32", False, gemv=True, bias=0), 1024, 512, 512),
    (Mmad(20, 70, 33, "int8", False, bias=64), 1024, 512, 512),
    (FixpipeNd(10, 21, 32, "int32", 100), GM1, 1024, 0),
    (FixpipeNd(10, 21, 32, "float16", 100, False, Quantisation("int32", by_column=True)), GM1, 1024, 128),
    (Fixpipe(10, 40, 16, "int8", 16, 300, False, Quantisation("int32", 2.0**-24, relu=True)), GM1, 1024, 0),
    (FixpipeToL1(10, 40, 16, "int8", 32, 360, False, Quantisation("int32", by_column=True)), 96, 1024, 128),
    (FixpipeToL1(10, 40, 16, "float16", 16, 352), 96, 1024, 0),
    (LoadBias(48, "float16"), 128, 64, 0),
    (LoadBias(48, "float32"), 128, 64, 0),
    (Fixpipe(10, 40, 16, "int8", 32, 360, False, Quantisation("int32", 2.0**-24)), GM1, 1024, 0),
    (Fixpipe(10, 60, 16, "uint8", 32, 320, True, Quantisation("int32", by_column=True)), GM1, 1024, 128),
    (Fixpipe(10, 40, 16, "float16", 16, 700), GM1, 1024, 0),
    (Fixpipe(10, 40, 32, "float32", 8, 400), GM1, 1024, 0),
    (Fixpipe(10, 24, 16, "float32", 8, 400, True), GM1, 1024, 0),
    (Fixpipe(10, 24, 16, "bfloat16", 16, 400, True), GM1, 1024, 0),
    (FixpipeNd(10, 40, 16, "float16", 92), GM1, 1024, 0),
    (FixpipeNd(10, 21, 32, "float32", 100), GM1, 1024, 0),
    (FixpipeNd(10, 21, 32, "float32", 100, True), GM1, 1024, 0),
    (FixpipeDn(10, 20, 16, 0, "float16", 2, 44), GM1, 1024, 0),
    (FixpipeDn(5, 8, 16, 8, "float32", 400, 36), GM1, 1024, 0),
    (FixpipeDn(5, 8, 16, 0, "float32", 400, 36, True), GM1, 1024, 0),
    (VectorBinary("add", "float16", 37), 512, 64, 1024),
    (VectorBinary("max", "float32", 9), 512, 64, 1024),
    (VectorMulAdd("mul_add", "float32", 9, 2, 96, 64, None, (), 128), 2048, 64, 1024),
    (VectorMulAdd("fused_mul_add", "float32", 9, 2, 96, 64, None, (), 128), 2048, 64, 1024),
    (VectorBinary("sub_relu", "float16", 37), 512, 64, 1024),
    (VectorCast("float32", "float16", 21, "RINT"), 512, 64, 0),
    (VectorCast("bfloat16", "float32", 21, "NONE"), 512, 64, 0),
    (Duplicate("float16", 21), 512, 0, 0),
    (Duplicate("float32", 5, 2.5), 512, 0, 0),
    (ReduceRows(3, 20, 96), 512, 64, 0),
    (VectorUnary("not", "int16", 37), 512, 64, 0),
    (VectorUnary("relu", "float32", 20, 3, 160, 96), 2048, 64, 0),
    (VectorUnary("reciprocal", "float16", 150, 2, 352, 0, Mask(0b1011 << 60 | 5, 128)), 2048, 64, 0),
    (VectorBinary("or", "uint16", 30, 3, 96, 64, None, (), 0), 2048, 64, 1024),
    (VectorBinary("sub", "int32", 100, 2, 512, 416, Mask(0xF0F0, 64), (), 448), 4096, 64, 1024),
    (VectorScalar("adds", "int32", 33, scalar=77), 512, 64, 0),
    (VectorScalar("axpy", "float32", 20, 2, 128, 96, None, (), 1.5), 512, 64, 0),
    (VectorBinary("mul", "float32", 64, 3, 256, 256, None, (32, 32, 0), 32), 2048, 64, 1024),
    (VectorBinary("add", "int32", 64, 2, 32, 512, None, (64, 32, 32), 256), 2048, 64, 1024),
    (VectorMulAdd("mul_add", "float16", 48, 2, 256, 96, Mask(0xFF0F << 24, 128), (64, 32, 0), 0), 2048, 64, 1024),
    (VectorUnary("abs", "float32", 32, 2, 256, 0, Mask(0x0F0FF0F3, 64), (64, 0)), 2048, 64, 0),
    (VectorScalar("axpy", "float32", 24, 2, 256, 96, None, (64, 32), 1.5), 2048, 64, 0),
    (VectorCast("float32", "int32", 21, "RINT", 3, 96, 128), 2048, 64, 0),
    (VectorCast("int16", "float16", 21, "RINT"), 512, 64, 0),
    (Duplicate("int32", 5, 7, 3, 64), 512, 0, 0),
    (Duplicate("float16", 130, 2.5, 2, 288, Mask(0b1110001, 128)), 512, 0, 0),
    (VectorCopy("bfloat16", 21), 512, 64, 0),
    (VectorCopy("float32", 21, 3, 96, 0), 512, 64, 0),
    (VectorCopy("int32", 70, 2, 320, 288, Mask(0b110011, 64)), 2048, 64, 0),
    (BroadcastColumn("float32", 20, 5, 96), 2048, 64, 0),
    (Transpose("float16", 5, 20, 32, 64), 2048, 64, 0),
    (Transpose("float32", 1, 8, 32, 32), 2048, 64, 0),
    *((TransposeHalves("int8", 64, 32, upper, not upper), 2048, 64, 0) for upper in (False, True)),
    (Interleave(2, 21), 512, 64, 1024),
    (Scatter("float32", 3, 5, 16, 5 * 64, 64, 4, 192, 12), 2048, 64, 0),  # [tap][row][channel] to [row][channel][tap]
    (Scatter("float32", 3, 5, 16, 5 * 64, 64, 64, 192, 4), 2048, 64, 0),
    (Scatter("float32", 2, 5, 8, 5 * 64, 64, 4, 256, 32), 2048, 64, 0),
    (Scatter("float32", 1, 5, 16, 0, 64, 0, 4, 32), 2048, 64, 0),
    (Scatter("float32", 1, 5, 8, 0, 64, 0, 288, 36, 12), 2048, 64, 0),
    (Scatter("float32", 2, 3, 16, 3 * 64, 64, 1024, 4, 40), 2048, 64, 0),
    (Gather("float16", 24, 40), 2048, 64, 1024),
    (ReduceRows(3, 20, 96, "max", "float16"), 512, 64, 0),
    (ReduceRows(3, 20, 96, "sum", "int32"), 512, 64, 0),
    (ReduceBlocks("sum", "float16", 70), 512, 64, 0),
    (ReduceBlocks("min", "float32", 24), 512, 64, 0),
    (Compare("lt", "float16", 256), 2048, 64, 1024),
    (Compare("ne", "int32", 128, 5), 2048, 64, 0),
    (Select("float32", 21, 32, 0), 2048, 64, 1024),
    (Select("int16", 21, 0, 64), 2048, 64, 1024),
    (Select("float16", 21, scalar=-1.5), 2048, 64, 1024),
    (TransposeBlocks(True, 2, 5, 7, 32, 64), 512, 64, 0),
    (TransposeBlocks(True, 4, 3, 7, 30 * 4, 32, 4, 2, 600, 224), 4096, 64, 0),
    (TransposeBlocks(False, 2, 5, 7, 32, 64, 3), 512, 64, 0),
    (TransposeBlocks(False, 4, 8, 5, 20, 32, 0, 2, 200, 160), 512, 64, 0),
    *(example(kind, dtype) for kind in named().values() for dtype in kind.dtypes),
]  # fmt: skip
IDS = [f"{instruction.name}-{i}" for i, (instruction, *_) in enumerate(CASES)]

MOVES = (
    DataCopy, DataCopyDn2Nz, DataCopyNd2Nz, LoadData2D, TransposeBlocks, Transpose, VectorCopy, BroadcastColumn, Scatter,
)  # fmt: skip
"""They move bytes as they are, so every byte that they read shows in what they write."""


OFFSETS = np.arange(24, dtype=np.uint32)[::-1] * 2
"""Where the gather reads: its offsets must be such, random bytes are refused."""


class GatherBench(Workbench):
    """With offsets for a gather where its second source lies."""

    def __init__(self, seed: int, instruction: Instruction) -> None:
        super().__init__(seed)
        self.prepare(instruction)

    def prepare(self, instruction: Instruction) -> None:
        if isinstance(instruction, Gather):
            self.put("UB", 1024, OFFSETS)


def spread(places: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("dst", "src0", "src1"), places, strict=True))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_bytes_outside_the_reads_do_not_matter(case: tuple[Instruction, int, int, int]) -> None:
    instruction, *places = case
    read = covered((*instruction.reads(), *(instruction.writes() if instruction.atomic else ())), spread(tuple(places)))  # type: ignore[arg-type]
    written = covered(instruction.writes(), spread(tuple(places)))  # type: ignore[arg-type]
    plain, noisy = GatherBench(1, instruction), GatherBench(1, instruction)
    other = Workbench(2).snapshot()
    for name, bytes_now in {**noisy.memory.buffers, "GM0": noisy.memory.gm[0], "GM1": noisy.memory.gm[1]}.items():
        keep = np.zeros(len(bytes_now), np.bool_)
        keep[list(read.get(name, ()))] = True
        bytes_now[~keep] = other[name][~keep]
    for bench in (plain, noisy):
        bench.do(instruction, *places)
    after, after_noise = plain.snapshot(), noisy.snapshot()
    for name, touched in written.items():
        index = sorted(touched)
        np.testing.assert_array_equal(after[name][index], after_noise[name][index])


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_exactly_the_written_bytes_change(case: tuple[Instruction, int, int, int]) -> None:
    instruction, *places = case
    written = covered(instruction.writes(), spread(tuple(places)))  # type: ignore[arg-type]
    changed: dict[str, set[int]] = {}
    for seed in range(12):  # a byte that is written now and then gets the value that it had
        bench = GatherBench(seed, instruction)
        before = bench.snapshot()
        bench.do(instruction, *places)
        for name, now in bench.snapshot().items():
            changed.setdefault(name, set()).update(np.flatnonzero(now != before[name]).tolist())
    for name, bytes_changed in changed.items():
        assert bytes_changed <= written.get(name, set()), name
    # The low bytes of a sum may stay.
    adds_up = getattr(instruction, "accumulate", False) or instruction.atomic or getattr(instruction, "operation", "") == "axpy"
    if not adds_up:
        assert {name: b for name, b in changed.items() if b} == written


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c[0], MOVES) and not c[0].atomic])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_byte_that_is_read_shows(case: tuple[Instruction, int, int, int], data: st.DataObject) -> None:
    instruction, *places = case
    read = covered(instruction.reads(), spread(tuple(places)))  # type: ignore[arg-type]
    ((name, touched),) = read.items()
    index = data.draw(st.sampled_from(sorted(touched)))
    if isinstance(instruction, TransposeBlocks) and not instruction.to_c0:
        first = 32 // instruction.itemsize  # elements of a block that belong to no row go to waste
        within = ((index - places[1]) % instruction.block_stride) // instruction.itemsize
        if not instruction.first <= within < min(instruction.first + instruction.channels, first):
            return
    plain, changed = Workbench(1), Workbench(1)
    space = changed.memory.gm[int(name[2:])] if name.startswith("GM") else changed.memory.buffers[name]
    space[index] ^= 0x55
    before = (changed.snapshot(), plain.snapshot())
    for bench in (plain, changed):
        bench.do(instruction, *places)
    after = (changed.snapshot(), plain.snapshot())
    written = covered(instruction.writes(), spread(tuple(places)))  # type: ignore[arg-type]
    assert before[0][name][index] != before[1][name][index]
    assert any((after[0][n][sorted(b)] != after[1][n][sorted(b)]).any() for n, b in written.items())


def test_map_rows_that_a_load_slides_over() -> None:
    """The rows of the map that two output rows of a 3 x 3 kernel see, and no others; the second channel block alone."""
    load = LoadData3D("L0A", 2, 9, 6, 3, 3, 2, 2, 1, 1, 1, 1, 5, 3, 3, 6, 9 * 16, 16)
    (region,) = load.reads()
    assert region.offset == 9 * 6 * 32 + 1 * 6 * 32  # output rows 1 and 2 see map rows 1 to 5
    assert (region.row_bytes, region.rows) == (5 * 6 * 32, 1)
