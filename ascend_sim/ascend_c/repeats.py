"""The repeats of a vector word: which elements take part, and how far apart repeats and blocks lie."""

from __future__ import annotations

from typing import NamedTuple

from ascend_sim.ascend_c.cube_words import Fields
from ascend_sim.ascend_c.words import FORMATS
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.isa.forms.calls import ADDRESSES
from ascend_sim.isa.vector import Mask
from ascend_sim.isa.vector.base import size_of
from ascend_sim.isa.vector.reduction import numbers_of

REPEAT = 256
"""Bytes that a vector word takes up in one repeat (public documentation of the repeat parameters)."""
MOST_REPEATS = 255
"""Repeats of one word (the same)."""
ORDERS = ("", "value index", "index value", "index")
"""Orders of results by their number (asim/vector.h, asim_order)."""
OF_REPEATS, OF_BLOCKS = ("vcadd", "vcmax", "vcmin"), ("vcgadd", "vcgmax", "vcgmin")
"""Reductions of whole repeats, and of blocks."""
REGISTER = 0
"""Mode of a selection by the mask register (asim/types.h, SELMODE)."""


class WordRows(NamedTuple):
    """The elements of a vector word that take part: `rows` of `columns` elements; `mask` for each repeat, None for all.

    `strides` are the bytes from row to row of each operand, 0 for a single row. `blocks` are the bytes from block to block of
    each operand, empty where all blocks adjoin.
    """

    columns: int
    rows: int
    strides: tuple[int, ...]
    mask: Mask | None
    blocks: tuple[int, ...] = ()


def dtype_of(number: int) -> str:
    """Return the number format with a recorded number. Raises SimError for a number that names none."""
    if not 0 < number < len(FORMATS):
        raise SimError("the elements have an unknown number format")
    return FORMATS[number]


def sides_of(name: str, f: Fields) -> tuple[str, ...]:
    """Return the operands of a word that have repeat strides, in the order of its addresses; of vector_dup dst alone."""
    found = tuple(side for side in ADDRESSES if f"{side}_repeat_stride" in f)
    return found[:1] if name == "vector_dup" else found


def _sizes(f: Fields) -> tuple[int, ...]:
    """Return the bytes of an element of dst and of a source."""
    if "target" in f:
        return size_of(dtype_of(f["target"])), size_of(dtype_of(f["source"]))
    return (size_of(dtype_of(f["format"])),) * 2


