"""Layouts of a call's tensors in GM, with their loads and stores: an object for each tensor."""

from __future__ import annotations

from ascend_sim.ops.layouts.blocked import BlockedMap, FractalZ
from ascend_sim.ops.layouts.channels_last import ChannelsLastFilters, ChannelsLastMap
from ascend_sim.ops.layouts.layout import FeatureMap, Filters, SlottedFilters
from ascend_sim.ops.layouts.planar import PlainFilters, PlanarFilters, PlanarMap
from ascend_sim.ops.problem.layout import BLOCKED, CHANNELS_LAST, PLANAR, Layout
from ascend_sim.ops.problem.tiling_input import TilingInput

MAPS: dict[Layout, type[FeatureMap]] = {BLOCKED: BlockedMap, PLANAR: PlanarMap, CHANNELS_LAST: ChannelsLastMap}
FILTERS = {BLOCKED: FractalZ.of, PLANAR: PlanarFilters, CHANNELS_LAST: ChannelsLastFilters}
"""A new layout is a row in each, and a file with the two classes."""

SUM_ITEMSIZE = 4
"""Bytes of an element of dW, which is fp32 whatever the operands are."""


def x_map(inp: TilingInput) -> FeatureMap:
    """Return the layout of the problem's map x: input, or grad_input."""
    p = inp.problem
    return MAPS[inp.layout](p.c_in, (p.d_in, p.h_in, p.w_in), inp.itemsize)


def y_map(inp: TilingInput) -> FeatureMap:
    """Return the layout of the problem's map y: gradOutput, or the output of a forward convolution."""
    p = inp.problem
    return MAPS[inp.layout](p.c_out, (p.d_out, p.h_out, p.w_out), inp.itemsize)


def weights(inp: TilingInput) -> Filters:
    """Return the layout of the weights, in the compute dtype."""
    return FILTERS[inp.layout](inp, inp.itemsize)


def weight_gradient(inp: TilingInput) -> Filters:
    """Return the layout of dW, in fp32."""
    return FILTERS[inp.layout](inp, SUM_ITEMSIZE)


def slotted_gradient(inp: TilingInput) -> SlottedFilters:
    """Return the layout of dW with slots for shared tasks, for kernels that read maps in blocks of channels."""
    found = weight_gradient(inp)
    assert isinstance(found, SlottedFilters)
    return found


def turned_gradient(inp: TilingInput) -> PlainFilters:
    """Return the layout of dW for kernels that read plain maps, whose vector cores bring sums to the order of dW."""
    found = weight_gradient(inp)
    assert isinstance(found, PlainFilters)
    return found
