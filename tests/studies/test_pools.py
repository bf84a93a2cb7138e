"""Pools of processes: what becomes of their items, their signals and their scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.errors import SimError
from ascend_sim.studies.points import finish
from ascend_sim.studies.pools import Cluster, Failed, Processes
from ascend_sim.studies.store import Store
from tests.support.places import ROOT

ROOM = "studies.tiles"


def store_at(path: Path) -> Store:
    return Store({"study": "points"}, path, room=ROOM)


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
@pytest.mark.parametrize("address", ["here", "tcp://", "http://localhost:1", "tcp://localhost:nine", "tcp://127.0.0.1:1"])
def test_a_scheduler_that_is_none_is_one_line(address: str) -> None:
    if find_spec("distributed") is None:
        pytest.skip("without Dask no address is looked at")
    with pytest.raises(SimError, match=r"^scheduler ") as caught:
        Cluster(address, ROOM)
    assert address in str(caught.value) and "\n" not in str(caught.value)
