"""The store of results: what is kept, whose it is, and what becomes of claims when processes end."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ascend_sim.errors import SimError
from ascend_sim.studies.store import Store

pytestmark = pytest.mark.fast
WHAT = {"study": "test"}
ROOM = "studies.tiles"
CLAIMS_AND_WAITS = f"""
import sys, time
from pathlib import Path
from ascend_sim.studies.store import Store
store = Store({WHAT!r}, Path(sys.argv[1]), room={ROOM!r})
print(store.claim("x"), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.sqlite"


def opened(path: Path) -> Store:
    return Store(WHAT, path, room=ROOM)


def begun(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute("select name, begun from results").fetchall())


def test_the_folder_is_made(tmp_path: Path) -> None:
    opened(tmp_path / "new" / "deep" / "results.sqlite").close()
    assert (tmp_path / "new" / "deep" / "results.sqlite").is_file()
    (tmp_path / "file").touch()
    with pytest.raises(SimError, match=r"file/results.sqlite: cannot be used to store results: .*File exists"):
        opened(tmp_path / "file" / "results.sqlite")


def test_the_first_result_stays(path: Path) -> None:
    store = opened(path)
    assert store.add("x", {"us": 1.5}) and not store.add("x", {"us": 2.5})
    assert store.result("x") == {"us": 1.5} and store.result("y") is None
    store.close()
    assert opened(path).results() == {"x": {"us": 1.5}}


def test_another_study_has_other_results(path: Path) -> None:
    opened(path).add("x", {"us": 1.0})
    assert Store({"study": "other"}, path, room=ROOM).results() == {}
    assert Store(WHAT, path, room="studies.network").results() == {}, "made by other code"


def test_what_one_is_at_another_leaves(path: Path) -> None:
    one, other = opened(path), opened(path)
    assert one.claim("x") == "mine" and other.claim("x") == "theirs" and other.claim("y") == "mine"
    one.add("x", {})
    assert other.claim("x") == "done" == one.claim("x")


def test_a_claim_ends_with_its_store(path: Path) -> None:
    one, other = opened(path), opened(path)
    assert one.claim("x") == "mine"
    one.close()
    assert other.claim("x") == "mine" and other.add("x", {})
    other.close()
    assert begun(path) == {"x": 2}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="without locks on files a claim holds nobody back")
def test_a_claim_ends_with_a_killed_process(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", CLAIMS_AND_WAITS, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "mine\n"
    store = opened(path)
    assert store.claim("x") == "theirs"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert store.claim("x") == "mine"
    store.add("x", {})
    store.close()
    assert begun(path) == {"x": 2}
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "the dead one's lock is gone"


def test_a_full_disk_is_one_line_and_costs_nothing(path: Path) -> None:
    store = opened(path)
    store.add("x", {"us": 1.0})
    (pages,) = store._database.execute("pragma page_count").fetchone()
    store._database.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(SimError, match=r"results\.sqlite: cannot be written: database or disk is full") as caught:
        for number in range(200):
            store.add(f"y{number}", {"text": "z" * 1000})
    assert "\n" not in str(caught.value)
    kept = store.results()
    assert kept["x"] == {"us": 1.0}
    store._database.execute(f"pragma max_page_count = {pages + 1000}")
    assert store.add("later", {"us": 2.0})
    store.close()
    assert opened(path).results() == {**kept, "later": {"us": 2.0}}


def test_a_store_in_memory_claims_too() -> None:
    store = Store(WHAT, room=ROOM)
    assert store.claim("x") == "mine"
    store.add("x", {})
    assert store.claim("x") == "done"
    store.close()
