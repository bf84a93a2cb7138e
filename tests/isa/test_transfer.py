"""Copies, ND to NZ and fill against plain loops over bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.forms import form_of
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, DataCopyPadded, DataCopyPlanes, Fill
from ascend_sim.memory.gm import gm_operand
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

ENDS = [("GM", "UB"), ("GM", "L1"), ("UB", "GM"), ("L1", "GM")]


@sampled(20, 80)
@given(
    st.sampled_from(ENDS), st.integers(1, 100), st.integers(1, 6), st.integers(0, 300), st.integers(0, 300),
    st.integers(0, 200), st.integers(0, 60),
)  # fmt: skip
def test_strided_copy(ends: tuple[str, str], row_bytes: int, rows: int, src_gap: int, dst_gap: int, src: int, dst: int) -> None:
    source, target = ends
    bench = Workbench(1)
    src = gm_operand(1, src) if source == "GM" else src * 32
    dst = gm_operand(0, dst) if target == "GM" else dst * 32
    src_stride, dst_stride = row_bytes + src_gap, row_bytes + dst_gap
    before = bench.space(source, src).copy()
    wanted = bench.space(target, dst).copy()
    offset = (1 << 44) - 1
    for row in range(rows):
        for byte in range(row_bytes):
            wanted[(dst & offset) + row * dst_stride + byte] = before[(src & offset) + row * src_stride + byte]
    bench.do(DataCopy(source, target, row_bytes, rows, src_stride, dst_stride), dst, src)
    np.testing.assert_array_equal(bench.space(target, dst), wanted)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_atomic_copy_adds_elements(dtype: str) -> None:
    bench = Workbench()
    items = 64 // np.dtype(dtype).itemsize
    there, new = np.arange(3 * items).astype(dtype), (np.arange(3 * items)[::-1] * 2).astype(dtype)
    for row in range(3):
        bench.put("GM", gm_operand(1, 100 + row * 80), there[row * items :][:items])
        bench.put("UB", row * 96, new[row * items :][:items])
    bench.do(DataCopy("UB", "GM", 64, 3, 96, 80, dtype), gm_operand(1, 100), 0)
    for row in range(3):
        got = bench.get("GM", gm_operand(1, 100 + row * 80), dtype, items)
        np.testing.assert_array_equal(got, (there + new)[row * items :][:items])


def test_planes_are_refused_an_atomic_add() -> None:
    """Their values would replace those in GM."""
    fields = {"row_bytes": 64, "rows": 2, "src_stride": 64, "dst_stride": 64, "planes": 2, "src_plane": 128, "dst_plane": 128}
    assert DataCopyPlanes("UB", "GM", **fields).pipe(CHIP) == "MTE3"
    with pytest.raises(SimError, match="data_copy_planes: atomic_add='float32'"):
        DataCopyPlanes("UB", "GM", **fields, atomic_add="float32").pipe(CHIP)


@sampled(20, 80)
@given(
    st.integers(1, 20), st.integers(1, 60), st.sampled_from([1, 2, 4]), st.integers(0, 50), st.integers(0, 5),
    st.integers(0, 100), st.integers(1, 3),
)  # fmt: skip
def test_nd_to_nz(rows: int, cols: int, itemsize: int, gap: int, more: int, offset: int, step: int) -> None:
    """[ceil(cols/C0)][rows_padded][C0]: missing columns become zero, missing rows stay what they were."""
    bench = Workbench(2)
    stride = cols * itemsize + gap
    source, before = bench.memory.gm[1].copy(), bench.memory.buffers["L1"].copy()
    held = rows * step + more
    bench.do(DataCopyNd2Nz(rows, cols, itemsize, stride, held, "", step), 64, gm_operand(1, offset))
    wanted = before
    c0 = 32 // itemsize
    for block in range(-(-cols // c0)):
        for row in range(rows):
            for column in range(c0):
                for byte in range(itemsize):
                    place = 64 + (block * held + row * step) * 32 + column * itemsize + byte
                    x = block * c0 + column
                    wanted[place] = source[offset + row * stride + x * itemsize + byte] if x < cols else 0
    np.testing.assert_array_equal(bench.memory.buffers["L1"], wanted)


@pytest.mark.parametrize("buffer", ["L1", "L0A", "L0B", "UB"])
@pytest.mark.parametrize("number", [(), (0x3C01, 2), (0x12345678, 4)])
def test_fill(buffer: str, number: tuple[int, ...]) -> None:
    bench = Workbench()
    wanted = bench.memory.buffers[buffer].copy()
    value, size = number or (0, 1)
    wanted[512:1056] = [value >> 8 * (place % size) & 0xFF for place in range(544)]
    one = Fill(buffer, 544, *number)
    bench.do(one, 512)
    np.testing.assert_array_equal(bench.memory.buffers[buffer], wanted)
    assert set(one.parameters()) == ({"destination", "size", "value", "itemsize"} if number else {"destination", "size"})


def test_a_copy_pays_pipe_and_port_of_its_path() -> None:
    copy = DataCopy("GM", "UB", 512, 4, 1024, 512)
    path = CHIP.path("GM", "UB")
    assert copy.pipe(CHIP) == "MTE2"
    assert (copy.cost(CHIP).head_first, copy.cost(CHIP).work, copy.cost(CHIP).latency) == (path.head, 0, path.latency)
    access = copy.gm_access(CHIP)
    assert access is not None
    assert (access.direction, access.rate, access.region.operand) == ("read", path.bytes_per_cycle, "src0")
    back = DataCopy("UB", "GM", 512, 1, 0, 0, "float32").gm_access(CHIP)
    assert back is not None
    assert (back.direction, back.region.operand) == ("atomic", "dst")


@pytest.mark.parametrize(
    ("copy", "pays"),
    [
        (DataCopy("GM", "UB", 676, 8, 676, 704), True),  # rows end inside a block
        (DataCopy("GM", "UB", 64, 8, 100, 64), True),  # rows begin inside a block
        (DataCopy("GM", "UB", 64, 8, 128, 64), False),
        (DataCopy("GM", "UB", 64, 8, 128, 100), False),  # only GM counts
        (DataCopy("UB", "GM", 676, 8, 704, 676), True),
    ],
)  # fmt: skip
def test_rows_that_are_not_whole_blocks_of_gm_cost_the_pipe(copy: DataCopy, pays: bool) -> None:
    row = CHIP.path(copy.source, copy.destination).unaligned_row
    assert row
    assert copy.cost(CHIP).work == (8 * row if pays else 0)
    name = f"{copy.source}->{copy.destination}"
    free = {**CHIP.paths, name: CHIP.paths[name].model_copy(update={"unaligned_row": None})}
    assert copy.cost(CHIP.model_copy(update={"paths": free})).work == 0


def test_the_paths_of_each_instruction() -> None:
    assert DataCopyNd2Nz(1, 1, 2, 2, 1).pipe(CHIP) == "MTE2"
    assert [Fill(buffer, 32).pipe(CHIP) for buffer in ("L1", "L0A", "L0B", "UB")] == ["MTE2", "MTE1", "MTE1", "V"]
    with pytest.raises(SimError, match="UB"):
        DataCopy("L1", "UB", 32).pipe(CHIP)
    with pytest.raises(SimError, match="L0C"):
        Fill("L0C", 32).pipe(CHIP)


@pytest.mark.parametrize(("rate", "cycles"), [(0.5, 2000), (1.0, 1000), (3.2, 313), (197.4, 6)])
def test_rates_need_not_be_whole_numbers_of_bytes(rate: float, cycles: int) -> None:
    paths = {name: path.model_copy(update={"bytes_per_cycle": rate}) for name, path in CHIP.paths.items()}
    chip = CHIP.model_copy(update={"paths": paths})
    assert Fill("L1", 1000).cost(chip).work == cycles
    assert DataCopy("L1", "BT", 1000, 1, 1000, 1000).cost(chip).work == cycles


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ((10, 3, 2, 2, 0, 4), "data_copy_padded: rows of 10 bytes; they are whole elements of 4 bytes"),
        ((12, 3, 2, 4, 0, 4), "data_copy_padded: left of 2 bytes; they are whole elements of 4 bytes"),
        ((12, 3, 4, -4, 0, 4), "data_copy_padded: right of -4 bytes; they are whole elements of 4 bytes"),
        ((12, 3, 4, 4, 1 << 32, 4), "data_copy_padded: value 4294967296; it is the bits of an element, 0 to 0xffffffff"),
        ((12, 3, 0, 0, 0, 0), "data_copy_padded: rows of 12 bytes; they are whole elements of 0 bytes"),
    ],
)  # fmt: skip
def test_padded_rows_are_whole_elements(fields: tuple[int, ...], line: str) -> None:
    size, rows, left, right, value, item = fields
    with pytest.raises(SimError) as caught:
        DataCopyPadded("GM", "UB", size, rows, 64, 64, "", "", left, right, value, item)
    assert str(caught.value).removesuffix(" (asc-devkit, DataCopyPad)") == line


@pytest.mark.parametrize(
    ("chip", "pads", "said"),
    [
        ("ascend910b3", (32, 32, 4, 7), ""),
        ("ascend910b3", (36, 0, 4, 7), "padding of 36 and 0 bytes; 32 are possible on a side (API DataCopyPad"),
        ("ascend950pr_9589", (0, 36, 4, 7), "padding of 0 and 36 bytes; 32 are possible on a side (API DataCopyPad"),
        ("ascend910b3", (8, 0, 8, 1), "value 0x1 of 8 bytes; 0 alone is possible (API DataCopyPad"),
        ("ascend950pr_9589", (8, 0, 8, 0), ""),
        ("ascend910a", (4, 0, 4, 7), "ascend910a (dav-1001) has no such instruction; dav-2201, dav-3510 have it"),
        ("ascend310p3", (4, 0, 4, 7), "ascend310p3 (dav-2002) has no such instruction; dav-2201, dav-3510 have it"),
    ],
)
def test_padding_that_a_chip_has(chip: str, pads: tuple[int, int, int, int], said: str) -> None:
    left, right, item, value = pads
    one = DataCopyPadded("GM", "UB", 64, 2, 64, 160, "", "", left, right, value, item)
    if said:
        with pytest.raises(SimError) as caught:
            form_of(one, load_chip(chip))
        assert said in str(caught.value) and "\n" not in str(caught.value)
    else:
        assert form_of(one, load_chip(chip)) is not None
