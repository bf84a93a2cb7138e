"""Random 2-D problems, their operands in any layout and dtype, and torch's float64 gradients to compare with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

import ascend_sim
from ascend_sim.calls.run import arguments_of
from ascend_sim.ops.operators import OPERATORS

Array = NDArray[Any]
Arrays = dict[str, Array]
Mask = tuple[bool, bool, bool]

NAMES = ("grad_output", "input", "weight")
BACKWARD = OPERATORS["convolution_backward"]
GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
ALL: Mask = (True, True, True)
DTYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
LAYOUTS = ("plain", "plain", "plain", "permuted", "reversed", "sliced", "expanded")


@dataclass(frozen=True)
class CallAttributes:
    """Attributes of one call; `pads` is (up, down, left, right), given to the operator as two values where it can be."""

    n: int = 2
    c_in: int = 16
    c_out: int = 16
    size: tuple[int, int] = (8, 8)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    four_pads: bool = False

    @property
    def padding(self) -> tuple[int, ...]:
        up, down, left, right = self.pads
        return self.pads if self.four_pads or up != down or left != right else (up, left)

    @property
    def out_size(self) -> tuple[int, int]:
        padded = (self.size[0] + sum(self.pads[:2]), self.size[1] + sum(self.pads[2:]))
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
        height, width = ((p - r) // s + 1 for p, r, s in zip(padded, reach, self.stride, strict=True))
        return height, width

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {
            "grad_output": (self.n, self.c_out, *self.out_size),
            "input": (self.n, self.c_in, *self.size),
            "weight": (self.c_out, self.c_in // self.groups, *self.kernel),
        }

    @property
    def is_product(self) -> bool:
        """Return True if a 910B may make a gradient as a matrix product: the kernel covers the map, or is the stride and tiles
        it.
        """
        plain = self.groups == 1 and not any(self.pads) and self.dilation == (1, 1)
        tiled = self.stride == self.kernel and not any(s % k for s, k in zip(self.size, self.kernel, strict=True))
        return plain and (self.kernel == self.size or (tiled and max(self.stride) > 1))

    def specs(self, dtype: str = "float16") -> list[ascend_sim.TensorSpec]:
        return [ascend_sim.TensorSpec(self.shapes[name], dtype) for name in NAMES]

    def attributes(self, mask: Mask = ALL) -> tuple[Any, ...]:
        """The positional arguments behind the three tensors."""
        return None, self.stride, self.padding, self.dilation, False, (0, 0), self.groups, mask

    def run(self, tensors: Any, mask: Mask = ALL, **options: Any) -> ascend_sim.Result:
        """The call; `tensors` by name, or a sequence in order. Tests hold values against oracles of their own: no probe."""
        values = [tensors[name] for name in NAMES] if isinstance(tensors, dict) else tensors
        return ascend_sim.convolution_backward(*values, *self.attributes(mask), **{"probe": False, **options})

    def timing(self, mask: Mask = ALL, dtype: str = "float16", **options: Any) -> ascend_sim.Result:
        return self.run(self.specs(dtype), mask, mode="timing", **options)


RESNET = CallAttributes(32, 64, 64, (56, 56))


@st.composite
def problems(draw: st.DrawFn) -> CallAttributes:
    """Small problems with everything that 2-D calls may have; channels are whole blocks, parts of one, or one each."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    c_in = groups * draw(st.sampled_from([1, 2, 3, 5, 8, 16, 17, 33]))
    c_out = groups * draw(st.sampled_from([1, 2, 3, 7, 8, 16, 20, 33]))
    if draw(st.integers(0, 5)) == 0:  # depthwise
        groups = c_in = draw(st.sampled_from([1, 3, 16, 18]))
        c_out = groups * draw(st.sampled_from([1, 2]))
    pair = st.tuples
    if draw(st.booleans()):
        vertical, horizontal = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        pads = (vertical, vertical, horizontal, horizontal)
    else:
        pads = draw(pair(*[st.integers(0, 4)] * 4))
    problem = CallAttributes(
        draw(st.integers(1, 3)),
        c_in,
        c_out,
        draw(pair(st.integers(1, 16), st.integers(1, 16))),
        draw(pair(st.integers(1, 5), st.integers(1, 5))),
        draw(pair(st.integers(1, 4), st.integers(1, 4))),
        pads,
        draw(pair(st.integers(1, 3), st.integers(1, 3))),
        groups,
        draw(st.booleans()),
    )
    while min(problem.out_size) < 1:  # the kernel does not fit: a larger map
        height, width = (size + (out < 1) for size, out in zip(problem.size, problem.out_size, strict=True))
        problem = replace(problem, size=(height, width))
    return problem


def operands(problem: CallAttributes, dtypes: str | tuple[str, str, str] = "float16", seed: int = 0) -> Arrays:
    """Normal values by name, in one dtype or in one each."""
    each = (dtypes,) * 3 if isinstance(dtypes, str) else dtypes
    rng = np.random.default_rng(seed)
    return {
        name: rng.standard_normal(problem.shapes[name]).astype(DTYPES[dtype]) for name, dtype in zip(NAMES, each, strict=True)
    }


