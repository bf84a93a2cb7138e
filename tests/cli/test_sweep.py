"""`ascend-sim sweep` as a user meets it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sweep(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["sweep", "by_hand", "--jobs", "1", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_table_with_its_front_and_files() -> None:
    code, text, said = sweep(
        "--vary", "batch=1,2", "--vary", "grad_input.baseM=16,4096", "--pareto", "us,l1", "--table", "a.csv",
        "--heat-map", "heat.png", "--pareto-plot", "front.png",
    )  # fmt: skip
    assert code == 0, said
    assert "by_hand: 4 points" in text and "2 points ran, 2 were refused; the shortest is" in text
    assert "L0A: baseM" in text and "*" in text and "wrote a.csv, heat.png, front.png" in text
    assert "results are kept in sweep-by_hand" in said
    _, again, said = sweep("--vary", "batch=1,2", "--vary", "grad_input.baseM=16,4096", "--json")
    assert "4 results were there before" in said
    found = json.loads(again)
    assert (found["points"], found["refused"], found["fields"]) == (4, 2, ["batch", "grad_input.baseM"])
    assert len(Path("a.csv").read_text().splitlines()) == 5


def test_two_fields_together_and_one_point() -> None:
    code, text, said = sweep(
        "--vary", "chip.cores.aic,chip.cores.aiv=[24,48],[20,40]", "--columns", "us", "--heat-map", "a.png"
    )
    assert code == 2 and "--axes: chip.cores.aic with several values" in said  # the two are one axis
    code, text, said = sweep("--vary", "chip.cores.aic,chip.cores.aiv=[24,48],[20,40]", "--columns", "us")
    assert code == 0 and "2 points ran" in text and "chip.cores.aiv" in text and "layout" not in text
    code, text, said = sweep("--vary", "batch=1", "--vary", "chip.cores.aic,chip.cores.aiv=[24,48]")
    assert "by_hand: 1 point; L2 cold, code cold at the start\n" in text and "1 point ran: " in text and "longest" not in text
    assert "; 1 result was there before" in said


def test_a_sweep_without_a_point_that_runs_ends_in_2() -> None:
    code, text, said = sweep("--vary", "grad_input.baseM=4096,8192")
    assert code == 2 and "0 points ran, 2 were refused" in text and "results are kept in" in said
    assert sweep("--vary", "grad_input.baseM=16,4096")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing option '--vary'"),
        (["--vary", "batch"], "--vary 'batch': allowed is FIELD=VALUES"),
        (["--vary", "basem=16"], "--vary basem: no such field of a convolution_backward case; did you mean"),
        (["--vary", "batch=1", "--vary", "batch=2"], "--vary batch: given twice"),
        (["--vary", "batch=1", "--mode", "fast"], "mode 'fast': allowed are timing and full"),
        (["--vary", "batch=1", "--table", "a.xls"], "--table a.xls: give a file that ends in .csv or .parquet"),
        (["--vary", "batch=1", "--table", "no/a.csv"], "--table no/a.csv: there is no folder no"),
        (["--vary", "batch=1", "--heat-map", "a.pdf"], "--heat-map a.pdf: give a file that ends in .png"),
        (["--vary", "batch=1", "--axes", "batch"], "--axes batch: allowed are two different names"),
        (["--vary", "batch=1,2", "--heat-map", "a.png", "--axes", "batch,size"], "--axes: batch, size; a heat map has two"),
        (["--vary", "batch=1,2", "--heat-map", "a.png"], "--axes: batch with several values; a heat map has two"),
        (["--vary", "batch=1", "--columns", "us,nope"], "--columns nope: no such column; there are batch, status, reason, us"),
        (["--vary", "batch=1", "--of", "nope"], "--of nope: no such column"),
        (["--vary", "batch=1", "--pareto", "us,error"], "--pareto error: no such column"),
        (["--vary", "batch,size=1,2"], "--vary batch,size: 1 given; 2 fields that vary together"),
        (["--vary", "batch=1", "--pareto", "us"], "--pareto us: allowed are two different names"),
        (["--vary", "batch=1", "--out", "/dev/null"], "--out /dev/null: there is a file of that name"),
        (["--vary", "batch=1", "--scheduler", "here"], "scheduler 'here': allowed is tcp://HOST:PORT"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(arguments: list[str], words: str) -> None:
    if "--scheduler" in arguments and find_spec("distributed") is None:
        pytest.skip("without Dask no address is looked at")
    code, text, said = sweep(*arguments)
    assert code == 2 and text == ""
    assert words in said and said.count("\n") == 1
    assert not any(Path().glob("*.csv"))
