"""Results of long work in one SQLite file: each is written as it comes, so that killed work goes on where it was.

A result belongs to a study: everything that it depends on beside its name, and the code that made it. A difference in either is
another study, whose results share the file. The file has the version of its schema and every result a digest: a changed result
is refused. Several processes may work on one file. A process claims the result that it begins; the claim holds as long as the
process lives. Others see that by a lock on a file beside the store, which the system drops however the process ends.

    store = Store({"study": "sweep"}, Path("out/results.sqlite"), room="studies.sweep")
    if store.claim(name) == "mine":
        store.add(name, simulate(...))
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ascend_sim.errors import SimError

try:
    import fcntl
except ImportError:  # not on Windows: there two processes may do the same work, of which one result is kept
    fcntl = None  # type: ignore[assignment]

RESULTS = "results.sqlite"
"""Name of a store in an `--out` folder."""
VERSION = 2
"""Version of the tables (`pragma user_version`); increased when a column is removed or changes its meaning."""
Claim = Literal["mine", "theirs", "done"]
"""State of a result's claim: this process holds it; another live process holds it; the result exists."""
_APPLICATION = 0x41534354
"""Mark of a store among SQLite databases (`pragma application_id`)."""
_TABLES = {"studies", "results", "claims"}
_SCHEMA = (
    "create table studies (id integer primary key, identity text not null unique, what text not null)",
    "create table results ("
    "study integer not null references studies (id), name text not null, data text not null, digest text not null, "
    "begun integer not null, primary key (study, name))",
    "create table claims ("
    "study integer not null references studies (id), name text not null, owner text not null, begun integer not null, "
    "primary key (study, name))",
    f"pragma application_id = {_APPLICATION}",
    f"pragma user_version = {VERSION}",
)
_ROOMS = ("numerics", "chip", "memory", "isa", "kernel", "engine", "runtime", "ops", "report", "calls")
_SOURCES = ("*.py", "*.c", "*.h")
_WAIT_SECONDS = 60.0


