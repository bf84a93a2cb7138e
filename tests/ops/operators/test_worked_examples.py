"""The 3x3 layer of ResNet-50's second stage on a 910B3, figure by figure: worked by hand from the vendor's procedures.

Problem: 64 -> 64 channels, 56 x 56, padding 1, batch 32, fp16, 20 cores. Tilings: ops-nn Conv3DBackpropInputV2 and
Conv3DBackpropFilterV2 (arch22); everything else follows from the tiling and is derived in the comments.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from ascend_sim import Result
from tests.support.ops.conv_problems import RESNET

pytestmark = pytest.mark.fast


@cache
def layer(deterministic: bool) -> Result:
    return RESNET.timing(deterministic=deterministic)


@cache
def kernels(deterministic: bool) -> dict[str, dict[str, Any]]:
    report = layer(deterministic).report.to_dict(statements=False)
    assert report["status"] == 0 and report["chip"] == "ascend910b3" and report["findings"] == []
    return {kernel["name"]: kernel for kernel in report["kernels"]}


@pytest.fixture(params=[False, True], ids=["atomic", "deterministic"])
def grad_input(request: pytest.FixtureRequest) -> dict[str, Any]:
    return kernels(request.param)["grad_input"]


IMAGE = 64 * 56 * 56 * 2
"""Bytes of a feature map of one image, fp16."""
WEIGHTS = 64 * 64 * 9 * 2


def subset(values: dict[str, Any], **expected: Any) -> dict[str, Any]:
    return {name: values[name] for name in expected}


def test_grad_input_tiling(grad_input: dict[str, Any]) -> None:
    expected = {
        "baseM": 336, "baseK": 48, "baseN": 64, "stepKa": 12, "stepKb": 12, "singleCoreM": 336, "singleCoreCin": 64,
        "al0Pbuffer": 2, "bl0Pbuffer": 2, "cl0Pbuffer": 1, "al1Pbuffer": 2, "bl1Pbuffer": 1, "weightsResident": True,
        "coreNum": 20,
    }  # fmt: skip
    assert subset(grad_input["tiling"], **expected) == expected
    assert grad_input["tiling_source"] == "stand-in"
    assert grad_input["op_type"] == "Conv2DBackpropInput"
    assert (grad_input["core_type"], grad_input["block_dim"]) == ("AIC", 20)


def test_grad_input_counts(grad_input: dict[str, Any]) -> None:
    """10 tiles of 6 rows (the last of 2) x 32 images; K = 576 in 12 steps of 48."""
    counts = grad_input["counts"]
    assert counts["tiles"] == 320
    assert counts["instructions"]["mmad"] == 3840
    assert counts["instructions"]["fixpipe"] == 320


def test_grad_input_bytes(grad_input: dict[str, Any]) -> None:
    moved = grad_input["counts"]["bytes"]
    # The first tile needs 7 rows of gradOutput, eight need 8, the last 3: 74 instead of the 56 of an image.
    assert moved["GM->L1:A"] == 32 * IMAGE * 74 // 56 == 16_973_824
    assert moved["GM->L1:B"] == 320 * WEIGHTS == 23_592_960
    assert moved["GM->L1"] == moved["GM->L1:A"] + moved["GM->L1:B"]
    assert moved["L0C->GM"] == 32 * IMAGE == 12_845_056
    assert moved["L1->L0A"] == 32 * 3136 * 576 * 2 == 115_605_504
    assert moved["L1->L0B"] == 320 * 576 * 64 * 2 == 23_592_960


def test_grad_input_cube_work(grad_input: dict[str, Any]) -> None:
    """16 tiles per core. A whole one takes 12 x 21 x 4 x 3 cycles; the 32 short ones fall to the last two cores."""
    assert grad_input["cube_work_cycles"] == [16 * 12 * 21 * 4 * 3] * 18 + [16 * 12 * 7 * 4 * 3] * 2
    assert grad_input["cube_work_cycles"] == [48_384] * 18 + [16_128] * 2
    assert grad_input["ideal_cycles"] == 45_159  # 3.7e9 MACs at 4096 per cycle on 20 cores, rounded up


def test_deterministic_grad_weight_tiling() -> None:
    kernel = kernels(True)["grad_weight"]
    expected = {
        "baseM": 64, "baseN": 144, "baseK": 64, "stepKa": 8, "stepKb": 8, "al0Pbuffer": 2, "bl0Pbuffer": 2, "cl0Pbuffer": 2,
        "al1Pbuffer": 2, "bl1Pbuffer": 2, "singleCoreM": 64, "singleCoreN": 144, "templateId": 4, "streamKType": 2,
        "coreStreamK": 5, "usedCoreNum": 20,
    }  # fmt: skip
    assert subset(kernel["tiling"], **expected) == expected
    assert kernel["tiling_source"] == "vendor procedure"
    assert kernel["op_type"] == "Conv3DBackpropFilter"
    assert (kernel["core_type"], kernel["block_dim"]) == ("MIX", 20)


def test_deterministic_grad_weight_counts() -> None:
    """4 tiles of dW (N = 576 in pieces of 144), each cut by rows over 5 cores: 12, 12, 12, 12 and 8 rows of 56."""
    kernel = kernels(True)["grad_weight"]
    per_image = [-(-rows * 56 // 64) for rows in (12, 12, 12, 12, 8)]
    assert per_image == [11, 11, 11, 11, 7]
    assert kernel["counts"]["instructions"]["mmad"] == 4 * 32 * sum(per_image) == 6528
    assert kernel["counts"]["tiles"] == 4  # each shared by five cores
    moved = kernel["counts"]["bytes"]
    assert moved["GM->L1:A"] == 4 * 32 * IMAGE  # every tile of N reads all of gradOutput
    partial = 64 * 144 * 4
    assert moved["L0C->GM"] == 20 * partial  # each core its slot
    assert moved["GM->UB"] == 20 * partial  # which the vector cores read
    assert moved["UB->GM"] == 4 * partial  # and add up


def test_deterministic_grad_weight_cube_work() -> None:
    """4 x 9 fractals of dW by K: 12 rows are 672 pixels, 10 steps of 64 and one of 32; 8 rows are 448, 7 steps."""
    kernel = kernels(True)["grad_weight"]
    long, short = 32 * 4 * 9 * 672 // 16, 32 * 4 * 9 * 448 // 16
    assert kernel["cube_work_cycles"] == [long, long, long, long, short] * 4
    assert (long, short) == (48_384, 32_256)


def test_atomic_grad_weight_follows_the_procedure_of_the_older_kernel() -> None:
    kernel = kernels(False)["grad_weight"]
    assert (kernel["op_type"], kernel["tiling_source"]) == ("Conv2DBackpropFilter", "vendor procedure")
    assert kernels(False)["MemSet_grad_weight"]["op_type"] == "MemSet"
    assert sum(kernel["cube_work_cycles"]) == 32 * 3136 * 64 * 576 // 4096


def test_the_bias_reads_grad_output_once() -> None:
    assert kernels(False)["ReduceSum_grad_bias"]["counts"]["bytes"]["GM->UB"] == 32 * IMAGE


def test_timing_keeps_no_values() -> None:
    result = layer(False)
    assert result.outputs == {} and result.report.to_dict()["outputs"] == {}
