"""310P's vector-only cores: vector kernels run on them and on the AI Cores, each at its own port and clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.chip import chip_names, load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.isa.vector import VectorBinary
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.report.timeline_file import load_recording, write_timeline
from ascend_sim.runtime import Device
from tests.support.ops.conv_problems import CallAttributes, same_bits
from tests.support.ops.cube_runs import whole_numbers

CHIPS = [name for name in chip_names() if name.startswith("ascend310p")]
TOGETHER = {"ascend310p1": 18, "ascend310p3": 15, "ascend310p5": 15, "ascend310p7": 15}
"""CANN 8.1.RC1 platform files: mix_vector_core_cnt of P1 and P3; of P5 and P7 8 AI Cores and 7 vector cores."""


@pytest.mark.parametrize("chip", CHIPS)
def test_a_vector_kernel_takes_both_kinds_of_cores(chip: str) -> None:
    spec = load_chip(chip)
    device = Device(spec, with_values=False)
    tensors = [device.allocate(size << 20, name) for size, name in ((4, "x"), (8, "y"))]
    work = cast_work(spec, 2 << 20, "float16", "float32", "Cast")
    task = work_task(spec, TaskWords("Cast", "Cast"), work, tensors)
    timeline = Engine(device).run([task])
    assert task.core_kind == "MIX_VECTOR_CORE" and task.block_dim == TOGETHER[chip]
    used = {(run.program.core_kind, run.core) for run in timeline.programs}
    assert used == {("AI_CORE", core) for core in range(spec.cores.aic)} | {("AIV", c) for c in range(spec.cores.aiv)}


@pytest.mark.parametrize("chip", CHIPS)
def test_each_kind_has_its_own_port_and_clock(chip: str) -> None:
    spec = load_chip(chip)
    assert spec.clock.vector_mhz
    ai_core, vector_core = InstructionTable(spec, "AI_CORE"), InstructionTable(spec, "AIV")
    keys = (DataCopy, "GM", "UB", 1 << 16), (VectorBinary, "add", "float32", 1 << 14)
    (port, add), (own_port, own_add) = ([table.add(key) for key in keys] for table in (ai_core, vector_core))
    rates = [t.accesses[i].rate for t, i in ((ai_core, port), (vector_core, own_port))]  # type: ignore[union-attr]
    assert rates[0] == 114 and rates[1] == pytest.approx(57 * 1000 / spec.clock.cube_mhz, abs=0.1)
    slower = spec.clock.cube_mhz / spec.clock.vector_mhz
    assert vector_core.costs[own_add].work == pytest.approx(slower * ai_core.costs[add].work, abs=1)


def test_other_chips_see_themselves() -> None:
    for name in ("ascend910a", "ascend910b3", "ascend950pr_9589"):
        spec = load_chip(name)
        assert spec.seen_by("AIV") is spec.seen_by("AI_CORE") is spec
        assert spec.cores.vector_units == (spec.cores.aic if spec.cores.coupled else spec.cores.aiv)


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_values_do_not_depend_on_who_computes_them(mode: str) -> None:
    problem = CallAttributes(7, 20, 18, (9, 11))
    tensors = whole_numbers(problem, "float32")  # sums of them are exact in any order, and tilings differ
    ours, other = (
        problem.run(tensors, chip=chip, mode=mode, cube_math_type=1, deterministic=False)
        for chip in ("ascend310p3", "ascend910a")
    )
    assert ours.report.passed
    assert "MIX_VECTOR_CORE" in {kernel["core_type"] for kernel in ours.report.kernels}
    for name, gradient in ours.outputs.items():
        assert same_bits(gradient, other.outputs[name])


def test_a_written_timeline_runs_again_to_the_same_cycle(tmp_path: Path) -> None:
    result = CallAttributes(16, 32, 32, (14, 14)).timing(chip="ascend310p7", deterministic=False)
    assert result.timeline is not None
    write_timeline(tmp_path / "timeline.npz", result.recording)
    loaded, _ = load_recording(tmp_path / "timeline.npz")
    assert {run.program.core_kind for run in loaded.timeline.programs} == {"AI_CORE", "AIV"}
    assert loaded.rerun(loaded.chip).finish == result.timeline.finish
