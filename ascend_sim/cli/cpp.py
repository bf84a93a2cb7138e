"""C++ kernels on the command line: the arguments of `kernel` and `check`, from a file beside the kernel or from options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ascend_sim.cli.values import fields_of
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen

if TYPE_CHECKING:
    from ascend_sim.ascend_c.arguments import EntryParameter
    from ascend_sim.ascend_c.function import CppKernel
    from ascend_sim.cli.page import RunFiles

_TENSOR = re.compile(r"\w+(\[\d+\])?=\w+:[\dx]+")
_OF_LIST = re.compile(r"\[\d+\]$")
_FORM = "NAME=DTYPE:SHAPE, for example x=float32:16384 or x=float16:32x64"


@frozen
class CppOptions:
    """Options of a command that apply to a C++ kernel only."""

    entry: Annotated[
        str | None, typer.Option(help="Of a C++ file: the kernel; a template with its arguments, 'scale<half>'.")
    ] = None
    tensor: Annotated[
        list[str] | None,
        typer.Option(help="Of a C++ file: a tensor with values, x=float32:32x64 (random) or x=FILE.npy. Repeatable."),
    ] = None
    output: Annotated[
        list[str] | None,
        typer.Option(help="Of a C++ file: a tensor to be filled, z=float32:32x64; --out takes it too. Repeatable."),
    ] = None
    arg: Annotated[
        list[str] | None, typer.Option(help="Of a C++ file: a number of the kernel, n=16384, or 16384 in order. Repeatable.")
    ] = None
    with_file: Annotated[
        list[Path] | None, typer.Option("--with", help="Of a C++ file: a further file to compile with it. Repeatable.")
    ] = None
    include: Annotated[
        list[Path] | None, typer.Option(help="Of a C++ file: a folder of headers, before the simulator's own. Repeatable.")
    ] = None
    define: Annotated[list[str] | None, typer.Option(help="Of a C++ file: a macro, NAME or NAME=VALUE. Repeatable.")] = None
    auto_sync: Annotated[
        bool,
        typer.Option("--auto-sync", help="Of a C++ file: add the waits that the vendor's compiler adds (--cce-auto-sync)."),
    ] = False

    def with_outputs(self, tensors: Sequence[str]) -> CppOptions:
        """Return a copy of these options with further tensors to be filled."""
        return replace(self, output=[*(self.output or ()), *tensors])

    def refuse(self, subject: object) -> None:
        """Raise SimError for the first of these options that was given; the message says that `subject` is not a C++ file."""
        for one in fields(self):
            if getattr(self, one.name):
                name = {"with_file": "with", "auto_sync": "auto-sync"}.get(one.name, one.name)
                raise SimError(f"--{name}: {subject} is not a C++ file; this option is for C++ kernels")


def is_cpp(path: Path) -> bool:
    """Return True if the suffix of `path` is that of a C++ source file."""
    from ascend_sim.ascend_c.source import SUFFIXES

    return path.suffix in SUFFIXES


def tensors_among_files(files: RunFiles, options: CppOptions) -> tuple[RunFiles, CppOptions]:
    """Return both groups of options, with each `--out` of the form NAME=DTYPE:SHAPE moved to the output tensors."""
    tensors = [one for one in map(str, files.out or ()) if _TENSOR.fullmatch(one)]
    folders = [one for one in files.out or () if str(one) not in tensors]
    return replace(files, out=folders), options.with_outputs(tensors)


def compiled(path: Path, name: str | None, options: CppOptions) -> CppKernel:
    """Compile a C++ file and return one kernel of it: the one called `name` or `--entry`, or the only one.

    Its recording process starts already if it may (`CppKernel.start_recording`). Raises SimError if `name` and `--entry`
    differ, and as `cpp_kernel`, whose CompileError gets the verdict `not_compiled`.
    """
    from ascend_sim.ascend_c.errors import CompileError
    from ascend_sim.ascend_c.function import cpp_kernel

    if name and options.entry and name != options.entry:
        raise SimError(f"NAME {name} and --entry {options.entry}: give one of them")
    try:
        kernel = cpp_kernel(
            path,
            *(options.with_file or ()),
            entry=options.entry or name,
            include=options.include or (),
            defines=options.define or (),
            auto_sync=options.auto_sync,
        )
        kernel.start_recording()
        return kernel
    except CompileError as error:
        from ascend_sim.cli.verdict import not_compiled

        error.verdict = not_compiled(str(error))
        raise


def file_beside(path: Path, options: CppOptions) -> Path | None:
    """Return the Python file beside a C++ file; None if there is none, or options give a tensor or number in its place."""
    beside = path.with_suffix(".py")
    return None if options.tensor or options.output or options.arg or not beside.is_file() else beside


def with_settings(options: CppOptions, name: str | None, module: ModuleType) -> CppOptions:
    """Return the options with the kernel as `entry` (their own, else `name`, else ENTRY of the Python file `module`) and its
    DEFINES before their macros.

    Raises SimError where ENTRY or DEFINES is of another type.
    """
    entry, defines = getattr(module, "ENTRY", None), getattr(module, "DEFINES", {})
    if entry is not None and not isinstance(entry, str):
        raise SimError(f"{module.__file__}: ENTRY is {entry!r}; a text is allowed, the name of a kernel")
    if not isinstance(defines, Mapping):
        raise SimError(f"{module.__file__}: DEFINES is {defines!r}; a dictionary of macros is allowed")
    macros = [f"{macro}={value}" for macro, value in defines.items()]
    return replace(options, entry=options.entry or name or entry, define=[*macros, *(options.define or ())])


def arguments(
    kernel: CppKernel, options: CppOptions, seed: int, module: ModuleType | None, call: Callable[..., Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return (tensors in order, numbers by name): those of `arguments(rng)` of the Python file `module`, without one those of
    the options.

    `call` calls a function of the file so that its errors name the line. Raises SimError for a file without that function,
    for a missing argument, and for an option that does not fit the kernel or cannot be read.
    """
    rng = np.random.default_rng(seed)
    if module is None:
        return _from_options(kernel, options, rng)
    beside = Path(str(module.__file__))
    if not callable(getattr(module, "arguments", None)):
        raise SimError(f"{beside}: no function arguments(rng); it makes the kernel's arguments, in order")
    return _from_file(kernel, call(beside, module.arguments, rng), beside)


