"""Machines with one fault each, on data that hide it: the bound alone is blind or not, the probe finds every one.

`single` plants a fault in one product of one Mmad of a run, wherever it stands; the rest change a rule of every instruction.
"""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import ascend_sim
from ascend_sim.engine.choice import VARIABLE
from ascend_sim.isa import effect
from ascend_sim.isa.vector.reduction import ReduceRows
from ascend_sim.numerics import cast
from tests.support.ops.faults import Faulty, cut_sums, first, last, truncate_to, wrong
from tests.support.sampling import part_of_cases

ONES = np.ones


def backward(shape=(1, 16, 12, 12), filters=16, kernel=3, padding=1, groups=1, dtype=np.float16, make=ONES, **options):
    """A call on data of one sign."""
    n, channels, height, width = shape
    size = (height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1)
    shapes = (n, filters, *size), shape, (filters, channels // groups, kernel, kernel)
    grad_output, data, weight = (make(one).astype(dtype) for one in shapes)
    given = {"chip": "ascend910b3", "mode": "functional", "probe": True} | options
    return ascend_sim.convolution_backward(
        grad_output, data, weight, [filters], [1, 1], [padding] * 2, [1, 1], False, [0, 0], groups, [True] * 3, **given
    )


def at_padding(a, b):
    """Products beside a zero of im2col."""
    return ((m, n, k) for m, n, k in first(a, b) if k and (a[m, k - 1] == 0 or b[n, k - 1] == 0))


def number_of_mmads(monkeypatch, **call):
    with monkeypatch.context() as patch:
        faulty = Faulty(patch, None)
        backward(**call, probe=False)
        return faulty.count


KINDS = ((first, -1.0), (last, 1.0), (at_padding, -1.0), (last, -1.0))


@pytest.mark.parametrize(
    ("call", "every"),
    [
        pytest.param({}, True, marks=pytest.mark.slow, id="plain"),
        pytest.param({"groups": 2}, True, marks=pytest.mark.slow, id="groups"),
        pytest.param({"dtype": bfloat16, "groups": 4, "chip": "ascend950pr_9589"}, True, marks=pytest.mark.slow, id="950"),
        pytest.param({"chip": "ascend910a"}, True, marks=pytest.mark.slow, id="910"),
        pytest.param({"shape": (1, 5, 9, 7), "filters": 7}, False, id="tails"),
        pytest.param({"shape": (1, 6, 5, 5), "filters": 4, "groups": 2, "dtype": np.float32}, False, id="float32"),
    ],
)
def test_a_single_product_of_any_mmad(monkeypatch, call, every):
    """Lost or doubled, first, last or beside padding, in each part of the work (tiles, cores, groups, K tails)."""
    total = number_of_mmads(monkeypatch, **call)
    assert total > 2
    for at in range(total):
        hit = 0
        for choose, factor in KINDS if every else KINDS[at % 2 :: 3]:
            with monkeypatch.context() as patch:
                faulty = Faulty(patch, at, choose, factor)
                result = backward(**call)
                found = wrong(result)
                if faulty.hits:
                    assert found, (at, choose.__name__)
                hit += faulty.hits
        assert hit


@part_of_cases(2)
@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_where_the_bound_is_blind(monkeypatch, dtype):
    """4,096 equal products per sum: half an ULP is 1 (float16) or 8 (bfloat16) of them, and the probe sees one."""
    call = {"shape": (1, 16, 64, 64), "kernel": 1, "padding": 0, "dtype": dtype}
    total = number_of_mmads(monkeypatch, **call)
    Faulty(monkeypatch, total - 1, first, -1.0)
    blind, probed = backward(**call, probe=False), backward(**call, probe=None)
    assert not wrong(blind)
    assert blind.report.outputs["grad_weight"]["may_lose"] > 1
    assert blind.report.outputs["grad_weight"]["probe"] == {"ran": False, "why": "probe = False"}
    assert probed.report.outputs["grad_weight"]["probe"]["failed"] == "exact"
    assert wrong(probed) == {"grad_weight": "probe"}


def test_a_pixel_that_the_bias_sum_loses(monkeypatch):
    read = ReduceRows.read

    def lossy(row, memory, dst, src0, src1):
        found = read(row, memory, dst, src0, src1)
        pixels = memory.array("UB", src0, (row.rows, row.columns), np.float32, (row.row_stride, 4))
        return found - pixels[:, 1]

    monkeypatch.setattr(ReduceRows, "read", lossy)
    call = {"shape": (1, 16, 64, 64), "kernel": 1, "padding": 0}
    assert "grad_bias" not in wrong(backward(**call, probe=False))
    assert wrong(backward(**call)) == {"grad_bias": "probe"}


def test_an_accumulator_that_cuts_digits_off(monkeypatch):
    """Each addition to L0C towards zero. Results in float32 show it in a few elements' signs, whatever the given data."""
    monkeypatch.setattr(effect, "_added", cut_sums)
    monkeypatch.setenv(VARIABLE, "simpy")  # C has sums of its own, for the probe too
    rng = np.random.default_rng(0)
    result = backward(shape=(1, 16, 24, 24), dtype=np.float32, make=rng.standard_normal, accumulate="chunk")
    figures = result.report.outputs["grad_weight"]
    assert figures["probe"]["failed"] == "direction" and figures["decided_by"] == "probe" and not figures["correct"]
    assert figures["worst_error_over_bound"] < 1
    assert figures["probe"]["towards_zero"] - figures["probe"]["away"] > figures["probe"]["limit"]


@part_of_cases(2)
@pytest.mark.parametrize("narrow", [np.float16, bfloat16])
def test_sums_in_sixteen_bits(monkeypatch, narrow):
    added = effect._added
    monkeypatch.setattr(effect, "_added", lambda *arguments: added(*arguments).astype(narrow).astype(np.float32))
    monkeypatch.setenv(VARIABLE, "simpy")
    assert {"grad_input", "grad_weight"} <= wrong(backward(filters=96, accumulate="chunk")).keys()


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_results_cut_off_or_rounded_twice(monkeypatch, dtype):
    """Fixpipe that truncates, and one that rounds to seven bits first where the data (ones) are exact in both."""

    def truncating(values, name, *rest, **options):
        return cast(truncate_to(values, 11 if name == "float16" else 8), name, *rest, **options)

    def twice(values, name, *rest, **options):
        return cast(cast(values, "float8_e5m2").astype(np.float32), name, *rest, **options)

    for faulty in (truncating, twice):
        with monkeypatch.context() as patch:
            patch.setattr(effect, "cast", faulty)
            patch.setenv(VARIABLE, "simpy")  # C has a cast of its own
            found = wrong(backward(dtype=dtype))
            assert "grad_input" in found, faulty.__name__


@part_of_cases(3)
@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("mode", ["functional", "full"])
def test_a_right_machine(chip, mode):
    result = backward(shape=(2, 5, 9, 8), filters=6, chip=chip, mode=mode)
    for name, figures in result.report.outputs.items():
        assert figures["correct"] and figures["decided_by"] == "probe", (name, figures)
        assert figures["probe"]["least_chance"] == 1.0


@pytest.mark.slow
def test_a_million_products():
    """K = 2^20 on data of one sign: one product lost in dW is found, and the right machine is right."""
    call = {"shape": (4, 2, 512, 512), "filters": 2, "kernel": 1, "padding": 0, "make": lambda shape: np.full(shape, 1 / 64)}
    right = backward(**call)
    assert not wrong(right), right.report.outputs
    with pytest.MonkeyPatch.context() as patch:
        faulty = Faulty(patch, None)
        backward(**call, probe=False)
        total = faulty.count
    with pytest.MonkeyPatch.context() as patch:
        Faulty(patch, total - 1, first, -1.0)
        assert not wrong(backward(**call, probe=False))
        assert wrong(backward(**call)) == {"grad_weight": "probe"}


# -- what is not probed, and how large the numbers of a probe are -----------------------------------------------------------
