"""Our procedures against the vendor's unit-test tilings for the 910B, and the worked ResNet example by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import problem_of, tuned_fields, tuned_rows
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_NONE
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import covers_grad_input, vendor_grad_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import vendor_grad_input_3510
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import covers_grad_weight, vendor_grad_weight
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import PLAIN_SPLIT
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tables_950 import ARCH35, LOAD3D_950, TABLE, on_950, rows
from tests.support.ops.tiling_problems import LOAD3D

pytestmark = pytest.mark.fast

COVERS = {"grad_input": covers_grad_input, "grad_weight": covers_grad_weight}
VENDOR = {"grad_input": vendor_grad_input, "grad_weight": vendor_grad_weight}


def given(row: dict[str, Any]) -> TilingInput:
    return TilingInput(
        ConvProblem(**row["problem"]),
        row["itemsize"],
        row["cores"],
        TABLE["buffers"],
        TABLE["l2_bytes"],
        row["deterministic"],
        load3d=LOAD3D,
    )


@pytest.mark.parametrize("row", rows(open_procedure=True, fits=True))
def test_every_decision_of_the_open_procedures(row: dict[str, Any]) -> None:
    tiling = VENDOR[row["kernel"]](given(row))
    got = tiling.to_vendor() | {"key": tiling.tiling_key, "block_dim": tiling.block_dim}
    expected = row["fields"] | {"key": row["key"], "block_dim": row["block_dim"]}
    assert {name: got[name] for name in expected} == expected
    assert tiling.source == "vendor procedure"


@pytest.mark.parametrize("row", rows(open_procedure=False))
def test_closed_rows_are_not_claimed(row: dict[str, Any]) -> None:
    assert not COVERS[row["kernel"]](given(row))
    with pytest.raises(TilingError, match="open procedure needs"):
        VENDOR[row["kernel"]](given(row))


@pytest.mark.parametrize("row", rows(open_procedure=True, fits=False))
def test_what_the_vendor_refuses_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(TilingError, match=r"L1: .* > 524288 bytes"):
        VENDOR[row["kernel"]](given(row))


def test_the_table_reaches_every_template() -> None:
    keys = [r["key"] for r in TABLE["rows"] if r["open_procedure"]]
    assert len(keys) == 22
    assert {1, 3, 4, 512, 513, 514} <= set(keys)


def test_what_is_not_the_vendors_own_says_so() -> None:
    """Groups that the library merges, taken one by one; a split kernel that is taken whole."""
    depthwise = next(row for row in ARCH35["rows"] if "depthwise_group_bf16" in row["name"])
    assert vendor_grad_input_3510(on_950(depthwise)).source == "vendor procedure"
    assert vendor_grad_input_3510(replace(on_950(depthwise), merged=False)).source == "stand-in"
    split = next(row for row in ARCH35["rows"] if row["fields"]["kernelSplitMode"] == 2)
    assert vendor_grad_input_3510(on_950(split), SPLIT_NONE).source == "stand-in"


@pytest.mark.parametrize("row", tuned_rows(), ids=lambda row: f"{row['kernel']}-{row['input']}")
def test_the_tuned_table_comes_first(row: dict[str, Any]) -> None:
    chip = load_chip("ascend950pr_9589")
    wide = 4 if row["dtype"] == "hf32" else 2
    buffers = {str(name): size for name, size in chip.buffers.items()}
    inp = TilingInput(
        problem_of(row), wide, row["cores"], buffers, chip.memory.l2_bytes, True, PLANAR, family=PLAIN_SPLIT, load3d=LOAD3D_950
    )
    ask = GradInputQuestion if row["kernel"] == "grad_input" else GradWeightQuestion
    tiling = ask(inp, chip=chip, dtype=row["dtype"]).tiling()
    if row["tuned"].get("enableSplitK") or "weight_format" in row:  # not expressed, or for weights in another format
        assert tiling.source != "vendor table"
        return
    got = tiling.to_vendor() | {"kSegment": 0, "kernelSplitMode": 0} | tiling.to_vendor()
    assert {name: got[name] for name in tuned_fields(row)} == tuned_fields(row)
    # Where the library turns the weights first, our kernel, unless it is split, does something else with the tiling.
    turned = row["kernel"] == "grad_input" and row["input"][2:] == [6, 6, 6]
    assert tiling.source == ("stand-in" if turned else "vendor table")
    for other in (
        ask(inp, chip=load_chip("ascend950dt_9581"), dtype=row["dtype"]).tiling(),
        ask(inp, chip=chip, dtype="float32").tiling(),
    ):
        assert other.source != "vendor table"
