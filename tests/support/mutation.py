"""The modules of tools/mutation, which belong to a command and to no package."""

import importlib
from types import ModuleType

import pytest

from tests.support.places import TOOLS

FOLDER = TOOLS / "mutation"


def tool(name: str) -> ModuleType:
    """Return a module of the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        return importlib.import_module(name)
