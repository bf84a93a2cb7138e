"""A faster machine is faster, and by no more than what was made faster: HBM, clock and cores doubled in an overlay."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.chip import load_chip
from ascend_sim.studies.validate.launch import MeasuredKernel
from ascend_sim.studies.validate.run import simulate
from tests.support.sampling import sampled

CHIPS = ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589")
WITH_MATMUL = ("ascend910b3", "ascend950pr_9589")
SLACK = 1.02
"""Transfers of all cores meet at other instants on another machine: a dispatch here or there falls into another cycle."""


def overlay(folder: Path, soc: str, what: str) -> str:
    """A chip file that doubles one thing."""
    chip = load_chip(soc)
    if what == "hbm":
        value, section, unit = 2 * chip.memory.hbm_gb_per_s, "memory: {hbm_gb_per_s: ", "GB/s"
    elif what == "clock":
        value, section, unit = 2 * chip.clock.cube_mhz, "clock: {cube_mhz: ", "MHz"
    else:
        value, section, unit = 2 * chip.cores.aic, "cores: {aic: ", "cores"
    text = f"extends: {soc}\n{section}{{value: {value}, unit: {unit}, source: 'assumed: twice as much'}}}}\n"
    if what == "cores" and chip.cores.aiv:
        aiv = f", aiv: {{value: {2 * chip.cores.aiv}, unit: cores, source: 'assumed: twice as many'}}}}\n"
        text = text.rstrip("}\n") + "}" + aiv
    path = folder / f"{soc}_{what}.yaml"
    path.write_text(text)
    return str(path)


@cache
def kernel_us(
    chip: str, shape: tuple[int, int, int, int, int], mask: tuple[bool, bool, bool] = (True, True, True)
) -> dict[str, float]:
    """Times of the two cube kernels, launch included, and of the whole call with its gradBias."""
    n, c_in, c_out, size, side = shape
    result = convolution_backward(
        TensorSpec((n, c_out, size, size), "float16"), TensorSpec((n, c_in, size, size), "float16"),
        TensorSpec((c_out, c_in, side, side), "float16"), None, (1, 1), (side // 2, side // 2), (1, 1), False, (0, 0), 1,
        mask, chip=chip, mode="timing", l2="cold", deterministic=False,
    )  # fmt: skip
    kernels = result.report.to_dict(statements=False)["kernels"]
    times = {k["name"]: k["task_us"] for k in kernels if k["name"] in ("grad_input", "grad_weight")}
    return times | {"run": result.report.total_us}


def matmul_us(chip: str, shape: tuple[int, int, int, str]) -> float:
    """Time of one matrix product."""
    m, n, k, l2 = shape
    found = simulate(MeasuredKernel(chip, "MatMul", "fp16", (("K", k), ("M", m), ("N", n)), l2=l2))
    assert not found.skipped
    return found.task_us


shapes = st.tuples(
    st.sampled_from([2, 5]), st.sampled_from([16, 32]), st.sampled_from([32, 48]), st.sampled_from([6, 7]),
    st.sampled_from([1, 3]),
)  # fmt: skip


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("what", ["hbm", "clock"])
@sampled(1, 2, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes)
def test_twice_the_rate_helps_and_at_most_halves(
    tmp_path: Path, soc: str, what: str, shape: tuple[int, int, int, int, int]
) -> None:
    before, after = kernel_us(soc, shape), kernel_us(overlay(tmp_path, soc, what), shape)
    for name, us in before.items():
        assert us / 2 / SLACK <= after[name] <= us * SLACK, (name, us, after[name])


products = st.tuples(
    st.sampled_from([16, 100, 512]), st.sampled_from([48, 256]), st.sampled_from([64, 500]), st.sampled_from(["cold", "warm"])
)


@pytest.mark.parametrize("soc", WITH_MATMUL)
@pytest.mark.parametrize("what", ["hbm", "clock", "cores"])
@sampled(1, 2, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=products)
def test_a_matrix_product_too(tmp_path: Path, soc: str, what: str, shape: tuple[int, int, int, str]) -> None:
    before, after = matmul_us(soc, shape), matmul_us(overlay(tmp_path, soc, what), shape)
    assert before / 2 / SLACK <= after
    assert what == "cores" or after <= before * SLACK


@pytest.mark.parametrize("soc", CHIPS)
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes)
def test_twice_the_cores_at_most_halve(tmp_path: Path, soc: str, shape: tuple[int, int, int, int, int]) -> None:
    """Another number of cores is another tiling, which need not be a better one; but the work is the same."""
    before, after = kernel_us(soc, shape), kernel_us(overlay(tmp_path, soc, "cores"), shape)
    for name, us in before.items():
        assert us / 2 / SLACK <= after[name], (name, us, after[name])


@cache
def bound_us(chip: str, by_hbm: bool) -> float:
    """Time of a long cast out of a cold L2, which waits for HBM, or of the dX of a convolution of many products."""
    if not by_hbm:
        return kernel_us(chip, (64, 64, 128, 14, 3), (True, False, False))["grad_input"]
    found = simulate(MeasuredKernel(chip, "Cast", "fp32", (("N", 2**24),), (("dtype_out", "fp16"),), "cold"))
    assert not found.skipped
    return found.task_us


@pytest.mark.parametrize(
    ("soc", "what"), [*((soc, "hbm") for soc in CHIPS), *product(("ascend910b3", "ascend310p3"), ("clock", "cores"))]
)
def test_who_waits_for_it_gains_from_it(tmp_path: Path, soc: str, what: str) -> None:
    by_hbm = what == "hbm"
    assert bound_us(soc, by_hbm) > 1.4 * bound_us(overlay(tmp_path, soc, what), by_hbm)
