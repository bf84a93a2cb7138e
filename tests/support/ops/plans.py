"""Plans of calls on the 910B3."""

from __future__ import annotations

from typing import Any

from ascend_sim.chip import load_chip
from ascend_sim.ops.plan import Plan
from tests.support.ops.conv_problems import ALL, BACKWARD, NAMES, CallAttributes, Mask, arguments

SMALL = CallAttributes(2, 32, 16, (6, 6))


TURNED = ["TransData_grad_output", "TransData_input", "TransData_weight"]


BIAS = ["ReduceSum_grad_bias"]


WEIGHT = ["MemSet_grad_weight", "grad_weight", "TransData_grad_weight"]


def plan_of(problem: CallAttributes, tensors: Any, mask: Mask = ALL, kind: int = 0, **options: Any) -> Plan:
    named = dict(zip(NAMES, tensors, strict=True))
    settings = {"conformance": "documented", "deterministic": False} | options
    call = arguments(named, *problem.attributes(mask), kind, settings["conformance"])
    chip = load_chip("ascend910b3")
    return BACKWARD.plan(BACKWARD.accept(call, chip, **settings), chip)


def names(plan: Plan) -> list[str]:
    return [step.name for step in plan.steps]
