"""Measured rows: how they are read, and one line for every wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.errors import ConfigError, SimError
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.rows import FACTS, of_chips, read_rows, shipped_rows
from tests.support.studies.measured_rows import CONV, HELPERS, PRODUCTS, TWO_ROWS


@pytest.mark.fast
def test_a_row_is_read_as_it_stands(rows_file: Path) -> None:
    first, second = read_rows(rows_file, facts=("block_dim",))
    assert first.kernel.chip == "ascend910b2"
    assert (first.kernel["N"], first.kernel["Co"], first.kernel["block_dim"]) == (2, 32, 4)
    assert first.duration_us == 10.0
    assert first.pipes == {"mac": 4.0, "mte1": 2.0}
    assert second.core_us is None and second.pipes == {}


def test_a_prediction_is_told_nothing_unless_asked(tmp_path: Path) -> None:
    """Blocks and tiling change nothing that the simulator gets to know."""
    path = tmp_path / "rows.csv"
    line = TWO_ROWS.splitlines()[2]
    path.write_text("\n".join([CONV + ",a,b,c", line, line.replace("fp16,4,", "fp16,1,")]))
    first, second = read_rows(path)
    assert first.kernel == second.kernel and first.cells["block_dim"] == "4"
    path.write_text(PRODUCTS)
    told, untold = ({name for row in read_rows(path, facts=what) for name, _ in row.kernel.sizes} for what in (FACTS, ()))
    assert {"block_dim", "baseM", "baseN"} <= told and not untold & {"block_dim", "baseM", "baseN"}
    path.write_text("chip,op_type,N,Ci,Hi,Wi,dtype,duration_us,l2\nascend910b2,ReduceSum,32,256,169,1,fp32,19,cold\n")
    assert [read_rows(path, l2)[0].kernel.l2 for l2 in ("warm", "cold")] == ["cold", "cold"]  # a row's own goes first
    with pytest.raises(SimError, match="facts: 'blocks': allowed are block_dim, tiling"):
        read_rows(path, facts=("blocks",))


def test_other_names_of_operators_and_formats(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(TWO_ROWS.replace("Filter,", "FilterD,"))
    assert [row.kernel.op_type for row in read_rows(path)] == ["Conv2DBackpropInput", "Conv2DBackpropFilter"]
    given = ("ND,NC1HWC0", "NC1HWC0:1,NCHW", "nd,fractal_z", "ND,FRACTAL_NZ", "NCHW,NHWC")
    line = "ascend910b2,TransData,2,20,6,6,20,3,3,fp32,,{},8,10"
    path.write_text("\n".join([HELPERS.splitlines()[0], *(line.format(formats) for formats in given)]))
    rows = read_rows(path)
    assert [(row.kernel.label("format_in"), row.kernel.label("format_out")) for row in rows[:3]] == [
        ("NCHW", "NC1HWC0"),
        ("NC1HWC0", "NCHW"),
        ("NCHW", "FRACTAL_Z"),
    ]
    assert [row.unlike for row in rows] == [
        "",
        "",
        "",
        "TransData ND -> FRACTAL_NZ is not simulated",
        "TransData NCHW -> NHWC is not simulated",
    ]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("64,96,128,0,1", "64,,128,0,1", "line 2: N missing; MatMulV2 needs M, N, K"), ("0,1,4", "0,2,4", "trans_b: '2' given")],
)
def test_wrong_matmul_rows(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(PRODUCTS.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        read_rows(path)


def test_of_chips_keeps_only_those_and_names_what_there_is(rows_file: Path) -> None:
    rows = read_rows(rows_file)
    assert of_chips(rows, ["Ascend910B2"]) == rows
    with pytest.raises(SimError, match=r"ascend910b3.* no measured rows; there are rows of ascend910b2"):
        of_chips(rows, ["ascend910b3"])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration_us", "time", "no column duration_us"),
        ("Ascend910B2,Conv2DBackpropInput", "ascend910x,Conv2DBackpropInput", "line 3: chip"),
        ("fp16,4,10.0", "fp16,4,0", "line 3: duration_us: '0' given"),
        ("fp16,4,10.0", "fp16,4,nan", "line 3: duration_us: 'nan' given"),
        ("fp16,4,10.0", "fp16,0,10.0", "line 3: block_dim: '0' given"),
        ("2,16,8,8,32,8,8", ",16,8,8,32,8,8", "line 3: N missing"),
        ("2,16,8,8,32,8,8", "2,16,8,8,32,8,7", "line 3: Wo: 7 given; .* give 8"),
        ("2,16,8,8,32,8,8", "2.5,16,8,8,32,8,8", "line 3: N: '2.5' given"),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_column(rows_file: Path, old: str, new: str, message: str) -> None:
    rows_file.write_text(TWO_ROWS.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message) as caught:
        read_rows(rows_file)
    assert "\n" not in str(caught.value)


def test_other_errors(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(CONV + "\n")
    with pytest.raises(ConfigError, match="no rows"):
        read_rows(path)
    with pytest.raises(ConfigError, match=r"^/dev/zero: is a device or a pipe, not a file; --rows takes"):
        read_rows(Path("/dev/zero"))
    with pytest.raises(ConfigError, match=r"none\.csv: no such file"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        path.write_bytes(b"\xff\xfe")
        read_rows(path)
    path.write_text(HELPERS.replace("NCHW,NC1HWC0", "NCHW,NC1HWCO"))
    with pytest.raises(ConfigError, match="line 2: format_in, format_out"):
        read_rows(path)


def test_rows_are_plain_data() -> None:
    row = shipped_rows()[0]
    assert isinstance(row, MeasuredRow)
    assert hash(row.kernel) == hash(shipped_rows()[0].kernel)
