"""Named results computed by a pool and kept in a store: existing ones are not computed again, new ones are kept at once.

    for name, data in finish(store, {"a": 1, "b": 2}, work, Processes(2)):
        ...

`work` returns plain data. The process may be killed at any moment; the next call computes the missing results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

from ascend_sim.engine.engine import Progress
from ascend_sim.studies.pools import Failed, Items, Pool
from ascend_sim.studies.store import Store

_LOOK_SECONDS = 0.2


class Finished(NamedTuple):
    """Results by name; `reused` of them were in the store, and an interrupt left others out unless they are `complete`."""

    results: dict[str, dict[str, Any] | Failed]
    reused: int
    complete: bool


def finish_all(
    store: Store,
    items: Mapping[str, Any],
    work: Callable[[Any], dict[str, Any] | Failed],
    pool: Pool,
    name: str,
    progress: Progress | None,
) -> Finished:
    """Return the results of `finish`, and close the store; `progress` is called with `name`, the number of results so far, and
    that of all items.

    An interrupt (Ctrl-C) ends the work: the results so far are returned. Before the first result it is raised.
    """
    found: dict[str, dict[str, Any] | Failed] = {}
    complete = True
    try:
        reused = len(store.results().keys() & items.keys())
        if progress is not None and reused:
            progress(name, reused, len(items))
        with closing(finish(store, items, work, pool)) as done:
            for one, data in done:
                found[one] = data
                if progress is not None and len(found) > reused:
                    progress(name, len(found), len(items))
    except KeyboardInterrupt:
        if not found:
            raise
        complete = False
    finally:
        store.close()
    return Finished(found, reused, complete)


def finish(
    store: Store, items: Mapping[str, Any], work: Callable[[Any], dict[str, Any] | Failed], pool: Pool
) -> Generator[tuple[str, dict[str, Any] | Failed]]:
    """Yield (name, data) of every item: first those in the store, then the result of `work` of the others as each is done.

    Failed is not kept: another time the same work may succeed. Items that another process is computing are waited for,
    and computed here if it dies. Raises errors of `work` and of the store.
    """
    known = store.results()
    for name in items:
        if name in known:
            yield name, known[name]
    waiting = [name for name in items if name not in known]
    while waiting:
        left: list[str] = []
        claimed = _claimed(store, items, waiting, left)
        first = next(claimed, None)
        if first is not None:
            with closing(pool.run(work, chain((first,), claimed))) as outcomes:
                for name, outcome in outcomes:
                    if not isinstance(outcome, Failed):
                        store.add(name, outcome)
                    yield name, outcome
        waiting = []
        for name in left:
            found = store.result(name)
            if found is None:
                waiting.append(name)
            else:
                yield name, found
        if waiting:
            time.sleep(_LOOK_SECONDS)


def _claimed(store: Store, items: Mapping[str, Any], names: list[str], left: list[str]) -> Items:
    """Claim `names` one by one for this process in the store and yield (name, item) of each that it gets.

    The other names, which another process holds or has finished, are appended to `left`.
    """
    for name in names:
        if store.claim(name) == "mine":
            yield name, items[name]
        else:
            left.append(name)