def _units(name: str, f: Fields) -> list[int]:
    """Return the unit in bytes of the repeat stride of each operand: a block of 32 bytes, but for dst of a reduction the size
    of a repeat's results.
    """
    size, order = _sizes(f)[0], ORDERS[f.get("order", 0)]
    dtype = dtype_of(f["target" if "target" in f else "format"])
    results = {
        **dict.fromkeys(OF_REPEATS, size * (numbers_of(order, dtype) if order else 1)),
        **dict.fromkeys(OF_BLOCKS, REPEAT // BLOCK_BYTES * size),
        "vcpadd": REPEAT // 2,
    }
    return [results.get(name, BLOCK_BYTES) if side == "dst" else BLOCK_BYTES for side in sides_of(name, f)]


def strides_of(name: str, f: Fields) -> tuple[int, ...]:
    """Return the bytes from repeat to repeat of each operand with a repeat stride, in the order of `sides_of`."""
    units = zip(sides_of(name, f), _units(name, f), strict=True)
    return tuple(f[f"{side}_repeat_stride"] * unit for side, unit in units)


def in_repeats(name: str, f: Fields) -> list[tuple[Fields, tuple[int, ...]]]:
    """Return the words into which a word splits, each with its operands' offsets in bytes: a count of elements becomes whole
    repeats (at most MOST_REPEATS a word), and one repeat with a mask for the rest.

    That happens to a count over gaps, and to one of more than a repeat in a reduction of repeats and in a selection by the mask
    register. Other counts, words in repeat mode, copies, and a sum in the unit's register stay one word, without offsets.
    Raises SimError for a count below 1, and for a selection over gaps that is not by the mask register.
    """
    if not f["counting"] or name == "vcopy":
        return [(f, ())]
    count, per = f["mask_low"], REPEAT // max(_sizes(f))
    if count < 1:
        raise SimError(f"{name}: a count of {count} elements; allowed is 1 or more")
    strides = strides_of(name, f)
    gaps = any(f.get(f"{side}_block_stride", 1) != 1 for side in sides_of(name, f))
    if count > per:
        in_register = name == "vsel" and f["mode"] == REGISTER
        gaps |= strides != _adjoining(name, f) or name in OF_REPEATS or in_register
    if not gaps or (name == "vcadd" and f["order"]):
        return [(f, ())]
    if name == "vsel" and f["mode"] != REGISTER:
        raise SimError(f"{name}: a count of {count} elements with gaps is not simulated")
    whole, rest = divmod(count, per)
    parts = [
        (first, f | {"counting": 0, "repeat": min(whole - first, MOST_REPEATS), "mask_low": -1, "mask_high": -1})
        for first in range(0, whole, MOST_REPEATS)
    ]
    if rest:
        parts.append((whole, as_mask(f | {"repeat": 1}, rest)))
    if name == "vsel" and f["mask_offset"] >= 0:  # the mask stays where it is
        moved = [(first, part | {"other_offset": f["other_offset"] + first * strides[2]}) for first, part in parts]
        return [(part, (first * strides[0], first * strides[1])) for first, part in moved]
    return [(part, tuple(first * stride for stride in strides)) for first, part in parts]


def _adjoining(name: str, f: Fields) -> tuple[int, ...]:
    """Return the repeat stride in bytes with which the repeats of each operand adjoin, the result first."""
    target, source = _sizes(f)
    per = REPEAT // max(target, source)
    results = {**dict.fromkeys(OF_BLOCKS, REPEAT // BLOCK_BYTES * target), "vcpadd": REPEAT // 2}
    return (results.get(name, per * target), *(per * source for _ in sides_of(name, f)[1:]))


def as_mask(f: Fields, count: int) -> Fields:
    """Return the fields of a word in repeat mode whose first `count` elements take part."""
    bits = (1 << count) - 1
    return f | {"counting": 0, "mask_low": bits & (1 << 64) - 1, "mask_high": bits >> 64}


def spread(name: str, f: Fields, sizes: tuple[int, ...], sides: tuple[str, ...]) -> WordRows:
    """Return the elements that a word touches in its operands `sides`, whose elements have `sizes` bytes; in count mode one row
    of all of them.

    Raises SimError for a number of repeats that a word cannot have.
    """
    per = REPEAT // max(sizes)
    nothing = (0,) * len(sides)
    if f["counting"]:
        return WordRows(f["mask_low"], 1, nothing, None)
    steps = tuple(f[f"{side}_repeat_stride"] * BLOCK_BYTES for side in sides)
    adjoining = all(step == per * size for step, size in zip(steps, sizes, strict=True))
    repeat = repeat_of(name, f)
    bits = mask_of(f, per)
    count = bits.bit_length()
    blocks = tuple(f.get(f"{side}_block_stride", 1) * BLOCK_BYTES for side in sides)
    if count * max(sizes) > BLOCK_BYTES and any(block != BLOCK_BYTES for block in blocks):
        columns = whole_blocks(count, min(sizes))
        mask = None if bits == (1 << columns) - 1 else Mask(bits, per)
        return WordRows(columns, repeat, steps if repeat > 1 else nothing, mask, blocks)
    if bits != (1 << count) - 1:
        mask = Mask(bits, per)
        if repeat == 1 or adjoining:
            return WordRows(per * repeat, 1, nothing, mask)
        columns = per if steps[0] >= per * sizes[0] else count  # results of repeats lie apart, or those up to the last bit
        return WordRows(columns, repeat, steps, mask)
    if repeat == 1:
        return WordRows(count, 1, nothing, None)
    if count == per and adjoining:
        return WordRows(count * repeat, 1, nothing, None)
    return WordRows(count, repeat, steps, None)


def whole_blocks(count: int, size: int) -> int:
    """Return a count of elements rounded up to whole blocks."""
    held = BLOCK_BYTES // size
    return -(-count // held) * held


def repeat_of(name: str, f: Fields) -> int:
    """Return the number of repeats of a word. Raises SimError unless it is from 1 to MOST_REPEATS."""
    if not 1 <= f["repeat"] <= MOST_REPEATS:
        raise SimError(f"{name}: repeat {f['repeat']}; a repeat is 1 to {MOST_REPEATS} (public documentation, repeatTimes)")
    return f["repeat"]


def mask_of(f: Fields, per: int) -> int:
    """Return the mask registers as a number whose bit i stands for element i of a repeat of `per` elements."""
    bits = (f["mask_high"] & (1 << 64) - 1) << 64 | f["mask_low"] & (1 << 64) - 1
    return bits & (1 << per) - 1


def selects_none(name: str, f: Fields) -> bool:
    """Return True if a word in repeat mode has a mask that selects no element; False for a GatherMask, which then takes whole
    repeats.
    """
    return "mask_low" in f and not f["counting"] and name != "vreducev2" and not mask_of(f, REPEAT // max(_sizes(f)))
