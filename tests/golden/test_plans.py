"""The operator kernels that calls launch, with their tilings, on a chip of every architecture: readable tables, frozen.

`plans/problems.yaml` has the calls and the reason for each; `plans/<architecture>.txt` has the answers. Read a difference;
when it is meant, write the tables anew and give the reason in the commit:

    UPDATE_GOLDEN=1 pytest tests/golden/test_plans.py
"""

from __future__ import annotations

import os
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_sim.calls.checks import tasks_of_call
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import Task
from tests.support.sampling import part_of_cases

HERE = Path(__file__).parent / "plans"
PROBLEMS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load((HERE / "problems.yaml").read_text(encoding="utf-8"))
CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")
"""The chip of each architecture that people ask for most."""
DTYPES = ("float16", "bfloat16", "float32")
HF32 = 1
"""cubeMathType of 32-bit calls; 0, which keeps float32, launches the same kernels."""
SHAPES = ("input", "weight")
WIDTH = 128


def case_of(operator: str, problem: dict[str, Any], dtype: str) -> Any:
    """The case of a problem in one dtype."""
    entries = {name: value for name, value in problem.items() if name != "why"}
    for name in SHAPES:
        entries[name] = {"shape": entries[name], "dtype": dtype}
    math_type = HF32 if dtype == "float32" else 0
    return OPERATORS[operator].case.model_validate({"operator": operator, "cube_math_type": math_type, **entries})


def launched(operator: str, problem: dict[str, Any], dtype: str, chip: ChipSpec, deterministic: bool) -> tuple[str, ...]:
    """The kernels in launch order with their numbers of blocks, then the tilings of those that have one; or the refusal."""
    try:
        _, tasks = tasks_of_call(case_of(operator, problem, dtype), chip, deterministic=deterministic)
    except AclnnError as error:
        return tuple(wrapped(f"refused: {error}"))
    kernels = ", ".join(f"{task.op_type} {task.block_dim}" for task in tasks)
    return (*wrapped(kernels), *(line for task in tasks if task.info.get("tiling") for line in wrapped(tiling_of(task))))


def tiling_of(task: Task) -> str:
    """The rung that chose a kernel's tiling, with its mark, the source of the tiling, and its fields."""
    fields = " ".join(f"{name}={value}" for name, value in task.info["tiling"].items())
    rung = "".join(f" by {step['rung']} ({step['mark']})" for step in task.info.get("ladder", ())[-1:])
    return f"{task.name}{rung}, {task.info['tiling_source']}: {fields}"


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="      ")


def table(chip: ChipSpec) -> str:
    """All problems in all dtypes on one chip; dtypes and modes with one answer stand together."""
    lines = [f"# Kernels (and blocks) that calls launch on {chip.name} ({chip.identity.arch}); test_plans.py renews it"]
    for operator, problems in PROBLEMS.items():
        for name, problem in problems.items():
            lines += ["", f"{name} ({operator}: {problem['why']})"]
            answers: dict[tuple[str, ...], list[str]] = {}
            for dtype, deterministic in product(DTYPES, (False, True)):
                answer = launched(operator, problem, dtype, chip, deterministic)
                answers.setdefault(answer, []).append(f"{dtype} deterministic" if deterministic else dtype)
            for answer, asked in answers.items():
                lines += [f"  {', '.join(asked)}", *answer]
    return "\n".join(lines) + "\n"


@part_of_cases(2)
@pytest.mark.parametrize("name", CHIPS)
def test_calls_launch_what_is_written(name: str) -> None:
    chip = load_chip(name)
    path, text = HERE / f"{chip.identity.arch}.txt", table(chip)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_operator_that_chooses_tilings_is_asked() -> None:
    assert {name for name, operator in OPERATORS.items() if operator.cube_kernels} <= set(PROBLEMS)
