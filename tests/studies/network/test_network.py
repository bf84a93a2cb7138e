"""Networks: files and their errors, equal layers, and a layer's times against the operator's own report."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from places import DOCS
from small_network import THREE_LAYERS
from typer.testing import CliRunner

from ascend_sim import TensorSpec, conv_tbc_backward, convolution_backward
from ascend_sim.cli import app
from ascend_sim.errors import AclnnError, ConfigError, SimError
from ascend_sim.ops.case_entries import InputEntry
from ascend_sim.runtime.workers import spread
from ascend_sim.studies.network import run as networks
from ascend_sim.studies.network.file import Layer, Network, cases_of, load_network
from ascend_sim.studies.network.page import write_page
from ascend_sim.studies.network.pages import around_line, csv_text, list_markdown
from ascend_sim.studies.network.ranking import ranked
from ascend_sim.studies.network.run import run_network
from ascend_sim.studies.network.tuning import _faster, read_tilings, tune, write_tilings

ONE = "input: {shape: [1, 16, 4, 4], dtype: float16}, weight: [16, 16, 1, 1]"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


def output_of(layer: Layer) -> tuple[int, ...]:
    """Height and width."""
    return cases_of(layer)["backward"].tensors["grad_output"][0][2:]


@pytest.mark.fast
def test_resnet50_is_the_published_network() -> None:
    layers = load_network("resnet50").layers
    assert len(layers) == 53
    assert len({(layer.input, layer.weight, layer.stride, layer.padding) for layer in layers}) == 23
    # torchvision's resnet50: 25,557,032 parameters, of them 2,049,000 in the final layer and 53,120 in BatchNorm; 4.089 G
    # multiply-accumulates with the final layer's 2,048,000
    weights = sum(math.prod(layer.weight.shape) for layer in layers)
    assert weights == 25_557_032 - 2_049_000 - 53_120
    macs = sum(math.prod(layer.weight.shape) * math.prod(output_of(layer)) for layer in layers)
    assert macs == 4_089_184_256 - 2_048_000


def test_every_layer_fits_its_neighbour() -> None:
    sizes = {64: 56, 128: 28, 256: 14, 512: 7}
    for layer in load_network("resnet50").layers:
        if layer.name != "conv1" and not layer.name.endswith("in"):
            c_out, c_in = layer.weight.shape[:2]
            narrow = min(c_out, c_in) if "shortcut" not in layer.name else c_out // 4
            assert output_of(layer) == (sizes[narrow],) * 2, layer.name


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
    assert (
        repr(run) == f"<NetworkRun of small, batch 2, backward on ascend910b3: 3 layers, {run.totals['total']:,.1f} us>"
    )
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


@pytest.mark.fast
def test_another_batch_is_another_shape(tmp_path: Path) -> None:
    path = tmp_path / "patches.yaml"
    path.write_text(
        "batch: 4\ndefaults: {dtype: float16}\nlayers:\n"
        "- {name: whole, input: [4, 16, 4, 4], weight: [16, 16, 1, 1]}\n"
        "- {name: patches, input: [36, 16, 4, 4], weight: [16, 16, 1, 1]}\n"
        "- {name: time, kind: conv_tbc, input: [7, 4, 16], weight: [3, 16, 16], pad: 1}\n"
    )
    network = load_network(path)
    assert [layer.input.shape for layer in network.at(2).layers] == [(2, 16, 4, 4), (18, 16, 4, 4), (7, 2, 16)]
    assert network.at(4) is network
    pooled = Network("pooled", (network.layers[0].model_copy(update={"input": InputEntry(shape=(2, 16, 4, 4))}),), 4)
    with pytest.raises(ConfigError, match="layer whole: batch: 3 given; 2 images at the network's batch 4"):
        pooled.at(3)


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
    result = CliRunner().invoke(app, ["run-network", str(path), "--jobs", "1"])
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
def test_around_is_told_by_kernel(small: Path) -> None:
    run = run_network(load_network(small))
    assert sum(run.around.values()) == pytest.approx(run.totals["around"])
    own = [kernel for layer in run.layers for kernel in layer.kernels if kernel["op_type"] == "TransData"]
    assert run.around["TransData"] == pytest.approx(sum(kernel["task_us"] for kernel in own)) and len(own) > 3
    assert list(run.around.values()) == sorted(run.around.values(), reverse=True)
    assert "TransData" in around_line(run) and not {"Conv2DBackpropInput", "Conv2DBackpropFilter"} & set(run.around)


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
    done = CliRunner().invoke(app, ["run-network", str(path), "--jobs", "1"])
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
    """Of a real search that was cut short: no kernel gets slower, and the network is run with what was found."""
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
def test_layers_are_ranked_by_the_time_of_all_their_copies(small: Path) -> None:
    run = run_network(load_network(small))
    rows = ranked(run)
    assert sum(row["all"] for row in rows) == pytest.approx(run.totals["total"])
    assert [row["all"] for row in rows] == sorted((row["all"] for row in rows), reverse=True)
    first = next(row for row in rows if row["layer"] == "first")
    assert first["copies"] == 2 and first["all"] == 2 * run.layers[0].times["total"]
    # 2 x 16 x 16 x 64 x 9 products for each gradient; 20 cores of 4,096 each cycle at 1,800 MHz; rounded up to cycles
    assert first["ideal"] == pytest.approx(2 * math.ceil(2 * 16 * 16 * 64 * 9 / (20 * 4096)) / 1800, abs=1e-4)
    assert first["beyond"] == pytest.approx(2 * (first["us"] - first["ideal"]))


def test_the_page_ranks_the_layers(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    run = run_network(load_network(small))
    write_page(tmp_path / "page.html", run)
    text = (tmp_path / "page.html").read_text()
    part = text[text.index("Layers by time") :]
    assert part.index(">first<") and part.index(">wide<") and "above ideal" in part and "TransData" in text


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a network file is a mapping"),
        ("layers: []", r"layers: \[\] given; a network has at least one layer"),
        ("layer: []", "layers: missing"),
        ("layers: [{name: a}]\nlayer: 1", "layer: unknown key; did you mean 'layers'"),
        (
            f"layers: [{{name: a, {ONE}}}]\ndefaults: {{strides: 1}}",
            "defaults: unknown key 'strides'; allowed: input, weight",
        ),
        ("layers: [{name: a, input: [1, 16, 4, 4]}]", "layer a: weight: missing"),
        ("layers: [{name: a, input: [1, 16, 4, 4], weight: [16, 16, 1, 1]}]", "layer a: input.dtype: missing"),
        (f"layers: [{{name: a, {ONE}, strides: 2}}]", "layer a: strides: unknown key; did you mean 'stride'"),
        (f"layers: [{{name: a, {ONE}, dilation: 0}}]", "layer a: dilation.0: 0 given; must be >= 1"),
        (
            "layers: [{name: a, dtype: float16, input: [1, 16, 2, 2], weight: [16, 16, 3, 3]}]",
            "layer a: weight.shape: a kernel of 3 does not fit in H",
        ),
        (f"layers: [{{name: a, {ONE}, padding: [1, 2, 3]}}]", "padding: .* 2 or 4 values"),
        (
            f"layers: [{{name: a, {ONE}, groups: 4}}]",
            "layer a: input.shape: 16 channels given; weight.shape.1. x groups is 64",
        ),
        (
            f"layers: [{{name: a, {ONE}, bias: maybe}}]",
            "layer a: bias: 'maybe' given; must be true, false, a shape,",
        ),
        (f"layers: [{{name: a, {ONE}}}, {{name: a, {ONE}}}]", "'a' is given twice"),
        (f"layers: [{{name: a, kind: conv_tbc, {ONE}}}]", "layer a: input.shape: .* allowed: three axes"),
        (
            f"layers: [{{name: a, kind: linear, {ONE}}}]",
            "layer a: kind: 'linear' given; allowed: conv, conv_tbc",
        ),
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
    assert lines[0].startswith("layer,kind,input,weight,grad_input_us")
    assert len(lines) == 4


def test_a_page_shows_what_the_table_says(small: Path, tmp_path: Path) -> None:
    """A bar for each part of each layer, as long as its time; every launch among the kernels; nothing from outside."""
    pytest.importorskip("plotly")
    page = tmp_path / "network.html"
    done = CliRunner().invoke(
        app, ["run-network", str(small), "--batch", "1", "--jobs", "1", "--json", "--html", str(page)]
    )
    assert done.exit_code == 0, done.output
    data, text = json.loads(done.stdout), page.read_text(encoding="utf-8")
    (figure,) = json.loads(
        re.findall(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)[0]
    )
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


def test_command_line_table_and_errors(small: Path) -> None:
    result = CliRunner().invoke(app, ["run-network", str(small), "--batch", "1", "--jobs", "1"])
    for text in ("first", "wide", "again", "3 layers", "2 distinct"):
        assert text in result.stdout
    refused = CliRunner().invoke(app, ["run-network", "nothing.yaml"])
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1


def test_the_page_lists_the_networks_as_their_files_are() -> None:
    assert list_markdown() in (DOCS / "networks.md").read_text(encoding="utf-8")


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
    with pytest.raises(ConfigError, match="there is no such file"):
        read_tilings(tmp_path / "none.yaml")
