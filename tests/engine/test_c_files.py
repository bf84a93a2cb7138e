"""The files of the compiled engine have floors as well: none leads back to itself, by what it includes or by what it calls."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.fast

FOLDER = ROOT / "ascend_sim" / "engine" / "compiled"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^(?P<head>[A-Za-z_][\w *]*?)\b(?P<name>\w+)\([^;{]*\) \{", re.MULTILINE)
"""A definition: it begins its line, as nothing inside a function does."""

TEXTS = {path.name: COMMENT.sub("", path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.[ch]"))}


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".c") and name != "memory.c"])
def test_a_file_begins_with_its_twin_and_the_reason(name: str) -> None:
    """Python's file of the same rules, and the sections of docs/design.md; what a move does needs no reason."""
    head = COMMENT.search((FOLDER / name).read_text(encoding="utf-8"))
    assert head is not None and head.start() == 0
    words = " ".join(head[0].replace("*", " ").split())
    twins = re.findall(r"\.\./[\w./]*\w", words)
    assert twins and all((FOLDER / twin).exists() for twin in twins), twins
    sections = re.findall(r"^## (.+)$", (ROOT / "docs/design.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = re.findall(r'"([^"]+)"', words.partition("docs/design.md")[2])
    assert (told or name == "moves.c") and set(told) <= set(sections), told


def functions(name: str, static: bool) -> set[str]:
    """Return the functions that a file defines, for itself or for others."""
    return {one["name"] for one in FUNCTION.finditer(TEXTS[name]) if ("static" in one["head"].split()) is static}


HOME = {function: name for name in TEXTS if name.endswith(".c") for function in functions(name, static=False)}


def includes(name: str) -> set[str]:
    """The headers of this folder that a file includes."""
    return set(re.findall(r'^#include "(.+)"', TEXTS[name], re.MULTILINE))


def calls(name: str) -> set[str]:
    """The other files of this folder whose functions a file calls."""
    called = set(re.findall(r"\b(\w+)\(", TEXTS[name])) - functions(name, static=True)
    return {HOME[function] for function in called if function in HOME} - {name}


def circle(of: str, arrows: Callable[[str], set[str]]) -> bool:
    """Return True if the arrows from a file lead back to it."""
    found: set[str] = set()
    open_ends = [of]
    while open_ends:
        new = arrows(open_ends.pop()) - found
        found |= new
        open_ends += new
    return of in found


@pytest.mark.parametrize("name", TEXTS)
def test_includes_form_no_circle(name: str) -> None:
    assert not circle(name, includes)


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".c")])
def test_calls_form_no_circle(name: str) -> None:
    assert not circle(name, calls)


def test_what_is_looked_at_is_there() -> None:
    """Check that the two tests above see the code: the calls between files today."""
    assert {"core.c", "traffic.c"} <= calls("machine.c")
    assert {"traffic.c", "watch.c", "memory.c"} <= calls("core.c")
    assert calls("traffic.c") == {"l2.c", "memory.c"}
    assert {"traffic.h", "watch.h"} <= includes("core.h")


@pytest.mark.parametrize("name", [name for name in TEXTS if name.endswith(".c")])
def test_a_file_includes_what_it_calls(name: str) -> None:
    """It or its own header; what comes along with others may stop doing so."""
    own = name.replace(".c", ".h")
    included = includes(name) | (includes(own) if own in TEXTS else set())
    assert {other.replace(".c", ".h") for other in calls(name)} <= included


@pytest.fixture(scope="module")
def extension() -> dict[str, list[str]]:
    """Return pyproject.toml's entry of the compiled engine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (module,) = project["tool"]["setuptools"]["ext-modules"]
    return module


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers_take_the_flags(extension: dict[str, list[str]], compiler: str) -> None:
    """With a flag that one of them does not know, an install with it has no compiled engine."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    sources = [str(ROOT / path) for path in extension["sources"]]
    found = subprocess.run([compiler, *extension["extra-compile-args"], "-fsyntax-only", *sources], capture_output=True)
    assert found.returncode == 0, found.stderr.decode()


def test_flags_are_known_to_gcc_and_clang(extension: dict[str, list[str]]) -> None:
    """Where only one of the two is there. Clang passes by -fvect-cost-model, and refuses it with a value."""
    known = {"-std=c11", "-O2", "-ftree-vectorize", "-fvect-cost-model", "-fvisibility=hidden"}
    assert set(extension["extra-compile-args"]) <= known
