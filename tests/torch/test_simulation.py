"""Models under `simulate`: every convolution's gradient once, under its layer's name, with the times of the call alone."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ascend_sim  # noqa: E402
from ascend_sim import AclnnError, SimError, TensorSpec  # noqa: E402
from ascend_sim.torch import Simulation, simulate  # noqa: E402
from ascend_sim.torch.calls import MATMUL, Call  # noqa: E402
from tests.support.torch.models import MODELS, ConvTbc, resnet50, small_cnn  # noqa: E402
from tests.support.torch.steps import step  # noqa: E402

nn, aten = torch.nn, torch.ops.aten
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
FakeTensorMode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode


def backward_calls(sim: Simulation) -> Counter[str]:
    """Gradients of convolutions that were seen, by layer."""
    found: Counter[str] = Counter()
    for row in sim._rows.values():
        for call, count in row.calls.items():
            if row.layer.kind != MATMUL and not call.forward:
                found[row.layer.name] += count
    return found


IN_DEPTH = ("mobilenet_v3", "vit_b_16", "r3d_18")
"""Seconds each, and nothing that the others do not have but size."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in IN_DEPTH else []) for name in MODELS])
def test_every_convolution_has_its_gradient_once(name: str) -> None:
    """At the batch of a training run, on the meta device, where nothing takes memory."""
    make, shape, convolutions, parameters = MODELS[name]
    with torch.device("meta"):
        model, data = make(), torch.empty(shape)
    assert sum(one.numel() for one in model.parameters()) == parameters
    sim, ran, in_graph = step(model, data)
    assert backward_calls(sim) == ran
    assert sum(ran.values()) == in_graph == convolutions
    linear = [name for name, module in model.named_modules() if type(module) is nn.Linear]
    products = {row.layer.name for row in sim._rows.values() if row.layer.kind == MATMUL}
    assert set(linear) - products == set()


def by_hand(call: Call, **options: Any) -> Any:
    """Make the call through the public function."""
    function = getattr(ascend_sim, call.operator)
    tensors, attributes = call.given, call.named
    if call.operator == "conv_tbc_backward":
        return function(*tensors.values(), attributes["pad"], mode="timing", **options)
    return function(*tensors.values(), *attributes.values(), mode="timing", **options)


def assert_times_by_hand(sim: Simulation, **options: Any) -> None:
    report = sim.report
    rows = [row for row in report.rows if row.layer.kind != MATMUL]
    for row in rows:
        expected: Counter[str] = Counter()
        for call, count in row.calls.items():
            if report.outcomes[call].status != 0:
                with pytest.raises(AclnnError) as refused:
                    by_hand(call, **options)
                assert refused.value.status == report.outcomes[call].status
                continue
            result = by_hand(call, **options)
            expected["total"] += count * result.report.total_us
            for kernel in result.report.kernels:
                names = {
                    "output": "output", "BiasAdd_output": "output", "grad_input": "grad_input", "grad_weight": "grad_weight",
                    "ReduceSum_grad_bias": "grad_bias",
                }  # fmt: skip
                expected[names.get(kernel["name"], "layout")] += count * kernel["task_us"]
        assert report.us(row) == pytest.approx(dict(expected), abs=1e-3)
    assert report.totals["total"] == pytest.approx(sum(report.us(row)["total"] for row in report.rows), abs=1e-3)


def test_times_are_those_of_the_calls_alone(tiny: Any) -> None:
    sim, _, _ = step(tiny, torch.randn(2, 3, 12, 12))
    assert_times_by_hand(sim, chip="ascend910b3")
    assert len(sim.report.rows) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_times_of_a_published_network_are_those_of_its_calls(name: str) -> None:
    make, shape, _, _ = MODELS[name]
    batch = 1 if name == "conv_tbc" else 0
    with torch.device("meta"):
        model, data = make(), torch.empty(tuple(2 if axis == batch else size for axis, size in enumerate(shape)))
    sim, _, _ = step(model, data)
    refused = [(row.layer.name, call.operator) for row in sim.report.rows for call, _ in sim.report.refusals(row)]
    assert not refused
    assert_times_by_hand(sim, chip="ascend910b3")


