"""Elements followed through random problems: the partial sums are the machine's, and they are those of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, seed
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.errors import SimError
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.program import Program
from ascend_sim.ops.case import load_case, make_tensors
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.convolution.reference import grad_input_reference, grad_weight_reference
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.explain.page import explain_html
from ascend_sim.studies.explain.run import Explanation, explain, explain_all
from ascend_sim.studies.explain.text import explain_page
from tests.support.ops import conv_problems
from tests.support.sampling import part_of_cases, sampled

Partials = list[list[bytes]]


def case_of(problem: conv_problems.CallAttributes, dtype: str, cube_math_type: int, deterministic: bool, number: int) -> Case:
    return ConvolutionBackwardCase.model_validate(
        {
            "operator": "convolution_backward",
            "chip": "ascend910b4",
            "input": {"shape": problem.shapes["input"], "dtype": dtype},
            "weight": {"shape": problem.shapes["weight"]},
            "stride": problem.stride,
            "padding": problem.padding,
            "dilation": problem.dilation,
            "groups": problem.groups,
            "output_mask": [True, True, False],
            "cube_math_type": cube_math_type,
            "deterministic": deterministic,
            "data": {"seed": number},
        }
    )


def l0c_after_every_mmad(case: Case) -> Partials:
    """Another run, without time and without an observer: L0C as bytes after each mmad of every cube program, in order."""
    seen: dict[int, list[bytes]] = {}
    alive: list[Any] = []
    original = Mmad.commit

    def commit(self: Mmad, memory: Any, dst: int, pending: Any) -> None:
        original(self, memory, dst, pending)
        if id(memory) not in seen:
            alive.append(memory)  # so that no other memory gets its number
        seen.setdefault(id(memory), []).append(memory.buffers["L0C"].tobytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mmad, "commit", commit)
        ascend_sim.convolution_backward(
            *make_tensors(case).values(),
            **case.attributes,
            cube_math_type=case.cube_math_type,
            chip=case.chip,
            deterministic=case.deterministic,
            mode="functional",
        )
    return list(seen.values())


def mmad_rows(program: Program) -> list[int]:
    kinds = [isinstance(instruction, Mmad) for instruction in program.table.instructions]
    return [row for row, kind in enumerate(program.rows[:, 0].tolist()) if kinds[kind]]


def check_partial_sums(explanation: Explanation, other: Partials) -> None:
    rows = [mmad_rows(run.program) for run in explanation.provenance.programs]
    cube = [number for number, found in enumerate(rows) if found]
    for part in explanation.parts:
        captured = other[cube.index(part.owner)]
        for mmad in part.mmads:
            at = captured[rows[part.owner].index(mmad.row[1])][part.address : part.address + 4]
            assert mmad.partial.tobytes() == at


def check_result(explanation: Explanation) -> None:
    """The sum of the parts' last partial sums, rounded by numpy, has the bits of the element that the call returned."""
    returned = explanation.result.outputs[explanation.tensor][explanation.index]
    total = np.float32(0)
    for part in explanation.parts:
        total = total + part.mmads[-1].partial
    with np.errstate(over="ignore"):
        if explanation.tensor == "grad_input":  # leaves the cube in the compute dtype
            total = total.astype(conv_problems.DTYPES[explanation.call.storage_dtype])
        assert total.astype(returned.dtype).tobytes() == returned.tobytes() or total == returned == 0
    size = returned.dtype.itemsize
    assert explanation.output.bits.to_bytes(size, "little") == returned.tobytes()


def check_formula(explanation: Explanation) -> None:
    """The formula's terms are the numbers that the cube multiplied, and sum to what the float64 reference says."""
    assert explanation.agrees
    call, operands = explanation.call, explanation.operands
    volumes = {name: operands[name].reshape(call.volume(name)) for name in ("grad_output", "input")}
    p = call.problem
    weight = operands["weight"].reshape(p.c_out, -1, p.k_d, p.k_h, p.k_w)
    if explanation.tensor == "grad_input":
        sums, squares = grad_input_reference(p, volumes["grad_output"], weight)
    else:
        sums, squares = grad_weight_reference(p, volumes["grad_output"], volumes["input"])
    expected = sums[explanation.formula.place]
    assert abs(explanation.unrounded - expected) <= 1e-12 * (1 + np.sqrt(squares[explanation.formula.place]))
    multiplied = sum(float(mmad.products.sum()) for part in explanation.parts for mmad in part.mmads)
    assert abs(multiplied - explanation.reference) <= 1e-12 * (1 + np.sqrt(squares[explanation.formula.place]))


