"""An architecture's tiling procedure is a file in a kernel's room and a line of configs/tilings.yaml."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.cube import vendor
from ascend_sim.ops.kernels.cube.vendor import Procedure, procedure_named
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from tests.support.ops.tiling_problems import RESNET, on_910b

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("kernel", ["grad_input", "grad_weight"])
def test_every_line_finds_its_file(kernel: str) -> None:
    named = [rows[kernel]["procedure"] for rows in vendor.open_procedures().values() if kernel in rows]
    assert named
    for name in named:
        assert isinstance(procedure_named(kernel, name), Procedure)


@pytest.mark.parametrize(("kernel", "ask"), [("grad_input", GradInputQuestion), ("grad_weight", GradWeightQuestion)])
def test_a_new_one_is_a_file_and_a_line(kernel: str, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chip, inp = load_chip("ascend910b3"), on_910b(RESNET, deterministic=True)
    before = ask(inp, chip=chip).tiling()
    own = before.but(base_m=before.base_m - 16, source="vendor procedure")
    file = ModuleType("thrown_away")
    file.PROCEDURE = Procedure(lambda inp: True, lambda question: own)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"ascend_sim.ops.kernels.{kernel}.procedures.thrown_away", file)
    lines = {"dav-2201": {kernel: {"procedure": "thrown_away", "mark": "stated", "source": "this test"}}}
    monkeypatch.setattr(vendor, "open_procedures", lambda: lines)
    assert ask(inp, chip=chip).tiling() == own != before
