"""Fields and limits in the docstrings of a kernel's methods, against the code that they are made from."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.isa.forms import GROUPS, Field, declared
from ascend_sim.kernel.kernel import Kernel
from tests.support.isa.facts import CHIPS
from tests.support.isa.fields import FACTS, FieldFact, asker, reached, step_of, unreachable

pytestmark = pytest.mark.fast

TOOL = Path(__file__).resolve().parents[1] / "tools" / "instruction_parameters.py"
BY_EMIT = {
    "copy_gm_to_ubuf_align (padded)", "copy_gm_to_ubuf_align_v2 (padded)", "copy_matrix_cc_to_cbuf", "vector (dst, src)",
    "vector (dst, src0, src1)",
}  # fmt: skip
"""Instructions without a method of their own: `emit` alone writes them."""
NARROW = {"m_step": "1 or 2", "local_stride": "of rows that adjoin the length"}
"""Fields that a parameter changes, but not to the limit."""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    sys.path.append(str(TOOL.parent))
    spec = importlib.util.spec_from_file_location("instruction_parameters", TOOL)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def methods(tool: ModuleType) -> list[str]:
    return list(dict.fromkeys(one.method for one in tool.PROBES))


def test_the_docstrings_are_what_the_code_says(tool: ModuleType) -> None:
    """After a change: python tools/instruction_parameters.py"""
    written = tool.written()
    assert {path: path.read_text(encoding="utf-8") for path in written} == written
    for method in methods(tool):
        assert (tool.HEAD in (getattr(Kernel, method).__doc__ or "")) == (method != "emit"), method


def test_every_method_that_writes_fields_has_a_probe(tool: ModuleType) -> None:
    writes = set()
    sections = sys.modules["instruction_samples"].SECTIONS
    for sample in (one for title in sections if title != "Order and time" for one in sections[title] if not one.kind):
        for chip in map(load_chip, tool.CHIPS):
            if any(form.fields for form in tool.ProbedCall(sample, chip).forms()):
                writes.add(sample.method)
    assert writes == {*methods(tool)} - {"emit"}


def test_every_declared_field_is_reached_by_a_parameter(tool: ModuleType) -> None:
    forms = [form for group in GROUPS for form in declared(group)]
    fields = {(form.name, arch, one.name) for form in forms for arch in form.architectures for one in form.fields}
    found: dict[str, set[tuple[str, str, str]]] = {
        method: {(one.form.name, one.arch, one.field) for one in tool.reached(method) if one.field} for method in methods(tool)
    }
    by_method = set().union(*(found[method] for method in found if method != "emit"))
    assert by_method | found["emit"] == fields
    assert all(tool.methods_of(form, arch) for form in forms for arch in form.architectures)  # also those without fields
    assert {name for name, _, _ in fields - by_method} == BY_EMIT
    assert {fact.field for fact in FACTS if unreachable(fact) and (fact.instruction, fact.arch, fact.field) in by_method} == {
        *NARROW
    }


def asked(fact: FieldFact, tool: ModuleType, value: int) -> tuple[str, dict[str, Any]]:
    """Return the method that a hand-written asker calls for a value of a field, and the leaves of its call."""
    ask, least = asker(fact)
    values: Any = least | {fact.field: value, "": frozenset({fact.field})}
    chip, k = load_chip(CHIPS[fact.arch]), Mock()
    k.chip = chip
    ask(k, values)
    ((method, _, _),) = k.method_calls
    if method == "_emit":
        return method, {}
    return method, tool.ProbedCall(tool.Demo(method, lambda k, gm, dtype: ask(k, values)), chip).leaves


def test_hand_written_calls_mean_the_same_fields(tool: ModuleType) -> None:
    """The askers turn a field to arguments by hand, from the vendor's pages; the tool finds the field of an argument."""
    sums = 0
    for fact in reached():
        first, step = (0, 1) if fact.unit == "a switch" else (asker(fact)[1][fact.field], step_of(fact))
        (method, before), (_, after) = (asked(fact, tool, value) for value in (first, first + step))
        if method == "_emit":
            continue
        same = [one for one in tool.reached(method) if (one.form.name, one.arch, one.field) == (fact.instruction, *fact[1:3])]
        assert same, fact
        unit = next(one.unit_bytes for one in same[0].form.fields if one.name == fact.field)
        for meaning in {one.meaning for one in same}:
            assert any(before[leaf] != after[leaf] for leaf in meaning.leaves if leaf in before), (fact, meaning)
            if meaning.factors:
                assert meaning.at(after) - meaning.at(before) == step * unit, (fact, meaning)
                sums += 1
    assert sums > 200


