"""Runs side by side: the facts of their reports, gathered by name.

comparison = ascend_sim.compare_runs("strided", "dilated", html="compare.html")
comparison.same, comparison.to_dict()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.keywords import near_names
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.verdicts.values import numbers
from ascend_sim.report.report import plain
from ascend_sim.report.shown import LayersShown
from ascend_sim.report.skeleton import check_plotly
from ascend_sim.report.waterfall import WORDS
from ascend_sim.runtime import Progress
from ascend_sim.studies.compare.facts import LETTERS, Fact, KernelFacts, RunComparison, Value
from ascend_sim.studies.compare.layers import LayerComparison, compare_layers, has_layers
from ascend_sim.studies.compare.page import write_page
from ascend_sim.studies.compare.sources import Given, OneRun, open_sources

_SHARE_DECIMALS = 4

Kernel = Mapping[str, Any]
Column = Mapping[str, Value] | None
"""The facts of one run by name; None where it has none of them."""


@near_names
def compare_runs(
    *runs: Given | LayersShown,
    case: str | Path | Case | None = None,
    chip: str | Path | None = None,
    html: str | Path | None = None,
    progress: Progress | None = None,
) -> RunComparison | LayerComparison:
    """Return the comparison of two or more runs side by side; two arrays are compared by `ascend_sim.compare`.

    A run is a case (name, file or Case), a chip or a tiling file such as `best.yaml` (both for `case`), a folder that `run
    --out` or `kernel --out` wrote, a timeline.npz, or the result of a call or `launch`. Cases, chips and tilings are simulated
    in timing mode with the options of the case; `chip` replaces the chip of cases and tilings. With `html` the comparison is
    also written to that file as a page, with the timelines of each kernel on one zoom.

    Two runs of networks, or two simulations of a model, or the folders that they wrote, are compared layer by layer; `case`,
    `chip` and `html` are not for them. Raises SimError for fewer than two runs or more than 26, for anything else in their
    place or without a timeline, for a `case` or `chip` that no run uses, and for an `html` that cannot be written (also without
    Plotly); AclnnError where an operator refuses the call.
    """
    if any(map(has_layers, runs)):
        return compare_layers(*runs, options={"case": case, "chip": chip, "html": html})
    if html is not None:
        check_plotly()
    calls = [run for run in runs if not isinstance(run, LayersShown)]  # for the type checker: all are
    comparison = compare_calls(calls, case, chip, progress)
    if html is not None:
        write_page(html, comparison)
    return comparison


def compare_calls(
    runs: Sequence[Given], case: str | Path | Case | None, chip: str | Path | None, progress: Progress | None
) -> RunComparison:
    """Return the comparison of single runs; raises as `compare_runs` does, and SimError where no run launched a kernel."""
    if not 2 <= len(runs) <= len(LETTERS):
        raise SimError(f"compare: {len(runs)} given; allowed are 2 to {len(LETTERS)} runs")
    opened = tuple(open_sources(tuple(runs), case, chip, progress))
    kernels = tuple(_kernels(opened))
    if not kernels:
        raise SimError("compare: nothing to compare: no run launched a kernel")
    reports = [run.report for run in opened]
    calls = [_call(run) for run in opened]
    if any("disarmed" in one for one in calls):
        calls = [{"disarmed": "nothing", **one} for one in calls]
    call = _facts(calls, None)
    outputs = _facts([_outputs(report) | _apart(opened[0], run) for report, run in zip(reports, opened, strict=True)], None)
    return RunComparison(opened, call, outputs, kernels)


def _kernels(runs: Sequence[OneRun]) -> list[KernelFacts]:
    places: dict[tuple[str, int], list[int | None]] = {}
    for number, run in enumerate(runs):
        seen: dict[str, int] = {}
        for row, kernel in enumerate(run.report["kernels"]):
            name = kernel["name"]
            seen[name] = seen.get(name, 0) + 1
            places.setdefault((name, seen[name]), [None] * len(runs))[number] = row
    return [
        KernelFacts(f"{name} {turn}" if turn > 1 else name, tuple(rows), _groups(runs, rows))
        for (name, turn), rows in places.items()
    ]


def _groups(runs: Sequence[OneRun], rows: Sequence[int | None]) -> dict[str, tuple[Fact, ...]]:
    pairs = [(run, run.report["kernels"][row] if row is not None else None, row) for run, row in zip(runs, rows, strict=True)]
    groups = {"kernel": _facts([None if row is None else _kernel(run, row) for run, _, row in pairs], None)}
    for name, (columns, missing) in GROUPS.items():
        facts = _facts([None if kernel is None else columns(kernel) for _, kernel, _ in pairs], missing)
        groups[name] = tuple(sorted(facts, key=lambda fact: _PLACE[fact.name])) if name == "waterfall" else facts
    return {name: facts for name, facts in groups.items() if facts}


def _facts(columns: Sequence[Column], missing: Value) -> tuple[Fact, ...]:
    """Return a Fact for each name in the runs' `columns`, in the order of first occurrence; a run that lacks a name has
    `missing`.

    A run whose column is None has None everywhere; facts that are None in all runs are left out.
    """
    names = dict.fromkeys(name for column in columns if column is not None for name in column)
    values = {name: tuple(None if one is None else one.get(name, missing) for one in columns) for name in names}
    return tuple(Fact(name, found) for name, found in values.items() if any(value is not None for value in found))


def _call(run: OneRun) -> dict[str, Value]:
    report = run.report
    problem = report["problem"]
    tensors = {name: f"{_text(one['shape'])} {one['dtype']}" for name, one in problem.get("tensors", {}).items()}
    macs = problem.get("macs") or {}
    counts = {f"MACs {name}": count for name, count in macs.items()} if isinstance(macs, Mapping) else {"MACs": macs}
    rest = {name: _text(value) for name, value in problem.items() if name not in ("operator", "tensors", "macs")}
    return {
        "total us": report["total_us"],
        "chip": report["chip"],
        "cube MHz": run.recording.chip.clock.cube_mhz,
        "kernels": len(report["kernels"]),
        "workspace bytes": report["workspace_bytes"],
        "findings": None if report["findings"] is None else len(report["findings"]),
        "operator": problem.get("operator"),
        **tensors,
        **rest,
        **counts,
    }


def _outputs(report: Mapping[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, figures in report["outputs"].items():
        correct = figures.get("correct")
        found[name] = "not checked" if correct is None else "correct" if correct else "WRONG"
        for key in ("compute_dtype", "max_abs_error", "worst_error_over_bound"):
            found[f"{name} {key.replace('_', ' ')}"] = figures.get(key)
    return found


def _apart(first: OneRun, run: OneRun) -> dict[str, Value]:
    """Return the comparison of a run's outputs with those of the `first` run: for each the share of equal values and the
    largest difference.

    {} for the first run itself; outputs of another shape, or that one run lacks, are left out. NaN equals NaN, -0 not +0.
    """
    found: dict[str, Value] = {}
    for name, (array, dtype) in run.outputs.items() if run is not first else ():
        other, other_dtype = first.outputs.get(name, (array, ""))
        if not other_dtype or other.shape != array.shape:
            continue
        ours, theirs = (numbers(one, kind).astype(np.float64) for one, kind in ((array, dtype), (other, other_dtype)))
        same = (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | np.isnan(ours) & np.isnan(theirs)
        with np.errstate(invalid="ignore"):
            gaps = np.where(same, 0.0, np.abs(ours - theirs))
        found[f"{name} equal bits with A"] = float(same.mean()) if same.size else 1.0
        found[f"{name} largest |A - this|"] = float(gaps.max(initial=0.0))
    return found


def _kernel(run: OneRun, row: int) -> dict[str, Value]:
    kernel, span = run.report["kernels"][row], run.recording.timeline.tasks[row]
    pipe, stall = kernel["bottleneck_pipe"], kernel["main_stall"] or {"cause": "none", "share": 0.0}
    bounds = kernel["roofline"]
    busy = kernel["pipes_us"][pipe] / kernel["core_us"] if pipe and kernel["core_us"] else None
    return {
        "us": kernel["task_us"],
        "cycles": span.finish - span.launch,
        "blocks": kernel["block_dim"],
        "bottleneck": pipe,
        "bottleneck busy": None if busy is None else round(busy, _SHARE_DECIMALS),
        "main stall": stall["cause"],
        "main stall share": stall["share"],
        "bound by": bounds["bound_by"],
        "bound cycles": bounds["cycles"].get(bounds["bound_by"]),
        "of the cube": kernel.get("cube_efficiency"),
        "cores": kernel["core_type"],
        "tiles": kernel["counts"]["tiles"],
        "op_type": kernel["op_type"],
    }


def _stalls(kernel: Kernel) -> dict[str, Value]:
    stood = {f"{pipe} {cause}": us for pipe, causes in kernel["stalls"].items() for cause, us in causes.items()}
    held = {f"{pipe} held by {cause}": us for pipe, causes in kernel["held_us"].items() for cause, us in causes.items()}
    return {**stood, **held}


def _tensors(kernel: Kernel) -> dict[str, Value]:
    formats = kernel["formats"]
    return {name: f"{dtype} {formats.get(name, '')}".strip() for name, dtype in kernel["dtypes"].items()}


def _tiling(kernel: Kernel) -> dict[str, Value]:
    fields = {name: _text(value) for name, value in kernel["tiling"].items()}
    own = {"chosen by": kernel["tiling_source"], "input by": kernel.get("input_load")}
    surrogates = {f"surrogate {name}": what for name, what in kernel.get("surrogates", {}).items()}
    return {**{name: value for name, value in own.items() if value}, **surrogates, **fields}


GROUPS: dict[str, tuple[Callable[[Kernel], Column], Value]] = {
    "waterfall": (lambda kernel: kernel.get("waterfall"), 0),
    "stalls": (_stalls, 0),
    "bytes": (lambda kernel: kernel["counts"]["bytes"], 0),
    "instructions": (lambda kernel: kernel["counts"]["instructions"], 0),
    "buffers": (lambda kernel: {name: one["peak_bytes"] for name, one in kernel["buffers"].items()}, 0),
    "tiling": (_tiling, "-"),
    "tensors": (_tensors, "-"),
}
"""Behind "kernel": what the facts of a kernel are, and what a kernel has that does not mention one."""
_PLACE = {name: place for place, name in enumerate(WORDS)}


def _text(value: Any) -> Value:
    """Return a list as text with commas, any other value as plain data."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else plain(value)
