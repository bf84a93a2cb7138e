"""Values of another type than an instruction's field are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable

pytestmark = pytest.mark.fast


def made(write: Callable[[KernelBuilder], object], kind: str = "AIC") -> None:
    k = KernelBuilder(InstructionTable(load_chip("ascend910b3")), 7, kind, [4096, 100])
    write(k)
    k.finish()


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
