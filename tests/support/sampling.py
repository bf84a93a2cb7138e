"""Samples of examples and of cases: the suite runs a part of them, `-m slow` all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from zlib import crc32

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


def part_of_cases(every: int, *keep: str) -> pytest.MarkDecorator:
    """Mark a parametrised test of which the suite runs about one case of `every`; the others run under `-m slow`.

    The choice depends on the name of the test and of the case alone, so that another case changes nothing. `keep` are parts
    of the names of cases that always run: a planted mistake (tools/mutation/list) that only they find, say. With `every` 0
    they are all that run.
    """
    return pytest.mark.part_of_cases(every, keep)


def mark_cases(items: Sequence[pytest.Item]) -> None:
    """Mark the cases of one test that the suite leaves out (`part_of_cases`) as slow; all of them where all are asked for."""
    marks = [mark for item in items for mark in item.iter_markers("part_of_cases")]
    if not marks:
        return
    every, keep = marks[0].args
    unknown = [part for part in keep if not any(part in item.name for item in items)]
    if unknown:
        raise pytest.UsageError(f"{items[0].nodeid}: no case has {unknown[0]!r} in its name")
    codes = [crc32(item.name.encode()) for item in items]
    chosen = [
        (every and code % every == 0) or any(part in item.name for part in keep)
        for item, code in zip(items, codes, strict=True)
    ]
    if not any(chosen):
        chosen[codes.index(min(codes))] = True
    for item, stays in zip(items, chosen, strict=True):
        if WHOLE or not stays:
            item.add_marker(pytest.mark.slow)
