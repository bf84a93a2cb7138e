"""The answer of a table of precisions: distinct computations, and what each costs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.studies.precision.errors import mean_error
from ascend_sim.studies.precision.run import precision
from ascend_sim.studies.precision.summary import rows_of, sentences
from tests.support.studies.precision_cases import invoke


@pytest.mark.fast
def test_every_computation_is_one_line(table):
    lines = rows_of(table)
    keys = [(line["dtype"], line["computed_in"]) for line in lines]
    assert len(keys) == len(set(keys)) == len({(row.dtype, row.compute_dtype) for row in table.rows if row.outputs})
    for line in lines:
        types = [row.cube_math_type for row in table.rows if row.outputs and (row.dtype, row.compute_dtype) == keys[0]]
        assert line["cube_math_types"] != types or line is lines[0]
        row = next(row for row in table.rows if (row.dtype, row.compute_dtype) == (line["dtype"], line["computed_in"]))
        assert line["bits"] == {name: round(one["effective_bits"], 2) for name, one in row.outputs.items()}
        assert line["bias"] in [figures["bias"] for figures in row.outputs.values()]
    assert sum(len(line["cube_math_types"]) for line in lines) == sum(bool(row.outputs) for row in table.rows)


def test_cube_cycles_are_those_of_a_run(case, table):
    """The oracle is the report of single calls."""
    for line in rows_of(table):
        number = line["cube_math_types"][0]
        loaded = load_case(case).in_dtype(line["dtype"])
        report = asim.run_case(loaded, mode="timing", timeline=False, cube_math_type=number, l2="cold").report
        assert line["cube_cycles"] == sum(sum(kernel["cube_work_cycles"]) for kernel in report.kernels)


@pytest.mark.fast
def test_sentences_name_bits_cycles_and_what_is_lost(case, table, tmp_path):
    (sentence,) = sentences(table)
    lines = {line["computed_in"]: line for line in rows_of(table) if line["dtype"] == "float32"}
    share = lines["hf32"]["cube_cycles"] / lines["float32"]["cube_cycles"]
    assert sentence.startswith("fp32 inputs: hf32: ") and "become 0" not in sentence
    said = re.match(r"fp32 inputs: hf32: ([0-9.]+) bits, (.+?) cube cycles of fp32, ", sentence)
    assert said[1] == f"{min(lines['hf32']['bits'][name] for name in ('grad_input', 'grad_weight')):.1f}"
    assert said[2] == ("half the" if abs(share - 0.5) < 0.01 else f"{share:.2g} x the")
    values = make_tensors(load_case(case))
    values["weight"] *= np.float32(1e-7)
    save_tensors(tmp_path / "small.npz", {name: (array, "float32") for name, array in values.items()})
    small = precision(case, inputs=tmp_path / "small.npz", dtypes=["float32"])
    lost = int((values["weight"].astype(np.float16) == 0).sum() - (values["weight"] == 0).sum())
    assert lost > 0 and f"{lost:,} elements of weight become 0" in sentences(small)[0]


def test_cube_cycles_of_a_950_are_named_as_fractions():
    """fp32 multiplies at an eighth of the rate of HF32 and a sixteenth of that of fp16."""
    (sentence,) = sentences(precision("fp32_keep", dtypes=["float32"], chips=["ascend950pr_9589"]))
    assert "an eighth of the cube cycles of fp32" in sentence and "a sixteenth of the cube cycles of fp32" in sentence


@pytest.mark.fast
def test_a_mean_error_has_its_sign():
    truth = np.array([1.0, -2.0, 5.0, np.inf])
    assert mean_error(truth + np.array([0.0, 0.4, 0.4, 0.0]), truth) == pytest.approx(0.8 / 8)
    assert mean_error(truth - 0.8, truth) == pytest.approx(-2.4 / 8) and mean_error(truth[3:], truth[3:]) == 0


def test_a_layer_is_called_by_its_address(tmp_path):
    (tmp_path / "net.yaml").write_text(
        "layers: [{name: one, input: {shape: [1, 16, 4, 4], dtype: float16}, weight: [16, 16, 1, 1]}]"
    )
    table = precision(f"{tmp_path}/net.yaml:one", dtypes=["float16"])
    assert table.case == f"{tmp_path}/net.yaml:one"


@pytest.mark.fast
def test_the_command_answers_on_one_screen(asked, table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = invoke("precision", "x").output
    lines = text.splitlines()
    assert len(lines) <= 24 and lines[-1] == "more: --full" and "MERE" not in text
    assert "refused with 161002: bf16 with cubeMathType 2, bf16 with cubeMathType 3; --full says why" in text
    assert sum(line.split()[-1:] == ["correct"] for line in lines) == len(rows_of(table))
    data = json.loads(invoke("precision", "x", "--json").output)["summary"]
    assert data["sentences"] == sentences(table) and len(data["rows"]) == len(rows_of(table))
    assert "MERE" in invoke("precision", "x", "--full").output


def test_an_eight_bit_row_falls_back_to_a_call_for_each_gradient():
    """The oracle is the table of each gradient alone."""
    case = load_case("hifloat8").model_copy(update={"output_mask": (True, True, True)})
    table = precision(case, dtypes=["hifloat8"])
    alone = [
        precision(case.model_copy(update={"output_mask": mask}), dtypes=["hifloat8"]).rows[0]
        for mask in ((True, False, False), (False, True, False))
    ]
    first, *others = table.rows
    assert first.status == 0 and list(first.outputs) == ["grad_input", "grad_weight"]
    assert first.total_us == pytest.approx(sum(row.total_us for row in alone))
    assert first.cube_cycles == sum(row.cube_cycles for row in alone)
    for row in alone:
        for name, figures in row.outputs.items():
            assert first.outputs[name]["effective_bits"] == figures["effective_bits"]
    assert all(row.same_as == 0 for row in others)
    assert first.warning.endswith("a call each, times added; grad_bias refused")


def test_the_summary_tells_what_the_full_table_tells_of_the_vendors_threshold() -> None:
    """The oracle is the vendor's verdict of every row; an exact computation fails nothing."""
    table = precision("fp32_keep", dtypes=["float32"])
    failed = {row.compute_dtype for row in table.rows if any(one["vendor_pass"] is False for one in row.outputs.values())}
    assert failed == {"hf32", "float16"} == {line["computed_in"] for line in rows_of(table) if not line["vendor_pass"]}
    (sentence,) = sentences(table)
    assert sentence.endswith("Vendor's threshold fails: hf32, fp16.")


def test_an_output_that_overflows_everywhere_is_not_exact(case, tmp_path):
    values = {name: np.full_like(array, 1e30) for name, array in make_tensors(load_case(case)).items()}
    save_tensors(tmp_path / "huge.npz", {name: (array, "float32") for name, array in values.items()})
    table = precision(case, inputs=tmp_path / "huge.npz", dtypes=["float32"])
    line = next(line for line in rows_of(table) if line["computed_in"] == "float16")
    assert not {"grad_input", "grad_weight"} & line["bits"].keys() and "fp16: no bits" in sentences(table)[0]
    assert "exact" not in str(table) and line["nonfinite"] > 0
