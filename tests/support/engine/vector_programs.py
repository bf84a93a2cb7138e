"""Random programs of a vector core for hypothesis: block strides, masks, gathers, transposes, padding, extremes, reductions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.transfer import DataCopy, DataCopyExtreme, DataCopyPadded
from ascend_sim.isa.vector import (
    Compare,
    Duplicate,
    Gather,
    Mask,
    ReduceBlocks,
    ReduceRows,
    ReduceWithIndex,
    Select,
    Transpose,
    TransposeBlocks,
    VectorBinary,
    VectorCast,
    VectorCopy,
    VectorMulAdd,
    VectorScalar,
    VectorUnary,
)
from ascend_sim.isa.vector.base import size_of
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.sync import Flag
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import KIB, Writer
from tests.support.engine.random_programs import flag_pairs, scalar_access

VECTOR_SIZES = (64 * KIB, 64 * KIB)
"""The tensors of one program: it reads the first and writes the second."""
FIRST, SECOND, OFFSETS, RESULT = 0, 16 * KIB, 32 * KIB, 40 * KIB
"""Parts of the Unified Buffer: both sources, offsets of a gather, and 64 KiB for results."""
_BLOCK = 32

VectorStep = tuple[str, str, tuple[int, ...]]
"""A verb, a format and numbers from 0 to 15, of which each verb makes what it needs."""


def vector_steps(most: int = 16) -> st.SearchStrategy[list[VectorStep]]:
    """Return a strategy for the steps of a program."""
    verb = st.sampled_from([*_MADE, *_MADE, "flag", "flag", "scalar", "barrier", "in", "sum"])
    number = st.tuples(*[st.integers(0, 15)] * 8)
    dtypes = st.sampled_from(["float16", "float16", "float32", "float32", "int32", "int16"])
    return st.lists(st.tuples(verb, dtypes, number), min_size=2, max_size=most)


def vector_chips() -> st.SearchStrategy[tuple[ChipSpec, str]]:
    """Return a strategy for a chip of each architecture with its kind of core."""
    names = {"ascend910a": "AI_CORE", "ascend310p3": "AI_CORE", "ascend910b3": "AIV", "ascend950pr_9589": "AIV"}
    return st.sampled_from([(load_chip(name), kind) for name, kind in names.items()])


def vector_writer(actions: list[VectorStep], wrote: set[str] | None = None) -> Writer:
    """Write `actions` and at last copy the results to GM; adds the names of what the chip takes to `wrote`."""
    names = set() if wrote is None else wrote

    def write(k: KernelBuilder) -> None:
        k.data_copy("GM", "UB", FIRST, gm_operand(0, 0), 32 * KIB)
        for number in range(16):
            k._emit((Duplicate, "int32", 8, 4 * (7 * number % 64)), OFFSETS + _BLOCK * number)
        k.vector_duplicate(RESULT, "float16", 32 * KIB, 1.0)
        k.pipe_barrier("ALL")
        flags: list[Flag] = []
        pairs = flag_pairs(k)
        for verb, dtype, v in actions:
            if verb == "flag" and flags and v[0] % 2:
                k.wait_flag(flags.pop(v[1] % len(flags)))
            elif verb == "flag":
                with_s = [one for one in pairs if "S" in one and {*one} <= {"S", "V", "MTE2", "MTE3"}]
                source, destination = (with_s if v[1] % 4 and with_s else pairs)[v[2] % len(with_s or pairs)]
                flag = k.flag(source, destination, f"{source}->{destination}")
                if flag not in flags:
                    flags.append(flag)
                    k.set_flag(flag)
                    names.add("S" if "S" in (source, destination) else "flag")
            elif verb == "scalar":
                scalar_access(k, v[0], v[1] % 12, v[2] % 11, 0)
            elif verb == "barrier":
                k.pipe_barrier("V" if v[0] % 3 else "ALL")
            elif verb == "in":
                k.data_copy("GM", "UB", FIRST + 512 * v[0], gm_operand(0, 512 * v[1]), 512)
            else:
                key, places = _moved(verb, dtype, v) if verb in ("sum", "extreme", "padded") else _made(verb, dtype, v)
                try:
                    k._emit(key, *places)
                except SimError:
                    continue  # not on this chip, or not in this format
                names.add(verb)
        for flag in flags:
            k.wait_flag(flag)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), RESULT, 32 * KIB)

    return write


def _moved(verb: str, dtype: str, v: tuple[int, ...]) -> tuple[Key, tuple[int, ...]]:
    """Return a copy between GM and UB with padding, or with arithmetic in GM."""
    size, rows = _BLOCK * (1 + v[0]), 1 + v[1] % 3
    if verb == "padded":
        item = size_of(dtype)
        left, right = v[2] % (_BLOCK // item) * item, v[3] % (_BLOCK // item) * item
        row = item * (1 + v[0] * 3)
        step = -(-(left + row + right) // _BLOCK) * _BLOCK + _BLOCK * (v[4] % 3)
        key = (DataCopyPadded, "GM", "UB", row, rows, row + 2 * v[5], step, "", "", left, right, 0x3C00, item)
        return key, (RESULT + 512 * v[6], gm_operand(0, 64 * v[7]))
    places = gm_operand(1, 32 * KIB + 64 * v[2]), FIRST + _BLOCK * v[3]
    sides = "UB", "GM", size, rows, size + _BLOCK, size + 64 * (v[4] % 2), dtype, ""
    if verb == "sum":
        return (DataCopy, *sides), places
    return (DataCopyExtreme, *sides, ("max", "min")[v[5] % 2]), places


def _made(verb: str, dtype: str, v: tuple[int, ...]) -> tuple[Key, tuple[int, ...]]:
    """Return a vector instruction and its places; sources and results lie apart, and their rows too."""
    item = size_of(dtype)
    per = 256 // item
    dst, src0, src1 = RESULT + 512 * v[5], FIRST + _BLOCK * v[6], SECOND + _BLOCK * v[7]
    rows, places = 1 + v[0] % 4, (dst, src0, src1)
    mask = Mask(1 + v[3] * 0x1111 + (v[4] << 20), per) if v[1] % 3 == 0 else None
    steps = _BLOCK * (1 + v[1] % 5), _BLOCK * (v[2] % 5), _BLOCK * (v[3] % 5)
    far = (steps[0] * 8, _BLOCK * (v[4] % 9), _BLOCK * v[2])
    blocked = dtype, per, rows, far[0], far[1], mask
    flat = dtype, 8 + v[0] * 13, 1, 0, 0, None, ()
    return {
        "blocks two": lambda: ((VectorBinary, ("add", "mul", "max", "sub")[v[2] % 4], *blocked, steps, far[2]), places),
        "blocks one": lambda: ((VectorUnary, ("abs", "relu")[v[3] % 2], *blocked, steps[:2]), places[:2]),
        "blocks scalar": lambda: (
            (VectorScalar, ("adds", "muls", "maxs", "axpy")[v[2] % 4], *blocked, steps[:2], v[0] - 3),
            places[:2],
        ),
        "multiply and add": lambda: ((VectorMulAdd, "mul_add", *flat, 0), places),
        "masked": lambda: ((VectorCopy, dtype, per, rows, 512, 256, Mask(1 + 0x10101 * v[3], per)), places[:2]),
        "gather": lambda: ((Gather, dtype, 8 + 7 * v[0], 4096 // item), (dst, src0, OFFSETS)),
        "turned": lambda: ((Transpose, dtype, 16 * rows, 16 * (1 + v[1] % 3), 256, 256), places[:2]),
        "turned by blocks": lambda: (
            (TransposeBlocks, bool(v[1] % 2), item, 32 // item, 16 * rows, 256, 32 + 32 * (v[2] % 2)),
            places[:2],
        ),
        "index": lambda: (
            (
                ReduceWithIndex, rows, 8 + 7 * v[1], 256, ("max", "min")[v[2] % 2], dtype,
                ("value index", "index value", "index")[v[3] % 3], mask,
            ),
            places[:2],
        ),
        "blocks sum": lambda: ((ReduceBlocks, ("sum", "max", "min")[v[1] % 3], dtype, 16 + 30 * v[2]), places[:2]),
        "pairs sum": lambda: ((PairReduceSum, dtype, 8 + 21 * v[1]), places[:2]),
        "rows sum": lambda: ((ReduceRows, rows, 8 + 7 * v[1], 256, ("sum", "max")[v[2] % 2], dtype), places[:2]),
        "compare": lambda: ((Compare, ("lt", "ge", "ne")[v[1] % 3], dtype, per * rows), places),
        "select": lambda: ((Select, dtype, per * rows, 0, _BLOCK * (1 + v[2])), places),
        "cast": lambda: (
            (VectorCast, "float32", "float16", 64, ("NONE", "RINT")[v[1] % 2], rows, 128 + 32 * (v[2] % 3), 256),
            places[:2],
        ),
    }[verb]()  # fmt: skip


_MADE = (
    "blocks two", "blocks one", "blocks scalar", "multiply and add", "masked", "gather", "turned", "turned by blocks", "index",
    "blocks sum", "pairs sum", "rows sum", "compare", "select", "cast", "padded", "extreme",
)  # fmt: skip
"""Verbs that are one instruction each."""
VERBS: frozenset[Any] = frozenset((*_MADE, "flag", "S", "sum"))
