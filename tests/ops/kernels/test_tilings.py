"""The grid of tilings: all of it fits, each is one that a user can set, fixed fields stay."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_weight.capacity import check_grad_weight
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.tilings import settable, tilings_that_fit
from tests.support.ops.tiling_problems import RESNET, conv2d, on_910b, on_950
from tests.support.sampling import sampled

ASK = {"grad_input": GradInputQuestion, "grad_weight": GradWeightQuestion}
CHECK = {"grad_input": check_grad_input, "grad_weight": check_grad_weight}


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["grad_input", "grad_weight"]),
    st.integers(1, 5), st.integers(1, 150), st.integers(1, 200), st.integers(3, 20), st.integers(1, 3),
    st.sampled_from([2, 4]), st.booleans(), st.integers(0, 10),
)  # fmt: skip
def test_a_user_can_set_what_the_grid_has(
    kernel: str, n: int, c_in: int, c_out: int, size: int, k: int, itemsize: int, deterministic: bool, skip: int
) -> None:
    inp = on_910b(conv2d(n, c_in, c_out, size, k), itemsize=itemsize, deterministic=deterministic)
    found = list(islice(tilings_that_fit(kernel, inp), 400))
    assert found and len(set(found)) == len(found)
    for tiling in found[skip::37]:
        CHECK[kernel](tiling, inp)  # type: ignore[operator]
        assert ASK[kernel](inp, settable(tiling)).tiling() == tiling  # type: ignore[operator]


@pytest.mark.parametrize("kernel", ["grad_input", "grad_weight"])
def test_the_own_choice_lies_in_reach(kernel: str) -> None:
    """Its own fields given back are a tiling with the same block."""
    inp = on_910b(conv2d(2, 32, 32, 14, 3))
    own = ASK[kernel](inp).tiling()  # type: ignore[operator]
    again = ASK[kernel](inp, settable(own)).tiling()  # type: ignore[operator]
    assert again == own.but(source="manual", bl1_bound=again.bl1_bound) if kernel == "grad_weight" else own.but(source="manual")


def test_fixed_fields_need_not_lie_on_the_grid() -> None:
    inp = on_910b(RESNET)
    found = list(tilings_that_fit("grad_input", inp, {"baseM": 208, "baseK": 16, "singleCoreM": 56 * 9}))
    assert found
    assert {(t.base_m, t.base_k, t.single_core_m) for t in found} == {(208, 16, 504)}
    assert len({(t.base_n, t.al1_buffers, t.step_ka) for t in found}) > 4


@sampled(2, 6)
@given(
    st.sampled_from(["grad_input", "grad_weight"]), st.integers(1, 300), st.integers(1, 300), st.integers(3, 60),
    st.sampled_from([2, 4]), st.booleans(),
)  # fmt: skip
@example("grad_weight", 300, 300, 60, 4, True)
def test_the_grid_has_as_many_buffers_as_fit(
    kernel: str, c_in: int, c_out: int, size: int, itemsize: int, deterministic: bool
) -> None:
    """Checks that are made once for all numbers of buffers in L1 are those of each number."""
    inp = on_910b(conv2d(2, c_in, c_out, size, 3), itemsize=itemsize, deterministic=deterministic)
    grid = set(tilings_that_fit(kernel, inp))
    for al1, bl1 in product((1, 2), (1, 2)):
        found = set(tilings_that_fit(kernel, inp, {"al1Pbuffer": al1, "bl1Pbuffer": bl1}))
        assert found == {one for one in grid if (one.al1_buffers, one.bl1_buffers) == (al1, bl1)}
        for one in islice(found, 20):
            CHECK[kernel](one, inp)  # type: ignore[operator]


def test_weights_that_l1_holds_stay_where_one_buffer_has_all_of_k() -> None:
    """On the 950, of every number of buffers; those that a user wants to stay are in one buffer."""
    inp = on_950(conv2d(2, 32, 32, 8, 3, pad=1))
    for fixed in ({}, {"enableFullLoad": 1}, {"enableFullLoad": 0}):
        found = list(islice(tilings_that_fit("grad_input", inp, fixed), 2000))
        stay = [one for one in found if one.full_load]
        assert {one.bl1_buffers for one in stay} == (set() if fixed.get("enableFullLoad") == 0 else {1})
        assert {one.bl1_buffers for one in found} == ({1} if fixed.get("enableFullLoad") else {1, 2})
        for one in found[::17]:
            check_grad_input(one, inp)


@pytest.mark.parametrize("fields", [{"baseQ": 1}, {"weightsResident": 1}, {"baseM": 8}, {"baseM": -16}, {"stepKa": True}])
def test_fields_that_nobody_can_set_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(TilingError):
        list(tilings_that_fit("grad_input", on_910b(RESNET), fields))
