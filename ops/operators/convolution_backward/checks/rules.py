"""Checks of aclnnConvolutionBackwardGetWorkspaceSize: its rules, in the order of the released library.

Rules that only the documents have stand at their places in that order. Documents are cited by the numbers that
`docs/conformance.md` explains (000, 003, 004; "ruling": our decision where they differ); "library" is the released
library, ops-nn e5c3fa93. The rules on empty tensors and kernels are in `tail`.
"""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.checks.common import (
    at_least,
    convolution_in_range,
    each_at_least,
    first_failure,
    no_negative_dimension,
    not_null,
    of_dtype,
    same_dtype,
    same_shape,
)
from ascend_sim.ops.checks.rules import Failure, RuleList, fail, show
from ascend_sim.ops.operators.convolution_backward.checks import eight_bit as conv_backward_eight_bit
from ascend_sim.ops.operators.convolution_backward.checks import tail as conv_backward_tail
from ascend_sim.ops.operators.convolution_backward.checks.facts import ConvFacts
from ascend_sim.ops.status import Status

RULES = RuleList()
rule = RULES.rule

FORMAT_OF_RANK = {3: ("NCL", "ND"), 4: ("NCHW",), 5: ("NCDHW",)}
DOCUMENTED_FORMATS = ("NCL", "NCHW", "NCDHW")


def shapes_matter(c: ConvFacts) -> bool:
    """Return True if the shape rules apply: always in the documented profile, in the library's unless `skips_shape_rules`."""
    return c.conformance == "documented" or not c.skips_shape_rules


# -- pointers ---------------------------------------------------------------------------------------------------------


@rule("pointers.inputs", "000, error 161001, item 1; library, null check")
def input_pointers(c: ConvFacts) -> Failure | None:
    names = {
        "gradOutput": c.call.grad_output,
        "input": c.call.input,
        "weight": c.call.weight,
        "stride": c.call.stride,
        "padding": c.call.padding,
        "dilation": c.call.dilation,
        "outputPadding": c.call.output_padding,
        "outputMask": c.call.output_mask,
    }
    return not_null(names.items())


@rule("pointers.bias_sizes", "000, error 161001, item 1 (ruling 5)", only="documented")
def bias_sizes_pointer(c: ConvFacts) -> Failure | None:
    return not_null([("biasSizes", c.call.bias_sizes)])


@rule("output_mask.length", "library, null check; the documents say three masks and name no status")
def mask_length(c: ConvFacts) -> Failure | None:
    if len(c.mask) == 3:
        return None
    return fail(f"outputMask = {show(c.mask)}: it must hold 3 values", Status.PARAM_NULLPTR)


@rule("pointers.outputs", "000, error 161001, items 1 and 2 (ruling 5)", only="documented")
def documented_output_pointers(c: ConvFacts) -> Failure | None:
    bias = [("gradBias", c.call.grad_bias)] if c.mask[2] else []
    return not_null([("gradInput", c.call.grad_input), ("gradWeight", c.call.grad_weight), *bias])


@rule("pointers.masked_outputs", "library, null check", only="library")
def masked_output_pointers(c: ConvFacts) -> Failure | None:
    names = ("gradInput", "gradWeight", "gradBias")
    outputs = (c.call.grad_input, c.call.grad_weight, c.call.grad_bias)
    return not_null((name, out) for name, out, wanted in zip(names, outputs, c.mask, strict=True) if wanted)


rule("product.supported", "000, error 161002, item 6: the current processor does not support convolution backward")(
    ConvFacts.supported
)


@rule("shape.negative", "assumed: aclCreateTensor takes no negative dimension; 002 names 161002 for it")
def negative_dimensions(c: ConvFacts) -> Failure | None:
    return no_negative_dimension(c.inputs + c.outputs)


# -- dtypes -----------------------------------------------------------------------------------------------------------


@rule("dtype.list", "000, error 161002, item 1; library, dtype list of the product")
def dtype_list(c: ConvFacts) -> Failure | None:
    dtypes = c.profile.dtypes
    for name, tensor in c.inputs + c.outputs:
        failure = of_dtype(name, tensor, dtypes.of(name, transposed=c.call.transposed))
        if failure is not None:
            eight_bit = tensor.dtype in EIGHT_BIT
            return replace(failure, message=f"{failure.message}; {conv_backward_eight_bit.RUNS}") if eight_bit else failure
    return None


