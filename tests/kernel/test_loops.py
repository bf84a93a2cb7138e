"""Loops whose pieces are repeated under inspection: what is found is what is found where every row is written by itself."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.check.walk import ProgramWalk
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand

BLOCKS, PIECES, SIZE = 3, 7, 64


@asim.kernel_function(core="AIV")
def copies(k: Any, a: Any, b: Any, wrong: str = "") -> None:
    """Each block copies pieces of 64 bytes through a queue; `wrong` is what its last pieces do besides."""
    queue = k.queue_of("x", [k.allocate("UB", SIZE, f"x[{i}]") for i in range(2)], "MTE2", "MTE3")
    pieces = [("" if piece < 4 else wrong, SIZE * (PIECES * k.block + piece)) for piece in range(PIECES)]
    for what, place in k.stamped(pieces):
        if what == "flag":
            k.cross_core_set(99, 2, "MTE3")
        if what == "path":
            k.data_copy("UB", "L0C", 0, 0, SIZE)
        k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, place), SIZE)
        queue.publish()
        if what == "raised":
            k.no_such_method()
        if what == "barrier":
            k.pipe_barrier("MTE3")
        far = SIZE * PIECES * (what == "far")
        k.data_copy("UB", "GM", gm_operand(1, place + far), queue.take(), SIZE)
        if what != "held":
            queue.release()


def report(wrong: str) -> dict[str, Any]:
    a = np.zeros(BLOCKS * PIECES * SIZE // 4, np.float32)
    return asim.check_kernel(copies, BLOCKS, a, asim.empty(a.shape, "float32"), wrong=wrong).to_dict()


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("", ""), ("flag", "refused"), ("path", "refused"), ("raised", "refused"), ("barrier", "redundant barrier"),
        ("far", "illegal write"), ("held", "unpaired wait_flag"),
    ],
)  # fmt: skip
def test_what_is_found_in_a_stamped_loop(wrong: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = report(wrong)
    monkeypatch.setattr(KernelBuilder, "stamping", False)
    assert stamped == report(wrong)
    assert (kind in {one["kind"] for one in stamped["findings"]}) == bool(kind)


def test_every_block_counts_where_its_pieces_do_wrong() -> None:
    told = [one for one in report("flag")["findings"] if one["kind"] == "refused"]
    assert [one["count"] for one in told] == [BLOCKS]


def test_a_check_leaves_nothing_to_the_search_for_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        report("")
        assert not [one for one in gc.get_objects() if type(one) is ProgramWalk]
    finally:
        gc.enable()


@asim.kernel_function(core="AIV")
def counts_on(k: Any, a: Any, b: Any, by: str = "") -> None:
    """Copies as `copies` does; how much of a piece depends on what no stamp knows of, unless `by` is empty."""
    queue = k.queue_of("x", [k.allocate("UB", SIZE, f"x[{i}]") for i in range(2)], "MTE2", "MTE3")
    for number, (_, place) in enumerate(k.stamped([("", SIZE * (PIECES * k.block + piece)) for piece in range(PIECES)])):
        size = SIZE // 2 if by == "number" and number == PIECES - 1 else SIZE
        if by == "break" and number == PIECES - 1:
            raise asim.SimError("the last piece alone")
        k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, place), SIZE)
        queue.publish()
        k.data_copy("UB", "GM", gm_operand(1, place), queue.take(), size)
        queue.release()


def test_a_body_that_depends_on_more_than_its_piece_is_told() -> None:
    a = np.zeros(BLOCKS * PIECES * SIZE // 4, np.float32)
    for by in ("", "number"):
        found = asim.check_kernel(counts_on, BLOCKS, a, asim.empty(a.shape, "float32"), by=by).to_dict()["findings"]
        texts = [str(one) for one in found if "a stamped loop repeats" in str(one)]
        assert len(texts) == (by != ""), found
        assert all("row_bytes=64" in text and "row_bytes=32" in text for text in texts)


def test_a_body_that_only_by_itself_breaks_off_is_refused() -> None:
    a = np.zeros(BLOCKS * PIECES * SIZE // 4, np.float32)
    found = asim.check_kernel(counts_on, BLOCKS, a, asim.empty(a.shape, "float32"), by="break").to_dict()["findings"]
    assert any("the last piece alone" in str(one) for one in found)
    assert not any("a stamped loop repeats" in str(one) for one in found)
