"""`ascend-sim kernel FILE [NAME]`: run a kernel of one's own, and compare its outputs with those that its file expects."""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from os.path import isfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.cpp import CppOptions, arguments, compiled, file_beside, is_cpp, tensors_among_files, with_settings
from ascend_sim.cli.options import command
from ascend_sim.cli.page import RunFiles
from ascend_sim.cli.progress import Progress, announce
from ascend_sim.cli.terminal import console, print_json, print_paragraphs, print_summary, print_text, print_written
from ascend_sim.cli.values import fields_of
from ascend_sim.errors import SimError, why_no_file
from ascend_sim.frozen import frozen
from ascend_sim.options.run_options import LaunchOptions

if TYPE_CHECKING:
    from ascend_sim.check.findings import CheckReport
    from ascend_sim.launching import KernelRun
    from ascend_sim.runtime.outlook import Outlook

MODULE = "ascend_sim_kernel_file"
"""Name of the user's file in sys.modules while it runs."""
MOST_CHECKED = 200_000
"""Instructions up to which `kernel` checks a run by itself: about 2 s."""


@command(epilog="Example:  ascend-sim kernel matmul.py --chip ascend910b3 --tiling base_m=64,base_n=64 --html matmul.html")
def kernel(
    file: Annotated[
        Path, typer.Argument(help="A Python file with a kernel, arguments(rng) and perhaps expected(...); or a C++ file.")
    ],
    asked: LaunchOptions,
    files: RunFiles,
    cpp: CppOptions,
    name: Annotated[str | None, typer.Argument(help="The kernel, where the file has several.")] = None,
    blocks: Annotated[
        int | None, typer.Option(min=1, help="Blocks; default: BLOCKS of the file, else one for each core.")
    ] = None,
    tiling: Annotated[
        str | None, typer.Option(help="Keywords of the kernel: base_m=64,base_n=64. Numbers, true, false or words.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generator that arguments(rng) gets.")] = 0,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not check the kernel after its run (`ascend-sim check`).")
    ] = False,
) -> None:
    """Run a kernel of your own on a simulated chip, then check it. Exit code 1 where an output is wrong or the check finds an
    error.
    """
    from ascend_sim.chip import chip_of
    from ascend_sim.launching import launch, prepared
    from ascend_sim.runtime import Device

    with errors(files.json_output), own_stdout(files.json_output) as stdout:
        if is_cpp(file):
            files, cpp = tensors_among_files(files, cpp)
        files.check(asked["mode"])
        spec = chip_of(asked["chip"])
        subject = subject_of(file, name, fields_of(tiling), seed, cpp)
        chosen, given, fields = subject.kernel, subject.tensors, subject.fields
        core = chosen.core_on(spec)
        count = default_blocks(subject.file, subject.module, core, spec) if blocks is None else blocks
        files.make_folder()

        def ahead() -> Outlook:
            from ascend_sim.runtime.outlook import look_ahead

            device = Device(spec, with_values=False)
            made = prepared(chosen, count, given, fields, spec, device, "timing", asked.get("disarm", ()))
            return look_ahead(spec, [made.task], asked["mode"])

        announce(chosen.name, ahead)
        with Progress() as progress:
            more = LaunchOptions(chip=spec, expected=expected_of(subject), progress=progress, timeline=files.timeline)
            try:
                run = launch(chosen, count, *given, **{**asked, **more}, **fields)
            except SimError as error:
                if files.json_output:
                    error.verdict = _failed(subject, count, asked, no_check, error)
                raise
            written, said = files.write(run, progress)
            again = _command(file, name, asked, {"blocks": blocks, "tiling": tiling, "seed": seed})
            checked = None if no_check else _checked(subject, run, count, asked, again)
        if files.json_output:
            from ascend_sim.cli.verdict import scalar_computed, verdict_of

            told = run.report.to_dict()
            data = None if checked is None else checked.data
            verdict = verdict_of(data, told, scalar_computed(run.programs, run.outputs))
            told |= {"check": data} if data is not None else {}
            with redirect_stdout(stdout):
                print_json({**told, "verdict": verdict})
        else:
            line = [] if checked is None else [checked.line]
            if files.full:
                from ascend_sim.report.text import render

                render(run.report, console())
                print_paragraphs(said)
                print_text("\n".join(line))
            else:
                print_summary(run.report, line, () if checked is None else checked.findings)
            print_written(written)
    raise typer.Exit(0 if run.passed and (checked is None or checked.passed) else 1)


