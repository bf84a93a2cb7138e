"""Work over a store and a pool: nothing twice, nothing lost, and what becomes of items whose process dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cloudpickle import register_pickle_by_value

from ascend_sim.errors import SimError
from ascend_sim.studies.points import finish
from ascend_sim.studies.pools import Cluster, Failed, Processes
from ascend_sim.studies.store import Store
from tests.support.places import ROOT

register_pickle_by_value(sys.modules[__name__])  # the pool's processes cannot import tests
ROOM = "studies.tiles"


class Work:
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
    path, work = tmp_path / "results.sqlite", Work()
    items = {"a": 1, "b": 2, "c": 3}
    some = finish(store_at(path), items, work, Processes(1))
    assert next(some) == ("a", {"square": 1})
    some.close()
    assert dict(finish(store_at(path), items, work, Processes(1))) == {
        name: {"square": i * i} for name, i in items.items()
    }
    assert work.asked == [1, 2, 3]


@pytest.mark.fast
def test_what_another_process_is_at_is_waited_for_or_taken_over(tmp_path: Path) -> None:
    path, work = tmp_path / "results.sqlite", Work()
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


def fragile(item: tuple[str, str]) -> dict[str, Any]:
    """Dies over "poison" always, over "once" the first time."""
    kind, folder = item
    if kind == "poison":
        os._exit(3)
    if kind == "once":
        try:
            (Path(folder) / "died").touch(exist_ok=False)
        except FileExistsError:
            return {"kind": kind}
        os._exit(3)
    return {"kind": kind}


@pytest.mark.slow
def test_a_dead_process_costs_its_own_item_at_most(tmp_path: Path) -> None:
    names = ["plain 0", "once", "poison", "plain 1", "plain 2"]
    items = {name: (name, str(tmp_path)) for name in names}
    store = store_at(tmp_path / "results.sqlite")
    found = dict(finish(store, items, fragile, Processes(2)))
    why = found.pop("poison")
    assert isinstance(why, Failed) and "died 3 times" in why.why and "(exit code 3)" in why.why
    assert found == {name: {"kind": name} for name in names if name != "poison"} == store.results()


@pytest.mark.parametrize("way", ["pool", "alone"])
def test_a_process_that_comes_up_does_not_hear_an_interrupt(way: str) -> None:
    """A terminal sends Ctrl-C to all of them, and one that is still at its imports would answer with a traceback.

    In an interpreter of its own, where no helper process of multiprocessing runs yet: its start lets interrupts through.
    """
    script = f"""
import signal, sys
sys.path.append({str(ROOT)!r})
from ascend_sim.runtime.workers import apart
from ascend_sim.studies.pools import Processes
from tests.support.interrupts import held_back
if __name__ == "__main__":
    found = apart(held_back, 0) if {way == "alone"} else dict(Processes(2).run(held_back, iter([("a", 0)])))["a"]
    print(found, [number.name for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())])
"""
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
    assert shown.stdout == "['SIGINT'] []\n"


@pytest.mark.fast
@pytest.mark.parametrize(
    "address", ["here", "tcp://", "http://localhost:1", "tcp://localhost:nine", "tcp://127.0.0.1:1"]
)
def test_a_scheduler_that_is_none_is_one_line(address: str) -> None:
    if find_spec("distributed") is None:
        pytest.skip("without Dask no address is looked at")
    with pytest.raises(SimError, match=r"^scheduler ") as caught:
        Cluster(address, ROOM)
    assert address in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.fast
def test_an_error_of_the_work_ends_it(tmp_path: Path) -> None:
    def broken(item: int) -> dict[str, Any]:
        raise SimError("no such thing")

    with pytest.raises(SimError, match="no such thing"):
        dict(finish(store_at(tmp_path / "results.sqlite"), {"a": 1}, broken, Processes(1)))
    with pytest.raises(SimError, match="jobs is 0"):
        Processes(0)
