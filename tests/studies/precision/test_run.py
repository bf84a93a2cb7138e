"""The precision bench: refusals as documented, figures as an independent computation has them, and the command line."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import ascend_sim
from ascend_sim import SimError, precision
from ascend_sim.isa.cube import Mmad
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.tensor_files import save_tensors
from ascend_sim.studies.precision import run as precision_run
from tests.support.sampling import part_of_cases
from tests.support.studies.precision_cases import TBC

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}

# -- what is refused ---------------------------------------------------------------------------------------------------

# Typed from the operator documents 000 and 003 (convolution_backward) and 001 and 002 (conv_tbc_backward): per product
# and input dtype the cubeMathTypes that are refused. The 950 follows the library in the first, 002 in the second.
ALL = {0, 1, 2, 3}

OLD = {"float16": set(), "bfloat16": ALL, "float32": {0, 3}}

REFUSED = {
    ("convolution_backward", "ascend310p3"): OLD,
    ("convolution_backward", "ascend910a"): OLD,
    ("convolution_backward", "ascend910b1"): {"float16": set(), "bfloat16": {2, 3}, "float32": set()},
    ("convolution_backward", "ascend910_9391"): {"float16": set(), "bfloat16": {2, 3}, "float32": set()},
    ("convolution_backward", "ascend910_95"): {"float16": set(), "bfloat16": set(), "float32": set()},
    ("conv_tbc_backward", "ascend310p3"): {"float16": ALL, "bfloat16": ALL, "float32": ALL},
    ("conv_tbc_backward", "ascend910a"): {"float16": {3}, "bfloat16": ALL, "float32": {0, 3}},
    ("conv_tbc_backward", "ascend910b1"): {"float16": {3}, "bfloat16": {2, 3}, "float32": set()},
    ("conv_tbc_backward", "ascend910_9391"): {"float16": {3}, "bfloat16": {2, 3}, "float32": set()},
    ("conv_tbc_backward", "ascend910_95"): {"float16": {3}, "bfloat16": {2, 3}, "float32": set()},
}

COMPUTE = {  # what the documents say that the cube computes in, where it is not the inputs' dtype
    "ascend310p3": {("float32", 1): "float16", ("float32", 2): "float16"},
    "ascend910a": {("float32", 1): "float16", ("float32", 2): "float16"},
    "ascend910b1": {("float32", 1): "hf32", ("float32", 2): "float16", ("float32", 3): "hf32"},
    "ascend910_9391": {("float32", 1): "hf32", ("float32", 2): "float16", ("float32", 3): "hf32"},
    "ascend910_95": {
        ("float32", 1): "hf32", ("float32", 2): "float16", ("float32", 3): "hf32", ("bfloat16", 2): "float16"
    },
}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(("operator", "chip"), REFUSED)
def test_exactly_what_the_documents_refuse_is_refused(operator, chip, case, tmp_path, monkeypatch):
    """The kernels of what is accepted run in the other tests."""
    monkeypatch.setattr(precision_run._Bench, "_run", lambda self, *arguments: None)
    monkeypatch.setattr(precision_run._Bench, "_judged", lambda self, row, *rest: replace(row, status=0))
    file = case
    if operator == "conv_tbc_backward":
        file = tmp_path / "tbc.yaml"
        file.write_text(TBC)
    table = precision(file, chips=[chip])
    assert [(row.dtype, row.cube_math_type) for row in table.rows] == [
        (dtype, number) for dtype in ("float16", "bfloat16", "float32") for number in range(4)
    ]
    for row in table.rows:
        refused = row.cube_math_type in REFUSED[operator, chip][row.dtype]
        assert (row.status == 161002) == refused, (row.dtype, row.cube_math_type, row.status, row.message)
        if refused:
            assert row.message and not row.outputs and row.total_us is None
        else:
            compute = COMPUTE[chip].get((row.dtype, row.cube_math_type), row.dtype)
            assert (row.status, row.compute_dtype) == (0, compute), row.message


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910_95"])
def test_the_other_architectures_run_and_are_correct(chip, case):
    table = precision(case, chips=[chip], dtypes=["float32"])
    assert table.passed
    ran = [row for row in table.rows if row.status == 0]
    assert len(ran) == (4 if chip == "ascend910_95" else 2)
    assert all(set(row.outputs) == {"grad_input", "grad_weight", "grad_bias"} for row in ran)


def test_tbc_cases(tmp_path):
    (tmp_path / "tbc.yaml").write_text(TBC)
    table = precision(tmp_path / "tbc.yaml", dtypes=["float32"])
    assert table.passed and all(row.outputs["grad_input"]["products"] == 24 for row in table.rows)
    assert repr(table).endswith(f": {len(table.rows)} rows, all correct>") and len(repr(table.rows[0])) < 100


@part_of_cases(3)
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
def test_the_instructions_multiply_in_the_dtype_of_the_table(case, chip):
    """The row, the plan's cube kernels and every Mmad of their programs: one table."""
    tensors = row_tensors(case, "float32")
    for row in precision(case, chips=[chip], dtypes=["float32"]).rows:
        if row.status != 0:
            continue
        run = ascend_sim.convolution_backward(
            *tensors.values(),
            None,
            1,
            1,
            1,
            False,
            0,
            1,
            (True, True, True),
            cube_math_type=row.cube_math_type,
            chip=chip,
            mode="timing",
            deterministic=True,
        )
        instructions = {i for one in run.timeline.programs for i in one.program.table.instructions}
        mmads = {(i.dtype, i.hf32_bits) for i in instructions if isinstance(i, Mmad)}
        bits = ascend_sim.load_chip(chip).cube.hf32_mantissa_bits if row.compute_dtype == "hf32" else 0
        assert mmads == {(row.compute_dtype, bits)}
        assert {row.compute_dtype} == {
            name for figures in row.outputs.values() if (name := figures["computed_in"]) != "float32"
        } or row.compute_dtype == "float32"
        assert row.outputs["grad_bias"]["computed_in"] == "float32"  # gradOutput's own dtype


