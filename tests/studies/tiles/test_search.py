"""The search: the same optimum as simulating everything, limits, and going on after an end of any kind."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from rich.console import Console

from ascend_sim.errors import SimError, TilingError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.convolution.case import attributes_of
from ascend_sim.ops.kernels.tilings import settable
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import load_network
from ascend_sim.studies import store as stores
from ascend_sim.studies.tiles import pages
from ascend_sim.studies.tiles.command import kernels_of, parse_fields
from ascend_sim.studies.tiles.outcome import SearchOutcome
from ascend_sim.studies.tiles.search import State, search
from ascend_sim.studies.tiles.store import key, store_of
from tests.support.places import ROOT
from tests.support.sampling import part_of_cases
from tests.support.studies.searched import KERNELS, kernel, problems

SMALL = {"n": 2, "c_in": 16, "c_out": 32, "size": 5}
FEW = {"al1Pbuffer": 2, "cl0Pbuffer": 1}
"""Fields that keep the space of a small problem small."""


_LONG = pytest.mark.slow
TEN = (
    pytest.param("grad_input", {"n": 1, "size": 4, "k": 1, "pad": 0}, id="one tap"),
    pytest.param("grad_input", {"n": 2, "size": 4}, id="3x3"),
    pytest.param("grad_input", {"n": 1, "c_in": 20, "size": 5, "k": 2, "stride": 2}, id="stride", marks=_LONG),
    pytest.param("grad_input", {"n": 2, "c_in": 32, "size": 4, "groups": 2, "l2": "cold"}, id="groups", marks=_LONG),
    pytest.param("grad_input", {"n": 1, "size": 6, "dtype": "float32", "chip": "ascend910b4"}, id="fp32", marks=_LONG),
    pytest.param("grad_weight", {"n": 1, "size": 4}, id="dW 3x3"),
    pytest.param("grad_weight", {"n": 2, "c_in": 3, "size": 5}, id="dW 3 channels"),
    pytest.param("grad_weight", {"n": 3, "c_out": 5, "size": 4, "k": 2, "stride": 2, "l2": "cold"}, id="dW stride"),
    pytest.param("grad_weight", {"n": 2, "c_out": 32, "size": 3, "deterministic": True}, id="dW fixed order", marks=_LONG),
    pytest.param("grad_weight", {"n": 2, "size": 5, "k": 2, "chip": "ascend910a"}, id="dW 910"),
)


@part_of_cases(3)
@pytest.mark.parametrize(("name", "problem"), TEN)
def test_the_best_of_a_whole_grid_is_that_of_simulating_all_of_it(name: str, problem: dict[str, Any]) -> None:
    found = kernel(name, **problem)
    cycles = {key(fields): found.simulate(fields)["cycles"] for fields, _ in found.tilings()}
    outcome = search(found)
    own_alone = key(outcome.own["fields"]) not in cycles  # the own choice may lie off the grid
    assert outcome.best["cycles"] == min([*cycles.values(), outcome.own["cycles"]])
    assert outcome.reason == "done" and outcome.fit == len(cycles) + own_alone
    for result in outcome.results:
        assert cycles.get(key(result["fields"]), outcome.own["cycles"]) == result["cycles"]


def check_a_grid(name: str, problem: dict[str, Any]) -> None:
    """The search against the simulation of every tiling, with some fields given."""
    try:
        found = kernel(name, **problem)
    except SimError:  # a MatMul
        assume(False)
    own = found.simulate({})["tiling"]
    fixed = FEW | {field: own[field] for field in ("baseN", "baseK", "bl1Pbuffer")}
    cycles = [found.simulate(fields)["cycles"] for fields, _ in found.tilings(fixed)]
    outcome = search(found, fixed)
    assert outcome.best["cycles"] == min(cycles)
    assert outcome.open == 0 and outcome.reason == "done"
    assert outcome.fit - len(cycles) in (0, 1)  # the own choice may lie off the grid
    assert outcome.sentence == f"{outcome.fit:,} fit, {len(outcome.results):,} simulated, the rest cannot be better"


@settings(max_examples=3, deadline=None)
@given(KERNELS, problems())
def test_the_best_is_that_of_simulating_every_tiling(name: str, problem: dict[str, Any]) -> None:
    check_a_grid(name, problem)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(KERNELS, problems())
def test_the_best_is_that_of_simulating_every_tiling_at_length(name: str, problem: dict[str, Any]) -> None:
    check_a_grid(name, problem)


def test_the_best_is_never_slower_than_the_own_choice_and_can_be_set() -> None:
    found = kernel("grad_input", **SMALL)
    outcome = search(found, FEW)
    assert outcome.best["cycles"] <= outcome.own["cycles"]
    assert found.simulate(outcome.best["fields"])["cycles"] == outcome.best["cycles"]
    assert [result["cycles"] for result in outcome.results] == sorted(result["cycles"] for result in outcome.results)
    assert all(result["bound"] <= result["cycles"] for result in outcome.results)
    assert len(outcome.results) < outcome.fit, "the bounds ruled nothing out"


def test_limits_say_how_much_better_the_rest_might_be() -> None:
    found = kernel("grad_input", **SMALL)
    outcome = search(found, limit=1)
    assert outcome.reason == "limit" and len(outcome.results) == 2 and outcome.open > 0
    assert repr(outcome).startswith("<Outcome of grad_input on ") and len(repr(outcome)) < 150
    assert outcome.least is not None and outcome.least < outcome.best["cycles"]
    gap = 100 * (1 - outcome.least / outcome.best["cycles"])
    assert outcome.sentence.endswith(f"{outcome.open:,} might be better, by at most {gap:.1f} %")
    assert search(found, seconds=0.0).reason == "time"
    assert search(found, FEW, seconds=float("inf")).reason == "done"
    near = search(found, within=0.5)
    assert near.reason == "done" and len(near.results) == 1
    assert near.sentence.endswith("the rest cannot be better by more than 50 %")


def test_within_looks_only_at_what_gains_more() -> None:
    """The own choice is within 2 % of the best bound that is left: nothing else is simulated, where a whole search goes on."""
    found = kernel("grad_input", n=1, size=4, k=1, pad=0)
    every, near = search(found, FEW), search(found, FEW, within=0.02)
    assert len(near.results) == 1 < len(every.results)
    assert every.best["cycles"] >= near.best["cycles"] * 0.98


STOPPED = {
    "grad_input": ({"n": 2, "c_out": 32, "size": 5}, FEW | {"baseM": 16, "baseN": 16, "bl1Pbuffer": 2}),
    "grad_weight": ({"n": 2, "c_in": 32, "c_out": 64}, FEW),
    "own among the best": ({"n": 2, "c_in": 32, "c_out": 32}, {"al1Pbuffer": 1, "bl1Pbuffer": 1, "cl0Pbuffer": 2}),
}
"""Problems, and the fields that make their spaces small, of which some tilings are stopped once better ones are known."""


@part_of_cases(0, "grad_input-grad_input", "own among the best")
@pytest.mark.parametrize(
    ("name", "which", "engine"),
    [
        ("grad_input", "grad_input", "auto"),
        ("grad_weight", "grad_weight", "simpy"),
        ("grad_weight", "own among the best", "auto"),
    ],
)
def test_what_is_stopped_is_slower_than_all_that_is_shown(
    name: str, which: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulated tilings and the printed table are equal with and without an end to slow ones."""
    monkeypatch.setenv("ASCEND_SIM_ENGINE", engine)
    problem, fixed = STOPPED[which]
    found = kernel(name, **problem)
    store = store_of(found)
    whole, cut = search(found, fixed), search(found, fixed, top=2, store=store)
    assert cut.slower > 0 and cut.simulated == whole.simulated and cut.open == whole.open == 0
    assert table(whole) == table(cut)
    ends = {key(result["fields"]): result["cycles"] for result in whole.results}
    stopped = [result for result in store.results().values() if "slower_than" in result]
    assert len(stopped) == cut.slower
    for result in stopped:
        assert cut.results[1]["cycles"] <= result["slower_than"] < ends[key(result["fields"])]


