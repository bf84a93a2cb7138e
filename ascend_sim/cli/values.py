"""Readers of option values that are more than a word or a number: tilings, flags, indices, keywords."""

from __future__ import annotations

import re
from math import isfinite
from os.path import isfile
from pathlib import Path
from typing import Any

from ascend_sim.errors import ConfigError, SimError, why_no_file

FIELD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*")
"""Pattern of a keyword: a name, or a member of a C++ structure: `count`, `shape.rows`, `parts[1]`."""
WHOLE_NUMBER = re.compile("-?(?:0|[1-9][0-9]{0,17})")


def parse_tiling(text: str) -> dict[str, dict[str, Any]]:
    """Return {cube kernel: {tiling field: value}} from KERNEL.FIELD=WHOLE NUMBER,... or, without "=", from a YAML file.

    Names of kernels and fields are not checked, nor are a file's values. Raises ConfigError for another form and a field given
    twice.
    """
    if "=" not in text:
        from ascend_sim.yaml_file import read_yaml

        form = "must map grad_input and grad_weight to fields, like grad_input: {baseM: 256}"
        if not isfile(text):
            raise ConfigError(f"--tiling {text}: {why_no_file(Path(text))}, and not of the form KERNEL.FIELD=VALUE,...")
        data = read_yaml(Path(text), form)
        if not all(isinstance(fields, dict) for fields in data.values()):
            raise ConfigError(f"--tiling {text}: {form}")
        return data
    fields: dict[str, dict[str, Any]] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        kernel, dot, field = key.strip().partition(".")
        if not dot or not WHOLE_NUMBER.fullmatch(value.strip()):
            raise ConfigError(f"--tiling {part!r}: allowed is KERNEL.FIELD=WHOLE NUMBER, for example grad_input.baseM=256")
        if field in fields.setdefault(kernel, {}):
            raise ConfigError(f"--tiling: {kernel}.{field} is given twice")
        fields[kernel][field] = int(value)
    return fields


def parse_block_dim(text: str) -> int | dict[str, int]:
    """Return the block count of the cube kernels: one int for both, or {kernel: number} from KERNEL=NUMBER,...

    Names and the range of numbers are not checked. Raises ConfigError for another form and a kernel given twice.
    """
    if WHOLE_NUMBER.fullmatch(text.strip()):
        return int(text)
    blocks: dict[str, int] = {}
    for part in text.split(","):
        kernel, _, value = part.partition("=")
        if not WHOLE_NUMBER.fullmatch(value.strip()):
            raise ConfigError(f"--block-dim {part!r}: allowed is a number, or KERNEL=NUMBER, for example grad_weight=32")
        if kernel.strip() in blocks:
            raise ConfigError(f"--block-dim: {kernel.strip()} is given twice")
        blocks[kernel.strip()] = int(value)
    return blocks


def parse_share(percent: float) -> float:
    """Return a percentage as a share: 25 becomes 0.25. No value is refused, negative or above 100 either."""
    return percent / 100


def parse_models(text: str) -> str | list[str]:
    """Return "all", or the list of names from a text with commas."""
    return text if text == "all" else text.split(",")


def parse_disarm(flags: list[str] | None) -> dict[str, list[str]] | None:
    """Return {kernel: [its flags]} from texts KERNEL.FLAG; None without any. Raises ConfigError for another form."""
    waits: dict[str, list[str]] = {}
    for one in flags or ():
        kernel, _, flag = one.partition(".")
        if not kernel or not flag:
            raise ConfigError(
                f"--disarm {one}: allowed is KERNEL.FLAG, for example 'grad_input.A1[0] full'; run --flags lists them"
            )
        waits.setdefault(kernel, []).append(flag)
    return waits or None


def parse_index(option: str, text: str | None) -> tuple[int, ...] | None:
    """Return the index of an element from whole numbers with commas, negative ones too; None for None.

    Raises ConfigError, which names `option`.
    """
    if text is None:
        return None
    parts = text.split(",")
    if not all(WHOLE_NUMBER.fullmatch(part.strip()) for part in parts):
        raise ConfigError(f"{option} {text!r}: allowed are whole numbers with commas, for example {option} 0,3,5,5")
    return tuple(int(part) for part in parts)


def fields_of(text: str | None) -> dict[str, Any]:
    """Return {name: value} from NAME=VALUE,...; values are int, float, bool (true, false) or text. None gives {}.

    Raises SimError for another form, a name given twice and numbers that are not plain decimal, such as 010 or 1_000.
    """
    fields: dict[str, Any] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not FIELD.fullmatch(name) or not value:
            raise SimError(f"--tiling {part!r}: allowed is NAME=VALUE,..., for example base_m=64,base_n=64")
        if name in fields:
            raise SimError(f"--tiling: {name} is given twice")
        fields[name] = _value(value)
    return fields


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    from ascend_sim.yaml_file import DECIMAL  # with the YAML parser

    for number in (int, float):
        try:
            value = number(text)
        except ValueError:
            continue
        if isfinite(value) and not DECIMAL.fullmatch(text):
            raise SimError(f"--tiling {text!r}: numbers are plain decimal, like 16, -3 or 0.5")
        return value
    return text
