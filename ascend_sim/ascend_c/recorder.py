"""Recording of a compiled kernel's programs, as words, in another process."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from ascend_sim.ascend_c.confinement import JUDGED, confined, environment
from ascend_sim.ascend_c.session import Session
from ascend_sim.errors import SimError

GM_SHIFT = 40
"""A GM pointer in C++ is (slot + 1) << 40 plus an offset: no memory is there, so that following one is noticed."""
MOST_TENSORS = 64
"""Most tensors of a kernel: pointers of higher slots would reach addresses of a process's own memory."""
MEMORY = 4 << 30
"""Most bytes of address space that the process of a program may take."""


class Limits(NamedTuple):
    """Number of words (`rows`) and seconds after which a program of a kernel counts as endless."""

    rows: int = 20_000_000
    seconds: float = 60.0


NO_OTHERS = Limits()
ALL_CORES, CUBE_CALLS, VECTOR_CALLS, CACHE_HINTS, ASKS_CUBE, UNCOUNTED, TASK_TYPES = 0, 1, 2, 3, 4, 5, 16
"""Marks of a library (asim/marks.h): the kernel joins all cores, calls the cube, calls the vector unit, gives hints to the L2,
asks the cube core for products, has C++ that is not counted; from 16 on its cores."""
MATMUL_ROOM = 1 << 20
"""Bytes of a vector core in the workspace of Matmul (asim/matmul_messages.h, Mailbox)."""
_MOST_MARKS = 32
BUFFERS = ("UB", "L1", "L0A", "L0B", "L0C", "BT", "FB")
"""Buffers whose sizes a request has, in this order (asim/recorder.h, Request)."""

POINTER, INTEGER, FLOAT, STRUCT = range(4)
"""Kinds of parameters (asim/launch.h, Kind)."""
Argument = int | float | bytes | None
"""An argument for the process: a number, an address, the bytes of a structure, or None for tiling data filled by name."""


class Description(NamedTuple):
    """Entry of a compiled kernel's library: (kind, size in bytes) of each parameter, kinds from `POINTER` to `STRUCT`, and the
    numbers of the kernel's marks (`ALL_CORES`, ...).
    """

    parameters: list[tuple[int, int]]
    marks: tuple[int, ...]


class RecordedCore(NamedTuple):
    """The core whose program is recorded: its block among `blocks`, and its number among the block's vector cores.

    `sub_blocks`, the number of these, is 0 in a kernel of one kind of core. `buffers` are the bytes of the chip's `BUFFERS`.
    `matmul_room` is the address of the workspace by which vector cores ask cube cores for products, 0 without one.
    """

    block: int
    blocks: int
    buffers: tuple[int, ...]
    sub_block: int = 0
    sub_blocks: int = 0
    matmul_room: int = 0


def describe(library: Path, sources: Sequence[Path] = ()) -> Description:
    """Return the description of a library's entry, read in a process of its own and cached in a file beside the library.

    Raises SimError if the library cannot be loaded, with the line in `sources` of a function that has no definition.
    """
    kept = library.with_suffix(".entry.json")
    with suppress(OSError, ValueError):
        parameters, marks = json.loads(kept.read_text())
        return Description([(kind, size) for kind, size in parameters], tuple(marks))
    script = Path(__file__).with_name("record_process.py")
    command = confined([sys.executable, "-I", "-S", str(script), str(library), str(_MOST_MARKS)], [script, library])
    found = subprocess.run(command, capture_output=True, text=True, env=environment())
    if found.returncode or not re.fullmatch(r"\d+( -?\d+)*\s*", found.stdout):
        said = (found.stderr.strip().splitlines() or ["it crashed"])[-1].removeprefix("OSError: ")
        from ascend_sim.ascend_c.diagnostics import undefined  # an error alone needs it

        raise undefined(said, sources) or SimError(f"the compiled kernel cannot be loaded: {said}")
    many, *numbers = (int(one) for one in found.stdout.split())
    marks, numbers = tuple(numbers[:many]), numbers[many:]
    half = len(numbers) // 2
    told = Description(list(zip(numbers[:half], numbers[half:], strict=True)), marks)
    scratch = kept.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        scratch.write_text(json.dumps(told))
        os.replace(scratch, kept)
    return told


_WHOLE, _FLOATING, _FILLED = -1, -2, -3
"""Kinds of a number (asim/launch.h, Argument.offset); bytes have an offset from 0."""


def _signed(number: int) -> int:
    """Return a number of up to 64 bits as the signed number with the same bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class ProgramRecorder:
    """Recorder of the programs of one library, in a process that starts with `start` or the first program and ends with this
    object.
    """

    def __init__(self, library: Path) -> None:
        self.library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket
        self._owner = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the recording process, so that it loads the library while its caller does other work."""
        with self._lock:
            self._running()

    def begin(
        self,
        core: RecordedCore,
        arguments: Sequence[Argument],
        fields: Sequence[float] = (),
        limits: Limits = NO_OTHERS,
        registers: bool = False,
    ) -> Session:
        """Start recording the program of a core and return its session; with `registers` words that set registers are recorded
        too.

        `fields` are values for structure fields set by name. The recording says how the program ended, even if it crashed.
        """
        sizes = len(arguments), len(fields)
        milliseconds = max(int(limits.seconds * 1000), 1)
        who = core.block, core.blocks, core.sub_block, core.sub_blocks
        request = struct.pack("<17q", *who, limits.rows, milliseconds, registers, *sizes, *core.buffers, core.matmul_room)
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
        return self._begun(request + behind)

    def _begun(self, request: bytes) -> Session:
        """Send a request to the recording process, started if needed, and return the session of the program that it records."""
        with self._lock:
            process = self._running()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    head = len(request).to_bytes(8, "little") + MEMORY.to_bytes(8, "little")
                    socket.send_fds(self._control, [head], [theirs.fileno()])
                    self._control.sendall(request)
                except OSError:
                    self._lost(process)
            return Session(ours, partial(self._check_alive, process))

    def _check_alive(self, process: subprocess.Popen[bytes]) -> None:
        """Wait 0.2 s at most; raise SimError if the process has ended."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
            self._lost(process)

    def _lost(self, process: subprocess.Popen[bytes]) -> NoReturn:
        """Raise SimError for a process that ended by itself; the next program starts a new one."""
        self._process = None
        _end(process, self._control, self._owner)
        raise SimError(f"the process that records {self.library.name} ended unexpectedly (exit code {process.returncode})")

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the recording process; start one if there is none, it has ended, or it belongs to the parent of a fork."""
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            script = Path(__file__).with_name("record_process.py")
            command = confined([sys.executable, "-I", "-S", str(script), str(self.library)], [script, self.library])
            self._control, theirs = socket.socketpair()
            apart = JUDGED not in os.environ  # a judge ends the process group of a case
            with theirs:
                self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=apart, env=environment())
            self._owner = os.getpid()
            weakref.finalize(self, _end, self._process, self._control, self._owner)
        return self._process


def _end(process: subprocess.Popen[bytes], control: socket.socket, owner: int) -> None:
    """Close the socket; in the process that started it (`owner`) also kill the recording process."""
    with suppress(OSError):
        control.close()
    if process.returncode is None and os.getpid() == owner:
        with suppress(OSError):
            process.kill()
            process.wait()
