"""`ascend-sim judge DIR|FILE...`: verdicts on many C++ kernels, each in a process of its own with limits."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any

import typer

from ascend_sim.chip import chip_of
from ascend_sim.cli.app import errors
from ascend_sim.cli.judge_worker import JudgeRequest
from ascend_sim.cli.options import Jobs, command
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen


@frozen
class JudgeLimits:
    """Limits of the process that judges one case: seconds, and megabytes of memory."""

    timeout: Annotated[float, typer.Option(min=1, help="Seconds that a case may take.")] = 60.0
    memory: Annotated[int, typer.Option(min=512, help="Megabytes of memory (of addresses) that a process may take.")] = 8192


@command(epilog="Example:  ascend-sim judge kernels/ --jobs 2 --timeout 30 --results verdicts.jsonl")
def judge(
    cases: Annotated[list[Path], typer.Argument(help="C++ kernels with a Python file beside each, or folders of them.")],
    limits: JudgeLimits,
    jobs: Jobs = None,
    chip: Annotated[str, typer.Option(help="Chip name or chip file.")] = "ascend910b3",
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of arguments(rng); default: another one for each case.")] = None,
    auto_sync: Annotated[
        bool, typer.Option("--auto-sync", help="Add the waits that the vendor's compiler adds (--cce-auto-sync).")
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Append the lines to this file too; cases that stand in it are left out.")
    ] = None,
) -> None:
    """Judge kernels that a machine wrote: one line of JSON for each as it ends. Exit code 1 where one fails, or failed by the
    file of --results.
    """
    with errors(False):
        chip_of(chip)
        known = {} if results is None or not results.is_file() else _judged_before(results)
        every = list(_files(cases))
        files = [one for one in every if str(one) not in known]
        passed = all(known.get(str(one), True) for one in every)
        if results is not None and files:
            results.open("ab").close()  # fails before the first case, not after it
        many, free = min(jobs or os.cpu_count() or 1, max(len(files), 1)), SimpleQueue[JudgeWorker]()
        workers = [JudgeWorker() for _ in range(many)]
        for worker in workers:
            free.put(worker)

        def judged(file: Path) -> dict[str, Any]:
            worker = free.get()
            try:
                number = secrets.randbits(31) if seed is None else seed
                return worker.judge(JudgeRequest(str(file), chip, number, limits.timeout, limits.memory, auto_sync))
            finally:
                free.put(worker)

        with ThreadPoolExecutor(many) as pool:
            try:
                for done in as_completed([pool.submit(judged, one) for one in files]):
                    line = json.dumps(done.result())
                    passed &= bool(done.result()["passed"])
                    print(line, flush=True)
                    if results is not None:
                        _append(results, line)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in workers:
                    worker.close()
    raise typer.Exit(0 if passed else 1)


def _files(cases: Sequence[Path]) -> Iterator[Path]:
    """Yield the kernel files: the given files, and, sorted, all C++ files at any depth of given folders that have a Python file
    of their name beside them.

    Raises SimError for a given file without one, one that is not C++ or does not exist, and a folder without any.
    """
    from ascend_sim.cli.cpp import is_cpp

    for one in cases:
        if one.is_dir():
            found = [path for path in sorted(one.rglob("*")) if is_cpp(path) and path.with_suffix(".py").is_file()]
            if not found:
                raise SimError(f"{one}: no C++ file with a Python file of its name beside it; that file has arguments(rng)")
            yield from found
        elif not is_cpp(one) or not one.is_file():
            raise SimError(f"{one}: no C++ file and no folder; give kernels, or folders of them")
        elif not one.with_suffix(".py").is_file():
            raise SimError(f"{one}: no {one.with_suffix('.py').name} beside it; that file has arguments(rng) and expected(...)")
        else:
            yield one


def _judged_before(results: Path) -> dict[str, bool]:
    """Return {case: whether it passed} from a file of results; of a case with several lines the last one counts."""
    found = {}
    for line in results.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError):  # a line that was cut off
            verdict = json.loads(line)
            found[str(verdict["case"])] = bool(verdict["passed"])
    return found


def _append(results: Path, line: str) -> None:
    """Append a line to a file of results, on a line of its own even if the last one was cut off."""
    with results.open("ab+") as out:
        begun = out.tell() > 0
        if begun:
            out.seek(-1, os.SEEK_END)
        cut_off = begun and out.read(1) != b"\n"
        out.write(f"{chr(10) if cut_off else ''}{line}\n".encode())


class JudgeWorker:
    """A worker process that judges cases one after the other; it starts with the first, and anew after a case that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def judge(self, request: JudgeRequest) -> dict[str, Any]:
        """Judge one case in the worker process; return its verdict with the case, the seed and the seconds it took.

        A case that ran out of time or memory, or ended its process, gets a failed verdict of stage "limits".
        """
        begun = time.monotonic()
        answer = self._answer(request)
        if answer is None:
            found = _ended("the process that judges was ended while this case ran")
        elif answer["code"] is None:
            found = _ended(f"the case did not end within {request.timeout:g} s (--timeout)")
        else:
            found = _read(answer["said"], answer["code"])
        return {"case": request.file, **found, "seed": request.seed, "seconds": round(time.monotonic() - begun, 3)}

    def _answer(self, request: JudgeRequest) -> dict[str, Any] | None:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            self.close()
            return None
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            from ascend_sim.ascend_c.confinement import JUDGED

            environment = {**os.environ, JUDGED: "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "ascend_sim.cli.judge_worker"],  # no module is a file of the working folder
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def close(self) -> None:
        """End the worker process, and a case that still runs in it; a further `judge` starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.communicate()


def _read(said: str, code: int) -> dict[str, Any]:
    from ascend_sim.cli.verdict import SCHEMA

    with suppress(ValueError, IndexError, TypeError, KeyError):
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        if found["schema"] == SCHEMA:
            return found
    return _ended(f"the process of the case ended with code {code}; --memory limits what it may take")


def _ended(text: str) -> dict[str, Any]:
    from ascend_sim.cli.verdict import SCHEMA, STAGES

    return {"schema": SCHEMA, "passed": False, "stage": "limits", **dict.fromkeys(STAGES), "unknown": [text]}
