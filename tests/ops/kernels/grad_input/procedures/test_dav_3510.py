"""Input gradients of dav-3510 against the vendor's unit tests."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import vendor_grad_input_3510
from tests.support.ops.tables_950 import ARCH35, fields_of, on_950

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("row", [r for r in ARCH35["rows"] if not r["reason"]], ids=lambda row: row["name"])
def test_grad_input_of_dav_3510(row: dict[str, Any]) -> None:
    tiling = vendor_grad_input_3510(on_950(row))
    got = fields_of(tiling)
    assert {name: got[name] for name in row["fields"]} == row["fields"]
    segments = row["itemsize"] == 2 and row["name"].startswith("conv3d_dx_split_k")  # our kernel sums them in L0C
    assert tiling.source == ("stand-in" if segments else "vendor procedure")


def test_grad_input_rows_that_are_left_open() -> None:
    """Rows that our kernel does otherwise do not claim to be the vendor's."""
    reasons = [row["reason"] for row in ARCH35["rows"] if row["reason"]]
    assert (len(ARCH35["rows"]), len(reasons)) == (36, 12)
    for row in ARCH35["rows"]:
        if row["reason"].startswith(("C04", "fully loaded kernel split")):
            assert vendor_grad_input_3510(on_950(row)).source == "stand-in"
        elif row["reason"].startswith("the kernel is cut"):
            with pytest.raises(TilingError, match="baseM = 256 covers 256 rows > 255"):
                vendor_grad_input_3510(on_950(row))
            cut = GradInputQuestion(on_950(row), chip=load_chip("ascend950pr_9589")).tiling()
            assert (cut.load_b1, cut.source) == (2, "stand-in")  # as the vendor's tiling key says; its block is not ours
