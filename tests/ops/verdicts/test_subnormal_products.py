"""Data whose products fall below float32's normal range: a right machine is right at any scale, a wrong one is not."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import ascend_sim
from ascend_sim.isa.cube import Mmad
from ascend_sim.numerics import cast
from tests.support.ops.faults import Faulty, first, wrong
from tests.support.sampling import part_of_cases

SCALES = (1e-18, 1e-20, 1e-21, 1e-22, 3e-23)  # of both operands: products from normal ones to a few quanta of 2^-149
B3, PLAIN = {"chip": "ascend910b3"}, {"chip": "ascend950pr_9589"}


def draw(scale, *shapes, dtype=np.float32, constant=False, seed=0):
    rng = np.random.default_rng(seed)
    return [(np.ones(one) if constant else rng.standard_normal(one)).astype(dtype) * dtype(scale) for one in shapes]


def backward(scale, *, dtype=np.float32, constant=False, groups=1, kernel=3, channels=16, chip="ascend910b3", **options):
    shape, out = (2, channels, 8, 8), (2, 16, 8, 8)
    g, x, w = draw(scale, out, shape, (16, channels // groups, kernel, kernel), dtype=dtype, constant=constant)
    given = {"mode": "functional", "probe": False} | options
    side = [kernel // 2] * 2
    return ascend_sim.convolution_backward(
        g, x, w, [16], [1, 1], side, [1, 1], False, [0, 0], groups, [True] * 3, chip=chip, **given
    )


CALLS = {
    "plain": {},
    "constant": {"constant": True},  # each product loses the same digits
    "hf32": {"cube_math_type": 3},
    "hf32 950": {"cube_math_type": 3} | PLAIN,
    "950": PLAIN,
    "bfloat16": {"dtype": bfloat16},
    "grouped": {"groups": 4},
    "one tap": {"kernel": 1},  # matrix products
    "chunk": {"accumulate": "chunk"},
    "exact_group": {"accumulate": "exact_group"},
    "deterministic": {"deterministic": True},
    "with time": {"mode": "full"},
}


@part_of_cases(5)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", CALLS)
def test_a_right_machine_is_right(name, scale):
    outputs = backward(scale, **CALLS[name]).report.outputs
    assert {key: figures["correct"] for key, figures in outputs.items()} == dict.fromkeys(outputs, True)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("biased", [False, True])
def test_forward(scale, biased):
    """A bias of the size of the sums, which may cancel them."""
    x, w, bias = draw(scale, (2, 16, 8, 8), (16, 16, 3, 3), (16,))
    given = bias * np.float32(scale) * 12 if biased else None
    run = ascend_sim.convolution(x, w, given, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mode="functional", probe=False, **B3)
    assert not wrong(run)


@pytest.mark.parametrize("scale", SCALES)
def test_tbc(scale):
    g, x, w, bias = draw(scale, (8, 2, 16), (8, 2, 16), (3, 16, 16), (16,))
    assert not wrong(ascend_sim.conv_tbc_backward(g, x, w, bias, 1, mode="functional", probe=False, **B3))


def test_the_sum_of_subnormals_has_no_margin():
    """gradBias adds multiples of 2^-149, which float32 does without an error."""
    g = (np.random.default_rng(1).integers(-9, 10, (2, 16, 8, 8)) * 2.0**-149).astype(np.float32)
    x, w = draw(1.0, (2, 16, 8, 8), (16, 16, 3, 3))
    arguments = (g, x, w, [16], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, False, True])
    run = ascend_sim.convolution_backward(*arguments, mode="functional", probe=False, **B3)
    assert run.report.outputs["grad_bias"]["max_abs_error"] == 0
    assert run.report.outputs["grad_bias"]["may_lose"] < 1


@part_of_cases(3)
@pytest.mark.parametrize("scale", [1e-18, 1e-20, 1e-21, 1e-22])
@pytest.mark.parametrize("fault", ["missing tap", "wrong channel", "lost Mmad"])
def test_planted_mistakes_fail(monkeypatch, fault, scale):
    """The bound alone finds them: no probe."""
    read, count = Mmad.read, [0]

    def spoiled(mmad, memory, dst, src0, src1):
        count[0] += 1
        left, right, start = read(mmad, memory, dst, src0, src1)  # factors, which are added up at the retirement
        assert start is None
        if fault == "lost Mmad" and count[0] % 3 == 0:
            return np.zeros_like(left), right, None
        if fault == "missing tap":
            left = left.copy()
            left[:, :16] = 0  # one tap of 16 channels
        return left, np.roll(right, 1, axis=0) if fault == "wrong channel" else right, start

    monkeypatch.setattr(Mmad, "read", spoiled)
    assert set(wrong(backward(scale, engine="simpy"))) & {"grad_input", "grad_weight"}


def test_the_probe_finds_a_single_product(monkeypatch):
    """A quantum more or less is nothing on these data, so the call is probed of itself, and one lost product found."""
    Faulty(monkeypatch, 0, first, -1)
    found = wrong(backward(1e-22, engine="simpy", probe=None))
    assert found and set(found.values()) == {"probe"}


def test_a_kernel_of_ones_own():
    """`Expected.product` has the same term, in the precision that it names."""

    @ascend_sim.kernel_function(core="AIV")
    def dot(k, x, y, out):
        rows = [k.local_tensor(64, "float16", name) for name in ("a", "b", "c")]
        for tensor, local in ((x, rows[0]), (y, rows[1])):
            k.gm_to_ub(local, tensor)
        loaded = k.flag("MTE2", "V", "loaded")
        k.set_flag(loaded)
        k.wait_flag(loaded)
        k.mul(rows[2], rows[0], rows[1])
        done = k.flag("V", "MTE3", "done")
        k.set_flag(done)
        k.wait_flag(done)
        k.ub_to_gm(out, rows[2])

    x, y = (cast(one * 2.0**-12, "float16") for one in draw(1.0, (64,), (64,), dtype=np.float64))
    exact = x.astype(np.float64) * y.astype(np.float64)
    for error, right in ((0.0, True), (2.0**-23, False)):
        wanted = ascend_sim.Expected(exact + error, np.abs(exact), 1, "float16")
        run = ascend_sim.launch(dot, 1, x, y, ascend_sim.empty(64, "float16"), expected=wanted, **B3)
        assert run.report.outputs["out"]["correct"] is right
