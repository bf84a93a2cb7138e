"""Frozen texts: two small Programs, one Timeline, and the cycles of three cases on chips of every family, by both engines.

A difference is not an error in itself: read it, and when it is meant, write the files again and say in the commit why.

    UPDATE_GOLDEN=1 pytest tests/golden
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ascend_sim import Result, TensorSpec, convolution_backward
from ascend_sim.engine.timeline import CAUSES, ProgramRun
from ascend_sim.ops.case import load_case
from tests.support.sampling import part_of_cases

pytestmark = pytest.mark.usefixtures("each_engine")

HERE = Path(__file__).parent
CHIPS = ("ascend910a", "ascend310p3", "ascend910b1", "ascend910b3", "ascend910b4", "ascend950pr_9589")
CASES = ("strided", "fp32_hf32", "grouped")


def compare(name: str, text: str) -> None:
    """The text is that of the file, which UPDATE_GOLDEN=1 writes anew."""
    path = HERE / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def small(deterministic: bool, **tiling: int) -> Result:
    """32 -> 16 channels, 3x3, 6x6 pixels, one gradient; `tiling` is that of its kernel."""
    kernel = "grad_weight" if deterministic else "grad_input"
    return convolution_backward(
        TensorSpec((2, 16, 6, 6), "float16"),
        TensorSpec((2, 32, 6, 6), "float16"),
        TensorSpec((16, 32, 3, 3), "float16"),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
        False,
        (0, 0),
        1,
        (not deterministic, deterministic, False),
        mode="timing",
        deterministic=deterministic,
        tiling={kernel: tiling} if tiling else None,
    )


def runs(result: Result, kernel: str) -> Iterator[ProgramRun]:
    """The programs of one kernel, in block order."""
    assert result.timeline is not None
    return (run for run in result.timeline.programs if result.tasks[run.task].name == kernel)


def program_text(run: ProgramRun) -> str:
    """A heading, then a line per instruction."""
    lines = [f"# {run.program.where}: {len(run.program)} instructions, {run.program.tiles} tiles"]
    return "\n".join([*lines, *map(str, run.program)]) + "\n"


@pytest.mark.fast
def test_a_grad_input_program() -> None:
    """Two tiles of two image rows (12 pixels) each; K = 144 in three base steps, loaded at once."""
    result = small(False, baseM=16, baseN=32, baseK=48, stepKa=3, stepKb=3, coreNum=3, cl0Pbuffer=2)
    compare("grad_input.txt", program_text(next(runs(result, "grad_input"))))


@pytest.mark.fast
def test_a_deterministic_grad_weight_program() -> None:
    """StreamK: a cube core writes its part to a slot, then its first vector core adds the slots of both cores."""
    first = [run for run in runs(small(True), "grad_weight") if run.program.block == 0][:2]
    compare("grad_weight_stream_k.txt", "\n".join(program_text(run) for run in first))


@pytest.mark.fast
def test_a_timeline() -> None:
    """The first block of the grad_input program: when each instruction starts, ends its occupancy, and retires."""
    result = small(False, baseM=16, baseN=32, baseK=48, stepKa=3, stepKb=3, coreNum=3, cl0Pbuffer=2)
    run = next(runs(result, "grad_input"))
    lines = [f"{'row':>4} {'pipe':4} {'instruction':13} {'start':>6} {'end':>6} {'retire':>6} {'stall':>6} cause"]
    for row, view in enumerate(run.program):
        start, end, retire = (int(column[row]) - run.begin for column in (run.start, run.end, run.retire))
        stall, cause = int(run.stall[row]), CAUSES[int(run.cause[row])]
        why = f"{stall:6} {cause}" if stall else f"{'-':>6}"
        lines.append(f"{row:4} {view.pipe:4} {view.instruction.name:13} {start:6} {end:6} {retire:6} {why}")
    assert np.all(run.retire >= run.end) and np.all(run.end >= run.start)
    compare("timeline.txt", "\n".join(lines) + "\n")


@part_of_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_cycles(name: str) -> None:
    """End of the last kernel, in cycles of the chip's cube clock, of a whole call of a shipped case."""
    case = load_case(name)
    tensors: list[Any] = [TensorSpec(shape, dtype) for shape, dtype in case.tensors.values()]
    found = {}
    for chip in CHIPS:
        result = convolution_backward(*tensors, **case.attributes, cube_math_type=case.cube_math_type, chip=chip, mode="timing")
        assert result.timeline is not None
        found[chip] = result.timeline.finish
    path = HERE / "cycles.yaml"
    frozen = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if os.environ.get("UPDATE_GOLDEN"):
        frozen[name] = found
        heading = "# Cycles of the cube clock of whole calls of shipped cases, cold L2. Written by UPDATE_GOLDEN=1 pytest.\n"
        path.write_text(heading + yaml.safe_dump(frozen), encoding="utf-8")
    assert found == frozen[name]
