"""Kernels that the library splits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_HW
from ascend_sim.ops.kernels.grad_input.procedures.arch35.divided import (
    DividedProblem,
    divided,
    leaves_through_workspace,
    library_split,
)
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import vendor_grad_input_3510
from ascend_sim.ops.problem.layout import CHANNELS_LAST
from tests.support.ops.tables_950 import ARCH35, fields_of, on_950
from tests.support.places import DATA

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("row", ARCH35["rows"], ids=lambda row: row["name"])
def test_which_kernels_the_library_splits_and_how(row: dict[str, Any]) -> None:
    """Every row, whatever our kernel makes of it; with maps in another layout the weights may still be NCDHW."""
    other = row["reason"].startswith("weights, gradOutput or dx are not NCDHW")
    inp = replace(on_950(row), layout=CHANNELS_LAST) if other else on_950(row)
    mode, held = library_split(inp)
    assert mode == row["fields"]["kernelSplitMode"]
    if mode:
        got = fields_of(divided(DividedProblem.split(inp, mode), held))
        blocks = {"coreNum"} if other and row["enableVecTrans"] else set()  # as many as turn NCDHW weights
        expected = {name: value for name, value in row["fields"].items() if name not in blocks}
        assert {name: got[name] for name in expected} == expected


SPLIT = json.loads((DATA / "dx_split_tilings_arch35.json").read_text())


@pytest.mark.parametrize("row", SPLIT["rows"], ids=range(len(SPLIT["rows"])))
def test_a_separate_program_splits_the_same(row: dict[str, Any]) -> None:
    inp = replace(on_950(row), buffers=ARCH35["buffers"] | {"UB": 253952})
    mode, held = library_split(inp)
    assert (mode, held) == (row["fields"]["kernelSplitMode"], row["held"])
    if not mode:
        return
    p = DividedProblem.split(inp, mode)
    tiling = divided(p, held)
    got = fields_of(tiling)
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    assert (mode == SPLIT_HW and leaves_through_workspace(tiling, p)) == row["workspace"]
    own = vendor_grad_input_3510(inp)
    vendors = p.turned and not held and (mode == SPLIT_H or row["workspace"])
    assert (own.kernel_split, own.source) == (mode, "vendor procedure" if vendors else "stand-in")
