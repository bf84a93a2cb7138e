"""Words of the vector unit, element by element: masks, counts, repeat strides and block strides as the public pages have them.

The reference here walks repeats, blocks and elements one at a time and knows no instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ascend_c.translate import steps_of
from ascend_sim.ascend_c.words import FORMATS, WORDS, Word
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

DST, SRC0, SRC1 = 0, 2816, 5632
TYPES = {"float16": np.float16, "float32": np.float32, "int16": np.int16, "int32": np.int32}
BITS = 64
"""Bytes behind SRC1 where the second tensor of a selection begins; its bits lie at SRC1."""


def elements(f: dict[str, int], side: str, size: int, per: int) -> Iterator[tuple[int, int, int]]:
    """Repeat, element, and byte offset in the operand `side`, of each element that takes part."""
    counting, count = f["counting"], f["mask_low"]
    mask = (f["mask_high"] & (1 << 64) - 1) << 64 | f["mask_low"] & (1 << 64) - 1
    for repeat in range(-(-count // per) if counting else f["repeat"]):
        for i in range(per):
            if repeat * per + i < count if counting else mask >> i & 1:
                block = f.get(f"{side}_block_stride", 1)
                at = repeat * f[f"{side}_repeat_stride"] * 32 + i * size // 32 * block * 32 + i * size % 32
                yield repeat, i, at


def fields_of(name: str, dtype: str, given_fields: dict[str, int]) -> dict[str, int]:
    usual = {"format": FORMATS.index(dtype), "order": 0, "counting": 0, "round": 0, "deq_scale": 0, "mode": 0}
    return {field: (usual | given_fields)[field] for field in WORDS[name].recorded}


@st.composite
def strided(draw: Any, name: str, size: int, sides: tuple[str, ...], has_blocks: bool = True) -> dict[str, int]:
    """Fields of repeats, masks and strides; dst is never written over itself."""
    per = 256 // size
    f = {"repeat": draw(st.integers(1, 3))}
    for side in sides:
        block = draw(st.sampled_from((1, 1, 1, 2) if side == "dst" else (1, 1, 1, 2, 0))) if has_blocks else 1
        f[f"{side}_block_stride"] = block
        f[f"{side}_repeat_stride"] = draw(st.sampled_from((8, 8, 9) if side == "dst" else (8, 8, 9, 0, 4))) * max(block, 1)
    whole = (1 << per) - 1
    masks = st.one_of(st.just(whole), st.integers(1, per).map(lambda n: (1 << n) - 1), st.integers(1, whole))
    mask = draw(masks)
    f |= {"counting": draw(st.sampled_from((0, 0, 1)))}
    if f["counting"]:
        mask = draw(st.integers(1, 3 * per))
    return f | {"mask_low": mask & (1 << 64) - 1, "mask_high": mask >> 64}


def run(name: str, f: dict[str, int], bench: Workbench, src1: int = SRC1) -> None:
    for step in steps_of(Word(name, f), CHIP):
        one = step.key[0](*step.key[1:])
        assert one.pipe(CHIP) == "V"
        bench.do(one, DST + step.dst, SRC0 + step.src0, src1 + step.src1)


def workbench(dtype: str, seed: int) -> tuple[Workbench, bytearray]:
    """Buffers of small whole numbers, and a copy of UB for the reference."""
    bench, held = Workbench(), np.dtype(TYPES[dtype])
    values = np.random.default_rng(seed).integers(-9, 10, 8192 // held.itemsize).astype(held)
    bench.put("UB", 0, values)
    return bench, bytearray(bench.get("UB", 0, np.uint8, 8192).tobytes())


def number(ub: bytearray, at: int, dtype: str) -> Any:
    return np.frombuffer(ub, TYPES[dtype], 1, at)[0]


def write(ub: bytearray, at: int, dtype: str, value: Any) -> None:
    raw = np.array(value).astype(TYPES[dtype]).tobytes()
    ub[at : at + len(raw)] = raw


BINARY = {
    "vadd": lambda x, y, z: x + y, "vsub": lambda x, y, z: x - y, "vmax": lambda x, y, z: max(x, y),
    "vmla": lambda x, y, z: x * y + z, "vmadd": lambda x, y, z: x * z + y, "vmaddrelu": lambda x, y, z: max(x * z + y, 0),
    "vaddrelu": lambda x, y, z: max(x + y, 0), "vsubrelu": lambda x, y, z: max(x - y, 0),
}  # fmt: skip


@sampled(60, 400)
@given(st.data(), st.sampled_from(sorted(BINARY)), st.sampled_from(["float16", "float32"]), st.integers(0, 99))
def test_two_sources(data: Any, name: str, dtype: str, seed: int) -> None:
    size = np.dtype(dtype).itemsize
    f = fields_of(name, dtype, data.draw(strided(name, size, ("dst", "src0", "src1"))))
    bench, ub = workbench(dtype, seed)
    before = bytes(ub)
    places = [list(elements(f, side, size, 256 // size)) for side in ("dst", "src0", "src1")]
    for dst, one, other in zip(*(places), strict=True):
        x, y = number(bytearray(before), SRC0 + one[2], dtype), number(bytearray(before), SRC1 + other[2], dtype)
        write(ub, DST + dst[2], dtype, BINARY[name](int(x), int(y), int(number(bytearray(before), DST + dst[2], dtype))))
    run(name, f, bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


UNARY = {
    "vabs": (("float16", "float32"), lambda x, s: abs(x)), "vadds": (("float32", "int32"), lambda x, s: x + s),
    "vshl": (("int16", "int32"), lambda x, s: x << s), "vshr": (("int16", "int32"), lambda x, s: x >> s),
    "vcopy": (("int16", "float32"), lambda x, s: x), "vector_dup": (("int16", "float32"), lambda x, s: s),
}  # fmt: skip


@sampled(60, 400)
@given(st.data(), st.sampled_from(sorted(UNARY)), st.integers(0, 1), st.integers(0, 99))
def test_one_source(data: Any, name: str, which: int, seed: int) -> None:
    dtype = UNARY[name][0][which]
    size, scalar = np.dtype(dtype).itemsize, 2
    sides = ("dst",) if name == "vector_dup" else ("dst", "src0")
    f = data.draw(strided(name, size, sides)) | {"value": scalar if "int" in dtype else int(np.float32(2).view(np.uint32))}
    f |= {"src0_block_stride": f.get("src0_block_stride", 1), "src0_repeat_stride": f.get("src0_repeat_stride", 0)}
    if name == "vcopy" and f["counting"]:  # the count is that of each repeat
        f |= {"mask_low": min(f["mask_low"], 256 // size)}
    f = fields_of(name, dtype, f)
    bench, ub = workbench(dtype, seed)
    before = bytearray(ub)
    told = f
    if name == "vcopy" and f["counting"]:
        mask = (1 << f["mask_low"]) - 1
        told = f | {"counting": 0, "mask_low": mask & (1 << 64) - 1, "mask_high": mask >> 64}
    for dst, src in zip(elements(told, "dst", size, 256 // size), elements(told, "src0", size, 256 // size), strict=True):
        write(ub, DST + dst[2], dtype, UNARY[name][1](int(number(before, SRC0 + src[2], dtype)), scalar))
    run(name, f, bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


@sampled(40, 300)
@given(st.data(), st.sampled_from([("float32", "float16"), ("float16", "float32"), ("int32", "float32")]), st.integers(0, 99))
def test_casts(data: Any, pair: tuple[str, str], seed: int) -> None:
    source, target = pair
    sizes = {"dst": np.dtype(target).itemsize, "src0": np.dtype(source).itemsize}
    per = 256 // max(sizes.values())
    f = data.draw(strided("vconv", max(sizes.values()), ("dst", "src0")))
    f |= {"source": FORMATS.index(source), "target": FORMATS.index(target), "mode": 1 if source != "float16" else 0}
    f = fields_of("vconv", source, f)
    bench, ub = workbench(source, seed)
    before = bytearray(ub)
    for dst, src in zip(elements(f, "dst", sizes["dst"], per), elements(f, "src0", sizes["src0"], per), strict=True):
        write(ub, DST + dst[2], target, number(before, SRC0 + src[2], source))
    run("vconv", f, bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


@sampled(40, 300)
@given(st.data(), st.sampled_from(["float16", "float32"]), st.booleans(), st.integers(0, 99))
def test_comparisons(data: Any, dtype: str, by_scalar: bool, seed: int) -> None:
    """The bits of repeats lie one behind the other; no mask leaves any out."""
    size = np.dtype(dtype).itemsize
    per = 256 // size
    sides, name = (("src0",), "vcmpvs") if by_scalar else (("src0", "src1"), "vcmpv")
    f = data.draw(strided(name, size, sides)) | {"dst_block_stride": 1, "dst_repeat_stride": 8, "value": 0, "mode": 0}
    f |= {"counting": 0, "mask_low": -1, "mask_high": -1}
    bench, ub = workbench(dtype, seed)
    before = bytearray(ub)
    places = [list(elements(f, side, size, per)) for side in sides]
    for n, taken in enumerate(zip(*places, strict=True)):
        x = number(before, SRC0 + taken[0][2], dtype)
        y = 0 if by_scalar else number(before, SRC1 + taken[1][2], dtype)
        ub[DST + n // 8] = ub[DST + n // 8] & ~(1 << n % 8) | int(x < y) << n % 8
    run(name, fields_of(name, dtype, f), bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


@sampled(120, 300)
@given(st.data(), st.sampled_from(["float16", "float32"]), st.integers(0, 2), st.integers(0, 99))
def test_selections(data: Any, dtype: str, mode: int, seed: int) -> None:
    """Bits go on from repeat to repeat, but for those of the mask register (mode 0), which all repeats take."""
    size = np.dtype(dtype).itemsize
    per = 256 // size
    f = data.draw(strided("vsel", size, ("dst", "src0", "src1")))
    if f["counting"] and mode:  # of elements that adjoin
        f |= {
            f"{side}_{what}": wide
            for side in ("dst", "src0", "src1")
            for what, wide in (("block_stride", 1), ("repeat_stride", 8))
        }
    scalar = int(np.float32(3).view(np.uint32))
    f |= {"mode": mode, "mask_offset": 0, "other_offset": 0 if mode == 1 else BITS, "value": scalar}
    f = fields_of("vsel", dtype, f)
    bench, ub = workbench(dtype, seed)
    before = bytearray(ub)
    places = [list(elements(f, side, size, per)) for side in ("dst", "src0", "src1")]
    for dst, one, other in zip(*places, strict=True):
        bit = dst[1] if mode == 0 else dst[0] * per + dst[1]
        second = 3 if mode == 1 else number(before, SRC1 + BITS + other[2], dtype)
        first = number(before, SRC0 + one[2], dtype)
        write(ub, DST + dst[2], dtype, first if before[SRC1 + bit // 8] >> bit % 8 & 1 else second)
    run("vsel", f, bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


REDUCTIONS = {"vcadd": sum, "vcmax": max, "vcmin": min, "vcgadd": sum, "vcgmax": max, "vcgmin": min, "vcpadd": sum}


@sampled(150, 600)
@given(st.data(), st.sampled_from([*REDUCTIONS, "vcmax", "vcmin"]), st.sampled_from(["float16", "float32"]), st.integers(0, 3))
def test_reductions(data: Any, name: str, dtype: str, order: int) -> None:
    """Results of a repeat are a stride of whole results behind those of the one before."""
    size = np.dtype(dtype).itemsize
    per = 256 // size
    order = order if name in ("vcmax", "vcmin") else 0
    f = data.draw(strided(name, size, ("src0",))) | {"dst_repeat_stride": data.draw(st.integers(1, 3)), "order": order}
    bench, ub = workbench(dtype, data.draw(st.integers(0, 99)))
    before = bytearray(ub)
    piece = per if name in ("vcadd", "vcmax", "vcmin") else 2 if name == "vcpadd" else 32 // size
    room = {0: size, 1: 2 * size, 2: 2 * size, 3: 4}[order]  # an index alone has 4 bytes (public page of ReduceRepeat)
    held: dict[tuple[int, int], list[tuple[int, Any]]] = {}
    for repeat, i, at in elements(f, "src0", size, per):
        held.setdefault((repeat, i // piece), []).append((i, number(before, SRC0 + at, dtype)))
    for (repeat, place), taken in held.items():
        at = DST + (repeat * f["dst_repeat_stride"] * (per // piece) + place) * room
        value = REDUCTIONS[name](int(x) for _, x in taken)
        index = next(i for i, x in taken if int(x) == value) if order else 0
        raw = [np.array(value).astype(TYPES[dtype]).tobytes(), index.to_bytes(size, "little")]
        shown = {0: raw[0], 1: raw[0] + raw[1], 2: raw[1] + raw[0], 3: index.to_bytes(4, "little")}[order]
        ub[at : at + len(shown)] = shown
    run(name, fields_of(name, dtype, f), bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


@sampled(60, 300)
@given(st.data(), st.sampled_from(["float16", "float32", "int32"]), st.sampled_from((0, 0, 0, *range(8))), st.integers(0, 99))
def test_gather_mask(data: Any, dtype: str, pattern: int, seed: int) -> None:
    """A count is that of each repeat, and may be longer than one."""
    size = np.dtype(dtype).itemsize
    per = 256 // size
    f = {"repeat": data.draw(st.integers(1, 3)), "src0_block_stride": data.draw(st.sampled_from((1, 1, 2))), "pattern": pattern}
    f |= {"src0_repeat_stride": data.draw(st.sampled_from((8, 4, 17))), "src1_repeat_stride": data.draw(st.integers(0, 2))}
    f |= {"counting": data.draw(st.integers(0, 1)), "mask_low": 0, "mask_high": 0}
    if f["counting"]:
        held = 32 // size
        f["mask_low"] = (
            data.draw(st.integers(1, per + 20)) if f["src0_block_stride"] == 1 else held * data.draw(st.integers(1, 9))
        )
    count = f["mask_low"] if f["counting"] else per
    bench, ub = workbench(dtype, seed)
    before, kept = bytearray(ub), []
    takes = ["", "01", "10", "0001", "0010", "0100", "1000", "1"][pattern][::-1]
    for repeat in range(f["repeat"]):
        for i in range(count):
            bits = SRC1 + repeat * f["src1_repeat_stride"] * 32
            chosen = takes[i % len(takes)] == "1" if pattern else before[bits + i // 8] >> i % 8 & 1
            if chosen:
                at = repeat * f["src0_repeat_stride"] * 32 + i * size // 32 * f["src0_block_stride"] * 32 + i * size % 32
                kept.append(before[SRC0 + at : SRC0 + at + size])
    ub[DST : DST + size * len(kept)] = b"".join(kept)
    run("vreducev2", fields_of("vreducev2", dtype, f), bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


@pytest.mark.parametrize(("block", "stride"), [(1, 8), (2, 16), (1, 10), (3, 24), (2, 17)])
def test_each_element_over_a_block(block: int, stride: int) -> None:
    f = fields_of("vbrcb", "float32", {"dst_block_stride": block, "dst_repeat_stride": stride, "repeat": 3})
    bench, ub = workbench("float32", 1)
    before = bytearray(ub)
    for repeat in range(3):
        for i in range(8):
            at = (repeat * stride + i * block) * 32
            ub[at : at + 32] = before[SRC0 + (8 * repeat + i) * 4 : SRC0 + (8 * repeat + i) * 4 + 4] * 8
    run("vbrcb", f, bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)


def test_offsets_of_a_gather_go_on_from_repeat_to_repeat() -> None:
    f = {"dst_repeat_stride": 9, "repeat": 2, "source_bytes": 512, "counting": 0, "mask_low": (1 << 40) - 1, "mask_high": 0}
    bench, ub = workbench("float32", 2)
    offsets = np.random.default_rng(0).integers(0, 128, 128).astype(np.uint32) * 4
    bench.put("UB", SRC1, offsets)
    ub[SRC1 : SRC1 + 512] = offsets.tobytes()
    for repeat in range(2):
        for i in range(40):
            at, taken = repeat * 288 + 4 * i, SRC0 + int(offsets[64 * repeat + i])
            ub[at : at + 4] = ub[taken : taken + 4]
    run("vgather", fields_of("vgather", "float32", f), bench)
    assert bench.get("UB", 0, np.uint8, 8192).tobytes() == bytes(ub)
