"""The vendor's procedure of the coupled chips against its unit-test tilings, a worked example, and what any tiling must do."""

from __future__ import annotations

import json
from dataclasses import asdict
from time import process_time
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.dav_1001 import (
    DataCacheTiling,
    cache_tiling,
    covers_grad_input_1001,
    vendor_grad_input_1001,
)
from ascend_sim.ops.kernels.grad_weight.capacity import check_grad_weight
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import COUPLED
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.covered import covers_grad_input_once, covers_grad_weight_once
from tests.support.ops.tiling_problems import conv2d
from tests.support.places import DATA

TABLE = json.loads((DATA / "ut_tilings_910a.json").read_text())


def on_910a(problem: ConvProblem, cores: int = 32) -> TilingInput:
    return TilingInput(
        problem, 2, cores, TABLE["buffers"], 32 * 2**20, family=COUPLED, load3d=load_chip("ascend910a").load3d.limits
    )


def row_named(name: str) -> dict[str, Any]:
    return next(row for row in TABLE["rows"] if row["name"] == name)


def decided(cut: DataCacheTiling, inp: TilingInput) -> dict[str, int]:
    """The procedure's decisions under the table's names."""
    low, high = sorted((cut.k_al1, cut.k_bl1))
    return asdict(cut) | {
        "batch_single_core": inp.problem.n // cut.batch_dim,
        "min_kl1_div_kl0": low * inp.taps // cut.k_l0,
        "max_kl1_div_min_kl1": high // low,
        "k_div_max_kl1": inp.cout_padded // 16 // high,
        "db_l0c": 2,
    }


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["name"])
def test_every_decision_but_those_in_ub(row: dict[str, Any]) -> None:
    inp = on_910a(ConvProblem(**row["problem"]), row["cores"])
    pixels = inp.problem.h_in * inp.problem.w_in
    cut = cache_tiling(inp, ragged=pixels > 16 and pixels % 16 != 0)  # the rows write dx as NCHW
    expected = {name: value for name, value in row["fields"].items() if "attach" not in name}
    got = decided(cut, inp)
    assert {name: got[name] for name in expected} == expected
    assert cut.block_dim == row["block_dim"]


def test_where_rows_of_pixels_end_inside_a_block_one_core_may_have_to_do() -> None:
    """15x15 pixels of NCHW: the last of 8 parts of an image would be one pixel, in a block that is its neighbour's too."""
    inp = on_910a(ConvProblem(**row_named("stride_equal_one")["problem"]))
    assert cache_tiling(inp, ragged=True).block_dim == 1
    assert cache_tiling(inp).block_dim == 32  # as our kernels write dx, in blocks of 16 channels


def test_resnet_layer_of_the_910a() -> None:
    """3x3, 64 channels, 56x56, batch 32: an image a core, resident weights, all of K and seven tiles of pixels in L1."""
    inp = on_910a(conv2d(32, 64, 64, 56, 3, pad=1))
    cut = cache_tiling(inp)
    assert (cut.batch_dim, cut.n_dim, cut.m_dim) == (32, 1, 1)
    assert (cut.m_l0, cut.n_l0, cut.k_l0) == (32, 4, 2)
    assert (cut.m_al1, cut.n_bl1, cut.db_al1, cut.db_bl1) == (7, 0, 2, 1)
    assert (cut.al1_bound, cut.bl1_bound) == (66 * 56 * 64, 64 * 64 * 9)
    tiling = vendor_grad_input_1001(inp)
    assert (tiling.base_m, tiling.base_k, tiling.base_n, tiling.step_m, tiling.step_ka) == (512, 32, 64, 7, 18)
    assert (tiling.single_core_batch, tiling.block_dim, tiling.source) == (1, 32, "vendor procedure")


