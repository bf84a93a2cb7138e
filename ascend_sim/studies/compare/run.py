"""Runs side by side: every fact of their reports with the values of all of them, and which differ.

    comparison = ascend_sim.compare_runs("strided", "dilated")
    comparison.same, comparison.to_dict(), comparison.write_html("compare.html")

A fact that a run does not have (a kernel that it did not launch, an output that timing mode does not compute) is None and
is compared with nothing. Counts that a run's kernel does not mention are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.report.report import plain
from ascend_sim.report.waterfall import WORDS
from ascend_sim.runtime import Progress
from ascend_sim.studies.compare.sources import Given, OneRun, open_sources

__all__ = ["Comparison", "Fact", "KernelFacts", "compare_runs"]

VERSION = 1
"""Of what `Comparison.to_dict` gives; counted up when a key goes or means something else."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What the runs are called in tables, in order."""
_SHARE_DECIMALS = 4
_DIGITS = 12
"""Of differences: what subtracting adds behind them is no difference."""

Value = str | int | float | bool | None
Kernel = Mapping[str, Any]
Column = Mapping[str, Value] | None
"""The facts of one run by name; None where it has none of them."""


@dataclass(frozen=True)
class Fact:
    """One figure or word of every run, None where a run has none."""

    name: str
    values: tuple[Value, ...]

    @property
    def differs(self) -> bool:
        """Whether two runs that have it disagree."""
        return len({value for value in self.values if value is not None}) > 1

    @property
    def differences(self) -> tuple[int | float | None, ...]:
        """What each run has more (+) or less (-) than the first; None for words, and where either has none."""
        first = self.values[0]
        return tuple(_difference(first, value) for value in self.values)

    def to_dict(self) -> dict[str, Any]:
        """As plain data; `differences` only for numbers."""
        told: dict[str, Any] = {"name": self.name, "values": list(self.values), "differs": self.differs}
        return told | ({"differences": list(self.differences)} if any(map(_is_number, self.values)) else {})


@dataclass(frozen=True)
class KernelFacts:
    """One kernel in all runs. `rows` says where it stands in the report of each, None for a run without it.

    `groups` are its facts under the names of `GROUPS`.
    """

    name: str
    rows: tuple[int | None, ...]
    groups: Mapping[str, tuple[Fact, ...]]

    @property
    def missing(self) -> bool:
        """Whether some run has no such kernel."""
        return None in self.rows

    @property
    def differs(self) -> bool:
        """Whether some run lacks it, or any fact of it differs."""
        return self.missing or any(fact.differs for facts in self.groups.values() for fact in facts)

    def fact(self, group: str, name: str) -> Fact:
        """The fact of that name; KeyError for one that there is not."""
        for fact in self.groups[group]:
            if fact.name == name:
                return fact
        raise KeyError(name)

    @property
    def spread(self) -> float:
        """The us between the runs in which it takes longest and shortest; a run without it counts as 0."""
        times = [float(value or 0) for value in self.fact("kernel", "us").values]
        return max(times) - min(times)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        groups = {name: [fact.to_dict() for fact in facts] for name, facts in self.groups.items()}
        return {"name": self.name, "rows": list(self.rows), "differs": self.differs, **groups}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Runs side by side: facts of the whole `call`, of the `outputs` (verdicts and errors), of every kernel.

    Kernels stand in the launch order of the first run that has them; those of the same name belong together, the second of
    a name to the second.
    """

    runs: tuple[OneRun, ...]
    call: tuple[Fact, ...]
    outputs: tuple[Fact, ...]
    kernels: tuple[KernelFacts, ...]

    def __repr__(self) -> str:
        count = sum(kernel.differs for kernel in self.kernels)
        return f"<Comparison of {len(self.runs)} runs: {count} of {len(self.kernels)} kernels differ>"

    @property
    def same(self) -> bool:
        """Whether nothing differs that the runs have in common, and every kernel is in all of them."""
        facts, kernels = (*self.call, *self.outputs), self.kernels
        return not any(one.differs for one in facts) and not any(one.differs for one in kernels)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, strings and numbers. Times in us, waterfalls in cycles of each run's own clock."""
        names = zip(LETTERS, self.runs, strict=False)
        return {
            "version": VERSION,
            "same": self.same,
            "runs": [{"letter": letter, "given": run.label, "kind": run.kind} for letter, run in names],
            "call": [fact.to_dict() for fact in self.call],
            "outputs": [fact.to_dict() for fact in self.outputs],
            "kernels": [kernel.to_dict() for kernel in self.kernels],
        }

    def write_html(self, path: str | Path) -> None:
        """Write the comparison as one page, the kernels' timelines below each other on one zoom; SimError without Plotly."""
        from ascend_sim.studies.compare.page import write_page

        write_page(path, self)


