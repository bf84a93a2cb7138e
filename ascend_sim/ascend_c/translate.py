"""From the words of dav-2201 to instructions: what a word does, as steps of one instruction each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ascend_sim.ascend_c.cube_words import CUBE_MAKERS, WordStep
from ascend_sim.ascend_c.vector_words import VECTOR_WORDS, vector_steps
from ascend_sim.ascend_c.words import ALIGNED_IN, ALIGNED_OUT, ND2NZ, PIPE_NUMBERS, WORDS, Word, atomic_of
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarCopy, ScalarLoad, ScalarStore
from ascend_sim.isa.sync import ONE_VECTOR, CrossCoreSetFlag, PipeBarrier, Scalar
from ascend_sim.isa.transfer import FIRST_OF_ROW, DataCopy, DataCopyExtreme, DataCopyPadded
from ascend_sim.isa.vector import VectorCopy
from ascend_sim.kernel.described import Key

BLOCK = 32
"""Bytes of a block of the Unified Buffer, in which the words count (public documentation of the repeat and copy parameters)."""

SPACES = {"load_ub_": "UB", "load_gm_": "GM", "store_ub_": "UB", "store_gm_": "GM"}
"""Word of the scalar unit -> the space that it reads or writes."""
ITEMSIZES = {name: 1 << number for names in (ALIGNED_IN, ALIGNED_OUT) for number, name in enumerate(names)}
"""Bytes of an element, in which the padding of a copy counts."""


def steps_of(word: Word, chip: ChipSpec) -> Sequence[WordStep]:
    """Return the instructions of a word with their operands' offsets; () for a word without a row, and for a call with a count
    of 0, which does nothing (public documentation, of every such call).

    Words of flags are not known here, but for sets between cores (`rows` has them). Raises SimError for fields that no
    simulated instruction can express.
    """
    if _does_nothing(word):
        return ()
    if word.name in CUBE_MAKERS:
        return CUBE_MAKERS[word.name](word.name, word.fields, chip)
    if word.name in VECTOR_WORDS:
        return vector_steps(word.name, word.fields, chip)
    if WORDS[word.name].register or WORDS[word.name].note:
        return ()
    return (WordStep(_MAKERS[word.name](word.name, word.fields, chip)),)


def _does_nothing(word: Word) -> bool:
    """Return True if a count of a word is 0: its elements, its repeats or blocks, or a side of its matrix."""
    f = word.fields
    names = _COUNTS.get(word.name, ("count", "length") if word.name.startswith("copy_") else ("repeat",))
    return any(f.get(name) == 0 for name in names) or bool(f.get("counting") and not f["mask_low"])


_COUNTS = {
    "mad": ("m", "k", "n"),
    **dict.fromkeys(("copy_matrix_cc_to_gm", "copy_matrix_cc_to_cbuf"), ("m", "n")),
    **dict.fromkeys(ND2NZ, ("matrices", "rows", "columns")),
}
"""Word -> the fields that are counts; other copies have a count and a length, other words a repeat."""


def _move(source: str, destination: str) -> Callable[[str, dict[str, int], ChipSpec], Key]:
    def make(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
        size, count = f["length"] * BLOCK, f["count"]
        _check_move(name, count, size)
        steps = (size + f["src_gap"] * BLOCK, size + f["dst_gap"] * BLOCK) if count > 1 else (0, 0)
        return _copied(f, (source, destination, size, count, *steps))

    return make


def _aligned(source: str, destination: str) -> Callable[[str, dict[str, int], ChipSpec], Key]:
    def make(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
        """Return the key of a copy of bytes in GM from or to whole blocks in UB; gaps are bytes in GM and blocks in UB.

        The padding's value fills a row's last block too, and the row's first element where there is no padding (stated:
        asc-devkit, DataCopyPad, as what follows). Where nothing has set the padding, any number may stand there: on the right
        it stays what it was, on the left it is 0. Raises SimError for padding of more than 32 bytes on a side.
        """
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
        if f["pads"] and (left or right):
            right = whole - left - size
        if left or (f["pads"] and right):
            return DataCopyPadded, *moved, "", "", left, right, f["padding"] & (1 << 8 * item) - 1, item
        if destination == "UB" and not right and whole > size and size % item == 0:
            return DataCopyPadded, *moved, "", "", 0, whole - size, FIRST_OF_ROW, item
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
    pipe = PIPE_NUMBERS[f["pipe"]]
    if pipe == "S":
        raise SimError("PipeBarrier<PIPE_S>: the scalar unit is in order by itself and has no barrier (public documentation)")
    return PipeBarrier, pipe


def _load(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarLoad, SPACES[name], f["size"], False


def _store(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarStore, SPACES[name], f["size"], False


def _copy_element(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarCopy, "UB", f["size"]


def _clean(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    if f["side"] not in (0, 2):
        raise SimError("DataCacheCleanAndInvalid: this range is not simulated; CACHELINE_ALL and CACHELINE_OUT are")
    return CleanDataCache, f["lines"] == 1


def _cross_set(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    pipe = PIPE_NUMBERS[f["pipe"]]
    if pipe in ("S", "ALL") and f["mode"] != ONE_VECTOR:
        raise SimError(
            f"CrossCoreSetFlag: a flag is not raised from PIPE_{pipe} (public documentation); V, M, MTE and FIX pipes raise"
        )
    return CrossCoreSetFlag, f["flag"], f["mode"], pipe


def _inside(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    """Return the key of a copy inside UB, which is the vector unit's."""
    blocks, count = f["length"], f["count"]
    _check_move(name, count, blocks)
    steps = [(blocks + f[gap]) * BLOCK if count > 1 else 0 for gap in ("dst_gap", "src_gap")]
    return VectorCopy, "int16", blocks * (BLOCK // 2), count, *steps, None, ()


def _message(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return Scalar, chip.sync.message_cycles


_MAKERS: dict[str, Callable[[str, dict[str, int], ChipSpec], Any]] = {
    "copy_gm_to_ubuf": _move("GM", "UB"),
    "copy_ubuf_to_gm": _move("UB", "GM"),
    "copy_ubuf_to_ubuf": _inside,
    "copy_cbuf_to_gm": _move("L1", "GM"),
    **dict.fromkeys(ALIGNED_IN, _aligned("GM", "UB")),
    **dict.fromkeys(ALIGNED_OUT, _aligned("UB", "GM")),
    "pipe_barrier": _barrier,
    "copy_ub_": _copy_element,
    "load_ub_": _load,
    "load_gm_": _load,
    "store_ub_": _store,
    "store_gm_": _store,
    "dcci": _clean,
    "ffts_cross_core_sync": _cross_set,
    "message_": _message,
}
