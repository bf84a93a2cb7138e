"""Mistakes made by machine in the kernels of this project: no wait can be disarmed and no two flags swapped unnoticed."""

from __future__ import annotations

import pytest

from ascend_sim.check.run import check_tasks
from tests.support.check.mutations import MutatedSubject, mutations
from tests.support.check.shipped import CASES, PAGES, case_subject, page_subject


def unnoticed(subject: MutatedSubject, kinds: tuple[str, ...] = ("disarmed", "swapped")) -> tuple[int, list[str]]:
    """How many mistakes were made, and those of which nothing was said, by task."""
    made, missed = 0, []
    for number, task in enumerate(subject.tasks):
        for mutation in mutations(subject, number):
            if mutation.kind in kinds:
                made += 1
                if subject.check(number, mutation.change).passed:
                    missed.append(f"{task.name}: {mutation.kind} {mutation.what}")
    return made, missed


@pytest.mark.parametrize("name", ["matmul", "vector_add"])
def test_every_wait_of_a_kernel_of_the_pages_is_missed(name: str) -> None:
    made, missed = unnoticed(page_subject(name, PAGES[name]))
    assert made >= 8 and missed == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_every_wait_of_all_kernels_of_the_pages_is_missed(name: str) -> None:
    made, missed = unnoticed(page_subject(name, PAGES[name]))
    assert made >= 8 and missed == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chip"), CASES)
def test_a_wait_of_an_operator_that_nobody_misses_is_one_that_a_remark_names(name: str, chip: str) -> None:
    """Queues of operands that are filled together imply each other with some tilings; that is said of each."""
    subject = case_subject(name, chip)
    report = check_tasks(subject.chip, subject.tasks, roles=subject.roles)
    assert report.passed
    made, missed = unnoticed(subject, ("disarmed",))
    kept = {remark.split(":")[0] for remark in report.remarks}
    assert made > 10 and {one.split(":")[0] for one in missed} <= kept


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_shifted_address_is_noticed_where_it_leaves_what_was_written(name: str) -> None:
    """Where it stays inside, only values are wrong, which is what a run's verdict is for."""
    made, missed = unnoticed(page_subject(name, PAGES[name]), ("shifted",))
    assert made >= 10 and len(missed) < 0.7 * made
