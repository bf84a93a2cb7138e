"""PyTorch tensors as arguments of the operators, and arrays written back into tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.errors import SimError

Array = NDArray[Any]


def has_values(tensor: torch.Tensor) -> bool:
    """Return True if the tensor has numbers to read: it is neither on the meta device nor a FakeTensor."""
    return tensor.device.type != "meta" and type(tensor).__name__ != "FakeTensor"


def is_plain(tensor: torch.Tensor) -> bool:
    """Return True if the tensor is strided: neither sparse nor nested."""
    return tensor.layout is torch.strided and not tensor.is_nested


OPEN = -1
"""Size of an axis that is not known."""


def size_of(size: Any) -> int:
    """Return a size as an int; for a symbol of a trace its hint (the value it was traced with), or OPEN without one.

    Only the hint is read: any other question to a symbol would restrict the trace.
    """
    return int(_hint(size)) if isinstance(size, torch.SymInt) else int(size)


def _hint(size: torch.SymInt) -> int:
    return size.node.hint if size.node.has_hint() else OPEN


def written_out(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor itself, or a contiguous copy if an axis repeats one element (stride 0), as in the gradient of `sum()`.

    The kernel that copies it on the chip is not simulated: the one that the vendor's adapter launches is not known.
    """
    repeated = any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.contiguous() if repeated else tensor


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Return shape, dtype and strides of a tensor as a TensorSpec; without strides if it is contiguous or a stride is 0. Sizes
    that are symbols: see `size_of`.
    """
    if any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *tensor.stride())):
        return _of_symbols(tensor)
    whole = tensor.is_contiguous() or 0 in tensor.stride()
    return _spec(tuple(tensor.shape), dtype_of(tensor), None if whole else tuple(tensor.stride()))


_spec = lru_cache(maxsize=4096)(TensorSpec)  # a model has few, and its training meets them in every step


def _of_symbols(tensor: torch.Tensor) -> TensorSpec:
    """Return the TensorSpec of a tensor with symbols among its sizes, as `spec_of` does; unknown sizes are OPEN, and a size or
    stride that is unknown leaves out the strides.
    """
    shape, strides = tuple(map(size_of, tensor.shape)), tuple(map(size_of, tensor.stride()))
    if OPEN in (*shape, *strides):
        return _spec(shape, dtype_of(tensor), None)
    like = torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")
    whole = like.is_contiguous() or 0 in strides
    return _spec(shape, dtype_of(tensor), None if whole else strides)


def dtype_of(tensor: torch.Tensor) -> str:
    """Return the name of the tensor's dtype without `torch.`, such as "float16"."""
    return str(tensor.dtype).removeprefix("torch.")


def array_of(tensor: torch.Tensor) -> Array:
    """Return the tensor's values as a numpy array on the host, a view of its memory if possible; bfloat16 and float8_e4m3fn in
    ml_dtypes. Axes of stride 0 are written out.

    Raises SimError without values.
    """
    if not has_values(tensor):
        raise SimError("a tensor without values (meta or fake): only mode 'timing' runs without")
    plain = written_out(tensor.detach().resolve_conj().resolve_neg()).cpu()
    if plain.dtype is torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if plain.dtype is torch.float8_e4m3fn:
        return plain.view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn)
    return plain.numpy()


def put(array: Array, tensor: torch.Tensor) -> None:
    """Write the values of an array to a tensor of the same shape in place, without autograd; the tensor keeps its dtype, to
    which values are rounded, and its memory format.
    """
    if array.dtype == ml_dtypes.bfloat16:
        source = torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    else:
        source = torch.from_numpy(np.ascontiguousarray(array))
    with torch.no_grad():
        tensor.copy_(source)


def distance(array: Array, tensor: torch.Tensor) -> float:
    """Return max |array - tensor| / max |tensor| in float64, over elements finite in both; without the division if the tensor
    is all 0, and 0 if no element is finite in both.
    """
    ours, theirs = array.astype(np.float64), array_of(tensor).astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    error = float(np.abs(ours - theirs)[finite].max(initial=0.0))
    largest = float(np.abs(theirs)[finite].max(initial=0.0))
    return error / largest if largest else error