def compare_runs(
    *runs: Given, case: str | Path | None = None, chip: str | Path | None = None, progress: Progress | None = None
) -> Comparison:
    """Lay runs side by side and say what differs; the numerical comparison of arrays is `ascend_sim.compare`.

    Each is a case (name or file), a chip or a tiling file such as `best.yaml` (both for `case`), a folder that `run --out` or
    `kernel --out` wrote, a timeline.npz, or what a call or `launch` returned. What has not run yet is simulated in timing
    mode with the options of its case; `chip` replaces the chip of cases and tilings.

    Raises SimError for fewer than two runs, for what is none of these, and AclnnError where an operator refuses the call.
    """
    if not 2 <= len(runs) <= len(LETTERS):
        raise SimError(f"compare: {len(runs)} given; allowed are 2 to {len(LETTERS)} runs")
    opened = tuple(open_sources(runs, case, chip, progress))
    kernels = tuple(_kernels(opened))
    if not kernels:
        raise SimError("compare: nothing to compare: none of the runs launched a kernel")
    reports = [run.report for run in opened]
    call = _facts([_call(run) for run in opened], None)
    outputs = _facts([_outputs(report) for report in reports], None)
    return Comparison(opened, call, outputs, kernels)


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
    pairs = [
        (run, run.report["kernels"][row] if row is not None else None, row) for run, row in zip(runs, rows, strict=True)
    ]
    groups = {"kernel": _facts([None if row is None else _kernel(run, row) for run, _, row in pairs], None)}
    for name, (columns, missing) in GROUPS.items():
        facts = _facts([None if kernel is None else columns(kernel) for _, kernel, _ in pairs], missing)
        groups[name] = tuple(sorted(facts, key=lambda fact: _PLACE[fact.name])) if name == "waterfall" else facts
    return {name: facts for name, facts in groups.items() if facts}


def _facts(columns: Sequence[Column], missing: Value) -> tuple[Fact, ...]:
    """All names in the order in which they come up; `missing` where a column lacks one that another has."""
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


def _kernel(run: OneRun, row: int) -> dict[str, Value]:
    kernel, span = run.report["kernels"][row], run.recording.timeline.tasks[row]
    pipe, stall = kernel["bottleneck_pipe"], kernel["main_stall"] or {"cause": "none", "share": 0.0}
    busy = kernel["pipes_us"][pipe] / kernel["core_us"] if pipe and kernel["core_us"] else None
    return {
        "us": kernel["task_us"],
        "cycles": span.finish - span.launch,
        "blocks": kernel["block_dim"],
        "bottleneck": pipe,
        "bottleneck busy": None if busy is None else round(busy, _SHARE_DECIMALS),
        "main stall": stall["cause"],
        "main stall share": stall["share"],
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
    return {**({"chosen by": kernel["tiling_source"]} if kernel["tiling_source"] else {}), **fields}


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
    """A list as words; what is one already stays."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else plain(value)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _difference(first: Value, value: Value) -> int | float | None:
    if not (_is_number(first) and _is_number(value)):
        return None
    more = value - first  # type: ignore[operator]
    return float(f"{more:.{_DIGITS}g}") if isinstance(more, float) else more
