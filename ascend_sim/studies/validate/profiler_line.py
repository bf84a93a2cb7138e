"""One line of a profiler's table: operands, times and counts, under one set of names for all versions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ascend_sim.frozen import frozen

NAMES = {
    "type": ("op type", "type"),
    "name": ("op name", "name"),
    "core": ("task type", "accelerator core"),
    "start": ("task start time(us)", "start time(us)"),
    "duration": ("task duration(us)", "duration(us)"),
    "blocks": ("block dim", "block num"),
    "hf32": ("hf32 eligible",),
    "input shapes": ("input shapes",),
    "input types": ("input data types",),
    "input formats": ("input formats",),
    "output shapes": ("output shapes",),
    "output types": ("output data types",),
    "output formats": ("output formats",),
}
"""Columns by a short name: what the versions of the profiler call them, lower case."""

_DTYPES = {"float": "fp32", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_NONE = ("", "N/A", "NA", "NULL", "nan")


@frozen
class ProfiledTensor:
    """One operand in the profiler's table: shape, dtype and format."""

    shape: tuple[int, ...]
    dtype: str
    format: str

    def __str__(self) -> str:
        return f"{self.format} [{', '.join(map(str, self.shape))}]"


class Line:
    """One line of a profiler's table, read by the short column names of NAMES; an empty or N/A cell reads as ""."""

    def __init__(self, cells: Mapping[str, str]) -> None:
        # The profiler quotes lists twice and ends times with a tab.
        clean = {head.strip().lower(): (value or "").strip().strip('"').strip() for head, value in cells.items()}
        self.text = {head: "" if value in _NONE else value for head, value in clean.items()}

    def __getitem__(self, name: str) -> str:
        return next((self.text[head] for head in NAMES[name] if self.text.get(head)), "")

    def number(self, name: str) -> float | None:
        """Return the number in a column, a short name of NAMES or a head in lower case, as a float; None for an empty or
        missing cell.

        Raises ValueError for anything but a finite number from 0.
        """
        heads = NAMES.get(name, (name,))
        text = next((self.text[head] for head in heads if self.text.get(head)), "")
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise ValueError(f"{heads[0]}: {text!r} given; must be a number from 0")
        return value

    def tensors(self, side: str) -> list[ProfiledTensor]:
        """Return the operands of one side ("input" or "output"); [] if their cells are empty.

        A scalar has an empty shape, a missing dtype or format is "". Raises ValueError for text that is not a shape.
        """
        if not self[f"{side} shapes"] and not self[f"{side} types"]:
            return []
        shapes = [_shape(text) for text in self[f"{side} shapes"].split(";")]
        dtypes, formats = ([part.strip() for part in self[f"{side} {kind}"].split(";")] for kind in ("types", "formats"))
        padded = [names + [""] * (len(shapes) - len(names)) for names in (dtypes, formats)]
        return [
            ProfiledTensor(shape, _dtype(dtype), form.upper().removeprefix("FORMAT_"))
            for shape, dtype, form in zip(shapes, *padded, strict=False)
        ]


def _shape(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    if parts == [""]:
        return ()
    if not all(part.isdigit() for part in parts):
        raise ValueError(f"Shapes: {text!r} given; a shape is whole numbers with commas, shapes are apart by semicolons")
    return tuple(int(part) for part in parts)


def _dtype(text: str) -> str:
    name = text.lower().removeprefix("dt_")
    return _DTYPES.get(name, name)
