"""Tensors and their pieces against numpy, which knows where a view lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.kernel.tensor import Tensor, dtype_name
from ascend_sim.memory.gm import gm_operand

SLOT = 3


@st.composite
def pieces(draw: st.DrawFn) -> tuple[tuple[int, ...], str, list[tuple[slice | int, ...]]]:
    """A shape, a dtype and one or two indices, the second of what the first gives."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    dtype = draw(st.sampled_from(["float16", "float32", "int8", "int64"]))
    indices, left = [], list(shape)
    for _ in range(draw(st.integers(1, 2))):
        index: list[slice | int] = []
        after = []
        for size in left[: draw(st.integers(0, len(left)))]:
            if draw(st.booleans()):
                index.append(draw(st.integers(-size, size - 1)))
                continue
            start = draw(st.integers(0, size - 1))
            part = slice(start, draw(st.integers(start + 1, size + 3)), draw(st.integers(1, 3)))
            index.append(part)
            after.append(len(range(*part.indices(size))))
        left = after + left[len(index) :]
        indices.append(tuple(index))
    return shape, dtype, indices


@given(pieces())
def test_a_piece_lies_where_the_view_of_numpy_lies(given: tuple[tuple[int, ...], str, list[tuple[slice | int, ...]]]) -> None:
    shape, dtype, indices = given
    whole = np.zeros(shape, dtype)
    view, tensor = whole, Tensor.at(SLOT, "a", shape, dtype)
    for index in indices:
        view, tensor = view[(*index, ...)], tensor[index]
    start = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    assert (tensor.shape, tensor.address) == (view.shape, gm_operand(SLOT, start))
    assert (tensor.size, tensor.nbytes, tensor.ndim) == (view.size, view.nbytes, view.ndim)
    several = [axis for axis, size in enumerate(view.shape) if size > 1]
    assert [tensor.strides[axis] for axis in several] == [view.strides[axis] for axis in several]
    assert tensor.contiguous == view.flags.c_contiguous
    if tensor.contiguous:
        assert tensor.reshape(view.size).address == tensor.address
        assert tensor.rows("test")[:2] == (view.size // (view.shape or (1,))[-1], (view.shape or (1,))[-1])


def test_rows_of_a_piece_with_gaps_keep_their_distance() -> None:
    tensor = Tensor.at(0, "a", (8, 20), "float16")
    assert tensor[2:5, 4:10].rows("test") == (3, 6, 40)
    assert tensor[::2, :].rows("test") == (4, 20, 80)


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ((8,), "index 8 of dimension 0, which has 8 places"),
        ((0, -21), "index -21 of dimension 1"),
        ((0, 0, 0), "3 indices for 2 dimensions"),
        ((slice(8, 12),), "the piece \\[8:12\\] has no elements"),
        ((slice(None, None, -1),), "steps by -1"),
        ((1.5,), "whole numbers and slices are allowed"),
        ((slice(0, 1.5),), "allowed are whole numbers, with a step from 1"),
        ((slice(0, 4, 0),), "allowed are whole numbers, with a step from 1"),
    ],
)
def test_an_index_that_there_is_not_is_refused(index: tuple[object, ...], told: str) -> None:
    with pytest.raises(SimError, match=told):
        Tensor.at(0, "a", (8, 20), "float16")[index]


def test_what_is_no_row_is_refused() -> None:
    tensor = Tensor.at(0, "a", (4, 8, 20), "float16")
    with pytest.raises(SimError, match="gm_to_ub: a\\[4, 4, 20\\] float16 with strides of"):
        tensor[:, :4].rows("gm_to_ub")
    with pytest.raises(SimError, match="rows of contiguous elements"):
        tensor[0, :, ::2].rows("gm_to_ub")
    for wrong in ((10,), (3, -1), (-1, -1), (0, -1), (-4, 8, 20, -1), (-4, -160), (4, -8, -20)):
        with pytest.raises(SimError, match=r"cannot be \["):
            tensor.reshape(*wrong)
    assert tensor.reshape(2, -1, 5).shape == (2, 64, 5)


def test_a_dtype_that_tensors_cannot_have_is_refused() -> None:
    assert dtype_name(np.float16) == "float16"
    assert dtype_name("bf16") == "bfloat16"
    assert dtype_name(np.dtype("int32")) == "int32"
    for wrong in ("float64", "complex64", object, "nonsense"):
        with pytest.raises(SimError, match="a tensor is one of float32, float16"):
            dtype_name(wrong)
