"""A C++ kernel as a kernel function: compiled once, its blocks recorded when their programs are built.

import ascend_sim as asim
add = asim.cpp_kernel("add_custom.cpp")
run = asim.launch(add, 8, x, y, asim.empty(x.shape, "float32"), length=x.size)
"""

from __future__ import annotations

import inspect
import os
import re
import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ascend_sim.ascend_c import compiler
from ascend_sim.ascend_c.arguments import StructureField, entry_arguments, entry_parameters, pointer_of
from ascend_sim.ascend_c.confinement import JUDGED
from ascend_sim.ascend_c.errors import SourceError
from ascend_sim.ascend_c.names import ARCHITECTURES
from ascend_sim.ascend_c.recorder import (
    ALL_CORES,
    ASKS_CUBE,
    BUFFERS,
    CACHE_HINTS,
    CUBE_CALLS,
    MATMUL_ROOM,
    TASK_TYPES,
    UNCOUNTED,
    VECTOR_CALLS,
    Argument,
    Description,
    Limits,
    ProgramRecorder,
    RecordedCore,
    describe,
)
from ascend_sim.ascend_c.rows import append
from ascend_sim.ascend_c.session import Session
from ascend_sim.ascend_c.source import KernelEntry, choose
from ascend_sim.ascend_c.stream import FINE, REFUSED, TOO_LONG, WordStream
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError, why_no_file
from ascend_sim.isa.sync import CrossCore
from ascend_sim.kernel.function import KernelFunction, Race
from ascend_sim.kernel.inspection import Line, shown_file
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.keywords import near_names

_TOGETHER, _ENDLESS, _SCALAR = "recorded together", "a program did not end", "turns and calls of each core"
_REGISTERED = re.compile(r"^[^/#\n]*\bREGISTER_TILING_DEFAULT\s*\(([^)]*)\)", re.MULTILINE)
_COPIED = re.compile(r"//[^\n]*|/\*.*?\*/|#[^\n]*|\bGET_TILING_DATA_(?:WITH_STRUCT|MEMBER)\s*\(([^,)]*),", re.DOTALL)
"""A comment, a directive, or the structure of tiling data that is copied from its pointer."""
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
_ABOUT_CUBE = re.compile(
    r"\b(?:Mmad|Matmul\w*|REGIST_MATMUL_OBJ|LoadData\w*|Fixpipe|Nd2NzParams|InitConstValue|ASCEND_IS_AIC|AIC|g_coreType|__DAV_\w*CUBE__|KERNEL_TASK_TYPE\w*)\b"
)
"""Words without which a file has nothing for a cube core."""
_KEPT_ROWS, _MOST_KEPT = 1 << 12, 256
"""Most rows of a recording that is kept, and most recordings: 40 MB."""
_DEFINITION = re.compile(r"(?!(?:defined|asim\w*)\b)[^\W\d][\w$]*(?:\([\w ,.]*\))?\s*(?:=[^\r\n]*(?<!\\))?")
"""A macro and its value; a backslash at its end would join the next line, and the API's own code is in the namespace asim."""
_PRINTS = re.compile(r"\b(?:printf|PRINTF|puts|cout|cerr)\b")
_TASK_TYPES = {0: "AIV", 1: "AIC", 2: "AIV", 3: "AIC", 4: "MIX_1_1", 5: "MIX"}
"""Number of KERNEL_TASK_TYPE (asim/sync.h, KernelMetaType) -> kinds of cores; MIX_AIV_1_0 starts the vector cores alone."""


