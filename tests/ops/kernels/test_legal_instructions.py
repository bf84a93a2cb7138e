"""Instructions of our own kernels that no chip can be told: none, over random calls and the layers of real networks."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from ascend_sim import AclnnError, SimError
from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.engine.task import Task
from ascend_sim.isa.forms import form_of
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.execute import tasks_without_values
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.operators import OPERATORS
from tests.support.ops.network_layers import LAYERS
from tests.support.places import TOOLS
from tests.support.sampling import as_part, part_of_cases, sample

PARTS = 4
"""Tests that the calls are spread over: one for each family of chips."""
FIRST = 1000
"""The first call: those before are frozen (tests/golden)."""
CHIPS = {"ascend910a": ("float16",), "ascend310p3": ("float16",), "ascend910b3": ("float16", "float32")}
CHIPS |= {"ascend950pr_9589": ("float16", "bfloat16", "float32")}


@pytest.fixture(scope="module")
def calls() -> ModuleType:
    """The random calls of tools/freeze_calls.py, of which there is no end."""
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOLS / "freeze_calls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["freeze_calls"] = module
    spec.loader.exec_module(module)
    return module


def violations(table: InstructionTable, op_type: str) -> Counter[tuple[str, str]]:
    """Distinct instructions that no form of the chip says, by architecture and kernel."""
    found: Counter[tuple[str, str]] = Counter()
    for instruction in table.instructions:
        try:
            form_of(instruction, table.chip)
        except SimError:
            found[table.chip.identity.arch, op_type] += 1
    return found


def tables_of_call(calls: ModuleType, index: int) -> Iterator[tuple[InstructionTable, str]] | None:
    """Every table of a call with its kernel, or None of one that is refused."""
    call: dict[str, Any] = calls.make_call(index)
    call["options"] |= {"timeline": True}
    try:
        timeline = calls.run(call, "timing").timeline
    except AclnnError:
        return None
    except SimError as error:
        assert "block_dim" in str(error), call  # no instruction is refused
        return None
    return ((run.program.table, timeline.tasks[run.task].task.op_type) for run in timeline.programs)


@part_of_cases(2)
@as_part
@pytest.mark.parametrize("part", range(PARTS))
def test_random_calls_have_legal_instructions(calls: ModuleType, part: int) -> None:
    found: Counter[tuple[str, str]] = Counter()
    run = 0
    for index in range(FIRST + part, FIRST + sample(60, 2000), PARTS):
        tables = tables_of_call(calls, index)
        if tables is not None:
            run += 1
            for table, op_type in {id(table): (table, op_type) for table, op_type in tables}.values():
                found += violations(table, op_type)
    print(f"part {part}: {run} calls ran, {sum(found.values())} violations {dict(found)}")
    assert run > sample(10, 300)
    assert not found, found


def tasks_of_layer(number: int, chip: str, dtype: str) -> list[Task]:
    """The kernels of a layer's backward and forward pass, or none of a pass that the chip refuses."""
    spec, tasks = load_chip(chip), []
    for direction in ("backward", "forward"):
        operator = OPERATORS.of_pass(direction)
        try:
            case = operator.of_layer(Layer.model_validate(LAYERS[number].said(1, dtype)))
            tasks += tasks_without_values(operator.plan(accept_case(case, spec), spec), spec)[1]
        except AclnnError:
            continue
    return tasks


@part_of_cases(2)
@as_part
@pytest.mark.parametrize("chip", CHIPS)
def test_layers_of_networks_have_legal_instructions(chip: str) -> None:
    """The first and the last block of every kernel."""
    found: Counter[tuple[str, str]] = Counter()
    kernels = 0
    for number in range(0, len(LAYERS), sample(len(LAYERS) // 3, 1)):
        for dtype in CHIPS[chip]:
            for task in tasks_of_layer(number, chip, dtype):
                kernels += 1
                for block in {0, task.block_dim - 1}:
                    for program in task.build(block):
                        found += violations(program.table, task.op_type)
    print(f"{chip}: {kernels} kernels, {sum(found.values())} violations {dict(found)}")
    assert kernels > sample(8, 1000)
    assert not found, found
