"""Problems for which the 910B's library has tilings of its own: configs/exact_shapes_910b.yaml, looked up by exact match."""

from __future__ import annotations

from functools import cache
from importlib import resources

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.yaml_file import load_shipped

Key = tuple[object, ...]


@cache
def exact_shapes() -> frozenset[Key]:
    """All of them, as `has_exact_shape` asks for one."""
    text = resources.files("ascend_sim.configs").joinpath("exact_shapes_910b.yaml").read_text(encoding="utf-8")
    sizes = ("blocks", "input", "output", "window", "stride", "dilation", "padding")
    return frozenset(
        (row["kernel"], row["soc"], row["itemsize"], row["images"], *(tuple(row[name]) for name in sizes))
        for row in load_shipped(text)["rows"]
    )


def has_exact_shape(kernel: str, inp: TilingInput, chip: ChipSpec | None) -> bool:
    """Whether the library has a tiling of its own for this problem of "grad_input" or "grad_weight"."""
    p = inp.problem
    if chip is None or p.groups > 1:
        return False
    sizes = (
        (ceil_div(p.c_in, inp.c0), ceil_div(p.c_out, inp.c0)),
        (p.d_in, p.h_in, p.w_in),
        (p.d_out, p.h_out, p.w_out),
        (p.k_d, p.k_h, p.k_w),
        (p.stride_d, p.stride_h, p.stride_w),
        (p.dilation_d, p.dilation_h, p.dilation_w),
        (p.pad_front, p.pad_back, p.pad_up, p.pad_down, p.pad_left, p.pad_right),
    )
    return (kernel, chip.identity.soc, inp.itemsize, p.n, *sizes) in exact_shapes()
