"""Planted faults in every compute dtype, 8-bit and HF32 too: none is called correct, and the right machine always is.

Data have one sign, so that the bound on them is blind to most of these faults; the probe is what finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import ascend_sim
from ascend_sim.isa import effect
from ascend_sim.numerics import cast, encode, round_to
from tests.support.ops.faults import Faulty, cut_sums, first, last, truncate_to, wrong
from tests.support.sampling import part_of_cases

DX, DW, ALL = (True, False, False), (False, True, False), (True, True, True)
PLAIN, B3 = {"chip": "ascend950pr_9589"}, {"chip": "ascend910b3"}
EIGHT = PLAIN | {"conformance": "library"}
CALLS: dict[str, tuple[Any, tuple[bool, ...], dict[str, Any]]] = {
    "float16": (np.float16, ALL, B3),
    "float16 950": (np.float16, ALL, PLAIN),
    "float16 910": (np.float16, ALL, {"chip": "ascend910a"}),
    "bfloat16": (bfloat16, ALL, B3),
    "float32": (np.float32, ALL, B3),
    "hf32": (np.float32, ALL, B3 | {"cube_math_type": 3}),
    "hf32 950": (np.float32, ALL, PLAIN | {"cube_math_type": 3}),
    "float32 as float16": (np.float32, ALL, B3 | {"cube_math_type": 2}),
    "hifloat8 dx": ("hifloat8", DX, EIGHT),
    "hifloat8 dw": ("hifloat8", DW, EIGHT),
    "float8_e4m3fn dx": ("float8_e4m3fn", DX, EIGHT),
}
SMALL = (1, 16, 8, 8)


def run(
    name: str, shape: tuple[int, ...] = SMALL, kernel: int = 3, filters: int = 0, only: Any = None, **options: Any
) -> ascend_sim.Result:
    """A call of this dtype on numbers of one sign, with the probe; in numpy, which is where the faults are planted."""
    dtype, mask, chosen = CALLS[name]
    n, channels, height, width = shape
    filters = filters or channels
    rng = np.random.default_rng(4)
    shapes = ((n, filters, height, width), shape, (filters, channels, kernel, kernel))
    values = [rng.uniform(0.5, 1, size) for size in shapes]
    eight = isinstance(dtype, str)
    tensors = [encode(one, dtype) if eight else one.astype(dtype) for one in values]
    given = {"mode": "functional", "probe": True, "engine": "simpy"} | chosen | options | ({"dtypes": dtype} if eight else {})
    side = [kernel // 2] * 2
    return ascend_sim.convolution_backward(*tensors, None, [1, 1], side, [1, 1], False, [0, 0], 1, only or mask, **given)


# -- faults: each yields the model of sums that shows it, while the machine has it ---------------------------------------


# `Faulty` looks at what a matrix product of the host gives; how sums are added is asked of the other models alone.
BLAS, CHUNK = {"accumulate": "blas"}, {"accumulate": "chunk"}


@contextmanager
def product(choose: Callable[..., Any], factor: float) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        faulty = Faulty(patch, 0, choose, factor)
        yield BLAS
        assert faulty.hits


@contextmanager
def sums_in(narrow: Any) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        added = effect._added
        patch.setattr(effect, "_added", lambda *given: added(*given).astype(narrow).astype(np.float32))
        yield CHUNK


@contextmanager
def results(change: Callable[[Any, str], Any]) -> Iterator[dict[str, Any]]:
    """Yield results where values that leave L0C, or that a Cast kernel narrows, are changed before they are rounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effect, "cast", lambda values, name, *rest, **how: cast(change(values, name), name, *rest, **how))
        yield BLAS


DIGITS = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "hifloat8": 4}


def cut_off(values: Any, name: str) -> Any:
    return truncate_to(values, DIGITS[name]) if name in DIGITS else values


def rounded_before(values: Any, name: str) -> Any:
    """To two digits more than the result has: a rounding too many moves what then looks like a tie."""
    if name not in DIGITS:
        return values
    mantissa, exponent = np.frexp(values)
    scale = DIGITS[name] + 2
    return np.ldexp(np.rint(np.ldexp(mantissa, scale)), exponent - scale).astype(np.float32)


