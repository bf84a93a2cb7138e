"""How sure a time is: the statistics against random networks drawn from the model, and what a report says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ascend_sim import convolution_backward
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.report import certainty
from ascend_sim.report.certainty import Kind, between_networks, interval, of_errors, together, words

TABLE = {1: 3.0777, 2: 1.8856, 3: 1.6377, 5: 1.4759, 10: 1.3722, 30: 1.3104, 1000: 1.2824}
"""Student's t, 90 % one-sided, as printed in tables."""


@pytest.mark.parametrize(("freedom", "printed"), TABLE.items())
def test_quantiles_are_those_of_the_tables(freedom: int, printed: float) -> None:
    assert certainty._student(freedom) == pytest.approx(printed, rel=0.04 if freedom == 1 else 0.005)


def drawn(rng: np.random.Generator, networks: int, own: float, within: float, middle: float) -> dict[str, list]:
    """Errors of a kind: each network has a part of its own, each of its kernels another."""
    return {
        f"n{number}": [(50.0, float(rng.normal(middle + shift, within))) for _ in range(rng.integers(3, 12))]
        for number, shift in enumerate(rng.normal(0, own, networks))
    }


def test_kernels_of_new_networks_lie_in_the_interval_as_often_as_it_says() -> None:
    """Over kinds that are drawn: each has its own mean and scatter, and some were measured in one network only."""
    rng = np.random.default_rng(0)
    hits, own = [], 0.15
    for _ in range(60):
        shapes = [(int(rng.integers(1, 5)), *rng.uniform((0.05, -0.3), (0.25, 0.3))) for _ in range(8)]
        kinds = [Kind("a", (str(i),), errors=drawn(rng, n, own, s, m)) for i, (n, s, m) in enumerate(shapes)]
        between = between_networks(kinds)
        for kind, (_, within, middle) in zip(kinds, shapes, strict=True):
            found = of_errors(kind.errors, 50.0, between)
            assert found is not None
            new = 50.0 * np.exp(rng.normal(middle + rng.normal(0, own), within))
            hits.append(found.low_us <= new <= found.high_us)
    assert 0.74 < np.mean(hits) < 0.87


def test_what_a_network_has_of_its_own_is_recovered() -> None:
    rng = np.random.default_rng(1)
    kinds = [Kind("a", (str(i),), errors=drawn(rng, 5, 0.2, 0.1, 0.0)) for i in range(60)]
    assert math.sqrt(between_networks(kinds)) == pytest.approx(0.2, rel=0.15)
    alike = [Kind("a", (str(i),), errors=drawn(rng, 5, 0.0, 0.1, 0.0)) for i in range(60)]
    assert math.sqrt(between_networks(alike)) < 0.05


def test_one_network_is_no_surer_than_its_networks_differ() -> None:
    """Kernels that agree in one network do not make an interval narrow; of equal ones in many networks they do."""
    alone = of_errors({"n": [(50.0, 0.0)] * 20}, 50.0, 0.04)
    many = of_errors({f"n{i}": [(50.0, 0.0)] * 20 for i in range(20)}, 50.0, 0.04)
    assert alone is not None and many is not None
    assert alone.high_us / many.high_us == pytest.approx(
        math.exp(1.3 * 0.2 * (math.sqrt(2) - math.sqrt(1.05))), rel=0.02
    )


def test_long_kernels_have_an_interval_of_their_own_where_enough_were_measured() -> None:
    rows = {"n": [(10.0, math.log(3))] * 8 + [(200.0, 0.0)] * 8}
    short, long = (of_errors(rows, us, 0.0) for us in (10.0, 200.0))
    assert short is not None and long is not None
    assert short[:2] == pytest.approx((30, 30)) and long[:2] == pytest.approx((200, 200))
    few = {"n": [(10.0, math.log(3))] * 7 + [(200.0, 0.0)] * 8}
    mixed = of_errors(few, 10.0, 0.0)
    assert mixed is not None and mixed.kernels == 15


def test_no_interval_is_made_of_nothing() -> None:
    assert interval("dav-2201", "NoSuchKernel", 10.0) is None
    assert interval("dav-2201", "TransData", 10.0, grouped=True) is None
    assert of_errors({"n": [(10.0, 0.1)]}, 10.0, 0.01) is None


def test_a_report_says_how_sure_each_time_is() -> None:
    given = [TensorSpec(shape, "float16") for shape in ((1, 24, 12, 12), (1, 32, 12, 12), (24, 32, 3, 3))]
    rest = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, False))
    report = convolution_backward(*given, *rest, chip="ascend910a", mode="timing").report.to_dict()
    kernels = {kernel["op_type"]: kernel for kernel in report["kernels"]}
    known = kernels["Conv2DBackpropFilter"]
    found = interval("dav-1001", "Conv2DBackpropFilter", known["task_us"])
    assert known["interval"] == certainty.as_row(found) and known["interval"]["kernels"] > 20
    assert report["interval"] == together(report["kernels"])
    unmeasured = {row["op_type"] for row in report["kernels"] if row["interval"] is None}
    assert set(report["interval"]["unmeasured_us"]) == unmeasured


def test_bounds_of_a_total_are_sums_and_what_is_not_measured_is_named() -> None:
    rows = [
        {"op_type": "A", "task_us": 10.0, "interval": {"low_us": 8.0, "high_us": 14.0}},
        {"op_type": "A", "task_us": 20.0, "interval": {"low_us": 15.0, "high_us": 21.0}},
        {"op_type": "B", "task_us": 5.0, "interval": None},
    ]
    total = together(rows)
    assert total == {"of_us": 30.0, "low_us": 23.0, "high_us": 35.0, "unmeasured_us": {"B": 5.0}}
    assert words(total) == "How sure: 80 % interval of 30.0 us: 23.0 to 35.0 us; no measured rows: B 5.0 us"
    assert words(together(rows[2:])) == "How sure: no measured rows: B 5.0 us"
