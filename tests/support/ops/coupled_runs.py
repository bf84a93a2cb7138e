"""Cube kernels of coupled chips with small buffers in UB, so that small problems take several rounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_pieces(size: int) -> Iterator[None]:
    """Cube kernels on coupled chips with UB buffers of `size` bytes; the kernels around them keep the whole UB."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("cube.pipeline", "grad_input.loads"):
            patch.setattr(f"ascend_sim.ops.kernels.{module}.ub_share", lambda k: size)
        yield
