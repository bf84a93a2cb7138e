"""grad_input of a coupled chip under tilings that only its kernel can run: the same values, nothing found."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from tests.support.ops.conv_problems import Array, CallAttributes, problems, same_bits
from tests.support.ops.cube_runs import FIELDS, ONLY, SETTINGS, kernel_of, sixteens, whole_numbers

CHIP = "ascend910a"
LAYER = CallAttributes(3, 64, 48, (13, 11))
COUPLED = FIELDS["grad_input"] | {
    "stepM": st.integers(1, 4), "stepN": st.integers(1, 4), "singleCoreBatch": st.integers(1, 3),
    "singleCoreM": st.one_of(sixteens(8), st.integers(1, 12).map(lambda rows: 11 * rows)),
    "singleCoreCin": sixteens(4), "baseN": sixteens(3), "baseM": sixteens(4),
}  # fmt: skip


@cache
def known(problem: CallAttributes) -> Array:
    result = problem.run(whole_numbers(problem), ONLY["grad_input"], mode="functional")
    return result.outputs["grad_input"]


def check_tiling(problem: CallAttributes, data: st.DataObject) -> None:
    assume(problem.n * problem.c_in * problem.c_out < 10_000 and not problem.is_product and len(problem.size) == 2)
    names = data.draw(st.lists(st.sampled_from(sorted(COUPLED)), min_size=1, max_size=7, unique=True))
    fields = {name: data.draw(COUPLED[name], name) for name in names}
    try:
        result = problem.run(
            whole_numbers(problem), ONLY["grad_input"], chip=CHIP, tiling={"grad_input": fields}, deterministic=False
        )
    except TilingError as refused:
        event("refused")
        assert any(char.isdigit() for char in str(refused))
        return
    event("runs")
    assert {name: kernel_of(result, "grad_input")["tiling"][name] for name in fields} == fields
    assert result.report.findings == ()
    assert same_bits(result.outputs["grad_input"], known(problem))


CALLS = {"problem": st.one_of(st.just(LAYER), problems()), "data": st.data()}


@settings(SETTINGS, max_examples=6)
@given(**CALLS)
def test_what_l1_holds_changes_no_value(problem: CallAttributes, data: st.DataObject) -> None:
    check_tiling(problem, data)


@pytest.mark.slow
@settings(SETTINGS, max_examples=150)
@given(**CALLS)
def test_many_tilings(problem: CallAttributes, data: st.DataObject) -> None:
    check_tiling(problem, data)


@settings(SETTINGS, max_examples=6)
@given(st.one_of(st.just(LAYER), problems()), st.sampled_from(["ascend910a", "ascend910b", "ascend310p3"]))
def test_the_vendors_tilings_change_no_value(problem: CallAttributes, chip: str) -> None:
    assume(problem.n * problem.c_in * problem.c_out < 10_000 and not problem.is_product and len(problem.size) == 2)
    result = problem.run(whole_numbers(problem), ONLY["grad_input"], chip=chip, deterministic=False)
    event(kernel_of(result, "grad_input")["tiling_source"])
    assert result.report.findings == ()
    assert same_bits(result.outputs["grad_input"], known(problem))
