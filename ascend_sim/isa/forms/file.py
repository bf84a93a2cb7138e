"""Reader of the forms in configs/instructions; a file is read and checked when an instruction of its group is made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ascend_sim.errors import ConfigError
from ascend_sim.frozen import frozen
from ascend_sim.isa.forms.form import Field, Form, FormRule, Way
from ascend_sim.shipped import read_config

_FIELD = re.compile(
    r"(?P<bits>\d+) bits( of (?P<register>\w+)( from (?P<first>\d+))?)?, (?P<unit>[^,;]+)"
    r"(, (?P<low>-?\d+) to (?P<high>\d+))?(; (?P<source>.+))?"
)
_TEXT = "BITS bits [of REGISTER [from BIT]], UNIT[, LOW to HIGH][; SOURCE]"
GROUPS = ("copies", "loads", "cube", "vector")
"""Groups of instructions: each is a file of configs/instructions and a module beside this one with the file's ways."""


@frozen
class Atomics:
    """Entry of configs/instructions/atomics: atomic `operations` on GM that `architectures` have, the `dtypes` that are added,
    and the buffers (`origins`) that they come from.
    """

    architectures: tuple[str, ...]
    source: str
    operations: tuple[str, ...]
    dtypes: tuple[str, ...]
    origins: tuple[str, ...]


@frozen
class Conversions:
    """Entry of configs/instructions/conversions: the Fixpipe's {format in L0C: output formats}, without and with a scale."""

    architectures: tuple[str, ...]
    source: str
    plain: Mapping[str, list[str]]
    scaled: Mapping[str, list[str]]


def ways_of(group: str) -> Mapping[str, Way]:
    """Return {name in the group's configuration file: Way} from the group's module, which is imported."""
    found: Mapping[str, Way] = import_module(f"ascend_sim.isa.forms.{group}").WAYS
    return found


@cache
def declared(group: str, arch: str = "") -> tuple[Form, ...]:
    """Return the forms of a group in the order of its file; with `arch` only those of that architecture. Cached.

    Raises ConfigError for a wrong entry.
    """
    ways = ways_of(group)
    entries = [entry for entry in entries_of(group) if arch in ("", *entry["architectures"])]
    return tuple(_form(f"configs/instructions/{group}.yaml", entry, ways) for entry in entries)


@cache
def atomics() -> tuple[Atomics, ...]:
    """Return the declared atomic operations on GM, one entry for each set of architectures.

    Raises ConfigError for a wrong entry.
    """
    return tuple(_made(Atomics, "configs/instructions/atomics.yaml", _tuples(entry)) for entry in entries_of("atomics"))


@cache
def conversions() -> tuple[Conversions, ...]:
    """Return the declared conversions of the Fixpipe, one entry for each set of architectures.

    Raises ConfigError for a wrong entry.
    """
    where = "configs/instructions/conversions.yaml"
    return tuple(_made(Conversions, where, _tuples(entry)) for entry in entries_of("conversions"))


@cache
def entries_of(group: str, section: str = "forms") -> list[dict[str, Any]]:
    """Return the entries of a section of configs/instructions/GROUP.yaml; none if the file has no such section. Cached."""
    found: list[dict[str, Any]] = read_config(f"instructions/{group}.yaml").get(section, [])
    return found


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _made(kind: Any, where: str, entry: Mapping[str, Any]) -> Any:
    """Return `kind(**entry)`. Raises ConfigError, begun by `where`, for a missing or unknown key."""
    try:
        return kind(**entry)
    except TypeError as error:  # a key too many or too few
        raise ConfigError(f"{where}: {str(error).split('__init__() ')[-1]}") from None


def _form(file: str, entry: dict[str, Any], ways: Mapping[str, Way]) -> Form:
    """Return the Form of an entry. Raises ConfigError for a wrong entry, such as an unknown way, rule or key, a missing source,
    or fields other than the way's.
    """
    where = f"{file}: {entry.get('name')} of {', '.join(entry.get('architectures', ()))}"
    named = str(entry.get("way"))
    if named not in ways:
        raise ConfigError(f"{where}: no way {named!r}; there are {', '.join(ways)}")
    way, source = ways[named], entry.get("source", "")
    if not source:
        raise ConfigError(f"{where}: missing source")
    rules = tuple(
        _made(FormRule, where, {"name": name, "source": source} | one) for name, one in entry.get("rules", {}).items()
    )
    for rule in rules:
        if not hasattr(way, rule.name):
            raise ConfigError(f"{where}: the way {named} has no rule {rule.name}")
    sections = {name: tuple(fields_of(where, source, entry.get(name, {}))) for name in ("fields", "fixed")}
    found = sorted(one.name for one in sections["fields"])
    if found != sorted(way.names):
        raise ConfigError(f"{where}: fields {', '.join(found)}; the way {named} has {', '.join(sorted(way.names))}")
    made: Form = _made(Form, where, _tuples(entry) | sections | {"way": way, "rules": rules})
    return made


def fields_of(where: str, source: str, entries: Mapping[str, str]) -> Iterator[Field]:
    """Yield a Field for each entry, {name: text as in `_TEXT`}; `source` unless it names its own.

    Without a range all numbers of its bits are allowed. Raises ConfigError, begun by `where`, for another text or a wider
    range.
    """
    for name, text in entries.items():
        found = _FIELD.fullmatch(text)
        if found is None:
            raise ConfigError(f"{where}: {name}: {text!r} is not {_TEXT}")
        bits, most = int(found["bits"]), (1 << int(found["bits"])) - 1
        low, high = int(found["low"] or 0), int(found["high"] or most)
        if not low <= high <= most:
            raise ConfigError(f"{where}: {name}: {low} to {high} in {bits} bits")
        packed = found["register"] or "", int(found["first"] or 0)
        yield Field(name, bits, found["unit"], low, high, found["source"] or source, *packed)
