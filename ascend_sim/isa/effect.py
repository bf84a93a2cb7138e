"""The effect of an instruction by numpy: it takes, converts, multiplies and puts bytes as `Moves` describes. C interprets the
same data.

A list reads the fill, or zeros, at a negative place. Numbers are added and settled one by one; everything else moves as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.memory import Memory
from ascend_sim.isa.moves import Moves, Place
from ascend_sim.isa.quantisation import kept
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.numerics import cast, format_of, round_to
from ascend_sim.numerics.accumulate import add_chunks, add_exact_groups
from ascend_sim.numerics.integers import INTEGERS, from_integers, storage, to_integers, to_whole
from ascend_sim.numerics.widen import to_float32

EXTREMES = {"max": np.maximum, "min": np.minimum}
"""Atomic operations that keep one of two numbers; a NaN stays (assumed)."""
_PLAIN = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_NARROW = ("float16", "bfloat16")


def taken(moves: Moves, memory: Memory, operands: Mapping[str, int]) -> Any:
    """Return the operands at the instruction's start, for `put`: bytes, converted or scaled, one operand behind the other; or
    the product [m, n] plus the bias.

    For float products that are added in a modelled order it returns (left factors, right factors, the bias or None) instead.
    """
    if moves.product is not None:
        left, right = factors(moves, memory, operands)
        start = _start(moves, memory)
        if moves.product.dtype == "int8":  # exact in any order
            whole = whole_product(left, right)
            return whole if start is None else whole + start
        if memory.model.accumulate != "blas":
            return left, right, start
        return left @ right.T if start is None else left @ right.T + start
    if moves.scaling is not None:
        return _scaled(moves, memory, operands)
    found = [_converted(_items(place, memory, operands[place.operand], moves.fill), moves) for place in moves.takes]
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])


def _scaled(moves: Moves, memory: Memory, operands: Mapping[str, int]) -> NDArray[np.uint8]:
    """Return the items of the only place after ReLU and scales in the target format, as bytes.

    Scales lose their lower 13 mantissa bits (`quantisation.kept`); the arithmetic is float64, rounded once to nearest even.
    """
    (place,), how = moves.takes, moves.scaling
    values = _items(place, memory, operands[place.operand]).view(storage(moves.source)).astype(np.float64)
    if how.relu:
        values = np.maximum(values, 0.0)
    if how.scales is not None:
        values = values * kept(_items(how.scales, memory, operands[how.scales.operand]).view(np.float32))
    elif how.scale:
        values = values * kept(np.array([how.scale], np.float32))
    if moves.target in INTEGERS:
        result = to_integers(values, moves.target, "RINT")
    else:
        result = cast(values, moves.target, None, moves.saturate)
    return np.ascontiguousarray(result).view(np.uint8).reshape(-1)


def whole_product(left: NDArray[np.int8], right: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the int32 product [m, n] of int8 factors [m, k] and [n, k]; computed in float64, which is exact here."""
    return (left.astype(np.float64) @ right.T.astype(np.float64)).astype(np.int32)


