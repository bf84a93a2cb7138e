"""Convolution backward as an entry of the register."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import EIGHT_BIT, TensorArg, is_whole_number
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.convolution.formula import Formula, formula
from ascend_sim.ops.convolution.kinds import ATTRIBUTES
from ascend_sim.ops.convolution.reference import (
    grad_bias_reference,
    grad_input_reference,
    grad_weight_reference,
    products_per_element,
)
from ascend_sim.ops.convolution.reference_forward import conv_forward_reference
from ascend_sim.ops.convolution.zeros import zeros_of_a_map, zeros_of_a_weight
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kinds import MASK, SIZES, ArgumentKind
from ascend_sim.ops.operator import MatrixProduct, Operator, Settings, itemsize_in_memory
from ascend_sim.ops.operators.convolution_backward.arguments import GRADIENTS, INPUTS, ConvBackwardCall
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.ops.operators.convolution_backward.checks.facts import ConvFacts
from ascend_sim.ops.operators.convolution_backward.checks.rules import RULES
from ascend_sim.ops.operators.convolution_backward.matmul_routes import matmul_routes, product_of
from ascend_sim.ops.operators.convolution_backward.normalise import normalise
from ascend_sim.ops.operators.convolution_backward.plans import cube_call, plan_call
from ascend_sim.ops.operators.convolution_backward.plans.graph import plan_gradient_operator
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.problem.family import family_of
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]
Arguments = TypeVar("Arguments")


class GradientsOperator(Operator[Arguments, ConvolutionCall]):
    """Base of both operators that compute the gradients of a convolution."""

    outputs = GRADIENTS
    cube_kernels = ("grad_input", "grad_weight")
    explained: ClassVar[Mapping[str, str]] = {"element": "grad_input", "weight": "grad_weight"}
    layer_parts: ClassVar[Mapping[str, tuple[str, str]]] = {
        "grad_input": ("grad_input", "grad_input us"),
        "grad_weight": ("grad_weight", "grad_weight us"),
        "grad_bias": ("ReduceSum_grad_bias", "grad_bias us"),
    }

    def kernels(self, call: ConvolutionCall, chip: ChipSpec) -> Plan:
        return plan_call(call, chip)

    def graph_plan(self, call: ConvolutionCall, chip: ChipSpec, op_type: str) -> Plan:
        return plan_gradient_operator(call, chip, op_type)

    def macs(self, call: ConvolutionCall) -> dict[str, int]:
        return {name: call.problem.macs for name in self.cube_kernels if name in call.outputs}

    def sums(
        self,
        call: ConvolutionCall,
        output: str,
        operands: Mapping[str, Array],
        inputs: Mapping[str, Array],
        *,
        absolute: bool = False,
    ) -> tuple[Array, ...]:
        """Return (sum ab, sum (ab)^2) of one gradient in float64 and, with `absolute`, sum |ab|; of the bias gradient those of
        the plain addends, which are in `inputs`. For an empty call all are zeros, but the sum of the bias gradient is
        `bias_when_empty`. Arguments as in `Operator.sums`.
        """
        p = call.problem
        if call.empty:
            value = call.bias_when_empty if output == "grad_bias" else 0.0
            zeros = np.zeros(call.outputs[output].shape)
            return (zeros + value, zeros, zeros)[: 2 + absolute]
        if output == "grad_bias":
            return grad_bias_reference(inputs["grad_output"].reshape(call.volume("grad_output")), absolute=absolute)
        volumes = {name: operands[name].reshape(call.volume(name)) for name in ("grad_output", "input")}
        if output == "grad_weight":
            return grad_weight_reference(p, volumes[call.y], volumes[call.x], absolute=absolute)
        weight = operands["weight"].reshape(call.weight_volume)
        reference = conv_forward_reference if call.forward else grad_input_reference
        return reference(p, volumes["grad_output"], weight, absolute=absolute)

    def factors(self, call: ConvolutionCall, output: str) -> tuple[str, ...]:
        return {"grad_input": ("grad_output", "weight"), "grad_weight": ("grad_output", "input")}.get(output, ())

    def meets_zeros(
        self, call: ConvolutionCall, output: str, special: Mapping[str, NDArray[np.bool_]], met: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        if output == "grad_weight":
            return zeros_of_a_weight(call, special)
        return zeros_of_a_map(call, special["weight"], met)

    def products(self, call: ConvolutionCall) -> dict[str, int]:
        """Return the numbers of products of all three gradients, wanted or not; for the bias gradient that of addends."""
        p = call.problem
        counts = products_per_element(p)
        _, _, *size = call.volume("grad_output")
        return {
            "grad_input": p.c_in // p.groups * p.k_d * p.k_h * p.k_w if call.forward else counts["grad_input"],
            "grad_weight": counts["grad_weight"],
            "grad_bias": p.n * math.prod(size),
        }

    def roundings(self, call: ConvolutionCall, output: str) -> list[str]:
        """Return the dtypes of the roundings as in `Operator.roundings`; no dtype follows itself."""
        wanted = call.outputs[output].dtype
        route = matmul_routes(call).get(output)
        if output == "grad_bias":
            steps = [call.inputs["grad_output"].dtype, wanted]
        elif route is not None:
            steps = ([] if output == "grad_weight" and route.out_dtype == "float32" else [route.out_dtype]) + [wanted]
        elif output == "grad_input":
            steps = [call.storage_dtype, wanted]
        else:
            grouped = call.conformance == "library" and call.problem.groups > 1 and call.storage_dtype != "float32"
            grouped = grouped and not call.family.layout.plain  # the trap is a TransData's
            steps = (["float16"] if grouped and wanted == "float32" else []) + [wanted]
        steps.insert(len(steps) - 1, call.held_dtype(output))
        return [step for index, step in enumerate(steps) if index == 0 or step != steps[index - 1]]

    def summed(self, output: str) -> str | None:
        return "gradOutput" if output == "grad_bias" else None

    def computed_in(self, call: ConvolutionCall, output: str) -> str:
        """Return the dtype in which a gradient's operands are multiplied: its MatMul route's, else the call's; for the bias
        gradient gradOutput's.
        """
        if output == "grad_bias":
            return call.inputs["grad_output"].dtype
        route = matmul_routes(call).get(output)
        return call.compute_dtype if route is None else route.dtype

    def saturates(self, call: ConvolutionCall, output: str, model: ValueModel) -> bool:
        itemsize = itemsize_in_memory(self.computed_in(call, output))
        return model.saturate or (output == "grad_input" and model.fixpipe_saturates(itemsize))

    def in_problem_order(self, call: ConvolutionCall, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return call.in_problem_order(arrays)

    def formula(
        self, call: ConvolutionCall, output: str, shapes: Mapping[str, tuple[int, ...]], index: tuple[int, ...]
    ) -> Formula:
        return formula(call, output, shapes, index)

    def matrix_product(self, call: ConvolutionCall, output: str) -> MatrixProduct | None:
        return product_of(call, output)

    def cube_call(self, call: ConvolutionCall, chip: ChipSpec, kernel: str) -> CubeCall:
        return cube_call(call, chip, kernel)


class ConvolutionBackward(GradientsOperator[ConvBackwardCall]):
    """Operator aclnnConvolutionBackward; its arguments are in the order of torch's convolution_backward."""

    name = "convolution_backward"
    tensors = INPUTS
    batch_axes: ClassVar[Mapping[str, int]] = {"grad_output": 0, "input": 0}
    attributes = (
        "bias_sizes", "stride", "padding", "dilation", "transposed", "output_padding", "groups", "output_mask",
    )  # fmt: skip
    kinds: ClassVar[Mapping[str, ArgumentKind]] = ATTRIBUTES | {"bias_sizes": SIZES, "output_mask": MASK}
    formats: ClassVar[Mapping[int, str]] = {3: "NCL", 4: "NCHW", 5: "NCDHW"}
    case: ClassVar[type[Case]] = ConvolutionBackwardCase
    rules = RULES
    facts = ConvFacts
    layer_direction: ClassVar[Literal["forward", "backward"] | None] = "backward"

    def arguments(
        self, tensors: Mapping[str, TensorArg | None], attributes: Mapping[str, Any], *, cube_math_type: int, conformance: str
    ) -> ConvBackwardCall:
        """Return the arguments of the call, with outputs made of the inputs' shapes (gradWeight of 8-bit calls is float32); a
        number for stride, padding and the like counts for each axis, and `bias_sizes` None is [channels of gradOutput].

        Outputs that the mask leaves out: gradInput and gradWeight are null in the library's profile only, since the
        documents want pointers whatever the mask; gradBias is null in both.
        """
        dy, data, weight = (tensor for name in INPUTS if (tensor := tensors[name]) is not None)
        channels = dy.shape[1] if len(dy.shape) > 1 else 0
        lists = {name: attributes[name] for name in ("stride", "padding", "dilation", "output_padding")}
        for name, value in lists.items():
            if is_whole_number(value):
                lists[name] = (int(value),) * max(len(weight.shape) - 2, 1)
        given_mask, sizes = attributes["output_mask"], attributes["bias_sizes"]
        mask = None if given_mask is None else tuple(bool(wanted) for wanted in given_mask)
        wanted = (*(mask or ()), False, False, False)
        pointers = conformance != "library"  # the documents want them whatever the mask (ruling 5)
        grad_input = TensorArg(data.shape, data.dtype, data.format)
        grad_weight = TensorArg(weight.shape, "float32" if weight.dtype in EIGHT_BIT else weight.dtype, weight.format)
        return ConvBackwardCall(
            grad_output=dy,
            input=data,
            weight=weight,
            bias_sizes=(channels,) if sizes is None else sizes,
            **lists,
            transposed=bool(attributes["transposed"]),
            groups=int(attributes["groups"]),
            output_mask=mask,
            cube_math_type=int(cube_math_type),
            grad_input=grad_input if wanted[0] or pointers else None,
            grad_weight=grad_weight if wanted[1] or pointers else None,
            grad_bias=TensorArg((channels,), dy.dtype, "ND") if wanted[2] else None,
        )

    def accepted(
        self, arguments: ConvBackwardCall, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings
    ) -> ConvolutionCall:
        normal = normalise(arguments)
        inputs = {name: tensor for name in INPUTS if (tensor := getattr(arguments, name)) is not None}
        mask, product = arguments.output_mask or (), settings.product
        return ConvolutionCall(
            operator=self.name,
            problem=normal.problem,
            forward=normal.transposed,
            rank=normal.rank,
            family=family_of(chip),
            inputs=inputs,
            outputs={
                name: tensor
                for name, wanted in zip(GRADIENTS, mask, strict=True)
                if wanted and (tensor := getattr(arguments, name)) is not None
            },
            compute_dtype=settings.compute_dtype(
                promote(*(tensor.dtype for tensor in inputs.values())), arguments.cube_math_type
            ),
            warnings=warnings,
            routes=frozenset(product.routes),
            kernel_limits=tuple(product.profile(settings.conformance).kernel_limits),
            cube_math_type=arguments.cube_math_type,
            padded=any(normal.declared_padding),
            **settings.fields,
        )

    def shown(self, arguments: ConvBackwardCall) -> dict[str, Any]:
        return {
            "stride": list(arguments.stride or ()),
            "padding": list(arguments.padding or ()),
            "dilation": list(arguments.dilation or ()),
            "groups": arguments.groups,
            "output_mask": list(arguments.output_mask or ()),
        }


OPERATOR = ConvolutionBackward()
