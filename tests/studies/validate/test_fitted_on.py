"""Every fitted cost names measured rows, and those rows are there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.errors import ConfigError
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.ops.kernels.cube.vendor import open_procedures
from ascend_sim.studies.validate.rows import shipped_rows
from tests.support.places import TOOLS
from tests.support.sampling import part_of_cases
from tools.accuracy_parts.fitted_on import fitted_of, selected

CHIPS = chip_names()


def test_every_fitted_cost_names_rows_that_there_are() -> None:
    found = {(chip, place): texts for chip in CHIPS for place, (_, texts) in fitted_of(load_chip(chip)).items()}
    assert len({place for _, place in found}) > 50
    assert [key for key, texts in found.items() if not texts] == []
    for text in {text for texts in found.values() for text in texts}:
        assert selected(text)


SPEAKS_OF_ROWS = re.compile(
    r"\brows?\b|\b(GEMM|copy) sample\b|\bformula\b|\bmeasured streams\b|\bpto tiles\b"
    r"|\bmsKPP (GM_TO_L1|GM_TO_L0[AB]|UB_TO_GM|L0C_TO_GM|L1_TO_(BT|FB))\b"
)
SAY_NOTHING = ("no row", "cannot tell", "nothing there shows")


def chosen_by_rows(text: str) -> bool:
    """Return True if a source speaks of measured rows that decided its number."""
    return SPEAKS_OF_ROWS.search(text) is not None and not any(words in text for words in SAY_NOTHING)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("assumed: the rate of L1->L0A at every stride; ResNet-50 rows fit best so", True),
        ("derived: GEMM sample, 9.2", True),
        ("derived: isolated 1 KB takes 172.8 cycles (msKPP GM_TO_L1)", True),
        ("assumed: as GM->L1; msKPP GM_TO_L1_TRANS starts at 781 cycles", False),
        ("assumed: ResNet-50 rows cannot tell 0 from 20", False),
        ("assumed: as dav-2201", False),
    ],
)
def test_what_speaks_of_rows(text: str, chosen: bool) -> None:
    assert chosen_by_rows(text) is chosen


def test_a_source_that_speaks_of_rows_lists_them() -> None:
    """A cost that was chosen by measured rows, whatever its mark says, is on the list as a fitted one is."""
    of_chips = {
        f"{source.text} {place}": source.fitted_on
        for chip in CHIPS
        for place, source in load_chip(chip).sources.items()
        if source.mark in ("assumed", "derived") or place.startswith("clock.")
    }
    of_tilings = {
        f"{leaf['source']} {number}": leaf.get("fitted_on", ())
        for kernels in open_procedures().values()
        for kernel in kernels.values()
        for number, leaf in kernel.items()
        if isinstance(leaf, dict)
    }
    of_libraries = {
        f"{leaf['source']} {cost}": leaf.get("fitted_on", ())
        for version in libraries().values()
        for kernel in version.values()
        if not isinstance(kernel, str)
        for cost, leaf in kernel.items()
        if isinstance(leaf, dict)
    }
    spoken = {text: rows for text, rows in (of_chips | of_libraries | of_tilings).items() if chosen_by_rows(text)}
    assert len(spoken) > 25
    assert [text for text, rows in spoken.items() if not rows] == []


def test_a_clock_and_a_number_of_a_tiling_are_costs_too() -> None:
    found = fitted_of(load_chip("ascend910b"))
    assert found["clock.cube_mhz"][1] == ("910_conv_backward.csv: chip=ascend910b",)
    (text,) = found["tilings.yaml: grad_weight.tiled_for"][1]
    assert {(row["op_type"], row["N"]) for row in selected(text)} == {("Conv2DBackpropFilter", "64")}
    assert not any("tilings.yaml" in place for place in fitted_of(load_chip("ascend910b2")))


@pytest.fixture
def structure(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOLS)
    return import_module("accuracy_parts.structure")


def test_every_choice_names_a_file_and_rows_that_there_are(structure: Any) -> None:
    for one in structure.CHOICES:
        assert (TOOLS.parent / one.place).is_file(), one.place
        assert one.what and one.rows and all(selected(text) for text in one.rows)


@part_of_cases(3)
@pytest.mark.parametrize(
    ("chip", "op_type", "series", "chosen"),
    [
        ("ascend910b", "Conv2DBackpropFilter", "", True),
        ("ascend910b", "Conv2DBackpropFilter", "batch 32, other software", True),
        ("ascend910b", "Conv2DBackpropInput", "", True),
        ("ascend910b", "Conv2DBackpropInput", "batch 32, other software", True),
        ("ascend910b", "Cast", "", False),
        ("ascend910b2", "Conv2DBackpropFilter", "", True),
        ("ascend910b2", "npu_conv3d_backward", "", True),
        ("ascend910b2", "TransData", "", True),
        ("ascend910b2", "conv2d", "", False),
        ("ascend950pr_9579", "npu_conv3d_backward", "", True),
        ("ascend950pr_9579", "conv2d", "", True),
        ("ascend950pr_9579", "conv2d", "depthwise", False),
        ("ascend910b4", "conv3d", "KernelBench", True),
    ],
)
def test_which_rows_chose_a_structure(structure: Any, chip: str, op_type: str, series: str, chosen: bool) -> None:
    """The page marks them: what was chosen with rows in view is not tested by them."""
    rows = [row for row in shipped_rows() if (row.kernel.chip, row.kernel.op_type, row.series) == (chip, op_type, series)]
    assert rows and structure.was_chosen_on(rows) is chosen


def test_the_grouped_call_chose_nothing(structure: Any) -> None:
    """Two of its kernels were not known when the V1 kernel was held against the nine others."""
    calls = [row for row in shipped_rows() if row.kernel.op_type == "npu_conv3d_backward" and row.duration_us == 87.26]
    assert len(calls) == 1 and not structure.was_chosen_on(calls)


def test_small_programs_that_set_a_cost_are_the_rows_of_that_cost() -> None:
    """The table of small programs and the chip files say the same, from both sides."""
    for row in shipped_rows():
        place = row.cells.get("sets", "")
        if place:
            costs = fitted_of(load_chip(row.kernel.chip))
            named = [texts for name, (_, texts) in costs.items() if name.startswith(place)]
            assert any(row.cells in selected(text) for texts in named for text in texts), place


def test_the_library_versions_costs_are_fitted_on_the_950s_weight_gradients_and_depthwise_calls() -> None:
    found = fitted_of(load_chip("ascend950pr_9579"))
    forward = [texts for place, (_, texts) in found.items() if place.endswith(", Conv3DV2.group_pixel_cycles")]
    assert len(forward) == 2
    for (text,) in forward:
        assert {row["series"] for row in selected(text)} == {"depthwise"} and len(selected(text)) == 10
    costs = {place: texts for place, (_, texts) in found.items() if ", Conv3DBackpropFilterV2." in place}
    three = {"turn_bytes_per_cycle", "plane_cycles", "head_us"}
    by_version = {"9.0.0": three, "2026-08": three - {"plane_cycles"}}
    assert set(costs) == {
        f"{version}, Conv3DBackpropFilterV2.{cost}" for version, names in by_version.items() for cost in names
    }
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
        ('{value: 30, unit: cycles, source: "stated: so", fitted_on: ["a.csv: b=c"]}', "begins with `fitted:`"),
        ('{value: 30, unit: cycles, source: "a page of the vendor", fitted_on: ["a.csv: b=c"]}', "begins with `fitted:`"),
        ('{value: 30, unit: cycles, source: "fitted: so", fitted_on: a.csv}', "must be a list of texts"),
    ],
)
def test_a_chip_file_says_no_rows_of_stated_numbers(tmp_path: Path, leaf: str, message: str) -> None:
    path = tmp_path / "chip.yaml"
    path.write_text(f"extends: ascend910b3\nsync:\n  flag_latency: {leaf}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_chip(path)
