"""grad_input in NCDHW on dav-2201: the cube core's tiles go through a slot to a vector core that turns them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascend_sim import Result, TensorSpec, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import DeadlockError
from tests.support.ops.conv_problems import BACKWARD, arguments

Array = NDArray[Any]
SHAPES = ((1, 36, 4, 4, 9), (1, 40, 3, 7, 9), (36, 20, 2, 3, 3))
ATTRIBUTES = (None, (1, 2, 1), (1, 1, 1), (1, 1, 1), False, (0, 0, 0), 2, (True, False, False))
TILES = {"baseM": 32, "baseN": 16}
SLOW = 20_000


def operands(dtype: str = "float16") -> list[Array]:
    """Small whole numbers: every sum is exact in float32 and in float16."""
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, shape).astype(dtype) for shape in SHAPES]


def run(chip: str | ChipSpec = "ascend910b3", mode: str = "full", tiling: Any = None, **options: Any) -> Result:
    chosen = {"grad_input": tiling} if tiling else None
    return convolution_backward(*operands(), *ATTRIBUTES, chip=chip, mode=mode, tiling=chosen, **options)


def wanted() -> Array:
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(array.astype(np.float64)) for array in operands()]
    found = torch.ops.aten.convolution_backward(*tensors, *ATTRIBUTES[:-1], [True, False, False])
    return found[0].numpy().astype(np.float16)


@pytest.mark.parametrize("tiling", [None, TILES, {"baseM": 16}], ids=str)
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_values(mode: str, tiling: Any) -> None:
    result = run(mode=mode, tiling=tiling)
    np.testing.assert_array_equal(result.grad_input, wanted())
    assert not result.report.findings


def kernels(dtype: str, groups: int = 2) -> list[str]:
    """op_types of the plan."""
    names = ("grad_output", "input", "weight")
    _, x, (filters, channels, *kernel) = SHAPES
    shapes = (SHAPES[0], x, (filters, channels * 2 // groups, *kernel))
    specs = {name: TensorSpec(shape, dtype) for name, shape in zip(names, shapes, strict=True)}
    chip = load_chip("ascend910b3")
    call = arguments(specs, *ATTRIBUTES[:-2], groups, ATTRIBUTES[-1], 0)
    plan = BACKWARD.plan(BACKWARD.accept(call, chip, conformance="documented", deterministic=False), chip)
    return [step.op_type for step in plan.steps]


def test_only_16_bit_results_of_the_second_kernel_skip_trans_data() -> None:
    """op_api: Conv3DBackpropInputV2 returns NCDHW unless the result is float32; the first kernel knows blocks only."""
    turned = ["TransData"] * 3
    grouped = [*turned, "MemSet", "TransData"]
    assert kernels("float16") == [*grouped, "Conv3DBackpropInputV2"]
    assert kernels("bfloat16") == [*grouped, "Conv3DBackpropInputV2"]
    assert kernels("float32") == [*grouped, "Conv3DBackpropInputV2", "TransData"]
    assert kernels("float16", groups=1) == [*turned, "Conv3DBackpropInput", "TransData"]


def test_the_workspace_has_a_slot_as_large_as_l0c_for_every_block() -> None:
    result = run(mode="functional")
    (kernel,) = [row for row in result.report.kernels if row["name"] == "grad_input"]
    assert kernel["core_type"] == "MIX" and kernel["formats"]["grad_input"] == "NCDHW"
    assert result.report.workspace_bytes >= kernel["block_dim"] * load_chip("ascend910b3").buffers["L0C"]


def slow(way: str) -> ChipSpec:
    """A chip on which every transfer of one way takes long."""
    chip = load_chip("ascend910b3")
    return chip.model_copy(update={"paths": chip.paths | {way: chip.paths[way].model_copy(update={"head": SLOW})}})


@pytest.mark.parametrize("flag", ["cross-core 5", "cross-core 6"])
def test_both_waits_between_the_cores_matter(flag: str) -> None:
    """Without one a vector core takes the last tile again, or the cube core writes over one that is not taken yet."""
    assert not run(slow("L0C->GM"), tiling=TILES).report.findings
    for way in ("L0C->GM", "GM->UB"):
        try:
            result = run(slow(way), tiling=TILES, disarm={"grad_input": [flag]})
        except DeadlockError:
            return
        if result.report.findings or not np.array_equal(result.grad_input, wanted()):
            return
    pytest.fail("nobody noticed")
