"""One training step in other guises: autocast, channels_last, checkpointing, a compiled model, several threads.

With the chip's values the gradients are the same bits as without the guise; in mode "timing" the calls are the same ones.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import Simulation, compare_training, simulate  # noqa: E402
from ascend_sim.torch.calls import MATMUL  # noqa: E402
from tests.support.sampling import part_of_cases  # noqa: E402
from tests.support.torch.models import small_cnn  # noqa: E402

nn = torch.nn
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
pytestmark = pytest.mark.filterwarnings("ignore:Using `torch.compile")
CHIP = {"mode": "functional", "values": "chip", "cube_math_type": 1, "strict": True}


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work` in so many threads at once, and raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


Step = Callable[[Simulation, Any, Any, Any], Any]
"""Runs a model on data and sends a gradient back; returns the model that has the gradients."""


def plain(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    output = model(data)
    output.backward(upstream.to(output.dtype))
    return model


def autocast(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        output = model(data)
    output.backward(upstream.to(output.dtype))
    return model


def sixteen_bits(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    """Run the model in the 16 bits that autocast makes of it, written out."""
    return plain(sim, model.to(torch.bfloat16), data.to(torch.bfloat16), upstream).float()


def channels_last(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    return plain(sim, *(one.to(memory_format=torch.channels_last) for one in (model, data, upstream)))


def checkpointed(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    checkpoint(model, data, use_reentrant=False).backward(upstream)
    return model


def reentrant(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    checkpoint(model, data.requires_grad_(), use_reentrant=True).backward(upstream)
    return model


def compiled(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    plain(sim, torch.compile(model, backend="aot_eager"), data, upstream)
    return model


def another_thread(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    """Forward here, backward there."""
    output = model(data)

    def work(number: int) -> None:
        with sim:
            output.backward(upstream)

    in_threads(work, 1)
    return model


def three_threads(sim: Simulation, model: Any, data: Any, upstream: Any) -> Any:
    """A copy of the model in each, at the same time."""
    models = [model, copy.deepcopy(model), copy.deepcopy(model)]

    def work(number: int) -> None:
        with sim:
            plain(sim, models[number], data, upstream)

    in_threads(work, len(models))
    for other in models[1:]:
        assert all(map(torch.equal, gradients(model), gradients(other)))
    return model


def gradients(model: Any) -> list[Any]:
    return [parameter.grad for parameter in model.parameters()]


def run(step: Step, **options: Any) -> tuple[Simulation, Any]:
    """Two convolutions and a transposed one from the same start."""
    torch.manual_seed(0)
    model, data = small_cnn()[:5], torch.randn(1, 3, 4, 4)
    upstream = torch.randn(1, 8, 4, 4)
    with simulate(model, **options) as sim:
        model = step(sim, model, data, upstream)
    return sim, model


GUISES = [
    (autocast, sixteen_bits), (channels_last, plain), (checkpointed, plain), (reentrant, plain), (compiled, plain),
    (another_thread, plain), (three_threads, plain),
]  # fmt: skip


@part_of_cases(3)
@pytest.mark.parametrize(("guise", "same"), GUISES, ids=lambda step: step.__name__)
def test_the_chips_gradients_are_the_same_bits(guise: Step, same: Step) -> None:
    (sim, ours), (_, theirs) = run(guise, **CHIP), run(same, **CHIP)
    assert all(gradient.abs().max() > 0 for gradient in gradients(theirs))
    assert all(map(torch.equal, gradients(ours), gradients(theirs)))
    assert [row.layer.name for row in sim.rows][:3] == ["0", "2", "4"] or guise is three_threads
    lost = [row.differences["grad_weight"] for row in sim.rows]  # hf32 is not PyTorch's float32, bfloat16 its bfloat16
    assert len(lost) == (9 if guise is three_threads else 3)
    assert all(share < 1e-2 if guise is autocast else 0 < share < 1e-2 for share in lost)


@pytest.mark.parametrize(("guise", "same"), GUISES, ids=lambda step: step.__name__)
def test_the_calls_to_be_timed_are_the_same(guise: Step, same: Step) -> None:
    """But for strides, and for a gradient of the input that reentrant checkpointing asks for."""

    def calls(step: Step) -> list[tuple[str, list[Any]]]:
        sim, _ = run(step)
        return [
            (
                row.layer.name,
                [
                    (
                        [(name, spec and (spec.shape, spec.dtype)) for name, spec in call.tensors],
                        [pair for pair in call.attributes if guise is not reentrant or pair[0] != "output_mask"],
                    )
                    for call in sorted(row.calls, key=lambda call: not call.forward)
                ],
            )
            for row in sim.rows
            if row.layer.kind != MATMUL and "Sequential#" not in row.layer.name  # copies of the model
        ]

    assert calls(guise) == calls(same)


def test_gradients_of_gradients_are_the_chips_too() -> None:
    """A penalty on the gradient's length, which makes every layer run forward and backward again."""
    found = []
    for options in (None, CHIP | {"cube_math_type": 0}, CHIP):
        torch.manual_seed(0)
        model, data = nn.Sequential(nn.Conv2d(2, 4, 2), nn.Tanh(), nn.Conv2d(4, 2, 1)), torch.randn(1, 2, 4, 4)
        with simulate(**options) if options else torch.enable_grad() as sim:
            (first,) = torch.autograd.grad(model(data.requires_grad_()).pow(2).sum(), data, create_graph=True)
            first.pow(2).sum().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    own, exact, rounded = found
    assert sim is not None and {row.layer.name for row in sim.rows} == {"0", "2"}
    torch.testing.assert_close(exact, own, rtol=1e-5, atol=1e-5 * float(own.abs().max()))
    assert 1e-5 < float((rounded - own).abs().max() / own.abs().max()) < 1e-2


