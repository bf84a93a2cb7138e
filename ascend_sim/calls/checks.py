"""Checking a call of an operator instead of running it: the kernels that it launches, their tasks and their flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from ascend_sim.calls.cases import accept_case
from ascend_sim.check.findings import CheckReport
from ascend_sim.check.run import check_tasks
from ascend_sim.chip import ChipSpec
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.execute import roles_of, tasks_without_values
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.plan import Plan
from ascend_sim.options.run_options import PlanOptions
from ascend_sim.runtime import Task
from ascend_sim.settings import disarmed_warnings


def check_call(
    case: Case, chip: ChipSpec, *, tools: str | Sequence[str] | None = None, **options: Unpack[PlanOptions]
) -> CheckReport:
    """Check the kernels that a case launches on `chip` and return the report; nothing is run.

    `tools` names the checks (None: all). `options` decide the launches; one left out has the case's value, but tilings and
    blocks are only those given. Raises AclnnError where the operator refuses the call, TilingError for a given tiling that does
    not fit.
    """
    plan, tasks = tasks_of_call(case, chip, **options)
    disarm = options.get("disarm") or {}
    report = check_tasks(chip, tasks, roles=roles_of(plan), tools=tools, disarm=disarm)
    names = [f"{kernel}.{flag}" for kernel, flags in disarm.items() for flag in flags]
    report.remarks.extend(disarmed_warnings(names, "timing"))
    return report


def flags_of_call(case: Case, chip: ChipSpec, **options: Unpack[PlanOptions]) -> dict[str, list[str]]:
    """Return {kernel: its flags, sorted} for the kernels that a case launches, by the names that `disarm` takes; the programs
    of all blocks are built.

    These flags order the kernel's pipes and cores. `options` and errors are those of `check_call`.
    """
    _, tasks = tasks_of_call(case, chip, **options)
    return {
        task.name: sorted({flag for block in range(task.block_dim) for one in task.build(block) for flag in one.flag_names()})
        for task in tasks
    }


def tasks_of_call(case: Case, chip: ChipSpec, **options: Unpack[PlanOptions]) -> tuple[Plan, list[Task]]:
    """Return (plan, tasks) of a case on `chip`; tensors have addresses and no values.

    `options` and errors as in `check_call`.
    """
    plan = OPERATORS[case.operator].plan(accept_case(case, chip, **options), chip)
    return plan, tasks_without_values(plan, chip)[1]
