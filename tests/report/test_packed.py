"""Blocks packed for a page: another reader of the same bytes finds the columns that the engine gave."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.engine.critical_path import critical_path
from ascend_sim.memory.gm import SLOT_SHIFT
from ascend_sim.report.packed import PackedBlocks, varints
from tests.support.report.calls import call


def integers(raw: bytes) -> list[int]:
    """LEB128, one byte after the other, unfolded."""
    found, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(-(value + 1) // 2 if value & 1 else value // 2)
            value, shift = 0, 0
    assert shift == 0
    return found


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_varints_come_back(values: list[int]) -> None:
    assert integers(varints(np.asarray(values, np.int64))) == values


@pytest.fixture(scope="module")
def result() -> Any:
    return call(channels=16, size=12)


def unpacked(block: dict[str, Any], tables: list[Any]) -> dict[str, Any]:
    """A block read as the page's script reads it: column by column, row by row."""
    numbers = iter(integers(zlib.decompress(base64.b64decode(block["data"]))))
    rows, table = block["rows"], tables[block["table"]]

    def take(count: int) -> list[int]:
        return [next(numbers) for _ in range(count)]

    instruction, gap, length, latency, cause, tiles = (take(rows) for _ in range(6))
    operands = []
    for _ in range(3):
        halves = []
        for column in (take(rows), take(rows)):
            last: dict[int, int] = {}
            for row in range(rows):
                column[row] = last[instruction[row]] = last.get(instruction[row], 0) + column[row]
            halves.append(column)
        operands.append([(slot << SLOT_SHIFT) + offset for slot, offset in zip(*halves, strict=True)])
    l2_wait, hbm_wait, hbm_bytes = (take(rows) for _ in range(3))
    critical = np.cumsum(take(take(1)[0])).tolist()
    lines = np.cumsum(take(rows)).tolist()
    assert next(numbers, None) is None
    start, end, free = [], [], dict.fromkeys(range(8), block["begin"])
    for row in range(rows):
        pipe = table[instruction[row]]["pipe"]
        start.append(free[pipe] + gap[row])
        end.append(start[row] + length[row])
        free[pipe] = end[row]
    retire = [one + more for one, more in zip(end, latency, strict=True)]
    return {
        "instruction": instruction, "start": start, "end": end, "retire": retire, "cause": cause,
        "tile": np.cumsum(tiles).tolist(), "operands": operands, "l2_wait": l2_wait, "hbm_wait": hbm_wait,
        "hbm_bytes": hbm_bytes, "critical": critical, "line": lines,
    }  # fmt: skip


def test_every_block_holds_every_row(result: Any) -> None:
    path = critical_path(result.timeline)
    told = PackedBlocks(result.recording, path).to_dict()
    runs = result.timeline.programs
    assert [block["index"] for block in told["blocks"]] == list(range(len(runs)))
    on_path = 0
    for block, run in zip(told["blocks"], runs, strict=True):
        found = unpacked(block, told["tables"])
        for name in ("start", "end", "retire", "cause", "l2_wait", "hbm_wait", "hbm_bytes"):
            assert found[name] == getattr(run, name).tolist(), name
        assert found["tile"] == run.program.rows[:, 4].tolist()
        assert found["operands"] == run.program.rows[:, 1:4].T.tolist()
        names = [told["tables"][block["table"]][one]["name"] for one in found["instruction"]]
        assert names == [view.instruction.name for view in run.program]
        assert (block["core"], block["task"]) == (f"{run.program.core_kind} {run.core}", run.task)
        wanted = {step.row for step in path if step.program == block["index"]}
        assert set(found["critical"]) <= wanted
        on_path += len(found["critical"])
    assert on_path


def test_beyond_the_limit_whole_blocks_are_left_out(result: Any) -> None:
    path = critical_path(result.timeline)
    runs = result.timeline.programs
    last = len(runs) - 1
    whole = PackedBlocks(result.recording, path, limit=None)
    assert whole.left_out == 0 and len(whole.blocks) == len(runs)
    size = sum(map(len, whole.blocks.values()))
    some = PackedBlocks(result.recording, path, [last], size // 2)
    assert some.left_out == len(runs) - len(some.blocks) > 0
    assert last in some.blocks and sum(map(len, some.blocks.values())) <= size // 2
    assert all(some.blocks[index] == whole.blocks[index] for index in some.blocks)
    assert list(PackedBlocks(result.recording, path, [last], 1).blocks) == [last]
