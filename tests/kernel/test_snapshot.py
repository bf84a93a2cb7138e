# ruff: noqa: E501 - values of a table fill its lines
"""Snapshots: equal where a body sees the same, other where it sees a change, and none of what nobody can see into."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.snapshot import Snapshots, Unknown
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.kernel.tracked import Trace

pytestmark = pytest.mark.fast

TILE = 3
Pair = namedtuple("Pair", "left right")


class RowKind(IntEnum):
    SCORES = 0
    SUMS = 1


@dataclass
class KernelSettings:
    """Settings of a kernel of one's own."""

    tile: int = 4
    rows: list[int] = field(default_factory=list)


class OpaqueCounter:
    """An object into which nobody can see."""

    count = 0


def tiled(row: int) -> int:
    return row * TILE


def of(value: Any) -> Any:
    return Snapshots(globals(), None).of(value)


def closure(number: Any) -> Any:
    return lambda: number


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7, lambda: 0.5, lambda: "text", lambda: None, lambda: range(3), lambda: [1, (2, {"a": {3}})], lambda: slice(1, None),
        lambda: np.arange(5), lambda: np.float32(2), lambda: Tensor.at(1, "x", (3, 4), "float16"), lambda: RowKind.SUMS, lambda: np,
        lambda: LocalTensor(64, (3, 8), "float32"), lambda: KernelSettings(rows=[1]), lambda: Pair(1, 2), lambda: closure(3), lambda: tiled,
        lambda: partial(tiled, 3), lambda: [].append if False else len, lambda: KernelSettings, lambda: load_chip("ascend910b3"),
    ],
)  # fmt: skip
def test_what_looks_the_same_is_equal(make: Any) -> None:
    assert of(make()) == of(make()) and hash(of(make())) == hash(of(make()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), (0.0, -0.0), ("1", 1), ((1, 2), [1, 2]), ((1, 2), Pair(1, 2)), ([1], [1, 1]), ({1: 2}, {1: 3}), ({1}, {2}),
        (np.arange(3), np.arange(3.0)), (np.zeros((2, 3)), np.zeros((3, 2))), (np.zeros(2), -np.zeros(2)), (slice(1), slice(2)),
        (Tensor.at(0, "x", (3, 4), "float16"), Tensor.at(1, "x", (3, 4), "float16")), (RowKind.SUMS, 1), (RowKind.SUMS, RowKind.SCORES),
        (Tensor.at(0, "x", (3, 4), "float16"), Tensor.at(0, "x", (3, 4), "bfloat16")), (KernelSettings(4), KernelSettings(5)),
        (KernelSettings(rows=[1]), KernelSettings(rows=[1, 2])), (closure(3), closure(4)), (partial(tiled, 3), partial(tiled, 4)), (tiled, closure),
        (LocalTensor(0, (8,), "float32"), LocalTensor(32, (8,), "float32")), (range(3), range(4)), (lambda a=1: a, lambda a=2: a),
    ],
)  # fmt: skip
def test_what_looks_otherwise_is_not(one: Any, other: Any) -> None:
    assert of(one) != of(other)


@pytest.mark.parametrize(
    "value",
    [
        iter([1]),
        (n for n in ()),
        OpaqueCounter(),
        [OpaqueCounter()],
        np.zeros(1 << 20),
        np.array([OpaqueCounter()], object),
        closure(OpaqueCounter()),
    ],
)
def test_what_nobody_can_see_into(value: Any) -> None:
    with pytest.raises(Unknown):
        of(value)


def test_a_change_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that grows, an object, and the values that a function takes from its file change the snapshot."""
    grown, settings = [1], KernelSettings()
    before = of(grown), of(closure(grown)), of(settings), of(tiled)
    grown.append(2)
    settings.tile = 8
    monkeypatch.setitem(globals(), "TILE", 5)
    after = of(grown), of(closure(grown)), of(settings), of(tiled)
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_names_are_looked_up_as_python_does() -> None:
    snapshots = Snapshots({"a": 1, "b": 2}, None)
    assert snapshots.of_names({"a", "b", "len", "c"}, {"b": 3}) == snapshots.of_names({"b", "a"}, {"a": 1, "b": 3})
    assert snapshots.of_names({"a"}, {}) != snapshots.of_names({"a"}, {"a": 5})


def test_a_number_of_an_earlier_turn_is_its_integer() -> None:
    trace = Trace((7,))
    number = trace.numbers()[0]
    trace.over = True
    assert of(number + 1) == of(8)


def test_a_queue_looks_the_same_however_far_it_is() -> None:
    k = Kernel(InstructionTable(load_chip("ascend910b3")), 0, "AIV", [], blocks=1)
    one, other = (k.ub_queue(name, 64, "float16", "MTE2", "V") for name in ("one", "other"))
    snapshots = Snapshots({}, k)
    before = snapshots.of((k, one, one.write(), k.add))
    with one.write():
        pass
    assert before == snapshots.of((k, one, one.write(), k.add)) != snapshots.of((k, other, other.write(), k.add))
