"""Sweeps against single calls and float64; fields of every kind, fronts, files and pictures."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.studies.sweep.fields import Draft, field_of
from ascend_sim.studies.sweep.pages import axes_of, heat_map, pareto_plot, write_table
from ascend_sim.studies.sweep.point import columns_of
from ascend_sim.studies.sweep.run import Sweep, sweep

CHIP = load_chip("ascend910b3")


def made(case: str, **values: Any) -> tuple[Any, Any]:
    """The case and chip with these fields set."""
    loaded = load_case(case)
    draft = Draft.of(loaded)
    for name, value in values.items():
        field_of(name.replace("__", "."), loaded, CHIP).put(draft, value)
    return draft.made()


@pytest.mark.fast
def test_a_row_has_the_figures_of_its_call() -> None:
    found = sweep("by_hand", {"batch": [1, 2], "grad_input.baseK": [16, 48]})
    assert [(row["batch"], row["grad_input.baseK"]) for row in found.rows] == [(1, 16), (1, 48), (2, 16), (2, 48)]
    spec = ascend_sim.TensorSpec((2, 2, 4, 4), "float16")
    result = ascend_sim.convolution_backward(
        spec, spec, ascend_sim.TensorSpec((2, 2, 3, 3), "float16"), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
        (True, True, True), mode="timing", tiling={"grad_input": {"baseK": 16}},
    )  # fmt: skip
    kernels = {kernel["name"]: kernel for kernel in result.report.kernels}
    row = found.rows[2]
    assert row["us"] == result.report.total_us
    assert row["grad_input_us"] == kernels["grad_input"]["task_us"]
    parts = sum(row[f"{part}_us"] for part in ("grad_input", "grad_weight", "grad_bias", "around"))
    assert parts == pytest.approx(sum(kernel["task_us"] for kernel in result.report.kernels))
    assert row["grad_weight_l1"] == kernels["grad_weight"]["buffers"]["L1"]["peak_bytes"]
    assert row["l1"] == max(row["grad_input_l1"], row["grad_weight_l1"])
    assert found.best == min(found.rows, key=lambda one: one["us"])


@pytest.mark.fast
def test_fields_vary_together_and_one_value_needs_no_list() -> None:
    found = sweep("by_hand", {"chip.cores.aic, chip.cores.aiv": [(24, 48), [20, 40]], "batch": 3})
    assert found.fields == ("chip.cores.aic", "chip.cores.aiv", "batch") and len(found.ran) == 2
    assert [tuple(row[name] for name in found.fields) for row in found.rows] == [(24, 48, 3), (20, 40, 3)]
    apart = sweep("by_hand", {"chip.cores.aic": [24, 20], "chip.cores.aiv": [48, 40], "batch": 3})
    by_cores = {(row["chip.cores.aic"], row["chip.cores.aiv"]): row for row in apart.ran}
    assert [dict(row) for row in found.rows] == [dict(by_cores[cores]) for cores in ((24, 48), (20, 40))]


@pytest.mark.fast
@pytest.mark.parametrize(("case", "mode"), [("by_hand", "full"), ("by_hand", "timing"), ("forward_2d", "full")])
def test_every_column_is_known_before_anything_runs(case: str, mode: str) -> None:
    found = sweep(case, {"batch": 1}, mode=mode)
    known = columns_of(load_case(case).operator, mode)
    assert set(found.columns) - {"batch"} <= set(known)
    assert [name for name in known if name in found.columns] == [name for name in found.columns if name != "batch"]


@pytest.mark.fast
def test_fields_of_a_case() -> None:
    case, _ = made("strided", stride=3, cube_math_type=1, data__seed=7, bias=False, input__requires_grad=False)
    attributes = case.attributes
    assert attributes["stride"] == (3, 3) and case.cube_math_type == 1 and case.data.seed == 7 and case.bias is None
    assert attributes["output_mask"] == (False, True, False)
    assert case.tensors["grad_output"][0] == (2, 48, 10, 10)
    assert made("by_hand", dtype="float32")[0].tensors["weight"][1] == "float32"
    assert made("by_hand", block_dim__grad_input=3)[0].block_dim == {"grad_input": 3}
    assert made("by_hand", padding=[0, 0])[0].tensors["grad_output"][0] == (1, 2, 2, 2)


@pytest.mark.fast
def test_sizes_of_a_layer() -> None:
    case, _ = made("grouped", batch=3, in_channels=32, out_channels=64, size=9, kernel_size=5, groups=4)
    assert case.input.shape == (3, 32, 9, 9) and case.weight.shape == (64, 8, 5, 5) and case.groups == 4
    case, _ = made("strided", layer__height=20, layer__width=30)
    assert case.input.shape == (2, 32, 20, 30)
    case, _ = made("transposed_2d", in_channels=48, out_channels=16)
    assert case.input.shape[1] == 48 and case.weight.shape[:2] == (48, 16) and case.tensors["grad_output"][0][1] == 16
    case, _ = made("document_example_tbc", batch=5, length=9, in_channels=3, out_channels=7, kernel_size=2)
    assert case.input.shape == (9, 5, 3) and case.weight.shape == (2, 3, 7) and case.tensors["self"][0][2] == 7


@pytest.mark.fast
def test_a_bare_tiling_field_is_every_kernels() -> None:
    assert made("by_hand", baseM=64)[0].tiling == {"grad_input": {"baseM": 64}, "grad_weight": {"baseM": 64}}
    assert made("by_hand", enableFullLoad=1)[0].tiling == {"grad_input": {"enableFullLoad": 1}}
    assert made("by_hand", tiling__grad_weight__baseN=32)[0].tiling == {"grad_weight": {"baseN": 32}}


@pytest.mark.fast
def test_numbers_of_a_chip() -> None:
    """What one reads of a chip one can set, and nothing else changes."""
    _, chip = made("by_hand", chip__memory__hbm_gb_per_s=400)
    assert chip.memory.hbm_gb_per_s == 400
    before, after = CHIP.numbers(), chip.numbers()
    assert {name for name in before if before[name] != after[name]} == {"memory.hbm_gb_per_s"}
    assert before.keys() == after.keys() and chip.sources == CHIP.sources
    assert CHIP.with_numbers({"paths.GM->L1.bytes_per_cycle": 10.0}).paths["GM->L1"].bytes_per_cycle == 10.0
    with pytest.raises(ConfigError, match=r"cores\.aiv: 40 is not aic x aiv_per_aic = 10 x 2"):
        CHIP.with_numbers({"cores.aic": 10})
    with pytest.raises(ConfigError, match=r"memory\.hbm_gb_per_s: input should be greater than 0, got -1"):
        CHIP.with_numbers({"memory.hbm_gb_per_s": -1})


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chip.memory.hbm_gbps", "did you mean chip.memory.hbm_gb_per_s"),
        ("hbm_gb_per_s", "did you mean chip.memory.hbm_gb_per_s"),
        ("bacth", "did you mean batch?"),
        ("grad_input.baseQ", "did you mean grad_input.base"),
        ("layer.in_chanels", "did you mean layer.in_channels"),
        ("weight.dtpye", "did you mean weight.dtype"),
        ("tiling", "no such field of a convolution_backward case"),
        ("operator", "no such field of a convolution_backward case"),
    ],
)
def test_a_field_that_is_none(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        field_of(name, load_case("by_hand"), CHIP)
    assert str(caught.value).startswith(f"--vary {name}: ") and said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.fast
def test_a_refused_point_is_a_row() -> None:
    found = sweep("by_hand", {"grad_input.baseM": [16, 4096], "kernel_size": [3, 9], "cube_math_type": [0, 9]})
    by_setting = {(row["grad_input.baseM"], row["kernel_size"], row["cube_math_type"]): row for row in found.rows}
    assert len(found.rows) == 8 and len(found.ran) == 1 and found.best == by_setting[16, 3, 0]
    assert by_setting[4096, 3, 0]["status"] is None and "L0A: baseM" in by_setting[4096, 3, 0]["reason"]
    assert "a kernel of 9 does not fit" in by_setting[16, 9, 0]["reason"]
    assert by_setting[16, 3, 9]["status"] == 161002


@pytest.mark.fast
@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({}, "nothing is varied"),
        ({"batch": []}, "--vary batch: no value given"),
        ({"batch": [1, 1]}, "--vary batch: a value is given twice"),
        (
            {"batch,size": [1, 2]},
            "--vary batch,size: 1 given; 2 fields that vary together take 2 values at a time, like [1,2]",
        ),
        ({"batch,size": [[1, 2, 3]]}, "--vary batch,size: [1, 2, 3] given; 2 fields"),
        ({"batch,size": [[1, 4]], "batch": 2}, "--vary batch: given twice"),
        ({"batch,": [[1, 4]]}, "--vary : no such field"),
        ({"batch": [0, -1]}, "none of the 2 points can be: batch: 0 given; allowed is a whole number from 1"),
        ({"dtype": ["float15"]}, "none of the 1 points can be: dtype: 'float15' given; allowed: float32"),
        ({"chip": ["ascend910z"]}, "'ascend910z' is not a known chip"),
        ({"data.seed": range(500), "batch": range(1, 500)}, "249,500 points; allowed are at most 100,000"),
    ],
)
def test_a_sweep_that_is_none(vary: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sweep("by_hand", vary)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.fast
def test_errors_are_those_of_float64(tmp_path: Path) -> None:
    path = tmp_path / "one_by_one.yaml"
    path.write_text(
        "operator: convolution_backward\ninput: {shape: [2, 16, 3, 3], dtype: float32}\nweight: [16, 16, 1, 1]\nbias: false\n"
    )
    found = sweep(path, {"cube_math_type": [0, 2]}, mode="full")
    tensors = {name: array.astype(np.float64) for name, array in make_tensors(load_case(path)).items()}
    exact = np.einsum("nohw,nihw->oi", tensors["grad_output"], tensors["input"])
    for row, number in zip(found.rows, (0, 2), strict=True):
        result = ascend_sim.convolution_backward(
            *(make_tensors(load_case(path))[name] for name in ("grad_output", "input", "weight")), None, (1, 1), (0, 0),
            (1, 1), False, (0, 0), 1, (True, True, False), cube_math_type=number,
        )  # fmt: skip
        off = result.grad_weight.reshape(16, 16).astype(np.float64) - exact
        assert row["grad_weight_error"] == pytest.approx(np.sqrt((off**2).mean() / (exact**2).mean()), rel=1e-6)
        assert row["error"] == max(row["grad_weight_error"], row["grad_input_error"]) and row["correct"]
    assert found.rows[1]["error"] > 100 * found.rows[0]["error"]


def rows_of(*pairs: tuple[float, float]) -> Sweep:
    rows = [{"x": i, "status": 0, "reason": "", "us": us, "l1": l1, "tflops": -l1} for i, (us, l1) in enumerate(pairs)]
    return Sweep("made", ("x",), tuple(rows))


@pytest.mark.fast
def test_a_front_is_what_no_other_beats() -> None:
    """Against the definition, for random points with many equal ones."""
    draw = random.Random(1)
    for _ in range(200):
        pairs = [(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(1, 15))]
        front = rows_of(*pairs).front("us", "l1")
        best = {(a, b) for a, b in pairs if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in pairs)}
        assert sorted((row["us"], row["l1"]) for row in front) == sorted(best)
        assert [row["x"] for row in rows_of(*pairs).front("us", "tflops")] == [row["x"] for row in front]
    with pytest.raises(SimError, match="no row has a number in column 'none'; there are x, status, us, l1, tflops"):
        rows_of((1, 2)).front("us", "none")


@pytest.mark.fast
def test_finished_points_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sweep("by_hand", {"batch": [1, 2]}, out=tmp_path)
    again = sweep("by_hand", {"input.shape": [[1, 2, 4, 4], [3, 2, 4, 4]]}, out=tmp_path)
    assert (first.reused, again.reused) == (0, 1) and again.rows[0]["us"] == first.rows[0]["us"]
    other = sweep("by_hand", {"batch": [1], "chip.memory.hbm_gb_per_s": [800]}, out=tmp_path)
    assert other.reused == 0, "another chip is another point"


@pytest.mark.fast
def test_an_interrupt_keeps_what_was_finished(tmp_path: Path) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    found = sweep("by_hand", {"batch": [1, 2, 3]}, out=tmp_path, progress=stop)
    assert not found.complete and [row["batch"] for row in found.rows] == [1, 2]
    assert sweep("by_hand", {"batch": [1, 2, 3]}, out=tmp_path).reused == 2


@pytest.mark.fast
def test_files_have_every_row(tmp_path: Path) -> None:
    found = sweep("by_hand", {"padding": [0, [1, 1]], "grad_input.baseM": [16, 4096]})
    write_table(found, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["padding"], row["grad_input.baseM"], row["status"]) for row in rows] == [
        ("0", "16", "0"), ("0", "4096", ""), ("[1,1]", "16", "0"), ("[1,1]", "4096", ""),
    ]  # fmt: skip
    assert [float(row["us"] or 0) for row in rows] == [row.get("us", 0) for row in found.rows]
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(found, tmp_path / "a.parquet")
    columns = parquet.read_table(tmp_path / "a.parquet").to_pydict()
    assert columns["us"] == [row.get("us") for row in found.rows] and columns["padding"] == ["0", "0", "[1,1]", "[1,1]"]
    assert list(columns) == found.columns
    with pytest.raises(SimError, match=r"a\.txt: give a file that ends in \.csv or \.parquet"):
        write_table(found, tmp_path / "a.txt")


def test_pictures_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"a": a, "b": b, "c": c, "status": 0, "reason": "", "us": float(a * b + c), "l1": a}
        for a in (1, 2) for b in (3, 4, 5) for c in (0, 1) if (a, b) != (2, 5)
    ]  # fmt: skip
    refused = [{"a": 2, "b": 5, "c": c, "status": 161002, "reason": "no"} for c in (0, 1)]
    found = Sweep("made", ("a", "b", "c"), tuple(rows + refused))
    values = {"a": [1], "b": [3, 4], "c": [0, 1]}
    assert axes_of(values) == ("b", "c") and axes_of(values, ("c", "a")) == ("c", "a")
    for bad in (("a", "a"), ("a", "z")):
        with pytest.raises(SimError, match="two different varied fields: a, b, c"):
            axes_of(values, bad)
    heat_map(found, tmp_path / "heat.png")
    pareto_plot(found, tmp_path / "front.png", "us", "l1")
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