@seed(0)
@sampled(6, 13, phases=[Phase.generate])
@given(
    problem=conv_problems.problems(),
    precision=st.sampled_from([("float16", 0), ("bfloat16", 0), ("float32", 0), ("float32", 1), ("float32", 2)]),
    deterministic=st.booleans(),
    data=st.data(),
)
def test_partial_sums_are_those_of_the_machine(
    problem: conv_problems.CallAttributes, precision: tuple[str, int], deterministic: bool, data: st.DataObject
) -> None:
    case = case_of(problem, *precision, deterministic, data.draw(st.integers(0, 99)))
    elements = []
    for gradient, name in (("grad_input", "input"), ("grad_weight", "weight")) * 2:
        index = tuple(data.draw(st.integers(0, size - 1)) for size in problem.shapes[name])
        elements.append((gradient, index))
    other = l0c_after_every_mmad(case)
    for explanation in explain_all(case, elements):
        check_partial_sums(explanation, other)
        check_result(explanation)
        check_formula(explanation)


@part_of_cases(2)
@pytest.mark.parametrize("name", ["transposed_2d", "conv_3d", "document_example_tbc", "depthwise"])
def test_every_kind_of_call_is_followed_to_its_numbers(name: str) -> None:
    case = load_case(name)
    shapes = {"grad_input": case.tensors["input"][0], "grad_weight": case.tensors["weight"][0]}
    elements = [(gradient, tuple(size // 3 for size in shape)) for gradient, shape in shapes.items()]
    for explanation in explain_all(case, elements):
        assert explanation.agrees
        check_result(explanation)
        assert explanation.value == pytest.approx(explanation.reference, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("chip", ["ascend310p3", "ascend910a"])
def test_the_way_through_the_vector_unit_is_followed(chip: str) -> None:
    explanation = explain("strided", chip=chip)
    names = [explanation.provenance.instruction(step.row).name for step in explanation.way if hasattr(step, "bits")]
    assert explanation.agrees
    assert names[0] == "l0c_to_ub"


def test_a_split_sum_is_added_in_the_order_in_which_its_parts_arrive() -> None:
    explanation = explain("document_example_2d", weight=(1, 0, 0, 0))
    assert repr(explanation).startswith("<Explanation of grad_weight[1, 0, 0, 0] on ") and len(repr(explanation)) < 150
    assert str(explanation).split() == explain_page(explanation, 100).split()
    assert max(map(len, str(explanation).splitlines())) <= 100
    assert len(explanation.parts) > 1
    arrivals = [
        (explanation.provenance.programs[step.row[0]].retire[step.row[1]], step.value)
        for step in explanation.way
        if hasattr(step, "bits") and explanation.provenance.instruction(step.row).atomic
    ]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1][1] == 98


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"element": (0, 0, 7, 0)}, "no element"),
        ({"element": (0, 0, 0)}, "4 numbers"),
        ({"element": (0, 0, 0, -1)}, "no element"),
        ({"element": (0, 0, 0, 0), "weight": (0, 0, 0, 0)}, "one at a time"),
        ({"element": "grad_input[0]"}, "allowed are 4 whole numbers, for example"),
        ({"weight": (0, 0, 1.5, 0)}, "allowed are 4 whole numbers"),
        ({"element": 3}, "allowed are 4 whole numbers"),
    ],
)
def test_an_element_that_there_is_not_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SimError, match=message):
        explain("document_example_2d", **arguments)


def test_a_masked_gradient_is_refused() -> None:
    masked = load_case("document_example_2d").model_copy(update={"output_mask": (False, True, True)})
    with pytest.raises(
        SimError, match=r"output_mask leaves grad_input out of this call; another number: --weight \(grad_weight\)$"
    ):
        explain(masked, element=(0, 0, 0, 0))
    assert explain(masked).tensor == "grad_weight"


