"""One name for one type: a reader who meets a class name finds one definition of it."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.support.places import ROOT
from tests.support.rooms import MODULES

pytestmark = pytest.mark.fast


def test_a_class_name_is_defined_once() -> None:
    """In ascend_sim and ops; two classes of one name are merged, or named by what they hold."""
    places = defaultdict(list)
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
