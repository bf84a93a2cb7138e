"""Choice of the layouts of a call's tensors in GM: one object for each tensor, with its loads and stores."""

from __future__ import annotations

from ascend_sim.ops.layouts.blocked import BlockedMap, FractalZ
from ascend_sim.ops.layouts.channels_last import ChannelsLastFilters, ChannelsLastMap
from ascend_sim.ops.layouts.layout import FeatureMap, Filters, SlottedFilters
from ascend_sim.ops.layouts.planar import PlainFilters, PlanarFilters, PlanarMap
from ascend_sim.ops.problem.layout import BLOCKED, CHANNELS_LAST, PLANAR, Layout
from ascend_sim.ops.problem.tiling_input import TilingInput

MAPS: dict[Layout, type[FeatureMap]] = {BLOCKED: BlockedMap, PLANAR: PlanarMap, CHANNELS_LAST: ChannelsLastMap}
FILTERS = {BLOCKED: FractalZ.of, PLANAR: PlanarFilters, CHANNELS_LAST: ChannelsLastFilters}
"""Class of weights (or dW) for each layout; a new layout is a row in MAPS and one here, and a file with the two classes."""

SUM_ITEMSIZE = 4
"""Bytes of an element of dW, which is fp32 whatever the operands are."""


def x_map(inp: TilingInput) -> FeatureMap:
    """Return the layout of the problem's map x: input or grad_input; of a transposed call its (grad) output."""
    p = inp.problem
    return MAPS[inp.layout](p.c_in, (p.d_in, p.h_in, p.w_in), inp.itemsize)


def y_map(inp: TilingInput) -> FeatureMap:
    """Return the layout of the problem's map y: the (grad) output; of a transposed call input or grad_input."""
    p = inp.problem
    return MAPS[inp.layout](p.c_out, (p.d_out, p.h_out, p.w_out), inp.itemsize)


def weights(inp: TilingInput) -> Filters:
    """Return the layout of the weights, in the compute dtype."""
    return FILTERS[inp.layout](inp, inp.itemsize)


def weight_gradient(inp: TilingInput) -> Filters:
    """Return the layout of dW, in fp32."""
    return FILTERS[inp.layout](inp, SUM_ITEMSIZE)


def slotted_gradient(inp: TilingInput) -> SlottedFilters:
    """Return the layout of dW in fp32 with workspace slots for shared tasks; only for blocked layouts (FRACTAL_Z)."""
    found = weight_gradient(inp)
    assert isinstance(found, SlottedFilters)
    return found


def turned_gradient(inp: TilingInput) -> PlainFilters:
    """Return the layout of dW in fp32, only for plain layouts, where vector cores bring a tile's sums into the order of dW."""
    found = weight_gradient(inp)
    assert isinstance(found, PlainFilters)
    return found
