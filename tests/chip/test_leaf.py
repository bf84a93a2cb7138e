"""Every number of a chip file has a value, a unit and a source."""

from __future__ import annotations

import json

import pytest

from ascend_sim.chip import chip_names, load_chip
from tests.support.places import DATA

pytestmark = pytest.mark.fast


INI = json.loads((DATA / "chips_ini.json").read_text(encoding="utf-8"))["socs"]


@pytest.mark.parametrize("name", chip_names())
def test_every_number_of_the_model_has_a_unit_and_a_source(name: str) -> None:
    chip = load_chip(name)

    def numbers(node: object, at: str) -> list[str]:
        if isinstance(node, dict):
            return [leaf for key, child in node.items() for leaf in numbers(child, f"{at}.{key}")]
        return [at[1:]] if isinstance(node, int | float) else []

    found = [place for place in numbers(chip.model_dump(), "") if place != "cores.coupled"]
    assert sorted(found) == sorted(chip.sources)
    assert all(source.unit and source.text for source in chip.sources.values())


def test_a_soc_without_a_platform_file_says_where_its_cores_are_from() -> None:
    assert "36-core 950PR_9599" in load_chip("ascend950pr_9599").sources["cores.aic"].text


@pytest.mark.parametrize("name", [name for name in chip_names() if load_chip(name).identity.soc in INI])
def test_sources_name_their_soc(name: str) -> None:
    chip = load_chip(name)
    file = INI[chip.identity.soc].get("file", f"platform_config/{chip.identity.soc}.ini")
    places = ["cores.aic", "clock.cube_mhz"]
    places += [] if chip.identity.arch == "dav-1001" else ["cores.aiv"]
    places += ["memory.l2_bytes"] if chip.identity.arch == "dav-2201" else ["memory.hbm_gb_per_s"]
    for place in places:
        assert file in chip.sources[place].text
