"""A few small runs through the faces, as users make them, in which every room of the house does its part."""

from __future__ import annotations

import ast
import runpy
import sys
from cProfile import Profile
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

import numpy as np
import pytest
from typer.testing import CliRunner

import ascend_sim
from ascend_sim import acl
from ascend_sim.acl import state
from ascend_sim.cli import app
from tests.support.acl.programs import aclnnConvolutionBackwardTest, main
from tests.support.places import DOCS
from tests.support.rooms import DOORS, LEVEL, MODULES, room
from tests.support.sources import nodes, parsed

pytestmark = pytest.mark.fast

COMMANDS = (
    "run by_hand --chip ascend910a --out out",
    "run transposed_2d --mode timing --chip ascend950pr_9589",
    "run document_example_2d --mode functional",
    "run document_example_tbc",
    "run forward_2d --mode timing",
    "run by_hand --mode timing --tiling grad_input.baseM=16",
    "explain by_hand",
    "explain-status by_hand",
    "format hifloat8 --value 0.1",
    "cases",
    "networks",
    "precision by_hand",
    "run-network network.yaml --batch 1 --jobs 1",
    "validate --rows rows.csv --jobs 1",
    "compare by_hand out",
    "tile by_hand --kernel grad_input --limit 0 --jobs 1",
    "sweep by_hand --vary batch=1 --jobs 1",
    "kernel vector_add.py",
    "check vector_add.py",
)
PYTORCH = find_spec("torch") is not None
FILES = {
    "network.yaml": "layers:\n  - {name: only, input: {shape: [1, 16, 4, 4], dtype: float16}, weight: [16, 16, 1, 1]}\n",
    "rows.csv": "chip,op_type,M,N,K,dtype,duration_us\nascend910b2,MatMul,32,32,32,fp16,3\n",
    "vector_add.py": (DOCS / "kernels" / "vector_add.py").read_text(encoding="utf-8"),
}


def called_files(walk: Profile) -> set[str]:
    """The source files in which some function was called; to be imported is no part in a run."""
    codes = [one.code for one in walk.getstats() if isinstance(one.code, CodeType)]
    return {code.co_filename for code in codes if code.co_name != "<module>"}


def python(walk: Profile) -> None:
    """The call, a refused one, the C names, and the package as a program."""
    ones = np.ones((1, 16, 4, 4), np.float16), np.ones((1, 16, 4, 4), np.float16), np.ones((16, 16, 3, 3), np.float16)
    attributes = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, False))
    state.PROCESS.__init__()  # type: ignore[misc]
    with walk:
        ascend_sim.use(chip="ascend910b3")
        assert ascend_sim.convolution_backward(*ones, *attributes).report.passed
        with pytest.raises(ascend_sim.SimError, match="no such file"):
            ascend_sim.cpp_kernel("missing.cpp")
        with pytest.raises(ascend_sim.AclnnError):
            ascend_sim.convolution_backward(*ones, *attributes, cube_math_type=7)
        main(aclnnConvolutionBackwardTest, acl.ACL_FORMAT_NCHW)
    state.PROCESS.__init__()  # type: ignore[misc]


def pytorch(walk: Profile) -> None:
    """A model's step, where there is PyTorch."""
    import ascend_sim.torch

    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    with walk, ascend_sim.torch.simulate() as sim:
        model(torch.ones(1, 2, 2, 2)).sum().backward()
        assert sim.report.totals["total"] > 0


def has_functions(path: Path) -> bool:
    return any(isinstance(node, ast.FunctionDef) for node in nodes(parsed(path)))


def place(module: str) -> str:
    """The room of a module, and of the studies which one."""
    name = room(module)
    return ".".join(module.split(".")[:2]) if name == "studies" else name


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Rooms in which a function ran."""
    monkeypatch.chdir(tmp_path)
    for name in ("ASCEND_SIM_CHIP", "ASCEND_SIM_CONFORMANCE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    walk = Profile(subcalls=False, builtins=False)
    python(walk)
    if PYTORCH:
        pytorch(walk)
    for command in COMMANDS:
        with walk:
            done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 0, (command, done.output, done.exception)
    monkeypatch.setattr(sys, "argv", ["ascend-sim", "chips", "ascend910b3"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("ascend_sim", run_name="__main__")
    assert not ended.value.code
    files = called_files(walk)
    return {place(module) for module, path in MODULES.items() if str(path) in files}


def test_every_room_does_its_part(at_work: set[str]) -> None:
    rooms = {place(module) for module, path in MODULES.items() if module not in DOORS and has_functions(path)}
    # What `frozen` writes and `shipped` reads happens once in a process, for whichever test asks first.
    assert rooms - at_work - {"frozen", "shipped"} == (set() if PYTORCH else {"torch"})
    # The studies are told apart above, a table of codes and a record have no function, and what has none in `__main__` ran.
    assert set(LEVEL) - rooms == {"studies", "ops.status", "__main__"}
