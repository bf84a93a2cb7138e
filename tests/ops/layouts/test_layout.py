"""Boxes that layouts load against plain indexing; the way of a tile of dW by a slot against the straight one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import Span
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK
from ascend_sim.ops.layouts import slotted_gradient, turned_gradient, weight_gradient, weights, x_map
from ascend_sim.ops.layouts.layout import (
    ChannelPlace,
    DrainPiece,
    FilterBox,
    FilterTile,
    Lattice,
    MapBox,
    MapPixels,
    Pitches,
    Portion,
    Turned,
)
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, PLAIN_SPLIT
from ascend_sim.ops.problem.layout import BLOCKED, CHANNELS_LAST, PLANAR, Layout
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.isa.workbench import Workbench
from tests.support.ops.tiling_problems import on_910b, problems
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

CHIPS = {
    layout: load_chip(name)
    for layout, name in zip(
        (BLOCKED, PLANAR, CHANNELS_LAST), ("ascend910b3", "ascend950pr_9589", "ascend950pr_9589"), strict=True
    )
}
LAYOUTS = st.sampled_from(list(CHIPS))
SIDE = st.integers(1, 5)
C0, ITEM = 16, 2
ZERO = np.zeros(1, np.uint16)


def run(layout: Layout, write: Callable[[KernelBuilder], object], tensor: np.ndarray[Any, Any]) -> Workbench:
    """Run the instructions that `write` issues at once, on buffers that the seed filled and `tensor` as GM's tensor 1."""
    bench = Workbench(1)
    bench.memory.gm[1] = np.ascontiguousarray(tensor).view(np.uint8).ravel()
    k = KernelBuilder(InstructionTable(CHIPS[layout]), 0, "AIC", [16, len(bench.memory.gm[1])])
    write(k)
    for view in k.finish():
        if view.instruction.pipe(CHIPS[layout]) == "MTE2" and "barrier" not in str(view):
            bench.do(view.instruction, view.dst, view.src0)
    return bench


