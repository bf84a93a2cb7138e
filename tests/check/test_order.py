"""Order against a graph that is searched pair by pair, on random programs; and against hazards that runs show."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.check.questions import nearest
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.watch import watched
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, LOCAL, TRANSFER, WAIT
from tests.support.check.naive_order import pairs_of, retired_before, unordered
from tests.support.check.random_programs import CHIP, random_program, subject_of


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(30))
def test_what_is_unordered_is_what_a_search_of_the_graph_finds(seed: int) -> None:
    """A check names for each access the first that is unordered: none that the search does not find, and one where it does."""
    program = random_program(seed)
    subject = subject_of(program)
    found = {space: (one.first, one.second) for space, one in subject.disorder.items()}
    told = pairs_of(found, {space: a.row for space, a in subject.accesses.items()})
    wanted = unordered(program)
    assert told <= wanted
    places = {(row, space) for a, b, space in wanted for row in (a, b)}
    named = {(row, space) for a, b, space in told for row in (a, b)}
    assert bool(told) == bool(wanted) and named <= places
    neighbours = set()
    for space, (first, second) in found.items():
        a = subject.accesses[space]
        pairs = nearest(a, first, second, subject.order.clocks)
        neighbours |= {(min(x), max(x)) for x in zip(a.row[pairs[0]].tolist(), a.row[pairs[1]].tolist(), strict=True)}
    assert neighbours <= {(a, b) for a, b, _ in wanted}


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_without_some_waits_is_known_what_a_search_without_them_reaches(seed: int) -> None:
    """The first events alone know as much; those behind them know no less than in the whole program."""
    program = random_program(100 + seed)
    subject = subject_of(program)
    items = subject.order.matches.items
    waits = items.row[np.isin(items.kind, (WAIT, BARRIER, BARRIER_ALL))]
    rng = np.random.default_rng(seed)
    pipes = program.per_row("pipe")
    works = np.flatnonzero(np.isin(program.per_row("kind"), (LOCAL, TRANSFER)))
    of, others = (side.ravel() for side in np.meshgrid(works, works))
    place = subject.synced[0].place[others]
    for count in (1, 4):
        left_out = rng.permutation(waits)[:count].tolist()
        reached = retired_before(program, left_out)
        wanted = [other in reached[row] for row, other in zip(of.tolist(), others.tolist(), strict=True)]
        order, out = subject.order, np.isin(items.row, left_out)
        part = order.part(np.flatnonzero(items.row[order.events.item] < 20), out)
        clocks = order.without({0: left_out}).clocks_in("UB"), part
        whole, early = (one.known(np.zeros_like(of), of, pipes[others]) > place for one in clocks)
        assert whole.tolist() == wanted
        assert (early[of < 20] == whole[of < 20]).all() and (early >= whole).all()


@pytest.mark.parametrize("seed", range(60))
def test_an_ordered_program_shows_no_hazard_when_it_runs(seed: int) -> None:
    """Whatever the costs are: what a run finds lies within what is unordered."""
    program = random_program(seed, 4 + seed % 12)
    subject = subject_of(program)
    timeline = Engine(Device(CHIP, with_values=False)).run([subject.task])
    hazards = watched(timeline).findings
    found = any(len(one.first) for one in subject.disorder.values())
    assert found or not hazards


def test_some_random_programs_are_in_order_and_some_are_not() -> None:
    """Else the two tests above would prove little."""
    unordered_ones = [
        any(len(one.first) for one in subject_of(random_program(seed, 4 + seed % 12)).disorder.values()) for seed in range(60)
    ]
    assert 5 < sum(unordered_ones) < 55
