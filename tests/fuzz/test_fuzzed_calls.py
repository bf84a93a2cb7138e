"""tools/fuzz: samples of its three kinds of calls are right, and mistakes that are planted in the simulator are found."""

from __future__ import annotations

import json
import random
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

import ascend_sim
from ascend_sim import AclnnError, acl
from ascend_sim.acl import state
from ascend_sim.calls import run as running
from ascend_sim.engine.compiled import library
from tests.support.places import DATA
from tests.support.sampling import as_part, part_of_cases, sample

torch = pytest.importorskip("torch")
COUNTS = {"phase-one": (500, 100_000), "calls": (25, 3000), "acl": (6, 500)}
SEED = 7


@pytest.fixture
def tally(fuzzing):
    """Makes calls of a kind and counts them."""

    def count(name, calls, seed=SEED):
        command, pool, store = (fuzzing(part) for part in ("__main__", "pool", "store"))
        kind = command.KINDS[name]
        found = store.Tally(name, seed, kind.LABELS)
        pool.run(kind, seed, found.missing(calls, command.BLOCK), 2, lambda *told: found.add(*told))
        return found

    return count


@part_of_cases(3)
@as_part
@pytest.mark.parametrize("kind", COUNTS)
def test_every_call_ends_in_a_status_or_the_right_result(tally, kind):
    count = sample(*COUNTS[kind])
    found = tally(kind, count)
    assert found.wrong == []
    assert found.done == [[0, count]] and found.calls == count
    if kind == "phase-one":
        assert set(found.by("status")) >= {"0", "161001", "161002"}  # neither all good nor all bad
    if kind == "calls":
        assert found.by("ended in")["0"] > count / 2
        assert set(found.by("operator")) == {"convolution_backward", "conv_tbc_backward", "convolution"}
    if kind == "acl":
        assert set(found.by("results")) - {"0 right"}


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_derivatives_are_torchs(fuzzing, axes, transposed):
    """Forward and both gradients of problems as they are drawn, in whole numbers."""
    drawing = fuzzing("drawing")
    for seed in range(12):
        sizes = drawing._Draw(random.Random(f"{axes}{seed}")).sizes((axes,))
        if sizes.high != sizes.link.low:
            continue
        rng = np.random.default_rng(seed)
        x, y, w = (rng.integers(-3, 4, shape) for shape in (sizes.x, sizes.y, sizes.w))
        over = sizes.rest if transposed else (0,) * axes
        where = (sizes.link.stride, sizes.link.low, sizes.link.dilation, transposed, over, sizes.link.groups)
        given, gradient = (y, x) if transposed else (x, y)
        ours = {by: sizes.link.derivative(by, x, y, w) for by in "xyw"}
        wide = [torch.from_numpy(part.astype(np.float64)) for part in (gradient, given, w)]
        backward = torch.ops.aten.convolution_backward(*wide, None, *where, [True, True, False])
        np.testing.assert_array_equal(ours["y" if transposed else "x"], backward[0])
        np.testing.assert_array_equal(ours["w"], backward[1])
        forward = torch.ops.aten.convolution(*wide[1:], None, *where)
        np.testing.assert_array_equal(ours["x" if transposed else "y"], forward)


def test_rounding_to_eight_bits_is_the_vendors_and_torchs(fuzzing):
    oracle = fuzzing("oracle")
    rows = json.loads((DATA / "hifloat8_encode_cases.json").read_text())["cases"]
    with np.errstate(invalid="ignore"):
        values = np.array([row[0] for row in rows], np.uint32).view(np.float32).astype(np.float64)
    codes = np.array([row[1] for row in rows])
    within = np.isfinite(values) & (np.abs(values) < 2.0**15)
    assert within.sum() > 100
    expected = oracle.hifloat8_values()[codes[within]]
    np.testing.assert_array_equal(oracle.rounded(values[within], "hifloat8"), expected)
    values = np.random.default_rng(0).standard_normal(1000) * 50
    theirs = torch.from_numpy(values).float().to(torch.float8_e4m3fn).double().numpy()
    np.testing.assert_array_equal(oracle.rounded(values, "float8_e4m3fn"), theirs)


# -- planted mistakes --------------------------------------------------------------------------------------------------


