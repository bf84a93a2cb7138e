"""Functions that are kernels, and those that are refused."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import MemoryLimitError
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.options.description import names_of
from ascend_sim.options.run_options import LaunchOptions

pytestmark = pytest.mark.fast


def _message(write: Callable[[Any, Any], object]) -> str:
    """Return the message with which a launch of a kernel with this body is refused."""

    def wrong(k: Any, x: Any) -> None:
        write(k, x)

    with pytest.raises(asim.KernelError) as caught:
        asim.launch(asim.kernel_function(core="AIV")(wrong), 1, np.zeros(64, np.float16), mode="timing")
    text = str(caught.value)
    assert "\n" not in text and re.match(r"\S+test_function\.py:\d+: kernel wrong: ", text)
    return text.partition("kernel wrong: ")[2]


def test_a_wrong_argument_is_told_with_the_signature() -> None:
    """Each parameter of the method stands in the line, without types."""
    told = _message(lambda k, x: k.data_copy(nothing=3))
    said, _, allowed = told.partition("; allowed: k.data_copy")
    assert said == "k.data_copy() got an unexpected keyword argument 'nothing'"
    names = [one.partition("=")[0] for one in allowed.strip("()").split(", ")]
    assert [one for one in names if one != "*"] == list(inspect.signature(Kernel.data_copy).parameters)[1:]
    assert _message(lambda k, x: k.adds(0, 0)) == (
        "k.adds() missing 1 required positional argument: 'scalar'; allowed: k.adds(dst, src, scalar, *, mask=None)"
    )
    assert _message(lambda k, x: k.ub_queue("row", 64, "float16", "MTE2", "V").write(3)).startswith(
        "BufferQueue.write() takes 1 positional argument but 2 were given; allowed: BufferQueue.write()"
    )


def test_a_missing_name_is_told_with_near_ones() -> None:
    assert _message(lambda k, x: k.gm_to_ubb(0, x)).startswith("k.gm_to_ubb does not exist; near: k.gm_to_ub, ")
    assert _message(lambda k, x: k.blokcs) == "k.blokcs does not exist; near: k.blocks, k.block"
    assert _message(lambda k, x: k.ub) == "k.ub does not exist; near: k.sub, k.ub_queue, k.ub_to_gm"
    assert _message(lambda k, x: x.shpae).endswith("near: Tensor.shape, Tensor.reshape")
    assert _message(lambda k, x: k.zyx) == "k.zyx does not exist; see docs/instructions.md"


def test_other_errors_keep_pythons_words() -> None:
    """A function of the user's own and an object of another class are Python's to explain."""
    assert _message(lambda k, x: len(x, 3)).startswith("TypeError: ")  # type: ignore[call-arg]
    assert _message(lambda k, x: "a".nothing) == "AttributeError: 'str' object has no attribute 'nothing'"  # type: ignore[attr-defined]


def test_every_keyword_of_launch_is_closed_to_kernels() -> None:
    parameters = inspect.signature(asim.launch).parameters.values()
    assert {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY} == names_of(LaunchOptions)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: asim.kernel_function(core="GPU"), "core 'GPU'; allowed are AIC, AIV, MIX, MIX_1_1, AI_CORE"),
        (lambda: asim.kernel_function(core=()), "allowed are AIC"),
        (lambda: asim.kernel_function(core=None), "core None; allowed are AIC"),  # type: ignore[arg-type]
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


def test_a_machine_without_memory_is_no_mistake_of_the_kernel() -> None:
    @asim.kernel_function(core=("AIV", "AI_CORE"))
    def large(k: Any, x: Any) -> None:
        raise MemoryError("8 GiB")

    for call in (asim.launch, asim.check_kernel):
        with pytest.raises(MemoryLimitError, match="kernel large: MemoryError: 8 GiB"):
            call(large, 1, asim.empty(64, "float32"))
