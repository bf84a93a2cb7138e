"""The headline figures of docs/accuracy.md and docs/accuracy-tables.md, computed again, from sizes only."""

from __future__ import annotations

import math
import re
import subprocess
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from ascend_sim.report.certainty import kinds
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.launches import CALLS, MICROBENCHMARKS
from ascend_sim.studies.validate.pages import Errors, group_by, series_of
from ascend_sim.studies.validate.rows import of_chips, sealed_rows, shipped_rows
from ascend_sim.studies.validate.run import RowComparison, compare
from tests.support.places import DOCS, TOOLS
from tests.support.sampling import part_of_cases

PAGE, TABLES = DOCS / "accuracy.md", DOCS / "accuracy-tables.md"
OPERATORS = ("Conv2DBackpropFilter", "Conv2DBackpropInput")


@pytest.mark.fast
@pytest.mark.parametrize("said", [["--help"], ["--no-such", "--long"]])
def test_an_option_is_no_name_of_a_page(said: list[str]) -> None:
    run = subprocess.run([TOOLS / "accuracy", *said], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "usage: tools/accuracy [PAGE] [--long]\n")


@pytest.mark.fast
def test_the_picture_shows_the_errors_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    """tools/pictures.py accuracy draws it again."""
    images = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(TOOLS)
    picture = import_module("accuracy_parts.picture")
    with images.open(DOCS / "images" / "accuracy.png") as drawn:
        assert drawn.text["Source"] == f"errors.yaml {picture.digest()}"
    assert picture.TEXT in PAGE.read_text(encoding="utf-8")
    (one,) = [kind for kind in kinds() if (kind.arch, kind.op_types) == ("dav-2201", ("Conv2DBackpropInput",))]
    of_rows = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type) == ("ascend910b2", one.op_types[0])]
    measured = sorted({round(us) for us, _ in picture.points(one)})
    mean: dict[MeasuredKernel, list[float]] = {}
    for row in of_rows:
        mean.setdefault(row.kernel, []).append(math.log(row.duration_us))
    assert measured == sorted(round(math.exp(sum(logs) / len(logs))) for logs in mean.values())
    assert [us for _, us in picture.points(one)] == [found.us for found in one.errors["alexnet"]]


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("chip", ["ascend910b2", pytest.param("ascend910b", marks=pytest.mark.slow)])
def test_the_headline_is_what_a_prediction_from_sizes_gives(chip: str, op_type: str) -> None:
    pattern = rf"\| {chip} \| {op_type} \| (\d+) \| ([\d.]+) \| ([-+\d.]+) \| [\d.]+ \| (\d+) of "
    written = re.search(pattern, TABLES.read_text(encoding="utf-8"))
    assert written is not None
    rows = [row for row in of_chips(shipped_rows(), [chip]) if row.kernel.op_type == op_type and not row.series]
    assert not any(name == "block_dim" for row in rows for name, _ in row.kernel.sizes)
    found = [one for one in compare(rows) if not one.prediction.skipped]
    errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in found])
    assert errors is not None
    right = sum(one.row.cells["block_dim"] == str(one.prediction.blocks) for one in found)
    assert (f"{errors.rows}", f"{errors.mean:.1f}", f"{errors.bias:+.1f}", f"{right}") == written.groups()


QUICK = {
    ("ascend910b2", "MemSet"), ("ascend910b2", "ReduceSum"), ("ascend910b", "TransData"),
    ("ascend910b4", "conv1d, KernelBench"),
}  # fmt: skip
"""Lines of the table by chip and operator that take little time."""


def lines_by_operator() -> list[Any]:
    """Chip, operator with series, and the figures with sizes only of each line of that table."""
    page = TABLES.read_text(encoding="utf-8")
    table = page[page.index("## Task time by chip and operator") : page.index("## Convolutions of training steps")]
    found = re.findall(
        r"^\| (\w+) \| ([^|]+) \| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([-+\d.]+) \| (-|[-\d.]+) \|", table, re.M
    )
    return [
        pytest.param(*line[:2], line[2:], marks=[] if line[:2] in QUICK else [pytest.mark.slow], id="-".join(line[:2]))
        for line in found
    ]


def test_every_operator_has_its_line() -> None:
    assert len(lines_by_operator()) > 30
    assert {param.values[:2] for param in lines_by_operator()} > QUICK


