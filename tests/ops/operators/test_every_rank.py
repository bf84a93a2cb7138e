"""1-D, 2-D and 3-D calls, transposed and not, against torch in float64; TBC calls; empty problems; 8-bit results."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ascend_sim import AclnnError, conv_tbc_backward, convolution_backward
from ascend_sim.numerics import decode, half_ulp, numpy_dtype
from tests.support.ops.ranks import RankCall, assert_close, calls, torch, torch_gradients
from tests.support.sampling import part_of_cases, sampled

GRADIENTS = ("grad_input", "grad_weight", "grad_bias")
EXAMPLES = sampled(10, 60, suppress_health_check=list(HealthCheck), derandomize=True)


@EXAMPLES
@given(call=calls(), mode=st.sampled_from(["full", "functional"]), deterministic=st.booleans())
def test_gradients_of_every_rank(call: RankCall, mode: str, deterministic: bool) -> None:
    tensors = call.tensors()
    result = convolution_backward(
        *tensors,
        None,
        call.stride,
        call.padding,
        call.dilation,
        call.transposed,
        call.output_padding,
        call.groups,
        (True, True, True),
        mode=mode,
        deterministic=deterministic,
    )
    report = result.report.to_dict(statements=False)
    assert report["findings"] == []
    exact, squares = torch_gradients(call, tensors, 1), torch_gradients(call, tensors, 2)
    counts = {
        "grad_input": max(call.x_channels, call.y_channels) // call.groups * int(np.prod(call.kernel)),
        "grad_weight": call.n * int(np.prod(call.y)),
        "grad_bias": tensors[0].size // tensors[0].shape[1],
    }
    for name, truth, square in zip(GRADIENTS, exact, squares, strict=True):
        assert report["outputs"][name]["correct"]
        assert_close(getattr(result, name), truth, square, counts[name], call.dtype)


@part_of_cases(3)
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910_95"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_every_axis_has_attributes_of_its_own(transposed: bool, groups: int, chip: str) -> None:
    """D, H and W differ in everything, so that none is taken for another."""
    y, kernel, stride, dilation, padding, beyond = (3, 4, 2), (2, 3, 4), (2, 1, 3), (3, 2, 1), (1, 2, 0), (1, 0, 2)
    columns = zip(y, kernel, stride, dilation, padding, beyond, strict=True)
    x = tuple((o - 1) * s - 2 * p + (k - 1) * d + 1 + e for o, k, s, d, p, e in columns)
    call = RankCall(
        transposed,
        2,
        groups,
        4 * groups,
        6 * groups,
        x,
        y,
        kernel,
        stride,
        dilation,
        padding,
        beyond if transposed else (0, 0, 0),
        "float16",
        1,
    )
    tensors = call.tensors()
    result = convolution_backward(
        *tensors,
        None,
        stride,
        padding,
        dilation,
        transposed,
        call.output_padding,
        groups,
        (True, True, True),
        chip=chip,
        mode="functional",
    )
    exact, squares = torch_gradients(call, tensors, 1), torch_gradients(call, tensors, 2)
    for name, truth, square in zip(GRADIENTS, exact, squares, strict=True):
        assert_close(getattr(result, name), truth, square, 400, "float16")


@EXAMPLES
@given(data=st.data(), mode=st.sampled_from(["full", "functional"]))
def test_tbc_gradients(data: st.DataObject, mode: str) -> None:
    steps, batch, pad = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 3))
    c_in, c_out = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 24))
    kernel = data.draw(st.integers(1, min(4, steps + 2 * pad)))
    dtype = data.draw(st.sampled_from(["float16", "bfloat16", "float32"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    out = steps + 2 * pad - kernel + 1
    shapes = [(out, batch, c_out), (steps, batch, c_in), (kernel, c_in, c_out), (c_out,)]
    tensors = [rng.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes]
    result = conv_tbc_backward(*tensors, pad, mode=mode)
    assert result.report.passed
    exact, squares = (
        [
            g.numpy()
            for g in torch.ops.aten.conv_tbc_backward(*[torch.from_numpy(t.astype(np.float64) ** power) for t in tensors], pad)
        ]
        for power in (1, 2)
    )
    counts = (c_out * kernel, batch * out, batch * out)
    for name, truth, square, count in zip(GRADIENTS, exact, squares, counts, strict=True):
        assert_close(getattr(result, name), truth, square, count, dtype)


def test_strided_tbc_inputs_are_copied_for_nobody_as_well() -> None:
    """The library makes them contiguous and its Permutes then read the caller's tensors (stated)."""
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(shape).astype(np.float16) for shape in ((6, 3, 20), (6, 3, 36), (3, 36, 20), (20,))]
    plain = conv_tbc_backward(*tensors, 1)
    strided = conv_tbc_backward(tensors[0], np.asfortranarray(tensors[1]), *tensors[2:], 1)
    for name in GRADIENTS:
        np.testing.assert_array_equal(getattr(strided, name), getattr(plain, name))
    extra, *rest = strided.report.plan
    assert (extra["op_type"], extra["outputs"]) == ("ViewCopy", ["input.unread float16 ND"])
    assert [row["name"] for row in rest] == [row["name"] for row in plain.report.plan]
    assert not any("input.unread" in " ".join(row["inputs"]) for row in rest)


