"""MatMul's programs with stamps are those that are built row by row, loads that run ahead into later tiles included."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import RowError, TilingError
from ascend_sim.ops.kernels.matmul import program
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.runtime import Device, Task
from tests.support.ops.stamped_runs import difference_of
from tests.support.sampling import sampled

CHIPS = ("ascend910b2", "ascend910b3", "ascend950pr_9589")


def task(problem: MatMulProblem, chip: str, fields: dict[str, int]) -> Task:
    spec = load_chip(chip)
    device = Device(spec)
    tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
    return matmul_task(spec, problem, choose_matmul(problem, spec, fields), tensors)


@st.composite
def problems(draw: st.DrawFn) -> MatMulProblem:
    side = st.one_of(st.integers(1, 100), st.integers(100, 900))
    dtype = draw(st.sampled_from(["float16", "bfloat16", "float32"]))
    flags = (draw(st.booleans()) for _ in range(3))
    return MatMulProblem(
        draw(side), draw(side), draw(side), dtype, draw(st.sampled_from([dtype, "float32"])),
        draw(st.sampled_from([1, 1, 3, 7])), *flags,
    )  # fmt: skip


@sampled(30, 300)
@given(
    problems(), st.sampled_from(CHIPS),
    st.dictionaries(
        st.sampled_from(["stepKa", "stepKb", "al1Pbuffer", "bl1Pbuffer", "baseM", "baseN", "baseK"]),
        st.sampled_from([1, 2, 16, 32, 64]), max_size=2,
    ),
)  # fmt: skip
def test_any_product(problem: MatMulProblem, chip: str, fields: dict[str, int]) -> None:
    try:
        choose_matmul(problem, load_chip(chip), fields)
    except TilingError:
        fields = {}
    assert difference_of(lambda: task(problem, chip, fields))[0] == ""


LARGE = MatMulProblem(1024, 2048, 1024)


def test_most_rows_come_from_stamps() -> None:
    wrong, repeated = difference_of(lambda: task(LARGE, "ascend910b3", {}))
    rows = sum(len(built) for block in range(4) for built in task(LARGE, "ascend910b3", {}).build(block)) * 4
    assert (wrong, repeated > rows // 2) == ("", True)


@pytest.mark.parametrize("mistake", ["address", "bases"])
def test_a_planted_mistake_is_found(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block at hand that no tile leaves to the next; blocks of later tiles where those of the first are."""
    if mistake == "address":
        carry = program.KernelBuilder.carry

        def forgets(k: Any, owner: object, *names: str) -> None:
            carry(k, owner, *[name for name in names if not (name == "address" and type(owner) is program._Stream)])

        monkeypatch.setattr(program.KernelBuilder, "carry", forgets)
    else:
        load = program._MatmulBuilder.load

        def loads(self: Any, slot: int, k_outside: bool, extent: int, block: Any, base: Any, *more: Any) -> None:
            load(self, slot, k_outside, extent, block, base if isinstance(base, int) else 0 * base, *more)

        monkeypatch.setattr(program._MatmulBuilder, "load", loads)
    thin = MatMulProblem(1211, 828, 24, "float32", "float32", transpose_a=True, transpose_b=True)
    try:
        assert difference_of(lambda: task(thin, "ascend910b3", {"baseM": 16}))[0]
    except RowError as error:  # a row that reads what lies outside of its buffer or tensor
        assert "AIC" in str(error)
