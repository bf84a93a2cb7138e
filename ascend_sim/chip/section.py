"""The base of the sections of a chip: copies, and dumps as plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal, Self

from ascend_sim.frozen import frozen


@frozen(kw_only=True)
class Section:
    """Base class of the parts of a chip. An unknown key of a file is refused.

    `model_copy` and `model_dump` are named as in pydantic's models, which cases use.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "forbid"}

    def model_copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with the fields of `update`, which are not checked."""
        return replace(self, **(update or {}))

    def model_dump(self, mode: Literal["python", "json"] = "python") -> dict[str, Any]:
        """Return all fields as plain dicts; in mode "json" as JSON would give them back: lists for tuples, texts for keys that
        are numbers.
        """
        return json.loads(self.model_dump_json()) if mode == "json" else asdict(self)  # type: ignore[no-any-return]

    def model_dump_json(self) -> str:
        """Return all fields as JSON text."""
        return json.dumps(asdict(self), separators=(",", ":"))
