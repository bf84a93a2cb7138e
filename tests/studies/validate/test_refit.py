"""Costs that are fitted again without a layer: on rows that follow from known costs, and on what they are asked for."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.studies.validate.rows import shipped_rows
from ascend_sim.studies.validate.run import as_timed, simulate
from tests.support.places import DOCS, TOOLS


@pytest.fixture(scope="module")
def refit() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOOLS)
        yield importlib.import_module("accuracy_parts.refit")


def test_the_fields_are_those_that_rows_fitted(refit: Any) -> None:
    rows = [row for row in shipped_rows() if row.kernel.chip == "ascend910b2" and row.kernel.op_type == "MemSet"]
    assert refit.fitted_fields("ascend910b2", rows) == ("launch.overhead_per_block_us.AIV", "launch.prologue_us.MemSet")
    assert refit.fitted_fields("ascend950pr_9579", rows) == ()
    of_dx = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type) == ("ascend910b2", refit.DX)]
    fields = refit.fitted_fields("ascend910b2", of_dx)
    assert "load3d.rates.L0B.transpose_32bit" in fields
    assert "load3d.slide_rows" not in fields  # derived, with these rows in view


@pytest.mark.slow
def test_one_strange_layer_is_not_explained_by_the_others(refit: Any, tmp_path: Path) -> None:
    """Rows that last what is predicted, but for one: left out it is predicted as it ships, for the others say nothing else."""
    rows = [row for row in shipped_rows() if row.kernel.chip == "ascend910b2" and row.kernel.op_type == "MemSet"]
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    own = {kernel: simulate(as_timed(kernel)).task_us for kernel in kernels}
    exact = [replace(row, duration_us=own[row.kernel] * (3 if row.kernel == kernels[0] else 1)) for row in rows]
    found = refit.refit(exact, "ascend910b2", ("MemSet",), tmp_path)
    assert found.layers == len({refit.layer_of(row) for row in rows}) > 2
    strange = as_timed(kernels[0])
    assert found.left_out[strange] == pytest.approx(own[kernels[0]], rel=0.02)
    assert found.percent(found.shipped) > 5
    (kept,) = tmp_path.glob("refit-*.json")
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"left_out": [999.0] * len(found.rows)}))
    assert set(refit.refit(exact, "ascend910b2", ("MemSet",), tmp_path).left_out.values()) == {999.0}  # not run again


def test_costs_of_a_library_are_put_back(refit: Any, tmp_path: Path) -> None:
    field = "9.0.0, Conv3DBackpropFilterV2.head_us"
    before = refit._leaf(field)["value"]
    row = next(row for row in shipped_rows() if row.cells.get("case") == "9" and row.kernel.label("library"))
    bench = refit.LibraryBench("ascend950pr_9579", {field: before}, tmp_path)
    short, long = (bench.times([row], {field: value})[0] for value in (before, before + 10))
    assert long == pytest.approx(short + 10, abs=0.1)
    assert refit._leaf(field)["value"] == before


@pytest.mark.slow
def test_what_each_fitted_cost_of_the_950_is_worth(refit: Any, tmp_path: Path) -> None:
    """docs/design.md has the mean error of its measured calls without the head, the cost of a plane, that of a run, and all."""
    of, chip = "9.0.0, Conv3DBackpropFilterV2.", "ascend950pr_9579"
    start: dict[str, Any] = {f"{of}{name}": refit._leaf(f"{of}{name}")["value"] for name in ("head_us", "plane_cycles")}
    run = "paths.UB->GM.unaligned_row"
    start[run] = refit.value_of(chip, run)
    rows = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type) == (chip, "npu_conv3d_backward")]
    bench = refit.LibraryBench(chip, start, tmp_path)
    without: list[tuple[str, ...]] = [(), *((field,) for field in start), tuple(start)]
    assert len(bench.usable(rows)) == len(rows) == 10
    means = []
    for fields in without:
        times = bench.times(rows, start | dict.fromkeys(fields, 0))
        errors = [abs(us / row.duration_us - 1) for us, row in zip(times, rows, strict=True)]
        means.append(f"{100 * sum(errors) / len(errors):.0f}")
    text = " ".join((DOCS / "design.md").read_text(encoding="utf-8").split())
    written = re.search(
        r"mean error is (\d+) %, .* without the head it would be (\d+) %, without the cost of a plane (\d+) %, "
        r"of a run (\d+) %, without all three (\d+) %",
        text,
    )
    assert written is not None and list(written.groups()) == means
