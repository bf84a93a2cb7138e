"""One call of an operator: arguments -> checks -> plan -> kernels -> outputs and report.

The operator comes from the register; nothing here knows which there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from typing import Any

from ascend_sim.calls.as_case import case_of, ships
from ascend_sim.calls.result import Result
from ascend_sim.calls.tensors import TensorSpec, flat_storage, fresh_like, tensor_args
from ascend_sim.calls.trials import Trials
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.engine.timeline import Timeline
from ascend_sim.errors import SimError, binary_size
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.execute import output_of, outputs_of, place, roles_of, values_again
from ascend_sim.ops.operator import Operator
from ascend_sim.options.commands import PythonCalls
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import AcceptOptions, CacheOptions, RunOptions
from ascend_sim.report.advice import statements
from ascend_sim.report.report import Outputs
from ascend_sim.runtime import Allocation, Device, KernelMoves, Task, ValueModel
from ascend_sim.sequence import Array, Job, run_job
from ascend_sim.settings import check_options


def call_operator(
    operator: Operator[Any, Any], given: Mapping[str, Any], attributes: Mapping[str, Any], options: RunOptions
) -> Result:
    """Run one call for a public function and return its Result.

    Raises SimError for the first attribute or option of a wrong kind, AclnnError where the operator refuses the call.
    """
    check_options(RunOptions, {**attributes, **options}, operator.kinds)
    return run_call(operator, given, attributes, options)


def run_call(
    operator: Operator[Any, Any],
    given: Mapping[str, Any],
    attributes: Mapping[str, Any],
    options: RunOptions,
    *,
    before: Sequence[KernelMoves] | None = None,
) -> Result:
    """Run one call and return its Result; `given` are its tensors by the caller's names. Options left out have their defaults;
    kinds and choices of options are not checked here (`check_options`).

    `before` are the kernels of the training step before it, for the option `l2="step"`, which needs them. Raises AclnnError
    where the operator refuses the call.
    """
    how = filled(RunOptions, options)
    job = CallJob(operator, given, attributes, how)
    job.before = before
    return run_call_job(job, how)


def run_call_job(job: CallJob, options: RunOptions) -> Result:
    """Run an accepted call with complete options; return its Result, with the accepted call in `call`."""
    result = run_job(job, options, Result)
    result.call, result.made_case = job.accepted, job.as_case
    if ships(job.chip):
        calls = PythonCalls("result.case()", options, tuple(job.operator.cube_kernels))
        result.report = replace(result.report, commands=calls)
    if result.recording is not None:
        job.trials.reuse(result.recording)
    return result


class CallJob(Job):
    """A checked and accepted call of an operator, as a Job for the common sequence of a run. It is planned when it is placed.

    Raises AclnnError if the operator refuses it, and the SimErrors of `chip_of`, `tensor_args` and `Operator.accept`.
    """

    def __init__(
        self, operator: Operator[Any, Any], given: Mapping[str, Any], attributes: Mapping[str, Any], options: RunOptions
    ) -> None:
        self.chip = chip_of(options["chip"])
        self.operator, self.given, self.attributes, self.options = operator, given, attributes, options
        self.arguments = arguments_of(operator, given, attributes, options)
        self.accepted: AcceptedCall = operator.accept(self.arguments, self.chip, **filled(AcceptOptions, options))
        self.disarm = {kernel: list(flags) for kernel, flags in self.accepted.disarm.items()}
        self.arrays: dict[str, Array] = {}
        self.held = {}

    def place(self, device: Device, mode: str) -> tuple[list[Task], list[Allocation]]:
        """Plan the call and put its tensors on the device; return (tasks, input allocations, which a warm L2 holds).

        Raises SimError if the tensors do not fit, or lack values in a mode that needs them, and the errors of `Operator.plan`.
        """
        inputs = self.accepted.inputs
        check_fits({name: (tensor.shape, tensor.dtype) for name, tensor in inputs.items()}, self.chip)
        self.plan = self.operator.plan(self.accepted, self.chip)
        values = {name: value for name, value in self.operator.by_our_names(self.given).items() if name in inputs}
        self.arrays = {name: value for name, value in values.items() if not isinstance(value, TensorSpec)}
        if mode != "timing" and len(self.arrays) < len(values):
            missing = [name for name in values if name not in self.arrays]
            raise SimError(
                f"mode {mode!r} needs values, but {', '.join(missing)} is a TensorSpec, or a tensor without values (meta); "
                "only timing runs without"
            )
        tasks, self.held = place(
            self.plan, device, {name: None if mode == "timing" else flat_storage(values[name])[0] for name in inputs}
        )
        return tasks, [self.held[name] for name in inputs]

    @cached_property
    def trials(self) -> Trials:
        """Return the trials of changes of the call, for advice; the same object each time."""
        return Trials(self.operator, self.given, self.attributes, self.options, self.chip, self.before)

    @property
    def as_case(self) -> Callable[[], Case]:
        """Return a function that makes a case of the call, as `case_of` with its errors; it holds no values."""
        tensors = tensor_args(self.operator, self.given, self.options["dtypes"])
        specs = {name: None if one is None else TensorSpec(one.shape, one.dtype) for name, one in tensors.items()}
        return partial(case_of, self.operator, specs, self.attributes, self.options, self.chip)

    @property
    def roles(self) -> Mapping[str, str]:
        """Return {tensor of the plan: its role in a check}: "given" for inputs, "output", "workspace" or "spare"."""
        return roles_of(self.plan)

    @property
    def dtypes(self) -> dict[str, str]:
        """Return {output: its format}; masked outputs are missing."""
        return {name: tensor.dtype for name, tensor in self.accepted.outputs.items()}

    def outputs(self) -> dict[str, Array]:
        """Return the outputs in the caller's layout and dtype, in the operator's order; masked ones are missing."""
        held = outputs_of(self.plan, self.held)
        return {name: output_of(self.accepted, held[name], name) for name in self.operator.outputs if name in held}

    def verdicts(
        self, outputs: Mapping[str, Array], model: ValueModel, timeline: Timeline | None
    ) -> Callable[[], Outputs] | None:
        """Return a function that judges the outputs by the operator's float64 sums, and by a probe if wanted; None without
        outputs.

        Nothing is computed before the function is called. The probe runs the programs again on other data.
        """
        if not outputs:
            return None

        def again(storages: Mapping[str, Any]) -> dict[str, Any]:
            made = values_again(self.plan, self.chip, model, timeline, storages)
            return {name: output_of(self.accepted, made[name], name) for name in outputs}

        def fresh() -> dict[str, Any]:
            return {name: fresh_like(array) for name, array in self.arrays.items()}

        def judged() -> dict[str, Any]:
            from ascend_sim.ops.verdicts import Probe, judge

            probe = Probe(self.operator, self.accepted, model, fresh, again, self.options["probe"])
            return judge(self.operator, self.accepted, self.chip, self.arrays, outputs, model, probe)

        return judged

    def report_fields(self) -> dict[str, Any]:
        """Return the report's fields of the job: "problem", "warnings", "plan" (its rows), "workspace_bytes", and in "advise"
        a function for the advice.
        """
        return {
            "problem": _problem(self.operator, self.arguments, self.accepted, filled(CacheOptions, self.options)),
            "warnings": (*self.accepted.warnings, *self.plan.warnings),
            "plan": tuple(self.plan.rows()),
            "workspace_bytes": self.plan.workspace_bytes,
            "advise": partial(statements, self.chip, trials=self.trials),
        }


def arguments_of(
    operator: Operator[Any, Any], given: Mapping[str, Any], attributes: Mapping[str, Any], options: RunOptions
) -> Any:
    """Return the operator's own argument list; `given` are arrays or TensorSpecs by the caller's names.

    Options left out have defaults.
    """
    how = filled(RunOptions, options)
    return operator.arguments(
        tensor_args(operator, given, how["dtypes"]),
        attributes,
        cube_math_type=how["cube_math_type"],
        conformance=how["conformance"],
    )


def check_fits(tensors: Mapping[str, tuple[Sequence[int], str]], spec: ChipSpec) -> None:
    """Raise SimError if tensors (name -> (shape, dtype)) together have more bytes than the chip's HBM; workspace and alignment
    are not counted.
    """
    total = sum(prod(shape) * int(numpy_dtype(dtype).itemsize) for shape, dtype in tensors.values())
    if total > spec.memory.hbm_bytes:
        raise SimError(
            f"the tensors {', '.join(tensors)} take {binary_size(total)}; {spec.name} has "
            f"{binary_size(spec.memory.hbm_bytes)} (chip file, memory.hbm_bytes)"
        )


def _problem(operator: Operator[Any, Any], arguments: Any, call: AcceptedCall, left: CacheOptions) -> dict[str, Any]:
    """Return the report's "problem": operator, tensors' shapes and dtypes, arguments, settings of the call, multiplications
    ("macs").

    `left` are the run's cache options, which it also holds.
    """
    tensors = {name: tensor for name in operator.tensors if (tensor := getattr(arguments, name)) is not None}
    return {
        "operator": operator.name,
        "tensors": {name: {"shape": list(t.shape), "dtype": t.dtype} for name, t in tensors.items()},
        **operator.shown(arguments),
        "cube_math_type": call.cube_math_type,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        **left,
        "macs": operator.macs(call),
    } | ({"library": call.library} if call.library else {})
