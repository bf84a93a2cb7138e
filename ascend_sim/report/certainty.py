"""How sure a time is: where the measured times of 80 % of kernels like this one lie.

    sure = interval("dav-2201", "TransData", us=53.7)
    sure.low_us, sure.high_us, sure.kernels

`configs/measurements/errors.yaml` has measured over predicted times of kernels that were told nothing, by kind (architecture,
operator, grouped or not, version of the library) and network; `tools/measured_errors.py` makes it. The logarithm of such a
ratio is the sum of what a network has of its own and of what a kernel has. The former's variance is the same for all kinds and
pooled over those with several networks, so that a kind measured in one network alone is not taken for surer than it is; the
latter's is the kind's. The interval is a prediction interval of Student's t around the mean of the networks. It is that of
short or long kernels (`LONG_US`) where enough of either were measured. What was fitted on rows has seen them: on a
new kind of network errors are larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from statistics import NormalDist, fmean, variance
from typing import Any, NamedTuple

from ascend_sim.yaml_file import load_shipped

LEVEL = 0.8
"""Of the kernels of a kind, how many lie in its interval."""
LONG_US = 100
"""Predicted time from which a kernel counts as long: its launch is no large part of it (chosen, not fitted)."""
ENOUGH = 8
"""Kernels of a size that are enough for an interval of their own (chosen, not fitted)."""
_FEWEST = 2
"""Kernels below which nothing is known of how errors scatter."""

Errors = Mapping[str, Sequence[tuple[float, float]]]
"""Network -> its kernels of one kind: predicted us, and the logarithm of measured over predicted time."""


@dataclass(frozen=True)
class Kind:
    """Kernels whose errors are taken together; `library` is "" where the kernel does not depend on the version."""

    arch: str
    op_types: tuple[str, ...]
    grouped: bool = False
    library: str = ""
    errors: Errors = field(default_factory=dict, compare=False)

    def without(self, network: str) -> Kind:
        """The kind without a network's kernels."""
        rest = {name: found for name, found in self.errors.items() if name != network}
        return Kind(self.arch, self.op_types, self.grouped, self.library, rest)


class Interval(NamedTuple):
    """`low_us` .. `high_us`, from so many measured `kernels` of so many `networks`."""

    low_us: float
    high_us: float
    kernels: int
    networks: int


@cache
def kinds() -> tuple[Kind, ...]:
    """The measured kinds."""
    text = resources.files("ascend_sim.configs").joinpath("measurements/errors.yaml").read_text(encoding="utf-8")
    return tuple(
        Kind(
            one["arch"],
            tuple(one["op_types"]),
            one["grouped"],
            one["library"],
            {name: [(us, math.log(ratio)) for us, ratio in found] for name, found in one["errors"].items()},
        )
        for one in load_shipped(text)["kinds"]
    )


def interval(arch: str, op_type: str, us: float, *, grouped: bool = False, library: str = "") -> Interval | None:
    """The interval of a kernel that is predicted to take `us`; None where no or too few rows of its kind are measured."""
    for kind in kinds():
        if (kind.arch, kind.grouped, kind.library) == (arch, grouped, library) and op_type in kind.op_types:
            return of_errors(kind.errors, us, _shipped_between())
    return None


@cache
def _shipped_between() -> float:
    return between_networks(kinds())


def between_networks(every: Iterable[Kind]) -> float:
    """Variance of a network's own part, pooled over kinds with several networks by their degrees of freedom (moments)."""
    total, freedom = 0.0, 0
    for kind in every:
        found = [[error for _, error in rows] for rows in kind.errors.values()]
        if len(found) < 2:
            continue
        scattered = [variance(errors) for errors in found if len(errors) > 1]
        within = fmean(scattered) if scattered else 0.0
        own = variance([fmean(errors) for errors in found]) - within * fmean([1 / len(errors) for errors in found])
        total += max(own, 0.0) * (len(found) - 1)
        freedom += len(found) - 1
    return total / freedom if freedom else 0.0


def of_errors(errors: Errors, us: float, between: float) -> Interval | None:
    """The interval of `us` by these errors; None for too few."""
    sized = {name: [one for one in rows if (one[0] >= LONG_US) == (us >= LONG_US)] for name, rows in errors.items()}
    if sum(map(len, sized.values())) >= ENOUGH:
        errors = {name: rows for name, rows in sized.items() if rows}
    found = [[error for _, error in rows] for rows in errors.values()]
    kernels, networks = sum(map(len, found)), len(found)
    if kernels < _FEWEST:
        return None
    means = [fmean(rows) for rows in found]
    freedom = kernels - networks
    squares = sum((error - mean) ** 2 for rows, mean in zip(found, means, strict=True) for error in rows)
    within = squares / freedom if freedom else 0.0
    spread = math.sqrt(between * (1 + 1 / networks) + within * (1 + 1 / kernels))
    reach, middle = _student(kernels - 1) * spread, fmean(means)
    return Interval(us * math.exp(middle - reach), us * math.exp(middle + reach), kernels, networks)


def _student(freedom: int) -> float:
    """Quantile of Student's t that leaves (1 - LEVEL) / 2 on each side (Abramowitz and Stegun 26.7.5; 4 % low at freedom 1)."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def as_row(found: Interval | None) -> dict[str, Any] | None:
    """As a report has it."""
    if found is None:
        return None
    low, high = (round(us, 4) for us in found[:2])
    return {"low_us": low, "high_us": high, "kernels": found.kernels, "networks": found.networks}


def together(kernels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of kernels that have "task_us" and "interval": the interval of the time of those that have one.

    Bounds are added, as if all errors went the same way. "unmeasured" are the operators without measured rows, with their us.
    """
    rows = list(kernels)
    known = [row for row in rows if row["interval"]]
    unmeasured: dict[str, float] = {}
    for row in rows:
        if not row["interval"]:
            unmeasured[row["op_type"]] = round(unmeasured.get(row["op_type"], 0.0) + row["task_us"], 4)
    return {
        "of_us": round(sum(row["task_us"] for row in known), 4),
        "low_us": round(sum(row["interval"]["low_us"] for row in known), 4),
        "high_us": round(sum(row["interval"]["high_us"] for row in known), 4),
        "unmeasured_us": unmeasured,
    }


def words(total: Mapping[str, Any]) -> str:
    """What `together` says, in a line."""
    parts = []
    if total["of_us"]:
        parts.append(
            f"{100 * LEVEL:.0f} % interval of {total['of_us']:,.1f} us: {total['low_us']:,.1f} to {total['high_us']:,.1f} us"
        )
    if total["unmeasured_us"]:
        parts.append(
            "no measured rows: " + ", ".join(f"{name} {us:,.1f} us" for name, us in total["unmeasured_us"].items())
        )
    return "How sure: " + "; ".join(parts)
