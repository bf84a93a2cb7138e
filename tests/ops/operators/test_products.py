"""The other architectures: coupled cores (910, 310P) and the 950, in every mode, against torch and against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import ascend_sim
from ascend_sim import Result, SimError
from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.errors import TilingError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import family_of
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.conv_problems import (
    ALL,
    GRADIENTS,
    CallAttributes,
    Mask,
    operands,
    problems,
    same_bits,
    worst_error_over_bound,
)
from tests.support.ops.coupled_runs import small_pieces
from tests.support.sampling import part_of_cases

COUPLED = ("ascend910a", "ascend310p3")
OTHERS = (*COUPLED, "ascend950pr_9589")
QUICK = settings(
    max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)
LAYER = CallAttributes(2, 32, 48, (12, 10))
STRIDED = replace(LAYER, stride=(2, 3))
ONE_BY_ONE = CallAttributes(2, 40, 33, (9, 11), (1, 1), (2, 2), (1, 0, 2, 0))
CROPPED = CallAttributes(1, 16, 16, (7, 9), (2, 2), (2, 2), (3, 3, 4, 4))  # padding beyond the kernel's reach
DEPTHWISE = CallAttributes(1, 18, 18, (6, 6), groups=18, stride=(2, 1))


def kernel_of(result: Result, name: str) -> dict[str, Any]:
    return next(kernel for kernel in result.report.kernels if kernel["name"] == name)


def check(problem: CallAttributes, chip: str | ChipSpec, mode: str, deterministic: bool, seed: int = 0) -> Result:
    """Correct by torch and by the report, nothing found."""
    own = operands(problem, "float16", seed)
    result = problem.run(own, chip=chip, mode=mode, deterministic=deterministic)
    worst = worst_error_over_bound(problem, result.outputs, own, "float16", {name: ["float16"] for name in GRADIENTS})
    assert len(worst) == 3 and all(ratio <= 1 for ratio in worst.values()), worst
    report = result.report.to_dict(statements=False)
    assert report["findings"] == [] and result.report.passed
    return result


def check_in_both_modes(problem: CallAttributes, chip: str | ChipSpec, deterministic: bool, seed: int = 0) -> None:
    full, functional = (check(problem, chip, mode, deterministic, seed) for mode in ("full", "functional"))
    for name, gradient in full.outputs.items():
        if name != "grad_weight" or deterministic:  # only atomic sums depend on the order of arrival
            assert same_bits(gradient, functional.outputs[name]), name


# -- values ------------------------------------------------------------------------------------------------------------


@part_of_cases(8)
@pytest.mark.parametrize(
    ("problem", "deterministic"),
    [(LAYER, True), (STRIDED, False), (ONE_BY_ONE, True), (CROPPED, False), (DEPTHWISE, True)],
    ids=["layer", "strided", "1x1", "cropped", "depthwise"],
)
@pytest.mark.parametrize("chip", OTHERS)
def test_known_corners(chip: str, problem: CallAttributes, deterministic: bool) -> None:
    pytest.importorskip("torch")
    check_in_both_modes(problem, chip, deterministic)


@QUICK
@given(problems(), st.sampled_from(OTHERS), st.booleans(), st.integers(0, 2**31))
def test_any_problem(problem: CallAttributes, chip: str, deterministic: bool, seed: int) -> None:
    pytest.importorskip("torch")
    check_in_both_modes(problem, chip, deterministic, seed)


@pytest.mark.slow
@settings(QUICK, max_examples=250)
@given(problems(), st.sampled_from(OTHERS), st.booleans(), st.integers(0, 2**31))
def test_any_problem_at_length(problem: CallAttributes, chip: str, deterministic: bool, seed: int) -> None:
    pytest.importorskip("torch")
    check_in_both_modes(problem, chip, deterministic, seed)


@part_of_cases(3)
@pytest.mark.parametrize("problem", [STRIDED, CROPPED, CallAttributes(1, 33, 16, (3, 90), (3, 3), (3, 3))], ids=str)
@pytest.mark.parametrize("size", [1024, 4096])
def test_pieces_of_any_size_give_the_same_values(problem: CallAttributes, size: int) -> None:
    """Results leave, and zeros are put between pixels, in pieces: many blocks, rows of a block or parts of a row."""
    mask: Mask = (True, True, False)
    own = operands(problem)
    whole = problem.run(own, mask, chip="ascend910a", mode="functional", deterministic=True).outputs
    with small_pieces(size):
        result = problem.run(own, mask, chip="ascend910a", mode="full", deterministic=True)
    assert result.report.passed
    assert all(same_bits(result.outputs[name], whole[name]) for name in whole)


@part_of_cases(4)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("chip", OTHERS)
def test_every_rank_and_transposed(chip: str, rank: int, transposed: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(rank)
    wide, narrow, taps = (7, 8, 9)[-rank:], (3, 3, 4)[-rank:], (3, 2, 3)[-rank:]
    padding, dilation = (1, 0, 1)[-rank:], (1, 2, 1)[-rank:]
    output_padding = (0, 1, 0)[-rank:] if transposed else (0,) * rank
    axes = list(zip(wide, narrow, taps, padding, dilation, output_padding, strict=True))
    if transposed:
        wide = tuple((n - 1) * 2 - 2 * p + d * (k - 1) + 1 + q for _, n, k, p, d, q in axes)
    else:
        narrow = tuple((w + 2 * p - d * (k - 1) - 1) // 2 + 1 for w, _, k, p, d, _ in axes)
    arguments = ((2,) * rank, padding, dilation, transposed)
    maps = (rng.standard_normal((2, 18, *wide)), rng.standard_normal((2, 20, *narrow)))
    dy, x = (array.astype(np.float16) for array in (maps if transposed else maps[::-1]))
    weight = rng.standard_normal((20, 9, *taps)).astype(np.float16)
    call = (dy, x, weight, None, *arguments, output_padding, 2, ALL)
    if rank == 3 and chip in COUPLED:
        with pytest.raises(ascend_sim.AclnnError, match=r"161002.*rank"):
            ascend_sim.convolution_backward(*call, chip=chip)
        return
    wide_call = [torch.from_numpy(array.astype(np.float64)) for array in (dy, x, weight)]
    expected = torch.ops.aten.convolution_backward(*wide_call, [dy.shape[1]], *arguments, output_padding, 2, list(ALL))
    for mode in ("full", "functional"):
        result = ascend_sim.convolution_backward(*call, chip=chip, mode=mode)
        assert result.report.passed
        for gradient, reference in zip(result.outputs.values(), expected, strict=True):
            np.testing.assert_allclose(gradient.astype(np.float64), reference.numpy(), rtol=4e-3, atol=4e-3)


@part_of_cases(3)
@pytest.mark.parametrize("problem", [LAYER, STRIDED, DEPTHWISE, CallAttributes(1, 64, 64, (16, 16), groups=2)], ids=str)
def test_the_same_fp16_values_on_every_architecture(problem: CallAttributes) -> None:
    """Tilings differ, so a model of the additions is needed that depends neither on how K is cut nor on the host's BLAS."""
    own = operands(problem)
    found = {
        chip: problem.run(own, chip=chip, mode="functional", deterministic=True, accumulate="exact_group").outputs
        for chip in (*OTHERS, "ascend910b3")
    }
    for chip, gradients in found.items():
        for name in ("grad_input", "grad_bias"):
            assert same_bits(gradients[name], found["ascend910b3"][name]), (chip, name)
    # StreamK cuts the sum over images differently; coupled chips have none.
    assert same_bits(found[COUPLED[0]]["grad_weight"], found[COUPLED[1]]["grad_weight"])


