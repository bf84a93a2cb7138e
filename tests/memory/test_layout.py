"""NC1HWC0 and FRACTAL_Z: element by element, and there and back."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.memory.layout import fractal_z_shape, from_fractal_z, from_ndc1hwc0, to_fractal_z, to_ndc1hwc0

pytestmark = pytest.mark.fast

size = st.integers(1, 4)
c0s = st.sampled_from([8, 16])


def numbered(*shape: int) -> np.ndarray[Any, Any]:
    """Distinct numbers, none of them zero."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)


@settings(max_examples=60, deadline=None)
@given(size, st.integers(1, 40), size, size, size, c0s)
def test_ndc1hwc0(n: int, c: int, d: int, h: int, w: int, c0: int) -> None:
    plain = numbered(n, c, d, h, w)
    blocks = to_ndc1hwc0(plain, c0)
    c1 = (c + c0 - 1) // c0
    wanted = np.zeros((n, d, c1, h, w, c0), np.int32)
    for i, channel, z, y, x in product(range(n), range(c), range(d), range(h), range(w)):
        wanted[i, z, channel // c0, y, x, channel % c0] = plain[i, channel, z, y, x]
    np.testing.assert_array_equal(blocks, wanted)
    assert blocks.flags.c_contiguous
    np.testing.assert_array_equal(from_ndc1hwc0(blocks, c), plain)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 18), st.integers(1, 18), st.integers(1, 2), st.integers(1, 3),
    st.integers(1, 3), c0s,
)  # fmt: skip
def test_fractal_z(groups: int, extension: int, cout: int, cin: int, k_d: int, k_h: int, k_w: int, c0: int) -> None:
    """[real groups][k_d][cin1][tap][cout1][16 co][C0 ci]: groups block-diagonal in a real group, zero elsewhere."""
    weight = numbered(groups * cout, cin, k_d, k_h, k_w)
    blocks = to_fractal_z(weight, groups, extension, c0)
    assert blocks.shape == fractal_z_shape(groups * cout, cin, k_d, k_h * k_w, groups, extension, c0)
    wanted = np.zeros(blocks.shape, np.int32)
    for o, i, z, y, x in product(range(groups * cout), range(cin), range(k_d), range(k_h), range(k_w)):
        group, in_group = divmod(o, cout)
        real, place = divmod(group, extension)
        co, ci = place * cout + in_group, place * cin + i
        wanted[real, z, ci // c0, y * k_w + x, co // 16, co % 16, ci % c0] = weight[o, i, z, y, x]
    np.testing.assert_array_equal(blocks, wanted)
    back = from_fractal_z(blocks, groups * cout, cin, k_h, k_w, groups, extension)
    np.testing.assert_array_equal(back, weight)


def test_shapes_on_paper() -> None:
    assert fractal_z_shape(64, 64, 1, 9, 1, 1, 16) == (1, 1, 4, 9, 4, 16, 16)
    assert fractal_z_shape(32, 1, 1, 9, 32, 16, 16) == (2, 1, 1, 9, 1, 16, 16)
    assert fractal_z_shape(6, 3, 2, 1, 3, 2, 8) == (2, 2, 1, 1, 1, 16, 8)
