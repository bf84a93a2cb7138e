"""The vendor's tuned tilings of the 950: which our kernels express, and that those run with the fields that were tuned."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from ascend_sim.errors import SimError
from ascend_sim.ops.kernels.cube.vendor import tuned_fields, tuned_rows
from tests.support.places import TOOLS

ROWS = tuned_rows()


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("tuned_tilings", TOOLS / "tuned_tilings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_tiling_but_one_is_expressed(tool: Any) -> None:
    for row in ROWS:
        if row["tuned"].get("enableSplitK"):
            with pytest.raises(SimError, match="enableSplitK"):
                tuned_fields(row)
            continue
        kernel = tool.kernel_of(row)
        assert kernel.call.compute_dtype == "hf32"
        _, task = kernel.launch(tuned_fields(row))
        tuned, set_ = row["tuned"], task.info["tiling"]
        same = ("baseM", "baseK", "baseN", "stepKa", "stepKb", "cl0Pbuffer", "al1Pbuffer", "singleCoreM")
        assert {name: set_[name] for name in same} == {name: tuned[name] for name in same}
        if row["kernel"] == "grad_input":
            assert set_["coreNum"] == tuned["coreNum"]
            continue
        assert kernel.call.deterministic
        assert set_["usedCoreNum"] == tuned["usedCoreNum"] and set_["streamKType"] == tuned["streamkType"]
        shared = set_["coreStreamK"] if tuned["streamkType"] else 1
        assert set_["singleCoreBatch"] == shared * tuned["singleCoreBatchDout"]


def test_the_page_has_a_line_for_each(tool: Any) -> None:
    section = (TOOLS / "tuned_tilings.md").read_text(encoding="utf-8")
    for row in ROWS:
        sizes = ("x".join(map(str, row[name])) for name in ("input", "weight"))
        line = f"| {' | '.join(sizes)} |"
        expressed = not row["tuned"].get("enableSplitK")
        assert (f"| {row['kernel']} {line}" if row["kernel"] == "grad_weight" else line) in section or not expressed
    assert "1x1x1x131073x1" in section
    assert section.strip().replace("../docs/", "") in (TOOLS.parent / "docs" / "accuracy-tables.md").read_text(encoding="utf-8")


def test_the_cycles_of_a_line_are_those_of_the_kernels_of_now(tool: Any) -> None:
    """The smallest kernel alone: what was tuned, and what is chosen without the table."""
    row = next(row for row in ROWS if row["input"] == [4, 192, 12, 12, 12])
    kernel = tool.kernel_of(row)
    tuned, own = kernel.simulate(tuned_fields(row))["cycles"], tool.own_choice(row, kernel)["cycles"]
    section = (TOOLS / "tuned_tilings.md").read_text(encoding="utf-8")
    (line,) = [line for line in section.splitlines() if "| 4x192x12x12x12 |" in line]
    assert f"| {tuned:,} | " in line and line.endswith(f"| {own:,} ({100 * (own / tuned - 1):+.1f} %) |")
