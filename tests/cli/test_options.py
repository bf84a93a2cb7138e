"""Commands get their options from descriptions: which, with which words, and as which values."""

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from ascend_sim.cli import app
from ascend_sim.cli import options as module
from ascend_sim.cli.app import COMMANDS
from ascend_sim.options import run_options
from ascend_sim.options.description import Option, Shell, described, options_in
from tests.support.cli.commands import run

pytestmark = pytest.mark.fast

PROGRAM: Any = get_command(app)
CONTEXT = typer.Context(PROGRAM)
DESCRIBED = {
    (command, one.name): one
    for name, kind in vars(run_options).items()
    if name.endswith("Options")
    for one in options_in(kind)
    if one.option.shell is not None
    for command in one.option.shell.commands
}


@pytest.mark.parametrize(("command", "name"), DESCRIBED, ids=[" --".join(both) for both in DESCRIBED])
def test_a_command_has_the_options_that_name_it(command: str, name: str) -> None:
    option = DESCRIBED[command, name].option
    params = {one.name: one for one in PROGRAM.get_command(CONTEXT, command).params}
    assert option.shell is not None
    assert params[name].opts[0] == f"--{(option.shell.name or name).replace('_', '-')}"
    assert params[name].help == option.shell.words
    assert not params[name].required


def test_every_command_is_asked() -> None:
    """Commands without any option of a run run nothing, or a run of before."""
    without = {
        "check",
        "report",
        "format",
        "chips",
        "cases",
        "networks",
        "init",
        "validate",
        "compare",
        "c",
        "judge",
        "tile",
        "sweep",
    }
    assert {command for command, _ in DESCRIBED} == set(COMMANDS) - without | {"tile", "sweep"}


@described
class TryOptions(TypedDict, total=False):
    """A description of each form."""

    shape: Annotated["str", Option("round", "a text", "A shape.", Shell(("try",), "Shape."), choices=("round", "square"))]
    most_turns: Annotated["int | None", Option(None, "", "Turns.", Shell(("try",), "Turns.", least=1))]
    loud: Annotated["bool", Option(False, "", "Loud.", Shell(("try",), "Loud."))]
    sure: Annotated["bool | None", Option(None, "", "Sure.", Shell(("try",), "Sure."))]
    share: Annotated["float", Option(0.0, "", "A share.", Shell(("try",), "Per cent.", 0, 100, read="parse_share"))]
    flags: Annotated["Any", Option((), "", "Flags.", Shell(("try",), "Flags.", many=True, name="flag"))]
    tiling: Annotated["Any", Option(None, "", "Fields.", Shell(("try",), "Fields.", read="parse_tiling"))]
    other: Annotated["int", Option(1, "", "Of another command.", Shell(("run",), "Other."))]
    python: Annotated["Any", Option(None, "", "Only in Python.")]


@dataclass(frozen=True)
class Shown:
    """A group of a command's own."""

    json_output: Annotated[bool, typer.Option("--json", help="JSON.")] = False
    top: Annotated[int, typer.Option(min=1, help="Rows.")] = 3


GOT: list[Any] = []


def attempt(first: Annotated[str, typer.Argument()], asked: TryOptions, shown: Shown, own: int = 0) -> None:
    """Try."""
    GOT.append((first, asked, shown, own))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    GOT.clear()
    alone = typer.Typer(add_completion=False)
    monkeypatch.setattr(module, "app", alone)
    assert module.command("try")(attempt) is not None
    return alone


@pytest.mark.parametrize(
    ("line", "asked", "shown", "own"),
    [
        ("x", {"shape": "round", "loud": False, "share": 0.0}, Shown(), 0),
        (
            "x --shape square --most-turns 2 --loud --no-sure --share 5 --flag a --flag b --own 4 --json --top 1",
            {"shape": "square", "most_turns": 2, "loud": True, "sure": False, "share": 0.05, "flags": ["a", "b"]},
            Shown(True, 1),
            4,
        ),
        (
            "x --tiling grad_input.baseM=16",
            {"shape": "round", "loud": False, "share": 0.0, "tiling": {"grad_input": {"baseM": 16}}},
            Shown(),
            0,
        ),
    ],
)
def test_texts_become_values(program: typer.Typer, line: str, asked: dict[str, Any], shown: Shown, own: int) -> None:
    """An option that is not given and has no default is left out; a dataclass gets its fields."""
    done = CliRunner().invoke(program, line.split())
    assert done.exit_code == 0, done.output
    assert [("x", asked, shown, own)] == GOT


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x --other 1", "No such option"),
        ("x --python 1", "No such option"),
        ("x --no-loud", "No such option"),
        ("x --most-turns 0", r"than or equal to 1 |x>=1\."),
        ("x --share 101", r"than or equal to 100 |x<=100\."),
        ("x --tiling baseM=16", "ascend-sim: --tiling 'baseM=16': allowed is KERNEL[.]FIELD=WHOLE NUMBER"),
    ],
)
def test_what_no_option_takes_is_refused(program: typer.Typer, line: str, said: str) -> None:
    done = CliRunner().invoke(program, line.split())
    assert done.exit_code == 2 and re.search(said, done.output) and not GOT


def test_an_error_of_reading_is_json_under_json(program: typer.Typer) -> None:
    done = CliRunner().invoke(program, ["x", "--json", "--tiling", " "])
    assert done.exit_code == 2
    assert done.stdout == '{"status": null, "error": "--tiling: nothing given; leave the option out to get its default"}\n'


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("run by_hand --mode f", {"full", "functional"}),
        ("run-network resnet18 --l2 ", {"cold", "warm", "step"}),
        ("explain by_hand --conformance d", {"documented"}),
        ("sweep strided --mode ", {"timing", "full"}),
    ],
)
def test_choices_are_completed(line: str, there: set[str]) -> None:
    words = f"ascend-sim {line}"
    asked = {"_ASCEND_SIM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    told = CliRunner().invoke(app, [], prog_name="ascend-sim", env=asked).stdout.split()
    assert set(told) == there


def test_help_shows_every_option() -> None:
    for command, name in DESCRIBED:
        if command == "run":
            assert f"--{name.replace('_', '-')}" in run("run", "--help").out


@pytest.mark.parametrize("command", ["run", "explain", "tile", "precision", "run-network"])
def test_help_loads_nothing_heavy(command: str) -> None:
    code = (
        "import sys\nfrom ascend_sim.cli import app\ntry: app()\nexcept SystemExit: pass\n"
        "print(*{'numpy', 'pydantic', 'ascend_sim.chip'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""
