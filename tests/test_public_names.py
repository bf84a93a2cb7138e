"""What the package shows of itself: names, version, and results in a line."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

import ascend_sim
from ascend_sim.cli import app
from ascend_sim.ops.case import case_names
from ascend_sim.studies.network.file import network_names

pytestmark = pytest.mark.fast


def test_dir_lists_what_can_be_used() -> None:
    names = dir(ascend_sim)
    assert set(ascend_sim.__all__) <= set(names) and "_HOME" not in names
    assert all(hasattr(ascend_sim, name) for name in names)
    assert ascend_sim.__version__ == version("ascend-sim")


def test_a_result_is_a_line() -> None:
    spec = ascend_sim.TensorSpec((1, 16, 4, 4), "float16")
    result = ascend_sim.convolution_backward(
        spec, spec, ascend_sim.TensorSpec((16, 16, 1, 1), "float16"), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1,
        (True, False, False), mode="timing",
    )  # fmt: skip
    for one in (result, result.report):
        assert len(repr(one)) < 200 and "ascend910b3" in repr(one) and f"{result.report.total_us:,.2f} us" in str(one)


def test_help_cases_and_networks() -> None:
    run = CliRunner().invoke
    assert run(app, ["-h"]).output == run(app, ["--help"]).output and "cases" in run(app, ["-h"]).output
    assert [line.split()[0] for line in run(app, ["cases"]).output.splitlines()] == case_names()
    networks = run(app, ["networks"]).output.splitlines()
    assert "resnet50  53 convolutions, 23 of them distinct" in networks and len(networks) == len(network_names())
