"""Instructions of our own kernels that no chip can be told: counted over random calls on all architectures."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from ascend_sim import AclnnError, SimError
from ascend_sim.engine.timeline import Timeline
from ascend_sim.isa.forms import form_of
from tests.support.places import TOOLS
from tests.support.sampling import as_part, sample

PARTS = 4
"""Tests that the calls are spread over."""
FIRST = 1000
"""The first call: those before are frozen (tests/golden)."""
OF_GRADIENTS = {("dav-3510", "Conv3DBackpropFilterV2")}
"""Float32 and merged groups, whose columns begin inside a fractal of L0C."""


@pytest.fixture(scope="module")
def calls() -> ModuleType:
    """The random calls of tools/freeze_calls.py, of which there is no end."""
    spec = importlib.util.spec_from_file_location("freeze_calls", TOOLS / "freeze_calls.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["freeze_calls"] = module
    spec.loader.exec_module(module)
    return module


def violations(timeline: Timeline) -> Counter[tuple[str, str]]:
    """Distinct instructions that no form of the chip says, by architecture and kernel."""
    tables = {id(run.program.table): (run.program.table, timeline.tasks[run.task].task) for run in timeline.programs}
    found: Counter[tuple[str, str]] = Counter()
    for table, task in tables.values():
        for instruction in table.instructions:
            try:
                form_of(instruction, table.chip)
            except SimError:
                found[table.chip.identity.arch, task.op_type] += 1
    return found


def made(calls: ModuleType, index: int) -> Timeline | None:
    """The timeline of a call, or None of one that is refused."""
    call: dict[str, Any] = calls.make_call(index)
    call["options"] |= {"timeline": True}
    try:
        return calls.run(call, "timing").timeline  # type: ignore[no-any-return]
    except AclnnError:
        return None
    except SimError as error:
        assert "block_dim" in str(error), call  # no instruction is refused
        return None


@as_part
@pytest.mark.parametrize("part", range(PARTS))
def test_instructions_are_legal_but_for_what_is_owed(calls: ModuleType, part: int) -> None:
    found: Counter[tuple[str, str]] = Counter()
    run = 0
    for index in range(FIRST + part, FIRST + sample(60, 2000), PARTS):
        timeline = made(calls, index)
        if timeline is not None:
            run += 1
            found += violations(timeline)
    assert run > sample(10, 400)
    assert set(found) <= OF_GRADIENTS, found
