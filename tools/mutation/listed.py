"""The list of planted mistakes: YAML files by floor, each entry one rule of one source file written wrongly.

A file of the list is a mapping from a source file to its entries:

    ascend_sim/numerics/hf32.py:
      tests: [tests/numerics/test_casting.py]
      mutants:
      - {rule: ties go to the even neighbour, before: TEXT, after: OTHER TEXT}

`before` has to stand in the source file exactly once; `tests` of an entry stand in for those of its file. The mistakes of
`once_survived.yaml` were once found by no test; there every entry names the test that finds it now.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LIST = Path(__file__).resolve().parent / "list"


class StaleError(Exception):
    """An entry that does not fit the tree any more, in one line."""


@dataclass(frozen=True)
class Mutant:
    """One changed rule.

    `file` is relative to the root of the tree, `before` the text that becomes `after`, from `start` of the file's text where
    that is told (a generic change), where it stands alone otherwise.
    """

    rule: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    floor: str
    start: int | None = None

    @property
    def identity(self) -> str:
        """Return the key of a stored outcome: the change and the tests that were asked."""
        parts = (self.file, self.before, self.after, str(self.start), *self.tests)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def place(self, text: str) -> int:
        """Where in the source file's text the change begins; StaleError where the entry does not fit it."""
        if self.start is not None:
            return self.start
        found = text.count(self.before)
        if found != 1:
            raise self._stale(f"the text stands there {found} times, not once: {self.before!r}")
        if "".join(self.before.split()) == "".join(self.after.split()):
            raise self._stale(f"the change changes nothing: {self.after!r}")
        return text.index(self.before)

    def changed(self, text: str) -> str:
        """The source file's text with the mistake; StaleError where that is no program."""
        start = self.place(text)
        result = text[:start] + self.after + text[start + len(self.before) :]
        if self.file.endswith(".py"):
            try:
                ast.parse(result)
            except SyntaxError as error:
                raise self._stale(f"the change is no Python: {error}") from None
        return result

    def _stale(self, what: str) -> StaleError:
        return StaleError(f"{self.floor}: {self.rule!r}: {self.file}: {what}")


def read_list() -> list[Mutant]:
    """All entries, in the order of the files' names; StaleError for an entry that lacks a field or repeats a rule."""
    found: dict[str, Mutant] = {}
    for path in sorted(LIST.glob("*.yaml")):
        for mutant in _of_file(path):
            if mutant.rule in found:
                raise StaleError(f"{path.name}: {mutant.rule!r} is listed twice")
            found[mutant.rule] = mutant
    return list(found.values())


def _of_file(path: Path) -> Iterator[Mutant]:
    text = path.read_text(encoding="utf-8")
    files = re.findall(r"^(\S+):$", text, re.MULTILINE)
    for file in files:
        if files.count(file) > 1:
            raise StaleError(f"{path.name}: {file} stands there twice: put its entries under one key")
    entries: dict[str, Any] = yaml.load(text, _LOADER)
    for file, part in entries.items():
        for entry in part["mutants"]:
            lacking = {"rule", "before", "after"} - set(entry)
            if lacking:
                raise StaleError(f"{path.name}: {file}: an entry without {', '.join(sorted(lacking))}: {entry}")
            tests = entry.get("tests", part.get("tests"))
            if not tests:
                raise StaleError(f"{path.name}: {file}: {entry['rule']!r} names no tests")
            yield Mutant(entry["rule"], file, entry["before"], entry["after"], tuple(tests), path.stem)


def check(root: Path, mutants: list[Mutant]) -> list[str]:
    """Return the stale entries, a line each: a missing or repeated text, or a missing test."""
    read = cache(lambda file: (root / file).read_text(encoding="utf-8") if (root / file).is_file() else None)
    wrong = []
    for mutant in mutants:
        text = read(mutant.file)
        missing = [] if text is not None else [mutant.file]
        if text is not None:
            try:
                mutant.place(text)
            except StaleError as error:
                wrong.append(str(error))
        for test in mutant.tests:
            file, _, name = test.partition("::")
            if not (root / file).exists():
                missing.append(file)
            elif name and f"def {name.partition('[')[0].rpartition('::')[2]}(" not in read(file):
                wrong.append(f"{mutant.floor}: {mutant.rule!r}: {file} has no test {name}")
        wrong += [f"{mutant.floor}: {mutant.rule!r}: there is no {file}" for file in missing]
    return wrong
