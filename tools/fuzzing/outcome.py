"""Outcomes of fuzzed calls, and the interface of the three kinds of calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FuzzOutcome:
    """`labels` are what calls are counted by, in the order of the kind's LABELS; `wrong` is None where nothing is."""

    labels: tuple[str, ...]
    wrong: str | None = None


class TooLong(BaseException):
    """A call that exceeds its time; no `except Exception` catches it."""


class FuzzKind(Protocol):
    """A module: call `index` of `seed` is always the same, whatever ran before."""

    LABELS: tuple[str, ...]
    SECONDS: float
    """Longest CPU time that one call may take; a machine that is busy with other work is no fault of the call."""

    @staticmethod
    def run(seed: int, index: int) -> FuzzOutcome:
        """Draw the call, make it and judge what comes back."""

    @staticmethod
    def line(seed: int, index: int) -> str:
        """The call as one line for a shell."""
