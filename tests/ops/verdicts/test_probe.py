"""Data that show a lost product."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import ascend_sim
from ascend_sim.ops.verdicts import probe
from ascend_sim.ops.verdicts.probe import Probe
from ascend_sim.report.html import by_probe

ONES = np.ones


def backward(shape=(1, 16, 12, 12), filters=16, kernel=3, padding=1, groups=1, dtype=np.float16, make=ONES, **options):
    """A call on data of one sign."""
    n, channels, height, width = shape
    size = (height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1)
    shapes = (n, filters, *size), shape, (filters, channels // groups, kernel, kernel)
    grad_output, data, weight = (make(one).astype(dtype) for one in shapes)
    given = {"chip": "ascend910b3", "mode": "functional", "probe": True} | options
    return ascend_sim.convolution_backward(
        grad_output, data, weight, [filters], [1, 1], [padding] * 2, [1, 1], False, [0, 0], groups, [True] * 3, **given
    )


def test_when_a_call_is_probed(monkeypatch):
    """By default a small call, and a larger one where the given data may lose a product of mean size."""
    rng = np.random.default_rng(1)
    small = backward(make=rng.standard_normal, probe=None).report.outputs["grad_weight"]
    assert small["may_lose"] < 1 and small["decided_by"] == "probe"
    monkeypatch.setattr(probe, "SOON_DONE", 1000)
    large = backward(make=rng.standard_normal, probe=None).report.outputs["grad_weight"]
    assert (
        large["may_lose"] < 1 and large["decided_by"] == "bound" and "products, and none of mean size" in large["probe"]["why"]
    )
    assert by_probe(large) == " (on this data)"
    assert by_probe(large | {"correct": False}) == ""
    ones = backward(shape=(1, 16, 64, 64), kernel=1, padding=0, probe=None).report.outputs["grad_weight"]
    assert ones["may_lose"] > 1 and ones["decided_by"] == "probe" and ones["correct"]


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_of_a_sum_is_correct(seed: int) -> None:
    """grad_output of a loss that is a sum is one number for all elements: whole planes of results are one sum, err alike, and
    show no machine that leans.
    """
    rng = np.random.default_rng(seed)
    x, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 32, 9, 9), (64, 32, 3, 3)))
    grad_output = np.broadcast_to(np.float32(rng.standard_normal()), (3, 64, 9, 9))
    given = {"padding": 1, "mode": "functional", "accumulate": "exact_group", "probe": True}
    outputs = ascend_sim.convolution_backward(grad_output, x, weight, **given).report.outputs
    assert all(output["correct"] for output in outputs.values()), outputs


def probe_of_sums(products):
    """Sums of so many products, of which nothing else matters."""
    operator = SimpleNamespace(products=lambda call: {"dw": products})
    return Probe(operator, SimpleNamespace(inputs={}, outputs={}), None, dict, dict, wanted=True)


def test_sums_that_float32_cannot_hold_are_not_probed():
    assert probe_of_sums(2**24).refused(0) is None
    assert probe_of_sums(2**24 + 1).refused(0) == "sums of 16777217 products: float32 holds at most 16777216 exactly"


@pytest.mark.parametrize("products", [1, 2**13, 2**14, 2**17, 2**24])
def test_sums_of_leaning_data_stay_inside_float16(products):
    """The sum of a bias has one factor, and is the largest."""
    numbers = probe_of_sums(products)._leaning("x", np.zeros(100), np.random.default_rng(0))
    assert numbers.min() > 0 and numbers.max() * products < np.finfo(np.float16).max
    assert products >= 2**14 or numbers.min() >= 0.5
