"""A process that judges one case of `judge` after the other, each in a fork of its own: what they import is imported once."""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ascend_sim.shipped import cache_folder

MEGABYTE = 1 << 20
_LARGEST_FILE = 256 * MEGABYTE
"""Most bytes of a file that a case may write, as its library."""
_NEEDED = (
    "encodings.utf_8_sig",
    "numpy.random",
    "ascend_sim.ascend_c.counted",
    "ascend_sim.ascend_c.diagnostics",
    "ascend_sim.ascend_c.function",
    "ascend_sim.checking",
    "ascend_sim.cli.kernel",
    "ascend_sim.cli.verdict",
    "ascend_sim.launching",
)
"""Modules that every case needs; the worker imports them before its first fork."""


class JudgeRequest(NamedTuple):
    """One case to judge: file, chip, seed of its arguments, limits in seconds and megabytes, and if the compiler's waits are
    added.
    """

    file: str
    chip: str
    seed: int
    timeout: float
    memory: int
    auto_sync: bool = False


def judged(file: Path, chip: str, seed: int, auto_sync: bool = False) -> dict[str, Any]:
    """Return the verdict on a C++ kernel file, with arguments from the Python file beside it: compile, check, then run if the
    check passed.

    `auto_sync` adds the waits that the vendor's compiler adds. An error of compiler or arguments, or a check that cannot run,
    gives the verdict of `not_compiled`. An error of the run, or other calls in it than in the check, gives that of
    `failed_run`. Outputs of which the file expects nothing are named as unknown. Raises SimError for an unknown chip.
    """
    from ascend_sim.ascend_c.errors import CompileError
    from ascend_sim.checking import check_kernel
    from ascend_sim.chip import chip_of
    from ascend_sim.cli.cpp import CppOptions
    from ascend_sim.cli.kernel import default_blocks, expected_of, subject_of
    from ascend_sim.cli.verdict import failed_run, not_compiled, scalar_computed, verdict_of
    from ascend_sim.errors import SimError
    from ascend_sim.launching import launch

    spec = chip_of(chip)
    try:
        subject = subject_of(file, None, {}, seed, CppOptions(auto_sync=auto_sync))
        kernel, given, fields = subject.kernel, subject.tensors, subject.fields
        blocks = default_blocks(subject.file, subject.module, kernel.core_on(spec), spec)
        checked = check_kernel(kernel, blocks, *given, chip=spec, **fields).to_dict()
    except (CompileError, SimError) as error:
        return not_compiled(str(error))
    found = verdict_of(checked)
    if not found["passed"]:
        return found
    try:
        run = launch(kernel, blocks, *given, chip=spec, expected=expected_of(subject), **fields)
    except SimError as error:
        return failed_run(checked, str(error))
    if any(len(digests) > 1 for digests in kernel.words.values()):
        text = "the kernel makes other calls in its run than in the check"
        return failed_run(checked, text)
    whole = verdict_of(checked, run.report.to_dict(statements=False), scalar_computed(run.programs, run.outputs))
    judged_outputs = run.report.outputs or run.outputs
    unjudged = [name for name in run.outputs if name not in judged_outputs]
    whole["unknown"] += [f"values: the kernel writes {name}, of which its file expects nothing" for name in unjudged]
    return whole


def _prepare(chip: str) -> None:
    """Import the modules that every case needs, find confinement and compiler, and rehearse: forks inherit the answers.

    A SimError is left to the cases, which meet it again.
    """
    for name in _NEEDED:
        import_module(name)
    from ascend_sim.ascend_c import compiler, confinement
    from ascend_sim.errors import SimError

    confinement.confines()
    with suppress(SimError):  # each case then says so
        compiler.compiler()
    with suppress(SimError):
        _rehearse(chip)


def _rehearse(chip: str) -> None:
    """Check and run a small kernel: a first run reads the chip's files and writes the methods of its classes."""
    import numpy as np

    from ascend_sim.checking import check_kernel
    from ascend_sim.kernel.function import kernel_function
    from ascend_sim.launching import empty, launch

    def add_one(k: Any, x: Any, z: Any) -> None:
        inputs, outputs = (k.ub_queue(name, x.size, x.dtype, *pipes) for name, pipes in _PIPES.items())
        k.gm_to_ub(inputs, x)
        with inputs.read() as a, outputs.write() as b:
            k.adds(b, a, 1.0)
        k.ub_to_gm(z, outputs)

    kernel, x = kernel_function(core="AIV")(add_one), np.zeros(64, np.float32)
    check_kernel(kernel, 1, x, empty(x.shape, "float32"), chip=chip).to_dict()
    launch(kernel, 1, x, empty(x.shape, "float32"), chip=chip, expected={"z": x + 1}).report.to_dict(statements=False)


_PIPES = {"x": ("MTE2", "V"), "z": ("V", "MTE3")}
"""Queue of the rehearsed kernel: the pipe that fills it and the one that empties it."""


_running: list[int] = []
"""Process group of the case that runs now; empty or stale between cases."""


def _run(request: JudgeRequest) -> dict[str, Any]:
    """Judge one case in a forked process; return {"said": its output, "code": its exit code, or None if it ran out of time}.

    The code is minus the signal's number if a signal ended it. All processes of the case are killed at the end.
    """
    begun = time.monotonic()
    out, into = os.pipe()
    case = os.fork()
    if not case:
        _child(request, into)
    _running[:] = [case]
    os.close(into)
    said, over = bytearray(), False
    while not over and select.select([out], [], [], max(begun + request.timeout - time.monotonic(), 0))[0]:
        more = os.read(out, 1 << 20)
        said += more
        over = not more
    os.close(out)
    code = os.waitstatus_to_exitcode(os.waitpid(case, 0)[1]) if over else None
    _end_group(case)
    if not over:
        os.waitpid(case, 0)
    return {"said": said.decode("utf-8", "replace"), "code": code}


def _end_group(case: int) -> None:
    """Kill the process group and the process `case`, as far as they still run, and remove what it was compiling."""
    for kill in (os.killpg, os.kill):  # a case that was just forked has no group yet
        with suppress(ProcessLookupError, PermissionError):
            kill(case, signal.SIGKILL)
    for left in (cache_folder() / "kernels").glob(f"{case}.*"):
        shutil.rmtree(left, ignore_errors=True)


def _child(request: JudgeRequest, into: int) -> None:
    """Judge a case in this forked process, in a process group of its own with limits on memory, CPU time and sizes of files;
    never return.

    The verdict is written to the file descriptor `into`, after an empty line; the process exits with 0, or 1 after an
    exception.
    """
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for source, target in ((nothing, 0), (into, 1), (nothing, 2)):
            os.dup2(source, target)
        os.closerange(3, 1 << 10)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE,) * 2)
        resource.setrlimit(resource.RLIMIT_AS, (request.memory * MEGABYTE,) * 2)
        seconds = int(request.timeout) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        print("\n" + json.dumps(judged(Path(request.file), request.chip, request.seed, request.auto_sync)), flush=True)
        code = 0
    finally:
        os._exit(code)


def _stop(number: int, frame: object) -> None:
    for case in _running:
        _end_group(case)
    os._exit(128 + number)


def main() -> None:
    """Answer requests, one line of JSON each on stdin, with a line of `_run`'s result on stdout, until the input ends.

    The first request prepares the process, for its chip. SIGTERM kills the running case and ends the process.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    signal.signal(signal.SIGTERM, _stop)
    prepared = False
    for line in requests:
        request = JudgeRequest(*json.loads(line))
        if not prepared:
            _prepare(request.chip)
            prepared = True
        answers.write(json.dumps(_run(request)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
