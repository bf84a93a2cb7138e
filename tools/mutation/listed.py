"""The list of planted mistakes: YAML files by floor, each entry one rule of one source file written wrongly.

A file of the list is a mapping from a source file to its entries:

    ascend_sim/numerics/hf32.py:
      tests: [tests/numerics/test_casting.py]
      mutants:
      - {rule: ties go to the even neighbour, in: Rounding.step, before: PATTERN, after: OTHER PATTERN}

`in` is the innermost function or class around the mistake, and absent at module level. `before` has to stand in it exactly
once, as syntax in Python (syntax.py), as words in C. `tests` of an entry stand in for those of its file. The mistakes of
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

import syntax
import yaml
from syntax import TextChange

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LIST = Path(__file__).resolve().parent / "list"


class StaleError(Exception):
    """An entry that does not fit the tree any more, in one line."""


@dataclass(frozen=True)
class Mutant:
    """One changed rule.

    `file` is relative to the root of the tree. `before` becomes `after`: in the function or class `scope` for an entry of the
    list, from `start` of the file's text on for a generic change.
    """

    rule: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    floor: str
    start: int | None = None
    scope: str = ""

    @property
    def identity(self) -> str:
        """Return the key of a stored outcome: the rule, the change and the tests that were asked."""
        parts = (self.rule, self.file, self.scope, self.before, self.after, str(self.start), *self.tests)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def change(self, text: str) -> TextChange:
        """Return the change of the source file's text; StaleError for an entry that does not fit it."""
        if self.start is not None:
            return TextChange(self.start, self.start + len(self.before), self.after)
        find = syntax.change if self.file.endswith(".py") else _change_of_c
        try:
            return find(text, self.scope, self.before, self.after)
        except LookupError as error:
            raise self._stale(error.args[0]) from None
        except SyntaxError as error:
            raise self._stale(f"the pattern is no Python: {error}") from None

    def changed(self, text: str) -> str:
        """Return the source file's text with the mistake; StaleError where that is no program."""
        result = self.change(text).of(text)
        if self.file.endswith(".py"):
            try:
                ast.parse(result)
            except SyntaxError as error:
                raise self._stale(f"the change is no Python: {error}") from None
        return result

    def _stale(self, what: str) -> StaleError:
        return StaleError(f"{self.floor}: {self.rule!r}: {self.file}: {what}")


def _change_of_c(text: str, scope: str, before: str, after: str) -> TextChange:
    """Return the change of a C source, as `syntax.change` does; `scope` is a function that begins and ends a line."""
    function = re.search(rf"^\w[^\n]*\b{scope}\([^;{{}}]*\{{\n.*?^\}}" if scope else r"(?s).*", text, re.MULTILINE | re.DOTALL)
    if function is None:
        raise LookupError(f"there is no {scope}")
    if before.split() == after.split():
        raise LookupError(f"the change changes nothing: {after!r}")
    words = re.compile(r"\s+".join(map(re.escape, before.split())))
    found = [match.span() for match in words.finditer(text, *function.span())]
    if len(found) != 1:
        raise LookupError(f"the text stands in {scope or 'the file'} {len(found)} times, not once: {before!r}")
    return TextChange(*found[0], after)


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
            yield Mutant(
                entry["rule"], file, entry["before"], entry["after"], tuple(tests), path.stem, scope=entry.get("in", "")
            )


def check(root: Path, mutants: list[Mutant]) -> list[str]:
    """Return the stale entries, a line each: a missing or repeated pattern, or a missing test."""
    read = cache(lambda file: (root / file).read_text(encoding="utf-8") if (root / file).is_file() else None)
    wrong = []
    for mutant in mutants:
        text = read(mutant.file)
        missing = [] if text is not None else [mutant.file]
        if text is not None:
            try:
                mutant.change(text)
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
