"""Cases as calls: run one, check one, accept one without values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ascend_sim.calls.options import CallOptions
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import arguments_of, check_fits, run_call
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import AclnnError
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case import Case, load_case, make_tensors
from ascend_sim.ops.checks.rules import CheckResult, Failure, Rule
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.settings import check_settings

__all__ = ["accept_case", "call_case", "check_case", "explain_status", "phase_one_of_case", "run_case"]


def run_case(
    case: str | Path | Case,
    values: str | Path | Mapping[str, Any] | None = None,
    *,
    chip: str | Path | ChipSpec | None = None,
    mode: str = "full",
    **options: Any,
) -> Result:
    """Run a case: the name of one that ships with the package, a case file, or a Case; what `ascend-sim run` does.

    `values` are arrays by name or a `.npz` file in place of the case's own; in timing mode none are made. `options` are the
    keywords of the case's operator, such as `tiling` or `cube_math_type`; what is left out or None is the case's.
    Raises AclnnError where the operator refuses the call, and other SimErrors for what cannot be.
    """
    loaded = case if isinstance(case, Case) else load_case(case)
    from_file = isinstance(values, str | Path)
    if isinstance(values, str | Path):
        loaded, values = loaded.with_file(values), None
    check_settings({"mode": mode} | ({} if chip is None else {"chip": chip}))
    given = chip or loaded.chip
    spec = given if isinstance(given, ChipSpec) else load_chip(given)
    check_fits(loaded.tensors, spec)
    if values is None and mode == "timing" and not from_file:
        values = {name: TensorSpec(shape, dtype) for name, (shape, dtype) in loaded.tensors.items()}
    own: dict[str, Any] = {
        "cube_math_type": loaded.cube_math_type,
        "deterministic": loaded.deterministic,
        "conformance": loaded.conformance,
        "tiling": loaded.tiling or None,
        "block_dim": loaded.block_dim or None,
        "l2": loaded.l2,
    }
    own |= {name: value for name, value in options.items() if value is not None or name not in own}
    result = call_case(loaded, make_tensors(loaded) if values is None else values, chip=spec, mode=mode, **own)
    if not isinstance(case, Case):
        result.report = replace(result.report, case=named_in_commands(case, chip))
    return result


def named_in_commands(case: str | Path, chip: str | Path | ChipSpec | None) -> str:
    """A case as commands take it, with a chip that is not its own; "" where the chip has no name there."""
    if isinstance(chip, ChipSpec):
        return ""
    return shlex.quote(str(case)) + ("" if chip is None else f" --chip {shlex.quote(str(chip))}")


def explain_status(
    case: str | Path | Case,
    *,
    chip: str | Path | ChipSpec | None = None,
    cube_math_type: int | None = None,
    conformance: str | None = None,
) -> tuple[CheckResult, list[Rule]]:
    """Every rule that the operator checks for a case and what each said, as `ascend-sim explain-status` shows it."""
    loaded = case if isinstance(case, Case) else load_case(case)
    given = chip or loaded.chip
    spec = given if isinstance(given, ChipSpec) else load_chip(given)
    number = loaded.cube_math_type if cube_math_type is None else cube_math_type
    return phase_one_of_case(loaded, spec, number, conformance or loaded.conformance)


def call_case(case: Case, values: Mapping[str, Any], **options: Any) -> Result:
    """Run a case with `values` by name, as `make_tensors` gives them; `options` are the keywords of its operator."""
    operator = OPERATORS[case.operator]
    check_settings(case.attributes | options, operator.kinds)
    given = {name: values.get(name) for name in operator.tensors}
    return run_call(operator, given, case.attributes, CallOptions(dtypes=case.codes, **options))


def check_case(case: Case, spec: ChipSpec, cube_math_type: int, conformance: str) -> tuple[CheckResult, list[Rule]]:
    """What the checks of the case's operator say of it, and all their rules in order."""
    operator = OPERATORS[case.operator]
    product = operator.product(spec)
    default = product.profile(conformance).deterministic_default.value
    deterministic = default if case.deterministic is None else case.deterministic
    arguments = _arguments(case, cube_math_type, conformance)
    return operator.check(arguments, product, conformance, deterministic), list(operator.rules)


def phase_one_of_case(
    case: Case, spec: ChipSpec, cube_math_type: int, conformance: str
) -> tuple[CheckResult, list[Rule]]:
    """`check_case`, and behind the rules the plan as one more: the whole of GetWorkspaceSize."""
    result, rules = check_case(case, spec, cube_math_type, conformance)
    rules.append(Rule("plan", "ruling 9: kernels and tilings that take the problem", lambda _: None))
    if result.failure is not None:
        return replace(result, trace=[*result.trace, ("plan", "not reached")]), rules
    try:
        call = accept_case(case, spec, cube_math_type=cube_math_type, conformance=conformance)
        OPERATORS[case.operator].plan(call, spec)
    except AclnnError as error:
        failed = Failure(int(error.status), error.message)
        return CheckResult(failed.status, failed, [*result.trace, ("plan", "fail")]), rules
    return replace(result, trace=[*result.trace, ("plan", "pass")]), rules


def accept_case(
    case: Case,
    spec: ChipSpec,
    *,
    cube_math_type: int | None = None,
    deterministic: bool | None = None,
    conformance: str | None = None,
    **settings: Any,
) -> AcceptedCall:
    """A case as an accepted call on `spec`, without values; what is None is the case's. Raises AclnnError as the call does.

    `settings` are `tiling`, `block_dim`, `disarm` and `library` of `Operator.accept`.
    """
    number = case.cube_math_type if cube_math_type is None else cube_math_type
    profile, fixed = conformance or case.conformance, case.deterministic if deterministic is None else deterministic
    accepted: AcceptedCall = OPERATORS[case.operator].accept(
        _arguments(case, number, profile),
        spec,
        conformance=profile,
        deterministic=fixed,
        **settings,
    )
    return accepted


def _arguments(case: Case, cube_math_type: int, conformance: str) -> Any:
    """The operator's argument list, without values."""
    operator, tensors = OPERATORS[case.operator], case.tensors
    specs = {name: TensorSpec(*tensors[name]) if name in tensors else None for name in operator.tensors}
    return arguments_of(operator, specs, case.attributes, cube_math_type, conformance)
