"""Capacity of L0 and L1, and the limits of load3d: formulas and checks that both kernels of convolution backward share.

L0: operand block times buffers; L0C holds fp32 (stated). The largest values of load3d's fields are in the chip file
(load3d.limits).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from typing import TypeVar

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.problem.sizes import ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput


def l0_bytes(tiling: ConvTiling, inp: TilingInput) -> dict[str, int]:
    """Return buffer name (L0A, L0B, L0C) -> bytes that all buffers of a tiling take, with base_k rounded up to its unit."""
    base_k = ceil_to(tiling.base_k, tiling.k_unit(inp))
    return {
        "L0A": tiling.base_m * base_k * inp.itemsize * tiling.al0_buffers,
        "L0B": base_k * tiling.base_n * inp.itemsize * tiling.bl0_buffers,
        "L0C": tiling.base_m * tiling.base_n * ACCUMULATOR_BYTES * tiling.cl0_buffers,
    }


def fits_l0(tiling: ConvTiling, inp: TilingInput) -> bool:
    """Return True if L0A, L0B and L0C hold a base block in as many buffers as the tiling has there."""
    return all(used <= inp.buffers[name] for name, used in l0_bytes(tiling, inp).items())


def l0_base_k(tiling: ConvTiling, inp: TilingInput) -> int:
    """Return the longest base_k, a multiple of `k_unit`, that L0A and L0B hold beside the tiling's base_m and base_n; one unit
    at least, even if that does not fit.
    """
    unit = tiling.k_unit(inp)
    a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize // tiling.base_m
    b = inp.buffers["L0B"] // tiling.bl0_buffers // inp.itemsize // tiling.base_n
    return floor_to(min(a, b), unit)


BLOCK = ("base_m", "base_k", "base_n")
T = TypeVar("T", bound=ConvTiling)
_BASES, _STEPS = ([name for name in ConvTiling.VENDOR if name.startswith(kind)] for kind in ("base_", "step_"))
_BUFFERS = [name for name in ConvTiling.VENDOR if name.endswith("_buffers")]


def check_block(tiling: ConvTiling, inp: TilingInput) -> None:
    """Raise TilingError where a side of the base block is not a positive multiple of its unit, a step or block_dim is below 1,
    a number of buffers is not 1 or 2, or L0 cannot hold the block.
    """
    names = type(tiling).VENDOR
    for name in _BASES:
        value = getattr(tiling, name)
        # Pixels are what no load turns.
        unit = FRACTAL if name == tiling.PIXELS else tiling.k_unit(inp) if name == "base_k" else inp.unit
        if value < 1 or value % unit:
            side = "a cube fractal" if unit <= FRACTAL else "the squares that turn 8-bit operands"
            raise TilingError(f"{names[name]} = {value} is not a positive multiple of {unit}, the side of {side}")
    for name in _STEPS:
        if getattr(tiling, name) < 1:
            raise TilingError(f"{names[name]} = {getattr(tiling, name)}; allowed 1 or more")
    for name in _BUFFERS:
        if getattr(tiling, name) not in (1, 2):
            raise TilingError(f"{names[name]} = {getattr(tiling, name)}; allowed 1 (single) or 2 (ping-pong)")
    if tiling.block_dim < 1:
        raise TilingError(f"{names['block_dim']} = {tiling.block_dim}; allowed 1 or more")
    over = next((name for name, used in l0_bytes(tiling, inp).items() if used > inp.buffers[name]), None)
    if over is not None:
        raise _overflow(over, tiling, inp)


def _overflow(name: str, tiling: ConvTiling, inp: TilingInput) -> TilingError:
    """Return the TilingError for a tiling that takes more than L0 buffer `name` has, with the product of its fields, base_k
    rounded up as in `l0_bytes`.
    """
    base_k = ceil_to(tiling.base_k, tiling.k_unit(inp))
    sizes = {
        "L0A": ("baseM*baseK", (tiling.base_m, base_k, inp.itemsize), "al0Pbuffer", tiling.al0_buffers),
        "L0B": ("baseK*baseN", (base_k, tiling.base_n, inp.itemsize), "bl0Pbuffer", tiling.bl0_buffers),
        "L0C": ("baseM*baseN", (tiling.base_m, tiling.base_n, ACCUMULATOR_BYTES), "cl0Pbuffer", tiling.cl0_buffers),
    }
    block, (x, y, item), buffer_name, count = sizes[name]
    return TilingError(
        f"{name}: {block}*{item}*{buffer_name} = {x}*{y}*{item}*{count} = {x * y * item * count} > {inp.buffers[name]} bytes"
    )


def check_steps(tiling: ConvTiling) -> None:
    """Raise TilingError unless one of step_ka and step_kb is a multiple of the other."""
    low, high = sorted((tiling.step_ka, tiling.step_kb))
    if high % low:
        raise TilingError(f"stepKa = {tiling.step_ka} and stepKb = {tiling.step_kb}: one must be a multiple of the other")


def check_l1(used: tuple[int, int], inp: TilingInput, words: Callable[[], tuple[str, str]]) -> None:
    """Raise TilingError if `used`, the bytes of (A1, B1), exceed L1 together, with a text for each that `words` returns."""
    if sum(used) > inp.buffers["L1"]:
        a1, b1 = words()
        raise TilingError(f"L1: {a1} = {used[0]}; {b1} = {used[1]}; sum {sum(used)} > {inp.buffers['L1']} bytes")


def check_load3d_k(name: str, extent: int, inp: TilingInput) -> None:
    """Raise TilingError if `extent`, which the message calls `name`, is more than load3d's K field can hold."""
    if extent > inp.load3d.k_extent:
        raise TilingError(f"load3d: {name} = {extent} > {inp.load3d.k_extent}, the limit of its k extent")


def check_load3d(inp: TilingInput, pads: dict[str, int], *, strides: bool = True, then: str = "") -> None:
    """Raise TilingError where a field of load3d cannot hold its value: kernel, dilation, stride and `pads` (negative
    ones pass: loads to L1 crop).

    Without `strides` load3d steps from pixel to pixel, whatever the strides of the problem. `then` ends the message.
    """
    p, limits = inp.problem, inp.load3d
    fields = [
        (limits.kernel, {"kernel h": p.k_h, "kernel w": p.k_w}),
        (limits.dilation, {"dilation h": p.dilation_h, "dilation w": p.dilation_w}),
        (limits.pad, pads),
        (limits.stride, {"stride h": p.stride_h, "stride w": p.stride_w} if strides else {}),
    ]
    for most, values in fields:
        for name, value in values.items():
            if value > most:
                raise TilingError(f"load3d: {name} = {value} > {most}{then}")


def refit_block(
    tiling: T, inp: TilingInput, given: Mapping[str, int], aligned: Callable[[int, TilingInput], int] | None = None
) -> T:
    """Return the tiling itself if it fits L0; else with base_n (or base_m, if base_n is given) lowered to what L0C holds, then
    base_k to what L0A and L0B hold.

    `given` fields stay, so it may still not fit. `aligned` lowers base_k to a value that the kernel takes.
    """
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
    """Yield (buffers of A, buffers of B) in L1, in the order (2, 2), (2, 1), (1, 2), (1, 1).

    "al1_buffers" in `given` keeps the tiling's count for A, "bl1_buffers" that for B; other names are ignored.
    """
    a = (tiling.al1_buffers,) if "al1_buffers" in given else (2, 1)
    b = (tiling.bl1_buffers,) if "bl1_buffers" in given else (2, 1)
    yield from product(a, b)
