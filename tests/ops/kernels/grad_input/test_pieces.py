"""grad_input with kernels that are cut: row by row or tap by tap, asked for or because nothing else runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, SPLIT_NONE, UNCUT, kernel_pieces, split_parts
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.window import needed_rows, pad_before
from tests.support.ops.ranked_calls import QUICK, RankedCall, calls, checked, fields_of
from tests.support.sampling import part_of_cases, sampled

CHIP = "ascend950pr_9589"
BLOCKED = "ascend910b3"


@given(
    st.sampled_from([UNCUT, NO_HK, NO_HK_WK]), st.tuples(st.integers(1, 7), st.integers(1, 40)),
    st.tuples(st.integers(1, 5), st.integers(1, 6)), st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(0, 6), st.integers(0, 8)), st.tuples(st.integers(1, 6), st.integers(1, 30)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)), st.sampled_from([0, 16]),
)  # fmt: skip
@sampled(50, 200)
def test_pieces_find_the_products_of_the_definition(
    cut: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    out: tuple[int, int],
    dilation: tuple[int, int],
    strip: int,
) -> None:
    """Every (dx pixel, tap, gradOutput pixel) of the formula once, read row window by row window as load3d does."""
    p = ConvProblem(
        1,
        1,
        1,
        1,
        *size,
        1,
        *out,
        1,
        *kernel,
        1,
        *stride,
        dilation_h=dilation[0],
        dilation_w=dilation[1],
        pad_up=pad[0],
        pad_left=pad[1],
    )
    wanted = {
        (o * p.stride_h - p.pad_up + i * p.dilation_h, q * p.stride_w - p.pad_left + j * p.dilation_w, i * p.k_w + j, o, q)
        for o in range(p.h_out)
        for q in range(p.w_out)
        for i in range(p.k_h)
        for j in range(p.k_w)
    }
    wanted = {found for found in wanted if 0 <= found[0] < p.h_in and 0 <= found[1] < p.w_in}
    found = []
    for part in split_parts(p, SPLIT_NONE, strip if strip < p.w_in else 0):
        for piece in kernel_pieces(p, part, cut):
            own, left = piece.problem, pad_before(piece.problem)[1]
            assert cut != NO_HK_WK or 0 <= left < own.w_in
            for row in range(part.rows if piece.taps else 0):
                window = needed_rows(own, row * own.w_in, own.w_in)
                for column in range(part.columns):
                    for number, tap in enumerate(piece.taps):
                        i, j = divmod(len(piece.taps) - 1 - number, own.k_w)
                        y = window.first_row - window.pad_top + i * own.dilation_h
                        x = column - left + j * own.dilation_w
                        inside = window.first_row <= y < window.first_row + window.rows
                        if not inside or y % own.stride_h or x % own.stride_w or not 0 <= x // own.stride_w < own.w_out:
                            continue
                        place = (row, part.column + column, tap, y // own.stride_h, piece.source + x // own.stride_w)
                        found.append(place)
    assert len(found) == len(set(found))
    assert set(found) == wanted


@QUICK
@given(
    calls(), st.sampled_from([CHIP, BLOCKED]), st.sampled_from([NO_HK, NO_HK_WK]), st.sampled_from([0, 16]),
    st.sampled_from([{}, {"baseM": 32}]),
)  # fmt: skip
def test_cuts_of_any_call(call: RankedCall, chip: str, cut: int, strip: int, block: dict[str, int]) -> None:
    fields = checked(call, chip, {"loadB1Condition": cut, "splitWi": strip, **block})
    assert fields is None or fields["loadB1Condition"] == cut


PLAIN = RankedCall((4, 20), (3, 3), (1, 1), (1, 1), (1, 1), c_in=20, c_out=24)
CASES = {
    "plain": PLAIN,
    "stride": RankedCall((7, 20), (3, 2), (2, 3), (1, 1), (1, 1), c_in=20, c_out=24),
    "depth": RankedCall((3, 4, 19), (2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 2, 1)),
    "groups": RankedCall((4, 20), (3, 3), (1, 1), (4, 4), (1, 1), c_in=18, c_out=6, groups=2),
    "float32": RankedCall((4, 20), (3, 3), (1, 1), (1, 1), (1, 1), c_in=20, c_out=24, dtype="float32"),
}


@part_of_cases(4)
@pytest.mark.fast
@pytest.mark.parametrize("fields", [{"loadB1Condition": 2}, {"loadB1Condition": 3}], ids=str)
@pytest.mark.parametrize("chip", [CHIP, BLOCKED])
@pytest.mark.parametrize("name", CASES)
def test_cuts_of_chosen_calls(name: str, chip: str, fields: dict[str, int]) -> None:
    assert fields.items() <= CASES[name].check(chip, fields).items()


VENDOR, OURS = "vendor procedure", "stand-in"
LARGE = {
    "taps of a long kernel": (RankedCall((400,), (300,), (1,), (0,), (1,), c_in=4, c_out=5), 3, OURS),
    "rows of a tall kernel": (RankedCall((300, 9), (290, 3), (3, 2), (9, 1), (1, 1)), 2, VENDOR),
    "a dilation of 300": (RankedCall((640,), (3,), (1,), (0,), (300,), c_in=4, c_out=5), 3, OURS),
    # The padding below has more rows than load3d has a field for; a kernel row sees only that of its tile.
    "a stride of 300": (RankedCall((600, 8), (3, 1), (300, 1), (0, 0), (1, 1)), 2, VENDOR),
    "a stride of 300, 1x1": (RankedCall((600, 3), (1, 1), (300, 1), (0, 0), (1, 1)), 2, VENDOR),
    "weights beyond L1": (RankedCall((34, 34), (34, 32), (1, 1), (3, 3), (1, 1), c_in=16, c_out=17), 2, VENDOR),
}


@part_of_cases(3)
@pytest.mark.parametrize("name", LARGE)
def test_kernels_that_run_only_when_they_are_cut(name: str) -> None:
    call, cut, source = LARGE[name]
    result = call.run(CHIP, "functional")
    np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
    kernel = next(kernel for kernel in result.report.kernels if kernel["name"] == "grad_input")
    assert kernel["tiling"]["loadB1Condition"] == cut and kernel["tiling_source"] == source


@part_of_cases(2)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_beyond_l1_on_the_910b(dtype: str) -> None:
    """A block of channels under 32x32 taps fills L1; the map is not a multiple of the kernel, so that no MatMul does it."""
    call = RankedCall((67, 66), (32, 32), (32, 32), (0, 0), (1, 1), c_in=3, c_out=20, dtype=dtype)
    result = call.run(BLOCKED, "functional")
    np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
    kernel = next(kernel for kernel in result.report.kernels if kernel["name"] == "grad_input")
    assert (kernel["tiling"]["loadB1Condition"], kernel["tiling_source"]) == (NO_HK, OURS)


def test_a_cut_signal_of_one_column_on_the_910b() -> None:
    """Each pixel of a tile is a row, of which load3d can take 255 for padding: tiles are a fractal lower than is usual."""
    call = RankedCall((300, 1), (64, 64), (1, 1), (0, 32), (1, 1), c_in=16, c_out=16)
    result = call.run(BLOCKED, "functional")
    np.testing.assert_array_equal(result.outputs["grad_input"], call.wanted())
    fields = fields_of(result)
    assert fields["loadB1Condition"] == NO_HK and fields["baseM"] <= 255


@pytest.mark.fast
@pytest.mark.parametrize("chip", [CHIP, BLOCKED])
def test_kernels_that_fit_are_whole(chip: str) -> None:
    assert "loadB1Condition" not in fields_of(PLAIN.run(chip, "timing"))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("chip", "fields", "words"),
    [
        (CHIP, {"loadB1Condition": 1}, "loadB1Condition = 1; allowed 0 (whole kernels), 2 (row by row), 3 (tap by tap)"),
        (CHIP, {"loadB1Condition": 2, "kernelSplitMode": 2}, "a kernel that is split (kernelSplitMode 2) is not cut"),
        ("ascend910a", {"loadB1Condition": 2}, "only kernels of split cores, dav-2201 and dav-3510, are cut"),
    ],
)
def test_cuts_that_cannot_be(chip: str, fields: dict[str, int], words: str) -> None:
    with pytest.raises(TilingError) as error:
        RankedCall((8, 40), (3, 3), (2, 1), (1, 1), (1, 1)).run(chip, "timing", fields)
    assert words in str(error.value) and "\n" not in str(error.value)
