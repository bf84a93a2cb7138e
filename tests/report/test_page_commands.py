"""`run --html` and `report OUT`: what they write and print, and one line for what a user can do wrong."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ascend_sim import cli


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `run --out`, with the page of the run beside it."""
    out = tmp_path_factory.mktemp("run") / "out"
    code, said, _ = run("run", "document_example_2d", "--mode", "timing", "--out", out, "--html", out / "now.html", "--full")
    assert code == 0
    assert "What would move it most is" in said and str(out / "now.html") in said
    return out


def test_an_earlier_run_gives_the_page_that_the_run_gave(written: Path) -> None:
    code, said, _ = run("report", written)
    lines = said.splitlines()
    assert code == 0 and lines[-2:] == ["more: --full", f"wrote {written / 'report.html'}"]
    assert lines[0].startswith("convolution_backward  document_example_2d  ascend910b3") and len(lines) <= 16
    assert (written / "report.html").read_bytes() == (written / "now.html").read_bytes()


def test_without_other_rates(written: Path, tmp_path: Path) -> None:
    code, said, _ = run("report", written, "--html", tmp_path / "short.html", "--no-what-if", "--full")
    assert code == 0 and "critical path" in said and "What would move" not in said
    assert 'id="what-if"' not in (tmp_path / "short.html").read_text(encoding="utf-8")


def test_a_later_run_takes_an_old_page_away(written: Path, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    assert run("run", "document_example_2d", "--mode", "timing", "--out", tmp_path)[0] == 0
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["report", "nowhere"], "no such folder"),
        (["report", "{empty}"], "no report.json"),
        (["report", "{out}", "--html", "{empty}"], "is a folder"),
        (["report", "{out}", "--html", "{empty}/deep/a.html"], "there is no folder"),
        (["run", "document_example_2d", "--mode", "functional", "--html", "{empty}/a.html"], "a mode with time"),
        (["run", "document_example_2d", "--html", "{empty}"], "is a folder"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], told: str, written: Path, tmp_path: Path) -> None:
    code, said, error = run(*(one.format(empty=tmp_path, out=written) for one in arguments))
    assert code == 2 and said == "" and len(error.splitlines()) == 1 and told in error
    assert list(tmp_path.iterdir()) == []


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("plotly"):
            raise ImportError(name)
        return imported(name, *rest)

    imported = importlib.import_module
    monkeypatch.setattr("ascend_sim.report.skeleton.import_module", missing)
    code, _, error = run("run", "document_example_2d", "--html", tmp_path / "a.html")
    assert code == 2 and "pip install plotly" in error
