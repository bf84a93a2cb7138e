"""Sweeps against single calls and float64; fields of every kind, fronts, files and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.studies.sweep.point import columns_of
from ascend_sim.studies.sweep.run import sweep


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
    parts = sum(row[f"{part}_us"] for part in ("grad_input", "grad_weight", "grad_bias", "layout"))
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
@pytest.mark.parametrize("tile", [False, True])
@pytest.mark.parametrize(("case", "mode"), [("by_hand", "full"), ("by_hand", "timing"), ("forward_2d", "full")])
def test_every_column_is_known_before_anything_runs(case: str, mode: str, tile: bool) -> None:
    found = sweep(case, {"batch": 1}, mode=mode, tile=tile)
    known = columns_of(load_case(case).operator, mode, tile)
    assert set(found.columns) - {"batch"} <= set(known)
    assert [name for name in known if name in found.columns] == [name for name in found.columns if name != "batch"]


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
        ({"batch,size": [1, 2]}, "--vary batch,size: 1 given; 2 fields that vary together take 2 values at a time, like [1,2]"),
        ({"batch,size": [[1, 2, 3]]}, "--vary batch,size: [1, 2, 3] given; 2 fields"),
        ({"batch,size": [[1, 4]], "batch": 2}, "--vary batch: given twice"),
        ({"batch,": [[1, 4]]}, "--vary : no such field"),
        ({"batch": [0, -1]}, "no point can run, of 2: batch: 0 given; allowed is a whole number from 1"),
        ({"dtype": ["float15"]}, "no point can run, of 1: dtype: 'float15' given; allowed: float32"),
        ({"chip": ["ascend910z"]}, "'ascend910z' is not a known chip"),
        ({"data.seed": range(500), "batch": range(1, 500)}, "249,500 points; allowed are at most 100,000"),
    ],
)
def test_a_sweep_that_is_none(vary: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sweep("by_hand", vary)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.fast
def test_a_file_of_values_that_is_not_there() -> None:
    case = load_case("by_hand").with_file("none.npz")
    assert sweep(case, {"batch": [1]}).rows[0]["status"] == 0  # timing reads no values
    with pytest.raises(SimError, match=r"^none.npz: No such file or directory; a .npz file of tensors is needed$"):
        sweep(case, {"batch": [1]}, mode="full")


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
