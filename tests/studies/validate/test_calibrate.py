"""tools/calibrate.py: made-up rows get the costs back that they were made with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.rows import of_chips, read_rows
from ascend_sim.studies.validate.run import simulate
from tests.support.places import TOOLS

TOOL = TOOLS / "calibrate.py"
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
    lines = [f"ascend910b2,ReduceSum,1,1,{n},1,1,fp32,1.0,net{n}" for n in (160, 32)]
    path.write_text("\n".join(["chip,op_type,N,Ci,Hi,Wi,block_dim,dtype,duration_us,network", *lines]) + "\n")
    times = [simulate(row.kernel).task_us + extra_us for row in read_rows(path)]
    lines = [line.replace(",1.0,", f",{us},") for line, us in zip(lines, times, strict=True)]
    path.write_text("\n".join(["chip,op_type,N,Ci,Hi,Wi,block_dim,dtype,duration_us,network", *lines]) + "\n")
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
    source = fitted.sources[FIELD].text
    assert source.startswith("fitted: 2 rows of rows.csv, mean error 21.4 % before, ") and source.endswith(" % after")
    said = capsys.readouterr().out
    assert "2 rows, 2 of them simulated (2 kernels)" in said
    assert "mean error with each network left out in turn: 0." in said
    assert "1 of 1 fields changed" in said
    assert "left out net32" in said and "left out net160" in said


def test_a_field_that_is_no_number_is_refused(
    calibrate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.yaml"
    arguments = [str(rows_file(tmp_path, 0)), "--chip", "ascend910b2", "--field", "paths.GM->UB.haed", "--out", str(out)]
    assert calibrate.main(arguments) == 2
    assert "--field paths.GM->UB.haed: no number of ascend910b2" in capsys.readouterr().err
    assert not out.exists()


def test_a_profilers_folder_is_fitted_and_what_cannot_be_is_told(
    calibrate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Casts that start 1.5 times as late; HBM matters to none of them; a MemSet's size is not in the table."""
    base = load_chip("ascend910b2").launch.core_start_us["AIV"]
    heads = "OP Type,Task Type,Task Duration(us),Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types"
    folder = tmp_path / "PROF_1" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)

    def write(times: list[float]) -> None:
        lines = [f"Cast,AI_VECTOR_CORE,{us},{n},FLOAT,ND,{n},FLOAT16" for n, us in zip((32, 160), times, strict=True)]
        (folder / "op_summary_1.csv").write_text("\n".join([heads, *lines, "MemSet,AI_VECTOR_CORE,9,,,,,"]) + "\n")

    write([1.0, 1.0])
    rows = read_rows(tmp_path, chip="ascend910b2")[:2]
    write([simulate(row.kernel).task_us + base / 2 for row in rows])
    out = tmp_path / "mine.yaml"
    fields = ["--field", "launch.core_start_us.AIV", "--field", "memory.hbm_gb_per_s"]
    assert calibrate.main([str(tmp_path), "--chip", "ascend910b2", "--out", str(out), "--jobs", "1", *fields]) == 0
    assert load_chip(out).launch.core_start_us["AIV"] == pytest.approx(1.5 * base, rel=0.05)
    assert load_chip(out).memory.hbm_gb_per_s == load_chip("ascend910b2").memory.hbm_gb_per_s
    said = capsys.readouterr().out
    assert "1 row of ascend910b2 MemSet skipped: the profiler does not record what a MemSet clears" in said
    assert "left out Cast" in said and "memory.hbm_gb_per_s" in said and "it changes none of these rows" in said
    again = of_chips(read_rows(tmp_path, chip="ascend910b2"), [str(out)])
    assert simulate(again[0].kernel).task_us == pytest.approx(again[0].duration_us, rel=0.05)


def test_wrong_calls_end_in_one_line(calibrate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = str(rows_file(tmp_path, 0))
    for arguments, message in (
        ([rows, "--chip", "ascend910b2", "--out", "mine.txt"], "--out mine.txt: give a file that ends in .yaml"),
        ([rows, "--chip", "ascend910b2", "--out", "none/mine.yaml"], "there is no folder none"),
        ([rows, "--chip", "ascend910b3", "--out", "mine.yaml"], "chip 'ascend910b3' has no measured rows"),
        ([rows, "--chip", "ascend999", "--out", "mine.yaml"], "'ascend999' is not a known chip"),
        ([rows, "--chip", "ascend910b2", "--out", "mine.yaml", "--field", "launch.hidden_us"], "0.0 in ascend910b2; factors"),
    ):
        assert calibrate.main(arguments) == 2
        said = capsys.readouterr().err
        assert message in said and len(said.strip().splitlines()) == 1
