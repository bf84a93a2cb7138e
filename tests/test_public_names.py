"""Public names of the package, its version, and results in a line."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ascend_sim
from ascend_sim.cli import app
from ascend_sim.cli.app import COMMANDS as ALL_COMMANDS
from ascend_sim.ops.case import case_names, load_case, make_tensors
from ascend_sim.ops.network import load_network, network_names
from ascend_sim.report.run_files import write_run
from tests.support.sources import parsed

pytestmark = pytest.mark.fast


def test_dir_lists_what_can_be_used() -> None:
    names = dir(ascend_sim)
    assert set(ascend_sim.__all__) <= set(names) and "_modules" not in names
    assert all(hasattr(ascend_sim, name) for name in names)


def test_a_result_is_a_line(tmp_path: Path) -> None:
    spec = ascend_sim.TensorSpec((1, 16, 4, 4), "float16")
    result = ascend_sim.convolution_backward(
        spec, spec, ascend_sim.TensorSpec((16, 16, 1, 1), "float16"), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1,
        (True, False, False), mode="timing",
    )  # fmt: skip
    for one in (result, result.report):
        assert len(repr(one)) < 200 and "ascend910b3" in repr(one) and f"{result.report.total_us:,.2f} us" in repr(one)
    assert repr(result.recording).startswith("<Recording on ascend910b3: 5 kernels") and len(repr(result.recording)) < 100
    timeline, call = result.timeline, result.call
    assert timeline is not None and call is not None and result.recording is not None
    write_run(tmp_path, result.report, result.recording, "gradients", {})
    program, allocation = timeline.programs[0], result.tasks[0].tensors[0]
    told = {
        "<Timeline of 5 kernels: ": timeline, "<ConvolutionCall of convolution_backward, ": call,
        f"<Task {timeline.tasks[0].task.name}: ": result.tasks[0], "<TaskRun of ": timeline.tasks[0],
        "<ProgramRun of task 0, block 0 ": program, "<Program of block 0 ": program.program,
        f"<Allocation {allocation.name}: {allocation.size:,} bytes": allocation,
        "<StoredRun of convolution_backward on ascend910b3: 5 kernels": ascend_sim.open_run(str(tmp_path)),
        "<ChipSpec ascend910b3: ": ascend_sim.load_chip("ascend910b3"),
        "<Case of convolution_backward on ": load_case("strided"),
        "<CheckResult 0: accepted, ": ascend_sim.explain_status("strided")[0],
        "<Network resnet18: 20 layers": load_network("resnet18"),
    }  # fmt: skip
    for begin, one in told.items():
        assert repr(one).startswith(begin) and len(repr(one)) < 200 and "\n" not in repr(one)
    assert repr(ascend_sim.explain_status("strided", cube_math_type=9)[0]).startswith("<CheckResult 161002: refused by ")


def test_help_cases_and_networks() -> None:
    run = CliRunner().invoke
    assert run(app, ["-h"]).output == run(app, ["--help"]).output and "cases" in run(app, ["-h"]).output
    assert [line.split()[0] for line in run(app, ["cases"]).output.splitlines()[1:]] == case_names()
    head, *networks = [line.split() for line in run(app, ["networks"]).output.splitlines()]
    assert head[:4] == ["network", "convolutions", "distinct", "batch"]
    assert ["resnet50", "53", "23", "64"] in [words[:4] for words in networks]
    assert list(dict.fromkeys(words[0] for words in networks if words[0] in network_names())) == network_names()


COMMANDS = {
    "run": "run_case", "kernel": "launch", "check": "check_kernel", "report": "open_run", "explain": "explain",
    "explain-status": "explain_status", "format": "explain_format", "chips": "load_chip", "cases": "case_names",
    "networks": "network_names", "init": "write_template", "precision": "precision", "run-network": "run_network",
    "validate": "validate", "tile": "search_tilings", "sweep": "sweep", "compare": "compare_runs", "c": "build_c",
}  # fmt: skip
"""Every command and its function; `compare-training` needs PyTorch and has its own door, `ascend_sim.torch`."""


def test_every_command_has_a_function_at_the_top_of_the_package() -> None:
    assert set(ALL_COMMANDS) - {"compare-training", "judge"} == set(COMMANDS)
    below = {path.stem for path in Path(ascend_sim.__file__).parent.iterdir()} | {"ops", "configs"}
    for name in COMMANDS.values():
        assert callable(getattr(ascend_sim, name)) and name in ascend_sim.__all__ and name not in below


def test_the_functions_do_what_the_commands_do(tmp_path: Path) -> None:
    result = ascend_sim.run_case("by_hand", mode="timing", chip="ascend910b4", block_dim={"grad_weight": 1})
    assert result.report.chip == "ascend910b4"
    written = json.loads(
        CliRunner()
        .invoke(app, "run by_hand --mode timing --chip ascend910b4 --block-dim grad_weight=1 --json".split())  # noqa: SIM905
        .stdout
    )
    assert written["total_us"] == result.report.total_us
    network = ascend_sim.run_network("vit_b_16", batch=1)
    assert network.network.name == "vit_b_16" and network.batch == 1
    (found,) = ascend_sim.search_tilings("by_hand", "grad_weight", limit=0, out=tmp_path)
    assert found.kernel.name == "grad_weight" and (tmp_path / "best.yaml").is_file()
    refused = ascend_sim.explain_status("by_hand", cube_math_type=9)
    said = CliRunner().invoke(app, "explain-status by_hand --cube-math-type 9".split()).stdout  # noqa: SIM905
    assert refused.result.status == 161002 and refused.result.failure.message[:14] in str(refused).splitlines()[0]
    assert [line.rstrip() for line in said.splitlines()[:-1]] == str(refused).splitlines()


def test_values_of_a_case(tmp_path: Path) -> None:
    """The case's own, arrays by name, or those of a file."""
    own = ascend_sim.run_case("by_hand", mode="functional")
    tensors = make_tensors(load_case("by_hand"))
    np.savez(tmp_path / "doubled.npz", **{name: array * np.float16(2) for name, array in tensors.items()})  # type: ignore[arg-type]
    given = ascend_sim.run_case("by_hand", {**tensors, "weight": tensors["weight"] * np.float16(2)}, mode="functional")
    stored = ascend_sim.run_case("by_hand", tmp_path / "doubled.npz", mode="functional")
    assert own.grad_bias is not None and stored.grad_bias is not None and given.grad_input is not None
    assert (stored.grad_bias == 2 * own.grad_bias).all() and (given.grad_input == 2 * own.grad_input).all()


