"""Groups: tiles of those that are alike are the same stamps, and programs stay those that are built row by row."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim import SimError, TensorSpec
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.program import Program
from tests.support.ops.stamped_runs import difference, row_by_row
from tests.support.sampling import part_of_cases

CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")
GROUPS = (2, 3, 5, 17, 33, 40)
PER_GROUP = ((1, 1), (1, 1), (2, 2), (1, 2), (3, 5), (16, 16), (20, 12), (8, 8))
"""Channels of input and output of a group: merged so that they fill blocks, and those that fill them alone."""


def call(case: dict[str, Any], **options: Any) -> ascend_sim.Result:
    """For dX and dW; in mode "functional" of whole numbers."""
    images, groups, (cin, cout), sizes, taps = (case[name] for name in ("n", "groups", "per_group", "sizes", "taps"))
    strides, pads = case["strides"], case["pads"]
    out = [(size + 2 * pad - tap) // stride + 1 for size, pad, tap, stride in zip(sizes, pads, taps, strides, strict=True)]
    shapes = (images, groups * cout, *out), (images, groups * cin, *sizes), (groups * cout, cin, *taps)
    tensors: list[Any] = [TensorSpec(shape, case["dtype"]) for shape in shapes]
    if options["mode"] == "functional":
        random = np.random.default_rng(0)
        tensors = [random.integers(-3, 4, shape).astype(case["dtype"]) for shape in shapes]
    return ascend_sim.convolution_backward(
        *tensors,
        None,
        strides,
        pads,
        [1] * len(taps),
        False,
        [0] * len(taps),
        groups,
        (True, True, False),
        chip=case["chip"],
        deterministic=case["deterministic"],
        block_dim=case["block_dim"],
        **options,
    )


def programs(case: dict[str, Any]) -> list[Program]:
    """All programs of a call."""
    result = call(case, mode="timing")
    return [run.program for run in sorted(result.timeline.programs, key=lambda run: (run.task, run.program.block))]


def case_of(index: int) -> dict[str, Any]:
    """A small random call."""
    random = Random(index)
    axes = random.choice((1, 2, 2, 3))
    taps = [random.randint(1, 3 if axes < 3 else 2) for _ in range(axes)]
    return {
        "chip": CHIPS[index % len(CHIPS)],
        "n": random.randint(1, 4),
        "groups": random.choice(GROUPS),
        "per_group": random.choice(PER_GROUP),
        "sizes": [random.randint(3, 9 if axes < 3 else 5) for _ in taps],
        "taps": taps,
        "strides": [random.randint(1, 2) for _ in taps],
        "pads": [tap // 2 for tap in taps],
        "dtype": random.choice(("float16", "float16", "float32")),
        "deterministic": random.random() < 0.4,
        "block_dim": random.choice((None, 1, 2, 3)),
    }


def check_calls(indices: range) -> None:
    done = 0
    for case in map(case_of, indices):
        try:
            stamped = programs(case)
        except SimError:
            with row_by_row(), pytest.raises(SimError):  # and not because of the stamps
                programs(case)
            continue
        with row_by_row():
            assert not difference(programs(case), stamped), case
        done += 1
    assert done > len(indices) // 2


def test_random_groups() -> None:
    check_calls(range(12))


@pytest.mark.slow
def test_many_random_groups() -> None:
    check_calls(range(100, 700))


@part_of_cases(3)
@pytest.mark.parametrize(("groups", "per_group"), [(18, (1, 1)), (3, (16, 16))])
@pytest.mark.parametrize(("chip", "axes"), [*((chip, 2) for chip in CHIPS), (CHIPS[0], 3), (CHIPS[3], 3)])
def test_gradients_of_groups(chip: str, groups: int, per_group: tuple[int, int], axes: int) -> None:
    """Which tile belongs to which group is as much a part of plain building."""
    case = {**case_of(0), "chip": chip, "groups": groups, "per_group": per_group, "block_dim": 2, "n": 2}
    case |= {"sizes": [4] * axes, "taps": [2] * axes, "strides": [1] * axes, "pads": [1] * axes, "dtype": "float16"}
    assert call(case, mode="functional").report.passed


def stamps_of(case: dict[str, Any]) -> int:
    """How many stamps its cube programs were made of."""
    tables = {id(one.table): one.table for one in programs(case)}.values()
    cubes = [table for table in tables if any(isinstance(one, Mmad) for one in table.instructions)]
    assert len(cubes) == 2
    return sum(len(table.stamps.known) for table in cubes)


@part_of_cases(3)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("per_group", [(16, 16), (1, 1)])
def test_tiles_of_other_groups_are_the_same_stamps(chip: str, per_group: tuple[int, int]) -> None:
    """Where the last ones have as many channels."""
    case = {**case_of(0), "chip": chip, "per_group": per_group, "n": 2, "sizes": [9, 9], "taps": [3, 3]}
    case |= {"strides": [1, 1], "pads": [1, 1], "dtype": "float16", "deterministic": False, "block_dim": 1}
    few, many, less = (stamps_of({**case, "groups": 256 // per_group[0] + more}) for more in (0, 64, 60))
    assert few == many
    assert less > many or per_group == (16, 16)
