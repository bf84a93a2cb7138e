"""How many examples a property gets: a sample in the suite, the full count under `-m slow`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Test = TypeVar("Test", bound=Callable[..., Any])

WHOLE = False
"""True if the long tests were asked for (`conftest.py` says so before tests are collected)."""


def sampled(part: int, whole: int, **options: Any) -> Callable[[Test], Test]:
    """`part` examples of a property in the suite; `-m slow` selects it too, with `whole`."""
    chosen = settings(max_examples=sample(part, whole), **options)
    return lambda test: as_part(chosen(test))


def as_part(test: Test) -> Test:
    """A test that runs in the suite with part of its examples (`sample`), and under `-m slow` with all of them."""
    return pytest.mark.slow(test) if WHOLE else test


def sample(part: int, whole: int) -> int:
    """How many runs a loop makes in a test that is marked `as_part`."""
    return whole if WHOLE else part