def _from_file(kernel: CppKernel, given: Any, file: Path) -> tuple[list[Any], dict[str, Any]]:
    """Return the tensors, in order, and all other values by name, from the result of the file's `arguments`.

    That result maps the names of the kernel's parameters, or lists their values in order; any other one is the first value.
    Raises SimError for a missing tensor and for more values than parameters.
    """
    names, tensors = [one.name for one in kernel.parameters], [one.name for one in _tensors(kernel)]
    if not isinstance(given, Mapping):
        listed = given if isinstance(given, tuple | list) else (given,)
        if len(listed) > len(names):
            raise SimError(f"{file}: arguments(rng) gives {len(listed)}; kernel {kernel.name} takes {', '.join(names)}")
        given = dict(zip(names, listed, strict=False))
    if missing := [name for name in tensors if name not in given]:
        raise SimError(f"{file}: arguments(rng) gives nothing for {missing[0]} of kernel {kernel.name}")
    return [given[name] for name in tensors], {name: value for name, value in given.items() if name not in tensors}


def _tensors(kernel: CppKernel) -> list[EntryParameter]:
    return [one for one in kernel.parameters if one.is_tensor]


def _from_options(kernel: CppKernel, options: CppOptions, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any]]:
    from ascend_sim.launching import empty

    found: dict[str, Any] = {}
    for flag, texts in (("--tensor", options.tensor or ()), ("--output", options.output or ())):
        for text in texts:
            name, equals, rest = text.partition("=")
            if not equals or not name or not rest:
                raise SimError(f"{flag} {text}: allowed is {_FORM}")
            if name in found:
                raise SimError(f"{flag} {text}: {name} is given twice")
            if _OF_LIST.sub("", name) not in {one.name for one in _tensors(kernel)}:
                listed = ", ".join(one.name for one in _tensors(kernel)) or "none"
                raise SimError(f"{flag} {text}: kernel {kernel.name} has no tensor {name}; it has {listed}")
            if flag == "--tensor" and rest.endswith(".npy"):
                try:
                    found[name] = np.load(rest, allow_pickle=False)
                except (OSError, ValueError) as error:
                    raise SimError(f"--tensor {rest}: cannot be read: {error}") from None
            else:
                dtype, shape = _form(flag, text, rest)
                found[name] = _random(rng, dtype, shape) if flag == "--tensor" else empty(shape, dtype)
    return [_given(kernel, one.name, found) for one in _tensors(kernel)], _numbers(kernel, options.arg or ())


