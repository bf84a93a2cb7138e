"""Whatever the problem: a tiling fits, its L1 rows suffice, and its tasks cover the gradient exactly once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sampling import sampled
from tiling_problems import RESNET, conv2d, inputs, on_910b

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.tasks import core_share
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import sound_grad_input
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_weight.capacity import b1_rows, check_grad_weight, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, GradWeightTiling, n_slice
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.kernels.grad_weight.tasks import grad_weight_tasks
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import floor_sum
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_rows, needed_rows


def covers_grad_input_once(tiling: GradInputTiling, inp: TilingInput) -> None:
    p = inp.problem
    seen = np.zeros((inp.real_groups, p.n, p.d_in, p.h_in * p.w_in, inp.cin1), int)
    for core in range(tiling.block_dim):
        for t in grad_input_tasks(tiling, inp, core):
            channels = slice(t.n_start // inp.c0, (t.n_start + t.n_count) // inp.c0)
            seen[t.group, t.batch, t.depth, t.m_start : t.m_start + t.m_count, channels] += 1
            whole_rows = tiling.single_core_m % p.w_in == 0
            assert inp.family.coupled or whole_rows
            held = tiling.step_m * tiling.base_m
            for start in range(0, t.m_count, held):
                window = needed_rows(p, t.m_start + start, min(held, t.m_count - start))
                assert window.rows <= dilated_rows(inp.problem, held, whole_rows)
    assert (seen == 1).all()


def covers_grad_weight_once(tiling: GradWeightTiling, inp: TilingInput) -> None:
    inp = walked_input(inp, tiling)  # tasks count the rows of all strips
    p = inp.problem
    planes = p.k_d
    seen = np.zeros((inp.real_groups, planes * inp.cin1, inp.cout_padded // 16, inp.images, p.h_out), int)
    for core in range(tiling.block_dim):
        for t in grad_weight_tasks(tiling, inp, core):
            first = t.n_start // n_slice(inp) + (t.plane or 0) * inp.cin1
            columns = slice(first, first + t.n_count // n_slice(inp))
            outputs = slice(t.m_start // 16, (t.m_start + t.m_count) // 16)
            images, rows = slice(t.image_start, t.image_start + t.images), slice(t.row_start, t.row_start + t.rows)
            seen[t.group, columns, outputs, images, rows] += 1
            if tiling.template == SPLIT_STREAM_K and t.slot is None:  # it stores dW, it does not add
                assert (t.images, t.rows) == (inp.images, p.h_out)
            assert t.n_start % n_slice(inp) == 0
            step = tiling.step_kb * tiling.base_k
            for start in range(0, t.rows * p.w_out, step):
                last = min(start + step, t.rows * p.w_out) - 1
                out_rows = last // p.w_out - start // p.w_out
                assert out_rows * p.stride_h + (p.k_h - 1) * p.dilation_h + 1 <= b1_rows(inp, step)
    assert (seen == 1).all()


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


@given(st.integers(0, 200), st.integers(1, 30))
def test_core_share_is_even_and_in_order(total: int, cores: int) -> None:
    shares = [core_share(total, cores, core) for core in range(cores)]
    assert list(itertools.chain(*shares)) == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def fits_somehow_grad_input(inp: TilingInput) -> bool:
    """Every base block with the least L1 steps: 16 output channels once, no ping-pong."""
    least = [
        sum(
            grad_input_l1(
                GradInputTiling(m, 16, n, step_ka=inp.taps, step_kb=inp.taps, al1_buffers=1, bl1_buffers=1), inp
            )
        )
        for m, n in itertools.product(range(16, 257, 16), (16, 32))
    ]
    return min(least) <= inp.buffers["L1"]


def fits_somehow_grad_weight(inp: TilingInput) -> bool:
    least = [
        sum(grad_weight_l1(GradWeightTiling(16, k, n, al1_buffers=1, bl1_buffers=1), inp, clipped=True))
        for k, n in itertools.product(range(16, 513, 16), range(16, 257, 16))
    ]
    return min(least) <= inp.buffers["L1"]


@given(
    st.integers(1500, 9000), st.integers(1, 7), st.integers(1, 3), st.sampled_from((1, 2, 5)), st.sampled_from((2, 4))
)
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
    "problem",
    [RESNET, conv2d(32, 256, 256, 13, 3, pad=1), conv2d(32, 64, 192, 27, 5, pad=2), conv2d(1, 64, 64, 56, 3, pad=1)],
)
def test_stand_ins_use_all_cores_evenly(problem: ConvProblem, itemsize: int) -> None:
    inp = on_910b(problem, itemsize)
    dw = sound_grad_weight(inp)
    work = [
        sum(t.m_count * t.n_count * t.images * t.rows for t in grad_weight_tasks(dw, inp, core)) for core in range(20)
    ]
    assert min(work) > 0
    assert max(work) <= 1.35 * sum(work) / 20
    dx = sound_grad_input(inp)
    assert all(grad_input_tasks(dx, inp, core) for core in range(20))


def test_32_bit_grad_input_steps_are_one_transposing_load() -> None:
    tiling = sound_grad_input(on_910b(conv2d(32, 256, 256, 13, 3, pad=1), itemsize=4))
    assert tiling.base_k == 16
    assert tiling.base_m * tiling.base_n * 4 > 65536  # more than half of L0C: it is not ping-pong


def test_stand_in_grad_weight_adds_less_often_than_once_per_image() -> None:
    inp = on_910b(conv2d(32, 256, 256, 13, 3, pad=1), itemsize=4, cores=24)
    tiling = sound_grad_weight(inp)
    tasks = [t for core in range(24) for t in grad_weight_tasks(tiling, inp, core)]
    corner = [t for t in tasks if t.m_start == 0 and t.n_start == 0]
    assert len(corner) <= 4
    assert tiling.cl0_buffers == 2


@pytest.mark.parametrize(("c_in", "c_out"), [(256, 256), (192, 384), (384, 256)])
def test_stand_in_grad_weight_keeps_the_cube_busier_than_mte1(c_in: int, c_out: int) -> None:
    """Products and L0 loads of a core by hand, as an HF32 cube and 256 and 128 bytes/cycle take them."""
    inp = on_910b(conv2d(32, c_in, c_out, 13, 3, pad=1), itemsize=4, cores=24)
    tiling = sound_grad_weight(inp, load_chip("ascend910b2"), "hf32")
    busiest = max(
        [t for core in range(24) for t in grad_weight_tasks(tiling, inp, core)], key=lambda t: t.m_count * t.n_count
    )
    m_tiles, n_tiles = -(-busiest.m_count // tiling.base_m), -(-busiest.n_count // tiling.base_n)
    per_pixel = 4 * (busiest.m_count * n_tiles / 256 + busiest.n_count * m_tiles / 128)
    assert per_pixel < busiest.m_count * busiest.n_count / 2048


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


@given(st.integers(0, 40), st.integers(0, 60), st.integers(1, 60), st.integers(0, 90))
def test_a_sum_of_quotients(count: int, number: int, divisor: int, offset: int) -> None:
    assert floor_sum(count, number, divisor, offset) == sum((i * number + offset) // divisor for i in range(count))
