"""Networks: files and their errors, equal layers, and a layer's times against the operator's own report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim import TensorSpec, conv_tbc_backward, convolution_backward
from ascend_sim.cli import app
from ascend_sim.errors import AclnnError, ConfigError, SimError
from ascend_sim.ops.network import load_network
from ascend_sim.runtime.workers import spread
from ascend_sim.studies.network import run as networks
from ascend_sim.studies.network.page import write_page
from ascend_sim.studies.network.pages import csv_text
from ascend_sim.studies.network.run import run_network
from tests.support.studies.small_network import THREE_LAYERS

ONE = "input: {shape: [1, 16, 4, 4], dtype: float16}, weight: [16, 16, 1, 1]"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


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
    assert times["layout"] == pytest.approx(around)
    assert times["total"] == result.report.total_us
    assert run.totals["total"] == pytest.approx(sum(layer.times["total"] for layer in run.layers))
    assert repr(run) == f"<NetworkRun of small, batch 2, backward on ascend910b3: 3 layers, {run.totals['total']:,.1f} us>"
    assert repr(run.layers[1]) == f"<LayerTimes: {times['total']:,.1f} us, {len(run.layers[1].kernels)} kernels>"


@pytest.mark.fast
def test_equal_layers_share_one_result(small: Path) -> None:
    run = run_network(load_network(small), batch=1)
    assert run.same_as == [None, None, "first"]
    assert run.distinct == 2
    assert run.layers[2] is run.layers[0]
    assert run.layers[1].times != run.layers[0].times


@pytest.mark.fast
def test_what_asks_for_no_gradient_costs_none(tmp_path: Path) -> None:
    path = tmp_path / "frozen.yaml"
    frozen = "{shape: [16, 16, 1, 1], requires_grad: false}"
    first = ONE.replace("dtype: float16", "dtype: float16, requires_grad: false")
    path.write_text(
        f"layers:\n- {{name: first, {first}, bias: false}}\n"
        f"- {{name: none, {first.replace('[16, 16, 1, 1]', frozen)}, bias: false}}\n"
    )
    first_layer, none = run_network(load_network(path)).layers
    assert first_layer.times["grad_weight"] > 0 == first_layer.times["grad_input"] == first_layer.times["grad_bias"]
    assert set(none.times.values()) == {0.0} and not none.kernels


@pytest.mark.fast
def test_layers_that_differ_in_their_bias_are_two(tmp_path: Path) -> None:
    path = tmp_path / "bias.yaml"
    path.write_text(f"layers:\n- {{name: with, {ONE}}}\n- {{name: without, {ONE}, bias: false}}\n")
    run = run_network(load_network(path))
    assert run.same_as == [None, None]
    assert run.layers[0].times["grad_bias"] > 0 == run.layers[1].times["grad_bias"]


def test_layers_over_time_and_in_three_dimensions_have_the_times_of_their_calls(tmp_path: Path) -> None:
    path = tmp_path / "mixed.yaml"
    path.write_text(
        "defaults: {dtype: float16}\nlayers:\n"
        "- {name: time, kind: conv_tbc, input: [7, 2, 16], weight: [3, 16, 32], pad: 1}\n"
        "- {name: cube, input: [1, 16, 4, 4, 4], weight: [16, 16, 2, 2, 2], stride: 2}\n"
        "- {name: up, input: [1, 16, 9], weight: [16, 8, 2], stride: 2, transposed: true, bias: false}\n"
    )
    network = load_network(path)
    run = run_network(network)

    def spec(*shape: int) -> TensorSpec:
        return TensorSpec(shape, "float16")

    results = [
        conv_tbc_backward(spec(7, 2, 32), spec(7, 2, 16), spec(3, 16, 32), spec(32), 1, mode="timing"),
        convolution_backward(
            spec(1, 16, 2, 2, 2), spec(1, 16, 4, 4, 4), spec(16, 16, 2, 2, 2), None, (2, 2, 2), (0, 0, 0), (1, 1, 1), False,
            (0, 0, 0), 1, (True, True, True), mode="timing",
        ),
        convolution_backward(
            spec(1, 8, 18), spec(1, 16, 9), spec(16, 8, 2), None, (2,), (0,), (1,), True, (0,), 1, (True, True, False),
            mode="timing",
        ),
    ]  # fmt: skip
    assert [layer.times["total"] for layer in run.layers] == [result.report.total_us for result in results]
    with pytest.raises(SimError, match="no operator for the forward pass of a layer of conv_tbc; there is backward"):
        run_network(network, direction="forward")


def test_processes_change_nothing(small: Path) -> None:
    network = load_network(small)
    assert run_network(network, batch=1, jobs=2).to_dict() == run_network(network, batch=1).to_dict()


@pytest.mark.fast
def test_a_refused_layer_is_a_row_with_its_status(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"layers: [{{name: a, {ONE}}}, {{name: b, {ONE}, cube_math_type: 9}}]")
    run = run_network(load_network(path))
    ran, refused = run.layers
    assert (refused.status, dict(refused.times)) == (161002, {}) and "cubeMathType = 9" in refused.refused
    assert run.totals["total"] == ran.times["total"] and run.refused[0].startswith("b: status 161002: cubeMathType")
    assert run.to_dict()["layers"][1]["status"] == 161002
    result = CliRunner().invoke(app, ["run-network", str(path), "--jobs", "1", "--full"])
    assert result.exit_code == 0 and "the totals are those of the other layers" in " ".join(result.stdout.split())
    assert csv_text(run).splitlines()[2].startswith("b,conv,1x16x4x4,16x16x1x1,,,,,,,")


@pytest.mark.fast
def test_a_network_without_a_layer_that_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"layers: [{{name: b, {ONE}, cube_math_type: 9}}]")
    with pytest.raises(AclnnError, match="layer b: cubeMathType = 9") as caught:
        run_network(load_network(path))
    assert caught.value.status == 161002


@pytest.mark.fast
def test_an_output_mask_leaves_gradients_out(tmp_path: Path) -> None:
    path = tmp_path / "masked.yaml"
    path.write_text(
        f"layers:\n- {{name: weight, {ONE}, output_mask: [false, true, false]}}\n"
        f"- {{name: none, {ONE}, output_mask: [false, false, false]}}\n"
    )
    weight, none = run_network(load_network(path)).layers
    assert weight.times["grad_weight"] > 0 == weight.times["grad_input"] == weight.times["grad_bias"]
    assert set(none.times.values()) == {0.0}
    done = CliRunner().invoke(app, ["run-network", str(path), "--jobs", "1", "--full"])
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.startswith(("weight", "none"))}
    dx, dw, db = rows["weight"][4:7]
    assert (dx, db) == ("-", "-") and float(dw) > 0 and set(rows["none"][4:]) == {"-"}
    assert run_network(load_network(path), direction="forward").same_as == [None, "weight"]
    path.write_text(f"layers: [{{name: a, {ONE}, bias: false, output_mask: [true, true, true]}}]")
    with pytest.raises(ConfigError, match=r"layer a: output_mask: .* requires_grad and bias leave"):
        load_network(path)


@pytest.mark.fast
def test_a_store_has_what_was_finished(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = load_network(small)
    first = run_network(network, out=tmp_path)

    def never(*arguments: object, **settings: object) -> None:
        raise AssertionError("it was simulated again")

    monkeypatch.setattr(networks, "_run_layer", never)
    assert run_network(network, out=tmp_path).to_dict() == first.to_dict()
    with pytest.raises(AssertionError, match="simulated again"):
        run_network(network, out=tmp_path, chip="ascend910b4")


def test_the_page_ranks_the_layers(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    run = run_network(load_network(small))
    write_page(tmp_path / "page.html", run)
    text = (tmp_path / "page.html").read_text()
    part = text[text.index("Layers by time") :]
    assert part.index(">first<") and part.index(">wide<") and "above ideal" in part and "TransData" in text


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_start_at_one(jobs: int) -> None:
    with pytest.raises(SimError, match="jobs is"):
        spread(abs, [1], jobs=jobs)


def test_spread_keeps_the_order_and_reports_progress() -> None:
    heard: list[tuple[str, int, int]] = []
    results = spread(abs, [-3, 2, -1], name="work", progress=lambda *seen: heard.append(seen))
    assert results == [3, 2, 1]
    assert heard == [("work", 1, 3), ("work", 2, 3), ("work", 3, 3)]


def test_a_page_shows_what_the_table_says(small: Path, tmp_path: Path) -> None:
    """A bar for each part of each layer, as long as its time; every launch among the kernels; nothing from outside."""
    pytest.importorskip("plotly")
    page = tmp_path / "network.html"
    done = CliRunner().invoke(app, ["run-network", str(small), "--batch", "1", "--jobs", "1", "--json", "--html", str(page)])
    assert done.exit_code == 0, done.output
    data, text = json.loads(done.stdout), page.read_text(encoding="utf-8")
    (figure,) = json.loads(re.findall(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)[0])
    drawn = {bar["name"]: bar["x"] for bar in figure["data"]}
    parts = [part for part in data["layers"][0]["us"] if part != "total"]
    assert list(drawn.values()) == [[layer["us"][part] for layer in data["layers"]] for part in parts]
    body = text[text.index("<main>") : text.index("</main>")]
    assert "small, batch 1, on ascend910b3: backward" in body and f"{data['totals_us']['total']:,.1f}" in body
    names = {layer["name"]: layer for layer in data["layers"]}
    launched = [k["op_type"] for layer in data["layers"] for k in names[layer["same_as"] or layer["name"]]["kernels"]]
    for op_type in set(launched):
        assert f'<td>{op_type}</td><td class="n">{launched.count(op_type)}</td>' in body
    assert not re.search(r'(src|href)="', body)
    refused = CliRunner().invoke(app, ["run-network", str(small), "--html", str(tmp_path / "no" / "page.html")])
    assert refused.exit_code == 2 and "there is no folder" in refused.stderr
