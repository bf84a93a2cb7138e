"""The 80 % interval of each predicted time, as `validate --csv` writes it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.report.certainty import interval
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.pages import csv_text
from ascend_sim.studies.validate.rows import read_rows, shipped_rows
from ascend_sim.studies.validate.run import compare

CONV = "chip,op_type,N,Ci,Hi,Wi,Co,Ho,Wo,kh,kw,stride_h,stride_w,pad_h_total,pad_w_total,dtype,duration_us"


def test_the_csv_has_the_interval_of_every_predicted_time(tmp_path: Path) -> None:
    """Intervals are those of the kernel's kind, of a call the sums of its kernels'; small programs have none."""
    path = tmp_path / "rows.csv"
    call = f"{CONV},kernels\n"
    size = "2,16,8,8,32,8,8,3,3,1,1,2,2,hf32"
    path.write_text(f"{call}ascend910b2,Conv2DBackpropFilter,{size},10,\nascend910b2,conv2d,{size},10,\n")
    rows = [*read_rows(path), shipped_row("DataCopyStream"), *read_rows(two_helpers(tmp_path))]
    compared = compare(rows)
    filter_row, call_row, program, cast, other = csv.DictReader(io.StringIO(csv_text(compared)))
    for row, op_type in ((filter_row, "Conv2DBackpropFilter"), (cast, "Cast")):
        sure = interval(load_chip("ascend910b2"), op_type, float(row["predicted_us"]))
        ends = float(row["predicted_low_us"]), float(row["predicted_high_us"])
        assert ends == pytest.approx((sure.low_us, sure.high_us), abs=1e-3)
        assert ends[0] < float(row["predicted_us"]) < ends[1]
    parts = [interval(load_chip("ascend910b2"), name, us) for name, us in compared[1].prediction.kernels]
    ends = float(call_row["predicted_low_us"]), float(call_row["predicted_high_us"])
    assert len(parts) == 4
    assert ends == pytest.approx((sum(part.low_us for part in parts), sum(part.high_us for part in parts)), abs=1e-3)
    for row in (program, other):
        assert (row["predicted_low_us"], row["predicted_high_us"]) == ("", "")
    assert other["skipped"] and float(program["predicted_us"]) > 0


def shipped_row(op_type: str) -> MeasuredRow:
    return next(row for row in shipped_rows() if row.kernel.op_type == op_type and not row.unlike)


def two_helpers(folder: Path) -> Path:
    path = folder / "helpers.csv"
    head = "chip,op_type,N,dtype,dtype_out,duration_us"
    path.write_text(f"{head}\nascend910b2,Cast,1000,fp32,fp16,10\nascend910b2,Softmax,1000,fp32,,10\n")
    return path
