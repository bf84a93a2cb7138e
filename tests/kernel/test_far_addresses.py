"""Addresses and strides that a user's kernel may get wrong by far: refused in one line, stamped or not, by numpy and by C."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ascend_sim import Kernel, Tensor, check_kernel, empty, kernel_function
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import OFFSET_MASK, gm_operand
from ascend_sim.memory.regions import Region

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
SIZES = (1 << 16, 1 << 15)
UB = CHIP.buffers["UB"]


@frozen
class FarPlanes(Instruction):
    """Planes of rows of bytes of GM that nobody declares, so that nothing but their size can be refused."""

    row_bytes: int
    rows: int
    row_stride: int
    planes: int = 1
    plane_stride: int = 0

    name = "touching"

    def pipe(self, chip: ChipSpec) -> str:
        return "MTE3"

    def writes(self) -> tuple[Region, ...]:
        shape = (self.row_bytes, self.row_stride, self.rows, self.plane_stride, self.planes)
        return (Region("dst", "GM", *shape),)


def touch(*numbers: int) -> Callable[[KernelBuilder], object]:
    return lambda k: k._emit((FarPlanes, *numbers), gm_operand(0, 0))


def refusal(write: Callable[[KernelBuilder], object]) -> str:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", SIZES)
    with pytest.raises(SimError) as refused:
        write(k)
        k.finish()
    return str(refused.value)


@pytest.mark.parametrize("address", [(1 << 63) - 64, (1 << 63) - 32, 1 << 62, -(1 << 63), -32])
def test_an_address_does_not_wrap(address: int) -> None:
    said = refusal(lambda k: k.data_copy("GM", "UB", address, gm_operand(0, 0), 64))
    assert f"dst covers bytes {address} to {address + 64} of {UB}" in said


@pytest.mark.parametrize("address", [1 << 63, -(1 << 63) - 1, 1 << 70])
def test_an_address_fits_into_64_bits(address: int) -> None:
    said = refusal(lambda k: k.data_copy("GM", "UB", address, gm_operand(0, 0), 64))
    assert said == "block 0 AIV: an address of data_copy must fit into 64 bits"


@pytest.mark.parametrize("stride", [1 << 44, (1 << 63) - 4096, (1 << 63) - 96, 1 << 64])
def test_a_stride_goes_no_further_than_an_offset(stride: int) -> None:
    """An instruction of one's own is refused for its reach; copies are refused for their gaps before."""
    said = refusal(touch(32, 2, stride))
    assert said == f"touching goes over {stride + 32} bytes of GM; at most {OFFSET_MASK}"


@pytest.mark.parametrize("numbers", [(32, 2, 32, 2, 1 << 50), (32, 2, 32, 1, 1 << 70), (32, 1, 1 << 70)])
def test_so_does_a_stride_of_planes(numbers: Sequence[int]) -> None:
    """One that nobody steps by as well."""
    said = refusal(touch(*numbers))
    assert said.startswith("touching goes over ") and said.endswith(f" bytes of GM; at most {OFFSET_MASK}")


@pytest.mark.parametrize("kind", [int, np.int64])
def test_rows_on_one_another_are_counted(kind: type) -> None:
    for rows, most in ((1 << 40, f"goes over {1 << 45} bytes of GM; at most {OFFSET_MASK}"), (1 << 60, "goes over")):
        assert refusal(touch(kind(32), kind(rows), 0)).startswith(f"touching {most}")
    assert refusal(touch(32, (1 << 24) + 1, 0)) == f"touching has {(1 << 24) + 1} rows; at most {1 << 24}"


def test_rows_without_gaps_are_one() -> None:
    """However many they are said to be."""
    assert f"dst covers bytes 0 to {1 << 25} of {SIZES[0]}" in refusal(touch(1, 1 << 25, 1))


@pytest.mark.parametrize("kind", [int, np.int32, np.int64])
def test_numbers_of_numpy_do_not_wrap(kind: type) -> None:
    said = refusal(lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, 0), 32, 5, kind(1 << 30), 32))
    assert f"src0 covers bytes 0 to {4 * (1 << 30) + 32} of {SIZES[0]}" in said


@pytest.mark.parametrize("kind", [int, np.uint8])
def test_small_numbers_of_numpy_do_not_either(kind: type) -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", SIZES)
    k.data_copy("GM", "UB", 0, gm_operand(0, 0), kind(64), kind(100), kind(64), kind(64))
    assert len(k.finish().rows) == 1


