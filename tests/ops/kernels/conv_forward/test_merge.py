"""The 950's forward convolution of many groups: merged where the library merges them, and what its cores wait for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_sim
from ascend_sim import Result, TensorSpec
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.ops.kernels.cube.libraries import libraries

torch = pytest.importorskip("torch")
CHIP = "ascend950pr_9579"
TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
Shapes = tuple[tuple[int, ...], tuple[int, ...], int]
DEPTHWISE: Shapes = (1, 35, 7, 6), (35, 1, 3, 3), 35
UNEVEN: Shapes = (1, 36, 3, 6, 7), (24, 3, 2, 3, 2), 12  # 12 x 3 channels to 12 x 2


def values(shapes: Shapes, dtype: str) -> list[Any]:
    """Whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(1)
    return [rng.integers(-3, 4, shape).astype(TYPES[dtype]) for shape in shapes[:2]]


def plain(shapes: Shapes) -> tuple[Any, ...]:
    """Stride, padding and dilation 1, and the groups."""
    ones = (1,) * (len(shapes[0]) - 2)
    return ones, ones, ones, False, (0,) * len(ones), shapes[2]


def run(shapes: Shapes, dtype: str, chip: str | ChipSpec = CHIP, mode: str = "full", **options: Any) -> Result:
    """The call, in timing mode without values."""
    given: list[Any] = [TensorSpec(shape, dtype) for shape in shapes[:2]] if mode == "timing" else values(shapes, dtype)
    return ascend_sim.convolution(*given, None, *plain(shapes), chip=chip, mode=mode, cube_math_type=0, **options)


def kernel_of(result: Result) -> dict[str, Any]:
    (kernel,) = result.report.kernels
    assert kernel["tiling_source"] == "stand-in"
    return dict(kernel)


def is_right(result: Result, shapes: Shapes) -> bool:
    """Return True if the values are torch's."""
    found = result.outputs["output"]
    wide = [torch.from_numpy(array.astype(np.float64)) for array in values(shapes, str(found.dtype))]
    known = torch.ops.aten.convolution(*wide, None, *plain(shapes)).numpy()
    return np.array_equal(found.astype(np.float64), known.astype(found.dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", sorted(TYPES))
@pytest.mark.parametrize("shapes", [DEPTHWISE, UNEVEN], ids=["depthwise", "uneven"])
def test_values_of_merged_groups(shapes: Shapes, dtype: str) -> None:
    """The last merged group has fewer channels than the others."""
    result = run(shapes, dtype)
    assert is_right(result, shapes) and result.report.findings == ()
    assert kernel_of(result)["core_type"] == "MIX"


@pytest.mark.parametrize(("kernel", "merged"), [(15, True), (16, False)])
def test_groups_are_merged_where_the_weights_fit_ub_twice(kernel: int, merged: bool) -> None:
    """fp16: two times 16 x 16 x kernel^2 x 2 bytes of the 253,952 less 256 of UB: 230,400 and 262,144."""
    shapes = (1, 6, 16, 16), (6, 1, kernel, kernel), 6
    result = run(shapes, "float16")
    assert is_right(result, shapes)
    assert (kernel_of(result)["core_type"] == "MIX") is merged


@pytest.mark.fast
def test_full_groups_and_one_are_loaded_as_they_are() -> None:
    for shapes in (((1, 64, 6, 6), (64, 32, 3, 3), 2), ((1, 6, 6, 6), (6, 6, 3, 3), 1)):
        assert kernel_of(run(shapes, "float16", mode="timing"))["core_type"] == "AIC"


def test_sixteen_groups_take_the_loads_of_one() -> None:
    """Loads to L0A are those of a convolution of 16 channels, and the vector cores bring the weights."""
    depthwise = kernel_of(run(((2, 16, 20, 20), (16, 1, 3, 3), 16), "float16", mode="timing"))["counts"]["bytes"]
    whole = kernel_of(run(((2, 16, 20, 20), (16, 16, 3, 3), 1), "float16", mode="timing"))["counts"]["bytes"]
    assert depthwise["L1->L0A"] == whole["L1->L0A"]
    assert depthwise["UB->GM"] == 16 * 9 * 32


@pytest.mark.parametrize("flag", [0, 1])
def test_cubes_wait_for_the_weights_and_vector_cores_for_each_other(flag: int) -> None:
    """With slow stores a cube reads what nobody has written: of 20 vector cores the last four have none of 16 filters."""
    chip = load_chip(CHIP)
    path = chip.paths["UB->GM"]
    slow = chip.model_copy(update={"paths": chip.paths | {"UB->GM": path.model_copy(update={"head": 50_000})}})
    shapes = (10, 16, 4, 4), (16, 1, 3, 3), 16
    assert is_right(run(shapes, "float16", slow), shapes)
    spoiled = run(shapes, "float16", slow, disarm={"output": [f"cross-core {flag}"]})
    assert not is_right(spoiled, shapes) or spoiled.report.findings


def test_every_core_has_its_share_of_all_groups_pixels_beside_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 x 40 groups of 20 x 18 outputs on 28 cores: beside a short multiplication it is the time of the call."""
    shapes = (2, 40, 22, 20), (40, 1, 3, 3), 40
    cost = libraries()["2026-08"]["Conv3DV2"]["group_pixel_cycles"]

    def cycles(value: float) -> int:
        monkeypatch.setitem(cost, "value", value)
        given = [TensorSpec(shape, "float16") for shape in shapes[:2]]
        result = ascend_sim.convolution(*given, groups=shapes[2], chip=CHIP, mode="timing")
        kernel = kernel_of(result)
        assert list(kernel["surrogates"]) == ["group_pixel_cycles"]
        return int(kernel["core_cycles_max"])

    share = 2 * 40 * 20 * 18 / 28
    none, some, twice = (cycles(value) for value in (0, 40, 80))
    assert twice - some == pytest.approx(40 * share, abs=1)
    assert 40 * share < some < 40 * share + none


@pytest.mark.fast
def test_what_is_not_merged_has_no_surrogate() -> None:
    assert "surrogates" not in kernel_of(run(((1, 6, 6, 6), (6, 6, 3, 3), 1), "float16", mode="timing"))
