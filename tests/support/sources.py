"""Syntax trees of the repository's Python files, each read once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.places import ROOT

FOLDERS = ("ascend_sim", "configs", "docs", "ops", "tests", "tools")
"""Folders that hold Python files."""


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file; whoever asks changes nothing in it."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree, which is walked once."""
    return tuple(ast.walk(tree))


@cache
def python_files(folder: str) -> tuple[Path, ...]:
    """Return the Python files below a folder of the repository."""
    return tuple(sorted((ROOT / folder).rglob("*.py")))
