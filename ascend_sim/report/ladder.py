"""A report's ladder in a few words: the rung that answered, and those that refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

TABLE = "tuned table"
_REASON = 90
"""Characters of a reason."""


def asks_table(ladder: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if the ladder has the rung "tuned table": the library looks there before it chooses (ops-nn: stated)."""
    return any(step["rung"] == TABLE for step in ladder)


def ladder_words(ladder: Sequence[Mapping[str, Any]]) -> str:
    """Return a report's "ladder", one step or more, as a sentence: the rung that answered with its mark, the others' names, the
    last reason.

    A reason is cut to 90 characters; `--json` has all of them whole.
    """
    *refused, answer = ladder
    words = f"{answer['rung']} ({answer['mark']})"
    if not refused:
        return words
    names = ", ".join(step["rung"] for step in refused)
    return f"{words}; refused: {names}: {shorten(refused[-1]['refused'], _REASON, placeholder=' ...')}"
