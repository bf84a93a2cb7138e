"""Templates of the 950's input gradient."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import decided, turns_weights
from tests.support.ops.tables_950 import ARCH35, fields_of, on_950
from tests.support.places import DATA

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("row", [r for r in ARCH35["rows"] if not r["fields"]["kernelSplitMode"]], ids=lambda row: row["name"])
def test_the_procedure_for_grad_input_of_dav_3510(row: dict[str, Any]) -> None:
    """Every row without a split of the kernel, whatever our kernel makes of it."""
    got = fields_of(decided(DataProblem.of(on_950(row))))
    expected = {name: value for name, value in row["fields"].items() if name != "coreNum"}
    assert {name: got[name] for name in expected} == expected


def test_when_the_library_turns_weights_first() -> None:
    """In these rows and in no others without a split, whether fp32 is computed as HF32 or not; ours then is a stand-in."""
    rows = [r for r in ARCH35["rows"] if not r["fields"]["kernelSplitMode"]]
    chip = load_chip("ascend950pr_9589")
    for row in rows:
        p, wanted = DataProblem.of(on_950(row)), bool(row["enableVecTrans"])
        assert {turns_weights(p, decided(p), hf32=hf32) for hf32 in (False, True)} == {wanted}, row["name"]
        if wanted:
            assert GradInputQuestion(on_950(row), chip=chip).tiling().source == "stand-in"
    assert (len(rows), sum(row["enableVecTrans"] for row in rows)) == (31, 4)


@pytest.mark.parametrize(
    ("itemsize", "kernel", "hf32", "long"), [(4, 3, False, 256), (4, 3, True, 512), (2, 3, False, 384), (2, 5, False, 512)]
)
def test_long_blocks_leave_weights_as_they_are(itemsize: int, kernel: int, hf32: bool, long: int) -> None:
    """From so many pixels a block, where weights are loaded for each plane; many tasks share them."""
    row = next(r for r in ARCH35["rows"] if r["name"] == "conv3d_dx_4")
    inp = replace(on_950(row), itemsize=itemsize)
    p = DataProblem.of(replace(inp, problem=replace(inp.problem, k_h=kernel, k_w=kernel)))
    turned = [turns_weights(p, decided(p).but(base_m=m), hf32=hf32) for m in (long - 16, long)]
    assert turned == [True, False]


SEPARATE = json.loads((DATA / "dx_tilings_arch35.json").read_text())


@pytest.mark.parametrize("row", SEPARATE["rows"], ids=range(len(SEPARATE["rows"])))
def test_a_separate_program_decides_the_same(row: dict[str, Any]) -> None:
    p = DataProblem.of(on_950(row))
    got = fields_of(decided(p)) | {"loadB1Condition": p.cut}
    assert {name: got[name] for name in row["fields"]} == row["fields"]
