"""The vendor's open procedures, found by their names in `configs/tilings.yaml`, and blocks with fields of the user's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, Generic, NamedTuple, TypeVar

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES
from ascend_sim.ops.kernels.cube.capacity import fits_l0, l0_base_k
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.problem.sizes import floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.yaml_file import load_shipped

T = TypeVar("T", bound=ConvTiling)

BLOCK = ("base_m", "base_k", "base_n")


class Procedure(NamedTuple, Generic[T]):
    """Whether a procedure decides a problem, and what it decides on a chip (TilingError where the vendor refuses)."""

    covers: Callable[[TilingInput], bool]
    decide: Callable[[TilingInput, ChipSpec | None], T]


@cache
def open_procedures() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Architecture -> kernel -> name and source of the vendor's open procedure, and numbers of its own."""
    text = resources.files("ascend_sim.configs").joinpath("tilings.yaml").read_text()
    found: Mapping[str, Mapping[str, Mapping[str, Any]]] = load_shipped(text)
    return found


def procedure_for(chip: ChipSpec | None, kernel: str) -> str | None:
    """The name of the open procedure for a kernel, which is that of its file; None where there is none."""
    if chip is None:
        return "dav_2201"
    return open_procedures().get(chip.identity.arch, {}).get(kernel, {}).get("procedure")


def refit_block(
    tiling: T, inp: TilingInput, given: Mapping[str, int], aligned: Callable[[int, TilingInput], int] | None = None
) -> T:
    """Lower the block fields that were not given until L0 holds the block; `aligned` makes a base_k one that a kernel takes."""
    if fits_l0(tiling, inp):
        return tiling
    tile = inp.buffers["L0C"] // ACCUMULATOR_BYTES // tiling.cl0_buffers
    if "base_n" not in given:
        tiling = tiling.but(base_n=min(tiling.base_n, floor_to(tile // tiling.base_m, inp.unit)))
    elif "base_m" not in given:
        tiling = tiling.but(base_m=min(tiling.base_m, floor_to(tile // tiling.base_n, inp.unit)))
    if "base_k" not in given:
        limit = min(tiling.base_k, l0_base_k(tiling, inp))
        tiling = tiling.but(base_k=aligned(limit, inp) if aligned else limit)
    return tiling


def buffer_counts(tiling: ConvTiling, given: Collection[str] = ()) -> Iterator[tuple[int, int]]:
    """L1 buffer counts (A, B) from ping-pong of both to none; counts named in `given` stay."""
    a = (tiling.al1_buffers,) if "al1_buffers" in given else (2, 1)
    b = (tiling.bl1_buffers,) if "bl1_buffers" in given else (2, 1)
    yield from product(a, b)