def first(fuzzing, **wanted):
    """The first drawn call that ends in 0 and has these fields."""
    calls = fuzzing("calls")
    for index in range(3000):
        call = calls.draw(SEED, index)
        if all(getattr(call, name) == value for name, value in wanted.items()) and call.option("mode") != "timing":
            outcome = calls.judge(call)
            if outcome.labels[-1] == "0":
                assert outcome.wrong is None
                return calls, call
    raise AssertionError("no such call")


@pytest.mark.parametrize("operator", ["convolution_backward", "conv_tbc_backward", "convolution"])
@pytest.mark.parametrize("data", ["integers", "normal"])
def test_one_wrong_element_is_found(fuzzing, monkeypatch, operator, data):
    calls, call = first(fuzzing, operator=operator, data=data)
    original = running.output_of

    def wrong(*arguments):
        array = original(*arguments)
        array.flat[-1] += 3
        return array

    monkeypatch.setattr(running, "output_of", wrong)
    assert calls.judge(call).wrong


def test_an_eight_bit_code_beside_the_right_one_is_found(fuzzing, monkeypatch):
    calls, call = first(fuzzing, dtype="hifloat8", operator="convolution")
    original = running.output_of

    def wrong(*arguments):
        array = np.array(original(*arguments))
        array.flat[0] ^= 1
        return array

    monkeypatch.setattr(running, "output_of", wrong)
    assert "1 of" in calls.judge(call).wrong


def test_eight_bits_of_operands_that_were_narrowed(fuzzing):
    """Beside the middle of two hifloat8 numbers, float32 operands in HF32 can go the other way; those of float16 cannot."""
    calls, call = first(fuzzing, dtype="float32", operator="conv_tbc_backward", data="normal")
    for dtype, math_type, slack in (("float32", "0", 2**-15), ("float32", "1", 2**-10), ("float16", "0", 2**-15)):
        drawn = replace(call, dtype=dtype, options=call.options | {"cube_math_type": math_type})
        allowed = float(calls._slack(drawn, np.array(1.0)))
        assert slack <= allowed < 1.1 * slack, (dtype, math_type)
    whole = replace(call, data="integers")
    assert list(calls._slack(whole, np.array([2.0**11, 2.0**30])) > 0) == [False, True]


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
def test_engines_that_differ_are_found(fuzzing, monkeypatch):
    calls, call = first(fuzzing, both=True)
    original = getattr(ascend_sim, call.operator)

    def wrong(**given):
        result = original(**given)
        if given["engine"] == "simpy" and result.timeline is not None:
            result.timeline.programs[-1].stall[-1] += 1
        return result

    monkeypatch.setattr(ascend_sim, call.operator, wrong)
    options = call.options | {"engine": "'compiled'", "timeline": "True"}
    assert "stall of program" in calls.judge(replace(call, options=options)).wrong


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (AclnnError(561000, "inner"), "status 561000: inner"),
        (AclnnError(161002, ""), "status 161002: "),
        (ascend_sim.SimError("no"), "SimError: no"),
    ],
)
def test_what_is_raised_and_should_not_be(fuzzing, monkeypatch, error, said):
    calls, call = first(fuzzing, operator="convolution", data="integers")

    def raises(**arguments):
        raise error

    monkeypatch.setattr(ascend_sim, call.operator, raises)
    assert calls.judge(call).wrong == said


def test_the_line_of_a_call_makes_it_again(fuzzing, capsys):
    """It is one command of a shell, and its Python runs."""
    calls, call = first(fuzzing, operator="convolution_backward", data="special")
    command, switch, text = shlex.split(calls.shell(call))
    assert (command, switch) == ("python", "-c")
    exec(text, {})
    assert call.option("chip") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("aclrtFree", lambda *_: 0, "refused was expected"),
        ("aclrtFree", lambda *_: 12345, "which is no code"),
        ("aclrtSynchronizeStream", lambda *_: acl.ACL_ERROR_INTERNAL_ERROR, "aclrtSynchronizeStream ends in 500000"),
        ("aclnnConvolutionBackward", lambda *_: 0, "refused was expected|elements wrong"),
    ],
)
def test_misuse_that_passes_is_found(fuzzing, monkeypatch, name, answer, said):
    """The function no longer looks at what it is given."""
    programs = fuzzing("acl_programs")
    monkeypatch.setattr(acl, name, answer)
    try:
        told = (programs.run(SEED, index).wrong or "" for index in range(40))
        assert any(re.search(said, text) for text in told)
    finally:
        state.PROCESS.__init__()
