"""Reader of a user's YAML file as a mapping: limited in size, no key twice, decimal numbers, every fault one line.

A file cannot make the reader use much memory or time: an alias counts as often as it would be built, so that a page of nested
anchors is refused before it fills the machine.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import ConstructorError, SafeConstructor

from ascend_sim.errors import ConfigError, why_no_file

MOST_BYTES = 1 << 20
"""Most bytes of a file; the largest one that ships has 31 KB."""
MOST_DEPTH = 32
"""Most lists and mappings inside each other."""
MOST_VALUES = 100_000
"""Most scalars, lists and mappings of a file; those behind an alias count each time."""
SECTIONS = "must be a mapping of sections"
"""Sentence of `read_yaml` for a file of sections that is not a mapping."""
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 63) - 1
_MERGE = "tag:yaml.org,2002:merge"
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
DECIMAL = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
"""Numbers as people write them. YAML 1.1 also reads 010 as 8, 0x10 as 16, 1_0 as 10 and 1:30 as 90."""


class _Limited(Composer, SafeConstructor):
    """Safe YAML loader with limits on depth and values; it refuses duplicate keys, of which plain YAML takes the last, and odd
    numbers.
    """

    peek_event: Any

    def __init__(self) -> None:
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        self._depth = 0
        self._values = 0
        self._of_anchor: dict[str, int | None] = {}  # values below it; None as long as its own end is not read

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        mark, anchor, before = event.start_mark, event.anchor, self._values
        if isinstance(event, yaml.AliasEvent):
            if anchor in self._of_anchor:
                below = self._of_anchor[anchor]
                if below is None:
                    raise ComposerError(None, None, f"alias {anchor!r} is used inside its own value", mark)
                self._count(below, mark)
        else:
            self._count(1, mark)
            if anchor is not None and anchor not in self._of_anchor:
                self._of_anchor[anchor] = None
        if self._depth >= MOST_DEPTH:
            raise ComposerError(None, None, f"more than {MOST_DEPTH} lists and mappings inside each other", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if anchor is not None and self._of_anchor.get(anchor, 0) is None:
            self._of_anchor[anchor] = self._values - before
        return node

    def _count(self, values: int, mark: yaml.Mark) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            raise ComposerError(None, None, f"more than {MOST_VALUES:,} values, aliases counted each time", mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            key = key_node.value if key_node.tag == _MERGE else self.construct_object(key_node)
            if key in seen:
                raise ConstructorError(None, None, f"{key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in (_INT, _FLOAT) and isinstance(node, yaml.ScalarNode) and not DECIMAL.fullmatch(node.value):
            why = f"numbers are plain decimal, like 16, -3 or 0.5, and {node.value!r} is not; a text stands in quotes"
            raise ConstructorError(None, None, why, node.start_mark)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # no such day, more digits than Python reads
            why = str(error).partition(";")[0]
            raise ConstructorError(None, None, f"impossible value: {why}", node.start_mark) from None
        if type(value) is int and not _LEAST_INT <= value <= _MOST_INT:
            raise ConstructorError(None, None, "a whole number beyond 64 bits (-2^63 to 2^63 - 1)", node.start_mark)
        return value


class _Loader(_Limited, yaml.SafeLoader):
    """The loader in pure Python, whose error texts do not depend on libyaml."""

    def __init__(self, text: str) -> None:
        yaml.SafeLoader.__init__(self, text)
        _Limited.__init__(self)


def read_yaml(path: Path, what: str) -> dict[Any, Any]:
    """Return the mapping in a YAML file.

    Raises ConfigError in one line (file, line, column, fault); `what` is the sentence for a file that is not a mapping.
    """
    try:
        if not path.is_file():  # the opening of a pipe would wait for a writer
            raise ConfigError(f"{path}: {why_no_file(path)}")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read as YAML text: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: more than {MOST_BYTES:,} bytes, the most that is read of a YAML file")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: cannot be read as YAML text: not UTF-8") from None
    return parse_yaml(text, path, what)


def parse_yaml(text: str, name: str | Path, what: str) -> dict[Any, Any]:
    """Return the mapping in a YAML text, with the errors and limits of `read_yaml` but that of bytes; `name` is its name in
    messages.
    """
    try:
        entries = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{name}: {line}broken YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: cannot be read as YAML text: {' '.join(str(error).split())}") from None
    if not isinstance(entries, dict):
        given = {type(None): "empty", str: "text", list: "a list"}.get(type(entries), "a single value")
        raise ConfigError(f"{name}: {what}, this one is {given}")
    return entries
