"""Tensors that a training step's kernels before a layer moved, and the times of a network with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascend_sim as asim
from ascend_sim.calls.step import kernels_before
from ascend_sim.errors import SimError
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network

FIRST = {"input": 10, "weight": 20, "grad_output": 30, "grad_weight": 20}
SECOND = {"input": 30, "weight": 40, "grad_output": 50, "grad_input": 30, "grad_weight": 40}
LAYERS = [FIRST, SECOND]


@pytest.mark.fast
def test_backward_kernels_come_behind_all_forward_ones() -> None:
    """The first layer's backward call: both forward kernels, the second layer's backward one, then its own gradient is made."""
    before = kernels_before(LAYERS, 0, "backward", 1000)
    assert before == (
        (("input", 10, True),),
        (("input", 10, False), ("weight", 20, False), ((0, "map"), 30, True)),
        (((1, "input"), 30, True),),
        (((1, "input"), 30, False), ((1, "weight"), 40, False), ((1, "map"), 50, True)),
        ((("gradient", 50, 1), 50, True),),
        (
            (("gradient", 50, 1), 50, False),
            ((1, "input"), 30, False),
            ((1, "weight"), 40, False),
            (("gradient", 30, 1), 30, True),
            ((1, "grad_weight"), 40, True),
        ),
        (((0, "map"), 30, False), ("grad_output", 30, True)),
    )


@pytest.mark.fast
def test_a_forward_call_comes_behind_the_layers_before_it() -> None:
    layers = [{"input": 10, "weight": 20, "output": 30}, {"input": 30, "weight": 40, "output": 50}]
    before = kernels_before(layers, 1, "forward", 1000)
    assert before[-1] == (("input", 30, True),)
    assert before[-2] == (((0, "input"), 10, False), ((0, "weight"), 20, False), ((0, "map"), 30, True))
    assert len(before) == 3


@pytest.mark.fast
def test_no_more_is_replayed_than_the_l2_remembers() -> None:
    layers = [SECOND] * 20
    moved = [sum(nbytes for _, nbytes, _ in one) for one in kernels_before(layers, 0, "backward", 100)]
    assert 400 <= sum(moved) < 400 + max(moved)


@pytest.mark.fast
def test_layers_without_a_call_move_nothing() -> None:
    assert len(kernels_before([FIRST, {}, SECOND], 0, "backward", 10_000)) == 7


def conv(name: str) -> Layer:
    """A layer whose maps take 25 MB each."""
    shape = {"input": {"shape": [32, 64, 56, 56]}, "weight": {"shape": [64, 64, 1, 1]}}
    return Layer.model_validate({"name": name, "dtype": "float32", **shape})


def test_equal_layers_take_their_own_time_in_a_step() -> None:
    """The last layer finds its input where the forward pass left it; the first one's has been driven out by then."""
    network = Network("three", [conv(f"l{at}") for at in range(6)], 32)
    step, cold = (asim.run_network(network, chip="ascend910b2", l2=l2) for l2 in ("step", "cold"))
    times = [layer.times["total"] for layer in step.layers]
    assert step.simulated == 6 and cold.distinct == 1
    assert times[-1] < times[0]
    assert "L2 step" in str(step)


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_a_layers_address_has_the_step_of_its_network(direction: str, tmp_path: Path) -> None:
    """The middle layer takes as long as in run_network, and not as long as from a cold L2."""
    path = tmp_path / "three.yaml"
    shape = "dtype: float32, input: {shape: [32, 64, 56, 56]}, weight: {shape: [64, 64, 1, 1]}"
    layers = "".join(f"- {{name: {name}, {shape}}}\n" for name in ("first", "middle", "last"))
    path.write_text(f"name: three\nlayers:\n{layers}", encoding="utf-8")
    network = asim.run_network(path, chip="ascend910b2", l2="step", direction=direction)
    address = f"{path}:middle" + ":forward" * (direction == "forward")
    runs = [asim.run_case(address, mode="timing", chip="ascend910b2", l2=l2) for l2 in ("step", "cold")]
    step, cold = (run.report.total_us for run in runs)
    for run in runs:  # what runs again finds the same lines
        assert run.recording is not None and run.timeline is not None
        assert run.recording.rerun(run.recording.chip).finish == run.timeline.finish
    assert step is not None and cold is not None
    assert step == pytest.approx(network.layers[1].times["total"], abs=1e-3)
    assert step != pytest.approx(cold, abs=1.0)


def test_a_plain_case_has_no_step() -> None:
    with pytest.raises(SimError, match="l2 'step' is what the earlier kernels of a training step leave; it needs a network"):
        asim.run_case("resnet50_conv2_3x3", mode="timing", l2="step")
