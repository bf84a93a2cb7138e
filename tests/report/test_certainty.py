"""How sure a time is: the statistics against random networks drawn from the model, and what a report says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from ascend_sim import convolution_backward
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import load_chip
from ascend_sim.report import certainty
from ascend_sim.report.certainty import (
    ErrorKind,
    Errors,
    Interval,
    MeasuredError,
    between_networks,
    interval,
    kinds,
    nearest,
    of_kind,
    together,
    words,
)

TABLE = {1: 3.0777, 2: 1.8856, 3: 1.6377, 5: 1.4759, 10: 1.3722, 30: 1.3104, 1000: 1.2824}
"""Student's t, 90 % one-sided, as printed in tables."""


@pytest.mark.parametrize(("freedom", "printed"), TABLE.items())
def test_quantiles_are_those_of_the_tables(freedom: int, printed: float) -> None:
    assert certainty._student(freedom, 0.8) == pytest.approx(printed, rel=0.04 if freedom == 1 else 0.005)


def test_means_and_variances_are_those_of_the_library() -> None:
    numbers = [0.1, -2.5, 3.0, 1e-3, 7.25]
    assert certainty._mean(numbers) == statistics.fmean(numbers)
    assert certainty._variance(numbers) == pytest.approx(statistics.variance(numbers), rel=1e-14)
    for level in (0.5, 0.8, certainty.MADE, 0.99):
        normal = statistics.NormalDist().inv_cdf((1 + level) / 2)
        assert certainty._student(10**12, level) == pytest.approx(normal, rel=1e-11)


def alike(errors: Sequence[float], us: float = 50.0, chip: str = "c") -> list[MeasuredError]:
    """Kernels of `us` that no fit has seen."""
    return [MeasuredError(chip, us, error, error) for error in errors]


def of_errors(errors: Errors, us: float, between: float, chip: str = "c") -> Interval:
    found = of_kind(ErrorKind("a", ("A",), errors=errors), chip, us, between)
    assert found is not None
    return found


def drawn(rng: np.random.Generator, networks: int, own: float, within: float, middle: float) -> dict[str, list]:
    """Errors of a kind: each network has a part of its own, each of its kernels another."""
    return {
        f"n{number}": alike([float(rng.normal(middle + shift, within)) for _ in range(rng.integers(3, 12))])
        for number, shift in enumerate(rng.normal(0, own, networks))
    }


def test_kernels_of_new_networks_lie_in_the_interval_as_often_as_it_is_made_for() -> None:
    """Over kinds that are drawn: each has its own mean and scatter, and some were measured in one network only."""
    rng = np.random.default_rng(0)
    hits, own = [], 0.15
    for _ in range(60):
        shapes = [(int(rng.integers(1, 5)), *rng.uniform((0.05, -0.3), (0.25, 0.3))) for _ in range(8)]
        kinds = [ErrorKind("a", (str(i),), errors=drawn(rng, n, own, s, m)) for i, (n, s, m) in enumerate(shapes)]
        between = between_networks(kinds)
        for kind, (_, within, middle) in zip(kinds, shapes, strict=True):
            found = of_errors(kind.errors, 50.0, between)
            new = 50.0 * np.exp(rng.normal(middle + rng.normal(0, own), within))
            hits.append(found.low_us <= new <= found.high_us)
    assert certainty.MADE == 0.85 and 0.8 < np.mean(hits) < 0.9


def test_what_a_network_has_of_its_own_is_recovered() -> None:
    rng = np.random.default_rng(1)
    kinds = [ErrorKind("a", (str(i),), errors=drawn(rng, 5, 0.2, 0.1, 0.0)) for i in range(60)]
    assert math.sqrt(between_networks(kinds)) == pytest.approx(0.2, rel=0.15)
    same = [ErrorKind("a", (str(i),), errors=drawn(rng, 5, 0.0, 0.1, 0.0)) for i in range(60)]
    assert math.sqrt(between_networks(same)) < 0.05