def table(outcome: SearchOutcome) -> str:
    """The two best tilings as they are printed, without the sentence above."""
    screen = Console(file=StringIO(), width=200)
    pages.render(outcome, screen, 2)
    return screen.file.getvalue().partition("\n")[2]  # type: ignore[attr-defined]


def test_a_store_knows_what_was_stopped_and_ends_it_when_more_is_wanted(tmp_path: Path) -> None:
    problem, fixed = STOPPED["grad_input"]
    found = kernel("grad_input", **problem)
    outcomes, written = [], []
    for top in (2, 2, 5, None):
        store = store_of(found, tmp_path / "results.sqlite")
        before = len(store.results())
        outcomes.append(search(found, fixed, top=top, store=store))
        written.append(len(store.results()) - before)
        store.close()
    first, again, more, every = outcomes
    assert written[1] == 0 < written[2] and again.results == first.results
    assert (again.simulated, again.slower) == (first.simulated, first.slower)
    assert first.slower > more.slower > every.slower == 0
    alone = search(found, fixed)
    assert every.results == alone.results and more.results[:5] == alone.results[:5] and first.results[:2] == alone.results[:2]


def test_what_was_stopped_before_the_best_that_are_shown_now_is_simulated_again() -> None:
    """The second best was stopped where only the best was wanted; three others are known, all slower than it."""
    problem, fixed = STOPPED["grad_input"]
    found = kernel("grad_input", **problem)
    every, store = search(found, fixed), store_of(found)
    store.add("own", every.own)
    best, second, *others = every.results
    for result in (best, *others[:2]):
        store.add(key(result["fields"]), result)
    store.add("second", {"fields": second["fields"], "slower_than": best["cycles"], "bound": second["bound"]})
    again = search(found, fixed, store=store, top=3)
    assert second["bound"] < best["cycles"] < second["cycles"] < others[1]["cycles"]
    assert again.results[:3] == every.results[:3]


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    found = kernel("grad_input", **SMALL)
    store = store_of(found, tmp_path / "results.sqlite")

    def stop(state: State) -> None:
        if state.simulated == 4:
            raise KeyboardInterrupt

    outcome = search(found, store=store, progress=stop)
    assert outcome.reason == "interrupted" and len(outcome.results) == 4
    late = search(found, store=store, seconds=0.0)  # ends before it comes to them
    assert late.reason == "time" and late.reused == len(late.results) == 4
    assert sorted(r["cycles"] for r in late.results) == sorted(r["cycles"] for r in outcome.results)
    again = search(found, store=store, limit=3)
    assert again.reused == 4 and len(again.results) == 7