def stored(layout: Layout, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """[N, C, D, H, W] as a map of the layout."""
    if layout is PLANAR:
        return x
    if layout is CHANNELS_LAST:
        return x.transpose(0, 2, 3, 4, 1)
    n, c, *volume = x.shape
    padded = np.zeros((n, -(-c // C0) * C0, *volume), x.dtype)
    padded[:, :c] = x
    return padded.reshape(n, -1, C0, *volume).transpose(0, 3, 1, 4, 5, 2)


@sampled(100, 400)
@given(LAYOUTS, st.tuples(st.integers(1, 2), st.integers(1, 40), SIDE, SIDE, SIDE), st.booleans(), st.data())
def test_a_box_of_a_map_lands_where_the_pitches_say(
    layout: Layout, shape: tuple[int, int, int, int, int], packed: bool, data: st.DataObject
) -> None:
    n, c, d, h, w = shape
    x = np.arange(1, n * c * d * h * w + 1, dtype=np.uint16).reshape(shape)
    problem = ConvProblem(n, c, 16, d, h, w, d, h, w, 1, 1, 1)
    start = [data.draw(st.integers(0, size - 1)) for size in (n, c, d, h, w)]
    start[1] = start[1] // C0 * C0  # loads begin with a block
    channels, rows, columns = (data.draw(st.integers(1, s - a)) for s, a in zip((c, h, w), (start[1], *start[3:]), strict=True))
    steps = [(1, 1)] if packed or layout is CHANNELS_LAST else [(1, 1), (2, 1), (1, 3), (2, 2)]
    step_h, step_w = data.draw(st.sampled_from(steps))
    row = columns * step_w * step_h * 32
    if data.draw(st.booleans()):
        start[4], columns, channels = 0, w, c - start[1]
        row = w * step_w * step_h * 32
    block = rows * row + 32 * data.draw(st.integers(0, 2))
    pitches = Pitches(row, 32 * step_w, block)
    box = MapBox(ChannelPlace(start[0], start[1], start[2]), channels, Span(start[3], rows), Span(start[4], columns))
    found = x_map(in_layout(problem, layout))

    def write(k: KernelBuilder) -> None:
        if packed:
            found.load_pixels(k, 1, box, 64, block // 32, "A")
        else:
            found.load(k, 1, box, 64, pitches, "A")

    if 64 + -(-channels // C0) * block > 16384:
        return
    bench = run(layout, write, stored(layout, x))
    for channel, i, j in np.ndindex(channels, rows, columns):
        at = 64 + channel // C0 * block + i * row + j * pitches.pixel + channel % C0 * ITEM
        own = x[start[0], start[1] + channel, start[2], start[3] + i, start[4] + j]
        assert bench.get("L1", at, np.uint16, 1)[0] == own


@given(st.sampled_from([PLANAR, CHANNELS_LAST]), st.integers(1, 40), st.data())
def test_pixels_that_lie_apart_are_gathered(layout: Layout, c: int, data: st.DataObject) -> None:
    rows, columns, step_h, step_w = (data.draw(st.integers(1, 3)) for _ in range(4))
    top, left = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
    h, w = top + rows * step_h, left + columns * step_w
    x = np.arange(1, c * h * w + 1, dtype=np.uint16).reshape(1, c, 1, h, w)
    problem = ConvProblem(1, c, 16, 1, h, w, 1, h, w, 1, 1, 1)
    pixels = Lattice(top * w + left, rows, step_h * w, columns, step_w)
    pitch = rows * columns + 1
    found = x_map(in_layout(problem, layout))
    bench = run(
        layout, lambda k: found.gather(k, 1, MapPixels(ChannelPlace(0, 0, 0), c, pixels), 64, pitch, "B"), stored(layout, x)
    )
    for channel, i, j in np.ndindex(c, rows, columns):
        at = 64 + (channel // C0 * pitch + i * columns + j) * 32 + channel % C0 * ITEM
        assert bench.get("L1", at, np.uint16, 1)[0] == x[0, channel, 0, top + i * step_h, left + j * step_w]


def test_blocks_of_channels_are_not_gathered() -> None:
    found = x_map(in_layout(ConvProblem(*[1] * 12), BLOCKED))
    with pytest.raises(SimError, match="BlockedMap: no kernel gathers"):
        run(BLOCKED, lambda k: found.gather(k, 1, MapPixels(ChannelPlace(0, 0, 0), 1, Lattice(0, 1, 1, 1, 1)), 0, 1, "B"), ZERO)


@given(LAYOUTS, st.tuples(*[st.integers(1, 40)] * 2, *[st.integers(1, 3)] * 2), st.data())
def test_a_box_of_filters_is_fractal_z(layout: Layout, shape: tuple[int, int, int, int], data: st.DataObject) -> None:
    """[channel block][tap][rows][C0], rows beyond the filters zero; FRACTAL_Z has all taps of a plane."""
    co, ci, kd, taps = shape
    weight = np.arange(1, co * ci * kd * taps + 1, dtype=np.uint16).reshape(shape)
    problem = ConvProblem(1, ci, co, 1, 1, 1, 1, 1, 1, kd, 1, taps)
    first, first_channel = (data.draw(st.integers(0, (size - 1) // C0)) * C0 for size in (co, ci))
    filters, channels = (data.draw(st.integers(1, size - at)) for size, at in ((co, first), (ci, first_channel)))
    plane, tap = data.draw(st.integers(0, kd - 1)), 0 if layout is BLOCKED else data.draw(st.integers(0, taps - 1))
    count = taps - tap if layout is BLOCKED else data.draw(st.integers(1, taps - tap))
    rows, blocks = -(-filters // C0) * C0, -(-channels // C0)
    if 64 + blocks * count * rows * 32 > 16384:
        return
    tensor = weight
    if layout is CHANNELS_LAST:
        tensor = weight.transpose(2, 3, 1, 0)
    elif layout is BLOCKED:
        filters, channels = min(rows, co - first), min(blocks * C0, ci - first_channel)  # whole blocks come
        padded = np.zeros((-(-co // C0) * C0, -(-ci // C0) * C0, kd, taps), np.uint16)
        padded[:co, :ci] = weight
        tensor = padded.reshape(-1, C0, padded.shape[1] // C0, C0, kd, taps).transpose(4, 2, 5, 0, 1, 3)
    box = FilterBox(0, Span(first, filters), Span(first_channel, channels), plane, Span(tap, count))
    bench = run(layout, lambda k: weights(in_layout(problem, layout)).load(k, 1, box, 64, rows), tensor)
    found = bench.get("L1", 64, np.uint16, blocks * count * rows * C0).reshape(blocks, count, rows, C0)
    wanted = np.zeros((blocks * C0, count, rows), np.uint16)
    wanted[:channels, :, :filters] = weight[
        first : first + filters, first_channel : first_channel + channels, plane, tap : tap + count
    ].transpose(1, 2, 0)
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2).reshape(-1, count, rows), wanted)


# -- dW ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayoutTask:
    """A task of dW."""

    group: int
    plane: int | None
    m_start: int
    m_count: int
    n_start: int
    n_count: int


class Places:
    """Takes a finished tile and notes where its elements go: (row, column) -> byte offset."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int], int] = {}

    def drain_rows(
        self, pieces: list[DrainPiece], height: int, n: int, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False
    ) -> None:
        for target, first, rows, _, _ in pieces:
            for row, column in np.ndindex(rows, n):
                offset = column // c0 * dst_stride + (row * c0 + column % c0) * 4
                self.found[first + row, column] = (target & OFFSET_MASK) + offset

    def drain_elements(
        self,
        pieces: list[DrainPiece],
        height: int,
        row_stride: int,
        column_stride: int,
        atomic_add: bool = False,
        dtype: str = "float32",
    ) -> None:
        for target, first, rows, column, columns in pieces:
            for i, j in np.ndindex(rows, columns):
                self.found[first + i, column + j] = (target & OFFSET_MASK) + i * row_stride + j * column_stride


def moved(portions: list[Portion]) -> dict[int, int]:
    """Byte in the slot -> byte in dW of every element that the portions add up and store."""
    found: dict[int, int] = {}
    for portion in portions:
        for store in portion.stores:
            for row, byte in np.ndindex(store.rows, store.row_bytes // 4):
                source = store.source + row * store.source_stride + byte * 4
                assert source + 4 <= portion.size
                assert portion.offset + source not in found, "added twice"
                found[portion.offset + source] = store.target + row * store.target_stride + byte * 4
    return found


@given(problems(4, (1, 3, 8, 20)), st.integers(1, 5), st.integers(1, 4000), st.data())
def test_by_way_of_a_slot_is_the_straight_way(p: ConvProblem, lanes: int, room: int, data: st.DataObject) -> None:
    """Elements reach the place in dW that the tile's own drain gives them, however much is added at once, and by whom."""
    inp = in_layout(p, BLOCKED)
    dw, slice_ = slotted_gradient(inp), inp.taps * inp.c0
    group, plane = data.draw(st.integers(0, inp.real_groups - 1)), data.draw(st.integers(0, p.k_d - 1))
    rows_there = min(inp.cout_g, p.c_out - group * inp.cout_g)
    there = min(inp.cin_g, p.c_in - group * inp.cin_g)
    m = data.draw(st.integers(0, (rows_there - 1) // 16)) * 16
    block = data.draw(st.integers(0, (there - 1) // inp.c0))
    blocks = data.draw(st.integers(1, inp.cin1 - block))
    task = LayoutTask(group, plane, m, 16 * data.draw(st.integers(1, 3)), block * slice_, blocks * slice_)
    rows = min(task.m_count, rows_there - m)
    columns = min(blocks, -(-there // inp.c0) - block) * slice_
    tile = FilterTile(group, plane, m, rows, task.n_start, columns)
    straight, slot = Places(), Places()
    dw.drain(straight, 2, tile, False)
    dw.drain_to_slot(slot, 3, 0, task, tile, False)
    total, found = dw.shares(task), {}
    for lane in range(lanes):
        mine = range(lane * total // lanes, (lane + 1) * total // lanes)
        for byte, target in moved(list(dw.portions(task, mine, room))).items():
            assert byte not in found, "two lanes"
            found[byte] = target
    assert {place: found.get(slot.found[place]) for place in straight.found} == straight.found
    assert len(set(straight.found.values())) == len(straight.found)
    assert max(slot.found.values()) < dw.slot_bytes(task.m_count, task.n_count)


def turned_places(parts: list[Turned], rows: int) -> dict[tuple[int, int], int]:
    """(row, column) of a sum in fractals -> its bytes in dW, through the turned order in UB."""
    found: dict[tuple[int, int], int] = {}
    for part in parts:
        held: dict[int, tuple[int, int]] = {}
        for source, target, loops in part.scatters:
            for group, row, column in np.ndindex(loops.groups, loops.rows, loops.columns):
                byte = source + group * loops.src_group + row * loops.src_row + column * 4
                line, within = divmod(byte, 64)
                to = target + loops.dst_first
                to += group * loops.dst_group + row * loops.dst_row + column * loops.dst_column
                assert to not in held, "two elements in one place"
                held[to] = line % rows, line // rows * 16 + within // 4
        for one in part.writings:
            for plane, row, element in np.ndindex(one.planes, one.rows, one.row_bytes // 4):
                taken = one.source + plane * one.plane_strides[0] + row * one.strides[0] + element * 4
                to = one.target + plane * one.plane_strides[1] + row * one.strides[1] + element * 4
                assert held[taken] not in found, "written twice"
                found[held[taken]] = to
    return found


@given(problems(4, (1, 3, 8, 20)), st.sampled_from([PLANAR, CHANNELS_LAST]), st.integers(1, 9000), st.data())
def test_a_sum_that_is_turned_goes_where_its_tile_goes(p: ConvProblem, layout: Layout, room: int, data: st.DataObject) -> None:
    """Elements reach the place in dW that the tile's own drain gives them, however much room there is, and no others do."""
    if layout is CHANNELS_LAST:
        p = replace(p, groups=1)
    inp = in_layout(p, layout)
    dw = turned_gradient(inp)
    group, plane = data.draw(st.integers(0, inp.real_groups - 1)), data.draw(st.integers(0, p.k_d - 1))
    rows_there = min(inp.cout_g, p.c_out - group * inp.cout_g)
    there = -(-min(inp.cin_g, p.c_in - group * inp.cin_g) // inp.c0) * inp.taps
    row = data.draw(st.integers(0, (rows_there - 1) // 16)) * 16
    rows = data.draw(st.integers(1, rows_there - row))
    first = data.draw(st.integers(0, there - 1) | st.integers(0, (there - 1) // inp.taps).map(lambda n: n * inp.taps))
    tile = FilterTile(group, plane, row, rows, first * inp.c0, data.draw(st.integers(1, there - first)) * inp.c0)
    straight = Places()
    dw.drain(straight, 2, tile, False)
    assert turned_places(list(dw.turned(tile, room)), rows) == straight.found


def test_dw_of_a_grouped_call_is_a_dense_tensor() -> None:
    """Every element of [C_out, C_in / groups, kD, kH, kW] is written by exactly one tile, merged groups or not."""
    p = ConvProblem(1, 40, 60, 2, 3, 3, 2, 3, 3, 2, 1, 3, groups=10)
    inp = in_layout(p, PLANAR)
    found: list[int] = []
    for group in range(inp.real_groups):
        for plane in range(p.k_d):
            places = Places()
            rows = min(inp.cout_g, p.c_out - group * inp.cout_g)
            columns = -(-min(inp.cin_g, p.c_in - group * inp.cin_g) // inp.c0) * inp.c0 * inp.taps
            weight_gradient(inp).drain(places, 2, FilterTile(group, plane, 0, rows, 0, columns), False)
            found += places.found.values()
    assert inp.group_extension > 1
    assert sorted(found) == [4 * i for i in range(60 * 4 * 2 * 3)]


def in_layout(p: ConvProblem, layout: Layout) -> TilingInput:
    return replace(on_910b(p), layout=layout, family=PLAIN_SPLIT if layout.plain else BLOCKED_SPLIT)
