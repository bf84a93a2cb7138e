"""Measured rows against simulated kernels: reading, what is run, the figures, the outputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.errors import ConfigError
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.rows import of_chips, read_rows
from ascend_sim.studies.validate.run import Prediction, compare, simulate


def test_a_chip_file_takes_the_rows_of_the_chip_that_it_extends(rows_file: Path, tmp_path: Path) -> None:
    slow = tmp_path / "Slow.yaml"
    clock = "clock: {cube_mhz: {value: 900, unit: MHz, source: 'assumed: a test'}}"
    slow.write_text(f"extends: ascend910b2\n{clock}\n")
    rows = read_rows(rows_file)
    again = of_chips(rows, [str(slow)])
    assert [row.kernel.chip for row in again] == [str(slow)] * 2
    assert simulate(again[0].kernel).pipes["mac"] > 1.9 * simulate(rows[0].kernel).pipes["mac"]
    with pytest.raises(ConfigError, match="no such file"):
        of_chips(rows, [str(tmp_path / "none.yaml")])


def test_equal_kernels_run_once(rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ascend_sim.studies.validate import run as validate

    rows = read_rows(rows_file) * 3
    ran: list[MeasuredKernel] = []

    def counted(kernel: MeasuredKernel) -> Prediction:
        ran.append(kernel)
        return simulate(kernel)

    monkeypatch.setattr(validate, "simulate", counted)
    assert len(compare(rows)) == 6
    assert len(ran) == 2


def test_cold_l2_is_slower(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("chip,op_type,N,Ci,Hi,Wi,dtype,duration_us\nascend910b2,ReduceSum,32,256,169,1,fp32,19\n")
    warm, cold = (simulate(read_rows(path, l2)[0].kernel) for l2 in ("warm", "cold"))
    assert cold.pipes["mte2"] > warm.pipes["mte2"]


def test_a_repeated_kernel_finds_what_it_left(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    size = "ascend910b4,BatchMatMul,fp32,96,128,512"  # of two such products one fits the L2, the other does not
    path.write_text(
        "chip,op_type,dtype,batch,M,N,K,l2,duration_us\n"
        + "".join(f"{size},{k},{l2},1\n" for k in (64, 512) for l2 in ("repeated", "warm", "cold"))
    )
    rows = read_rows(path)
    assert [row.kernel.launches for row in rows[:3]] == ["warm", "cold", "cold"]
    times = [simulate(row.kernel).task_us for row in rows]
    assert times[0] < 1.01 * times[1] < times[2]
    assert times[3] > 1.1 * times[5] > 1.1 * times[4]  # nothing is left of the inputs, but dirty lines of the result


def test_plot_says_what_is_missing_before_the_run(rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--plot", "a.png"])
    assert result.exit_code == 2
    assert "pip install matplotlib" in result.stderr
    wrong = CliRunner().invoke(app, ["validate", "--rows", str(rows_file), "--plot", "a.jpg"])
    assert wrong.exit_code == 2 and ".png" in wrong.stderr


def test_rows_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: no such file"):
        read_rows(tmp_path / "none.csv", "warm")
