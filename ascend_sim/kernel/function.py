"""Kernels as functions: `kernel_function` marks one, and a `KernelFunction` makes the programs of its blocks.

The function is called once for every program: once a block, in a "MIX" kernel once for the cube core and once for each
vector core. It reads `k.block`, `k.core_kind` and `k.sub_block` to know which part is its own. Only its rows are kept.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial, update_wrapper
from threading import local
from types import FrameType
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import MemoryLimitError, RowError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.forms import copies_whole_blocks
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.inspection import Inspection, Line, current_inspection, shown_file
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.keywords import near_hint, near_names
from ascend_sim.memory.gm import room_of
from ascend_sim.options.description import names_of
from ascend_sim.options.run_options import LaunchOptions

_LANGUAGE = (Kernel, BufferQueue, LocalTensor, Tensor)
"""Classes whose objects a kernel function holds."""
_CALL = re.compile(r"(\w+)\.(\w+)\(\) ")
"""Start of Python's message about the arguments of a call: class and method."""


def explain_mistake(error: BaseException) -> str | None:
    """Return one line about wrong arguments or a name that the kernel's language lacks; None for any other error."""
    if isinstance(error, TypeError):
        return _about_call(" ".join(str(error).split()))
    if isinstance(error, AttributeError):
        return _about_name(error.obj, error.name)
    return None


def _about_call(text: str) -> str | None:
    """Return a line about wrong arguments of a method of the language, with its signature, from Python's message; else None."""
    match = _CALL.match(text)
    if match is None:
        return None
    owner, name = match.groups()
    for one in _LANGUAGE:
        method = getattr(one, name, None)
        if inspect.isfunction(method) and owner in {base.__name__ for base in one.__mro__} and name[0] != "_":
            return f"{_shown(one)}{name}() {text[match.end() :]}; allowed: {_shown(one)}{name}{_parameters(method)}"
    return None


def _about_name(holder: Any, name: str | None) -> str | None:
    """Return a line about a missing attribute, with up to three similar names; None for a `holder` outside the language."""
    kind = next((one for one in _LANGUAGE if isinstance(holder, one)), None)
    if kind is None or name is None:
        return None
    known = [one for one in dir(holder) if not one.startswith("_")]
    begun = [one for one in known if one.startswith(f"{name}_")]
    near = list(dict.fromkeys([*get_close_matches(name, known, n=3), *begun]))[:3]
    near = near or [one for one in known if name in one or one in name][:3]
    advice = f"near: {', '.join(f'{_shown(kind)}{one}' for one in near)}" if near else "see docs/instructions.md"
    return f"{_shown(kind)}{name} does not exist; {advice}"


def _shown(kind: type) -> str:
    """Return the text before a method's name in a message: "k." for the builder, else the class with a dot."""
    return "k." if kind is Kernel else f"{kind.__name__}."


def _parameters(method: Any) -> str:
    """Return the parameters of a method without types, with defaults: `(dst, src, *, rows=1)`."""
    signature = inspect.signature(method)
    empty = inspect.Parameter.empty
    plain = [one.replace(annotation=empty) for one in list(signature.parameters.values())[1:]]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


CORES = ("AIC", "AIV", "MIX", "MIX_1_1", "AI_CORE")
"""Kinds of cores for kernels; a chip's file (cores) lists those that it has. MIX is an AIC with its AIVs, MIX_1_1 with one."""

Maker = Callable[..., Kernel]
"""A class of builders, or one with some of its arguments."""
_MOST_TABLES = 32
"""Launches of a thread whose instructions and stamps are kept for the next equal launch."""


class KernelError(SimError):
    """A kernel function failed while it wrote a program; the text names file, line and kernel."""


Race = tuple[str | None, frozenset[str]]
"""Accesses that are out of order: their space (a buffer or "GM"; None if unknown), and the pipes that touch it."""


