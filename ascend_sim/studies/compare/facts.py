"""Facts of a comparison: every fact with the values of all runs, and the differing ones.

A fact that a run does not have (a kernel that it did not launch, an output that timing mode does not compute) is None and
is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ascend_sim.frozen import frozen
from ascend_sim.report.shown import ShownResult
from ascend_sim.studies.compare.sources import OneRun

VERSION = 1
"""Version of the result of `RunComparison.to_dict`; increased when a key is removed or changes its meaning."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of the runs in tables, in order."""
_SHARES = ("bottleneck busy", "main stall share", "of the cube", "equal bits with A")
"""Ends of the names of facts that are shares from 0 to 1."""
_DIGITS = 12
"""Digits of differences: later digits come from the subtraction itself."""

Value = str | int | float | bool | None


@frozen
class Fact:
    """One figure or word of every run, in `values` in the order of the runs; None for a run that does not have it."""

    name: str
    values: tuple[Value, ...]

    @property
    def differs(self) -> bool:
        """Return True if two runs that have the fact have different values; None counts for nothing."""
        return len({value for value in self.values if value is not None}) > 1

    @property
    def is_share(self) -> bool:
        """Return True if the name ends like that of a share from 0 to 1 (`_SHARES`)."""
        return self.name.endswith(_SHARES)

    @property
    def differences(self) -> tuple[int | float | None, ...]:
        """Return each run's difference from the first, floats at 12 digits; None for words and bools, where a run lacks the
        fact, and everywhere if the first lacks it.
        """
        first, found = self.values[0], list[int | float | None]()
        for value in self.values:
            more = value - first if _is_number(first) and _is_number(value) else None  # type: ignore[operator]
            found.append(float(f"{more:.{_DIGITS}g}") if isinstance(more, float) else more)
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return name, values and `differs` as plain data, and `differences` if any value is a number."""
        told: dict[str, Any] = {"name": self.name, "values": list(self.values), "differs": self.differs}
        return told | ({"differences": list(self.differences)} if any(map(_is_number, self.values)) else {})


@frozen
class KernelFacts:
    """One kernel in all runs. `rows` has its index in each run's report, None for a run without the kernel.

    `groups` maps a kind of facts to its facts: "kernel", "waterfall", "stalls", "bytes", "instructions", "buffers", "tiling",
    "tensors"; a kind without facts is left out.
    """

    name: str
    rows: tuple[int | None, ...]
    groups: Mapping[str, tuple[Fact, ...]]

    @property
    def missing(self) -> bool:
        """Return True if some run has no such kernel."""
        return None in self.rows

    @property
    def differs(self) -> bool:
        """Return True if some run lacks the kernel, or any fact of it differs."""
        return self.missing or any(fact.differs for facts in self.groups.values() for fact in facts)

    def fact(self, group: str, name: str) -> Fact:
        """Return the fact `name` of a group. Raises KeyError for an unknown group or name."""
        for fact in self.groups[group]:
            if fact.name == name:
                return fact
        raise KeyError(name)

    @property
    def spread(self) -> float:
        """Return the difference in us between the runs in which the kernel takes longest and shortest; a run without it
        counts as 0.
        """
        times = [float(value or 0) for value in self.fact("kernel", "us").values]
        return max(times) - min(times)

    def to_dict(self) -> dict[str, Any]:
        """Return "name", "rows", "differs" and, under the name of each group, the list of its facts as plain data."""
        groups = {name: [fact.to_dict() for fact in facts] for name, facts in self.groups.items()}
        return {"name": self.name, "rows": list(self.rows), "differs": self.differs, **groups}


@frozen(eq=False, repr=False)
class RunComparison(ShownResult):
    """Comparison of runs side by side: facts of the whole `call`, of the `outputs` (verdicts and errors), and of every kernel.

    Kernels stand in the launch order of the first run that has them. Kernels of one name are paired in order: the second of a
    run with the second of another.
    """

    runs: tuple[OneRun, ...]
    call: tuple[Fact, ...]
    outputs: tuple[Fact, ...]
    kernels: tuple[KernelFacts, ...]

    _drawn = "ascend_sim.studies.compare.text:render"
    _more = "ascend_sim.studies.compare.text:tables"

    def __repr__(self) -> str:
        count = sum(kernel.differs for kernel in self.kernels)
        return f"<Comparison of {len(self.runs)} runs: {count} of {len(self.kernels)} kernels differ>"

    @property
    def same(self) -> bool:
        """Return True if no fact differs between the runs that have it, and every kernel is in all runs."""
        facts, kernels = (*self.call, *self.outputs), self.kernels
        return not any(one.differs for one in facts) and not any(one.differs for one in kernels)

    @property
    def without_values(self) -> str:
        """Return the reason why values are not compared; "" if all runs have values."""
        lacking = [letter for letter, run in zip(LETTERS, self.runs, strict=False) if not run.outputs]
        if not lacking:
            return ""
        return (
            f"values: not compared, {' and '.join(lacking)} without any (cases, chips and tilings run in timing mode); folders "
            "of `ascend-sim run CASE --out FOLDER` have them"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return "version", "same", "runs" (each "letter", "given", "kind"), "without_values" (the reason or ""), and lists of
        plain data: "call" and "outputs" of facts, "kernels" of kernels with their facts.

        Times are in us; waterfalls, and facts named cycles, are in cycles of each run's own clock.
        """
        names = zip(LETTERS, self.runs, strict=False)
        return {
            "version": VERSION,
            "same": self.same,
            "runs": [{"letter": letter, "given": run.label, "kind": run.kind} for letter, run in names],
            "call": [fact.to_dict() for fact in self.call],
            "outputs": [fact.to_dict() for fact in self.outputs],
            "without_values": self.without_values,
            "kernels": [kernel.to_dict() for kernel in self.kernels],
        }


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