class Store:
    """Results of one study, by name, in the SQLite file at `path`, whose folder is made if needed, or in memory without one.
    Threads and processes may share it.

    `what` is everything that the results depend on beside their names, as plain data; `room` is the package that makes them,
    whose code (`code_digest`) counts too. Raises SimError for a file of another program or version, and for one that cannot be
    written.
    """

    def __init__(self, what: Mapping[str, Any], path: Path | None = None, *, room: str) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._owner = ""
        self._owned: BinaryIO | None = None
        whole = dict(what) | {"code": code_digest(room)}
        self._identity = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
        try:
            # In autocommit every statement is a transaction of its own, in the file when it returns.
            place = ":memory:" if path is None else str(path)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(place, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            self._open()
            told = (self._identity, json.dumps(whole))
            self._database.execute("insert or ignore into studies (identity, what) values (?, ?)", told)
            row = self._one("select id from studies where identity = ?", self._identity)
        except (sqlite3.Error, OSError) as error:
            raise SimError(f"{path}: cannot be used to store results: {error}") from None
        self._study = int(row[0])

    def _open(self) -> None:
        """Create the tables in a new file and set its journal mode.

        Raises SimError for a file of another version or another program.
        """
        self._database.execute("begin immediate")  # two processes may make the file at once
        try:
            application, version = (self._one(f"pragma {name}")[0] for name in ("application_id", "user_version"))
            tables = {name for (name,) in self._database.execute("select name from sqlite_master where type = 'table'")}
            if not tables and not application:
                for statement in _SCHEMA:
                    self._database.execute(statement)
            elif application != _APPLICATION and tables != _TABLES:
                raise SimError(f"{self._path}: a database that ascend-sim did not write; give another folder")
            elif version != VERSION:
                raise SimError(
                    f"{self._path}: results of version {version}; this ascend-sim writes version {VERSION}: give another folder"
                )
        finally:
            self._database.execute("commit")
        # Readers and the writer do not wait for each other. What a killed process wrote stays; a power cut may cost the last
        # results, never the file.
        with suppress(sqlite3.OperationalError):  # another process holds the file
            self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")

    # -- results -------------------------------------------------------------------------------------------------------

    def results(self) -> dict[str, dict[str, Any]]:
        """Return {name: data} of all results of this study.

        Raises SimError for a result that was changed after it was written, and for a file that cannot be read.
        """
        with self._locked("read"):
            told = "select name, data, digest, begun from results where study = ?"
            rows = self._database.execute(told, (self._study,)).fetchall()
        return {name: self._checked(name, *rest) for name, *rest in rows}

    def result(self, name: str) -> dict[str, Any] | None:
        """Return one result's data; None if there is none.

        Raises SimError for a result that was changed after it was written, and for a file that cannot be read.
        """
        with self._locked("read"):
            row = self._one("select data, digest, begun from results where study = ? and name = ?", self._study, name)
        return None if row is None else self._checked(name, *row)

    def add(self, name: str, data: Mapping[str, Any]) -> bool:
        """Store a result and delete the claim to it, and return True; return False if the name has a result already, which then
        stays. Raises SimError for a file that cannot be written.
        """
        text = json.dumps(data)
        with self._locked("written"), self._transaction():
            begun = self._claimed(name)[1] or 1
            made = self._database.execute(
                "insert or ignore into results (study, name, data, digest, begun) values (?, ?, ?, ?, ?)",
                (self._study, name, text, self._digest(name, text, begun), begun),
            )
            self._database.execute("delete from claims where study = ? and name = ?", (self._study, name))
            return made.rowcount == 1

    def _checked(self, name: Any, data: Any, digest: Any, begun: Any) -> dict[str, Any]:
        if digest != self._digest(name, data, begun):
            raise SimError(f"{self._path}: the result of {name} was changed after it was written; give another folder")
        found: dict[str, Any] = json.loads(data)
        return found

    def _digest(self, name: Any, data: Any, begun: Any) -> str:
        return hashlib.sha256(repr((self._identity, name, data, begun)).encode()).hexdigest()

    # -- claims --------------------------------------------------------------------------------------------------------

    def claim(self, name: str) -> Claim:
        """Claim a result for this store and return "mine"; "done" if it exists, "theirs" if another live process (or store)
        holds its claim.

        Each "mine" adds one to the number of times that the result was begun, which `add` keeps. On Windows no claim holds:
        several processes may be given "mine". Raises SimError for a file that cannot be written.
        """
        with self._locked("written"), self._transaction():
            if self._one("select 1 from results where study = ? and name = ?", self._study, name):
                return "done"
            owner, begun = self._claimed(name)
            if owner and owner != self._own_name() and self._lives(owner):
                return "theirs"
            self._database.execute(
                "insert or replace into claims (study, name, owner, begun) values (?, ?, ?, ?)",
                (self._study, name, self._own_name(), begun + 1),
            )
            return "mine"

    def _claimed(self, name: str) -> tuple[str, int]:
        row = self._one("select owner, begun from claims where study = ? and name = ?", self._study, name)
        return ("", 0) if row is None else (str(row[0]), int(row[1]))

    def _one(self, query: str, *values: str | int) -> Any:
        return self._database.execute(query, values).fetchone()

    def _own_name(self) -> str:
        """Return this store's name for claims; the first call locks a file beside the store, a sign that its process lives."""
        if not self._owner:
            owner = secrets.token_hex(8)
            if self._path is not None:
                self._owned = self._owner_file(owner).open("xb")
                if fcntl is not None:
                    fcntl.flock(self._owned, fcntl.LOCK_EX)
            self._owner = owner
        return self._owner

    def _owner_file(self, owner: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f".{self._path.name}.{owner}.owner")

    def _lives(self, owner: str) -> bool:
        if self._path is None or fcntl is None:
            return False
        path = self._owner_file(owner)
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        path.unlink(missing_ok=True)
        return False

    # ------------------------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, what: str) -> Iterator[None]:
        """Hold the store's lock during the block; an error of the file becomes the SimError "PATH: cannot be WHAT: ...", `what`
        being a word such as "read".
        """
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                raise SimError(f"{self._path}: cannot be {what}: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("begin immediate")
        try:
            yield
            self._database.execute("commit")
        except BaseException:
            if self._database.in_transaction:  # a full disk has rolled back already
                self._database.execute("rollback")
            raise

    def close(self) -> None:
        """Close the file and release the claims to unfinished results."""
        with self._lock, suppress(sqlite3.Error):
            if self._owner:
                self._database.execute("update claims set owner = '' where owner = ?", (self._owner,))
        with suppress(sqlite3.Error):
            self._database.close()
        if self._owned is not None:
            self._owner_file(self._owner).unlink(missing_ok=True)
            self._owned.close()
            self._owned = None


@cache
def code_digest(room: str) -> str:
    """Return a SHA-256 of the sources of `room`, of the packages in `_ROOMS`, and of all YAML tables; kept for the process.
    Other rooms of `studies` do not count.
    """
    folders: list[tuple[Path, Sequence[str]]] = [
        (Path(str(import_module(f"ascend_sim.{one}").__file__)).parent, _SOURCES) for one in (*_ROOMS, room)
    ]
    folders.append((Path(str(files("ascend_sim.configs"))), ("*.yaml",)))
    digest = hashlib.sha256()
    for folder, patterns in folders:
        for path in sorted(path for pattern in patterns for path in folder.rglob(pattern)):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
