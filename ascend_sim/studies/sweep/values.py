"""`--vary FIELD=VALUES` as a field and its values: a list with commas, or FIRST:LAST, FIRST:LAST:STEP, FIRST:LAST:*FACTOR.

parse_vary("batch=1:64:*2")            # ("batch", [1, 2, 4, 8, 16, 32, 64])
parse_vary("chip.buffers.L1=512KiB,1MiB")    # in bytes
parse_vary("padding=[0,0],[1,1]")      # ("padding", [[0, 0], [1, 1]])
parse_vary("chip.cores.aic,chip.cores.aiv=[24,48],[20,40]")    # two fields that vary together
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import ConfigError
from ascend_sim.yaml_file import parse_yaml

MOST_POINTS = 100_000
"""Limit of a sweep's points: a larger number is taken for a typing error."""
_NUMBER = r"-?(?:(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,2})?"
"""Number of a range or a size, of so few digits that none overflows."""
_RANGE = re.compile(rf"(?P<first>{_NUMBER}):(?P<last>{_NUMBER})(?::(?P<by>\*?)(?P<step>{_NUMBER}))?")
_SIZE = re.compile(rf"(?<![^,\[\s:])(?P<count>{_NUMBER})\s?(?P<unit>[KMG]iB)(?![^,\]\s:])")
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_ALLOWED = (
    "allowed are values with commas (64,128), FIRST:LAST, FIRST:LAST:STEP or FIRST:LAST:*FACTOR (1:64:*2), sizes also in KiB, "
    "MiB and GiB (512KiB); fields that vary together, with commas too, take lists ([24,48],[20,40])"
)


def parse_vary(text: str) -> tuple[str, list[Any]]:
    """Return (field, values) of the text FIELD=VALUES, where VALUES is a range of numbers, its last one included, or a list in
    YAML without its brackets; sizes with a unit (512KiB) become bytes.

    Raises ConfigError for a missing part, broken YAML, a range that is empty, broken or has more than 100,000 numbers, and a
    value that is none or a mapping.
    """
    name, equals, values = (part.strip() for part in text.partition("="))
    if not name or not equals or not values:
        raise ConfigError(f"--vary {text!r}: allowed is FIELD=VALUES; {_ALLOWED}")
    values = _SIZE.sub(_in_bytes, values)
    match = _RANGE.fullmatch(values)
    if match is not None:
        return name, _range(text, match)
    if re.match(rf"{_NUMBER}:", values):
        raise ConfigError(f"--vary {text!r}: {values} is not a range of numbers; {_ALLOWED}")
    # As YAML says it in a file; a path with a colon in it is still a text.
    found = parse_yaml(f"values: [{values}]", f"--vary {text!r}", _ALLOWED)["values"]
    if not found or any(value is None or isinstance(value, dict) for value in found):
        raise ConfigError(f"--vary {text!r}: a value is missing or none; {_ALLOWED}")
    return name, found


def grouped(vary: Mapping[str, Any]) -> dict[tuple[str, ...], list[Sequence[Any]]]:
    """Return {fields that vary together: their settings}; each setting is a tuple with a value for each field.

    A name with commas is a group; a text, path, chip or other value that cannot be iterated counts as one setting. Raises
    ConfigError for a field given twice, and for a setting of several fields with another number of values.
    """
    found: dict[tuple[str, ...], list[Sequence[Any]]] = {}
    for text, given in vary.items():
        names = tuple(name.strip() for name in str(text).split(","))
        one = isinstance(given, str | Path | ChipSpec) or not isinstance(given, Iterable)
        values = [given] if one else list(given)
        if len(names) == 1:
            found[names] = [(value,) for value in values]
            continue
        for value in values:
            if not isinstance(value, list | tuple) or len(value) != len(names):
                raise ConfigError(
                    f"--vary {text}: {value!r} given; {len(names)} fields that vary together take {len(names)} values at a "
                    f"time, like [{','.join('12345'[: len(names)])}]"
                )
        found[names] = [tuple(value) for value in values]
    flat = [name for names in found for name in names]
    for name in flat:
        if flat.count(name) > 1:
            raise ConfigError(f"--vary {name}: given twice; its values stand in one list")
    return found


def _in_bytes(size: re.Match[str]) -> str:
    """Return the bytes of a matched size with a unit (512KiB), as text."""
    count = _number(size["count"]) * _BYTES[size["unit"]]
    return str(int(count) if count == int(count) else count)


def _range(text: str, match: re.Match[str]) -> list[Any]:
    first, last, step = (_number(match[part] or "1") for part in ("first", "last", "step"))
    by_factor = match["by"] == "*"
    if (first <= 0 or step <= 1) if by_factor else step <= 0:
        least = "a first value above 0 and a factor above 1" if by_factor else "a step above 0"
        raise ConfigError(f"--vary {text!r}: a range needs {least}")
    found, value = [], first
    while value <= last:
        found.append(value)
        if len(found) > MOST_POINTS:
            raise ConfigError(f"--vary {text!r}: more than {MOST_POINTS:,} values")
        # From the first one: steps that were added up would carry their rounding along.
        value = first * step ** len(found) if by_factor else first + step * len(found)
    if not found:
        raise ConfigError(f"--vary {text!r}: no value; the last one is below the first")
    return found


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch("-?[0-9]+", text) else float(text)
