"""Tensors in `.npz` files: arrays by name, and the formats that numpy has no name for as bit patterns.

bfloat16 is stored as uint16 and the 8-bit formats as uint8, each beside a string entry NAME_dtype; float32 and float16
are stored as they are. In memory bfloat16 is an ml_dtypes array and an 8-bit tensor an array of uint8 codes, so every
array travels with the name of its format.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError

__all__ = ["TensorFileError", "load_tensors", "save_tensors"]

Array = NDArray[Any]

_SUFFIX = "_dtype"
_IN_MEMORY: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "hifloat8": np.dtype(np.uint8),
    "float8_e4m3fn": np.dtype(np.uint8),
}
_RESULTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
"""Integers, which only results of kernels have; no operator takes them."""
_BITS: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype(np.uint16),
    "hifloat8": np.dtype(np.uint8),
    "float8_e4m3fn": np.dtype(np.uint8),
}


class TensorFileError(SimError):
    """A file of tensors that cannot be read, written or used: names the file and the array."""


def load_tensors(
    path: str | Path, expected: Mapping[str, tuple[tuple[int, ...], str]] | None = None
) -> dict[str, tuple[Array, str]]:
    """Tensors of a `.npz` file as name -> (array, dtype name).

    With `expected` (name -> (shape, dtype name)) only those are read, and each must be there with that shape and dtype.
    Raises TensorFileError: no such file, not an npz, a missing array, an object array, a dtype that is not allowed,
    a shape or dtype other than the expected one.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise TensorFileError(f"{path}: {what}; a .npz file of tensors is needed")
    if not zipfile.is_zipfile(path):
        raise TensorFileError(f"{path}: not an .npz file (numpy.savez writes one)")
    try:
        with np.load(path, allow_pickle=False) as entries:
            names = [
                name for name in entries.files if not (name.endswith(_SUFFIX) and name[: -len(_SUFFIX)] in entries)
            ]
            if expected is not None:
                _check_names(path, names, expected)
                names = list(expected)
            tensors = {name: _read(path, entries, name) for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise TensorFileError(f"{path}: damaged .npz file ({_one_line(error)})") from error
    for name, (shape, dtype) in (expected or {}).items():
        array, found = tensors[name]
        if array.shape != tuple(shape):
            raise TensorFileError(f"{path}: {name}: shape {list(array.shape)} given, the case needs {list(shape)}")
        if found != dtype:
            raise TensorFileError(f"{path}: {name}: dtype {found} given, the case needs {dtype}")
    return tensors


def save_tensors(path: str | Path, tensors: Mapping[str, tuple[Array, str]]) -> None:
    """Write name -> (array, dtype name) as a `.npz` file; an older file is replaced at once or not at all.

    An 8-bit tensor is given as uint8 codes or as an ml_dtypes array. Raises TensorFileError: a dtype that is not
    allowed, an array that is not of its dtype, a file that cannot be written. Integer arrays are written as they are.
    """
    path = Path(path)
    entries: dict[str, Array] = {}
    for name, (array, dtype) in tensors.items():
        entries[name] = _stored(path, name, np.asarray(array), dtype)
        if dtype in _BITS:
            entries[name + _SUFFIX] = np.array(dtype)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **entries)  # type: ignore[arg-type]  # the stub takes any name for `allow_pickle`
        temporary.replace(path)
    except OSError as error:
        raise TensorFileError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _check_names(path: Path, names: list[str], expected: Mapping[str, Any]) -> None:
    missing = [name for name in expected if name not in names]
    if missing:
        there = ", ".join(names) or "nothing"
        raise TensorFileError(f"{path}: missing {', '.join(missing)}; needed: {', '.join(expected)}; there: {there}")


def _read(path: Path, entries: Any, name: str) -> tuple[Array, str]:
    try:
        array = entries[name]
        label = entries.get(name + _SUFFIX)
    except ValueError as error:  # what numpy raises for an object array and for a header it cannot parse
        raise TensorFileError(f"{path}: {name}: not an array of numbers ({_one_line(error)})") from error
    if not isinstance(array, np.ndarray):
        raise TensorFileError(f"{path}: {name}: not an array in numpy's format")
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if label is None:
        dtype = array.dtype.name
        if dtype not in _IN_MEMORY or dtype in _BITS:
            hint = f"; bit patterns need a string entry {name}{_SUFFIX}" if array.dtype.kind in "uV" else ""
            raise TensorFileError(
                f"{path}: {name}: dtype {dtype} is not allowed; allowed: {', '.join(_IN_MEMORY)}{hint}"
            )
        return array, dtype
    dtype = str(label)
    if dtype not in _IN_MEMORY:
        raise TensorFileError(
            f"{path}: {name}{_SUFFIX}: {dtype!r} is not a known dtype; allowed: {', '.join(_IN_MEMORY)}"
        )
    stored = _BITS.get(dtype, _IN_MEMORY[dtype])
    if array.dtype != stored:
        raise TensorFileError(
            f"{path}: {name}: {dtype} is stored as {stored.name}, but the array is {array.dtype.name}"
        )
    return array.view(_IN_MEMORY[dtype]), dtype


def _stored(path: Path, name: str, array: Array, dtype: str) -> Array:
    if dtype in _RESULTS and array.dtype.name == dtype:
        return np.asarray(array, order="C")
    if dtype not in _IN_MEMORY:
        raise TensorFileError(f"{path}: {name}: dtype {dtype!r} is not allowed; allowed: {', '.join(_IN_MEMORY)}")
    if array.dtype != _IN_MEMORY[dtype] and array.dtype.name != dtype:
        raise TensorFileError(f"{path}: {name}: an array of {array.dtype.name} is not {dtype}")
    array = np.asarray(array, order="C")
    return array.view(_BITS[dtype]) if dtype in _BITS else array


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
