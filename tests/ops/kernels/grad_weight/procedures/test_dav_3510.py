"""Weight gradients of dav-3510 against the vendor's unit tests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.blocks import decided as decided_filter
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import vendor_grad_weight_3510
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import with_groups_merged as filters_merged
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.places import DATA

pytestmark = pytest.mark.fast


LOAD3D_950 = load_chip("ascend950pr_9589").load3d.limits


TABLE_3510 = json.loads((DATA / "ut_tilings_arch35.json").read_text())


CHIP_3510 = load_chip("ascend950pr_9589")


WINOGRAD = "conv3d_bp_filter_wino_fp32_3x3"


OTHERWISE = {  # what our kernel does in its own way, or not at all
    "aclnnConvolutionBackward_3DDW_SplitW_001": "stand-in",
    "aclnnConvolutionBackward_3DDW_SplitW0": "load3d: stride h",
    "aclnnConvolutionBackward_3DDW_StrideHMax": "load3d: stride h",
    "aclnnConvolutionBackward_3DDW_StrideWMax": "load3d: stride w",
    "aclnnConvolutionBackward_3DDW_StrideWMax_NDHWC": "load3d: stride w",
    "aclnnConvolutionBackward_3DDW_ShrinkBaseBlock": "taps of this kernel one by one",
}


def filter_problem_on_950(row: dict[str, Any]) -> TilingInput:
    """Return the input of a row with its groups merged as the library merges them."""
    buffers = {**TABLE_3510["buffers"], "UB": CHIP_3510.buffers["UB"]}
    problem, l2 = ConvProblem(**row["problem"]), TABLE_3510["l2_bytes"]
    return filters_merged(TilingInput(problem, row["itemsize"], row["cores"], buffers, l2, True, PLANAR, load3d=LOAD3D_950))


@pytest.mark.parametrize("row", [row for row in TABLE_3510["rows"] if row["name"] != WINOGRAD], ids=lambda row: row["name"])
def test_grad_weight_of_dav_3510(row: dict[str, Any]) -> None:
    """The decision has the fields of every row; what our kernel does otherwise says so."""
    inp = filter_problem_on_950(row)
    tiling = decided_filter(inp)
    got = tiling.to_vendor()
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    otherwise = OTHERWISE.get(row["name"])
    if otherwise in (None, "stand-in"):
        own = vendor_grad_weight_3510(inp)
        assert own.source == (otherwise or "vendor procedure")
        assert otherwise or own == tiling
    else:
        with pytest.raises(TilingError, match=otherwise):
            vendor_grad_weight_3510(inp)


def test_winograd_is_not_written() -> None:
    row = next(row for row in TABLE_3510["rows"] if row["name"] == WINOGRAD)
    with pytest.raises(TilingError, match="Winograd"):
        vendor_grad_weight_3510(filter_problem_on_950(row))


def test_groups_of_dav_3510_that_are_merged_otherwise_are_a_stand_in() -> None:
    row = next(row for row in TABLE_3510["rows"] if row["name"] == "conv_stdit_01_depthwise")
    inp = filter_problem_on_950(row)
    assert inp.group_extension == 16
    assert vendor_grad_weight_3510(replace(inp, merged=False)).source == "stand-in"
