"""A kernel's values by both ways of running it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import from_columns, watched
from tests.support.engine.machine import Writer, program, random_bytes, task_of
from tests.support.engine.random_programs import SIZES

Bytes = np.ndarray[Any, Any]


def full(chip: ChipSpec, kind: str, write: Writer, sizes: Any = SIZES, **options: Any) -> tuple[list[Bytes], list[Finding]]:
    """The tensors after a run in time, and everything that was found."""
    device, task = prepared(chip, kind, write, sizes, **options)
    timeline = Engine(device).run([task], watch=True)
    found = watched(timeline).findings
    assert found == from_columns([task], timeline.programs).findings
    findings = found + replay(device, [task], timeline.programs)
    return [tensor.data for tensor in task.tensors], findings  # type: ignore[misc]


def functional(
    chip: ChipSpec, kind: str, write: Writer, sizes: Any = SIZES, **options: Any
) -> tuple[list[Bytes], list[Finding]]:
    device, task = prepared(chip, kind, write, sizes, **options)
    engine = FunctionalEngine(device)
    engine.run([task])
    return [tensor.data for tensor in task.tensors], engine.findings  # type: ignore[misc]


def prepared(chip: ChipSpec, kind: str, write: Writer, sizes: Any, blocks: int = 1, **options: Any) -> tuple[Device, Task]:
    device = Device(chip)
    tensors = [random_bytes(device, size, f"t{i}", i) for i, size in enumerate(sizes)]
    made = [[program(chip, kind, write, sizes, block=b, **options)] for b in range(blocks)]
    return device, task_of(made, tensors)
