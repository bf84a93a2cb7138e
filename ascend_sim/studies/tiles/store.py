"""Results of searches in one SQLite file: each is written at once and for good, so that a killed search can go on.

A result belongs to a search: the same kernel of the same call on the same chip, simulated by the same code. What differs in
any of them is another search, and its results stand beside the others in the file.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError
from ascend_sim.studies.tiles.kernel import CubeKernel

_SCHEMA = """
create table if not exists searches (id integer primary key, identity text not null unique, what text not null);
create table if not exists results (
    search integer not null references searches (id), tiling text not null, cycles integer not null, data text not null,
    primary key (search, tiling)
);
"""
_ROOMS = ("chip", "memory", "isa", "kernel", "engine", "runtime", "ops")
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
            self._database.executescript(_SCHEMA)
            what = _describe(kernel)
            identity = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
            self._database.execute(
                "insert or ignore into searches (identity, what) values (?, ?)", (identity, json.dumps(what))
            )
            row = self._database.execute("select id from searches where identity = ?", (identity,)).fetchone()
        except sqlite3.Error as error:
            raise SimError(f"{path}: cannot be used as a file of search results: {error}") from None
        self._search = int(row[0])

    def results(self) -> dict[str, dict[str, Any]]:
        """What this search has so far, by the `key` of the tiling."""
        rows = self._database.execute("select tiling, data from results where search = ?", (self._search,))
        return {tiling: json.loads(data) for tiling, data in rows}

    def add(self, tiling: str, data: Mapping[str, Any]) -> None:
        """Keep a result; one that is there already stays."""
        try:
            self._database.execute(
                "insert or ignore into results (search, tiling, cycles, data) values (?, ?, ?, ?)",
                (self._search, tiling, data["cycles"], json.dumps(data)),
            )
        except sqlite3.Error as error:
            raise SimError(f"{self._path}: cannot be written: {error}") from None

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
    """A digest of the sources that decide what a kernel does and how long it takes."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        folder = Path(str(import_module(f"ascend_sim.{room}").__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
