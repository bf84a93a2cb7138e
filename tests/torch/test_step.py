"""The order of a step: what the operators before a call moved, and the L2 that they leave."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ascend_sim  # noqa: E402
from ascend_sim import SimError, TensorSpec  # noqa: E402
from ascend_sim.calls.run import run_call  # noqa: E402
from ascend_sim.chip import load_chip  # noqa: E402
from ascend_sim.ops.operators import OPERATORS  # noqa: E402
from ascend_sim.torch import simulate  # noqa: E402
from ascend_sim.torch.step import StepOrder  # noqa: E402

CHIP, MB = "ascend910b3", 1 << 20
aten = torch.ops.aten


def watched(order: StepOrder, func: Any, *args: Any, **kwargs: Any) -> Any:
    """The results of an operator that the order has noted."""
    results = func(*args, **kwargs)
    order.ran(func, args, kwargs, results)
    return results


def test_operators_read_their_arguments_and_write_their_results() -> None:
    order = StepOrder(MB)
    a, b = torch.zeros(8), torch.zeros(4)
    c = watched(order, aten.mul.Tensor, a, 2.0)
    watched(order, aten.add_.Tensor, c, a)
    watched(order, aten.view.default, b, [2, 2])
    watched(order, aten.stack.default, [b, b])
    assert order.before({"input": c}) == (
        ((0, 32, False), ("input", 32, True)),
        (("input", 32, True), (0, 32, False)),
        ((1, 16, False), (2, 32, True)),
    )


def test_a_view_of_a_tensor_is_its_storage() -> None:
    order = StepOrder(MB)
    a = torch.zeros(8)
    watched(order, aten.relu_.default, a)
    assert order.before({"weight": a[2:5]}) == ((("weight", 32, True),),)


def test_orders_are_equal_whatever_the_addresses() -> None:
    found = []
    for _ in range(2):
        order = StepOrder(MB)
        kept = [torch.zeros(16), torch.zeros(8)]
        for one in kept:
            watched(order, aten.neg_.default, one)
        found.append((order.before({}), kept))
    assert found[0][0] == found[1][0] == (((0, 64, True),), ((1, 32, True),))


def test_what_no_l2_remembers_is_dropped() -> None:
    order = StepOrder(1000)  # four of them are kept
    for size in (300, 200, 199, 102):
        with torch.device("meta"):
            watched(order, aten.zeros_like.default, torch.empty(size))
    assert [sum(nbytes for _, nbytes, _ in one) for one in order.before({})] == [1592, 816]


def test_a_call_finds_the_l2_as_the_operators_before_it_leave_it() -> None:
    """By hand: the input of the convolution is the relu's output, its weight was never touched."""
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, bias=False))
        data = torch.empty(4, 16, 64, 64)
    with simulate(model, chip=CHIP, mode="timing", l2="step") as sim, torch.no_grad():
        model(data)
    (row,) = sim.report.rows
    nbytes = 4 * 16 * 64 * 64 * 4
    (call,) = row.calls
    assert call.before == (((0, nbytes, False), ("input", nbytes, True)),)

    def alone(before: Any, **options: Any) -> float:
        found = run_call(
            OPERATORS[call.operator], call.given, call.named, {"chip": CHIP, "mode": "timing", **options}, before=before
        )
        assert found.report.total_us is not None
        return found.report.total_us

    told = sim.report.us(row)["total"]
    assert told == pytest.approx(alone(call.before, l2="step"))
    assert alone(None, l2="warm") < told < alone(None, l2="cold")


def test_a_matrix_product_finds_its_operands() -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(1024, 16, bias=False)).half()
        data = torch.empty(16384, 1024, dtype=torch.float16)
    found = {}
    for l2 in ("cold", "step"):
        with simulate(model, chip=CHIP, mode="timing", l2=l2) as sim, torch.no_grad():
            model(data)
        found[l2] = sim.report.totals["total"]
    assert found["step"] < found["cold"]


def test_equal_steps_are_simulated_once() -> None:
    with torch.device("meta"):
        model, data = torch.nn.Conv2d(16, 16, 3), torch.empty(64, 16, 128, 128)
    assert data.nbytes * 4 > load_chip(CHIP).memory.l2_bytes / 2
    with simulate(model, chip=CHIP, mode="timing", l2="step") as sim:
        outputs = [model(data) for _ in range(12)]
    (row,) = sim.rows
    assert len(outputs) == sum(row.calls.values()) == 12
    assert len(row.calls) < 12


def test_a_layer_of_its_own_has_no_step() -> None:
    with torch.device("meta"):
        model, data = torch.nn.Conv2d(16, 16, 3), torch.empty(1, 16, 32, 32)
    with simulate(model, chip=CHIP, mode="timing", l2="step") as sim:
        model(data)
    layer = sim[sim.rows[0].layer.name]
    assert layer.case(forward=True).l2 == "cold"
    assert layer.run(forward=True).report.to_dict()["problem"]["l2"] == "cold"


def test_a_call_alone_is_refused() -> None:
    given = [TensorSpec((1, 16, 8, 8), "float16"), TensorSpec((16, 16, 3, 3), "float16"), None]
    with pytest.raises(SimError, match="or a model"):
        ascend_sim.convolution(*given, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mode="timing", l2="step")
