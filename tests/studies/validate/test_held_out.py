"""Kernels that were left out lie in the intervals of the others."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import pytest
import yaml

from ascend_sim.chip import load_chip
from ascend_sim.report import certainty
from ascend_sim.report.certainty import ErrorKind, MeasuredError, interval, kinds
from ascend_sim.studies.validate.launches import CALLS
from ascend_sim.studies.validate.rows import shipped_rows
from ascend_sim.studies.validate.run import RowComparison, compare
from tests.support.places import TOOLS
from tools.accuracy_parts.held_out import borrowing, held_out, other_chips

LEAST, MOST = certainty.LEVEL - 0.05, certainty.LEVEL + 0.15


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        yield importlib.import_module("measured_errors")


def test_held_out_networks_lie_in_their_intervals() -> None:
    """Networks that are left out whole: their kernels in the interval about as often as it says, around either prediction."""
    whole = [one for one in held_out(kinds()) if one.whole]
    kernels = sum(one.kernels for one in whole)
    assert kernels > 100 and len({one.network for one in whole}) > 5
    for inside in (sum(one.inside for one in whole), sum(one.refitted for one in whole)):
        assert LEAST <= inside / kernels <= MOST


def test_every_kind_with_enough_kernels_holds_by_itself(tool: ModuleType) -> None:
    """On each chip; those that were measured in one network kernel by kernel."""
    sure = importlib.import_module("accuracy_parts.sure")
    shares = sure.shares(held_out(kinds())).items()
    of_kind = {(chip, kind.name): (hits, kernels) for (kind, chip), (hits, _, kernels, _) in shares}
    enough = {name: hits / kernels for name, (hits, kernels) in of_kind.items() if kernels >= sure.SOME}
    assert len(enough) >= 6 and all(LEAST <= share <= MOST for share in enough.values()), enough


def test_a_chip_that_is_left_out_lies_in_the_intervals_of_the_others() -> None:
    found = other_chips(kinds())
    assert len({one.chip for one in found}) == 5 and {one.kind.op_types[0] for one in found} == {"MatMul"}
    assert LEAST <= sum(one.inside for one in found) / sum(one.kernels for one in found) <= MOST


def test_a_chip_is_left_out_whole() -> None:
    """One that differs from all others is outside, whatever it has itself; of a kind with one chip nothing is known."""

    def rows_of(chip: str, error: float) -> list[MeasuredError]:
        return [MeasuredError(chip, 50.0, error, error) for _ in range(9)]

    several = ErrorKind("a", ("A",), errors={"n": rows_of("c", 0.0), "m": rows_of("d", 0.01), "l": rows_of("e", 2.0)})
    alone = ErrorKind("a", ("B",), errors={"n": rows_of("c", 0.0)})
    found = {one.chip: (one.inside, one.kernels) for one in other_chips([several, alone])}
    assert found == {"c": (9, 9), "d": (9, 9), "e": (0, 9)}


def test_a_kind_lies_in_the_interval_that_it_would_borrow() -> None:
    lent = borrowing([kind for kind in kinds() if kind.kernels > 1])
    assert LEAST <= sum(one.inside for one in lent) / sum(one.kernels for one in lent) <= MOST
    assert all(one.nearest != one.kind for one in lent)


def test_a_network_is_left_out_whole() -> None:
    """One that differs from all others is outside, whatever it has itself; alone it is left out kernel by kernel."""

    def rows_of(errors: Sequence[float]) -> list[MeasuredError]:
        return [MeasuredError("c", 50.0, error, error) for error in errors]

    rows = {f"n{i}": rows_of([0.01 * i, -0.01 * i]) for i in range(6)}
    strange = {"x": rows_of([2.0] * 30)}
    found = {one.network: one for one in held_out([ErrorKind("a", ("A",), errors=rows | strange)])}
    assert (found["x"].inside, found["x"].kernels, found["x"].whole) == (0, 30, True)
    (alone,) = held_out([ErrorKind("a", ("A",), errors=strange)])
    assert (alone.inside, alone.kernels, alone.whole) == (30, 30, False)


def test_a_kernel_that_costs_have_seen_counts_twice() -> None:
    """Inside as shipped, outside around what costs fitted without it predict."""
    rows = [MeasuredError("c", 50.0, 0.1 * i, 0.1 * i) for i in range(-4, 4)] + [MeasuredError("c", 50.0, 0.0, 3.0)]
    (found,) = held_out([ErrorKind("a", ("A",), errors={"n": rows})])
    assert (found.inside, found.refitted, found.kernels) == (9, 8, 9)


def test_the_file_is_what_the_rows_say(tool: ModuleType) -> None:
    """Rows that take little time: what is predicted of them as shipped stands in the file."""
    chosen = [row for row in shipped_rows() if row.kernel.op_type == "Conv2DBackpropFilter" and row.series][::3]
    chosen += [row for row in shipped_rows() if row.kernel.op_type == "conv2d" and row.cells["case"] == "9"]
    chosen += [row for row in shipped_rows() if row.kernel.op_type == "MemSet"]
    compared = [one for one in compare(chosen) if tool.kind_of(one) is not None]
    assert len(compared) > 8
    for one in compared:
        stand = errors_of(tool, one)
        assert any(found.us == pytest.approx(one.prediction.task_us, abs=0.01) for found in stand), one.row.kernel


def test_the_file_has_each_row_under_its_chip(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that ran on two chips stands under both, and counts as one."""
    (row, *_) = [row for row in shipped_rows() if row.kernel.op_type == "MemSet"]
    there = replace(row, kernel=replace(row.kernel, chip="ascend910b3"))
    written = tool.text_of(compare([row, there]))
    monkeypatch.setattr(certainty, "read_config", lambda _: yaml.safe_load(written))
    (kind,) = certainty.kinds.__wrapped__()
    assert kind.chips == ("ascend910b2", "ascend910b3") and list(kind.errors) == ["alexnet"]
    assert [one.chip for one in kind.errors["alexnet"]] == list(kind.chips)


def test_errors_of_costs_that_have_not_seen_a_kernel_stand_beside(tool: ModuleType) -> None:
    """Kernels whose costs were fitted on their own rows, but no others."""
    fitted_again = {
        (load_chip(chip).identity.arch, "Conv3DBackpropFilterV2" if op_type in CALLS else op_type)
        for chip, op_types in importlib.import_module("accuracy_parts.refit").KINDS
        for op_type in op_types
    }
    for kind in kinds():
        beside = any(one.error != one.left_out for rows in kind.errors.values() for one in rows)
        assert beside == any((kind.arch, op_type) in fitted_again for op_type in kind.op_types), kind.name


def errors_of(tool: ModuleType, one: RowComparison) -> Sequence[MeasuredError]:
    """Return the file's errors of the row's kind, chip and network."""
    key = tool.kind_of(one)
    kind = next(k for k in kinds() if (k.arch, k.op_types, k.grouped, k.library) == key)
    return kind.on(load_chip(one.row.kernel.chip).name).errors[tool.network_of(one.row.cells["run"])]


def test_repeats_of_a_kernel_count_once(tool: ModuleType) -> None:
    rows = [row for row in shipped_rows() if row.kernel.op_type == "MemSet"]
    compared = [one for one in compare(rows) if not one.prediction.skipped]
    assert (
        len(compared)
        > len({one.row.kernel for one in compared})
        == sum(len(found) for kind in kinds() if kind.op_types == ("MemSet",) for found in kind.errors.values())
    )
    found = interval(load_chip("ascend910b2"), "MemSet", 12.0)
    assert found is not None and found.low_us < found.high_us < 12.0 * math.e
