"""grad_input in strips of columns: rows that L1 does not hold, and strips that are asked for, against torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import AclnnError, conv_tbc_backward
from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_NONE, split_parts
from ascend_sim.ops.kernels.grad_input.space import grad_input_tilings
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import pad_before
from tests.support.ops.ranked_calls import QUICK, RankedCall, calls, checked, fields_of, with_l1
from tests.support.ops.tiling_problems import on_910b, on_950
from tests.support.sampling import part_of_cases, sampled

CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")


# -- index math --------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from([SPLIT_NONE, SPLIT_H]), st.tuples(st.integers(1, 4), st.integers(17, 60)),
    st.tuples(st.integers(1, 4), st.integers(1, 6)), st.tuples(st.integers(1, 3), st.integers(1, 5)),
    st.tuples(st.integers(0, 5), st.integers(0, 8)), st.tuples(st.integers(1, 3), st.integers(1, 40)),
    st.integers(1, 3), st.sampled_from([16, 32]),
)  # fmt: skip
@sampled(50, 200)
def test_strips_find_the_products_of_the_definition(
    mode: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    out: tuple[int, int],
    dilation: int,
    strip: int,
) -> None:
    """Every (dx pixel, tap, gradOutput pixel) of the formula once, and no other, read as load3d reads a strip's map."""
    dilation = 1 if mode == SPLIT_H else dilation
    p = ConvProblem(1, 1, 1, 1, *size, 1, *out, 1, *kernel, 1, *stride, dilation_w=dilation, pad_up=pad[0], pad_left=pad[1])
    wanted = {
        (o * p.stride_h - p.pad_up + i, q * p.stride_w - p.pad_left + j * dilation, i * p.k_w + j, o, q)
        for o in range(p.h_out)
        for q in range(p.w_out)
        for i in range(p.k_h)
        for j in range(p.k_w)
    }
    wanted = {found for found in wanted if 0 <= found[0] < p.h_in and 0 <= found[1] < p.w_in}
    found = []
    for part in split_parts(p, mode, strip):
        own = part.problem
        up, left = pad_before(own)
        assert own.w_in == strip and (not part.taps or left >= 0)
        for row in range(part.rows):
            for column in range(part.columns):
                for number, tap in enumerate(part.taps):
                    i, j = divmod(len(part.taps) - 1 - number, own.k_w)
                    y, x = row - up + i, column - left + j * dilation
                    if y % own.stride_h or x % own.stride_w or not (0 <= y // own.stride_h < p.h_out):
                        continue
                    if 0 <= x // own.stride_w < own.w_out:
                        place = (part.row + row * part.row_step, part.column + column)
                        found.append((*place, tap, y // own.stride_h, part.source + x // own.stride_w))
    assert len(found) == len(set(found))
    assert set(found) == wanted


# -- strips that are asked for -----------------------------------------------------------------------------------------


@QUICK
@given(
    calls(), st.sampled_from(CHIPS),
    st.sampled_from([{}, {"baseM": 32}, {"baseM": 48, "baseN": 16, "baseK": 16}, {"cl0Pbuffer": 1, "al1Pbuffer": 1}]),
)  # fmt: skip
def test_strips_of_any_call(call: RankedCall, chip: str, block: dict[str, int]) -> None:
    fields = checked(call, chip, {"splitWi": 16, **block})
    assert fields is None or fields["splitWi"] == 16


WIDE = RankedCall((3, 45), (3, 3), (1, 1), (1, 1), (1, 1), c_in=20, c_out=24)
"""45 columns: two strips of 16 and one with 13 columns that exist, or one of 32 and one of 13."""
CASES = {
    "plain": WIDE,
    "stride": RankedCall((4, 45), (3, 3), (2, 3), (1, 1), (1, 1), c_in=20, c_out=24),
    "a strip that nothing reaches": RankedCall((2, 60), (2, 2), (1, 25), (0, 0), (1, 1)),
    "gradOutput beyond dx": RankedCall((3, 40), (2, 2), (1, 1), (6, 6), (1, 1)),
    "dilation": RankedCall((4, 50), (2, 5), (1, 1), (0, 3), (1, 4)),
    "groups": RankedCall((3, 33), (3, 3), (1, 1), (1, 1), (1, 1), c_in=34, c_out=34, groups=2),
    "depth": RankedCall((3, 4, 37), (2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), c_in=20),
    "one row": RankedCall((50,), (4,), (2,), (1,), (1,), n=3),
}


@part_of_cases(4)
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
@pytest.mark.parametrize("name", CASES)
def test_strips_of_chosen_calls(name: str, chip: str) -> None:
    if (name, chip) == ("depth", "ascend910a"):
        pytest.skip("no 3-D on this product")
    strip = 32 if name == "groups" else 16
    assert CASES[name].check(chip, {"splitWi": strip})["splitWi"] == strip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_strips_of_other_formats(dtype: str) -> None:
    for chip in ("ascend910b3", "ascend950pr_9589"):
        for name in ("plain", "stride"):
            call = CASES[name]
            RankedCall(**{**vars(call), "dtype": dtype}).check(chip, {"splitWi": 16})
    RankedCall(**{**vars(WIDE), "dtype": "float32"}).check("ascend910b3", {"splitWi": 16}, cube_math_type=3)  # hf32: exact here


def test_tiles_turned_by_vector_cores_are_stored_by_rows() -> None:
    """NCDHW on dav-2201: a tile of a strip is several runs of dx."""
    call = RankedCall((2, 4, 45), (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), c_in=20, c_out=36, groups=2)
    result = call.run("ascend910b3", tiling={"splitWi": 16, "baseM": 64, "singleCoreM": 64})
    assert [kernel["formats"]["grad_input"] for kernel in result.report.kernels if kernel["name"] == "grad_input"]
    call.check("ascend910b3", {"splitWi": 16, "baseM": 64, "singleCoreM": 64})


def test_strips_of_a_kernel_split_by_rows() -> None:
    call = RankedCall((9, 50), (4, 3), (2, 1), (1, 1), (1, 1), n=2, c_in=20, c_out=40)
    fields = call.check("ascend950pr_9589", {"splitWi": 16, "kernelSplitMode": 2})
    assert (fields["splitWi"], fields["kernelSplitMode"]) == (16, 2)


def test_weights_stay_from_strip_to_strip() -> None:
    """enableFullLoad: loaded once by each core, whatever the strips."""
    call = RankedCall((4, 50), (3, 3), (1, 1), (1, 1), (1, 1), n=8)
    reads = []
    for strip in (16, 32):
        result = call.run("ascend950pr_9589", tiling={"splitWi": strip, "enableFullLoad": 1, "blockDim": 1})
        np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
        kernel = next(kernel for kernel in result.report.kernels if kernel["name"] == "grad_input")
        assert kernel["tiling"]["enableFullLoad"] == 1
        reads.append(kernel["counts"]["operands"]["B"] if "operands" in kernel["counts"] else None)
    assert len(set(reads)) == 1


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"splitWi": 24}, "splitWi = 24; allowed 0 (whole rows) or a multiple of 16 below W_in = 45"),
        ({"splitWi": 48}, "splitWi = 48; allowed 0"),
        ({"splitWi": 16, "singleCoreM": 45}, "singleCoreM = 45 is not a multiple of splitWi = 16"),
    ],
)
def test_strips_that_cannot_be(fields: dict[str, int], words: str) -> None:
    with pytest.raises(TilingError) as error:
        WIDE.run("ascend910b3", "timing", fields)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_kernel_split_by_columns_takes_whole_rows() -> None:
    call = RankedCall((9, 50), (3, 3), (2, 2), (1, 1), (1, 1))
    with pytest.raises(TilingError, match="a kernel split by rows and columns"):
        call.run("ascend950pr_9589", "timing", {"splitWi": 16, "kernelSplitMode": 1})