@frozen
class CheckAfterRun:
    """Result of the check after a run: its line of the summary, its JSON entry, `passed` (no error, or not checked), the
    findings in short.
    """

    line: str
    data: dict[str, Any]
    passed: bool
    findings: tuple[str, ...] = ()


def _checked(subject: KernelSubject, run: KernelRun, blocks: int, asked: LaunchOptions, again: str) -> CheckAfterRun:
    """Return the result of checking a kernel that has run; more than `MOST_CHECKED` instructions are not checked and pass, as
    do warnings.

    `again` is the command that prints the findings.
    """
    rows = sum(map(len, run.programs))
    if rows > MOST_CHECKED:
        why = f"not checked: {rows:,} instructions, more than {MOST_CHECKED:,}"
        return CheckAfterRun(f"check: {why}; {again}", {"passed": None, "reason": why}, True)
    report = _check(subject, blocks, asked)
    errors, count = sum(one.level == "ERROR" for one in report.findings), len(report.findings)
    said = f"{count} finding{'s' if count > 1 else ''}; {again}" if count else "no findings"
    return CheckAfterRun(f"check: {said}", report.to_dict(), not errors, tuple(one.brief() for one in report.findings))


def _failed(subject: KernelSubject, blocks: int, asked: LaunchOptions, no_check: bool, error: SimError) -> dict[str, Any]:
    """Return the verdict of `failed_run` on a kernel whose run raised `error`, with its check, unless `no_check` or the check
    fails too.
    """
    from ascend_sim.cli.verdict import failed_run

    data = None
    with suppress(SimError):
        data = None if no_check else _check(subject, blocks, asked).to_dict()
    return failed_run(data, str(error))


def _check(subject: KernelSubject, blocks: int, asked: LaunchOptions) -> CheckReport:
    from ascend_sim.checking import check_kernel

    disarm = asked.get("disarm", ())
    return check_kernel(subject.kernel, blocks, *subject.tensors, chip=asked["chip"], disarm=disarm, **subject.fields)


def _command(file: Path, name: str | None, asked: LaunchOptions, given: dict[str, Any]) -> str:
    """Return the command line `ascend-sim check ...` that checks the kernel with the same options; options that are None or 0
    are left out.

    For a C++ file, whose options are not repeated, it ends in words that say so.
    """
    words = ["ascend-sim", "check", str(file), *([name] if name else []), "--chip", str(asked["chip"])]
    for option, value in [*given.items(), *(("disarm", flag) for flag in asked.get("disarm", ()))]:
        words += [f"--{option}", str(value)] if value else []
    return shlex.join(words) + (" and its other options" if is_cpp(file) else "")


@frozen
class KernelSubject:
    """A kernel with its tensors and keywords, and the Python `file` and its `module` that they come from.

    Of a C++ kernel `file` is the path beside it; `module` is None if the arguments are from options.
    """

    kernel: Any
    tensors: Sequence[Any]
    fields: dict[str, Any]
    file: Path
    module: ModuleType | None


def subject_of(file: Path, name: str | None, fields: dict[str, Any], seed: int, cpp: CppOptions) -> KernelSubject:
    """Return the kernel of a Python or C++ file with its arguments; `fields` are the values of --tiling, which also replace the
    numbers of that name that a C++ kernel gets otherwise.

    The file is run or compiled, and its `arguments` is called. Raises SimError for C++ options with a Python file and for
    errors of the file.
    """
    if is_cpp(file):
        beside = file_beside(file, cpp)
        module = None if beside is None else run_file(beside)
        kernel = compiled(file, name, cpp if module is None else with_settings(cpp, name, module))
        tensors, numbers = arguments(kernel, cpp, seed, module, called)
        return KernelSubject(kernel, tensors, {**numbers, **fields}, file.with_suffix(".py"), module)
    cpp.refuse(file)
    module = load_file(file)
    return subject_of_module(file, module, name, fields, seed)


def subject_of_module(file: Path, module: ModuleType, name: str | None, fields: dict[str, Any], seed: int) -> KernelSubject:
    """Return the kernel called `name` (None: the only one) of an already loaded Python file, with the tensors of its
    `arguments(rng)`.

    A result of it that is neither tuple nor list is one tensor. Raises SimError for an error of the function, for a file
    without kernels, for an unknown name, and for None where there are several.
    """
    kernel = choose_kernel(module, file, name)
    tensors = called(file, module.arguments, np.random.default_rng(seed))
    given = tensors if isinstance(tensors, tuple | list) else (tensors,)
    return KernelSubject(kernel, given, fields, file, module)


