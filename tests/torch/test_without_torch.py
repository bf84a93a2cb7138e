"""Without PyTorch the package works, and the room that needs it says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.fast

WITHOUT = "import sys; sys.modules['torch'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)


def test_the_package_and_its_commands_are_imported_without_it() -> None:
    done = run("import ascend_sim, ascend_sim.api, ascend_sim.cli, ascend_sim.acl; print(ascend_sim.convolution.__name__)")
    assert done.stdout == "convolution\n", done.stderr


def test_the_room_says_what_to_install() -> None:
    done = run("import ascend_sim.torch")
    assert (
        done.stderr.splitlines()[-1] == "ImportError: ascend_sim.torch needs PyTorch: "
        "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
