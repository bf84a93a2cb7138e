"""Tensors in `.npz` files: arrays by name, and the formats that numpy has no name for as bit patterns.

bfloat16 is stored as uint16 and the 8-bit formats as uint8, each beside a string entry NAME_dtype; float32 and float16
are stored as they are. In memory bfloat16 is an ml_dtypes array and an 8-bit tensor an array of uint8 codes, so every
array travels with the name of its format.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.npz_file import DAMAGED, Header, NpzError, one_line, read_headers

Array = NDArray[Any]

_SUFFIX = "_dtype"
_LABEL_BYTES = 256
_IN_MEMORY: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "hifloat8": np.dtype(np.uint8),
    "float8_e4m3fn": np.dtype(np.uint8),
}
_RESULTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
"""Integer dtypes, which only results of users' kernels have; no operator takes them."""
_BITS: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype(np.uint16),
    "hifloat8": np.dtype(np.uint8),
    "float8_e4m3fn": np.dtype(np.uint8),
}


class TensorFileError(SimError):
    """A file of tensors cannot be read, written or used; the message names the file, and the array if one is at fault."""


def load_tensors(
    path: str | Path, expected: Mapping[str, tuple[tuple[int, ...], str | None]] | None = None
) -> dict[str, tuple[Array, str]]:
    """Return the tensors of a `.npz` file as name -> (array, dtype name); arrays are contiguous and in the machine's byte
    order.

    With `expected` (name -> (shape, dtype name)) only those are read, and each must be there with that shape and dtype (None:
    any), which is checked before values are read; further arrays of the file are ignored. Raises TensorFileError: no such file,
    not an npz, a missing array, an object array, a dtype that is not allowed, a shape or dtype other than the expected one.
    """
    path = Path(path)
    try:
        headers = read_headers(path)
    except NpzError as error:
        raise TensorFileError(f"{path}: {error}; a .npz file of tensors is needed") from None
    names = [name for name in headers if not (name.endswith(_SUFFIX) and name[: -len(_SUFFIX)] in headers)]
    if expected is not None:
        _check_names(path, names, expected)
        names = list(expected)
    for name in names:
        _check_header(path, name, headers)
    try:
        with np.load(path, allow_pickle=False) as entries:
            formats = {name: _format(path, name, headers[name], entries.get(name + _SUFFIX)) for name in names}
            for name, (shape, dtype) in (expected or {}).items():
                if headers[name].shape != tuple(shape):
                    given = list(headers[name].shape)
                    raise TensorFileError(f"{path}: {name}: shape {given} given, the case needs {list(shape)}")
                if dtype is not None and formats[name] != dtype:
                    raise TensorFileError(f"{path}: {name}: dtype {formats[name]} given, the case needs {dtype}")
            return {name: (_native(entries[name]).view(_IN_MEMORY[formats[name]]), formats[name]) for name in names}
    except (*DAMAGED, ValueError) as error:
        raise TensorFileError(f"{path}: damaged .npz file ({one_line(error)})") from error


def save_tensors(path: str | Path, tensors: Mapping[str, tuple[Array, str]]) -> None:
    """Write name -> (array, dtype name) as a `.npz` file; an older file is replaced at once or not at all.

    An 8-bit tensor is given as uint8 codes or as an ml_dtypes array. Integer arrays (results of users' kernels) are written as
    they are; `load_tensors` refuses them. Raises TensorFileError: a dtype that is not allowed, an array that is not of its
    dtype, a file that cannot be written.
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


def _check_header(path: Path, name: str, headers: Mapping[str, Header]) -> None:
    """Raise TensorFileError for an entry that is not an array of numbers, or for a dtype entry that is not a short text."""
    if headers[name].dtype is None:
        raise TensorFileError(f"{path}: {name}: {headers[name].fault}")
    label = headers.get(name + _SUFFIX)
    if label is None:
        return
    if label.dtype is None or label.dtype.kind not in "US" or label.shape not in ((), (1,)) or label.nbytes > _LABEL_BYTES:
        raise TensorFileError(f"{path}: {name}{_SUFFIX}: not the name of a dtype; allowed: {', '.join(_IN_MEMORY)}")


def _format(path: Path, name: str, header: Header, label: Any) -> str:
    """Return the name of a tensor's format: the text of `label` (its entry NAME_dtype), or for None the array's own dtype.

    TensorFileError if the format is not allowed, or the array is not stored in the format's bits.
    """
    assert header.dtype is not None
    stored = header.dtype.newbyteorder("=")
    if label is None:
        if stored.name not in _IN_MEMORY or stored.name in _BITS:
            hint = f"; bit patterns need a string entry {name}{_SUFFIX}" if stored.kind in "uV" else ""
            raise TensorFileError(f"{path}: {name}: dtype {stored.name} is not allowed; allowed: {', '.join(_IN_MEMORY)}{hint}")
        return stored.name
    dtype = str(label) if label.shape == () else str(label[0])
    if dtype not in _IN_MEMORY:
        raise TensorFileError(f"{path}: {name}{_SUFFIX}: {dtype!r} is not a known dtype; allowed: {', '.join(_IN_MEMORY)}")
    bits = _BITS.get(dtype, _IN_MEMORY[dtype])
    if stored != bits:
        raise TensorFileError(f"{path}: {name}: {dtype} is stored as {bits.name}, but the array is {stored.name}")
    return dtype


def _native(array: Array) -> Array:
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _stored(path: Path, name: str, array: Array, dtype: str) -> Array:
    if dtype in _RESULTS and array.dtype.name == dtype:
        return np.asarray(array, order="C")
    if dtype not in _IN_MEMORY:
        raise TensorFileError(f"{path}: {name}: dtype {dtype!r} is not allowed; allowed: {', '.join(_IN_MEMORY)}")
    if array.dtype != _IN_MEMORY[dtype] and array.dtype.name != dtype:
        raise TensorFileError(f"{path}: {name}: an array of {array.dtype.name} is not {dtype}")
    array = np.asarray(array, order="C")
    return array.view(_BITS[dtype]) if dtype in _BITS else array
