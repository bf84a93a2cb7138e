"""A network whose tilings are searched keeps what is faster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.network import load_network
from ascend_sim.studies.network.run import run_network
from ascend_sim.studies.network.tuning import Tuned, _faster, read_tilings, tune, write_tilings
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


@pytest.mark.fast
def test_tilings_are_those_of_the_layers_call(small: Path) -> None:
    network, fields = load_network(small), {"grad_input": {"baseM": 32}}
    run = run_network(network, tilings={"again": fields})
    assert run.same_as == [None, None, None], "another tiling is another problem"
    result = convolution_backward(
        TensorSpec((2, 16, 8, 8), "float16"), TensorSpec((2, 16, 8, 8), "float16"), TensorSpec((16, 16, 3, 3), "float16"),
        None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True), mode="timing", tiling=fields,
    )  # fmt: skip
    assert run.layers[2].times["total"] == result.report.total_us != run.layers[0].times["total"]
    with pytest.raises(SimError, match="tilings: small has no layer 'other'"):
        run_network(network, tilings={"other": fields})


def test_tuning_keeps_what_is_faster(small: Path, tmp_path: Path) -> None:
    """After a real search that was cut short no kernel gets slower, and the network is run with the found tilings."""
    network = load_network(small)
    tuned = tune(network, out=tmp_path, seconds=0.5)
    for old, new in zip(tuned.before.layers, tuned.after.layers, strict=True):
        assert all(new.times[kernel] <= old.times[kernel] for kernel in ("grad_input", "grad_weight"))
    path = write_tilings(tuned.tilings, tmp_path)
    assert read_tilings(tmp_path) == tuned.tilings
    again = run_network(network, tilings=read_tilings(tmp_path))
    assert again.totals == tuned.after.totals
    assert f"takes {again.totals['total']:,.1f} us in place of {tuned.before.totals['total']:,.1f}" in tuned.sentence
    saved = [before - after for _, before, after in tuned.ranked]
    assert saved == sorted(saved, reverse=True)
    path.write_text("first: {grad_bias: {baseM: 16}}")
    with pytest.raises(ConfigError, match="first: allowed are the kernels grad_input and grad_weight"):
        read_tilings(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no tilings\.yaml in it; run-network --tile writes one"):
        read_tilings(tmp_path / "empty")


@pytest.mark.fast
def test_a_slower_tiling_is_not_kept(small: Path) -> None:
    """A search sees a kernel alone; what counts is the call."""
    network = load_network(small)
    before = run_network(network)
    found = {name: {"grad_input": {"baseM": 16, "baseN": 16, "baseK": 16}} for name in ("first", "again")}
    after = run_network(network, tilings=found)
    assert after.layers[0].times["grad_input"] > before.layers[0].times["grad_input"]
    assert _faster(before, after, found) == {}
    assert _faster(after, before, found) == found


@pytest.mark.fast
def test_layers_without_gradients_save_nothing(small: Path) -> None:
    """Their time is 0, so that no share of it can be saved; a network of such layers alone takes none either."""
    network = load_network(small)
    frozen = network.layers[0].model_copy(update={"output_mask": (False, False, False)})
    run, still = (run_network(replace(network, layers=layers)) for layers in ((frozen, network.layers[1]), (frozen,)))
    assert [name for name, _, _ in Tuned(run, run, {}, 0, 0).ranked] == [network.layers[1].name]
    assert Tuned(still, still, {}, 0, 0).ranked == []
    assert "takes 0.0 us in place of 0.0: 0.0 % less" in Tuned(still, still, {}, 0, 0).sentence


def test_one_tiling_for_every_layer(small: Path, tmp_path: Path) -> None:
    """The best.yaml of a single search; a layer that it does not fit is refused with the reason."""
    best = tmp_path / "best.yaml"
    best.write_text("grad_weight: {baseM: 16, baseN: 16}\n", encoding="utf-8")
    network = load_network(small)
    tilings = read_tilings(best, [layer.name for layer in network.layers])
    assert set(tilings) == {layer.name for layer in network.layers}
    mine, own = run_network(network, tilings=tilings), run_network(network)
    ran = [pair for pair in zip(mine.layers, own.layers, strict=True) if not pair[0].refused and not pair[1].refused]
    assert ran and any(one.times["grad_weight"] != other.times["grad_weight"] for one, other in ran)
    with pytest.raises(ConfigError, match="no such file"):
        read_tilings(tmp_path / "none.yaml")