def factors(moves: Moves, memory: Memory, operands: Mapping[str, int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return copies of both factors of a product as it multiplies them, [m, k] and [n, k]: int8 as it is, other formats as
    float32, for hf32 rounded to hf32.
    """
    product = moves.product
    assert product is not None
    found = (_converted(_items(place, memory, operands[place.operand]), moves) for place in moves.takes[:2])
    dtype = np.int8 if product.dtype == "int8" else np.float32
    left, right = (one.view(dtype).reshape(-1, product.held_k)[:, : product.k] for one in found)
    return left, right


def _start(moves: Moves, memory: Memory) -> NDArray[Any] | None:
    """Return the n numbers (bias) with which each row of a product begins; None if the product has none."""
    product = moves.product
    assert product is not None
    dtype = np.int32 if product.dtype == "int8" else np.float32
    return _items(moves.takes[2], memory, 0).view(dtype) if product.starts else None


def put(moves: Moves, memory: Memory, address: int, pending: Any) -> None:
    """Write `pending`, the result of `taken`, to the destination at `address`: as bytes, added, or as the larger or smaller
    number.

    Products in a modelled order are summed here. Items beyond the destination's are dropped. Without places to take, `pending`
    is ignored and the fill is written.
    """
    place = moves.put
    buffer, begin = _where(place, memory, address)
    if not moves.takes:
        fill = np.frombuffer(moves.fill or b"\0", f"V{len(moves.fill) or 1}")
        pending = np.broadcast_to(fill, place.count * place.itemsize // fill.itemsize).copy()
    if place.listed is not None:
        _put_listed(place, buffer, begin, pending.view(np.uint8))
    elif not moves.adds and not moves.settles and not isinstance(pending, tuple):
        _view(place, buffer, begin)[...] = _view(place, pending, 0, packed=True)
    else:
        dtype = storage(moves.adds or "float32")
        out = _view(place, buffer, begin, dtype)
        in_order = isinstance(pending, tuple)
        values = _view(place, _added(moves, memory, out, *pending) if in_order else pending, 0, dtype, packed=True)
        if moves.keeps:
            out[...] = EXTREMES[moves.keeps](out, values)
        elif moves.adds and not in_order:
            out += values
        else:
            out[...] = values
        if moves.settles:
            out[...] = memory.model.settled(out)


def _where(place: Place, memory: Memory, address: int) -> tuple[NDArray[np.uint8], int]:
    """Return (bytes of the buffer or tensor that holds a place, index of `address` in them)."""
    if place.space == "GM":
        return memory.gm[address >> SLOT_SHIFT], address & OFFSET_MASK
    return memory.buffers[place.space], address


def _view(
    place: Place, buffer: NDArray[Any], begin: int, dtype: np.dtype[Any] | None = None, packed: bool = False
) -> NDArray[Any]:
    """Return a view of a place's items, the nested loops as axes, in a buffer from `begin` on or, if `packed`, in the bytes
    taken.

    With `dtype` an item is an array of numbers along a last axis, else one unsigned number or raw bytes.
    """
    strides, offset = (place.packed, 0) if packed else (place.strides, place.offset)
    if dtype is None:
        dtype = _PLAIN.get(place.itemsize) or np.dtype(f"V{place.itemsize}")
        return np.ndarray(place.shape, dtype, buffer, begin + offset, strides)
    shape = (*place.shape, place.itemsize // dtype.itemsize)
    return np.ndarray(shape, dtype, buffer, begin + offset, (*strides, dtype.itemsize))


def _items(place: Place, memory: Memory, address: int, fill: bytes = b"") -> NDArray[np.uint8]:
    """Return a copy of a place's items in their order as bytes; `fill`, or zeros without it, replaces the negative places of a
    list.
    """
    buffer, begin = _where(place, memory, address)
    if place.listed is None:
        return np.ascontiguousarray(_view(place, buffer, begin)).copy().view(np.uint8).reshape(-1)
    item = place.itemsize
    index, outside = place.indices
    if index is not None:
        whole = buffer[begin : begin + (len(buffer) - begin) // item * item].view(_PLAIN.get(item) or f"V{item}")
        found = whole.take(index)
    else:
        found = buffer[begin + np.maximum(place.listed, 0)[:, None] + np.arange(item)]
    if outside is not None:
        found.view(np.uint8).reshape(-1, item)[outside] = np.frombuffer(fill or bytes(item), np.uint8)
    return found.view(np.uint8).reshape(-1)


def _put_listed(place: Place, buffer: NDArray[np.uint8], begin: int, pending: NDArray[np.uint8]) -> None:
    """Write items to the byte offsets that a place lists, none of which may be negative; surplus items are dropped."""
    assert place.listed is not None
    item = place.itemsize
    buffer[begin + place.listed[:, None] + np.arange(item)] = pending[: place.count * item].reshape(-1, item)


def _converted(raw: NDArray[np.uint8], moves: Moves) -> NDArray[np.uint8]:
    """Return the numbers in `raw` converted to the target format, as bytes; unchanged without a source format."""
    source, target = moves.source, moves.target
    if not source:
        return raw
    values = raw.view(storage(source))
    result: NDArray[Any]
    if target in INTEGERS:
        result = to_integers(values, target, moves.rounding)
    elif source in INTEGERS:
        result = from_integers(values, target, moves.rounding)
    elif source == target and moves.rounding:
        result = to_whole(values, moves.rounding)
    elif target == "hf32":
        result = round_to(values, "hf32", mantissa_bits=moves.bits)
    elif target == "float32" and source in _NARROW and not moves.saturate:
        result = to_float32(values)
    else:
        result = cast(values, target, moves.rounding, moves.saturate, source=source)
    return np.ascontiguousarray(result).view(np.uint8).reshape(-1)


def _added(
    moves: Moves,
    memory: Memory,
    out: NDArray[Any],
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    start: NDArray[np.float32] | None,
) -> NDArray[np.float32]:
    """Return float32 sums [m, n]: the bias, or L0C if the product accumulates, or zeros, plus all products in the model's
    order.
    """
    product = moves.product
    assert product is not None
    total = np.zeros((product.m, product.n), np.float32)
    if moves.adds:
        _view(moves.put, total, 0, np.dtype(np.float32), packed=True)[...] = out
    if start is not None:
        total[...] = start
    rate = memory.model.chip.cube.rates[product.dtype]  # type: ignore[index]
    if memory.model.accumulate == "chunk":
        return add_chunks(total, left, right, rate.k0)
    return add_exact_groups(total, left, right, rate.k_per_cycle, format_of(product.dtype).mantissa_bits + 1)
