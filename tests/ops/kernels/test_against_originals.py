"""Our cube kernels beside the vendor's open ones: the same rows, and the same cycles on the same engine."""

from __future__ import annotations

import pytest

from tests.support.ops.originals import Original, beside, first_difference, originals

LAYERS = originals()


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_every_row_is_the_originals(layer: Original) -> None:
    """Instructions, buffers, order and waits of every block; but for labels, and names of flags."""
    assert first_difference(layer) == ""


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_counts_and_cycles_are_the_originals(layer: Original) -> None:
    """The rows that are replayed are those that were counted when they were recorded."""
    found = beside(layer)
    assert found.theirs == layer.counts
    assert found.ours == found.theirs
    assert found.ratio == pytest.approx(1, abs=0.02)
