"""Which engine runs, and who says so."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim import built as built_module
from ascend_sim.cli import app
from ascend_sim.engine import choice
from ascend_sim.engine.choice import VARIABLE, chosen_engine
from ascend_sim.engine.compiled import library, values
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.hazards import HAZARD
from ascend_sim.engine.totals import TOTALS
from ascend_sim.errors import SimError
from ascend_sim.kernel.stamp import LAID
from ascend_sim.kernel.touches import TOUCH
from tests.support.engine.machine import CHIP, quiet, scalar_task
from tests.support.sampling import part_of_cases


@pytest.fixture(params=[True, False], ids=["built", "not built"])
def built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(choice, "built_file", lambda: Path("_machine.so") if request.param else None)
    choice._say_that_it_is_slow.cache_clear()
    return request.param


@pytest.mark.filterwarnings("ignore:ascend-sim was installed without")
def test_auto_is_what_was_built(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    best = "compiled" if built else "simpy"
    assert chosen_engine() == chosen_engine("auto") == best
    monkeypatch.setenv(VARIABLE, "auto")
    assert chosen_engine() == best


def test_an_argument_is_stronger_than_the_environment(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "simpy")
    assert chosen_engine() == chosen_engine("auto") == chosen_engine("simpy") == "simpy"
    if built:
        assert chosen_engine("compiled") == "compiled"


def test_an_engine_that_is_not_there(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimError, match=r"^engine 'fast': allowed are auto, simpy, compiled$"):
        chosen_engine("fast")
    with pytest.raises(SimError, match=r"^engine '': allowed are auto, simpy, compiled$"):
        chosen_engine("")
    monkeypatch.setenv(VARIABLE, "quick")
    with pytest.raises(SimError, match=r"^ASCEND_SIM_ENGINE 'quick': allowed are auto, simpy, compiled$"):
        Engine(Device(CHIP))
    if not built:
        with pytest.raises(SimError, match="engine 'compiled': it was not built when ascend-sim was installed"):
            chosen_engine("compiled")


def test_without_a_compiler_one_line_says_so_once(built: bool) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            chosen_engine("simpy")
            chosen_engine()
    assert [str(one.message).split(":")[0] for one in said] == ["ascend-sim was installed without a C compiler"] * (not built)


def test_a_library_without_a_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    built = library.load() is not None
    monkeypatch.setitem(library._FUNCTIONS, "machine_sings", (None, []))
    if built:
        with pytest.raises(SimError, match=r"built from older sources \(it lacks machine_sings\)"):
            library.load.__wrapped__()


def test_the_sizes_that_are_compared_are_those_of_python() -> None:
    structures = [
        library.ProgramStruct,
        library.EventStruct,
        library.CoreNumbers,
        library.GmNumbers,
        values._Values,
        values._Events,
    ]
    records = {
        "Way": library.WAY, "Instruction": library.INSTRUCTION, "Touch": TOUCH, "Totals": TOTALS,
        "Hazard": HAZARD, "Action": values._ACTION,
    }  # fmt: skip
    found = {one.__name__.lstrip("_").removesuffix("Struct"): ctypes.sizeof(one) for one in structures} | {"Stamp": 8 * LAID}
    assert found | {name: kind.itemsize for name, kind in records.items()} | {"Stamp": 8 * LAID} == built_module.SIZES


@pytest.mark.parametrize("content", [b"", b"no library", b"\x7fELF" + bytes(60)], ids=["empty", "a text", "a head alone"])
def test_a_broken_library_is_one_line(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "_machine.abi3.so"
    broken.write_bytes(content)
    monkeypatch.setattr(library, "built_file", lambda: broken)
    words = r"_machine.abi3.so cannot be loaded \(.*\): install the package again"
    with pytest.raises(SimError, match=words):
        library.load.__wrapped__()
    monkeypatch.setattr(choice, "built_file", lambda: broken)
    monkeypatch.setenv(VARIABLE, "auto")  # the command line sets it, and what it was comes back
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 2 and re.search(words, shown.output), shown.output
    assert CliRunner().invoke(app, ["--engine", "simpy", "--version"]).output.endswith(", engine simpy\n")


@part_of_cases(3)
@pytest.mark.parametrize("mode", ["timing", "full", "functional"])
def test_simpy_runs_beside_a_broken_library(mode: str, tmp_path: Path) -> None:
    """In a process that has loaded none before."""
    broken = tmp_path / "_machine.abi3.so"
    broken.write_bytes(b"no library")
    run = f"""
import ascend_sim.built as built
from pathlib import Path
built.built_file = lambda: Path({str(broken)!r})
from ascend_sim.cli import main
import sys
sys.argv = ["ascend-sim", "--engine", "simpy", "run", "document_example_2d", "--mode", {mode!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "document_example_2d" in done.stdout, done.stderr


def test_the_engine_knows_its_name() -> None:
    runner = Engine(Device(quiet(CHIP), with_values=False), engine="simpy")
    assert runner.engine == "simpy"
    assert runner.run([scalar_task(CHIP, "AIV", [100])]).finish == 105


NOT_BUILT = """
from ascend_sim.engine import choice
choice.built_file = lambda: None
"""
TWO_LAYERS = """
name: two
batch: 1
defaults: {dtype: float16, bias: false}
layers:
  - {name: one, input: [1, 16, 8, 8], weight: [16, 16, 3, 3], padding: 1}
  - {name: two, input: [1, 16, 8, 8], weight: [16, 16, 1, 1]}
"""


def test_workers_leave_the_warning_to_the_command(tmp_path: Path) -> None:
    """Python reads sitecustomize.py in every process before anything else."""
    (tmp_path / "network.yaml").write_text(TWO_LAYERS)
    (tmp_path / "sitecustomize.py").write_text(NOT_BUILT)
    environment = {name: value for name, value in os.environ.items() if name != "ASCEND_SIM_ENGINE"}
    command = [sys.executable, "-m", "ascend_sim", "run-network", "network.yaml", "--jobs", "2"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, check=True, env=environment | {"PYTHONPATH": str(tmp_path)}
    )
    (told,) = [line for line in done.stderr.splitlines() if "without a C compiler" in line]
    assert told.startswith("ascend-sim: warning: "), done.stderr
