"""Translation of the words of dav-2201 into instructions, each as a key of the instruction table."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ascend_sim.ascend_c.cube_words import CUBE_MAKERS, WordStep
from ascend_sim.ascend_c.words import (
    ALIGNED_IN,
    ALIGNED_OUT,
    BINARY,
    FORMATS,
    MULTIPLY_ADD,
    PIPE_NUMBERS,
    SCALAR,
    UNARY,
    WORDS,
    Word,
    atomic_of,
)
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarCopy, ScalarLoad, ScalarStore
from ascend_sim.isa.sync import CrossCoreSetFlag, PipeBarrier
from ascend_sim.isa.transfer import DataCopy, DataCopyExtreme, DataCopyPadded
from ascend_sim.isa.vector import (
    BroadcastColumn,
    Compare,
    Duplicate,
    Gather,
    Mask,
    ReduceBlocks,
    ReduceRows,
    ReduceWithIndex,
    Select,
    Transpose,
    VectorBinary,
    VectorCast,
    VectorCopy,
    VectorMulAdd,
    VectorScalar,
    VectorUnary,
)
from ascend_sim.isa.vector.base import size_of
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.kernel.program import Key
from ascend_sim.numerics.integers import INTEGERS

BLOCK = 32
"""Bytes of a block of UB, in which the words count (public documentation of the repeat and copy parameters)."""
REPEAT = 256
"""Bytes that a vector word processes in one repeat (the same documentation)."""

SPACES = {"load_ub_": "UB", "load_gm_": "GM", "store_ub_": "UB", "store_gm_": "GM"}
"""Word of the scalar unit -> the space that it reads or writes."""
ITEMSIZES = {name: 1 << number for names in (ALIGNED_IN, ALIGNED_OUT) for number, name in enumerate(names)}
"""Word of an aligned copy -> bytes of an element, in which its padding counts."""
_OPERATIONS = (
    *("add", "sub", "mul", "div", "max", "min", "and", "or", "add_relu", "sub_relu"),
    *("mul_add", "fused_mul_add", "fused_mul_add_relu"),
)
_BINARY = dict(zip(BINARY, _OPERATIONS, strict=True))
_UNARY = dict(zip(UNARY, ("abs", "exp", "ln", "sqrt", "rsqrt", "reciprocal", "relu", "not"), strict=True))
_SCALAR = dict(zip(SCALAR, ("adds", "muls", "maxs", "mins", "leaky_relu", "axpy"), strict=True))
_BLOCKED = (*BINARY, *UNARY, *SCALAR)
"""Words whose instructions have block strides."""
_ROUNDING = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")
_SCALE_OF_ONE = 0x3C00
"""Bits of 1 as float16, which SetDeqScale puts into its register."""
_COMPARISONS = ("lt", "gt", "eq", "le", "ge", "ne")
_ORDERS = ("", "value index", "index value", "index")
"""Orders of results by their number (asim/vector.h, asim_order)."""
_REDUCTIONS = {"vcadd": "sum", "vcmax": "max", "vcmin": "min", "vcgadd": "sum", "vcgmax": "max", "vcgmin": "min"}


class _WordRows(NamedTuple):
    """The elements of a vector word that take part: `rows` rows of `columns` elements; `mask` for each repeat, None for all.

    `strides` are the bytes from row to row of each operand; `blocks` from block to block, empty where all blocks adjoin.
    """

    columns: int
    rows: int
    strides: tuple[int, ...]
    mask: Mask | None
    blocks: tuple[int, ...] = ()


def steps_of(word: Word, chip: ChipSpec) -> Sequence[WordStep]:
    """Return the instructions of a word with their operands' offsets; () for a word without a row.

    Raises SimError for fields that no instruction here can express.
    """
    if word.name in CUBE_MAKERS:
        return CUBE_MAKERS[word.name](word.name, word.fields, chip)
    if word.name.startswith("scatter_vnchwconv"):
        return _columns(word.name, word.fields, chip)
    key = key_of(word, chip)
    return () if key is None else (WordStep(key),)


def key_of(word: Word, chip: ChipSpec) -> Key | None:
    """Return the key of the only instruction of a word; None for a word without a row (a register or a note).

    Raises SimError for fields that no instruction here can express.
    """
    if WORDS[word.name].register or WORDS[word.name].note:
        return None
    return _MAKERS[word.name](word.name, word.fields, chip)


def _dtype(number: int) -> str:
    if not 0 < number < len(FORMATS):
        raise SimError("elements of a type that is no number format of the machine")
    return FORMATS[number]


def _immediate(dtype: str, bits: int) -> float:
    """Return the scalar operand that is recorded as `bits`: an integer itself, or a float from the bits of a float32."""
    if dtype in INTEGERS:
        return bits
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def _spread(name: str, f: dict[str, int], sizes: tuple[int, ...], sides: tuple[str, ...]) -> _WordRows:
    """Return the elements that a vector word touches; `sides` names its operands, whose elements have `sizes` bytes.

    In count mode `mask_low` is their number, else a mask selects in each repeat. SimError for layouts that are not simulated.
    """
    per = REPEAT // max(sizes)
    steps = [f[f"{side}_repeat"] * BLOCK for side in sides]
    adjoining = all(step == per * size for step, size in zip(steps, sizes, strict=True))
    if f["counting"]:
        count, repeat = f["mask_low"], 1
        bits = (1 << min(count, per)) - 1 if count > 0 else 0
        if count < 1:
            raise SimError(f"{name}: a count of {count} elements; it is at least 1")
        if count > per and not adjoining:
            raise SimError(f"{name}: a count of {count} elements with gaps between repeats is not simulated")
    else:
        repeat = f["repeat"]
        if not 1 <= repeat <= 255:
            raise SimError(f"{name}: repeat {repeat}; a repeat is 1 to 255 (public documentation, repeatTimes)")
        bits = _bits(f) & (1 << per) - 1
        if not bits:
            raise SimError(f"{name}: the mask selects none of the {per} elements of a repeat")
        count = bits.bit_length()
    if not f["counting"] and name in _BLOCKED and count * max(sizes) > BLOCK:
        blocks = tuple(f[f"{side}_block"] * BLOCK for side in sides)
        if any(block != BLOCK for block in blocks):
            held = BLOCK // max(sizes)
            columns = -(-count // held) * held
            mask = None if bits == (1 << columns) - 1 else Mask(bits, per)
            return _WordRows(columns, repeat, tuple(steps) if repeat > 1 else (0,) * len(sides), mask, blocks)
    _check_blocks(name, f, sides, count * max(sizes))
    if not f["counting"] and bits != (1 << count) - 1:
        mask = Mask(bits, per)
        if repeat == 1 or adjoining:
            return _WordRows(per * repeat, 1, (0,) * len(sides), mask)
        return _WordRows(per, repeat, tuple(steps), mask)
    if repeat == 1:
        return _WordRows(count, 1, (0,) * len(sides), None)
    if count == per and adjoining:
        return _WordRows(count * repeat, 1, (0,) * len(sides), None)
    return _WordRows(count, repeat, tuple(steps), None)


def _bits(f: dict[str, int]) -> int:
    """Return the two mask registers as one 128-bit number; bit i stands for element i of a repeat."""
    return (f["mask_high"] & (1 << 64) - 1) << 64 | f["mask_low"] & (1 << 64) - 1


def _check_blocks(name: str, f: dict[str, int], sides: tuple[str, ...], size: int) -> None:
    """Raise SimError for operands of `size` bytes a repeat with gaps between their blocks; a single block has no gap."""
    for side in sides:
        stride = f.get(f"{side}_block", 1)
        if stride != 1 and size > BLOCK:
            raise SimError(f"{name}: a block stride of {stride} ({side}) is not simulated; 1 is")


def _binary(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),) * 3, ("dst", "src0", "src1"))
    dst, first, second = it.strides
    kind = VectorMulAdd if name in MULTIPLY_ADD else VectorBinary
    return kind, _BINARY[name], dtype, it.columns, it.rows, dst, first, it.mask, it.blocks, second


def _unary(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),) * 2, ("dst", "src"))
    return VectorUnary, _UNARY[name], dtype, it.columns, it.rows, *it.strides, it.mask, it.blocks


def _scalar(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),) * 2, ("dst", "src"))
    value = _immediate(dtype, f["scalar"])
    return VectorScalar, _SCALAR[name], dtype, it.columns, it.rows, *it.strides, it.mask, it.blocks, value


def _duplicate(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),), ("dst",))
    return Duplicate, dtype, it.columns, _immediate(dtype, f["scalar"]), it.rows, *it.strides, it.mask


def _copy(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),) * 2, ("dst", "src"))
    return VectorCopy, dtype, it.columns, it.rows, *it.strides, it.mask


def _convert(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    source, target = _dtype(f["source"]), _dtype(f["target"])
    it = _spread(name, f, (size_of(target), size_of(source)), ("dst", "src"))
    if it.mask is not None:
        raise SimError(f"{name}: a cast of scattered elements (mask {it.mask.bits:#x}) is not simulated")
    if (source, target) == ("int32", "float16") and f["deq_scale"] != _SCALE_OF_ONE:
        raise SimError(
            "Cast of int32 to half multiplies by SetDeqScale(scale), of which 1 is simulated; call SetDeqScale((half)1)"
        )
    rounding = chip.vector.cast_mode(source, target, _ROUNDING[f["mode"]])
    return VectorCast, source, target, it.columns, rounding, it.rows, *it.strides


def _gather(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    """Return the key of a Gather; no source element lies behind the source's tensor. Raises SimError for masks and gaps."""
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),), ("dst",))
    if it.rows > 1 or it.mask is not None:
        raise SimError(f"{name}: a scattered mask, or repeats with gaps, are not simulated")
    if f["source_bytes"] < size_of(dtype):
        raise SimError(f"{name}: srcBaseOffset lies behind the source's tensor")
    return Gather, dtype, it.columns, f["source_bytes"] // size_of(dtype)


