"""Sizes that a kernel asks for: whole numbers from 1, of Python or numpy, in every method that gives out memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
WRONG = (-256, 0, -1, -(2**70), True, False, 64.0, 0.5, np.nan, np.inf, "64", None, np.int64(-32), np.int8(0))
WRONG += (np.float32(64), np.bool_(True), np.array([64.0]), np.array([-64]), 64j)
WHOLE = (64, np.int64(64), np.int32(64), np.uint8(64))
METHODS: dict[str, Callable[[Kernel, Any], Any]] = {
    "allocate": lambda k, size: k.allocate("UB", size, "oops"),
    "local_tensor": lambda k, size: k.local_tensor(size, "float32", "oops"),
    "local_tensor, rows": lambda k, size: k.local_tensor((size, 8), "float32", "oops"),
    "local_tensor, columns": lambda k, size: k.local_tensor([8, size], "float32", "oops"),
    "ub_queue": lambda k, size: k.ub_queue("oops", size, "float32", "MTE2", "MTE3"),
    "queue": lambda k, size: k.queue("oops", "UB", size, "MTE2", "MTE3"),
    "queue of several": lambda k, size: k.queue("oops", ["UB", "UB"], [64, size], "MTE2", "MTE3"),
    "buffers of a queue": lambda k, size: k.queue("oops", "UB", 64, "MTE2", "MTE3", size),
    "buffers of a ub_queue": lambda k, size: k.ub_queue("oops", 8, "float32", "MTE2", "MTE3", buffers=size),
}


def kernel() -> Kernel:
    return Kernel(InstructionTable(CHIP), 0, "AIV", [4096], blocks=1)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_size_is_refused_in_one_line(method: str) -> None:
    for size in WRONG:
        k = kernel()
        with pytest.raises(SimError) as refusal:
            METHODS[method](k, size)
        assert "oops" in str(refusal.value) and "\n" not in str(refusal.value), repr(size)
        assert k.allocate("UB", 32, "next") == (64 * (method == "queue of several")), repr(
            size
        )  # what was refused took nothing


@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("buffers")])
def test_integers_of_numpy_are_sizes(method: str) -> None:
    """An address behind them is a plain int, that of 64 given as Python writes it."""
    plain = kernel()
    METHODS[method](plain, 64)
    expected = plain.allocate("UB", 32, "next")
    for size in WHOLE:
        k = kernel()
        METHODS[method](k, size)
        after = k.allocate("UB", 32, "next")
        assert (after, type(after)) == (expected, int), repr(size)


@pytest.mark.parametrize("shape", [(), [], (2, 3, 4), np.zeros(0, np.int64)], ids=repr)
def test_a_shape_has_one_or_two_sizes(shape: Any) -> None:
    with pytest.raises(SimError, match="a local tensor has one or two dimensions of at least 1, not"):
        kernel().local_tensor(shape, "float32", "oops")


@pytest.mark.parametrize("unit", [-32, True, 1.5, "32", None], ids=repr)
def test_a_unit_is_a_whole_number(unit: Any) -> None:
    with pytest.raises(SimError, match=r"the unit of oops in UB is .*; allowed is a whole number from 0"):
        kernel().allocate("UB", 64, "oops", unit)


def test_the_line_names_place_and_limit() -> None:
    with pytest.raises(SimError) as refusal:
        kernel().allocate("UB", -256, "oops")
    said = "block 0 AIV: the size in bytes of oops in UB is -256; allowed is a whole number from 1"
    assert str(refusal.value) == said


def test_bytes_that_are_not_kept_are_taken_again() -> None:
    k = kernel()
    k.allocate("UB", 64, "before")
    assert (k.allocate("UB", 4096, "zeros", keep=False), k.allocate("UB", 32, "after")) == (64, 64)
    with pytest.raises(SimError, match="zeros needs"):
        k.allocate("UB", CHIP.buffers["UB"], "zeros", keep=False)
