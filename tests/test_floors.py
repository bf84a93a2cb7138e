"""The house has floors: a module imports only from its own floor and those below it."""

from __future__ import annotations

import ast
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import DOCS, ROOT
from tests.support.rooms import DOORS, LEVEL, MODULES, room
from tests.support.sources import nodes, parsed

pytestmark = pytest.mark.fast


OPS_MAY_USE = {
    "errors",
    "frozen",
    "keywords",
    "npz_file",
    "shipped",
    "yaml_file",
    "chip",
    "numerics",
    "options",
    "memory.gm",
    "kernel",
    "runtime",
    "ops",
    "configs",
}
"""`ops` touches the machine only through the kernel builder and the runtime; a tensor's place in GM is part of both."""


@cache
def imports(path: Path) -> set[str]:
    """Return the imports of a file from the package, without the leading `ascend_sim.`; imports inside functions count too."""
    found = set()
    for node in nodes(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            whole = node.module or ""
            found |= {f"{whole}.{alias.name}" for alias in node.names}
    inside = {name.removeprefix("ascend_sim.") for name in found if name.startswith("ascend_sim.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in inside}


def test_imports_go_down() -> None:
    """To rooms of lower floors, or within the room; the top of the package hands out names of all rooms."""
    wrong = {
        (module, name)
        for module in MODULES
        if module not in DOORS
        for name in imports(MODULES[module])
        if name and room(name) != room(module) and LEVEL[room(name)] >= LEVEL[room(module)]
    }
    assert wrong == set()


def test_every_room_is_free_of_circles() -> None:
    """Following the imports from a module never leads back to it."""
    known = {module: imports(path) & set(MODULES) for module, path in MODULES.items()}
    for module in set(MODULES) - set(DOORS):
        found: set[str] = set()
        open_ends = [module]
        while open_ends:
            new = known[open_ends.pop()] - found
            found |= new
            open_ends += new
        assert module not in found


def test_a_door_is_only_a_door() -> None:
    assert {module: found for module in DOORS if module in MODULES and (found := imports(MODULES[module]))} == {}


def test_operators_know_the_machine_through_kernel_and_runtime() -> None:
    """Not its engines, its instructions or its faces; and nothing below knows of convolution."""
    wrong = {
        (module, used)
        for module in MODULES
        if module.split(".")[0] == "ops"
        for used in imports(MODULES[module])
        if not any(used == allowed or used.startswith(f"{allowed}.") for allowed in OPS_MAY_USE)
    }
    assert wrong == set()


def test_a_report_does_not_know_who_asked_for_it() -> None:
    """Pictures are drawn for the Python call and the command line alike."""
    used = {name for module in MODULES if module.split(".")[0] == "report" for name in imports(MODULES[module])}
    assert {name for name in used if name.split(".")[0] in ("api", "cli", "acl")} == set()


def test_the_machine_does_not_know_what_it_computes() -> None:
    """Below `ops` no name speaks of gradients or convolutions."""
    for module, path in MODULES.items():
        if module in DOORS or LEVEL[room(module)] >= LEVEL["ops.arguments"]:
            continue
        names = {
            node.id if isinstance(node, ast.Name) else node.name
            for node in nodes(parsed(path))
            if isinstance(node, ast.Name | ast.FunctionDef | ast.ClassDef)
        }
        told = [name for name in names if "grad_" in name.lower() or "convolution" in name.lower()]
        assert told == [], module


def test_the_packages_are_all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every folder with an `__init__.py` is a package that setup.py finds, `ops` and `configs` inside `ascend_sim`."""
    setuptools = pytest.importorskip("setuptools")
    asked: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", asked.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    folders = [path.parent.relative_to(ROOT) for path in MODULES.values() if path.name == "__init__.py"]
    there = {".".join(one.parts if one.parts[0] == "ascend_sim" else ("ascend_sim", *one.parts)) for one in folders}
    assert sorted(asked["packages"]) == sorted(there | {"ascend_sim", "ascend_sim.configs"})


def test_the_design_page_has_a_paragraph_for_every_room() -> None:
    """Rooms in bold, those of `ops` without their folder; a record or a helper beside a room is not told apart."""
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    house = page[page.index("## The house") : page.index("There is one description of a kernel")]
    told = set(re.findall(r"\*\*([\w/]+)\*\*", house))
    beside = {"ops.layer", "ops.case_data", "ops.case_entries", "ops.tensor_files", "ops.kernels.tilings", "__main__"}
    listed = {name for name in set(LEVEL) - beside if not name.startswith("ops.operators.")}  # an entry each
    rooms = {name.removeprefix("ops.").replace(".", "/") for name in listed}
    assert rooms - told == set()
    assert told - rooms - {"ops"} == set()
