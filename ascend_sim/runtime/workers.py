"""Worker processes for many independent simulations.

Worker processes end with the one that started them, however it ends: an interrupt or an error kills them before it goes on its
way, and a worker whose parent is gone (SIGKILL) ends itself.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar, cast

from ascend_sim.engine.choice import chosen_engine, leave_the_word_to_another
from ascend_sim.engine.engine import Progress
from ascend_sim.errors import SimError
from ascend_sim.host import beyond, held_memory, memory_limit
from ascend_sim.memory.sizes import whole_number

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

# Fresh processes, not forks: a progress bar's thread would leave its locks behind in a fork.
_CONTEXT = get_context("spawn")
_EVERY_SECONDS = 0.2
_ENDINGS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a command."""
_TOO_MUCH_MEMORY = 99
"""Exit code of a worker that held more than the memory limit."""


def usable_cores() -> int:
    """Return the number of CPUs that this process may use."""
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
    """Return `function` of every item, in the order of `items`; `jobs` processes share them as in `spread_as_done`.

    A single item is computed in this process. `progress(name, done, total)` is called after each item.
    """
    found: dict[int, Outcome] = {}
    with closing(spread_as_done(function, items, jobs=min(jobs, max(len(items), 1)))) as outcomes:
        for number, outcome in outcomes:
            found[number] = outcome
            if progress is not None:
                progress(name, len(found), len(items))
    return [found[number] for number in range(len(items))]


def spread_as_done(
    function: Callable[[Item], Outcome], items: Iterable[Item], *, jobs: int = 1, until: float | None = None
) -> Generator[tuple[int, Outcome]]:
    """Yield (index in `items`, `function` of the item) as each is done; the first error is raised and ends the run.

    The next item is fetched when a process is free, so that `items` may depend on earlier results. At the time `until` (of
    `time.monotonic`) it ends, even if work is under way. With `jobs` above 1, or with `until`, fresh processes do the work:
    `function`, items and results must pickle, and a script that calls this must guard its own start (`if __name__ ==
    "__main__"`). Raises SimError for fewer than 1 jobs and a result that does not pickle, WorkerDied when a process dies.
    """
    whole_number(jobs, "jobs", 1)
    numbered: Iterator[tuple[int, Item]] = enumerate(items)
    if jobs == 1 and until is None:
        for number, item in numbered:
            yield number, function(item)
        return
    first = next(numbered, None)
    if first is None:
        return
    numbered = chain((first,), numbered)
    workers: list[_Worker] = []
    try:
        while len(workers) < jobs:  # all at once: each takes its time to come up
            workers.append(_Worker(function))
        idle, busy = list(workers), dict[Any, _Worker]()
        while True:
            while idle and (following := next(numbered, None)) is not None:
                worker = idle.pop()
                busy[worker.connection] = worker
                worker.give(*following)
            if not busy:
                return
            done = wait(list(busy), None if until is None else max(until - time.monotonic(), 0))
            if not done:
                return
            for ready in done:
                worker = busy.pop(ready)
                answer = worker.answer()
                idle.append(worker)
                yield answer
    finally:
        for worker in workers:
            worker.end()


class WorkerDied(SimError):
    """Error of a worker process that ended before it returned its result."""


def apart(function: Callable[[Item], Outcome], item: Item) -> Outcome:
    """Return `function` of the item, computed in one fresh process. Raises WorkerDied, and errors of the function.

    An error that cannot be pickled comes as a SimError.
    """
    worker = _Worker(function)
    try:
        worker.give(0, item)
        return cast(Outcome, worker.answer()[1])
    finally:
        worker.end()


