"""Parts of a size, as even as they can be."""

from __future__ import annotations

from ascend_sim.ops.kernels.cube.space import even_parts


def test_even_parts_by_hand() -> None:
    assert even_parts(7) == [7, 4, 3, 2, 1]
    assert even_parts(100, 16) == [112, 64, 48, 32, 16]
    assert even_parts(1, 16) == [16]
