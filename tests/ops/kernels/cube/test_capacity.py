"""Capacities: L1 to the byte, the fields of load3d, and the channel blocks that columns of dW touch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import check_block, check_load3d, check_load3d_k, check_steps, fits_l0, l0_bytes
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_fits_l1, grad_input_l1
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.capacity import (
    check_grad_weight,
    check_grad_weight_problem,
    grad_weight_fits_l1,
    grad_weight_l1,
)  # fmt: skip
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tight_tilings import LAYER
from tests.support.ops.tiling_problems import BUFFERS, conv2d, on_910b, on_950

pytestmark = pytest.mark.fast


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


def test_pixels_are_counted_in_sixteens_and_8_bit_channels_in_thirty_twos() -> None:
    """A base block of M pixels, N channels for dX, and of M channels, K pixels for dW."""
    inp = on_950(conv2d(2, 64, 64, 14, 3, pad=1), itemsize=1)
    data, weight = GradInputQuestion(LAYER).tiling(), GradWeightQuestion(LAYER).tiling()
    check_block(data.but(base_m=48, base_n=32, base_k=32), inp)
    check_block(weight.but(base_m=32, base_n=32, base_k=48), inp)
    for tiling in (data.but(base_m=32, base_n=48, base_k=32), weight.but(base_m=48, base_n=32, base_k=32)):
        with pytest.raises(TilingError, match="= 48 is not a positive multiple of 32"):
            check_block(tiling, inp)


def test_a_refusal_counts_8_bit_pixels_as_l0_holds_them() -> None:
    """L0 holds 112 pixels as 128: the message has the bytes that are too many, not a product that would fit."""
    inp = on_950(conv2d(2, 64, 64, 14, 3, pad=1), itemsize=1)
    tiling = GradWeightQuestion(LAYER).tiling().but(base_m=288, base_n=32, base_k=112, al0_buffers=2)
    used = 288 * 128 * 2
    assert 288 * 112 * 2 < inp.buffers["L0A"] < used
    with pytest.raises(TilingError, match=rf"L0A: baseM\*baseK\*1\*al0Pbuffer = 288\*128\*1\*2 = {used} > "):
        check_block(tiling, inp)