def test_fp32_inputs_become_fp16_on_the_coupled_cube() -> None:
    own = operands(LAYER, "float32")
    result = LAYER.run(own, chip="ascend310p3", cube_math_type=1, mode="functional")
    assert result.report.passed and result.report.to_dict(statements=False)["problem"]["compute_dtype"] == "float16"
    assert {array.dtype for array in result.outputs.values()} == {np.dtype(np.float32)}


def test_hf32_keeps_10_bits_on_the_950_and_11_on_the_910b() -> None:
    one = CallAttributes(1, 1, 1, (1, 1), (1, 1), pads=(0, 0, 0, 0))
    values = {name: np.full((1, 1, 1, 1), 1 + (name == "grad_output") * 2.0**-11, np.float32) for name in one.shapes}
    found = {
        chip: float(one.run(values, chip=chip, cube_math_type=1, mode="functional").outputs["grad_input"].item())
        for chip in ("ascend910b3", "ascend950pr_9589")
    }
    assert found["ascend910b3"] == 1 + 2.0**-11
    assert found["ascend950pr_9589"] in (1, 1 + 2.0**-10)


def test_fp32_takes_16_times_the_cube_work_of_fp16_on_the_950() -> None:
    ideal = [
        kernel_of(LAYER.timing((True, False, False), dtype, chip="ascend950pr_9589"), "grad_input")["ideal_cycles"]
        for dtype in ("float16", "float32")
    ]
    assert ideal[1] == pytest.approx(16 * ideal[0], rel=0.2)  # both are rounded up


