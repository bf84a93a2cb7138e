"""Operands that lie over each other, against a unit that goes repeat by repeat and byte by byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import (
    GatherMask,
    ReduceBlocks,
    Select,
    SelectByRegister,
    SelectRegisterScalar,
    VectorBinary,
    VectorBinaryCast,
    VectorCast,
    VectorScalar,
    VectorUnary,
)
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.isa.vector.overlap import overlap_fault
from ascend_sim.isa.vector.pieces import ReducePieces
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")


def repeats(i: Any, stride: int, size: int, elements: int) -> list[range]:
    """Bytes of an operand from its address on, repeat by repeat."""
    found = []
    for row in range(i.rows):
        for first in range(0, i.count, elements):
            begin = (row * stride if i.rows > 1 else 0) + first * size
            found.append(range(begin, begin + min(elements, i.count - first) * size))
    return found


def by_bytes(i: Any, distance: int, sizes: tuple[int, int]) -> bool:
    """Return True if operands are equal or apart in each repeat, or the result is narrower and begins at its source, or wider
    and nowhere on an element behind its own, and no byte is read that was written before.
    """
    elements = 256 // max(sizes)
    written = repeats(i, i.dst_stride, sizes[0], elements)
    read = [range(one.start + distance, one.stop + distance) for one in repeats(i, i.src_stride, sizes[1], elements)]
    before: set[int] = set()
    for target, source in zip(written, read, strict=True):
        within = target.start == source.start and target.stop <= source.stop
        if sizes[0] > sizes[1]:
            count = len(target) // sizes[0]
            ends = [target.start + sizes[0] * (n + 1) for n in range(count)]
            within = ends[-1] <= source.stop and all(ends[n] <= source.start + sizes[1] * (n + 1) for n in range(count - 1))
        if (not within and set(target) & set(source)) or before & set(source):
            return False
        before |= set(target)
    return True


@sampled(150, 2000)
@given(
    st.sampled_from(["float16", "float32"]), st.integers(1, 200), st.integers(1, 4), st.integers(0, 6), st.integers(0, 6),
    st.integers(-40, 40),
)  # fmt: skip
def test_one_source(dtype: str, count: int, rows: int, more: int, other: int, blocks: int) -> None:
    size = 2 if dtype == "float16" else 4
    held = -(-count * size // 32) * 32
    i = VectorUnary("abs", dtype, count, rows, held + 32 * more, (held + 32 * other) * (other > 0))
    fault = overlap_fault(i, CHIP, "src0", 32 * blocks)
    assert (fault == "") == by_bytes(i, 32 * blocks, (size, size)), fault


@sampled(100, 1000)
@given(st.sampled_from(["float16>float32", "float32>float16"]), st.integers(1, 400), st.integers(-40, 40))
def test_a_cast(pair: str, count: int, blocks: int) -> None:
    source, target = pair.split(">")
    sizes = {"float16": 2, "float32": 4}
    i = VectorCast(source, target, count, "NONE")
    fault = overlap_fault(i, CHIP, "src0", 32 * blocks)
    assert (fault == "") == by_bytes(i, 32 * blocks, (sizes[target], sizes[source])), fault


def test_a_cast_to_a_wider_format_reads_the_upper_half_of_its_result() -> None:
    """Values as numpy has them; a block further down results cover what is still to be read."""

    @asim.kernel_function(core="AIV")
    def widen(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, ahead: int) -> None:
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        wide, narrow = LocalTensor(0, (256,), "float32"), LocalTensor(ahead, (256,), "float16")
        k.gm_to_ub(narrow, x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.cast(wide, narrow)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, wide)

    x = np.random.default_rng(0).standard_normal(256).astype(np.float16)
    for chip in ("ascend910b3", "ascend310p3"):
        run = asim.launch(widen, 1, x, asim.empty(256, "float32"), ahead=512, chip=chip)
        assert (run.outputs["y"] == x).all() and not run.findings
    with pytest.raises(SimError, match="lies partly over it within a repeat"):
        asim.launch(widen, 1, x, asim.empty(256, "float32"), ahead=480)


@sampled(100, 1000)
@given(
    st.sampled_from(["repeat", "block", "pair"]), st.integers(1, 8), st.integers(1, 6), st.integers(0, 10), st.integers(0, 80),
)  # fmt: skip
def test_a_reduction_in_place(piece: str, blocks: int, rows: int, apart: int, each: int) -> None:
    """Repeats of float32, `blocks` blocks each: no byte of a result may be read by a later repeat."""
    results = {"repeat": 1, "block": blocks, "pair": 4 * blocks}[piece]
    i = ReducePieces(piece, "sum", "float32", 8 * blocks, rows, 32 * apart, 4 * each)
    before: set[int] = set()
    good = True
    for row in range(rows):
        good &= not before & set(range(32 * apart * row, 32 * apart * row + 32 * blocks))
        before |= set(range(4 * each * row, 4 * each * row + 4 * results))
    fault = overlap_fault(i, CHIP, "src0", 0)
    assert (fault == "") == good and (good or "what an earlier one wrote" in fault), fault


def test_a_reduction_of_all_elements_in_place() -> None:
    for i in (ReduceBlocks("max", "float16", 1000), PairReduceSum("float32", 500)):
        assert overlap_fault(i, CHIP, "src0", 0) == ""
        assert "a reduction in place begins where dst does" in overlap_fault(i, CHIP, "src0", 32)


def test_a_running_result() -> None:
    """Each row is added to what is there: dst and src1 in one place, with a stride of 0."""
    i = VectorBinary("add", "float32", 64, 4, 0, 256, None, (), 0)
    assert overlap_fault(i, CHIP, "src1", 0) == ""
    first = VectorBinary("add", "float32", 64, 4, 0, 0, None, (), 256)
    assert "what an earlier one wrote" in overlap_fault(first, CHIP, "src0", 0)
    assert overlap_fault(VectorBinary("sub_relu", "float16", 128, 4, 0, 256, None, (), 0), CHIP, "src1", 0) == ""
    for operation, dtype in (("div", "float32"), ("add", "int16")):
        other = VectorBinary(operation, dtype, 64, 4, 0, 256, None, (), 0)
        assert "what an earlier one wrote" in overlap_fault(other, CHIP, "src1", 0)


def test_a_selection_in_place() -> None:
    """Its tensors may lie on dst, wherever the bits lie; the bits may not."""
    i = Select("float32", 64, 1024, 0, None, 2, 256, 256, 256, 8)
    for one in (i, SelectByRegister("float32", 64, 2, 256, 256, 256)):
        assert overlap_fault(one, CHIP, "src0", 0) == overlap_fault(one, CHIP, "src1", 0) == ""
        assert "partly over it within a repeat" in overlap_fault(one, CHIP, "src1", 32)
    assert "the bits of the selection lie over dst" in overlap_fault(i, CHIP, "src1", -1024)
    behind = Select("float32", 64, 0, 4096)
    assert overlap_fault(behind, CHIP, "src1", -4096) == ""
    assert "partly over it within a repeat" in overlap_fault(behind, CHIP, "src1", -4064)
    for scalar in (Select("float32", 64, 0, 0, 1.0), SelectRegisterScalar("float32", 64)):
        assert overlap_fault(scalar, CHIP, "src1", 256) == overlap_fault(scalar, CHIP, "src0", 0) == ""
        assert "the bits of the selection" in overlap_fault(scalar, CHIP, "src1", 0)


def test_a_result_that_is_cast_lies_on_its_source_or_apart() -> None:
    i = VectorBinaryCast("mul", "float16", "int8", 256)
    assert overlap_fault(i, CHIP, "src1", 0) == overlap_fault(i, CHIP, "src0", 256) == ""
    assert "partly over it" in overlap_fault(i, CHIP, "src0", 96)


@pytest.mark.parametrize(
    ("pattern", "stride", "said"), [(2, 256, ""), (2, 128, ""), (2, 96, "an earlier"), (0, 224, "an earlier")]
)
def test_elements_are_gathered_in_place(pattern: int, stride: int, said: str) -> None:
    """Where a repeat may write at most what it has read (example of the public page)."""
    i = GatherMask("float32", 64, pattern, 3, stride)
    assert said in overlap_fault(i, CHIP, "src0", 0) and bool(said) == bool(overlap_fault(i, CHIP, "src0", 0))
    assert "begins where dst does" in overlap_fault(i, CHIP, "src0", 32)


@pytest.mark.parametrize(
    ("blocks", "dst_stride", "src_stride", "distance", "said"),
    [
        ((64, 64), 512, 512, 0, ""),
        ((64, 64), 512, 512, 32, ""),
        ((64, 64), 512, 512, 64, "partly over it within a repeat"),
        ((32, 0), 256, 0, 0, "partly over it within a repeat"),
        ((32, 0), 256, 32, 2048, ""),
        ((96, 96), 32, 32, 0, ""),
        ((64, 32), 32, 256, -256, "what an earlier one wrote"),
        ((64, 64), 512, 512, -512, "what an earlier one wrote"),
        ((64, 64), 512, 512, 512, ""),
        ((64, 64), 512, 0, 512, "what an earlier one wrote"),  # the third repeat, of the second
    ],
)
def test_blocks_that_do_not_adjoin(blocks: tuple[int, int], dst_stride: int, src_stride: int, distance: int, said: str) -> None:
    i = VectorUnary("abs", "float32", 64, 3, dst_stride, src_stride, None, blocks)
    fault = overlap_fault(i, CHIP, "src0", distance)
    assert said in fault if said else not fault, fault


def write(body: Callable[[KernelBuilder], object]) -> str:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [])
    try:
        body(k)
        k.finish()
    except SimError as error:
        return str(error)
    return ""


def tensor(address: int, shape: tuple[int, ...], dtype: str = "float32") -> LocalTensor:
    return LocalTensor(address, shape, dtype)


OVER: dict[str, Callable[[KernelBuilder], object]] = {
    "a block behind": lambda k: k.adds(tensor(32, (1000,)), tensor(0, (1000,)), 1.0),
    "a repeat behind": lambda k: k.adds(tensor(256, (1000,)), tensor(0, (1000,)), 1.0),
    "the second source": lambda k: k.add(tensor(32, (64,)), tensor(4096, (64,)), tensor(0, (64,))),
    "a reduction": lambda k: k.reduce_sum(tensor(256, (8,)), tensor(0, (8, 64))),
    "turned in place": lambda k: k.transpose(tensor(0, (32, 32)), tensor(0, (32, 32))),
    "two in turn": lambda k: k.interleave(0, 0, 4096, 2, 64) if "interleave" in k.chip.vector.ops else k.gather(
        tensor(0, (64,)), tensor(0, (64,)), tensor(4096, (64,), "uint32")
    ),
    "mask bits": lambda k: k.compare(tensor(0, (128,), "uint8"), "lt", tensor(0, (1024,)), tensor(8192, (1024,))),
}  # fmt: skip
APART: dict[str, Callable[[KernelBuilder], object]] = {
    "in place": lambda k: k.adds(tensor(0, (1000,)), tensor(0, (1000,)), 1.0),
    "a block before": lambda k: k.adds(tensor(0, (1000,)), tensor(1024 * 4, (1000,)), 1.0),
    "a repeat ahead": lambda k: k.adds(tensor(0, (1000,)), tensor(256, (1000,)), 1.0),
    "both sources": lambda k: k.add(tensor(0, (64,)), tensor(0, (64,)), tensor(0, (64,))),
    "a reduction in place": lambda k: k.reduce_sum(tensor(0, (8,)), tensor(0, (8, 64))),
    "beside": lambda k: k.reduce_sum(tensor(8 * 256, (8,)), tensor(0, (8, 64))),
    "a square turned in place": lambda k: k.transpose(tensor(0, (16, 16), "float16"), tensor(0, (16, 16), "float16")),
}


@pytest.mark.parametrize("name", OVER)
def test_a_program_is_refused_when_it_is_finished(name: str) -> None:
    said = write(OVER[name])
    assert said.startswith("block 0 AIV0: 0 V ") and "asc-devkit, general constraints" in said and "\n" not in said


@pytest.mark.parametrize("name", APART)
def test_operands_that_are_the_same_or_apart_are_taken(name: str) -> None:
    assert write(APART[name]) == ""


@pytest.mark.parametrize("stamping", [True, False])
def test_stamps_are_looked_at_too_once_for_all_places(stamping: bool) -> None:
    """Also where a source moves against its result: over it in the third piece alone."""

    def loop(step: int) -> Callable[[KernelBuilder], object]:
        def body(k: KernelBuilder) -> None:
            k.stamping = stamping
            for _, at in k.stamped([("piece", i) for i in range(4)]):
                k.vector_binary("add", 4096, at * step, 16384, "float32", 64)

        return body

    assert write(loop(256)) == ""
    assert "2 V vector_binary dst=UB+0x1000 src0=UB+0xfc0" in write(loop(2016))
    assert write(loop(2048)) == ""  # the same place


def test_a_check_tells_of_it() -> None:
    @asim.kernel_function(core="AIV")
    def shifted(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        a, loaded, done = (k.local_tensor(1024, "float32", "a"), k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done"))
        k.gm_to_ub(a[:1016], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.adds(a[8:], a[:1016], 1.0)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, a[8:])

    found = asim.check_kernel(shifted, 1, np.zeros(1016, np.float32), asim.empty(1016, "float32")).findings
    assert any("lies partly over it within a repeat" in f"{one.title} {one}" for one in found), found
    with pytest.raises(SimError, match="lies partly over it within a repeat"):
        asim.launch(shifted, 1, np.zeros(1016, np.float32), asim.empty(1016, "float32"))


def test_scalars_have_one_source() -> None:
    i = VectorScalar("adds", "float32", 64, scalar=1.0)
    assert overlap_fault(i, CHIP, "src0", 0) == ""
