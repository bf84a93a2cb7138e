"""Numbers of a chip with which an engine would wrap, and sizes that everything is written for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError


def refused(tmp_path: Path, text: str, field: str, said: str) -> None:
    """The file must be refused in one line that names it, the dotted field and the reason."""
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_chip(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: {field}: ")
    assert re.search(said, message), message
    assert "\n" not in message


def overlay(tmp_path: Path, text: str, name: str = "mine.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("field", "unit", "only"),
    [
        ("cube.m0", "elements", 16),
        ("cube.n0", "elements", 16),
        ("alignment.block", "bytes", 32),
        ("alignment.fractal", "bytes", 512),
        ("alignment.accumulator", "bytes", 1024),
    ],
)
def test_sizes_that_everything_is_written_for(tmp_path: Path, field: str, unit: str, only: int) -> None:
    """Sizes that layouts and instructions rely on a file may repeat, not change."""
    section, key = field.split(".")
    text = f"extends: ascend910b3\n{section}: {{{key}: {{value: %d, unit: {unit}, source: x}}}}\n"
    assert load_chip(overlay(tmp_path, text % only)).name == "mine"
    for other in (only // 2, 2 * only):
        refused(tmp_path, text % other, field, f"{other} given; the only value is {only}, for which layouts and instructions")


@pytest.mark.parametrize(
    ("section", "field", "number", "said"),
    [
        ("memory", "hbm_latency", "{value: 2147483648, unit: cycles", "is 2147483648; at most 2147483647"),
        ("memory", "l2_line_bytes", "{value: 131072, unit: bytes", "is 131072; at most 65536"),
        ("memory", "hbm_gb_per_s", "{value: 1.0e+30, unit: GB/s", r"comes to .* from 2\*\*-16 to below 2\*\*30"),
        ("sync", "flag_latency", "{value: 9999999999, unit: cycles", "is 9999999999; at most 2147483647"),
    ],
)
def test_numbers_with_which_an_engine_would_wrap(tmp_path: Path, section: str, field: str, number: str, said: str) -> None:
    text = f'extends: ascend910b3\n{section}: {{{field}: {number}, source: "assumed: what if"}}}}\n'
    file = overlay(tmp_path, text)
    with pytest.raises(ConfigError, match=rf"{section}\.{field}: {said}") as caught:
        load_chip(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)
