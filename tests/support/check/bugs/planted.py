"""Kernels in pairs: one with a mistake, its twin without, and what the checks must say of the first and of no other.

@planted("RAW UB", x(64), out(64))
def store_before_the_sum(k, source, target, *, bug):
    ...

`bug` says which of the two is written. A label is what a finding is about: its kind and, where it has one, its space.
`also` are labels that may stand beside it, as consequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import ascend_sim as asim
from ascend_sim.check.findings import CheckFinding, CheckReport
from ascend_sim.kernel.function import KernelFunction

COUPLED, SPLIT = ("ascend910a", "ascend310p3"), ("ascend910b3", "ascend950pr_9589")
ALL = COUPLED + SPLIT
VECTOR, CUBE = ("AI_CORE", "AIV"), ("AI_CORE", "AIC")


def x(*shape: int, dtype: str = "float32") -> Any:
    """A tensor with values."""
    return np.zeros(shape, dtype)


def out(*shape: int, dtype: str = "float32") -> Any:
    """A tensor that the kernel must fill."""
    return asim.empty(shape, dtype)


def work(*shape: int, dtype: str = "float32") -> Any:
    """A workspace."""
    return asim.empty(shape, dtype, workspace=True)


@dataclass(frozen=True)
class Pair:
    """A kernel with a mistake and without, and the labels that the mistake must get."""

    name: str
    kernel: KernelFunction
    labels: frozenset[str]
    also: frozenset[str]
    tensors: Sequence[Any]
    chips: Sequence[str]
    blocks: int
    fields: dict[str, Any] = field(default_factory=dict)

    def check(self, chip: str, *, bug: bool) -> CheckReport:
        """Check one of the two kernels."""
        return asim.check_kernel(self.kernel, self.blocks, *self.tensors, chip=chip, bug=bug, **self.fields)


PAIRS: list[Pair] = []


def planted(
    labels: str,
    *tensors: Any,
    chips: Sequence[str] = ALL,
    core: str | Sequence[str] = VECTOR,
    blocks: int = 1,
    also: str = "",
    all_cores: bool = False,
    **fields: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a pair; several labels are divided by commas, and a function may be entered more than once with other `fields`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        kernel = asim.kernel_function(core=core, all_cores=all_cores)(function)
        told = "".join(f" {name}={value}" for name, value in fields.items())
        PAIRS.append(Pair(function.__name__ + told, kernel, _set(labels), _set(also), tensors, chips, blocks, fields))
        return function

    return enter


def _set(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def label(finding: CheckFinding) -> str:
    """Return the label of a finding: "RAW UB", "illegal read GM", "redundant flag"."""
    space = finding.space if finding.tool != "synccheck" else ""
    return f"{finding.kind} {space}".strip()


def found(report: CheckReport) -> frozenset[str]:
    """The labels of all findings, and of memory that nobody uses."""
    return frozenset(map(label, [*report.findings, *report.unused]))


def order(k: Any, source: str, destination: str, name: str = "") -> None:
    """Order the work of `source` so far before the next work of `destination`."""
    flag = k.flag(source, destination, name or f"{source}->{destination}")
    k.set_flag(flag)
    k.wait_flag(flag)
