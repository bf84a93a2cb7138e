"""Scalar stores whose lines of the data cache no row writes back: a remark, for nobody states what the program's end does."""

from __future__ import annotations

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.check.cached_lines import STAYS
from ascend_sim.cli.verdict import verdict_of

LINE = 16


@asim.kernel_function(core=("AIV", "AI_CORE"))
def store(k: asim.Kernel, y: asim.Tensor, z: asim.Tensor, *, clean: str) -> None:
    if clean == "before":
        k.clean_data_cache()
    for number in range(2 * LINE):
        k.scalar_store(y[number : number + 1], number)
    k.scalar_store(z[:1], 1)
    if clean == "all":
        k.clean_data_cache()
    if clean in ("y", "first"):
        k.clean_data_cache(y[:1])
    if clean == "y":
        k.clean_data_cache(y[LINE + 3 : LINE + 4])


def remarks(clean: str, chip: str = "ascend910b3") -> list[str]:
    report = asim.check_kernel(
        store, 1, asim.empty(2 * LINE, "float32"), asim.empty(1, "float32"), chip=chip, tools="initcheck", clean=clean
    )
    assert report.passed
    assert [one for one in verdict_of(report.to_dict())["unknown"] if one.startswith(STAYS)] == report.remarks
    return report.remarks


STORES = {"y": "k.scalar_store(y[number : number + 1], number)", "z": "k.scalar_store(z[:1], 1)"}


@pytest.mark.parametrize(("clean", "left"), [("none", "yz"), ("before", "yz"), ("first", "yz"), ("y", "z"), ("all", "")])
def test_stores_that_stay_in_the_cache_are_a_remark(clean: str, left: str) -> None:
    found = remarks(clean)
    assert len(found) == bool(left)
    for name, call in STORES.items():
        assert (call in " ".join(found)) == (name in left)


def test_a_chip_that_cannot_write_lines_back_has_no_remark() -> None:
    assert remarks("none", "ascend910a") == []


ELEMENTS, WORDS = 4 * LINE, ("load", "store", "clean", "clean all", "row", "fetch")


def steps_at(random: np.random.Generator) -> list[tuple[str, int, int]]:
    """Return random instructions as (word, first element, count): rows are moved in blocks of 8 elements."""
    steps = []
    for word in random.choice(WORDS, int(random.integers(2, 9)), p=(0.25, 0.25, 0.1, 0.05, 0.25, 0.1)).tolist():
        first, count = int(random.integers(ELEMENTS)), 1
        if word in ("row", "fetch"):
            first, count = first // 8 * 8, 8
        steps.append((word, first, count))
    return steps


@asim.kernel_function(core="AIV")
def in_order(k: asim.Kernel, y: asim.Tensor, *, steps: tuple[tuple[str, int, int], ...]) -> None:
    """Run the steps, each behind a barrier of all pipes: nothing races but what the cache holds."""
    held = k.local_tensor(8, "float32", "held")
    k.gm_to_ub(held, y[:8])
    for word, first, count in steps:
        k.pipe_barrier("ALL")
        piece = y[first : first + count]
        match word:
            case "load":
                k.scalar_load(piece)
            case "store":
                k.scalar_store(piece, first)
            case "clean" | "clean all":
                k.clean_data_cache(piece if word == "clean" else None)
            case "row":
                k.ub_to_gm(piece, held)
            case "fetch":
                k.gm_to_ub(held, piece)


def wrong_of(steps: list[tuple[str, int, int]]) -> set[str]:
    """Return the labels of a cache's mistakes, by the number of the last step that wrote each element of it and of GM."""
    gm, lines, wrong = [-1] * ELEMENTS, {}, set()

    def write_back(number: int) -> None:
        values, fetched, mine = lines.pop(number)
        for place, value in enumerate(values):
            element = number * LINE + place
            if mine and gm[element] != fetched[place]:
                wrong.add("WAW GM")
            gm[element] = value if mine else gm[element]

    for step, (word, first, count) in enumerate(steps):
        number = first // LINE
        if word in ("load", "store") and number not in lines:
            values = gm[number * LINE : (number + 1) * LINE]
            lines[number] = (values, [*values], [])
        match word:
            case "load":
                values, _, mine = lines[number]
                if first not in mine and gm[first] != values[first % LINE]:
                    wrong.add("RAW GM")
            case "store":
                lines[number][0][first % LINE] = step
                lines[number][2].append(first)
            case "clean" if number in lines:
                write_back(number)
            case "clean all":
                for one in [*lines]:
                    write_back(one)
            case "row":
                gm[first : first + count] = [step] * count
            case "fetch":
                if any(first <= element < first + count for _, _, mine in lines.values() for element in mine):
                    wrong.add("RAW GM")
    for one in [*lines]:
        write_back(one)
    return wrong


def test_random_programs_are_wrong_where_a_naive_cache_is() -> None:
    """A load of what the program itself stored into the cache is right, whatever GM holds."""
    random, seen = np.random.default_rng(62), []
    for _ in range(300):
        steps = steps_at(random)
        report = asim.check_kernel(in_order, 1, np.zeros(ELEMENTS, np.float32), tools="racecheck", steps=tuple(steps))
        found = {f"{one.kind} {one.space}" for one in report.findings}
        assert found == wrong_of(steps), steps
        seen.append(frozenset(found))
    assert len(set(seen)) == 4
