"""Fixtures of the tests beside this file."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def tiny() -> Any:
    """Return a small network."""
    torch = pytest.importorskip("torch")
    from tests.support.torch.models import small_cnn

    torch.manual_seed(0)
    return small_cnn()
