"""Pools for many independent computations: processes of this machine (joblib), or a Dask cluster.

A pool takes named items one by one, as it has room for them, and returns each outcome as it is ready. A process that dies takes
no result with it: its items are begun again, and an item over which processes keep dying comes back as `Failed`.
"""

from __future__ import annotations

import logging
import socket
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, suppress
from importlib.util import find_spec
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from ascend_sim.engine.choice import chosen_engine
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.memory.sizes import whole_number
from ascend_sim.runtime.workers import WorkerDied, apart, begin_worker, forget_typed_in_main, interrupts_held
from ascend_sim.studies.store import code_digest

Function = Callable[[Any], Any]
Items = Iterator[tuple[str, Any]]
_DEATHS = 2
"""Deaths of a pool while an item is under way, after which that item runs alone: one more is its own."""
_AHEAD = 2
"""Items under way for each process, so that none waits for the next."""
_CONNECT_SECONDS = 4
"""Seconds to wait for an answer; Dask itself would wait for half a minute."""
_LOOK_SECONDS = 0.5
_QUIET = "ignore:resource_tracker:UserWarning"
"""Filter for warnings of joblib's helper process about folders of a killed command, which it removes."""


@frozen
class Failed:
    """Outcome that must not be stored, with the reason: the processes that tried the item died, or the function returned it for
    a failure that another run may not have.
    """

    why: str


class Pool:
    """Interface of a pool of workers that compute independent items; `run` may be called again when it has finished."""

    def run(self, function: Function, items: Items) -> Generator[tuple[str, Any]]:
        """Yield (name, `function` of the item) for every (name, item), as each is ready; Failed where the processes that tried
        it died.

        An error that the function raises is raised here and ends the run.
        """
        raise NotImplementedError


@frozen
class Processes(Pool):
    """Pool of `jobs` processes of this machine; with one job the work is done in this process.

    Raises SimError for fewer jobs than 1.
    """

    jobs: int

    def __post_init__(self) -> None:
        whole_number(self.jobs, "jobs", 1)

    def run(self, function: Function, items: Items) -> Generator[tuple[str, Any]]:
        if self.jobs == 1:
            for name, item in items:
                yield name, function(item)
            return
        forget_typed_in_main()
        chosen_engine()  # reports the engine once, here
        try:
            yield from self._through_deaths(function, items)
        finally:  # joblib would keep its processes for the next call
            from joblib.externals.loky import get_reusable_executor

            with interrupts_held():  # a second one would leave processes behind
                get_reusable_executor(reuse=True, kill_workers=True).shutdown(wait=True, kill_workers=True)

    def _through_deaths(self, function: Function, items: Items) -> Generator[tuple[str, Any]]:
        """Yield (name, outcome) of every item; items that were under way when a process died are started again.

        An item during which processes died twice runs alone in a process, and is Failed if that dies too.
        """
        deaths: dict[str, int] = {}
        again: dict[str, Any] = {}
        while True:
            under_way: dict[str, Any] = {}
            try:
                yield from self._run(function, chain(again.items(), items), under_way)
                return
            except BrokenProcessPool:
                again = {}
                for name, item in under_way.items():
                    deaths[name] = deaths.get(name, 0) + 1
                    if deaths[name] < _DEATHS:
                        again[name] = item
                    else:
                        yield name, _alone(function, item)

    def _run(self, function: Function, items: Items, under_way: dict[str, Any]) -> Generator[tuple[str, Any]]:
        """Yield (name, outcome) of the items as each is ready, keeping those without outcome in `under_way`.

        Raises BrokenProcessPool when a process dies.
        """
        from joblib import Parallel, delayed

        if _QUIET not in sys.warnoptions:
            sys.warnoptions.append(_QUIET)

        def taken() -> Iterator[Any]:
            for name, item in items:
                under_way[name] = item
                yield delayed(_named)(function, name, item)

        parallel = Parallel(
            n_jobs=self.jobs,
            backend="loky",
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch=_AHEAD * self.jobs,
            initializer=begin_worker,
        )
        with warnings.catch_warnings(), ExitStack() as stack:
            warnings.simplefilter("ignore")  # an early end and dead workers, which are reported here
            with interrupts_held():  # joblib loses the processes of a start that is broken off
                outcomes = stack.enter_context(closing(parallel(taken())))
            for name, outcome in outcomes:
                del under_way[name]
                yield name, outcome


def _alone(function: Function, item: Any) -> Any:
    try:
        return apart(function, item)
    except WorkerDied as death:
        return Failed(f"its process died {_DEATHS + 1} times, at last alone: {death}")


def _named(function: Function, name: str, item: Any) -> tuple[str, Any]:
    return name, function(item)


@frozen
class Cluster(Pool):
    """The workers of the Dask scheduler at `address`, which must have the ascend-sim of this process.

    `room` is the package of the function that runs, "studies.sweep". Raises SimError without the extra `dask`, for a malformed
    address, for a scheduler that does not answer, and when it goes away during a run.
    """

    address: str
    room: str

    def __post_init__(self) -> None:
        if find_spec("distributed") is None:
            raise SimError("--scheduler needs Dask, which is not installed: pip install distributed")
        parts = urlsplit(self.address)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme not in ("tcp", "tls", "ws", "wss") or not parts.hostname or port is None:
            raise SimError(f"scheduler {self.address!r}: allowed is tcp://HOST:PORT, as dask scheduler prints it")
        try:
            socket.create_connection((parts.hostname, port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            raise SimError(f"scheduler {self.address}: no answer: {error.strerror or error}") from None

    def run(self, function: Function, items: Items) -> Generator[tuple[str, Any]]:
        from distributed import Client, wait

        for logger in ("distributed", "distributed.client"):  # errors are reported here
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        try:
            client = Client(self.address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise SimError(f"scheduler {self.address}: {error}") from None
        digest, under_way = code_digest(self.room), dict[Any, tuple[str, Any]]()

        def give(name: str, item: Any) -> None:
            made = client.submit(_same_code, digest, self.room, function, item, pure=False, retries=0)
            under_way[made] = (name, item)

        try:
            while True:
                room = _AHEAD * max(sum(client.ncores().values()), 1)
                while len(under_way) < room and (following := next(items, None)) is not None:
                    give(*following)
                if not under_way:
                    return
                with suppress(TimeoutError), client.as_current():
                    wait(list(under_way), timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
                if client.status != "running" or client.scheduler is None:
                    raise OSError("no connection")
                for future in [one for one in under_way if one.status != "pending"]:
                    name, item = under_way.pop(future)
                    if future.status == "finished":
                        yield name, future.result()
                    elif future.status == "error":
                        yield name, self._failed(future.exception())
                    else:  # lost: nobody has it any more
                        give(name, item)
        except (OSError, TimeoutError, CancelledError):  # the connection was lost
            raise SimError(f"the scheduler {self.address} was lost; finished results are kept") from None
        finally:
            with suppress(Exception):
                client.cancel(list(under_way), force=True)
            with suppress(Exception):
                client.close(timeout=1)

    def _failed(self, error: BaseException) -> Failed:
        """Return Failed for an item during which Dask's workers kept dying; raise any other error."""
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return Failed("the Dask workers that tried it died, perhaps for lack of memory")
        raise error


def _same_code(digest: str, room: str, function: Function, item: Any) -> Any:
    """Return `function` of the item, on a cluster's worker.

    Raises SimError if the package there has other code than the caller's.
    """
    if code_digest(room) != digest:
        raise SimError(f"the Dask worker on {socket.gethostname()} has another version of ascend-sim")
    return function(item)
