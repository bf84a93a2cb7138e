"""Gradients against `torch.ops.aten.convolution_backward` in float64, and errors planted on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from ascend_sim import AclnnError, Result
from ascend_sim.isa import load
from ascend_sim.ops.kernels.grad_input import program as grad_input
from tests.support.ops.conv_problems import (
    ALL,
    BACKWARD,
    DTYPES,
    GRADIENTS,
    LAYOUTS,
    NAMES,
    CallAttributes,
    Mask,
    compute_dtype,
    laid_out,
    operands,
    problems,
    same_bits,
    worst_error_over_bound,
)
from tests.support.sampling import part_of_cases

pytest.importorskip("torch")

NUMBERS = st.integers(0, 2**31)
MASKS = st.tuples(*[st.sampled_from([True, True, False])] * 3)
MIXED = ("float16", "bfloat16", "float32")


def roundings(problem: CallAttributes, dtypes: tuple[str, ...], compute: str, conformance: str) -> dict[str, list[str]]:
    """Formats that each gradient passes through after its fp32 sum."""
    stored = "float32" if compute == "hf32" else compute
    narrow = conformance == "library" and problem.groups > 1 and stored != "float32" and dtypes[2] == "float32"
    return {
        "grad_input": [stored] if stored == dtypes[1] else [stored, dtypes[1]],
        "grad_weight": ["float16", "float32"] if narrow else [dtypes[2]],
        "grad_bias": [dtypes[0]],
    }


def check(result: Result, problem: CallAttributes, own: dict[str, Any], conformance: str, cube_math_type: int) -> None:
    """Correct by the report and by torch, in the caller's shapes and dtypes, with nothing found."""
    report = result.report.to_dict(statements=False)
    assert report["findings"] == []
    dtypes = tuple(array.dtype.name for array in own.values())
    compute = compute_dtype(dtypes, cube_math_type, conformance)
    assert compute is not None and report["problem"]["compute_dtype"] == compute
    for name, gradient in result.outputs.items():
        source = {"grad_input": "input", "grad_weight": "weight", "grad_bias": "grad_output"}[name]
        shape = (problem.c_out,) if name == "grad_bias" else problem.shapes[source]
        assert gradient.shape == shape and gradient.dtype == own[source].dtype == DTYPES[result.dtypes[name]]
    formats = roundings(problem, dtypes, compute, conformance)
    worst = worst_error_over_bound(problem, result.outputs, own, compute, formats)
    assert all(ratio <= 1 for ratio in worst.values()), worst
    assert {name: figures["correct"] for name, figures in report["outputs"].items()} == dict.fromkeys(worst, True)
    assert result.report.passed


def check_in_both_modes(
    problem: CallAttributes, own: dict[str, Any], mask: Mask, conformance: str, cube_math_type: int, deterministic: bool
) -> None:
    results = {}
    for mode in ("full", "functional"):
        result = results[mode] = problem.run(
            own, mask, cube_math_type=cube_math_type, mode=mode, conformance=conformance, deterministic=deterministic
        )
        assert [name for name in GRADIENTS if name in result.outputs] == [
            name for name, wanted in zip(GRADIENTS, mask, strict=True) if wanted
        ]
        check(result, problem, own, conformance, cube_math_type)
    for name, gradient in results["full"].outputs.items():
        if name != "grad_weight" or deterministic:  # only atomic sums depend on the order of arrival
            assert same_bits(gradient, results["functional"].outputs[name]), name


CALLS = (problems(), st.sampled_from(sorted(DTYPES)), MASKS, st.booleans(), NUMBERS, st.data())
MIXED_CALLS = (
    problems(), st.tuples(*[st.sampled_from(MIXED)] * 3), st.integers(0, 3), st.booleans(), st.booleans(), NUMBERS,
)  # fmt: skip
# Problems are small and a run takes half a second: shrinking would cost minutes and gain little.
QUICK = settings(
    max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.too_slow]
)
LONG = settings(QUICK, max_examples=250)


def check_layouts(problem: CallAttributes, dtype: str, mask: Mask, deterministic: bool, seed: int, data: st.DataObject) -> None:
    values = operands(problem, dtype, seed)
    own = {name: laid_out(array, data.draw(st.sampled_from(LAYOUTS), name)) for name, array in values.items()}
    check_in_both_modes(problem, own, mask, "documented", 0, deterministic)


