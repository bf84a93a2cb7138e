"""Text in columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ascend_sim.report.columns import columns, listed, middle_out, wrapped
from ascend_sim.report.grid import Grid, say


def lines(grid: Grid, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(grid)
    return [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]


WORDS = st.text("abcdefgh", min_size=1, max_size=12)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(26, 90))
def test_no_word_is_lost_and_no_line_too_long(rows: list[tuple[str, str, str, str]], width: int) -> None:
    grid = Grid("", ("name", ">one", "two", "~three"))
    for row in rows:
        grid.row(*row)
    shown = lines(grid, width)
    assert all(len(line) <= width for line in shown)
    assert {word for row in rows for word in row} <= {word for line in shown for word in line.split()}
    plain = columns(rows, "", width)
    assert all(len(line) <= width for line in plain)
    assert {word for row in rows for word in row} == {word for line in plain for word in line.split()}


def test_paragraphs_break_at_blanks_only() -> None:
    path = "a/" * 30
    assert wrapped(f"  wrote {path} and more", 40, "  ") == ["  wrote", f"    {path}", "    and more"]
    field = "name  case   208.1 us   (80 %: 130 to 352 us)   a field longer than the line"
    shown = ["name  case   208.1 us", "   (80 %: 130 to 352 us)", "   a field longer than the", "   line"]
    assert wrapped(field, 30, "   ") == shown
    console = Console(width=24)
    with console.capture() as capture:
        say(console, "\n[bold] is no markup here, [/] neither")
    assert capture.get() == "\n[bold] is no markup\n  here, [/] neither\n"


@pytest.mark.fast
def test_only_the_items_that_are_shown_cost_a_row() -> None:
    asked: list[int] = []

    def row(item: int) -> tuple[str, ...]:
        asked.append(item)
        return str(item), "x"

    assert middle_out(range(100), 6, row)[4] == ("... 94 more",)
    assert asked == [0, 1, 2, 3, 98, 99]


def test_parts_are_listed_with_and_before_the_last() -> None:
    assert [listed("ABC"[:number]) for number in (1, 2, 3)] == ["A", "A and B", "A, B and C"]
