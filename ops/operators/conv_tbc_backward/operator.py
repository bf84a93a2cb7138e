"""The backward of a convolution over time as an entry of the register."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.arguments import TensorArg, dtype_name
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kinds import NUMBER, ArgumentKind, or_none
from ascend_sim.ops.operator import Settings
from ascend_sim.ops.operators.conv_tbc_backward.accept import accepted
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.conv_tbc_backward.case import ConvTbcBackwardCase
from ascend_sim.ops.operators.conv_tbc_backward.checks import RULES, TbcFacts
from ascend_sim.ops.operators.convolution_backward.operator import GradientsOperator
from ascend_sim.ops.problem.family import family_of
from ascend_sim.ops.status import Status


class ConvTbcBackward(GradientsOperator[ConvTbcCall]):
    """Operator aclnnConvTbcBackward, on tensors [T, B, C]."""

    name = "conv_tbc_backward"
    tensors = ("self", "input", "weight", "bias")
    batch_axes: ClassVar[Mapping[str, int]] = {"self": 1, "input": 1}
    attributes = ("pad", "grad_weight_dtype")
    kinds: ClassVar[Mapping[str, ArgumentKind]] = {
        "pad": NUMBER,
        "grad_weight_dtype": ArgumentKind(
            "a dtype's name or None", or_none(lambda value: isinstance(value, str | type | np.dtype))
        ),
    }
    names: ClassVar[Mapping[str, str]] = {"self": "grad_output"}
    case: ClassVar[type[Case]] = ConvTbcBackwardCase
    rules = RULES
    facts = TbcFacts
    layer_direction: ClassVar[Literal["forward", "backward"] | None] = "backward"
    layer_kind = "conv_tbc"

    def arguments(
        self, tensors: Mapping[str, TensorArg | None], attributes: Mapping[str, Any], *, cube_math_type: int, conformance: str
    ) -> ConvTbcCall:
        grad_output, data, weight, bias = (tensor for name in self.tensors if (tensor := tensors[name]) is not None)
        wanted = attributes["grad_weight_dtype"]
        return ConvTbcCall(
            grad_output,
            data,
            weight,
            bias,
            int(attributes["pad"]),
            int(cube_math_type),
            TensorArg(data.shape, data.dtype),
            TensorArg(weight.shape, weight.dtype if wanted is None else dtype_name(wanted)),
            TensorArg(bias.shape, bias.dtype),
        )

    def accepted(
        self, arguments: ConvTbcCall, chip: ChipSpec, warnings: tuple[str, ...], settings: Settings
    ) -> ConvolutionCall:
        return accepted(self.name, arguments, family_of(chip), warnings, settings)

    def failure_status(self, conformance: str) -> int:
        """Return the status of a call that passes the checks but has no plan: in the library's profile that of a null
        pointer (ops-nn op_api: stated), else the default.
        """
        return Status.PARAM_NULLPTR if conformance == "library" else super().failure_status(conformance)

    def shown(self, arguments: ConvTbcCall) -> dict[str, Any]:
        return {"pad": arguments.pad}

    def macs(self, call: ConvolutionCall) -> dict[str, int]:
        return {} if call.empty else dict.fromkeys(self.cube_kernels, call.problem.macs)


OPERATOR = ConvTbcBackward()
