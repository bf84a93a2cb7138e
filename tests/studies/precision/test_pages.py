"""Pages of a table of precisions."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim import precision
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.studies.precision.pages import notes


def test_overflow_is_counted_and_told(case, tmp_path):
    values = make_tensors(load_case(case))
    values["grad_output"] *= np.float32(4e4)
    values["weight"] *= np.float32(1e-7)
    save_tensors(tmp_path / "large.npz", {name: (array, "float32") for name, array in values.items()})
    table = precision(case, inputs=tmp_path / "large.npz", dtypes=["float32"])
    row = table.rows[2]
    with np.errstate(over="ignore"):
        halves = {name: array.astype(np.float16) for name, array in values.items()}
    for name, effect in row.operands.items():
        assert effect["overflowed"] == np.isinf(halves[name]).sum()
        assert effect["to_zero"] == (halves[name] == 0).sum() - (values[name] == 0).sum()
    assert row.operands["grad_output"]["overflowed"] > 0 < row.operands["weight"]["to_zero"]
    assert row.outputs["grad_weight"]["correct"] and row.outputs["grad_weight"]["nonfinite"] > 0
    text = "\n".join(notes(table))
    assert f"{row.operands['grad_output']['overflowed']:,} of grad_output overflow" in text
    assert f"{row.operands['weight']['to_zero']:,} of weight become 0" in text
    saturated = precision(case, inputs=tmp_path / "large.npz", dtypes=["float32"], overflow="saturate").rows[2]
    assert saturated.operands["grad_output"]["overflowed"] == row.operands["grad_output"]["overflowed"]
    assert saturated.passed and all(figures["nonfinite"] == 0 for figures in saturated.outputs.values())


@pytest.mark.fast
def test_notes_say_what_was_lost_where(table):
    text = "\n".join(notes(table))
    assert "fp32, cubeMathType 1 and 3: rounds both operands to hf32 as they enter the cube: 12 bits dropped" in text
    assert "fp32, cubeMathType 2: casts both operands to float16 before the cube: 13 bits dropped" in text
    assert "grad_weight sums up to 72 products in float32" in text  # 2 images of 6 x 6
    assert "grad_input sums up to 180 products in float32 and rounds them to bf16 (16 bits dropped)" in text
    assert "grad_bias sums 72 values of gradOutput in its own dtype, in float32 (assumed)" in text
    assert "Refused with 161002: bf16 with 2" in text and "is the hardware's" in text
