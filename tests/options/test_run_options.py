"""The descriptions themselves: each option once, complete, and with a default that its own kind allows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, is_typeddict

import pytest

import ascend_sim
import ascend_sim.options.run_options as run_options
from ascend_sim.chip import ChipSpec
from ascend_sim.cli import values
from ascend_sim.cli.app import COMMANDS
from ascend_sim.options.description import Described, names_of, options_in
from ascend_sim.settings import KINDS

pytestmark = pytest.mark.fast

ANOTHER_MEANING = {"chip", "l2", "mode", "accumulate", "probe", "disarm"}
"""Names that mean something else in some face: the case's chip, an L2 of one kernel, flags of a kernel's own launch, ..."""
TYPES = {
    "Any": Any, "Callable": Callable, "ChipSpec": ChipSpec, "Mapping": Mapping, "Path": Path, "Sequence": Sequence,
}  # fmt: skip


def classes() -> list[type]:
    """Every class of options of the package."""
    modules = [run_options]
    for room in ("studies", "torch"):
        if room == "torch" and find_spec("torch") is None:
            continue
        folder = Path(ascend_sim.__file__).parent / room
        for found in pkgutil.walk_packages([str(folder)], f"ascend_sim.{room}."):
            if found.name.endswith(".options"):
                modules.append(importlib.import_module(found.name))
    return [
        one for module in modules for one in vars(module).values() if is_typeddict(one) and one.__module__ == module.__name__
    ]


CLASSES = classes()
ALL = {
    (one.name, id(one.option)): one for options in CLASSES if not hasattr(options, "_of_case") for one in options_in(options)
}
ENTRIES = [pytest.param(one, id=one.name) for one in ALL.values()]


def test_each_option_is_described_once() -> None:
    described: dict[str, set[int]] = {}
    for options in CLASSES:
        for name, annotation in options.__annotations__.items():
            described.setdefault(name, set()).add(id(annotation.__metadata__[0]))
    twice = {name for name, found in described.items() if len(found) > 1}
    assert twice == ANOTHER_MEANING
    assert all(len(described[name]) == 2 for name in twice)


@pytest.mark.parametrize("one", ENTRIES)
def test_an_entry_is_complete(one: Described) -> None:
    option = one.option
    eval(one.type, TYPES)
    assert option.words[0].isupper() or option.words[0] in "\"'"
    assert option.words.endswith(".")
    if option.kind:
        assert KINDS[option.kind](option.default)
        assert KINDS[option.kind](None) == one.type.endswith("| None")
    assert all(KINDS[option.kind](choice) for choice in option.choices)
    if option.choices:
        assert option.default in option.choices
    if option.shell is not None:
        assert set(option.shell.commands) <= set(COMMANDS) and option.shell.words.endswith(".")
        assert not option.shell.read or callable(getattr(values, option.shell.read))


FACES = {
    "convolution_backward": "RunOptions", "conv_tbc_backward": "RunOptions", "convolution": "RunOptions",
    "launch": "LaunchOptions", "run_case": "CaseOptions", "explain": "ExplainOptions", "explain_status": "StatusOptions",
}  # fmt: skip


@pytest.mark.parametrize("name", FACES)
def test_a_face_shows_its_class(name: str) -> None:
    """With the defaults of the class, and as the type that checkers read."""
    function, options = getattr(ascend_sim, name), getattr(run_options, FACES[name])
    shown = inspect.signature(function).parameters
    described = {one.name: one for one in options_in(options)}
    assert set(described) <= set(shown)
    for option in described.values():
        assert shown[option.name].default == option.option.default
        assert shown[option.name].annotation == option.type
        assert f"\n    {option.name}: {option.option.words}" in function.__doc__
    if name != "launch":  # whose keywords are also the kernel's
        hints = typing.get_type_hints(function.__wrapped__)
        assert typing.get_args(hints["options"]) == (options,)


def test_a_call_has_every_option_of_a_case_and_of_its_parts() -> None:
    call = names_of(run_options.RunOptions)
    for smaller in (run_options.CaseOptions, run_options.PlanOptions, run_options.AnyRunOptions, run_options.ExplainOptions):
        assert names_of(smaller) <= call
    assert names_of(run_options.LaunchOptions) - call == {"expected", "scalar_cycles_per_word"}
