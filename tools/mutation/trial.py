"""A copy of the tree, and tests that run in it: in a fork of this process, which has imported all that is not ours.

A mistake is written into the copy alone. Starting Python, pytest, numpy and hypothesis costs more than most tests; a fork has
them already and imports the package from the copy.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

OURS = "ascend_sim"
FOREIGN = ("hypothesis", "numpy", "simpy", "pydantic", "yaml", "typer", "rich.console", "threadpoolctl", "ml_dtypes", "torch")
MEMORY = 12 << 30
"""Address space of a trial: a loop that never ends may also never stop to allocate."""


@dataclass(frozen=True)
class TrialOutcome:
    """`by` is the first test that failed, or how the trial ended otherwise; empty where all tests passed.

    `seconds` passed on the clock, `cpu` of them on processors.
    """

    by: str
    seconds: float
    cpu: float

    @property
    def killed(self) -> bool:
        return bool(self.by)


def import_what_is_not_ours() -> None:
    """Before the first fork; what is not installed is left out."""
    for name in FOREIGN:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    assert OURS not in sys.modules


class TreeCopy:
    """The tree in a scratch folder, from which it runs as from a checkout. Its files are changed one at a time."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = scratch
        names = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        built = [path for suffix in EXTENSION_SUFFIXES for path in (root / OURS).rglob(f"*{suffix}")]
        used = [str(path.relative_to(root)) for path in built[:1]]  # as Python looks for it
        for name in (*filter(None, names.split("\0")), *used):
            if (root / name).is_file():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, scratch / name)

    def text(self, file: str) -> str:
        return (self.root / file).read_text(encoding="utf-8")

    @contextlib.contextmanager
    def with_text(self, file: str, text: str) -> Iterator[None]:
        """The file says `text` for a while; a C file becomes a library again. The compiled form of neither stays behind."""
        path = self.root / file
        before, times = path.read_bytes(), path.stat()
        libraries = {one: one.read_bytes() for one in (self.root / OURS).rglob("*.so")} if _is_c(file) else {}
        path.write_text(text, encoding="utf-8")
        # A .pyc is taken for that of a source of the same second and length.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**10))
        try:
            if libraries:
                self._build(next(iter(libraries)))
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for library, content in libraries.items():
                library.unlink(missing_ok=True)
                library.write_bytes(content)

    def _build(self, library: Path) -> None:
        project = tomllib.loads(self.text("pyproject.toml"))
        (extension,) = project["tool"]["setuptools"]["ext-modules"]
        library.unlink()  # a process that has it mapped keeps the old one
        command = ["cc", *extension["extra-compile-args"], "-shared", "-fPIC", "-o", str(library), *extension["sources"], "-lm"]
        built = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(f"the changed C does not compile: {built.stderr.strip().splitlines()[0]}")

    def run(self, tests: tuple[str, ...], seconds: int, keep_compiled: bool = False) -> TrialOutcome:
        """The tests until the first that fails, `seconds` of CPU time at most and twenty times that on the clock."""
        began = time.monotonic()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(self.root, tests, seconds, writer, keep_compiled)
        os.close(writer)
        status, cpu = None, float(seconds)
        try:
            while status is None and time.monotonic() - began < 20 * seconds:
                done, found, usage = os.wait4(pid, os.WNOHANG)
                if done:
                    status, cpu = found, usage.ru_utime + usage.ru_stime
                else:
                    time.sleep(0.02)
        finally:  # also where this process is told to end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # workers of the tests, too
            if status is None:
                os.waitpid(pid, 0)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            failed = pipe.readline().strip()
        return TrialOutcome(failed or _ended(status), round(time.monotonic() - began, 2), round(cpu, 2))


def _is_c(file: str) -> bool:
    """Return True for a source of the compiled libraries; headers of kernels are compiled by the tests themselves."""
    return Path(file).suffix in (".c", ".h") and "include" not in Path(file).parts


def _ended(status: int | None) -> str:
    """How a trial ended that told of no failed test."""
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "the time limit"
    if os.WIFSIGNALED(status):
        return f"a crash: {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    return "" if code == 0 else f"pytest's exit code {code}"


class _FirstFailure:
    """A pytest plugin that tells the first test, or the first file, that failed.

    One failing example of a property is enough, and the same ones are drawn every time.
    """

    def __init__(self, writer: int) -> None:
        self.writer, self.told = writer, False

    def pytest_collection(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    def _tell(self, name: str) -> None:
        if not self.told:
            self.told = True
            os.write(self.writer, f"{name}\n".encode())

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._tell(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._tell(f"{report.nodeid} (while it was imported)")


def _child(root: Path, tests: tuple[str, ...], seconds: int, writer: int, keep_compiled: bool) -> None:
    code = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_RDWR)
        log = os.open(root.parent / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, source in ((0, quiet), (1, log), (2, log)):
            os.dup2(source, target)
        os.chdir(root)
        here = str(Path(__file__).resolve().parent)
        sys.path[:] = [str(root), *(entry for entry in sys.path if entry != here)]
        for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(here)]:
            del sys.modules[name]  # the tests of this command import those of the copy
        os.environ["PYTHONPATH"] = str(root)
        sys.dont_write_bytecode = not keep_compiled
        os.environ["PYTHONDONTWRITEBYTECODE"] = "" if keep_compiled else "1"
        # Processes that tests start import the main module anew, and this command cannot be imported from there.
        sys.modules["__main__"] = ModuleType("__main__")
        arguments = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        code = int(pytest.main(arguments, plugins=[_FirstFailure(writer)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextlib.contextmanager
def copy_of(root: Path) -> Iterator[TreeCopy]:
    """A copy that is gone afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        (scratch / "tree").mkdir()
        yield TreeCopy(root, scratch / "tree")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
