"""Elements for which a kernel may multiply a padding zero by an infinity or NaN, which the definition does not.

Kernels multiply matrices: a row of an im2col matrix (a position) by a column of the other operand (a channel). The row holds
zeros wherever the window meets padding or the gaps of a stride, the depth of both is filled up with zeros, and several groups
in one block have zeros between them. So a zero meets an infinity where the row or the column holds one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.convolution.call import ConvolutionCall

Mask = NDArray[np.bool_]


def zeros_of_a_map(call: ConvolutionCall, weight: Mask, met: Mask) -> Mask:
    """Return a mask of the data kernel's output, broadcastable to `met`: True where a kernel may multiply a zero by an
    infinity or NaN.

    `weight` marks the infinities and NaN of the weight; an output channel whose weights hold one is True everywhere.
    `met` marks the output elements with an infinity or NaN in a product of their own. With several groups each such
    position is True for all channels, since kernels multiply the numbers of one group by zeros for the others.
    """
    p = call.problem
    by_group = weight.reshape(p.groups, p.c_out // p.groups, p.c_in // p.groups, -1)
    channels = by_group.any(axis=(2, 3) if call.forward else (1, 3)).reshape(1, -1, 1, 1, 1)
    return channels | met.any(axis=1, keepdims=True) if p.groups > 1 else channels


def zeros_of_a_weight(call: ConvolutionCall, special: Mapping[str, Mask]) -> Mask:
    """Return a mask of dW [C_out, C_in of a group, 1, 1, 1]: True for an output or input channel whose map holds an
    infinity or NaN.

    `special` marks the infinities and NaN of both maps by name.
    """
    p = call.problem
    axes = (0, 2, 3, 4)
    filters, channels = (special[name].reshape(call.volume(name)).any(axis=axes) for name in (call.y, call.x))
    own = np.repeat(channels.reshape(p.groups, -1), p.c_out // p.groups, axis=0)
    either: Mask = filters.reshape(-1, 1) | own
    return either.reshape(*either.shape, 1, 1, 1)
