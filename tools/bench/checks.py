"""CPU time of a check beside that of a run with values: every case that ships, on every chip asked for that takes it.

Usage: python tools/bench/checks.py [--repeats N] [--seconds S] [--case CASE ...] [CHIP ...]

Both take turns, after one turn that does not count; medians are printed. `full` is the run alone, without its report and
verdict. A pair that has taken `--seconds` gets no further turn. Chips: one of each architecture, and a 910_93, unless named.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from ascend_sim.calls.cases import call_case
from ascend_sim.calls.checks import check_call
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.case_entries import Case

CASES = Path(__file__).parents[2] / "configs" / "cases"
CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend910_9391", "ascend950dt_9582")


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of some work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def pair(case: Case, chip: ChipSpec, repeats: int, seconds: float) -> tuple[float, float, int]:
    """Medians of CPU seconds of `full` and of the check, and of how many turns; AclnnError where the chip refuses the case."""
    values = make_tensors(case)
    fixed = {"tiling": case.tiling or None, "block_dim": case.block_dim or None}
    settings = fixed | {
        "cube_math_type": case.cube_math_type,
        "deterministic": case.deterministic,
        "conformance": case.conformance,
        "l2": case.l2,
    }
    turns: list[tuple[float, float]] = []
    end = time.process_time() + seconds
    for _ in range(repeats + 1):
        full = cpu(lambda: call_case(case, values, chip=chip, mode="full", **settings))
        turns.append((full, cpu(lambda: check_call(case, chip, **fixed))))
        if len(turns) > 1 and time.process_time() > end:
            break
    full, check = (statistics.median(times) for times in zip(*turns[1:], strict=True))
    return full, check, len(turns) - 1


def main() -> None:
    """A line for each pair, and the span of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chips", nargs="*", metavar="CHIP", default=CHIPS)
    parser.add_argument("--case", action="append", help="a case; all unless given")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    ratios = []
    print(f"{'case':24s} {'chip':18s} {'full, s':>8s} {'check, s':>8s} {'ratio':>6s} turns")
    for name in asked.case or sorted(path.stem for path in CASES.glob("*.yaml")):
        for chip in asked.chips:
            try:
                full, check, turns = pair(load_case(name), load_chip(chip), asked.repeats, asked.seconds)
            except AclnnError:
                continue
            ratios.append(check / full)
            print(f"{name:24s} {chip:18s} {full:8.3f} {check:8.3f} {ratios[-1]:6.2f} {turns:5d}", flush=True)
    if ratios:
        print(f"{len(ratios)} pairs: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
