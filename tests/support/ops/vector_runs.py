"""Running one vector kernel in both modes, and the plain-numpy layouts that its results are compared with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import watched
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import Allocation

Make = Callable[[ChipSpec, Allocation, Allocation, Collection[str]], Task]
"""(chip, source, target, disarm) -> the launch under test."""


def chip() -> ChipSpec:
    return load_chip("ascend910b3")


def execute(
    make: Make,
    source: NDArray[Any],
    target: NDArray[Any] | int,
    mode: str,
    on: ChipSpec | None = None,
    disarm: Collection[str] = (),
) -> tuple[NDArray[np.uint8], list[Finding], Task]:
    """Bytes of the target afterwards; `target` gives its size in bytes or what it holds before."""
    on = on or chip()
    device = Device(on)
    incoming = device.allocate(max(source.nbytes, 1), "source")
    assert incoming.data is not None
    incoming.data[: source.nbytes] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    outgoing = device.allocate(target if isinstance(target, int) else target.nbytes, "target")
    assert outgoing.data is not None
    if not isinstance(target, int):
        outgoing.data[:] = np.ascontiguousarray(target).reshape(-1).view(np.uint8)
    task = make(on, incoming, outgoing, disarm)
    if mode == "functional":
        engine = FunctionalEngine(device)
        engine.run([task])
        findings = engine.findings
    else:
        timeline = Engine(device).run([task], watch=True)
        findings = replay(device, [task], timeline.programs)
        findings += watched(timeline).findings
    return outgoing.data.copy(), findings, task


def both_modes(make: Make, source: NDArray[Any], target: NDArray[Any] | int) -> NDArray[np.uint8]:
    """The target's bytes, equal in both modes and without findings."""
    values, findings, _ = execute(make, source, target, "functional")
    assert findings == []
    timed, findings, _ = execute(make, source, target, "full")
    assert findings == []
    np.testing.assert_array_equal(values, timed)
    return values


def codes(rng: np.random.Generator, shape: tuple[int, ...], itemsize: int) -> NDArray[Any]:
    """Arbitrary bit patterns, none of them zero, so that a lost element shows."""
    return rng.integers(1, 1 << (8 * itemsize), shape, f"u{itemsize}")


def nc1hwc0(x: NDArray[Any], c0: int) -> NDArray[Any]:
    """[N, C, D, HW] -> [N, D, C1, HW, C0]."""
    n, c, d, hw = x.shape
    c1 = -(-c // c0)
    wide = np.zeros((n, c1 * c0, d, hw), x.dtype)
    wide[:, :c] = x
    return np.ascontiguousarray(wide.reshape(n, c1, c0, d, hw).transpose(0, 3, 1, 4, 2))


def fractal_z(w: NDArray[Any], groups: int, c0: int) -> NDArray[Any]:
    """[C_out, C_in/g, K_d, taps] -> [real group, K_d, cin1, taps, cout1, 16, C0], element by element.

    Groups merge until output channels fill blocks of 16 and input channels blocks of C0, or all are merged.
    """
    c_out, cin, planes, taps = w.shape
    cout = c_out // groups
    merged = next(m for m in range(1, groups + 1) if m == groups or (m * cin % c0 == 0 and m * cout % 16 == 0))
    real, cin1, cout1 = -(-groups // merged), -(-merged * cin // c0), -(-merged * cout // 16)
    out = np.zeros((real, planes, cin1, taps, cout1, 16, c0), w.dtype)
    for o in range(c_out):
        group = o // cout
        row = o - group // merged * merged * cout
        for i in range(cin):
            column = group % merged * cin + i
            out[group // merged, :, column // c0, :, row // 16, row % 16, column % c0] = w[o, i]
    return out


def slow(pipe: str) -> ChipSpec:
    """The chip with one pipe of the vector cores much slower than the others: MTE2, V or MTE3."""
    base = chip()
    if pipe == "V":
        return base.model_copy(update={"vector": base.vector.model_copy(update={"head": 20000.0})})
    key = {"MTE2": "GM->UB", "MTE3": "UB->GM"}[pipe]
    path = base.paths[key].model_copy(update={"head": 20000})
    return base.model_copy(update={"paths": base.paths | {key: path}})


def waited(program: Program) -> set[str]:
    """Names of the flags that a program waits for."""
    rows = (row.instruction for row in program)
    waits = {(i.source, i.destination, i.flag) for i in rows if isinstance(i, WaitFlag)}
    return {name for name, key in program.flags.items() if key in waits}


def useless_waits(make: Make, source: NDArray[Any], target: NDArray[Any] | int, known: NDArray[np.uint8]) -> list[str]:
    """Flags whose waits may be disarmed without a finding or a wrong value on any of the slow chips."""
    probe = Device(chip())
    size = target if isinstance(target, int) else target.nbytes
    task = make(probe.chip, probe.allocate(source.nbytes, "source"), probe.allocate(size, "target"), ())
    flags = sorted({name for b in range(task.block_dim) for program in task.build(b) for name in waited(program)})
    assert flags
    useless = []
    for flag in flags:
        for pipe in ("MTE2", "V", "MTE3"):
            values, findings, _ = execute(make, source, target, "full", slow(pipe), [flag])
            if findings or not np.array_equal(values, known):
                break
        else:
            useless.append(flag)
    return useless