def test_the_column_fitted_says_what_was_decided_on_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    fitted = import_module("accuracy_parts.fitted")
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for row in shipped_rows():
        one = SimpleNamespace(row=row)
        groups.setdefault((row.kernel.chip, row.kernel.op_type, series_of(one)), []).append(one)  # type: ignore[arg-type]
    page = TABLES.read_text(encoding="utf-8")
    for chip, name in (param.values[:2] for param in lines_by_operator()):
        op_type, _, series = str(name).partition(", ")
        mark = fitted.fitted_mark([one.row for one in groups[str(chip), op_type, series]])
        (line,) = re.findall(rf"^\| {chip} \| {re.escape(str(name))} \| .*\| ([a-z, ]+) \|$", page, re.M)
        assert line == mark
    assert f"{fitted.fitted_costs()}\n\n{import_module('accuracy_parts.structure').choices()}\n" in page


@part_of_cases(2)
@pytest.mark.parametrize(("chip", "name", "figures"), lines_by_operator())
def test_task_times_by_chip_and_operator(chip: str, name: str, figures: tuple[str, ...]) -> None:
    """Rows, distinct kernels, mean, median, bias and rank of each line, with sizes only; products of minutes too."""
    op_type, _, series = name.partition(", ")
    rows = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type) == (chip, op_type)]
    (group,) = [group for group in group_by(compare(rows)) if group.series == series and group.task is not None]
    errors = group.task
    assert errors is not None
    rank = "-" if group.rank is None else f"{group.rank:.3f}"
    found = errors.rows, group.kernels, f"{errors.mean:.1f}", f"{errors.median:.1f}", f"{errors.bias:+.1f}", rank
    assert tuple(map(str, found)) == figures


def test_no_error_is_typed_into_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of rows are computed where they stand in a text too; the level of the intervals is no such figure."""
    monkeypatch.syspath_prepend(TOOLS)
    words, guessed = import_module("accuracy_parts.words"), import_module("accuracy_parts.guessed")
    small = import_module("accuracy_parts.programs")
    texts = [text for name, text in vars(words).items() if name.isupper()]
    texts += [guessed.GUESSED, small.PROGRAMS, small.POINTS]
    assert len(texts) > 4
    assert set(re.findall(r"[-+\d.]+ %", " ".join(texts))) <= {"80 %"}


def test_what_is_said_of_the_first_910_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rule on blocks jumps, and a layer of another network."""
    monkeypatch.syspath_prepend(TOOLS)
    guessed = import_module("accuracy_parts.guessed")
    page = TABLES.read_text(encoding="utf-8")
    kernels = [row.kernel for row in of_chips(shipped_rows(), ["ascend910b"]) if row.kernel["N"] == 16]
    (layer,) = [k for k in kernels if k.op_type == OPERATORS[0] and guessed._sizes(k) == guessed.EXAMPLE]
    for line in list(guessed.jumps({OPERATORS[0]: [layer]})):
        chip, _, images, *_, example = line.strip("| ").split(" | ")
        assert re.search(rf"^\| {chip} \| dW \| {images} \|.*\| {re.escape(example)} \|$", page, re.M), line
    monkeypatch.setattr(guessed, "UNSEEN", guessed.UNSEEN[1:2])
    made = [SimpleNamespace(row=SimpleNamespace(kernel=next(k for k in kernels if k.op_type == OPERATORS[1])))]
    assert guessed.unseen(made).splitlines()[-1] in page


