"""Pieces of a local tensor against numpy's views of the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.kernel.local_tensor import LocalTensor
from tests.support.sampling import sampled

MEMORY = np.arange(8192, dtype=np.uint8)


def seen(tensor: LocalTensor) -> np.ndarray[Any, Any]:
    """Return the bytes of the tensor as a numpy array."""
    dtype = np.dtype(tensor.dtype)
    strides = (tensor.row_stride, dtype.itemsize) if len(tensor.shape) == 2 else (dtype.itemsize,)
    return np.ndarray(tensor.shape, dtype, MEMORY, tensor.address, strides)


def slices(size: int, steps: bool) -> st.SearchStrategy[slice]:
    edge = st.none() | st.integers(-size - 1, size + 1)
    return st.builds(slice, edge, edge, st.none() | st.integers(1, 3) if steps else st.none())


@sampled(50, 200)
@given(data=st.data())
def test_an_index_is_numpys(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 30))
    whole = LocalTensor(64, (rows, columns), "uint16", 2 * columns + data.draw(st.sampled_from([0, 6])))
    index = data.draw(st.integers(-rows, rows - 1) | st.tuples(slices(rows, True), slices(columns, False)) | slices(rows, True))
    wanted = seen(whole)[index]
    assume(wanted.size)
    got = whole[index]
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(seen(got), wanted)


@pytest.mark.parametrize(
    "index",
    [
        5, -6, slice(3, 3), slice(4, 1), slice(None, None, -1), (slice(None), slice(None, None, 2)), (0, 0, 0), np.int64(5),
        1.5, None, slice("a", 3), slice(0, 3, 0), (slice(None), 1.5), ((0, 1), 0),
    ],
)  # fmt: skip
def test_an_index_that_selects_nothing_or_what_the_unit_cannot(index: Any) -> None:
    with pytest.raises(SimError, match=r"^5 x 8 float32 at UB\+0x40: "):
        LocalTensor(64, (5, 8), "float32")[index]


def test_numbers_of_numpy_are_indices() -> None:
    whole = LocalTensor(64, (5, 8), "float32")
    assert (whole[np.int64(-1)], whole[1, np.uint8(3)]) == (whole[4], whole[1, 3])


def test_readings_of_the_same_bytes() -> None:
    whole = LocalTensor(64, (4, 16), "float32")
    np.testing.assert_array_equal(seen(whole.view("uint16")), seen(whole).view(np.uint16))
    np.testing.assert_array_equal(seen(whole.reshape(8, 8)), seen(whole).reshape(8, 8))
    np.testing.assert_array_equal(seen(whole.reshape(64)), seen(whole).reshape(64))
    assert (whole.rows, whole.columns, whole.row_bytes, whole.nbytes, whole.packed) == (4, 16, 64, 256, True)
    piece = whole[::2, 4:8]
    assert (piece.rows, piece.columns, piece.row_stride, piece.nbytes, piece.packed) == (2, 4, 128, 144, False)
    assert str(piece) == "2 x 4 float32 at UB+0x50, rows 128 bytes apart"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: LocalTensor(0, (), "float32"), r"one or two dimensions of at least 1, not \(\)"),
        (lambda: LocalTensor(0, (2, 0), "float32"), r"not \(2, 0\)"),
        (lambda: LocalTensor(0, (2, 2, 2), "float32"), r"not \(2, 2, 2\)"),
        (lambda: LocalTensor(0, (2, 8), "float32", 16), "rows of 32 bytes do not fit into a row_stride of 16"),
        (lambda: LocalTensor(0, (8,), "float32", -32), "rows of 32 bytes do not fit into a row_stride of -32"),
        (lambda: LocalTensor(0, 8, "float32"), "a local tensor of shape 8, dtype 'float32', row_stride 0; it takes whole"),  # type: ignore[arg-type]
        (lambda: LocalTensor(0, (8,), [], 32), r"shape \(8,\), dtype \[\], row_stride 32; it takes whole"),  # type: ignore[arg-type]
        (lambda: LocalTensor(0, (2, 8), "float12"), "no number format 'float12'"),
        (lambda: LocalTensor(0, (2, 3), "uint16").view("float32"), "rows are not whole elements of float32"),
        (lambda: LocalTensor(0, (2, 4), "uint16", 10).view("float32"), "rows are not whole elements of float32"),
        (lambda: LocalTensor(0, (2, 8), "float32").reshape(5, 3), r"no \(5, 3\) of it, which needs 15 elements"),
        (lambda: LocalTensor(0, (2, 8), "float32", 64).reshape(16), "without gaps between rows"),
    ],
)
def test_what_is_no_tensor(make: Any, line: str) -> None:
    with pytest.raises(SimError, match=line):
        make()
