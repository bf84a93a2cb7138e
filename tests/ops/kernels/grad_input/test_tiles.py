"""Tiles of grad_input where the last real group has fewer channels than the others."""

from __future__ import annotations

import numpy as np
import pytest

import ascend_sim
from tests.support.ops.cube_runs import kernel_of

GROUPED = [
    # float32 has blocks of 8 channels: 18 groups of 1 are merged into 16 and 2, 3 groups of 8 into 2 and 1.
    (18, 1, 1, (4, 3, 11), (1, 1, 1), (1, 1, 1)),
    (3, 8, 8, (2, 12, 8), (1, 3, 2), (1, 3, 2)),
    (5, 8, 3, (3, 9, 7), (2, 2, 2), (1, 1, 1)),
    (7, 3, 8, (2, 20, 13), (1, 3, 3), (1, 1, 2)),
]


@pytest.mark.parametrize(("groups", "c_in", "c_out", "size", "kernel", "stride"), GROUPED, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_last_group_gives_back_the_weights_that_its_tiles_share(
    groups: int, c_in: int, c_out: int, size: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dtype: type
) -> None:
    """A task's last tile frees the weights; the tasks of the last group end where its channels do."""
    torch = pytest.importorskip("torch")
    out = tuple((length - k) // s + 1 for length, k, s in zip(size, kernel, stride, strict=True))
    shapes = (2, groups * c_out, *out), (2, groups * c_in, *size), (groups * c_out, c_in, *kernel)
    rng = np.random.default_rng(0)
    dy, x, weight = (rng.integers(-2, 3, shape).astype(dtype) for shape in shapes)
    attributes = None, stride, (0, 0, 0), (1, 1, 1), False, (0, 0, 0), groups, (True, False, False)
    result = ascend_sim.convolution_backward(dy, x, weight, *attributes, chip="ascend910b3", cube_math_type=0)
    wide = [torch.from_numpy(array.astype(np.float64)) for array in (dy, x, weight)]
    expected = torch.ops.aten.convolution_backward(*wide, *attributes)[0].numpy()
    assert kernel_of(result, "grad_input")["op_type"] == "Conv3DBackpropInputV2"
    assert result.report.findings == () and np.array_equal(result.grad_input, expected)
