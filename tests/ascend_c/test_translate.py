"""Words become instructions: masks, repeats, gaps and what no instruction can say."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.ascend_c.translate import steps_of
from ascend_sim.ascend_c.words import FORMATS, WORDS, Word
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.scalar import CleanDataCache
from ascend_sim.isa.sync import PipeBarrier
from ascend_sim.isa.transfer import FIRST_OF_ROW, DataCopy, DataCopyExtreme
from ascend_sim.isa.vector import Mask, ReduceWithIndex, VectorCopy

CHIP = load_chip("ascend910b3")
ALL = {"counting": 0, "mask_high": -1, "mask_low": -1}


def word(name: str, **fields: Any) -> Word:
    """A word whose strides are those of operands that adjoin, with a full mask."""
    recorded = WORDS[name].recorded
    usual = {field: 8 if field.endswith("repeat_stride") else 1 for field in recorded} | ALL | {"repeat": 1}
    usual |= dict.fromkeys(("order", "sid", "src_gap", "dst_gap", "gm_gap", "local_gap", "atomic", "left_pad", "right_pad"), 0)
    usual |= {"format": FORMATS.index("float16")} | fields
    return Word(name, {field: usual[field] for field in recorded})


def key_of(one: Word) -> Any:
    """The key of a word that is one instruction."""
    (step,) = steps_of(one, CHIP)
    assert step[1:] == (0, 0, 0)
    return step.key


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"repeat": 3}, (384, 1, 0, 0, None, (), 0)),
        ({"repeat": 2, "src1_repeat_stride": 0}, (128, 2, 256, 256, None, (), 0)),
        ({"counting": 1, "mask_low": 1000}, (1000, 1, 0, 0, None, (), 0)),
        ({"mask_high": 0, "mask_low": 7, "repeat": 2}, (3, 2, 256, 256, None, (), 256)),
        ({"mask_high": 1, "mask_low": -1}, (65, 1, 0, 0, None, (), 0)),
        ({"mask_high": 1, "mask_low": 1}, (128, 1, 0, 0, Mask(1 << 64 | 1, 128), (), 0)),
        ({"mask_high": 0, "mask_low": 5, "repeat": 2}, (256, 1, 0, 0, Mask(5, 128), (), 0)),
        ({"mask_high": 0, "mask_low": 5, "repeat": 2, "dst_repeat_stride": 9}, (128, 2, 288, 256, Mask(5, 128), (), 256)),
        ({"mask_high": 0, "mask_low": 5, "repeat": 2, "dst_repeat_stride": 4}, (3, 2, 128, 256, Mask(5, 128), (), 256)),
        ({"mask_high": 0, "mask_low": 255, "src0_block_stride": 0}, (8, 1, 0, 0, None, (), 0)),
        (
            {"mask_high": 0, "mask_low": 0xFFFFF, "repeat": 2, "src1_block_stride": 0},
            (32, 2, 256, 256, Mask(0xFFFFF, 128), (32, 32, 0), 256),
        ),
        ({"src0_block_stride": 2}, (128, 1, 0, 0, None, (32, 64, 32), 0)),
    ],
)
def test_elements_of_a_vector_word(fields: dict[str, int], found: tuple[Any, ...]) -> None:
    key = key_of(word("vadd", **fields))
    assert key[3:] == found


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("vadd", {"repeat": 256}, "repeat 256; a repeat is 1 to 255"),
        ("vadd", {"format": 0}, "the elements have an unknown number format"),
        ("vadd", {"counting": 1, "mask_low": -1}, "a count of -1 elements; allowed is 1 or more"),
        ("vbrcb", {"repeat": 256}, "vbrcb: repeat 256"),
        ("vcmpv", {"mode": 0, "dst_block_stride": 2}, "bits with gaps are not simulated"),
        ("vsel", {"mode": 2, "counting": 1, "mask_low": 200, "src0_block_stride": 2}, "a count of 200 elements with gaps"),
        ("vcopy", {"counting": 1, "mask_low": 200, "src0_block_stride": 2}, "with gaps between blocks"),
        ("vreducev2", {"counting": 1, "mask_low": 20, "src0_block_stride": 2, "pattern": 1}, "GatherMask: mask 20"),
        ("vreducev2", {"repeat": 256, "pattern": 1}, "vreducev2: repeat 256"),
        ("copy_gm_to_ubuf", {"n_burst": -1, "len_burst": 1}, "-1 blocks of 32 bytes; a copy moves at least one of each"),
        (
            "copy_gm_to_ubuf_align_b16",
            {"n_burst": 1, "len_burst": 6, "left_pad": 17},
            "padding of 17 and 0 elements; 16 are possible",
        ),
    ],
)
def test_what_no_instruction_can_say_is_refused(name: str, fields: dict[str, int], said: str) -> None:
    with pytest.raises(SimError) as caught:
        key_of(word(name, **fields))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "fields", "found"),
    [
        ("copy_gm_to_ubuf", {"n_burst": 1, "len_burst": 4, "src_gap": 3}, ("GM", "UB", 128, 1, 0, 0, "", "")),
        ("copy_gm_to_ubuf", {"n_burst": 2, "len_burst": 4, "src_gap": 3}, ("GM", "UB", 128, 2, 224, 128, "", "")),
        ("copy_ubuf_to_gm", {"n_burst": 2, "len_burst": 1, "atomic": 3}, ("UB", "GM", 32, 2, 32, 32, "float32", "")),
        ("copy_gm_to_ubuf", {"n_burst": 1, "len_burst": 1, "atomic": 3}, ("GM", "UB", 32, 1, 0, 0, "", "")),
        (
            "copy_gm_to_ubuf_align_b16",
            {"n_burst": 2, "len_burst": 34, "gm_gap": 6, "local_gap": 1},
            ("GM", "UB", 34, 2, 40, 96, "", "", 0, 30, FIRST_OF_ROW, 2),
        ),
        (
            "copy_gm_to_ubuf_align_b16",
            {"n_burst": 3, "len_burst": 10, "gm_gap": 4, "left_pad": 1, "right_pad": 2, "mov_pad_val": -1, "pads": 1},
            ("GM", "UB", 10, 3, 14, 32, "", "", 2, 20, 0xFFFF, 2),
        ),
        (
            "copy_gm_to_ubuf_align_b16",
            {"n_burst": 1, "len_burst": 10, "right_pad": 2, "pads": 0},
            ("GM", "UB", 10, 1, 0, 0, "", ""),
        ),
        (
            "copy_gm_to_ubuf_align_b16",
            {"n_burst": 1, "len_burst": 10, "left_pad": 1, "right_pad": 2, "mov_pad_val": 0, "pads": 0},
            ("GM", "UB", 10, 1, 0, 0, "", "", 2, 4, 0, 2),
        ),
        (
            "copy_ubuf_to_gm_align_b8",
            {"n_burst": 2, "len_burst": 5, "local_gap": 1, "gm_gap": 7},
            ("UB", "GM", 5, 2, 64, 12, "", ""),
        ),
    ],
)
def test_bytes_of_a_copy(name: str, fields: dict[str, int], found: tuple[Any, ...]) -> None:
    key = key_of(word(name, **fields))
    assert key[1:] == found


@pytest.mark.parametrize(("kind", "keep"), [(1, "max"), (2, "min")])
def test_a_copy_to_gm_keeps_an_extreme(kind: int, keep: str) -> None:
    f = {"n_burst": 1, "len_burst": 1, "atomic": 3 | kind << 8}
    assert key_of(word("copy_ubuf_to_gm", **f)) == (DataCopyExtreme, *("UB", "GM", 32, 1, 0, 0, "float32", ""), keep)
    assert key_of(word("copy_gm_to_ubuf", **f)) == (DataCopy, "GM", "UB", 32, 1, 0, 0, "", "")


def test_a_copy_in_count_mode_takes_the_count_in_every_repeat() -> None:
    f = {"counting": 1, "mask_low": 200, "repeat": 3, "dst_repeat_stride": 16, "src0_repeat_stride": 20}
    assert key_of(word("vcopy", **f)) == (VectorCopy, "float16", 200, 3, 512, 640, None, ())


def test_a_register_has_no_row() -> None:
    assert not steps_of(word("set_vector_mask", mask_high=0, mask_low=0), CHIP)


@pytest.mark.parametrize(("order", "told"), [(1, "value index"), (2, "index value"), (3, "index")])
def test_an_extreme_with_its_index(order: int, told: str) -> None:
    found = key_of(word("vcmax", order=order, repeat=2, dst_repeat_stride=1, mask_low=0b101, mask_high=0))
    assert found == (ReduceWithIndex, 2, 3, 256, "max", "float16", told, Mask(0b101, 128))


def test_the_data_cache_is_made_alike_with_gm_alone() -> None:
    assert key_of(Word("dcci", {"lines": 1, "side": 2})) == (CleanDataCache, True)
    with pytest.raises(SimError, match="CACHELINE_ALL and CACHELINE_OUT are"):
        key_of(Word("dcci", {"lines": 1, "side": 1}))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("vadd", {"repeat": 0}),
        ("vadd", {"counting": 1, "mask_low": 0}),
        ("vadd", {"mask_high": 0, "mask_low": 0}),
        ("vadd", {"format": FORMATS.index("float32"), "mask_high": 1, "mask_low": 0}),
        ("vcadd", {"mask_high": 0, "mask_low": 0, "order": 0}),
        ("vcmpv", {"repeat": 0}),
        ("vcmpvs", {"repeat": 0}),
        ("vreducev2", {"repeat": 0, "pattern": 1}),
        ("scatter_vnchwconv_b16", {"repeat": 0}),
        ("copy_gm_to_ubuf", {"n_burst": 0, "len_burst": 1}),
        ("copy_gm_to_ubuf_align_b8", {"n_burst": 1, "len_burst": 0}),
        ("copy_gm_to_cbuf", {"n_burst": 1, "len_burst": 0}),
        ("copy_gm_to_cbuf_multi_nd2nz_b16", {"n_value": 0}),
        ("load_cbuf_to_ca", {"repeat": 0}),
        ("mad", {"m": 16, "k": 0, "n": 16}),
        ("copy_matrix_cc_to_gm", {"m_size": 0, "n_size": 16}),
    ],
)
def test_a_call_with_a_count_of_0_does_nothing(name: str, fields: dict[str, int]) -> None:
    usual = dict.fromkeys(WORDS[name].recorded, 1)
    assert not steps_of(Word(name, usual | {one: 0 for one in ("counting",) if one in usual} | fields), CHIP)


@pytest.mark.parametrize(("repeat", "starts"), [(1, [(64, 96)]), (2, [(0, 0), (64, 96)])])
def test_a_single_repeat_of_a_turned_list_begins_a_step_on(repeat: int, starts: list[tuple[int, int]]) -> None:
    """Documentation of repeatTimes: 1 adds the strides to the addresses of the lists."""
    fields = {"repeat": repeat, "dst_repeat_stride": 2, "src0_repeat_stride": 3, "dst_step": 32, "src_step": 32}
    assert [step[1:3] for step in steps_of(word("scatter_vnchwconv_b16", **fields), CHIP)] == starts


def test_the_scalar_unit_has_no_barrier() -> None:
    assert key_of(Word("pipe_barrier", {"pipe": 6})) == (PipeBarrier, "ALL")
    with pytest.raises(SimError, match="PipeBarrier<PIPE_S>"):
        key_of(Word("pipe_barrier", {"pipe": 0}))
