"""Kernels of one's own: `launch` runs one on a simulated chip, as the operators run theirs.

@ascend_sim.kernel_function(core="AIV")
def add(k, x, y, z):
    ...

run = ascend_sim.launch(add, 48, x, y, ascend_sim.empty(x.shape, "float16"), chip="ascend910b3")
run.outputs["z"], run.report.to_dict(), run.findings
run.write_html("add.html")

The steps of the run are those of every run (`ascend_sim.sequence`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.errors import SimError, binary_size
from ascend_sim.expected import judge_outputs, read_expectations
from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.function import KernelFunction, Launch
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.tensor import Tensor, dtype_name, storage_dtype
from ascend_sim.keywords import near_names
from ascend_sim.memory.gm import SLOT_SHIFT
from ascend_sim.memory.local import POISON, poisoned_with
from ascend_sim.numerics.distinct import distinct
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.ops.kinds import SHAPE, check_kinds
from ascend_sim.options.description import filled, with_options
from ascend_sim.options.run_options import LaunchOptions
from ascend_sim.report.counts import Counts
from ascend_sim.report.report import Outputs
from ascend_sim.runtime import Allocation, Device, Task, ValueModel, run_values
from ascend_sim.sequence import Job, RunResult, run_job
from ascend_sim.settings import check_limit, check_options

Array = NDArray[Any]

_UNWRITTEN = (POISON, 0x4B, 0xC5)
"""Bytes that unwritten buffers hold in turn: NaN, then numbers far above 0 and far below."""
NO_OUTPUT_DEPENDS = f"no output depends on these bytes: {len(_UNWRITTEN)} runs with others in their place give the same ones"
"""Text on reads of unwritten bytes that change no output."""


@frozen
class Empty:
    """Output tensor of a launch, filled by the kernel; made by `empty`."""

    shape: tuple[int, ...]
    dtype: str
    workspace: bool = False


@near_names
def empty(shape: int | Sequence[int], dtype: Any, *, workspace: bool = False) -> Empty:
    """Return an output tensor for `launch` that holds nothing until the kernel writes it: every byte is 0xFF, a NaN in each
    float format but hifloat8.

    `dtype` is a name ("float16", "bfloat16", "int32", ...) or a numpy or ml_dtypes dtype. A `workspace` is the kernel's own: it
    is not among the outputs. In timing mode, which has no values, it can be an input as well. Raises SimError for a size that
    is no whole number from 0, and for a dtype that tensors cannot have.
    """
    sizes: Any = shape if isinstance(shape, Sequence) or np.ndim(shape) else (shape,)
    check_kinds({"shape": sizes}, {"shape": SHAPE})
    if min(sizes, default=1) < 0:
        raise SimError(f"empty: shape {list(sizes)}; sizes are 0 or more")
    return Empty(tuple(int(size) for size in sizes), dtype_name(dtype), workspace)


@mutable(repr=False)
class KernelRun(RunResult):
    """Result of a launch.

    `outputs` are the tensors that the kernel wrote and those made with `empty`, by the names of its parameters; `programs` are
    the instructions of each core ([] in timing mode without a timeline). The verdicts of the report are on outputs. The rest is
    as in `RunResult`.
    """

    results = "outputs"
    programs: list[Program] = field(default_factory=list)


@overload
def launch(kernel: KernelFunction, blocks: int, /, *tensors: Any, **options: Unpack[LaunchOptions]) -> KernelRun:
    LaunchOptions(**options)  # editors that only read source (Jedi) take the keywords from this call
    raise NotImplementedError


@overload
def launch(kernel: KernelFunction, blocks: int, /, *tensors: Any, **keywords: Any) -> KernelRun: ...


@with_options(LaunchOptions, rest="fields")
def launch(kernel: KernelFunction, blocks: int, /, *tensors: Any, **keywords: Any) -> KernelRun:
    """Run `blocks` blocks of a kernel on a simulated chip and return the result.

    `tensors` are the kernel's arguments in order: numpy arrays, which are copied to GM and stay as they are, and `empty`
    tensors; in timing mode any objects with a shape and a dtype. `fields` are passed to the kernel unchanged: its tiling, for
    example. Raises SimError for arguments that do not fit kernel, chip or mode, KernelError for errors inside the kernel (with
    its file and line), DeadlockError where programs wait for each other.
    """
    options = filled(LaunchOptions, keywords)
    check_options(LaunchOptions, options)
    fields = {name: value for name, value in keywords.items() if name not in options}
    job = LaunchJob(kernel, blocks, tensors, fields, options)
    run = run_job(job, options, KernelRun)
    run.programs = job.programs
    if run.report.mode == "timing" and run.timeline is not None:
        run.programs = [one.program for one in run.timeline.programs]
    return run


class LaunchJob(Job):
    """A launch of a user's kernel, as a Job for the common sequence of a run."""

    strict = True
    programs: list[Program]

    def __init__(
        self, kernel: Any, blocks: Any, tensors: Sequence[Any], fields: Mapping[str, Any], options: LaunchOptions
    ) -> None:
        work = self.work = options["scalar_cycles_per_word"] or 0
        check_limit(work or None, options["mode"], "scalar_cycles_per_word")
        chip = chip_of(options["chip"])
        self.chip = chip.with_scalar_work(work) if work else chip
        self.kernel, self.blocks, self.tensors, self.fields, self.options = kernel, blocks, tensors, fields, options
        self.flags = flags_of(options["disarm"])
        self.programs = []

    @property
    def disarm(self) -> dict[str, list[str]]:  # type: ignore[override]
        """Return {the kernel: its disarmed flags}; {} without any."""
        return {self.kernel.name: self.flags} if self.flags else {}

    @property
    def disarmed(self) -> list[str]:
        """Return the names of the disarmed flags, without the kernel's name."""
        return self.flags

    def place(self, device: Device, mode: str) -> tuple[list[Task], list[Allocation]]:
        """Put the arrays and the empty tensors on the device; return ([the task], allocations of the arrays, for a warm L2)."""
        self.made = made = prepared(self.kernel, self.blocks, self.tensors, self.fields, self.chip, device, mode, self.flags)
        inputs = [one for one, tensor in zip(made.held, made.places, strict=True) if made.arrays[tensor.name] is not None]
        return [made.task], inputs

    @property
    def roles(self) -> Mapping[str, str]:
        """Return {tensor: its role in a check (input, output, workspace)}."""
        return self.made.roles

    @property
    def dtypes(self) -> dict[str, str]:
        """Return {tensor: its format}."""
        return {tensor.name: tensor.dtype for tensor in self.made.places}

    def counted(self, counts: Counts) -> dict[str, Any]:
        """Return {"macs": the cube's multiplications, "compute_dtype": their dtype}; {} if none, or of several dtypes."""
        return _products(counts)

    def settled(self, findings: list[Finding], timeline: Timeline | None, model: ValueModel) -> tuple[list[Finding], list[str]]:
        """Return the findings, with reads of unwritten bytes as warnings if no output depends on them, and a text on these."""
        reads = [one for one in findings if one.of_unwritten]
        others = [one for one in findings if not one.of_unwritten and one.level == "ERROR"]
        arguments = (self.kernel, self.blocks, self.tensors, self.fields, self.chip, self.flags)
        if not reads or others or outputs_depend(*arguments, timeline, model):
            return findings, []
        number = sum(one.kind == "uninitialised" for one in reads) or len(reads)  # a check finds those of the run once more
        count = "a read" if number == 1 else f"{number} reads"
        said = [one.harmless(NO_OUTPUT_DEPENDS) if one.of_unwritten else one for one in findings]
        return said, [f"{count} of bytes of buffers that were never written (a check names the lines); {NO_OUTPUT_DEPENDS}"]

    def outputs(self) -> dict[str, Array]:
        """Return {name: copy} of the tensors that the kernel wrote and those made with `empty`; workspaces are left out."""
        made = self.made
        kept = _written(self.programs)
        for slot, value in enumerate(made.given.values()):
            if isinstance(value, Empty):
                (kept.discard if value.workspace else kept.add)(slot)
        return {made.places[slot].name: _values(made.places[slot], made.held[slot]) for slot in sorted(kept)}

    def verdicts(
        self, outputs: Mapping[str, Array], model: ValueModel, timeline: Timeline | None
    ) -> Callable[[], Outputs] | None:
        """Return a function that compares the outputs with the option `expected`; None if that is None.

        Raises SimError as `read_expectations`.
        """
        if self.options["expected"] is None:
            return None
        arrays = {name: array for name, array in self.made.arrays.items() if array is not None}
        inputs = {**arrays, **self.kernel.defaults(), **self.fields}
        wanted = read_expectations(self.options["expected"], inputs, outputs)
        return partial(judge_outputs, wanted, outputs, self.dtypes, model)

    def report_fields(self) -> dict[str, Any]:
        """Return three fields of the report: "problem" (kernel, tensors, core, blocks, those fields that are numbers or texts,
        cache states, scalar work's time), "scalar_code" (its counts), "warnings" (of an experiment with scalar work's time).
        """
        started = self.made.started
        work = f"{self.work} cycles before each instruction" if self.work else self.kernel.scalar_work
        fields = {**self.kernel.defaults(), **self.fields}
        return {
            "problem": {
                "operator": self.kernel.name,
                "tensors": {one.name: {"shape": list(one.shape), "dtype": one.dtype} for one in self.made.places},
                "core": started.core,
                "blocks": started.blocks,
                **{name: value for name, value in fields.items() if isinstance(value, bool | int | float | str)},
                "l2": self.options["l2"],
                "launches": self.options["launches"],
                **({"scalar_work": work} if work else {}),
            },
            "scalar_code": self.kernel.scalar_code(started.shared),
            "warnings": (f"an experiment: scalar work of {work}",) if self.work else (),
        }


