"""The words of a compiled kernel's programs, recorded in another process."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ascend_sim.ascend_c.stream import WordStream, read
from ascend_sim.errors import SimError

GM_SHIFT = 40
"""A GM pointer in C++ is (slot + 1) << 40 plus an offset: an address of no memory, so that following one is noticed."""
MOST_TENSORS = 64
"""Slots above would reach addresses where a process has its own memory."""
MEMORY = 4 << 30
"""Bytes of memory (of addresses) that the process of a program may take."""


class Limits(NamedTuple):
    """The words and seconds after which a program of a kernel counts as endless."""

    rows: int = 20_000_000
    seconds: float = 60.0


NO_OTHERS = Limits()

POINTER, INTEGER, FLOAT, STRUCT = range(4)
"""Kinds of parameters (asim/launch.h, Kind)."""
Argument = int | float | bytes | None
"""An argument as the process gets it: a number, an address, the bytes of a structure, or None for the filled tiling data."""


def describe(library: Path) -> list[tuple[int, int]]:
    """Return kind and size in bytes of each parameter of the library's entry."""
    most = 256
    code = (
        "import ctypes, sys\n"
        f"out = (ctypes.c_int64 * {most})()\n"
        f"count = ctypes.CDLL(sys.argv[1]).asim_describe(out, ctypes.c_int64({most}))\n"
        "print(count, *out[: 2 * count])\n"
    )
    found = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(library)], capture_output=True, text=True)
    if found.returncode:
        said = (found.stderr.strip().splitlines() or ["it crashed"])[-1].removeprefix("OSError: ")
        raise SimError(f"the compiled kernel cannot be loaded: {said}")
    count, *numbers = (int(one) for one in found.stdout.split())
    return list(zip(numbers[:count], numbers[count:], strict=True))


_WHOLE, _FLOATING, _FILLED = -1, -2, -3
"""Kinds of a number (asim/launch.h, Argument.offset); bytes have an offset from 0."""


def _signed(number: int) -> int:
    """Return the 64 bits of a number as a signed one."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class ProgramRecorder:
    """Records programs of one library; its process starts with the first one, and ends with this object."""

    def __init__(self, library: Path) -> None:
        self.library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def record(
        self,
        block: int,
        blocks: int,
        ub_bytes: int,
        arguments: Sequence[Argument],
        fields: Sequence[float] = (),
        limits: Limits = NO_OTHERS,
        registers: bool = False,
    ) -> WordStream:
        """Return the words of a block, those that set registers on request.

        The recording says how the program ended, also where it was a crash.
        """
        sizes = len(arguments), len(fields)
        milliseconds = max(int(limits.seconds * 1000), 1)
        request = struct.pack("<8q", block, blocks, limits.rows, milliseconds, ub_bytes, registers, *sizes)
        behind = b""
        for one in (*arguments, *fields):
            if isinstance(one, bytes):
                request += struct.pack("<2q", 0, len(behind))
                behind += one + bytes(-len(one) % 16)
            elif isinstance(one, float):
                request += struct.pack("<dq", one, _FLOATING)
            elif one is None:
                request += struct.pack("<2q", 0, _FILLED)
            else:
                request += struct.pack("<2q", _signed(one), _WHOLE)
        return read(self._answer(request + behind))

    def _answer(self, request: bytes) -> bytes:
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(len(request).to_bytes(8, "little") + MEMORY.to_bytes(8, "little") + request)
                process.stdin.flush()
                head = process.stdout.read(8)
                answer = process.stdout.read(int.from_bytes(head, "little"))
            except BrokenPipeError:
                head, answer = b"", b""
            except BaseException:  # an interrupt leaves half an answer in the pipe
                self._process = None
                _end(process, self._owner)
                raise
            if len(head) < 8 or len(answer) != int.from_bytes(head, "little"):
                self._process = None
                raise SimError(f"the process that records {self.library.name} ended by itself (code {process.wait()})")
            return answer

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process of this process: after a fork each side has one of its own."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            script = Path(__file__).with_name("record_process.py")
            command = [sys.executable, "-I", "-S", str(script), str(self.library)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._owner = os.getpid()
            weakref.finalize(self, _end, self._process, self._owner)
        return self._process


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the process; a fork of its owner only closes its own ends of the pipes."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    if process.returncode is None and os.getpid() == owner:
        with suppress(OSError):
            process.kill()
            process.wait()
