"""The vendor's procedures for grad_input: an architecture's is a file here, a row below, a name in configs/tilings.yaml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.procedures.dav_1001 import covers_grad_input_1001, vendor_grad_input_1001
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import covers_grad_input, vendor_grad_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import reads_its_layout, vendor_grad_input_3510
from ascend_sim.ops.problem.tiling_input import TilingInput


class Procedure(NamedTuple):
    """Whether a procedure decides a problem, and what it decides (TilingError where the vendor refuses)."""

    covers: Callable[[TilingInput], bool]
    decide: Callable[[TilingInput], GradInputTiling]


PROCEDURES: Mapping[str, Procedure] = {
    "cache_tiling": Procedure(covers_grad_input_1001, vendor_grad_input_1001),
    "basic_block": Procedure(covers_grad_input, vendor_grad_input),
    "inner_product": Procedure(reads_its_layout, vendor_grad_input_3510),
}
"""By the names of configs/tilings.yaml."""
