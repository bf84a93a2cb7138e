"""The library's older weight-gradient kernels: values against torch on every way to the input; the tiling is what is run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import Load, filter_problem
from tests.support.ops.conv_problems import CallAttributes, operands, problems
from tests.support.ops.tiling_problems import conv2d, on_910b
from tests.support.sampling import part_of_cases, sampled

torch = pytest.importorskip("torch")

ONLY = (False, True, False)
CHIP = "ascend910b2"


def whole(problem: CallAttributes, dtype: str) -> dict[str, Any]:
    """Small whole numbers, of which sums are exact in any order."""
    values = operands(problem, dtype)
    return {name: np.rint(2 * array.astype(np.float32)).astype(array.dtype) for name, array in values.items()}


def expected(problem: CallAttributes, own: dict[str, Any]) -> Any:
    up, down, left, right = problem.pads
    x, g = (torch.tensor(own[name].astype(np.float64)) for name in ("input", "grad_output"))
    x = torch.nn.functional.pad(x, (left, right, up, down))
    return torch.nn.grad.conv2d_weight(
        x, problem.shapes["weight"], g, problem.stride, 0, problem.dilation, problem.groups
    ).numpy()


def older(result: ascend_sim.Result) -> dict[str, Any]:
    kernel = next(k for k in result.report.kernels if k["name"] == "grad_weight")
    assert kernel["op_type"] in ("Conv2DBackpropFilter", "Conv3DBackpropFilter")
    assert "batch_dim" in kernel["tiling"]
    return kernel


def check(problem: CallAttributes, dtype: str, cube_math_type: int = 0, chip: str = CHIP, **options: Any) -> dict[str, Any]:
    own = whole(problem, dtype)
    result = problem.run(own, ONLY, chip=chip, cube_math_type=cube_math_type, **options)
    assert result.report.findings == ()
    want = expected(problem, own).astype(result.grad_weight.dtype)
    np.testing.assert_array_equal(result.grad_weight.astype(np.float64), want.astype(np.float64))
    return older(result)


WAYS = {
    "rows": (CallAttributes(4, 33, 40, (13, 13)), Load.LOAD3D),
    "rows, uneven pads": (CallAttributes(2, 16, 20, (12, 17), (3, 2), (2, 1), (1, 0, 2, 1)), Load.LOAD3D),
    "groups": (CallAttributes(2, 24, 36, (9, 9), groups=3), Load.LOAD3D),
    "groups that merge": (CallAttributes(2, 12, 6, (9, 9), groups=6), Load.LOAD3D),
    "a point": (CallAttributes(3, 48, 32, (14, 10), (1, 1), (1, 1), (0, 0, 0, 0)), Load.LOAD2D),
    "points in groups": (CallAttributes(2, 32, 96, (16, 5), (1, 1), (1, 1), (0, 0, 0, 0), groups=2), Load.LOAD2D),
    "rows stepped over": (CallAttributes(2, 32, 16, (27, 28), (1, 3), (2, 1), (0, 0, 1, 1)), Load.LOAD3D),
    "a signal": (CallAttributes(3, 20, 32, (1, 301), (1, 5), (1, 2), (0, 0, 2, 2)), Load.LOAD3D),
    "pieces of rows": (CallAttributes(1, 4, 32, (33, 2050), (16, 16), (16, 16), (0, 0, 0, 0)), Load.SPLIT_W),
    "pieces of rows, some stepped over": (CallAttributes(1, 16, 20, (5, 8200), (1, 7), (2, 1), (0, 0, 0, 0)), Load.SPLIT_W),
    "a gather": (CallAttributes(2, 20, 16, (131, 66), (3, 2), (65, 64), (1, 1, 1, 1)), Load.DMA),
    "the linear embedding": (CallAttributes(1, 3, 20, (224, 224), (32, 32), (32, 32), (0, 0, 0, 0)), Load.DMA),
}


@part_of_cases(6)
@pytest.mark.parametrize(("dtype", "cube_math_type"), [("float16", 0), ("bfloat16", 0), ("float32", 0), ("float32", 3)])
@pytest.mark.parametrize("way", WAYS)
def test_values_and_the_way_to_the_input(way: str, dtype: str, cube_math_type: int) -> None:
    problem, load = WAYS[way]
    if dtype == "float32" and load is Load.LOAD2D:
        load = Load.LOAD3D
    kernel = check(problem, dtype, cube_math_type)
    height, width = problem.out_size
    inp = on_910b(conv2d(1, 1, 1, 8, 1), 4 if dtype == "float32" else 2, 24)
    up, down, left, right = problem.pads
    own = replace(
        inp.problem,
        n=problem.n,
        c_in=problem.c_in,
        c_out=problem.c_out,
        h_in=problem.size[0],
        w_in=problem.size[1],
        h_out=height,
        w_out=width,
        k_h=problem.kernel[0],
        k_w=problem.kernel[1],
        stride_h=problem.stride[0],
        stride_w=problem.stride[1],
        pad_up=up,
        pad_down=down,
        pad_left=left,
        pad_right=right,
        groups=problem.groups,
    )
    p = filter_problem(replace(inp, problem=own), dtype)
    assert p.load is load
    assert p.conv1d == (way == "a signal")
    assert p.skips_rows == way.endswith("stepped over")
    guessed = p.conv1d or load in (Load.SPLIT_W, Load.DMA)
    assert kernel["tiling_source"] == ("stand-in" if guessed else "vendor procedure")
    told = {"a signal": "load3d, conv1d", "rows stepped over": "load3d, stride_h read"}
    told |= {"pieces of rows": "split_w", "pieces of rows, some stepped over": "split_w, stride_h read"}
    told |= {"a gather": "dma", "the linear embedding": "dma, linear embedding"}
    assert kernel["input_load"] == told.get(way, "load2d" if load is Load.LOAD2D else "load3d")


@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("way", ["a point", "a signal", "pieces of rows", "a gather", "the linear embedding"])
def test_the_blocks_that_the_user_asks_for_do_all_the_work(way: str, blocks: int) -> None:
    """Without a number of blocks the linear embedding has one for each image, however many these are."""
    problem = replace(WAYS[way][0], n=3)
    assert check(problem, "float16", block_dim={"grad_weight": blocks})["block_dim"] == blocks


@pytest.mark.parametrize(
    ("problem", "chip"),
    [
        (CallAttributes(1, 3, 16, (96, 384), (32, 32), (32, 32), (0, 0, 0, 0)), "ascend910a"),
        (CallAttributes(2, 20, 16, (131, 66), (3, 2), (65, 64), (0, 0, 1, 1)), "ascend310p3"),
    ],
    ids=["pieces of rows", "a gather"],
)
def test_what_only_the_older_kernel_reads_on_chips_without_a_fixpipe(problem: CallAttributes, chip: str) -> None:
    assert check(problem, "float16", chip=chip)["tiling_source"] == "stand-in"


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend310p3"])
def test_a_deterministic_dw_that_only_the_older_kernel_reads(chip: str) -> None:
    """It runs as the library runs it, which is told: sums in any order, unless one block has all of K and all images."""
    problem = WAYS["a gather"][0]
    own = whole(problem, "float16")
    result = problem.run(own, ONLY, chip=chip, cube_math_type=0, deterministic=True)
    report = result.report.to_dict(statements=False)
    want = expected(problem, own).astype(np.float16)
    np.testing.assert_array_equal(result.grad_weight.astype(np.float64), want.astype(np.float64))
    (kernel,) = (k for k in report["kernels"] if k["name"] == "grad_weight")
    assert kernel["op_type"] == "Conv2DBackpropFilter" and report["findings"] == []
    assert kernel["tiling"]["batch_dim"] * kernel["tiling"]["k_dim"] > 1
    (warning,) = report["warnings"]
    assert warning.startswith("gradWeight is not deterministic")


@sampled(10, 25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(problems(), st.sampled_from(("float16", "float32")))
def test_values_of_random_problems(problem: CallAttributes, dtype: str) -> None:
    assume(not problem.is_product and problem.n * problem.c_in * problem.c_out < 4000)
    check(problem, dtype)


@part_of_cases(2)
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize(("dtype", "channels"), [("float16", 192), ("float32", 1280)])
def test_patch_embeddings_are_planned(size: int, dtype: str, channels: int) -> None:
    problem = CallAttributes(4, 3, channels, (224, 224), (size, size), (size, size), (0, 0, 0, 0))
    kernel = older(problem.timing(ONLY, dtype, chip="ascend910b3"))
    assert kernel["block_dim"] > 1


def volumetric(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, pad: tuple[int, int, int], mode: str = "full"
) -> tuple[ascend_sim.Result, Any]:
    """dW of a 3x3x3 kernel, and torch's: x and gradOutput of `shapes` in whole numbers."""
    rng = np.random.default_rng(0)
    x, g = (rng.integers(-3, 4, shape).astype(numpy_dtype(dtype)) for shape in shapes)
    w = np.zeros((g.shape[1], x.shape[1], 3, 3, 3), x.dtype)
    plain = [1] * 3, list(pad), [1] * 3, False, [0] * 3, 1, ONLY
    result = ascend_sim.convolution_backward(
        g, x, w, None, *plain, chip=CHIP, conformance="library", cube_math_type=0, mode=mode
    )
    x64, g64 = (torch.tensor(array.astype(np.float64)) for array in (x, g))
    return result, torch.nn.grad.conv3d_weight(x64, w.shape, g64, 1, pad).numpy()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("depth_in", "pad"), [(6, (0, 1, 1)), (4, (1, 1, 1)), (1, (2, 0, 0))])
