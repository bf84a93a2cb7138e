"""A call that computes other values with the programs of its first run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.calls.again import KeptCall
from ascend_sim.calls.run import run_call
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.run_options import RunOptions
from tests.support.sampling import part_of_cases

ROOM = 1 << 28
SHAPES = {"grad_output": (2, 20, 5, 6), "input": (2, 18, 9, 11), "weight": (20, 18, 3, 3)}
ATTRIBUTES: dict[str, Any] = {
    "bias_sizes": [20], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "output_padding": [0, 0],
    "groups": 1, "output_mask": [True] * 3,
}  # fmt: skip
BACKWARD = OPERATORS["convolution_backward"]


def tensors(seed: int, dtype: str = "float32") -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in SHAPES.items()}


def options(chip: str, **more: Any) -> RunOptions:
    return RunOptions(chip=chip, mode="functional", **more)


@part_of_cases(2)
@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589", "ascend910a"])
def test_other_values_have_the_bits_of_a_run_of_their_own(chip: str) -> None:
    how = options(chip, cube_math_type=1)
    kept = KeptCall(BACKWARD, tensors(0), ATTRIBUTES, how, ROOM)
    assert kept.nbytes > 0
    for seed in (1, 2, 0):
        given = tensors(seed)
        assert kept.takes(given)
        again, alone = kept.outputs(given), run_call(BACKWARD, given, ATTRIBUTES, how)
        assert list(again) == list(alone.outputs) == ["grad_input", "grad_weight", "grad_bias"]
        for name, array in alone.outputs.items():
            assert again[name].dtype == array.dtype and again[name].tobytes() == array.tobytes()


def test_bytes_that_no_kernel_writes_are_those_of_a_fresh_device() -> None:
    """A kernel that read them would get the same numbers, whatever ran before."""
    first, other = (KeptCall(BACKWARD, tensors(0), ATTRIBUTES, options("ascend910b3"), ROOM) for _ in range(2))
    for array in other._memories:
        array[:] = 7
    other.outputs(tensors(0))
    assert all(one.tobytes() == two.tobytes() for one, two in zip(first._memories, other._memories, strict=True))


@pytest.mark.fast
def test_other_shapes_dtypes_and_strides_are_not_taken() -> None:
    kept = KeptCall(BACKWARD, tensors(0), ATTRIBUTES, options("ascend910b3"), ROOM)
    given = tensors(1)
    assert kept.takes(given)
    assert not kept.takes(tensors(1, "float16"))
    assert not kept.takes({**given, "input": given["input"][:1]})
    turned = np.ascontiguousarray(given["input"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert not kept.takes({**given, "input": turned})


@pytest.mark.fast
@pytest.mark.parametrize("room", [0, 1, 100_000])
def test_without_room_the_call_runs_and_nothing_is_kept(room: int) -> None:
    kept = KeptCall(BACKWARD, tensors(0), ATTRIBUTES, options("ascend910b3"), room)
    assert kept.nbytes == 0 and not kept.takes(tensors(0))
    alone = run_call(BACKWARD, tensors(0), ATTRIBUTES, options("ascend910b3"))
    assert kept.result.outputs["grad_weight"].tobytes() == alone.outputs["grad_weight"].tobytes()
