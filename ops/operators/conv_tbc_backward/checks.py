"""Checks of aclnnConvTbcBackwardGetWorkspaceSize: its rules, in the order of the released library.

Rules that only the documents have stand at their places in that order. Documents are cited by the numbers that
`docs/conformance.md` explains (001, 002; "ruling": our decision where they disagree); "library" is the released
library, ops-nn e5c3fa93.
"""

from __future__ import annotations

from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import EIGHT_BIT, TensorArg
from ascend_sim.ops.checks.common import (
    CallFacts,
    at_least,
    first_failure,
    in_range,
    known,
    no_negative_dimension,
    not_null,
    of_dtype,
    same_dtype,
    same_shape,
)
from ascend_sim.ops.checks.product import ProductSpec, ValueRange
from ascend_sim.ops.checks.rules import Failure, RuleList, fail, show
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall

RULES = RuleList()
rule = RULES.rule

RANKS = {"self": 3, "input": 3, "weight": 3, "bias": 1, "gradInput": 3, "gradWeight": 3, "gradBias": 1}


class TbcFacts(CallFacts):
    """Facts of one TBC call."""

    def __init__(self, call: ConvTbcCall, spec: ProductSpec, conformance: str, deterministic: bool) -> None:
        super().__init__(call, spec, conformance, deterministic)
        self.arguments: dict[str, TensorArg | None] = {
            "self": call.self,
            "input": call.input,
            "weight": call.weight,
            "bias": call.bias,
            "gradInput": call.grad_input,
            "gradWeight": call.grad_weight,
            "gradBias": call.grad_bias,
        }

    def tensor(self, name: str) -> TensorArg:
        """Return a tensor by the document's name of its argument ("gradInput"); AssertionError if null."""
        return known(self.arguments[name])

    @property
    def tensors(self) -> list[tuple[str, TensorArg]]:
        """Return (name in the document, tensor) for all seven tensors; AssertionError if one is null."""
        return [(name, self.tensor(name)) for name in self.arguments]


@rule("pointers", "001 and 002, error 161001; library, null check")
def pointers(c: TbcFacts) -> Failure | None:
    return not_null(c.arguments.items())


rule(
    "product.supported", "001 and 002, product tables (ruling 1): the current processor does not support convolution backward"
)(CallFacts.supported)


@rule("dtype.list", "001 and 002, data types; library, dtype lists")
def dtype_list(c: TbcFacts) -> Failure | None:
    return first_failure(of_dtype(name, tensor, c.profile.dtypes.of(name)) for name, tensor in c.tensors)


@rule("dtype.equal_inputs", "001 and 002, error 161002: self, input, weight, bias of one dtype (ruling 3)", only="documented")
def equal_input_dtypes(c: TbcFacts) -> Failure | None:
    return first_failure(same_dtype(name, c.tensor(name), "self", c.tensor("self")) for name in ("input", "weight", "bias"))


@rule("format", "001 and 002, data formats ND, NCL; library: ND alone for bias and gradBias")
def formats(c: TbcFacts) -> Failure | None:
    for name, tensor in c.tensors:
        allowed = ("ND",) if c.conformance == "library" and RANKS[name] == 1 else ("ND", "NCL")
        if tensor.format not in allowed:
            return fail(f"{name} has format {show(tensor.format)}: allowed are {' and '.join(allowed)}")
    return None


@rule("contiguous.outputs", "001 and 002, outputs: non-contiguous not allowed (ruling 11)", only="documented")
def contiguous_outputs(c: TbcFacts) -> Failure | None:
    return first_failure(
        None if c.tensor(name).is_contiguous else fail(f"{name} has strides {show(c.tensor(name).strides)}: not contiguous")
        for name in ("gradInput", "gradWeight", "gradBias")
    )


@rule("self.not_empty", "library, emptiness check", only="library")
def self_not_empty(c: TbcFacts) -> Failure | None:
    shape = c.tensor("self").shape
    return fail(f"self has shape {show(shape)}: it must not be empty") if 0 in shape else None


@rule("shape.ranks", "001 and 002, errors: rank 3, bias rank 1; library, shape check")
def ranks(c: TbcFacts) -> Failure | None:
    return first_failure(
        None if tensor.rank == RANKS[name] else fail(f"{name} has rank {tensor.rank}: it must be {RANKS[name]}")
        for name, tensor in c.tensors
    )