def test_the_library_computes_bfloat16_in_float16_with_a_warning(case):
    rows = precision(case, conformance="library", dtypes=["bfloat16"]).rows
    assert [row.compute_dtype for row in rows] == ["bfloat16", "bfloat16", "float16", "bfloat16"]
    assert "may overflow" in rows[2].warning and not rows[0].warning


# -- figures -----------------------------------------------------------------------------------------------------------


def torch_gradients(tensors):
    """float64 gradients of the inputs as they are, by torch."""
    torch = pytest.importorskip("torch")
    dy, x, w = (torch.from_numpy(tensors[name].astype(np.float64)) for name in ("grad_output", "input", "weight"))
    return [
        gradient.numpy()
        for gradient in torch.ops.aten.convolution_backward(
            dy, x, w, [20], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
        )
    ]


def row_tensors(case, dtype):
    return {name: array.astype(NUMPY[dtype]) for name, array in make_tensors(load_case(case)).items()}


@part_of_cases(3)
@pytest.mark.parametrize(("dtype", "number"), [("float16", 0), ("bfloat16", 1), ("float32", 0), ("float32", 1), ("float32", 2)])
def test_figures_agree_with_an_independent_computation(case, table, dtype, number):
    tensors = row_tensors(case, dtype)
    run = ascend_sim.convolution_backward(
        *tensors.values(), None, 1, 1, 1, False, 0, 1, (True, True, True), cube_math_type=number, deterministic=True
    )
    row = next(row for row in table.rows if (row.dtype, row.cube_math_type) == (dtype, number))
    assert row.total_us == run.report.total_us
    rtol, atol = {"float16": (2**-9, 2**-9), "bfloat16": (2**-6, 2**-6), "float32": (2**-10, 2**-16)}[dtype]
    for name, exact in zip(run.outputs, torch_gradients(tensors), strict=True):
        figures, got = row.outputs[name], run.outputs[name].astype(np.float64)
        error = np.abs(got - exact)
        relative = error / (np.abs(exact) + 1e-7)
        expected = {
            "max_abs_error": error.max(), "mere": relative.mean(), "mare": relative.max(),
            "rmse": np.sqrt((error**2).mean()), "effective_bits": -np.log2(error.mean() / np.abs(exact).mean()),
            "cosine": (got * exact).sum() / np.linalg.norm(got) / np.linalg.norm(exact),
        }  # fmt: skip
        for key, value in expected.items():
            assert figures[key] == pytest.approx(value, rel=1e-6), (name, key)
        with np.errstate(over="ignore"):
            rounded = exact.astype(NUMPY[dtype]).astype(np.float64)
        assert figures["bit_equal_share"] == pytest.approx((got == rounded).mean(), abs=2 / got.size)
        if row.compute_dtype == dtype or name == "grad_bias":
            assert figures["vendor_matched_ratio"] == (error <= atol + rtol * np.abs(exact)).mean()
            assert figures["operand_bits"] == np.inf
        histogram = figures["error_log2"]
        assert sum(histogram["counts"]) + histogram["exact"] == got.size and histogram["undefined"] == 0
        big = error > np.abs(exact) * 2**-12
        assert sum(histogram["counts"][-12 - histogram["low"] :]) == pytest.approx(big.sum(), abs=1)
        assert figures["correct"] and figures["nonfinite"] == 0


