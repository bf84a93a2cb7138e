"""Small machines and runs for the engine's tests: chips with other numbers, programs from a function, tasks from programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import from_columns
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program

CHIP = load_chip("ascend910b3")
KIB = 1024
Writer = Callable[[KernelBuilder], object]


def changed(chip: ChipSpec, **sections: dict[str, Any]) -> ChipSpec:
    """`chip` with some fields of some sections replaced; `paths` takes fields for every path."""
    update: dict[str, Any] = {}
    for name, fields in sections.items():
        if name == "paths":
            update[name] = {key: path.model_copy(update=fields) for key, path in chip.paths.items()}
        else:
            update[name] = getattr(chip, name).model_copy(update=fields)
    return chip.model_copy(update=update)


FIVE = {"issue_cycles": {"AIC": 5, "AIV": 5}}
"""Cycles of issue in timelines that are worked out on paper."""


def quiet(chip: ChipSpec) -> ChipSpec:
    """No launch overhead, so that all blocks of a first wave begin at cycle 0."""
    none = {"AIC": 0.0, "AIV": 0.0, "AI_CORE": 0.0}
    return changed(
        chip,
        launch={
            "task_overhead_us": none,
            "core_start_us": none,
            "block_us": {},
            "overhead_per_block_us": {},
            "cold_us": {},
            "cold_per_block_us": {},
            "uncached_per_block_us": {},
            "prologue_us": {},
        },
    )


def ideal_memory(chip: ChipSpec) -> ChipSpec:
    """L2 and HBM faster than all ports together: every transfer runs at the speed of its port."""
    fast = {
        "l2_read_bytes_per_cycle_per_aic": 1e6, "l2_write_bytes_per_cycle_per_aic": 1e6, "hbm_gb_per_s": 1e9, "hbm_latency": 0,
    }  # fmt: skip
    return changed(chip, memory=fast)


def program(
    chip: ChipSpec, kind: str, write: Writer, sizes: Sequence[int] = (), block: int = 0, sub_block: int = 0, **options: Any
) -> Program:
    """The finished program that `write` puts into a builder."""
    k = KernelBuilder(InstructionTable(chip), block, kind, sizes, sub_block=sub_block, **options)
    write(k)
    return k.finish()


def task_of(programs: Sequence[Sequence[Program]], tensors: Sequence[Any] = (), kind: str = "", **fields: Any) -> Task:
    """A task whose block b runs `programs[b]`."""
    kind = kind or programs[0][0].core_kind
    return Task(fields.pop("name", "task"), "Test", kind, len(programs), list(tensors), lambda block: programs[block], **fields)


def scalar_task(chip: ChipSpec, kind: str, lengths: Sequence[int], name: str = "task", **fields: Any) -> Task:
    """A block per entry of `lengths`, whose only work is that many cycles of scalar time."""
    return task_of(
        [[program(chip, kind, lambda k, n=n: k.scalar(n), block=b)] for b, n in enumerate(lengths)],
        kind=kind,
        name=name,
        **fields,
    )  # type: ignore[misc]


def run_one(chip: ChipSpec, kind: str, write: Writer, sizes: Sequence[int] = (), **options: Any) -> ProgramRun:
    """One block of one program on a fresh device; `options` go to the engine."""
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(sizes)]
    timeline = Engine(device, **options).run([task_of([[program(chip, kind, write, sizes)]], tensors)])
    return timeline.programs[0]


def columns(timeline: Timeline) -> list[tuple[Any, ...]]:
    """All that a timeline says of time, without the numbers of the cores; comparable with ==."""
    return [
        (
            run.task,
            run.program.where,
            run.begin,
            run.finish,
            run.queue_full,
            run.launch,
            *(getattr(run, name).tolist() for name in ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait")),
        )
        for run in timeline.programs
    ]


def random_bytes(device: Device, size: int, name: str, seed: int = 0) -> Any:
    """A tensor of small fp16 numbers, so that products stay finite."""
    tensor = device.allocate(size, name)
    assert tensor.data is not None
    values = np.random.default_rng(seed).integers(-8, 9, size // 2).astype(np.float16) / 4
    tensor.data[: size // 2 * 2] = values.view(np.uint8)
    return tensor


def watched_run(device: Device, tasks: Sequence[Task], **options: Any) -> tuple[Timeline, list[Finding]]:
    """A run and its hazards, which are those in its columns; `options` go to the engine."""
    timeline = Engine(device, **options).run(tasks, watch=True)
    assert timeline.watched == from_columns(tasks, timeline.programs)
    return timeline, timeline.watched.findings
