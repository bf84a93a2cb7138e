"""The Python face: what it takes and refuses, and what its report and timeline keep whatever else changes."""

from __future__ import annotations

import importlib.util
import inspect
import json
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ascend_sim
from ascend_sim import AclnnError, Result, SimError, TensorSpec, api, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import RowError
from ascend_sim.runtime import session
from tests.support.sampling import part_of_cases

Array = NDArray[Any]

SHAPES = ((2, 16, 8, 8), (2, 32, 8, 8), (16, 32, 3, 3))
PLAIN: tuple[Any, ...] = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True))


def arrays(dtype: Any = np.float16, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def specs(shapes: tuple[tuple[int, ...], ...] = SHAPES, dtype: str = "float16") -> list[TensorSpec]:
    return [TensorSpec(shape, dtype) for shape in shapes]


def run(tensors: Any = None, attributes: tuple[Any, ...] = PLAIN, **options: Any) -> Result:
    return convolution_backward(*(arrays() if tensors is None else tensors), *attributes, **options)


def timing(shapes: tuple[tuple[int, ...], ...] = SHAPES, attributes: tuple[Any, ...] = PLAIN, **options: Any) -> Result:
    return run(specs(shapes), attributes, mode="timing", **options)


def layer(n: int, c_in: int, c_out: int, size: int, kernel: int, stride: int, groups: int = 1) -> tuple[Any, Any]:
    """Shapes and attributes of a square layer that keeps the size, but for its stride."""
    pad = kernel // 2
    out = (size + 2 * pad - kernel) // stride + 1
    shapes = ((n, c_out, out, out), (n, c_in, size, size), (c_out, c_in // groups, kernel, kernel))
    return shapes, (None, (stride, stride), (pad, pad), (1, 1), False, (0, 0), groups, (True, True, True))


LAYERS = {
    "3x3": layer(2, 64, 64, 14, 3, 1),
    "stride 2": layer(2, 32, 48, 14, 3, 2),
    "stride 3": layer(1, 32, 48, 14, 3, 3),
    "1x1": layer(2, 128, 64, 14, 1, 1),
    "7x7 of 3 channels": layer(1, 3, 64, 28, 7, 2),
    "depthwise": layer(2, 48, 48, 28, 3, 1, 48),
}


# -- results -----------------------------------------------------------------------------------------------------------


def test_a_call_returns_gradients_and_a_report() -> None:
    result = run()
    assert [array.shape for array in result.outputs.values()] == [SHAPES[1], SHAPES[2], (16,)]
    assert result.dtypes == dict.fromkeys(("grad_input", "grad_weight", "grad_bias"), "float16")
    report = result.report.to_dict(statements=False)
    assert {"chip", "status", "total_us", "workspace_bytes", "kernels", "outputs"} <= set(report)
    wanted = {
        "op_type", "name", "core_type", "block_dim", "task_us", "core_us", "core_us_max", "start_us", "pipes_us",
        "cube_work_cycles", "counts", "tiling", "tiling_source", "dtypes", "formats",
    }  # fmt: skip
    assert all(wanted <= set(kernel) for kernel in report["kernels"])
    figures = {
        "shape", "dtype", "compute_dtype", "correct", "worst_error_over_bound", "max_abs_error", "vendor_matched_ratio",
    }  # fmt: skip
    assert all(figures <= set(gradient) for gradient in report["outputs"].values())
    assert all(gradient["correct"] for gradient in result.report.gradients.values())
    assert json.loads(json.dumps(report)) == report


@pytest.mark.parametrize("mode", ["full", "functional", "timing"])
def test_engines_give_the_same_report(mode: str) -> None:
    """Calls take the engine by name; on a machine without a C compiler both are the same one."""
    tensors = specs() if mode == "timing" else None
    simpy, best = (run(tensors, mode=mode, engine=engine).report.to_dict() for engine in ("simpy", "auto"))
    assert best == simpy


@pytest.mark.parametrize("name", ["convolution_backward", "conv_tbc_backward", "convolution"])
def test_every_argument_reaches_the_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its own name, whatever it is; and what may be left out is left out alike."""
    function = getattr(api, name)
    head = inspect.signature(function).parameters
    given = {argument: object() for argument in head}
    monkeypatch.setattr(api, "call_operator", lambda _, tensors, attributes, options: tensors | attributes | options)
    assert function(**given) == given
    required = [argument for argument, one in head.items() if one.default is one.empty]
    numbers = ("stride", "padding", "dilation", "output_padding")  # one for each axis of the weight, which has none here
    left_out = {name: [] if name in numbers else one.default for name, one in head.items() if name not in required}
    assert function(*(given[argument] for argument in required)) == {name: given[name] for name in required} | left_out


def test_masked_gradients_are_none() -> None:
    result = run(attributes=(*PLAIN[:-1], (False, True, False)))
    assert result.grad_input is None and result.grad_bias is None and result.grad_weight is not None
    assert list(result.outputs) == list(result.report.to_dict(statements=False)["outputs"]) == ["grad_weight"]


def test_single_numbers_stand_for_every_axis() -> None:
    listed, single = run(), run(attributes=(None, 1, 1, 1, False, 0, 1, (True, True, True)))
    assert all(np.array_equal(listed.outputs[name], single.outputs[name]) for name in listed.outputs)


def test_a_chip_may_be_a_name_a_file_or_a_spec(tmp_path: Any) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("extends: ascend910b1\nidentity: {soc: Mine}\n")
    assert [
        timing(chip=chip).report.to_dict(statements=False)["chip"] for chip in ("Ascend910B1", own, load_chip("ascend910b4"))
    ] == ["ascend910b1", "mine", "ascend910b4"]


def test_a_spec_of_numpy_dtypes_and_numpy_sizes() -> None:
    named = TensorSpec(tuple(np.array((2, 16, 8, 8))), ml_dtypes.bfloat16)
    assert named.shape == (2, 16, 8, 8) and all(type(size) is int for size in named.shape)
    result = run([named, *specs(SHAPES[1:], "bfloat16")], mode="timing")
    assert result.report.to_dict(statements=False)["problem"]["compute_dtype"] == "bfloat16"


@pytest.mark.parametrize("shape", [(2, True), (2.0,), ("2",), 4, None, "ab"])
def test_a_spec_has_whole_sizes(shape: Any) -> None:
    with pytest.raises(SimError, match="shape"):
        TensorSpec(shape, "float16")
    assert TensorSpec((0, 3), "float16").storage_size == 0


def test_a_call_refuses_negative_sizes() -> None:
    own = [TensorSpec((2, -3, 8, 8), "float16"), *specs(SHAPES[1:], "float16")]
    with pytest.raises(SimError, match=r"negative"):
        run(own, mode="timing")


def test_a_foreign_byte_order_is_refused() -> None:
    own = arrays()
    with pytest.raises(SimError, match=r"input has byte order '>f2'; allowed is the machine's own"):
        run([own[0], own[1].astype(">f2"), own[2]])


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "changes", "options", "error", "words"),
    [
        (arrays(np.float64), {}, {}, AclnnError, "float64"),
        (arrays(np.int8), {}, {}, AclnnError, "int8"),
        (None, {1: (0, 1)}, {}, AclnnError, "stride"),
        (None, {2: (1, 1, 1)}, {}, AclnnError, "padding"),
        (None, {6: 3}, {}, AclnnError, "groups"),
        (None, {0: [17]}, {}, AclnnError, "biasSizes"),
        (None, {7: (True,) * 4}, {}, AclnnError, "outputMask"),
        (None, {}, {"cube_math_type": 4}, AclnnError, "cubeMathType"),
        (arrays(ml_dtypes.bfloat16), {}, {"cube_math_type": 2}, AclnnError, "cubeMathType"),
        (arrays(shapes=((2, 16, 8, 9), *SHAPES[1:])), {}, {}, AclnnError, "gradOutput"),
        (None, {}, {"mode": "fast"}, SimError, "full, functional, timing"),
        (None, {}, {"l2": "hot"}, SimError, "cold, warm, step"),
        (None, {}, {"chip": "ascend910b33"}, SimError, "did you mean ascend910b3"),
        (None, {}, {"block_dim": 0}, SimError, "whole number from 1"),
        (None, {}, {"block_dim": True}, SimError, "block_dim True must be a whole number, or one per kernel"),
        (None, {1: (1.5, 1)}, {}, SimError, r"stride \[1.5, 1\] must be an integer, a list of integers"),
        (None, {1: (1, True)}, {}, SimError, r"stride \[1, True\] must be an integer, a list of integers"),
        (None, {2: "11"}, {}, SimError, "padding '11' must be an integer, a list of integers"),
        (None, {0: 16}, {}, SimError, "bias_sizes 16 must be a list of integers"),
        (None, {6: 1.0}, {}, SimError, "groups 1.0 must be an integer"),
        (None, {6: True}, {}, SimError, "groups True must be an integer"),
        (None, {}, {"disarm": {"grad_inputs": []}}, SimError, "no kernel 'grad_inputs'; this call has .*grad_input"),
        (
            None,
            {},
            {"disarm": {"grad_input": ["L2 full"]}},
            SimError,
            r"no flag 'L2 full' in grad_input; did you mean 'L0\[1\] full'\?; it has A1",
        ),
        (None, {}, {"block_dim": {"grad_bias": 4}}, SimError, "grad_input and grad_weight"),
        (None, {}, {"tiling": {"bias": {"baseM": 16}}}, SimError, "grad_input and grad_weight"),
        (None, {}, {"tiling": {"grad_input": {"baseQ": 16}}}, SimError, "baseQ.*allowed: baseM"),
        (None, {}, {"tiling": {"grad_input": {"baseM": 17}}}, SimError, "17 is not a multiple of 16"),
        (None, {}, {"conformance": "strict"}, SimError, "documented"),
        (None, {}, {"max_cycles": 10}, SimError, "still runs at the limit of 10"),
        (None, {}, {"engine": "fast"}, SimError, "^engine 'fast': allowed are auto, simpy, compiled$"),
        (None, {}, {"engine": 3}, SimError, "engine 3 must be a text or None"),
        (None, {}, {"observer": ()}, SimError, r"observer \[\] must be an object with the methods watch, started and retired"),
        (specs(), {}, {"mode": "full"}, SimError, "grad_output, input, weight is a TensorSpec"),
        ([[1.0]] * 3, {}, {}, SimError, "grad_output must be a numpy array"),
    ],
)
def test_a_bad_call_is_one_clear_line(
    tensors: Any, changes: dict[int, Any], options: dict[str, Any], error: type[SimError], words: str
) -> None:
    attributes = tuple(changes.get(index, value) for index, value in enumerate(PLAIN))
    with pytest.raises(error, match=words) as refused:
        run(tensors, attributes, **options)
    assert "\n" not in str(refused.value)
    if isinstance(refused.value, AclnnError):
        assert refused.value.status == (161001 if 7 in changes else 161002)


def test_a_tiling_that_does_not_fit_says_the_formula_and_the_numbers() -> None:
    with pytest.raises(ascend_sim.TilingError, match=r"L0C: baseM\*baseN.* = 512\*128\*4\*1 = 262144 > 131072 bytes"):
        timing(tiling={"grad_input": {"baseM": 512, "baseN": 128, "baseK": 16, "cl0Pbuffer": 1}})


def test_null_pointers_have_their_own_status() -> None:
    with pytest.raises(AclnnError) as refused:
        run(attributes=(None, None, *PLAIN[2:]))
    assert refused.value.status == 161001


# -- time is sane ------------------------------------------------------------------------------------------------------


def spans(result: Result) -> list[tuple[dict[str, Any], int]]:
    """Each kernel's row and the cycles from its first instruction to its end."""
    assert result.timeline is not None
    rows = result.report.to_dict(statements=False)["kernels"]
    runs = [result.timeline.of(index) for index in range(len(rows))]
    return [
        (row, max(run.finish for run in of_task) - min(run.begin for run in of_task))
        for row, of_task in zip(rows, runs, strict=True)
    ]


@part_of_cases(4)
@pytest.mark.parametrize("l2", ["cold", "warm"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_no_kernel_beats_its_roofline(name: str, deterministic: bool, l2: str) -> None:
    chip = load_chip("ascend910b3")
    shapes, attributes = LAYERS[name]
    result = timing(shapes, attributes, deterministic=deterministic, l2=l2)
    for row, span in spans(result):
        bounds = row["roofline"]["cycles"]
        assert bounds and max(bounds.values()) <= span, (row["name"], bounds, span)
        # The same from the counts alone, without the report's roofline.
        aic = chip.cores.aic
        if row["core_type"] in ("AIC", "MIX"):
            assert span >= max(row["cube_work_cycles"])
            assert span >= row["macs"] / (aic * chip.cube.macs_per_cycle("float16"))
        for path, cores in {"GM->L1": aic, "L0C->GM": aic, "GM->UB": chip.cores.aiv, "UB->GM": chip.cores.aiv}.items():
            moved = row["counts"]["bytes"].get(path, 0)
            assert span >= moved / (chip.paths[path].bytes_per_cycle * cores)


@pytest.mark.parametrize("name", LAYERS)
def test_hbm_delivers_every_input_once(name: str) -> None:
    """A cold call cannot end before HBM has delivered the caller's tensors."""
    chip = load_chip("ascend910b3")
    shapes, attributes = LAYERS[name]
    total = timing(shapes, attributes).report.to_dict(statements=False)["total_us"]
    nbytes = sum(2 * int(np.prod(shape)) for shape in shapes)
    assert total > nbytes / (chip.memory.hbm_gb_per_s * 1e3)


@part_of_cases(3)
@pytest.mark.parametrize("name", LAYERS)
def test_a_warm_l2_is_never_slower(name: str) -> None:
    shapes, attributes = LAYERS[name]
    cold, warm = (timing(shapes, attributes, l2=l2).report.to_dict(statements=False)["total_us"] for l2 in ("cold", "warm"))
    assert warm < cold


COLUMNS = ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait")
NUMBERS = ("task", "core", "begin", "finish", "queue_full", "launch")


def same_timeline(one: Result, other: Result) -> bool:
    """Return True if every column of every program is equal."""
    assert one.timeline is not None and other.timeline is not None
    left, right = one.timeline, other.timeline
    tasks = [[(run.launch, run.begin, run.finish) for run in timeline.tasks] for timeline in (left, right)]
    if tasks[0] != tasks[1] or len(left.programs) != len(right.programs):
        return False
    return all(
        all(getattr(a, number) == getattr(b, number) for number in NUMBERS)
        and np.array_equal(a.program.rows, b.program.rows)
        and all(np.array_equal(getattr(a, column), getattr(b, column)) for column in COLUMNS)
        for a, b in zip(left.programs, right.programs, strict=True)
    )


@part_of_cases(3)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", ["3x3", "stride 2", "depthwise"])
def test_full_and_timing_have_the_same_timeline(name: str, deterministic: bool) -> None:
    shapes, attributes = LAYERS[name]
    full = run(arrays(shapes=shapes), attributes, deterministic=deterministic)
    assert same_timeline(full, timing(shapes, attributes, deterministic=deterministic))
    other = timing(shapes, attributes, deterministic=deterministic, block_dim={"grad_input": 3})
    assert not same_timeline(full, other)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_time_does_not_depend_on_values() -> None:
    zeros = [np.zeros_like(array) for array in arrays()]
    special = [np.full_like(array, np.inf) for array in arrays()]
    assert same_timeline(run(), run(zeros)) and same_timeline(run(), run(special))


def test_functional_mode_has_no_times_and_the_same_counts() -> None:
    functional, full = run(mode="functional").report.to_dict(statements=False), run().report.to_dict(statements=False)
    assert functional["total_us"] is None and functional["outputs"] == full["outputs"]
    for one, other in zip(functional["kernels"], full["kernels"], strict=True):
        assert one["task_us"] is None
        kept = ("op_type", "name", "block_dim", "cube_work_cycles", "counts", "tiling", "dtypes", "formats")
        assert all(one[key] == other[key] for key in kept)


# -- the same again ----------------------------------------------------------------------------------------------------


def dealt_backwards(count: int) -> list[int]:
    return list(range(count - 1, -1, -1))


def dealt_anyhow(count: int) -> list[int]:
    return [int(core) for core in np.random.default_rng(5).permutation(count)]


@part_of_cases(2)
@pytest.mark.parametrize("block_dim", [None, 27])
@pytest.mark.parametrize("deterministic", [False, True])
def test_two_runs_and_other_cores_give_the_same_report(
    deterministic: bool, block_dim: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes, attributes = LAYERS["3x3"]
    tensors = arrays(shapes=shapes)

    def report() -> tuple[str, list[int]]:
        blocks = {"grad_input": block_dim} if block_dim else None
        result = run(tensors, attributes, deterministic=deterministic, block_dim=blocks)
        assert result.timeline is not None
        cores = [run.core for run in result.timeline.programs]
        return json.dumps(result.report.to_dict()), cores

    first, cores = report()
    assert report() == (first, cores)
    for order in (dealt_backwards, dealt_anyhow):
        monkeypatch.setattr(session, "Engine", partial(Engine, core_order=order))
        again, others = report()
        assert others != cores  # the blocks did land elsewhere
        assert again == first


def test_a_report_knows_nothing_of_its_surroundings() -> None:
    text = json.dumps(run().report.to_dict())
    assert str(Path.cwd()) not in text and str(Path.home()) + "/" not in text
    assert not re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d", text)


def test_the_callers_chip_is_not_changed() -> None:
    chip = load_chip("ascend910b3")
    before = pickle.dumps(chip.model_dump())
    run(chip=chip)
    assert isinstance(chip, ChipSpec) and pickle.dumps(chip.model_dump()) == before


# -- arguments of another kind -----------------------------------------------------------------------------------------

WRONG_KINDS = {
    "stride": ["x", 2.5, (1, None), np.ones((2, 2), int)],
    "bias_sizes": [5, "x"],
    "transposed": [None, "x", 2, np.zeros(2)],
    "groups": [None, 1.0, "1"],
    "output_mask": [5, "abc", (True, 2, None)],
    "cube_math_type": [None, 0.5],
    "chip": [None, 5, b"ascend910b3", ["ascend910b3"]],
    "mode": [None, np.zeros(2), "quick"],
    "deterministic": ["x", 5, np.zeros(2)],
    "conformance": [None, "strict", np.zeros(2)],
    "tiling": [5, "x", {"grad_input": 5}, {"grad_input": {1: 2}}, [1]],
    "block_dim": [0, 2.5, "x", {"grad_input": "x"}, 10**30],
    "l2": [None, "hot"],
    "accumulate": [None, "none"],
    "overflow": [5],
    "progress": [5],
    "max_cycles": [0, "x", 2.5],
    "library": [5, "8.5.0"],
    "disarm": [5, {"grad_input": "L0"}, {"grad_input": [5]}],
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_an_argument_of_another_kind_is_one_line(name):
    arguments = {
        **dict.fromkeys(("grad_output", "input", "weight"), np.ones((2, 2, 1, 1), np.float16)),
        "bias_sizes": None, "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "transposed": False,
        "output_padding": (0, 0), "groups": 1, "output_mask": (True, True, True),
    }  # fmt: skip
    for value in WRONG_KINDS[name]:
        with pytest.raises(SimError) as caught:
            ascend_sim.convolution_backward(**arguments | {"mode": "functional", name: value})
        assert name in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ascend_sim.AclnnError(161002, "stride = [0]"), "status 161002: stride = [0]"),
        (RowError("moves no bytes", 3), "moves no bytes"),
    ],
)
def test_errors_can_be_made_again(error: SimError, told: str) -> None:
    """Worker processes hand errors back, and SimPy raises them again in the process that waits."""
    for again in (pickle.loads(pickle.dumps(error)), type(error)(*error.args)):
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (told, vars(error))


@pytest.mark.parametrize("name", ascend_sim.__all__)
def test_no_module_hides_a_public_name(name: str) -> None:
    """A module of the package that has the name of a function would take its place once something imports it."""
    assert importlib.util.find_spec(f"ascend_sim.{name}") is None
