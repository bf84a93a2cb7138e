"""Results of searches in one SQLite file: each is written at once and for good, so that a killed search can go on.

A result belongs to a search: the same kernel of the same call on the same chip, simulated by the same code. What differs in
any of them is another search, and its results stand beside the others in the file. The file carries the version of its schema,
and every result a digest: what somebody changed is told, not used.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.studies.tiles.kernel import CubeKernel

VERSION = 1
"""Of the tables (`pragma user_version`); counted up when a column goes or means something else."""
_APPLICATION = 0x41534354
"""What tells such a file from other SQLite databases (`pragma application_id`)."""
_SCHEMA = (
    "create table searches (id integer primary key, identity text not null unique, what text not null)",
    "create table results ("
    "search integer not null references searches (id), tiling text not null, cycles integer not null, data text not null, "
    "digest text not null, primary key (search, tiling))",
    f"pragma application_id = {_APPLICATION}",
    f"pragma user_version = {VERSION}",
)
_ROOMS = ("numerics", "chip", "memory", "isa", "kernel", "engine", "runtime", "ops", "report", "studies.tiles")
_SOURCES = ("*.py", "*.c", "*.h")
_WAIT_SECONDS = 60.0


class Store:
    """The results of one search in the file at `path`, or in memory without one.

    Raises SimError for a file that is no such file, or cannot be written.
    """

    def __init__(self, kernel: CubeKernel, path: Path | None = None) -> None:
        self._path = path
        try:
            # In autocommit every statement is a transaction of its own, on disk when it returns.
            place = ":memory:" if path is None else str(path)
            self._database = sqlite3.connect(place, timeout=_WAIT_SECONDS, isolation_level=None)
            self._open()
            what = _describe(kernel)
            self._identity = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
            self._database.execute(
                "insert or ignore into searches (identity, what) values (?, ?)", (self._identity, json.dumps(what))
            )
            row = self._database.execute("select id from searches where identity = ?", (self._identity,)).fetchone()
        except sqlite3.Error as error:
            raise SimError(f"{path}: cannot be used as a file of search results: {error}") from None
        self._search = int(row[0])

    def _open(self) -> None:
        """Make the tables in a new file; SimError for one of another version, or of somebody else."""
        self._database.execute("begin immediate")  # two processes may make the file at once
        try:
            application, version = (
                self._database.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version")
            )
            tables = {name for (name,) in self._database.execute("select name from sqlite_master where type = 'table'")}
            if not tables and not application:
                for statement in _SCHEMA:
                    self._database.execute(statement)
            elif application != _APPLICATION and tables != {"searches", "results"}:
                raise SimError(f"{self._path}: a database of something else; give another folder")
            elif version != VERSION:
                raise SimError(
                    f"{self._path}: search results of version {version}; this ascend-sim writes version {VERSION}: "
                    "give another folder"
                )
        finally:
            self._database.execute("commit")

    def results(self) -> dict[str, dict[str, Any]]:
        """What this search has so far, by the `key` of the tiling; SimError for a result that was changed."""
        found = {}
        try:
            rows = self._database.execute(
                "select tiling, cycles, data, digest from results where search = ?", (self._search,)
            ).fetchall()
        except sqlite3.Error as error:
            raise SimError(f"{self._path}: cannot be read: {error}") from None
        for tiling, cycles, data, digest in rows:
            if digest != self._digest(tiling, cycles, data):
                raise SimError(
                    f"{self._path}: the result of {tiling} was changed after it was written; give another folder"
                )
            found[tiling] = json.loads(data)
        return found

    def add(self, tiling: str, data: Mapping[str, Any]) -> None:
        """Keep a result; one that is there already stays."""
        text = json.dumps(data)
        try:
            self._database.execute(
                "insert or ignore into results (search, tiling, cycles, data, digest) values (?, ?, ?, ?, ?)",
                (self._search, tiling, data["cycles"], text, self._digest(tiling, data["cycles"], text)),
            )
        except sqlite3.Error as error:
            raise SimError(f"{self._path}: cannot be written: {error}") from None

    def _digest(self, tiling: Any, cycles: Any, data: Any) -> str:
        return hashlib.sha256(repr((self._identity, tiling, cycles, data)).encode()).hexdigest()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def key(fields: Mapping[str, int]) -> str:
    """A tiling's name in the file: its fields, sorted."""
    return json.dumps(fields, sort_keys=True)


def _describe(kernel: CubeKernel) -> dict[str, Any]:
    """Everything that a result depends on beside the tiling."""
    call = kernel.call
    return {
        "kernel": kernel.name,
        "chip": kernel.chip.name,
        "numbers": hashlib.sha256(kernel.chip.model_dump_json().encode()).hexdigest(),
        "problem": asdict(call.problem),
        "rank": call.rank,
        "transposed": call.forward,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        "routes": sorted(call.routes),
        "l2": kernel.l2,
        "code": _code(),
    }


@cache
def _code() -> str:
    """A digest of the sources and of the tables in YAML that decide what a kernel does and how long it takes."""
    folders: list[tuple[Path, Sequence[str]]] = [
        (Path(str(import_module(f"ascend_sim.{room}").__file__)).parent, _SOURCES) for room in _ROOMS
    ]
    folders.append((Path(str(files("ascend_sim.configs"))), ("*.yaml",)))
    digest = hashlib.sha256()
    for folder, patterns in folders:
        for path in sorted(path for pattern in patterns for path in folder.rglob(pattern)):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
