"""Checks of whole tasks: shipped kernels are clean, and a call or a launch has the findings of its check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ascend_sim as asim
from ascend_sim.check.run import check_tasks
from ascend_sim.chip import load_chip
from ascend_sim.cli import app
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.execute import roles_of
from ascend_sim.ops.operators import OPERATORS
from tests.support.places import DOCS

pytestmark = pytest.mark.fast


def command(*arguments: Any) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_sums_of_stream_k_slots_are_clean(chip: str) -> None:
    """Zeros, then slot after slot added to them: each of the sums waits for the one before, whatever it costs."""
    tensors = [asim.TensorSpec(shape, "float32") for shape in ((8, 2, 5), (10, 2, 3), (3, 3, 5), (5,))]
    result = asim.conv_tbc_backward(*tensors, 0, chip=chip, mode="timing", deterministic=True, check=True)
    assert result.findings == []
    sums = [run.program for run in result.timeline.programs if result.tasks[run.task].name == "grad_weight"]
    assert any("vector_binary" in {one.name for one in program.table.instructions} for program in sums)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(1, 40, 1, 1), (2, 40, 1, 1), (5, 7, 1, 1), (1, 40, 3, 3), (3, 2, 40, 150)])
def test_sums_of_a_bias_are_clean(shape: tuple[int, int, int, int], dtype: str) -> None:
    """One image or many, one pixel or many, with a cast or without: what orders the first sum differs."""
    n, c, h, w = shape
    tensors = [asim.TensorSpec(one, dtype) for one in (shape, (n, 16, h, w), (c, 16, 1, 1))]
    rest = ([c], (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (False, False, True))
    result = asim.convolution_backward(*tensors, *rest, chip="ascend910b2", mode="timing", check=True)
    assert any("ReduceSum" in task.name for task in result.tasks)
    assert result.findings == []


@pytest.mark.parametrize("name", sorted(path.stem for path in (DOCS / "kernels").glob("*.py")))
def test_the_kernels_of_the_pages_are_clean(name: str) -> None:
    code, text = command(DOCS / "kernels" / f"{name}.py")
    assert code == 0 and text.count("======") == 1, text


def test_a_launch_with_check_has_its_findings_among_its_own() -> None:
    @asim.kernel_function(core="AIV")
    def twice(k, a, b):
        held = k.local_tensor(64, "float32", "held")
        k.gm_to_ub(held, a)
        flag = k.flag("MTE2", "MTE3", "there")
        k.set_flag(flag)
        k.wait_flag(flag)
        k.pipe_barrier("MTE3")
        k.ub_to_gm(b, held)

    x = np.zeros(64, np.float32)
    plain = asim.launch(twice, 1, x, asim.empty(64, "float32"))
    checked = asim.launch(twice, 1, x, asim.empty(64, "float32"), check=True)
    assert plain.passed and not plain.findings
    assert [one.kind for one in checked.findings] == ["redundant barrier"] and not checked.passed
    assert checked.report.to_dict()["findings"][0]["kind"] == "redundant barrier"


@pytest.mark.parametrize(("planes", "padding", "role"), [(1, 1, "spare"), (3, 0, "given")])
def test_operands_that_meet_only_padding_are_not_called_unused(planes: int, padding: int, role: str) -> None:
    """Two planes of the kernel, one apart: if the only plane of the map lies between them, a 950 reads neither operand."""
    out = planes + 2 * padding - 2
    y, x, w = (asim.TensorSpec(s, "float16") for s in ((1, 16, out, 4, 4), (1, 16, planes, 4, 4), (16, 16, 2, 1, 1)))
    rest: Any = ((1, 1, 1), (padding, 0, 0), (2, 1, 1), False, (0, 0, 0), 1)
    options: Any = {"chip": "ascend950pr_9589", "mode": "timing", "check": True}
    forward = asim.convolution(x, w, asim.TensorSpec((16,), "float16"), *rest, **options)
    backward = asim.convolution_backward(y, x, w, [16], *rest, (True, True, True), **options)
    assert forward.findings == backward.findings == []
    told = roles_of(OPERATORS["convolution_backward"].plan(backward.call, load_chip("ascend950pr_9589")))
    assert [told[name] for name in ("grad_output", "input", "weight")] == ["given", role, role]  # the bias sums the first


def test_a_call_with_check() -> None:
    g, x, w = (np.ones(shape, np.float16) for shape in ((1, 16, 6, 6), (1, 16, 8, 8), (16, 16, 3, 3)))
    given = (g, x, w, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, True))
    assert asim.convolution_backward(*given, check=True).findings == []
    name = "A1[0] full"
    broken = asim.convolution_backward(*given, check=True, disarm={"grad_weight": [name, "B1[0] full"]})
    assert "RAW" in {one.kind for one in broken.findings}


@pytest.mark.parametrize("refuses", [False, True])
def test_a_finding_has_cycles_where_the_other_block_does_nothing_and_none_where_it_refuses(refuses: bool) -> None:
    """Block 0 races; block 1 has no program."""
    chip = load_chip("ascend910b3")
    device, table = Device(chip, with_values=False), InstructionTable(chip)
    tensors = [device.allocate(64, name) for name in "ab"]

    def build(block: int) -> list[Program]:
        if block and refuses:
            raise SimError("a block that refuses")
        if block:
            return []
        k = KernelBuilder(table, block, "AIV", [64, 64])
        held = k.allocate("UB", 64, "held")
        k.data_copy("GM", "UB", held, gm_operand(0, 0), 64)
        k.data_copy("UB", "GM", gm_operand(1, 0), held, 64)
        return [k.finish()]

    report = check_tasks(chip, [Task("races", "Races", "AIV", 2, tensors, build)])
    (race,) = (one for one in report.findings if one.kind == "RAW")
    assert all((place.cycle is None) == refuses for place in race.places)
    assert ("no cycles, for this cannot run: a builder refused something" in report.remarks) == refuses