class KernelFunction:
    """A kernel: `function(k, *tensors, **fields)` with a `Kernel` `k`; it runs on the first of `cores` that the chip has.

    A call with a `Kernel` calls the function, so that kernels can use each other (else SimError); `launch` runs it. `fields`
    are its parameters by keyword, a tiling for example. `scalar_work` is "not timed" if code between instructions takes no
    cycles, "" if there is none.
    """

    scalar_work = ""

    def __init__(self, function: Callable[..., Any], cores: Sequence[str], all_cores: bool) -> None:
        self.function = function
        self.cores = tuple(cores)
        self.all_cores = all_cores
        update_wrapper(self, function)
        self.name = function.__name__
        self.signature = inspect.signature(function)
        first = next(iter(self.signature.parameters.values()), None)
        if first is None or first.kind not in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD):
            raise SimError(f"kernel {self.name}: its first parameter is the builder, def {self.name}(k, ...)")
        taken = names_of(LaunchOptions) & set(list(self.signature.parameters)[1:])
        if taken:
            raise SimError(f"kernel {self.name}: {min(taken)!r} is a keyword of launch; give the parameter another name")

    def __call__(self, *arguments: Any, **fields: Any) -> Any:
        if not (arguments and isinstance(arguments[0], Kernel)):
            named = ", ".join(list(self.signature.parameters)[1:])
            raise SimError(
                f"kernel {self.name}: a call needs the builder of another kernel; to run it on a chip: "
                f"ascend_sim.launch({self.name}, blocks{', ' * bool(named)}{named}), with blocks a number from 1"
            )
        return self.function(*arguments, **fields)

    def visible(self) -> Callable[..., Any]:
        """Return the function, by which the snapshot of a traced loop compares this kernel (`kernel.snapshot`)."""
        return self.function

    @property
    def first_line(self) -> Line:
        """Return (file, line) where the kernel's function begins, decorators included."""
        return self.function.__code__.co_filename, self.function.__code__.co_firstlineno

    def raised_at(self, error: BaseException) -> Line | None:
        """Return the innermost line of the kernel's file in an error's traceback; None if there is none."""
        own, _ = self.first_line
        frames = traceback.extract_tb(error.__traceback__)
        return next(((own, frame.lineno) for frame in reversed(frames) if frame.filename == own and frame.lineno), None)

    def workspace(self, blocks: int) -> int:
        """Return the bytes of a workspace behind the kernel's tensors; 0 unless a kind of kernels overrides this."""
        return 0

    def scalar_code(self, shared: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        """Return the counts of code between instructions (`Report.scalar_code`); {} unless a kind of kernels overrides this."""
        return {}

    def remarks_on(self, races: Sequence[Race]) -> list[str]:
        """Return remarks on the races that a check found, for its page; none unless a kind of kernels overrides this."""
        return []

    def __repr__(self) -> str:
        return f"<kernel {self.name} on {' or '.join(self.cores)}>"

    def core_on(self, chip: ChipSpec) -> str:
        """Return the first of `cores` that the chip has. Raises SimError where it has none of them."""
        has = list(chip.cores.kinds)
        if chip.cores.aiv_per_aic:
            has += ["MIX", "MIX_1_1"]  # type: ignore[list-item]
        for core in self.cores:
            if core in has:
                return core
        raise SimError(
            f"kernel {self.name} runs on {' or '.join(self.cores)}; {chip.name} ({chip.identity.arch}) has "
            f"{', '.join(has)} (chip file, cores.kinds)"
        )

    def check(self, tensors: Sequence[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return {parameter: tensor}, those of `*names` as "names[0]"; SimError for wrong arguments and tensors by name."""
        try:
            bound = self.signature.bind(None, *tensors, **fields)
        except TypeError as error:
            known = {*self.signature.parameters, *names_of(LaunchOptions)}
            hint = next((near_hint(name, known) for name in fields if name not in known), "")
            raise SimError(f"kernel {self.name}{self.signature}: {error}; launch itself passes k{hint}") from None
        names: list[str] = []
        for parameter in list(self.signature.parameters.values())[1:]:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                names += [f"{parameter.name}[{i}]" for i in range(len(bound.arguments.get(parameter.name, ())))]
            elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                names.append(parameter.name)
        if named := [name for name in names[len(tensors) :] if getattr(fields.get(name), "shape", ())]:
            raise SimError(f"kernel {self.name}: {named[0]} is a tensor; tensors stand in order, without their names")
        return dict(zip(names, tensors, strict=False))

    def defaults(self) -> dict[str, Any]:
        """Return {parameter: default} for the function's parameters that have one."""
        named = self.signature.parameters.items()
        return {name: one.default for name, one in named if one.default is not inspect.Parameter.empty}


@frozen(eq=False)
class Launch:
    """A kernel on a chip with its tensors and fields, from which the programs of each block are built (`programs`)."""

    kernel: KernelFunction
    chip: ChipSpec
    core: str
    vector_cores: int
    """Number of AIVs in a block of a "MIX" kernel."""
    blocks: int
    tensors: Sequence[Tensor]
    fields: Mapping[str, Any]
    disarm: Collection[str]
    tables: dict[str, InstructionTable]
    contents: Sequence[Any] | None = None
    """The values of the tensors, None for one that has none; for kernels whose rows depend on values."""
    shared: dict[str, Any] = field(default_factory=dict)
    """Values that the kernel keeps from one block to the next."""
    repeats: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Number of repetitions of each stamp in the launch, by the kind of core and the stamp's number."""

    @classmethod
    def of(
        cls,
        kernel: KernelFunction,
        chip: ChipSpec,
        blocks: int,
        tensors: Sequence[Tensor],
        fields: Mapping[str, Any],
        disarm: Collection[str] = (),
        contents: Sequence[Any] | None = None,
    ) -> Launch:
        """Return a launch of `blocks` blocks, with the table of an equal one; SimError where the chip lacks the cores."""
        tables = _tables(kernel, chip, blocks, tensors, fields, disarm)
        core = kernel.core_on(chip)
        vectors = 1 if core == "MIX_1_1" else chip.cores.aiv_per_aic if core == "MIX" else 0
        core = "MIX" if vectors else core
        return cls(kernel, chip, core, vectors, blocks, tensors, fields, disarm, tables, contents)

    def programs(self, block: int) -> list[Program]:
        """Return the programs of one block: one, or for "MIX" that of the AIC and then those of its AIVs.

        Raises KernelError for what the function or its checks raise (MemoryLimitError as such); under inspection it is
        recorded.
        """
        if self.core != "MIX":
            return [self._program(block, self.core, 0)]
        return [self._program(block, "AIC", 0), *(self._program(block, "AIV", i) for i in range(self.vector_cores))]

    def _program(self, block: int, core: str, sub_block: int) -> Program:
        table = self.tables.get(core)
        if table is None:
            table = self.tables[core] = InstructionTable(self.chip, core)
        inspection = current_inspection()
        if inspection is not None:
            return self._inspected(inspection, table, block, core, sub_block)
        k = self._builder(Kernel, table, block, core, sub_block)
        try:
            self._write(k)
            return k.finish()
        except (Exception, SystemExit) as error:
            again = partial(self._written, table=table, block=block, core=core, sub_block=sub_block)
            raise kernel_error(error, self.kernel, k, again) from error

    def _inspected(self, inspection: Inspection, table: InstructionTable, block: int, core: str, sub_block: int) -> Program:
        """Return the program with the rows that the function wrote before it ended; an error that it raises becomes a fault."""
        k = self._builder(Kernel, table, block, core, sub_block)
        assert k.notes is not None
        try:
            self._write(k)
        except (Exception, SystemExit) as error:
            k.notes.whole = False
            line = self.kernel.raised_at(error) or self.kernel.first_line
            inspection.add(f"block {block} {core}", _error_text(error), line)
        return k.finish()

    def _written(self, make: Maker, *, table: InstructionTable, block: int, core: str, sub_block: int) -> Kernel:
        k = self._builder(make, table, block, core, sub_block)
        self._write(k)
        return k

    def _write(self, k: Kernel) -> None:
        try:
            _refuse_result(self.kernel.function(k, *self.tensors, **self.fields))
        except (MemoryLimitError, MemoryError) as error:  # no mistakes of the kernel
            raise MemoryLimitError(_error_line(error, self.kernel)) from None

    def _builder(self, make: Maker, table: InstructionTable, block: int, core: str, sub_block: int) -> Kernel:
        sizes = [tensor.nbytes for tensor in self.tensors]
        k = make(
            table,
            block,
            core,
            [*map(room_of, sizes)] if copies_whole_blocks(table.chip) else sizes,
            blocks=self.blocks,
            sub_block=sub_block,
            disarm=self.disarm,
        )
        k.all_cores, k.vector_cores = self.kernel.all_cores, self.vector_cores
        k.contents, k.shared = self.contents, self.shared
        k.repeats = self.repeats[core]
        return k


_kept = local()


def _tables(
    kernel: KernelFunction,
    chip: ChipSpec,
    blocks: int,
    tensors: Sequence[Tensor],
    fields: Mapping[str, Any],
    disarm: Collection[str],
) -> dict[str, InstructionTable]:
    """Return {kind of core: instruction table}, empty at first; equal launches of a thread get the same dict, of which 32
    are kept.

    Each thread has its own, because builders write to them. A field that cannot be hashed gets a new one.
    """
    alike = tuple([(one.name, one.shape, one.dtype) for one in tensors]), tuple(fields.items()), frozenset(disarm)
    if not hasattr(_kept, "tables"):
        _kept.tables = lru_cache(_MOST_TABLES)(lambda *key: {})
    try:
        found: dict[str, InstructionTable] = _kept.tables(kernel, chip, blocks, alike)
    except TypeError:  # a field that cannot be hashed
        return {}
    return found


class _LineKernel(Kernel):
    """Builder that notes for every row the source line that wrote it, without stamps; for messages, since it is slow."""

    stamping = False

    file = ""
    """The kernel's file."""

    @cached_property
    def lines(self) -> list[int | None]:
        """Return the list of the line of `file` that wrote every row, filled as rows are; None for a row of no such line."""
        return []

    def lines_of_rows(self) -> list[int | None]:
        """Return for each row of the finished program, without those taken back, the line of `file` that wrote it, or None."""
        dropped = {row for _, _, row in self._sheet.last(self._dropped_kinds())}
        return [line for row, line in enumerate(self.lines) if row not in dropped]

    def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        self.lines.append(frame.f_lineno if frame is not None else None)
        super()._emit(key, dst, src0, src1)


@near_names
def kernel_function(*, core: str | Sequence[str], all_cores: bool = False) -> Callable[[Callable[..., Any]], KernelFunction]:
    """Return a decorator that makes a `KernelFunction` of a function `f(k, *tensors, **fields)`.

    `core` is "AIC", "AIV", "MIX" (an AIC with its AIVs), "MIX_1_1" (an AIC with one AIV) or "AI_CORE" (cube and vector unit in
    one core), or several of them: the first that the chip has is taken. `all_cores` says that the kernel has a barrier of all
    cores (cross-core flags of mode 0), so that all its blocks must run at once. Raises SimError for another core, for what is
    no function, and for a function without `k`, with an option of `launch` as parameter, or whose call would run nothing (a
    generator, a coroutine).
    """
    cores = tuple(core) if isinstance(core, list | tuple) else (core,)
    unknown = [name for name in cores if name not in CORES]
    if unknown or not cores:
        raise SimError(f"kernel_function: core {unknown[0] if unknown else core!r}; allowed are {', '.join(CORES)}")

    def mark(function: Callable[..., Any]) -> KernelFunction:
        if isinstance(function, KernelFunction):
            function = function.function
        if not inspect.isfunction(function) and not inspect.ismethod(function):
            raise SimError(f"kernel_function: {function!r} is not a function")
        for is_one, what in _LATER.items():
            if is_one(function):
                raise SimError(f"kernel {function.__name__}: it is {what}, so that a call runs none of it; {_PLAIN}")
        return KernelFunction(function, cores, all_cores)

    return mark


_LATER: dict[Callable[[object], bool], str] = {
    inspect.isgeneratorfunction: "a generator (`yield` in its body)",
    inspect.iscoroutinefunction: "a coroutine (`async def`)",
    inspect.isasyncgenfunction: "an asynchronous generator (`async def` with `yield`)",
}
"""Functions whose call returns an object that runs the body later."""
_PLAIN = "a kernel is a plain function, which writes its instructions and returns nothing"


def _refuse_result(returned: Any) -> None:
    """Raise SimError for a kernel function that returned a value, such as a generator or coroutine, which would never run."""
    if returned is None:
        return
    if inspect.iscoroutine(returned):
        returned.close()  # Python would warn of it
    raise SimError(f"it returns a value of type {type(returned).__name__}; {_PLAIN}")


def kernel_error(error: BaseException, kernel: KernelFunction, k: Kernel, again: Callable[[Maker], Kernel]) -> KernelError:
    """Return the error that a kernel raised for the program of `k`, with file, line and kernel.

    For a RowError where `k` noted no lines, `again` writes the program anew with the builder that it is given, and returns it.
    """
    line = None
    if isinstance(error, RowError):
        line = k.notes.line(error.row) if k.notes else _line(error.row, kernel, again)
    return KernelError(_error_line(error, kernel, line))


def _line(row: int, kernel: KernelFunction, again: Callable[[Maker], Kernel]) -> Line | None:
    """Return (file, line) that wrote a row of a program; None if the file is not the kernel's, or a second writing fails."""
    file, _ = kernel.first_line
    try:
        k = again(type("LinesOfFile", (_LineKernel,), {"file": file}))
    except (Exception, SystemExit):
        return None  # the first error is the one to report
    assert isinstance(k, _LineKernel)
    k.close_queues()
    number = k.lines_of_rows()[row]
    return None if number is None else (file, number)


def _error_line(error: BaseException, kernel: KernelFunction, line: Line | None = None) -> str:
    """Return an error as "FILE:LINE: kernel NAME: text"; LINE is `line`, or that in the error's traceback, or left out."""
    line = line or kernel.raised_at(error)
    own = shown_file((line or kernel.first_line)[0])
    where = own if line is None else f"{own}:{line[1]}"
    return f"{where}: kernel {kernel.name}: {_error_text(error)}"


def _error_text(error: BaseException) -> str:
    """Return an exception's text in one line: a SimError's own, a mistake in a call explained, others with the class name."""
    if isinstance(error, SystemExit):
        return f"it ends Python (exit code {error.code})"
    text = " ".join(str(error).split())
    if isinstance(error, SimError | MemoryLimitError):
        return text
    return explain_mistake(error) or (f"{type(error).__name__}: {text}" if text else type(error).__name__)
