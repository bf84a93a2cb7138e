"""A training on the chip beside PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ascend_sim import AclnnError, SimError  # noqa: E402
from ascend_sim.numerics import reference  # noqa: E402
from ascend_sim.torch import compare_training, simulate  # noqa: E402
from ascend_sim.torch.outcome import KeptCalls  # noqa: E402
from tests.support.torch.models import small_cnn  # noqa: E402

nn, aten = torch.nn, torch.ops.aten


def gradients(model: Any) -> list[Any]:
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    return found


def bits(ours: Any, truth: Any) -> float:
    """Effective bits, as the precision table has them."""
    ours, truth = ours.double(), truth.double()
    error = (ours - truth).abs().sum()
    return -math.log2(error / truth.abs().sum()) if error else math.inf


def trainer(width: int = 8, size: int = 6) -> Callable[[], Iterator[Any]]:
    """A small CNN that learns which of four patterns an image has, under noise."""

    def training() -> Iterator[Any]:
        model = small_cnn()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        labels = torch.arange(width) % 4
        data = torch.randn(4, 3, size, size)[labels] + 0.5 * torch.randn(width, 3, size, size)
        while True:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data), labels)
            loss.backward()
            optimizer.step()
            yield loss

    return training


class Blurred(torch.utils._python_dispatch.TorchDispatchMode):
    """PyTorch whose convolutions lose what a table of precisions says: noise e with sum |e| = 2^-bits sum |value|.

    `bits` by layer, in the order of a step's forward calls; an output of the forward pass, which the table does not have,
    loses as much as the layer's worst gradient.
    """

    def __init__(self, bits: list[dict[str, float]], seed: int) -> None:
        super().__init__()
        self.bits, self.noise = bits, torch.Generator().manual_seed(seed)
        self.calls = 0

    def blur(self, tensor: Any, bits: float) -> Any:
        error = torch.randn(tensor.shape, generator=self.noise)
        return tensor + error * (2.0**-bits * tensor.abs().sum() / error.abs().sum())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        if func not in (aten.convolution.default, aten.convolution_backward.default):
            return results
        at, layers = self.calls % (2 * len(self.bits)), len(self.bits)
        self.calls += 1
        if func is aten.convolution.default:
            return self.blur(results, min(self.bits[at].values()))
        lost = self.bits[2 * layers - 1 - at]
        named = zip(("grad_input", "grad_weight", "grad_bias"), results, strict=True)
        return tuple(None if one is None else self.blur(one, lost[name]) for name, one in named)


def test_a_training_on_the_chip_follows_torch_and_is_repeated_bit_for_bit() -> None:
    first, again = (compare_training(trainer(2, 6), precisions=["fp32"], steps=2) for _ in range(2))
    assert first == again and len(first.losses["fp32"]) == 2
    assert max(first.deviations("fp32")) < 1e-5
    assert first.losses["torch"][0] != first.losses["torch"][1]


@pytest.mark.slow
def test_fifty_steps_in_every_precision(tmp_path: Path) -> None:
    """fp32 follows PyTorch; the others go as far from it as PyTorch does when it loses what the precision table predicts."""
    steps, training = 50, trainer()
    compared = compare_training(training, steps=steps)
    print(compared)
    own = compared.losses["torch"]
    assert own[-1] < 0.6 * own[0]  # it learns
    assert max(compared.deviations("fp32")) < 1e-5
    torch.manual_seed(0)
    with simulate(mode="functional") as sim:
        next(iter(training()))
    tables = sim.precision(dtypes=["float32", "bfloat16"]).tables.values()
    for name, dtype, number in (("hf32", "float32", 1), ("fp16", "float32", 2), ("bf16", "bfloat16", 0)):
        rows = [row for table in tables for row in table.rows if (row.dtype, row.cube_math_type) == (dtype, number)]
        bits = [{output: figures["effective_bits"] for output, figures in row.outputs.items()} for row in rows]
        predicted = []
        for seed in range(5):
            torch.manual_seed(0)
            with Blurred(bits, seed):
                losses = [float(loss.detach()) for loss in islice(training(), steps)]
            predicted.append(float(np.mean([abs(loss / exact - 1) for loss, exact in zip(losses, own, strict=True)])))
        came, least = float(np.mean(compared.deviations(name))), min(min(layer.values()) for layer in bits)
        print(
            f"{name}: the table has {least:.1f} bits and more; predicted",
            *(f"{one:.1e}" for one in predicted),
            f"came {came:.1e}",
        )
        assert min(predicted) / 10 < came < 10 * max(predicted)
    compared.plot(tmp_path / "losses.png")
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("number", [0, 1])
def test_deterministic_runs_are_equal_bit_for_bit(number: int) -> None:
    """In mode "full", where sums arrive in the order of simulated time, and in "functional", in that of the blocks."""
    found = []
    for mode in ("full", "full", "functional"):
        torch.manual_seed(0)
        conv, data = nn.Conv2d(16, 16, 3), torch.randn(4, 16, 9, 9, requires_grad=True)
        with simulate(mode=mode, values="chip", deterministic=True, cube_math_type=number, strict=True):
            conv(data).pow(2).sum().backward()
        found.append([data.grad, *gradients(conv)])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_wrong_trainings_are_refused() -> None:
    with pytest.raises(SimError, match="precision 'fp8': allowed are fp32, hf32, fp16, bf16"):
        compare_training(trainer(), precisions=["fp8"])
    with pytest.raises(SimError, match="steps is 0"):
        compare_training(trainer(), steps=0)
    with pytest.raises(SimError, match="yields no loss"):
        compare_training(lambda: [], precisions=["fp32"])
    with pytest.raises(AclnnError, match="bfloat16"):  # a 910 has none
        compare_training(trainer(2, 6), precisions=["bf16"], steps=1, chip="ascend910a")


def test_a_whole_training_of_finite_losses_needs_no_remark() -> None:
    def training() -> Any:
        layer = torch.nn.Conv2d(2, 2, 1)
        while True:
            yield layer(torch.ones(1, 2, 2, 2)).sum()

    assert compare_training(training, steps=2, precisions=["fp32", "fp32"]).remarks == ()
    for seed in (1.5, 2**64):
        with pytest.raises(SimError, match="seed is"):
            compare_training(training, steps=1, seed=seed)  # type: ignore[arg-type]


def test_each_distinct_call_is_built_once_and_pytorch_has_its_threads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps make the forward and the backward call of each layer, with other values."""
    built = []

    def counted(self: KeptCalls, call: Any, *rest: Any) -> Any:
        built.append(call)
        return plain(self, call, *rest)

    plain = KeptCalls.run
    monkeypatch.setattr(KeptCalls, "run", counted)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        compare_training(trainer(2, 6), precisions=["hf32"], steps=3)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    layers = sum("Conv" in type(one).__name__ for one in small_cnn().modules())
    assert len(built) == len(set(built)) == 2 * layers


