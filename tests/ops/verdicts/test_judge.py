"""Infinities and NaN among the operands: the sums against IEEE loops, and the verdict on the machines of all four families."""

from __future__ import annotations

from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.ops.operator import Sums
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.verdicts import judge
from ascend_sim.ops.verdicts.judge import may_lose
from ascend_sim.ops.verdicts.sums import sums_of
from tests.support.sampling import part_of_cases

CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")
SATURATING = CHIPS[:2]
SPECIAL = (np.inf, -np.inf, np.nan)
LAYERS = {
    "padded": ((1, 4, 5, 6), (5, 4, 3, 3), [1, 1], [1, 1], 1),
    "strided": ((2, 3, 7, 8), (4, 3, 3, 2), [2, 3], [1, 0], 1),
    "groups": ((1, 4, 5, 5), (6, 2, 3, 3), [1, 1], [1, 1], 2),
}


def tensors(layer, seed=0):
    shape, weight, stride, padding, _ = LAYERS[layer]
    rng = np.random.default_rng(seed)
    size = [
        (length + 2 * pad - taps) // step + 1
        for length, taps, step, pad in zip(shape[2:], weight[2:], stride, padding, strict=True)
    ]
    shapes = {"grad_output": (shape[0], weight[0], *size), "input": shape, "weight": weight}
    return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}


def run(layer, given, chip):
    _, weight, stride, padding, groups = LAYERS[layer]
    return ascend_sim.convolution_backward(
        given["grad_output"], given["input"], given["weight"], [weight[0]], stride, padding, [1, 1], False, [0, 0], groups,
        [True] * 3, chip=chip, mode="functional",
    )  # fmt: skip


def ieee(layer, given):
    """Every product of the definition one at a time, in Python floats."""
    _, weight_shape, stride, padding, groups = LAYERS[layer]
    grad_output, data, weight = (given[name].astype(np.float64) for name in ("grad_output", "input", "weight"))
    grad_input, grad_weight = np.zeros(data.shape), np.zeros(weight.shape)
    filters, channels = weight_shape[0] // groups, weight_shape[1]
    for n, co, h, w in np.ndindex(grad_output.shape):
        for ci, kh, kw in np.ndindex(weight.shape[1:]):
            row, column = h * stride[0] - padding[0] + kh, w * stride[1] - padding[1] + kw
            if 0 <= row < data.shape[2] and 0 <= column < data.shape[3]:
                pixel = (n, co // filters * channels + ci, row, column)
                grad_input[pixel] += grad_output[n, co, h, w] * weight[co, ci, kh, kw]
                grad_weight[co, ci, kh, kw] += grad_output[n, co, h, w] * data[pixel]
    return {"grad_input": grad_input, "grad_weight": grad_weight}


def with_special(given, places):
    """Copies of the tensors with values at flat indices: {"weight": {7: inf}}."""
    copies = {name: array.copy() for name, array in given.items()}
    for name, values in places.items():
        for index, value in values.items():
            copies[name].flat[index] = value
    return copies


@part_of_cases(4)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    "places",
    [
        *({name: {3: value}} for name in ("grad_output", "input", "weight") for value in SPECIAL),
        {"weight": {1: np.inf}, "grad_output": {2: 0.0, 5: 0.0}},
        {"weight": {1: np.inf, 2: -np.inf}},
        {"input": {1: np.inf, 7: np.inf}, "grad_output": {4: -np.inf}},
        {"input": {1: np.nan}, "grad_output": {1: np.inf}, "weight": {0: np.inf}},
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_sums_are_those_of_ieee(layer, places):
    given = with_special(tensors(layer), places)
    call = run(layer, tensors(layer), "ascend910b3").call
    volumes = {name: array.astype(np.float32) for name, array in given.items()}
    for name, expected in ieee(layer, given).items():
        found = sums_of(OPERATORS["convolution_backward"], call, name, volumes, volumes)
        total = found.total.reshape(expected.shape)
        np.testing.assert_array_equal(np.isnan(total), np.isnan(expected))
        np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-12)
        assert np.isfinite(found.weights).all()


@part_of_cases(0, "groups-ascend910b3", "strided-ascend910a")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_right_machine_is_right(chip, layer):
    given = tensors(layer)
    for name, value in product(given, SPECIAL):
        report = run(layer, with_special(given, {name: {7: value}}), chip).report
        assert report.passed, (name, value, report.outputs)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_bias_and_infinities(chip):
    rng = np.random.default_rng(1)
    x, weight, bias = (rng.standard_normal(shape).astype(np.float16) for shape in ((1, 4, 5, 6), (5, 4, 3, 3), (5,)))
    for array, value in product((x, weight, bias), SPECIAL):
        kept, array.flat[2] = array.flat[2], value
        result = ascend_sim.convolution(x, weight, bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, chip=chip, mode="functional")
        assert result.report.passed, (value, result.report.outputs)
        array.flat[2] = kept


@pytest.mark.fast
@pytest.mark.parametrize("chip", ["ascend910a", "ascend910b3"])
def test_what_is_still_wrong(chip):
    """Beside an infinity each element keeps its own rule; a machine that breaks one of them is found at that element."""
    given = with_special(tensors("padded"), {"weight": {0: np.inf}})  # filter 0, channel 0, tap (0, 0)
    result = run("padded", given, chip)
    verdicts = partial(judge, OPERATORS["convolution_backward"], result.call, load_chip(chip), given)
    assert all(figures["correct"] for figures in verdicts(result.outputs).values())
    infinite, beside, clean = ((0, 0, 0, 0), (0, 0, 4, 5), (0, 1, 2, 2))  # in the last row of channel 0 the tap is padding
    mistakes = [(clean, np.nan), (clean, np.inf), (clean, 9.0), (beside, np.inf)]
    if chip in SATURATING:  # a NaN on the way becomes 0 and takes along what was added before: any finite value, but finite
        mistakes += [(beside, np.nan), (infinite, np.inf)]
    else:
        mistakes += [(beside, 9.0), (infinite, 1.0), (infinite, -result.outputs["grad_input"][infinite])]
    for place, value in mistakes:
        wrong = result.outputs["grad_input"].copy()
        wrong[place] = value
        found = verdicts({"grad_input": wrong})["grad_input"]
        assert not found["correct"] and tuple(found["first_wrong"]) == place, (place, value)


@pytest.mark.parametrize("place", [0, 20_000, 39_999])
def test_the_worst_element_counts_wherever_it_stands(place):
    weights = np.ones(40_000)
    total = np.zeros(40_000)
    total[place] = 2.0**20
    operator = SimpleNamespace(products=lambda call: {"y": 16}, summed=lambda name: None, roundings=lambda call, name: [])
    wanted = 4 * 2.0**-24 * 4 * (2.0**20 + 1) / np.sqrt(1 / 16)
    assert may_lose(operator, None, "y", Sums(total, weights)) == round(wanted, 2)