@rule(
    "dtype.outputs",
    "000, gradInput, gradWeight, gradBias (ruling 4); library, dav-3510 only",
    when=lambda c: c.has("outputs_follow_input_dtypes"),
)
def output_dtypes(c: ConvFacts) -> Failure | None:
    free_weight = c.has("eight_bit_rules") and c.weight.dtype in EIGHT_BIT
    return first_failure(
        [
            same_dtype("gradInput", c.call.grad_input, "input", c.input),
            None if free_weight else same_dtype("gradWeight", c.call.grad_weight, "weight", c.weight),
            same_dtype("gradBias", c.call.grad_bias, "gradOutput", c.grad_output),
        ]
    )


conv_backward_eight_bit.add_rules(RULES)


# -- ranks and formats ------------------------------------------------------------------------------------------------


@rule("rank.list", "000, constraints; 1D, 2D and 3D", only="documented")
def rank_list(c: ConvFacts) -> Failure | None:
    ranks = c.profile.ranks
    return first_failure(
        fail(f"{name} has rank {tensor.rank}: allowed on {c.spec.product} are {ranks.values}; {ranks.source}")
        if tensor.rank not in ranks.values
        else None
        for name, tensor in c.maps
    )


@rule("format.label", "000, data formats NCL, NCHW, NCDHW, the same for all tensors (ruling 6)", only="documented")
def format_label(c: ConvFacts) -> Failure | None:
    first: tuple[str, str] | None = None
    for name, tensor in c.maps:
        if tensor.format == "ND" and tensor.rank == 3:
            continue
        if tensor.format not in DOCUMENTED_FORMATS:
            allowed = f"{', '.join(DOCUMENTED_FORMATS)}, and ND for rank 3"
            return fail(f"{name} has format {show(tensor.format)}: allowed are {allowed}")
        first = first or (name, tensor.format)
        if tensor.format != first[1]:
            return fail(f"{name} has format {tensor.format}: it must be that of {first[0]}, {first[1]}")
    return None


@rule("format.of_rank", "library, format check", only="library")
def format_of_rank(c: ConvFacts) -> Failure | None:
    for name, tensor in c.maps:
        allowed = FORMAT_OF_RANK.get(tensor.rank)
        if allowed is None:
            return fail(f"{name} has rank {tensor.rank}: allowed are 3, 4, 5")
        if tensor.format not in allowed:
            return fail(f"{name} has format {show(tensor.format)}: rank {tensor.rank} allows {' or '.join(allowed)}")
    return None


@rule("format.grad_bias", "000, gradBias: ND; library, dav-2201 and dav-3510 when not transposed")
def format_grad_bias(c: ConvFacts) -> Failure | None:
    bias = c.call.grad_bias
    if bias is None or bias.format == "ND":
        return None
    if c.conformance == "library" and (c.call.transposed or not c.has("grad_bias_is_nd")):
        return None
    return fail(f"gradBias has format {show(bias.format)}: it must be ND")


# -- attribute values -------------------------------------------------------------------------------------------------


@rule("attributes.values", "000, stride and dilation greater than 0, padding at least 0; library, parameter check")
def attribute_values(c: ConvFacts) -> Failure | None:
    return first_failure(
        [
            each_at_least("stride", c.call.stride or (), 1),
            each_at_least("padding", c.call.padding or (), 0),
            each_at_least("dilation", c.call.dilation or (), 1),
        ]
    )


@rule(
    "output_padding.values", "000, outputPadding: 0 <= value < stride, 0 unless transposed (ruling 8); library, parameter check"
)
def output_padding_values(c: ConvFacts) -> Failure | None:
    values = c.call.output_padding or ()
    if not c.call.transposed:
        return fail(f"outputPadding = {show(values)}: it must be 0 when transposed is false") if any(values) else None
    below_stride = c.conformance == "documented" or c.rank == 5  # the library compares with stride only in 3-D
    stride = c.call.stride or ()
    if below_stride and any(value >= limit for value, limit in zip(values, stride, strict=False)):
        return fail(f"outputPadding = {show(values)}: every value must be below stride = {show(stride)}")
    return each_at_least("outputPadding", values, 0)


@rule("groups.positive", "000, groups: greater than 0; library, parameter check")
def groups_positive(c: ConvFacts) -> Failure | None:
    return at_least("groups", c.call.groups, 1)


@rule("cube_math_type", "000, cubeMathType (ruling 2); library, cube util")
def cube_math_type(c: ConvFacts) -> Failure | None:
    return c.computed(c.promoted)


# -- shapes -----------------------------------------------------------------------------------------------------------


