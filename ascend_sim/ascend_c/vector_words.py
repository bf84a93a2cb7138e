"""From the words of the vector unit to instructions, by their operands' repeats (repeats.py)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ascend_sim.ascend_c.cube_words import Fields, Steps, WordStep
from ascend_sim.ascend_c.repeats import (
    MOST_REPEATS,
    OF_BLOCKS,
    OF_REPEATS,
    ORDERS,
    REGISTER,
    REPEAT,
    WordRows,
    as_mask,
    dtype_of,
    in_repeats,
    mask_of,
    repeat_of,
    selects_none,
    sides_of,
    spread,
    strides_of,
    whole_blocks,
)
from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import (
    BroadcastColumn,
    Compare,
    CompareToRegister,
    Duplicate,
    Gather,
    GatherBlocks,
    GatherMask,
    LoadMaskRegister,
    Mask,
    ReduceBlocks,
    ReducePieces,
    ReduceRows,
    ReduceWithIndex,
    Select,
    SelectByRegister,
    SelectRegisterScalar,
    StoreMaskRegister,
    Transpose,
    TransposeHalves,
    VectorBinary,
    VectorBinaryCast,
    VectorCast,
    VectorCopy,
    VectorMulAdd,
    VectorMulAddWide,
    VectorScalar,
    VectorUnary,
    scalar_field,
)
from ascend_sim.isa.vector.arithmetic import MULTIPLY_ADD
from ascend_sim.isa.vector.base import size_of
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.kernel.described import Key
from ascend_sim.numerics.integers import INTEGERS

_BINARY = {
    **{f"v{name}": name for name in ("add", "sub", "mul", "div", "max", "min", "and", "or")},
    **{"vaddrelu": "add_relu", "vsubrelu": "sub_relu"},
    **dict(zip(("vmla", "vmadd", "vmaddrelu"), MULTIPLY_ADD, strict=True)),
}
_UNARY = {f"v{name}": name for name in ("abs", "exp", "ln", "sqrt", "rsqrt", "relu", "not")} | {"vrec": "reciprocal"}
_SCALAR = {f"v{name}": name for name in ("adds", "muls", "maxs", "mins", "axpy")}
_SCALAR |= {"vlrelu": "leaky_relu", "vshl": "shift_left", "vshr": "shift_right"}
_CASTING = {"vaddreluconv": "add_relu", "vsubreluconv": "sub_relu", "vmulconv": "mul"}
_OPERATIONS = {**_BINARY, **_UNARY, **_SCALAR, **_CASTING}
"""Word -> its operation, by the number of its sources and their formats."""
_ROUNDING = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")
_COMPARISONS = ("lt", "gt", "eq", "le", "ge", "ne")
_REDUCTIONS = {"vcadd": "sum", "vcmax": "max", "vcmin": "min", "vcgadd": "sum", "vcgmax": "max", "vcgmin": "min"}
_REDUCTIONS |= {"vcpadd": "sum"}
_SCALAR_MODE, _REGISTER_SCALAR = 1, 3
"""Modes of a selection with a scalar (asim/types.h, SELMODE): in the word, and in the mask register (asim/vector.h)."""


def vector_steps(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the instructions of a word of the vector unit with their offsets; a mask of 0 makes it do nothing (stated:
    asc-devkit, SetVectorMask, products A2 and A3).

    Raises SimError for fields that no simulated instruction can express.
    """
    if selects_none(name, f):
        return ()
    if name in _STEP_MAKERS:
        return _STEP_MAKERS[name](name, f, chip)
    return [WordStep(_KEY_MAKERS[name](name, part, chip), *at) for part, at in in_repeats(name, f)]


def _immediate(dtype: str, bits: int) -> float:
    """Return the number of a scalar operand, which is recorded as the bits of a float32 for floats."""
    if dtype in INTEGERS:
        return bits
    return scalar_field(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])


def _binary(name: str, f: Fields, chip: ChipSpec) -> Key:
    dtype, operation = dtype_of(f["format"]), _OPERATIONS[name]
    it = spread(name, f, (size_of(dtype),) * 3, ("dst", "src0", "src1"))
    dst, first, second = it.strides
    kind = VectorMulAdd if operation in MULTIPLY_ADD else VectorBinary
    return kind, operation, dtype, it.columns, it.rows, dst, first, it.mask, it.blocks, second


