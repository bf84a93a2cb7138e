"""A program that was built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program

pytestmark = pytest.mark.fast


CHIP = load_chip("ascend910b3")


TENSORS = [4096, 100]


def builder(kind: str = "AIC", block: int = 7, **options: Any) -> KernelBuilder:
    return KernelBuilder(InstructionTable(CHIP), block, kind, TENSORS, **options)


def made(write: Callable[[KernelBuilder], object], kind: str = "AIC", **options: Any) -> Program:
    k = builder(kind, **options)
    write(k)
    return k.finish()


def test_a_unit_that_another_program_counts_is_not_counted_again() -> None:
    def write(k: KernelBuilder) -> None:
        for counted in (True, False, True):
            k.next_tile(counted=counted)
            k.scalar(9)

    program = made(write)
    assert ([view.tile for view in program], program.tiles) == ([0, 1, 2], 2)


def test_an_empty_program() -> None:
    program = made(lambda k: None)
    assert (len(program), program.tiles, list(program)) == (0, 0, [])


def test_a_program_is_checked_as_a_whole_and_not_changed() -> None:
    program = made(lambda k: k.fill("L1", 0, 64))
    assert program.rows.dtype == np.int64
    assert program.rows.shape == (1, 5)


def test_no_scalar_time_is_allowed() -> None:
    assert len(made(lambda k: k.scalar(0))) == 1


def test_flags_count_in_the_program_alone_whose_wait_is_disarmed() -> None:
    """Another program of the task, which has the same instructions, is held to the chip's limit."""
    table = InstructionTable(CHIP)

    def flagged(disarm: tuple[str, ...]) -> Program:
        k = KernelBuilder(table, 0, "AIC", TENSORS, disarm=disarm)
        ready = k.flag("MTE2", "MTE1", "ready")
        k.set_flag(ready)
        k.wait_flag(ready)
        return k.finish()

    free, held = flagged(("ready",)), flagged(())
    assert (free.flag_max, held.flag_max) == (0, CHIP.sync.flag_max)
