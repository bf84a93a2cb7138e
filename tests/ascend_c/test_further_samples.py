"""Kernels in further styles of public samples against numpy, without findings; mistakes planted in each are found.

`bug` says which mistake a kernel makes, 0 for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.matmul_tilings import matmul_tiling
from tests.support.ascend_c.kernels import needs_compiler

pytestmark = needs_compiler
FOLDER = Path(__file__).with_name("samples")
RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16


class FurtherSample(NamedTuple):
    """Blocks, tensors and numbers of a kernel, its output in numpy, and {bug: what a check finds}."""

    blocks: int
    tensors: tuple[Any, ...]
    numbers: Mapping[str, Any]
    expected: Callable[..., Any]
    bugs: Mapping[int, str]


def _norm(x: Any, gamma: Any) -> Any:
    x = x.astype(np.float64)
    return asim.Expected(x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gamma.astype(np.float64), rtol=2**-7)


def _softmax(x: Any) -> Any:
    e = np.exp(x.astype(np.float64))
    return {"x": asim.Expected(e / e.sum(1, keepdims=True), rtol=1e-5)}


def _group_norm(x: Any, gamma: Any, beta: Any) -> Any:
    v = x.astype(np.float64).reshape(6, 4, 32)
    mean = v.mean((1, 2), keepdims=True)
    norm = (v - mean) / np.sqrt(((v - mean) ** 2).mean((1, 2), keepdims=True) + 1e-5)
    return asim.Expected((norm * gamma.reshape(6, 4, 1) + beta.reshape(6, 4, 1)).reshape(6, 128), rtol=1e-5, atol=1e-5)


def _swiglu(x: Any) -> Any:
    gate, value = np.split(x.astype(np.float64), 2, axis=1)
    return asim.Expected(gate / (1 + np.exp(-gate)) * value, rtol=2**-10, atol=1e-6)


def _products(a: Any, b: Any, bias: Any) -> Any:
    left, right = a.astype(np.float64), b.astype(np.float64).transpose(0, 2, 1)
    return asim.Expected(left @ right + bias, np.abs(left) @ np.abs(right) + np.abs(bias), products=97)


def _quantised(a: Any, b: Any, bias: Any) -> Any:
    return asim.Expected(np.maximum(a.astype(float) @ b.astype(float) * 0.125 + bias, 0), rtol=1e-6, atol=1e-6)


SAMPLES = {
    "transpose_tiles": FurtherSample(
        4,
        (RNG.standard_normal((128, 64)).astype(np.float16), asim.empty((64, 128), "float16")),
        {"rows": 128, "columns": 64},
        lambda x: x.T,
        {1: "RAW UB", 2: "uninitialized read UB", 3: "RAW UB", 4: "WAW GM"},
    ),
    "rms_norm_bf16": FurtherSample(
        4,
        (RNG.standard_normal((10, 256)).astype(BF16), RNG.standard_normal(256).astype(BF16), asim.empty((10, 256), BF16)),
        {"rows": 10, "n": 256},
        _norm,
        {1: "refused", 2: "RAW UB", 3: "RAW UB", 4: "overrun UB", 5: "RAW UB"},
    ),
    "softmax_tails": FurtherSample(
        3,
        (RNG.standard_normal((7, 37)).astype(np.float32),),
        {"rows": 7, "n": 37},
        _softmax,
        {1: "RAW GM", 2: "illegal read GM", 3: "RAW UB", 4: "RAW UB", 5: "illegal write GM"},
    ),
    "quant_mix": FurtherSample(
        2,
        (
            RNG.integers(-9, 9, (64, 64)).astype(np.int8),
            RNG.integers(-9, 9, (64, 32)).astype(np.int8),
            RNG.standard_normal(32).astype(np.float32),
            asim.empty((64, 32), "float32"),
            asim.empty(64 * 32, "int32", workspace=True),
        ),
        {"scale": 0.125},
        _quantised,
        {1: "RAW GM", 2: "WAW GM", 3: "RAW GM", 4: "uninitialized read UB", 5: "RAW UB"},
    ),
    "all_reduce": FurtherSample(
        8,
        (RNG.uniform(1, 2, 512).astype(np.float32), asim.empty(512, "float32"), asim.empty(64, "float32", workspace=True)),
        {"share": 64},
        lambda x: asim.Expected(x / x.astype(np.float64).sum(), rtol=1e-5),
        {1: "uninitialized read UB", 2: "WAW GM", 3: "RAW GM", 4: "RAW UB", 5: "illegal write GM"},
    ),
    "dropout_mask": FurtherSample(
        2,
        (
            RNG.standard_normal(8192).astype(np.float16),
            RNG.integers(0, 256, 1024).astype(np.uint8),
            asim.empty(8192, "float16"),
        ),
        {"share": 4096, "keep": 0.5},
        lambda x, mask: np.where(np.unpackbits(mask, bitorder="little") == 1, x * 2, 0),
        {1: "WAW GM", 2: "uninitialized read UB", 3: "refused", 5: "RAW UB"},
    ),
    "square_tails": FurtherSample(
        7,
        (RNG.standard_normal(10007).astype(np.float16), asim.empty(10007, "float16")),
        {"formerCount": 6, "formerLength": 1440, "tailLength": 1367, "tile": 256},
        lambda x: x * x + x,
        {1: "WAR UB", 2: "illegal read GM", 3: "WAR UB"},
    ),
    "over_sum": FurtherSample(
        8,
        (RNG.uniform(1, 2, 1024).astype(np.float32), asim.empty(1024, "float32"), asim.empty(8, "float32", workspace=True)),
        {"share": 128},
        lambda x: asim.Expected(x / x.astype(np.float64).sum(), rtol=1e-5),
        {1: "WAW GM", 2: "WAW GM", 3: "RAW GM", 4: "RAW UB", 5: "uninitialized read GM"},
    ),
    "group_norm": FurtherSample(
        3,
        (*(RNG.standard_normal(size).astype(np.float32) for size in ((6, 128), 24, 24)), asim.empty((6, 128), "float32")),
        {"groups": 6, "channels": 4, "pixels": 32},
        _group_norm,
        {1: "RAW UB", 2: "RAW UB", 3: "WAW GM", 4: "RAW UB"},
    ),
    "swiglu_rows": FurtherSample(
        3,
        (RNG.standard_normal((13, 128)).astype(np.float16), asim.empty((13, 64), "float16")),
        {"rows": 13, "d": 64, "tile": 4},
        _swiglu,
        {1: "refused", 2: "RAW UB", 3: "illegal write GM"},
    ),
    "batched_products": FurtherSample(
        2,
        (
            *(RNG.standard_normal((5, rows, 96)).astype(np.float16) for rows in (80, 48)),
            RNG.standard_normal(48).astype(np.float32),
            asim.empty((5, 80, 48), "float32"),
        ),
        {"batch": 5, "t": matmul_tiling(asim.load_chip("ascend910b3"), (80, 48, 96), cores=1, bias=True)},
        _products,
        {1: "refused", 2: "WAW GM", 3: "refused", 4: "refused"},
    ),
}


@pytest.fixture(scope="module")
def kernel() -> Callable[[str], Any]:
    """Return the kernel of a name, compiled when it is first asked for."""
    return cache(lambda name: asim.cpp_kernel(FOLDER / f"{name}.cpp"))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_further_sample_is_right_and_without_findings(kernel: Callable[[str], Any], name: str) -> None:
    one = SAMPLES[name]
    given = one.blocks, *one.tensors
    run = asim.launch(kernel(name), *given, **one.numbers, bug=0, expected=one.expected)
    assert run.report.outputs and all(output["correct"] for output in run.report.outputs.values()) and not run.findings
    assert asim.check_kernel(kernel(name), *given, **one.numbers, bug=0).findings == []


@pytest.mark.parametrize(("name", "bug"), [(name, bug) for name, one in SAMPLES.items() for bug in one.bugs])
def test_a_planted_mistake_is_found(kernel: Callable[[str], Any], name: str, bug: int) -> None:
    one = SAMPLES[name]
    report = asim.check_kernel(kernel(name), one.blocks, *one.tensors, **one.numbers, bug=bug)
    assert one.bugs[bug] in {f"{found.kind} {found.space}".strip() for found in report.findings if found.level == "ERROR"}
