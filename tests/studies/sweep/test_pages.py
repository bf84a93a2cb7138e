"""Files, fronts and pictures of a sweep."""

from __future__ import annotations

import csv
import random
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ascend_sim.errors import SimError
from ascend_sim.studies.sweep.pages import axes_of, heat_map, pareto_plot, render, sentence, write_table
from ascend_sim.studies.sweep.run import Sweep, sweep


def rows_of(*pairs: tuple[float, float]) -> Sweep:
    rows = [{"x": i, "status": 0, "reason": "", "us": us, "l1": l1, "tflops": -l1} for i, (us, l1) in enumerate(pairs)]
    return Sweep("made", ("x",), tuple(rows))


@pytest.mark.fast
def test_a_front_is_what_no_other_beats() -> None:
    """Against the definition, for random points with many equal ones."""
    draw = random.Random(1)
    for _ in range(200):
        pairs = [(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(1, 15))]
        front = rows_of(*pairs).front("us", "l1")
        best = {(a, b) for a, b in pairs if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in pairs)}
        assert sorted((row["us"], row["l1"]) for row in front) == sorted(best)
        assert [row["x"] for row in rows_of(*pairs).front("us", "tflops")] == [row["x"] for row in front]
    with pytest.raises(SimError, match="no row has a number in column 'none'; there are x, status, us, l1, tflops"):
        rows_of((1, 2)).front("us", "none")


@pytest.mark.fast
def test_batches_are_compared_for_each_image_too() -> None:
    """The shortest call has the smallest batch; 30 us for 8 images are 3.75 us for one, less than 8 us for 1."""
    rows = tuple({"batch": n, "status": 0, "reason": "", "us": us} for n, us in ((1, 8.0), (8, 30.0), (16, 80.0)))
    said = "3 points ran; the shortest is 8.00 us with batch 1, the longest 10.00 times that"
    assert sentence(Sweep("made", ("batch",), rows)) == f"{said}; for each image the shortest is 3.75 us with batch 8"


@pytest.mark.fast
def test_times_that_print_alike_have_no_shortest() -> None:
    rows = tuple({"x": n, "status": 0, "reason": "", "us": us} for n, us in ((1, 8.001), (2, 8.004)))
    assert sentence(Sweep("made", ("x",), rows)) == "2 points ran; each takes 8.00 us"


def test_the_parts_of_the_table_add_up_to_the_time() -> None:
    """Layer with all three gradients: none of them, and no layout, is left out of the printed columns."""
    screen = Console(file=StringIO(), width=120)
    render(sweep("by_hand", {"batch": [1]}), screen)
    _, heads, cells, *_ = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    names, values = re.split(r"\s{2,}", heads.strip().replace("batch", "batch ")), cells.split()
    row = {name: float(value) for name, value in zip(names, values, strict=False) if name.endswith("us")}
    assert {"grad_input us", "grad_weight us", "grad_bias us", "layout us"} <= row.keys()
    assert sum(row.values()) - row["us"] == pytest.approx(row["us"], abs=0.05)


@pytest.mark.fast
def test_files_have_every_row(tmp_path: Path) -> None:
    found = sweep("by_hand", {"padding": [0, [1, 1]], "grad_input.baseM": [16, 4096]})
    write_table(found, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["padding"], row["grad_input.baseM"], row["status"]) for row in rows] == [
        ("0", "16", "0"), ("0", "4096", ""), ("[1,1]", "16", "0"), ("[1,1]", "4096", ""),
    ]  # fmt: skip
    assert [float(row["us"] or 0) for row in rows] == [row.get("us", 0) for row in found.rows]
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(found, tmp_path / "a.parquet")
    columns = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert columns["us"] == [row.get("us") for row in found.rows] and columns["padding"] == ["0", "0", "[1,1]", "[1,1]"]
    assert list(columns) == found.columns
    with pytest.raises(SimError, match=r"a\.txt: give a file that ends in \.csv or \.parquet"):
        write_table(found, tmp_path / "a.txt")


def test_pictures_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"a": a, "b": b, "c": c, "status": 0, "reason": "", "us": float(a * b + c), "l1": a}
        for a in (1, 2) for b in (3, 4, 5) for c in (0, 1) if (a, b) != (2, 5)
    ]  # fmt: skip
    refused = [{"a": 2, "b": 5, "c": c, "status": 161002, "reason": "no"} for c in (0, 1)]
    found = Sweep("made", ("a", "b", "c"), tuple(rows + refused))
    values = {"a": [1], "b": [3, 4], "c": [0, 1]}
    assert axes_of(values) == ("b", "c") and axes_of(values, ("c", "a")) == ("c", "a")
    for bad in (("a", "a"), ("a", "z")):
        with pytest.raises(SimError, match="two different varied fields: a, b, c"):
            axes_of(values, bad)
    heat_map(found, tmp_path / "heat.png")
    pareto_plot(found, tmp_path / "front.png", "us", "l1")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
