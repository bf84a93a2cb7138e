"""Functions of elements against numpy, in float32 and half, with temporary space of the caller's and without."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.functions import VIEW, kernel_of_calls
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler
COUNT = 1003
"""Elements: no whole repeat, and no whole block."""


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    return x * _sigmoid(1.59576912 * (x + 0.044715 * x**3))


PLAIN: dict[str, Callable[..., Any]] = {
    "Sigmoid": _sigmoid, "Tanh": np.tanh, "Erf": np.vectorize(math.erf), "Sin": np.sin, "Cos": np.cos, "Floor": np.floor,
    "Ceil": np.ceil, "Round": np.rint, "Trunc": np.trunc, "Sign": np.sign, "Silu": lambda x: x * _sigmoid(x), "Gelu": _gelu,
    "FasterGelu": lambda x: x * _sigmoid(1.702 * x), "Log": lambda x: np.log(x), "Log2": lambda x: np.log2(x),
    "Log10": lambda x: np.log10(x),
}  # fmt: skip
"""Functions of a tensor and a count."""
OTHERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Swish": ("Swish(y, x, m, 1.5f)", lambda x: x * _sigmoid(1.5 * x)),
    "in small pieces": ("Tanh(y, x, tmp, m)", np.tanh),
    "the whole source": ("x.SetSize(m); Sigmoid(y, x, tmp)", _sigmoid),
    "in place": ("Gelu(x, x, m); Adds(y, x, (T)0, m)", _gelu),
    "Power of two": ("Power(y, x, (T)2, m)", lambda x: x**2.0),
    "Power of two tensors": ("Power<T, false>(y, x, w, tmp, m)", lambda x, w: np.power(x, w)),
    "Power of a number": ("Power(y, (T)2, x, m)", lambda x: np.power(2.0, x)),
}
CALLS = {name: f"{name}(y, x, m)" for name in PLAIN} | {name: call for name, (call, _) in OTHERS.items()}
EXPECTED = PLAIN | {name: right for name, (_, right) in OTHERS.items()}
DTYPES = {"float": np.float32, "half": np.float16}
TOLERANCE = {"float": 2e-6, "half": 2e-3}
"""Relative; half is computed as float32 and rounded once."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = {}
    for dtype in DTYPES:
        folder: Path = tmp_path_factory.mktemp(dtype)
        calls = {name: call.replace("(T)", f"({dtype})").replace("<T,", f"<{dtype},") for name, call in CALLS.items()}
        calls["Swish"] = f"Swish(y, x, m, ({dtype})1.5f)"
        found[dtype] = made(folder, VIEW + kernel_of_calls(dtype, ("x", "w"), ("y",), calls))
    return found


def arguments(name: str, dtype: str, room: int = 4096) -> tuple[tuple[Any, ...], dict[str, int]]:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(COUNT) * 4).astype(DTYPES[dtype])
    if name in ("Floor", "Ceil", "Round", "Trunc") and dtype == "float":
        x[:2] = 3e9, -(2.0**40)  # beyond whole numbers of 32 bits
    if name.startswith("Log"):
        x = np.abs(x) + DTYPES[dtype](0.01)
    if name == "Power of two tensors":
        x = (np.where(np.arange(COUNT) % 2, np.abs(x) + 0.25, np.rint(x)) + 0.0).astype(DTYPES[dtype])
    exponents = rng.integers(-2, 3, COUNT).astype(DTYPES[dtype])
    numbers = {"nx": COUNT, "nw": COUNT, "ny": COUNT, "which": list(CALLS).index(name), "m": COUNT, "k": 0, "o": 0}
    return (x, exponents, asim.empty((COUNT,), x.dtype.name)), numbers | {"room": room}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_right(kernels: dict[str, Any], name: str, dtype: str) -> None:
    tensors, numbers = arguments(name, dtype)
    report = asim.check_kernel(kernels[dtype], 1, *tensors, **numbers)
    assert not report.findings, report.render()
    run = asim.launch(kernels[dtype], 1, *tensors, mode="functional", **numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        used = tensors[: 2 if name == "Power of two tensors" else 1]
        wanted = EXPECTED[name](*[one.astype(np.float64) for one in used])
    np.testing.assert_allclose(run.outputs["yg"].astype(np.float64), wanted, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype])


def test_pieces_follow_from_the_temporary_space(kernels: dict[str, Any]) -> None:
    instructions = []
    for room in (512, 4096, 16384):
        tensors, numbers = arguments("in small pieces", "float", room)
        programs = asim.launch(kernels["float"], 1, *tensors, mode="timing", **numbers).programs
        instructions.append(sum(row.instruction.name == "vector_scalar" for row in programs[0]))
    assert instructions[0] == 16 * instructions[2] and instructions[1] == 2 * instructions[2]


@pytest.mark.parametrize(
    ("name", "room", "text"),
    [
        ("in small pieces", 480, "Tanh takes 512 bytes of temporary space; sharedTmpBuffer has 480"),
        ("Sigmoid", 180_000, "Sigmoid takes 512 bytes of temporary space; TPipe's buffers leave"),
    ],
)
def test_too_little_temporary_space_is_refused(kernels: dict[str, Any], name: str, room: int, text: str) -> None:
    tensors, numbers = arguments(name, "float", room)
    with pytest.raises(SimError, match=text):
        asim.launch(kernels["float"], 1, *tensors, **numbers)


def test_more_elements_than_a_tensor_has_are_refused(kernels: dict[str, Any]) -> None:
    tensors, numbers = arguments("Sigmoid", "float")
    with pytest.raises(SimError, match="Sigmoid: 2000 elements of tensors that have 1008 and 1008"):
        asim.launch(kernels["float"], 1, *tensors, **numbers | {"m": 2000})


def test_a_kernel_without_a_pipe_has_no_temporary_space(tmp_path: Path) -> None:
    kernel = made(tmp_path, 'extern "C" __global__ __aicore__ void bare(GM_ADDR x) {'
                  "LocalTensor<float> a(TPosition::VECCALC, 0, 64); Sigmoid(a, a, 64); }")  # fmt: skip
    with pytest.raises(SimError, match="Sigmoid takes temporary space behind the buffers of a TPipe, and there is none"):
        asim.launch(kernel, 1, np.zeros(64, np.float32))