def _given(kernel: CppKernel, name: str, found: Mapping[str, Any]) -> Any:
    """Return the tensor of a parameter, or the list of its tensors "name[0]", "name[1]", from those given by options.

    Raises SimError for the first that is missing.
    """
    many = sum(_OF_LIST.sub("", one) == name for one in found) - (name in found)
    names = [f"{name}[{number}]" for number in range(many)] or [name]
    missing = next((one for one in names if one not in found), None)
    if missing is not None:
        raise SimError(
            f"kernel {kernel.name}: no tensor for {missing}; give --tensor or --output {missing}=DTYPE:SHAPE, or "
            f"arguments(rng) in {kernel.sources[0].with_suffix('.py').name} beside the file"
        )
    return [found[one] for one in names] if many else found[name]


def _form(flag: str, text: str, form: str) -> tuple[str, tuple[int, ...]]:
    from ascend_sim.kernel.tensor import dtype_name

    dtype, colon, sizes = form.partition(":")
    parts = sizes.split("x")
    if not colon or not all(part.isdecimal() and int(part) for part in parts):
        raise SimError(f"{flag} {text}: allowed is {_FORM}")
    try:
        return dtype_name(dtype), tuple(map(int, parts))
    except SimError as error:
        raise SimError(f"{flag} {text}: {error}") from None


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return random values: standard normal for floats, integers from -9 to 9 (from 0 for unsigned dtypes)."""
    from ascend_sim.kernel.tensor import storage_dtype
    from ascend_sim.numerics.integers import INTEGERS

    if dtype in INTEGERS:
        return rng.integers(0 if dtype.startswith("u") else -9, 10, shape).astype(storage_dtype(dtype))
    return rng.standard_normal(shape).astype(storage_dtype(dtype))


def _numbers(kernel: CppKernel, texts: Sequence[str]) -> dict[str, Any]:
    """Return {number parameter: value} from --arg texts NAME=VALUE, or VALUE for the first that has none yet; members of
    structures are not taken. Of a name that is given twice the last value counts.

    Raises SimError for an unknown name, too many values and a bad one, and unless all numbers of the kernel are given.
    """
    known = [one.name for one in kernel.parameters if not one.is_tensor and not one.has_fields]
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            left = [one for one in known if one not in found]
            if not left:
                raise SimError(f"--arg {text}: kernel {kernel.name} takes {len(known)} numbers ({', '.join(known) or 'none'})")
            name, value = left[0], text
        given = fields_of(f"{name}={value}")
        unknown = next((one for one in given if one not in known), None)
        if unknown is not None:
            raise SimError(f"--arg {text}: kernel {kernel.name} has no number {unknown}; it has {', '.join(known) or 'none'}")
        found |= given
    missing = [one for one in known if one not in found]
    if missing:
        raise SimError(f"kernel {kernel.name}: no value for {missing[0]}; give --arg {missing[0]}=VALUE")
    return found
