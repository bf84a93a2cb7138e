"""The caller's tensors as arguments of an operator: arrays with values, or TensorSpecs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import EIGHT_BIT, TensorArg, dtype_name
from ascend_sim.ops.kinds import SHAPE, SIZES, check_kinds
from ascend_sim.ops.operator import Operator

Array = NDArray[Any]


@frozen
class TensorSpec:
    """A tensor without values, for `timing` mode: shape and dtype (a name such as "float16", or a numpy dtype, not checked
    here).

    `strides` in elements; None: contiguous. Raises SimError for a negative stride, for more or fewer strides than axes, and for
    sizes that are not integers.
    """

    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_kinds({"shape": self.shape, "strides": self.strides}, {"shape": SHAPE, "strides": SIZES})
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        if self.strides is None:
            return
        object.__setattr__(self, "strides", tuple(int(stride) for stride in self.strides))
        if len(self.strides) != len(self.shape) or min(self.strides, default=0) < 0:
            raise SimError(f"strides {list(self.strides)}: shape {list(self.shape)} needs one stride, 0 or more, for each axis")

    @property
    def storage_size(self) -> int:
        """Return the number of elements from the first to the last that the view touches; 0 for an empty one."""
        if 0 in self.shape:
            return 0
        if self.strides is None:
            return prod(self.shape)
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


def tensor_args(
    operator: Operator[Any, Any], given: Mapping[str, Any], dtypes: str | Mapping[str, str] | None = None
) -> dict[str, TensorArg | None]:
    """Return {name: TensorArg} of the caller's tensors for the operator's checks; `dtypes` names the format of uint8 codes
    (one, or by tensor).

    Raises SimError for anything but arrays and TensorSpecs, for None unless the tensor is optional (it stays None), for a
    foreign byte order, and for `dtypes` that do not fit the tensors.
    """
    formats = _code_formats(given, dtypes)
    return {
        name: None if value is None and name in operator.optional else _argument(operator, name, value, formats.get(name))
        for name, value in given.items()
    }


def _code_formats(given: Mapping[str, Any], dtypes: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Return {tensor: the format of its uint8 codes}; a single name in `dtypes` counts for all tensors of codes.

    Raises SimError for an unknown tensor or format, for an array that does not hold uint8, and for a single name if no array
    does. A format for a TensorSpec stays, unused.
    """
    codes = [name for name, value in given.items() if isinstance(value, np.ndarray) and value.dtype == np.uint8]
    formats = dict.fromkeys(codes, dtypes) if isinstance(dtypes, str) else dict(dtypes or {})
    if isinstance(dtypes, str) and not codes:
        raise SimError(f"dtypes {dtypes!r}: no tensor is an array of uint8 codes")
    for name, format in formats.items():
        if name not in given:
            raise SimError(f"dtypes: no tensor {name!r}; there are {', '.join(given)}")
        if format not in EIGHT_BIT:
            raise SimError(f"dtypes: {format!r} given for {name}; uint8 codes are {' or '.join(EIGHT_BIT)}")
        if isinstance(given[name], np.ndarray) and name not in codes:
            raise SimError(f"dtypes: {name} is an array of {given[name].dtype}; only uint8 codes need a format")
    return formats


def _argument(operator: Operator[Any, Any], name: str, value: Any, codes: str | None) -> TensorArg:
    """Return an array or a TensorSpec as TensorArg with dtype, format label, strides and storage; `codes` is the format of an
    array of uint8 codes (None: it has none), and is ignored for a TensorSpec.

    Raises SimError for other objects and for a foreign byte order.
    """
    if isinstance(value, TensorSpec):
        whole = TensorArg(value.shape, dtype_name(value.dtype), operator.label(len(value.shape)), value.strides)
        if whole.is_contiguous:
            return replace(whole, strides=None)
        return replace(whole, storage_shape=(value.storage_size,))
    if not isinstance(value, np.ndarray):
        raise SimError(f"{name} must be a numpy array, a PyTorch tensor or a TensorSpec, not {type(value).__name__}")
    if not value.dtype.isnative:
        raise SimError(f"{name} has byte order {value.dtype.str!r}; allowed is the machine's own, {value.dtype.name}")
    dtype = codes or dtype_name(value.dtype)
    format = operator.label(value.ndim)
    if value.flags.c_contiguous:
        return TensorArg(value.shape, dtype, format)
    storage, strides, offset = flat_storage(value)
    return TensorArg(value.shape, dtype, format, strides, offset, storage.shape)


def fresh_like(array: Array) -> tuple[Array, Array]:
    """Return (zeros as large as the flat memory under an array, a view of them with the array's shape and strides); writes to
    the view reach the zeros.
    """
    storage, strides, offset = flat_storage(array)
    storage = np.zeros_like(storage)
    if strides is None:
        return storage, storage.reshape(array.shape)
    return storage, np.lib.stride_tricks.as_strided(storage[offset:], array.shape, array.strides)


def flat_storage(array: Array) -> tuple[Array, tuple[int, ...] | None, int]:
    """Return (flat memory under an array, strides in elements or None if contiguous, offset of the first element).

    The memory of a contiguous array is a view of it, that of a strided one a copy from its lowest to its highest address. A
    view whose strides are not whole elements, or an empty one, is copied to contiguous.
    """
    if array.flags.c_contiguous:
        return array.reshape(-1), None, 0
    if array.size == 0 or any(stride % array.itemsize for stride in array.strides):
        return np.ascontiguousarray(array).reshape(-1), None, 0
    strides = tuple(stride // array.itemsize for stride in array.strides)
    steps = [(size - 1) * stride for size, stride in zip(array.shape, strides, strict=True)]
    offset = -sum(step for step in steps if step < 0)
    count = offset + sum(step for step in steps if step > 0) + 1
    first = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    return np.lib.stride_tricks.as_strided(first, (count,), (array.itemsize,)).copy(), strides, offset