def limits(tool: ModuleType) -> Iterator[tuple[Any, Any, str, int, int, int]]:
    """Yield (call, form, field, parameter, lowest, highest, step) of the limits of single parameters."""
    for sample in tool.PROBES:
        for chip in map(load_chip, tool.CHIPS):
            call = tool.ProbedCall(sample, chip)
            for form in call.forms():
                meanings = tool.meanings(call, form)
                for one in form.fields:
                    meaning = meanings.get(one.name)
                    if meaning and meaning.counts_alike and len(meaning.leaves) == 1:
                        said = re.fullmatch(r"([\d,]+) to ([\d,]+)(?: in steps of (\d+))?", meaning.limits(one))
                        assert said, meaning.limits(one)
                        low, high = (int(number.replace(",", "")) for number in said.groups()[:2])
                        yield call, form, (one.name, meaning.leaves[0]), low, high, int(said[3] or 1)


def test_a_limit_of_a_parameter_is_where_the_form_refuses(tool: ModuleType) -> None:
    count = 0
    for call, form, (field, leaf), low, high, step in limits(tool):
        for value, fault in ((low, ""), (low - step, "below"), (high, ""), (high + step, "above")):
            one = call.instruction({leaf: value})
            parameter = inspect.signature(call.method).parameters.get(leaf)
            if one is not None and not (parameter and value == parameter.default):
                found = [name for name in form.faults(one) if name.startswith(f"{field} ")]
                assert found == [f"{field} {fault}"] * bool(fault) or value < 0, (
                    call.method,
                    form.name,
                    field,
                    leaf,
                    value,
                    found,
                )
                count += 1
    assert count > 500


@pytest.mark.parametrize(
    ("factors", "constant", "unit", "text"),
    [
        ((1,), 0, "bytes", "2 to 9"),
        ((1,), 0, "32-byte blocks", "64 to 288 in steps of 32"),
        ((32,), 0, "32-byte blocks", "2 to 9"),
        ((2,), 0, "32-byte blocks", "32 to 144 in steps of 16"),
        ((1,), -1, "fractals", "3 to 10"),
        ((2,), 1, "fractals", "1 to 4"),
        ((-1, 1), 0, "rows", "2 to 9"),
        ((2, 1), 0, "rows", "2 to 9 rows"),
        ((), 0, "rows", "2 to 9 rows"),
        ((), 0, "a switch", "0 or 1"),
    ],
)
def test_limits_are_in_the_unit_of_the_parameter(
    tool: ModuleType, factors: tuple[int, ...], constant: int, unit: str, text: str
) -> None:
    leaves = ("a", "b")[: len(factors)]
    assert tool.Meaning(leaves, tuple(map(Fraction, factors)), Fraction(constant)).limits(Field("f", 8, unit, 2, 9, "")) == text


class FunctionsOfNumbers:
    """A call whose fields are functions of two numbers."""

    def __init__(self) -> None:
        self.leaves = {"a": 4, "b": 7, "c": True}

    def values(self, form: None, values: dict[str, Any]) -> dict[str, int]:
        a, b, c = {**self.leaves, **values}.values()
        return {"sum": 2 * a - 3 * b + 5, "product": a * b, "blocks": -(-a // 32), "switched": a * c, "fixed": 9}


def test_a_field_is_a_sum_only_if_it_is_one_everywhere(tool: ModuleType) -> None:
    assert tool.meanings(FunctionsOfNumbers(), None) == {
        "sum": tool.Meaning(("a", "b"), (2, -3), 5),
        "product": tool.Meaning(("a", "b")),
        "blocks": tool.Meaning(("a",)),
        "switched": tool.Meaning(("a", "c")),
    }


def test_words_of_a_meaning(tool: ModuleType) -> None:
    assert tool.Meaning(("a", "b"), (-1, 1)).words == "`b - a`"
    assert tool.Meaning(("a", "b"), (1, 2)).words == tool.Meaning(("a", "b")).words == "`a` and `b`"
    assert tool.Meaning(("a", "b", "c")).words == "`a`, `b` and `c`"
