"""grad_weight in strips of gradOutput columns or tap by tap, forced on small problems or by a small L1, against torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ascend_sim import AclnnError, Result, conv_tbc_backward, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from tests.support.ops.conv_problems import CallAttributes, Mask, operands, same_bits, worst_error_over_bound
from tests.support.ops.ranks import RankCall, assert_close, calls, torch_gradients
from tests.support.sampling import part_of_cases

MASK: Mask = (False, True, False)
CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")
QUICK = settings(
    max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)


@QUICK
@given(calls(), st.sampled_from(CHIPS), st.sampled_from(["full", "functional"]), st.booleans(), st.data())
def test_forced_cuts_at_any_rank(call: RankCall, chip: str, mode: str, deterministic: bool, data: st.DataObject) -> None:
    if chip in ("ascend910a", "ascend310p3"):  # fp16, no 3-D
        assume(len(call.kernel) < 3)
        call = replace(call, dtype="float16")
    cut = {"splitWo": data.draw(st.integers(1, call.y[-1]))}
    if chip == "ascend950pr_9589" and data.draw(st.booleans()):
        cut = {"isSplitKernelHW": 1}
    tensors = call.tensors()
    try:
        result = convolution_backward(
            *tensors,
            None,
            call.stride,
            call.padding,
            call.dilation,
            call.transposed,
            call.output_padding,
            call.groups,
            MASK,
            chip=chip,
            mode=mode,
            deterministic=deterministic,
            tiling={"grad_weight": cut},
        )
    except (SimError, AclnnError) as refused:  # a matrix product, or what a product's documents do not allow
        assert "unknown tiling field" in str(refused) or "161002" in str(refused) or "W_out" in str(refused)
        assume(False)
        return
    report = result.report.to_dict(statements=False)
    assert report["findings"] == [] and report["outputs"]["grad_weight"]["correct"]
    exact, squares = (torch_gradients(call, tensors, power)[1] for power in (1, 2))
    assert_close(result.outputs["grad_weight"], exact, squares, call.n * int(np.prod(call.y)), call.dtype)


@part_of_cases(4)
@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize(("chip", "widths"), [("ascend910b3", (7,)), ("ascend950pr_9589", (2,))])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tbc_in_strips(dtype: str, chip: str, widths: tuple[int, ...], mode: str) -> None:
    """Time is a row of the map, on dav-3510 its height, and then the batch is the row."""
    rng = np.random.default_rng(1)
    tensors = [rng.standard_normal(s).astype(dtype) for s in ((18, 3, 6), (20, 3, 5), (5, 5, 6), (6,))]
    cuts = [{"splitWo": width} for width in widths]
    if chip == "ascend950pr_9589":
        cuts.append({"isSplitKernelHW": 1})
    for fields in cuts:
        cut = conv_tbc_backward(*tensors, 1, chip=chip, mode=mode, tiling={"grad_weight": fields})
        assert cut.report.passed and cut.report.findings == ()


def small_l1(chip: str, kib: int = 16) -> ChipSpec:
    """A chip whose L1 holds little: short rows are long there."""
    spec = load_chip(chip)
    return spec.model_copy(update={"buffers": spec.buffers | {"L1": kib * 1024}})


def run(problem: CallAttributes, own: dict[str, Any], chip: ChipSpec, **options: Any) -> tuple[Result, dict[str, Any]]:
    result = problem.run(own, MASK, chip=chip, **options)
    kernels = result.report.kernels
    return result, next(kernel for kernel in kernels if kernel["name"] == "grad_weight")


DTYPES = dict.fromkeys(CHIPS, ("float16",)) | {"ascend910b3": ("float16", "float32")}
LONG = {
    "1-D": CallAttributes(2, 16, 16, (1, 640), (1, 3), pads=(0, 0, 1, 1)),
    "strided": CallAttributes(1, 20, 24, (1, 600), (1, 10), (1, 5), pads=(0, 0, 9, 4)),
    "wide map": CallAttributes(1, 16, 16, (2, 300), (3, 3)),
    "dilated": CallAttributes(1, 16, 16, (1, 640), (1, 3), pads=(0, 0, 60, 60), dilation=(1, 60)),
    "groups": CallAttributes(1, 12, 12, (2, 270), (2, 3), pads=(1, 0, 1, 1), groups=3),
}


@part_of_cases(5)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", LONG)
def test_strips_where_rows_do_not_fit(name: str, chip: str) -> None:
    """Correct, and in deterministic mode with the same bits in both modes."""
    problem, small = LONG[name], small_l1(chip)
    for dtype in DTYPES[chip]:
        own = operands(problem, dtype)
        for deterministic in (False, True):
            found = {}
            for mode in ("full", "functional") if deterministic else ("full",):
                result, kernel = run(problem, own, small, mode=mode, deterministic=deterministic)
                assert result.report.passed
                if chip != "ascend910b3" or deterministic:  # else the older kernel, which has its own way to cut rows
                    assert 0 < kernel["tiling"]["splitWo"] < problem.out_size[1]
                    assert kernel["tiling_source"] == "stand-in"
                found[mode] = result.outputs["grad_weight"]
            worst = worst_error_over_bound(problem, {"grad_weight": found["full"]}, own, dtype, {"grad_weight": [dtype]})
            assert worst["grad_weight"] <= 1
            assert not deterministic or same_bits(found["full"], found["functional"])


@part_of_cases(2)
@pytest.mark.parametrize("chip", CHIPS)
def test_whole_numbers_have_the_same_sum_in_any_strips(chip: str) -> None:
    problem = CallAttributes(2, 16, 16, (4, 60), (3, 3))
    own = {name: np.rint(2 * array.astype(np.float32)).astype("float16") for name, array in operands(problem).items()}
    whole = problem.run(own, MASK, chip=chip, mode="functional").outputs["grad_weight"]
    for width in (1, 13, 16, 59, 60):
        tiling = {"grad_weight": {"splitWo": width}}
        cut = problem.run(own, MASK, chip=chip, mode="functional", tiling=tiling)
        assert same_bits(cut.outputs["grad_weight"], whole)


@pytest.mark.parametrize(("chip", "length"), [("ascend910b3", 160000), ("ascend910a", 65536), ("ascend950pr_9589", 65536)])
def test_long_signals_run(chip: str, length: int) -> None:
    """Lengths at which whole rows never fitted."""
    problem = CallAttributes(1, 16, 16, (1, length), (1, 3), pads=(0, 0, 1, 1))
    result = problem.run(problem.specs(), MASK, chip=chip, mode="timing")
    kernel = next(k for k in result.report.kernels if k["name"] == "grad_weight")
    assert chip == "ascend910b3" or kernel["tiling"]["splitWo"] < length  # the older kernel holds columns of a signal


BEYOND = {
    "stride 70": CallAttributes(1, 16, 16, (1, 2000), (1, 3), (1, 70), (0, 0, 0, 0)),
    "300 columns": CallAttributes(1, 4, 20, (1, 400), (1, 300), pads=(0, 0, 0, 0)),
    "dilation and pad 300": CallAttributes(2, 4, 4, (1, 400), (1, 3), pads=(0, 0, 300, 300), dilation=(1, 300)),
    "stride 64, groups": CallAttributes(1, 6, 6, (70, 140), (2, 2), (64, 64), (0, 1, 1, 0), groups=3),
}


@part_of_cases(2)
@pytest.mark.parametrize("name", BEYOND)
def test_taps_where_load3d_has_no_window(name: str) -> None:
    """On dav-3510; on the 910B the documents have narrower ranges, or load3d's limit counts."""
    problem = BEYOND[name]
    own = operands(problem)
    found = {}
    for mode in ("full", "functional"):
        result, kernel = run(problem, own, load_chip("ascend950pr_9589"), mode=mode, deterministic=True)
        assert result.report.passed and result.report.findings == ()
        assert kernel["tiling"]["isSplitKernelHW"] == 1 and kernel["tiling_source"] == "stand-in"
        found[mode] = result.outputs["grad_weight"]
    assert same_bits(found["full"], found["functional"])
    worst = worst_error_over_bound(problem, {"grad_weight": found["full"]}, own, "float16", {"grad_weight": ["float16"]})
    assert worst["grad_weight"] <= 1
    if max(problem.stride) > 63:  # the 910B's older kernel gathers what load3d cannot stride over
        assert problem.run(own, MASK, chip="ascend910b3").report.passed
        return
    with pytest.raises(AclnnError, match=r"load3d|ruling 8"):
        problem.run(own, MASK, chip="ascend910b3")