def test_the_3d_operator(depth_in: int, pad: tuple[int, int, int], dtype: str) -> None:
    """Planes in the padding are loaded for, and not multiplied."""
    depth = depth_in + 2 * pad[0] - 2
    size = (8 + 2 * pad[1] - 2, 10 + 2 * pad[2] - 2)  # whole fractals: nothing else is filled
    result, known = volumetric(((2, 12, depth_in, 8, 10), (2, 20, depth, *size)), dtype, pad)
    assert not result.report.findings
    np.testing.assert_array_equal(result.grad_weight, known.astype(result.grad_weight.dtype))
    done = older(result)["counts"]["instructions"]
    met = sum(0 <= d + plane - pad[0] < depth_in for d in range(depth) for plane in range(3))
    steps, rest = divmod(done["load_data_3d"], 2 * met)  # the input, where planes meet
    assert rest == 0 and done["load_data_2d"] >= steps * 2 * 3 * depth  # gradOutput of every plane
    empty = done["mmad"] - 2 * steps * met  # tiles of blocks that meet no plane are zeros times zeros
    assert empty >= 0
    assert done.get("fill", 0) == steps * 2 * (3 * depth - met) + 2 * empty


def test_runs_that_end_inside_a_fractal_in_3d() -> None:
    result, known = volumetric(((2, 12, 4, 7, 9), (2, 20, 4, 7, 9)), "float16", (1, 1, 1))
    assert not result.report.findings
    np.testing.assert_array_equal(result.grad_weight, known.astype(np.float16))


