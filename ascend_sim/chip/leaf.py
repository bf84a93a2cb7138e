"""One number of a chip file: its value, its unit and where it comes from.

In YAML a number is `{value: 65536, unit: bytes, source: "CANN 8.1.RC1 platform_config/Ascend910B3.ini l0_a_size"}`. One that is
not stated may say which rows of configs/measurements decided it, by a fit or where a derivation or an assumption was chosen by
them: `fitted_on: ["matmul.csv: series=AlexNet, K=32"]`.
A field of the models declares the unit it expects with `UnitName`; what is left after validation is the plain number.
"""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

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
        """Return the certainty of the number: `stated`, `derived`, `fitted` or `assumed`, the word before the colon; without
        one `stated`.
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
class UnitName:
    """Annotation of a model's field: its value must be a `Leaf` in the unit `name`, and validation leaves the plain number."""

    name: str

    def __get_pydantic_core_schema__(self, source_type: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_before_validator_function(self._number, handler(source_type))

    def _number(self, given: object, info: core_schema.ValidationInfo[Any]) -> object:
        if info.context == PLAIN:
            return given
        if not isinstance(given, Leaf):
            raise ValueError(f"must be written {{value: ..., unit: {self.name}, source: ...}}, got {given!r}")
        if given.source.unit != self.name:
            raise ValueError(f"unit is {given.source.unit!r}, this field is in {self.name!r}")
        return given.value
