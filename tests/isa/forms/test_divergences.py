"""The 40 ways in which instructions of this project once differed from the chips': each settled by a case or a test.

A case is a chip, an instruction and the words of its refusal, "" where it is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.vector.arithmetic import VectorScalar
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import CopyLoop, MapWindow, ScatterLoops, Span, TilePiece
from tests.support.isa.refusals import told_whole

pytestmark = pytest.mark.fast

OLD, INFERENCE, A2, NEW = "ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"
EVERY = (OLD, INFERENCE, A2, NEW)
WINDOW = MapWindow(4, 8, out_height=4, out_width=8)
ROOT = Path(__file__).parents[2]


def copy(way: str, *shape: int, **more: str) -> Callable[[KernelBuilder], object]:
    source, destination = way.split("->")
    return lambda k: k.data_copy(source, destination, 0, 0, *shape, **more)  # type: ignore[arg-type]


def run(address: int, count: int, dtype: str) -> LocalTensor:
    return LocalTensor(address, (count,), dtype, 0)


def chosen_by_register(k: KernelBuilder, *row: LocalTensor) -> None:
    k.load_mask_register(run(4096, 16, "uint8"))
    k.select_by_register(*row)


def square(address: int, side: int) -> LocalTensor:
    return LocalTensor(address, (side, side), "float16", 2 * side)


def scaled(method: str, *shape: int, dtype: str = "int8") -> Callable[[KernelBuilder], object]:
    pre = Quantisation("int32", 0.5, relu=True)
    return lambda k: getattr(k, method)(0, 0, 16, 32, 16, dtype, *shape, pre=pre)


def planes(k: KernelBuilder) -> None:
    k.data_copy_planes("GM", "UB", 0, 0, 32, CopyLoop(2, 64, 32), CopyLoop(2, 128, 64))


def added(k: KernelBuilder) -> None:
    k.mul_add(run(0, 64, "float32"), run(1024, 64, "float32"), run(2048, 64, "float32"))


def by_blocks(dst: int, size: int, dtype: str = "float16") -> Callable[[KernelBuilder], object]:
    return lambda k: k.block_reduce_sum(run(dst, 8, dtype), run(1024, size * 8, dtype))


def img2col(**fields: int) -> Callable[[KernelBuilder], object]:
    window = WINDOW._replace(**fields)
    return lambda k: k.load_data_3d("L0A", 0, 0, 2, window, Span(0, 16), Span(0, 16))


NO_SUCH, NOT_HERE = "has no such instruction", "but it is not simulated"
CASES: dict[int, list[tuple[tuple[str, ...], Callable[[KernelBuilder], object], str]]] = {
    1: [
        ((OLD, INFERENCE, A2), lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False, gemv=False), "m = 1 is the GEMV mode"),
        ((NEW,), lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False, gemv=False), ""),
        (EVERY, lambda k: k.mmad(0, 0, 0, 1, 16, 16, "float16", False), ""),
    ],
    2: [
        ((OLD, INFERENCE), copy("GM->UB", 20), "len_burst counts 32-byte blocks; 20 bytes"),
        ((A2, NEW), copy("GM->UB", 20), ""),
    ],
    5: [((A2,), copy("UB->GM", 20, 3, 20, 64), "local_gap counts 32-byte blocks"), ((NEW,), copy("UB->GM", 20, 3, 20, 64), "")],
    7: [
        (EVERY, lambda k: k.muls(run(32, 128, "float16"), run(0, 128, "float16"), 2.0), "lies partly over it"),
        (EVERY, lambda k: k.muls(run(0, 128, "float16"), run(0, 128, "float16"), 2.0), ""),
    ],
    8: [
        *((EVERY, copy("UB->GM", 64, atomic_add=one), f"atomic_add of {one}") for one in ("float64", "bool", "uint32")),
        ((OLD,), copy("UB->GM", 64, atomic_add="float16"), "atomic_add of float16; float32 are possible"),
        ((INFERENCE, A2, NEW), copy("UB->GM", 64, atomic_add="float16"), ""),
    ],
    9: [((A2,), lambda k: k.data_copy_nd2nz(0, 0, 2, 32, 2, 131072, 16), "src_d_value = 65,536; 1 to 65,535 elements")],
    10: [
        ((A2, INFERENCE, OLD), planes, NO_SUCH),
        ((NEW,), planes, ""),
    ],
    11: [
        ((A2,), lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float16", 2, 64), NO_SUCH),
        ((A2,), lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 16, 16), "float16", 64, 2), ""),
    ],
    12: [
        (EVERY, copy("GM->UB", 32, 4096, 64, 32), "n_burst = 4,096; 0 to 4,095 rows"),
        (EVERY, copy("GM->UB", 32, 4095, 64, 32), ""),
    ],
    13: [((OLD, INFERENCE, A2), copy("GM->UB", 32, 2, 0, 32), "_gap = -"), ((NEW,), copy("GM->UB", 32, 2, 0, 32), "")],
    14: [
        ((OLD, INFERENCE, A2, NEW), copy("L1->L0A", 1024), NO_SUCH),
        ((A2, NEW), copy("L0C->GM", 1024), NO_SUCH),
        ((NEW,), copy("L0C->L1", 1024), NOT_HERE),
        ((OLD, INFERENCE), copy("GM->L0A", 1024), NOT_HERE),
        ((A2,), copy("GM->L0A", 1024), ""),
        ((A2,), copy("L1->BT", 32), "len_burst counts 64-byte units; 32 bytes"),
        ((A2, NEW), copy("L1->BT", 64), ""),
    ],
    15: [
        ((A2,), lambda k: k.load_data_3d("L0B", 0, 0, 1, WINDOW, Span(0, 32), Span(0, 32)), "L0B of 1-byte items"),
        ((NEW,), lambda k: k.load_data_3d("L0B", 0, 0, 1, WINDOW, Span(0, 32), Span(0, 32)), ""),
    ],
    16: [
        ((OLD, INFERENCE), lambda k: k.load_data_2d("L0B", 0, 0, 1, 2, 2, True, 2), "it turns items of 2"),
        ((A2, NEW), lambda k: k.load_data_2d("L0B", 0, 0, 1, 2, 2, True, 2), ""),
    ],
    17: [
        (EVERY, img2col(k_w=101, stride_w=100, width=108, out_width=1, out_height=4), "stride_w = 100; 1 to 63 pixels"),
        (EVERY, img2col(pad_left=256, out_width=264), "fmatrix.pad_left = 256; 0 to 255 pixels"),
        (EVERY, img2col(width=32768, out_width=32768), "fmatrix.l1_w = 32,768; 0 to 32,767 pixels"),
    ],
    18: [(EVERY, img2col(out_width=4), "out_width")],
    20: [
        ((A2,), lambda k: k.flag("M", "MTE3", "x"), "has flags from M to S, MTE1, MTE2, FIX"),
        ((A2,), lambda k: k.flag("MTE3", "M", "x"), "has flags from MTE3 to S, MTE1, MTE2"),
    ],
    21: [((A2,), lambda k: handed_on(k, "S", "V"), ""), ((A2,), lambda k: handed_on(k, "V", "S"), "")],
    23: [
        (EVERY, lambda k: k.mmad(0, 0, 0, 16, 32, 16, "int8", False), ""),
        ((A2, NEW), lambda k: k.mmad(0, 0, 0, 16, 32, 16, "int8", False, bias=0), ""),
        ((OLD, INFERENCE), lambda k: k.mmad(0, 0, 0, 16, 32, 16, "int8", False, bias=0), "no path L1->BT"),
        ((INFERENCE, A2), lambda k: k.mmad(0, 0, 0, 16, 64, 16, "int4", False), NOT_HERE),
        ((OLD, INFERENCE), lambda k: k.mmad(0, 0, 0, 16, 32, 16, "uint8", False), NOT_HERE),
        ((OLD, NEW), lambda k: k.mmad(0, 0, 0, 16, 64, 16, "int4", False), "multiplies no int4"),
    ],
    24: [
        ((A2, NEW), copy("L1->BT", 64), ""),
        ((A2, NEW), copy("L1->FB", 128), ""),
        ((A2, NEW), scaled("fixpipe", 32, 512), ""),
        ((A2, NEW), scaled("fixpipe_nd", 512), ""),
        ((A2, NEW), scaled("fixpipe_nd", 512, dtype="float16"), ""),
        ((NEW,), copy("L0C->L1", 1024), NOT_HERE),
        ((NEW,), lambda k: k.l0c_to_ub(0, 0, 16, 1, 16, "float32"), NOT_HERE),
        ((A2,), lambda k: k.l0c_to_ub(0, 0, 16, 1, 16, "float32"), "no path L0C->UB"),
    ],
    25: [
        ((NEW,), lambda k: k.cross_core_set(10, 4, "MTE2"), ""),
        ((NEW,), lambda k: k.cross_core_set(10, 4, "S"), ""),
        ((NEW,), lambda k: k.cross_core_set(10, 2, "S"), "is on pipe S"),
        ((A2,), lambda k: k.cross_core_set(10, 4, "MTE2"), "mode 4; allowed are 0 "),
    ],
    26: [
        *(((A2, NEW), lambda k, flag=flag: k.cross_core_set(flag, 2, "MTE2"), "") for flag in (0, 11, 14, 15)),
        ((A2, NEW), lambda k: k.cross_core_set(16, 2, "MTE2"), "the chip has 0 to 15"),
    ],
    27: [
        ((A2, NEW), lambda k: k.fixpipe_nd(0, 64, 16, 16, 16, "float32", 64), ""),
        ((A2, NEW), lambda k: k.fixpipe_nd(0, 32, 16, 16, 16, "float32", 64), "must start at a multiple of 64"),
        (EVERY, lambda k: k.mmad(512, 0, 0, 16, 16, 16, "float16", False), "must start at a multiple of 1024"),
    ],
    28: [
        (EVERY, lambda k: k.reduce_sum(run(2, 1, "float16"), run(1024, 64, "float16")), ""),
        (EVERY, lambda k: k.reduce_sum(run(1, 1, "float16"), run(1024, 64, "float16")), "must start at a multiple of 2"),
        (EVERY, lambda k: k.reduce_max_index(run(4, 2, "float16"), run(1024, 64, "float16")), ""),
        (EVERY, lambda k: k.reduce_max_index(run(2, 2, "float16"), run(1024, 64, "float16")), "must start at a multiple of 4"),
        (EVERY, by_blocks(16, 16), ""),
        (EVERY, by_blocks(8, 16), "must start at a multiple of 16"),
    ],
    30: [
        ((NEW,), lambda k: k.fill("L0A", 0, 512), "no path FILL->L0A"),
        ((OLD, INFERENCE, A2), lambda k: k.fill("L0A", 0, 512), ""),
    ],
    31: [
        ((OLD, INFERENCE), lambda k: k.fill("L1", 0, 544), "repeat counts 512-byte fractals"),
        ((A2, NEW), lambda k: k.fill("L1", 0, 544), ""),
    ],
    32: [((OLD,), lambda k: k.load_data_2d("L0A", 0, 0, 2, 2, dst_stride=2), "fractals of the destination adjoin")],
    33: [
        ((A2, NEW), lambda k: k.fixpipe(0, 0, 16, 16, 16, "float32", 4, 512), "c0 = 4 of float32"),
        ((A2, NEW), lambda k: k.fixpipe_nd(0, 0, 16, 4096, 16, "float16", 8192), "n_size = 4,096; 0 to 4,095 columns"),
        ((A2,), lambda k: k.fixpipe_nd(0, 0, 8193, 16, 8208, "float16", 32), "m_size = 8,193; 0 to 8,192 rows"),
        ((A2, NEW), scaled("fixpipe", 16, 512), "c0 = 16 of int8; blocks have 32 columns"),
    ],
    34: [
        ((NEW,), lambda k: k.fixpipe_dn(0, 0, TilePiece(16, 8, 16, 8), "float32", 4, 64), "first = 8; a tile begins"),
    ],
    35: [
        ((OLD,), added, "has no mul_add"),
        ((OLD,), by_blocks(0, 8, "float32"), "no block_reduce_sum of float32"),
        ((OLD,), lambda k: k.pair_reduce_sum(run(0, 32, "float32"), run(1024, 64, "float32")), "no pair_reduce_sum of float32"),
    ],
    36: [
        ((OLD,), lambda k: chosen_by_register(k, *(run(at, 64, "float32") for at in (0, 1024, 2048))), ""),
        ((INFERENCE, NEW), lambda k: k.scatter(0, 1024, "float32", ScatterLoops(1, 8, 8, 64, 8, 64, 8, 1)), ""),
    ],
    37: [
        ((OLD, INFERENCE), lambda k: k.copy(square(0, 16), square(1024, 16), mask=3), "the copy in UB by blocks has none"),
        ((A2, NEW), lambda k: k.copy(square(0, 16), square(1024, 16), mask=3), ""),
    ],
    38: [
        ((OLD, INFERENCE), copy("UB->GM", 64, atomic_add="float32", keep="max"), "atomic_max of float32; add is possible"),
        ((A2, NEW), copy("UB->GM", 64, atomic_add="float32", keep="max"), ""),
    ],
    39: [
        (EVERY, lambda k: k.transpose(square(0, 32), square(0, 32)), "in place it turns 16 x 16 elements, no others"),
        (EVERY, lambda k: k.transpose(square(0, 16), square(0, 16)), ""),
    ],
    40: [
        ((NEW,), lambda k: k.load_data_2d("L0A", 0, 0, 4, 2, 2, True, 2), NOT_HERE),
        ((A2,), lambda k: k.load_data_2d("L0A", 0, 0, 4, 2, 2, True, 2), ""),
        ((OLD, INFERENCE), copy("GM->L0A", 512), NOT_HERE),
        ((A2,), copy("GM->L0A", 512, 2, 512, 1024), ""),
        ((A2,), copy("GM->L0A", 1024, 2, 1024, 1024), "rows of 1024 bytes"),
    ],
}  # fmt: skip


def handed_on(k: KernelBuilder, source: str, destination: str) -> None:
    flag = k.flag(source, destination, "handed on")
    k.set_flag(flag)
    k.wait_flag(flag)


ELSEWHERE = {
    1: "isa/test_cube.py::test_one_plain_row_exactly",
    3: "engine/test_cross.py::test_an_order_that_only_pipes_of_their_own_allow",
    4: "engine/test_core_flag.py::",
    6: "isa/test_load.py::test_l0a_of_the_950_lies_by_columns",
    22: "kernel/test_scalar.py::test_stores_are_where_a_scalar_loop_puts_them",
    23: "isa/test_cube.py::test_products_of_int8_are_exact_in_int32",
    24: "isa/test_quantisation.py::test_scaled_numbers_are_rounded_once",
    29: "ascend_c/test_cube_words.py::test_what_no_instruction_can_say_is_refused",
}
"""Divergences in meaning: the test of what the chip does."""


def test_every_divergence_has_a_case() -> None:
    assert {*CASES, *ELSEWHERE, 19} == set(range(1, 41))  # 19: the test below
    for named in ELSEWHERE.values():
        file, _, test = named.partition("::")
        assert f"def {test or 'test_'}" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("number", CASES)
def test_what_the_chip_lacks_is_refused_and_what_it_has_is_taken(number: int) -> None:
    for chips, write, words in CASES[number]:
        for chip in chips:
            said = told_whole(chip, write)
            assert words in said and (words or not said) and "\n" not in said, (chip, said)


def test_rows_far_apart_take_an_instruction_each() -> None:
    """Divergence 19: a repeat stride has 8 bits, 8,160 bytes."""
    chip = load_chip(A2)
    near, far = (VectorScalar("muls", "float16", 16, 4, step, step, scalar=2.0) for step in (8160, 8192))
    assert far.cost(chip).work >= near.cost(chip).work + 3 * near.cost(chip).head_stream