class Rounded(torch.utils._python_dispatch.TorchDispatchMode):
    """PyTorch whose convolutions are float64 sums of HiFloat8 operands; outputs and grad_input are rounded to HiFloat8."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is aten.convolution.default:
            data, weight, bias, *rest = args
            output = hifloat8(func(exact(data), exact(weight), None, *rest))
            return output if bias is None else output + bias.reshape(-1, 1, 1)
        if func is aten.convolution_backward.default:
            own = func(*args, **(kwargs or {}))
            found = func(*map(exact, args[:3]), *args[3:])
            made = None if found[0] is None else hifloat8(found[0]), None if found[1] is None else found[1].float()
            return *made, own[2]
        return func(*args, **(kwargs or {}))


def hifloat8(tensor: Any) -> Any:
    rounded = np.vectorize(
        lambda one: reference.decode(reference.encode(float(one), "hifloat8"), "hifloat8"), otypes=[np.float32]
    )
    return torch.from_numpy(rounded(tensor.detach().float().numpy()))


def exact(tensor: Any) -> Any:
    return hifloat8(tensor).double()


def test_hifloat8_rounds_what_the_convolutions_take_and_its_bias_is_pytorchs() -> None:
    """An oracle of PyTorch's own operators and of the scalar rounding; a sum in float32 may round to a neighbour."""
    training = trainer(2, 6)
    compared = compare_training(training, precisions=["hifloat8"], steps=3, chip="ascend950pr_9589")
    torch.manual_seed(0)
    with Rounded():
        wanted = [float(loss.detach()) for loss in islice(training(), 3)]
    assert compared.losses["hifloat8"] == pytest.approx(wanted, rel=2e-3)
    assert compared.losses["hifloat8"][0] == pytest.approx(wanted[0], rel=1e-6)
    assert min(compared.deviations("hifloat8")) > 1e-6


def test_hifloat8_needs_a_chip_that_has_it() -> None:
    with pytest.raises(SimError, match=r"ascend910b3 has no such product; a 950 has it \(--chip ascend950pr_9589\)"):
        compare_training(trainer(), precisions=["hifloat8"], steps=1)
