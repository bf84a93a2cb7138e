"""Sizes of a convolution that shapes leave open."""

from __future__ import annotations

import pytest

from ascend_sim.studies.validate.inferred_sizes import _padding

pytestmark = pytest.mark.fast


@pytest.mark.fast
@pytest.mark.parametrize(
    ("size", "out", "kernel", "stride", "padding"),
    [(8, 8, 3, 1, 2), (4, 2, 2, 2, 1), (8, 3, 4, 2, 0), (8, 5, 4, 2, 4)],
    ids=("same", "same before none", "none before even", "even"),
)
def test_the_usual_padding(size: int, out: int, kernel: int, stride: int, padding: int) -> None:
    """The order among paddings that give the output: that of "same", then none, then the smallest even one."""
    assert _padding(size, out, kernel, stride) == padding
