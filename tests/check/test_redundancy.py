"""Redundant flags and barriers, against the definition: the whole task is put in order once more without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.clocks import Bits
from ascend_sim.check.questions import Questions
from ascend_sim.check.redundancy import Proof, groups
from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.kernel.inspection import inspect
from ascend_sim.launching import prepared
from tests.support.check.bugs import suite
from tests.support.check.bugs.planted import PAIRS, Pair

assert suite.FILES


def subject_of(pair: Pair, chip: str, *, bug: bool) -> Subject:
    """A kernel of the suite, built."""
    spec = load_chip(chip)
    device = Device(spec, with_values=False)
    fields = {"bug": bug, **pair.fields}
    task = prepared(pair.kernel, pair.blocks, pair.tensors, fields, spec, device, "timing", ()).task
    with inspect():
        programs = [program for block in range(task.block_dim) for program in task.build(block)]
    return Subject(spec, task, programs, Shapes(spec))


def worse(subject: Subject, out: Bits) -> bool:
    """Return True if more is out of order, or runs over, in the whole task without these rows."""
    order = subject.order.without(out)
    return len(order.faults.overflows) > len(subject.order.faults.overflows) or any(
        len(Questions.of_pairs(subject.accesses[space], *pairs).unordered(order.clocks_in(space))[0])
        for space, pairs in subject.pairs.items()
        if pairs is not None
    )


def answers(subject: Subject) -> Iterator[tuple[bool, bool]]:
    """Yield for every flag and barrier two answers on its need: as it is proved, and by the definition, one after the other."""
    tried = list(groups(subject).values())
    out = np.zeros(len(subject.order.matches.items), np.bool_)
    for items, spare in zip(tried, Proof(subject).spare(tried), strict=True):
        more = out.copy()
        more[items] = True
        wanted = worse(subject, more)
        yield not spare, wanted
        out = out if wanted else more


def test_what_changes_is_enough_to_say_what_is_needed() -> None:
    told = []
    for pair in PAIRS:
        for bug in (False, True):
            subject = subject_of(pair, pair.chips[-1], bug=bug)
            if not subject.order.faults.stuck and not any(len(one.first) for one in subject.disorder.values()):
                told += [(pair.name, bug, *answer) for answer in answers(subject)]
    assert [one for one in told if one[2] != one[3]] == []
    assert len(told) > 60 and {needed for *_, needed in told} == {False, True}
