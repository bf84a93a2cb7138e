"""A simulation whose convolutions take 8-bit tensors: what PyTorch computes in float32 is rounded on the way to the chip.

The released library computes one gradient a call from 8-bit tensors, grad_input in their format and grad_weight in float32
(rule eight_bit.one_gradient), and no bias; so a backward call is two calls here, and PyTorch adds and sums the bias itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.calls.torch_tensors import array_of
from ascend_sim.errors import SimError
from ascend_sim.numerics import decode, encode
from ascend_sim.torch.calls import Call
from ascend_sim.torch.options import SimulateOptions
from ascend_sim.torch.outcome import CallOutcome, CallSettings, simulate_call
from ascend_sim.torch.simulation import Simulation

Array = NDArray[Any]


class EightBitSimulation(Simulation):
    """Simulation in mode "functional" that rounds a convolution's tensors, except the bias, to `format` ("hifloat8" or
    "float8_e4m3fn").

    The bias is added in float32, and its gradient stays PyTorch's. Results are decoded to float32. Other operators, and calls
    that the operator refuses, raise SimError.
    """

    def __init__(self, format: str, options: SimulateOptions) -> None:
        super().__init__(None, options)
        self._format = format
        self._eight_bit = CallSettings(self.settings.chip, {**self.settings.options, "dtypes": format})  # type: ignore[typeddict-unknown-key]

    def _run(self, call: Call, tensors: Mapping[str, Any]) -> tuple[CallOutcome, dict[str, Array], dict[str, Array]]:
        if call.operator not in ("convolution", "convolution_backward"):
            raise SimError(f"{self._format}: {call.operator} is not computed in 8 bits; convolutions are")
        arrays = {name: array_of(one).astype(np.float32) for name, one in tensors.items() if one is not None}
        codes = {name: encode(array, self._format) for name, array in arrays.items() if name != "bias"}
        named, outcome = call.named, CallOutcome(0)
        outputs: dict[str, Array] = {}
        for part in _parts(named.get("output_mask")):
            specs = {name: TensorSpec(codes[name].shape, self._format) if name in codes else None for name in call.given}
            attributes = {**named, "output_mask": part} if part else named
            asked = replace(call, tensors=tuple(specs.items()), attributes=tuple(attributes.items()))
            outcome, made = simulate_call(asked, self._eight_bit, codes, strict=True, kept=self._kept)
            outputs |= made
        outputs = {name: decode(one, self._format) if one.dtype == np.uint8 else one for name, one in outputs.items()}
        if "bias" in arrays:
            axes = outputs["output"].ndim - 2
            outputs["output"] = outputs["output"] + arrays["bias"].reshape(-1, *(1,) * axes)
        return outcome, outputs, {}


def _parts(mask: tuple[bool, bool, bool] | None) -> list[tuple[bool, bool, bool] | None]:
    """Return the output masks of the calls that replace a backward call: grad_input alone, grad_weight alone, as far as `mask`
    asks for them.

    For a forward call (mask None) return [None].
    """
    if mask is None:
        return [None]
    return [(number == 0, number == 1, False) for number, wanted in enumerate(mask[:2]) if wanted]
