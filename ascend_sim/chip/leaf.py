"""One number of a chip file: its value, its unit and where it comes from.

In YAML a number is `{value: 65536, unit: bytes, source: "CANN 8.1.RC1 platform_config/Ascend910B3.ini l0_a_size"}`. One that is
not stated may say which rows of configs/measurements decided it, by a fit or where a derivation or an assumption was chosen by
them: `fitted_on: ["matmul.csv: series=AlexNet, K=32"]`.
A field declares the unit that it expects with `Quantity`; what is left after validation is the plain number. pydantic is
imported only where a file is validated: a command that finds its chip in the cache needs none of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ascend_sim.frozen import frozen

MARKS = ("assumed", "derived", "fitted", "stated")


PLAIN = "plain numbers"
"""Validation context for trees of plain numbers without units: a chip that a program wrote."""


@frozen
class Source:
    """Unit and origin of one number, as its YAML leaf gives them; also the measured rows that decided it."""

    unit: str
    text: str
    fitted_on: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Return the certainty of the number: `stated`, `derived`, `fitted` or `assumed` if the text begins with that word and
        a colon, else `stated`.
        """
        head, colon, _ = self.text.partition(":")
        return head if colon and head in MARKS else "stated"


@frozen
class Leaf:
    """A number with its source, as a chip file gives it; its unit is not checked against the field's yet."""

    value: int | float | bool
    source: Source

    def __repr__(self) -> str:
        """Return the value as text, as messages show it."""
        return repr(self.value)


@frozen
class Quantity:
    """Annotation of a number field of a chip: the unit of its `Leaf` in the file ("": it is not a leaf) and its bounds.

    A number lies `above`, is at `least` or at `most` so much; `only` is the single value that layouts are written for. Reading
    a file leaves the plain number.
    """

    unit: str = ""
    above: float | None = None
    least: float | None = None
    most: float | None = None
    only: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        if source is bool:
            schema: Any = core_schema.bool_schema(strict=True)
        else:
            of: Any = core_schema.int_schema if source is int else partial(core_schema.float_schema, allow_inf_nan=False)
            schema = of(strict=True, gt=self.above, ge=self.least, le=self.most)
        if self.only is not None:
            schema = core_schema.no_info_after_validator_function(self._check_only, schema)
        return core_schema.with_info_before_validator_function(self._number, schema) if self.unit else schema

    def _check_only(self, given: int) -> int:
        if given != self.only:
            raise ValueError(f"{given} given; the only value is {self.only}, for which layouts and instructions are written")
        return given

    def _number(self, given: object, info: Any) -> object:
        if info.context == PLAIN:
            return given
        if not isinstance(given, Leaf):
            raise ValueError(f"must be written {{value: ..., unit: {self.unit}, source: ...}}, got {given!r}")
        if given.source.unit != self.unit:
            raise ValueError(f"unit is {given.source.unit!r}, this field is in {self.unit!r}")
        return given.value


@frozen
class NotEmpty:
    """Annotation of a list in a chip file that has one entry or more."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "min_length": 1}
