"""Effects by numpy against loops over their items, byte by byte."""

from __future__ import annotations

import importlib
import itertools
import math
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import isa
from ascend_sim.isa import effect
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.moves import Place, listed, loops, moves
from tests.support.isa.workbench import Workbench
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

AT, BEHIND = 2048, 1024
"""Where operands lie: room for strides of both signs."""


def offsets(place: Place) -> list[int]:
    """The byte offset of each item behind the address, in order; -1 for an item of zeros."""
    if place.listed is not None:
        return [int(one) for one in place.listed]
    steps = itertools.product(*(range(size) for size in place.shape))
    return [place.offset + sum(i * stride for i, stride in zip(at, place.strides, strict=True)) for at in steps]


def read_by_bytes(place: Place, buffer: bytes, address: int) -> bytes:
    """The items of a place, one behind the other."""
    found = bytearray()
    for offset in offsets(place):
        begin = address + offset
        zeros = place.listed is not None and offset < 0
        found += bytes(place.itemsize) if zeros else buffer[begin : begin + place.itemsize]
    return bytes(found)


@st.composite
def nests(draw: st.DrawFn, operand: str, space: str, count: int | None = None) -> Place:
    """Loops of `count` items of some bytes, or a list of them."""
    item = draw(st.sampled_from([1, 2, 3, 4, 8, 32]))
    shape = draw(st.sampled_from([(6,), (2, 3), (3, 2), (1, 6), (3, 1, 2)]))
    size = math.prod(shape)
    if draw(st.booleans()):
        strides = draw(st.lists(st.integers(-6, 6), min_size=len(shape), max_size=len(shape)))
        return loops(operand, space, shape, [item * one for one in strides], item, item * draw(st.integers(0, 3)))
    least = -1 if operand == "src0" else 0
    places = draw(st.lists(st.integers(least, 20), min_size=size, max_size=size, unique=operand == "dst"))
    unit = draw(st.sampled_from([item, 1])) if operand == "src0" else item
    return listed(operand, space, np.array([unit * one for one in places]), item)


@sampled(150, 1000)
@given(nests("src0", "UB"), st.integers(AT, AT + 40))
def test_what_is_taken(place: Place, address: int) -> None:
    memory = Workbench().memory
    found = effect.taken(moves(place, put=loops("dst", "UB", (1,), (1,), 1)), memory, {"src0": address})
    assert found.tobytes() == read_by_bytes(place, memory.buffers["UB"].tobytes(), address)


@sampled(150, 1000)
@given(nests("dst", "L1"), st.integers(AT, AT + 40))
def test_what_is_put(place: Place, address: int) -> None:
    memory = Workbench().memory
    size = place.count * place.itemsize
    pending = np.random.default_rng(1).integers(0, 256, size + 7, np.uint8)  # what does not fit is dropped
    expected = bytearray(memory.buffers["L1"].tobytes())
    for number, offset in enumerate(offsets(place)):
        begin = address + offset
        expected[begin : begin + place.itemsize] = pending[number * place.itemsize :][: place.itemsize].tobytes()
    effect.put(moves(loops("src0", "UB", (1,), (1,), 1), put=place), memory, address, pending)
    if place.is_apart:
        assert memory.buffers["L1"].tobytes() == bytes(expected)


@pytest.mark.parametrize("fill", [b"", b"\1", b"\1\2", b"\1\2\3\4"])
def test_items_of_a_constant(fill: bytes) -> None:
    memory = Workbench().memory
    before = memory.buffers["UB"].tobytes()
    item = len(fill) or 1
    told = moves(put=loops("dst", "UB", (3, 2), (64, item), item), fill=fill)
    effect.put(told, memory, 32, effect.taken(told, memory, {}))
    after = bytearray(before)
    for row in range(3):
        after[32 + 64 * row : 32 + 64 * row + 2 * item] = 2 * (fill or b"\0")
    assert memory.buffers["UB"].tobytes() == bytes(after)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int16"])
def test_numbers_are_added_to_what_is_there(dtype: str) -> None:
    bench = Workbench()
    held, more = np.arange(12).astype(dtype), (3 * np.arange(12) + 1).astype(dtype)
    item = held.itemsize
    bench.put("UB", 0, more)
    bench.put("L1", 64, held)
    told = moves(
        loops("src0", "UB", (3, 4), (4 * item, item), item), put=loops("dst", "L1", (3, 4), (4 * item, item), item), adds=dtype
    )
    effect.put(told, bench.memory, 64, effect.taken(told, bench.memory, {"src0": 0}))
    assert bench.get("L1", 64, dtype, 12).tolist() == (held + more).tolist()


def test_two_places_are_taken_one_behind_the_other() -> None:
    bench = Workbench()
    takes = [loops(operand, "UB", (4,), (2,), 2) for operand in ("src0", "src1")]
    told = moves(*takes, put=loops("dst", "UB", (2, 4), (2, 4), 2))
    one, other = bench.get("UB", 64, "u2", 4), bench.get("UB", 256, "u2", 4)
    effect.put(told, bench.memory, 1024, effect.taken(told, bench.memory, {"src0": 64, "src1": 256}))
    assert bench.get("UB", 1024, "u2", 8).tolist() == np.stack((one, other), axis=1).ravel().tolist()


@pytest.mark.parametrize("address", [64, 65])
def test_a_fill_stands_at_the_negative_places_of_a_list(address: int) -> None:
    bench = Workbench()
    take = listed("src0", "UB", np.array([-1, 2, -1, 0]), 2)
    told = moves(take, put=loops("dst", "UB", (8,), (1,), 1), fill=b"\x34\x12")
    one = bench.get("UB", address, "u1", 4).view("u2")
    effect.put(told, bench.memory, 1024, effect.taken(told, bench.memory, {"src0": address}))
    assert bench.get("UB", 1024, "u2", 4).tolist() == [0x1234, one[1], 0x1234, one[0]]


def subclasses(kind: type[Instruction]) -> list[type[Instruction]]:
    return [one for direct in kind.__subclasses__() for one in (direct, *subclasses(direct))]


IN_NUMPY = {
    "ComputedRows": "numbers are computed where they stand, by a table of arithmetic or by bits of another operand",
    "_Arithmetic": "a table of arithmetic: numbers of one format become numbers of another",
    "ReduceRows": "numbers of a row become one",
    "ReduceBlocks": "numbers of a block become one",
    "ReducePieces": "numbers of a piece become one",
    "GatherMask": "bits of another operand say which numbers it takes",
    "NamedInstruction": "its file computes numbers",
    "Compare": "numbers become bits",
    "CompareToRegister": "numbers become bits of a register that is no place in a buffer",
    "_Whole": "the mask register is no place in a buffer",
    "Gather": "numbers of another operand say where it lies",
    "GatherBlocks": "numbers of another operand say where its blocks lie",
    "ScalarLoad": "GM is reached through the data cache",
    "ScalarStore": "GM is reached through the data cache",
    "CleanDataCache": "lines of the data cache are written back",
}
"""Instructions whose `read` and `commit` are written out, and what a `Moves` cannot say of them; also who derives from them."""


def test_an_effect_is_written_once() -> None:
    for module in pkgutil.walk_packages(isa.__path__, "ascend_sim.isa."):
        importlib.import_module(module.name)
    for kind in subclasses(Instruction):
        written = {"read", "commit"} & set(vars(kind))
        if kind.__module__.startswith("ascend_sim.") and written:
            assert "moves" not in vars(kind), kind
            assert any(base.__name__ in IN_NUMPY for base in kind.__mro__), kind