@rule("empty.documented", "000, input: only N or C may be 0; gradOutput, weight: not empty (ruling 7)", only="documented")
def documented_empties(c: ConvFacts) -> Failure | None:
    batch, channels = c.input.shape[:2]
    channel_axis = 0 if c.call.transposed else 1  # where the weight counts the input's channels
    may_be_zero = {"gradOutput": {0} if batch == 0 else set(), "weight": {channel_axis} if channels == 0 else set()}
    for name, tensor in c.inputs:
        zeros = {axis for axis, size in enumerate(tensor.shape) if size == 0}
        if zeros - may_be_zero.get(name, {0, 1}):
            return fail(f"{name} has shape {show(tensor.shape)}: only N or C of input may be 0, and what follows from it")
    return None


@rule("shape.ranks", "000, shape derivation; library, shape check", when=shapes_matter)
def equal_ranks(c: ConvFacts) -> Failure | None:
    return first_failure(
        fail(f"{name} has rank {tensor.rank}: it must be that of input, {c.rank}") if tensor.rank != c.rank else None
        for name, tensor in c.maps
    )


@rule("shape.not_empty", "library, shape check", only="library", when=shapes_matter)
def not_empty(c: ConvFacts) -> Failure | None:
    return first_failure(
        fail(f"{name} has shape {show(tensor.shape)}: it must not be empty") if tensor.is_empty else None
        for name, tensor in (("gradOutput", c.grad_output), ("weight", c.weight))
    )


@rule("shape.outputs", "000, gradInput, gradWeight, gradBias; library, shape check", when=shapes_matter)
def output_shapes(c: ConvFacts) -> Failure | None:
    return first_failure(
        [
            same_shape("gradInput", c.call.grad_input, c.input.shape, "the shape of input"),
            same_shape("gradWeight", c.call.grad_weight, c.weight.shape, "the shape of weight"),
            same_shape("gradBias", c.call.grad_bias, c.grad_output.shape[1:2], "the channels of gradOutput"),
        ]
    )


rule("attributes.lengths", "000, array lengths: rank of weight minus 2; library, parameter check", when=shapes_matter)(
    conv_backward_tail.attribute_lengths
)


@rule("bias_sizes.value", "000, biasSizes: [weight.shape[0]], transposed [weight.shape[1] * groups]", only="documented")
def bias_sizes_value(c: ConvFacts) -> Failure | None:
    channels = c.weight.shape[1] * c.call.groups if c.call.transposed else c.weight.shape[0]
    if c.call.bias_sizes == (channels,):
        return None
    return fail(f"biasSizes = {show(c.call.bias_sizes)}: it must be [{show(channels)}]")


@rule("ranges", "000, ranges of the product (ruling 8)", only="documented", when=lambda c: bool(c.profile.ranges))
def ranges(c: ConvFacts) -> Failure | None:
    return convolution_in_range(c, c.rank, c.weight.shape)


@rule("channels", "000, groups * C of weight = C of input; library, channel check", when=shapes_matter)
def channels(c: ConvFacts) -> Failure | None:
    groups, (out_channels, per_group) = c.call.groups, c.weight.shape[:2]
    x_channels, y_channels = c.x.shape[1], c.y.shape[1]
    if y_channels != out_channels:
        return fail(f"{c.y_name} has {show(y_channels)} channels: weight dimension 0 is {show(out_channels)}")
    if x_channels != per_group * groups:
        product = f"groups * weight dimension 1 = {show(groups)} * {show(per_group)}"
        return fail(f"{c.x_name} has {show(x_channels)} channels: {product}")
    if c.conformance == "library":
        if per_group == 0:
            return fail("weight dimension 1 is 0: it must be at least 1")
        if not (c.has("depthwise_output_channels") and x_channels == groups):
            return None
    if out_channels % groups or (c.conformance == "library" and out_channels < groups):
        return fail(f"weight dimension 0 is {show(out_channels)}: it must be a multiple of groups = {show(groups)}")
    return None


@rule("shape.batch", "000, gradOutput: shape derivation of the convolution", only="documented")
def batch(c: ConvFacts) -> Failure | None:
    return conv_backward_tail.batch(c, Status.PARAM_INVALID)


@rule(
    "shape.spatial",
    "000, gradOutput: shape derivation of the convolution; library, 3-D shape check",
    when=lambda c: c.conformance == "documented" or (c.rank == 5 and not c.skips_shape_rules),
)
def spatial_sizes(c: ConvFacts) -> Failure | None:
    return conv_backward_tail.spatial_sizes(c, Status.PARAM_INVALID)


conv_backward_tail.add_rules(RULES)