@contextmanager
def operands(rounding: str | None, bits: int = 0) -> Iterator[dict[str, Any]]:
    """HF32 operands by another rule, or (None) not rounded at all."""

    def faulty(values: Any, name: str, **_: Any) -> Any:
        return values if rounding is None else round_to(values, name, mantissa_bits=bits, rounding=rounding)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effect, "round_to", faulty)
        yield BLAS


@contextmanager
def cutting_off() -> Iterator[dict[str, Any]]:
    """Each addition to L0C goes towards zero."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(effect, "_added", cut_sums)
        yield CHUNK


EVERY = {
    "the first product lost": lambda: product(first, -1.0),
    "the last product twice": lambda: product(last, 1.0),
    "sums in float16": lambda: sums_in(np.float16),
    "sums in bfloat16": lambda: sums_in(bfloat16),
    "results cut off": lambda: results(cut_off),
    "a rounding too many": lambda: results(rounded_before),
}
NARROW = [name for name in CALLS if name not in ("float32", "hf32", "hf32 950", "hifloat8 dw")]
"""Calls some of whose results are rounded on their way out."""
CASES = [
    pytest.param(name, fault, id=f"{name}: {what}", marks=() if name in ("hf32", "hifloat8 dx") else pytest.mark.slow)
    for name in CALLS
    for what, fault in EVERY.items()
    if name in NARROW or ("results" not in what and "rounding" not in what)
] + [
    pytest.param("hf32", lambda: operands("rtz", 11), id="hf32: operands cut off"),
    pytest.param("hf32", lambda: operands("rne", 10), id="hf32: a bit less", marks=pytest.mark.slow),
    pytest.param("hf32", lambda: operands(None), id="hf32: operands as they are", marks=pytest.mark.slow),
    pytest.param("hf32 950", lambda: operands("rne", 11), id="hf32 950: a bit more", marks=pytest.mark.slow),
]


@part_of_cases(3)
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_fault_is_never_called_correct(name: str, fault: Callable[[], Any]) -> None:
    with fault() as model:
        result = run(name, **model)
        assert wrong(result), result.report.outputs


@part_of_cases(3)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("model", ["blas", pytest.param("exact_group", marks=pytest.mark.slow)])
def test_the_right_machine_is_right(name: str, model: str) -> None:
    result = run(name, accumulate=model)
    assert not wrong(result), result.report.outputs
    assert {figures["decided_by"] for figures in result.report.outputs.values()} == {"probe"}


# -- long sums ---------------------------------------------------------------------------------------------------------

LONG: dict[str, Any] = {"shape": (4, 8, 512, 512), "kernel": 1, "only": DW}
"""64 sums of 2^20 products."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "hf32", "hifloat8 dw"])
def test_a_million_products(name: str) -> None:
    """The right machine, one that adds a product twice, and one that adds in 16 bits."""
    assert not wrong(run(name, **LONG))
    for fault in ("the last product twice", "sums in float16"):
        with EVERY[fault]() as model:
            assert "grad_weight" in wrong(run(name, **LONG, **model)), fault


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "hf32"])
def test_a_million_products_cut_off(name: str) -> None:
    with cutting_off() as model:
        figures = run(name, **LONG, **model).report.outputs["grad_weight"]
    assert not figures["correct"] and figures["probe"]["failed"] in ("direction", "bound"), figures


@pytest.mark.slow
def test_sums_cut_off_where_results_have_16_bits() -> None:
    """16,384 elements of 8,192 products: one in some hundred shows a lost digit, and all of those lean to one side."""
    shape = {"shape": (1, 16, 32, 32), "filters": 8192, "kernel": 1, "only": DX}
    assert not wrong(run("float16", **shape))
    with cutting_off() as model:
        figures = run("float16", **shape, **model).report.outputs["grad_input"]
    assert figures["probe"]["failed"] == "direction" and not figures["correct"], figures
