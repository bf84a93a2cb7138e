"""One accepted call of an operator that is made of a convolution x -> y."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from numpy.typing import NDArray

from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.checks.product import KernelLimit
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import Family

Array = NDArray[Any]


@frozen
class MapNames:
    """Names of the maps of a data kernel: it reads `read` and computes `made`, which has the size of tensor `like`."""

    read: str
    made: str
    like: str


BACKWARD = MapNames("grad_output", "grad_input", "input")


@frozen(kw_only=True, repr=False)
class ConvolutionCall(AcceptedCall):
    """A call whose problem is the convolution x -> y with the call's weight.

    `forward` is True if the data kernel, which makes `maps.made`, computes y from x (a forward convolution); else it
    computes x from y. `rank` is that of the caller's tensors, `family` the chip's. `routes` names the special kernels
    that the library has on the product. Some of them also depend on `cube_math_type`, kept as given, and on `padded`,
    True if any given padding is not 0. `kernel_limits` are limits of single kernels of the library.

    `axes` (TBC only, else None) lists the caller's axes of a map in the problem's order N, C, ...: (1, 2, 0) with T on
    W; on dav-3510 (2, 0, 1) with T on H and B on W. `inputs` and `outputs` are views in that order, on dav-3510 the
    caller's own. `unread` are strided inputs that the library makes contiguous and never reads. `bias_when_empty` is
    the value of the bias gradient of an empty problem.
    """

    problem: ConvProblem
    forward: bool
    rank: int
    family: Family
    maps: MapNames = BACKWARD
    routes: frozenset[str] = frozenset()
    kernel_limits: tuple[KernelLimit, ...] = ()
    padded: bool = False
    axes: tuple[int, ...] | None = None
    unread: Mapping[str, TensorArg] = field(default_factory=dict)
    bias_when_empty: float = 0.0

    @property
    def channels_last(self) -> bool:
        """Return True for a TBC call on a chip with plain layouts (dav-3510): the cube kernels read and write the caller's
        tensors as they lie, as NDHWC.
        """
        return self.axes is not None and self.family.layout.plain

    @property
    def x(self) -> str:
        """Return the name of the tensor of the shape of input map x: `maps.read` if `forward`, else `maps.like`."""
        return self.maps.read if self.forward else self.maps.like

    @property
    def y(self) -> str:
        """Return the name of the tensor of the shape of output map y: `maps.like` if `forward`, else `maps.read`."""
        return self.maps.like if self.forward else self.maps.read

    def volume(self, name: str) -> tuple[int, int, int, int, int]:
        """Return (N, C, D, H, W) of a map in the 3-D problem: C to W are those of x if `name` is `x`, and of y for every other
        name. An output of the size of x must be asked for by the name of x.

        N is the batch of the call's own input `name`, since maps may have different batches where only the bias gradient is
        wanted. For outputs, and for TBC on dav-3510, it is the problem's.
        """
        p = self.problem
        # Where only the bias gradient is wanted, the library takes two batches that differ.
        n = self.inputs[name].shape[0] if name in self.inputs and not self.channels_last else p.n
        if name == self.x:
            return n, p.c_in, p.d_in, p.h_in, p.w_in
        return n, p.c_out, p.d_out, p.h_out, p.w_out

    @property
    def weight_volume(self) -> tuple[int, int, int, int, int]:
        """Return (C_out, C_in of a group, kD, kH, kW) of the weight in the 3-D problem. C_out is the weight's first axis; in a
        transposed call that has the channels of the call's input.
        """
        p = self.problem
        return p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w

    @property
    def empty(self) -> bool:
        """Return True if an input has a dimension of 0, so that no product is computed."""
        return any(tensor.is_empty for tensor in self.inputs.values())

    def held_dtype(self, output: str) -> str:
        """Return the dtype in which a contiguous result is held before it goes to the caller's tensor: that tensor's own dtype.

        Only TBC of the released library keeps dInput and dWeight in the dtypes of input and weight, whatever the
        caller's tensors have (ops-nn op_api of conv_tbc: stated).
        """
        if self.axes is None or self.conformance != "library" or output == "grad_bias":
            return self.outputs[output].dtype
        return self.inputs[output.removeprefix("grad_")].dtype

    def in_problem_order(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return name -> the caller's array, or a view of it with its axes in the order of the problem (only TBC has another
        order).
        """
        if self.axes is None:
            return dict(arrays)
        return {name: _reordered(name, array, self.axes) for name, array in arrays.items()}


def _reordered(name: str, array: Array, axes: tuple[int, ...]) -> Array:
    """Return a view of a TBC array in the order of the problem: a feature map by `axes`, a weight reversed, a bias as it is."""
    if array.ndim == 1:
        return array
    return array.transpose() if name in ("weight", "grad_weight") else array.transpose(axes)