@part_of_cases(2)
@pytest.mark.parametrize("dtype", ["hifloat8", "float8_e4m3fn"])
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_tbc_grad_weight_in_eight_bits_where_a_document_allows_it(dtype: str, mode: str) -> None:
    rng = np.random.default_rng(3)
    tensors = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 2, 20), (7, 2, 24), (3, 24, 20), (20,))]
    result = conv_tbc_backward(*tensors, 0, grad_weight_dtype=dtype, chip="ascend910_95", mode=mode)
    assert result.grad_weight is not None and result.grad_weight.dtype == np.uint8
    assert result.dtypes["grad_weight"] == dtype and result.report.passed
    exact = torch.ops.aten.conv_tbc_backward(*[torch.from_numpy(t.astype(np.float64)) for t in tensors], 0)[1].numpy()
    codes = result.grad_weight
    values = decode(codes, dtype) if dtype == "hifloat8" else codes.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert (np.abs(values - exact) <= half_ulp(np.abs(exact) * (1 + 1e-5), dtype) + 1e-5).all()
    with pytest.raises(AclnnError, match="161002"):
        conv_tbc_backward(*tensors, 0, grad_weight_dtype=dtype, chip="ascend910b3", mode=mode)


def test_an_empty_batch_gives_zeros() -> None:
    ones = np.ones
    result = convolution_backward(
        ones((0, 4, 5, 5), np.float32), ones((0, 3, 5, 5), np.float32), ones((4, 3, 1, 1), np.float32), None, (1, 1), (0, 0),
        (1, 1), False, (0, 0), 1, (True, True, True),
    )  # fmt: skip
    assert result.grad_input is not None and result.grad_input.shape == (0, 3, 5, 5)
    assert result.grad_weight is not None and not result.grad_weight.any()
    assert result.grad_bias is not None and not result.grad_bias.any()
    assert [kernel["op_type"] for kernel in result.report.kernels] == ["ZerosLike", "ZerosLike"]


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("dtype", ["hifloat8", "float8_e4m3fn"])
def test_an_empty_problem_has_zeros_in_eight_bits_too(dtype: str, mode: str) -> None:
    shapes = (2, 0, 4), (2, 0, 5), (1, 5, 4), (4,)
    result = conv_tbc_backward(
        *(np.ones(shape, np.float32) for shape in shapes), 0, grad_weight_dtype=dtype, chip="ascend910_95", mode=mode
    )
    assert result.grad_weight is not None and result.grad_weight.tolist() == np.zeros((1, 5, 4)).tolist()
    assert result.dtypes["grad_weight"] == dtype and result.report.passed