def outputs_depend(
    kernel: Any,
    blocks: Any,
    tensors: Sequence[Any],
    fields: Mapping[str, Any],
    chip: ChipSpec,
    disarm: Sequence[str],
    timeline: Timeline | None = None,
    model: ValueModel | None = None,
) -> bool:
    """Return True if the outputs of a launch depend on bytes of buffers that nothing wrote, or if that is unknown.

    The launch runs for its values once for each byte of `_UNWRITTEN`, which fills the unwritten buffers: in the order of
    `timeline`, so that a read that comes too early does so again, or block by block if it is None. Unknown is it for tensors
    without values and for a run that raises SimError.
    """

    def left(byte: int) -> list[Any]:
        device = Device(chip)
        with poisoned_with(byte):
            made = prepared(kernel, blocks, tensors, fields, chip, device, "functional", disarm)
            run_values(device, [made.task], timeline, model)
        return [one.data for one, role in zip(made.held, made.roles.values(), strict=True) if role != "workspace"]

    try:
        first = left(_UNWRITTEN[0])
        return not all(all(map(np.array_equal, first, left(byte))) for byte in _UNWRITTEN[1:])
    except SimError:
        return True


def flags_of(disarm: str | Sequence[str]) -> list[str]:
    """Return the names of flags in `disarm`, one name or several, as a list."""
    return [disarm] if isinstance(disarm, str) else list(disarm)


