"""The verdict on a kernel, stage by stage, as `kernel --json`, `check --json` and `judge` print it (schema: docs/judge.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ascend_sim.kernel.program import Program

SCHEMA = 1
CHECKED = {"bounds": "memcheck", "race": "racecheck", "init": "initcheck", "sync": "synccheck"}
"""Stage of the verdict -> the check tool that decides it."""
STAGES = ("compile", *CHECKED, "values", "cycles")
"""Stages in the order in which they are judged."""
LEAST_SCALAR = 256
"""Least number of elements that scalar code can touch and count as computing the outputs (assumed)."""


def not_compiled(text: str) -> dict[str, Any]:
    """Return the verdict whose stage "compile" failed with the lines of `text`: a compiler error or wrong arguments.

    No other stage ran.
    """
    stages: dict[str, Any] = dict.fromkeys(STAGES)
    stages["compile"] = {"passed": False, "messages": text.splitlines()}
    return _whole(stages, ["nothing was run: all stages behind compile"])


def verdict_of(
    check: Mapping[str, Any] | None, report: Mapping[str, Any] | None = None, scalar: bool = False
) -> dict[str, Any]:
    """Return the verdict from the JSON data of a check and of a run; None stands for one that did not take place.

    A stage is a dict with "passed". Where it was not judged it is None, or its "passed" is None, and it does not fail;
    "unknown" says so in words. `scalar`: scalar work computes the outputs, which fails the stage "values".
    """
    from ascend_sim.report.summary import code_words

    stages: dict[str, Any] = dict.fromkeys(STAGES)
    stages["compile"] = {"passed": True, "messages": []}
    work = "not timed" if report is None else report["problem"].get("scalar_work", "not timed")
    counted = code_words(report or check or {})
    unknown = [
        f"scalar work is {work}: loops, calls and arithmetic between the words of the kernel{f' ({counted})' * bool(counted)}"
    ]
    if check is None or check.get("passed") is None:
        unknown.append("nothing was checked: bounds, race, init, sync")
    else:
        refused = [one for one in check["findings"] if one["kind"] == "refused" and "not simulated" in one["title"]]
        for stage, tool in CHECKED.items():
            mine = [one for one in check["findings"] if one["tool"] == tool]
            if not refused or stage == "bounds":  # the rows of a refused call are missing from the other stages
                stages[stage] = {"passed": all(one["level"] != "ERROR" for one in mine), "findings": mine}
        unknown += [f"the simulator cannot run this kernel: {one['title'].removeprefix('refused: ')}" for one in refused]
        from ascend_sim.check.cached_lines import STAYS

        unknown += [text for text in check["remarks"] if text.startswith(STAYS)]
    if report is None:
        unknown.append("nothing was run: values, cycles")
    else:
        stages["values"] = _values(report["outputs"], scalar)
        if stages["values"]["passed"] is None:
            unknown.append("values: the kernel's file expects nothing of its outputs")
        if report["total_us"] is not None:
            stages["cycles"] = _cycles(report)
    return _whole(stages, unknown)


def failed_run(check: Mapping[str, Any] | None, text: str) -> dict[str, Any]:
    """Return the verdict on a kernel whose run ended with the error `text`; `check` is the JSON data of its check, or None.

    A check with errors gives its own verdict, without the text. Else a flag without partner fails the stage "sync", anything
    else the stage "values".
    """
    found = verdict_of(check)
    if not found["passed"]:
        return found
    sync = found["sync"]
    stage = "sync" if sync and any(one["kind"].startswith("unpaired") for one in sync["findings"]) else "values"
    failed = {**(found[stage] or {}), "passed": False, "messages": [text]}
    return {**found, "passed": False, "stage": stage, stage: failed}


def _whole(stages: dict[str, Any], unknown: list[str]) -> dict[str, Any]:
    failed = [name for name, one in stages.items() if one is not None and one.get("passed") is False]
    return {"schema": SCHEMA, "passed": not failed, "stage": failed[0] if failed else None, **stages, "unknown": unknown}


def _values(outputs: Mapping[str, Any] | None, scalar: bool) -> dict[str, Any]:
    """Return the stage "values": passed or not (None: nothing is expected), the largest error over its bound, the first wrong
    element.

    `scalar`: scalar code computed the values, which never passes.
    """
    found: dict[str, Any] = {"scalar_computed": scalar, "worst_error_over_bound": None, "first_wrong": None}
    if scalar:
        found["messages"] = ["scalar-computed: loads and stores of the scalar unit make the outputs"]
    if not outputs:
        return {"passed": False if scalar else None, **found}
    wrong = {name: one for name, one in outputs.items() if not one["correct"]}
    errors = [one.get("worst_error_over_bound") for one in outputs.values()]
    found["worst_error_over_bound"] = max((one for one in errors if one is not None), default=None)
    if wrong:
        name, one = next(iter(wrong.items()))
        found["first_wrong"] = {"output": name, "index": one.get("first_wrong"), **(one.get("first") or {})}
    return {"passed": not wrong and not scalar, **found}


def _cycles(report: Mapping[str, Any]) -> dict[str, Any]:
    one, interval = report["kernels"][0], report["interval"] or {}
    return {
        "passed": True,
        "cycles": one.get("core_cycles_max"),
        "us": report["total_us"],
        "low_us": interval.get("low_us"),
        "high_us": interval.get("high_us"),
        "bottleneck": one.get("bottleneck_pipe"),
    }


def scalar_computed(programs: Sequence[Program], outputs: Mapping[str, NDArray[Any]]) -> bool:
    """Return True if scalar loads and stores touch at least half as many bytes as the outputs have in all, and as many as
    `LEAST_SCALAR` elements of the narrowest output.
    """
    from ascend_sim.isa.scalar import ScalarAccess

    moved = 0
    for program in programs:
        kinds = program.table.instructions
        touched = np.array([one.size if isinstance(one, ScalarAccess) else 0 for one in kinds], np.int64)
        if touched.any():
            moved += int(touched[program.sheet.rows[:, 0]].sum())
    narrowest = min((one.itemsize for one in outputs.values()), default=1)
    return moved >= LEAST_SCALAR * narrowest and 2 * moved >= sum(one.nbytes for one in outputs.values())
