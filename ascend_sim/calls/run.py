"""One call of an operator: arguments -> checks -> plan -> kernels -> outputs and report.

The operator comes from the register; nothing here knows which there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ascend_sim.calls.options import CallOptions
from ascend_sim.calls.result import Result
from ascend_sim.calls.tensors import TensorSpec, flat_storage, fresh_like, tensor_args
from ascend_sim.calls.trials import Trials
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError, binary_size
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.execute import Execution, execute, output_of, roles_of, values_again
from ascend_sim.ops.operator import Operator
from ascend_sim.report.advice import statements
from ascend_sim.report.report import Report, RunFacts
from ascend_sim.runtime import Recording, RunOptions, ValueModel
from ascend_sim.settings import check_disarmed, check_limit, check_settings, disarmed_warnings, may_keep

__all__ = ["arguments_of", "call_operator", "check_fits", "run_call"]


def call_operator(
    operator: Operator[Any, Any], given: Mapping[str, Any], attributes: Mapping[str, Any], options: CallOptions
) -> Result:
    """`run_call` for a public function: SimError for the first attribute or option that is not of its kind."""
    check_settings({**attributes, **vars(options)}, operator.kinds)
    return run_call(operator, given, attributes, options)


def run_call(
    operator: Operator[Any, Any], given: Mapping[str, Any], attributes: Mapping[str, Any], options: CallOptions
) -> Result:
    """Run one call; `given` are its tensors by the caller's names."""
    chip, mode, l2 = options.chip, options.mode, options.l2
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
    arguments = arguments_of(operator, given, attributes, options.cube_math_type, options.conformance, options.dtypes)
    accepted = options.accept(operator, arguments, spec)
    model = ValueModel.of(spec, options.accumulate, options.overflow)
    problem = _problem(operator, arguments, accepted, l2) | {"accumulate": model.accumulate, "overflow": model.overflow}
    disarmed = [f"{kernel}.{flag}" for kernel, flags in accepted.disarm.items() for flag in flags]
    experiment = disarmed_warnings(disarmed, mode)
    check_limit(options.max_cycles, mode)
    if disarmed:
        problem["disarmed"] = disarmed
    check_fits({name: (tensor.shape, tensor.dtype) for name, tensor in accepted.inputs.items()}, spec)
    plan = operator.plan(accepted, spec)
    values = {name: value for name, value in operator.by_our_names(given).items() if name in accepted.inputs}
    arrays = {name: value for name, value in values.items() if not isinstance(value, TensorSpec)}
    if mode != "timing" and len(arrays) < len(values):
        missing = [name for name in values if name not in arrays]
        raise SimError(
            f"mode {mode!r} needs values, but {', '.join(missing)} is a TensorSpec; only timing runs without"
        )
    storages = {name: None if mode == "timing" else flat_storage(values[name])[0] for name in accepted.inputs}
    facts = RunFacts(spec, bounds=mode != "functional")
    how = RunOptions(
        mode=mode,
        progress=options.progress,
        max_cycles=options.max_cycles,
        model=model,
        observer=options.observer,
        engine=options.engine,
        keep=may_keep(options.timeline),
        on_program=facts.add,
    )
    run = execute(plan, spec, storages, how, l2=l2)
    outputs = {}
    if mode != "timing":
        found = {name: output_of(accepted, allocation, name) for name, allocation in run.outputs.items()}
        outputs = {name: found[name] for name in operator.outputs if name in found}
    outcome = run.outcome
    _check_disarmed(accepted, run, facts)
    findings, unused = [*outcome.findings], []
    if options.check:
        from ascend_sim.check.run import check_tasks

        checked = check_tasks(spec, run.tasks, roles=roles_of(plan))
        findings += checked.findings
        unused = [one.text for one in checked.unused]
    timeline = outcome.timeline if outcome.timeline is not None and outcome.timeline.kept else None

    def again(storages: Mapping[str, Any]) -> dict[str, Any]:
        made = values_again(plan, spec, model, timeline, storages)
        return {name: output_of(accepted, made[name], name) for name in outputs}

    def fresh() -> dict[str, Any]:
        return {name: fresh_like(array) for name, array in arrays.items()}

    def verdicts() -> dict[str, Any]:
        from ascend_sim.ops.verdicts import Probe, judge

        probe = Probe(operator, accepted, model, fresh, again, options.probe)
        return judge(operator, accepted, spec, arrays, outputs, model, probe)

    built = Report.build(
        spec,
        outcome.timeline,
        run.tasks,
        facts,
        mode=mode,
        l2=l2,
        findings=findings,
        verdicts=verdicts if outputs else None,
    )
    report = replace(
        built,
        problem=problem,
        warnings=(*accepted.warnings, *plan.warnings, *experiment, *unused),
        plan=tuple(plan.rows()),
        workspace_bytes=plan.workspace_bytes,
        advise=partial(statements, spec, trials=Trials(operator, given, attributes, options, spec)),
    )
    return Result(
        outputs,
        report=report,
        dtypes={name: tensor.dtype for name, tensor in accepted.outputs.items()},
        timeline=timeline,
        call=accepted,
        tasks=run.tasks,
        findings=findings,
        recording=None if timeline is None else Recording(spec, timeline, run.tasks, run.warm),
    )


def arguments_of(
    operator: Operator[Any, Any],
    given: Mapping[str, Any],
    attributes: Mapping[str, Any],
    cube_math_type: int = 0,
    conformance: str = "documented",
    dtypes: str | Mapping[str, str] | None = None,
) -> Any:
    """The operator's own argument list; `given` are arrays or TensorSpecs by the caller's names."""
    tensors = tensor_args(operator, given, dtypes)
    return operator.arguments(tensors, attributes, cube_math_type=cube_math_type, conformance=conformance)


def check_fits(tensors: Mapping[str, tuple[Sequence[int], str]], spec: ChipSpec) -> None:
    """SimError when tensors (name -> shape, dtype) alone are larger than the chip's memory: no plan is worth making."""
    total = sum(prod(shape) * int(numpy_dtype(dtype).itemsize) for shape, dtype in tensors.values())
    if total > spec.memory.hbm_bytes:
        raise SimError(
            f"the tensors {', '.join(tensors)} take {binary_size(total)}; {spec.name} has "
            f"{binary_size(spec.memory.hbm_bytes)} (chip file, memory.hbm_bytes)"
        )


def _problem(operator: Operator[Any, Any], arguments: Any, call: AcceptedCall, l2: str) -> dict[str, Any]:
    """The call in the report."""
    tensors = {name: tensor for name in operator.tensors if (tensor := getattr(arguments, name)) is not None}
    return {
        "operator": operator.name,
        "tensors": {name: {"shape": list(t.shape), "dtype": t.dtype} for name, t in tensors.items()},
        **operator.shown(arguments),
        "cube_math_type": call.cube_math_type,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        "l2": l2,
        "macs": operator.macs(call),
    } | ({"library": call.library} if call.library else {})


def _check_disarmed(call: AcceptedCall, run: Execution, facts: RunFacts) -> None:
    """Refuse names of kernels and flags that the run did not have."""
    tasks = {task.name: facts.of(index, task).counts for index, task in enumerate(run.tasks)}
    for kernel, wanted in call.disarm.items():
        if kernel not in tasks:
            raise SimError(f"disarm: no kernel {kernel!r}; this call has {', '.join(tasks)}")
        check_disarmed(kernel, wanted, tasks[kernel].flag_names())
