"""The forward convolution as an entry of the register."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import (
    Verdict,
    accumulation_bound,
    beyond_range,
    check_correct,
    rigorous_bound,
    round_to,
    rounded_bound,
)
from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import TensorArg, is_whole_number
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.convolution.call import ConvolutionCall, MapNames
from ascend_sim.ops.convolution.formula import Formula, formula
from ascend_sim.ops.convolution.kinds import ATTRIBUTES
from ascend_sim.ops.convolution.reference import grad_input_reference, products_per_element
from ascend_sim.ops.convolution.reference_forward import conv_forward_reference
from ascend_sim.ops.convolution.zeros import zeros_of_a_map
from ascend_sim.ops.kinds import ArgumentKind
from ascend_sim.ops.operator import Operator, Settings, Sums, chain, itemsize_in_memory
from ascend_sim.ops.operators.convolution.arguments import ForwardCall, normalise
from ascend_sim.ops.operators.convolution.case import ConvolutionCase
from ascend_sim.ops.operators.convolution.checks import RULES, Facts
from ascend_sim.ops.operators.convolution.graph import plan_forward_operator
from ascend_sim.ops.operators.convolution.plans import OUTPUT, begins_with_bias, bias_dtype, plan_convolution
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.problem.family import family_of
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]


class Convolution(Operator[ForwardCall, ConvolutionCall]):
    """The forward convolution as an operator; its arguments are in the order of torch's convolution."""

    name = "convolution"
    tensors = ("input", "weight", "bias")
    batch_axes: ClassVar[Mapping[str, int]] = {"input": 0}
    optional = ("bias",)
    attributes = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    kinds: ClassVar[Mapping[str, ArgumentKind]] = ATTRIBUTES
    outputs = (OUTPUT,)
    added = ("bias",)
    formats: ClassVar[Mapping[int, str]] = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
    case: ClassVar[type[Case]] = ConvolutionCase
    cube_kernels = (OUTPUT,)
    explained: ClassVar[Mapping[str, str]] = {"element": OUTPUT}
    rules = RULES
    facts = Facts
    layer_direction: ClassVar[Literal["forward", "backward"] | None] = "forward"
    layer_parts: ClassVar[Mapping[str, tuple[str, str]]] = {
        OUTPUT: (OUTPUT, "output us"),
        "bias": (f"BiasAdd_{OUTPUT}", "bias us"),
    }

    # -- phase one -----------------------------------------------------------------------------------------------------

    def arguments(
        self, tensors: Mapping[str, TensorArg | None], attributes: Mapping[str, Any], *, cube_math_type: int, conformance: str
    ) -> ForwardCall:
        source, weight = tensors["input"], tensors["weight"]
        assert source is not None and weight is not None  # only the bias is optional
        lists = {name: attributes[name] for name in ("stride", "padding", "dilation", "output_padding")}
        for name, value in lists.items():
            if is_whole_number(value):
                lists[name] = (int(value),) * max(len(weight.shape) - 2, 1)
        call = ForwardCall(
            source,
            weight,
            tensors["bias"],
            **lists,
            transposed=bool(attributes["transposed"]),
            groups=int(attributes["groups"]),
            cube_math_type=int(cube_math_type),
            output=None,
        )
        # Where no shape follows, a rule before those on the output says why.
        return replace(call, output=TensorArg(call.output_shape or (), source.dtype, source.format))

    def accepted(
        self, arguments: ForwardCall, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings
    ) -> ConvolutionCall:
        normal, product = normalise(arguments), settings.product
        inputs = {name: tensor for name in self.tensors if (tensor := getattr(arguments, name)) is not None}
        assert arguments.output is not None
        promoted = promote(inputs["input"].dtype, inputs["weight"].dtype)
        return ConvolutionCall(
            operator=self.name,
            problem=normal.problem,
            forward=not normal.transposed,
            rank=normal.rank,
            family=family_of(chip),
            maps=MapNames("input", OUTPUT, OUTPUT),
            inputs=inputs,
            outputs={OUTPUT: arguments.output},
            compute_dtype=settings.compute_dtype(promoted, arguments.cube_math_type),
            warnings=warnings,
            routes=frozenset(product.routes),
            kernel_limits=tuple(product.profile(settings.conformance).kernel_limits),
            cube_math_type=arguments.cube_math_type,
            padded=any(normal.declared_padding),
            **settings.fields,
        )

    def kernels(self, call: ConvolutionCall, chip: ChipSpec) -> Plan:
        return plan_convolution(call, chip)

    def graph_plan(self, call: ConvolutionCall, chip: ChipSpec, op_type: str) -> Plan:
        return plan_forward_operator(call, chip, op_type)

    # -- reports -------------------------------------------------------------------------------------------------------

    def shown(self, arguments: ForwardCall) -> dict[str, Any]:
        lists = ("stride", "padding", "dilation", "output_padding")
        shown: dict[str, Any] = {name: list(getattr(arguments, name)) for name in lists}
        return shown | {"transposed": arguments.transposed, "groups": arguments.groups}

    def macs(self, call: ConvolutionCall) -> dict[str, int]:
        return {OUTPUT: call.problem.macs}

    # -- values --------------------------------------------------------------------------------------------------------

    def sums(
        self,
        call: ConvolutionCall,
        output: str,
        operands: Mapping[str, Array],
        inputs: Mapping[str, Array],
        *,
        absolute: bool = False,
    ) -> tuple[Array, ...]:
        """Return (sum ab + bias, sum (ab)^2) in float64 and, with `absolute`, sum |ab|; the last two are of the
        products alone. Zeros for an empty call. Arguments as in `Operator.sums`.
        """
        if call.empty:
            return (np.zeros(call.volume(output)),) * (2 + absolute)
        x = operands["input"].reshape(call.volume("input"))
        weight = operands["weight"].reshape(call.weight_volume)
        reference = conv_forward_reference if call.forward else grad_input_reference
        total, *rest = reference(call.problem, x, weight, absolute=absolute)
        return (total + _spread(call, inputs), *rest)

    def factors(self, call: ConvolutionCall, output: str) -> tuple[str, ...]:
        return ("input", "weight")

    def meets_zeros(
        self, call: ConvolutionCall, output: str, special: Mapping[str, NDArray[np.bool_]], met: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        return zeros_of_a_map(call, special["weight"], met)

    def products(self, call: ConvolutionCall) -> dict[str, int]:
        p = call.problem
        if not call.forward:
            return {OUTPUT: products_per_element(p)["grad_input"]}
        return {OUTPUT: p.c_in // p.groups * p.k_d * p.k_h * p.k_w + begins_with_bias(call)}

    def roundings(self, call: ConvolutionCall, output: str) -> list[str]:
        return list(dict.fromkeys((call.storage_dtype, call.outputs[output].dtype)))

    def saturates(self, call: ConvolutionCall, output: str, model: ValueModel) -> bool:
        return model.saturate or model.fixpipe_saturates(itemsize_in_memory(call.compute_dtype))

    def verdict(
        self, call: ConvolutionCall, output: str, result: Array, sums: Sums, model: ValueModel, *, inputs: Mapping[str, Array]
    ) -> Verdict:
        """Return the verdict on the output; without a bias, or for an empty output, it is that of a plain sum.

        A sum that begins with the bias has one more product, and is rounded once. If the bias is added after the sum
        was rounded, each rounding has a bound of its own: the sum may have been much larger than the output.
        """
        if "bias" not in call.inputs or call.empty:
            return super().verdict(call, output, result, sums, model, inputs=inputs)
        bias = np.broadcast_to(_spread(call, inputs), sums.total.shape)
        if begins_with_bias(call):
            more = np.where(np.isfinite(bias), np.abs(bias) if sums.absolute else bias * bias, 0.0)
            added = replace(sums, weights=sums.weights + more)
            return super().verdict(call, output, result, added, model, inputs=inputs)
        known = np.isfinite(bias)
        count, before = self.products(call)[output], sums.total - np.where(known, bias, 0.0)
        weights, way = sums.weights, self.roundings(call, output)
        bound = rigorous_bound(weights, count) if sums.absolute else accumulation_bound(before, weights, count)
        lost = rounded_bound(before, bound, way)
        own, saturates = sums.shaped(result.shape), self.saturates(call, output, model)
        infinite = ~np.isfinite(np.asarray(result, np.float64)).reshape(before.shape)
        passed, carried = beyond_range(
            before, np.where(np.isfinite(before), lost, 0.0), way, saturate=saturates, infinite=infinite
        )
        doubtful = own.doubtful
        if saturates:  # the sum was clamped before the bias came, or the bias itself was
            clamped = ~np.isfinite(before).reshape(result.shape) | np.isnan(own.total)
            doubtful = clamped if doubtful is None else doubtful | clamped
        elif not known.all():  # an infinite bias may have met a sum that overflowed
            met = ~known.reshape(result.shape)
            doubtful = met if doubtful is None else doubtful | met
        total = np.where(known, passed + bias, sums.total).reshape(result.shape)
        return check_correct(
            result,
            total,
            np.zeros_like(total),
            1,
            [call.outputs[output].dtype],
            carried=carried.reshape(result.shape),
            doubtful=doubtful,
            partial=np.sqrt(count * weights) + np.where(known, np.abs(bias), 0.0),
            exact_terms=True,
            saturate=saturates,
        )

    def rounded(
        self, call: ConvolutionCall, output: str, total: Array, model: ValueModel, *, inputs: Mapping[str, Array]
    ) -> Array:
        bias, saturates = _spread(call, inputs), self.saturates(call, output, model)
        if begins_with_bias(call):
            return chain(total, self.roundings(call, output), saturates)
        products = chain(total - bias, self.roundings(call, output), saturates)
        return chain(products + bias, [call.outputs[output].dtype], saturates) if "bias" in call.inputs else products

    # -- questions -----------------------------------------------------------------------------------------------------

    def formula(
        self, call: ConvolutionCall, output: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]
    ) -> Formula:
        found = formula(call, output, shapes, index)
        return replace(found, added=("bias", found.place[1])) if "bias" in call.inputs else found


def _spread(call: ConvolutionCall, inputs: Mapping[str, Array]) -> Array:
    """Return the bias in float64 as [1, C, 1, 1, 1], rounded to `bias_dtype` if sums begin with it; a single 0 without one."""
    bias = inputs.get("bias")
    if bias is None:
        return np.zeros(())
    if begins_with_bias(call):
        bias = round_to(bias.astype(np.float64), bias_dtype(call))
    return bias.astype(np.float64).reshape(1, -1, 1, 1, 1)


OPERATOR = Convolution()
