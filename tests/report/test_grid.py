"""Tables that fit a width (ascend_sim/report/grid.py) and the lines below them (ascend_sim/report/columns.py)."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ascend_sim.errors import binary_size
from ascend_sim.report.grid import Grid


def lines(grid: Grid, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(grid)
    return [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]


def small() -> Grid:
    grid = Grid("Runs", ("run", ">us", ">share\nof all", "~why"))
    grid.row("first", "12.50", "75 %", "it waits for loads that nothing hides")
    grid.row("second", "4.00", "25 %", Text("nothing", style="red"))
    return grid


def test_a_wide_terminal_has_one_table() -> None:
    assert lines(small(), 80) == [
        "Runs",
        "                share",
        "run        us  of all  why",
        "first   12.50    75 %  it waits for loads that nothing hides",
        "second   4.00    25 %  nothing",
    ]


def test_a_narrow_one_goes_on_below_with_the_rows_named_again() -> None:
    assert lines(small(), 40) == [
        "Runs",
        "                share",
        "run        us  of all",
        "first   12.50    75 %",
        "second   4.00    25 %",
        "",
        "run     why",
        "first   it waits for loads that nothing",
        "        hides",
        "second  nothing",
    ]


def test_several_columns_name_a_row_as_far_as_there_is_room() -> None:
    grid = Grid("", ("chip", "kernel", ">us", ">cycles"), names=2)
    grid.row("ascend910b3", "grad_input", "9.67", "17,413")
    assert [line.split()[:2] for line in lines(grid, 33) if line] == [
        ["chip", "kernel"], ["ascend910b3", "grad_input"], ["chip", "kernel"], ["ascend910b3", "grad_input"],
    ]  # fmt: skip
    assert [line.split() for line in lines(grid, 24) if line][-1] == ["ascend910b3", "17,413"]


def test_sizes_as_people_read_them() -> None:
    given = [0, 1023, 1024, 266_240, 68_719_476_736, 24_000_000_000]
    assert [binary_size(size) for size in given] == ["0 bytes", "1,023 bytes", "1 KiB", "260 KiB", "64 GiB", "22.35 GiB"]