@pytest.mark.fast
def test_fixed_fields_hold_for_the_best_and_not_for_the_own_choice() -> None:
    found = kernel("grad_input", **SMALL)
    outcome = search(found, {"baseM": 32, "baseN": 16, "baseK": 48} | FEW, limit=4)
    assert {(r["fields"]["baseM"], r["fields"]["baseN"]) for r in outcome.results} == {(32, 16)}
    assert outcome.own["fields"]["baseM"] != 32
    with pytest.raises(TilingError, match=r"L0A: baseM\*baseK\*2"):
        search(found, {"baseM": 4096, "baseN": 16, "baseK": 16})


@pytest.mark.fast
def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text(
        "this is a text and not a database, of more than a hundred bytes so that nobody mistakes it for an empty one"
    )
    with pytest.raises(SimError, match=r"results\.sqlite: cannot be used to store results: file is not"):
        store_of(kernel("grad_input", **SMALL), path)
    assert path.read_text().startswith("this is a text")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("update results set begun = begun + 1", "the result of x was changed after it was written"),
        ("update results set data = '{\"cycles\": 7}'", "the result of x was changed after it was written"),
        ("update results set data = 'no json'", "the result of x was changed after it was written"),
        ("update results set data = x'00', begun = 'many'", "the result of x was changed after it was written"),
        ("update results set digest = ''", "the result of x was changed after it was written"),
        ("update results set name = 'y'", "the result of y was changed after it was written"),
        ("alter table results drop column digest", "no such column: digest"),
        ("pragma user_version = 1", "results of version 1; this ascend-sim writes version 2"),
        ("pragma user_version = 9", "results of version 9; this ascend-sim writes version 2"),
    ],
)
def test_a_changed_store_is_told(tmp_path: Path, change: str, said: str) -> None:
    path, found = tmp_path / "results.sqlite", kernel("grad_input", **SMALL)
    store = store_of(found, path)
    store.add("x", {"cycles": 10})
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(change)
    with pytest.raises(SimError) as caught:
        store_of(found, path).results()
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and said in message and "\n" not in message