@pytest.mark.parametrize(
    ("name", "near"),
    [("tile", "search_tilings"), ("run", "run_case"), ("simulate", "ascend_sim.torch.simulate"), ("conv", "conv_tbc_backward")],
)
def test_a_name_that_is_not_there_leads_to_one_that_is(name: str, near: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean {near}"):
        getattr(ascend_sim, name)


def test_every_other_place_of_a_name_exists() -> None:
    for one in ascend_sim._ELSEWHERE.values():
        assert one in ascend_sim.__all__ or one.removeprefix("ascend_sim.torch.") in (
            Path(ascend_sim.__path__[0]) / "torch" / "__init__.py"
        ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "room", ["chip", "numerics", "runtime", "acl.contexts", "acl.copies", "acl.operators", "acl.streams", "acl.tensors"]
)
def test_type_checkers_and_editors_see_the_names_of_a_room(room: str) -> None:
    """They read `__all__` in the source: a computed one hides every name, and without one `mypy --strict` refuses them."""
    module = import_module(f"ascend_sim.{room}")
    (listed,) = (
        ast.literal_eval(one.value)
        for one in parsed(Path(str(module.__file__))).body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__"
    )
    assert all(hasattr(module, name) for name in listed) and len(set(listed)) == len(listed)
    own = {name for name, one in vars(module).items() if name.startswith("acl") and one.__module__ == module.__name__}
    assert own <= set(listed) and len(listed) > 1
