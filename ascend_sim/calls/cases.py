"""Cases as calls: run one, check one, accept one without values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.calls.options import CallOptions
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import arguments_of, run_call
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import AclnnError
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.case import Case
from ascend_sim.ops.checks.rules import CheckResult, Failure, Rule
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.settings import check_settings

__all__ = ["accept_case", "call_case", "check_case", "phase_one_of_case"]


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