class _Worker:
    """A process that computes `function` of one item after the other; the parent sends an item, then reads its answer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        forget_typed_in_main()
        chosen_engine()  # which it says once, here
        self.connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_work, args=(function, theirs), daemon=True)
        with interrupts_held():
            self._process.start()
        theirs.close()
        self._number = -1

    def give(self, number: int, item: Any) -> None:
        """Send item `number` to the process, which starts to work on it. Raises WorkerDied."""
        self._number = number
        try:
            self.connection.send(item)
        except OSError:
            raise _died(self._process.exitcode) from None

    def answer(self) -> tuple[int, Any]:
        """Wait for the process; return (number of the item, its result). Raises the function's error, or WorkerDied."""
        try:
            outcome, error = self.connection.recv()
        except (EOFError, OSError):
            self._process.join(1)
            raise _died(self._process.exitcode) from None
        if error is not None:
            raise error
        return self._number, outcome

    def end(self) -> None:
        """Kill the process at once and close the connection."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


def _died(code: int | None) -> WorkerDied:
    if code == _TOO_MUCH_MEMORY:
        return WorkerDied(f"a worker process was {beyond(memory_limit() or 0)}")
    if code == 1:  # of Python itself: an exception before our own code ran, which catches all
        return WorkerDied(
            "a worker process could not begin: it imports the program that started it, which must be importable and start "
            'its work under `if __name__ == "__main__":`; its traceback stands above'
        )
    return WorkerDied(f"a worker process died (exit code {code}), perhaps for lack of memory; try fewer --jobs")


def forget_typed_in_main() -> None:
    """Remove the main module's `__file__` if it is "<stdin>", so that worker processes do not try to import it.

    Python uses that name for a program from a pipe (`python - < script`).
    """
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) == "<stdin>":
        del main.__file__


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back SIGINT until the end of the block, and SIGTERM and SIGHUP if they have handlers; then raise the first one that
    came.

    Outside the main thread SIGINT is only blocked. Processes started in the block ignore Ctrl-C; their parent ends them. Where
    signals cannot be blocked (Windows), nothing is held. Blocking alone does not hold a signal: another thread of the process
    receives it, and Python runs the handler here.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let interrupts through again (Python 3.11)
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()  # handlers are set and run in the main thread alone
    handlers = {number: signal.getsignal(number) for number in _ENDINGS} if main else {}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda late, _: came.append(late))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def begin_worker() -> None:
    """Set up this worker process: ignore Ctrl-C, since the parent ends it; end with the parent, or beyond the memory limit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    leave_the_word_to_another()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _work(function: Callable[[Any], Any], connection: Connection) -> None:
    """Run a worker process: receive items and send back (result, error) until the connection ends."""
    begin_worker()
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # of unpickling
            connection.send((None, SimError(f"a worker process cannot read its item, which must unpickle there: {error}")))
            continue
        try:
            answer: tuple[Any, BaseException | None] = function(item), None
        except Exception as error:
            answer = None, _portable(error)
        try:
            connection.send(answer)
        except OSError:
            return
        except Exception as error:  # of pickling, before a byte was sent
            words = f"a worker process cannot send its result ({type(answer[0]).__name__}), which must pickle: {error}"
            connection.send((None, SimError(words)))


def _end_with_parent() -> None:
    """Wait until the parent has ended or this process holds more than the memory limit, then end it with exit code 1 or
    _TOO_MUCH_MEMORY.
    """
    parent, limit = parent_process(), memory_limit()
    assert parent is not None
    while not _gone(parent):
        if limit is not None and held_memory() > limit:
            os._exit(_TOO_MUCH_MEMORY)
    os._exit(1)


def _gone(parent: Any) -> bool:
    """Wait 0.2 s at most; return True if the parent process has ended."""
    if parent.sentinel is not None:
        return bool(wait([parent.sentinel], _EVERY_SECONDS))
    time.sleep(_EVERY_SECONDS)  # joblib's processes have none
    return os.getppid() != parent.pid


def _portable(error: Exception) -> Exception:
    """Return the error itself if pickling keeps its type and text, else a SimError with both in its text.

    To an error that is not a SimError its traceback is added as a note.
    """
    if not isinstance(error, SimError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        again = pickle.loads(pickle.dumps(error))
        if type(again) is type(error) and str(again) == str(error):
            return error
    except Exception:  # whatever its class does when it is made again
        pass
    return SimError(f"{type(error).__name__}: {error}")
