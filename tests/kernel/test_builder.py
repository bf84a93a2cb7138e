"""Programs and refusals of the builder: each refusal names core, instruction and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import MapWindow, Span
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
KIB = 1024
TENSORS = [4096, 100]


def builder(kind: str = "AIC", block: int = 7, **options: Any) -> KernelBuilder:
    return KernelBuilder(InstructionTable(CHIP), block, kind, TENSORS, **options)


def made(write: Callable[[KernelBuilder], object], kind: str = "AIC", **options: Any) -> Program:
    k = builder(kind, **options)
    write(k)
    return k.finish()


# -- what it makes ---------------------------------------------------------------------------------------------------------


def test_rows_in_order_with_their_addresses_and_tiles() -> None:
    def write(k: KernelBuilder) -> None:
        k.scalar(9)
        k.data_copy("GM", "L1", 64, gm_operand(1, 32), 64, operand="A")
        k.next_tile()
        k.mmad(1024, 512, 1536, 16, 32, 16, "float16", True)
        k.next_tile()
        k.pipe_barrier("ALL")

    program = made(write)
    assert [str(view).split(" (")[0] for view in program] == [
        "0 S scalar",
        "1 MTE2 data_copy dst=L1+0x40 src0=GM[1]+0x20",
        "2 M mmad dst=L0C+0x400 src0=L0A+0x200 src1=L0B+0x600",
        "3 S pipe_barrier",
    ]
    assert [view.tile for view in program] == [-1, -1, 0, 1]
    assert (program.tiles, program.where, len(program)) == (2, "block 7 AIC", 4)
    assert program[-1].index == 3


def test_equal_instructions_share_an_entry_of_the_table() -> None:
    def write(k: KernelBuilder) -> None:
        for i in range(100):
            k.load_data_2d("L0A", 512 * i, 0, 2, 1)
        k.load_data_2d("L0A", 0, 0, 2, 2)

    program = made(write)
    assert len(program.table.instructions) == 2
    assert program.rows[:, 0].tolist() == [0] * 100 + [1]
    assert set(program.per_row("pipe").tolist()) == {PIPES.index("MTE1")}
    work = program.per_row("work")
    assert (work[0], work[100]) == (2, 4)


def test_the_properties_of_a_table_follow_it_when_it_grows() -> None:
    table = InstructionTable(CHIP)
    first = KernelBuilder(table, 0, "AIC", TENSORS)
    first.fill("L1", 0, 64)
    one = first.finish()
    assert one.per_row("pipe").tolist() == [PIPES.index("MTE2")]
    second = KernelBuilder(table, 1, "AIC", TENSORS)
    second.load_data_2d("L0A", 0, 0, 2, 1)
    assert second.finish().per_row("pipe").tolist() == [PIPES.index("MTE1")]
    assert one.per_row("pipe").tolist() == [PIPES.index("MTE2")]


def test_allocation_is_aligned_to_what_the_buffer_holds() -> None:
    k = builder()
    assert [k.allocate("L1", 33, "a"), k.allocate("L1", 1, "b"), k.allocate("L1", 64, "c", unit=512)] == [0, 64, 512]
    assert [k.allocate("L0A", 100, "a"), k.allocate("L0A", 100, "b")] == [0, 512]
    assert [k.allocate("L0C", 100, "a"), k.allocate("L0C", 100, "b")] == [0, 1024]
    assert k.allocate("L1", CHIP.buffers["L1"] - 576, "rest") == 576


def test_flags_get_their_numbers_per_pair() -> None:
    k = builder()
    numbers = [
        k.flag(*pair, name).identity
        for *pair, name in (("MTE2", "MTE1", "a"), ("MTE1", "MTE2", "b"), ("MTE2", "MTE1", "c"), ("MTE2", "MTE1", "a"))
    ]
    assert numbers == [0, 0, 1, 0]


def test_a_dropped_set_leaves_the_program() -> None:
    k = builder()
    flag = k.flag("MTE2", "MTE1", "x")
    k.scalar(1)
    k.set_flag(flag)
    k.scalar(2)
    k.drop_set(flag)
    assert [view.instruction.name for view in k.finish()] == ["scalar", "scalar"]


# -- what it refuses -------------------------------------------------------------------------------------------------------


def refused(write: Callable[[KernelBuilder], object], *words: str, kind: str = "AIC") -> None:
    with pytest.raises(SimError) as error:
        made(write, kind)
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


def test_a_wait_without_a_set() -> None:
    def write(k: KernelBuilder) -> None:
        flag = k.flag("MTE2", "MTE1", "full")
        k.wait_flag(flag)
        k.set_flag(flag)
        k.wait_flag(flag)
        k.wait_flag(flag)

    refused(
        write,
        "block 7 AIC: flag 'full' (MTE2->MTE1) is waited for more often than set; waits without a set: 2; MTE1 would wait",
    )


def test_a_wait_before_its_set_is_taken() -> None:
    def write(k: KernelBuilder) -> None:
        flag = k.flag("MTE2", "MTE1", "full")
        k.wait_flag(flag)
        k.set_flag(flag)

    assert len(made(write, "AIC")) == 2


@pytest.mark.parametrize("times", [1, 2])
def test_a_flag_left_raised(times: int) -> None:
    def write(k: KernelBuilder) -> None:
        for _ in range(times):
            k.set_flag(k.flag("MTE2", "MTE1", "full"))

    refused(
        write, "block 7 AIC", "flag 'full' (MTE2->MTE1)", f"still raised at the end of the block; sets without a wait: {times}"
    )


def test_more_flags_than_the_chip_has() -> None:
    def write(k: KernelBuilder) -> None:
        for i in range(CHIP.sync.flag_ids + 1):
            k.flag("M", "MTE1", "other direction") if i == 0 else None
            k.flag("MTE1", "M", f"flag {i}")

    refused(write, "block 7 AIC", "'flag 8' is number 9 from MTE1 to M", "the chip has 8", "sync.flag_ids")


def test_one_name_for_two_flags() -> None:
    def write(k: KernelBuilder) -> None:
        k.flag("MTE1", "M", "x")
        k.flag("M", "FIX", "x")

    refused(write, "flag 'x' joins MTE1 and M, not M and FIX")


@pytest.mark.parametrize(("kind", "pair", "wrong"), [("AIC", ("MTE2", "V"), "V"), ("AIV", ("M", "V"), "M")])
def test_a_flag_of_a_pipe_that_the_core_lacks(kind: str, pair: tuple[str, str], wrong: str) -> None:
    refused(lambda k: k.flag(*pair, "x"), f"block 7 {kind}", f"flag 'x' is on pipe {wrong}", "cores.kinds", kind=kind)


@pytest.mark.parametrize(
    ("kind", "pair", "there"),
    [("AIC", ("M", "MTE3"), "from M to S, MTE1, MTE2, FIX "), ("AIC", ("S", "M"), "from S to MTE2, MTE3 ")],
)
def test_a_pair_of_pipes_without_flags(kind: str, pair: tuple[str, str], there: str) -> None:
    """The overview of synchronisation inside a core lists the pairs of dav-2201; of other chips no list is known."""
    refused(lambda k: k.flag(*pair, "x"), f"flag 'x' goes from {pair[0]} to {pair[1]};", there, "sync.flag_pairs", kind=kind)
    KernelBuilder(InstructionTable(load_chip("ascend310p3")), 0, "AI_CORE", []).flag(*pair, "x")


def test_cross_core_flags_out_of_range_or_on_no_queue() -> None:
    refused(lambda k: k.cross_core_set(16, 0, "FIX"), "cross-core flag 16", "0 to 15", "sync.cross_flag_ids")
    refused(lambda k: k.cross_core_set(0, 4, "FIX"), "cross-core flag 0: mode 4; allowed are 0 ")
    refused(lambda k: k.cross_core_wait(-1, 0, "FIX"), "cross-core flag -1")
    refused(lambda k: k.cross_core_wait(1, 0, "V"), "cross-core flag 1 is on pipe V")


def test_a_path_that_the_chip_lacks() -> None:
    refused(lambda k: k.data_copy("L1", "UB", 0, 0, 32), "L1", "UB")
    refused(lambda k: k.load_data_2d("L0C", 0, 0, 2, 1), "L1", "L0C")


def test_an_instruction_of_another_core() -> None:
    refused(lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", False), "block 7 AIV", "0 M mmad", "is on pipe M", kind="AIV")
    refused(lambda k: k.vector_duplicate(0, "float16", 16), "block 7 AIC", "0 V duplicate", "is on pipe V")
    refused(lambda k: k.data_copy("GM", "UB", 0, 0, 32), "0 MTE2 data_copy", "is in UB", "L1, L0A, L0B, L0C, BT, FB")
    refused(lambda k: k.allocate("UB", 32, "x"), "x is in UB")
    refused(lambda k: k.pipe_barrier("V"), "pipe_barrier", "is on pipe V")


def test_a_core_that_the_chip_lacks() -> None:
    with pytest.raises(SimError, match=r"ascend910b3 has no core 'AI_CORE'; it has AIC, AIV"):
        builder("AI_CORE")


def test_an_address_outside_its_buffer() -> None:
    size = CHIP.buffers["L1"]
    made(lambda k: k.fill("L1", size - 64, 64))
    refused(
        lambda k: k.fill("L1", size - 32, 64),
        "block 7 AIC: 0 MTE2 fill dst=L1+0x7ffe0",
        f"dst covers bytes {size - 32} to {size + 32} of {size}",
    )
    refused(lambda k: k.fill("L1", -32, 64), "dst covers bytes -32 to 32")
    refused(
        lambda k: k.mmad(0, 65536 - 512, 0, 16, 32, 16, "float16", False), "mmad", "src0 covers bytes 65024 to 66048 of 65536"
    )
    refused(lambda k: k.load_data_2d("L0A", 0, size - 1024, 2, 2, 2), "src0 covers bytes")


def test_the_last_row_of_a_strided_transfer_counts() -> None:
    made(lambda k: k.data_copy("GM", "L1", 0, gm_operand(0, 32), 992, 4, 1024, 2048))
    refused(lambda k: k.data_copy("GM", "L1", 0, gm_operand(0, 33), 992, 4, 1024, 2048), "src0 covers bytes 33 to 4097 of 4096")
    refused(lambda k: k.data_copy("GM", "L1", 0, gm_operand(1, 5), 32, 2, 64, 32), "src0 covers bytes 5 to 101 of 100")


def test_an_offset_inside_a_region_counts() -> None:
    """A load that slides over the second channel block only."""
    size = CHIP.buffers["L1"]
    window = MapWindow(height=4, width=4, out_height=4, out_width=4)
    second = (2, window, Span(0, 16), Span(16, 16))
    made(lambda k: k.load_data_3d("L0A", 0, size - 2 * 512, *second))
    refused(lambda k: k.load_data_3d("L0A", 0, size - 2 * 512 + 32, *second), "load_data_3d", f"of {size}")


def test_a_tensor_that_the_task_lacks() -> None:
    refused(lambda k: k.data_copy("GM", "L1", 0, gm_operand(2, 0), 32), "src0 is in tensor 2, but the task has 2 tensors")
    refused(lambda k: k.data_copy("GM", "L1", 0, gm_operand(0, -32), 32), "src0 starts 32 bytes before tensor 0")


@pytest.mark.parametrize(
    ("write", "unit"),
    [
        (lambda k: k.fill("L1", 48, 64), 32),
        (lambda k: k.load_data_2d("L0A", 256, 0, 2, 1), 512),
        (lambda k: k.load_data_2d("L0A", 512, 8, 2, 1), 32),
        (lambda k: k.mmad(512, 0, 0, 16, 16, 16, "float16", False), 1024),
        (lambda k: k.fixpipe(gm_operand(0, 0), 32, 16, 16, 16, "float16", 16, 512), 64),
        (lambda k: k.fixpipe(gm_operand(0, 16), 0, 16, 16, 16, "float16", 16, 512), 32),
        (lambda k: k.data_copy("L1", "GM", gm_operand(0, 2), 0, 32, atomic_add="float32"), 4),
        (lambda k: k.data_copy("L1", "GM", gm_operand(0, 1), 0, 32, atomic_add="bfloat16", keep="max"), 2),
        (lambda k: k.fixpipe_nd(gm_operand(0, 3), 0, 16, 16, 16, "int32", 64, atomic_add=True), 4),
    ],
)
def test_an_unaligned_address(write: Callable[[KernelBuilder], object], unit: int) -> None:
    refused(write, "block 7 AIC: 0 ", f"must start at a multiple of {unit}")


def test_a_place_beyond_its_buffer_is_told_without_its_unit_where_it_is_aligned() -> None:
    with pytest.raises(SimError, match=r"covers bytes (\d+) to \d+ of \1$"):
        made(lambda k: k.fill("L1", CHIP.buffers["L1"], 64))


def test_gm_takes_any_address() -> None:
    made(lambda k: k.data_copy("GM", "L1", 0, gm_operand(0, 13), 32))
    made(lambda k: k.data_copy("L1", "GM", gm_operand(0, 13), 0, 32))
    made(lambda k: k.data_copy("L1", "GM", gm_operand(0, 13), 0, 32, atomic_add="int8"))


def test_rows_that_are_added_lie_whole_elements_apart() -> None:
    """Rows written plainly may lie anywhere, and one row has no distance to another."""
    for dtype, apart in (("float32", 66), ("float16", 65)):
        copy = ("UB", "GM", 0, 0, 64)
        made(lambda k, apart=apart, copy=copy: k.data_copy(*copy, 2, 64, apart), "AIV")
        made(lambda k, apart=apart, dtype=dtype, copy=copy: k.data_copy(*copy, 1, 64, apart, dtype), "AIV")
        with pytest.raises(SimError, match=f"rows {apart} bytes apart are not whole elements"):
            made(lambda k, apart=apart, dtype=dtype, copy=copy: k.data_copy(*copy, 2, 64, apart, dtype), "AIV")


def test_the_wrong_row_is_named() -> None:
    def write(k: KernelBuilder) -> None:
        for i in range(5):
            k.fill("L1", 64 * i if i != 3 else 65, 64)

    refused(write, "3 MTE2 fill dst=L1+0x41", "bytes 65 to 129")


def test_a_buffer_that_overflows() -> None:
    def write(k: KernelBuilder) -> None:
        k.allocate("L0A", 40 * KIB, "left")
        k.allocate("L0A", 24 * KIB + 1, "right")

    refused(write, "block 7 AIC: right needs 24577 bytes of L0A at 0xa000", "ends at 65537 of 65536 bytes", "buffers.L0A")


@pytest.mark.parametrize("shape", [(0, 1), (32, 0)])
def test_a_transfer_of_nothing(shape: tuple[int, int]) -> None:
    refused(
        lambda k: k.data_copy("GM", "L1", 1024, gm_operand(0, 2048), *shape, 64, 64),
        "block 7 AIC: 0 MTE2 data_copy",
        "moves no bytes, or steps backwards",
    )


def test_an_instruction_longer_than_an_engine_counts_is_refused() -> None:
    most = 2**31 - 1
    k = builder("AIV")
    k.scalar(most)
    with pytest.raises(SimError, match=f"scalar lasts {most + 1} cycles on ascend910b3; at most {most}"):
        k.scalar(most + 1)
    k.scalar(most)
    assert len(k.finish()) == 2


# -- what used to be taken, or ended in a traceback --------------------------------------------------------------------


@pytest.mark.parametrize("cycles", [-(10**6), -1, 1.5, True, "many", None])
def test_scalar_time_does_not_run_backwards(cycles: Any) -> None:
    refused(lambda k: k.scalar(cycles), f"scalar({cycles!r})", "a whole number of cycles from 0")


@pytest.mark.parametrize("method", ["cross_core_set", "cross_core_wait"])
def test_a_mode_of_cross_core_flags_that_there_is_not(method: str) -> None:
    refused(lambda k: getattr(k, method)(0, 7, "FIX"), "mode 7", "0 (all cores of a kind)", "2 (a cube core")


@pytest.mark.parametrize("flag", [-1, 16, 0.5, "0"])
def test_a_cross_core_flag_that_there_is_not(flag: Any) -> None:
    refused(lambda k: k.cross_core_set(flag, 2, "FIX"), f"cross-core flag {flag}", "0 to 15")


def test_a_flag_from_a_pipe_to_itself() -> None:
    refused(lambda k: k.flag("MTE2", "MTE2", "own"), "'own' joins MTE2 with itself", "pipe_barrier('MTE2')")


@pytest.mark.parametrize("pipe", ["V", "MTE4", "", "S"])
def test_a_barrier_of_a_pipe_that_there_is_not(pipe: str) -> None:
    refused(lambda k: k.pipe_barrier(pipe), "pipe_barrier", f"on pipe {pipe}", "MTE1, MTE2, MTE3, FIX")


def test_an_atomic_read() -> None:
    refused(
        lambda k: k.data_copy("GM", "L1", 0, 0, 64, atomic_add="float32"),
        "atomic_add of float32 to L1",
        "only GM can be added to",
    )


@pytest.mark.parametrize(("size", "dtype"), [(30, "float32"), (31, "float16")])
def test_an_atomic_of_part_of_an_element(size: int, dtype: str) -> None:
    refused(
        lambda k: k.data_copy("UB", "GM", 0, 0, size, atomic_add=dtype),
        f"rows of {size} bytes are not whole elements", dtype, kind="AIV",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["number", "V4", "datetime64[s]"])
def test_an_atomic_of_no_number(dtype: str) -> None:
    refused(lambda k: k.data_copy("UB", "GM", 0, 0, 64, atomic_add=dtype), f"atomic_add of {dtype}; float32,", kind="AIV")
