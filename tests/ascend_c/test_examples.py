"""The kernels of docs/ascend-c: right on both products of dav-2201, and without findings."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.ascend_c.kernels import needs_compiler
from tests.support.places import DOCS
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
FOLDER = DOCS / "ascend-c"
NAMES = sorted(path.stem for path in FOLDER.glob("*.cpp"))


@pytest.fixture(scope="module", autouse=True)
def compiled_fast() -> None:
    """The examples are compiled as those of users are."""


@part_of_cases(6)
@pytest.mark.parametrize("chip", ("ascend910b3", "ascend910_9391"))
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_right(name: str, chip: str) -> None:
    done = CliRunner().invoke(app, ["kernel", str(FOLDER / f"{name}.cpp"), "--chip", chip, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert all(one["correct"] for one in report["outputs"].values()) and report["outputs"]


@part_of_cases(4)
@pytest.mark.parametrize("name", NAMES)
def test_check_finds_nothing(name: str) -> None:
    done = CliRunner().invoke(app, ["check", str(FOLDER / f"{name}.cpp"), "--json"])
    assert done.exit_code == 0, done.output
    assert not json.loads(done.stdout)["findings"]


def test_each_example_has_its_arguments_beside_it() -> None:
    assert len(NAMES) >= 8 and all((FOLDER / f"{name}.py").is_file() for name in NAMES)
