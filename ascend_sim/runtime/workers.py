"""Many independent simulations over the cores of the machine, results in the order of the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from ascend_sim.engine.engine import Progress
from ascend_sim.errors import AclnnError, SimError

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def usable_cores() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(
    function: Callable[[Item], Outcome],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    name: str = "",
    progress: Progress | None = None,
) -> list[Outcome]:
    """`function` of every item, in the order of `items`; an error of one ends all.

    With `jobs` above 1 fresh processes share the work: `function` and what goes in and out must pickle, and a script that
    calls this must guard its own start (`if __name__ == "__main__"`). `progress(name, done, total)` hears of each result.
    Raises SimError for fewer than 1 jobs.
    """
    if jobs < 1:
        raise SimError(f"jobs is {jobs}; allowed is a whole number from 1")
    total = len(items)
    if min(jobs, total) <= 1:
        results = []
        for item in items:
            results.append(function(item))
            if progress is not None:
                progress(name, len(results), total)
        return results
    # Fresh processes, not forks: a progress bar's thread would leave its locks behind in a fork.
    with ProcessPoolExecutor(min(jobs, total), mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_answer, function, item) for item in items]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                refused = future.result()[1]
                if refused is not None:
                    raise AclnnError(*refused)
                if progress is not None:
                    progress(name, done, total)
        except BrokenProcessPool:
            raise SimError(f"one of {jobs} worker processes died, perhaps for lack of memory; try fewer") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result()[0] for future in futures]  # type: ignore[misc]


def _answer(function: Callable[[Item], Outcome], item: Item) -> tuple[Outcome | None, tuple[int, str] | None]:
    """The result, or status and message of a refused call: its exception has two arguments, which pickle forgets."""
    try:
        return function(item), None
    except AclnnError as error:
        return None, (error.status, error.message)
