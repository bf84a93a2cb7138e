"""Suggestions of the parts of a waterfall: statements, commands and words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
import typer.main

from ascend_sim.cli import app
from ascend_sim.options.commands import PythonCalls, ShellCommands
from ascend_sim.report.advice import ESTIMATED, Added, layer_words, statements
from ascend_sim.report.waterfall import WORDS
from tests.support.report.layers import kernels, layer
from tests.support.report.small_kernels import CHIP

MINE = ShellCommands("my.yaml", {}, {})


class Tried:
    """Trials that know nothing but a cost for every change."""

    batch = 20

    def __init__(self, added: int | None, *, whole: bool = True) -> None:
        self.cost = None if added is None else Added(added, whole)

    def added(self, kernel: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
        return self.cost


def test_statements_name_the_largest_parts_and_a_command() -> None:
    result = layer(stride=2, channels=(256, 256))
    kernel = kernels(result)["grad_input"]
    said = statements(CHIP, kernel, result.report.problem, MINE, Tried(None))
    assert [one.cycles for one in said] == sorted((one.cycles for one in said), reverse=True)
    assert said[0].parts == ("zeros",) and "stride 2x2" in said[0].text and "4.0 times" in said[0].text
    assert said[0].gain is None and not said[0].change
    assert all(one.cycles == sum(kernel["waterfall"][part] for part in one.parts) for one in said)
    assert "ascend-sim tile my.yaml --kernel grad_input" in [one.command for one in said]


def test_every_part_has_something_to_say_and_a_figure() -> None:
    result = layer()
    kernel = dict(kernels(result)["grad_input"])
    without = {"zeros"}  # no tiling of this chip's kernel avoids them
    for part in WORDS:
        if part not in ("ideal", "left out", "less work"):
            kernel["waterfall"] = {"ideal": 10, part: 90}
            one, *_ = statements(CHIP, kernel, {"stride": [2, 2]}, None, Tried(0))
            assert one.text.startswith("90 % (") and one.text.count(". ") >= 1, one.text
            assert (one.gain is None) == (part in without), one.text
            assert one.at_most == (not one.change and part not in without) == ("at most" in one.text), one.text


@pytest.mark.parametrize("case", ["my layer.yaml", "by_hand"])
def test_commands_hold_the_case_and_parse(case: str) -> None:
    """Commands are split as the shell splits them: the case is one word, every other a known verb or option."""
    result, kernel = layer(), dict(kernels(layer())["grad_input"])
    commands, seen = typer.main.get_command(app), set()
    named = ShellCommands(case, {"chip": "ascend910b3"}, {})
    for part, added in ((part, added) for part in WORDS for added in (0, -50)):
        kernel["waterfall"] = {"ideal": 10, part: 90}
        problem = dict(result.report.problem) | {"compute_dtype": "float32"}
        for one in statements(CHIP, kernel, problem, named, Tried(added)):
            if one.command:
                program, verb, *words = shlex.split(one.command)
                assert program == "ascend-sim" and words[0] == case
                found = commands.get_command(typer.Context(commands), verb)  # type: ignore[attr-defined]
                assert found is not None
                found.make_context(verb, list(words))
                seen.add((verb, words[3]))
    assert seen == {
        ("run", "--tiling"), ("run", "--block-dim"), ("run", "--cube-math-type"), ("tile", "--kernel"), ("sweep", "--vary"),
    }  # fmt: skip


def test_a_call_of_python_goes_on_in_python() -> None:
    kernel = dict(kernels(layer())["grad_input"]) | {"waterfall": {"ideal": 10, "wait MTE1": 90}}
    lines = ("search_tilings(result.case(), 'grad_input')", "run_case(result.case(), tiling={'grad_input': {'base")
    for added, line in zip((0, -50), lines, strict=True):
        (one,) = statements(CHIP, kernel, {}, PythonCalls("result.case()", {}), Tried(added))
        assert one.command.startswith(f"ascend_sim.{line}")


def test_advice_names_fields_of_the_kernels_own_tiling() -> None:
    """The vendor's grad_weight has other fields than those a user sets."""
    kernel = dict(kernels(layer(batch=3))["grad_weight"])
    assert "m_l0" in kernel["tiling"]
    asked: list[str] = []

    class WatchedTrials(Tried):
        def added(self, name: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
            asked.extend(change.get("tiling", {}).get(name, {}))
            return self.cost

    for part in WORDS:
        kernel["waterfall"] = {"ideal": 10, part: 90}
        for one in statements(CHIP, kernel, {}, MINE, WatchedTrials(0)):
            assert not any(field in one.text for field in ("baseM", "baseN", "cl0Pbuffer", "al1Pbuffer")), one.text
    assert asked == []
    kernel["tiling"] = kernels(layer(batch=3))["grad_input"]["tiling"]
    kernel["waterfall"] = {"ideal": 10, "wait FIX": 90}
    statements(CHIP, kernel, {}, MINE, WatchedTrials(0))
    assert set(asked) <= kernel["tiling"].keys() and "cl0Pbuffer" in asked


def test_the_gain_is_that_of_all_blocks_and_one_block_chooses() -> None:
    """One block says -40 of a doubled baseM and -60 of a doubled baseN; all blocks say -30 of any."""
    kernel = dict(kernels(layer())["grad_input"]) | {"waterfall": {"ideal": 10, "wait MTE1": 90}}
    wholes: list[str] = []

    class BothWays(Tried):
        def added(self, name: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
            (field,) = change["tiling"][name]
            wholes.extend([field] if whole else [])
            return Added(-30 if whole else {"baseM": -40, "baseN": -60}[field], whole)

    (one,) = statements(CHIP, kernel, {}, MINE, BothWays(0))
    assert one.gain == 30 and "baseN=" in one.text and wholes == ["baseN"]


def test_a_gain_of_one_block_says_so_in_its_sentence() -> None:
    """Every change of every part: the words and the mark stand together, and only where no whole kernel was tried."""
    kernel, seen = dict(kernels(layer())["grad_input"]), set()
    for part in WORDS:
        kernel["waterfall"] = {"ideal": 10, part: 90}
        problem = {"stride": [2, 2], "compute_dtype": "float32"}
        for whole in (True, False):
            for one in statements(CHIP, kernel, problem, MINE, Tried(-50, whole=whole)):
                tried = bool(one.change) and "channels" not in one.change
                assert one.estimated == (tried and not whole) == (ESTIMATED in one.text), one.text
                seen |= set(one.change)
    assert seen == {"tiling", "block_dim", "batch", "channels", "cube_math_type"}


@pytest.mark.parametrize(("added", "asked"), [(104, [False]), (102, [False, True]), (50, [False, True])])
def test_a_batch_that_costs_more_in_one_block_is_not_tried_whole(added: int, asked: list[bool]) -> None:
    """The kernel takes 100 cycles: two calls take 200, and a call of twice the batch so many more than one."""
    kernel = dict(kernels(layer())["grad_input"]) | {"waterfall": {"ideal": 10, "start": 90}}
    wholes: list[bool] = []

    class BatchTried(Tried):
        def added(self, name: str, change: Mapping[str, Any], *, whole: bool) -> Added | None:
            wholes.append(whole)
            return Added(added, whole)

    (one,) = statements(CHIP, kernel, {}, MINE, BatchTried(0))
    assert wholes == asked and one.gain == 100 - added and one.estimated == (asked == [False])


def test_a_layer_in_words() -> None:
    problem = layer(stride=2).report.problem
    assert layer_words(problem) == "64 -> 64 channels, kernel 3x3, stride 2x2, maps 28x28, batch 20"
    assert layer_words({"operator": "kernel"}) == ""
