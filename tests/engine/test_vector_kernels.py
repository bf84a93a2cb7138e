"""A row softmax of tensors in GM, as a user writes it: the same values with and without time, and every wait matters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.watch import watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import task_of

ROWS, COLUMNS, BLOCKS = 8, 200, 3
FLAGS = ("loaded", "computed")


def softmax(k: KernelBuilder, block: int) -> None:
    x, wide = (k.local_tensor((ROWS, COLUMNS), "float32", name) for name in ("x", "wide"))
    column = k.local_tensor(ROWS, "float32", "column")
    loaded, computed = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "computed")
    first = block * ROWS * COLUMNS * 4
    k.data_copy("GM", "UB", x.address, gm_operand(0, first), x.row_bytes, x.rows, x.row_bytes, x.row_stride)
    k.set_flag(loaded)
    k.wait_flag(loaded)
    for step in (
        lambda: k.reduce_max(column, x),
        lambda: k.broadcast_column(wide, column),
        lambda: k.sub(x, x, wide),
        lambda: k.exp(x, x),
        lambda: k.reduce_sum(column, x),
        lambda: k.broadcast_column(wide, column),
        lambda: k.div(x, x, wide),
    ):
        k.pipe_barrier("V")  # the vector unit starts an instruction before the one before it has retired
        step()
    k.set_flag(computed)
    k.wait_flag(computed)
    k.data_copy("UB", "GM", gm_operand(1, first), x.address, x.row_bytes, x.rows, x.row_stride, x.row_bytes)


def run(name: str, mode: str, disarm: tuple[str, ...] = ()) -> tuple[np.ndarray[Any, Any], list[Any]]:
    chip = load_chip(name)
    kind = "AI_CORE" if chip.cores.coupled else "AIV"
    device, table, size = Device(chip), InstructionTable(chip), BLOCKS * ROWS * COLUMNS * 4
    values = np.random.default_rng(1).standard_normal(size // 4).astype(np.float32)
    tensors = [device.allocate(size, "x"), device.allocate(size, "y")]
    tensors[0].data[:] = values.view(np.uint8)  # type: ignore[index]
    programs = []
    for block in range(BLOCKS):
        k = KernelBuilder(table, block, kind, [size, size], disarm=disarm)
        softmax(k, block)
        programs.append([k.finish()])
    task = task_of(programs, tensors)
    if mode == "functional":
        engine = FunctionalEngine(device)
        engine.run([task])
        findings = engine.findings
    else:
        timeline = Engine(device).run([task])
        findings = watched(timeline).findings + replay(device, [task], timeline.programs)
    return task.tensors[1].data.view(np.float32).reshape(-1, COLUMNS), findings  # type: ignore[union-attr]


def expected() -> np.ndarray[Any, Any]:
    values = np.random.default_rng(1).standard_normal(BLOCKS * ROWS * COLUMNS).astype(np.float32).reshape(-1, COLUMNS)
    powers = np.exp(values.astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("name", ["ascend910b3", "ascend310p3", "ascend950pr_9589"])
def test_a_row_softmax(name: str, mode: str) -> None:
    result, findings = run(name, mode)
    assert findings == []
    np.testing.assert_allclose(result, expected(), rtol=1e-5)


@pytest.mark.parametrize("flag", FLAGS)
def test_every_wait_matters(flag: str) -> None:
    result, findings = run("ascend910b3", "full", (flag,))
    assert findings and not np.allclose(result, expected(), rtol=1e-5)
