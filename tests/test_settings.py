"""Kinds of options: the test for each kind of value, and the line of an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.ops.kinds import NUMBER
from ascend_sim.options.run_options import LaunchOptions, RunOptions
from ascend_sim.settings import KINDS, check_options

pytestmark = pytest.mark.fast


class Looks:
    """Somebody who looks at memory."""

    def watch(self) -> None: ...
    def started(self) -> None: ...
    def retired(self) -> None: ...


class Half:
    """Somebody who hears of beginnings alone."""

    def watch(self) -> None: ...
    def started(self) -> None: ...


FIT: dict[str, tuple[list[Any], list[Any]]] = {
    "a text": (["", "x"], [None, 1, b"x", ["x"]]),
    "a text or None": (["x", None], [1]),
    "an integer": ([0, -3, np.int8(3)], [None, True, 1.0, "1"]),
    "a whole number from 0, or None": ([0, 7, None], [-1, True, 1.5]),
    "a whole number from 1": ([1, np.int64(9)], [0, -1, True, None, 2.0]),
    "a whole number from 1, or None": ([1, None], [0, "1"]),
    "a number": ([0, 0.5, np.float32(2)], [True, None, "1"]),
    "a number, or None": ([0.5, None], ["1"]),
    "a list of texts": ([[], ("a",), {"a"}], ["a", [1], None]),
    "a text, or a list of texts": (["a", ["a", "b"]], [1, [1], None]),
    "True or False": ([True, 0, 1, np.bool_(False)], [None, 2, "yes", 0.0]),
    "True, False or None": ([True, None], [2, "no"]),
    "a chip's name, the path of a chip file or a ChipSpec": (
        ["ascend910b3", Path("x.yaml"), load_chip("ascend910a")], [None, 3, b"ascend910b3"],
    ),
    "a function or None": ([print, None], [1, "print"]),
    "an object with the methods watch, started and retired, or None": ([Looks(), None], [Half(), 1, "watch"]),
    "True, False or a number of instructions, 2 or more": ([True, False, 0, 1, 2, 10**9], [-1, None, 2.5, "all"]),
    'the name of a flag, or a list of such, like ["L0"]': (["L0", (), ["L0", "x"]], [None, 1, [1], {"k": ["L0"]}.values()]),
    'flags per kernel, like {"grad_input": ["L0"]}, or None': (
        [None, {}, {"grad_input": ["L0"]}, {"k": ()}], ["L0", ["L0"], {"k": "L0"}, {1: ["L0"]}],
    ),
    'fields per kernel, like {"grad_input": {"baseM": 256}}, or None': (
        [None, {}, {"k": {"baseM": 1}}], ["baseM=1", {"k": 1}, {"k": {1: 1}}, {1: {"baseM": 1}}],
    ),
    'a whole number, or one per kernel, like {"grad_weight": 32}, or None': ([None, 3, {"k": 3}], [True, "3", 2.0, [3]]),
    'the format of uint8 codes, like "hifloat8", or one per tensor, like {"weight": "hifloat8"}, or None': (
        [None, "hifloat8", {"weight": "hifloat8"}], [1, ["hifloat8"], {"weight": 8}],
    ),
}  # fmt: skip


def test_every_kind_is_tried() -> None:
    assert set(FIT) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_of_a_kind(kind: str) -> None:
    right, wrong = FIT[kind]
    fits = KINDS[kind]
    assert [value for value in right if not fits(value)] == [] == [value for value in wrong if fits(value)]


def test_the_line_names_option_value_and_what_is_allowed() -> None:
    with pytest.raises(SimError, match=r"^mode 3 must be a text$"):
        check_options(RunOptions, {"mode": 3})
    with pytest.raises(SimError, match=r"^mode 'quick': allowed are full, functional, timing$"):
        check_options(RunOptions, {"mode": "quick"})
    with pytest.raises(SimError, match=r"^pad 'x' must be an integer$"):
        check_options(RunOptions, {"pad": "x", "mode": 3}, {"pad": NUMBER})
    check_options(RunOptions, {"mode": "full", "disarm": {"grad_input": ["L0"]}, "pad": "of another"})


def test_the_same_name_may_mean_something_else_in_another_face() -> None:
    check_options(LaunchOptions, {"disarm": ["L0"]})
    with pytest.raises(SimError, match="disarm"):
        check_options(LaunchOptions, {"disarm": {"grad_input": ["L0"]}})
    with pytest.raises(SimError, match="disarm"):
        check_options(RunOptions, {"disarm": ["L0"]})
