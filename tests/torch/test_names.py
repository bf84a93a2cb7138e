"""Which layer a gradient belongs to: under `torch.func`, in another block or thread than its forward, in nested simulations."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ascend_sim  # noqa: E402
from ascend_sim.torch import Simulation, simulate  # noqa: E402
from ascend_sim.torch.calls import MATMUL  # noqa: E402
from ascend_sim.torch.names import OUTSIDE  # noqa: E402
from tests.support.torch.models import ConvTbc  # noqa: E402

nn = torch.nn
functional_call, grad, jvp, vmap, vjp = (
    getattr(torch.func, name) for name in ("functional_call", "grad", "jvp", "vmap", "vjp")
)
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
DATA = (2, 3, 6, 6)


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 2, 1), nn.Flatten(), nn.Linear(32, 5))


def passes(sim: Simulation) -> dict[str, tuple[int, int]]:
    """Layer -> forward and backward calls, of a product those of one gradient."""
    found: dict[str, Counter[str]] = {}
    for row in sim.rows:
        counts = found.setdefault(row.layer.name, Counter())
        for call, count in row.calls.items():
            counts["forward" if call.forward else f"backward {call.part}"] += count
    return {name: (counts.pop("forward", 0), max(counts.values(), default=0)) for name, counts in found.items()}


PLAIN = {"0": (1, 1), "2": (1, 1), "4": (1, 1)}


def total(parameters: Any, model: Any, data: Any) -> Any:
    return functional_call(model, parameters, (data,)).pow(2).sum()


@pytest.mark.parametrize("values", ["torch", "chip"])
def test_transforms_of_functions_keep_the_layers_names(model: Any, values: str) -> None:
    """Their nodes are several for a call, and none of its tensors wants a gradient where the modes see it."""
    options = {"mode": "functional" if values == "chip" else "timing", "values": values, "matmul": values != "chip"}
    convolutions = {"0", "2"}
    own, data = dict(model.named_parameters()), torch.randn(DATA)

    def seen(function: Any) -> tuple[dict[str, tuple[int, int]], Any]:
        with simulate(**options) as sim:
            result = function()
        return {name: counts for name, counts in passes(sim).items() if name not in convolutions or counts}, result

    wanted = grad(total)(own, model, data)
    found, made = seen(lambda: grad(total)(own, model, data))
    assert found == {name: PLAIN[name] for name in found} and convolutions <= set(found)
    for name, gradient in wanted.items():
        torch.testing.assert_close(made[name], gradient, rtol=1e-4, atol=1e-4)
    found, made = seen(lambda: vmap(grad(total), (None, None, 0))(own, model, data[:, None]))
    assert set(found) <= set(PLAIN) and min(found[name][1] for name in convolutions) == 1
    torch.testing.assert_close(made["0.weight"].sum(0), wanted["0.weight"], rtol=1e-4, atol=1e-4)
    found, _ = seen(lambda: vmap(model)(torch.randn(3, *DATA)))
    assert found == dict.fromkeys(found, (1, 0)) and convolutions <= set(found)
    found, _ = seen(lambda: jvp(model, (data,), (data,)))
    assert set(found) <= set(PLAIN) and min(found[name][0] for name in convolutions) >= 2
    found, _ = seen(lambda: vjp(model, data)[1](torch.ones(2, 5)))
    assert found == {name: PLAIN[name] for name in found} and convolutions <= set(found)
    found, _ = seen(lambda: grad(lambda x: grad(lambda x: model(x).pow(2).sum())(x).pow(2).sum())(data))
    assert set(found) <= set(PLAIN) and min(found[name][1] for name in convolutions) >= 2


def test_a_backward_in_a_later_block_of_the_same_simulation_keeps_its_layers(model: Any) -> None:
    with simulate() as sim:
        loss = model(torch.randn(DATA)).sum()
    model(torch.randn(DATA)).sum().backward()  # nothing of this
    with sim:
        loss.backward()
    assert passes(sim) == PLAIN


def test_a_forward_outside_is_said_and_no_gradient_is_lost(model: Any) -> None:
    loss = model(torch.randn(DATA).requires_grad_()).sum()
    with simulate() as sim:
        model(torch.randn(1, 3, 6, 6))  # nodes of the same kinds, made inside
        loss.backward()
    assert passes(sim) == {"0": (1, 0), "2": (1, 0), "4": (1, 0), OUTSIDE: (0, 2)}  # and a product
    with simulate() as whole:
        model(torch.randn(DATA).requires_grad_()).sum().backward()

    def gradients(one: Simulation) -> Counter[Any]:
        return Counter(call for row in one.rows for call in row.calls if not call.forward)

    assert gradients(sim) == gradients(whole)
    outside = {row.layer.text for row in sim.rows if row.layer.name == OUTSIDE}
    assert outside == {row.layer.text for row in whole.rows}
    assert str(sim.report).count(OUTSIDE) == 3


@pytest.mark.parametrize("function", [torch.bmm, lambda a, b: torch.baddbmm(torch.zeros(2, 3, 5), a, b)])
@pytest.mark.parametrize("wants", [(True, True), (True, False), (False, True)])
def test_products_made_outside_have_their_shapes_and_parts(function: Any, wants: tuple[bool, bool]) -> None:
    a, b = torch.randn(2, 3, 4, requires_grad=wants[0]), torch.randn(2, 4, 5, requires_grad=wants[1])
    loss = function(a, b).sum()
    with simulate() as sim:
        loss.backward()
    (row,) = sim.rows
    assert [spec.shape for _, spec in row.layer.tensors] == [(2, 3, 4), (2, 4, 5)]
    parts = {part for part, wanted in zip(("grad_input", "grad_weight"), wants, strict=True) if wanted}
    assert {call.part for call in row.calls} == parts


def test_nested_simulations_have_a_whole_table_each(model: Any) -> None:
    data = torch.randn(DATA)
    with simulate(chip="ascend910a") as outer, simulate() as inner:
        model(data).sum().backward()
    assert passes(outer) == passes(inner) == PLAIN
    assert outer.report.chip == "ascend910a" and outer.report.totals["total"] != inner.report.totals["total"]
    with simulate() as outer:
        with simulate() as inner:
            loss = model(data).sum()
        loss.backward()
    assert (passes(outer), passes(inner)) == (PLAIN, dict.fromkeys(PLAIN, (1, 0)))


def test_products_of_equal_sizes_are_told_apart_by_each_simulation() -> None:
    """A square dC fits both dA and dB: each simulation has to remember for itself which of them it has seen."""
    layer = nn.Linear(8, 4)
    with simulate() as outer, simulate() as inner:
        loss = layer(torch.randn(4, 8, requires_grad=True)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    for sim in (outer, inner):
        (row,) = sim.rows
        counts = {call.part: count for call, count in row.calls.items()}
        assert counts == {"output": 1, "grad_input": 2, "grad_weight": 2}


def test_the_inner_ones_values_go_on() -> None:
    torch.manual_seed(0)
    layer, data = nn.Conv2d(8, 8, 3), torch.randn(2, 8, 14, 14)  # long sums, whose order shows on every host
    made = {}
    for name, types in {"alone": (2,), "nested": (0, 2)}.items():
        layer.zero_grad()
        sims = [simulate(mode="functional", values="chip", cube_math_type=one) for one in types]
        with sims[0], sims[-1]:
            layer(data).pow(2).sum().backward()
        made[name] = layer.weight.grad.clone()
    assert torch.equal(made["alone"], made["nested"])
    (row,) = sims[0].rows
    # float32 of the chip against PyTorch's, not against the inner one's
    assert 0 < row.differences["grad_weight"] < 1e-5


def test_a_simulation_entered_twice_counts_once(model: Any) -> None:
    with simulate() as sim:
        with sim:
            model(torch.randn(DATA)).sum().backward()
        model(torch.randn(DATA)).sum().backward()
    assert passes(sim) == dict.fromkeys(PLAIN, (2, 2))
    model(torch.randn(DATA)).sum().backward()
    assert passes(sim) == dict.fromkeys(PLAIN, (2, 2))


def test_forward_in_two_threads_and_backward_in_a_third(model: Any) -> None:
    """The numbers of nodes are the same in each thread."""
    other = nn.Sequential(nn.Conv2d(3, 6, 1), nn.Conv2d(6, 4, 3))
    losses = []
    whole = nn.ModuleDict({"a": model, "b": other})
    with simulate(whole) as sim:

        def forward(one: Any) -> None:
            with sim:
                losses.append(one(torch.randn(DATA)).sum())

        for one in (model, other):
            thread = threading.Thread(target=forward, args=(one,))
            thread.start()
            thread.join()
        sum(losses).backward()
    assert passes(sim) == dict.fromkeys(("a.0", "a.2", "a.4", "b.0", "b.1"), (1, 1))


class OwnBackward(torch.autograd.Function):
    """A convolution with a backward of the user's."""

    @staticmethod
    def forward(ctx: Any, data: Any, weight: Any) -> Any:
        ctx.save_for_backward(data, weight)
        return nn.functional.conv2d(data, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        data, weight = ctx.saved_tensors
        made = nn.grad.conv2d_input(data.shape, weight, grads[0]), nn.grad.conv2d_weight(data, weight.shape, grads[0])
        return made


class OwnConv(nn.Conv2d):
    def forward(self, data: Any) -> Any:
        return OwnBackward.apply(data, self.weight)


def test_convolutions_in_a_function_of_the_users_have_its_modules_name() -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), OwnConv(3, 4, 3), nn.ReLU())
    with simulate() as sim:
        model(torch.randn(DATA)).sum().backward()
    assert passes(sim) == {"0": (1, 1), "1": (1, 2)}
    loss = model(torch.randn(DATA)).sum()
    with simulate() as sim:
        loss.backward()
    assert set(passes(sim)) == {OUTSIDE}


