"""Standard output and error of a command: an output error never ends in a traceback or in a verdict's exit code.

A full disk or a closed stream is one line and exit code 2. A reader that closes early, such as `head`, ends the command
silently with 141, as SIGPIPE would. Both are reported at the end: the command goes on, so that the files of --out are complete.
A character that the encoding of standard output lacks is replaced.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

_STDOUT, _STDERR = 1, 2
_REPLACED = "ascend_sim_replace"
_ALIKE = {"\u2588": "#", "\u2026": "."}
"""ASCII replacements for the characters that tables draw with; any other character becomes a question mark."""
_SIGPIPE = 128 + 13


class _Lasting(io.FileIO):
    """A standard stream that keeps its first write error in `fault` and drops all later output."""

    fault: OSError | None = None

    def write(self, data: Any) -> int:
        if self.fault is None:
            try:
                return super().write(data)
            except OSError as error:
                self.fault = error
        return len(data)


_stdout: _Lasting | None = None


def take_over() -> None:
    """Replace standard output and error, even closed ones, by streams that do not raise on write errors.

    Other streams (of a test) stay.
    """
    global _stdout
    codecs.register_error(_REPLACED, _replace)
    # A closed descriptor would be given to the next file that is opened, which would then get what is printed.
    while (spare := os.open(os.devnull, os.O_RDONLY)) <= _STDERR:
        pass
    os.close(spare)
    if (raw := _lasting(sys.stdout, _STDOUT)) is not None:
        _stdout, sys.stdout = raw, _text(raw, sys.stdout, _REPLACED)
    if (raw := _lasting(sys.stderr, _STDERR)) is not None:
        sys.stderr = _text(raw, sys.stderr, "backslashreplace")


def end(code: object) -> object:
    """Return the exit code of a command that ended with `code`, after flushing stdout.

    If stdout could not be written: 141 for a closed pipe, else a line on stderr and 2. Codes other than None, 0, 1 and 2 are
    unchanged.
    """
    if _stdout is None or code not in (None, 0, 1, 2):  # a signal ended it
        return code
    sys.stdout.flush()
    if _stdout.fault is None:
        return code
    if isinstance(_stdout.fault, BrokenPipeError):
        return _SIGPIPE
    print(f"ascend-sim: cannot write to standard output: {_stdout.fault.strerror}", file=sys.stderr)
    return 2


def _lasting(stream: TextIO | None, number: int) -> _Lasting | None:
    """Return a `_Lasting` on the descriptor `number` in place of Python's own stream; None for any other stream (of a test or
    notebook).
    """
    buffer = getattr(stream, "buffer", None)
    if stream is not None and type(getattr(buffer, "raw", buffer)) is not io.FileIO:
        return None
    return _Lasting(number, "w", closefd=False)


def _text(raw: _Lasting, like: TextIO | None, errors: str) -> TextIO:
    if like is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors)
    with suppress(OSError):
        like.flush()
    by_line, at_once = (bool(getattr(like, name, False)) for name in ("line_buffering", "write_through"))
    return io.TextIOWrapper(io.BufferedWriter(raw), like.encoding, errors, line_buffering=by_line, write_through=at_once)


def _replace(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return (replacement, next position) for a character that the encoding lacks, as codecs ask for it: `_ALIKE`, or "?".

    Undecoded bytes of file names are kept. An error of decoding is raised again.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    one = error.object[error.start]
    if "\udc80" <= one <= "\udcff":
        return bytes([ord(one) - 0xDC00]), error.start + 1
    return _ALIKE.get(one, "?"), error.start + 1
