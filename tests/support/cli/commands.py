"""Commands run in this process, and a small case for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from typer.testing import CliRunner

from ascend_sim import cli

SMALL: dict[str, Any] = {
    "operator": "convolution_backward",
    "chip": "ascend910b3",
    "input": {"shape": [1, 16, 6, 6], "dtype": "float16"},
    "weight": {"shape": [16, 16, 3, 3]},
    "padding": [1, 1],
}


@dataclass
class Ran:
    code: int
    out: str
    err: str


def run(*arguments: object) -> Ran:
    """One command in this process; anything but an ordered exit is a failure."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


UNUSED_BY_A_RUN = (
    "fractions", "statistics", "html", "threadpoolctl", "ascend_sim.cli.verdict",
    "ascend_sim.engine.core", "ascend_sim.engine.critical_path", "ascend_sim.engine.deadlock", "ascend_sim.engine.functional",
    "ascend_sim.numerics.reference", "ascend_sim.ops.checks", "ascend_sim.options.commands", "ascend_sim.report.advice",
    "ascend_sim.report.html", "ascend_sim.report.waterfall", "ascend_sim.report.words", "ascend_sim.runtime.outlook",
)  # fmt: skip
"""Modules that a vector kernel of one's own does without."""


def loaded(arguments: list[str], unused: Iterable[str]) -> list[str]:
    """Return those modules of `unused` that a command imports, which must end well."""
    code = f"""
import sys
from ascend_sim.cli import main
sys.argv = ["ascend-sim", *{arguments}]
try:
    main()
except SystemExit as end:
    print("loaded:", end.code, *sorted({set(unused)} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    begin, status, *found = done.stdout.splitlines()[-1].split()
    assert (begin, status) == ("loaded:", "0")
    return found


def write_case(folder: Path, name: str = "case.yaml", **changes: Any) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(SMALL | changes), encoding="utf-8")
    return path


def save(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's own annotation takes any name for `allow_pickle`


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(*arguments: object) -> str:
    """The one line that tells the user what is wrong."""
    ran = run(*arguments)
    assert ran.code == 2 and ran.out == ""
    assert ran.err.endswith("\n") and ran.err.count("\n") == 1 and ran.err.startswith("ascend-sim: ")
    return ran.err
