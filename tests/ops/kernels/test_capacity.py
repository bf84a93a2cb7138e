"""What fits: L1 to the byte, the fields of load3d, and the channel blocks that columns of dW touch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiling_problems import BUFFERS, conv2d, on_910b, on_950

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import (
    check_block,
    check_load3d,
    check_load3d_k,
    check_steps,
    fits_l0,
    l0_bytes,
)
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_grad_input_strips,
    check_split,
    grad_input_fits_l1,
    grad_input_l1,
    is_resident,
)
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_NONE
from ascend_sim.ops.kernels.grad_weight.capacity import (
    b1_pixels,
    b1_slices,
    check_grad_weight,
    check_grad_weight_problem,
    grad_weight_fits_l1,
    grad_weight_l1,
)  # fmt: skip
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_IMAGES
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.family import COUPLED
from ascend_sim.ops.problem.tiling_input import TilingInput

pytestmark = pytest.mark.fast

LAYER = on_910b(conv2d(2, 64, 64, 14, 3, pad=1))


def with_l1(size: int) -> TilingInput:
    return replace(LAYER, buffers={**BUFFERS, "L1": size})


@pytest.mark.parametrize("short", [1, 32])
@pytest.mark.parametrize("kernel", ["grad_input", "grad_weight"])
def test_l1_is_full_to_the_byte(kernel: str, short: int) -> None:
    if kernel == "grad_input":
        tiling = GradInputQuestion(LAYER).tiling()
        used, fits, check = sum(grad_input_l1(tiling, LAYER)), grad_input_fits_l1, check_grad_input
    else:
        tiling = GradWeightQuestion(LAYER).tiling()
        used, fits, check = sum(grad_weight_l1(tiling, LAYER)), grad_weight_fits_l1, check_grad_weight
    assert fits(tiling, with_l1(used)) and not fits(tiling, with_l1(used - short))
    clipped = used if kernel == "grad_input" else sum(grad_weight_l1(tiling, LAYER, clipped=True))
    check(tiling, with_l1(clipped))
    with pytest.raises(TilingError, match=f"sum {clipped} > {clipped - short} bytes"):
        check(tiling, with_l1(clipped - short))


def test_the_fields_of_load3d_hold_what_they_hold() -> None:
    """A k extent of 16 bits, a side of the kernel of 9."""
    check_load3d_k("stepKa*baseK", 65_535, LAYER)
    with pytest.raises(TilingError, match="65536 > 65535"):
        check_load3d_k("stepKa*baseK", 65_536, LAYER)
    check_grad_weight_problem(on_910b(conv2d(1, 16, 16, 511, 511)))
    with pytest.raises(TilingError, match="kernel h = 512 > 511"):
        check_grad_weight_problem(on_910b(conv2d(1, 16, 16, 512, 512)))


def test_zeros_between_pixels_are_no_stride_of_load3d() -> None:
    """grad_input reads the dilated map pixel by pixel; only the library of coupled chips limits its strides."""
    wide = conv2d(1, 16, 16, 200, 3, stride=LAYER.load3d.stride + 1)
    check_grad_input_problem(on_910b(wide))
    with pytest.raises(TilingError, match="stride"):
        check_grad_input_problem(replace(on_910b(wide), family=COUPLED))


def test_l0_holds_its_blocks_and_no_byte_more() -> None:
    tiling = GradInputQuestion(LAYER).tiling().but(al0_buffers=2, bl0_buffers=1, cl0_buffers=2)
    m, n, k = tiling.base_m, tiling.base_n, tiling.base_k
    used = {"L0A": 2 * 2 * m * k, "L0B": 2 * k * n, "L0C": 2 * 4 * m * n}
    assert l0_bytes(tiling, LAYER) == used
    full = replace(LAYER, buffers={**BUFFERS, **used})
    assert fits_l0(tiling, full)
    check_block(tiling, full)
    for name in used:
        short = replace(full, buffers={**full.buffers, name: used[name] - 1})
        assert not fits_l0(tiling, short)
        with pytest.raises(TilingError, match=f"{name}: .* = {used[name]} > {used[name] - 1} bytes"):
            check_block(tiling, short)


def test_buffers_are_single_or_double_and_steps_multiples_of_each_other() -> None:
    tiling = GradInputQuestion(LAYER).tiling()
    with pytest.raises(TilingError, match=r"al1Pbuffer = 3; allowed 1 \(single\) or 2"):
        check_block(tiling.but(al1_buffers=3), LAYER)
    for pair in ((1, 4), (6, 3), (2, 2)):
        check_steps(tiling.but(step_ka=pair[0], step_kb=pair[1]))
    with pytest.raises(TilingError, match="stepKa = 3 and stepKb = 2: one must be a multiple"):
        check_steps(tiling.but(step_ka=3, step_kb=2))


@pytest.mark.parametrize("field", ["dilation", "stride", "pad"])
def test_a_field_of_load3d_is_full_at_its_limit(field: str) -> None:
    most = getattr(LAYER.load3d, field)

    def check(value: int) -> None:
        changes = {} if field == "pad" else {f"{field}_h": value}
        check_load3d(replace(LAYER, problem=replace(LAYER.problem, **changes)), {"pad up": value if not changes else 0})

    check(most)
    with pytest.raises(TilingError, match=rf"load3d: {field} \w+ = {most + 1} > {most}"):
        check(most + 1)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"single_core_m": 16}, "singleCoreM = 16 is not a multiple of W_in = 14: tasks are whole rows"),
        ({"split_wi": 14}, "splitWi = 14; allowed 0 .whole rows. or a multiple of 16 below W_in = 14"),
        ({"split_wi": 16}, "splitWi = 16; allowed 0"),
    ],
)
def test_a_task_of_grad_input_is_whole_rows(changes: dict[str, int], told: str) -> None:
    tiling = GradInputQuestion(LAYER).tiling()
    check_grad_input(tiling, LAYER)
    with pytest.raises(TilingError, match=told):
        check_grad_input(tiling.but(**changes), LAYER)


def test_a_strip_is_narrower_than_the_map() -> None:
    wide = on_950(conv2d(2, 64, 64, 48, 3, pad=1))
    tiling = GradInputQuestion(wide).tiling()
    for columns in (0, 16, 32):
        check_grad_input_strips(tiling.but(split_wi=columns), wide)
    for columns in (-16, 8, 40, 48, 64):
        with pytest.raises(TilingError, match=f"splitWi = {columns}; allowed 0"):
            check_grad_input_strips(tiling.but(split_wi=columns), wide)


def test_what_a_split_kernel_needs() -> None:
    strided = conv2d(1, 32, 32, 16, 4, stride=2, pad=1)
    for itemsize in (2, 4):
        check_split(SPLIT_H, on_950(strided, itemsize))
    check_split(SPLIT_NONE, on_950(replace(strided, groups=2), 1))
    for problem, itemsize, told in (
        (strided, 1, "2 or 4 bytes, given 1"),
        (replace(strided, groups=2), 2, "needs groups 1, given 2"),
        (replace(strided, stride_h=1), 2, "there is nothing to split"),
    ):
        with pytest.raises(TilingError, match=told):
            check_split(SPLIT_H, on_950(problem, itemsize))


def test_pixels_are_counted_in_sixteens_and_8_bit_channels_in_thirty_twos() -> None:
    """A base block of M pixels, N channels for dX, and of M channels, K pixels for dW."""
    inp = on_950(conv2d(2, 64, 64, 14, 3, pad=1), itemsize=1)
    data, weight = GradInputQuestion(LAYER).tiling(), GradWeightQuestion(LAYER).tiling()
    check_block(data.but(base_m=48, base_n=32, base_k=32), inp)
    check_block(weight.but(base_m=32, base_n=32, base_k=48), inp)
    for tiling in (data.but(base_m=32, base_n=48, base_k=32), weight.but(base_m=48, base_n=32, base_k=32)):
        with pytest.raises(TilingError, match="= 48 is not a positive multiple of 32"):
            check_block(tiling, inp)


def test_a_segment_of_k_is_whole_blocks_of_channels() -> None:
    wide = on_950(conv2d(2, 64, 64, 32, 3, pad=1), itemsize=4)
    tiling = GradInputQuestion(wide).tiling()
    check_grad_input(tiling.but(k_segment=8), wide)
    with pytest.raises(TilingError, match="kSegment = 4 is not a multiple of 8 output channels"):
        check_grad_input(tiling.but(k_segment=4), wide)


def test_weights_of_several_kernel_planes_do_not_stay() -> None:
    flat = on_950(conv2d(2, 16, 16, 16, 1))
    tiling = GradInputQuestion(flat).tiling()
    tiling = tiling.but(bl1_buffers=1, step_kb=-(-16 // tiling.base_k), step_n=1, base_n=16, single_core_cin=16)
    assert is_resident(tiling, flat)
    assert not is_resident(tiling, replace(flat, problem=replace(flat.problem, k_d=2, d_in=2)))


WHOLE = {"template": SPLIT_STREAM_K, "single_core_k": 14 * 14}
"""A deterministic task of all pixels."""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"single_core_m": 0}, "singleCoreM = 0 is not a multiple of 16"),
        ({"single_core_n": 32}, r"singleCoreN = 32 is not a multiple of kh\*kw\*C0 = 3\*3\*16"),
        ({"single_core_k": 15}, "singleCoreK = 15 is not a multiple of W_out = 14: tasks are whole rows"),
        (
            {"template": SPLIT_STREAM_K, "single_core_k": 182},
            r"singleCoreK = 182; allowed from H_out\*W_out = 14\*14 = 196: deterministic tasks take all of K",
        ),
        (
            {"template": SPLIT_STREAM_K, "single_core_k": 216, "split_wo": 8},
            r"singleCoreK = 216; allowed from rows of all strips\*splitWo = 28\*8 = 224: deterministic tasks take all of K",
        ),
        (WHOLE | {"single_core_batch": 1}, "deterministic tasks take all N.D_out = 2 images"),
        (
            WHOLE | {"single_core_batch": 2, "stream_k_type": STREAM_IMAGES, "block_dim": 21},
            "usedCoreNum = 21 > 20 cores: StreamK cores meet at a barrier",
        ),
    ],
)
def test_a_task_of_grad_weight_is_whole_blocks_rows_and_images(changes: dict[str, int], told: str) -> None:
    tiling = GradWeightQuestion(LAYER).tiling()
    check_grad_weight(tiling, LAYER)
    with pytest.raises(TilingError, match=told):
        check_grad_weight(tiling.but(**changes), LAYER)


def test_l1_holds_no_channel_block_that_does_not_exist() -> None:
    """But the host code for dav-3510 counts one."""
    problem = conv2d(2, 16, 16, 14, 1)
    tiling = GradWeightQuestion(LAYER).tiling().but(base_n=32, step_n=1, bl1_buffers=1)
    for inp, slices in ((on_910b(problem), 1), (on_950(problem), 2)):
        pixels = b1_pixels(inp, tiling.base_k * tiling.step_kb, clipped=True)
        assert grad_weight_l1(tiling, inp, clipped=True)[1] == pixels * slices * 16 * 2


def test_l1_holds_gradient_of_every_buffer() -> None:
    tiling = GradWeightQuestion(LAYER).tiling().but(step_ka=3, step_m=2, al1_buffers=1)
    one, _ = grad_weight_l1(tiling, LAYER)
    assert one == 3 * tiling.base_k * 2 * tiling.base_m * 2
    assert grad_weight_l1(tiling.but(al1_buffers=2), LAYER)[0] == 2 * one


@given(st.integers(1, 40), st.integers(1, 7))
def test_slices_of_b1_hold_every_place_of_the_columns(blocks: int, side: int) -> None:
    """Tiles begin at multiples of their own width: as many channel blocks as one of them touches have to lie in L1."""
    inp = on_910b(conv2d(1, 16, 16, 16, side))
    taps = side * side
    touched = [((start + blocks - 1) // taps) - start // taps + 1 for start in range(0, blocks * taps, blocks)]
    held = b1_slices(inp, blocks * inp.c0)
    assert max(touched) <= held <= max(touched) + 1
