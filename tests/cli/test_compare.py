"""`ascend-sim compare` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app

pytestmark = pytest.mark.fast


def invoke(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run in full mode, so that it has verdicts."""
    folder = tmp_path_factory.mktemp("runs") / "out"
    code, _, said = invoke("run", "strided", "--block-dim", "grad_input=3", "--out", str(folder))
    assert code == 0, said
    return str(folder)


def test_what_it_prints_and_its_json_agree(out: str) -> None:
    code, text, _ = invoke("compare", "strided", out, "--all")
    assert code == 0 and "B  " + out in text.replace("\n", "")
    code, printed, _ = invoke("compare", "strided", out, "--json")
    told = json.loads(printed)
    assert code == 0 and not told["same"] and [run["kind"] for run in told["runs"]] == ["case", "folder"]
    kernel = next(kernel for kernel in told["kernels"] if kernel["name"] == "grad_input")
    cycles = next(fact for fact in kernel["kernel"] if fact["name"] == "cycles")
    assert sum(part["differences"][1] for part in kernel["waterfall"]) == cycles["differences"][1] != 0
    row = ["*", "cycles", *(f"{value:,}" for value in cycles["values"]), f"{cycles['differences'][1]:+,}"]
    assert row in [line.split()[:5] for line in text.splitlines()]
    grad_input = next(fact for fact in told["outputs"] if fact["name"] == "grad_input")
    assert grad_input["values"] == [None, "correct"] and not grad_input["differs"]


def test_a_page_is_written(out: str, tmp_path: Path) -> None:
    code, text, _ = invoke("compare", out, out, "--html", str(tmp_path / "page.html"))
    assert code == 0 and "No difference" in text and f"wrote {tmp_path / 'page.html'}" in text.replace("\n", "")
    assert (tmp_path / "page.html").stat().st_size > 1_000_000, "with Plotly inside"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("{out}",),
        ("{out}", "nowhere"),
        ("{out}", "ascend910a"),
        ("{out}", "{out}", "--kernel", "nothing"),
        ("{out}", "{out}", "--html", "nofolder/page.html"),
    ],
)
def test_bad_input_ends_in_one_line(arguments: tuple[str, ...], out: str) -> None:
    given = [argument.format(out=out) for argument in arguments]
    code, text, said = invoke("compare", *given)
    assert (code, text) == (2, "") and said.startswith("ascend-sim: ") and said.count("\n") == 1
    code, text, said = invoke("compare", *given, "--json")
    assert (code, said) == (2, "") and json.loads(text)["status"] is None
