"""Steps common to all plans: copies, casts, fills, the bias gradient and the conversion to the caller's tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ascend_sim.chip import ChipSpec
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import KernelWork, Loop
from ascend_sim.ops.kernels.vector.mem_set import mem_set_work
from ascend_sim.ops.kernels.vector.reduce_sum import reduce_sum_work
from ascend_sim.ops.kernels.vector.transpose import as_turn, transpose_work
from ascend_sim.ops.kernels.vector.view_copy import StridedCopy, view_copy_work
from ascend_sim.ops.plan import Plan
from ascend_sim.ops.problem.layout import CHANNELS_LAST
from ascend_sim.ops.problem.tiling_input import TilingInput

PLAIN = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


class PlanDraft:
    """A plan under construction; `result` is the Plan so far. Methods take and return tensors by their names in it."""

    def __init__(self, call: ConvolutionCall, chip: ChipSpec) -> None:
        self.call, self.chip, self.p, self.maps = call, chip, call.problem, call.maps
        self.result = Plan()
        self.storage = call.storage_dtype
        self.itemsize = int(numpy_dtype(self.storage).itemsize)
        self.inp = TilingInput(
            self.p,
            self.itemsize,
            chip.cores.aic,
            {str(b): size for b, size in chip.buffers.items()},
            chip.memory.l2_bytes,
            call.deterministic,
            CHANNELS_LAST if call.channels_last else call.family.layout,
            load3d=chip.load3d.limits,
            family=call.family,
        )
        self.plain = "ND" if call.channels_last else PLAIN[call.rank]
        for name, tensor in call.inputs.items():
            role = "input" if self.matters(name) else "spare"
            self.result.tensor(name, tensor.dtype, tensor.format, storage_bytes(tensor), role)
        for name, tensor in call.outputs.items():
            self.result.tensor(name, tensor.dtype, tensor.format, storage_bytes(tensor), "output")

    def matters(self, name: str) -> bool:
        """Return True if a result may depend on the values of input `name`; an input that does not matter has the role
        "spare" in the plan.

        A bias, and gradOutput of a bias gradient, always matter; other inputs do unless every kernel plane lies in padding.
        """
        summed = name == "bias" or (name == "grad_output" and "grad_bias" in self.call.outputs)
        return summed or self.p.plane_products > 0

    def launch(
        self, op_type: str, name: str, inputs: Sequence[str], outputs: Sequence[str], work: KernelWork | partial[Loop]
    ) -> None:
        """Append the launch of a kernel's work, with the call's disarmed flags for this name."""
        self.result.add(op_type, name, inputs, outputs, work, disarm=self.call.disarm.get(name, ()))

    def zeros(self) -> None:
        """Append the fills of an empty problem's results: gradients with zeros, the bias gradient with
        `bias_when_empty` (TBC: B * T_out).

        Results without elements are left out. A view of a part of its storage is filled in an intermediate and copied.
        """
        for output, tensor in self.call.outputs.items():
            if tensor.is_empty:
                continue
            value = self.call.bias_when_empty if output == "grad_bias" else 0.0
            size = tensor.size * int(numpy_dtype(tensor.dtype).itemsize)
            # A view that leaves out parts of its memory must not fill them.
            whole = size == self.result.tensors[output].size
            target = output if whole else self.landing(output, tensor.dtype)
            self.filled(target, tensor.dtype, size, value)
            if target != output:
                self.view_copy(target, TensorArg(tensor.shape, tensor.dtype), output, tensor, tensor.dtype)

    def filled(self, output: str, dtype: str, size: int, value: float) -> None:
        """Append a fill of the first `size` bytes of tensor `output` with `value` in `dtype`: ZerosLike for 0, else Fill."""
        op_type = "Fill" if value else "ZerosLike"
        name = f"{op_type}_{output}"
        self.launch(op_type, name, [], [output], mem_set_work(self.chip, size, name, dtype=dtype, value=value))

    def cleared(self, target: str, name: str, size: int | None = None) -> None:
        """Append a MemSet `name` that fills tensor `target`, or its first `size` bytes, with zero bytes."""
        count = self.result.tensors[target].size if size is None else size
        self.launch("MemSet", name, [], [target], mem_set_work(self.chip, count, name))

    def contiguous(self, name: str) -> str:
        """Return the name of an input if it is contiguous from offset 0; else append a contiguous copy, at each call, and
        return its name.
        """
        tensor = self.call.inputs[name]
        if tensor.is_contiguous and not tensor.offset:
            return name
        return self.view_copy(name, tensor, f"{name}.contiguous", None, self.result.tensors[name].dtype)

    def unread_copy(self, name: str) -> None:
        """Append the library's contiguous copy of an input of `call.unread`; no kernel reads the copy, but it costs time and
        workspace.
        """
        view, dtype = self.call.unread[name], self.result.tensors[name].dtype
        itemsize, contiguous = int(numpy_dtype(dtype).itemsize), contiguous_strides(view.shape)
        target = self.result.tensor(f"{name}.unread", dtype, view.format, view.size * itemsize)
        copy = StridedCopy(view.shape, view.strides or contiguous, contiguous, itemsize, view.offset)
        self.strided_copy("ViewCopy", name, target, copy)

    def view_copy(self, source: str, view: TensorArg, target: str, target_view: TensorArg | None, dtype: str) -> str:
        """Append a strided copy and return `target`.

        It goes from `view` of `source` to a new contiguous tensor `target` or, with `target_view`, from all of the
        contiguous `source` to that view of `target`.
        """
        itemsize = int(numpy_dtype(dtype).itemsize)
        contiguous = contiguous_strides(view.shape)
        if target_view is None:
            self.result.tensor(target, dtype, self.plain, math.prod(view.shape) * itemsize)
        dst, at = (None, 0) if target_view is None else (target_view.strides, target_view.offset)
        start = view.offset if target_view is None else 0
        followed = target_view is not None and end_of(target_view) < storage_bytes(target_view)
        copy = StridedCopy(view.shape, view.strides or contiguous, dst or contiguous, itemsize, start, at, followed)
        op_type = "Transpose" if self.call.axes and not self.call.channels_last else "ViewCopy"
        self.strided_copy(op_type, source, target, copy)
        return target

    def strided_copy(self, op_type: str, source: str, target: str, copy: StridedCopy) -> None:
        """Append a strided copy from `source` to `target` as a launch of `op_type`, by the Transpose kernel where that can make
        the copy, else by ViewCopy's.
        """
        name, turn = f"{op_type}_{target}", as_turn(copy)
        if turn is None:
            self.launch(op_type, name, [source], [target], view_copy_work(self.chip, copy, name))
        else:
            self.launch(op_type, name, [source], [target], partial(transpose_work, self.chip, turn, copy.itemsize))

    def cast(self, source: str, dtype: str, target: str, count: int | None = None) -> str:
        """Append a Cast of the first `count` elements (None: all) of `source` to tensor `target`, which is added unless the
        plan has it, and return `target`; return `source` and append nothing if it has `dtype` already.
        """
        before = self.result.tensors[source]
        if before.dtype == dtype:
            return source
        count = before.size // int(numpy_dtype(before.dtype).itemsize) if count is None else count
        if target not in self.result.tensors:
            self.result.tensor(target, dtype, before.format, count * int(numpy_dtype(dtype).itemsize))
        name = f"Cast_{target}"
        self.launch("Cast", name, [source], [target], cast_work(self.chip, count, before.dtype, dtype, name))
        return target

    def cast_input(self, source: str, name: str, dtype: str) -> str:
        """Return the name of a tensor that holds input `name` in `dtype`: `source` itself if it has that dtype, else its Cast.

        `source` is the contiguous input. A Cast to the same dtype is appended once and used again.
        """
        target = f"{name}.cast" if dtype == self.storage else f"{name}.{dtype}"
        return target if target in self.result.tensors else self.cast(source, dtype, target)

    def deliver(self, source: str, output: str) -> None:
        """Append the steps from the contiguous result `source` to the caller's output: Cast (first to the dtype in which it is
        held) and, for a strided tensor, ViewCopy. Nothing is appended for a contiguous output whose dtype `source` has: it must
        be the output itself, as `landing` sees to.
        """
        tensor = self.call.outputs[output]
        if (held := self.call.held_dtype(output)) != tensor.dtype:
            source = self.cast(source, held, f"{output}.held")
        if self.takes_stores(tensor):
            self.cast(source, tensor.dtype, output)
            return
        source = self.cast(source, tensor.dtype, f"{output}.cast")
        self.view_copy(source, TensorArg(tensor.shape, tensor.dtype), output, tensor, tensor.dtype)

    def landing(self, output: str, dtype: str) -> str:
        """Return the name of the tensor for a kernel's contiguous result of `dtype`: the caller's if it is contiguous
        and holds the result in that dtype, else a new intermediate.
        """
        tensor = self.call.outputs[output]
        in_place = tensor.dtype == dtype == self.call.held_dtype(output)
        if in_place and self.takes_stores(tensor):
            return output
        size = math.prod(tensor.shape) * int(numpy_dtype(dtype).itemsize)
        return self.result.tensor(f"{output}.{self.plain}", dtype, self.plain, size)

    def takes_stores(self, tensor: TensorArg) -> bool:
        """Return True if a kernel can store its contiguous result in the caller's tensor: contiguous, from offset 0, and, where
        copies count whole blocks and so write behind it, to the end of its storage.
        """
        follow = copies_whole_blocks(self.chip) and end_of(tensor) < storage_bytes(tensor)
        return tensor.is_contiguous and not tensor.offset and not follow

    def feature(self, name: str) -> tuple[int, int, int, int]:
        """Return (N, C, D, H*W) of feature map `name` in the 3-D problem."""
        n, c, d, h, w = self.call.volume(name)
        return n, c, d, h * w

    def bias(self, grad_output: str) -> None:
        """Append the bias gradient: ReduceSum of tensor `grad_output` over all axes but the channels, in its own dtype, and the
        steps to the caller's tensor.
        """
        n, c, d, hw = self.feature("grad_output")
        if self.call.channels_last:  # [pixels, C], of which each row is an image of one pixel
            n, d, hw = n * d * hw, 1, 1
        dtype = self.result.tensors[grad_output].dtype
        target = self.landing("grad_bias", dtype)
        name = "ReduceSum_grad_bias"
        work = partial(reduce_sum_work, self.chip, (n, c, d * hw), dtype, name)
        self.launch("ReduceSum", name, [grad_output], [target], work)
        self.deliver(target, "grad_bias")


def storage_bytes(tensor: TensorArg) -> int:
    """Return the bytes of the memory behind a caller's tensor, of its whole storage if it is a view."""
    shape = tensor.shape if tensor.storage_shape is None else tensor.storage_shape
    return math.prod(shape) * int(numpy_dtype(tensor.dtype).itemsize)


def end_of(tensor: TensorArg) -> int:
    """Return the byte of the storage behind the last element of a tensor that is not empty."""
    strides = tensor.strides or contiguous_strides(tensor.shape)
    last = sum((size - 1) * max(stride, 0) for size, stride in zip(tensor.shape, strides, strict=True))
    return (tensor.offset + last + 1) * int(numpy_dtype(tensor.dtype).itemsize)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a contiguous row-major tensor of `shape`."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
