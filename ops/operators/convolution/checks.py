"""Checks of a forward convolution: its rules, in order.

No document of the five describes this operator: its rules are those of torch's convolution and, where kernels are
shared, those of convolution backward; all of them are assumed.
"""

from __future__ import annotations

from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import EIGHT_BIT, TensorArg
from ascend_sim.ops.checks.common import (
    CallFacts,
    at_least,
    convolution_in_range,
    each_at_least,
    first_failure,
    known,
    no_negative_dimension,
    not_null,
    of_dtype,
    same_dtype,
    same_shape,
)
from ascend_sim.ops.checks.rules import Failure, RuleList, fail, show

RULES = RuleList()
rule = RULES.rule

_TORCH = "assumed: torch's convolution"
_SHARED = "assumed: as convolution_backward"
FORMAT_OF_RANK = {3: ("NCL", "ND"), 4: ("NCHW",), 5: ("NCDHW",)}


class Facts(CallFacts):
    """Facts of one forward call."""

    def tensor(self, name: str) -> TensorArg:
        """Return the tensor of an argument, by the name of its field of `ForwardCall`; AssertionError if it is null, which an
        earlier rule refuses.
        """
        return known(getattr(self.call, name))

    @property
    def tensors(self) -> list[tuple[str, TensorArg]]:
        """Return (name, tensor) for all tensors that are not null."""
        names = ("input", "weight", "bias", "output")
        return [(name, tensor) for name in names if (tensor := getattr(self.call, name)) is not None]


@rule("pointers", _SHARED)
def pointers(c: Facts) -> Failure | None:
    names = {
        "input": c.call.input, "weight": c.call.weight, "stride": c.call.stride, "padding": c.call.padding,
        "dilation": c.call.dilation, "outputPadding": c.call.output_padding, "output": c.call.output,
    }  # fmt: skip
    return not_null(names.items())


rule("product.supported", _SHARED)(CallFacts.supported)


@rule("shape.negative", _SHARED)
def negative_dimensions(c: Facts) -> Failure | None:
    return no_negative_dimension([entry for entry in c.tensors if entry[0] != "output"])


@rule("dtype.list", _SHARED)
def dtype_list(c: Facts) -> Failure | None:
    return first_failure(of_dtype(name, tensor, c.profile.dtypes.of(name)) for name, tensor in c.tensors)


@rule("dtype.equal", _TORCH)
def equal_dtypes(c: Facts) -> Failure | None:
    model = c.tensor("input")
    return first_failure(same_dtype(name, tensor, "input", model) for name, tensor in c.tensors)


@rule("bias.eight_bit", "assumed: no vector unit adds 8-bit numbers", when=lambda c: c.call.bias is not None)
def eight_bit_bias(c: Facts) -> Failure | None:
    if c.tensor("bias").dtype not in EIGHT_BIT:
        return None
    return fail(f"bias has dtype {c.tensor('bias').dtype}: it must be null with 8-bit tensors")


@rule("rank", "configs/operators/convolution.yaml, ranks; torch's convolution")
def ranks(c: Facts) -> Failure | None:
    rank = c.tensor("input").rank
    if rank not in c.profile.ranks.values:
        return fail(
            f"input has rank {rank}: allowed on {c.spec.product} are {c.profile.ranks.values}; {c.profile.ranks.source}"
        )
    if c.tensor("weight").rank != rank:
        return fail(f"weight has rank {c.tensor('weight').rank}: input has {rank}")
    return None


@rule("format", _SHARED)
def formats(c: Facts) -> Failure | None:
    for name, tensor in c.tensors:
        allowed = FORMAT_OF_RANK[c.tensor("input").rank]
        if name != "bias" and tensor.format not in allowed:
            return fail(f"{name} has format {show(tensor.format)}: allowed are {' and '.join(allowed)}")
    return None


@rule("attribute.lengths", _TORCH)
def attribute_lengths(c: Facts) -> Failure | None:
    spatial = c.tensor("input").rank - 2
    for name in ("stride", "padding", "dilation", "output_padding"):
        values = getattr(c.call, name)
        if len(values) == spatial or (name, spatial, len(values)) == ("padding", 2, 4):
            continue
        four = " or 4" if (name, spatial) == ("padding", 2) else ""
        return fail(f"{_vendor(name)} = {show(values)}: rank {spatial + 2} needs {spatial}{four} values")
    return None


@rule("attribute.values", _TORCH)
def attribute_values(c: Facts) -> Failure | None:
    lowest = (("stride", 1), ("dilation", 1), ("padding", 0), ("output_padding", 0))
    found = [each_at_least(_vendor(name), getattr(c.call, name), limit) for name, limit in lowest]
    return first_failure([*found, at_least("groups", c.call.groups, 1)])


@rule("output_padding", _TORCH)
def output_padding(c: Facts) -> Failure | None:
    extra = c.call.output_padding or ()
    if not c.call.transposed:
        return fail(f"outputPadding = {show(extra)}: it must be 0 unless transposed") if any(extra) else None
    for value, stride, dilation in zip(extra, c.call.stride or (), c.call.dilation or (), strict=True):
        if value >= max(stride, dilation):
            return fail(f"outputPadding = {show(extra)}: it must be below stride or dilation, {max(stride, dilation)}")
    return None


@rule("ranges", _SHARED)
def ranges(c: Facts) -> Failure | None:
    return convolution_in_range(c, c.tensor("input").rank, c.tensor("weight").shape)


@rule("sizes", "assumed: only a batch may be empty")
def sizes(c: Facts) -> Failure | None:
    shapes = {"input": c.tensor("input").shape[1:], "weight": c.tensor("weight").shape}
    return first_failure(
        fail(f"{name} has shape {show(c.tensor(name).shape)}: every dimension but the batch must be at least 1")
        for name, shape in shapes.items()
        if 0 in shape
    )


@rule("channels", _TORCH)
def channels(c: Facts) -> Failure | None:
    groups, (first, second) = c.call.groups, c.tensor("weight").shape[:2]
    given = c.tensor("input").shape[1]
    if first % groups:
        return fail(f"weight dimension 0 is {show(first)}: it must be a multiple of groups = {show(groups)}")
    if c.call.transposed and given != first:
        return fail(f"input has {show(given)} channels: weight dimension 0 is {show(first)}")
    if not c.call.transposed and given != second * groups:
        return fail(f"input has {show(given)} channels: groups * weight dimension 1 = {show(groups)} * {show(second)}")
    return None


@rule("shape.output", _TORCH)
def output_shape(c: Facts) -> Failure | None:
    shape = c.call.output_shape
    if shape is None:
        raise AssertionError("the rules on lengths and values come first")
    if min(shape[2:]) < 1:
        return fail(f"output would have shape {show(shape)}: the dilated kernel does not fit the padded input")
    return same_shape("output", c.tensor("output"), shape, "which follows from input, weight and attributes")


@rule("shape.bias", _TORCH, when=lambda c: c.call.bias is not None)
def bias_shape(c: Facts) -> Failure | None:
    return same_shape("bias", c.tensor("bias"), c.tensor("output").shape[1:2], "the output channels")


@rule("cube_math_type", "configs/operators/convolution.yaml, cube_math_type")
def cube_math_type(c: Facts) -> Failure | None:
    return c.computed(promote(c.tensor("input").dtype, c.tensor("weight").dtype))


def _vendor(name: str) -> str:
    """Return the vendor's spelling of an attribute: output_padding -> outputPadding."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
