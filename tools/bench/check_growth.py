"""Growth of checks: CPU time and peak memory beside those of `full`, of own kernels that double in length or in cores.

Usage: python tools/bench/check_growth.py [--sizes N] [CASE ...]

Each kernel at `--sizes` sizes, each twice as long as the one before; each size, and each of check and `full`, in a process of
its own. Printed are CPU seconds and megabytes beyond those of the start, what doubling makes of a check (`doubled`, to be at
most 2.2), check over `full` (at most 2), and how much faster its memory grows (at most 2). The kernels are those of
`growing_kernels.py` and `growing_mistakes.py`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

from growing_mistakes import CASES

import ascend_sim as asim


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _run(name: str, size: int, how: str, results: Connection) -> None:
    first, make = CASES[name]
    for now in (max(first // 8, 2), size):  # what is loaded once is not measured
        sized = make(now)
        before, begin = _peak(), time.process_time()
        try:
            if how == "check":
                report = asim.check_kernel(sized.kernel, sized.blocks, *sized.tensors, **sized.fields)
                found = report.rows, [(one.kind, one.count) for one in report.findings]
            else:
                asim.launch(sized.kernel, sized.blocks, *sized.tensors, mode="full", **sized.fields)
                found = 0, []
        except asim.SimError:
            if now == size:
                results.send(None)
                return
    results.send((time.process_time() - begin, _peak() - before, *found))


def measured(name: str, size: int, how: str) -> tuple[float, float, int, list[tuple[str, int]]] | None:
    """CPU seconds, megabytes, rows and findings, in a process of its own; None where it cannot run."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(name, size, how, send))
    process.start()
    send.close()
    try:
        return receive.recv()  # type: ignore[no-any-return]
    except EOFError:
        return None
    finally:
        process.join()


def lines(name: str, sizes: int) -> Iterator[str]:
    """A line for each size."""
    first, _ = CASES[name]
    before: list[Any] = [None, None]
    for size in (first << step for step in range(sizes)):
        check, full = measured(name, size, "check"), measured(name, size, "full")
        cells = [f"{name:24s} {size:6d}"]
        if check is None:
            yield f"{cells[0]} fails"
            continue
        found = ", ".join(f"{count} {kind}" for kind, count in check[3][:3])
        cells.append(f"{check[2]:8d} {check[0]:7.2f} {check[1]:6.0f}")
        cells.append(f"{full[0]:7.2f} {full[1]:6.0f}" if full else f"{'-':>7s} {'-':>6s}")
        cells.append(f"{check[0] / before[0][0]:7.2f}" if before[0] else f"{'':7s}")
        cells.append(f"{check[0] / full[0]:6.2f}" if full else f"{'-':>6s}")
        more = (check[1] - before[0][1], full[1] - before[1][1]) if full and all(before) else (0.0, 0.0)
        cells.append(f"{more[0] / more[1]:6.2f}" if more[1] > 0 else f"{'':6s}")
        yield " ".join((*cells, found))
        before = [check, full]


def main() -> None:
    """All cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--sizes", type=int, default=4)
    asked = parser.parse_args()
    unknown = [name for name in asked.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    print(f"{'kernel':24s} {'size':>6s} {'rows':>8s} check,s     MB  full,s     MB doubled  ratio memory")
    for name in asked.cases or CASES:
        for line in lines(name, asked.sizes):
            print(line, flush=True)


if __name__ == "__main__":
    main()