@st.composite
def flat(draw: st.DrawFn) -> ConvProblem:
    """2-D problems, undilated; pads may exceed the kernel's reach."""
    axes = []
    for _ in range(2):
        kernel, stride, out = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 40))
        span = (out - 1) * stride + kernel + draw(st.integers(0, stride - 1))
        before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        if span - before - after < 2:
            before = after = 0
        axes.append((span - before - after, out, kernel, stride, before, after))
    (h_in, h_out, k_h, s_h, up, down), (w_in, w_out, k_w, s_w, left, right) = axes
    n, c_in, c_out = draw(st.integers(1, 40)), draw(st.sampled_from([1, 16, 96, 500])), draw(st.integers(1, 300))
    return ConvProblem(
        n,
        c_in,
        c_out,
        1,
        h_in,
        w_in,
        1,
        h_out,
        w_out,
        1,
        k_h,
        k_w,
        1,
        s_h,
        s_w,
        pad_up=up,
        pad_down=down,
        pad_left=left,
        pad_right=right,
    )


@settings(max_examples=60, deadline=None)
@given(flat(), st.sampled_from([8, 10, 30, 32]), st.booleans())
def test_what_it_decides_runs_and_covers_dx_once(problem: ConvProblem, cores: int, ragged: bool) -> None:
    inp = on_910a(problem, cores)
    assume(covers_grad_input_1001(inp))
    cut = cache_tiling(inp, ragged=ragged)
    assert cut.block_dim <= cores
    assert cut.m_l0 * cut.k_l0 <= 64 >= cut.n_l0 * cut.k_l0  # halves of L0A and L0B
    assert cut.m_l0 * cut.n_l0 <= 128  # half of L0C
    used = cut.al1_bound * cut.db_al1 + cut.bl1_bound * cut.db_bl1
    assert 2 * used <= inp.buffers["L1"] or (cut.m_al1 and cut.n_bl1)
    assert inp.cin1 % (cut.n_dim * cut.n_l0) == 0
    assert ceil_div(inp.cout_padded, 16) * inp.taps % cut.k_l0 == 0
    try:
        tiling = vendor_grad_input_1001(inp)
    except TilingError:
        event("not by our kernel")
        return
    check_grad_input(tiling, inp)
    covers_grad_input_once(tiling, inp)


@pytest.mark.parametrize(
    ("problem", "why"), [(conv2d(2, 32, 32, 8, 3, pad=1, groups=2), "groups"), (conv2d(2, 32, 32, 1, 1), "one pixel")]
)
def test_other_problems_are_not_claimed(problem: ConvProblem, why: str) -> None:
    with pytest.raises(TilingError, match="open procedure for dav-1001 needs"):
        vendor_grad_input_1001(on_910a(problem))


def test_who_decides() -> None:
    """Images first where they fill the cores; else the procedure, for blocks that it can cut, but for fields of the user's."""
    chip = load_chip("ascend910b")

    def chosen(images: int, blocks: int | None = None) -> tuple[str, int]:
        inp = on_910a(conv2d(images, 512, 256, 28, 1), chip.cores.aic)
        tiling = GradInputQuestion(inp, chip=chip, blocks=blocks).tiling()
        return tiling.source, tiling.block_dim

    assert chosen(32) == chosen(64) == chosen(32, 30) == ("stand-in", 30)
    assert chosen(16) == chosen(16, 16) == ("stand-in", 16)
    assert chosen(32, 28) == ("vendor procedure", 28)
    assert chosen(20, 30) == ("vendor procedure", 30)  # the chip's cores, asked for like any other number
    assert chosen(4)[0] == "vendor procedure"
    assert chosen(64, 31)[0] == "stand-in"  # a prime number of blocks, of which the procedure has no use
    inp = on_910a(conv2d(4, 512, 256, 28, 1), chip.cores.aic)
    assert GradInputQuestion(inp, {"baseM": 64}, chip=chip).tiling().source == "manual"


@settings(max_examples=40, deadline=None)
@given(flat(), st.sampled_from([8, 16, 30, 32]))
def test_grad_weight_of_coupled_cores_fits_and_covers_dw_once(problem: ConvProblem, cores: int) -> None:
    inp = on_910a(problem)
    tiling = GradWeightQuestion(inp, chip=load_chip("ascend910a"), blocks=cores).tiling()
    check_grad_weight(tiling, inp)
    covers_grad_weight_once(tiling, inp)


