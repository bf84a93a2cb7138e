"""The vendor's procedures for grad_weight: an architecture's is a file here, a row below, a name in configs/tilings.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import covers_grad_weight, vendor_grad_weight
from ascend_sim.ops.kernels.grad_weight.procedures.dav_3510 import covers_grad_weight_3510, vendor_grad_weight_3510
from ascend_sim.ops.problem.tiling_input import TilingInput


class Procedure(NamedTuple):
    """Whether a procedure decides a problem, and what it decides (TilingError where the vendor refuses)."""

    covers: Callable[[TilingInput], bool]
    decide: Callable[[TilingInput], GradWeightTiling]


PROCEDURES: Mapping[str, Procedure] = {
    "basic_block": Procedure(covers_grad_weight, vendor_grad_weight),
    "stream_k": Procedure(covers_grad_weight_3510, vendor_grad_weight_3510),
}
"""By the names of configs/tilings.yaml."""
