"""The forward convolution against torch: every rank, transposed or not, groups, dtypes, chips, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import ascend_sim
from ascend_sim import AclnnError, SimError, TensorSpec, cli, convolution
from ascend_sim.calls import run as calls
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.studies.explain.page import explain_html
from ascend_sim.studies.explain.run import explain
from ascend_sim.studies.explain.text import explain_page
from tests.support.ops.forward_calls import COUPLED, SPLIT, TYPES, Array, Forward
from tests.support.sampling import sampled

torch = pytest.importorskip("torch")


@st.composite
def forwards(draw: st.DrawFn, most_rank: int = 3) -> Forward:
    rank = draw(st.integers(1, most_rank))
    transposed = draw(st.booleans())

    def axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    stride, dilation, k = axis(1, 3), axis(1, 2), axis(1, 3)
    extra = tuple(draw(st.integers(0, max(s, d) - 1)) if transposed else 0 for s, d in zip(stride, dilation, strict=True))
    one = Forward(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 20)),
        draw(st.integers(1, 20)),
        axis(1, 9),
        k,
        stride,
        axis(0, 2),
        dilation,
        transposed,
        extra,
        draw(st.sampled_from((1, 1, 2, 3))),
        draw(st.booleans()),
    )
    try:
        one.wanted(one.operands("float32"), "float32", SPLIT[0])
    except RuntimeError:  # torch: nothing fits
        assume(False)
    return one


@sampled(8, 25)
@given(one=forwards(), dtype=st.sampled_from(sorted(TYPES)), chip=st.sampled_from(SPLIT), kind=st.integers(0, 3))
def test_split_chips_give_what_torch_gives(one: Forward, dtype: str, chip: str, kind: int) -> None:
    one.check(dtype, chip, cube_math_type=kind if dtype != "bfloat16" else 0)


@sampled(5, 15)
@given(one=forwards(most_rank=2), dtype=st.sampled_from(("float16", "float32")), chip=st.sampled_from(COUPLED))
def test_coupled_chips_give_what_torch_gives(one: Forward, dtype: str, chip: str) -> None:
    one.check(dtype, chip, cube_math_type=1 if dtype == "float32" else 0)


def test_a_dilated_depth() -> None:
    """Planes of the kernel that lie two apart, with padding before the first."""
    Forward(1, 16, 16, (7, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1), (2, 1, 1)).check("float16", "ascend910b3")


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend950pr_9589"])
@pytest.mark.parametrize("c_out", [5, 16])
def test_a_large_map_of_few_channels_fits_l0a(chip: str, c_out: int) -> None:
    """L0C would hold more pixels a tile than half of L0A does, even with the shortest K."""
    Forward(1, 16, c_out, (56, 56), (3, 3), (1, 1), (1, 1), (1, 1)).check("float16", chip)


PLAIN = Forward(2, 20, 24, (9, 8), (3, 2), (2, 1), (1, 1), (1, 2))
TURNED = replace(PLAIN, transposed=True, output_padding=(1, 0))
DEEP = Forward(1, 16, 20, (5, 7, 6), (3, 2, 3), (1, 2, 2), (1, 0, 1), (1, 1, 1), groups=2)

GROUPED = Forward(1, 64, 80, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1), groups=2)
"""Groups that fill blocks of channels are not merged: each has a bias of its own."""


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
@pytest.mark.parametrize("one", [PLAIN, TURNED, DEEP, GROUPED], ids=["plain", "transposed", "3-D", "groups"])
def test_with_time(one: Forward, chip: str) -> None:
    """Full mode: no findings, the bits of functional mode, and each kernel with its time."""
    if one is DEEP and chip in COUPLED:
        pytest.skip("no 3-D there")
    one.check("float16", chip, mode="full")
    result = convolution(*one.operands("float16"), *one.attributes, chip=chip)
    kernels = result.report.kernels
    assert ([row["name"] for row in kernels][-1] == "BiasAdd_output") is not one.rounds_once(chip)
    assert all(row["task_us"] > 0 for row in kernels)
    assert result.report.problem["macs"] == {"output": result.call.problem.macs}  # type: ignore[union-attr]


@pytest.mark.parametrize(("size", "strip"), [((32, 224), None), ((32, 512), 16)], ids=["whole rows", "strips"])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_patches_whose_loads_fill_l1_come_one_after_the_other(chip: str, size: tuple[int, int], strip: int | None) -> None:
    """A vision transformer's 16 x 16 patches: what 16 pixels need fits L1 once, not twice."""
    one = Forward(1, 20, 20, size, (16, 16), (16, 16), (0, 0), (1, 1), bias=False)
    one.check("float16", chip, mode="full")
    result = convolution(*one.operands("float16"), *one.attributes, chip=chip, mode="timing")
    plain = convolution(*PLAIN.operands("float16"), *PLAIN.attributes, mode="timing")
    own, other = (next(row for row in run.report.kernels if row["name"] == "output") for run in (result, plain))
    assert (own["tiling"]["l1Buffers"], own["tiling"].get("splitWo")) == (1, strip)
    assert "baseM" in other["tiling"] and "l1Buffers" not in other["tiling"]
    with pytest.raises(AclnnError, match="L1: the rows for 16 output pixels"):
        one = Forward(1, 16, 16, (40, 40), (40, 40), (40, 40), (0, 0), (1, 1))
        convolution(*one.operands("float16"), *one.attributes, chip=chip, mode="timing")


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_numbers_that_are_not_whole_are_within_the_bound(dtype: str) -> None:
    """The report's verdict, and torch in float64 within the roundings of the result and of the sum before the bias."""
    rng = np.random.default_rng(1)
    for one in (PLAIN, TURNED):
        x, weight, bias = (rng.standard_normal(shape).astype(TYPES[dtype]) for shape in one.shapes)
        result = convolution(x, weight, bias, *one.attributes, mode="functional")
        wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, weight, bias)]
        exact = torch.ops.aten.convolution(*wide, *one.attributes).numpy()
        sizes = torch.ops.aten.convolution(*(abs(a) for a in wide), *one.attributes).numpy()
        assert result.report.passed
        half = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[dtype]
        spread = np.abs(bias.astype(np.float64)).reshape(1, -1, 1, 1)
        bound = half * (2 * np.abs(exact) + spread) * (1 + half) + 2.0**-20 * sizes
        assert (np.abs(result.outputs["output"].astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("dtypes", ["hifloat8", "float8_e4m3fn"])
@pytest.mark.parametrize("transposed", [False, True])
def test_eight_bits(dtypes: str, transposed: bool) -> None:
    """Ones and zeros count the taps that a pixel meets: at most eight of them, which both formats hold exactly."""
    from ascend_sim.numerics import decode, encode

    rng = np.random.default_rng(0)
    x = (np.arange(64).reshape(2, 1, 32)[:, :, :, None] % 8 == 0).astype(np.float32) * np.ones((1, 32, 1, 4), np.float32)
    weight = rng.integers(0, 2, (32, 32, 1, 2)).astype(np.float32) * (rng.random((32, 32, 1, 1)) < 0.1)
    attributes = ((1, 1), (0, 0), (1, 1), transposed, (0, 0), 1)
    result = convolution(
        encode(x, dtypes),
        encode(weight.astype(np.float32), dtypes),
        None,
        *attributes,
        dtypes=dtypes,
        chip="ascend950pr_9589",
        mode="functional",
    )
    exact = torch.ops.aten.convolution(torch.from_numpy(x), torch.from_numpy(weight.astype(np.float32)), None, *attributes)
    small = exact.numpy() <= 8
    assert result.report.passed and small.mean() > 0.5
    found = decode(result.outputs["output"], dtypes)
    np.testing.assert_array_equal(found[small], exact.numpy()[small])


def test_strided_views_and_an_empty_batch() -> None:
    x, weight, bias = PLAIN.operands("float16")
    assert x is not None and weight is not None and bias is not None
    plain = convolution(x, weight, bias, *PLAIN.attributes, mode="functional").outputs["output"]
    views = [np.ascontiguousarray(a.T).T for a in (x, weight)]
    wide = np.repeat(bias, 2)[::2]
    seen = convolution(*views, wide, *PLAIN.attributes, mode="functional").outputs["output"]
    np.testing.assert_array_equal(plain, seen)
    nothing = convolution(x[:0], weight, bias, *PLAIN.attributes)
    assert nothing.outputs["output"].shape == (0, *plain.shape[1:])
    assert nothing.report.passed and nothing.report.kernels == ()


def test_timing_needs_no_values() -> None:
    specs = [TensorSpec(shape, "float16") for shape in PLAIN.shapes]
    timed = convolution(*specs, *PLAIN.attributes, mode="timing")
    full = convolution(*PLAIN.operands("float16"), *PLAIN.attributes)
    assert timed.outputs == {} and timed.report.total_us == full.report.total_us


# -- refusals ----------------------------------------------------------------------------------------------------------

F16, F32, B16 = (np.dtype(t) for t in (np.float16, np.float32, ml_dtypes.bfloat16))


def call(x: Any = (2, 4, 6, 6), weight: Any = (8, 4, 3, 3), bias: Any = (8,), dtypes: Any = (F16,) * 3, **changed: Any) -> Any:
    options = {
        "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "transposed": False, "output_padding": (0, 0), "groups": 1,
    } | changed  # fmt: skip
    shapes = (x, weight, bias)
    tensors = [None if s is None else TensorSpec(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    return convolution(*tensors, **options, mode="timing")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtypes": (F16, F32, F16)}, "weight has dtype 'float32': it must be that of input, float16"),
        ({"dtypes": (np.dtype(np.float64),) * 3}, "input has dtype 'float64': allowed are float32, float16, bfloat16"),
        ({"weight": (8, 4, 3)}, "weight has rank 3: input has 4"),
        ({"x": (2, 4), "weight": (8, 4)}, "input has rank 2: allowed on 910B are"),
        ({"stride": (1, 1, 1)}, "stride = [1, 1, 1]: rank 4 needs 2 values"),
        ({"padding": (1, 1, 1)}, "padding = [1, 1, 1]: rank 4 needs 2 or 4 values"),
        ({"stride": (0, 1)}, "stride = [0, 1]: every value must be at least 1"),
        ({"stride": (64, 1)}, "stride holds 64"),
        ({"groups": 0}, "groups = 0: it must be at least 1"),
        ({"groups": 3}, "weight dimension 0 is 8: it must be a multiple of groups = 3"),
        ({"weight": (8, 5, 3, 3)}, "input has 4 channels: groups * weight dimension 1 = 1 * 5"),
        ({"transposed": True}, "input has 4 channels: weight dimension 0 is 8"),
        ({"output_padding": (1, 0)}, "outputPadding = [1, 0]: it must be 0 unless transposed"),
        ({"x": (2, 8, 6, 6), "bias": (4,), "transposed": True, "output_padding": (0, 1)}, "it must be below stride or"),
        ({"weight": (8, 4, 7, 3)}, "output would have shape [2, 8, 0, 4]: the dilated kernel does not fit"),
        ({"bias": (9,)}, "bias has shape [9]: it must be [8], the output channels"),
        ({"x": (2, 0, 6, 6), "weight": (8, 0, 3, 3)}, "every dimension but the batch must be at least 1"),
        ({"dtypes": (B16,) * 3, "cube_math_type": 2}, "cubeMathType = 2 with bfloat16 inputs on 910B: not supported"),
        ({"cube_math_type": 7}, "cubeMathType = 7"),
        ({"chip": "ascend310p3", "dtypes": (F32,) * 3}, "the cube of 310P and 910 has no FLOAT"),
        ({"chip": "ascend910a", "x": (1, 4, 3, 6, 6), "weight": (8, 4, 1, 1, 1), "stride": 1, "padding": 0, "dilation": 1,
          "output_padding": 0}, "input has rank 5: allowed on 910 are [3, 4]"),
        ({"chip": "ascend950pr_9589", "dtypes": ("hifloat8",) * 3}, "it must be null with 8-bit tensors"),
    ],
)  # fmt: skip
def test_refused_calls_say_why(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(AclnnError) as caught:
        call(**changes)
    assert caught.value.status == 161002 and words in caught.value.message


def test_what_the_simulator_cannot_take() -> None:
    tiling = {"output": {"baseM": 64}}
    with pytest.raises(SimError, match="tiling of output: the kernel of a convolution that is not transposed has no fields"):
        call(tiling=tiling)
    with pytest.raises(SimError, match="block_dim of output"):
        call(block_dim=4)
    with pytest.raises(SimError, match="no cube kernel 'grad_input'; allowed are output"):
        call(tiling={"grad_input": {}})
    with pytest.raises(SimError, match="bias must be a numpy array, a PyTorch tensor or a TensorSpec, not int"):
        convolution(*PLAIN.operands("float16")[:2], 3, *PLAIN.attributes)
    turned = {"x": (2, 8, 6, 6), "bias": (4,), "transposed": True}
    cut = call(**turned, tiling={"output": {"baseM": 32}}, block_dim=2)
    row = next(row for row in cut.report.kernels if row["name"] == "output")
    assert (row["tiling"]["baseM"], row["block_dim"]) == (32, 2)


# -- planted errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [PLAIN, TURNED], ids=["plain", "transposed"])
@pytest.mark.parametrize("tensor", [0, 1, 2], ids=["input", "weight", "bias"])
def test_a_dropped_channel_is_found(one: Forward, tensor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device gets a tensor with a channel of zeros; the verdict knows the caller's."""
    original = calls.flat_storage
    own = one.operands("float16")

    def wrong(array: Array) -> Any:
        if array is own[tensor]:
            array = array.copy()
            array[3 if array.ndim == 1 else (slice(None), 3)] = 0
        return original(array)

    monkeypatch.setattr(calls, "flat_storage", wrong)
    figures = convolution(*own, *one.attributes, mode="functional").report.outputs["output"]
    assert not figures["correct"] and figures["wrong"] > 0


def test_a_bias_that_is_added_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = calls.output_of

    def wrong(call: Any, allocation: Any, name: str) -> Array:
        return original(call, allocation, name) + own[2].reshape(1, -1, 1, 1)  # type: ignore[no-any-return, union-attr]

    own = PLAIN.operands("float16")
    monkeypatch.setattr(calls, "output_of", wrong)
    assert not convolution(*own, *PLAIN.attributes, mode="functional").report.passed


# -- the rest of the house ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forward_2d", "forward_transposed"])
def test_an_element_is_followed_to_the_callers_numbers(name: str) -> None:
    case = load_case(name)
    shape = case.results["output"][0]
    for index in [(0, 0, 0, 0), tuple(size // 2 for size in shape), tuple(size - 1 for size in shape)]:
        found = explain(case, element=index)
        assert found.agrees and found.tensor == "output"
        assert found.value == float(found.result.outputs["output"][index])
        assert abs(found.value - found.reference) < 0.02
    text = explain_page(found)
    assert ("+ bias[co]" in text) == ("bias" in case.tensors) and "output[n, co, h, w] = sum over ci" in text
    assert "<html" in explain_html(found)
    with pytest.raises(SimError, match="convolution has no weight to follow; it has element"):
        explain(case, weight=(0, 0, 0, 0))


def test_a_case_is_the_call() -> None:
    case = load_case("forward_2d")
    tensors = make_tensors(case)
    result = ascend_sim.convolution(
        tensors["input"], tensors["weight"], tensors["bias"], (2, 2), (1, 1), (1, 1), False, (0, 0), 1, mode="functional"
    )
    exact = torch.nn.functional.conv2d(
        *(torch.from_numpy(tensors[name].astype(np.float64)) for name in ("input", "weight", "bias")), stride=2, padding=1
    ).numpy()
    assert np.abs(result.outputs["output"] - exact).max() < 0.05


def test_every_precision() -> None:
    table = ascend_sim.precision("forward_2d", chips=["ascend910b3", "ascend310p3"], dtypes=["float16", "float32"])
    assert table.passed
    ran = {(row.chip, row.dtype, row.cube_math_type): row for row in table.rows if row.outputs}
    assert {key[:2] for key in ran} == {(c, d) for c in ("ascend910b3", "ascend310p3") for d in ("float16", "float32")}
    assert all(set(row.outputs) == {"output"} and set(row.operands) == {"input", "weight"} for row in ran.values())
    kept, cut = (ran["ascend910b3", "float32", kind].outputs["output"] for kind in (0, 2))
    assert kept["effective_bits"] > cut["effective_bits"] + 8


def test_the_command_line(tmp_path: Path) -> None:
    def command(*arguments: object) -> str:
        done = CliRunner().invoke(cli.app, [str(one) for one in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "Outputs against float64" in command("run", "forward_transposed", "--full", "--out", tmp_path / "out")
    with np.load(tmp_path / "out" / "outputs.npz") as found:
        assert found["output"].shape == (1, 16, 28, 28)
    network = tmp_path / "two.yaml"
    network.write_text(
        "defaults: {dtype: float16}\nlayers:\n  - {name: one, input: [1, 16, 8, 8], weight: [32, 16, 3, 3], padding: 1}\n"
        "  - {name: two, input: [1, 16, 8, 8], weight: [32, 16, 3, 3], stride: 2, bias: false}\n"
    )
    told = json.loads(command("run-network", network, "--batch", 1, "--forward", "--json", "--jobs", 1))
    times = [layer["us"] for layer in told["layers"]]
    assert all(set(one) == {"output", "bias", "layout", "total"} and one["output"] > 0 for one in times)
    assert times[0]["bias"] == times[1]["bias"] == 0  # the cube adds it
    text = command("explain-status", "forward_2d", "--cube-math-type", 0)
    assert "shape.output" in text and "plan" in text
