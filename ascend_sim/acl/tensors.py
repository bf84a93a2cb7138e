"""aclTensor, aclIntArray and aclBoolArray: host-side descriptions that the operators take as arguments."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.enums import aclDataType, aclFormat
from ascend_sim.acl.memory import integer
from ascend_sim.acl.state import call
from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.numerics import canonical
from ascend_sim.ops.arguments import TensorArg

__all__ = [
    "aclBoolArray",
    "aclCreateBoolArray",
    "aclCreateIntArray",
    "aclCreateTensor",
    "aclDestroyBoolArray",
    "aclDestroyIntArray",
    "aclDestroyTensor",
    "aclIntArray",
    "aclTensor",
]

_INT64 = (-(1 << 63), (1 << 63) - 1)
_DTYPES = {
    aclDataType.ACL_FLOAT: "float32",
    aclDataType.ACL_FLOAT16: "float16",
    aclDataType.ACL_BF16: "bfloat16",
    aclDataType.ACL_HIFLOAT8: "hifloat8",
    aclDataType.ACL_FLOAT8_E5M2: "float8_e5m2",
    aclDataType.ACL_FLOAT8_E4M3FN: "float8_e4m3fn",
}


@mutable(eq=False)
class aclTensor:
    """A view of device memory: shape, dtype, format and strides in `arg`, its address or None in `data`."""

    arg: TensorArg
    data: Any
    alive: bool = True


@mutable(eq=False)
class aclIntArray:
    """A list of int64 values for an operator's argument."""

    values: tuple[int, ...]
    alive: bool = True


@mutable(eq=False)
class aclBoolArray:
    """A list of bool values for an operator's argument."""

    values: tuple[bool, ...]
    alive: bool = True


@call(needs="nothing", handle=True)
def aclCreateTensor(
    viewDims: Any,
    viewDimsNum: int,
    dataType: int,
    stride: Any,
    offset: int,
    format: int,
    storageDims: Any,
    storageDimsNum: int,
    tensorData: Any,
) -> aclTensor:
    """Return an aclTensor, or None for arguments that are refused (see aclGetRecentErrMsg).

    `stride` and `offset` are in elements; `stride` None: contiguous; `storageDims` None: as large as the view needs.
    `tensorData` is a device address or None. Only types, ranges of int64 and lengths of lists are checked here; the operator
    checks the values, and phase two the memory.
    """
    shape = _integers("viewDims", viewDims, viewDimsNum)
    strides = None if stride is None else _integers("stride", stride, viewDimsNum)
    storage = None if storageDims is None else _integers("storageDims", storageDims, storageDimsNum)
    dtype = _dtype_name(integer("dataType", dataType, -(1 << 31), (1 << 31) - 1))
    label = _format_name(integer("format", format, -(1 << 31), (1 << 31) - 1))
    start = integer("offset", offset, *_INT64)
    if tensorData is not None:
        integer("tensorData", tensorData, 0, (1 << 64) - 1)
    arg = TensorArg(shape, dtype, label, strides, start, storage)
    if storage is None:
        arg = replace(arg, storage_shape=(_reach(arg),))
    return aclTensor(arg, tensorData)


@call(needs="nothing", handle=True)
def aclCreateIntArray(value: Any, size: int) -> aclIntArray:
    """Return an aclIntArray of the first `size` values, or None for arguments that are refused."""
    return aclIntArray(_integers("value", value, size))


@call(needs="nothing", handle=True)
def aclCreateBoolArray(value: Any, size: int) -> aclBoolArray:
    """Return an aclBoolArray of the first `size` values, each an integer (0: false), or None for arguments that are refused."""
    return aclBoolArray(tuple(bool(v) for v in _integers("value", value, size)))


@call(needs="nothing", family="aclnn")
def aclDestroyTensor(tensor: Any) -> None:
    """Invalidate a tensor's description and return ret; its device memory stays allocated. Refuses all but a live aclTensor."""
    _destroy(tensor, aclTensor)


@call(needs="nothing", family="aclnn")
def aclDestroyIntArray(array: Any) -> None:
    """Invalidate an aclIntArray and return ret; refuses all but a live aclIntArray."""
    _destroy(array, aclIntArray)


@call(needs="nothing", family="aclnn")
def aclDestroyBoolArray(array: Any) -> None:
    """Invalidate an aclBoolArray and return ret; refuses all but a live aclBoolArray."""
    _destroy(array, aclBoolArray)


def _destroy(handle: Any, kind: type) -> None:
    if handle is None:
        raise Refused("aclnn null", f"the {kind.__name__} is a null pointer")
    known(kind.__name__, handle, kind).alive = False


def known(name: str, handle: Any, kind: type) -> Any:
    """Return `handle` if it is a live object of type `kind`; None for None. Raises Refused for another type and a destroyed
    object, with argument `name` in the message.
    """
    if handle is None:
        return None
    if not isinstance(handle, kind):
        raise Refused("aclnn argument", f"{name} is {type(handle).__name__}, not an {kind.__name__}")
    if not handle.alive:  # type: ignore[attr-defined]
        raise Refused("aclnn argument", f"{name} is an {kind.__name__} that was destroyed")
    return handle


def check_storage(name: str, tensor: TensorArg) -> None:
    """Refuse a view that reaches outside its storage, and a negative offset, stride or size of the storage; a view without
    elements fits any storage.
    """
    if tensor.offset < 0 or min(tensor.strides or (0,)) < 0:
        raise Refused("aclnn argument", f"{name} has offset {tensor.offset}, strides {tensor.strides}: none may be negative")
    storage = tensor.storage_shape or ()
    need = _reach(tensor)
    if min(storage, default=0) < 0 or need > prod(storage):
        elements = f"{list(storage)} ({prod(storage)} elements)"
        raise Refused("aclnn argument", f"{name}: the view needs {need} elements, its storage is {elements}")


def _reach(tensor: TensorArg) -> int:
    """Return the elements that the storage must have: one more than the offset of the view's last element; empty views 0."""
    if tensor.is_empty:
        return 0
    if tensor.strides is None:
        return tensor.offset + tensor.size
    return tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True)) + 1


def _integers(name: str, values: Any, count: Any) -> tuple[int, ...]:
    """Return the first `count` integers of a host array (any sequence or numpy array); () for None with count 0.

    Refuses None otherwise, a sequence that is too short, and items that are not int64.
    """
    number = integer(f"number of {name}", count, 0, (1 << 32) - 1)
    if values is None:
        if number == 0:
            return ()
        raise Refused("null pointer", f"{name} is a null pointer")
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise Refused("argument", f"{name} must be a sequence of integers, not {type(values).__name__}")
    if number > len(values):
        raise Refused("beyond", f"{name} holds {len(values)} values; {number} are wanted")
    items = (item.item() if isinstance(item, np.generic) else item for item in values[:number])
    return tuple(integer(f"{name}[{i}]", item, *_INT64) for i, item in enumerate(items))


def _dtype_name(number: int) -> str:
    """Return this project's name of a data type number; for an unsupported one the vendor's name, for an unknown one
    "aclDataType N", which the operator's checks refuse.
    """
    try:
        value = aclDataType(number)
    except ValueError:
        return f"aclDataType {number}"
    name = _DTYPES.get(value, value.name.removeprefix("ACL_").lower())
    try:
        return canonical(name)
    except SimError:
        return name


def _format_name(number: int) -> str:
    try:
        return aclFormat(number).name.removeprefix("ACL_").removeprefix("FORMAT_")
    except ValueError:
        return f"aclFormat {number}"