def expected_of(subject: KernelSubject) -> Any:
    """Return the file's `expected` as it is, None if absent; if it is a function, one that takes the inputs by name and whose
    errors name their line.
    """
    expected = getattr(subject.module, "expected", None)
    if not callable(expected):
        return expected
    from ascend_sim.expected import arguments_of

    return lambda **inputs: called(subject.file, expected, **arguments_of(expected, inputs))


def load_file(
    file: Path, what: str = "a kernel", function: str = "arguments(rng); it makes the kernel's tensors, in order"
) -> ModuleType:
    """Run a Python file and return its module.

    Raises SimError with file and line if it fails, or lacks the function whose name begins the text `function`; `what` names
    the file's purpose in messages.
    """
    module = run_file(file, what)
    check_file(file, module, function)
    return module


def check_file(
    file: Path, module: ModuleType, function: str = "arguments(rng); it makes the kernel's tensors, in order"
) -> None:
    """Raise SimError if the module lacks the function whose name begins the text `function` (up to its bracket)."""
    if not callable(getattr(module, function.partition("(")[0], None)):
        raise SimError(f"{file}: no function {function}")


def run_file(file: Path, what: str = "a kernel") -> ModuleType:
    """Run a Python file and return its module; `what` names its purpose in errors.

    Its folder is on sys.path during the run; in sys.modules it stays as `MODULE`, in place of an earlier one. Raises SimError
    with file and line if it fails, does not exist or is not a Python file.
    """
    if not isfile(file):
        from ascend_sim.ops.case import case_names  # an error alone needs it

        why = f"that is a case: run {file}" if str(file) in case_names() else why_no_file(file)
        raise SimError(f"{file}: {why}; give a Python file with {what}")
    if file.suffix not in ("", ".py"):
        raise SimError(f"{file}: a file named {file.suffix}; give a Python file with {what}")
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SimError(f"{file}:{error.lineno}: {error.msg}") from None
    except ValueError as error:  # null bytes
        raise SimError(f"{file}: not a Python file: {error}") from None
    module = ModuleType(MODULE)
    module.__file__ = str(file)
    sys.modules[MODULE] = module  # where dataclasses look for their types
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        called(file, exec, code, vars(module))
    finally:
        sys.path.pop(0)
    return module


def choose_kernel(module: ModuleType, file: Path, name: str | None) -> Any:
    """Return the file's kernel called `name`, or its only one for None. Raises SimError for a file without kernels, and, with
    the names that are allowed, for an unknown name, and for None where there are several.
    """
    from ascend_sim.kernel.function import KernelFunction

    kernels = {key: value for key, value in vars(module).items() if isinstance(value, KernelFunction)}
    if not kernels:
        raise SimError(f"{file}: no kernel; put @ascend_sim.kernel_function(core=...) before its function")
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name not in kernels:
        given = "several kernels" if name is None else f"no kernel {name!r}"
        raise SimError(f"{file}: {given}; give one of {', '.join(kernels)}")
    return kernels[name]


@contextmanager
def own_stdout(is_data: bool) -> Iterator[TextIO]:
    """Yield the command's stdout; if the command prints data there (`is_data`), the user's own prints in the block go to
    stderr.
    """
    stdout = sys.stdout
    with redirect_stdout(sys.stderr if is_data else stdout):
        yield stdout


def called(file: Path, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call a function of the user's file and return its result.

    Any Exception becomes SimError with the file and its innermost line, if one of it is in the traceback. SystemExit becomes
    SimError with the file.
    """
    try:
        return function(*arguments, **keywords)
    except SystemExit as error:
        raise SimError(f"{file}: it ends Python (exit code {error.code})") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        text = " ".join(str(error).split())
        if not isinstance(error, SimError):
            text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        if text.endswith("'module' object is not callable"):  # as `ascend_sim.kernel` is
            text += "; the decorator of a kernel is ascend_sim.kernel_function(core=...)"
        raise SimError(f"{file}:{lines[-1]}: {text}" if lines else f"{file}: {text}") from None


def default_blocks(file: Path, module: ModuleType | None, core: str, chip: Any) -> int:
    """Return the file's BLOCKS, else the chip's number of cores of the kind `core` ("AIV", or any other for AIC).

    Raises SimError for a BLOCKS that is no whole number from 1.
    """
    given = getattr(module, "BLOCKS", None)
    if given is not None:
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise SimError(f"{file}: BLOCKS is {given!r}; a whole number from 1 is allowed")
        return given
    return int(chip.cores.aiv if core == "AIV" else chip.cores.aic)
