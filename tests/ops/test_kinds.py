"""Kinds of arguments: a list of numbers or flags is no text and no bytes, whose items look like both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.errors import SimError
from ascend_sim.ops.kinds import MASK, NUMBERS, SHAPE, SIZES, check_kinds

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("value", [(), [True, False, 1], (0, 1, 1), np.array([True, False]), range(2)])
def test_a_mask_is_a_list_of_flags(value: Any) -> None:
    assert MASK.fits(value)


@pytest.mark.parametrize("value", ["", "110", b"", b"\x01\x00\x01", [2], np.ones((2, 2), bool), True])
def test_other_values_are_no_mask(value: Any) -> None:
    assert not MASK.fits(value)
    with pytest.raises(SimError, match=r"output_mask .* must be a list of True and False, or None"):
        check_kinds({"output_mask": value}, {"output_mask": MASK})


@pytest.mark.parametrize("kind", [SHAPE, SIZES, NUMBERS])
def test_a_list_of_integers_is_neither_text_nor_bytes(kind: Any) -> None:
    assert all(kind.fits(value) for value in ((), [1, 2], np.array([3]), range(2)))
    assert not any(kind.fits(value) for value in ("", b"", b"\x01", [True], [1.0], np.ones((1, 1), int)))
