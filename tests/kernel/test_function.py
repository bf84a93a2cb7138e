"""Functions that are kernels, and those that are refused."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import ascend_sim as asim
from ascend_sim.options.description import names_of
from ascend_sim.options.run_options import LaunchOptions


def test_every_keyword_of_launch_is_closed_to_kernels() -> None:
    parameters = inspect.signature(asim.launch).parameters.values()
    assert {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY} == names_of(LaunchOptions)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: asim.kernel_function(core="GPU"), "core 'GPU'; allowed are AIC, AIV, MIX, MIX_1_1, AI_CORE"),
        (lambda: asim.kernel_function(core=()), "allowed are AIC"),
        (lambda: asim.kernel_function(core="AIC")(3), "3 is not a function"),
        (lambda: asim.kernel_function(core="AIC")(lambda: None), "first parameter is the builder"),
        (lambda: asim.kernel_function(core="AIC")(lambda k, x, chip: None), "'chip' is a keyword of launch"),
        (lambda: asim.empty((2, -1), "float16"), "sizes are 0 or more"),
        (lambda: asim.empty("ab", "float16"), "shape"),
        (lambda: asim.empty((2,), "float64"), "float64"),
    ],
)
def test_what_makes_no_kernel_is_refused(make: Any, said: str) -> None:
    with pytest.raises(asim.SimError, match=re.escape(said)):
        make()
