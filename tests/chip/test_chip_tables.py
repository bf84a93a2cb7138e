"""The chip tables of the report (ascend_sim/report/chips.py)."""

from __future__ import annotations

from rich.console import Console, RenderableType

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.report.chips import chip_detail, chips_table


def printed(what: RenderableType) -> list[list[str]]:
    """Lines as they are printed on a wide terminal, split into words (rulers of the table are words too)."""
    console = Console(width=600)
    with console.capture() as capture:
        console.print(what)
    return [line.replace("│", " ").split() for line in capture.get().splitlines()]


def test_the_table_has_a_row_for_every_chip() -> None:
    rows = {words[0]: words[1:] for words in printed(chips_table()) if words and words[0] in chip_names()}
    assert list(rows) == chip_names()
    assert rows["ascend910b3"] == "910B dav-2201 20 40 1800 294.9 147.5 73.7 64 1750 192".split()  # noqa: SIM905
    assert rows["ascend910b4"] == "910B dav-2201 20 40 1650 270.3 135.2 67.6 32 800 96".split()  # noqa: SIM905


def test_the_detail_shows_value_unit_and_source_of_every_number() -> None:
    spec = load_chip("ascend910b3")
    lines = printed(chip_detail(spec))
    for place, source in spec.sources.items():
        field = place.partition(".")[2]
        shown = [words for words in lines if words[0] == field and words[2:] == [source.unit, *source.text.split()]]
        assert shown, place
    assert ["UB", "196608", "bytes"] in [words[:3] for words in lines]
    assert ["issue_cycles", "5", "cycles"] in [words[:3] for words in lines]
    assert ["partial_line_refetch", "true", "bool"] in [words[:3] for words in lines]


def test_the_detail_derives_peaks_and_spells_out_short_names() -> None:
    lines = printed(chip_detail(load_chip("ascend910b1")))
    assert ["fp16", "peak", "363.7", "TFLOPS"] in [words[:4] for words in lines]
    assert ["HBM,", "long", "linear", "stream", "1494", "GB/s"] in [words[:6] for words in lines]
    assert any(words[:2] == ["msKPP", "MindStudio"] for words in lines)
