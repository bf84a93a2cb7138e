"""The vendor's procedures for grad_weight: each is a file here that ends in a PROCEDURE; configs/tilings.yaml names it."""

from __future__ import annotations

from importlib import import_module

from ascend_sim.ops.kernels.cube.procedures import Procedure
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling


def procedure_named(name: str | None) -> Procedure[GradWeightTiling] | None:
    """The procedure in the file of that name; None where an architecture has none."""
    if name is None:
        return None
    found: Procedure[GradWeightTiling] = import_module(f"{__name__}.{name}").PROCEDURE
    return found