@pytest.mark.parametrize(("gradient", "left"), [("grad_input", "weight"), ("grad_weight", "grad_output")])
def test_a_gradient_that_is_a_matrix_product_is_followed_too(gradient: str, left: str) -> None:
    problem = conv_problems.CallAttributes(1, 24, 20, (4, 5), (1, 1), pads=(0, 0, 0, 0))
    case = case_of(problem, "float16", 0, False, 1).model_copy(update={"chip": "ascend950pr_9589"})
    index = (0, 17, 2, 3) if gradient == "grad_input" else (17, 2, 0, 0)
    (explanation,) = explain_all(case, [(gradient, index)])
    assert [explanation.task(part.mmads[0].row).op_type for part in explanation.parts] == ["MatMul"]
    assert explanation.formula.left_name == left
    check_partial_sums(explanation, l0c_after_every_mmad(case))
    check_result(explanation)
    check_formula(explanation)


@part_of_cases(3)
@pytest.mark.parametrize("name", ["strided", "grouped", "dilated", "conv_3d"])
@pytest.mark.parametrize("gradient", ["element", "weight"])
def test_the_kernels_that_write_ncdhw_are_followed(name: str, gradient: str) -> None:
    case = load_case(name)
    rank = 5 if name == "conv_3d" else 4
    explanation = explain(case, chip="ascend950pr_9589", **{gradient: (0,) * rank})
    assert explanation.agrees
    check_result(explanation)
    check_formula(explanation)


@part_of_cases(3)
@pytest.mark.parametrize(
    ("chip", "cut"),
    [
        ("ascend910b3", {"splitWo": 16}),
        ("ascend910a", {"splitWo": 16}),
        ("ascend950pr_9589", {"splitWo": 16}),
        ("ascend950pr_9589", {"isSplitKernelHW": 1}),
    ],
)
@pytest.mark.parametrize("deterministic", [False, True])
def test_every_strip_and_tap_is_followed(chip: str, cut: dict[str, int], deterministic: bool) -> None:
    problem = conv_problems.CallAttributes(2, 8, 8, (3, 40), (3, 3), stride=(1, 2), pads=(1, 1, 2, 2))
    case = case_of(problem, "float16", 0, deterministic, 1)
    case = case.model_copy(update={"chip": chip, "tiling": {"grad_weight": cut}})
    (explanation,) = explain_all(case, [("grad_weight", (3, 5, 0, 1))])
    check_result(explanation)
    check_formula(explanation)


@pytest.mark.parametrize(
    ("chip", "fields"),
    [
        ("ascend910b3", {"splitWi": 16}), ("ascend910a", {"splitWi": 16}),
        ("ascend950pr_9589", {"splitWi": 16, "kernelSplitMode": 0}), ("ascend950pr_9589", {"loadB1Condition": 2}),
        ("ascend950pr_9589", {"loadB1Condition": 3, "splitWi": 16}),
    ],
)  # fmt: skip
def test_every_strip_and_piece_of_a_kernel_is_followed(chip: str, fields: dict[str, int]) -> None:
    problem = conv_problems.CallAttributes(2, 8, 8, (3, 40), (3, 3), stride=(1, 2), pads=(1, 1, 2, 2))
    case = case_of(problem, "float16", 0, False, 1)
    case = case.model_copy(update={"chip": chip, "tiling": {"grad_input": fields}})
    for explanation in explain_all(case, [("grad_input", (1, 3, 1, 31)), ("grad_input", (0, 7, 2, 16))]):
        check_result(explanation)
        check_formula(explanation)


def test_no_page_without_an_mmad() -> None:
    """Stride 2 and one tap: every second element of grad_input gets nothing."""
    problem = conv_problems.CallAttributes(1, 16, 16, (4, 4), (1, 1), stride=(2, 2), pads=(0, 0, 0, 0))
    (explanation,) = explain_all(case_of(problem, "float16", 0, False, 1), [("grad_input", (0, 0, 1, 1))])
    assert explanation.value == 0
    assert not explanation.parts
    with pytest.raises(SimError, match="no mmad adds to it"):
        explain_html(explanation)