def _square(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    if size_of(dtype) != 2:
        raise SimError(f"Transpose: elements of {dtype}; a square of 16 x 16 elements of 2 bytes is simulated")
    return Transpose, dtype, 16, 16, BLOCK, BLOCK


def _columns(name: str, f: dict[str, int], chip: ChipSpec) -> Sequence[WordStep]:
    """Return one Transpose a repeat: 16 rows of a block each, of 2-byte elements, or of 4-byte ones with two addresses."""
    dtype, repeat = _dtype(f["format"]), f["repeat"]
    size, dst_step, src_step = size_of(dtype), f["dst_step"], f["src_step"]
    if not 1 <= repeat <= 255:
        raise SimError(f"TransDataTo5HD: repeatTimes {repeat}; a repeat is 1 to 255 (public documentation)")
    pair = dst_step * (size // 2)
    key = Transpose, dtype, 16, BLOCK // size, pair, src_step
    return [WordStep(key, n * f["dst_repeat"] * BLOCK, n * f["src_repeat"] * BLOCK) for n in range(repeat)]


def _compare(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype, repeat = _dtype(f["format"]), f["repeat"]
    if repeat < 1:
        raise SimError(f"{name}: the elements fill no whole repeat of {REPEAT} bytes (public documentation of Compare)")
    for side in ("dst", "src", "src0", "src1"):
        if f.get(f"{side}_block", 1) != 1 or (repeat > 1 and f.get(f"{side}_repeat", 8) != 8):
            raise SimError(
                f"{name}: operands with gaps are not simulated; block strides of 1 and repeat strides of 8 are"
            )
    key = Compare, _COMPARISONS[f["mode"]], dtype, repeat * REPEAT // size_of(dtype)
    return (*key, _immediate(dtype, f["scalar"])) if name == "vcmpvs" else key


def _select(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    """Return the key of a Select; bits of a mask tensor continue over repeats, the mask register holds one repeat's."""
    dtype = _dtype(f["format"])
    by_register, by_scalar = f["mode"] == 0, f["mode"] == 1
    sides = ("dst", "src0") if by_scalar else ("dst", "src0", "src1")
    it = _spread(name, f, (size_of(dtype),) * len(sides), sides)
    if it.rows > 1 or it.mask is not None or not f["adjoining"]:
        raise SimError(f"{name}: operands with gaps are not simulated; full masks and usual strides are")
    if by_register and it.columns > REPEAT // size_of(dtype):
        raise SimError(f"{name}: VSEL_CMPMASK_SPR for {it.columns} elements is not simulated; one repeat is")
    key = Select, dtype, it.columns, f["mask_offset"]
    return (*key, 0, _immediate(dtype, f["scalar"])) if by_scalar else (*key, f["other_offset"])


def _broadcast(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype, repeat = _dtype(f["format"]), f["repeat"]
    if f["dst_block"] != 1 or (repeat > 1 and f["dst_repeat"] != 8):
        raise SimError(f"{name}: results with gaps are not simulated; a block stride of 1 and a repeat stride of 8 are")
    if repeat < 1:
        raise SimError(f"{name}: repeat {repeat}; a repeat is 1 to 255 (public documentation, repeatTimes)")
    return BroadcastColumn, dtype, BLOCK // size_of(dtype), REPEAT // BLOCK * repeat, BLOCK


def _reduce(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    if f["order"] and name != "vcadd":
        return _reduce_with_index(name, f, dtype)
    if f["order"] and not f["counting"]:
        raise SimError("vcadd: a sum in the register of the unit is simulated for a count alone")
    if f["dst_repeat"] != 1 and f["repeat"] > 1:
        raise SimError(f"{name}: results {f['dst_repeat']} elements apart are not simulated; dstRepStride 1 is")
    it = _spread(name, f, (size_of(dtype),), ("src",))
    if it.mask is not None:
        raise SimError(f"{name}: a reduction of scattered elements (mask {it.mask.bits:#x}) is not simulated")
    rows = 1 if f["counting"] else f["repeat"]
    columns = it.columns if it.rows > 1 else it.columns // rows
    stride = f["src_repeat"] * BLOCK if rows > 1 else columns * size_of(dtype)
    return ReduceRows, rows, columns, stride, _REDUCTIONS[name], dtype


def _reduce_with_index(name: str, f: dict[str, int], dtype: str) -> Key:
    """Return the key of a ReduceWithIndex: each repeat is a row, of which the mask selects elements. SimError for gaps."""
    if f["counting"] or not 1 <= f["repeat"] <= 255 or (f["dst_repeat"] != 1 and f["repeat"] > 1):
        raise SimError(f"{name}: results with their index in count mode, or with gaps, are not simulated")
    per = REPEAT // size_of(dtype)
    bits = _bits(f) & (1 << per) - 1
    columns = bits.bit_length()
    if not bits:
        raise SimError(f"{name}: the mask selects none of the {per} elements of a repeat")
    _check_blocks(name, f, ("src",), columns * size_of(dtype))
    mask = None if bits == (1 << columns) - 1 else Mask(bits, per)
    rows, stride = f["repeat"], f["src_repeat"] * BLOCK if f["repeat"] > 1 else columns * size_of(dtype)
    return ReduceWithIndex, rows, columns, stride, _REDUCTIONS[name], dtype, _ORDERS[f["order"]], mask


def _reduce_pairs(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),), ("src",))
    if it.mask is not None or it.rows > 1 or (f["dst_repeat"] != 1 and f["repeat"] > 1):
        raise SimError(f"{name}: a mask, or repeats with gaps, are not simulated")
    if it.columns % 2:
        raise SimError(f"{name}: {it.columns} elements; they are an even number")
    return PairReduceSum, dtype, it.columns // 2


def _reduce_blocks(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    dtype = _dtype(f["format"])
    it = _spread(name, f, (size_of(dtype),), ("src",))
    if it.mask is not None or it.rows > 1 or (f["dst_repeat"] != 1 and f["repeat"] > 1):
        raise SimError(f"{name}: a mask, or repeats with gaps, are not simulated")
    return ReduceBlocks, _REDUCTIONS[name], dtype, it.columns


def _move(source: str, destination: str) -> Callable[[str, dict[str, int], ChipSpec], Key]:
    def make(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
        size, count = f["length"] * BLOCK, f["count"]
        _check_move(name, count, size)
        steps = (size + f["src_gap"] * BLOCK, size + f["dst_gap"] * BLOCK) if count > 1 else (0, 0)
        return _copied(f, (source, destination, size, count, *steps))

    return make


def _aligned(source: str, destination: str) -> Callable[[str, dict[str, int], ChipSpec], Key]:
    def make(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
        """Return the key of a copy of bytes in GM from or to whole blocks in UB; gaps are bytes in GM and blocks in UB."""
        size, count = f["length"], f["count"]
        _check_move(name, count, size)
        item = ITEMSIZES[name]
        left, right = f["left"] * item, f["right"] * item
        if left > BLOCK or right > BLOCK:
            raise SimError(
                f"DataCopyPad: padding of {f['left']} and {f['right']} elements; {BLOCK // item} are possible on a side "
                f"({BLOCK} bytes; public documentation of DataCopyPadExtParams)"
            )
        whole = -(-(left + size + right) // BLOCK) * BLOCK
        in_gm, in_ub = size + f["src_gap"], whole + f["dst_gap"] * BLOCK
        if destination == "GM":
            in_gm, in_ub = size + f["dst_gap"], whole + f["src_gap"] * BLOCK
        steps = (in_gm, in_ub) if destination == "UB" else (in_ub, in_gm)
        moved = source, destination, size, count, *(steps if count > 1 else (0, 0))
        if f["pads"] and left + right:
            return DataCopyPadded, *moved, "", "", left, right, f["padding"] & (1 << 8 * item) - 1, item
        return _copied(f, moved)

    return make


def _copied(f: dict[str, int], moved: tuple[str | int, ...]) -> Key:
    """Return the key of a copy of rows, which on the way to GM adds or keeps an extreme as the atomic register says."""
    added, keep = atomic_of(f["atomic"]) if moved[1] == "GM" else ("", "")
    return (DataCopyExtreme, *moved, added, "", keep) if keep else (DataCopy, *moved, added, "")


def _check_move(name: str, count: int, size: int) -> None:
    if count < 1 or size < 1:
        raise SimError(f"{name}: {count} blocks of {size} bytes; a copy moves at least one of each")


def _barrier(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return PipeBarrier, PIPE_NUMBERS[f["pipe"]]


def _load(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarLoad, SPACES[name], f["size"], False


def _store(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarStore, SPACES[name], f["size"], False


def _copy_element(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarCopy, "UB", f["size"]


def _clean(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    if f["side"] not in (0, 2):
        raise SimError("DataCacheCleanAndInvalid: CACHELINE_ALL and CACHELINE_OUT are simulated")
    return CleanDataCache, f["lines"] == 1


def _cross_set(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    pipe = PIPE_NUMBERS[f["pipe"]]
    return CrossCoreSetFlag, f["flag"], f["mode"], pipe


_MAKERS: dict[str, Callable[[str, dict[str, int], ChipSpec], Any]] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(SCALAR, _scalar),
    "vector_dup": _duplicate,
    "vcopy": _copy,
    "vconv": _convert,
    "vcmpv": _compare,
    "vcmpvs": _compare,
    "vsel": _select,
    "vgather": _gather,
    "vtranspose": _square,
    "vbrcb": _broadcast,
    **dict.fromkeys(("vcadd", "vcmax", "vcmin"), _reduce),
    **dict.fromkeys(("vcgadd", "vcgmax", "vcgmin"), _reduce_blocks),
    "copy_gm_to_ubuf": _move("GM", "UB"),
    "copy_ubuf_to_gm": _move("UB", "GM"),
    "copy_ubuf_to_ubuf": _move("UB", "UB"),
    "copy_cbuf_to_gm": _move("L1", "GM"),
    **dict.fromkeys(ALIGNED_IN, _aligned("GM", "UB")),
    **dict.fromkeys(ALIGNED_OUT, _aligned("UB", "GM")),
    "pipe_barrier": _barrier,
    "vcpadd": _reduce_pairs,
    "copy_ub_": _copy_element,
    "load_ub_": _load,
    "load_gm_": _load,
    "store_ub_": _store,
    "store_gm_": _store,
    "dcci": _clean,
    "ffts_cross_core_sync": _cross_set,
}
