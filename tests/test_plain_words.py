"""Plain words: one name a type, pages with a reader and a budget of words, docstrings that begin with a noun or a verb."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.places import DOCS, ROOT
from tests.support.sources import FOLDERS, nodes, parsed, python_files

pytestmark = pytest.mark.fast

GENERATED = ("accuracy-tables.md", "bad-input.md", "instructions.md")
"""Pages of tables that tools write."""
WORDS = 45_000
"""Words that all other pages and README have at most."""
GENERATED_WORDS = 4_000
"""Words beside the tables that the generated pages have at most, so that no text moves there."""
VAGUE = re.compile(r"(What|Of|As|The same|Those|That|All of|Whether|Return what|Gives?|Tells?)\b")
"""Beginnings of docstrings that leave the subject or the verb out."""

LOOSE = re.compile(r"\b(told|tells?|nobody|somebody|whoever)\b", re.IGNORECASE)
"""Everyday words for given, reported, none and unknown."""


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]


def words(text: str) -> int:
    return len(text.split())


def test_a_class_name_is_defined_once() -> None:
    """Two classes of one name are merged, or named by what they hold; tests and tools count too."""
    places = defaultdict(list)
    for folder in FOLDERS:
        for path in python_files(folder):
            for node in nodes(parsed(path)):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_the_pages_have_a_budget_of_words() -> None:
    counted = {page.name: words(page.read_text(encoding="utf-8")) for page in pages() if page.name not in GENERATED}
    assert len(counted) > 20
    total, longest = sum(counted.values()), sorted(counted.items(), key=lambda item: -item[1])
    assert total <= WORDS, f"{total} words, {WORDS} are allowed: shorten a page; the longest: {longest}"


def test_generated_pages_are_tables() -> None:
    lines = [line for name in GENERATED for line in (DOCS / name).read_text(encoding="utf-8").splitlines()]
    assert words(" ".join(line for line in lines if not line.startswith("|"))) <= GENERATED_WORDS


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_names_its_reader_first(page: Path) -> None:
    """Its title, then for whom it is and what he finds."""
    title, _, first, *_ = page.read_text(encoding="utf-8").split("\n")
    assert title.startswith("# ") and first.startswith("For "), "a title, an empty line, then: For READER: PURPOSE"


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, docstring) of a module, its classes and functions, and of names that a text follows.

    The text of a flag may begin with "Whether".
    """
    for node in nodes(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text
            for before, one in pairwise(node.body):
                text = one.value.value if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) else None
                if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(text, str):
                    yield one.lineno, inspect.cleandoc(text).removeprefix("Whether ")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_docstring_begins_with_a_noun_or_a_verb(folder: str) -> None:
    files = python_files(folder)
    assert files
    vague = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in files
        for line, text in docstrings(path)
        if VAGUE.match(text)
    ]
    assert vague == []


def loose_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of strings and docstrings with an everyday word; names between backticks are exempt."""
    for node in nodes(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and LOOSE.search(re.sub(r"`[^`]*`", "", text)):
            yield node.lineno, text


def test_loose_words_are_found() -> None:
    tree = ast.parse('"""The caller is told."""\nnames = f"{a} from nobody"\n"""Calls `tell`; retold."""\n')
    assert [line for line, _ in loose_words(tree)] == [1, 2]


@pytest.mark.parametrize("folder", ["ascend_sim", "ops"])
def test_source_says_given_reported_and_unknown(folder: str) -> None:
    files = python_files(folder)
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in files for line, text in loose_words(parsed(path))]
    assert files and found == []
