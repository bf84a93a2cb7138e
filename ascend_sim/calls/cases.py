"""Cases as calls: running a case, checking it, accepting it without values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from ascend_sim.calls.result import Result
from ascend_sim.calls.run import arguments_of, check_fits, run_call
from ascend_sim.calls.step import kernels_before
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.checks.rules import CheckResult, Failure, Rule
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, address_of, around_batch, place_of_layer
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.commands import ShellCommands
from ascend_sim.options.description import filled, options_in, with_options
from ascend_sim.options.run_options import (
    STEP,
    AcceptOptions,
    CaseOptions,
    ExplainOptions,
    PlanOptions,
    ProfileOptions,
    RunOptions,
    StatusOptions,
)
from ascend_sim.runtime import KernelMoves
from ascend_sim.settings import check_options


@with_options(CaseOptions)
def run_case(
    case: str | Path | Case, values: str | Path | Mapping[str, Any] | None = None, **options: Unpack[CaseOptions]
) -> Result:
    """Run a case as `ascend-sim run` does: a shipped name, a case file, a layer of a network (`resnet50:conv1`), or a Case.

    `values` are arrays by name or a `.npz` file in place of the case's own; in timing mode none are drawn and the case's own
    file is not read. An option that a case may set (chip, tiling, cube_math_type, ...) has the case's value if it is left out
    or None. Raises AclnnError where the operator refuses the call, and SimError for other faults.
    """
    loaded, given = case if isinstance(case, Case) else load_case(case), values
    address = None if isinstance(case, Case) else address_of(str(case))
    from_file = isinstance(values, str | Path)
    if isinstance(values, str | Path):
        loaded, values = loaded.with_file(values), None
    how = of_this_case(loaded, CaseOptions(**options))
    check_options(RunOptions, how)
    check_fits(loaded.tensors, chip_of(how["chip"]))
    if values is None and how["mode"] == "timing" and not from_file:
        values = specs_of(loaded)
    before = _kernels_before(*address, how) if address and how["l2"] == STEP else None
    values = make_tensors(loaded) if values is None else values
    result = call_case(loaded, values, before=before, **options)
    if not isinstance(case, Case):
        file = str(given) if isinstance(given, str | Path) else ""
        result.report = replace(result.report, commands=commands_of(case, loaded, options, file))
    return result


def of_this_case(case: Case, options: CaseOptions | StatusOptions | PlanOptions | ExplainOptions) -> RunOptions:
    """Return complete options for a run of a case: an option left out or None has the case's value, else its default. No value
    is checked; an empty tiling or block_dim of the case is None.
    """
    own: dict[str, Any] = {"chip": case.chip, "dtypes": case.codes}
    for name, _, option in options_in(RunOptions):
        if option.case:
            own[name] = getattr(case, name)
    own |= {name: own[name] or None for name in ("tiling", "block_dim")}
    return filled(RunOptions, own | {name: value for name, value in options.items() if value is not None})


def specs_of(case: Case) -> dict[str, TensorSpec]:
    """Return {name: TensorSpec} of the case's tensors, contiguous and without values."""
    return {name: TensorSpec(shape, dtype) for name, (shape, dtype) in case.tensors.items()}


def commands_of(case: str | Path, loaded: Case, options: CaseOptions, file: str = "") -> ShellCommands | None:
    """Return the commands that go on from the run of the case `loaded`, which the user named `case`, with these options and
    with the tensors of a `file` ("": none); None for a ChipSpec, which no command can name.
    """
    if isinstance(options.get("chip"), ChipSpec):
        return None
    kernels = tuple(OPERATORS[loaded.operator].cube_kernels)
    address = address_of(str(case))
    at_batch = around_batch(*address) if address else ("", "")
    return ShellCommands(str(case), options, of_this_case(loaded, options), kernels, file, at_batch)


class StatusOfCase(NamedTuple):
    """Result of `explain_status`: the check of a case, and all rules of its operator in order, the planning last."""

    result: CheckResult
    rules: list[Rule]

    def __str__(self) -> str:
        from ascend_sim.report.pages import render_status
        from ascend_sim.report.printed import printed

        return printed(partial(render_status, self.result))


@with_options(StatusOptions)
def explain_status(case: str | Path | Case, **options: Unpack[StatusOptions]) -> StatusOfCase:
    """Return (result, rules) of all rules that the operator checks for a case and of its planning, as `ascend-sim
    explain-status` prints them.

    Contradicting shapes and values that no rule allows, in a shipped case or a file, are not an error here: the result has the
    status that a call gets. The case's own tiling and blocks are not used.
    """
    loaded = case if isinstance(case, Case) else load_case(case, as_given=True)
    chip = chip_of(of_this_case(loaded, StatusOptions(**options))["chip"])
    return StatusOfCase(*phase_one_of_case(loaded, chip, **filled(PlanOptions, options)))