def laid_out(array: Array, layout: str) -> Array:
    """Return an array of equal shape and values, as a strided view; "expanded" repeats the first row."""
    if layout == "permuted":
        return np.ascontiguousarray(array.transpose(2, 0, 3, 1)).transpose(1, 3, 0, 2)
    if layout == "reversed":
        return np.ascontiguousarray(array[:, ::-1, ::-1])[:, ::-1, ::-1]
    if layout == "sliced":
        wide = np.full((*array.shape[:3], 2 * array.shape[3] + 3), np.nan, array.dtype)
        wide[..., 1 : 1 + 2 * array.shape[3] : 2] = array
        return wide[..., 1 : 1 + 2 * array.shape[3] : 2]
    if layout == "expanded":
        return np.broadcast_to(array[:, :, :1], array.shape)
    return array


def compute_dtype(dtypes: tuple[str, ...], cube_math_type: int, conformance: str) -> str | None:
    """Return the dtype in which a 910B multiplies, as the operator documents and the released library tabulate it; None is
    refused.
    """
    kind = dtypes[0] if len(set(dtypes)) == 1 else "float32"
    if kind == "float32":
        return ("float32", "hf32", "float16", "hf32")[cube_math_type]
    if kind == "float16":
        return "float16"
    if conformance == "documented":
        return "bfloat16" if cube_math_type < 2 else None
    return "float16" if cube_math_type == 2 else "bfloat16"


def rounded(array: Array, dtype: str) -> Array:
    """An operand as the cube multiplies it, in float64. HF32 keeps 11 bits of the fraction, ties to even."""
    wide = np.asarray(array, np.float32)
    if dtype == "hf32":
        bits = wide.view(np.uint32)
        wide = ((bits + np.uint32(0x7FF) + (bits >> 12 & 1)) & np.uint32(0xFFFFF000)).view(np.float32)
    elif dtype != "float32":
        wide = wide.astype(DTYPES[dtype]).astype(np.float32)
    return wide.astype(np.float64)


def torch_gradients(problem: CallAttributes, values: Arrays, mask: Mask = ALL) -> Arrays:
    """torch's gradients in float64; the input is padded here, because torch knows no four paddings."""
    torch = pytest.importorskip("torch")

    up, down, left, right = problem.pads
    x = np.pad(values["input"], ((0, 0), (0, 0), (up, down), (left, right)))
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in (values["grad_output"], x, values["weight"])]
    found = torch.ops.aten.convolution_backward(
        *tensors, [problem.c_out], problem.stride, (0, 0), problem.dilation, False, (0, 0), problem.groups, list(mask)
    )
    height, width = problem.size
    inside = (..., slice(up, up + height), slice(left, left + width))
    return {
        name: gradient.numpy()[inside] if name == "grad_input" else gradient.numpy()
        for name, gradient in zip(GRADIENTS, found, strict=True)
        if gradient is not None
    }


_FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
_LEAST_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126}


def half_ulp(size: Array, dtype: str) -> Array:
    """Half the distance between neighbours of a format at `size`."""
    exponent = np.maximum(np.frexp(size)[1] - 1, _LEAST_EXPONENT[dtype])
    return np.ldexp(0.5, exponent - _FRACTION_BITS[dtype])


def worst_error_over_bound(
    problem: CallAttributes, actual: Arrays, own: Arrays, compute: str, formats: dict[str, list[str]]
) -> dict[str, float]:
    """Per gradient the worst error against torch over its bound: half an ULP of each format on the way, and
    4 x 2^-24 sqrt(K) (|sum ab| + sqrt(sum (ab)^2)) for fp32 sums of K products. Sums, squares and K are torch's.
    """
    mask: Mask = tuple(name in actual for name in GRADIENTS)  # type: ignore[assignment]
    operand = {name: rounded(array, compute) for name, array in own.items()}
    totals = torch_gradients(problem, operand, mask)
    squares = torch_gradients(problem, {name: array**2 for name, array in operand.items()}, mask)
    counts = torch_gradients(problem, {name: np.ones_like(array) for name, array in operand.items()}, mask)
    if "grad_bias" in actual:  # summed in the caller's dtype, which no cubeMathType changes
        exact = np.asarray(own["grad_output"], np.float64)
        totals["grad_bias"], squares["grad_bias"] = exact.sum((0, 2, 3)), (exact**2).sum((0, 2, 3))
    worst = {}
    for name, gradient in actual.items():
        reference = totals[name]
        tolerance = 4 * 2.0**-24 * np.sqrt(counts[name]) * (np.abs(reference) + np.sqrt(squares[name]))
        for dtype in formats[name]:
            tolerance = tolerance + half_ulp(np.abs(reference) + tolerance, dtype)
        error = np.abs(np.asarray(gradient, np.float64) - reference)
        nothing = counts[name] == 0
        assert not error[nothing].any(), f"{name}: not zero where there is nothing to add"
        ratio = np.where(nothing, 0, error / tolerance)
        worst[name] = float(np.nan_to_num(ratio, nan=np.inf).max(initial=0))
    return worst


def same_bits(left: Array, right: Array) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()


def arguments(tensors: dict[str, Any], *values: Any) -> Any:
    """The operator's argument list from values in its order: bias_sizes ... output_mask, cubeMathType, conformance."""
    count = len(BACKWARD.attributes)
    attributes = dict(zip(BACKWARD.attributes, values[:count], strict=True))
    options = dict(zip(("cube_math_type", "conformance", "dtypes"), values[count:], strict=False))
    return arguments_of(BACKWARD, tensors, attributes, options)