class CppKernel(KernelFunction):
    """A kernel whose function is an entry of a C++ file.

    Tensors are given by position, in the order of the entry's pointers; numbers and fields of structures by keyword.
    """

    scalar_work = "not timed"

    def __init__(
        self,
        sources: Sequence[Path],
        named: str,
        entry: KernelEntry,
        include: Sequence[Path],
        defines: Sequence[str],
        limits: Limits,
        auto_sync: bool = False,
    ) -> None:
        self.sources, self.named, self.entry = sources, named, entry
        self.include, self.defines, self.limits = include, defines, limits
        self.auto_sync = auto_sync
        self.words: dict[CrossCore, set[bytes]] = defaultdict(set)
        """Digests of each core's recordings, in a process that judges."""
        self._recorders: dict[tuple[str, tuple[StructureField, ...]], ProgramRecorder] = {}
        self._kept: dict[str, WordStream] = {}
        """Request -> its recording, if that is short and reads no memory: a check does not record once more what ran."""
        core = self._kind_of_core()
        self.kinds = {"MIX": ("AIC", "AIV"), "MIX_1_1": ("AIC", "AIV")}.get(core, (core,))
        described = [self._described(kind) for kind in self.kinds]
        self.parameters = entry_parameters(entry, described[0].parameters)

        def write(k: Kernel, /, *tensors: Tensor, **fields: Any) -> None:
            self._write(k, tensors, fields)

        write.__name__ = write.__qualname__ = entry.name
        write.__signature__ = self._signature()  # type: ignore[attr-defined]
        self._marks = {mark for one in described for mark in one.marks}
        super().__init__(write, (core,), ALL_CORES in self._marks)

    def _kind_of_core(self) -> str:
        """Return the kind of cores that the kernel names (`__mix__`, KERNEL_TASK_TYPE), else that of the units that it calls.

        It is "AIV", "AIC", "MIX" or "MIX_1_1". A Matmul without ASCENDC_CUBE_ONLY is asked for by vector cores too: "MIX"
        (stated: asc-devkit, Matmul). A file without a word of the cube is compiled for vector cores alone. Raises SimError for
        types that are not simulated.
        """
        if self.entry.cores == "?":
            raise SimError(f"kernel {self.entry.name}: __mix__ with other cores than (0, 1), (1, 0), (1, 1) and (1, 2)")
        if self.entry.cores:
            return self.entry.cores
        if not any(_ABOUT_CUBE.search(text) for text in self._texts()):
            return "AIV"
        of_cube = self._described("AIC").marks
        named = {_TASK_TYPES.get(one - TASK_TYPES, "") for one in of_cube if one >= TASK_TYPES}
        if len(named) > 1 or "" in named:
            raise SimError(
                f"kernel {self.entry.name}: KERNEL_TASK_TYPE names several kinds of cores, or one that is not simulated; "
                f"AIV_ONLY, AIC_ONLY, MIX_AIC_1_1 and MIX_AIC_1_2 are"
            )
        if named:
            return named.pop()
        if CUBE_CALLS not in of_cube:
            return "AIV"
        return "MIX" if {VECTOR_CALLS, ASKS_CUBE} & set(self._described("AIV").marks) else "AIC"

    def _texts(self) -> list[str]:
        """Return the texts of the sources and of all headers that they include from their own folders or `include`."""
        found = [one.read_text(encoding="utf-8", errors="replace") for one in self.sources]
        folders = [*dict.fromkeys(one.parent for one in self.sources), *self.include]
        known: set[Path] = set()
        for text in found:  # grows
            for name in _INCLUDED.findall(text):
                for path in [folder / name for folder in folders if (folder / name).is_file()]:
                    if path not in known:
                        known.add(path)
                        found.append(path.read_text(encoding="utf-8", errors="replace"))
        return found

    def _described(self, core: str) -> Description:
        return describe(self._recorder((), core).library, self.sources)

    def start_recording(self) -> None:
        """Start the processes that record programs before the first program is asked for.

        A kernel with fields of structures is left out: the names of the fields decide its library. A judged kernel is left out
        too: its process starts when its arguments are known to be right.
        """
        if JUDGED not in os.environ and not any(one.has_fields for one in self.parameters):
            for kind in self.kinds:
                self._recorder((), kind).start()

    @property
    def first_line(self) -> Line:
        """Return (file, line) of the entry."""
        return str(self.sources[0]), self.entry.line

    def raised_at(self, error: BaseException) -> Line | None:
        """Return (file, line) of the C++ line that a SourceError names; None for other errors."""
        return error.line if isinstance(error, SourceError) else None

    def core_on(self, chip: ChipSpec) -> str:
        """Return the kind of core on which the kernel runs.

        Raises SimError for a chip of another architecture than the headers'.
        """
        if chip.identity.arch not in ARCHITECTURES:
            raise SimError(
                f"kernel {self.name}: Ascend C kernels run on {', '.join(ARCHITECTURES)} (910B, 910_93); {chip.name} is "
                f"{chip.identity.arch}"
            )
        return super().core_on(chip)

    @property
    def _asks_cube(self) -> bool:
        """Return True if vector cores ask cube cores for products (REGIST_MATMUL_OBJ)."""
        return len(self.kinds) == 2 and ASKS_CUBE in self._marks

    def workspace(self, blocks: int) -> int:
        """Return the bytes of GM for messages and tiles between vector cores and cube cores; 0 if vector cores ask for no
        product.
        """
        vectors = 1 if self.cores[0] == "MIX_1_1" else 2
        return MATMUL_ROOM * vectors * blocks if self._asks_cube else 0

    def remarks_on(self, races: Sequence[Race]) -> list[str]:
        """Return those remarks that apply: the vendor's compiler would have ordered a reported race, where `auto_sync` did not;
        the kernel's hints to the L2 change nothing.
        """
        remarks = []
        if races and not self.auto_sync:
            from ascend_sim.ascend_c.auto_sync import orders  # few kernels race

            if any(map(orders, races)):
                remarks.append(
                    "the vendor's compiler orders vector and scalar accesses to UB by itself where its projects leave "
                    "--cce-auto-sync on: --auto-sync adds its waits"
                )
        if CACHE_HINTS in self._marks:
            remarks.append("SetL2CacheHint changes nothing here: the model of the L2 keeps all lines alike")
        return remarks

    def scalar_code(self, shared: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        """Return {kind of core: {"loop_turns", "calls"}} of a launch, the counts of loops and functions in the kernel's own
        C++; {} for a kernel that cannot be compiled with counts.
        """
        found: dict[str, dict[str, int]] = {}
        if UNCOUNTED in self._marks:
            return found
        for (_, kind, _), (turns, calls) in sorted(shared.get(_SCALAR, {}).items()):
            counts = found.setdefault(kind, {"loop_turns": 0, "calls": 0})
            counts["loop_turns"] += turns
            counts["calls"] += calls
        return found

    def check(self, tensors: Sequence[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return {parameter: tensor}, with the tensors of a list as "x[0]", "x[1]".

        Raises SimError for arguments that do not fit the entry.
        """
        found: dict[str, Any] = {}
        for name, value in super().check(tensors, fields).items():
            if not isinstance(value, list | tuple):
                found[name] = value
            elif not value:
                raise SimError(f"kernel {self.name}: {name} is an empty list; a list has one tensor or more")
            else:
                found |= {f"{name}[{number}]": one for number, one in enumerate(value)}
        return found

    def _signature(self) -> inspect.Signature:
        taken = {one.name for one in self.parameters}
        first = inspect.Parameter("k" if "k" not in taken else "k_", inspect.Parameter.POSITIONAL_ONLY)
        listed = [
            inspect.Parameter(one.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in self.parameters if one.is_tensor
        ]
        for one in self.parameters:
            if not one.is_tensor:
                default = None if one.has_fields else inspect.Parameter.empty
                listed.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default))
        if any(one.has_fields for one in self.parameters):
            listed.append(inspect.Parameter("fields", inspect.Parameter.VAR_KEYWORD))
        return inspect.Signature([first, *listed])

    # -- the program of a block ----------------------------------------------------------------------------------------

    def _write(self, k: Kernel, tensors: Sequence[Tensor], fields: Mapping[str, Any]) -> None:
        if k.shared.get(_ENDLESS):  # no other program of this launch is recorded
            return
        given, by_name = entry_arguments(self.parameters, tensors, fields, bool(self._tiling_structure))
        recording = self._recorded(k, tensors, given, by_name)
        if JUDGED in os.environ:
            self.words[k.block, k.core_kind, k.sub_block].add(recording.digest())
        k.shared.setdefault(_SCALAR, {})[k.block, k.core_kind, k.sub_block] = recording.turns, recording.calls
        k.shared[_ENDLESS] = recording.how == TOO_LONG
        if not k.shared[_ENDLESS]:
            append(k, recording, len(tensors), self.auto_sync)
        if recording.how != FINE:
            raise SourceError(_ended(recording, self.limits, tensors), recording.last)

    def _recorded(
        self, k: Kernel, tensors: Sequence[Tensor], given: list[Argument], by_name: Mapping[StructureField, float]
    ) -> WordStream:
        """Return the recording of the program of the core that `k` builds for.

        If its scalar code reads memory, the programs of all blocks are recorded together, once for the launch, and kept in
        `k.shared`.
        """
        recorders = {kind: self._recorder(tuple(by_name), kind) for kind in self.kinds}
        vectors = {"MIX": k.chip.cores.aiv_per_aic, "MIX_1_1": 1}.get(self.cores[0], 0)
        buffers = tuple(int(k.chip.buffers[one]) for one in BUFFERS)  # type: ignore[index]
        room = pointer_of(tensors[-1]) if self._asks_cube else 0

        def place(core: CrossCore) -> RecordedCore:
            return RecordedCore(core[0], k.blocks, buffers, core[2], vectors, room)

        def begin(core: CrossCore) -> Session:
            return recorders[core[1]].begin(place(core), given, list(by_name.values()), self.limits)

        if _TOGETHER not in k.shared:
            this = k.block, k.core_kind, k.sub_block
            key = repr((place(this), k.core_kind, given, by_name))
            if key in self._kept:
                return self._kept[key]
            session = begin(this)
            if not session.goes_on():
                self._keep(key, session.recording)
                return session.recording
            session.close()
            from ascend_sim.ascend_c.ahead import Blocks, contents_known  # few kernels read values

            sizes = [one.nbytes for one in tensors]
            cores = [
                (block, kind, number)
                for block in range(k.blocks)
                for kind in self.kinds
                for number in range(vectors if vectors and kind == "AIV" else 1)
            ]
            k.shared[_TOGETHER] = Blocks(k.chip, begin, cores, contents_known(k.contents), sizes).recordings()
        found: dict[CrossCore, WordStream] = k.shared[_TOGETHER]
        return found[k.block, k.core_kind, k.sub_block]

    def _keep(self, key: str, recording: WordStream) -> None:
        """Keep a recording that ended well and is short for the next request `key`; beyond 256 of them all are dropped first.
        Where kernels are judged, or print, each program is recorded again.
        """
        silent = JUDGED not in os.environ and not self._prints
        if silent and recording.how == FINE and len(recording.rows) <= _KEPT_ROWS:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = recording

    def _recorder(self, fields: tuple[StructureField, ...], core: str = "") -> ProgramRecorder:
        """Return the recorder for a kind of core ("": the kernel's first) whose library sets the structure fields `fields` by
        name.

        The library is compiled if needed; recorders are kept.
        """
        core = core or self.kinds[0]
        found = self._recorders.get((core, fields))
        if found is None:
            stub = _stub(self.named, fields, self._tiling_structure if fields else "")
            found = ProgramRecorder(compiler.library(self.sources, stub, self.include, self.defines, core))
            self._recorders[core, fields] = found
        return found

    @cached_property
    def _prints(self) -> bool:
        return any(_PRINTS.search(text) for text in self._texts())

    @cached_property
    def _tiling_structure(self) -> str:
        """Return the structure behind the pointer `tiling`: the one that the kernel's files register, else the only one that
        they copy from it by name; "" for none.
        """
        registered = next((found[1] for text in self._texts() if (found := _REGISTERED.search(text))), None)
        if registered is not None:
            return registered.strip()
        copied = {name.strip() for text in self._texts() for name in _COPIED.findall(text)} - {""}
        return copied.pop() if len(copied) == 1 else ""


def _stub(named: str, fields: Sequence[StructureField], tiling_structure: str) -> str:
    """Return the C++ source of `asim_run` and `asim_describe`, by which the recorder runs and describes the kernel function
    `named`. Before a run the tiling data's `fields` are set to numbers of the request.

    `tiling_structure`: the structure of the tiling data whose fields are set, or "".
    """
    assigned = " ".join(
        f"if constexpr (asim_index == {parameter}) asim::assign(asim_data.{name}, asim_given[{number}]);"
        for number, (parameter, name) in enumerate(fields)
    )
    export = 'extern "C" __attribute__((visibility("default")))'
    return (
        '#include "asim/launch.h"\n'
        "struct AsimFill {\n"
        "template <int asim_index, class asim_type> void fill(asim_type &asim_data, const asim::Argument *asim_given) const "
        f"{{ {assigned} }}\n"
        "};\n"
        f"static {tiling_structure or 'asim::NoTiling'} asim_tiling;\n"
        f"{export} void asim_run(const int64_t *asim_request, int asim_pipe) "
        f"{{ asim::run(&{named}, AsimFill(), asim_tiling, asim_request, asim_pipe); }}\n"
        f"{export} int64_t asim_describe(int64_t *asim_out, int64_t asim_most) "
        f"{{ return asim::describe(&{named}, asim_out, asim_most); }}\n"
    )


def _ended(recording: WordStream, limits: Limits, tensors: Sequence[Tensor]) -> str:
    """Return a message on why a program did not end well: refused, crashed, or beyond the limits.

    `tensors` are those of the launch, into one of which the address of a crash (`text`) may point.
    """
    if recording.how == REFUSED:
        return recording.text
    if recording.how == TOO_LONG and recording.detail:
        return f"the kernel did not end within {limits.rows:,} calls (cpp_kernel, rows=); a loop at this line may be endless"
    if recording.how == TOO_LONG:
        return f"the kernel did not end within {limits.seconds:g} s (cpp_kernel, seconds=); its last call is this one"
    try:
        name = signal.strsignal(recording.detail) or str(recording.detail)
    except ValueError:
        name = str(recording.detail)
    hint = ""
    if recording.detail in (signal.SIGSEGV, signal.SIGBUS):
        hint = "; scalar code that follows a pointer into GM or UB is not simulated"
        address = int(recording.text) if recording.text.isdecimal() else 0
        for tensor in tensors:
            if 0 <= (offset := address - pointer_of(tensor)) < max(tensor.nbytes, 1):
                hint = (
                    f"; scalar code follows a pointer into {tensor.name}, to byte {offset}: GetValue of a GlobalTensor reads GM"
                )
    return f"the kernel crashed ({name.lower()}) behind the call in this line{hint}"


@near_names
def cpp_kernel(
    file: str | Path,
    *more: str | Path,
    entry: str | None = None,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, Any] | Sequence[str] = (),
    rows: int = Limits().rows,
    seconds: float = Limits().seconds,
    auto_sync: bool = False,
) -> CppKernel:
    """Compile a C++ file with an Ascend C kernel, and return the kernel for `launch` and `check_kernel`.

    `more` are further files that it needs, `entry` the kernel if the file has several (a template with its arguments:
    "scale<half>"), `include` folders that come before the simulator's headers, `defines` macros. A block that takes more than
    `rows` calls or `seconds` counts as endless. `auto_sync` adds the synchronisation of the vendor's compiler (--cce-auto-sync,
    on in its projects). Raises CompileError with the compiler's errors, SimError for missing files and folders, bad macros, a
    file without the kernel or with several and no `entry`, and where there is no compiler.
    """
    paths = [Path(one).absolute() for one in (file, *more)]
    for one in paths[1:]:
        if not one.is_file():
            raise SimError(f"{shown_file(str(one))}: {why_no_file(one)}; give a C++ file")
    for folder in include:
        if not Path(folder).is_dir():
            raise SimError(f"include {folder}: there is no such folder")
    if isinstance(defines, Mapping):
        defines = [f"{name}={value}" for name, value in defines.items()]
    for macro in defines:
        if not _DEFINITION.fullmatch(macro.strip()):
            names = "a name is not `defined` and does not begin with asim"
            raise SimError(f"define {macro!r}: give NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE, all in one line; {names}")
    folders = [Path(one).absolute() for one in include]
    named, chosen = choose(paths[0], entry, folders)
    return CppKernel(paths, named, chosen, folders, list(defines), Limits(rows, seconds), auto_sync)