@frozen
class Prepared:
    """A launch before its run: `given` has its arguments by name, `arrays` their arrays (None without values).

    `places` are its tensors and `held` their allocations, in the order of the arguments; `started` is the launch as the kernel
    sees it, `task` as the device runs it.
    """

    given: Mapping[str, Any]
    arrays: Mapping[str, Array | None]
    places: Sequence[Tensor]
    held: Sequence[Allocation]
    started: Launch
    task: Task

    @property
    def roles(self) -> dict[str, str]:
        """Return {tensor: "input", "output" or "workspace"}, its role in a check (`check.contents`)."""
        kinds = {False: "output", True: "workspace"}
        return {name: kinds[value.workspace] if isinstance(value, Empty) else "input" for name, value in self.given.items()}


def prepared(
    kernel: Any,
    blocks: Any,
    tensors: Sequence[Any],
    fields: Mapping[str, Any],
    spec: ChipSpec,
    device: Device,
    mode: str,
    disarm: Sequence[str],
) -> Prepared:
    """Place the tensors of a launch on `device`, with the workspace that the kernel's library needs, and return it with its
    task.

    Raises SimError for arguments that do not fit kernel, chip or mode.
    """
    if not isinstance(kernel, KernelFunction):
        raise SimError(f"launch: {kernel!r} is not a kernel; put @ascend_sim.kernel_function(core=...) before its function")
    if not is_whole_number(blocks) or blocks < 1:
        raise SimError(f"launch {kernel.name}: {blocks!r} blocks; a kernel is launched with 1 or more")
    if blocks > spec.launch.blocks_max:
        raise SimError(
            f"launch {kernel.name}: {blocks} blocks; a launch has at most {spec.launch.blocks_max} "
            f"(chip {spec.name}, launch.blocks_max)"
        )
    given = kernel.check(tensors, fields)
    if room := kernel.workspace(int(blocks)):
        given["library workspace"] = Empty((room,), "uint8", workspace=True)
    arrays = {name: _array(kernel, name, value, mode) for name, value in given.items()}
    places = [_tensor(slot, name, value) for slot, (name, value) in enumerate(given.items())]
    _check_fits(kernel, places, spec)
    held = [_place(device, tensor, arrays[tensor.name]) for tensor in places]
    started = Launch.of(kernel, spec, int(blocks), places, fields, tuple(disarm), list(arrays.values()))
    return Prepared(given, arrays, places, held, started, _task(started, held, kernel, fields))