@pytest.mark.slow
def test_what_is_said_of_small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table, the figures without help, and the single rows that the text names."""
    monkeypatch.syspath_prepend(TOOLS)
    small = import_module("accuracy_parts.programs")
    rows = [row for row in shipped_rows() if row.kernel.op_type in MICROBENCHMARKS]
    assert small.programs(compare(rows)) in TABLES.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_the_texts_say_of_other_rules_chips_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    what_if, words = import_module("accuracy_parts.what_if"), import_module("accuracy_parts.words")
    rows = [row for row in shipped_rows() if row.kernel.op_type in CALLS or row.series == "KernelBench"]
    figures = what_if.figures(compare(rows, long=True))
    assert words.CALLS_TEXT.format(**figures) in PAGE.read_text(encoding="utf-8")


def task_errors(found: list[RowComparison]) -> Errors:
    errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in found])
    assert errors is not None
    return errors


def calls_of(chip: str) -> list[RowComparison]:
    rows = [row for row in shipped_rows() if row.kernel.op_type in CALLS and row.kernel.chip == chip]
    return [one for one in compare(rows) if not one.prediction.skipped]


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["ascend910b2", "ascend910b4", "ascend950pr_9579"])
def test_calls_by_kind_are_what_a_prediction_from_sizes_gives(chip: str) -> None:
    written = re.findall(
        rf"\| (\w+) \| ([\w-]+) \| {chip} \| (\w+) \| (\d+) \| ([\d.]+) \| [\d.]+ \| ([-+\d.]+) \|",
        TABLES.read_text(encoding="utf-8"),
    )
    kinds: dict[tuple[str, str, str], list[RowComparison]] = {}
    for one in calls_of(chip):
        plan = "named" if one.row.kernel.label("kernels") else "ours"
        kinds.setdefault((one.row.kernel.op_type, one.row.series or "-", plan), []).append(one)
    assert {tuple(line[:3]) for line in written} == set(kinds)
    for op_type, series, plan, rows, *figures in written:
        errors = task_errors(kinds[op_type, series, plan])
        assert [f"{errors.mean:.1f}", f"{errors.bias:+.1f}"] == figures and int(rows) == errors.rows


def test_a_call_of_the_page_as_it_stands_there() -> None:
    (row,) = (row for row in shipped_rows() if row.kernel.op_type == "npu_conv3d_backward" and row.duration_us == 52.16)
    (one,) = compare([row])
    line = f"| 52.2 | {one.prediction.task_us:.1f} | {100 * one.error:+.1f} |"
    assert line in TABLES.read_text(encoding="utf-8")


def means(table: str, chips: str, op_types: str) -> list[str]:
    """Mean errors of the lines of these operators with sizes only, smallest first."""
    lines = re.findall(rf"^\| (?:{chips}) \| (?:{op_types}) \| \d+ \| \d+ \| ([\d.]+) \|", table, re.M)
    return sorted({f"{float(mean):.0f}" for mean in lines}, key=int)


@pytest.mark.fast
def test_what_to_trust_has_the_figures_of_the_page() -> None:
    page = TABLES.read_text(encoding="utf-8")
    table = page.partition("## Task time by chip and operator")[2].partition("\n## ")[0]
    text = (DOCS / "what-to-trust.md").read_text(encoding="utf-8")
    lines = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.M))
    for said, chips, op_types in (
        ("convolution backward, memset, sums and layouts on a 910B2", "ascend910b2", "Conv2D.*?|MemSet|ReduceSum|TransData"),
        ("matrix products of PyTorch on a 910B2", "ascend910b2", "MatMul, torch.*?"),
        ("kernels of the first 910", "ascend910b", "[^|]+"),
        ("whole calls on 910B2, 910B4 and 950PR", "[^|]+", "(?:conv|npu_conv).*?"),
    ):  # fmt: skip
        found = means(table, chips, op_types)
        assert lines[said] == f"{found[0]} to {found[-1]} %", said
    step = page.partition("## A training step in its order")[2].partition("\n## ")[0]
    in_order = dict(re.findall(r"^\| (MatMulV\d) \| \d+ \| ([\d.]+) \|", step, re.M))
    products = [f"{name} {float(mean):.0f} %" for name, mean in in_order.items()]
    assert lines["matrix products of AlexNet on a 910B2, in order"] == ", ".join(products)
    whole = " ".join(PAGE.read_text(encoding="utf-8").split())
    (share,) = re.findall(r"\d+ of \d+ kernels, (\d+) %, lie inside; the aim", whole)
    assert f"{share} % lie in it" in " ".join(text.split())


@pytest.mark.slow
def test_what_to_trust_has_the_products_of_later_rows() -> None:
    """Rows of samples that no table of the page counts."""
    kinds: dict[tuple[str, str], list[float]] = {}
    rows = [row for row in (*shipped_rows(), *sealed_rows()) if re.search("catlass|tilelang", row.series)]
    for one in compare(rows):
        if not one.prediction.skipped:
            kinds.setdefault((one.row.kernel.chip, series_of(one)), []).append(abs(one.error))
    found = sorted(round(100 * sum(errors) / len(errors)) for errors in kinds.values())
    assert f"| {found[0]} to {found[-1]} % (rows of" in (DOCS / "what-to-trust.md").read_text(encoding="utf-8")
