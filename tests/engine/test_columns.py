"""Columns that wait on disk are those that wait in memory."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest
from machine import CHIP, program, task_of

from ascend_sim.engine import columns
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.timeline import Timeline
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.fast

COUNTS = (70, 10, 90, 80)
"""Rows of the blocks."""


def run() -> Timeline:
    def write(k: KernelBuilder) -> None:
        for i in range(COUNTS[k.block]):
            k.data_copy("GM", "UB", 0, gm_operand(0, 64 * i * (k.block + 1)), 64)

    device = Device(CHIP, with_values=False)
    tensor = device.allocate(1 << 16, "t")
    made = [[program(CHIP, "AIV", write, [1 << 16], block=block)] for block in range(len(COUNTS))]
    return Engine(device).run([task_of(made, [tensor])])


def mapped(array: Any) -> bool:
    """Whether an array lies in a file."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


@pytest.mark.parametrize(
    ("most", "few", "on_disk"), [(1 << 30, 1, 0), (85 * columns.NUMBERS * 8, 1, 2), (0, 50, 3), (0, 1, 4)]
)
def test_what_does_not_fit_lies_on_disk(most: int, few: int, on_disk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run()
    monkeypatch.setattr(columns, "MOST", most)
    monkeypatch.setattr(columns, "_FEW", few)
    found = run()
    assert sum(mapped(one.start) and mapped(one.program.rows) for one in found.programs) == on_disk
    for one, other in zip(found.programs, expected.programs, strict=True):
        assert (one.begin, one.finish, one.core, len(one.program)) == (
            other.begin,
            other.finish,
            other.core,
            len(other.program),
        )
        assert np.array_equal(one.program.rows, other.program.rows)
        for name in columns.TIMES:
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_a_full_disk_leaves_them_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

    expected = run()
    monkeypatch.setattr(columns, "MOST", 0)
    monkeypatch.setattr(columns, "_FEW", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    assert [one.end.tolist() for one in run().programs] == [one.end.tolist() for one in expected.programs]
