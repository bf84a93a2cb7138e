"""Tasks of several streams: an event orders them, the order of queueing does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import ascend_sim as asim
from ascend_sim.check.races import tasks_before
from ascend_sim.check.run import check_tasks
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.kernel.function import Launch
from ascend_sim.kernel.tensor import Tensor

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
N = 64


@asim.kernel_function(core="AIV")
def copy(k, a, b):
    held = k.ub_queue("held", N, "float32", "MTE2", "MTE3", 1)
    k.gm_to_ub(held, a)
    k.ub_to_gm(b, held)


def tasks(places: Sequence[tuple[int, str, str, str, str]]) -> list[Task]:
    """(stream, read, written, event waited for, event recorded) of each task."""
    device = Device(CHIP, with_values=False)
    held = {name: device.allocate(4 * N, name) for name in ("a", "b", "c")}
    made = []
    for number, (stream, source, target, wait, record) in enumerate(places):
        tensors = [Tensor.at(slot, name, (N,), "float32") for slot, name in enumerate((source, target))]
        launch = Launch.of(copy, CHIP, 1, tensors, {})
        made.append(
            Task(f"copy {number}", "Copy", "AIV", 1, [held[source], held[target]], launch.programs, stream,
                 [wait] if wait else [], [record] if record else [])
        )  # fmt: skip
    return made


PAIRS = {
    "RAW": ((0, "a", "b", "", "done"), (1, "b", "c", "done", "")),
    "WAR": ((0, "a", "b", "", "done"), (1, "c", "a", "done", "")),
    "WAW": ((0, "a", "b", "", "done"), (1, "c", "b", "done", "")),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("mistake", ["no wait", "no record", "another event"])
def test_a_missing_event_is_told_and_its_twin_is_not(kind: str, mistake: str) -> None:
    first, second = PAIRS[kind]
    assert check_tasks(CHIP, tasks((first, second))).passed
    if mistake == "no wait":
        second = (*second[:3], "", "")
    elif mistake == "no record":
        first = (*first[:4], "")
    else:
        first = (*first[:4], "other")
    report = check_tasks(CHIP, tasks((first, second)))
    assert [(one.tool, one.kind, one.space) for one in report.findings] == [("racecheck", kind, "GM")]
    assert "event" in report.findings[0].advice and "streams 0 and 1" in report.render()


def test_one_stream_needs_no_event() -> None:
    assert check_tasks(CHIP, tasks([(0, "a", "b", "", ""), (0, "b", "c", "", "")])).passed


def test_events_order_through_a_third_stream() -> None:
    places = [(0, "a", "b", "", "one"), (1, "c", "c", "one", "two"), (2, "b", "a", "two", "")]
    made = tasks(places)
    assert tasks_before(made) == [set(), {0}, {0, 1}]
    assert check_tasks(CHIP, made).passed
    assert not check_tasks(CHIP, tasks([places[0], (1, "c", "c", "", "two"), places[2]])).passed


def test_different_bytes_need_no_order() -> None:
    assert check_tasks(CHIP, tasks([(0, "a", "b", "", ""), (1, "a", "c", "", "")])).passed
