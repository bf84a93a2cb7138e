"""The program around the commands: help, start, version, warnings and the choice of an engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_sim.cli import app
from ascend_sim.cli.app import COMMANDS
from ascend_sim.engine import engine
from tests.support.cli.commands import UNUSED_BY_A_RUN, loaded, names, run
from tests.support.places import DOCS


@pytest.mark.parametrize("command", [[], ["run"], ["chips"]])
def test_help_has_an_example(command: list[str]) -> None:
    ran = run(*command, "--help")
    assert ran.code == 0 and "ascend-sim" in ran.out and "Example" in ran.out


def program(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ascend_sim", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_as_a_program(case: Path, tmp_path: Path) -> None:
    fine = program("run", "document_example_2d", "--json", folder=tmp_path)
    assert fine.returncode == 0 and fine.stderr == "" and json.loads(fine.stdout)["status"] == 0
    wrong = program("run", case, "--mode", "fast", folder=tmp_path)
    assert wrong.returncode == 2 and wrong.stdout == ""
    assert wrong.stderr == "ascend-sim: --mode fast: allowed are full, functional, timing\n"
    assert names(tmp_path) == ["case.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--blocks", "many"], "--blocks is 'many'; allowed is a whole number from 1"),
        (["--blocks", "0"], "--blocks is 0; allowed is a whole number from 1"),
        (["--seed", "-3"], "--seed is -3; allowed is a whole number from 0"),
    ],
)
def test_a_wrong_number_is_told_with_what_is_allowed(arguments: list[str], said: str) -> None:
    ran = run("kernel", "mine.py", *arguments)
    assert ran.code == 2 and f"ascend-sim: {said}; " in ran.err
    assert "--within is 200.0; allowed is a number from 0 to 100;" in run("tile", "by_hand", "--within", "200").err


@pytest.mark.fast
def test_help_groups_commands_and_shows_the_usual_options_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = run("--help").out
    heads = [line.split()[1] for line in text.splitlines() if line.startswith("╭─")]
    assert heads == ["Options", "Run", "Understand", "Optimise", "Numerics", "Reference"]
    optimise = text.split("─ Optimise ─")[1].split("╰")[0]
    assert [line.split()[1] for line in optimise.splitlines()[1:] if line[2] != " "] == ["tile", "sweep"]
    usual, advanced = run("run", "--help").out.split("─ Options ─")[1].split("─ Advanced ─")
    assert 9 <= usual.count("│ --") - 1 <= 10  # beside --help
    assert "--tiling" in usual and "--help" in usual and "--probe" in advanced and "--tiling" not in advanced


@pytest.mark.fast
def test_a_command_is_a_module() -> None:
    """The command `run-network` stands in `cli/run_network.py`, and no other command with it."""
    assert run("--help").code == 0  # which imports them all
    assert len(app.registered_commands) == len(COMMANDS)
    for command in app.registered_commands:
        callback = command.callback
        assert callback is not None
        name = command.name or callback.__name__
        assert callback.__module__ == f"ascend_sim.cli.{name.replace('-', '_')}"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["chips"], {"numpy", "simpy", "ml_dtypes", "ascend_sim.engine", "ascend_sim.isa", "ascend_sim.report.html"}),
        (["--version"], {"numpy", "pydantic", "rich", "simpy", "ml_dtypes", "yaml", "ascend_sim.cli.run"}),
        (
            ["run", "document_example_2d", "--mode", "timing", "--json"],
            {"rich", "ascend_sim.check", "ascend_sim.ops.verdicts", "ascend_sim.studies", "ascend_sim.cli.tile"},
        ),
        (["run", "document_example_2d", "--mode", "timing"], {"rich", "ascend_sim.check", "ascend_sim.report.text"}),
        (
            ["kernel", str(DOCS / "kernels" / "softmax.py")],
            {
                *UNUSED_BY_A_RUN,
                "rich",
                "ascend_sim.calls",
                "ascend_sim.ops.operator",
                "ascend_sim.ops.checks.product",
                "ascend_sim.studies",
            },
        ),
    ],
)
def test_a_command_imports_what_it_uses(arguments: list[str], unused: set[str]) -> None:
    """A start is mostly imports: what costs the most is not loaded for commands that do without."""
    assert loaded(arguments, unused) == []


def test_the_version_names_the_engine_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "simpy")
    assert run("--version").out.endswith(", engine simpy\n")
    assert run("--engine", "simpy", "--version").out.startswith("ascend-sim 0.")
    bad = run("--engine", "fast", "chips")
    assert (bad.code, bad.out, bad.err) == (2, "", "ascend-sim: engine 'fast': allowed are auto, simpy, compiled\n")
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "quick")
    assert "ASCEND_SIM_ENGINE 'quick': allowed are auto, simpy, compiled" in run("--version").err


def test_a_warning_is_one_line() -> None:
    code = """
import os, sys
from ascend_sim.cli import main
from ascend_sim.engine import choice
os.environ.pop("ASCEND_SIM_ENGINE", None)
choice.built_file = lambda: None
sys.argv = ["ascend-sim", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    assert line.startswith("ascend-sim: warning: ascend-sim was installed without a C compiler: ")


def test_an_engine_for_the_whole_command(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    new = engine.new_machine
    monkeypatch.setattr(engine, "new_machine", lambda name, *given: used.append(name) or new(name, *given))
    monkeypatch.setenv("ASCEND_SIM_ENGINE", "auto")  # taken back after the test
    assert run("--engine", "simpy", "run", case, "--mode", "timing").code == 0
    assert set(used) == {"simpy"}
