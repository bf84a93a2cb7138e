"""tools/calibrate.py: made-up rows get the costs back that they were made with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.validate import read_rows, simulate

TOOL = Path(__file__).parents[1] / "tools" / "calibrate.py"
FIELD = "launch.prologue_us.ReduceSum"


@pytest.fixture(scope="module")
def calibrate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibrate", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_file(folder: Path, extra_us: float) -> Path:
    """Two kernels that take `extra_us` longer than the chip file says, of two networks."""
    path = folder / "rows.csv"
    lines = [f"ascend910b2,ReduceSum,1,1,{n},1,fp32,1.0,net{n}" for n in (160, 32)]
    path.write_text("\n".join(["chip,op_type,N,Ci,Hi,Wi,dtype,duration_us,network", *lines]) + "\n")
    times = [simulate(row.kernel).task_us + extra_us for row in read_rows(path)]
    lines = [line.replace(",1.0,", f",{us},") for line, us in zip(lines, times, strict=True)]
    path.write_text("\n".join(["chip,op_type,N,Ci,Hi,Wi,dtype,duration_us,network", *lines]) + "\n")
    return path


def test_a_cost_is_found_again_and_written_as_an_overlay(
    calibrate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_chip("ascend910b2").launch.prologue_us["ReduceSum"]
    out = tmp_path / "mine.yaml"
    arguments = [str(rows_file(tmp_path, 0.4 * before)), "--chip", "ascend910b2", "--field", FIELD, "--out", str(out)]
    assert calibrate.main(arguments) == 0
    fitted = load_chip(out)
    assert fitted.launch.prologue_us["ReduceSum"] == pytest.approx(1.4 * before, rel=0.05)
    assert fitted.sources[FIELD].text == "fitted: 2 rows of rows.csv"
    said = capsys.readouterr().out
    assert "2 rows of ascend910b2" in said
    assert "left out net32" in said and "left out net160" in said


def test_a_field_that_is_no_number_is_refused(
    calibrate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.yaml"
    arguments = [
        str(rows_file(tmp_path, 0)),
        "--chip",
        "ascend910b2",
        "--field",
        "paths.GM->UB.haed",
        "--out",
        str(out),
    ]
    assert calibrate.main(arguments) == 2
    assert "--field paths.GM->UB.haed: no number of ascend910b2" in capsys.readouterr().err
    assert not out.exists()
