"""A program that was built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
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


@pytest.mark.parametrize(
    "write",
    [
        lambda k: k.data_copy("GM", "L1", 0, 0, 32, True),
        lambda k: k.fill("L1", 0, True),
        lambda k: k.cross_core_set(True, 2, "MTE2"),
        lambda k: k.cross_core_set(1, False, "MTE2"),
        lambda k: k.mmad(0, 0, 0, 16, True, 16, "float16", False),
    ],
)
def test_true_is_no_whole_number(write: Callable[[KernelBuilder], object]) -> None:
    with pytest.raises(SimError, match=r"is (True|False); a whole number is allowed"):
        made(write)


def test_a_switch_and_a_name_have_their_types() -> None:
    with pytest.raises(SimError, match="data_copy: atomic_add is 1; a name in quotes is allowed"):
        made(lambda k: k.data_copy("UB", "GM", 0, 0, 32, atomic_add=1), "AIV")  # type: ignore[arg-type]
    with pytest.raises(SimError, match="mmad: accumulate is 2; True or False is allowed"):
        made(lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", 2))  # type: ignore[arg-type]
    made(lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", np.bool_(False)))
    with pytest.raises(SimError, match="mask True; a whole number whose bits"):
        made(lambda k: k.duplicate(k.local_tensor(64, "float32", "row"), 1.0, mask=True), "AIV")


@pytest.mark.parametrize("size", [0, 3, 16])
def test_interleave_has_items_of_the_vendors_sizes(size: int) -> None:
    chip = load_chip("ascend950pr_9589")
    for itemsize in (1, 2, 4, 8):
        KernelBuilder(InstructionTable(chip), 0, "AIV", TENSORS).interleave(0, 1024, 2048, itemsize, 64)
    with pytest.raises(SimError, match=f"interleave: items of {size} bytes; it has 1, 2, 4 or 8"):
        KernelBuilder(InstructionTable(chip), 0, "AIV", TENSORS).interleave(0, 1024, 2048, size, 64)
