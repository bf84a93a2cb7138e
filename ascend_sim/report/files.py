"""Files that are whole or not there: written under a temporary name beside their place, then renamed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ascend_sim.errors import SimError


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it appears under its name only when the block ends without an error.

    Raises SimError when the file cannot be written; whatever stood at `path` before is then untouched.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with temporary.open("xb") as file:
                yield file
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise SimError(f"cannot write {target}: {error.strerror or error}") from None


def write_json(path: str | Path, data: Any) -> None:
    """Write plain values as JSON; NaN and infinity are refused with ValueError because JSON has neither."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode() + b"\n")
