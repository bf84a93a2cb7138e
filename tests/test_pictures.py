"""The pictures of the documentation show the figures of the text beside them (tools/pictures.py)."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.places import DOCS, ROOT, TOOLS

IMAGES = DOCS / "images"
FIGURES = yaml.safe_load((IMAGES / "figures.yaml").read_text(encoding="utf-8"))


def example(page: str, command: str) -> str:
    """Return the output of a command as a page shows it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.split(f"$ ascend-sim {command}\n")[1].split("```")[0]


@pytest.mark.parametrize("name", list(FIGURES))
def test_the_file_of_figures_is_of_the_picture_that_stands_there(name: str) -> None:
    digest = hashlib.sha256((IMAGES / f"{name}.png").read_bytes()).hexdigest()
    assert digest == FIGURES[name]["sha256"], f"{name}.png: draw it with tools/pictures.py {name}"


def test_the_report_shows_the_times_and_the_advice_of_the_example_in_readme() -> None:
    command = FIGURES["report"]["command"].removesuffix(" --html")
    head, parts, _, *told_of = re.sub(r"\n +", " ", example("README.md", command)).splitlines()  # a line that goes on is one
    total, verdict, chip, *cards = [one for one in FIGURES["report"]["shows"] if not one.endswith("copy")]
    advice = [one for one in FIGURES["report"]["shows"] if one.endswith("copy")]
    assert chip.split()[0] in head
    assert re.match(r"[\d,.]+ us \d+ kernels", total) and "not checked" in verdict
    drawn, told = (float(re.findall(r"([\d,.]+) us", text)[0].replace(",", "")) for text in (total, head))
    assert drawn == pytest.approx(told, abs=0.051)  # the page has a digit more
    gains = [re.findall(r"-[\d.]+ us", line) for line in told_of[: len(advice)]]
    assert [re.findall(r"-[\d.]+ us", one) for one in advice] == gains and len(advice) == 3
    shares = {card.split(",")[0] for card in cards}
    assert shares == {" ".join(reversed(one.split(" ", 1))) for one in re.split(r" {3}", parts)}


def test_the_walk_shows_the_second_mmad_of_the_example_beside_it() -> None:
    text = example("docs/explain.md", FIGURES["explain"]["command"].removesuffix(" --html"))
    (step,) = FIGURES["explain"]["shows"]
    cycles = re.search(r"cycles ([\d,]+) to ([\d,]+)", step)
    held = re.search(r"([\d.]+) in float64\. L0C held ([\d.]+), now ([\d.]+) \((\w+)\)", step)
    assert step.startswith("mmad 1 of 3 ") and cycles and held
    of_step = re.search(rf"^ +1  {cycles[1]}-{cycles[2]} ", text, re.MULTILINE)
    sums = re.search(rf"^ +1 +\d+ +{held[1]} +{held[3]} +{held[4]}$", text, re.MULTILINE)
    assert of_step and sums and f" {held[2]} " in text


def test_the_heat_map_is_of_the_sweep_beside_it_and_of_today(tmp_path: Path) -> None:
    command, shown = FIGURES["heat_map"]["command"], FIGURES["heat_map"]["shows"]
    assert f"`{command.removesuffix(' --heat-map')}`" in (DOCS / "sweep.md").read_text(encoding="utf-8")
    ends = command.removesuffix(" --heat-map").replace("16:112:16", "16").replace("64:320:64", "64,320")
    done = CliRunner().invoke(app, [*shlex.split(ends), "--json", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    times = [row.get("grad_weight_us") for row in json.loads(done.stdout)["rows"]]
    now = ["refused" if us is None else f"{us:,.4g}" for us in times]
    assert now == [shown[0], shown[4]]


def test_the_measured_kernels_are_drawn_of_the_errors_that_ship() -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    sys.path.append(str(TOOLS))
    from accuracy_parts.picture import PICTURE, digest

    assert image.open(PICTURE).info["Source"] == f"errors.yaml {digest()}", "draw it with tools/pictures.py accuracy"
