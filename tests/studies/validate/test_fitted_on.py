"""Every fitted cost names measured rows, and those rows are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.errors import ConfigError
from ascend_sim.studies.validate.fitted_on import fitted_of, selected
from ascend_sim.studies.validate.rows import shipped_rows

CHIPS = chip_names()


def test_every_fitted_cost_names_rows_that_there_are() -> None:
    found = {(chip, place): texts for chip in CHIPS for place, (_, texts) in fitted_of(load_chip(chip)).items()}
    assert len({place for _, place in found}) > 50
    assert [key for key, texts in found.items() if not texts] == []
    for text in {text for texts in found.values() for text in texts}:
        assert selected(text)


def test_small_programs_that_set_a_cost_are_the_rows_of_that_cost() -> None:
    """The table of small programs and the chip files say the same, from both sides."""
    for row in shipped_rows():
        place = row.cells.get("sets", "")
        if place:
            costs = fitted_of(load_chip(row.kernel.chip))
            named = [texts for name, (_, texts) in costs.items() if name.startswith(place)]
            assert any(row.cells in selected(text) for texts in named for text in texts) or not named, place


def test_the_library_versions_costs_are_fitted_on_the_950s_weight_gradients() -> None:
    costs = {place: texts for place, (_, texts) in fitted_of(load_chip("ascend950pr_9579")).items() if "9.0.0" in place}
    assert {place.rpartition(".")[2] for place in costs} == {
        "turn_bytes_per_cycle", "plane_cycles", "head_us", "scatter_cycles",
    }  # fmt: skip
    for texts in costs.values():
        (text,) = texts
        assert {row["library"] for row in selected(text)} == {"9.0.0"} and len(selected(text)) == 10
    assert not any("9.0.0" in place for place in fitted_of(load_chip("ascend910b3")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("matmul.csv", "allowed is FILE: column=value"),
        ("nosuch.csv: chip=ascend910b2", "no file of configs/measurements"),
        ("matmul.csv: chip=ascend910b2, colour=red", "no column 'colour'"),
        ("matmul.csv: chip=ascend910a", "no row of matmul.csv is so"),
    ],
)
def test_rows_that_there_are_not_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        selected(text)


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        ('{value: 30, unit: cycles, source: "assumed: so", fitted_on: ["a.csv: b=c"]}', "begins with `fitted:`"),
        ('{value: 30, unit: cycles, source: "fitted: so", fitted_on: a.csv}', "must be a list of texts"),
    ],
)
def test_a_chip_file_says_rows_of_fitted_costs_alone(tmp_path: Path, leaf: str, message: str) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(f"extends: ascend910b3\nsync:\n  flag_latency: {leaf}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_chip(path)
