"""The MTE1 loads against plain loops: img2col element by element, then the place of each element in its fractal."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.memory import ValueModel
from tests.support.isa.workbench import CHIP, Workbench, covered
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

SOURCE = 64
TARGET = 512


def element(load: LoadData3D, row: int, column: int, item: Any) -> int:
    """Row `row`, column `column` of the window of the img2col matrix; `item(block, element)` reads the map."""
    c0 = 32 // load.itemsize
    out_y, out_x = divmod(load.m_start + row, load.out_width)
    block, channel = divmod(load.k_start + column, c0)
    c1, tap = divmod(block, load.k_h * load.k_w)
    tap_y, tap_x = divmod(tap, load.k_w)
    y = out_y * load.stride_h - load.pad_top + tap_y * load.dilation_h
    x = out_x * load.stride_w - load.pad_left + tap_x * load.dilation_w
    if out_y >= load.out_height or not (0 <= y < load.height and 0 <= x < load.width):
        return 0
    return int(item((c1 * load.height + y) * load.width + x, channel))


def up(value: int, unit: int) -> int:
    return (value + unit - 1) // unit


def naive(load: LoadData3D, bench: Workbench) -> np.ndarray[Any, Any]:
    """All elements of the destination, in order of address."""
    c0 = 32 // load.itemsize
    stored = bench.memory.buffers["L1"][SOURCE:].view(f"u{load.itemsize}")
    matrix = [
        [element(load, i, j, lambda block, c: stored[block * c0 + c]) for j in range(load.k_extent)]
        for i in range(load.m_extent)
    ]
    rows_are_k = load.transpose or load.destination == "L0B"
    if rows_are_k:
        k1, outer = up(load.m_extent, c0), up(load.k_extent, 16)
    else:
        k1, outer = up(load.k_extent, c0), up(load.m_extent, 16)
    result = np.zeros(outer * k1 * 16 * c0, f"u{load.itemsize}")
    for i, line in enumerate(matrix):
        for j, value in enumerate(line):
            k, other = (i, j) if rows_are_k else (j, i)
            along, across = k // c0, other // 16
            fractal = along * outer + across if load.destination == "L0B" else across * k1 + along
            result[fractal * 16 * c0 + other % 16 * c0 + k % c0] = value
    return result


@st.composite
def loads(draw: Any) -> LoadData3D:
    itemsize = draw(st.sampled_from([1, 2, 4]))
    c0 = 32 // itemsize
    small, one_two = st.integers(1, 3), st.integers(1, 2)
    destination, transpose = draw(st.sampled_from([("L0A", False), ("L0A", True), ("L0B", False), ("L0B", True)]))
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    k_h, k_w = draw(small), draw(small)
    out_height, out_width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    m_start = draw(st.integers(0, out_height * out_width))
    m_extent = draw(st.integers(1, 40))
    blocks = 2 * k_h * k_w  # two channel blocks
    k_start = draw(st.integers(0, blocks - 1))
    k_extent = draw(st.integers(1, min(blocks - k_start, 6)))
    return LoadData3D(
        destination,
        itemsize,
        height,
        width,
        k_h,
        k_w,
        draw(small),
        draw(small),
        draw(one_two),
        draw(one_two),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        out_height,
        out_width,
        m_start,
        m_extent,
        k_start * c0,
        k_extent * c0,
        transpose,
    )


@sampled(60, 250)
@given(loads(), st.integers(0, 5))
def test_load_data_3d(load: LoadData3D, seed: int) -> None:
    bench = Workbench(seed)
    wanted = naive(load, bench)
    (region,) = load.writes()
    assert region.row_bytes == wanted.nbytes
    bench.do(load, TARGET, SOURCE)
    np.testing.assert_array_equal(bench.get(load.destination, TARGET, wanted.dtype, len(wanted)), wanted)


@pytest.mark.parametrize(("destination", "transpose"), [("L0A", False), ("L0A", True), ("L0B", False)])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_pixels_outside_the_map_have_the_padding_value(itemsize: int, destination: str, transpose: bool) -> None:
    """The value stands where a load without one has zeros; the map has neither."""
    c0, value = 32 // itemsize, 0x11 * 0x01010101 & (1 << 8 * itemsize) - 1
    plain = LoadData3D(destination, itemsize, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 8, 8, 0, 32, 0, 4 * c0, transpose)
    found = []
    for load in (plain, replace(plain, padding=value)):
        bench = Workbench(5)
        source = bench.memory.buffers["L1"]
        source[:] = np.where((source == 0) | (source == 0x11), 1, source)
        bench.do(load, TARGET, SOURCE)
        found.append(bench.get(destination, TARGET, np.dtype(f"u{itemsize}"), load.rows * load.blocks * c0))
    assert (found[0] == 0).any() and not (found[0] == value).any()
    np.testing.assert_array_equal(found[1], np.where(found[0] == 0, np.array(value, f"u{itemsize}"), found[0]))


def test_a_padding_value_needs_whole_fractals() -> None:
    with pytest.raises(SimError, match="padding 0x3c00 of 60 rows and 144 columns, which do not fill fractals"):
        LoadData3D("L0A", 2, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 8, 8, 0, 60, 0, 144, padding=0x3C00)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("itemsize", [1, 2, 4])
def test_l0a_of_the_950_lies_by_columns(itemsize: int, transpose: bool) -> None:
    """The fractals of L0A that dav-2201 has as [M1][K1], as [K1][M1]."""
    c0 = 32 // itemsize
    load = LoadData3D("L0A", itemsize, 4, 12, 1, 1, 1, 1, 1, 1, 0, 0, 4, 12, 0, 48, 0, 4 * c0, transpose)
    m1, k1 = (-(-4 * c0 // 16), -(-48 // c0)) if transpose else (3, 4)
    found = []
    for chip in ("ascend910b3", "ascend950pr_9589"):
        bench = Workbench(3)
        bench.memory.model = ValueModel.of(load_chip(chip))
        bench.do(load, TARGET, SOURCE)
        found.append(bench.get("L0A", TARGET, np.uint8, m1 * k1 * 512))
    by_rows, by_columns = found[0].reshape(m1, k1, 512), found[1].reshape(k1, m1, 512)
    np.testing.assert_array_equal(by_columns, by_rows.transpose(1, 0, 2))


@sampled(40, 200)
@given(st.data())
def test_runs_of_columns_to_rows_of_fractals_that_lie_apart(data: st.DataObject) -> None:
    """Each column and each row of fractals by itself, in a plain load."""
    itemsize = data.draw(st.sampled_from([2, 4]))
    c0, taps = 32 // itemsize, (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2)))
    repeat, stride, run = (data.draw(st.integers(1, most)) for most in (3, 6, 2))
    out = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    rows = data.draw(st.integers(1, 24))
    plain = LoadData3D("L0B", itemsize, 3, 4, *taps, 1, 1, 1, 1, 1, 1, *out, 0, rows, 0, c0)
    start, across = data.draw(st.integers(0, 3)) * c0, up(repeat * run * c0, 16)
    line = across + data.draw(st.integers(0, 2))
    load = replace(plain, k_start=start, k_extent=run * c0, k_repeat=repeat, k_stride=stride, dst_stride=line)
    bench = Workbench(1)
    wanted = np.zeros((up(rows, c0), across * 16, c0), f"u{itemsize}")  # [K1][N][C0]
    for place in range(repeat * run):
        column = start + (place // run * stride + place % run) * c0
        block = naive(replace(plain, k_start=column), bench).reshape(-1, 16, c0)
        wanted[:, place * c0 : (place + 1) * c0] = block[:, :c0]
    bench.do(load, TARGET, SOURCE)
    held = bench.get("L0B", TARGET, wanted.dtype, len(wanted) * line * 16 * c0).reshape(len(wanted), line * 16, c0)
    np.testing.assert_array_equal(held[:, : across * 16], wanted)
    written = sum(region.total for region in load.writes())
    assert written == wanted.nbytes


def touched(load: LoadData3D) -> tuple[set[int], set[int]]:
    """The bytes that a load takes, and those that it declares."""
    needed: set[int] = set()
    for i in range(load.m_extent):
        for j in range(0, load.k_extent, 32 // load.itemsize):
            element(load, i, j, lambda block, _: needed.update(range(block * 32, block * 32 + 32)) or 0)
    return needed, covered(load.reads(), {"src0": 0}).get("L1", set())


@sampled(40, 150)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_a_map_that_is_a_matrix_is_read_pixel_by_pixel(height: int, width: int, data: Any) -> None:
    start = data.draw(st.integers(0, height * width - 1))
    count, blocks = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 3))
    load = LoadData3D("L0A", 2, height, width, 1, 1, 1, 1, 1, 1, 0, 0, height, width, start, count, 16, 16 * blocks)
    needed, declared = touched(load)
    assert needed == declared


@sampled(40, 150)
@given(loads())
def test_of_one_output_row_no_column_outside_is_read(load: LoadData3D) -> None:
    """All taps are taken, and each finds a pixel in the map."""
    first = load.m_start % (load.out_height * load.out_width)
    count = min(load.m_extent, load.out_width - first % load.out_width)
    load = replace(load, height=24, width=24, dilation_h=1, dilation_w=1, pad_top=0, pad_left=0, m_start=first, m_extent=count)
    load = replace(load, k_start=0, k_extent=load.k_h * load.k_w * 32 // load.itemsize)
    needed, declared = touched(load)
    row = load.width * 32
    assert needed <= declared and min(needed) == min(declared) and max(needed) == max(declared)
    assert {byte % row for byte in declared} == set(range(min(needed) % row, max(needed) % row + 1))


@sampled(40, 150)
@given(loads())
def test_everything_a_load_takes_lies_in_its_region(load: LoadData3D) -> None:
    """And the region lies in the map."""
    needed, declared = touched(load)
    assert needed <= declared
    for region in load.reads():
        assert region.extent <= 2 * load.height * load.width * 32


def test_where_one_element_goes() -> None:
    """A 3 x 3 map of one channel block, 2 x 2 kernel: pixel (1, 1) under tap (1, 0) comes from map pixel (2, 1)."""
    bench = Workbench()
    bench.put("L1", 0, np.arange(9 * 16, dtype=np.uint16))
    bench.do(LoadData3D("L0A", 2, 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 2, 2, 0, 4, 0, 64), 0, 0)
    left = bench.get("L0A", 0, np.uint16, 4 * 256).reshape(4, 16, 16)  # [K1][16 m][16 k]
    assert left[2, 3, 5] == (2 * 3 + 1) * 16 + 5
    assert (left[:, 4:] == 0).all()  # rows behind the fourth pixel


@pytest.mark.parametrize("itemsize", [1, 2, 4])
@pytest.mark.parametrize("destination", ["L0A", "L0B"])
@pytest.mark.parametrize("stride", [1, 3])
def test_load_data_2d(itemsize: int, destination: str, stride: int) -> None:
    bench = Workbench(3)
    source = bench.memory.buffers["L1"].copy()
    bench.do(LoadData2D(destination, itemsize, 4, stride), 512, 64)
    wanted = b"".join(source[64 + i * stride * 512 :][:512].tobytes() for i in range(4))
    assert bench.get(destination, 512, np.uint8, 2048).tobytes() == wanted


def test_load_data_2d_turns_every_fractal() -> None:
    bench = Workbench(3)
    source = bench.memory.buffers["L1"].view(np.uint16).copy()
    bench.do(LoadData2D("L0B", 2, 3, 2, True), 512, 64)
    got = bench.get("L0B", 512, np.uint16, 3 * 256)
    for fractal in range(3):
        for row in range(16):
            for column in range(16):
                assert got[fractal * 256 + column * 16 + row] == source[32 + fractal * 512 + row * 16 + column]


@pytest.mark.parametrize("turned", [False, True])
def test_load_data_2d_leaves_room_between_fractals(turned: bool) -> None:
    bench = Workbench(3)
    source = bench.memory.buffers["L1"].view(np.uint16).copy()
    before = bench.get("L0A", 512, np.uint16, 7 * 256).reshape(7, 16, 16).copy()
    bench.do(LoadData2D("L0A", 2, 3, 2, turned, 3), 512, 64)
    for number in range(3):
        fractal = source[32 + number * 512 :][:256].reshape(16, 16)
        before[3 * number] = fractal.T if turned else fractal
    np.testing.assert_array_equal(bench.get("L0A", 512, np.uint16, 7 * 256).reshape(7, 16, 16), before)


def test_load_data_2d_turns_squares_of_32_bytes() -> None:
    """Two fractals that follow each other are 32 rows of 32 items, which become the columns of two others."""
    bench = Workbench(3)
    source = bench.memory.buffers["L1"].copy()
    load = LoadData2D("L0B", 1, 3, 4, True, 2)
    bench.do(load, 512, 64)
    got = bench.get("L0B", 512, np.uint8, 3 * 1024)
    for square in range(3):
        for row in range(32):
            for column in range(32):
                assert got[square * 1024 + column * 32 + row] == source[64 + square * 4 * 512 + row * 32 + column]
    assert load.cost(CHIP).work == LoadData2D("L0B", 2, 6, 4).cost(CHIP).work


@pytest.mark.parametrize("itemsize", [1, 4])
@pytest.mark.parametrize(("repeat", "apart", "inner"), [(3, 2, 1), (3, 1, 3), (2, 5, 2), (1, 1, 4)])
def test_load_data_2d_splits_turned_squares_into_fractals(itemsize: int, repeat: int, apart: int, inner: int) -> None:
    """Fractals of 16 rows of 32 bytes: 1-byte squares are two, one below the other; 4-byte squares two, side by side."""
    bench, kind, c0 = Workbench(3), f"u{itemsize}", 32 // itemsize
    source = bench.memory.buffers["L1"][64:].copy()
    wanted = bench.get("L0A", 512, np.uint8, 16 * 512).copy()
    joined, axis = (np.concatenate, 0) if itemsize == 1 else (np.concatenate, 1)
    for number in range(repeat):
        halves = [source[(4 * number + half) * 512 :][:512].view(kind).reshape(16, c0) for half in (0, 1)]
        for half, piece in enumerate(np.split(joined(halves, axis).T, 2, axis)):
            wanted[(number * apart + half * inner) * 512 :][:512] = np.ascontiguousarray(piece).view(np.uint8).ravel()
    load = LoadData2D("L0A", itemsize, repeat, 4, True, apart, inner)
    bench.do(load, 512, 64)
    np.testing.assert_array_equal(bench.get("L0A", 512, np.uint8, 16 * 512), wanted)


@pytest.mark.parametrize(("repeat", "apart", "inner"), [(2, 1, 1), (3, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_fractals_of_squares_do_not_overlap(repeat: int, apart: int, inner: int) -> None:
    with pytest.raises(SimError, match="they overlap"):
        LoadData2D("L0B", 1, repeat, 2, True, apart, inner)


def test_the_950_does_not_turn_32_bit_fractals_here() -> None:
    with pytest.raises(SimError, match=r"transposed loads of items of 4 bytes.* not simulated"):
        LoadData2D("L0B", 4, 3, 2, True, 2).pipe(load_chip("ascend950pr_9589"))


def test_costs_on_paper() -> None:
    """The data over the rate of the page, after the head: 16 fractals over 256 and 128 bytes a cycle, slides by stride."""
    assert LoadData2D("L0A", 2, 16).cost(CHIP).work == 32
    assert LoadData2D("L0B", 2, 16).cost(CHIP).work == 64

    def slide(destination: str, stride: int, itemsize: int = 2, turned: bool = False) -> int:
        window = (8, 8, 0, 16, 0, 512 // itemsize, turned)  # 16 fractals
        load = LoadData3D(destination, itemsize, 8, 8, 1, 1, 1, stride, 1, 1, 0, 0, *window)
        return load.cost(CHIP).work

    assert [slide("L0A", stride) for stride in (1, 2, 4, 8, 3)] == [32, 64, 128, 256, 256]
    assert [slide("L0B", stride) for stride in (1, 2, 4)] == [64, 97, 161]
    assert (slide("L0B", 1, 4), slide("L0B", 1, 4, True)) == (64, -(-8192 // 45))


@pytest.mark.parametrize("itemsize", [1, 4])
def test_squares_whose_fractals_overlap_are_refused(itemsize: int) -> None:
    for repeat, apart, inner in product(range(1, 6), range(-3, 8), range(-4, 16)):
        starts = [number * apart + second for number in range(repeat) for second in (0, inner)]
        overlap = len({*starts}) < len(starts)
        with pytest.raises(SimError, match="they overlap") if overlap else nullcontext():
            LoadData2D("L0B", itemsize, repeat, 1, True, apart, inner)
