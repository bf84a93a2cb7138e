"""Functions of rows against numpy: softmax, layer norm, reductions and broadcasts, in float32 and half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError
from tests.support.ascend_c.functions import VIEW, kernel_of_calls
from tests.support.ascend_c.kernels import made, needs_compiler

pytestmark = needs_compiler
DTYPES = {"float": np.float32, "half": np.float16}
SHAPES = ((5, 64), (3, 16), (37, 112), (250, 48), (2, 4096))
"""Rows and columns: of one repeat, of less, with a rest, of more rows than a word repeats, of longer rows than its stride."""
TOLERANCE = {"float": 3e-6, "half": 4e-3}


class RowCall(NamedTuple):
    """A call, the shapes of x, v, w and of y, s, t by rows, columns and elements of a block, and what comes out."""

    call: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    expected: Callable[..., Sequence[Any]]
    only: str = ""


def _softmax(x: Any, *_: Any) -> tuple[Any, Any, Any]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True), powers.sum(1, keepdims=True), x.max(1, keepdims=True)


def _simple(x: Any, sums: Any, largest: Any) -> tuple[Any]:
    return (np.exp(x - largest[:, :1]) / sums[:, :1],)


def _normed(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any, Any]:
    middle = x - x.mean(1, keepdims=True)
    variance = (middle**2).mean(1)
    return middle / np.sqrt(variance + 1e-5)[:, None] * gamma + beta, x.mean(1), variance


TILING = "SoftMaxTiling ti; ti.srcM = m; ti.srcK = k; "
PATTERN = "uint32_t shape[] = {m, k}; "
NORM = "LayerNormTiling ti; ti.bLength = 1; ti.sLength = m; ti.hLength = ti.originalHLength = k; "
RMS = NORM.replace("LayerNorm", "RmsNorm")
TO = "uint32_t to[] = {m, k}, from[] = "
CALLS = {
    "SoftMax": RowCall(f"{TILING} SoftMax<T>(y, s, t, x, ti)", ("mk",), ("mk", "mb", "mb"), _softmax),
    "SoftMax alone": RowCall(f"{TILING} SoftMax<T>(y, x, ti)", ("mk",), ("mk",), lambda x: _softmax(x)[:1]),
    "SoftMax in place": RowCall(
        "SoftMaxTiling ti; SoftMax<T>(x, x, tmp, ti, {m, k, m, k}); Adds(y, x, (T)0, m * k)",
        ("mk",), ("mk",), lambda x: _softmax(x)[:1]),
    "SimpleSoftMax": RowCall(f"{TILING} SimpleSoftMax<T>(y, v, w, x, ti)", ("mk", "mb", "mb"), ("mk",), _simple),
    "LayerNorm": RowCall(f"{NORM} LayerNorm<T>(y, s, t, x, v, w, (T)1e-5f, ti)", ("mk", "k", "k"), ("mk", "m", "m"), _normed),
    "RmsNorm": RowCall(
        f"{RMS} RmsNorm<T>(y, x, v, (T)1e-5f, ti)",
        ("mk", "k"), ("mk",), lambda x, gamma: (x / np.sqrt((x**2).mean(1) + 1e-5)[:, None] * gamma,)),
    "Sum": RowCall("Sum(y, x, SumParams{m, k, o})", ("mk",), ("m",), lambda x: (x[:, :-3].sum(1),)),
    "Mean": RowCall("Mean<T>(y, x, tmp, MeanParams{m, k, o})", ("mk",), ("m",), lambda x: (x[:, :-3].mean(1),)),
    "Broadcast of a row": RowCall(f"{TO} {{1, k}}; Broadcast<T, 2, 0>(y, x, to, from)", ("k",), ("mk",), lambda x: (x,)),
    "Broadcast of a column": RowCall(
        f"{TO} {{m, 1}}; BroadCast<T, 2, 1>(y, x, to, from)",
        ("m",), ("mk",), lambda x: (x[:, None],)),
    "Broadcast of a number": RowCall(
        "uint32_t to[] = {k}, from[] = {1}; Broadcast<T, 1, 0>(y, x, to, from, tmp)", ("1",), ("k",), lambda x: (x,)),
    "ReduceMax of rows": RowCall(
        f"{PATTERN} ReduceMax<T, Pattern::Reduce::AR>(y, x, shape, true)",
        ("mk",), ("m",), lambda x: (x.max(1),)),
    "ReduceMin of columns": RowCall(
        f"{PATTERN} ReduceMin<T, Pattern::Reduce::RA>(y, x, tmp, shape, true)",
        ("mk",), ("k",), lambda x: (x.min(0),)),
    "ReduceSum of rows": RowCall(
        f"{PATTERN} ReduceSum<T, Pattern::Reduce::AR>(y, x, shape, true)",
        ("mk",), ("m",), lambda x: (x.sum(1),), "float"),
    "ReduceMean of columns": RowCall(
        f"{PATTERN} ReduceMean<T, Pattern::Reduce::RA>(y, x, shape, true)",
        ("mk",), ("k",), lambda x: (x.mean(0),), "float"),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = {}
    for dtype in DTYPES:
        calls = {
            name: one.call.replace("<T", f"<{dtype}").replace("(T)", f"({dtype})")
            for name, one in CALLS.items()
            if one.only in ("", dtype)
        }
        text = VIEW + kernel_of_calls(dtype, ("x", "v", "w"), ("y", "s", "t"), calls)
        found[dtype] = made(tmp_path_factory.mktemp(dtype), text)
    return found


def arguments(name: str, dtype: str, m: int, k: int, room: int = 64) -> tuple[list[Any], dict[str, int]]:
    """Return tensors and numbers of a call; of tensors that it does not use the kernel is told 0 elements."""
    one, form = CALLS[name], DTYPES[dtype]
    block = 32 // np.dtype(form).itemsize
    sizes = {"mk": (m, k), "mb": (m, block), "m": (m,), "k": (k,), "1": (1,)}
    rng = np.random.default_rng(m * k)
    inputs = [rng.standard_normal(sizes[what]).astype(form) for what in one.inputs]
    if name == "SimpleSoftMax":
        _, sums, largest = _softmax(inputs[0].astype(np.float64))
        inputs[1:] = [np.repeat(value, block, 1).astype(form) for value in (sums, largest)]
    outputs = [asim.empty(sizes[what], inputs[0].dtype.name) for what in one.outputs]
    counts = dict.fromkeys(("nx", "nv", "nw", "ny", "ns", "nt"), 0)
    for names, given in (("xvw", inputs), ("yst", outputs)):
        counts |= {f"n{place}": int(np.prod(tensor.shape)) for place, tensor in zip(names, given, strict=False)}
    unused = np.zeros(1, form)
    tensors = [*inputs, *[unused] * (3 - len(inputs)), *outputs, *[unused] * (3 - len(outputs))]
    which = [call for call, it in CALLS.items() if it.only in ("", dtype)].index(name)
    return tensors, counts | {"which": which, "m": m, "k": k, "o": k - 3, "room": room}


def _room(name: str) -> int:
    return 40_000 if "tmp" in CALLS[name].call else 32


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_rows_is_right(kernels: dict[str, Any], name: str, dtype: str) -> None:
    one = CALLS[name]
    if one.only not in ("", dtype):
        return
    for m, k in SHAPES:
        if k > 1024 and (dtype == "half" or "in place" in name):
            k = 1024
        tensors, numbers = arguments(name, dtype, m, k, _room(name))
        run = asim.launch(kernels[dtype], 1, *tensors, mode="functional", **numbers)
        wanted = one.expected(*[it.astype(np.float64) for it in tensors[: len(one.inputs)]])
        for place, right in zip("yst", wanted, strict=False):
            found = run.outputs[f"{place}g"].astype(np.float64)
            limit = TOLERANCE[dtype] * (np.sqrt(k) if "Sum" in name else 1)
            np.testing.assert_allclose(found, np.broadcast_to(right, found.shape), rtol=TOLERANCE[dtype], atol=limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_check_finds_nothing(kernels: dict[str, Any], name: str, dtype: str) -> None:
    if CALLS[name].only in ("", dtype):
        tensors, numbers = arguments(name, dtype, 37, 112, _room(name))
        report = asim.check_kernel(kernels[dtype], 1, *tensors, **numbers)
        assert not report.findings, report.render()


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("SoftMax", {"m": 0}, "SoftMax: neither the tiling nor SoftMaxShapeInfo has srcM and srcK"),
        ("SoftMax", {"m": 6}, "SoftMax: the source has 320 elements; the shape needs 384"),
        ("SoftMax", {"ns": 32}, "SoftMax: sumTensor has 32 elements; the shape needs 40"),
        ("Mean", {"m": 4, "k": 65}, "Mean: 4 rows of 61 elements, 65 apart; at least 1, and rows of whole blocks of 32 bytes"),
        ("Mean", {"room": 64}, "Mean takes 2336 bytes of temporary space; sharedTmpBuffer has 64"),
        ("Broadcast of a column", {"k": 60}, "Broadcast: rows of 60 elements are not simulated"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(kernels: dict[str, Any], name: str, change: dict[str, int], text: str) -> None:
    tensors, numbers = arguments(name, "float", 5, 64, _room(name))
    with pytest.raises(SimError, match=text):
        asim.launch(kernels["float"], 1, *tensors, **numbers | change)


def test_a_long_row_is_refused(kernels: dict[str, Any], tmp_path: Path) -> None:
    tensors, numbers = arguments("Sum", "float", 1, 64)
    with pytest.raises(SimError, match="rows of 20000 elements are not simulated; of at most 16384 are"):
        asim.launch(
            kernels["float"], 1, np.zeros(20000, np.float32), *tensors[1:], **numbers | {"nx": 20000, "k": 20000, "o": 20000}
        )
