"""Data that ship with the package: what is made of them is kept in the user's cache, as Python keeps compiled modules."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from ascend_sim.errors import ConfigError, SimError

CACHE_VARIABLE = "ASCEND_SIM_CACHE"


def cache_folder() -> Path:
    """Return the user's cache folder ($ASCEND_SIM_CACHE, else ascend-sim in $XDG_CACHE_HOME or ~/.cache); make it if needed.

    Raises SimError if it cannot be made, RuntimeError for a user without a home.
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
    """Return the value of a YAML text that ships with the package, from the cache or parsed now. Raises ConfigError.

    Limits and duplicate keys are not checked, which takes longer than reading: a test reads every shipped file as a user's.
    """
    return from_cache("yaml", (text,), lambda: _parsed(text))


def read_config(path: str) -> Any:
    """Return the value of a YAML file that ships in `configs`, by its path there. Raises as `load_shipped`."""
    from importlib.resources import files

    return load_shipped(files("ascend_sim.configs").joinpath(path).read_text(encoding="utf-8"))


_Made = TypeVar("_Made")


def from_cache(what: str, made_from: Iterable[str], make: Callable[[], _Made]) -> _Made:
    """Return the result of `make` for the texts `made_from`, of this process or an earlier one, from the user's cache.

    `what` names the kind of result. It and the texts are the cache key, so `make` must depend on nothing else. Like compiled
    modules, the files are trusted: the folder is the user's own. Without a folder `make` is called each time; a file that
    cannot be read or written raises nothing.
    """
    try:
        folder = cache_folder() / "shipped"
    except (SimError, RuntimeError):  # no folder, or a user without a home
        return make()
    key = sha256("\0".join((what, *made_from)).encode()).hexdigest()
    kept = folder / f"{key}.{sys.implementation.cache_tag}"
    with suppress(Exception):  # a file that is not there, cut short, or written by another version
        found: _Made = pickle.loads(kept.read_bytes())
        return found
    made = make()
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        scratch = kept.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(pickle.dumps(made))
        os.replace(scratch, kept)
    return made


def _parsed(text: str) -> Any:
    """Return the value of a YAML text, scanned in C where PyYAML can. Raises ConfigError for broken YAML."""
    import yaml

    try:
        return yaml.load(text, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"broken YAML: {error}") from error
