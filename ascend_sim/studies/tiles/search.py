"""The search: tilings in the order of their bounds, until no bound is below the fewest cycles found or those of the call.

    kernel = CubeKernel.of(accept_case(load_case("resnet50_conv2_3x3"), chip), chip, "grad_input")
    outcome = search(kernel)
    outcome.best["fields"], outcome.best["cycles"], outcome.sentence

Every tiling first has a bound from its numbers. One that comes to its turn gets a sharper bound from the program of one block;
the lowest of those is simulated next, but no longer than a tiling may take that is to be shown. The simulator's own choice is
simulated before all others.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from math import isinf
from typing import Any, Unpack

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.memory.sizes import whole_number
from ascend_sim.ops.kernels.tilings import TILINGS, settable
from ascend_sim.options.description import filled
from ascend_sim.runtime.workers import spread_as_done
from ascend_sim.studies.store import Store
from ascend_sim.studies.tiles.bounds import Tiling
from ascend_sim.studies.tiles.kernel import CubeKernel, Fields, TilingLaunch
from ascend_sim.studies.tiles.options import LimitOptions
from ascend_sim.studies.tiles.outcome import WHY, Reason, Result, SearchOutcome
from ascend_sim.studies.tiles.store import key, store_of

_AHEAD = 16
"""Sharper bounds between two simulations, at most: what is simulated early rules out much of what follows."""
_HELD = 2 * _AHEAD
"""Launches of tilings with sharper bounds that are held for their simulation: a block of each is built."""
_NAMED = {"own", "call"}
"""Names of results in a store that are not tilings of the grid."""
_TELL_SECONDS = 0.2
_TOGETHER = 2048
"""Tilings that get their bounds together, at most; fewer where listing them takes longer than `_TELL_SECONDS`."""


@frozen
class State:
    """Progress of a search: number of simulated tilings, stopped and stored ones included, fewest cycles so far (None before
    the first), number of tilings that may beat them, their lowest bound (None without any).
    """

    simulated: int
    best: int | None
    open: int
    least: int | None


def search(
    kernel: CubeKernel,
    fixed: Mapping[str, Any] | None = None,
    *,
    store: Store | None = None,
    jobs: int = 1,
    progress: Callable[[State], None] | None = None,
    **limits: Unpack[LimitOptions],
) -> SearchOutcome:
    """Find the tiling with the fewest cycles among those of the grid that fit; `fixed` are fields by the vendor's names. `jobs`
    processes simulate; `progress` is called with the State.

    After `limit` new simulations no further one begins; after `seconds` the search ends where it is. The simulator's own choice
    comes first, whatever the limits. With `within` (a share, 0.01 is 1 %) tilings that can only be better by less are left out.
    With `top` a simulation is stopped once `top` tilings, the own choice not counted, are known to take fewer cycles: the first
    `top` results stay the same, the others are only known to be slower. Results go to `store` (None: kept in memory) as they
    come, and results in it are not simulated again. An interrupt (Ctrl-C) ends the search as a limit does; before the own
    choice and the call's kernel are simulated it is raised. Raises TilingError for fields that no tiling can have; SimError for
    fewer than 1 `jobs`, where no tiling of the grid fits, or without a result.
    """
    whole_number(jobs, "jobs", 1)
    run = _Search(kernel, dict(fixed or {}), store or store_of(kernel), filled(LimitOptions, limits), progress)
    return run.outcome(jobs)


class _Search:
    def __init__(
        self, kernel: CubeKernel, fixed: Fields, store: Store, limits: LimitOptions, progress: Callable[[State], None] | None
    ) -> None:
        self.begin = time.monotonic()
        self.kernel, self.fixed, self.store, self.progress = kernel, fixed, store, progress
        self.limit, self.seconds = limits["limit"], limits["seconds"]
        self.within, self.top = limits["within"], limits["top"]
        self.started = 0
        self.reason: Reason = "done"
        self.best: int | None = None
        self.found: dict[str, Result] = {}
        self.slower: dict[str, int] = {}
        """Tilings whose simulation was stopped, and the cycles that they take more than."""
        self.inp = kernel.inp
        self.tilings: list[Tiling] = []
        self.blocks: list[int] = []
        self.rough: list[tuple[int, int]] = []
        self.sharp: list[tuple[int, int]] = []
        self.bound_of_started: dict[int, int] = {}
        self.launches: dict[int, TilingLaunch] = {}
        self._told = self.begin
        self._tell()
        listed = kernel.grid(fixed)
        first = next(listed, None)
        if first is None:
            kernel.launch(fixed)  # raises if these fields do not fit
            having = f" with {', '.join(f'{name} = {value}' for name, value in fixed.items())}" if fixed else ""
            raise SimError(f"{kernel.name}: no tiling of the grid fits{having}, only smaller ones")
        self.bounds = kernel.bounds()
        self.before, self.stopped_before = _apart(store.results())
        self.own = self._own()
        self.call = self._in_call()
        self.listed = self._list(chain((first,), listed))
        heapq.heapify(self.rough)

    def _list(self, tilings: Iterator[Tiling]) -> bool:
        """Record every tiling of the grid with its bound and its stored result; return False if the time limit or an
        interrupt ended that.

        Stored results of tilings that were not reached are recorded then.
        """
        known = self.before.keys() - _NAMED
        try:
            while some := self._some(tilings):
                least, blocks = self.bounds.least(some)
                first = len(self.tilings)
                self.tilings += some
                self.rough += zip(least.tolist(), range(first, len(self.tilings)), strict=True)
                self.blocks += blocks.tolist()
                for name in (self._name(number) for number in range(first, len(self.tilings)) if known):
                    if name in known:
                        self._keep(name, self.before[name])
                if time.monotonic() - self._told > _TELL_SECONDS:
                    self._tell()
                if self._late():
                    self.reason = "time"
                    break
            else:
                return True
        except KeyboardInterrupt:
            self.reason = "interrupted"
        for name, result in self.before.items():  # results of an earlier search for tilings that were not listed
            if name not in _NAMED and self._fixed_in(result["fields"]):
                self._keep(name, result)
        return False

    def _fields(self, number: int) -> Fields:
        """Return the fields of tiling `number` by the vendor's names, as a user sets them."""
        return settable(self.tilings[number], self.inp)

    def _name(self, number: int) -> str:
        return key(self._fields(number))

    def _some(self, tilings: Iterator[Tiling]) -> list[Tiling]:
        """Return the next tilings of the grid: at most 2,048, ending after 0.2 s or at the time limit; [] at the grid's end."""
        begin, some = time.monotonic(), []
        for one in tilings:
            some.append(one)
            if len(some) == _TOGETHER or self._late() or time.monotonic() - begin > _TELL_SECONDS:
                break
        return some

    def _late(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.begin >= self.seconds

    def _fixed_in(self, fields: Mapping[str, Any]) -> bool:
        return all(fields.get(field) == value for field, value in self.fixed.items())

    def _own(self) -> Result:
        """Return the result of the simulator's own choice of fields, simulated and stored unless it is in the store.

        It becomes one of the search's results unless fixed fields exclude it.
        """
        result = self.before.get("own")
        if result is None:
            launch = TilingLaunch(*self.kernel.launch({}))
            result = self.kernel.simulate({}, None, launch)
            tiling = TILINGS[self.kernel.name].from_vendor(result["tiling"])
            rough, block = self.bounds.with_block(tiling)
            bound = max(self.kernel.sharper_bound(self.bounds, {}, block, launch), *rough.values())
            result |= {"fields": settable(tiling, self.inp), "bound": bound}
            self.store.add("own", result)
        if self._fixed_in(result["tiling"]):
            self._keep(key(result["fields"]), result)
        return result

    def _in_call(self) -> Result:
        """Return the result of the kernel that the call launches: stored, the own choice's if both are equal, or simulated
        now and stored.
        """
        result = self.before.get("call")
        if result is None:
            launch = TilingLaunch(*self.kernel.launch(None))
            task, tiling = launch.task, self.own["tiling"]
            if (task.op_type, task.block_dim, task.info["tiling"]) == (self.own["op_type"], self.own["blocks"], tiling):
                return {**self.own, "ladder": task.info["ladder"]}
            result = self.kernel.simulate(None, None, launch)
            if "baseM" in result["tiling"]:  # fields of the case
                result["fields"] = settable(TILINGS[self.kernel.name].from_vendor(result["tiling"]), self.inp)
            self.store.add("call", result)
        return result

    def _keep(self, name: str, result: Result) -> None:
        self.found.setdefault(name, result)
        if self.best is None or result["cycles"] < self.best:
            self.best = result["cycles"]

    def _beats(self, bound: int) -> bool:
        """Return True if a tiling with this bound might take fewer cycles than the kernel of the call and the best by more than
        `within`, or nothing was simulated.
        """
        return self.best is None or bound < min(self.best, self.call["cycles"]) * (1 - self.within)

    def pending(self) -> Iterator[int]:
        """Yield the numbers of the tilings to simulate, the lowest bound first, one by one as processes become free.

        It ends at the limit, at the time, or when no tiling that is left may beat the best and the kernel of the call.
        """
        ahead = 0
        while self._worth(self.rough) or self._worth(self.sharp):
            full = self.limit is not None and self.started >= self.limit
            if full or self._late():
                self.reason = "limit" if full else "time"
                return
            if self._worth(self.rough) and (not self.sharp or (self.rough[0] < self.sharp[0] and ahead < _AHEAD)):
                bound, number = heapq.heappop(self.rough)
                if not self._known(self._name(number)):
                    heapq.heappush(self.sharp, (max(bound, self._sharper(number)), number))
                    ahead += 1
                continue
            ahead = 0
            bound, number = heapq.heappop(self.sharp)
            if self._beats(bound):
                self.started += 1
                self.bound_of_started[number] = bound
                yield number

    def _sharper(self, number: int) -> int:
        """Return the sharper bound of tiling `number`; its launch is held for the simulation, and beyond 32 the oldest is
        dropped.
        """
        fields = self._fields(number)
        self.launches[number] = TilingLaunch(*self.kernel.launch(fields))
        if len(self.launches) > _HELD:
            del self.launches[next(iter(self.launches))]
        return self.kernel.sharper_bound(self.bounds, fields, self.blocks[number], self.launches[number])

    def _enough(self) -> int | None:
        """Return the cycles beyond which a simulation is stopped: those of the `top`-th best result, the simulator's own choice
        not counted.

        None, for no limit, without `top` or as long as there are fewer results.
        """
        if self.top is None:
            return None
        own = key(self.own["fields"])
        others = heapq.nsmallest(self.top, (result["cycles"] for name, result in self.found.items() if name != own))
        return others[-1] if len(others) == self.top else None

    def _known(self, name: str) -> bool:
        """Return True if the tiling called `name` needs no further simulation: this search has its result or stopped it, or an
        earlier search stopped it after at least as many cycles as `_enough` returns.

        The latter is then added to `slower`.
        """
        if name in self.found or name in self.slower:
            return True
        told = self.stopped_before.get(name)
        enough = None if told is None else self._enough()
        if told is None or enough is None or told < enough:
            return False
        self.slower[name] = told
        return True

    def _worth(self, queue: list[tuple[int, int]]) -> bool:
        return bool(queue) and self._beats(queue[0][0])

    def outcome(self, jobs: int) -> SearchOutcome:
        self._tell()
        if not self.listed:
            return self._outcome()
        until = None if self.seconds is None or isinf(self.seconds) else self.begin + self.seconds
        here = jobs == 1 and until is None
        # Asked for one at a time: what is worth simulating next depends on what has come back.
        work = (
            # Another process makes a launch of its own.
            (number, self._fields(number), self._enough(), self.launches.pop(number, None) if here else None)
            for number in self.pending()
        )
        try:
            with closing(spread_as_done(partial(_simulate, self.kernel), work, jobs=jobs, until=until)) as done:
                for _, (number, result) in done:
                    name = self._name(number)
                    kept = {**result, "bound": self.bound_of_started.pop(number)}
                    if "slower_than" in kept:
                        self.slower[name] = kept["slower_than"]
                        self.store.add(f"{name} slower than {kept['slower_than']}", kept)
                    else:
                        self.store.add(name, kept)
                        self._keep(name, kept)
                    self._tell()
        except KeyboardInterrupt:
            self.reason = "interrupted"
        if self.bound_of_started and self.reason == "done":  # begun simulations have no result
            self.reason = "time"
        return self._outcome()

    def _open(self) -> list[int]:
        """Return the bounds of all tilings without a result that might still beat the best one, begun ones included."""
        waiting = [one for one in (*self.rough, *self.sharp) if self._beats(one[0])]
        started = [bound for bound in self.bound_of_started.values() if self._beats(bound)]
        return [bound for bound, number in waiting if not self._known(self._name(number))] + started

    def _tell(self) -> None:
        self._told = time.monotonic()
        if self.progress is not None:
            left = self._open()
            self.progress(State(len(self.found) + len(self.slower), self.best, len(left), min(left, default=None)))

    def _outcome(self) -> SearchOutcome:
        left = self._open()
        if not self.found:
            raise SimError(f"{self.kernel.name}: {WHY[self.reason]} before anything was simulated")
        results = sorted(self.found.values(), key=lambda result: (result["cycles"], result["bound"], key(result["fields"])))
        own, before = self.own["fields"], {*self.before, *([key(self.own["fields"])] if "own" in self.before else [])}
        block = own["baseM"], own["baseK"], own["baseN"]
        alike = (i for i, one in enumerate(self.tilings) if (one.base_m, one.base_k, one.base_n) == block)
        extra = key(own) in self.found and not any(self._fields(number) == own for number in alike)
        return SearchOutcome(
            self.kernel,
            self.fixed,
            tuple(results),
            self.call,
            self.own,
            len(self.tilings) + extra,
            len(self.found.keys() & before),
            len(left),
            min(left, default=None),
            self.within,
            self.reason,
            time.monotonic() - self.begin,
            self.listed,
            len(self.slower),
        )


def _apart(results: Mapping[str, Result]) -> tuple[dict[str, Result], dict[str, int]]:
    """Return ({name: result that ended}, {name of a stopped tiling: most cycles that it is known to exceed}) of stored
    results.
    """
    ended = {name: result for name, result in results.items() if "slower_than" not in result}
    stopped: dict[str, int] = {}
    for result in results.values():
        if "slower_than" in result:
            name = key(result["fields"])
            stopped[name] = max(stopped.get(name, 0), result["slower_than"])
    return ended, stopped


def _simulate(kernel: CubeKernel, item: tuple[int, Fields, int | None, TilingLaunch | None]) -> tuple[int, Result]:
    """Simulate one tiling and return (its number, result); often in a worker process. Raises SimError that names the tiling.

    `item` is (number, fields, cycles after which to stop or None, the tiling's launch if it exists already).
    """
    number, fields, most, launch = item
    try:
        return number, kernel.simulate(fields, most, launch)
    except SimError as error:
        raise SimError(f"{kernel.name} with {key(fields)}: {error}") from None