@pytest.mark.fast
def test_where_the_bits_go(table):
    """hf32 loses them in the operands, float16 output in the result, float32 almost none."""
    by_key = {(row.dtype, row.cube_math_type): row.outputs for row in table.rows}
    hf32, half, keep = by_key["float32", 1]["grad_weight"], by_key["float16", 0]["grad_weight"], by_key["float32", 0]
    assert hf32["effective_bits"] == pytest.approx(12.7, abs=0.3) == pytest.approx(hf32["operand_bits"], abs=0.3)
    assert hf32["machine_bits"] > 22 and keep["grad_weight"]["effective_bits"] > 22
    assert half["effective_bits"] == pytest.approx(12.5, abs=0.3) and half["operand_bits"] == np.inf
    # The vendor's standard holds a result against unrounded inputs, so that a perfect hf32 loses some elements.
    assert hf32["correct"] and hf32["vendor_matched_ratio"] < keep["grad_weight"]["vendor_matched_ratio"] == 1


def test_the_950_drops_one_bit_more(case):
    rows = precision(case, chips=["ascend910b3", "ascend950pr_9589"], dtypes=["float32"]).rows
    bits = {row.chip: row.outputs["grad_weight"]["operand_bits"] for row in rows if row.cube_math_type == 1}
    assert bits["ascend910b3"] - bits["ascend950pr_9589"] == pytest.approx(1, abs=0.2)


@pytest.mark.fast
def test_rows_of_equal_computation_are_what_the_machine_gives(case, table):
    tensors = row_tensors(case, "float32")
    row = table.rows[-1]
    assert (row.dtype, row.cube_math_type, row.same_as) == ("float32", 3, 1)
    runs = [
        ascend_sim.convolution_backward(
            *tensors.values(), None, 1, 1, 1, False, 0, 1, (True, True, True), cube_math_type=number, deterministic=True
        )
        for number in (1, 3)
    ]
    for name, gradient in runs[0].outputs.items():
        np.testing.assert_array_equal(gradient, runs[1].outputs[name])
    assert runs[1].report.total_us == row.total_us


def corrupt(gradient, how):
    wrong = gradient.copy()
    flat = wrong.reshape(-1)
    index = int(np.abs(flat.astype(np.float32)).argmax())
    if how == "element":
        flat[index] = -flat[index]
    elif how == "nan":
        flat[index] = np.nan
    elif how == "inf":
        flat[index] = np.inf
    else:
        wrong = np.roll(wrong, 1).reshape(gradient.shape)
    return wrong


@pytest.fixture(scope="module")
def honest(case):
    """Every run of the small case, by (dtype, cubeMathType)."""
    runs = {}
    original = precision_run.call_case

    def run(case, tensors, **options):
        key = (tensors["input"].dtype.name, options["cube_math_type"])
        if key not in runs:
            runs[key] = original(case, tensors, **options)
        return runs[key]

    return run


