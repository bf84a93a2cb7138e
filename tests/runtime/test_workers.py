"""Work over processes: order, what is asked for when, and errors as they were raised."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children

import pytest

from ascend_sim.errors import AclnnError, DeadlockError, SimError
from ascend_sim.runtime.workers import WorkerDied, _portable, apart, interrupts_held, spread, spread_as_done

pytestmark = pytest.mark.fast


def test_results_keep_their_places_and_errors_their_class() -> None:
    """One pool for both: workers take their time to come up."""
    found = {}
    with closing(spread_as_done(math.sqrt, [4.0, 9.0, -1.0], jobs=2)) as done, pytest.raises(ValueError) as caught:
        for place, outcome in done:
            found[place] = outcome
    assert found and found.items() <= {0: 2.0, 1: 3.0}.items()
    assert any("Traceback" in note for note in caught.value.__notes__)  # where it was raised, in the other process
    assert active_children() == []


def test_an_item_is_asked_for_when_there_is_room() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3):
            asked.append(number)
            yield -number

    for place, outcome in spread_as_done(abs, items()):
        assert asked == list(range(place + 1)) and outcome == place


def test_nothing_to_do_starts_no_process() -> None:
    assert spread(abs, [], jobs=4) == [] and list(spread_as_done(abs, [], jobs=4)) == []


def test_a_deadline_ends_what_is_under_way() -> None:
    assert list(spread_as_done(time.sleep, [1000.0], jobs=1, until=time.monotonic() + 0.1)) == []
    assert active_children() == []


class Odd(SimError):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


@pytest.mark.parametrize("error", [AclnnError(161002, "no"), DeadlockError("stuck"), SimError("x"), KeyError("k")])
def test_errors_travel_as_they_are(error: Exception) -> None:
    assert _portable(error) is error


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    told = _portable(Odd(1, 2))
    assert type(told) is SimError and str(told) == "Odd: 1 and 2"


def test_a_result_that_does_not_pickle_is_named() -> None:
    """The process lives on, so the error is not that of a dead one."""
    with pytest.raises(SimError, match=r"cannot send its result \(memoryview\), which must pickle") as caught:
        apart(memoryview, b"x")
    assert not isinstance(caught.value, WorkerDied) and active_children() == []


class Refuses:
    """An object that pickles and does not unpickle."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


def test_an_item_that_does_not_unpickle_is_named() -> None:
    with pytest.raises(SimError, match=r"cannot read its item, which must unpickle there: invalid literal") as caught:
        apart(abs, Refuses())
    assert not isinstance(caught.value, WorkerDied) and active_children() == []


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("", "[2, 1]"),
        ("import ascend_sim.runtime.workers as w; w.forget_typed_in_main = lambda: None", "a worker process could not begin"),
    ],
)
def test_a_program_that_comes_through_a_pipe(head: str, said: str) -> None:
    """Python calls it "<stdin>", a file that no other process finds; without our part the error names the cause."""
    text = f"{head}\nfrom ascend_sim.runtime.workers import spread\nprint(spread(abs, [-2, 1], jobs=2))\n"
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, check=False)
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block_when_another_thread_receives_it(number: signal.Signals) -> None:
    """A signal that breaks off the start of a pool leaves processes that nobody ends."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    before = signal.signal(number, signal.default_int_handler)
    finished = False
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_held():
            os.kill(os.getpid(), number)
            time.sleep(0.1)
            finished = True
        assert finished and signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
        over.set()
        thread.join()
