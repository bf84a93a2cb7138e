"""YAML that ships with the package: a text is parsed once and its value kept in the user's cache, as Python keeps modules."""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from ascend_sim.errors import SimError

CACHE_VARIABLE = "ASCEND_SIM_CACHE"


def cache_folder() -> Path:
    """Return the user's cache folder ($ASCEND_SIM_CACHE, else $XDG_CACHE_HOME or ~/.cache, ascend-sim); make it if needed.

    Raises SimError if it cannot be made.
    """
    given = os.environ.get(CACHE_VARIABLE)
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ascend-sim"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimError(
            f"cannot make the cache folder {base}: {error.strerror or error}; {CACHE_VARIABLE} names another"
        ) from None
    return base


def load_shipped(text: str) -> Any:
    """Return the value of a YAML text that ships with the package, from the cache or parsed now. Raises `yaml.YAMLError`.

    Limits and duplicate keys are not checked, which takes longer than reading: a test reads every shipped file as a user's.
    """
    try:
        folder = cache_folder() / "yaml"
        kept = folder / f"{sha256(text.encode()).hexdigest()}.{sys.implementation.cache_tag}"
    except (SimError, RuntimeError):  # no folder, or a user without a home
        return _parsed(text)
    with suppress(OSError, ValueError, EOFError, TypeError):
        return marshal.loads(kept.read_bytes())
    found = _parsed(text)
    with suppress(OSError, ValueError):
        folder.mkdir(exist_ok=True)
        scratch = kept.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(marshal.dumps(found))
        os.replace(scratch, kept)
    return found


def _parsed(text: str) -> Any:
    """Return the value of a YAML text, scanned in C where PyYAML can."""
    import yaml

    return yaml.load(text, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