def test_one_network_is_no_surer_than_its_networks_differ() -> None:
    """Kernels that agree in one network do not make an interval narrow; of equal ones in many networks they do."""
    alone = of_errors({"n": alike([0.0] * 20)}, 50.0, 0.04)
    many = of_errors({f"n{i}": alike([0.0] * 20) for i in range(20)}, 50.0, 0.04)
    assert alone.high_us / many.high_us == pytest.approx(math.exp(1.47 * 0.2 * (math.sqrt(2) - math.sqrt(1.05))), rel=0.02)


def test_long_kernels_have_an_interval_of_their_own_where_enough_were_measured() -> None:
    rows = {"n": alike([math.log(3)] * 8, 10.0) + alike([0.0] * 8, 200.0)}
    short, long = (of_errors(rows, us, 0.0) for us in (10.0, 200.0))
    assert short[:2] == pytest.approx((30, 30)) and long[:2] == pytest.approx((200, 200))
    few = {"n": alike([math.log(3)] * 7, 10.0) + alike([0.0] * 8, 200.0)}
    assert of_errors(few, 10.0, 0.0).kernels == 15


def test_a_chip_has_an_interval_of_its_own_where_enough_were_measured_on_it() -> None:
    """The interval is of its size, else of the size on all chips, else of all kernels; other chips are named."""
    rows = {
        "n": alike([0.0] * 8, chip="c") + alike([0.0], 200.0, chip="c"),
        "m": alike([math.log(3)] * 7, chip="d"),
        "l": alike([0.0] * 7, 200.0, chip="d"),
    }
    own, few, long = (of_errors(rows, us, 0.0, chip) for us, chip in ((50.0, "c"), (50.0, "d"), (200.0, "d")))
    assert (own[:4], own.chips) == ((50.0, 50.0, 8, 1), ())
    assert (few.kernels, few.networks, few.chips) == (15, 2, ("c", "d"))
    assert (long.kernels, long.networks, long.chips) == (8, 2, ("c", "d"))
    all_sizes = of_errors(rows | {"l": alike([0.0] * 6, 200.0, chip="d")}, 200.0, 0.0, "c")
    assert (all_sizes.kernels, all_sizes.chips) == (22, ("c", "d"))


def test_few_kernels_that_are_all_of_the_chip_are_its_own() -> None:
    assert of_errors({"n": alike([0.0] * 2)}, 50.0, 0.01).chips == ()


def test_an_interval_of_other_chips_is_wider_by_what_a_chip_has_of_its_own() -> None:
    rows = {"n": alike([0.0] * 20)}
    own, other = (of_errors(rows, 50.0, 0.04, chip) for chip in "cd")
    assert (own.chips, other.chips) == ((), ("c",))
    assert math.log(other.high_us / 50) / math.log(own.high_us / 50) == pytest.approx(math.sqrt(2))


def test_kernels_of_another_chip_lie_in_the_interval_as_often_as_it_says() -> None:
    """Over kinds that are drawn, where chips differ as much as networks do."""
    rng = np.random.default_rng(2)
    hits, own = [], 0.15
    for _ in range(400):
        rows = {}
        for chip, shift in zip("cd", rng.normal(0, own, 2), strict=True):
            drawn_here = drawn(rng, 3, own, 0.1, shift)
            rows |= {chip + name: [one._replace(chip=chip) for one in found] for name, found in drawn_here.items()}
        found = of_errors(rows, 50.0, own**2, "e")
        new = 50.0 * np.exp(rng.normal(0, math.hypot(own, own, 0.1)))
        hits.append(found.low_us <= new <= found.high_us)
    assert 0.74 < np.mean(hits) < 0.87


def test_a_fit_makes_no_kind_surer() -> None:
    """The wider of what ships and what costs fitted without the rows say; the middle is that of what ships."""
    errors = [-0.1, 0.0, 0.1]
    wide, narrow = [2 * error for error in errors], [0.0] * 3
    plain, fitted, bad = (
        of_errors({"n": [MeasuredError("c", 50.0, *both) for both in zip(errors, left, strict=True)]}, 50.0, 0.0)
        for left in (errors, wide, narrow)
    )
    assert math.log(fitted.high_us / 50) == pytest.approx(2 * math.log(plain.high_us / 50))
    assert bad == plain