# -- fifty steps -------------------------------------------------------------------------------------------------------


def training(forward: Callable[[Any, Any], Any]) -> Callable[[], Iterator[Any]]:
    """A small CNN that learns which of four patterns an image has; `forward` runs the model."""

    def steps() -> Iterator[Any]:
        model = small_cnn()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        data, labels = torch.randn(4, 3, 6, 6), torch.arange(4)
        while True:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(forward(model, data), labels)
            loss.backward()
            optimizer.step()
            yield loss

    return steps


def last(model: Any, data: Any) -> Any:
    model.to(memory_format=torch.channels_last)
    return model(data.to(memory_format=torch.channels_last))


@pytest.mark.slow
@pytest.mark.parametrize(
    "forward", [last, lambda model, data: checkpoint(model, data, use_reentrant=False)], ids=["channels_last", "checkpoint"]
)
def test_fifty_steps_follow_torch_in_a_guise(forward: Callable[[Any, Any], Any]) -> None:
    compared = compare_training(training(forward), precisions=["fp32"], steps=50)
    print(compared)
    losses = compared.losses["fp32"]
    assert len(losses) == 50 and losses[-1] < 0.6 * losses[0] and max(compared.deviations("fp32")) < 1e-5


def parallel(sim: Simulation | None, steps: int) -> list[float]:
    """Losses of a training whose two halves of a batch run in a thread each, on a copy of the model each."""
    torch.manual_seed(0)
    model = small_cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data, labels = torch.randn(4, 3, 6, 6), torch.arange(4)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        copies, halves = [copy.deepcopy(model) for _ in range(2)], [0.0, 0.0]

        def work(number: int, copies: Any = copies, halves: Any = halves) -> None:
            part = slice(2 * number, 2 * number + 2)
            with sim if sim is not None else torch.enable_grad():
                loss = nn.functional.cross_entropy(copies[number](data[part]), labels[part]) / 2
                loss.backward()
            halves[number] = float(loss.detach())

        in_threads(work, 2)
        for parameter, *theirs in zip(model.parameters(), *(one.parameters() for one in copies), strict=True):
            parameter.grad = theirs[0].grad + theirs[1].grad
        optimizer.step()
        losses.append(sum(halves))
    return losses


@pytest.mark.slow
def test_fifty_steps_in_two_threads_follow_torch_and_are_repeated_bit_for_bit() -> None:
    own, first, again = (
        parallel(sim, 50)
        for sim in (None, *(simulate(mode="functional", values="chip", matmul=False, deterministic=True) for _ in range(2)))
    )
    furthest = max(abs(loss / exact - 1) for loss, exact in zip(first, own, strict=True))
    print(f"two threads: losses {first[0]:.4f} to {first[-1]:.4f}, at most {furthest:.1e} from torch's")
    assert first == again and furthest < 1e-5 and first[-1] < 0.6 * first[0]
