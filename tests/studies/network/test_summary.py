"""The answer of a network's pass in a few lines."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import ascend_sim
from ascend_sim.studies.network.summary import lines_of, ranked, summary_of
from tests.support.cli.commands import run
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


def test_figures_are_those_of_the_layers(small: Path) -> None:
    """The oracle adds rows by hand; a layer that stands twice counts twice."""
    found = ascend_sim.run_network(small)
    summary = summary_of(found)
    totals = [layer.times["total"] for layer in found.layers]
    assert summary["total_us"] == pytest.approx(sum(totals), abs=1e-3)
    first = next(row for row in summary["most"] if row["layer"] == "first")
    assert (first["copies"], first["all"]) == (2, pytest.approx(totals[0] + totals[2], abs=1e-3))
    assert first["share"] == pytest.approx((totals[0] + totals[2]) / sum(totals), abs=1e-4)
    spent = {"first": 2 * found.layers[0].times["layout"], "wide": found.layers[1].times["layout"]}
    most = max(spent, key=spent.__getitem__)
    assert (summary["most_layout"]["layer"], summary["most_layout"]["us"]) == (most, pytest.approx(spent[most], abs=1e-3))
    layout = next(one for one in summary["parts"] if one["part"] == "layout")
    assert layout["us"] == pytest.approx(sum(layer.times["layout"] for layer in found.layers), abs=1e-3)
    assert [row["layer"] for row in summary["most"]] == [row["layer"] for row in ranked(found)]
    assert str(found).splitlines() == lines_of(summary) and found.to_dict()["summary"] == summary


def test_the_next_command_opens_the_layer_that_costs_most(small: Path) -> None:
    lines = run("run-network", small, "--jobs", 1, "--l2", "warm").out.splitlines()
    (command,) = (line.removeprefix("next: ascend-sim ") for line in lines if line.startswith("next: "))
    most = json.loads(run("run-network", small, "--jobs", 1, "--l2", "warm", "--json").out)["summary"]["most"][0]
    opened = json.loads(run(*command.split(), "--json").out)
    assert opened["total_us"] == most["us"] and opened["summary"]["l2"] == "warm"
    assert len(lines) <= 15 and lines[-1] == "more: --full, --html page.html"
    spec = ascend_sim.load_chip("ascend910b1")
    assert summary_of(ascend_sim.run_network(small, chip=spec))["next"] == ""  # a chip that no command can name


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--l2", "warm", "--chip", "ascend910b1"),
        ("--forward", "--launches", "warm"),
        ("--l2", "step"),
        ("--chip", "ascend950pr_9579", "--library", "9.0.0", "--conformance", "library"),
        ("--tiling", "tilings.yaml"),
    ],
)
def test_the_next_command_has_the_batch_and_options_that_were_asked_for(
    small: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle is the row of the network: the layer alone takes as long."""
    monkeypatch.chdir(small.parent)
    tiling = "{grad_weight: {baseK: 16}}"
    Path("tilings.yaml").write_text(f"first: {tiling}\nwide: {tiling}\nagain: {tiling}\n")
    summary = json.loads(run("run-network", small, "--jobs", 1, "--batch", 3, *options, "--json").out)["summary"]
    program, *command = summary["next"].split()
    assert program == "ascend-sim" and command[0] == "run"
    opened = json.loads(run(*command, "--json").out)
    assert opened["total_us"] == pytest.approx(summary["most"][0]["us"], abs=1e-3)
    assert opened["problem"]["tensors"]["input"]["shape"][0] == 3
    assert ("grad_weight.baseK=16" in command) == ("--tiling" in options)


def test_refused_layers_are_told(small: Path) -> None:
    small.write_text(THREE_LAYERS.replace("name: wide", "name: wide, cube_math_type: 9"))
    lines = run("run-network", small, "--jobs", 1).out.splitlines()
    assert any(line.startswith("refused: wide: status 161002") for line in lines)


@pytest.mark.fast
def test_layers_are_ranked_by_the_time_of_all_their_copies(small: Path) -> None:
    found = ascend_sim.run_network(small)
    rows = ranked(found)
    assert sum(row["all"] for row in rows) == pytest.approx(found.totals["total"])
    assert [row["all"] for row in rows] == sorted((row["all"] for row in rows), reverse=True)
    first = next(row for row in rows if row["layer"] == "first")
    assert first["copies"] == 2 and first["all"] == 2 * found.layers[0].times["total"]
    # 2 x 16 x 16 x 64 x 9 products for each gradient; 20 cores of 4,096 each cycle at 1,800 MHz; rounded up to cycles
    assert first["ideal"] == pytest.approx(2 * math.ceil(2 * 16 * 16 * 64 * 9 / (20 * 4096)) / 1800, abs=1e-4)
    assert first["beyond"] == pytest.approx(2 * (first["us"] - first["ideal"]))


def test_copies_that_find_other_contents_in_the_l2_stay_copies(small: Path) -> None:
    """Each is simulated by itself; the row has their sum and mean, and names the one that takes longest."""
    found, cold = ascend_sim.run_network(small, l2="step"), ascend_sim.run_network(small)
    assert found.simulated == len(found.layers) > found.distinct == cold.distinct == cold.simulated
    (first, second), *_ = sorted(found.copies, key=len, reverse=True)
    slower = replace(found.layers[second], times={part: 3 * us for part, us in found.layers[second].times.items()})
    layers = [slower if number == second else one for number, one in enumerate(found.layers)]
    row = next(row for row in ranked(replace(found, layers=layers)) if row["copies"] == 2)
    assert row["layer"] == found.network.layers[second].name
    assert (
        row["all"] == pytest.approx(4 * found.layers[first].times["total"], rel=0.01) == pytest.approx(2 * row["us"], rel=0.01)
    )