def test_the_first_layer_of_resnet_is_one_tile() -> None:
    """7x7 on 3 channels: 64 x 784 elements of dW fit L0C once, and its operands are loaded once."""
    inp = on_910a(conv2d(64, 3, 64, 224, 7, stride=2, pad=3))
    tiling = GradWeightQuestion(inp, chip=load_chip("ascend910a")).tiling()
    assert (tiling.base_m, tiling.base_n, tiling.cl0_buffers) == (64, 784, 1)


def test_a_task_of_one_image_loads_it_once_where_l1_has_room() -> None:
    chip = load_chip("ascend910a")
    small, large = (
        GradWeightQuestion(on_910a(conv2d(16, 128, 128, size, 1)), chip=chip, blocks=16).tiling() for size in (14, 112)
    )
    assert (small.al1_buffers, small.bl1_buffers) == (1, 1)
    assert small.step_ka * small.base_k >= small.single_core_k == 196
    assert (large.al1_buffers, large.bl1_buffers) == (2, 2)


def test_huge_channels_are_planned_at_once() -> None:
    inp = on_910a(conv2d(7, 720720 * 16, 720720 * 16, 8, 1))
    for ask in (GradInputQuestion, GradWeightQuestion):
        start = process_time()
        ask(inp, chip=load_chip("ascend910a")).tiling()
        assert process_time() - start < 5


@pytest.mark.parametrize(("side", "taken"), [(1, False), (2, True), (4096, True), (4097, False)])
def test_maps_of_2_to_4096_pixels_a_side_are_claimed(side: int, taken: bool) -> None:
    assert covers_grad_input_1001(on_910a(conv2d(1, 16, 16, side, 1))) == taken


@pytest.mark.parametrize(("width", "fractals"), [(2032, 64), (2048, 32)])
def test_the_library_leaves_a_little_of_ub(width: int, fractals: int) -> None:
    """Two rows of fp16 channels on their way in and two strips of 64 fractals on their way out: 262144 bytes at 2048 pixels,
    of which the procedure counts 262000; half as many fractals leave room for two strips.
    """
    assert cache_tiling(on_910a(flat_row(width, 1, 32), 1)).m_l0 == fractals


@pytest.mark.parametrize(("width", "fractals"), [(4048, 1), (4049, 64)])
def test_long_rows_are_cut_on_their_way_through_ub(width: int, fractals: int) -> None:
    """Under 17 taps rows of up to 4064 pixels come whole: two of 16 channels leave 952 of UB's elements, one fractal."""
    assert cache_tiling(on_910a(flat_row(width, 17, 16), 1)).m_l0 == fractals


def flat_row(width: int, taps: int, channels: int) -> ConvProblem:
    """Two rows of `width` pixels of gradOutput, `channels` of them, under a kernel of `taps` columns; 16 channels of dx."""
    return ConvProblem(1, 16, channels, 1, 2, width + taps - 1, 1, 2, width, 1, 1, taps)


@pytest.mark.parametrize(("channels", "parts"), [(992, 1), (2000, 2), (4000, 4), (15984, 8), (16016, 1)])
def test_a_core_has_a_microsecond_of_work(channels: int, parts: int) -> None:
    """Fewer fractals of dx, 16, than cores: 1000 products of fractals a core; one part where a single fractal has more."""
    assert cache_tiling(on_910a(conv2d(1, 16, channels, 16, 1))).m_dim == parts


def test_buffers_of_l1_are_two_each_where_two_each_fit() -> None:
    """Four C_out blocks at a time, 7 x 7 taps: 4 * 16 * 49 * 128 = 401408 elements of weights for 8 fractals of channels and
    22 rows of 14 pixels, 19712 elements, of gradOutput. L1 has 524288: two of gradOutput, but not of both.
    """
    cut = cache_tiling(on_910a(conv2d(1, 256, 256, 14, 7, pad=3), 1))
    assert (cut.db_al1, cut.db_bl1) == (1, 1)
