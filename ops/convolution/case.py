"""Common part of the cases of a convolution with torch's arguments: fields, defaults of the attributes, the output's shape."""

from __future__ import annotations

from typing import Any

from pydantic import Field, StrictBool

from ascend_sim.ops.case_entries import (
    BiasEntry,
    CountedFromOne,
    FileEntry,
    InputEntry,
    PerAxis,
    PerAxisFromZero,
    Shape,
    agreed,
    contradiction,
    needed,
    output_size,
)


class ConvolutionFields(FileEntry):
    """Fields for the arguments of a convolution as torch has them, shared by cases and by layers of a network."""

    input: InputEntry = Field(description="[N, C_in, spatial...], 1 to 3 spatial axes.")
    weight: InputEntry = Field(description="[C_out, C_in / groups, kernel...]; transposed [C_in, C_out / groups, kernel...].")
    bias: BiasEntry = Field(default=InputEntry(), description="[C_out]; false for none.")
    stride: PerAxis | None = Field(default=None, description="Left out: 1.")
    padding: PerAxisFromZero | None = Field(
        default=None, description="Left out: 0. Four values of a 2-D problem are up, down, left, right."
    )
    dilation: PerAxis | None = Field(default=None, description="Left out: 1.")
    transposed: StrictBool = Field(default=False, description="Whether the convolution is a transposed one.")
    output_padding: PerAxisFromZero | None = Field(default=None, description="Left out: 0; other values where transposed.")
    groups: CountedFromOne = Field(default=1, description="Groups of channels.")


def attributes_of(case: Any) -> dict[str, Any]:
    """Return name -> value of stride, padding, dilation, transposed, output_padding and groups.

    A single number, or the default of a left-out attribute, is repeated for each spatial axis; other lengths stay, to be
    refused. ValueError if the case has no shape of input.
    """
    dims = len(needed("input.shape", case.input.shape)) - 2

    def each(given: tuple[int, ...] | None, usual: int) -> tuple[int, ...]:
        values = (usual,) if given is None else given
        return values * dims if len(values) == 1 else values

    return {
        "stride": each(case.stride, 1),
        "padding": each(case.padding, 0),
        "dilation": each(case.dilation, 1),
        "transposed": case.transposed,
        "output_padding": each(case.output_padding, 0),
        "groups": case.groups,
    }


def output_shape(case: Any, name: str, given: Shape | None) -> Shape:
    """Return the output's shape, which follows from input, weight and attributes. ValueError where the case contradicts itself,
    or lacks the shape of input or weight.

    `given` is the shape that the case gives tensor `name`, which must be the same; None if it gives none. In a case that keeps
    its entries as given contradictions raise nothing: `given` stands; without it the formula's shape with sizes of at least 1,
    or where ranks and lengths allow no formula the shape of the input.
    """
    input, weight = needed("input.shape", case.input.shape), needed("weight.shape", case.weight.shape)
    dims = len(input) - 2
    if not 1 <= dims <= 3:
        contradiction(case, f"input.shape: {list(input)} has {len(input)} axes; allowed: [N, C] and 1 to 3 axes")
        return _without_formula(given, input)
    if len(weight) != len(input):
        contradiction(case, f"weight.shape: {list(weight)} has {len(weight)} axes, input {list(input)} has {len(input)}")
        return _without_formula(given, input)
    attributes = attributes_of(case)
    for attribute in ("stride", "padding", "dilation", "output_padding"):
        allowed = (2, 4) if (attribute, dims) == ("padding", 2) else (dims,)
        if len(attributes[attribute]) not in allowed:
            counts = " or ".join(map(str, allowed))
            given_values = list(attributes[attribute])
            contradiction(case, f"{attribute}: {given_values} given; allowed: {counts} values for a {dims}-D problem")
            return _without_formula(given, input)
    _check_channels(case, input, weight)
    out_channels = weight[1] * case.groups if case.transposed else weight[0]
    padding = attributes["padding"]
    pads = [padding[:2], padding[2:]] if len(padding) > dims else [(pad, pad) for pad in padding]
    if not case.transposed and any(attributes["output_padding"]):
        contradiction(case, f"output_padding: {list(attributes['output_padding'])} given; allowed: 0 unless transposed")
    shape = [input[0], out_channels]
    formulas = ["the batch of input", "the output channels of weight"]
    for axis in range(dims):
        size, formula = output_size(
            case,
            "L" if dims == 1 else "DHW"[axis - dims],
            input[axis + 2],
            weight[axis + 2],
            attributes["stride"][axis],
            pads[axis],
            attributes["dilation"][axis],
            attributes["output_padding"][axis] if case.transposed else None,
        )
        shape.append(size)
        formulas.append(formula)
    return agreed(case, name, given, shape, formulas)


def _without_formula(given: Shape | None, input: Shape) -> Shape:
    """Return the output's shape where no formula fits: the given one, or that of the input for None."""
    return tuple(input if given is None else given)


def _check_channels(case: Any, input: Shape, weight: Shape) -> None:
    needed = weight[0] if case.transposed else weight[1] * case.groups
    if input[1] != needed:
        formula = "weight.shape[0]" if case.transposed else "weight.shape[1] x groups"
        contradiction(case, f"input.shape: {input[1]} channels given; {formula} is {needed} (groups {case.groups})")
    if case.groups > 0 and weight[0] % case.groups:
        contradiction(case, f"groups: {case.groups} given; it must divide weight.shape[0], which is {weight[0]}")