@pytest.mark.parametrize(("slot", "before"), [(1, 32), (0, 32), (1, 1 << 20)])
@pytest.mark.parametrize("stamping", [True, False])
def test_what_starts_before_its_tensor_says_so(slot: int, before: int, stamping: bool) -> None:
    def write(k: KernelBuilder) -> None:
        k.stamping = stamping
        for _, at in k.stamped([("piece", 0)]):
            k.data_copy("UB", "GM", gm_operand(slot, at * 32 - before), 0, 32)

    assert f"dst starts {before} bytes before tensor {slot}" in refusal(write)


@pytest.mark.parametrize("place", [1 << 58, 1 << 57, (1 << 63) - 1, -(1 << 62)])
def test_a_stamped_loop_does_not_wrap(place: int) -> None:
    """Times 64 it is 0 or nearly so, if nobody looks."""

    def write(k: KernelBuilder) -> None:
        for _, at in k.stamped([("piece", 0), ("piece", place)]):
            k.data_copy("GM", "UB", at * 64 + 32, gm_operand(0, 0), 32)

    assert refusal(write).startswith("block 0 AIV0: ")


def test_a_check_of_such_a_kernel_tells_of_it() -> None:
    """Where it is looked at and not run."""

    @kernel_function(core="AIV")
    def far(k: Kernel, x: Tensor, y: Tensor) -> None:
        k.vector_duplicate((1 << 63) - 64, "float16", 32)
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 64)

    x = np.ones((1, 32), np.float16)
    found = check_kernel(far, 1, x, empty(x.shape, "float16"), chip="ascend910b3").findings
    assert ("memcheck", "illegal write of size 64") in [(one.tool, one.title) for one in found]


FAR_LOOPS: dict[str, tuple[int, Callable[[KernelBuilder, int], object]]] = {
    "address": (0, lambda k, at: k.data_copy("GM", "UB", 1 << 70, gm_operand(0, 0) + at * 32, 32)),
    "start": (0, lambda k, at: k.data_copy("GM", "UB", at * 32 + (1 << 70), gm_operand(0, 0), 32)),
    "place": (1 << 70, lambda k, at: k.data_copy("GM", "UB", at * 32, gm_operand(0, 0), 32)),
    "step": (1, lambda k, at: k.data_copy("GM", "UB", at * (1 << 63), gm_operand(0, 0), 32)),
    "long step": (1, lambda k, at: k.data_copy("GM", "UB", at * (1 << 70), gm_operand(0, 0), 32)),
}


@pytest.mark.parametrize("stamping", [True, False])
@pytest.mark.parametrize("name", FAR_LOOPS)
def test_what_no_row_can_hold_is_one_line(name: str, stamping: bool) -> None:
    place, body = FAR_LOOPS[name]

    def write(k: KernelBuilder) -> None:
        k.stamping = stamping
        for _, at in k.stamped([("piece", 0), ("piece", place)]):
            body(k, at)

    assert refusal(write).endswith("must fit into 64 bits")


def test_many_tensors_are_not_far() -> None:
    """In a loop over them and inside of them."""
    count = 5000
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 20] * count)
    for _, (slot, at) in k.stamped([("piece", (slot, slot * 128)) for slot in range(count)]):
        k.data_copy("GM", "UB", 0, slot * (1 << 44) + at, 32)
    assert len(k.finish().rows) == count


def repeated(table: InstructionTable, block: int, places: list[int], stamping: bool) -> Program:
    """Copies from the start of tensors, number by number, to UB at `block` times 32."""
    k = KernelBuilder(table, block, "AIV", SIZES)
    k.stamping = stamping
    pieces = [("piece", (place, block)) for place in places]

    def write() -> Program:
        for _, (slot, at) in k.stamped(pieces):
            k.data_copy("GM", "UB", at * 32, slot * (1 << 44), 32)
        return k.finish()

    return k.repeated(pieces, write)


@pytest.mark.parametrize("block", [0, 1, 7, UB // 32 - 1, UB // 32, 100_000])
def test_a_program_over_several_tensors_moves_no_further_than_it_may(block: int) -> None:
    """How far it may is not known of a stamp that goes from one tensor to the next."""
    table = InstructionTable(CHIP)
    first = repeated(table, 2, [0, 1], stamping=True)  # a table knows it as long as it is there
    assert len(first.rows) == 2
    try:
        plain = repeated(InstructionTable(CHIP), block, [0, 1], stamping=False)
    except SimError as error:
        with pytest.raises(SimError) as refused:
            repeated(table, block, [0, 1], stamping=True)
        assert str(refused.value) == str(error)
        return
    assert np.array_equal(plain.rows, repeated(table, block, [0, 1], stamping=True).rows)
