"""What a terminal shows of work that takes long; a log shows nothing of it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PROGRESS_AFTER_SECONDS = 2.0


class Progress:
    """A bar on a terminal for work longer than two seconds; silent in a log."""

    def __init__(self, unit: str = "blocks") -> None:
        self._unit = unit
        self._begin = time.monotonic()
        self._bar: Bar | None = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, name: str, done: int, total: int) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._begin < PROGRESS_AFTER_SECONDS:
            return
        if self._bar is None:
            from rich import progress as bars
            from rich.console import Console

            columns = (
                bars.TextColumn("{task.description}"),
                bars.BarColumn(),
                bars.MofNCompleteColumn(),
                bars.TimeElapsedColumn(),
            )
            self._bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(f"{name}: {self._unit}", total=total)
        self._bar.update(self._tasks[name], completed=done)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Status:
    """A line on a terminal that says where long work stands; silent in a log."""

    def __init__(self) -> None:
        self._status: Any = None

    def __call__(self, text: str) -> None:
        if not sys.stderr.isatty():
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def close(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None