def test_who_goes_by_load2d_and_who_by_load3d() -> None:
    """16-bit gradOutput always, the 16-bit input of a 1x1 kernel; nothing of 32 bits."""
    layers = {kernel: CallAttributes(2, 64, 96, (16, 16), (kernel,) * 2, (1, 1), (kernel // 2,) * 4) for kernel in (1, 3)}
    counts = {
        (kernel, dtype): older(layer.timing(ONLY, dtype, chip=CHIP, cube_math_type=0))["counts"]["instructions"]
        for kernel, layer in layers.items()
        for dtype in ("float16", "bfloat16", "float32")
    }
    assert all("load_data_3d" not in counts[1, dtype] for dtype in ("float16", "bfloat16"))
    assert all(counts[3, dtype]["load_data_3d"] == counts[3, dtype]["mmad"] for dtype in ("float16", "bfloat16"))
    assert all("load_data_2d" not in counts[kernel, "float32"] for kernel in (1, 3))


def test_the_3d_operator_loads_nothing_ahead() -> None:
    """Half the images of a call of the 910B2 that was measured; beside each other they would take two thirds."""
    result, _ = volumetric(((2, 33, 17, 33, 33), (2, 65, 17, 33, 33)), "float16", (1, 1, 1), "timing")
    kernel = older(result)
    assert kernel["tiling"]["db_al1"] == 2  # what the library's tiling asks for
    assert kernel["pipes_us"]["cube"] + kernel["pipes_us"]["mte2"] < kernel["core_us"]


# ---- what is run is what was decided -----------------------------------------------------------------------------------


def test_alexnet_as_measured() -> None:
    """256 -> 256 on 13x13, hf32, 910B2: 4 x 3 blocks add to each element, and each tile is written once."""
    problem = CallAttributes(32, 256, 256, (13, 13))
    kernel = older(problem.timing(ONLY, "float32", chip=CHIP, cube_math_type=3))
    assert kernel["block_dim"] == 24
    assert kernel["counts"]["tiles"] == 24 * 9
    assert kernel["counts"]["bytes"]["L0C->GM"] == 12 * 256 * 256 * 9 * 4
    assert kernel["counts"]["instructions"]["mmad"] == 24 * 9 * 8 * 2
    busy = kernel["pipes_us"]
    assert busy["cube"] == pytest.approx(39.65, rel=0.05)  # a profiler's mac_time of this layer, us
    assert busy["mte1"] == pytest.approx(33.95, rel=0.10)
    # Its waits at the unit flag follow from how many entries a step has in MTE1's queue: flags and one load of each operand.
    assert busy["fixpipe"] == pytest.approx(32.58, rel=0.05)
    assert kernel["counts"]["instructions"]["load_data_3d"] == 2 * 24 * 9 * 8 * 2


def test_no_kernel_is_under_its_roofline() -> None:
    chip = load_chip(CHIP)
    for problem, _ in WAYS.values():
        kernel = older(problem.timing(ONLY, "float16", chip=CHIP))
        height, width = problem.out_size
        taps = problem.kernel[0] * problem.kernel[1]
        macs = problem.n * height * width * problem.c_out * problem.c_in // problem.groups * taps
        least = macs / kernel["block_dim"] / chip.cube.macs_per_cycle("float16") / chip.clock.cube_mhz
        assert kernel["core_us_max"] > least
        assert kernel["core_cycles_max"] >= max(kernel["roofline"]["cycles"].values())
