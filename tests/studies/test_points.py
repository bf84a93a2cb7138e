"""Work over a store and a pool: nothing twice, nothing lost, and what becomes of items whose process dies."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cloudpickle import register_pickle_by_value

from ascend_sim.errors import SimError
from ascend_sim.studies.points import finish
from ascend_sim.studies.pools import Failed, Processes
from ascend_sim.studies.store import Store

register_pickle_by_value(sys.modules[__name__])  # the pool's processes cannot import tests
ROOM = "studies.tiles"


class CountedWork:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, item: int) -> dict[str, Any]:
        self.asked.append(item)
        return {"square": item * item}


def store_at(path: Path) -> Store:
    return Store({"study": "points"}, path, room=ROOM)


@pytest.mark.fast
def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    path, work = tmp_path / "results.sqlite", CountedWork()
    items = {"a": 1, "b": 2, "c": 3}
    some = finish(store_at(path), items, work, Processes(1))
    assert next(some) == ("a", {"square": 1})
    some.close()
    assert dict(finish(store_at(path), items, work, Processes(1))) == {name: {"square": i * i} for name, i in items.items()}
    assert work.asked == [1, 2, 3]


@pytest.mark.fast
def test_what_another_process_is_at_is_waited_for_or_taken_over(tmp_path: Path) -> None:
    path, work = tmp_path / "results.sqlite", CountedWork()
    one, finishes, dies = store_at(path), store_at(path), store_at(path)
    assert finishes.claim("b") == "mine" == dies.claim("c")

    def later() -> None:
        while len(work.asked) < 1:
            time.sleep(0.01)
        finishes.add("b", {"square": -1})
        dies.close()

    thread = threading.Thread(target=later)
    thread.start()
    found = dict(finish(one, {"a": 1, "b": 2, "c": 3}, work, Processes(1)))
    thread.join()
    assert found == {"a": {"square": 1}, "b": {"square": -1}, "c": {"square": 9}}
    assert work.asked == [1, 3]


@pytest.mark.fast
def test_a_failure_is_told_and_not_kept(tmp_path: Path) -> None:
    path, outcomes = tmp_path / "results.sqlite", [Failed("no engine"), {"square": 1}]

    def work(item: int) -> Any:
        return outcomes.pop(0)

    assert dict(finish(store_at(path), {"a": 1}, work, Processes(1))) == {"a": Failed("no engine")}
    assert dict(finish(store_at(path), {"a": 1}, work, Processes(1))) == {"a": {"square": 1}}
    assert dict(finish(store_at(path), {"a": 1}, work, Processes(1))) == {"a": {"square": 1}} and not outcomes


@pytest.mark.fast
def test_an_error_of_the_work_ends_it(tmp_path: Path) -> None:
    def broken(item: int) -> dict[str, Any]:
        raise SimError("no such thing")

    with pytest.raises(SimError, match="no such thing"):
        dict(finish(store_at(tmp_path / "results.sqlite"), {"a": 1}, broken, Processes(1)))
    with pytest.raises(SimError, match="jobs is 0"):
        Processes(0)
