"""Kernels that were left out lie in the intervals of the others."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from types import ModuleType

import pytest
from places import TOOLS

from ascend_sim.report.certainty import Kind, interval, kinds
from ascend_sim.studies.validate.held_out import held_out
from ascend_sim.studies.validate.rows import shipped_rows
from ascend_sim.studies.validate.run import Comparison, compare


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        yield importlib.import_module("measured_errors")


def test_held_out_networks_lie_in_their_intervals() -> None:
    """Networks that are left out whole: 70 to 90 % of their kernels in an interval of 80 %."""
    whole = [one for one in held_out(kinds()) if one.whole]
    kernels = sum(one.kernels for one in whole)
    assert kernels > 100 and len({one.network for one in whole}) > 5
    assert 0.7 <= sum(one.inside for one in whole) / kernels <= 0.9


def test_a_network_is_left_out_whole() -> None:
    """One that differs from all others is outside, whatever it has itself; alone it is left out kernel by kernel."""
    rows = {f"n{i}": [(50.0, 0.01 * i), (50.0, -0.01 * i)] for i in range(6)}
    strange = {"x": [(50.0, 2.0)] * 30}
    found = {one.network: one for one in held_out([Kind("a", ("A",), errors=rows | strange)])}
    assert (found["x"].inside, found["x"].kernels, found["x"].whole) == (0, 30, True)
    (alone,) = held_out([Kind("a", ("A",), errors=strange)])
    assert (alone.inside, alone.kernels, alone.whole) == (30, 30, False)


def test_the_file_is_what_the_rows_say(tool: ModuleType) -> None:
    """Rows that take little time: their predictions stand in the file, but where costs are fitted again without them."""
    chosen = [row for row in shipped_rows() if row.kernel.op_type == "Conv2DBackpropFilter" and row.series][::3]
    chosen += [row for row in shipped_rows() if row.kernel.op_type == "conv2d" and row.cells["case"] == "9"]
    compared = [one for one in compare(chosen) if tool.kind_of(one) is not None]
    assert len(compared) > 4
    for one in compared:
        stand = errors_of(tool, one)
        assert any(us == pytest.approx(one.prediction.task_us, abs=0.01) for us, _ in stand), one.row.kernel


def test_a_left_out_prediction_is_beside_the_measured_time(tool: ModuleType) -> None:
    """Kernels whose costs were fitted on their own rows: another prediction than what ships, the same measured time."""
    rows = [row for row in shipped_rows() if row.kernel.op_type == "MemSet"]
    compared = [one for one in compare(rows) if not one.prediction.skipped]
    measured: dict[object, list[float]] = {}
    for one in compared:
        measured.setdefault(one.row.kernel, []).append(math.log(one.row.duration_us))
    stand = errors_of(tool, compared[0])
    assert sorted(us * math.exp(log) for us, log in stand) == pytest.approx(
        sorted(math.exp(fmean(logs)) for logs in measured.values()), rel=1e-3
    )
    assert {round(us, 2) for us, _ in stand} != {round(one.prediction.task_us, 2) for one in compared}


def errors_of(tool: ModuleType, one: Comparison) -> Sequence[tuple[float, float]]:
    """What the file has of the row's kind and network."""
    key = tool.kind_of(one)
    kind = next(k for k in kinds() if (k.arch, k.op_types, k.grouped, k.library) == key)
    return kind.errors[tool.network_of(one.row.cells["run"])]


def test_repeats_of_a_kernel_count_once(tool: ModuleType) -> None:
    rows = [row for row in shipped_rows() if row.kernel.op_type == "MemSet"]
    compared = [one for one in compare(rows) if not one.prediction.skipped]
    assert (
        len(compared)
        > len({one.row.kernel for one in compared})
        == sum(len(found) for kind in kinds() if kind.op_types == ("MemSet",) for found in kind.errors.values())
    )
    found = interval("dav-2201", "MemSet", 12.0)
    assert found is not None and found.low_us < found.high_us < 12.0 * math.e