def test_a_few_large_errors_widen_no_interval_of_many_kernels() -> None:
    """80 % of 40 kernels and one more are 33: 34 are 0.1 from the mean, the others 0.8. Of 19 the scatter counts."""
    small, large = [0.1, -0.1], [0.8, -0.8]
    many, refitted = alike(small * 17 + large * 3), alike(small * 17 + large * 3)
    refitted[0] = refitted[2] = refitted[0]._replace(left_out=0.2)
    found, bad = (of_errors({"n": rows}, 50.0, 0.0) for rows in (many, refitted))
    assert math.log(found.high_us / 50) == pytest.approx(0.1 * math.sqrt(1 + 1 / 40))
    assert math.log(bad.high_us / 50) == pytest.approx((0.2 - 0.2 / 40) * math.sqrt(1 + 1 / 40))
    errors = [0.1] * 17 + [0.8] * 2
    few = math.log(of_errors({"n": alike(errors)}, 50.0, 0.0).high_us / 50) - float(np.mean(errors))
    assert few == pytest.approx(1.5037 * np.std(errors, ddof=1) * math.sqrt(1 + 1 / 19), rel=0.001)  # t of 18 at 92.5 %


def test_one_kernel_says_nothing_of_scatter() -> None:
    assert of_kind(ErrorKind("a", ("A",), errors={"n": alike([0.1])}), "c", 50.0, 0.01) is None


def test_the_nearest_kind() -> None:
    """First the unit, then the architecture, then what is worked out; of equally near ones that with the most kernels."""

    def kind(arch: str, op_type: str, kernels: int = 2, **rest: bool | str) -> ErrorKind:
        return ErrorKind(arch, (op_type,), **rest, errors={"n": alike([0.0] * kernels)})  # type: ignore[arg-type]

    given = [
        kind("a", "Cast"), kind("a", "TransData", 3), kind("a", "Conv2DBackpropFilter"), kind("a", "Conv2D", 9),
        kind("b", "Conv2DBackpropFilter"), kind("b", "Conv2DBackpropFilter", grouped=True), kind("b", "MatMul", 1),
    ]  # fmt: skip
    found = {
        (arch, op_type, grouped): given.index(nearest(given, arch, op_type, grouped=grouped))
        for arch, op_type, grouped in (
            ("a", "Conv3DBackpropFilterV2", True), ("b", "MatMul", False), ("b", "Cast", False), ("b", "ReduceSum", False),
            ("c", "Conv2D", False), ("b", "Conv2DBackpropFilter", True),
        )
    }  # fmt: skip
    assert list(found.values()) == [2, 4, 0, 1, 3, 5]
    assert nearest(given, "a", "mine", cube=True) == given[3] and nearest(given, "a", "mine", cube=False) == given[1]


def test_what_is_borrowed_is_wider_and_names_its_kind() -> None:
    chip, other = load_chip("ascend910b2"), load_chip("ascend910b3")
    own, elsewhere = interval(chip, "TransData", 50.0), interval(other, "TransData", 50.0)
    lent, both = interval(chip, "Cast", 50.0), interval(other, "Cast", 50.0)
    assert (own.chips, own.borrowed) == ((), "")
    assert (elsewhere.chips, elsewhere.borrowed) == (("ascend910b2",), "")
    assert (lent.chips, lent.borrowed) == ((), "dav-2201 TransData")
    assert (both.chips, both.borrowed) == (("ascend910b2",), "dav-2201 TransData")
    assert own.kernels == elsewhere.kernels == lent.kernels == both.kernels
    within, wider, wide, widest = (math.log(one.high_us / one.low_us) ** 2 for one in (own, elsewhere, lent, both))
    kind = 4 * 1.4645**2 * between_networks(kinds())  # both sides, Student's t of 45 degrees of freedom at 92.5 %
    assert wide - within == pytest.approx(kind, rel=0.001) and kind > 0
    assert widest - wider == pytest.approx(wide - within) == pytest.approx((wider - within) / 2)


CHIPS = ("ascend910a", "ascend310p3", "ascend910b2", "ascend950pr_9579")
OPERATORS = (
    "Conv2DBackpropInput", "Conv3DBackpropInput", "Conv3DBackpropInputV2", "Conv2DBackpropFilter", "Conv3DBackpropFilter",
    "Conv3DBackpropFilterV2", "Conv2D", "Conv3D", "Conv3DV2", "MatMul", "BatchMatMul", "TransData", "Cast", "ReduceSum",
    "ZerosLike", "MemSet", "Dilation", "mine",
)  # fmt: skip