@pytest.mark.fast
@pytest.mark.parametrize("source", ["tilings.yaml", "operators/convolution_backward.yaml"])
def test_a_search_is_another_one_when_a_table_of_the_package_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """YAML decides tilings and times as sources do; a store must not serve results of before."""
    found = kernel("grad_input", **SMALL)
    configs = tmp_path / "configs"
    shutil.copytree(ROOT / "configs", configs)
    monkeypatch.setattr(stores, "files", lambda package: configs)
    digests = []
    for text in ("", "# a word more\n"):
        with (configs / source).open("a") as file:
            file.write(text)
        stores.code_digest.cache_clear()
        store = store_of(found, tmp_path / "results.sqlite")
        digests.append(store.results())
        store.add("x", {"cycles": 1})
        store.close()
    stores.code_digest.cache_clear()
    assert digests == [{}, {}]


def rows(path: Path) -> list[tuple[Any, ...]]:
    """Every result in the order in which it was written."""
    with sqlite3.connect(path) as database:
        return database.execute("select rowid, study, name, data from results order by rowid").fetchall()


def test_a_killed_search_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGKILL in the middle: what was finished is there, once, and is not simulated again."""
    command = [
        sys.executable, "-m", "ascend_sim", "tile", "fp32_keep", "--kernel", "grad_input", "--out", str(tmp_path),
        "--field", "baseM=48,baseK=48,cl0Pbuffer=1,al1Pbuffer=2,stepKa=3", "--jobs", "2", "--json",
    ]  # fmt: skip
    path = tmp_path / "results.sqlite"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while (not path.exists() or _count(path) < 5) and time.monotonic() < deadline:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    before = rows(path)
    assert len(before) >= 5
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    after = rows(path)
    assert after[: len(before)] == before and len(after) > len(before)
    assert len({row[1:3] for row in after}) == len(after)
    assert f"{len(before) - 1} results were there before" in done.stderr  # all but the own choice, which has another baseM
    (found,) = kernels_of(load_case("fp32_keep"), ["ascend910b3"], "grad_input")
    fixed = parse_fields(["baseM=48,baseK=48,cl0Pbuffer=1,al1Pbuffer=2,stepKa=3"], ["grad_input"])["grad_input"]
    alone = search(found, fixed)
    best = min(int(row[0]) for row in _cycles(path))
    assert alone.best["cycles"] == best


def _cycles(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as database:
        return database.execute("select json_extract(data, '$.cycles') from results where name != 'own'").fetchall()


def _count(path: Path) -> int:
    try:
        with sqlite3.connect(path) as database:
            return int(database.execute("select count(*) from results").fetchone()[0])
    except sqlite3.OperationalError:  # its tables are not there yet
        return 0


def test_the_own_choice_given_back_is_the_same_kernel() -> None:
    for name in ("grad_input", "grad_weight"):
        found = kernel(name, **SMALL)
        outcome = search(found, limit=0)
        assert found.simulate(outcome.own["fields"])["cycles"] == outcome.own["cycles"]
        assert set(outcome.own["fields"]) == set(settable(next(found.tilings())[1], found.inp))


def resnet50_layers() -> list[Layer]:
    """Every 3x3 of ResNet-50 once: those of equal sizes are one problem."""
    threes = [layer for layer in load_network("resnet50").layers if (layer.weight.shape or ())[2:] == (3, 3)]
    return list({(layer.input, layer.weight, layer.stride): layer for layer in threes}.values())


@pytest.mark.slow
@pytest.mark.parametrize("layer", resnet50_layers(), ids=lambda layer: layer.name)
@pytest.mark.parametrize("name", ["grad_input", "grad_weight"])
def test_resnet50_is_never_slower_than_the_own_choice(name: str, layer: Layer) -> None:
    """All 3x3 layers, batch 32; what it printed and the time it took are in docs/tiling-search.md."""
    attributes = attributes_of(layer)
    found = kernel(
        name,
        n=32,
        c_in=layer.weight.shape[1],
        c_out=layer.weight.shape[0],
        size=layer.input.shape[2],
        stride=attributes["stride"][0],
        pad=attributes["padding"][0],
        dtype=layer.dtype,
    )
    outcome = search(found, jobs=2, limit=32)
    own, best = outcome.own["cycles"], outcome.best["cycles"]
    gain = 100 * (best / own - 1)
    print(f"{layer.name} {name}: {outcome.sentence}; {own:,} -> {best:,} ({gain:+.1f} %), {outcome.seconds:.0f} s")
    assert best <= own
    assert found.simulate(outcome.best["fields"])["cycles"] == best
