"""Changes by cosmic-ray, a well-kept tool for planted mistakes: one of its operators at one place of a file.

cosmic-ray lists and writes the changes (`init`, `apply`); they are run as all other planted mistakes are, with a limit and a
result that is kept. Left out are what no run reads (annotations, words of errors), decorators (most are caches) and `is` in
place of `==`, a question of Python and not of a rule.
"""

from __future__ import annotations

import ast
import json
import random
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from generic import mutant, places_not_run, tests_of
from listed import Mutant
from syntax import TextChange

NOT_OF_A_RULE = ("RemoveDecorator", "Operator_Eq_Is", "Operator_NotEq_IsNot", "Operator_Is_Eq", "Operator_IsNot_NotEq")


class OperatorPlace(NamedTuple):
    """The `occurrence`th place of a file for an operator; `place` is (line, column)."""

    file: str
    place: tuple[int, int]
    operator: str
    occurrence: int


def mutants(root: Path, files: list[str], tests: tuple[str, ...], seed: int, command: str) -> Iterator[Mutant]:
    """Yield a change of each place in an order that the seed decides; `tests` as in `generic`."""
    by_place: dict[tuple[str, tuple[int, int]], list[OperatorPlace]] = {}
    for change in _changes(root, files, command):
        by_place.setdefault((change.file, change.place), []).append(change)
    draw = random.Random(seed)
    for _, changes in draw.sample(sorted(by_place.items()), len(by_place)):
        change = draw.choice(changes)
        before = (root / change.file).read_text(encoding="utf-8")
        after = _applied(before, change, command)
        if _is_another_program(before, after):
            yield mutant(change.file, before, difference(before, after), tests or tests_of(root, change.file))


def difference(before: str, after: str) -> TextChange:
    """Return the change that makes a text of another, without what both begin and end with."""
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    return TextChange(start, len(before) - end, after[start : len(after) - end])


def _alike(one: str, other: str) -> int:
    """How many letters both begin with."""
    differ = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _changes(root: Path, files: list[str], command: str) -> Iterator[OperatorPlace]:
    """Every change that cosmic-ray has for some files, in the order of each text."""
    silent = {str(root / file): places_not_run((root / file).read_text(encoding="utf-8")) for file in files}
    with tempfile.TemporaryDirectory() as scratch:
        config, session = Path(scratch, "config.toml"), Path(scratch, "session.sqlite")
        config.write_text(
            f"[cosmic-ray]\nmodule-path = {json.dumps(list(silent))}\ntimeout = 1\nexcluded-modules = []\n"
            'test-command = "true"\n[cosmic-ray.distributor]\nname = "local"\n',
            encoding="utf-8",
        )
        subprocess.run([command, "init", str(config), str(session)], check=True)
        with closing(sqlite3.connect(session)) as database:
            rows = database.execute(
                "select module_path, start_pos_row, start_pos_col, operator_name, occurrence from mutation_specs "
                "order by 1, 2, 3, 4, 5"
            ).fetchall()
    for path, row, column, operator, occurrence in rows:
        if not operator.endswith(NOT_OF_A_RULE) and not any(a <= (row, column) < b for a, b in silent[path]):
            yield OperatorPlace(str(Path(path).relative_to(root)), (row, column), operator, occurrence)


def _applied(text: str, change: OperatorPlace, command: str) -> str:
    """A text with a change, written by cosmic-ray into a copy."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch, "changed.py")
        copy.write_text(text, encoding="utf-8")
        subprocess.run([command, "apply", str(copy), change.operator, str(change.occurrence)], check=True)
        return copy.read_text(encoding="utf-8")


def _is_another_program(before: str, after: str) -> bool:
    try:
        return ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
    except SyntaxError:
        return False
