"""The wheel of this machine: one for every Python, with the compiled engine; and an install without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from tests.support.places import ROOT

COMMANDS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]["test-command"]


def wheel(folder: Path, **environment: str) -> Path:
    """Build the tree's wheel; what is built stays out of the tree."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "build", "out", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(tree)]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    (built,) = folder.glob("*.whl")
    return built


def output(folder: Path, built: Path, *arguments: str) -> str:
    """Return the output of the command `ascend-sim` of the unpacked wheel."""
    with ZipFile(built) as file:
        file.extractall(folder / "package")
    command = [sys.executable, "-P", "-m", "ascend_sim", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "package")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_checkout_runs_with_nothing_installed_but_the_dependencies(tmp_path: Path) -> None:
    """`-S` leaves out what an editable install adds to the search for modules; a package that is installed stays behind."""
    for name in ("ascend_sim", "ops", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    places = [one for one in sys.path if one.endswith("-packages")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "ASCEND_SIM_ENGINE": "simpy"}
    script = "import ascend_sim, ascend_sim.configs as c; print(ascend_sim.convolution.__module__, c.__file__)"
    for command, said in ((["-m", "ascend_sim", "cases"], "by_hand"), (["-c", script], f"ascend_sim.api {tmp_path}")):
        done = subprocess.run(
            [sys.executable, "-S", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 and said in done.stdout, done.stderr


def test_every_platform_of_the_workflow_runs_what_the_wheel_must_do() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8"))
    runners = workflow["jobs"]["wheel"]["strategy"]["matrix"]["runner"]
    assert {name.split("-")[0] for name in runners} == {"ubuntu", "macos"} and "ubuntu-24.04-arm" in runners
    assert [command.split()[0] for command in COMMANDS] == ["ascend-sim", "ascend-sim"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_one_wheel_serves_every_python(tmp_path: Path) -> None:
    built = wheel(tmp_path)
    assert "-cp311-abi3-" in built.name
    with ZipFile(built) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".so")]
        library = file.read(name)
    assert name == "ascend_sim/engine/compiled/_machine.abi3.so"
    assert b"machine_new" in library and b"Py_" not in library and b"libpython" not in library
    for command in COMMANDS:
        assert output(tmp_path, built, *command.split()[1:])
    assert output(tmp_path, built, "--version").strip().endswith("engine compiled")


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_built_and_simpy_serves(tmp_path: Path) -> None:
    built = wheel(tmp_path, CC="false")
    with ZipFile(built) as file:
        assert [name for name in file.namelist() if name.endswith(".so")] == []
    assert output(tmp_path, built, "--version").strip().endswith("engine simpy")
    assert "Total:" in output(tmp_path, built, "run", "document_example_2d", "--mode", "timing", "--full")
