"""What fits: L1 to the byte, the fields of load3d, and the channel blocks that columns of dW touch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiling_problems import BUFFERS, conv2d, on_910b

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import check_load3d_k
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_fits_l1, grad_input_l1
from ascend_sim.ops.kernels.grad_input.choose import choose_grad_input
from ascend_sim.ops.kernels.grad_weight.capacity import (
    b1_slices,
    check_grad_weight,
    check_grad_weight_problem,
    grad_weight_fits_l1,
    grad_weight_l1,
)  # fmt: skip
from ascend_sim.ops.kernels.grad_weight.choose import choose_grad_weight
from ascend_sim.ops.problem.tiling_input import TilingInput

pytestmark = pytest.mark.fast

LAYER = on_910b(conv2d(2, 64, 64, 14, 3, pad=1))


def with_l1(size: int) -> TilingInput:
    return replace(LAYER, buffers={**BUFFERS, "L1": size})


@pytest.mark.parametrize("short", [1, 32])
@pytest.mark.parametrize("kernel", ["grad_input", "grad_weight"])
def test_l1_is_full_to_the_byte(kernel: str, short: int) -> None:
    if kernel == "grad_input":
        tiling = choose_grad_input(LAYER)
        used, fits, check = sum(grad_input_l1(tiling, LAYER)), grad_input_fits_l1, check_grad_input
    else:
        tiling = choose_grad_weight(LAYER)
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


@given(st.integers(1, 40), st.integers(1, 7))
def test_slices_of_b1_hold_every_place_of_the_columns(blocks: int, side: int) -> None:
    """Tiles begin at multiples of their own width: as many channel blocks as one of them touches have to lie in L1."""
    inp = on_910b(conv2d(1, 16, 16, 16, side))
    taps = side * side
    touched = [((start + blocks - 1) // taps) - start // taps + 1 for start in range(0, blocks * taps, blocks)]
    held = b1_slices(inp, blocks * inp.c0)
    assert max(touched) <= held <= max(touched) + 1