# -- rows that do not fit ----------------------------------------------------------------------------------------------


@QUICK
@given(st.booleans().flatmap(calls), st.sampled_from(["ascend910b3", "ascend910a", "ascend950pr_9589"]))
def test_calls_whose_rows_do_not_fit(call: RankedCall, chip: str) -> None:
    """An L1 of 24 KB holds some of these rows whole, others in strips, and of some kernels nothing."""
    checked(call, with_l1(chip, 24 * 1024), None)


@part_of_cases(3)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
def test_rows_are_cut_only_where_they_do_not_fit(chip: str, transposed: bool) -> None:
    call = RankedCall((4, 300), (3, 3), (1, 2), (1, 1), (1, 1), transposed=transposed)
    name = "splitWo" if transposed else "splitWi"
    own, small = call.run(chip, "timing"), call.check(with_l1(chip, 24 * 1024))
    assert name not in fields_of(own)
    assert 0 < small[name] < (call.y if transposed else call.x)[1]


@part_of_cases(0, "ascend910b3")
@pytest.mark.parametrize("chip", CHIPS)
def test_a_long_signal(chip: str) -> None:
    """36,000 samples: a row of them takes more than L1 has, on the 910 too."""
    call = RankedCall((36000,), (9,), (1,), (4,), (1,))
    result = call.run(chip, "functional")
    np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
    strip = fields_of(result)["splitWi"]
    assert strip <= 1024 and (-36000) % strip + 4 <= 255  # the field of load3d for padding on the right


