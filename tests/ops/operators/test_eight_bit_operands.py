"""hifloat8 and float8_e4m3fn on the 950: every combination that the rules allow, against exact sums rounded once.

The numbers are small multiples of a quarter, so that float32 holds every sum exactly and a single rounding is all there is.
hifloat8 is decoded by the vendor's table and encoded by search in it, float8_e4m3fn by torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.execute import execute
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.studies.explain.run import explain
from ascend_sim.studies.precision.run import precision
from tests.support.ops.conv_problems import BACKWARD, arguments
from tests.support.places import DATA
from tests.support.sampling import part_of_cases, sampled

Array = NDArray[Any]
CHIP = "ascend950pr_9589"
HIFLOAT8 = np.array([float.fromhex(row) for row in json.loads((DATA / "hifloat8_decode.json").read_text())["values"]])
NAMES = ("grad_output", "input", "weight")


def decoded(codes: Array, dtype: str) -> Array:
    """float64 values of uint8 codes."""
    if dtype == "hifloat8":
        return HIFLOAT8[codes]
    torch = pytest.importorskip("torch")
    return torch.from_numpy(codes).view(torch.float8_e4m3fn).to(torch.float64).numpy()


def encoded(values: Array, dtype: str) -> Array:
    """Codes of the nearest numbers: hifloat8 ties away from zero, float8_e4m3fn to even (torch, NaN above 464)."""
    if dtype == "float8_e4m3fn":
        torch = pytest.importorskip("torch")
        return torch.from_numpy(values).to(torch.float32).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    finite = np.flatnonzero(np.isfinite(HIFLOAT8))
    order = finite[np.argsort(np.abs(HIFLOAT8[finite]), kind="stable")]
    distance = np.abs(values.reshape(-1, 1) - HIFLOAT8[order])
    last = distance.shape[1] - 1 - np.argmin(distance[:, ::-1], axis=1)  # of equally near ones the larger
    return order[last].astype(np.uint8).reshape(values.shape)


@dataclass(frozen=True)
class EightBitCall:
    """One call; `size`, `kernel`, `stride`, `pad`, `dilation` have a value for each axis of the map."""

    dtype: str
    transposed: bool
    mask: tuple[bool, bool, bool]
    n: int
    c_in: int
    c_out: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    deterministic: bool | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of gradOutput, input and weight."""
        axes = list(zip(self.size, self.kernel, self.stride, self.pad, self.dilation, strict=True))
        if self.transposed:
            out = tuple((x - 1) * s - 2 * p + d * (k - 1) + 1 for x, k, s, p, d in axes)
        else:
            out = tuple((x + 2 * p - d * (k - 1) - 1) // s + 1 for x, k, s, p, d in axes)
        first, second = (self.c_in, self.c_out) if self.transposed else (self.c_out, self.c_in)
        return [(self.n, self.c_out, *out), (self.n, self.c_in, *self.size), (first, second // self.groups, *self.kernel)]

    @property
    def attributes(self) -> tuple[Any, ...]:
        zeros = (0,) * len(self.size)
        return None, self.stride, self.pad, self.dilation, self.transposed, zeros, self.groups, self.mask

    def codes(self, seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [encoded(rng.integers(-7, 8, shape) / 4, self.dtype) for shape in self.shapes]

    def run(self, codes: list[Array], mode: str = "functional", **options: Any) -> ascend_sim.Result:
        chosen = {"chip": CHIP, "conformance": "library", "deterministic": self.deterministic, **options}
        return ascend_sim.convolution_backward(*codes, *self.attributes, mode=mode, dtypes=self.dtype, **chosen)

    def wanted(self, codes: list[Array]) -> dict[str, Array]:
        """torch's float64 gradients, rounded once: codes of grad_input, float32 of grad_weight."""
        torch = pytest.importorskip("torch")
        tensors = [torch.from_numpy(decoded(array, self.dtype)) for array in codes]
        sums = torch.ops.aten.convolution_backward(*tensors, *self.attributes[:-1], [*self.mask[:2], False])
        found = {}
        if self.mask[0]:
            found["grad_input"] = encoded(sums[0].numpy(), self.dtype)
        if self.mask[1]:
            found["grad_weight"] = sums[1].numpy().astype(np.float32)
        return found


@st.composite
def calls(draw: st.DrawFn) -> EightBitCall:
    dtype, transposed, mask = draw(
        st.sampled_from(
            [
                ("hifloat8", False, (True, False, False)), ("hifloat8", False, (False, True, False)),
                ("hifloat8", True, (True, False, False)), ("hifloat8", True, (False, True, False)),
                ("hifloat8", True, (True, True, False)), ("float8_e4m3fn", False, (True, False, False)),
            ]
        )
    )  # fmt: skip
    groups = 1 if mask[1] else draw(st.sampled_from([1, 1, 2, 3]))
    channels = st.sampled_from([1, 3, 16, 31, 32, 33, 40, 70])
    axes = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(axes))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    pad = tuple(draw(st.integers(0, min(2, (r - 1) // 2 if transposed else r - 1))) for r in reach)
    size = tuple(draw(st.integers(max(r - 2 * p, 1), 7)) for r, p in zip(reach, pad, strict=True))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    return EightBitCall(
        dtype,
        transposed,
        mask,
        draw(st.integers(1, 2)),
        groups * draw(channels),
        groups * draw(channels),
        size,
        kernel,
        stride,
        pad,
        dilation,
        groups,
        draw(st.sampled_from([None, False])),
    )


@sampled(8, 20)
@given(calls(), st.integers(0, 3))
def test_exact_sums_are_rounded_once(call: EightBitCall, seed: int) -> None:
    codes = call.codes(seed)
    result = call.run(codes)
    for name, expected in call.wanted(codes).items():
        found = getattr(result, name)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=name)
    assert result.report.passed


DX, DW, BOTH = (True, False, False), (False, True, False), (True, True, False)
COMBINATIONS = [
    EightBitCall("hifloat8", False, DX, 2, 70, 37, (9, 8), (3, 3), (2, 1), (1, 1), (1, 1)),
    EightBitCall("hifloat8", False, DX, 1, 40, 66, (4, 5, 6), (2, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 2), groups=2),
    EightBitCall("hifloat8", False, DW, 3, 70, 37, (9, 8), (3, 3), (2, 1), (1, 1), (1, 1)),
    EightBitCall("hifloat8", False, DW, 2, 33, 40, (3, 5, 6), (2, 3, 1), (1, 2, 1), (1, 1, 0), (1, 1, 1)),
    EightBitCall("hifloat8", True, BOTH, 2, 40, 33, (5, 4), (3, 2), (2, 1), (1, 0), (1, 2)),
    EightBitCall("float8_e4m3fn", False, DX, 2, 70, 37, (9, 8), (3, 3), (2, 1), (1, 1), (1, 1)),
]


@part_of_cases(3)
@pytest.mark.parametrize("call", COMBINATIONS, ids=lambda call: f"{call.dtype}-{call.transposed}-{call.mask}")
def test_full_equals_functional(call: EightBitCall) -> None:
    rng = np.random.default_rng(5)
    codes = [np.asarray(rng.integers(0, 90, shape), np.uint8) for shape in call.shapes]  # any finite positive number
    full, functional = call.run(codes, "full"), call.run(codes)
    assert full.report.passed and functional.report.passed
    assert full.timeline is not None and not full.report.findings
    for name, gradient in functional.outputs.items():
        assert gradient.tobytes() == full.outputs[name].tobytes(), name


def test_strided_inputs() -> None:
    """Views of other memory: codes are copied one by one, not through a transpose of wider items."""
    call = COMBINATIONS[0]
    codes = call.codes(1)
    views = [np.ascontiguousarray(array.transpose(2, 0, 3, 1)).transpose(1, 3, 0, 2) for array in codes]
    np.testing.assert_array_equal(call.run(views).grad_input, call.wanted(codes)["grad_input"])


@pytest.mark.parametrize("call", [COMBINATIONS[0], COMBINATIONS[-1]], ids=lambda call: call.dtype)
def test_arrays_of_a_named_dtype_need_no_name(call: EightBitCall) -> None:
    module = ml_dtypes if hasattr(ml_dtypes, call.dtype) else pytest.importorskip("en_dtypes")
    codes = call.codes(2)
    arrays = [array.view(getattr(module, call.dtype)) for array in codes]
    result = ascend_sim.convolution_backward(*arrays, *call.attributes, mode="functional", chip=CHIP, conformance="library")
    np.testing.assert_array_equal(result.grad_input, call.wanted(codes)["grad_input"])
    assert result.dtypes == {"grad_input": call.dtype}
    assert result.report.passed


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ("float8_e5m2", "dtypes: 'float8_e5m2' given for grad_output; uint8 codes are hifloat8 or float8_e4m3fn"),
        ({"bias": "hifloat8"}, "dtypes: no tensor 'bias'; there are grad_output, input, weight"),
        (7, "dtypes 7 must be the format of uint8 codes"),
    ],
)
def test_wrong_formats(dtypes: Any, message: str) -> None:
    call = COMBINATIONS[0]
    with pytest.raises(SimError, match=message):
        ascend_sim.convolution_backward(*call.codes(0), *call.attributes, chip=CHIP, dtypes=dtypes)
    floats = [np.zeros(shape, np.float32) for shape in call.shapes]
    with pytest.raises(SimError, match="no tensor is an array of uint8 codes"):
        ascend_sim.convolution_backward(*floats, *call.attributes, chip=CHIP, dtypes="hifloat8")
    with pytest.raises(SimError, match="weight is an array of float32; only uint8 codes need a format"):
        ascend_sim.convolution_backward(*floats, *call.attributes, chip=CHIP, dtypes={"weight": "hifloat8"})


def test_the_documents_serve_a_transposed_grad_input_alone() -> None:
    """They want every pointer (ruling 5), and with both gradients given the rules leave nothing else."""
    both = COMBINATIONS[4]
    codes = both.codes(3)
    found = both.run(codes, conformance="documented")
    np.testing.assert_array_equal(found.grad_input, both.wanted(codes)["grad_input"])
    for call in (*COMBINATIONS[:4], COMBINATIONS[5]):
        with pytest.raises(AclnnError, match="not allowed when gradInput and gradWeight are both given") as refused:
            call.run(call.codes(0), conformance="documented")
        assert refused.value.status == 161002


def test_whatever_phase_one_accepts_runs() -> None:
    """Every mixture of dtypes, output dtypes, null pointers and masks: a status of phase one, or kernels for it."""
    chip = load_chip(CHIP)
    accepted = set()
    kinds = ("float16", "hifloat8", "float8_e4m3fn")
    axes = (product(kinds, repeat=3), product((True, False), repeat=3), (True, False), (True, False), (True, False))
    for dtypes, mask, transposed, nulls, wide in product(*axes):
        dy, x, w = (
            TensorArg(shape, dtype, "NCHW")
            for shape, dtype in zip(((2, 4, 3, 3), (2, 4, 3, 3), (4, 4, 1, 1)), dtypes, strict=True)
        )
        outputs = (x, TensorArg(w.shape, "float32" if wide else w.dtype, "NCHW"), TensorArg((4,), dy.dtype))
        dx, dw, db = (tensor if wanted or not nulls else None for tensor, wanted in zip(outputs, mask, strict=True))
        call = ConvBackwardCall(dy, x, w, (4,), (1, 1), (0, 0), (1, 1), transposed, (0, 0), 1, mask, 0, dx, dw, db)
        try:
            agreed = BACKWARD.accept(call, chip, conformance="library", deterministic=None)
            plan = BACKWARD.plan(agreed, chip)
        except AclnnError as error:
            assert error.status in (161001, 161002, 561103)
            continue
        if any(mask[:2]) and set(dtypes) != {"float16"}:
            accepted.add((dtypes[0], transposed, mask))
        storages = {name: np.zeros(prod(t.shape), numpy_dtype(t.dtype)) for name, t in agreed.inputs.items()}
        execute(plan, chip, storages, {"mode": "functional"})
    assert accepted == {
        ("hifloat8", False, DX),
        ("hifloat8", False, DW),
        ("hifloat8", True, DX),
        ("hifloat8", True, DW),
        ("hifloat8", True, BOTH),
        ("float8_e4m3fn", False, DX),
    }


def test_a_block_that_shrinks_comes_to_an_end() -> None:
    """Rows too long for the first blocks: base_m shrinks on beside a base_n of one unit."""
    call = EightBitCall("hifloat8", False, DX, 32, 200, 33, (600, 14), (5, 5), (1, 1), (0, 0), (1, 1))
    specs = [ascend_sim.TensorSpec(shape, call.dtype) for shape in call.shapes]
    chip = load_chip(CHIP)
    own = arguments(dict(zip(NAMES, specs, strict=True)), *call.attributes, 0, "library")
    plan = BACKWARD.plan(BACKWARD.accept(own, chip, conformance="library", deterministic=None), chip)
    assert [step.op_type for step in plan.steps] == ["Conv3DBackpropInputV2"]


def case_of(call: EightBitCall, path: Path, **extra: Any) -> Path:
    entries = {
        "operator": "convolution_backward", "chip": CHIP, "conformance": "library",
        "input": {"shape": list(call.shapes[1]), "dtype": call.dtype}, "weight": {"shape": list(call.shapes[2])},
        "stride": list(call.stride), "padding": list(call.pad), "dilation": list(call.dilation),
        "transposed": call.transposed, "groups": call.groups, "output_mask": list(call.mask), **extra,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(entries))
    return path


@pytest.mark.parametrize("call", [COMBINATIONS[0], COMBINATIONS[3], COMBINATIONS[5]], ids=lambda call: call.dtype)
def test_case_files_explain_and_precision(call: EightBitCall, tmp_path: Path) -> None:
    codes = call.codes(4)
    file = tmp_path / "tensors.npz"
    save_tensors(file, {name: (array, call.dtype) for name, array in zip(NAMES, codes, strict=True)})
    path = case_of(call, tmp_path / "case.yaml", data={"file": str(file)})
    given = make_tensors(load_case(path))
    assert all(np.array_equal(given[name], array) for name, array in zip(NAMES, codes, strict=True))
    explanation = explain(path)
    wanted = call.wanted(codes)[explanation.tensor]
    values = decoded(wanted, call.dtype) if wanted.dtype == np.uint8 else wanted
    assert explanation.agrees
    assert explanation.value == values[explanation.index]
    table = precision(path, dtypes=[call.dtype])
    assert table.passed and [row.status for row in table.rows] == [0, 0, 0, 0]


def test_drawn_codes_are_rounded_normals(tmp_path: Path) -> None:
    call = COMBINATIONS[0]
    eight = make_tensors(load_case(case_of(call, tmp_path / "case.yaml")))
    wide = make_tensors(load_case(case_of(EightBitCall(**{**vars(call), "dtype": "float32"}), tmp_path / "wide.yaml")))
    for name in NAMES:
        np.testing.assert_array_equal(eight[name], encoded(wide[name].astype(np.float64), "hifloat8"))


@part_of_cases(3)
@pytest.mark.parametrize("cut", [{"splitWo": 7}, {"splitWo": 16}, {"isSplitKernelHW": 1}], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_grad_weight_in_strips_or_tap_by_tap(transposed: bool, cut: dict[str, int]) -> None:
    """Sums of these codes are exact in float32, in any order."""
    call = EightBitCall(
        "hifloat8", transposed, (False, True, False), 2, 33, 6, (3, 40), (2, 3), (1, 2), (1, 1), (1, 1), deterministic=True
    )
    codes = call.codes(5)
    for mode in ("full", "functional"):
        result = call.run(codes, mode, tiling={"grad_weight": cut})
        assert result.report.passed and result.report.findings == ()
        assert np.array_equal(result.outputs["grad_weight"], call.wanted(codes)["grad_weight"])
