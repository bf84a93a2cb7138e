"""Totals, hazards and occupancy: C against numpy, and a run that keeps no columns against one that does."""

from __future__ import annotations

import pytest

from ascend_sim.engine.compiled import library, machine
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.watch import watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, program, quiet, task_of
from tests.support.engine.random_runs import RandomRun
from tests.support.sampling import as_part, sample

needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


def assert_same_without_columns(seed: int, engine: str) -> bool:
    """Everything that needs no columns is the same without them; whether there was a hazard."""
    run = RandomRun(seed)
    kept, lean = run.outcome(engine), run.outcome(engine, keep=False)
    expected = {name: value for name, value in kept.items() if name in lean}
    assert lean == expected, f"Run({seed})"
    assert len(lean) == len(kept) or "watched 0" in lean
    return any(value.findings for name, value in lean.items() if name.startswith("watched"))


@needs_c
@as_part
@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
def test_random_runs_on_the_compiled_engine(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows wait until C looks at them."""
    monkeypatch.setattr(machine, "_BATCH", batch)
    first, count = 50 * batch, sample(20, 50)
    racy = [assert_same_without_columns(seed, "compiled") for seed in range(first, first + count)]
    assert count // 10 < sum(racy) < count


@needs_c
@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, 100))
def test_many_random_runs_on_the_compiled_engine(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_BATCH", 1 + first // 100 % 9)
    for seed in range(first, first + 100):
        assert_same_without_columns(seed, "compiled")


@as_part
def test_random_runs_on_the_simpy_engine() -> None:
    for seed in range(sample(8, 20)):
        assert_same_without_columns(seed, "simpy")


def test_the_mean_of_a_buffer_is_over_programs_and_their_time() -> None:
    """Two blocks that hold what they hold for another part of their time; the curve of each is known by itself."""
    chip = quiet(CHIP)

    def write(k: KernelBuilder) -> None:
        size = 65536 >> k.block
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), size)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, k.block * 65536), 0, size)
        k.scalar(1 + 20_000 * k.block)

    device = Device(chip, with_values=False)
    sizes = [1 << 20, 1 << 20]
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(sizes)]
    made = [[program(chip, "AIV", write, sizes, block=block)] for block in range(2)]
    timeline = Engine(device).run([task_of(made, tensors)])
    means = [occupancy(run, "UB").mean(run.begin, run.finish) for run in timeline.programs]
    assert means[0] > 2 * means[1] > 0
    found = watched(timeline).of_task[0]
    assert found.buffers["UB"].mean == pytest.approx(sum(means) / 2, abs=1)
    assert found.buffers["UB"].peak == 65536
    assert found.pipes["AIV", "MTE2"].span == sum(run.finish - run.begin for run in timeline.programs)