@pytest.mark.parametrize("reentrant", [False, True])
def test_products_that_checkpointing_runs_again_are_forward_calls(reentrant: bool) -> None:
    """Also where no module tells that a forward pass runs."""
    first, second = torch.randn(6, 4, requires_grad=True), torch.randn(5, 6, requires_grad=True)
    linear = nn.functional.linear
    with simulate() as sim:
        made = checkpoint(
            lambda x: linear(linear(x, first).tanh(), second), torch.randn(3, 4).requires_grad_(), use_reentrant=reentrant
        )
        made.sum().backward()
    counts = [{call.part: n for call, n in row.calls.items()} for row in sim.rows if row.layer.kind == MATMUL]
    assert counts[0] == {"output": 2, "grad_input": 1, "grad_weight": 1}
    assert counts[1] == {"output": 2 if reentrant else 1, "grad_input": 1, "grad_weight": 1}


def test_convolutions_over_time_have_names_too() -> None:
    model, data = nn.Sequential(ConvTbc(3, 4, 3), nn.Tanh(), ConvTbc(4, 2, 1)), torch.randn(5, 2, 3)
    parameters = dict(model.named_parameters())
    with simulate() as sim:
        grad(total)(parameters, model, data)
        vmap(grad(total), (None, None, 0))(parameters, model, torch.randn(3, 5, 2, 3))
        loss = model(data).sum()
    with sim:
        loss.backward()
    assert passes(sim) == {"0": (0, 5), "2": (0, 5)}
    loss = model(data).sum()
    with simulate() as sim:
        loss.backward()
    assert not sim.rows  # PyTorch made matrix products of it, outside


def test_the_room_for_pytorch_comes_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """README has it after `import ascend_sim` alone."""
    monkeypatch.delattr(ascend_sim, "torch", raising=False)
    assert callable(ascend_sim.torch.simulate)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ascend_sim.nothing