def _array(kernel: KernelFunction, name: str, value: Any, mode: str) -> Array | None:
    """Return the array of a kernel's argument itself; None for `empty` and, in timing mode, for any other object with shape and
    dtype, numpy's scalars apart.

    Raises SimError for anything else, and for an array of another byte order or of a dtype that no kernel has.
    """
    if isinstance(value, np.ndarray):
        if not value.dtype.isnative:
            raise SimError(f"{name} has byte order {value.dtype.str!r}; allowed is the machine's own, {value.dtype.name}")
        dtype_name(value.dtype)
        return value
    if isinstance(value, Empty):
        return None
    if isinstance(value, np.generic) or not (hasattr(value, "shape") and hasattr(value, "dtype")):
        raise SimError(
            f"kernel {kernel.name}: {name} is {type(value).__name__}; a tensor is a numpy array or ascend_sim.empty(...), "
            f"other values go by keyword"
        )
    if mode != "timing":
        raise SimError(f"mode {mode!r} needs values, but {name} is a {type(value).__name__}; only timing runs without")
    return None


def _tensor(slot: int, name: str, value: Any) -> Tensor:
    return Tensor.at(slot, name, tuple(int(size) for size in value.shape), dtype_name(value.dtype))


def _check_fits(kernel: KernelFunction, tensors: Sequence[Tensor], chip: ChipSpec) -> None:
    total = sum(tensor.nbytes for tensor in tensors)
    if total > chip.memory.hbm_bytes:
        raise SimError(
            f"kernel {kernel.name}: its tensors take {binary_size(total)}; {chip.name} has "
            f"{binary_size(chip.memory.hbm_bytes)} (chip file, memory.hbm_bytes)"
        )


def _place(device: Device, tensor: Tensor, array: Array | None) -> Allocation:
    """Allocate GM for a tensor, copy its array there if there is one and the device has values, and return the allocation."""
    allocation = device.allocate(tensor.nbytes, tensor.name)
    if array is not None and allocation.data is not None:
        allocation.data[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return allocation


def _values(tensor: Tensor, allocation: Allocation) -> Array:
    assert allocation.data is not None
    return allocation.data.view(storage_dtype(tensor.dtype)).reshape(tensor.shape).copy()


def _task(started: Launch, held: Sequence[Allocation], kernel: KernelFunction, fields: Mapping[str, Any]) -> Task:
    tiling = {**kernel.defaults(), **fields}
    info = {
        "dtypes": {tensor.name: tensor.dtype for tensor in started.tensors},
        "formats": {tensor.name: "ND" for tensor in started.tensors},
        "tiling": {name: value for name, value in tiling.items() if isinstance(value, bool | int | float | str)},
        "tiling_source": "manual" if tiling else None,
    }
    return Task(
        kernel.name,
        kernel.name,
        started.core,
        started.blocks,
        list(held),
        started.programs,
        all_cores=kernel.all_cores,
        vector_cores=started.vector_cores,
        info=info,
    )


def _products(counts: Counts) -> dict[str, Any]:
    """Return {"macs": the cube's multiplications, "compute_dtype": their dtype} of a launch, for the ideal time.

    {} if there are none, or of several dtypes.
    """
    macs: dict[str, int] = {}
    for table, argument, count in counts.instructions():
        instruction = table.instructions[argument]
        if isinstance(instruction, Mmad):
            products = instruction.m * instruction.k * instruction.n
            macs[instruction.dtype] = macs.get(instruction.dtype, 0) + count * products
    if len(macs) != 1:
        return {}
    ((dtype, total),) = macs.items()
    return {"macs": total, "compute_dtype": dtype}


def _written(programs: Sequence[Program]) -> set[int]:
    """Return the slots of all tensors in GM that an instruction of the programs writes."""
    slots: set[int] = set()
    to_gm: dict[int, NDArray[np.bool_]] = {}  # programs share tables, which may have thousands of instructions
    for program in programs:
        if (known := to_gm.get(id(program.table))) is None:
            writes = [any(r.space == "GM" for r in one.writes()) for one in program.table.instructions]
            known = to_gm[id(program.table)] = np.array(writes, np.bool_)
        rows = program.rows[known[program.rows[:, 0]]]
        slots |= set(distinct(rows[:, 1] >> SLOT_SHIFT).tolist())
    return slots
