"""Random calls in numbers: every one has to end in a status or in the right result, and none may crash or hang.

phase-one: argument tuples through both GetWorkspaceSize functions, checks, plan and tilings included;
calls: small whole calls of all operators from Python, values against an oracle, both engines;
acl: programs of the C interface, right ones and misuse.

Call I of a seed is the same whenever it is drawn. With --resume what was done stands in a file, and a run that was killed goes
on where it was.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fuzzing import acl_programs, calls, phase_one, pool
from fuzzing.outcome import FuzzKind, FuzzOutcome
from fuzzing.store import StoreError, Tally, load

KINDS: dict[str, FuzzKind] = {"phase-one": phase_one, "calls": calls, "acl": acl_programs}
BLOCK = 5000
"""Calls of one child process at most: each loads every chip that it meets once more."""
SAVE_EACH = 5.0
"""Seconds between two versions of the file."""
SHOWN = 10
"""Wrong calls that are printed; the file has all."""


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    def at_least(least: int) -> Callable[[str], int]:
        def whole(text: str) -> int:
            if not text.isdecimal() or int(text) < least:
                raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}")
            return int(text)

        return whole

    parser = argparse.ArgumentParser(
        prog="tools/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("calls", nargs="?", type=at_least(1), default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=at_least(0), help="which (default: 0, or that of the file)")
    parser.add_argument("--jobs", type=at_least(1), default=os.cpu_count(), help="processes (default: one a core)")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="go on with this file, which is made where it is missing")
    parser.add_argument("--again", type=at_least(0), metavar="I", help="only call I, in this process")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """1 where a call was wrong, 2 for a file that is none, 130 when interrupted."""
    options = arguments(given)
    kind = KINDS[options.kind]
    if options.again is not None:
        print(kind.line(options.seed or 0, options.again))
        outcome, seconds = pool.one(kind, options.seed or 0, options.again)
        print(f"{' '.join(outcome.labels)}: {outcome.wrong or 'nothing wrong'}, {seconds * 1000:.0f} ms")
        return outcome.wrong is not None
    try:
        tally = Tally(options.kind, options.seed or 0, kind.LABELS)
        if options.resume is not None:
            tally = load(options.resume, options.kind, options.seed, kind.LABELS)
    except StoreError as error:
        print(f"tools/fuzz: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also where a shell has told its job to ignore SIGINT
    ended = _run(kind, tally, options)
    print("\n".join(summary(tally)))
    return 130 if not ended else bool(tally.wrong)


def _run(kind: FuzzKind, tally: Tally, options: argparse.Namespace) -> bool:
    """Make the missing calls; whether they came to their end."""
    saved = time.monotonic()

    def report(index: int, outcome: FuzzOutcome, seconds: float) -> None:
        nonlocal saved
        tally.add(index, outcome, seconds, kind.line(tally.seed, index) if outcome.wrong else None)
        if options.resume is not None and time.monotonic() - saved > SAVE_EACH:
            tally.save(options.resume)
            saved = time.monotonic()

    try:
        block = min(BLOCK, -(-options.calls // options.jobs))
        pool.run(kind, tally.seed, tally.missing(options.calls, block), options.jobs, report)
        return True
    except KeyboardInterrupt:
        return False
    finally:
        if options.resume is not None:
            tally.save(options.resume)


def summary(tally: Tally) -> list[str]:
    """Lines for a terminal: counts by each label, cost, what was wrong."""
    calls = tally.calls
    lines = [f"{tally.kind}, seed {tally.seed}: {calls:,} calls, {len(tally.wrong)} wrong"]
    for label in tally.labels:
        counts = ", ".join(f"{name} {count:,}" for name, count in tally.by(label).most_common())
        lines.append(f"  by {label}: {counts}")
    if calls:
        seconds, index = tally.slowest
        mean, most = tally.cpu / calls * 1000, seconds * 1000
        lines.append(f"  {tally.cpu:.0f} s of CPU, {mean:.1f} ms a call, the slowest {most:.0f} ms (call {index})")
    for row in tally.wrong[:SHOWN]:
        lines += [f"  call {row['index']}: {row['said']}", f"    {row['line']}"]
    if len(tally.wrong) > SHOWN:
        lines.append(f"  and {len(tally.wrong) - SHOWN} more")
    return lines


if __name__ == "__main__":
    sys.exit(main())
