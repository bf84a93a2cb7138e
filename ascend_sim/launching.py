"""Kernels of one's own: `launch` runs one on a simulated chip, as the operators run theirs.

@ascend_sim.kernel_function(core="AIV")
def add(k, x, y, z):
    ...

run = ascend_sim.launch(add, 48, x, y, ascend_sim.empty(x.shape, "float16"), chip="ascend910b3")
run.outputs["z"], run.report.to_dict(), run.findings
run.write_html("add.html")

It stands among the faces: it takes what the user has, and puts kernel, runtime and report together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.run import check_tasks
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.critical_path import critical_path
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.errors import SimError, binary_size
from ascend_sim.expected import Expectations, judge_outputs, read_expectations
from ascend_sim.frozen import frozen
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.function import KernelFunction, Launch
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.tensor import Tensor, dtype_name, storage_dtype
from ascend_sim.memory.gm import SLOT_SHIFT
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.report.counts import Counts
from ascend_sim.report.report import Report, RunFacts
from ascend_sim.report.run_files import write_run
from ascend_sim.report.words import words
from ascend_sim.runtime import (
    MODES,
    Allocation,
    Device,
    Observer,
    Progress,
    Recording,
    RunOptions,
    Task,
    ValueModel,
    run_tasks,
    without_recording,
)
from ascend_sim.settings import FLAGS, check_disarmed, check_limit, check_settings, disarmed_warnings, may_keep

__all__ = ["Empty", "KernelRun", "empty", "launch"]

Array = NDArray[Any]


@frozen
class Empty:
    """A tensor that the kernel fills; made by `empty`."""

    shape: tuple[int, ...]
    dtype: str
    workspace: bool = False


def empty(shape: int | Sequence[int], dtype: Any, *, workspace: bool = False) -> Empty:
    """A tensor of GM that holds nothing yet (every byte 0xFF, a NaN in every float format) until the kernel writes it.

    `dtype` is a name ("float16", "bfloat16", "int32", ...) or a numpy or ml_dtypes dtype. A `workspace` is the kernel's
    own: it is not among the outputs. In timing mode, where nothing has values, it stands for an input as well.
    """
    sizes: Any = shape if isinstance(shape, Sequence) or np.ndim(shape) else (shape,)
    check_settings({"shape": sizes})
    if min(sizes, default=1) < 0:
        raise SimError(f"empty: shape {list(sizes)}; sizes are 0 or more")
    return Empty(tuple(int(size) for size in sizes), dtype_name(dtype), workspace)


@dataclass
class KernelRun:
    """What a launch leaves.

    `outputs`: the tensors that the kernel wrote and those made with `empty`, by the names of its parameters, as numpy
    arrays (none in timing mode). `report`: as of an operator's call; the verdicts on outputs stand where those on
    gradients do. `findings`: hazards and reads of what nobody wrote. `timeline` and `recording` (None in functional mode, and
    where none was kept) hold every instruction's cycles; `programs` are the instructions themselves.
    """

    outputs: dict[str, Array]
    report: Report
    findings: list[Finding]
    timeline: Timeline | None = field(repr=False, default=None)
    recording: Recording | None = field(repr=False, default=None)
    programs: list[Program] = field(repr=False, default_factory=list)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {list(array.shape)} {self._dtypes[name]}" for name, array in self.outputs.items())
        time = "no times" if self.report.total_us is None else f"{self.report.total_us:,.2f} us"
        return f"<KernelRun on {self.report.chip}, mode {self.report.mode}, {time}: {shapes or 'no values'}>"

    @property
    def passed(self) -> bool:
        """Nothing found, and every output that was compared is correct."""
        return self.report.passed

    def write_html(self, path: str | Path, *, what_if: bool = True) -> None:
        """Write the run as one page; with `what_if` the programs run again with each rate of the chip doubled.

        Raises SimError in functional mode, which has no times, where no timeline was kept, and without Plotly.
        """
        from ascend_sim.report.page import write_page
        from ascend_sim.report.skeleton import check_plotly
        from ascend_sim.report.what_if import what_if as run_again

        if self.recording is None:
            raise SimError(f"write_html: {without_recording(self.report.mode)}")
        check_plotly()
        outcomes = run_again(self.recording) if what_if else None
        write_page(path, self.recording, self.report.to_dict(statements=True), outcomes)

    def write(self, folder: str | Path, *, msprof: bool = False) -> list[Path]:
        """Write report.json, outputs.npz and, with times, trace.json.gz and timeline.npz to a folder; returns their paths.

        `ascend-sim report FOLDER` draws the page of such a folder. `msprof` adds the vendor's simulator's folders.
        """
        arrays = {name: (array, self._dtypes[name]) for name, array in self.outputs.items()}
        return write_run(Path(folder), self.report, self.recording, "outputs", arrays, msprof=msprof)

    @property
    def _dtypes(self) -> dict[str, str]:
        return {name: tensor["dtype"] for name, tensor in self.report.problem["tensors"].items()}

    def _repr_html_(self) -> str:
        """For notebooks: the report, and where the time went."""
        if self.recording is None:
            return self.report._repr_html_()
        said = words(self.recording, self.report.to_dict(), critical_path(self.recording.timeline), None)
        return self.report._repr_html_() + "".join(f"<p>{escape(text)}</p>" for text in said)


def launch(
    kernel: KernelFunction,
    blocks: int,
    /,
    *tensors: Any,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    disarm: str | Sequence[str] = (),
    expected: Expectations | Callable[..., Expectations] | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    check: bool = False,
    timeline: bool | int = True,
    **fields: Any,
) -> KernelRun:
    """Run `blocks` blocks of a kernel on a simulated chip.

    `tensors` are the kernel's arguments in order: numpy arrays, which are copied to GM, and `empty` tensors. `fields` go to
    the kernel as they are: its tiling, for example. `mode` is "full" (values and time), "functional" (values) or "timing"
    (time, tensors without values allowed). `l2="warm"`: the arrays are in the L2 when the kernel starts, as far as they fit.
    `disarm` names flags whose waits hold nothing (an experiment). `expected` is what the outputs must be: an array where
    there is one output, else arrays by name, or an `Expected` in their place, or a function of the input arrays by their
    parameters' names that returns such; the verdict stands in the report. With `check` the findings of `check_kernel` are among
    the run's, and memory that nobody uses is a warning of its report. The rest is as in `convolution_backward`.

    Raises SimError for arguments that do not fit kernel, chip or mode, KernelError for what goes wrong inside the kernel
    (with its file and line), DeadlockError where programs wait for each other.
    """
    check_settings(
        {
            "chip": chip,
            "mode": mode,
            "l2": l2,
            "accumulate": accumulate,
            "overflow": overflow,
            "progress": progress,
            "max_cycles": max_cycles,
            "engine": engine,
            "observer": observer,
            "check": check,
            "timeline": timeline,
            "disarm": disarm,
        },
        {"disarm": FLAGS},
    )
    if mode not in MODES:
        raise SimError(f"mode {mode!r}: allowed are {', '.join(MODES)}")
    if l2 not in ("cold", "warm"):
        raise SimError(f"l2 {l2!r}: allowed are cold and warm")
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
    disarm = (disarm,) if isinstance(disarm, str) else disarm
    experiment = disarmed_warnings(disarm, mode)
    check_limit(max_cycles, mode)
    model = ValueModel.of(spec, accumulate, overflow)
    device = Device(spec, with_values=mode != "timing")
    made = prepared(kernel, blocks, tensors, fields, spec, device, mode, disarm)
    given, arrays, places, held, task = made.given, made.arrays, made.places, made.held, made.task
    checked = check_tasks(spec, [task], roles=made.roles, strict=True) if check else None
    warm = [one for one, tensor in zip(held, places, strict=True) if l2 == "warm" and arrays[tensor.name] is not None]
    for allocation in warm:
        device.warm(allocation)
    programs: list[Program] = []
    facts = RunFacts(spec, bounds=mode != "functional")

    def on_program(index: int, task: Task, program: Program) -> None:
        facts.add(index, task, program)
        if mode != "timing":
            programs.append(program)

    how = RunOptions(
        mode=mode,
        progress=progress,
        max_cycles=max_cycles,
        model=model,
        observer=observer,
        engine=engine,
        keep=may_keep(timeline),
        on_program=on_program,
    )
    outcome = run_tasks(device, [task], how)
    counts = facts.of(0, task).counts
    check_disarmed(kernel.name, disarm, counts.flag_names())
    task.info |= _products(counts)
    findings = [*outcome.findings, *(checked.findings if checked else ())]
    outputs = {}
    if mode != "timing":
        kept = _written(programs) | {slot for slot, value in enumerate(given.values()) if isinstance(value, Empty)}
        kept -= {slot for slot, value in enumerate(given.values()) if getattr(value, "workspace", False)}
        outputs = {places[slot].name: _values(places[slot], held[slot]) for slot in sorted(kept)}
    verdicts = None
    if expected is not None and mode != "timing":
        inputs = {name: array for name, array in arrays.items() if array is not None}
        dtypes = {tensor.name: tensor.dtype for tensor in places}
        wanted = read_expectations(expected, inputs, outputs)
        verdicts = partial(judge_outputs, wanted, outputs, dtypes, model)
    held_on_to = outcome.timeline if outcome.timeline is not None and outcome.timeline.kept else None
    if mode == "timing" and held_on_to is not None:
        programs = [one.program for one in held_on_to.programs]
    built = Report.build(
        spec,
        outcome.timeline,
        [task],
        facts,
        mode=mode,
        l2=l2,
        findings=findings,
        verdicts=verdicts,
    )
    problem = _problem(kernel, places, made.started, {**kernel.defaults(), **fields}, l2, model)
    if disarm:
        problem["disarmed"] = list(disarm)
    unused = [one.text for one in checked.unused] if checked else []
    report = replace(built, problem=problem, warnings=(*experiment, *unused))
    recording = None if held_on_to is None else Recording(spec, held_on_to, [task], warm)
    return KernelRun(outputs, report, findings, held_on_to, recording, programs)


@frozen
class Prepared:
    """A launch up to its task: arguments by name, their values, and where they lie on the device."""

    given: Mapping[str, Any]
    arrays: Mapping[str, Array | None]
    places: Sequence[Tensor]
    held: Sequence[Allocation]
    started: Launch
    task: Task

    @property
    def roles(self) -> dict[str, str]:
        """What each tensor is to a check (`check.contents`)."""
        kinds = {False: "output", True: "workspace"}
        return {
            name: kinds[value.workspace] if isinstance(value, Empty) else "input" for name, value in self.given.items()
        }


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
    """The task of a launch on `device`; SimError for arguments that do not fit kernel, chip or mode."""
    if not isinstance(kernel, KernelFunction):
        raise SimError(
            f"launch: {kernel!r} is not a kernel; put @ascend_sim.kernel_function(core=...) before its function"
        )
    if not is_whole_number(blocks) or blocks < 1:
        raise SimError(f"launch {kernel.name}: {blocks!r} blocks; a kernel is launched with 1 or more")
    if blocks > spec.launch.blocks_max:
        raise SimError(
            f"launch {kernel.name}: {blocks} blocks; a launch has at most {spec.launch.blocks_max} "
            f"(chip {spec.name}, launch.blocks_max)"
        )
    given = kernel.check(tensors, fields)
    arrays = {name: _array(kernel, name, value, mode) for name, value in given.items()}
    places = [_tensor(slot, name, value) for slot, (name, value) in enumerate(given.items())]
    _check_fits(kernel, places, spec)
    held = [_place(device, tensor, arrays[tensor.name]) for tensor in places]
    started = Launch.of(kernel, spec, int(blocks), places, fields, tuple(disarm))
    return Prepared(given, arrays, places, held, started, _task(started, held, kernel, fields))


def _array(kernel: KernelFunction, name: str, value: Any, mode: str) -> Array | None:
    """The values of an argument, or None where it has none; SimError for what is no tensor."""
    if isinstance(value, np.ndarray):
        if not value.dtype.isnative:
            raise SimError(
                f"{name} has byte order {value.dtype.str!r}; allowed is the machine's own, {value.dtype.name}"
            )
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
    """GM for a tensor, with its values where there are any."""
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
        info=info,
    )


def _problem(
    kernel: KernelFunction,
    tensors: Sequence[Tensor],
    started: Launch,
    fields: Mapping[str, Any],
    l2: str,
    model: ValueModel,
) -> dict[str, Any]:
    return {
        "operator": kernel.name,
        "tensors": {tensor.name: {"shape": list(tensor.shape), "dtype": tensor.dtype} for tensor in tensors},
        "core": started.core,
        "blocks": started.blocks,
        **{name: value for name, value in fields.items() if isinstance(value, bool | int | float | str)},
        "l2": l2,
        "accumulate": model.accumulate,
        "overflow": model.overflow,
    }


def _products(counts: Counts) -> dict[str, Any]:
    """The multiplications of the cube, for its ideal time; nothing where there are none, or in more than one dtype."""
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
    """The tensors, by slot, that some instruction writes."""
    slots: set[int] = set()
    for program in programs:
        to_gm = [any(r.space == "GM" for r in one.writes()) for one in program.table.instructions]
        rows = program.rows[np.asarray(to_gm, np.bool_)[program.rows[:, 0]]]
        slots |= set(np.unique(rows[:, 1] >> SLOT_SHIFT).tolist())
    return slots
