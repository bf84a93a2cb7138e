"""Networks: files and their errors, equal layers, and a layer's times against the operator's own report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.cli import app
from ascend_sim.errors import AclnnError, ConfigError, SimError
from ascend_sim.runtime.workers import spread
from ascend_sim.studies.network.run import load_network, run_network

THREE_LAYERS = """
name: small
defaults: {k: 3, pad: 1, Ci: 16}
layers:
  - {name: first, H: 8, Co: 16}
  - {name: wide, H: 6, W: 10, Co: 32, stride: 2}
  - {name: again, H: 8, W: 8, Co: 16}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


@pytest.mark.fast
def test_resnet50_is_the_published_network() -> None:
    layers = load_network("resnet50").layers
    assert len(layers) == 53
    assert len({layer.problem for layer in layers}) == 23
    # torchvision's resnet50: 25,557,032 parameters, of them 2,049,000 in the final layer and 53,120 in BatchNorm; 4.089 G
    # multiply-accumulates with the final layer's 2,048,000
    weights = sum(layer.Co * layer.Ci * layer.k[0] * layer.k[1] for layer in layers)
    assert weights == 25_557_032 - 2_049_000 - 53_120
    macs = sum(layer.Co * layer.Ci * layer.k[0] * layer.k[1] * layer.output[0] * layer.output[1] for layer in layers)
    assert macs == 4_089_184_256 - 2_048_000


def test_every_layer_fits_its_neighbour() -> None:
    sizes = {64: 56, 128: 28, 256: 14, 512: 7}
    for layer in load_network("resnet50").layers:
        if layer.name != "conv1" and not layer.name.endswith("in"):
            narrow = min(layer.Co, layer.Ci) if "shortcut" not in layer.name else layer.Co // 4
            assert layer.output == (sizes[narrow],) * 2, layer.name


@pytest.mark.fast
def test_a_layer_has_the_times_of_its_call(small: Path) -> None:
    run = run_network(load_network(small), chip="ascend910b3", batch=2)
    result = convolution_backward(
        TensorSpec((2, 32, 3, 5), "float16"), TensorSpec((2, 16, 6, 10), "float16"), TensorSpec((32, 16, 3, 3), "float16"),
        None, (2, 2), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True), chip="ascend910b3", mode="timing",
    )  # fmt: skip
    kernels = {kernel["name"]: kernel["task_us"] for kernel in result.report.kernels}
    times = run.layers[1].times
    assert times["grad_input"] == kernels["grad_input"] > 0
    assert times["grad_weight"] == kernels["grad_weight"] > 0
    assert times["grad_bias"] == kernels["ReduceSum_grad_bias"] > 0
    around = sum(kernels.values()) - sum(times[part] for part in ("grad_input", "grad_weight", "grad_bias"))
    assert times["around"] == pytest.approx(around)
    assert times["total"] == result.report.total_us
    assert run.totals["total"] == pytest.approx(sum(layer.times["total"] for layer in run.layers))


@pytest.mark.fast
def test_equal_layers_share_one_result(small: Path) -> None:
    run = run_network(load_network(small), batch=1)
    assert run.same_as == [None, None, "first"]
    assert run.distinct == 2
    assert run.layers[2] is run.layers[0]
    assert run.layers[1].times != run.layers[0].times


def test_processes_change_nothing(small: Path) -> None:
    network = load_network(small)
    assert run_network(network, batch=1, jobs=2).to_dict() == run_network(network, batch=1).to_dict()


def test_a_refused_layer_is_named_from_another_process(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "layers: [{name: a, Ci: 16, H: 4, Co: 16, k: 1}, {name: b, Ci: 16, H: 4, Co: 16, k: 1, cube_math_type: 9}]"
    )
    for jobs in (1, 2):
        with pytest.raises(AclnnError, match="layer b") as caught:
            run_network(load_network(path), batch=1, jobs=jobs)
        assert caught.value.status


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a network file is a mapping"),
        ("layers: []", "layers: .* must be a list of layers"),
        ("layer: []", "unknown key 'layer'"),
        ("layers: [{name: a, Ci: 16, H: 8, Co: 16}]", "layer a: k: missing"),
        ("layers: [{name: a, Ci: 16, H: 8, Co: 16, k: 0}]", "layer a: k: "),
        ("layers: [{name: a, Ci: 16, H: 8, Co: 16, k: 1, strides: 2}]", "layer a: unknown key 'strides'"),
        (
            "layers: [{name: a, Ci: 16, H: 2, Co: 16, k: 3}]",
            "layer a: k: a kernel that reaches 3 does not fit in H = 2",
        ),
        ("layers: [{name: a, Ci: 16, H: 8, Co: 16, k: 1, pad: [1, 2, 3]}]", "pad: .* 2 or 4 values"),
        ("layers: [{name: a, Ci: 16, H: 8, Co: 10, k: 1, groups: 4}]", "groups: 4 given; must divide"),
        ("layers: [{name: a, Ci: 1, H: 8, Co: 1, k: 1}, {name: a, Ci: 1, H: 8, Co: 1, k: 1}]", "'a' is given twice"),
        ("layers: {", "broken YAML"),
    ],
)
def test_errors_name_file_layer_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_network(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_network_lists_those_that_ship() -> None:
    with pytest.raises(ConfigError, match=r"shipped networks: .*resnet50"):
        load_network("resnet51")


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_start_at_one(jobs: int) -> None:
    with pytest.raises(SimError, match="jobs is"):
        spread(abs, [1], jobs=jobs)


def test_spread_keeps_the_order_and_reports_progress() -> None:
    heard: list[tuple[str, int, int]] = []
    results = spread(abs, [-3, 2, -1], name="work", progress=lambda *seen: heard.append(seen))
    assert results == [3, 2, 1]
    assert heard == [("work", 1, 3), ("work", 2, 3), ("work", 3, 3)]


def test_command_line(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(
        app, ["run-network", str(small), "--batch", "1", "--jobs", "1", "--out", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [layer["name"] for layer in data["layers"]] == ["first", "wide", "again"]
    assert "took" in result.stderr and "took" not in result.stdout
    assert json.loads((out / "network.json").read_text()) == data
    lines = (out / "layers.csv").read_text().splitlines()
    assert lines[0].startswith("layer,Ci,H,W,Co,grad_input_us")
    assert len(lines) == 4


def test_command_line_table_and_errors(small: Path) -> None:
    result = CliRunner().invoke(app, ["run-network", str(small), "--batch", "1", "--jobs", "1"])
    for text in ("first", "wide", "again", "3 layers", "2 distinct"):
        assert text in result.stdout
    refused = CliRunner().invoke(app, ["run-network", "nothing.yaml"])
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1