def check_mixed(
    problem: CallAttributes, dtypes: tuple[str, str, str], kind: int, library: bool, deterministic: bool, seed: int
) -> None:
    conformance = "library" if library else "documented"
    assume(not (library and problem.is_product))  # promotes other pairs: test_matmul_routes
    if compute_dtype(dtypes, kind, conformance) is None:
        kind = 0
    check_in_both_modes(problem, operands(problem, dtypes, seed), ALL, conformance, kind, deterministic)


@part_of_cases(3)
@pytest.mark.parametrize(
    "problem",
    [
        CallAttributes(2, 20, 24, (9, 11), stride=(3, 4)),  # gradOutput is spread out by a kernel of its own
        CallAttributes(2, 20, 24, (9, 11), (1, 1), (2, 3), (0, 0, 0, 0)),  # so is gradInput behind a 1x1 kernel
        CallAttributes(2, 20, 24, (9, 11), (1, 1), (2, 2), (3, 1, 0, 2)),
        CallAttributes(1, 16, 16, (5, 40), (1, 5), (1, 2), (0, 0, 5, 9)),  # outputs that see padding only
        CallAttributes(1, 3, 5, (1, 1), (4, 4), (4, 4), (3, 3, 3, 3), (2, 2)),
        CallAttributes(1, 18, 18, (6, 6), groups=18),
        CallAttributes(1, 51, 34, (6, 6), groups=17, stride=(2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_known_corners(problem: CallAttributes, dtype: str) -> None:
    check_in_both_modes(problem, operands(problem, dtype), ALL, "documented", 0, True)


@QUICK
@given(*CALLS)
def test_any_problem(
    problem: CallAttributes, dtype: str, mask: Mask, deterministic: bool, seed: int, data: st.DataObject
) -> None:
    check_layouts(problem, dtype, mask, deterministic, seed, data)


@settings(QUICK, max_examples=4)
@given(*MIXED_CALLS)
@example(CallAttributes(groups=2, c_in=4), MIXED, 2, True, False, 0)  # grad_weight goes through float16 in the library
def test_mixed_dtypes(
    problem: CallAttributes, dtypes: tuple[str, str, str], kind: int, library: bool, deterministic: bool, seed: int
) -> None:
    check_mixed(problem, dtypes, kind, library, deterministic, seed)


@pytest.mark.slow
@LONG
@given(*CALLS)
def test_many_problems(
    problem: CallAttributes, dtype: str, mask: Mask, deterministic: bool, seed: int, data: st.DataObject
) -> None:
    check_layouts(problem, dtype, mask, deterministic, seed, data)


@pytest.mark.slow
@LONG
@given(*MIXED_CALLS)
def test_many_mixed_dtypes(
    problem: CallAttributes, dtypes: tuple[str, str, str], kind: int, library: bool, deterministic: bool, seed: int
) -> None:
    check_mixed(problem, dtypes, kind, library, deterministic, seed)


SMALL = CallAttributes(1, 20, 24, (4, 6))


@part_of_cases(6)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("conformance", ["documented", "library"])
@pytest.mark.parametrize("kind", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_and_cube_math_type(dtype: str, kind: int, conformance: str, deterministic: bool) -> None:
    own = operands(SMALL, dtype, kind)
    if compute_dtype((dtype,) * 3, kind, conformance) is None:
        with pytest.raises(AclnnError) as refused:
            SMALL.run(own, cube_math_type=kind, conformance=conformance)
        assert refused.value.status == 161002
        return
    check_in_both_modes(SMALL, own, ALL, conformance, kind, deterministic)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(
    "problem",
    [
        CallAttributes(4, 128, 256, (28, 28), stride=(2, 2)),
        CallAttributes(2, 96, 80, (40, 130), (5, 5), pads=(2, 2, 2, 2)),
        CallAttributes(3, 256, 512, (14, 14), (1, 1), pads=(0, 0, 0, 0)),
        CallAttributes(1, 64, 64, (30, 30), (3, 3), (1, 1), (4, 4, 4, 4), (4, 4), 4),
        CallAttributes(1, 3, 64, (64, 64), (7, 7), (2, 2), (3, 3, 3, 3)),
        CallAttributes(1, 192, 192, (16, 16), groups=192),
    ],
)
def test_layers_of_real_networks(problem: CallAttributes, dtype: str) -> None:
    for deterministic in (False, True):
        check_in_both_modes(problem, operands(problem, dtype), ALL, "documented", 0, deterministic)


# -- planted errors ----------------------------------------------------------------------------------------------------

LAYER = CallAttributes(2, 64, 64, (14, 14))


def verdicts(problem: CallAttributes = LAYER, dtype: str = "float16", **options: Any) -> dict[str, bool]:
    result = problem.run(operands(problem, dtype), **options)
    report = result.report.to_dict(statements=False)
    assert result.report.passed == all(figures["correct"] for figures in report["outputs"].values())
    return {name: figures["correct"] for name, figures in report["outputs"].items()}


def test_nothing_is_wrong_without_a_planted_error() -> None:
    assert verdicts() == dict.fromkeys(GRADIENTS, True)


def test_a_wrong_tap_of_the_weights_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """grad_input takes tap 4 where tap 3 belongs."""
    original = grad_input._DataBuilder.load_right

    def wrong(self: Any, address: int, channel_block: int, tap: int, *rest: Any) -> None:
        original(self, address, channel_block, 4 if tap == 3 else tap, *rest)

    monkeypatch.setattr(grad_input._DataBuilder, "load_right", wrong)
    assert verdicts() == {"grad_input": False, "grad_weight": True, "grad_bias": True}


def test_a_wrong_tap_of_the_image_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One column of the img2col matrix, tap 4 of the first channels, holds what its left neighbour holds."""
    original = load._block_index

    def wrong(instruction: load.LoadData3D) -> Any:
        index, outside = original(instruction)
        if instruction.destination != "L0B" or instruction.k_h != 3 or instruction.k_start or instruction.blocks < 5:
            return index, outside
        index = index.reshape(instruction.rows, instruction.blocks).copy()
        zero = np.zeros(index.size, bool)
        zero[[] if outside is None else outside] = True
        zero = zero.reshape(index.shape)
        index[:, 4], zero[:, 4] = index[:, 3], zero[:, 3]
        return index.ravel(), np.flatnonzero(zero)

    monkeypatch.setattr(load, "_block_index", wrong)
    assert verdicts(mode="functional") == {"grad_input": True, "grad_weight": False, "grad_bias": True}


@part_of_cases(3)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize(("tensor", "spared"), [("grad_output", ()), ("input", ("grad_input", "grad_bias"))])
def test_a_dropped_channel_is_found(tensor: str, spared: tuple[str, ...], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device gets the tensor with channel 37 of 64 zero; the verdict knows the caller's values."""
    from ascend_sim.calls import run

    original = run.flat_storage

    def wrong(array: Any) -> Any:
        storage, strides, offset = original(array)
        if array.shape == LAYER.shapes[tensor] and array is own[tensor]:
            storage = storage.reshape(array.shape).copy()
            storage[:, 37] = 0
        return storage.reshape(-1), strides, offset

    own = operands(LAYER, dtype)
    monkeypatch.setattr(run, "flat_storage", wrong)
    report = LAYER.run(own, mode="functional").report.to_dict()
    assert {name: figures["correct"] for name, figures in report["outputs"].items()} == {
        name: name in spared for name in GRADIENTS
    }


@pytest.mark.parametrize("pads", [(0, 2, 1, 1), (1, 1, 0, 2), (2, 0, 1, 1), (1, 1, 2, 0)])
def test_a_pad_off_by_one_is_found(pads: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are planned for other paddings of the same sum than the caller's."""
    names = ("pad_up", "pad_down", "pad_left", "pad_right")
    original = type(BACKWARD).plan

    def wrong(operator: Any, call: Any, chip: Any) -> Any:
        moved = replace(call.problem, **dict(zip(names, pads, strict=True)))
        return original(operator, replace(call, problem=moved), chip)

    monkeypatch.setattr(type(BACKWARD), "plan", wrong)
    assert verdicts(mode="functional") == {"grad_input": False, "grad_weight": False, "grad_bias": True}


def test_one_wrong_element_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single element of each gradient four places of its last digit away from where it was."""
    from ascend_sim.calls import run

    original = run.output_of

    def wrong(call: Any, allocation: Any, name: str) -> Any:
        found = original(call, allocation, name)
        largest = np.unravel_index(np.abs(found.astype(np.float32)).argmax(), found.shape)
        found[largest] *= 1 + 2.0**-8
        return found

    monkeypatch.setattr(run, "output_of", wrong)
    result = LAYER.run(operands(LAYER), mode="functional").report.to_dict()["outputs"]
    assert all(not figures["correct"] and figures["wrong"] == 1 for figures in result.values())


def test_operands_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    own = operands(SMALL)
    before = {name: array.copy() for name, array in own.items()}
    SMALL.run(own)
    assert all(same_bits(own[name], before[name]) for name in NAMES)
