"""Instructions and modes that chips have and no method writes, declared in configs/instructions/not_simulated.yaml."""

from __future__ import annotations

from functools import cache
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.shipped import read_config


@frozen
class NotSimulated:
    """Entry of the file: `words` name the feature that the `architectures` have.

    `method` is the method of a kernel that is refused for what `of` names: a way, a format or the bytes of an item. `calls` are
    names of the Ascend C API that are refused at compile time.
    """

    words: str
    architectures: tuple[str, ...]
    source: str
    method: str = ""
    of: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@cache
def not_simulated() -> tuple[NotSimulated, ...]:
    """Return the declared entries in the order of the file, which is read once."""
    entries: list[dict[str, Any]] = read_config("instructions/not_simulated.yaml")["forms"]
    lists: list[dict[str, Any]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()} for entry in entries
    ]
    return tuple(NotSimulated(**entry) for entry in lists)


def refuse_not_simulated(chip: ChipSpec, method: str, of: object, instead: str = "") -> None:
    """Raise SimError if the chip has the feature `of` of `method` and it is declared as not simulated; otherwise return.

    `instead` is a text in the message that names simulated ones.
    """
    arch = chip.identity.arch
    for one in not_simulated():
        if one.method == method and str(of) in one.of and arch in one.architectures:
            raise SimError(
                f"{method} ({of}): {one.words}: {chip.name} ({arch}) has it, but it is not simulated"
                f"{instead and f'; simulated are {instead}'} ({one.source})"
            )
