"""Instructions that a kernel brings along."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.launched import CHIP, Square, squares


def test_an_instruction_of_ones_own_has_values_cost_and_hazards(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    given = (x, asim.empty(64, "float32"))
    run = asim.launch(squares, 1, *given, chip=CHIP)
    np.testing.assert_array_equal(run.outputs["y"], x * x)
    longer = asim.launch(squares, 1, *given, chip=CHIP, cycles=117)
    assert run.timeline is not None and longer.timeline is not None
    assert longer.timeline.finish == run.timeline.finish + 100
    disarmed = asim.launch(squares, 1, *given, chip=CHIP, disarm=["in[0] full"])
    assert any("square" in finding.text for finding in disarmed.findings)


def test_a_file_of_a_run_with_an_instruction_of_ones_own_is_drawn_and_run_again(tmp_path: Path) -> None:
    from ascend_sim.report.page import open_run
    from ascend_sim.report.what_if import what_if

    x = np.arange(64, dtype=np.float32)
    run = asim.launch(squares, 1, x, asim.empty(64, "float32"), chip=CHIP)
    run.write(tmp_path)
    recording, report = open_run(tmp_path)
    assert report.pop("summary")["parts"]
    assert report == json.loads(json.dumps(run.report.to_dict(statements=False)))
    assert run.recording is not None
    assert recording.rerun(recording.chip).finish == run.recording.timeline.finish
    again = {one.key: one.elapsed for one in what_if(recording)}
    assert again == {one.key: one.elapsed for one in what_if(run.recording)}
    named = [one.name for one in recording.timeline.programs[0].program.table.instructions]
    assert "square" in named
    regions = [one.reads() for one in recording.timeline.programs[0].program.table.instructions if one.name == "square"]
    assert regions == [Square(64).reads()]


def broken(**changes: Any) -> type[asim.Instruction]:
    kind = dataclass(frozen=True)(type("Broken", (asim.Instruction,), {"name": "broken", "pipe": lambda s, c: "V", **changes}))
    return kind


@pytest.mark.parametrize(
    ("instruction", "told"),
    [
        ("nothing", "'nothing' is not an instruction"),
        (type("Plain", (asim.Instruction,), {"name": "plain"})(), "Plain must be a frozen dataclass"),
        (broken(name="")(), "has no name"),
        (broken(pipe=lambda s, c: "W")(), "pipe\\(\\) is 'W'; pipes are S, MTE1"),
        (broken(cost=lambda s, c: asim.Cost(1, 1, 2.5, 0))(), "Cost of whole cycles"),
        (broken(cost=lambda s, c: None)(), "Cost of whole cycles"),
        (broken(cost=lambda s, c: asim.Cost(1, 1, -1, 0))(), "none below 0"),
        (broken()(), "Broken has no cost\\(self, chip\\)"),
        (dataclass(frozen=True)(type("Idle", (asim.Instruction,), {"name": "idle"}))(), "Idle has no pipe\\(self, chip\\)"),
        (broken(reads=lambda s: (asim.Region("src7", "UB", 4),))(), "touches Region\\(operand='src7'"),
        (broken(writes=lambda s: (asim.Region("dst", "L0C", 4),))(), "in one of GM, UB is allowed on an AIV"),
    ],
)  # fmt: skip
def test_an_instruction_that_no_engine_could_run_is_refused(instruction: Any, told: str) -> None:
    @asim.kernel_function(core="AIV")
    def emits(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(instruction)

    with pytest.raises(asim.KernelError, match=told):
        asim.launch(emits, 1, np.zeros(8, np.float32), chip=CHIP)


def test_one_on_a_pipe_of_another_core_is_refused_whatever_it_touches() -> None:
    @dataclass(frozen=True)
    class Waits(Square):
        def reads(self) -> tuple[asim.Region, ...]:
            return ()

        writes = reads

    @asim.kernel_function(core="AIC")
    def waits(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(Waits(64))

    with pytest.raises(asim.KernelError, match=r"is on pipe V; an AIC of .* has the pipes"):
        asim.launch(waits, 1, np.zeros(64, np.float32), chip=CHIP)


def test_an_operand_reaches_as_far_as_the_longest_of_what_is_read_and_written() -> None:
    @dataclass(frozen=True)
    class Shortens(Square):
        def reads(self) -> tuple[asim.Region, ...]:
            return (asim.Region("dst", "UB", 1024),)

        def writes(self) -> tuple[asim.Region, ...]:
            return (asim.Region("dst", "UB", 64),)

    @asim.kernel_function(core="AIV")
    def shortens(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(Shortens(64), k.chip.buffers["UB"] - 512)

    with pytest.raises(asim.KernelError, match="dst covers bytes"):
        asim.launch(shortens, 1, np.zeros(64, np.float32), chip=CHIP)


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_an_error_in_its_values_is_one_line(mode: str) -> None:
    @dataclass(frozen=True)
    class Divides(Square):
        def read(self, memory: asim.Memory, dst: int, src0: int, src1: int) -> Any:
            return 1 // 0

    @asim.kernel_function(core="AIV")
    def divides(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(Divides(64), k.local_tensor(64, "float32", "t"))

    with pytest.raises(asim.SimError, match=r"divides: .*square.*: its values: ZeroDivisionError") as caught:
        asim.launch(divides, 1, np.zeros(64, np.float32), chip=CHIP, mode=mode)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", [64.0, "UB", None])
def test_what_is_no_address_is_refused(place: Any) -> None:
    @asim.kernel_function(core="AIV")
    def squares_nowhere(k: asim.Kernel, x: asim.Tensor) -> None:
        k.emit(Square(64), place)

    with pytest.raises(asim.KernelError, match=rf"emit: Square: {place!r} is not an address"):
        asim.launch(squares_nowhere, 1, np.zeros(64, np.float32), chip=CHIP)
