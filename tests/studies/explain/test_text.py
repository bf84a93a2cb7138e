"""The text of `explain` where an element has few or no products: every sentence is true of that element."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.explain.run import Explanation, explain
from ascend_sim.studies.explain.text import explain_page, parts_with_products

pytestmark = pytest.mark.fast

EACH_ONCE = "the numbers that the cube multiplied are those of the formula, each product once"


def followed(shape: list[int], kernel: int, index: dict[str, tuple[int, ...]], **rest: Any) -> Explanation:
    case = ConvolutionBackwardCase.model_validate({
        "operator": "convolution_backward", "input": {"shape": shape, "dtype": "float16"},
        "weight": {"shape": [2, shape[1], kernel, kernel]}, **rest,
    })  # fmt: skip
    return explain(case, **index)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("explanation", "products", "result"),
    [
        (
            lambda: followed([0, 3, 4, 4], 3, {"weight": (0, 0, 1, 1)}, padding=[1, 1]),
            "no products: the batch is empty, so the sum is 0",
            "the formula has no products, and no mmad added to this element",
        ),
        (
            lambda: followed([1, 3, 4, 4], 1, {"element": (0, 1, 1, 2)}, stride=[3, 3]),
            "no products: every term falls into padding or between strides, so the sum is 0",
            "the formula has no products, and no mmad added to this element",
        ),
        (
            lambda: followed([1, 3, 40, 40], 3, {"element": (0, 0, 20, 20)}, stride=[32, 32]),
            "no products: every term falls into padding or between strides, so the sum is 0",
            "the formula has no products, and the cube added only products with zeros",
        ),
        (lambda: followed([1, 3, 4, 4], 3, {"element": (0, 1, 1, 2)}, padding=[1, 1]), "18 products", EACH_ONCE),
    ],
)
def test_what_is_said_of_a_sum_without_products(explanation: Any, products: str, result: str) -> None:
    found = explanation()
    lines = [line.strip() for line in explain_page(found).splitlines()]
    assert products in lines
    assert lines[-1] == result
    assert (EACH_ONCE in lines) == bool(len(found.formula.left))


def test_a_kernel_without_fields_has_no_tiles_to_name() -> None:
    """The older grad_weight kernel has no tiling fields; grad_input of the same call has."""
    for element, tiles in (("weight", False), ("element", True)):
        found = followed([2, 16, 8, 8], 3, {element: (0, 0, 1, 1)}, padding=[1, 1])
        (line,) = [line for line in explain_page(found).splitlines() if "computed by" in line]
        assert (", in tiles of baseM " in line) is tiles and " (" in line and "  (" not in line


def test_an_operand_that_meets_zeros_is_named_all_the_same() -> None:
    found = followed([1, 3, 40, 40], 3, {"element": (0, 0, 20, 20)}, stride=[32, 32])
    rows = [line.split() for line in explain_page(found).splitlines() if "0x00000000" in line]
    assert len(rows) == len(found.parts[0].mmads)
    assert all("zeros" in row for row in rows)
    assert all(any(word.startswith("weight[") for word in row) for row in rows)


def test_of_many_parts_those_with_products_are_shown() -> None:
    """Rows of gradOutput that see only padding give parts of zeros, which arrive first."""
    found = followed([1, 3, 6, 6], 3, {"weight": (0, 0, 0, 0)}, padding=[3, 3])
    text, useful = explain_page(found), parts_with_products(found)
    first = found.parts.index(useful[0])
    assert first > 0
    for part in useful[:2]:
        assert f"The cube, part {found.parts.index(part) + 1} of {len(found.parts)}\n" in text
    assert "part 1 of" not in text
    assert f"the other {len(found.parts) - 2} parts, in the order in which they were added" in text
