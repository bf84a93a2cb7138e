"""Whatever the problem: a tiling fits, its L1 rows suffice, and its tasks cover the gradient exactly once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import sound_grad_input
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_weight.capacity import check_grad_weight, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.kernels.grad_weight.tasks import grad_weight_tasks
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.covered import covers_grad_input_once, covers_grad_weight_once
from tests.support.ops.tiling_problems import RESNET, conv2d, inputs, on_910b
from tests.support.sampling import sampled


@given(inputs())
@sampled(40, 150)
def test_grad_input(inp: TilingInput) -> None:
    for tiling in (GradInputQuestion(inp).tiling(), sound_grad_input(inp)):
        check_grad_input(tiling, inp)
        covers_grad_input_once(tiling, inp)


@given(inputs())
@sampled(40, 150)
def test_grad_weight(inp: TilingInput) -> None:
    for tiling in (GradWeightQuestion(inp).tiling(), sound_grad_weight(inp)):
        check_grad_weight(tiling, inp)
        covers_grad_weight_once(tiling, inp)


@given(inputs(largest=24, channels=(64, 128, 300)))
@settings(max_examples=60, deadline=None)
def test_big_channels(inp: TilingInput) -> None:
    covers_grad_input_once(GradInputQuestion(inp).tiling(), inp)
    covers_grad_weight_once(GradWeightQuestion(inp).tiling(), inp)


def fits_somehow_grad_input(inp: TilingInput) -> bool:
    """Every base block with the least L1 steps: 16 output channels once, no ping-pong."""
    least = [
        sum(grad_input_l1(GradInputTiling(m, 16, n, step_ka=inp.taps, step_kb=inp.taps, al1_buffers=1, bl1_buffers=1), inp))
        for m, n in itertools.product(range(16, 257, 16), (16, 32))
    ]
    return min(least) <= inp.buffers["L1"]


def fits_somehow_grad_weight(inp: TilingInput) -> bool:
    least = [
        sum(grad_weight_l1(GradWeightTiling(16, k, n, al1_buffers=1, bl1_buffers=1), inp, clipped=True))
        for k, n in itertools.product(range(16, 513, 16), range(16, 257, 16))
    ]
    return min(least) <= inp.buffers["L1"]


@given(st.integers(1500, 9000), st.integers(1, 7), st.integers(1, 3), st.sampled_from((1, 2, 5)), st.sampled_from((2, 4)))
@sampled(20, 80)
def test_wide_images_are_refused_only_where_nothing_fits(
    width: int, kernel: int, stride: int, height: int, itemsize: int
) -> None:
    h_in, w_in = (height - 1) * stride + kernel, (width - 1) * stride + kernel
    problem = ConvProblem(1, 16, 16, 1, h_in, w_in, 1, height, width, 1, kernel, kernel, 1, stride, stride)
    inp = on_910b(problem, itemsize)
    for sound, possible in ((sound_grad_input, fits_somehow_grad_input), (sound_grad_weight, fits_somehow_grad_weight)):
        if possible(inp):
            sound(inp)
        else:
            with pytest.raises(TilingError, match=r"L1: .* > 524288 bytes"):
                sound(inp)


@given(inputs())
@settings(max_examples=60, deadline=None)
def test_vendor_names_round_trip(inp: TilingInput) -> None:
    dx, dw = GradInputQuestion(inp).tiling(), GradWeightQuestion(inp).tiling()
    assert GradInputTiling.from_vendor(dx.to_vendor()) == dx
    assert GradWeightTiling.from_vendor(dw.to_vendor()) == dw


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(
    "problem", [RESNET, conv2d(32, 256, 256, 13, 3, pad=1), conv2d(32, 64, 192, 27, 5, pad=2), conv2d(1, 64, 64, 56, 3, pad=1)]
)
def test_stand_ins_use_all_cores_evenly(problem: ConvProblem, itemsize: int) -> None:
    inp = on_910b(problem, itemsize)
    dw = sound_grad_weight(inp)
    work = [sum(t.m_count * t.n_count * t.images * t.rows for t in grad_weight_tasks(dw, inp, core)) for core in range(20)]
    assert min(work) > 0
    assert max(work) <= 1.35 * sum(work) / 20
    dx = sound_grad_input(inp)
    assert all(grad_input_tasks(dx, inp, core) for core in range(dx.block_dim))


def test_32_bit_grad_input_steps_are_one_transposing_load() -> None:
    tiling = sound_grad_input(on_910b(conv2d(32, 256, 256, 13, 3, pad=1), itemsize=4))
    assert tiling.base_k == 16
    assert tiling.base_m * tiling.base_n * 4 > 65536  # more than half of L0C: it is not ping-pong


def test_merged_groups_fill_blocks() -> None:
    inp = on_910b(conv2d(1, 320, 320, 8, 2, groups=320))
    assert (inp.group_extension, inp.real_groups, inp.cin_g, inp.cout_g) == (16, 20, 16, 16)
    inp = on_910b(conv2d(1, 320, 320, 8, 2, groups=320), itemsize=4)
    assert (inp.group_extension, inp.cin1, inp.cout_padded) == (16, 2, 16)
    few = on_910b(conv2d(1, 3, 3, 8, 2, groups=3))
    assert (few.group_extension, few.real_groups, few.cin_g, few.cout_g) == (3, 1, 3, 3)


def fields_of(kind: type[GradInputTiling] | type[GradWeightTiling]) -> st.SearchStrategy[dict[str, int]]:
    """A few manual fields with values that are often, not always, possible."""
    sides, steps, counts = st.integers(1, 20).map(lambda x: 16 * x), st.sampled_from((1, 2, 3, 4, 9)), st.integers(1, 2)
    values = {"base": sides, "step": steps, "single": st.integers(1, 400), "core": st.integers(0, 3)}
    names = [
        (vendor, next((v for prefix, v in values.items() if ours.startswith(prefix)), counts))
        for ours, vendor in kind.VENDOR.items()
        if ours not in kind.DERIVED
    ]
    return st.lists(st.sampled_from(names), max_size=4, unique_by=lambda n: n[0]).flatmap(
        lambda chosen: st.fixed_dictionaries(dict(chosen))
    )


@given(inputs(largest=20), fields_of(GradInputTiling))
@sampled(50, 200)
def test_manual_grad_input_runs_or_is_refused(inp: TilingInput, fields: dict[str, int]) -> None:
    try:
        tiling = GradInputQuestion(inp, fields).tiling()
    except TilingError:
        return
    silent = {tiling.VENDOR[name]: value for name, value in tiling.DIRECT_ONLY.items()}
    got = silent | tiling.to_vendor()
    assert {name: got[name] for name in fields} == fields
    covers_grad_input_once(tiling, inp)


ONE_ROW = ConvProblem(2, 1, 1, 1, 1, 8, 1, 1, 8, 1, 1, 1)


@example(on_910b(ONE_ROW, cores=7, deterministic=True), {"singleCoreK": 1, "splitWo": 1, "streamKType": 2})
@example(on_910b(ONE_ROW, cores=7, deterministic=True), {"singleCoreK": 8, "splitWo": 1, "streamKType": 2})
@given(inputs(largest=20), fields_of(GradWeightTiling))
@sampled(75, 300)
def test_manual_grad_weight_runs_or_is_refused(inp: TilingInput, fields: dict[str, int]) -> None:
    try:
        tiling = GradWeightQuestion(inp, fields).tiling()
    except TilingError:
        return
    assert {name: tiling.to_vendor()[name] for name in fields} == fields
    covers_grad_weight_once(tiling, inp)
