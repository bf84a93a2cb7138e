"""The unit flag: a drain follows the last product of its tile fractal by fractal, and the next product follows the drain."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.critical_path import critical_path
from ascend_sim.engine.device import Device
from ascend_sim.engine.replay import replay
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.engine.watch import from_columns
from ascend_sim.errors import SimError
from ascend_sim.isa.cube import Fixpipe, FixpipeUnitFlag, Mmad
from ascend_sim.isa.sync import WaitUnitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import TilePiece
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.touches import Touches
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, changed, ideal_memory, program, quiet, task_of, watched_run
from tests.support.kernel.unit_flags import product_into

pytestmark = pytest.mark.usefixtures("each_engine")
M, N = 64, 128
FRACTALS = M * N // 256


def tiles_of(
    count: int = 3, steps: int = 4, m: int = M, k_count: int = 64, buffers: int = 1, scalar: int = 0, **options: Any
) -> Program:
    """A program of `count` tiles, each a sum of `steps` products of `m` x N, drained to places of their own."""

    def write(k: KernelBuilder) -> None:
        tiles = UnitFlagTiles(k, "L0C", [k.allocate("L0C", M * N * 4, f"L0C[{i}]") for i in range(buffers)])
        k.fill("L0A", 0, M * 128 * 2)
        k.fill("L0B", 0, N * 128 * 2)
        ready = k.flag("MTE1", "M", "filled")
        k.set_flag(ready)
        k.wait_flag(ready)
        for i in range(count):
            accumulator = tiles.acquire()
            for step in range(steps):
                if scalar:
                    k.scalar(scalar)
                product_into(k, tiles, accumulator, (m, k_count, N), step > 0)
            tiles.drain(gm_operand(0, i * 64 * KIB), TilePiece(m, N, m), "float32", 16, m * 64)
        tiles.close()

    return program(options.pop("chip", quiet(CHIP)), "AIC", write, [count * 64 * KIB], **options)


def run(made: Program, chip: ChipSpec | None = None, **options: Any) -> tuple[Timeline, list[Finding]]:
    device = Device(chip or quiet(CHIP), with_values=False)
    tensor = device.allocate(max(len(made), 1) * 64 * KIB, "out")
    task = task_of([[made]], [tensor])
    return watched_run(device, [task], **options)


def rows(one: ProgramRun, kind: type) -> list[int]:
    instructions = one.program.table.instructions
    return [row for row in range(len(one.start)) if type(instructions[int(one.program.rows[row, 0])]) is kind]


def never_overtakes(one: ProgramRun) -> None:
    """Fractal by fractal, from the times alone: read after it was written, written again after it was read."""
    mmads, drains = rows(one, Mmad), rows(one, FixpipeUnitFlag)
    chip = one.program.table.chip
    per_tile = len(mmads) // len(drains)
    share = np.arange(FRACTALS) / FRACTALS
    for i, drain in enumerate(drains):
        last = mmads[(i + 1) * per_tile - 1]
        work = one.program.table.instructions[int(one.program.rows[last, 0])].work_cycles(chip)  # type: ignore[attr-defined]
        written = one.end[last] - work + work * (share + 1 / FRACTALS)
        port = M * N * 4 / Fixpipe(M, N, M, "float32", 16, M * 64).gm_access(chip).rate  # type: ignore[union-attr]
        earliest = one.start[drain] + port * share  # nothing reads faster than its port
        assert (earliest >= written - 1).all()
        if i + 1 < len(drains):
            first = mmads[(i + 1) * per_tile]
            read = one.end[drain] - port * (1 - share - 1 / FRACTALS)  # at the latest
            overwritten = one.end[first] - work + work * share
            assert (overwritten >= read - 1).all()


@pytest.mark.parametrize("k_count", [16, 64, 128])
@pytest.mark.parametrize("shared_gm", [False, True])
def test_a_drain_and_its_neighbours_overlap_and_never_overtake(k_count: int, shared_gm: bool) -> None:
    timeline, hazards = run(tiles_of(k_count=k_count), shared_gm=shared_gm)
    one = timeline.programs[0]
    mmads, drains = rows(one, Mmad), rows(one, FixpipeUnitFlag)
    assert one.start[drains[0]] < one.end[mmads[3]]  # the drain begins in the last product of its tile
    assert one.start[mmads[4]] < one.end[drains[0]] < one.end[mmads[4]]  # the next tile in the drain, and ends behind it
    never_overtakes(one)
    assert hazards == []


def test_times_on_paper() -> None:
    """32 fractals of 4 cycles in a product of K = 64, and 270 cycles of drain: 31/32 of the product are side by side."""
    one = run(tiles_of(count=2, steps=1), shared_gm=False)[0].programs[0]
    (first, second), (drain, _) = rows(one, Mmad), rows(one, FixpipeUnitFlag)
    assert one.program.table.instructions[int(one.program.rows[first, 0])].work_cycles(CHIP) == 128  # type: ignore[attr-defined]
    assert one.start[drain] == one.retire[first] - 124
    # Its head is the shorter one of both, Mmad's 10 and Fixpipe's 18.
    assert one.start[second] == one.end[drain] - 10 - 124


def test_waiting_is_work_of_the_fixpipe_and_a_stall_of_the_cube() -> None:
    one = run(tiles_of(), shared_gm=False)[0].programs[0]
    waits, drains = rows(one, WaitUnitFlag), rows(one, FixpipeUnitFlag)
    pipe = one.program.per_row("pipe")
    fix = [row for row in waits if pipe[row] == pipe[drains[0]]]
    waited, moved = ((one.end - one.start)[part].sum() for part in (fix, drains))
    assert waited > 0
    assert one.busy()["FIX"] == waited + moved
    assert one.busy()["M"] == (one.end - one.start)[rows(one, Mmad)].sum()
    for name in ("M", "FIX"):
        assert one.busy()[name] + sum(one.stalls(name).values()) == one.finish - one.begin
    assert "flag" in one.stalls("M") and "flag" not in one.stalls("FIX")


def test_another_tile_shape_waits_for_the_whole_tile() -> None:
    def write(k: KernelBuilder) -> None:
        tiles = UnitFlagTiles(k, "L0C", [k.allocate("L0C", M * N * 4, "L0C")])
        for i, m in enumerate((M, 32)):
            product_into(k, tiles, tiles.acquire(), (m, 64, N), False)
            tiles.drain(gm_operand(0, i * 64 * KIB), TilePiece(m, N, m), "float32", 16, m * 64)
        tiles.close()

    one = run(program(quiet(CHIP), "AIC", write, [128 * KIB]), shared_gm=False)[0].programs[0]
    drain, second = rows(one, FixpipeUnitFlag)[0], rows(one, Mmad)[1]
    assert one.start[second] == one.end[drain] - 10


@pytest.mark.parametrize("flag", ["L0C[0] full", "L0C[0] free"])
def test_a_forgotten_unit_flag_is_a_hazard(flag: str) -> None:
    _, found = run(tiles_of(disarm={flag}))
    assert found and all(finding.kind == "hazard" for finding in found)
    assert all("L0C" in finding.text for finding in found)


@pytest.mark.parametrize("pipes", [("MTE2", "MTE1"), ("M", "FIX")])
def test_only_a_unit_flag_has_a_lead(pipes: tuple[str, str]) -> None:
    """With another flag a lead could let work begin before the one that it waits for is over."""
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIC", [KIB])
    flag = k.flag(*pipes, "loaded")
    k.set_flag(flag)
    with pytest.raises(SimError, match=rf"'loaded' \({'->'.join(pipes)}\) with lead=10: only a unit flag has a lead"):
        k.wait_flag(flag, lead=10)


def test_a_fixpipe_without_the_unit_flag_may_not_overlap() -> None:
    """Equal times with plain instructions are a hazard: only the unit flag orders pieces."""
    timeline, _ = run(tiles_of())
    table = timeline.programs[0].program.table
    table.instructions[:] = [Fixpipe(**vars(one)) if isinstance(one, FixpipeUnitFlag) else one for one in table.instructions]
    table._touches = Touches.of((), table.chip)  # what the run had read of them
    assert from_columns([one.task for one in timeline.tasks], timeline.programs).findings


@pytest.mark.parametrize("chip", [CHIP, load_chip("ascend950pr_9589")], ids=lambda chip: chip.identity.arch)
def test_values_follow_the_pieces(chip: ChipSpec) -> None:
    """Whole numbers through three tiles: each is read before the next overwrites it, and after its last product."""
    rng = np.random.default_rng(0)
    left = rng.integers(-3, 4, (3, M, 64)).astype(np.float16)
    right = rng.integers(-3, 4, (3, N, 64)).astype(np.float16)

    def write(k: KernelBuilder) -> None:
        tiles = UnitFlagTiles(k, "L0C", [k.allocate("L0C", M * N * 4, "L0C")])
        held, loaded, used = k.flag("MTE2", "MTE1", "held"), k.flag("MTE1", "M", "loaded"), k.flag("M", "MTE2", "used")
        for i in range(3):
            if i:
                k.wait_flag(used)
            for slot, size, at in ((0, M, 0), (1, N, M * 128)):
                k.data_copy("GM", "L1", at, gm_operand(slot, i * size * 128), size * 128)
            k.set_flag(held)
            k.wait_flag(held)
            for operand, size, at in (("L0A", M, 0), ("L0B", N, M * 128)):
                k.load_data_2d(operand, 0, at, 2, size * 128 // 512)
            k.set_flag(loaded)
            k.wait_flag(loaded)
            product_into(k, tiles, tiles.acquire(), (M, 64, N), False)
            k.set_flag(used)
            tiles.drain(gm_operand(2, i * M * N * 4), TilePiece(M, N, M), "float32", 16, M * 64)
        k.wait_flag(used)
        tiles.close()

    chip = quiet(chip)
    sizes = [left.nbytes, right.nbytes, 3 * M * N * 4]
    device = Device(chip)
    tensors = [device.allocate(size, name) for size, name in zip(sizes, "abc", strict=True)]
    order = (0, 2, 1, 3, 4) if chip.cube.l0a_by_columns else (0, 1, 2, 3, 4)  # [K / 16][M / 16] or [M / 16][K / 16]
    tensors[0].data[:] = np.ascontiguousarray(_fractals(left).transpose(order)).view(np.uint8).ravel()
    tensors[1].data[:] = np.ascontiguousarray(_fractals(right).swapaxes(1, 2)).view(np.uint8).ravel()  # [K / 16][N / 16]
    task = task_of([[program(chip, "AIC", write, sizes)]], tensors)
    timeline, hazards = watched_run(device, [task])
    assert replay(device, [task], timeline.programs) == hazards == []
    found = tensors[2].data.view(np.float32).reshape(3, N // 16, M, 16).transpose(0, 2, 1, 3).reshape(3, M, N)
    np.testing.assert_array_equal(found, left.astype(np.float32) @ right.astype(np.float32).transpose(0, 2, 1))


def _fractals(matrices: Any) -> Any:
    """[..][rows][k] as L0 has it: [rows / 16][k / 16][16][16]."""
    count, height, width = matrices.shape
    return np.ascontiguousarray(matrices.reshape(count, height // 16, 16, width // 16, 16).transpose(0, 1, 3, 2, 4))


def test_a_chip_without_it_is_refused() -> None:
    with pytest.raises(SimError, match=r"ascend910a .* has no unit flag \(chip file, fixpipe.unit_flag\)"):
        program(load_chip("ascend910a"), "AI_CORE", lambda k: UnitFlagTiles(k, "L0C", [0]))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 5), st.sampled_from([16, 48, 128]), st.integers(1, 2), st.sampled_from([0, 30, 900]),
    st.integers(1, 6), st.booleans(),
)  # fmt: skip
def test_no_hazard_whatever_the_speeds(
    count: int, steps: int, k_count: int, buffers: int, scalar: int, depth: int, ideal: bool
) -> None:
    queues = dict.fromkeys(("MTE1", "MTE2", "MTE3", "M", "V", "FIX"), depth)
    chip = changed(quiet(CHIP), sync={"queue_depth": queues})
    chip = ideal_memory(chip) if ideal else chip
    made = tiles_of(count, steps, k_count=k_count, buffers=buffers, scalar=scalar, chip=chip)
    timeline, hazards = run(made, chip)
    assert hazards == []
    path = critical_path(timeline)
    assert all(a.end == b.begin for a, b in pairwise(path))
    assert path[-1].end == timeline.finish and all(step.cycles > 0 for step in path)


def test_a_product_follows_the_last_drain_of_its_own_tile() -> None:
    """Two tiles in turn: the third product comes into the first one, whatever the second one was drained by."""

    def waits(first: int, second: int) -> list[str]:
        k = KernelBuilder(InstructionTable(CHIP), 0, "AIC", [1 << 20])
        tiles = UnitFlagTiles(k, "L0C", [0, 1 << 15])
        for height in (first, second, 64):
            tiles.acquire()
            product_into(k, tiles, tiles.filling, (64, 16, 64), False)
            tiles.drain(gm_operand(0, 0), TilePiece(height, 64, 64), "float32", 16, 64 * 64)
        tiles.close()
        return [str(row.instruction) for row in k.finish() if row.pipe == "M" and "Wait" in str(row.instruction)]

    assert waits(64, 16)[-1] == waits(64, 64)[-1] != waits(16, 16)[-1]
