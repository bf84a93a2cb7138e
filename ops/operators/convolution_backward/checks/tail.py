"""Last rules of convolution backward: empty tensors, and calls that the library refuses only when it selects kernels."""

from __future__ import annotations

from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.checks.rules import Failure, RuleList, fail, show
from ascend_sim.ops.operators.convolution_backward.checks.eight_bit import RUNS
from ascend_sim.ops.operators.convolution_backward.checks.facts import ConvFacts
from ascend_sim.ops.status import Status


def add_rules(rules: RuleList) -> None:
    """Append to `rules` those that the library checks last, in its order: empty tensors, ranks and dtypes that the product
    lacks, then what it refuses only when it selects kernels.
    """
    empty = "library, CheckEmptyTensor"

    def emptied(c: ConvFacts) -> bool:
        return c.some_empty

    def emptied_wide(c: ConvFacts) -> bool:
        return c.some_empty and c.has("empty_skips_shape_rules")

    def computing(c: ConvFacts) -> bool:
        return not c.some_empty and (c.mask[0] or c.mask[1])

    rules.rule(
        "deterministic.grouped_3d",
        "library, deterministic grouped 3-D weight gradient",
        only="library",
        when=lambda c: c.has("deterministic_grouped_3d_refused"),
    )(_deterministic_grouped_3d)
    rules.rule("empty.bias_sizes", empty, only="library", when=lambda c: emptied(c) and c.mask[2])(_empty_bias_sizes)
    rules.rule("empty.input", empty, only="library", when=lambda c: emptied(c) and c.mask[0])(_empty_input)
    rules.rule("empty.attributes", empty, only="library", when=emptied_wide)(attribute_lengths)
    rules.rule("empty.channels", empty, only="library", when=emptied_wide)(_empty_channels)
    rules.rule("empty.spatial", empty, only="library", when=lambda c: emptied_wide(c) and not c.call.transposed)(_empty_spatial)
    rules.rule(
        "rank.supported", "library, 3-D is unsupported on this product", only="library", when=lambda c: not c.some_empty
    )(_rank_supported)
    rules.rule(
        "grad_weight.grouped_float32",
        "library, 3-D path of dav-2201",
        only="library",
        when=lambda c: c.has("grouped_float32_grad_weight_limited") and not c.some_empty,
    )(_grouped_float32_grad_weight)
    kernels = "library, kernel selection and tiling"
    rules.rule("kernel.batch", kernels, only="library", when=computing)(lambda c: batch(c, Status.INNER_NULLPTR))
    rules.rule("kernel.groups", kernels, only="library", when=computing)(_kernel_groups)
    rules.rule("kernel.spatial", kernels, only="library", when=lambda c: computing(c) and c.rank < 5)(
        lambda c: spatial_sizes(c, Status.INNER_NULLPTR)
    )
    rules.rule(
        "kernel.grad_bias_dtype",
        "library, dtype list of ReduceSum (ruling 10)",
        when=lambda c: c.has("eight_bit_rules") and c.mask[2] and not c.some_empty,
    )(_grad_bias_dtype)


def attribute_lengths(c: ConvFacts) -> Failure | None:
    """Return a failure unless stride, dilation, padding and outputPadding have one value for each spatial axis of input; a null
    pointer counts as no values.

    In 2-D padding may have 4 values, in the library's profile outputPadding too.
    """
    expected = c.rank - 2
    four_allowed = ("padding",) if c.conformance == "documented" else ("padding", "outputPadding")
    for name, values in (
        ("stride", c.call.stride or ()),
        ("dilation", c.call.dilation or ()),
        ("padding", c.call.padding or ()),
        ("outputPadding", c.call.output_padding or ()),
    ):
        if len(values) == expected or (c.rank == 4 and len(values) == 4 and name in four_allowed):
            continue
        four = " or 4" if c.rank == 4 and name in four_allowed else ""
        return fail(f"{name} = {show(values)}: rank {c.rank} needs {expected}{four} values")
    return None


def batch(c: ConvFacts, status: int) -> Failure | None:
    """Return a failure with `status` if gradOutput and input have different batches, else None."""
    if c.grad_output.shape[0] == c.input.shape[0]:
        return None
    return fail(f"gradOutput has batch {show(c.grad_output.shape[0])}: input has {show(c.input.shape[0])}", status)


def spatial_sizes(c: ConvFacts, status: int) -> Failure | None:
    """Return a failure with `status` unless, on every axis, the window fits the padded x and y = floor((x + paddings - window)
    / stride) + 1.

    For a transposed call the documented profile compares x, which is gradOutput, with the transposed convolution's size
    instead, including outputPadding.
    """
    for a in c.spatial():
        if a.padded < a.window:
            padded = f"{c.x_name} {a.axis} with padding is {show(a.padded)}"
            return fail(f"{padded}: the dilated kernel needs at least {show(a.window)}", status)
        if c.call.transposed and c.conformance == "documented":
            grown = (a.y - 1) * a.stride + a.window - a.pad_low - a.pad_high + a.output_padding
            if a.x != grown:
                return fail(f"gradOutput {a.axis} is {show(a.x)}: the transposed convolution gives {show(grown)}", status)
            continue
        expected = (a.padded - a.window) // a.stride + 1
        if a.y != expected:
            return fail(f"{c.y_name} {a.axis} is {show(a.y)}: the convolution of {c.x_name} gives {show(expected)}", status)
    return None


