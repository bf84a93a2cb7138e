"""Synchronisation that the vendor's compiler adds: right where it helps, nothing where the kernel has its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.function import CppKernel
from tests.support.ascend_c.kernels import IN, OUT, floats, made, needs_compiler, vector_kernel

pytestmark = needs_compiler

CHAIN = "Adds(b, a, 1.0f, 64); {0} Muls(b, b, 2.0f, 64); {0} Maxs(d, b, 0.0f, 64);"
VALUES = (
    "Adds(b, a, 1.0f, 64); {0} float v = b.GetValue(3); b.SetValue(0, v * 2); {1} Muls(d, b, 3.0f, 64);"
    " float w = a.GetValue(5); {2} Adds(d, d, w, 64);"
)


def launched(kernel: CppKernel, x: np.ndarray[Any, Any]) -> Any:
    return asim.launch(kernel, 1, x, asim.empty(64, "float32"), mode="full")


def races(kernel: CppKernel) -> set[str]:
    return {f"{one.kind} {one.space}" for one in asim.check_kernel(kernel, 1, floats(64), asim.empty(64, "float32")).findings}


def names(run: Any) -> Counter[str]:
    (program,) = [one.program for one in run.timeline.programs]
    found = [program.table.instructions[row] for row in program.rows[:, 0].tolist()]
    return Counter(f"{one.name} {getattr(one, 'on', '')}".strip() for one in found)


def test_vector_calls_that_depend_get_barriers(tmp_path: Path) -> None:
    x = floats(64)
    plain, own = (vector_kernel(IN + CHAIN.format(one) + OUT, tensors="x z") for one in ("", "PipeBarrier<PIPE_V>();"))
    for name in ("plain", "own", "auto", "both"):
        (tmp_path / name).mkdir()
    found = {
        "plain": made(tmp_path / "plain", plain),
        "own": made(tmp_path / "own", own),
        "auto": made(tmp_path / "auto", plain, auto_sync=True),
        "both": made(tmp_path / "both", own, auto_sync=True),
    }
    assert races(found["plain"]) == {"RAW UB"}
    said = asim.check_kernel(found["plain"], 1, x, asim.empty(64, "float32")).remarks
    assert any("--auto-sync" in one for one in said)
    assert not any(races(found[name]) for name in ("own", "auto", "both"))
    runs = {name: launched(one, x) for name, one in found.items() if name != "plain"}
    assert names(runs["own"]) == names(runs["auto"]) == names(runs["both"])
    assert len({run.timeline.finish for run in runs.values()}) == 1
    for run in runs.values():
        assert np.array_equal(run.outputs["z"], np.maximum((x + 1) * 2, 0)) and run.findings == []


def test_the_scalar_unit_waits_and_is_waited_for(tmp_path: Path) -> None:
    x = floats(64)
    text = vector_kernel(IN + VALUES.format("", "", "") + OUT, tensors="x z")
    kernel = made(tmp_path, text, auto_sync=True)
    assert races(kernel) == set()
    wanted = x + np.float32(1)
    wanted[0] = wanted[3] * np.float32(2)
    run = launched(kernel, x)
    np.testing.assert_array_equal(run.outputs["z"], wanted * np.float32(3) + x[5])
    assert run.findings == []


def test_independent_calls_get_nothing(tmp_path: Path) -> None:
    text = vector_kernel(IN + "Adds(b, a, 1.0f, 64); Adds(d, a, 2.0f, 64);" + OUT, tensors="x z")
    assert names(launched(made(tmp_path, text, auto_sync=True), floats(64)))["pipe_barrier V"] == 0


def test_what_the_compiler_does_not_order_is_still_found(tmp_path: Path) -> None:
    text = vector_kernel("DataCopy(a, xg, 64); Adds(d, a, 1.0f, 64);" + OUT, tensors="x z")
    assert races(made(tmp_path, text, auto_sync=True)) == {"RAW UB"}
