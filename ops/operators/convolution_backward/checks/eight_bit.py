"""The 8-bit rules of convolution backward (HIFLOAT8, FLOAT8_E4M3FN), for products with the trait `eight_bit_rules`."""

from __future__ import annotations

from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.checks.rules import Failure, RuleList, fail, show
from ascend_sim.ops.operators.convolution_backward.checks.facts import ConvFacts, Named

RUNS = (
    "8-bit tensors run on a 950 (--chip ascend950pr_9589) with --conformance library and an output_mask of gradInput or "
    "gradWeight alone"
)
"""Conditions under which 8-bit calls run, in words, for refusals that another chip, profile or mask would not give."""


def add_rules(rules: RuleList) -> None:
    """Append the 8-bit rules in the library's order."""
    source = "library, 8-bit rules of dav-3510 (ruling 10)"
    rules.rule("eight_bit.one_gradient", source, when=_applies)(_one_gradient)
    rules.rule("eight_bit.grad_input", source, when=lambda c: _applies(c) and c.mask[0])(_grad_input)
    rules.rule("eight_bit.grad_weight", source, when=lambda c: _applies(c) and c.mask[1])(_grad_weight)


def _applies(c: ConvFacts) -> bool:
    return c.has("eight_bit_rules") and (c.mask[0] or c.mask[1])


def _one_gradient(c: ConvFacts) -> Failure | None:
    """Return a failure if gradInput and gradWeight are both given and some tensor is 8-bit, else None.

    A transposed call whose mask wants gradInput passes here.
    """
    if (c.call.transposed and c.mask[0]) or c.call.grad_input is None or c.call.grad_weight is None:
        return None
    for name, tensor in c.inputs + c.outputs:
        if tensor.dtype in EIGHT_BIT:
            return fail(f"{name} has dtype {tensor.dtype}: not allowed when gradInput and gradWeight are both given; {RUNS}")
    return None


def _grad_input(c: ConvFacts) -> Failure | None:
    tensors = c.inputs + [entry for entry in c.outputs if entry.name != "gradWeight"]
    return _all_or_none(tensors, "hifloat8") or _all_or_none(tensors, "float8_e4m3fn")


def _grad_weight(c: ConvFacts) -> Failure | None:
    tensors = c.inputs + [entry for entry in c.outputs if entry.name == "gradBias"]
    for name, tensor in tensors:
        if tensor.dtype == "float8_e4m3fn":
            return fail(f"{name} has dtype float8_e4m3fn: not allowed for gradWeight")
    if failure := _all_or_none(tensors, "hifloat8"):
        return failure
    if c.input.dtype not in EIGHT_BIT:
        return None
    if c.call.grad_weight is not None and c.call.grad_weight.dtype != "float32":
        return fail(f"gradWeight has dtype {show(c.call.grad_weight.dtype)}: it must be float32 with 8-bit inputs")
    if c.call.transposed and any(c.call.output_padding or ()):
        return fail(f"outputPadding = {show(c.call.output_padding)}: it must be 0 with 8-bit inputs")
    if c.call.groups != 1:
        return fail(f"groups = {show(c.call.groups)}: it must be 1 with 8-bit inputs")
    return None


def _all_or_none(tensors: list[Named], dtype: str) -> Failure | None:
    having = [entry for entry in tensors if entry.tensor.dtype == dtype]
    if not having or len(having) == len(tensors):
        return None
    other = next(entry for entry in tensors if entry.tensor.dtype != dtype)
    return fail(f"{other.name} has dtype {show(other.tensor.dtype)}: it must be {dtype}, as {having[0].name} is")
