"""Refusals of a kernel of one instruction that the chip lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable


def refusal(chip: str, write: Callable[[KernelBuilder], object]) -> str:
    """The line of the SimError that `write` raises on a core with a cube."""
    spec = load_chip(chip)
    kind = "AI_CORE" if spec.cores.coupled else "AIC"
    with pytest.raises(SimError) as said:
        write(KernelBuilder(InstructionTable(spec), 0, kind, [1024]))
    return str(said.value)


def told_whole(chip: str, write: Callable[[KernelBuilder], object]) -> str:
    """Return the refusal of a finished kernel of one instruction, "" where one kind of core takes it."""
    spec, said = load_chip(chip), ""
    for kind in spec.cores.kinds:
        k = KernelBuilder(InstructionTable(spec, kind), 0, kind, [1 << 40])
        try:
            write(k)
            k.finish()
            return ""
        except SimError as error:
            said = str(error) if f"an {kind} of" not in str(error) else said or str(error)
    return said
