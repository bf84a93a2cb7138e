"""Kernels that were left out lie in the intervals of the others."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest

from ascend_sim.report.certainty import Kind, interval, kinds
from ascend_sim.studies.validate.held_out import held_out
from ascend_sim.studies.validate.rows import shipped_rows
from ascend_sim.studies.validate.run import compare

TOOL = Path(__file__).parents[3] / "tools" / "measured_errors.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measured_errors", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    """Rows that take little time, of each of the tables: their errors stand in the file."""
    chosen = [
        row for row in shipped_rows() if row.kernel.op_type in ("ReduceSum", "Cast") or row.cells.get("case") == "9"
    ]
    compared = [one for one in compare(chosen[::14]) if tool.kind_of(one) is not None]
    assert len(compared) > 4
    for one in compared:
        arch, op_types, grouped, library = tool.kind_of(one)
        kind = next(
            k for k in kinds() if (k.arch, k.op_types, k.grouped, k.library) == (arch, op_types, grouped, library)
        )
        stand = kind.errors[tool.network_of(one.row.cells["run"])]
        assert any(us == pytest.approx(one.prediction.task_us, abs=0.01) for us, _ in stand), one.row.kernel


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
