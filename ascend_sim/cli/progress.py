"""Progress of long work on a terminal: one line, with the time left; a log shows nothing of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from ascend_sim.runtime.outlook import Outlook

PROGRESS_AFTER_SECONDS = 1.0
"""Work that ends sooner shows no progress line, except with `at_once`."""
LONG_SECONDS = 60.0
"""If more than these seconds are left, a line that stays says so."""


def announce(name: str, ahead: Callable[[], Outlook], then: str = "") -> None:
    """Print on a terminal how long the work ahead takes, if that is known and more than `LONG_SECONDS`; `then` is added to the
    line.

    `ahead` returns the estimate. It is called only if stderr is a terminal, because it runs one block of each kernel.
    """
    if not sys.stderr.isatty():
        return
    with ProgressLine(f"{name}: trying a block of each kernel"):
        outlook = ahead()
    if outlook.seconds is not None and outlook.seconds > LONG_SECONDS:
        lasting = f"{about(outlook.seconds)} at the pace of a block of each kernel"
        say(f"{name}: {outlook.instructions:,} instructions, {lasting}{then} (Ctrl-C ends it)")


def say(text: str) -> None:
    """Print a line on stderr that stays. No progress line may be open: the text would be glued to it."""
    from rich.console import Console

    Console(stderr=True).print(text, highlight=False, markup=False, soft_wrap=True)


class Closing:
    """Base of the lines of progress, which close at the end of a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the line; a second call does nothing."""
        raise NotImplementedError


class Progress(Closing):
    """A progress line on a terminal: work done, elapsed time, time left; shows nothing in a log.

    Call it with (name, done, total). `at_once` shows it from the start; else after `PROGRESS_AFTER_SECONDS`. If more than
    `LONG_SECONDS` are left, a line that stays says so once.
    """

    def __init__(self, unit: str = "blocks", *, at_once: bool = False) -> None:
        self._unit = unit
        self._begin = time.monotonic()
        self._bar: Bar | None = None
        self._task: Any = None
        self._counted: tuple[str, int, float] | None = None
        self._told = False
        if at_once and sys.stderr.isatty():
            self._show(f"preparing {unit}")

    def __call__(self, name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty() or (self._bar is None and now - self._begin < PROGRESS_AFTER_SECONDS):
            return
        if self._counted is None or self._counted[0] != name or done < self._counted[1]:
            self._counted = (name, done, now)  # what was done before is not a measure of the rate
        self._show(f"{name}: {self._unit}")
        assert self._bar is not None
        _, first, since = self._counted
        left = None if done <= first or now <= since else (total - done) * (now - since) / (done - first)
        self._bar.update(self._task, description=f"{name}: {self._unit}", completed=done, total=total, left=words(left))
        if left is not None and left > LONG_SECONDS and not self._told:
            self._told = True
            said = f"{name}: {done} of {total} {self._unit} done; {words(left)} (Ctrl-C ends it)"
            self._bar.console.print(said, highlight=False, markup=False)

    def _show(self, text: str) -> None:
        if self._bar is not None:
            return
        from rich import progress as bars
        from rich.console import Console

        columns = (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=20),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[left]}"),
        )
        self._bar = bars.Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(text, total=None, left="")
        self._bar.start()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def words(seconds: float | None) -> str:
    """Return the time left in words, "about 40 s left"; "" for None."""
    return "" if seconds is None else f"{about(seconds)} left"


def about(seconds: float) -> str:
    """Return a time in words: "about 40 s" (below 90 s), "about 12 min" (below 90 min), "about 3.5 h"."""
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


class ProgressLine(Closing):
    """A line on a terminal that shows a text and the time left; shows nothing in a log.

    The first time that more than `LONG_SECONDS` are left, a line that stays says so.
    """

    def __init__(self, text: str) -> None:
        self._begin = time.monotonic()
        self._status: Any = None
        self._told = False
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()

    def __call__(self, text: str, left: float | None = None, *, at_most: bool = False) -> None:
        """Show `text` and the seconds `left`, if known; with `at_most` these are an upper limit."""
        if self._status is None:
            return
        rest = words(left).replace("about", "at most") if at_most else words(left)
        from rich.text import Text

        self._status.update(Text(", ".join(filter(None, (text, rest))), no_wrap=True, overflow="ellipsis"))
        if left is not None and left > LONG_SECONDS and not self._told:
            self._told = True
            self._status.console.print(f"{text}; {rest} (Ctrl-C ends it)", highlight=False, markup=False)

    @property
    def seconds(self) -> float:
        """Return the seconds since the line began."""
        return time.monotonic() - self._begin

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
