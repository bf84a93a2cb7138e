"""Chip files: find them, read them, follow `extends`, merge the layers.

A layer is one YAML file as a tree whose numbers are `Leaf`s. `extends` names a shipped file (`dav-2201`, `ascend910b3`)
or, when it ends in .yaml or .yml, a file beside the one that says it. The layers merge key by key, the most derived wins; a
leaf is replaced as a whole (a new value never keeps the old value's source), and `null` removes an inherited key.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ascend_sim.chip.leaf import MARKS, Leaf, Source
from ascend_sim.errors import ConfigError
from ascend_sim.frozen import frozen
from ascend_sim.shipped import load_shipped

Tree = dict[Any, Any]
_LEAF_KEYS = ("value", "unit", "source")
_ROWS_KEY = "fitted_on"


@frozen
class ChipLayer:
    """One chip file: its name in messages and its tree, without `extends`."""

    file: str
    tree: Tree


@functools.cache
def shipped_files() -> Mapping[str, str]:
    """Return {name of a chip file in the package, families included: its path as messages show it}."""
    folder = resources.files("ascend_sim.configs").joinpath("chips")
    names = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {name: f"configs/chips/{name}.yaml" for name in names}


@functools.cache
def shipped_texts() -> Sequence[str]:
    """Return the texts of all chip files in the package, families included, in the order of `shipped_files`."""
    return [_shipped(name).read_text(encoding="utf-8") for name in shipped_files()]


def is_path(name: str | Path) -> bool:
    """Return True if `name` is the path of a user's file (a Path, or a name that ends in .yaml or .yml)."""
    return isinstance(name, Path) or str(name).endswith((".yaml", ".yml"))


def read_layers(name: str | Path) -> list[ChipLayer]:
    """Return the layers of a chip, most derived first: its file and those that `extends` leads to. A path in `extends` is
    relative to the file that says it.

    `name` is a path or one of `shipped_files`, in any case of letters. Raises ConfigError for an unknown name in `extends`, a
    loop, or a file that cannot be used.
    """
    layers: list[ChipLayer] = []
    seen: list[str] = []
    here = Path()
    while True:
        if is_path(name):
            path = here / name
            file = str(path)
        elif (name := str(name).lower()) in (shipped := shipped_files()):
            file = shipped[name]
        else:
            raise ConfigError(f"{layers[-1].file}: extends: no shipped chip file {name!r}; there are {', '.join(shipped)}")
        tree = _read(name, file)  # first, for what cannot be a file's path cannot be resolved
        identity = str(path.resolve()) if is_path(name) else file
        if identity in seen:
            raise ConfigError(f"{layers[-1].file}: extends: loop {' -> '.join([*(one.file for one in layers), file])}")
        seen.append(identity)
        parent = tree.pop("extends", None)
        layers.append(ChipLayer(file, _lift(tree, file, ())))
        if parent is None:
            return layers
        if not isinstance(parent, str):
            raise ConfigError(f"{file}: extends: must be the name of one chip file, got {parent!r}")
        here = path.parent if is_path(name) else Path()
        name = parent


def merge(layers: list[ChipLayer]) -> Tree:
    """Return the layers (most derived first) merged to one tree, key by key; `null` removes an inherited key, and is a
    ConfigError where none is inherited.
    """
    merged: Tree = {}
    for layer in reversed(layers):
        merged = _overlay(merged, layer.tree, layer.file, ())
    return merged


def leaves(node: object, at: tuple[object, ...] = ()) -> Iterator[tuple[str, Leaf]]:
    """Yield (dotted path, leaf) for every `Leaf` (a number or bool with its source) below `node`, whose own path is `at`; other
    values are skipped.
    """
    if isinstance(node, Leaf):
        yield dotted(at), node
    elif isinstance(node, Mapping):
        for key, child in node.items():
            yield from leaves(child, (*at, key))


def file_of(layers: list[ChipLayer], at: tuple[object, ...]) -> str:
    """Return the name of the most derived file that sets the field at `at`; for a missing key that of the chip itself."""
    for layer in layers:
        node: object = layer.tree
        for key in at:
            node = node.get(key, _ABSENT) if isinstance(node, Mapping) else _ABSENT
        if node is not _ABSENT:
            return layer.file
    return layers[0].file


def dotted(at: tuple[object, ...]) -> str:
    """Return a key path of the tree as text: `paths.GM->L1.head`."""
    return ".".join(str(key) for key in at)


_ABSENT = object()


def _read(name: str | Path, file: str) -> Tree:
    if is_path(name):
        from ascend_sim.yaml_file import SECTIONS, read_yaml

        return read_yaml(Path(file), SECTIONS)
    tree: Tree = load_shipped(_shipped(str(name)).read_text(encoding="utf-8"))
    return tree


def _shipped(name: str) -> Traversable:
    return resources.files("ascend_sim.configs").joinpath("chips", f"{name}.yaml")


def _lift(node: Any, file: str, at: tuple[object, ...]) -> Any:
    if not isinstance(node, dict):
        return node
    if not any(key in node for key in _LEAF_KEYS):
        return {key: _lift(child, file, (*at, key)) for key, child in node.items()}
    where = f"{file}: {dotted(at)}"
    for key in node:
        if key not in (*_LEAF_KEYS, _ROWS_KEY):
            raise ConfigError(f"{where}: unknown key {key!r}; a number has value, unit and source")
    for key in _LEAF_KEYS:
        if key not in node:
            raise ConfigError(f"{where}: missing {key}; a number is {{value: ..., unit: ..., source: ...}}")
    value, unit, source = (node[key] for key in _LEAF_KEYS)
    if not isinstance(value, bool | int | float):
        raise ConfigError(f"{where}: value must be a number, got {value!r}")
    if not isinstance(unit, str):
        raise ConfigError(f"{where}: unit must be a text, got {unit!r}")
    if not isinstance(source, str) or source.strip().rstrip(":") in ("", *MARKS):
        raise ConfigError(f"{where}: missing source: name where the number is from, or `assumed: why`; got {source!r}")
    rows = node.get(_ROWS_KEY, [])
    if not (isinstance(rows, list) and all(isinstance(row, str) for row in rows)):
        raise ConfigError(f"{where}: {_ROWS_KEY} must be a list of texts, FILE: column=value, ...; got {rows!r}")
    found = Source(unit, source.strip(), tuple(rows))
    if rows and found.mark == "stated":
        raise ConfigError(
            f"{where}: {_ROWS_KEY} belongs to a number whose source begins with `fitted:`, `derived:` or `assumed:`; "
            f"got {source!r}"
        )
    return Leaf(value, found)


def _overlay(base: Tree, over: Tree, file: str, at: tuple[object, ...]) -> Tree:
    merged = dict(base)
    for key, new in over.items():
        old = merged.get(key)
        if new is None:
            if key not in merged:
                raise ConfigError(f"{file}: {dotted((*at, key))}: null removes an inherited key, but nothing is inherited")
            del merged[key]
        elif isinstance(new, dict):
            merged[key] = _overlay(old if isinstance(old, dict) else {}, new, file, (*at, key))
        else:
            merged[key] = new
    return merged
