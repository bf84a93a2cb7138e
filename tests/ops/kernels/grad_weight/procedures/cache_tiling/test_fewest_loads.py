"""Counts of the cache tiling: the largest divisor, and the blocks that the tiles of a core bring from L1 to L0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fewest_loads import _load_from_l1
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import divisors

pytestmark = pytest.mark.fast


@given(st.data())
def test_of_a_one_by_one_layer_lines_of_both_operands_are_as_long(data: st.DataObject) -> None:
    """The operand that stays gives up whole lines until its own tile divides them; which it is, no length tells."""
    m, n, rows = (data.draw(st.integers(1, 24)) for _ in range(3))
    chip = load_chip("ascend910b2")
    ones = ("n", "d_in", "d_out", "k_d", "k_h", "k_w", "stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h")
    sizes = dict.fromkeys((*ones, "dilation_w", "groups"), 1)
    sizes |= dict.fromkeys(("pad_front", "pad_back", "pad_up", "pad_down", "pad_left", "pad_right"), 0)
    sizes |= {"c_in": 16 * n, "c_out": 16 * m, "h_in": rows, "w_in": 16, "h_out": rows, "w_out": 16}
    l1 = data.draw(st.integers(4, 2 * (m + n))) * rows * 512
    problem = FilterProblem(ConvProblem(**sizes), 2, 24, l1, 65536, 131072, chip.load3d.limits)
    m_l0, n_l0 = data.draw(st.sampled_from(divisors(m, 8))), data.draw(st.sampled_from(divisors(n, 8)))
    share = Share(batch=1, m=m, n=n, k=rows, group=1, n_tile=n, n_held=n)
    found = _load_from_l1(problem, share, Tile(m_l0=m_l0, n_l0=n_l0))

    room, line = l1 // 2, rows * 256  # elements: k0 = 16 pixels of 16 channels; a row of B is 16 pixels too
    a_least, b_least = m_l0 * 256, n_l0 * 256
    if min(m * line + b_least, n * line + a_least) <= room:
        assert found == m + n
        return
    options = []
    for axis, other, tile, least in ((m, n, m_l0, b_least), (n, m, n_l0, a_least)):
        held = min((room - least) // line, axis)
        if held >= tile:
            held = max(h for h in range(1, held + 1) if axis % h == 0 and h % tile == 0)
        if held > 0:
            options.append(axis // held * other + axis)
    assert found == min(options, default=m * n // m_l0 + m * n // n_l0)
