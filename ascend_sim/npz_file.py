"""Headers of an .npz archive: dtype and shape of its arrays, read before any value.

A small archive may declare arrays of many gigabytes, so readers compare the headers with what they need first.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from os.path import isfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ascend_sim.errors import why_no_file

DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, NotImplementedError, struct.error,
)  # fmt: skip
"""Errors of reading an archive that is cut, changed, encrypted, or packed in a way that Python does not know."""
_ENTRY = ".npy"


class NpzError(Exception):
    """Error of an .npz archive that cannot be used; no SimError, which its readers raise with the file's name and this message.
    The message is one line.
    """


class Header(NamedTuple):
    """Shape and dtype of one array of an archive.

    For an entry that is damaged, is no array in numpy's format or holds Python objects, `dtype` is None and `fault` the reason;
    else `fault` is "", whatever the dtype (dates and raw bytes too).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    fault: str = ""

    @property
    def nbytes(self) -> int:
        """Return the bytes of the array's values; 0 without a dtype."""
        return 0 if self.dtype is None else prod(self.shape) * self.dtype.itemsize


def read_headers(path: Path) -> Mapping[str, Header]:
    """Return {array: its header} of the archive at `path`, names without ".npy", without reading values.

    Raises NpzError for an archive that is missing, unreadable or damaged, and for a name that is there twice; a damaged array
    has a `Header.fault`.
    """
    if not isfile(path):
        raise NpzError(why_no_file(path))
    if not zipfile.is_zipfile(path):
        raise NpzError("not an .npz file (numpy.savez writes one)")
    headers = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                name = entry.filename.removesuffix(_ENTRY)
                if name in headers:
                    raise NpzError(f"{name}: is there twice")
                headers[name] = _header(archive, entry)
    except DAMAGED as error:
        raise NpzError(f"damaged .npz file ({one_line(error)})") from None
    return headers


def _header(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Header:
    if not entry.filename.endswith(_ENTRY):
        return Header((), None, "not an array in numpy's format")
    with archive.open(entry) as file:
        try:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
        except (ValueError, SyntaxError, TypeError) as error:
            return Header((), None, f"not an array of numbers ({one_line(error)})")
        values = entry.file_size - file.tell()
    if dtype.hasobject:
        return Header(shape, None, "not an array of numbers (it holds Python objects)")
    header = Header(shape, dtype)
    if any(isinstance(size, bool) for size in shape):  # numpy's reader takes them for integers
        return Header((), None, f"damaged: a shape of {list(shape)}")
    if any(size < 0 for size in shape) or header.nbytes != values:
        return Header(shape, None, f"damaged: {list(shape)} of {dtype} take {header.nbytes} bytes, it has {values}")
    return header


def one_line(error: Exception) -> str:
    """Return the error's text as one line; its type's name if it has no text."""
    return " ".join(str(error).split()) or type(error).__name__
