"""The operators in two phases: GetWorkspaceSize checks and plans, the second call queues the plan's kernels on a stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.contexts import deterministic
from ascend_sim.acl.device import AclDevice, MemoryUse, Queued
from ascend_sim.acl.memory import ByteRange, integer
from ascend_sim.acl.state import PROCESS, call, device
from ascend_sim.acl.streams import stream_of
from ascend_sim.acl.tensors import aclBoolArray, aclIntArray, aclTensor, check_storage, known
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.frozen import mutable
from ascend_sim.memory.gm import room_of
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.execute import bind, view_of
from ascend_sim.ops.operator import Operator
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.plan import WORKSPACE_ALIGNMENT, Plan
from ascend_sim.runtime import Allocation

__all__ = [
    "aclOpExecutor",
    "aclnnConvTbcBackward",
    "aclnnConvTbcBackwardGetWorkspaceSize",
    "aclnnConvolutionBackward",
    "aclnnConvolutionBackwardGetWorkspaceSize",
]

_INT8, _INT32, _INT64 = ((-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 32, 64))
_WRONG = "aclnn argument"
_SEARCH = 100_000
"""Most candidates that numpy examines for an element that two strided tensors share (a few hundredths of a second)."""


@mutable(eq=False)
class aclOpExecutor:
    """Executor from phase one for phase two: the plan, and the caller's tensors by their names in the plan.

    Valid for one call.
    """

    operator: str
    owner: AclDevice
    accepted: AcceptedCall
    plan: Plan
    tensors: Mapping[str, aclTensor]
    used: bool = False

    @property
    def alive(self) -> bool:
        """Return True if the executor is unused and its device is open."""
        return not self.used and self.owner.open


@call(0, None, family="aclnn")
def aclnnConvolutionBackwardGetWorkspaceSize(
    gradOutput: Any,
    input: Any,
    weight: Any,
    biasSizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    outputPadding: Any,
    groups: int,
    outputMask: Any,
    cubeMathType: int,
    gradInput: Any,
    gradWeight: Any,
    gradBias: Any,
) -> tuple[int, aclOpExecutor]:
    """Check and plan a convolution's backward call; return the bytes of its workspace, and its executor. Its callers get (ret,
    bytes, executor) from the decorator `call`, with 0 and None if it is refused.

    Tensors are aclTensors, lists aclIntArrays, outputMask an aclBoolArray. Memory behind tensors is not looked at before phase
    two.
    """
    tensors = _tensors(
        grad_output=("gradOutput", gradOutput),
        input=("input", input),
        weight=("weight", weight),
        grad_input=("gradInput", gradInput),
        grad_weight=("gradWeight", gradWeight),
        grad_bias=("gradBias", gradBias),
    )
    lists = (
        ("biasSizes", biasSizes), ("stride", stride), ("padding", padding), ("dilation", dilation),
        ("outputPadding", outputPadding),
    )  # fmt: skip
    bias_sizes, strides, pads, dilations, output_pads = (_values(name, array, aclIntArray) for name, array in lists)
    conv = ConvBackwardCall(
        **{name: _arg(tensors[name]) for name in ("grad_output", "input", "weight")},
        bias_sizes=bias_sizes,
        stride=strides,
        padding=pads,
        dilation=dilations,
        transposed=bool(integer("transposed", transposed, 0, 1, _WRONG)),
        output_padding=output_pads,
        groups=integer("groups", groups, *_INT32, _WRONG),
        output_mask=_values("outputMask", outputMask, aclBoolArray),
        cube_math_type=integer("cubeMathType", cubeMathType, *_INT8, _WRONG),
        **{name: _arg(tensors[name]) for name in ("grad_input", "grad_weight", "grad_bias")},
    )
    return _phase_one("aclnnConvolutionBackward", tensors, OPERATORS["convolution_backward"], conv)


@call(0, None, family="aclnn")
def aclnnConvTbcBackwardGetWorkspaceSize(
    self: Any, input: Any, weight: Any, bias: Any, pad: int, cubeMathType: int, gradInput: Any, gradWeight: Any, gradBias: Any
) -> tuple[int, aclOpExecutor]:
    """Check and plan a backward call of conv_tbc; return the bytes of its workspace, and its executor. Its callers get (ret,
    bytes, executor) from the decorator `call`, with 0 and None if it is refused.

    `self` is the gradient of the output; all tensors are aclTensors.
    """
    tensors = _tensors(
        grad_output=("self", self),
        input=("input", input),
        weight=("weight", weight),
        bias=("bias", bias),
        grad_input=("gradInput", gradInput),
        grad_weight=("gradWeight", gradWeight),
        grad_bias=("gradBias", gradBias),
    )
    args = {name: _arg(tensor) for name, tensor in tensors.items() if name != "grad_output"}
    tbc = ConvTbcCall(
        self=_arg(tensors["grad_output"]),
        pad=integer("pad", pad, *_INT64, _WRONG),
        cube_math_type=integer("cubeMathType", cubeMathType, *_INT8, _WRONG),
        **args,
    )
    return _phase_one("aclnnConvTbcBackward", tensors, OPERATORS["conv_tbc_backward"], tbc)


@call(family="aclnn")
def aclnnConvolutionBackward(workspace: Any, workspaceSize: int, executor: Any, stream: Any) -> None:
    """Queue the kernels of a planned convolution backward on a stream, use up the executor and return ret; a refused call
    leaves the executor usable.

    Refused are an executor that is used or foreign, a tensor without usable device memory, and a workspace that is null though
    needed, too small, freed, not aligned or overlaps a tensor, among others (`ASSUMED_CODES`). An output that shares elements
    with another tensor is a warning. The gradients are in device memory once the stream is synchronised.
    """
    _phase_two("aclnnConvolutionBackward", workspace, workspaceSize, executor, stream)


@call(family="aclnn")
def aclnnConvTbcBackward(workspace: Any, workspaceSize: int, executor: Any, stream: Any) -> None:
    """Queue the kernels of a planned conv_tbc backward on a stream, use up the executor and return ret; refusals and warnings
    are those of aclnnConvolutionBackward.
    """
    _phase_two("aclnnConvTbcBackward", workspace, workspaceSize, executor, stream)


# -- phase one --------------------------------------------------------------------------------------------------------


def _tensors(**given: tuple[str, Any]) -> dict[str, aclTensor | None]:
    return {name: known(vendor_name, handle, aclTensor) for name, (vendor_name, handle) in given.items()}


def _arg(tensor: aclTensor | None) -> Any:
    return None if tensor is None else tensor.arg


def _values(name: str, array: Any, kind: type) -> Any:
    handle = known(name, array, kind)
    return None if handle is None else handle.values


def _phase_one(
    function: str, tensors: Mapping[str, aclTensor | None], operator: Operator[Any, Any], arguments: Any
) -> tuple[int, aclOpExecutor]:
    try:
        accepted = operator.accept(arguments, device().chip, conformance=PROCESS.conformance(), deterministic=deterministic())
        for name in (*accepted.inputs, *accepted.outputs):
            tensor = tensors[name]
            assert tensor is not None  # the checks have seen to that
            check_storage(name, tensor.arg)
        plan = operator.plan(accepted, device().chip)
    except AclnnError as error:
        raise Refused(_WRONG, error.message, error.status) from error
    except SimError as error:
        raise Refused("aclnn no kernel", str(error)) from error
    for text in (*accepted.warnings, *plan.warnings):
        device().warn(f"{function}GetWorkspaceSize: {text}", 5)
    used = {name: tensor for name in (*accepted.inputs, *accepted.outputs) if (tensor := tensors[name]) is not None}
    return plan.workspace_bytes, aclOpExecutor(function, device(), accepted, plan, used)


# -- phase two --------------------------------------------------------------------------------------------------------


def _phase_two(operator: str, workspace: Any, workspace_size: Any, executor: Any, stream: Any) -> None:
    ready = _executor(operator, executor)
    where = stream_of(stream, gone=_WRONG, foreign=_WRONG)
    space = _workspace(ready.plan, workspace, workspace_size)
    ranges = {name: _memory(name, ready.plan.tensors[name].size, tensor) for name, tensor in ready.tensors.items()}
    for name, place in ranges.items():
        if space is not None and place is not None and space.meets(place):
            raise Refused(_WRONG, f"the workspace ({space}) and {name} ({place}) share memory")
    _warn_of_shared_memory(ready, ranges)
    tensors = {name: _allocation(name, place) for name, place in ranges.items()}
    try:
        tasks = bind(ready.plan, device().chip, tensors, _allocation("workspace", space))
    except SimError as error:
        raise Refused("aclnn no kernel", str(error)) from error
    uses = [MemoryUse(place, name in ready.accepted.outputs) for name, place in ranges.items() if place is not None]
    if space is not None:
        uses.append(MemoryUse(space, True))
    for task in tasks:
        task.stream = where.number
        device().queue.append(Queued(task, operator, uses))
    ready.used = True


def _executor(operator: str, executor: Any) -> aclOpExecutor:
    if executor is None:
        raise Refused("aclnn null", "executor is a null pointer")
    if not isinstance(executor, aclOpExecutor):
        raise Refused(_WRONG, f"executor is {type(executor).__name__}, not what {operator}GetWorkspaceSize returned")
    if executor.used:
        raise Refused(_WRONG, "the executor was used before; each call needs one of its own")
    if not executor.owner.open:
        raise Refused(_WRONG, "the executor was made before the device was reset")
    if executor.operator != operator:
        raise Refused(_WRONG, f"the executor was made for {executor.operator}")
    for name, tensor in executor.tensors.items():
        if not tensor.alive:
            raise Refused(_WRONG, f"{name}: its aclTensor was destroyed between the two phases")
    return executor


def _workspace(plan: Plan, workspace: Any, size: Any) -> ByteRange | None:
    """Return the range of the workspace that the plan needs, which may be less than `size`; None if it needs none.

    Refuses a `size` that is no uint64 in any case, and a workspace that is needed and null, too small, freed, foreign or not
    aligned.
    """
    given = integer("workspaceSize", size, 0, (1 << 64) - 1, _WRONG)
    if not plan.workspace_bytes:
        return None
    if workspace is None:
        raise Refused("aclnn null", f"workspace is a null pointer; the call needs {plan.workspace_bytes} bytes")
    if given < plan.workspace_bytes:
        raise Refused(_WRONG, f"workspaceSize = {given}: the call needs {plan.workspace_bytes} bytes, as phase one returned")
    space = _range("workspace", workspace, plan.workspace_bytes)
    if space.offset % WORKSPACE_ALIGNMENT:
        address = space.block.address + space.offset
        raise Refused(_WRONG, f"workspace {address:#x} must be aligned to {WORKSPACE_ALIGNMENT} bytes")
    return space


def _memory(name: str, size: int, tensor: aclTensor) -> ByteRange | None:
    """Return the range of `size` bytes from a tensor's data pointer; None for an empty tensor, whatever its pointer. Raises
    Refused for a null pointer, and for memory that is too small, freed or foreign.
    """
    if not prod(tensor.arg.shape):
        return None
    if tensor.data is None:
        raise Refused("aclnn null", f"{name} has no memory (its data is a null pointer)")
    return _range(name, tensor.data, size)


def _warn_of_shared_memory(ready: aclOpExecutor, ranges: Mapping[str, ByteRange | None]) -> None:
    """Warn of each output that shares elements with another tensor: the vendor allows it, but it is hardly intended.

    No warning where numpy cannot decide within `_SEARCH` candidates.
    """
    held = {name: place for name, place in ranges.items() if place is not None}
    for (first, a), (second, b) in combinations(held.items(), 2):
        written = {first, second} & set(ready.accepted.outputs)
        if not written or not a.meets(b):
            continue
        try:
            shared = np.shares_memory(_view(ready, first, a), _view(ready, second, b), _SEARCH)  # type: ignore[arg-type]
        except np.exceptions.TooHardError:  # nobody knows: no warning
            shared = False
        if shared:
            text = f"{first} and {second} share memory: what is there in the end depends on the order of the kernels"
            device().warn(text)


def _view(ready: aclOpExecutor, name: str, place: ByteRange) -> np.ndarray[Any, Any]:
    """Return a tensor's elements in device memory as a strided numpy view of its bytes."""
    arg = ready.tensors[name].arg
    return view_of(place.data.view(numpy_dtype(arg.dtype)), arg)


def _allocation(name: str, place: ByteRange | None) -> Allocation:
    """Return the Allocation that kernels get for a range of memory; for None (an empty tensor) one of 0 bytes."""
    return Allocation(0, 0, name, np.zeros(room_of(0), np.uint8)) if place is None else place.part(0, place.size, name)


def _range(name: str, address: Any, size: int) -> ByteRange:
    return device().memory.range(name, address, size, gone=_WRONG, foreign=_WRONG, beyond=_WRONG, wrong=_WRONG)
