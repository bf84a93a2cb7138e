"""From the words of dav-2201 to instructions: what a word does, as steps of one instruction each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ascend_sim.ascend_c.cube_words import CUBE_MAKERS, WordStep
from ascend_sim.ascend_c.vector_words import VECTOR_WORDS, vector_steps
from ascend_sim.ascend_c.words import PIPE_NUMBERS, WORDS, Word, atomic_of, check_widths, has_row, items_of, parts_of
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache, ScalarCopy, ScalarLoad, ScalarStore
from ascend_sim.isa.sync import ONE_VECTOR, CrossCoreSetFlag, PipeBarrier, Scalar
from ascend_sim.isa.transfer import FIRST_OF_ROW, DataCopy, DataCopyExtreme, DataCopyPadded
from ascend_sim.isa.vector import VectorCopy
from ascend_sim.kernel.described import Key

BLOCK = 32
"""Bytes of a block of the Unified Buffer, in which the words count (public documentation of the repeat and copy parameters)."""


def steps_of(word: Word, chip: ChipSpec) -> Sequence[WordStep]:
    """Return the instructions of a word with their operands' offsets; () for a word without a row, and for a call with a count
    of 0, which does nothing (public documentation, of every such call).

    Words of flags are not known here, but for sets between cores (`rows` has them). Raises SimError for fields that no
    simulated instruction can express, and for one that is wider than the word declares.
    """
    if not has_row(word.name) or _does_nothing(word):
        return ()
    if word.name in CUBE_MAKERS:
        steps = CUBE_MAKERS[word.name](word.name, word.fields, chip)
    elif word.name in VECTOR_WORDS:
        steps = vector_steps(word.name, word.fields, chip)
    else:
        steps = (WordStep(_MAKERS[word.name](word.name, word.fields, chip)),)
    check_widths(word)
    return steps


def _does_nothing(word: Word) -> bool:
    """Return True if a count of a word is 0: its elements, its repeats or blocks, or a side of its matrix."""
    f = word.fields
    return any(f.get(name) == 0 for name in _COUNTS) or bool(f.get("counting") and not f["mask_low"])


_COUNTS = ("n_burst", "len_burst", "nd_num", "n_value", "d_value", "n_size", "m_size", "m", "k", "n", "repeat")
"""Fields that are counts."""


def _move(source: str, destination: str) -> Callable[[str, dict[str, int], ChipSpec], Key]:
    def make(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
        size, count = f["len_burst"] * BLOCK, f["n_burst"]
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
        size, count = f["len_burst"], f["n_burst"]
        _check_move(name, count, size)
        item = items_of(name)
        left, right = f["left_pad"] * item, f["right_pad"] * item
        if left > BLOCK or right > BLOCK:
            raise SimError(
                f"DataCopyPad: padding of {f['left_pad']} and {f['right_pad']} elements; {BLOCK // item} are possible "
                f"on a side ({BLOCK} bytes; public documentation of DataCopyPadExtParams)"
            )
        whole = -(-(left + size + right) // BLOCK) * BLOCK
        in_gm, in_ub = size + f["gm_gap"], whole + f["local_gap"] * BLOCK
        steps = (in_gm, in_ub) if destination == "UB" else (in_ub, in_gm)
        moved = source, destination, size, count, *(steps if count > 1 else (0, 0))
        pads = f.get("pads") and (left or right)
        if pads:
            right = whole - left - size
        if left or (pads and right):
            return DataCopyPadded, *moved, "", "", left, right, f["mov_pad_val"] & (1 << 8 * item) - 1, item
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
    return ScalarLoad, WORDS[name].spaces[1], f["size"], False


def _store(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarStore, WORDS[name].spaces[0], f["size"], False


def _copy_element(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return ScalarCopy, "UB", f["size"]


def _clean(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    if f["side"] not in (0, 2):
        raise SimError("DataCacheCleanAndInvalid: this range is not simulated; CACHELINE_ALL and CACHELINE_OUT are")
    return CleanDataCache, f["lines"] == 1


def _cross_set(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    pipe, parts = PIPE_NUMBERS[f["pipe"]], parts_of(name, "config", f["config"])
    if pipe in ("S", "ALL"):
        raise SimError(
            f"CrossCoreSetFlag: a flag is not raised from PIPE_{pipe} (public documentation); V, M, MTE and FIX pipes raise"
        )
    return CrossCoreSetFlag, parts["flag"], parts["mode"], pipe


def _raise(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    return CrossCoreSetFlag, f["flag"], ONE_VECTOR, PIPE_NUMBERS[f["pipe"]]


def _inside(name: str, f: dict[str, int], chip: ChipSpec) -> Key:
    """Return the key of a copy inside UB, which is the vector unit's."""
    blocks, count = f["len_burst"], f["n_burst"]
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
    **{name: _aligned("GM", "UB") for name in WORDS if name.startswith("copy_gm_to_ubuf_align")},
    **{name: _aligned("UB", "GM") for name in WORDS if name.startswith("copy_ubuf_to_gm_align")},
    "pipe_barrier": _barrier,
    "copy_ub_": _copy_element,
    "load_ub_": _load,
    "load_gm_": _load,
    "store_ub_": _store,
    "store_gm_": _store,
    "dcci": _clean,
    "ffts_cross_core_sync": _cross_set,
    "message_": _message,
    "raise_": _raise,
}