def test_equal_calls_are_simulated_once() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Conv2d(16, 16, 1) for _ in range(3)))
        with simulate() as sim:
            model(torch.empty(1, 16, 4, 4, requires_grad=True)).sum().backward()
    report = sim.report
    assert [row.layer.name for row in report.rows] == ["0", "1", "2"]
    assert len(report.outcomes) == 2  # forward and backward
    assert len({report.us(row)["total"] for row in report.rows}) == 1


def test_fake_tensors_are_seen_in_either_order(tiny: Any) -> None:
    with simulate() as real:
        tiny(torch.randn(2, 3, 12, 12)).sum().backward()
    with FakeTensorMode(), simulate() as inner:
        small_cnn()(torch.randn(2, 3, 12, 12)).sum().backward()
    with simulate() as outer, FakeTensorMode():
        small_cnn()(torch.randn(2, 3, 12, 12)).sum().backward()
    for fake in (inner, outer):
        assert [(row.layer, row.calls) for row in fake._rows.values()] == [
            (row.layer, row.calls) for row in real._rows.values()
        ]


def test_what_pytorch_passes_is_what_the_operator_gets(tiny: Any) -> None:
    """bias_sizes [0] without a bias, no dX for the first layer, a gradient whose axes repeat one element."""
    seen = []

    class Spy(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is aten.convolution_backward.default:
                seen.append((args[0].stride(), args[3], args[10]))
            return func(*args, **(kwargs or {}))

    model = nn.Sequential(nn.Conv2d(3, 16, 1, bias=False), nn.Conv2d(16, 16, 1))
    with Spy(), simulate() as sim:
        model(torch.randn(1, 3, 4, 4)).sum().backward()
    assert seen[0][0] == (0, 0, 0, 0) and seen[1][1:] == ([0], [False, True, False])
    first, last = sim.report.rows
    (gradient,) = (call for call in first.calls if not call.forward)
    assert gradient.named["bias_sizes"] is None and gradient.named["output_mask"] == (False, True, False)
    assert not sim.report.refusals(first) and "grad_input" not in sim.report.us(first)
    (gradient,) = (call for call in last.calls if not call.forward)
    assert gradient.given["grad_output"] == TensorSpec((1, 16, 4, 4), "float32")


def test_a_gradient_of_a_gradient_belongs_to_its_layer() -> None:
    model = nn.Sequential(nn.Conv2d(2, 4, 1), nn.Tanh(), nn.Conv2d(4, 2, 1))
    data = torch.randn(1, 2, 3, 3, requires_grad=True)
    with simulate() as sim:
        (first,) = torch.autograd.grad(model(data).sum(), data, create_graph=True)
        before = backward_calls(sim)
        first.pow(2).sum().backward()
    assert before == {"0": 1, "2": 1}
    assert set(backward_calls(sim)) == {"0", "2"} and sum(backward_calls(sim).values()) > 2
    assert not any(sim.report.refusals(row) for row in sim.report.rows)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_computes_forward_again(tiny: Any, reentrant: bool) -> None:
    data = torch.randn(2, 3, 12, 12, requires_grad=reentrant)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = tiny

        def forward(self, x: Any) -> Any:
            return checkpoint(self.body, x, use_reentrant=reentrant)

    with simulate() as sim:
        Net()(data).sum().backward()
    assert backward_calls(sim) == {"body.0": 1, "body.2": 1, "body.4": 1}
    forward = [
        sum(n for call, n in row.calls.items() if call.forward) for row in sim._rows.values() if row.layer.kind != MATMUL
    ]
    assert forward[:2] == [2, 2] and set(forward) <= {1, 2}  # what the last layer saves nothing for is not run again
    if reentrant:  # the input asks for a gradient, so the first layer makes one
        (call,) = (call for call in next(iter(sim._rows.values())).calls if not call.forward)
        assert call.named["output_mask"][0]


def test_a_shared_module_is_one_layer_called_twice() -> None:
    conv = nn.Conv2d(4, 4, 1)
    model = nn.Sequential(conv, nn.ReLU(), conv)
    with simulate() as sim:
        model(torch.randn(1, 4, 4, 4, requires_grad=True)).sum().backward()
    assert backward_calls(sim) == {"0": 2}


def test_functional_calls_unbatched_ones_and_several_models_have_names() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, 3))

        def forward(self, x: Any) -> Any:
            return nn.functional.conv1d(x, self.weight)

    first, other = nn.Sequential(Functional(), nn.Conv1d(4, 2, 1)), Functional()
    with simulate() as sim:
        first(torch.randn(4, 8)).sum().backward()
        other(torch.randn(4, 9)).sum().backward()
        nn.functional.conv1d(torch.randn(1, 4, 5), other.weight).sum().backward()
    assert backward_calls(sim) == {"0": 1, "1": 1, "Functional": 1, "(no module)": 1}
    whole = nn.ModuleDict({"generator": first, "judge": other})
    with simulate(whole) as sim:
        first(torch.randn(4, 8)).sum().backward()
        other(torch.randn(4, 9)).sum().backward()
    assert set(backward_calls(sim)) == {"generator.0", "generator.1", "judge"}


