"""The MatMul short cuts: which calls take them on which product, with which kernels, and gradients as torch's."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ascend_sim import Result, SimError, TensorSpec, conv_tbc_backward, convolution_backward
from ascend_sim.chip import load_chip
from ascend_sim.numerics import half_ulp, numpy_dtype
from tests.support.ops.conv_problems import BACKWARD, arguments
from tests.support.sampling import part_of_cases, sampled

torch = pytest.importorskip("torch")

A2, A5 = "ascend910b3", "ascend950pr_9599"
MASKS = [(True, True, True), (True, False, False), (False, True, False), (True, True, False)]


@dataclass(frozen=True)
class RouteCall:
    """A convolution without groups; `options` are keywords of the Python function."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    n: int = 2
    c_in: int = 5
    c_out: int = 7
    padding: tuple[int, ...] = ()
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    @property
    def pads(self) -> tuple[int, ...]:
        return self.padding or (0,) * len(self.size)

    @property
    def out(self) -> tuple[int, ...]:
        rows = zip(self.size, self.kernel, self.stride, self.pads, strict=True)
        return tuple((s + 2 * p - self.dilation * (k - 1) - 1) // t + 1 for s, k, t, p in rows)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """gradOutput, input, weight."""
        dy, x = (self.n, self.c_out, *self.out), (self.n, self.c_in, *self.size)
        w = (self.c_out, self.c_in // self.groups, *self.kernel)
        return (x, dy, w) if self.transposed else (dy, x, w)

    def arguments(self, mask: tuple[bool, ...]) -> tuple[Any, ...]:
        rank = len(self.size)
        return (None, self.stride, self.pads, (self.dilation,) * rank, self.transposed, (0,) * rank, self.groups, mask)

    def kernels(self, mask: tuple[bool, ...], chip: str = A2, dtype: str = "float16", **options: Any) -> list[str]:
        """op_types of the plan, in order; a bias is left out."""
        specs = [TensorSpec(shape, dtype) for shape in self.shapes]
        result = convolution_backward(*specs, *self.arguments(mask), chip=chip, mode="timing", **options)
        return [row["op_type"] for row in result.report.plan if row["op_type"] != "ReduceSum"]


WHOLE = RouteCall((4, 6), (4, 6), (1, 1))
PATCHES = RouteCall((4, 6), (2, 3), (2, 3))
PIXELS = RouteCall((4, 6), (1, 1), (1, 1), n=1)


@pytest.mark.parametrize("chip", [A2, A5, "ascend910_9391"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "call",
    [WHOLE, RouteCall((5,), (5,), (3,)), RouteCall((1, 1), (1, 1), (1, 1)), RouteCall((2, 3, 4), (2, 3, 4), (2, 1, 1))],
    ids=["2-D", "1-D", "1x1", "3-D"],
)
def test_a_kernel_that_covers_the_map_makes_both_gradients_products(call: RouteCall, mask: tuple[bool, ...], chip: str) -> None:
    """Nothing is turned; dW leaves in fp32 and is cast."""
    assert call.kernels(mask, chip) == ["MatMul"] * mask[0] + ["MatMul", "Cast"] * mask[1]


@pytest.mark.parametrize(
    ("call", "mask", "chip", "product"),
    [
        (PATCHES, (True, False, False), A2, True),
        (PATCHES, (True, False, True), A2, True),
        (PATCHES, (True, True, False), A2, False),  # in 2-D only without dW
        (PATCHES, (True, True, False), A5, True),  # strideH != strideW
        (RouteCall((4, 4), (2, 2), (2, 2)), (True, False, False), A2, True),
        (RouteCall((4, 4), (2, 2), (2, 2)), (True, False, False), A5, False),  # the kernel is split there
        (RouteCall((6, 6), (3, 3), (3, 3)), (True, False, False), A5, True),
        (RouteCall((5, 6), (2, 3), (2, 3)), (True, False, False), A2, False),  # a row is left over
        (RouteCall((6,), (3,), (3,)), (True, False, False), A2, True),
        (RouteCall((2, 4, 6), (2, 2, 2), (2, 2, 2)), (True, True, False), A2, True),  # in 3-D with dW too
        (RouteCall((2, 4, 6), (1, 2, 2), (1, 2, 2)), (True, False, False), A2, True),
    ],
)
def test_a_kernel_that_is_the_stride(call: RouteCall, mask: tuple[bool, ...], chip: str, product: bool) -> None:
    kernels = call.kernels(mask, chip)
    assert (kernels[:2] == ["BatchMatMul", "Transpose"]) == product
    assert any("Filter" in kernel for kernel in kernels) == mask[1]  # dW always by its own kernel
    assert any("BackpropInput" in kernel for kernel in kernels) != product


@part_of_cases(3)
@pytest.mark.parametrize(
    ("call", "product"),
    [
        (PIXELS, True),
        (RouteCall((3, 4, 6), (1, 1, 1), (1, 1, 1), n=1), True),
        (RouteCall((4, 6), (1, 1), (1, 1), n=2), False),
        (RouteCall((4, 6), (1, 1), (1, 2), n=1), False),
        (RouteCall((4, 6), (1, 1), (1, 1), n=1, padding=(0, 1)), False),
        (RouteCall((4096, 4096), (1, 1), (1, 1), n=1, c_in=3, c_out=2), False),  # 160 MB
    ],
)
def test_one_image_under_a_1x1_kernel_on_the_950(call: RouteCall, product: bool) -> None:
    small = prod(call.size) < 10_000
    masks = MASKS if small else [(True, False, False)]
    for mask in masks:
        if small:
            assert ("MatMul" in call.kernels(mask, A5)) == product
            assert "MatMul" not in call.kernels(mask, A2)
        else:
            from ascend_sim.ops.operators.convolution_backward.matmul_routes import matmul_routes

            names = ("grad_output", "input", "weight")
            specs = {n: TensorSpec(shape, "float16") for n, shape in zip(names, call.shapes, strict=True)}
            accepted = BACKWARD.accept(
                arguments(specs, *call.arguments(mask), 0, "documented"),
                load_chip(A5),
                conformance="documented",
                deterministic=None,
            )
            assert (matmul_routes(accepted) != {}) == product


@pytest.mark.parametrize("chip", [A2, A5])
@pytest.mark.parametrize(
    "call",
    [
        RouteCall((4, 6), (6, 8), (1, 1), padding=(1, 1)),
        RouteCall((5, 7), (3, 4), (1, 1), dilation=2),
        RouteCall((4, 6), (4, 6), (1, 1), c_in=4, c_out=4, groups=2),
        RouteCall((4, 6), (4, 6), (1, 1), transposed=True),
    ],
    ids=["padding", "dilation", "groups", "transposed"],
)
def test_what_keeps_a_call_from_them(call: RouteCall, chip: str) -> None:
    assert not {"MatMul", "BatchMatMul"} & set(call.kernels((True, True, False), chip))


@pytest.mark.fast
def test_padding_behind_the_map_counts_though_no_pixel_needs_it() -> None:
    """Four paddings, one row below: stride 2 leaves it out, but the library looks at the attribute."""
    tensors = [TensorSpec(shape, "float16") for shape in ((2, 7, 1, 1), (2, 5, 4, 6), (7, 5, 4, 6))]
    result = convolution_backward(
        *tensors, None, (2, 2), (0, 1, 0, 0), (1, 1), False, (0, 0), 1, (True, False, False), mode="timing"
    )
    assert "MatMul" not in [row["op_type"] for row in result.report.plan]


@pytest.mark.fast
def test_older_products_have_none() -> None:
    assert "Conv2DBackpropInput" in WHOLE.kernels((True, True, False), "ascend910a")


def test_the_workspace_holds_what_the_products_leave_between() -> None:
    """Patches of dx, 512-byte aligned; a product that lands in the caller's tensor needs nothing."""
    specs = [TensorSpec(shape, "float16") for shape in PATCHES.shapes]
    report = convolution_backward(*specs, *PATCHES.arguments((True, False, False)), mode="timing").report
    assert report.workspace_bytes == -(-2 * prod(PATCHES.shapes[1]) // 512) * 512
    specs = [TensorSpec(shape, "float16") for shape in WHOLE.shapes]
    assert convolution_backward(*specs, *WHOLE.arguments((True, False, False)), mode="timing").report.workspace_bytes == 0


@st.composite
def products(draw: st.DrawFn) -> RouteCall:
    rank, kind = draw(st.integers(1, 3)), draw(st.sampled_from(["whole", "patches", "pixels"]))
    n, c_in, c_out = draw(st.integers(1, 3)), draw(st.integers(1, 20)), draw(st.integers(1, 20))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    if kind == "whole":
        return RouteCall(kernel, kernel, tuple(draw(st.integers(1, 3)) for _ in range(rank)), n, c_in, c_out)
    times = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    if kind == "pixels":
        return RouteCall(times, (1,) * rank, (1,) * rank, 1, c_in, c_out)
    return RouteCall(tuple(k * t for k, t in zip(kernel, times, strict=True)), kernel, kernel, n, c_in, c_out)


def in_cube(array: np.ndarray, dtype: str, chip: str) -> np.ndarray:
    """An operand as the cube multiplies it, in float64; HF32 is the nearest value with so many bits, ties to even."""
    wide = array.astype(np.float32)
    if dtype == "hf32":
        drop = 23 - int(load_chip(chip).cube.hf32_mantissa_bits or 0)
        bits = wide.view(np.uint32)
        bits = bits + np.uint32((1 << (drop - 1)) - 1) + (bits >> drop & 1)
        return (bits & np.uint32(~((1 << drop) - 1) & 0xFFFFFFFF)).view(np.float32).astype(np.float64)
    return wide.astype(numpy_dtype(dtype)).astype(np.float64)


def exact(call: RouteCall, tensors: list[np.ndarray], power: int) -> list[np.ndarray]:
    """torch's float64 gradients, or with power 2 the sums of squared products."""
    found = torch.ops.aten.convolution_backward(
        *(torch.from_numpy(t**power) for t in tensors), [call.c_out], *call.arguments((True, True, False))[1:]
    )
    return [gradient.numpy() for gradient in found[:2]]


def assert_right(
    call: RouteCall, own: list[np.ndarray], result: Result, chip: str, computed: dict[str, str], narrow: bool
) -> None:
    """Each gradient within fp32 sums and its roundings; `computed` is the cube's dtype for each, `narrow` an fp16 dW."""
    for place, (name, found) in enumerate(result.outputs.items()):
        dtype = computed[name]
        operands = [in_cube(t, dtype, chip) for t in own]
        value, squares = exact(call, operands, 1)[place], exact(call, operands, 2)[place]
        count = call.c_out if name == "grad_input" else call.n * prod(call.out)
        bound = 4 * 2.0**-24 * np.sqrt(count) * (np.abs(value) + np.sqrt(squares))
        stored = "float32" if dtype == "hf32" else dtype
        steps = [stored] if name == "grad_input" else ["float16"] * narrow
        for step in dict.fromkeys([*steps, found.dtype.name]):
            bound = bound + half_ulp(np.abs(value) + bound, step)
        assert (np.abs(found.astype(np.float64) - value) <= bound).all(), name
        figures = result.report.to_dict(statements=False)["outputs"][name]
        assert figures["correct"] and figures["compute_dtype"] == dtype


MIXED = ("float16", "bfloat16", "float32")


@sampled(6, 25, suppress_health_check=[HealthCheck.too_slow])
@given(
    products(), st.tuples(*[st.sampled_from(MIXED)] * 3), st.integers(0, 3), st.sampled_from([A2, A5]),
    st.sampled_from(["documented", "library"]), st.booleans(),
)  # fmt: skip
def test_gradients_in_both_modes(
    call: RouteCall, dtypes: tuple[str, str, str], kind: int, chip: str, conformance: str, both: bool
) -> None:
    """Any mix of dtypes. The documents promote the three inputs together, the library the two that it multiplies."""
    rng = np.random.default_rng(0)
    own = [rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape, dtype in zip(call.shapes, dtypes, strict=True)]
    promoted = dtypes[0] if len(set(dtypes)) == 1 else "float32"
    if conformance == "documented" and promoted == "bfloat16" and chip == A2:
        kind = min(kind, 1)  # the others are refused
    mask = (True, both, False)
    results = [
        convolution_backward(
            *own, *call.arguments(mask), cube_math_type=kind, chip=chip, mode=mode, conformance=conformance, deterministic=True
        )
        for mode in ("full", "functional")
    ]
    plan = {row["name"]: row for row in results[0].report.plan}
    product = {name: "MatMul" in plan[name]["op_type"] for name in results[0].outputs}
    whole = results[0].report.to_dict(statements=False)["problem"]["compute_dtype"]
    computed = {}
    for name in product:
        left, right = dtypes[0], dtypes[2 if name == "grad_input" else 1]
        pair = left if left == right else "float32"
        if kind == 2 and "bfloat16" not in (left, right):
            pair = "float16"
        elif left == right == "float32" and kind in (1, 3):
            pair = "hf32"
        computed[name] = pair if product[name] and conformance == "library" else whole
    narrow = product.get("grad_weight", False) and conformance == "library" and kind == 2
    narrow = narrow and computed["grad_weight"] == "float16"
    for result in results:
        assert result.report.findings == ()
        assert_right(call, own, result, chip, computed, narrow)
    for name, gradient in results[0].outputs.items():
        assert gradient.tobytes() == results[1].outputs[name].tobytes(), name


def test_strided_inputs_are_copied_first_and_a_product_reads_the_copy() -> None:
    rng = np.random.default_rng(0)
    dy, x, w = (rng.standard_normal(shape).astype(np.float16) for shape in WHOLE.shapes)
    turned = np.ascontiguousarray(w.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0)
    results = [convolution_backward(dy, x, given, *WHOLE.arguments((True, True, False))) for given in (w, turned)]
    assert results[1].report.plan[0]["name"] == "ViewCopy_weight.contiguous"
    for name, gradient in results[0].outputs.items():
        assert gradient.tobytes() == results[1].outputs[name].tobytes()


def test_a_time_convolution_as_long_as_its_input_is_a_product() -> None:
    rng = np.random.default_rng(0)
    dy, x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 4), (5, 3, 6), (5, 6, 4), (4,)))
    result = conv_tbc_backward(dy, x, w, bias, 0)
    kinds = [row["op_type"] for row in result.report.plan]
    assert kinds.count("MatMul") == 2 and not any("Conv" in kind for kind in kinds)
    assert result.report.passed
    assert result.grad_input is not None and result.grad_weight is not None
    np.testing.assert_allclose(result.grad_input, np.einsum("tbo,kio->kbi", dy, w), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.grad_weight, np.einsum("kbi,tbo->kio", x, dy), rtol=1e-4, atol=1e-5)


@pytest.mark.fast
def test_tiling_blocks_and_disarmed_flags_reach_the_product() -> None:
    specs = [TensorSpec(shape, "float16") for shape in RouteCall((4, 4), (4, 4), (1, 1), 64, 16, 64).shapes]
    arguments = RouteCall((4, 4), (4, 4), (1, 1)).arguments((True, False, False))
    result = convolution_backward(
        *specs, *arguments, mode="timing", tiling={"grad_input": {"baseM": 32, "baseN": 64}}, block_dim={"grad_input": 3}
    )
    kernel = result.report.kernels[-1]
    assert (kernel["op_type"], kernel["block_dim"], kernel["tiling_source"]) == ("MatMul", 3, "manual")
    assert (kernel["tiling"]["baseM"], kernel["tiling"]["baseN"]) == (32, 64)
    with pytest.raises(SimError, match=r"unknown tiling field singleCoreCin; .*this gradient is a MatMul"):
        convolution_backward(*specs, *arguments, mode="timing", tiling={"grad_input": {"singleCoreCin": 32}})
    with pytest.raises(SimError, match="no flag 'nothing'"):
        convolution_backward(*specs, *arguments, mode="timing", disarm={"grad_input": ["nothing"]})