def call_case(
    case: Case, values: Mapping[str, Any], *, before: Sequence[KernelMoves] | None = None, **options: Unpack[CaseOptions]
) -> Result:
    """Run a case with `values` by name, as `make_tensors` returns them or TensorSpecs, and return the Result.

    An option left out or None has the case's value. `before` as in `run_call`. Raises SimError for an attribute or option of a
    wrong kind, AclnnError where the operator refuses the call.
    """
    operator, how = OPERATORS[case.operator], of_this_case(case, options)
    check_options(RunOptions, case.attributes | how, operator.kinds)
    given = {name: values.get(name) for name in operator.tensors}
    return run_call(operator, given, case.attributes, how, before=before)


def check_case(case: Case, spec: ChipSpec, **options: Unpack[PlanOptions]) -> tuple[CheckResult, list[Rule]]:
    """Run the checks of the case's operator; return (result, all rules of the operator in order, also those of the other
    profile). A failure is in the result, not raised, but for a chip that the operator does not know (AclnnError). Nothing is
    planned.
    """
    operator, how = OPERATORS[case.operator], of_this_case(case, options)
    product, conformance, deterministic = operator.product(spec), how["conformance"], how["deterministic"]
    if deterministic is None:
        deterministic = product.profile(conformance).deterministic_default.value
    result = operator.checked(_arguments(case, how), product, conformance, deterministic)
    return result, list(operator.rules)


def phase_one_of_case(case: Case, spec: ChipSpec, **options: Unpack[PlanOptions]) -> tuple[CheckResult, list[Rule]]:
    """Run the checks of `check_case` and, if they pass, the planning as one more rule "plan": all that GetWorkspaceSize does.

    Return (result, rules). A refusal by the planning is in the result, not raised; errors are those of `check_case`, and
    TilingError for a tiling in `options` that does not fit.
    """
    result, rules = check_case(case, spec, **options)
    rules.append(Rule("plan", "ruling 9: kernels and tilings that take the problem", lambda _: None))
    if result.failure is not None:
        return replace(result, trace=[*result.trace, ("plan", "not reached")]), rules
    try:
        OPERATORS[case.operator].plan(accept_case(case, spec, **options), spec)
    except AclnnError as error:
        failed = Failure(int(error.status), error.message)
        return CheckResult(failed.status, failed, [*result.trace, ("plan", "fail")]), rules
    return replace(result, trace=[*result.trace, ("plan", "pass")]), rules


def accept_case(case: Case, spec: ChipSpec, **options: Unpack[PlanOptions]) -> AcceptedCall:
    """Return a case as an accepted call on `spec`, without values. Raises AclnnError as the call does.

    Tilings and blocks are those given; any other option has the case's value if it is left out or None.
    """
    how = of_this_case(case, options)
    given = filled(AcceptOptions, {**options, "conformance": how["conformance"], "deterministic": how["deterministic"]})
    accepted: AcceptedCall = OPERATORS[case.operator].accept(_arguments(case, how), spec, **given)
    return accepted


def _kernels_before(network: str, layer: str, options: RunOptions) -> tuple[KernelMoves, ...]:
    """Return the traffic of the kernels before the call of a network's layer in a training step."""
    found, place, direction = place_of_layer(network, layer)
    chip = chip_of(options["chip"])
    return kernels_before_layers(found, chip, direction, filled(ProfileOptions, options))[place]


def kernels_before_layers(
    network: Network, chip: ChipSpec, direction: str, options: ProfileOptions
) -> list[tuple[KernelMoves, ...]]:
    """Return for every layer the traffic of the kernels before its call in that pass ("forward" or "backward") of a training
    step, oldest first; () for a layer without a call in the pass, and for one that the operator refuses.
    """
    sizes = [_sizes(layer, chip, direction, options) for layer in network.layers]
    return [kernels_before(sizes, place, direction, chip.memory.l2_bytes) if own else () for place, own in enumerate(sizes)]


def _sizes(layer: Layer, chip: ChipSpec, direction: str, options: ProfileOptions) -> dict[str, int]:
    """Return {name: bytes} of the tensors of a layer's call; {} if the pass leaves the layer out or the operator refuses it."""
    if not (layer.trains or direction == "forward"):
        return {}
    operator = OPERATORS.of_pass(direction, layer.kind)
    try:
        call = accept_case(operator.of_layer(layer), chip, **options)
    except SimError:
        return {}
    tensors = {**call.inputs, **call.outputs}
    return {name: one.size * int(numpy_dtype(one.dtype).itemsize) for name, one in tensors.items()}


def _arguments(case: Case, options: RunOptions) -> Any:
    """Return the operator's argument list for a case, with shapes and dtypes only."""
    operator, specs = OPERATORS[case.operator], specs_of(case)
    given = {name: specs.get(name) for name in operator.tensors}
    return arguments_of(operator, given, case.attributes, options)
