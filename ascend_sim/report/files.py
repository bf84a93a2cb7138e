"""Files that exist complete or not at all: written under a temporary name beside their place, then renamed."""

from __future__ import annotations

import csv
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile, mkdtemp
from typing import Any, BinaryIO

from ascend_sim.errors import SimError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes in a block; the file appears only when the block ends without an error.

    A link is followed, and its file is replaced; a device or a pipe is written to. Folders are not made. An OSError, also of
    the block, becomes a SimError; a file that stood at `path` before is then untouched.
    """
    target = Path(path)
    place = Path(os.path.realpath(target))
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                yield file
            return
        try:
            with temporary.open("xb") as file:
                yield file
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SimError(f"cannot write {target}: {error.strerror or error}") from None


def make_folder(folder: Path) -> list[Path]:
    """Create a folder for output and its parents; return those that did not exist, the innermost first.

    Raises SimError if a file has its name, it cannot be created, or no file can be written in it; no new folder is left then.
    """
    missing: list[Path] = []
    cannot = "make"
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        if not missing:
            if not folder.is_dir():
                raise SimError(f"{folder}: there is a file of that name; give a folder")
            cannot = "write in"
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remove_empty(missing)
        raise SimError(f"{folder}: cannot {cannot} that folder: {error.strerror or error}") from None
    return missing


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of the folders, in this order, that exist and are empty; others stay without an error."""
    for one in folders:
        with suppress(OSError):
            one.rmdir()


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder during the block; other threads and processes wait for it (where system and file system have
    flock).

    The lock is on the folder itself: it leaves no file, and ends with the process. Raises OSError if it cannot be opened.
    """
    if fcntl is None:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system that knows no locks
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


@contextmanager
def staging(out: Path) -> Iterator[Path]:
    """Yield a new temporary folder in `out` for incomplete files; it is removed with its contents when the block ends, also by
    an error.

    Folders that killed processes left are removed first (where the system has flock), known by their free locks. Raises
    OSError if no folder can be made.
    """
    name = ".run."
    with only_writer(out):
        for left in out.glob(f"{name}*.tmp") if fcntl is not None else ():
            _remove_left(left)
        folder = Path(mkdtemp(prefix=name, suffix=".tmp", dir=out))
        held = _locked(folder)
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def _locked(folder: Path) -> int | None:
    """Return the descriptor of a folder, opened and locked; None if another process holds the lock or there is no flock.

    Raises OSError if the folder cannot be opened.
    """
    if fcntl is None:
        return None
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or a file system that knows no locks
        os.close(held)
        return None
    return held


def _remove_left(folder: Path) -> None:
    """Remove a folder that `staging` made if its process has ended, which its free lock shows; otherwise do nothing."""
    with suppress(OSError):  # another one is not ours, or goes at this moment
        held = _locked(folder)
        if held is not None:
            rmtree(folder, ignore_errors=True)
            os.close(held)


def write_json(path: str | Path, data: Any) -> None:
    """Write plain values as indented JSON. Raises ValueError for NaN and infinity, since JSON has neither, and SimError as
    `atomic_write`.
    """
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8. Raises SimError as `atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode())


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, a line each; None is an empty cell."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