# -- what runs where ---------------------------------------------------------------------------------------------------


@part_of_cases(4)
@pytest.mark.parametrize("chip", chip_names())
def test_every_chip_runs_and_says_what_it_ran_on(chip: str) -> None:
    result = CallAttributes(1, 16, 16, (5, 5), stride=(2, 2)).timing(chip=chip, deterministic=True)
    kinds = {kernel["core_type"] for kernel in result.report.kernels}
    assert result.report.total_us and result.report.passed
    kinds.discard("MIX_VECTOR_CORE" if chip.startswith("ascend310p") else "")
    assert kinds == {"AI_CORE"} if load_chip(chip).cores.coupled else "AI_CORE" not in kinds


@pytest.mark.parametrize("chip", COUPLED)
def test_results_leave_through_ub_and_zeros_are_put_in_there(chip: str) -> None:
    plain, strided = (p.timing((True, False, False), chip=chip) for p in (LAYER, STRIDED))
    for result in (plain, strided):
        counts = kernel_of(result, "grad_input")["counts"]
        p = LAYER
        assert "fixpipe" not in counts["instructions"] and counts["instructions"]["l0c_to_ub"] > 0
        assert counts["bytes"]["UB->GM"] == p.n * p.c_in * p.size[0] * p.size[1] * 2
        assert "L0C->GM" not in counts["bytes"]
    moved = [kernel_of(result, "grad_input")["counts"]["bytes"] for result in (plain, strided)]
    assert "GM->L1:A" in moved[0] and "UB->L1:A" not in moved[0]
    assert "GM->UB:A" in moved[1] and "UB->L1:A" in moved[1] and "GM->L1:A" not in moved[1]
    assert moved[1]["UB->L1:A"] > 4 * moved[1]["GM->UB:A"]  # six places for a pixel, less at the edges


@pytest.mark.parametrize("chip", COUPLED)
def test_deterministic_grad_weight_has_one_core_per_tile(chip: str) -> None:
    mask: Mask = (False, True, False)
    result = LAYER.timing(mask, chip=chip, deterministic=True)
    kernel = kernel_of(result, "grad_weight")
    assert kernel["tiling"]["streamKType"] == 0 and kernel["tiling"]["coreStreamK"] == 0
    assert kernel["op_type"] == "Conv2DBackpropFilter" and kernel["core_type"] == "AI_CORE"
    assert "MemSet" not in {k["op_type"] for k in result.report.kernels}
    assert kernel["block_dim"] == kernel["counts"]["tiles"]  # small enough for that
    with pytest.raises(TilingError, match=r"streamKType = 1.*sync\.cross_flag_ids"):
        LAYER.timing(mask, chip=chip, deterministic=True, tiling={"grad_weight": {"streamKType": 1, "coreStreamK": 2}})


def test_vector_kernels_do_not_count_as_cube_kernels() -> None:
    result = LAYER.timing(chip="ascend910a")
    work = {k["name"]: k["cube_work_cycles"] for k in result.report.kernels}
    assert sum(work["grad_input"]) > 0 and sum(work["grad_weight"]) > 0
    assert work["TransData_input"] == work["ReduceSum_grad_bias"] == []