def test_autocast_is_seen_in_its_dtype(tiny: Any) -> None:
    with simulate() as sim, torch.autocast("cpu", torch.bfloat16):
        tiny(torch.randn(2, 3, 12, 12)).sum().backward()
    assert {spec.dtype for row in sim._rows.values() for call in row.calls for spec in call.given.values() if spec} == {
        "bfloat16"
    }
    assert backward_calls(sim) == {"0": 1, "2": 1, "4": 1}
    assert not any(sim.report.refusals(row) for row in sim.report.rows)


def test_channels_last_costs_copies() -> None:
    """The operator brings strided arrays into its order first, as by hand."""
    model = nn.Conv2d(16, 16, 3, padding=1).to(memory_format=torch.channels_last)
    data = torch.randn(2, 16, 8, 8).to(memory_format=torch.channels_last).requires_grad_()
    with simulate() as sim:
        (model(data) ** 2).sum().backward()
    (row,) = sim.report.rows
    (call,) = (call for call in row.calls if not call.forward)
    x = np.zeros((2, 8, 8, 16), np.float32).transpose(0, 3, 1, 2)
    weight = np.zeros((16, 3, 3, 16), np.float32).transpose(0, 3, 1, 2)
    expected = ascend_sim.convolution_backward(
        x, x, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True), mode="timing"
    )
    kernels = [(kernel["name"], kernel["task_us"]) for kernel in sim.report.outcomes[call].kernels]
    assert kernels == [(kernel["name"], kernel["task_us"]) for kernel in expected.report.kernels]
    assert sum("ViewCopy" in name for name, _ in kernels) >= 3


