"""The chip tables of the report (ascend_sim/studies/lookup/chips.py)."""

from __future__ import annotations

import pytest
from rich.console import Console, RenderableType

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.studies.lookup.chips import chip_detail, chips_table, compare_table

pytestmark = pytest.mark.fast


def printed(what: RenderableType) -> list[list[str]]:
    """Lines as they are printed on a wide terminal, split into words."""
    console = Console(width=600)
    with console.capture() as capture:
        console.print(what)
    return [line.split() for line in capture.get().splitlines()]


def test_the_table_has_a_row_for_every_chip() -> None:
    rows = {words[0]: words[1:] for words in printed(chips_table()) if words and words[0] in chip_names()}
    assert list(rows) == chip_names()
    assert rows["ascend910b3"] == "910B dav-2201 20 40 1800 294.9 147.5 73.7 64 1750 192".split()  # noqa: SIM905
    assert rows["ascend910b4"] == "910B dav-2201 20 40 1650 270.3 135.2 67.6 32 800 96".split()  # noqa: SIM905
    assert rows["ascend310p3"] == "310P dav-2002 8 7 1060 69.5 - - 22.35 207.2 16".split()  # noqa: SIM905


def test_the_detail_shows_value_unit_and_source_of_every_number() -> None:
    spec = load_chip("ascend910b3")
    lines = printed(chip_detail(spec))
    for place, source in spec.sources.items():
        field = place.partition(".")[2]
        units = [source.unit] if source.unit != "bytes" else ["bytes", "KiB", "MiB", "GiB"]
        wanted = [[unit, *source.text.split()] for unit in units]
        assert [words for words in lines if words and words[0] == field and words[2:] in wanted], place
    assert ["UB", "192", "KiB"] in [words[:3] for words in lines]
    assert ["hbm_bytes", "64", "GiB"] in [words[:3] for words in lines]
    assert ["issue_cycles.AIC", "20", "cycles"] in [words[:3] for words in lines]
    assert ["partial_line_refetch", "true", "bool"] in [words[:3] for words in lines]


def test_the_detail_derives_peaks_and_spells_out_short_names() -> None:
    lines = printed(chip_detail(load_chip("ascend910b1")))
    assert ["fp16", "peak", "363.7", "TFLOPS"] in [words[:4] for words in lines]
    assert ["HBM,", "long", "linear", "stream", "1494", "GB/s"] in [words[:6] for words in lines]
    assert any(words[:2] == ["msKPP", "MindStudio"] for words in lines)


COMPARED = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")


def test_comparing_shows_what_differs_and_counts_what_does_not() -> None:
    specs = [load_chip(name) for name in COMPARED]
    lines = printed(compare_table(specs))
    shown = {words[0]: words[1 : 1 + len(specs)] for words in lines if words and "." in words[0]}
    places = dict.fromkeys(place for spec in specs for place in spec.sources)
    numbers = [spec.numbers() for spec in specs]
    for place in places:
        values = [one[place] if place in spec.sources else None for spec, one in zip(specs, numbers, strict=True)]
        assert (place in shown) == (len(set(values)) > 1), place
        if place in shown and "bytes" not in [spec.sources[place].unit for spec in specs if place in spec.sources]:
            assert [None if word == "-" else word for word in shown[place]] == [
                value if value is None else str(value).lower() if isinstance(value, bool) else f"{value:.12g}"
                for value in values
            ], place
    assert any(words[:6] == [str(len(places) - len(shown)), "numbers", "are", "equal", "in", "all"] for words in lines)


def test_comparing_derives_peaks_and_bandwidth() -> None:
    lines = printed(compare_table([load_chip(name) for name in COMPARED]))
    assert ["fp16", "peak", "262.1", "69.5", "294.9", "432.5", "TFLOPS"] in lines
    assert ["int8", "peak", "524.3", "138.9", "589.8", "865.1", "TOPS"] in lines
    assert ["fp32", "peak", "-", "-", "73.7", "27.0", "TFLOPS"] in lines
    assert "buffers.L1 1 MiB 1 MiB 512 KiB 512 KiB".split() in lines  # noqa: SIM905
    assert ["cores", "coupled", "coupled", "split", "split"] in lines