def _deterministic_grouped_3d(c: ConvFacts) -> Failure | None:
    if c.deterministic and c.mask[1] and c.call.groups > 1 and c.rank == 5:
        return fail(f"groups = {show(c.call.groups)}: must be 1 for a deterministic 3-D gradWeight on {c.spec.product}")
    return None


# -- empty tensors ----------------------------------------------------------------------------------------------------


def _empty_bias_sizes(c: ConvFacts) -> Failure | None:
    transposed = c.call.transposed
    channels = c.weight.shape[1] * c.call.groups if transposed else c.grad_output.shape[1]
    if c.call.bias_sizes == (channels,):
        return None
    return fail(f"biasSizes = {show(c.call.bias_sizes)}: it must be [{show(channels)}] when a tensor is empty")


def _empty_input(c: ConvFacts) -> Failure | None:
    if 0 in c.input.shape[:2]:
        return None
    return fail(f"input has shape {show(c.input.shape)}: N or C must be 0 when a tensor is empty and gradInput is wanted")


def _empty_channels(c: ConvFacts) -> Failure | None:
    groups, (out_channels, per_group) = c.call.groups, c.weight.shape[:2]
    if out_channels % groups:
        return fail(f"weight dimension 0 is {show(out_channels)}: it must be a multiple of groups = {show(groups)}")
    x_channels = c.x.shape[1]
    exempt = (c.call.transposed and c.input.shape[0] == 0) or (x_channels == 0 and per_group == 0)
    if not exempt and (per_group == 0 or x_channels != per_group * groups):
        product = f"groups * weight dimension 1 = {show(groups)} * {show(per_group)}"
        return fail(f"{c.x_name} has {show(x_channels)} channels: {product}")
    if c.call.transposed and (out_channels == 0 or out_channels != c.input.shape[1]):
        return fail(f"weight dimension 0 is {show(out_channels)}: it must be the channels of input, {show(c.input.shape[1])}")
    return None


def _empty_spatial(c: ConvFacts) -> Failure | None:
    padding = c.call.padding or ()
    for a, value in zip(c.spatial(), padding, strict=False):
        # with 4 paddings the library takes the first two (up, down) for H and W
        if a.x + 2 * value < a.window:
            size = f"input {a.axis} with padding is {show(a.x + 2 * value)}"
            return fail(f"{size}: the dilated kernel needs at least {show(a.window)}")
    return None


# -- what the kernels refuse ------------------------------------------------------------------------------------------


def _rank_supported(c: ConvFacts) -> Failure | None:
    if c.rank in c.profile.ranks.values:
        return None
    return fail(f"input has rank {c.rank}: allowed on {c.spec.product} are {c.profile.ranks.values}")


def _grouped_float32_grad_weight(c: ConvFacts) -> Failure | None:
    """Return a failure for a grouped float32 gradWeight on the 3-D path whose products are of 16 bits (cubeMathType 2, or
    inputs of 16 bits), else None.

    Calls of lower rank take that path if they are deterministic, want no gradInput and have pads smaller than the dilated
    kernel.
    """
    weight = c.call.grad_weight
    if not c.mask[1] or c.call.groups == 1 or weight is None or weight.dtype != "float32":
        return None
    if c.call.cube_math_type != 2 and c.promoted not in ("float16", "bfloat16"):
        return None
    if c.rank < 5:
        # inferred: the route's condition "it fits L1" is taken as met
        small_pads = all(a.pad_low < a.window and a.pad_high < a.window for a in c.spatial())
        if not (c.deterministic and not c.mask[0] and small_pads):
            return None
    status = Status.PARAM_INVALID if c.rank == 5 else Status.INNER_NULLPTR
    return fail(f"gradWeight is float32 with groups = {show(c.call.groups)}: it would be computed in 16 bits", status)


def _kernel_groups(c: ConvFacts) -> Failure | None:
    out_channels = c.weight.shape[0]
    if out_channels % c.call.groups == 0:
        return None
    limit = f"it must be a multiple of groups = {show(c.call.groups)}"
    return fail(f"weight dimension 0 is {show(out_channels)}: {limit}", Status.INNER_NULLPTR)


def _grad_bias_dtype(c: ConvFacts) -> Failure | None:
    if c.grad_output.dtype not in EIGHT_BIT:
        return None
    return fail(
        f"gradOutput has dtype {c.grad_output.dtype}: ReduceSum has no 8-bit kernel for gradBias; {RUNS}", Status.INNER_NULLPTR
    )