def _unary(name: str, f: Fields, chip: ChipSpec) -> Key:
    dtype = dtype_of(f["format"])
    it = spread(name, f, (size_of(dtype),) * 2, ("dst", "src0"))
    return VectorUnary, _OPERATIONS[name], dtype, it.columns, it.rows, *it.strides, it.mask, it.blocks


def _scalar(name: str, f: Fields, chip: ChipSpec) -> Key:
    dtype = dtype_of(f["format"])
    it = spread(name, f, (size_of(dtype),) * 2, ("dst", "src0"))
    operation = _OPERATIONS[name] + ("_round" if f.get("round") else "")
    value = _immediate(dtype, f["value"])
    return VectorScalar, operation, dtype, it.columns, it.rows, *it.strides, it.mask, it.blocks, value


def _duplicate(name: str, f: Fields, chip: ChipSpec) -> Key:
    dtype = dtype_of(f["format"])
    it = spread(name, f, (size_of(dtype),), ("dst",))
    return Duplicate, dtype, it.columns, _immediate(dtype, f["value"]), it.rows, *it.strides, it.mask, it.blocks


def _copy(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a copy; in count mode each repeat takes the whole count (stated: asc-devkit, Copy).

    Raises SimError for a count of more than a repeat with gaps between blocks, and for a number of repeats that a word cannot
    have.
    """
    dtype = dtype_of(f["format"])
    per, count = REPEAT // size_of(dtype), f["mask_low"]
    if f["counting"] and count > per:
        if any(f[f"{side}_block_stride"] != 1 for side in ("dst", "src0")):
            raise SimError(f"{name}: a count of {count} elements with gaps between blocks; a repeat's {per} are possible")
        strides = tuple(f[f"{side}_repeat_stride"] * BLOCK_BYTES for side in ("dst", "src0"))
        return VectorCopy, dtype, count, repeat_of(name, f), *(strides if f["repeat"] > 1 else (0, 0)), None, ()
    if f["counting"]:
        f = as_mask(f, max(count, 0))
    it = spread(name, f, (size_of(dtype),) * 2, ("dst", "src0"))
    return VectorCopy, dtype, it.columns, it.rows, *it.strides, it.mask, it.blocks


def _convert(name: str, f: Fields, chip: ChipSpec) -> Key:
    source, target = dtype_of(f["source"]), dtype_of(f["target"])
    it = spread(name, f, (size_of(target), size_of(source)), ("dst", "src0"))
    layout = it.rows, *it.strides, it.mask, it.blocks
    if (source, target) == ("int32", "float16"):  # it has no mode (stated: asc-devkit, Cast)
        scale = float(np.array(f["deq_scale"] & 0xFFFF, np.uint16).view(np.float16))
        if not scale or f["deq_scale"] > 0xFFFF:
            raise SimError("Cast of int32 to half multiplies by a scale; SetDeqScale(half) sets it before, and not to 0")
        mode = chip.vector.cast_mode(source, target)
        return VectorCast, source, target, it.columns, mode, *layout, *([] if scale == 1.0 else [scale])
    return VectorCast, source, target, it.columns, chip.vector.cast_mode(source, target, _ROUNDING[f["mode"]]), *layout


def _casting(name: str, f: Fields, chip: ChipSpec) -> Key:
    source, target = dtype_of(f["source"]), dtype_of(f["target"])
    it = spread(name, f, (size_of(target), size_of(source), size_of(source)), ("dst", "src0", "src1"))
    dst, first, second = it.strides
    layout = it.columns, it.rows, dst, first, it.mask, it.blocks, second
    return VectorBinaryCast, _OPERATIONS[name], source, target, *layout


def _mul_add_wide(name: str, f: Fields, chip: ChipSpec) -> Key:
    source, target = dtype_of(f["source"]), dtype_of(f["target"])
    scalar = _immediate(source, f["value"]) if "value" in f else None
    sides = ("dst", "src0", "src1") if scalar is None else ("dst", "src0")
    it = spread(name, f, (size_of(target), *(size_of(source) for _ in sides[1:])), sides)
    dst, first, second = (*it.strides, 0)[:3]
    return VectorMulAddWide, it.columns, scalar, it.rows, dst, first, it.mask, it.blocks, second


def _compare(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a comparison, which has no mask; the bits of its repeats lie one behind the other.

    Raises SimError for bits with gaps.
    """
    dtype, repeat = dtype_of(f["format"]), f["repeat"]
    if f["dst_block_stride"] != 1 or (repeat > 1 and f["dst_repeat_stride"] != 8):
        raise SimError(f"{name}: bits with gaps are not simulated; a block stride of 1 and a repeat stride of 8 are")
    sources = [side for side in sides_of(name, f) if side != "dst"]
    blocks = tuple(f[f"{side}_block_stride"] * BLOCK_BYTES for side in ("dst", *sources))
    strides = [f[f"{side}_repeat_stride"] * BLOCK_BYTES for side in sources] + [0] * (2 - len(sources))
    scalar = _immediate(dtype, f["value"]) if name == "vcmpvs" else None
    per, one = REPEAT // size_of(dtype), all(block == BLOCK_BYTES for block in blocks)
    key = Compare, _COMPARISONS[f["mode"]], dtype
    if one and (repeat == 1 or all(stride == REPEAT for stride in strides[: len(sources)])):
        return (*key, repeat * per, scalar) if scalar is not None else (*key, repeat * per)
    return (*key, per, scalar, repeat, *strides, () if one else blocks)


def _compare_to_register(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a comparison of one repeat into the mask register. Raises SimError for a mask with gaps, and for a
    number of repeats that a word cannot have.
    """
    dtype = dtype_of(f["format"])
    it = spread(name, f, (size_of(dtype),) * 2, ("src0", "src1"))
    if it.mask is not None:
        raise SimError(f"{name}: a mask with gaps is not simulated; the first elements of the repeat are")
    return CompareToRegister, _COMPARISONS[f["mode"]], dtype, it.columns, (BLOCK_BYTES, *it.blocks) if it.blocks else ()


def _select(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a selection: the bits of a mask continue from repeat to repeat, the mask register has one repeat's.
    Raises SimError for a number of repeats that a word cannot have.
    """
    dtype = dtype_of(f["format"])
    by_scalar = f["mode"] in (_SCALAR_MODE, _REGISTER_SCALAR)
    sides = ("dst", "src0") if by_scalar else ("dst", "src0", "src1")
    it = spread(name, f, (size_of(dtype),) * len(sides), sides)
    per = REPEAT // size_of(dtype)
    if f["mode"] == REGISTER and it.columns > per:
        it = it._replace(columns=per, rows=it.columns // per, strides=(REPEAT,) * len(sides))
    if f["mode"] == _REGISTER_SCALAR:
        from_bits = per // 8 if it.rows > 1 else 0
        return SelectRegisterScalar, dtype, it.columns, 0, 0, None, it.rows, *it.strides, 0, from_bits, it.mask, it.blocks
    if f["mask_offset"] < 0:
        layout = (it.rows, *it.strides, it.mask, it.blocks)
        return SelectByRegister, dtype, it.columns, *layout
    scalar = _immediate(dtype, f["value"]) if by_scalar else None
    key = Select, dtype, it.columns, f["mask_offset"], 0 if by_scalar else f["other_offset"], scalar
    if it.rows == 1 and it.mask is None and not it.blocks:
        return key
    strides = (*it.strides, 0)[:3]
    bits = 0 if f["mode"] == REGISTER or it.rows == 1 else per // 8
    return (*key, it.rows, *strides, bits, it.mask, it.blocks)


def _reduce(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a reduction of repeats. If results, and blocks of src, lie without gaps: with an order a
    `ReduceWithIndex`, else a `ReduceRows` if no mask leaves elements out.

    Other reductions become pieces (`_pieces`). Raises SimError for a vcadd into the unit's register without a count, and for a
    number of repeats that a word cannot have.
    """
    dtype, order = dtype_of(f["format"]), ORDERS[f["order"]]
    if order and name == "vcadd":
        if not f["counting"]:
            raise SimError("vcadd: a sum in the register of the unit is simulated for a count alone")
        return ReduceRows, 1, f["mask_low"], f["mask_low"] * size_of(dtype), "sum", dtype
    if f["counting"]:
        f = as_mask(f | {"repeat": 1}, f["mask_low"])
    it = _reduced(name, f, dtype)
    contiguous = not it.blocks and (it.rows == 1 or f["dst_repeat_stride"] == 1)
    stride = it.strides[1] if it.rows > 1 else it.columns * size_of(dtype)
    whole = it.rows, it.columns, stride, _REDUCTIONS[name], dtype
    if order and contiguous:
        return ReduceWithIndex, *whole, order, it.mask
    if contiguous and it.mask is None:
        return ReduceRows, *whole
    return _pieces("repeat", name, it, dtype, order)


def _reduced(name: str, f: Fields, dtype: str) -> WordRows:
    """Return the elements of a reduction, repeat by repeat; strides are those of results and of src."""
    per = REPEAT // size_of(dtype)
    bits, repeat = mask_of(f, per), repeat_of(name, f)
    columns, block, mask = bits.bit_length(), f["src0_block_stride"] * BLOCK_BYTES, None
    blocks: tuple[int, ...] = ()
    if block != BLOCK_BYTES and columns * size_of(dtype) > BLOCK_BYTES:
        columns, blocks = whole_blocks(columns, size_of(dtype)), (BLOCK_BYTES, block)
    if bits != (1 << columns) - 1:
        mask = Mask(bits, per)
    return WordRows(columns, repeat, strides_of(name, f) if repeat > 1 else (0, 0), mask, blocks)


def _pieces(piece: str, name: str, it: WordRows, dtype: str, order: str = "") -> Key:
    """Return the key of a ReducePieces of each `piece` ("repeat", "block" or "pair") of the repeats `it`."""
    dst, src = it.strides
    return ReducePieces, piece, _REDUCTIONS[name], dtype, it.columns, it.rows, src, dst, it.mask, it.blocks, order


def _reduce_parts(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a reduction of blocks or of pairs: of elements that adjoin, as results do, without a mask, a
    `ReduceBlocks` or a `PairReduceSum`; of others, and of pairs of an odd count, a `ReducePieces`.
    """
    dtype = dtype_of(f["format"])
    size, pairs = size_of(dtype), name == "vcpadd"
    it = WordRows(f["mask_low"], 1, (0, 0), None) if f["counting"] else _reduced(name, f, dtype)
    per = REPEAT // size
    whole = it.columns == per and f["src0_repeat_stride"] == REPEAT // BLOCK_BYTES
    adjoins = it.rows == 1 or (whole and f["dst_repeat_stride"] == 1)
    count = it.rows * it.columns
    if not adjoins or it.mask is not None or it.blocks or (pairs and count % 2):
        return _pieces("pair" if pairs else "block", name, it, dtype)
    return (PairReduceSum, dtype, count // 2) if pairs else (ReduceBlocks, _REDUCTIONS[name], dtype, count)


def _gather_mask(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a GatherMask; a count is that of each repeat (stated: asc-devkit, GatherMask, products A2, A3).

    Raises SimError for a count below 1, for one that fills no whole blocks where blocks lie apart, and for a number of repeats
    that a word cannot have.
    """
    dtype, repeat = dtype_of(f["format"]), repeat_of(name, f)
    size = size_of(dtype)
    count, block = f["mask_low"] if f["counting"] else REPEAT // size, f["src0_block_stride"] * BLOCK_BYTES
    if count < 1 or (block != BLOCK_BYTES and count * size % BLOCK_BYTES):
        raise SimError(
            f"GatherMask: mask {count}; it must be at least 1, and fill whole blocks with src0BlockStride "
            f"{block // BLOCK_BYTES}"
        )
    blocks = () if block == BLOCK_BYTES else (BLOCK_BYTES, block)
    strides = (f["src0_repeat_stride"] * BLOCK_BYTES, f["src1_repeat_stride"] * BLOCK_BYTES) if repeat > 1 else (0, 0)
    return GatherMask, dtype, count, f["pattern"], repeat, *strides, blocks


def _gather(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the steps of a gather: one Gather for all repeats if their results adjoin, else one for each; every repeat reads
    its own run of byte offsets.

    The source ends with its tensor. Raises SimError if less than one element lies before that end, and for a number of repeats
    that a word cannot have.
    """
    dtype = dtype_of(f["format"])
    size = size_of(dtype)
    it = spread(name, f, (size,), ("dst",))
    if f["source_bytes"] < size:
        raise SimError(f"{name}: srcBaseOffset lies behind the source's tensor")
    key = Gather, dtype, it.columns, f["source_bytes"] // size, *([] if it.mask is None else [it.mask])
    offsets = REPEAT // size * 4  # the bytes of the offsets of a repeat
    return [WordStep(key, row * it.strides[0], 0, row * offsets) for row in range(it.rows)]


def _gather_blocks(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a Gatherb; a block stride of 0 is 1 (stated: asc-devkit, Gatherb, products A2 and A3)."""
    block, stride = (f["dst_block_stride"] or 1) * BLOCK_BYTES, f["dst_repeat_stride"] * BLOCK_BYTES
    return GatherBlocks, dtype_of(f["format"]), repeat_of(name, f), f["source_bytes"], block, stride


def _square(name: str, f: Fields, chip: ChipSpec) -> Key:
    """Return the key of a Transpose of 16 x 16 elements. Raises SimError for elements that are not 2 bytes wide."""
    dtype = dtype_of(f["format"])
    if size_of(dtype) != 2:
        raise SimError(f"Transpose: elements of {dtype}; a square of 16 x 16 elements of 2 bytes is simulated")
    return Transpose, dtype, 16, 16, BLOCK_BYTES, BLOCK_BYTES


def _columns(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the steps of TransDataTo5HD: one Transpose of 16 rows of a 32-byte block for each repeat.

    With elements of 4 bytes a row of the result, 16 elements, takes two addresses; with 1 byte it takes half a block, and the
    step is a TransposeHalves. A single repeat begins a step behind the addresses (public documentation of repeatTimes). Raises
    SimError for a number of repeats that a word cannot have.
    """
    dtype, repeat = dtype_of(f["format"]), f["repeat"]
    size, dst_step, src_step = size_of(dtype), f["dst_step"], f["src_step"]
    if not 1 <= repeat <= MOST_REPEATS:
        raise SimError(f"TransDataTo5HD: repeatTimes {repeat}; a repeat is 1 to {MOST_REPEATS} (public documentation)")
    pair = dst_step * (size // 2)
    key: Key = Transpose, dtype, 16, BLOCK_BYTES // size, pair, src_step
    if size == 1:
        key = TransposeHalves, dtype, dst_step, src_step, bool(f["dst_upper"]), bool(f["src_upper"])
    numbers = range(repeat) if repeat > 1 else (1,)
    return [WordStep(key, n * f["dst_repeat_stride"] * BLOCK_BYTES, n * f["src0_repeat_stride"] * BLOCK_BYTES) for n in numbers]


def _broadcast(name: str, f: Fields, chip: ChipSpec) -> Steps:
    """Return the steps of Brcb, in which a repeat spreads 8 elements, each over a block of 32 bytes. Raises SimError for a
    number of repeats that a word cannot have.

    Repeats whose results continue one another are one step; otherwise each repeat is a step.
    """
    dtype, repeat = dtype_of(f["format"]), repeat_of(name, f)
    each, size = REPEAT // BLOCK_BYTES, size_of(dtype)
    step = f["dst_block_stride"] * BLOCK_BYTES
    together = repeat if repeat == 1 or f["dst_repeat_stride"] == each * f["dst_block_stride"] else 1
    key = BroadcastColumn, dtype, BLOCK_BYTES // size, each * together, step
    return [WordStep(key, n * f["dst_repeat_stride"] * BLOCK_BYTES, n * each * size) for n in range(0, repeat, together)]


def _alone(make: Callable[[str, Fields, ChipSpec], Key]) -> Callable[[str, Fields, ChipSpec], Steps]:
    """Return a maker of steps that calls `make` for a key and returns it as the one step of a word, without offsets."""
    return lambda name, f, chip: [WordStep(make(name, f, chip))]


_STEP_MAKERS: Mapping[str, Callable[[str, Fields, ChipSpec], Sequence[WordStep]]] = {
    "vgather": _gather,
    "vbrcb": _broadcast,
    "scatter_vnchwconv_b8": _columns,
    "scatter_vnchwconv_b16": _columns,
    "scatter_vnchwconv_b32": _columns,
    "vgatherb": _alone(_gather_blocks),
    "vreducev2": _alone(_gather_mask),
    "vtranspose": _alone(_square),
    "vcmpv": _alone(_compare),
    "vcmpvs": _alone(_compare),
    "vcmp": _alone(_compare_to_register),
    "load_cmpmask": _alone(lambda name, f, chip: (LoadMaskRegister,)),
    "store_cmpmask": _alone(lambda name, f, chip: (StoreMaskRegister,)),
}
_KEY_MAKERS: Mapping[str, Callable[[str, Fields, ChipSpec], Key]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_SCALAR, _scalar),
    "vector_dup": _duplicate,
    "vcopy": _copy,
    "vconv": _convert,
    **dict.fromkeys(_CASTING, _casting),
    **dict.fromkeys(("vmla_wide_", "vaxpy_wide_"), _mul_add_wide),
    "vsel": _select,
    **dict.fromkeys(OF_REPEATS, _reduce),
    **dict.fromkeys((*OF_BLOCKS, "vcpadd"), _reduce_parts),
}
"""By word: the key of one instruction, and of words without a count, the steps."""
VECTOR_WORDS = frozenset((*_KEY_MAKERS, *_STEP_MAKERS))
