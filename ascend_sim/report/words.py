"""Words on a run's bottlenecks: every figure comes from the critical path, the stalls or the runs with a rate doubled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ascend_sim.engine.critical_path import PathStep, by_what
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import PIPE_INDEX, WAIT
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.report.columns import counted, listed
from ascend_sim.runtime import Recording

if TYPE_CHECKING:
    from ascend_sim.report.what_if import ChangedRun

_WAITS = {
    ("MTE2", "MTE1"): "room in L1", ("MTE1", "MTE2"): "data in L1", ("MTE1", "M"): "room in L0A and L0B",
    ("M", "MTE1"): "operands in L0A and L0B", ("M", "FIX"): "room in L0C", ("FIX", "M"): "results in L0C",
    ("MTE2", "V"): "room in UB", ("V", "MTE2"): "data in UB", ("V", "MTE3"): "room in UB", ("MTE3", "V"): "results in UB",
}  # fmt: skip
"""(waiting pipe, setting pipe) -> meaning of the flag in a pipeline of buffers."""
_NAMES = {
    "M": "the cube (M)", "V": "the vector unit (V)", "FIX": "the Fixpipe", "core start": "the start of the cores",
    "launch": "launching", "dispatch": "the dispatch of blocks", "latency": "latency after the work", "flag": "flag latency",
    "unit flag": "tiles of L0C on their way between cube and Fixpipe",
    "issue": "issue", "scalar": "scalar time", "barrier": "barriers", "cross-core flag": "flags between cores",
}  # fmt: skip
_WORTH_SAYING = 0.01
_SMALLEST = 0.0005
"""Shares below are shown as zero."""
_KERNELS = 3
_KERNEL_SHARE = 0.1


@frozen
class Wait:
    """Time in which `pipe` waited for flags of pipe `source`, as a share of the time of those of a kernel's blocks that use
    `pipe`.
    """

    pipe: str
    source: str
    share: float

    @property
    def words(self) -> str:
        """Return in words what the pipe waits for, such as "room in L1"; "a flag from PIPE" for an unusual pair of pipes."""
        return _WAITS.get((self.pipe, self.source), f"a flag from {self.source}")


def flag_waits(recording: Recording, task: int) -> list[Wait]:
    """Return a Wait for each pair of pipes of the kernel number `task` of which one waited for the other, the longest first."""
    waited: dict[tuple[str, str], int] = {}
    spans: dict[str, int] = {}
    for run in recording.timeline.of(task):
        table, kind = run.program.table, run.program.per_row("kind")
        for pipe in PIPE_INDEX:
            if (run.program.per_row("pipe") == PIPE_INDEX[pipe]).any():
                spans[pipe] = spans.get(pipe, 0) + run.finish - run.begin
        waits = np.flatnonzero(kind == WAIT)
        arguments = run.program.rows[waits, 0]
        for argument in np.unique(arguments).tolist():
            flag = table.instructions[argument]
            assert isinstance(flag, WaitFlag)
            rows = waits[arguments == argument]
            key = (flag.destination, flag.source)
            waited[key] = waited.get(key, 0) + int((run.end[rows] - run.start[rows]).sum())
    found = [Wait(pipe, source, cycles / spans[pipe]) for (pipe, source), cycles in waited.items() if cycles]
    return sorted(found, key=lambda wait: -wait.share)


def words(
    recording: Recording, report: Mapping[str, Any], path: Sequence[PathStep], outcomes: Sequence[ChangedRun] | None
) -> list[str]:
    """Return paragraphs on the bottlenecks: one on the whole call, then one for each of up to three longest kernels, of 10 % of
    the call each; the longest always.

    Without `outcomes` they say nothing of other rates; a call without kernels has one sentence.
    """
    kernels = report["kernels"]
    if not path:
        return ["The call launched no kernel."]
    total = path[-1].end - path[0].begin
    order = sorted(range(len(kernels)), key=lambda i: -kernels[i]["task_us"])
    longest = [i for i in order[:_KERNELS] if kernels[i]["task_us"] >= _KERNEL_SHARE * report["total_us"]] or order[:1]
    named = [f"{kernels[i]['name']} ({kernels[i]['task_us']:.1f} us)" for i in longest]
    text = f"The call takes {report['total_us']:.1f} us in {counted(len(kernels), 'kernel')}, the longest being "
    paragraphs = [f"{text}{listed(named)}. On its critical path, {_path(by_what(path), total)}."]
    if outcomes:
        paragraphs[0] += f" {_moves('the call', [(one, one.saved) for one in outcomes])}"
    return paragraphs + [_kernel(recording, kernels[task], task, path, outcomes) for task in longest]


def _kernel(
    recording: Recording, kernel: Mapping[str, Any], task: int, path: Sequence[PathStep], outcomes: Sequence[ChangedRun] | None
) -> str:
    name, parts = kernel["name"], by_what(path, task)
    own = sum(parts.values())
    sentences = [f"In {name} {_path(parts, own)} of the critical path." if own else f"{name} is not on the critical path."]
    if outcomes:
        sentences.append(_moves("the kernel", [(one, one.saved_by_task[task]) for one in outcomes]))
    waits = [wait for wait in flag_waits(recording, task) if wait.share >= 2 * _WORTH_SAYING][:2]
    if waits:
        told = [f"{wait.pipe} waits for {wait.words} {_percent(wait.share)} of the time" for wait in waits]
        sentences.append(f"{listed(told)}.")
    return " ".join(sentences)


def _path(parts: Mapping[str, int], total: int) -> str:
    """Return in words the four largest parts of a path, each of 5 % at least: "MTE1 takes 73.1 %, ..."; the largest always."""
    shown = [(what, cycles / total) for what, cycles in parts.items() if cycles >= 5 * _WORTH_SAYING * total][:4]
    first, *rest = shown or [(next(iter(parts)), next(iter(parts.values())) / total)]
    others = (f"{_NAMES.get(what, what)} {_percent(share)}" for what, share in rest)
    return listed([f"{_NAMES.get(first[0], first[0])} takes {_percent(first[1])}", *others])


def _moves(what: str, saved: Sequence[tuple[ChangedRun, float]]) -> str:
    """Return a sentence on the changed rates that save most of the time of `what`, four at most; or that none saves 1 %."""
    ranked = sorted(saved, key=lambda item: -item[1])
    best, share = ranked[0]
    if share < _WORTH_SAYING:
        return f"No single rate holds {what} up: the most that one change takes off is {best.words} ({_change(share)})."
    rest = [f"{one.words} ({_change(other)})" for one, other in ranked[1:4] if other >= _SMALLEST]
    then = f", then {listed(rest)}" if rest else "; nothing else counts"
    return f"What would move it most is {best.words} ({_change(share)}){then}."


def _change(saved: float) -> str:
    return f"{-100 * saved:+.1f} %" if abs(saved) >= _SMALLEST else "0.0 %"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