def test_threads_that_enter_the_context_are_counted(tiny: Any) -> None:
    data = torch.randn(2, 3, 12, 12)
    errors = []
    with simulate() as sim:

        def work(inside: bool) -> None:
            try:
                if inside:
                    with sim:
                        for _ in range(3):
                            tiny(data).sum().backward()
                else:
                    tiny(data).sum().backward()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(inside,)) for inside in (True, True, True, False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert backward_calls(sim) == {"0": 9, "2": 9, "4": 9}
    assert not nn.modules.module._global_forward_hooks and not nn.modules.module._global_forward_pre_hooks


def test_conv_tbc_has_a_backward_of_its_own_with_torchs_gradients() -> None:
    torch.manual_seed(1)
    layer, data = ConvTbc(8, 16, 3), torch.randn(5, 2, 8, requires_grad=True)
    layer(data).pow(2).sum().backward()
    wanted = [tensor.grad.clone() for tensor in (data, layer.weight, layer.bias)]
    for tensor in (data, layer.weight, layer.bias):
        tensor.grad = None
    with simulate() as sim:
        layer(data).pow(2).sum().backward()
    for tensor, expected in zip((data, layer.weight, layer.bias), wanted, strict=True):
        assert torch.equal(tensor.grad, expected)
    (row,) = sim.report.rows
    assert row.layer.name == "ConvTbc" and [call.operator for call in row.calls] == ["conv_tbc_backward"]
    assert set(sim.report.us(row)) == {"grad_input", "grad_weight", "grad_bias", "layout", "total"}


def test_conv_tbc_can_be_differentiated_twice() -> None:
    layer, data = ConvTbc(2, 3, 1).double(), torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    with simulate():
        assert torch.autograd.gradgradcheck(lambda x: layer(x).tanh(), data)


def test_a_refused_call_is_a_row_and_raises_only_when_strict(tiny: Any) -> None:
    data = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    with simulate() as sim:
        tiny.double()(data).sum().backward()
    assert all(parameter.grad is not None for parameter in tiny.parameters())
    row = sim.report.to_dict()["layers"][0]
    assert {call["status"] for call in row["calls"]} == {161002}
    assert "float64" in row["calls"][0]["message"] and "refused with 161002" in str(sim.report)
    with pytest.raises(AclnnError, match="float64"), simulate(strict=True):
        tiny(data)
    assert not nn.modules.module._global_forward_hooks


def test_only_backward_if_wanted(tiny: Any) -> None:
    with simulate(forward=False) as sim:
        tiny(torch.randn(1, 3, 8, 8)).sum().backward()
    assert not any(call.forward for row in sim._rows.values() for call in row.calls)
    assert backward_calls(sim) == {"0": 1, "2": 1, "4": 1}


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_a_compiled_model_is_seen(tiny: Any) -> None:
    compiled = torch.compile(tiny, backend="aot_eager")
    with simulate() as sim:
        compiled(torch.randn(2, 3, 12, 12)).sum().backward()
    assert sum(backward_calls(sim).values()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "mode 'fast': allowed are full, functional, timing"),
        ({"values": "ours"}, "values 'ours': allowed are torch and chip"),
        ({"values": "chip"}, 'mode "timing" computes none'),
        ({"chip": "ascend1"}, "ascend1"),
        ({"values": None}, "values None must be a text"),
        ({"jobs": 0}, "jobs 0 must be a whole number from 1"),
        ({"jobs": True}, "jobs True must be a whole number from 1"),
        ({"strict": "yes"}, "strict 'yes' must be True or False"),
        ({"forward": None}, "forward None must be True or False"),
        ({"matmul": "no"}, "matmul 'no' must be True or False"),
        ({"engine": "fast"}, "engine 'fast': allowed are auto, simpy, compiled"),
        ({"conformance": "strict"}, "conformance 'strict': allowed are documented and library"),
        ({"chip": None}, "chip None must be a chip's name"),
        ({"l2": "hot"}, "l2 'hot'"),
        ({"overflow": "wrap"}, "overflow"),
        ({"cube_math_type": "x"}, "cube_math_type"),
        ({"model": "ascend910a"}, "model is 'ascend910a'; allowed is a torch.nn.Module"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SimError, match=message):
        simulate(**options)


def test_a_module_that_raises_leaves_no_name_behind(tiny: Any) -> None:
    with simulate() as sim:
        with pytest.raises(RuntimeError):
            tiny(torch.randn(1, 5, 8, 8))
        nn.functional.conv2d(torch.randn(1, 1, 3, 3), torch.randn(1, 1, 1, 1))
    assert [row.layer.name for row in sim._rows.values()] == ["(no module)"]


def test_the_graph_may_outlive_the_context() -> None:
    model = resnet50()[0]
    with simulate() as sim:
        loss = model(torch.randn(1, 3, 16, 16)).sum()
    loss.backward()
    assert not backward_calls(sim)
