"""The formula as text, evaluated as it stands, against the products that it stands for."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascend_sim.api import convolution_backward
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.ops.case import load_case
from ascend_sim.ops.convolution.formula import Formula, formula
from ascend_sim.studies.explain.formula_text import formula_lines

pytestmark = pytest.mark.fast

LINE = re.compile(r"(\w+)\[([^]]*)\] = sum over ([\w, ]+) of (\w+)\[([^]]*)\] x (\w+)\[([^]]*)\]")


@dataclass
class Explained:
    """Parts of an explanation that the text needs, without a run."""

    tensor: str
    call: Any
    formula: Formula
    operands: dict[str, np.ndarray[Any, Any]]

    def name(self, tensor: str) -> str:
        return tensor

    def subscript(self, tensor: str, flat: int) -> str:
        return f"{tensor}[{flat}]"


@cache
def accepted(name: str) -> Any:
    """The call of a case, as it was accepted."""
    case = load_case(name)
    tensors = [TensorSpec(shape, dtype) for shape, dtype in case.tensors.values()]
    return convolution_backward(*tensors, **case.attributes, chip=case.chip, mode="timing").call


def explained(name: str, gradient: str, index: tuple[int, ...]) -> Explained:
    shapes = {tensor: shape for tensor, (shape, _) in load_case(name).tensors.items()}
    terms = formula(accepted(name), gradient, shapes, index)
    return Explained(gradient, accepted(name), terms, {tensor: np.zeros(shape) for tensor, shape in shapes.items()})


def products(line: str, shapes: dict[str, tuple[int, ...]], ranges: dict[str, range]) -> Counter[tuple[Any, ...]]:
    """Pairs of (tensor, index) that a line of numbers sums over, worked out from its text alone."""
    found = LINE.fullmatch(line)
    assert found, line
    letters = found[3].split(", ")
    expressions = {
        tensor: [compile(re.sub(r"(\d) ([a-z])", r"\1*\2", part), tensor, "eval") for part in text.split(", ")]
        for tensor, text in ((found[4], found[5]), (found[6], found[7]))
    }
    pairs: Counter[tuple[Any, ...]] = Counter()
    for values in itertools.product(*(ranges[letter] for letter in letters)):
        names = {letter: Fraction(value) for letter, value in zip(letters, values, strict=True)}
        places = {tensor: [eval(code, {}, names) for code in codes] for tensor, codes in expressions.items()}
        if all(
            place.denominator == 1 and 0 <= place < size
            for tensor, index in places.items()
            for place, size in zip(map(Fraction, index), shapes[tensor], strict=True)
        ):
            pairs[tuple(sorted((tensor, *map(int, index)) for tensor, index in places.items()))] += 1
    return pairs


@pytest.mark.parametrize("gradient", ["grad_input", "grad_weight"])
@pytest.mark.parametrize(
    "name", ["by_hand", "strided", "dilated", "grouped", "padding_4", "transposed_2d", "conv_1d", "conv_3d"]
)
def test_the_text_names_the_products_of_the_formula(name: str, gradient: str) -> None:
    shapes = {tensor: shape for tensor, (shape, _) in load_case(name).tensors.items()}
    index = tuple(size * 2 // 3 for size in shapes["input" if gradient == "grad_input" else "weight"])
    explanation: Any = explained(name, gradient, index)
    p, transposed = explanation.call.problem, explanation.call.forward
    first = index[1] // (p.c_in // p.groups) * (p.c_out // p.groups)  # of the group that co runs over
    outer = range(first, first + p.c_out // p.groups)
    images, *sizes = (shapes[explanation.call.y][0], *shapes[explanation.call.y][2:])
    spatial = "dhw"[3 - len(sizes) :] if len(sizes) > 1 else "l"
    taps = dict(zip((f"k{axis}" for axis in spatial), map(range, shapes["weight"][2:]), strict=True))
    positions = dict(zip(spatial, map(range, sizes), strict=True))
    channels = {"co": range(p.c_in // p.groups)} if transposed else {"co": outer}
    letters, numbers = formula_lines(explanation)[:2]
    assert LINE.fullmatch(letters)
    text = products(numbers, shapes, {"n": range(images), **channels, **taps, **positions})
    terms = explanation.formula
    expected: Counter[tuple[Any, ...]] = Counter()
    for left, right in zip(terms.left.tolist(), terms.right.tolist(), strict=True):
        sides = ((terms.left_name, left), (terms.right_name, right))
        expected[tuple(sorted((t, *map(int, np.unravel_index(flat, shapes[t]))) for t, flat in sides))] += 1
    assert text == expected
    assert numbers.startswith(f"{gradient}[{', '.join(map(str, index))}] = ")


def test_a_number_alone_is_written_out() -> None:
    lines = formula_lines(explained("by_hand", "grad_input", (0, 0, 0, 0)))  # type: ignore[arg-type]
    assert lines[1].endswith("grad_output[0, co, 1 - kh, 1 - kw] x weight[co, 0, kh, kw]")
    assert "8 products; the other 10 terms fall into padding or between strides" in lines