@rule("shape.negative", "001 and 002, errors: no negative dimension; library: assumed, aclCreateTensor takes none")
def negative_dimensions(c: TbcFacts) -> Failure | None:
    return no_negative_dimension(c.tensors)


@rule("empty.refused", "001, A2 and A3: no empty tensors (ruling 7)", only="documented", when=lambda c: c.has("empty_refused"))
def empty_refused(c: TbcFacts) -> Failure | None:
    return first_failure(
        fail(f"{name} has shape {show(tensor.shape)}: empty tensors are not supported on {c.spec.product}")
        if tensor.is_empty
        else None
        for name, tensor in c.tensors
    )


@rule("ranges", "001 and 002, ranges of the product (ruling 8)", only="documented")
def ranges(c: TbcFacts) -> Failure | None:
    def values_of(limit: ValueRange) -> tuple[int, ...]:
        if limit.argument == "pad":
            return (c.call.pad,)
        shape = c.tensor(limit.argument).shape
        return shape[:1] if limit.axes == "plane" else shape  # weight is [K, C_in, C_out]

    return in_range(c.profile, 3, False, values_of)


@rule("pad.positive", "library, shape check", only="library")
def pad_positive(c: TbcFacts) -> Failure | None:
    return at_least("pad", c.call.pad, 0)


@rule("channels", "001 and 002, errors: input dim 3 = weight dim 2, bias = weight dim 3; library, shape check")
def channels(c: TbcFacts) -> Failure | None:
    weight = c.tensor("weight").shape
    if c.tensor("input").shape[2] != weight[1]:
        return fail(f"input dimension 2 is {show(c.tensor('input').shape[2])}: weight dimension 1 is {show(weight[1])}")
    return same_shape("bias", c.tensor("bias"), weight[2:], "the output channels of weight")


@rule("shape.self", "001 and 002, formula H_out = H_in + 2 pad - K + 1 (ruling 1); library, shape check")
def self_shape(c: TbcFacts) -> Failure | None:
    time, batch, _ = c.tensor("input").shape
    kernel, _, out_channels = c.tensor("weight").shape
    out_time = time + 2 * c.call.pad + 1 - kernel
    if out_time < 0:
        return fail(f"input dimension 0 is {show(time)}: with pad = {show(c.call.pad)} shorter than K = {show(kernel)}")
    return same_shape("self", c.tensor("self"), (out_time, batch, out_channels), "[T_in + 2 pad - K + 1, B, C_out]")


@rule(
    "empty.signal",
    "002, 910_95, input: L may be 0 only where the derived L of out is 0 too",
    only="documented",
    when=lambda c: c.has("empty_signal_without_output"),
)
def empty_signal(c: TbcFacts) -> Failure | None:
    out_time = c.tensor("self").shape[0]
    if c.tensor("input").shape[0] or not out_time:
        return None
    return fail(f"input dimension 0 is 0, self dimension 0 is {show(out_time)}: on {c.spec.product} both must be 0")


@rule("shape.outputs", "001 and 002, errors: output shapes; library, shape check")
def output_shapes(c: TbcFacts) -> Failure | None:
    pairs = (("gradInput", "input"), ("gradWeight", "weight"), ("gradBias", "bias"))
    return first_failure(same_shape(out, c.tensor(out), c.tensor(model).shape, f"the shape of {model}") for out, model in pairs)


@rule("cube_math_type", "001 and 002, cubeMathType (ruling 2); library, cube util")
def cube_math_type(c: TbcFacts) -> Failure | None:
    return c.computed(promote(*(c.tensor(name).dtype for name in ("self", "input", "weight"))))


@rule(
    "dtype.outputs",
    "001 and 002, outputs as input, weight, bias (ruling 4); library, dav-3510 only",
    when=lambda c: c.has("outputs_follow_input_dtypes"),
)
def output_dtypes(c: TbcFacts) -> Failure | None:
    pairs = [("gradInput", "input"), ("gradWeight", "weight"), ("gradBias", "bias")]
    if c.conformance == "documented" and c.tensor("gradWeight").dtype in EIGHT_BIT:
        pairs.remove(("gradWeight", "weight"))  # ruling 4: an 8-bit gradWeight stands beside any weight where the list has it
    return first_failure(same_dtype(out, c.tensor(out), model, c.tensor(model)) for out, model in pairs)