def test_a_long_transposed_signal_in_bf16() -> None:
    call = RankedCall((16384,), (3,), (2,), (1,), (1,), transposed=True, dtype="bfloat16")
    for chip in ("ascend910b3", "ascend950pr_9589"):
        result = call.run(chip, "functional")
        np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
        assert fields_of(result)["splitWo"] <= 1024


@pytest.mark.parametrize("chip", ["ascend910a", "ascend950pr_9589"])
def test_a_long_tbc_call(chip: str) -> None:
    rng = np.random.default_rng(0)
    shapes = ((20002, 1, 5), (20000, 1, 3), (3, 3, 5), (5,))
    dy, x, weight, bias = (rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes)
    result = conv_tbc_backward(dy, x, weight, bias, 2, chip=chip, mode="functional")
    torch = pytest.importorskip("torch")
    found = torch.ops.aten.conv_tbc_backward(*(torch.from_numpy(t.astype(np.float64)) for t in (dy, x, weight, bias)), 2)
    np.testing.assert_array_equal(result.outputs["grad_input"], found[0].numpy().astype(np.float16))


def test_what_no_strip_fits_is_told_in_one_line() -> None:
    call = RankedCall((300, 300), (250, 9), (1, 1), (0, 0), (1, 1))
    with pytest.raises(AclnnError) as error:
        call.run("ascend910a", "timing")  # on split cores such kernels are cut
    assert error.value.status == 561103 and "L1: A1" in str(error.value)


@pytest.mark.parametrize(("chip", "on_chip"), [("ascend910b3", on_910b), ("ascend950pr_9589", on_950)])
def test_a_search_has_signals_in_whole_rows_and_in_strips(chip: str, on_chip: Callable[[ConvProblem], TilingInput]) -> None:
    signal, spec = on_chip(ConvProblem(2, 64, 64, 1, 1, 1200, 1, 1, 1198, 1, 1, 3)), load_chip(chip)
    assert {tiling.split_wi > 0 for tiling in grad_input_tilings(signal, {}, spec)} == {True, False}
    for strip in (0, 32):
        assert {tiling.split_wi for tiling in grad_input_tilings(signal, {"split_wi": strip}, spec)} == {strip}


def test_a_search_has_strips_alone_where_l1_holds_no_whole_row() -> None:
    signal = ConvProblem(2, 64, 64, 1, 1, 40000, 1, 1, 40000, 1, 1, 3, pad_left=1, pad_right=1)
    inp, spec = on_910b(signal), load_chip("ascend910b3")
    with pytest.raises(TilingError, match="L1"):  # the ladder refuses whole rows
        GradInputQuestion(inp, {"splitWi": 0}, spec).tiling()
    found = {tiling.split_wi for tiling in grad_input_tilings(inp, {}, spec)}
    assert found and min(found) > 0
    for refused in ({"split_wi": 0}, {"load_b1": 1}):  # whole rows alone; both choices
        with pytest.raises(TilingError):
            next(grad_input_tilings(inp, refused, spec))
