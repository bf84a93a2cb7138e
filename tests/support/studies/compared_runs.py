"""A comparison as text, and one of its kernels."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ascend_sim.studies.compare.facts import RunComparison
from ascend_sim.studies.compare.text import render


def kernel_of(comparison: RunComparison, name: str) -> Any:
    return next(kernel for kernel in comparison.kernels if kernel.name == name)


def shown(comparison: RunComparison, **options: Any) -> str:
    console = Console(width=80, color_system=None, force_terminal=False)
    with console.capture() as captured:
        render(comparison, console, **{"full": True, **options})
    return captured.get()