@pytest.mark.parametrize("chip", CHIPS)
def test_every_kernel_has_an_interval(chip: str) -> None:
    for op_type in OPERATORS:
        for grouped in (False, True):
            found = interval(load_chip(chip), op_type, 20.0, grouped=grouped, library="2026-08")
            assert 0 < found.low_us < found.high_us < math.inf
            assert found.borrowed, "no row has that library"


@pytest.mark.parametrize("chip", ["ascend910a", "ascend910b", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
def test_a_report_says_how_sure_each_time_is(chip: str) -> None:
    given = [TensorSpec(shape, "float16") for shape in ((1, 24, 12, 12), (1, 32, 12, 12), (24, 32, 3, 3))]
    rest = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, False))
    report = convolution_backward(*given, *rest, chip=chip, mode="timing").report.to_dict()
    kernels = {kernel["op_type"]: kernel for kernel in report["kernels"]}
    for row in report["kernels"]:
        assert 0 < row["interval"]["low_us"] < row["interval"]["high_us"]
    if chip in ("ascend910a", "ascend910b"):
        known = kernels["Conv2DBackpropFilter"]
        found = interval(load_chip(chip), "Conv2DBackpropFilter", known["task_us"])
        assert known["interval"] == certainty.as_row(found)
        assert known["interval"]["kernels"] > 20 and "borrowed" not in known["interval"]
        assert known["interval"].get("chips") == (None if chip == "ascend910b" else ["ascend910b"])
    assert report["interval"] == together(report["kernels"])
    assert report["interval"]["of_us"] == pytest.approx(sum(row["task_us"] for row in report["kernels"]))
    unmeasured = {row["op_type"] for row in report["kernels"] if "borrowed" in row["interval"]}
    assert set(report["interval"]["unmeasured_us"]) == set(report["interval"]["borrowed"]) == unmeasured
    assert bool(unmeasured) == (chip not in ("ascend910a", "ascend910b")) or "Cast" in kernels
    assert bool(report["interval"]["other_chips_us"]) == (chip != "ascend910b")


def test_bounds_of_a_total_are_sums_and_what_is_not_measured_is_named() -> None:
    rows = [
        {"op_type": "A", "task_us": 10.0, "interval": {"low_us": 8.0, "high_us": 14.0}},
        {"op_type": "A", "task_us": 20.0, "interval": {"low_us": 15.0, "high_us": 21.0}},
        {"op_type": "B", "task_us": 5.0, "interval": {"low_us": 1.0, "high_us": 9.0, "borrowed": "x A"}},
    ]
    total = together(rows)
    known = {"of_us": 35.0, "low_us": 24.0, "high_us": 44.0}
    assert total == known | {"unmeasured_us": {"B": 5.0}, "borrowed": {"B": "x A"}, "other_chips_us": {}}
    line = "Uncertainty: 35.0 us, 80 % interval 24.0 to 44.0 us"
    lent = "; not measured, so the nearest kind's interval, wider (assumed): B 5.0 us (x A)"
    assert words(total) == line + lent
    assert words(together(rows[:2])) == "Uncertainty: 30.0 us, 80 % interval 23.0 to 35.0 us"


def test_a_total_names_the_chips_that_its_intervals_are_of() -> None:
    ends = {"low_us": 8.0, "high_us": 14.0}
    rows = [
        {"op_type": name, "task_us": us, "interval": ends | rest}
        for name, us, rest in (
            ("A", 10.0, {"chips": ["x"]}), ("B", 11.0, {"chips": ["x"]}), ("C", 12.0, {"chips": ["x", "y"]}), ("D", 9.0, {}),
        )
    ]  # fmt: skip
    total = together(rows)
    assert total["other_chips_us"] == {"x": 21.0, "x, y": 12.0} and total["unmeasured_us"] == {}
    lent = "few measured on this chip, so other chips count too, wider (assumed): 21.0 us (x); 12.0 us (x, y)"
    assert words(total) == f"Uncertainty: 42.0 us, 80 % interval 32.0 to 56.0 us; {lent}"
