"""Flags of a program, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.sync import WaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.sync import Flag

pytestmark = pytest.mark.fast


CHIP = load_chip("ascend910b3")


TENSORS = [4096, 100]


def builder(kind: str = "AIC", block: int = 7, **options: Any) -> KernelBuilder:
    return KernelBuilder(InstructionTable(CHIP), block, kind, TENSORS, **options)


def made(write: Callable[[KernelBuilder], object], kind: str = "AIC", **options: Any) -> Program:
    k = builder(kind, **options)
    write(k)
    return k.finish()


def test_disarmed_waits_are_other_instructions() -> None:
    def write(k: KernelBuilder) -> None:
        for name in ("kept", "gone"):
            flag = k.flag("MTE2", "MTE1", name)
            k.set_flag(flag)
            k.wait_flag(flag)

    waits = [view.instruction for view in made(write, disarm=["gone"]) if isinstance(view.instruction, WaitFlag)]
    assert [wait.armed for wait in waits] == [True, False]


def refused(write: Callable[[KernelBuilder], object], *words: str, kind: str = "AIC") -> None:
    with pytest.raises(SimError) as error:
        made(write, kind)
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize("method", ["set_flag", "wait_flag"])
@pytest.mark.parametrize("given", ["full", None, ["full"], Flag("full", "MTE2", "MTE1", 0)], ids=repr)
def test_what_is_no_flag_of_the_program(method: str, given: Any) -> None:
    refused(lambda k: getattr(k, method)(given), f"block 7 AIC: {method}({given!r})", "k.flag(source, destination, name)")


def test_a_cube_core_is_none_of_the_vector_cores_of_a_block() -> None:
    for method in ("cross_core_set", "cross_core_wait"):
        refused(
            lambda k, method=method: getattr(k, method)(0, 1, "MTE2"), "mode 1 joins the vector cores of a block", "cube core"
        )
