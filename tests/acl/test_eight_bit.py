"""hifloat8 on the 950 under `library`: gradInput runs on codes, transposed and not."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim import acl, use
from ascend_sim.numerics import decode, encode


def tensor(values: np.ndarray, dtype: int) -> tuple[int, object]:
    """Codes in device memory and the aclTensor over them."""
    _, address = acl.aclrtMalloc(values.nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST)
    assert acl.aclrtMemcpy(address, values.nbytes, values, values.nbytes, acl.ACL_MEMCPY_HOST_TO_DEVICE) == 0
    shape = list(values.shape)
    made = acl.aclCreateTensor(shape, len(shape), dtype, None, 0, acl.ACL_FORMAT_NCHW, shape, len(shape), address)
    return address, made


def run(transposed: bool) -> tuple[int, np.ndarray, np.ndarray]:
    """Status of phase two, gradInput as numbers, and the float64 sums."""
    use(chip="ascend950pr_9589", conformance="library", mode="functional")
    acl.aclInit(None)
    acl.aclrtSetDevice(0)
    rng = np.random.default_rng(0)
    values = [encode(rng.standard_normal(shape), "hifloat8").astype(np.uint8) for shape in ((2, 37, 4, 4), (2, 5, 4, 4))]
    weight = encode(rng.standard_normal((5, 37, 1, 1)), "hifloat8").astype(np.uint8)
    if not transposed:  # gradOutput has the filters' channels then
        values.reverse()
    (_, dy), (_, x), (_, w) = (tensor(array, acl.ACL_HIFLOAT8) for array in (*values, weight))
    place, dx = tensor(np.zeros(values[1].shape, np.uint8), acl.ACL_HIFLOAT8)
    ints = [acl.aclCreateIntArray(v, 2) for v in ([1, 1], [0, 0], [1, 1], [0, 0])]
    mask = acl.aclCreateBoolArray([True, False, False], 3)
    ret, size, executor = acl.aclnnConvolutionBackwardGetWorkspaceSize(
        dy, x, w, None, *ints[:3], transposed, ints[3], 1, mask, 0, dx, None, None
    )
    assert ret == 0, acl.aclGetRecentErrMsg()
    workspace = acl.aclrtMalloc(size, acl.ACL_MEM_MALLOC_HUGE_FIRST)[1] if size else None
    status = acl.aclnnConvolutionBackward(workspace, size, executor, None)
    if status == 0:
        assert acl.aclrtSynchronizeStream(None) == 0, acl.aclGetRecentErrMsg()
    codes = np.zeros(values[1].shape, np.uint8)
    acl.aclrtMemcpy(codes, codes.nbytes, place, codes.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST)
    numbers = [decode(array, "hifloat8").astype(np.float64) for array in (values[0], weight)]
    return (status, codes, np.einsum("nlhw,cl->nchw" if transposed else "nlhw,lc->nchw", numbers[0], numbers[1][:, :, 0, 0]))


@pytest.mark.parametrize("transposed", [True, False])
def test_grad_input_of_hifloat8(transposed: bool) -> None:
    status, codes, sums = run(transposed)
    assert status == 0, acl.aclGetRecentErrMsg()
    np.testing.assert_array_equal(codes, encode(sums.astype(np.float32), "hifloat8"))