@part_of_cases(3)
@pytest.mark.parametrize("how", ["element", "nan", "inf", "shift"])
@pytest.mark.parametrize("victim", ["grad_input", "grad_weight", "grad_bias"])
def test_a_damaged_gradient_is_never_correct(case, honest, monkeypatch, how, victim):
    def damaged(*arguments, **options):
        result = honest(*arguments, **options)
        return replace(result, outputs={**result.outputs, victim: corrupt(result.outputs[victim], how)})

    monkeypatch.setattr(precision_run, "call_case", damaged)
    table = precision(case)
    assert not table.passed
    for row in table.rows:
        for name, figures in row.outputs.items():
            assert figures["correct"] == (name != victim), (row.dtype, row.cube_math_type, name)
            if name == victim:
                assert figures["nonfinite"] == (how in ("nan", "inf"))


@pytest.mark.parametrize("inputs", ["uniform", "relu", "wide", "ones", "adversarial"])
def test_every_distribution_is_correct(case, inputs):
    """Every model on sums that cancel, the default one on the others."""
    models = ["blas", "chunk", "exact_group"] if inputs == "adversarial" else ["blas"]
    table = precision(case, inputs=inputs, accumulate="all" if len(models) == 3 else "blas", dtypes=["float16"])
    assert table.passed and len(table.rows) == 4 * len(models)
    assert table.inputs == f"{inputs}, seed 0"
    assert [row.accumulate for row in table.rows[: len(models)]] == models


def test_models_differ_and_exact_groups_are_the_best(case):
    rows = precision(case, accumulate=["blas", "exact_group"], dtypes=["float32"]).rows[:2]
    blas, exact = (row.outputs["grad_weight"]["effective_bits"] for row in rows)
    assert exact > blas and rows[0].total_us == rows[1].total_us


def test_tensors_from_a_file(case, table, tmp_path):
    """The case's own values out of a file give the case's own table; a file in float16 gives its values to every dtype."""
    values = make_tensors(load_case(case))
    save_tensors(tmp_path / "same.npz", {name: (array, "float32") for name, array in values.items()})
    again = precision(case, inputs=tmp_path / "same.npz")
    assert [row.outputs for row in again.rows] == [row.outputs for row in table.rows]
    halves = {name: (array.astype(np.float16), "float16") for name, array in values.items()}
    save_tensors(tmp_path / "half.npz", halves)
    rows = precision(case, inputs=tmp_path / "half.npz", dtypes=["float32"]).rows
    assert rows[2].outputs["grad_weight"]["operand_bits"] == np.inf  # cast to float16: nothing left to lose
    with pytest.raises(SimError, match="missing weight"):
        save_tensors(tmp_path / "part.npz", {name: halves[name] for name in ("grad_output", "input")})
        precision(case, inputs=tmp_path / "part.npz")


# -- text, files, command line -----------------------------------------------------------------------------------------


@pytest.mark.fast
@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ([1], "tensors must be a dict of arrays by name, not list"),
        ({"input": [[1.0], [2.0, 3.0]]}, "tensors: input must be a numpy array of numbers, not list"),
        ({"input": np.array(["a"])}, "tensors: input must be a numpy array of numbers, not an array of <U1"),
        ({"input": np.ones(3)}, "tensors: {'input': (3,)} given; the case needs {"),
    ],
)
def test_tensors_that_are_no_arrays_of_the_case(tensors, why):
    with pytest.raises(SimError) as refused:
        precision("fp32_keep", tensors=tensors)
    assert str(refused.value).startswith(why)


def test_a_row_with_findings_has_not_passed():
    row = precision_run.PrecisionRow("ascend910b3", "float16", 0, "blas", 0, outputs={"grad_input": {"correct": True}})
    assert row.passed and not replace(row, findings=1).passed
    assert not replace(row, outputs={"grad_input": {"correct": False}}).passed
