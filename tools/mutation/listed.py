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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

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
        """What a stored outcome belongs to: the change and the tests that were asked."""
        parts = (self.file, self.before, self.after, str(self.start), *self.tests)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def changed(self, text: str) -> str:
        """The source file's text with the mistake; StaleError where the entry does not fit it."""
        where = f"{self.floor}: {self.rule!r}: {self.file}"
        if self.start is None:
            found = text.count(self.before)
            if found != 1:
                raise StaleError(f"{where}: the text stands there {found} times, not once: {self.before!r}")
        start = text.index(self.before) if self.start is None else self.start
        result = text[:start] + self.after + text[start + len(self.before) :]
        if self.file.endswith(".py"):
            try:
                same = ast.dump(ast.parse(result)) == ast.dump(ast.parse(text))
            except SyntaxError as error:
                raise StaleError(f"{where}: the change is no Python: {error}") from None
            if same:
                raise StaleError(f"{where}: the change changes nothing: {self.after!r}")
        return result


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
    entries: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
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
    """What is stale, a line each: a text that stands there no more, or a test that is not there."""
    wrong = []
    for mutant in mutants:
        try:
            mutant.changed((root / mutant.file).read_text(encoding="utf-8"))
        except OSError:
            wrong.append(f"{mutant.floor}: {mutant.rule!r}: there is no {mutant.file}")
        except StaleError as error:
            wrong.append(str(error))
        for test in mutant.tests:
            file, _, name = test.partition("::")
            path = root / file
            if not path.exists():
                wrong.append(f"{mutant.floor}: {mutant.rule!r}: there is no {file}")
            elif name and f"def {name.partition('[')[0].rpartition('::')[2]}(" not in path.read_text(encoding="utf-8"):
                wrong.append(f"{mutant.floor}: {mutant.rule!r}: {file} has no test {name}")
    return wrong
