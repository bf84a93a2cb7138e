"""The house has floors: a module imports only from its own floor and those below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FLOORS = (
    ("errors",),
    ("chip", "numerics"),
    ("memory",),
    ("isa",),
    ("kernel",),
    ("engine",),
    ("runtime",),
    ("ops",),
    ("faces",),
)
"""From the ground up. Whatever has no floor of its own is a face: the Python call, the command line, pictures, C names."""

LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

OPS_MAY_USE = {"errors", "chip", "numerics", "memory.gm", "kernel", "runtime", "ops", "configs"}
"""`ops` touches the machine only through the kernel builder and the runtime; a tensor's place in GM is part of both."""


def modules() -> Iterator[tuple[str, Path]]:
    """Dotted names below `ascend_sim` and their files; `ops` stands at the top of the tree."""
    for folder, prefix in ((ROOT / "ascend_sim", ""), (ROOT / "ops", "ops.")):
        for path in sorted(folder.rglob("*.py")):
            yield (prefix + ".".join(path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"), path


def room(module: str) -> str:
    """The floor's room that a module belongs to."""
    top = module.split(".")[0]
    return top if top in LEVEL else "faces"


def imports(path: Path) -> set[str]:
    """What a file imports from the package, without the leading `ascend_sim.`; imports inside functions count too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            whole = node.module or ""
            found |= {f"{whole}.{alias.name}" if whole == "ascend_sim" else whole for alias in node.names}
    return {name.removeprefix("ascend_sim.") for name in found if name.startswith("ascend_sim.")}


MODULES = dict(modules())


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    assert {used for used in imports(MODULES[module]) if LEVEL[room(used)] > LEVEL[room(module)]} == set()


@pytest.mark.parametrize("module", [name for name in MODULES if room(name) == "ops"])
def test_operators_know_the_machine_through_kernel_and_runtime(module: str) -> None:
    """Not its engines, its instructions or its faces; and nothing below knows of convolution."""
    wrong = {
        used
        for used in imports(MODULES[module])
        if not any(used == allowed or used.startswith(f"{allowed}.") for allowed in OPS_MAY_USE)
    }
    assert wrong == set()


@pytest.mark.parametrize("module", [name for name in MODULES if name.split(".")[0] == "report"])
def test_a_report_does_not_know_who_asked_for_it(module: str) -> None:
    """Pictures are drawn for the Python call and the command line alike."""
    assert {used for used in imports(MODULES[module]) if used.split(".")[0] in ("api", "cli", "acl")} == set()


def test_the_machine_does_not_know_what_it_computes() -> None:
    """Below `ops` no name speaks of gradients or convolutions."""
    for module, path in MODULES.items():
        if LEVEL[room(module)] >= LEVEL["ops"]:
            continue
        names = {
            node.id if isinstance(node, ast.Name) else node.name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Name | ast.FunctionDef | ast.ClassDef)
        }
        told = [name for name in names if "grad_" in name.lower() or "convolution" in name.lower()]
        assert told == [], module


def test_the_packages_are_all_installed() -> None:
    """Every package of the tree is named in pyproject.toml, which lists them one by one."""
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    there = {
        f"ascend_sim.{name}" if name else "ascend_sim" for name, path in MODULES.items() if path.name == "__init__.py"
    }
    there = {name.removesuffix(".__init__") for name in there}
    assert there - set(listed) == set()