# -- tilings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", chip_names())
@pytest.mark.parametrize("deterministic", [False, True])
def test_an_open_procedure_decides_on_its_architecture_alone(chip: str, deterministic: bool) -> None:
    spec = load_chip(chip)
    problem = ConvProblem(4, 256, 256, 1, 14, 14, 1, 14, 14, 1, 1, 1)
    buffers = {str(name): size for name, size in spec.buffers.items()}
    family = family_of(spec)
    inp = TilingInput(
        problem,
        2,
        spec.cores.aic,
        buffers,
        spec.memory.l2_bytes,
        deterministic,
        family.layout,
        family=family,
        load3d=spec.load3d.limits,
    )
    vendors = {"dav-2201": (True, True), "dav-3510": (True, deterministic)}.get(spec.identity.arch, (True, False))
    tilings = GradInputQuestion(inp, chip=spec).tiling(), GradWeightQuestion(inp, chip=spec).tiling()
    assert tuple(tiling.source == "vendor procedure" for tiling in tilings) == vendors
    assert {tiling.source for tiling in tilings} <= {"vendor procedure", "stand-in"}


def test_the_larger_l0c_holds_two_tiles() -> None:
    # A tile of this layer fills 84 KB, more than half of the 910B's 128 KB and less than half of 256 KB.
    layer = CallAttributes(1, 64, 64, (56, 56))
    buffers = {
        chip: kernel_of(layer.timing((True, False, False), chip=chip), "grad_input")["tiling"]["cl0Pbuffer"]
        for chip in ("ascend910a", "ascend950pr_9589", "ascend910b3")
    }
    assert buffers == {"ascend910a": 2, "ascend950pr_9589": 2, "ascend910b3": 1}


# -- paths that an architecture lacks ----------------------------------------------------------------------------------


def builder(chip: str, kind: str) -> KernelBuilder:
    return KernelBuilder(InstructionTable(load_chip(chip)), 0, kind, [1 << 20])


@pytest.mark.parametrize(
    ("chip", "kind", "source", "destination"),
    [
        ("ascend910a", "AI_CORE", "L1", "GM"),
        ("ascend310p3", "AI_CORE", "L1", "GM"),
        ("ascend910b3", "AIC", "UB", "L1"),
        ("ascend910b3", "AIV", "L1", "UB"),
        ("ascend950pr_9589", "AIC", "L1", "GM"),
        ("ascend950pr_9589", "AIC", "GM", "L0A"),
        ("ascend950pr_9589", "AIC", "GM", "L0B"),
    ],
)
def test_a_missing_path_is_refused_when_the_kernel_is_built(chip: str, kind: str, source: str, destination: str) -> None:
    arch = load_chip(chip).identity.arch
    with pytest.raises(SimError, match=rf"{chip} \({arch}\) has no path {source}->{destination}; from {source} there is"):
        builder(chip, kind).data_copy(source, destination, 0, 0, 512)


def test_a_coupled_chip_has_no_fixpipe_and_no_flags_between_cores() -> None:
    k = builder("ascend910a", "AI_CORE")
    with pytest.raises(SimError, match=r"has no path L0C->GM; from L0C there is L0C->UB"):
        k.fixpipe(gm_operand(0, 0), 0, 16, 16, 16, "float16", 16, 512)
    with pytest.raises(SimError, match=r"cross-core flag 0: the chip has none"):
        k.cross_core_set(0, 0, "MTE3")
    with pytest.raises(SimError, match="has no core 'AIC'"):
        builder("ascend910a", "AIC")


def test_910a_has_four_flags_per_pair_of_pipes() -> None:
    k = builder("ascend910a", "AI_CORE")
    for i in range(4):
        k.flag("V", "MTE3", f"flag {i}")
    with pytest.raises(SimError, match=r"number 5 from V to MTE3; the chip has 4"):
        k.flag("V", "MTE3", "flag 4")