def test_library_adds_ones_for_the_bias_of_an_empty_tbc_call() -> None:
    """gradBias is B * T_out as if self were all ones: the released library's behaviour, independent of self's values."""
    tensors = [np.full((3, 2, 4), 7, np.float32), np.ones((5, 2, 0), np.float32), np.ones((3, 0, 4), np.float32)]
    result = conv_tbc_backward(*tensors, np.ones(4, np.float32), 0, conformance="library")
    assert result.grad_bias is not None and result.grad_bias.tolist() == [6.0] * 4
    with pytest.raises(AclnnError, match="161002"):
        conv_tbc_backward(*tensors, np.ones(4, np.float32), 0, conformance="documented")


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910_95"])
def test_library_sums_a_bias_gradient_whose_batch_is_not_that_of_input(chip: str) -> None:
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 8, 4, 5), (2, 4, 6, 6), (8, 4, 3, 3))]
    result = convolution_backward(
        *tensors, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (False, False, True), chip=chip, conformance="library"
    )
    assert result.report.passed and result.grad_bias is not None
    np.testing.assert_allclose(result.grad_bias, tensors[0].sum((0, 2, 3), np.float64), rtol=1e-5, atol=1e-5)


def test_no_output_wanted_runs_no_cube_kernel() -> None:
    ones = np.ones
    result = convolution_backward(
        ones((2, 4, 5, 5), np.float16), ones((2, 3, 5, 5), np.float16), ones((4, 3, 1, 1), np.float16), None, (1, 1), (0, 0),
        (1, 1), False, (0, 0), 1, (False, False, False),
    )  # fmt: skip
    assert result.outputs == {}
    assert {kernel["op_type"] for kernel in result.report.kernels} == {"TransData"}


@pytest.mark.parametrize(
    ("kernel", "stride", "expected"),
    [
        (3, 1, ["Conv2DBackpropInput"]),
        (3, 2, ["Conv2DBackpropInput"]),
        (3, 3, ["Dilation", "Conv2DBackpropInput"]),
        (1, 2, ["Conv2DBackpropInput", "Dilation"]),
    ],
)
def test_dilation_kernels_stand_where_the_library_takes_them(kernel: int, stride: int, expected: list[str]) -> None:
    rng = np.random.default_rng(0)
    size = 14
    out = (size - kernel) // stride + 1
    tensors = [
        rng.standard_normal(s).astype(np.float16) for s in ((2, 20, out, out), (2, 24, size, size), (20, 24, kernel, kernel))
    ]
    result = convolution_backward(*tensors, None, (stride, stride), (0, 0), (1, 1), False, (0, 0), 1, (True, False, False))
    assert result.report.passed
    assert [k["op_type"] for k in result.report.kernels if k["op_type"] != "TransData"] == expected


@part_of_cases(2)
@pytest.mark.parametrize(("chip", "kernel", "transposed"), [("ascend910b3", 511, False), ("ascend910b3", 300, True)])
def test_kernels_of_up_to_511_taps_on_dav_2201(chip: str, kernel: int, transposed: bool) -> None:
    rng, pad, size = np.random.default_rng(0), kernel // 2, 600
    out = size - 1 - 2 * pad + kernel if transposed else size + 2 * pad - kernel + 1
    channels = (8, 4) if transposed else (4, 8)
    weight = (channels[0], channels[1], kernel) if transposed else (channels[1], channels[0], kernel)
    tensors = [rng.standard_normal(s).astype(np.float16) for s in ((1, channels[1], out), (1, channels[0], size), weight)]
    call = (*tensors, None, (1,), (pad,), (1,), transposed, (0,), 1, (True, True, True))
    assert convolution_backward(*call, chip=chip, mode="functional", conformance="library").report.passed
    with pytest.raises(AclnnError, match=rf"561103.*load3d: kernel w = {kernel} > 255"):
        convolution_backward(*call, chip="ascend910a", mode="functional", conformance="library")
