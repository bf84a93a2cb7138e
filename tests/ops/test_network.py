"""Files of networks: what they hold, and one line for every error."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.calls.cases import run_case
from ascend_sim.errors import ConfigError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import InputEntry
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, address_of, cases_of, load_network
from ascend_sim.studies.network.run import run_network
from tests.support.cli.commands import refused, run

ONE = "input: {shape: [1, 16, 4, 4], dtype: float16}, weight: [16, 16, 1, 1]"


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
    assert type(network.at(np.int64(2)).batch) is int
    with pytest.raises(ConfigError, match="batch is True"):
        network.at(True)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "a network file is a mapping"),
        ("layers: []", r"layers: \[\] given; a network has at least one layer"),
        ("layer: []", "layer: unknown key; did you mean 'layers'"),
        ("layers: [{name: a}]\nlayer: 1", "layer: unknown key; did you mean 'layers'"),
        (f"layers: [{{name: a, {ONE}}}]\ndefaults: {{strides: 1}}", "defaults: unknown key 'strides'; allowed: input, weight"),
        ("layers: [{name: a, input: [1, 16, 4, 4]}]", "layer a: weight: missing"),
        ("layers: [{name: a, input: [1, 16, 4, 4], weight: [16, 16, 1, 1]}]", "layer a: input.dtype: missing"),
        (f"layers: [{{name: a, {ONE}, strides: 2}}]", "layer a: strides: unknown key; did you mean 'stride'"),
        (f"layers: [{{name: a, {ONE}, dilation: 0}}]", "layer a: dilation.0: 0 given; must be >= 1"),
        (
            "layers: [{name: a, dtype: float16, input: [1, 16, 2, 2], weight: [16, 16, 3, 3]}]",
            "layer a: weight.shape: a kernel of 3 does not fit in H",
        ),
        (f"layers: [{{name: a, {ONE}, padding: [1, 2, 3]}}]", "padding: .* 2 or 4 values"),
        (f"layers: [{{name: a, {ONE}, groups: 4}}]", "layer a: input.shape: 16 channels given; weight.shape.1. x groups is 64"),
        (f"layers: [{{name: a, {ONE}, bias: maybe}}]", "layer a: bias: 'maybe' given; must be true, false, a shape,"),
        (f"layers: [{{name: a, {ONE}}}, {{name: a, {ONE}}}]", "'a' is given twice"),
        (f"layers: [{{name: a, kind: conv_tbc, {ONE}}}]", "layer a: input.shape: .* allowed: three axes"),
        (f"layers: [{{name: a, kind: linear, {ONE}}}]", "layer a: kind: 'linear' given; allowed: conv, conv_tbc"),
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


VARIED = """
name: varied
batch: 2
defaults: {dtype: float16}
layers:
- {name: stem, input: {shape: [2, 3, 8, 8], requires_grad: false}, weight: [16, 3, 3, 3], padding: 1, bias: false}
- {name: a:b, dtype: float32, input: [2, 16, 8, 8], weight: [16, 16, 3, 3], bias: false, cube_math_type: 1}
- {name: up, input: [2, 16, 4, 4], weight: [16, 16, 2, 2], stride: 2, transposed: true, output_mask: [true, false, false]}
- {name: "2", kind: conv_tbc, input: [7, 2, 16], weight: [3, 16, 16], pad: 1}
- {name: frozen, input: [2, 16, 4, 4], weight: [16, 16, 1, 1], output_mask: [false, false, false]}
"""


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    path = tmp_path / "varied.yaml"
    path.write_text(VARIED)
    return path


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_an_address_is_the_case_that_run_network_runs(varied: Path, direction: str) -> None:
    """Each layer's time as a case is its row of the network, with the same L2 state (cold)."""
    if direction == "forward":  # no operator computes that of conv_tbc
        varied.write_text("\n".join(line for line in VARIED.splitlines() if "conv_tbc" not in line))
    run = run_network(varied, direction=direction)
    for number, (layer, times) in enumerate(zip(run.network.layers, run.layers, strict=True), 1):
        address = f"{varied}:{layer.name}" + (":forward" if direction == "forward" else "")
        assert not times.refused
        if not (layer.trains or direction == "forward"):
            continue
        report = run_case(address, mode="timing").report
        assert report.total_us == times.times["total"], layer.name
        assert len(report.kernels) == len(times.kernels)
        if layer.name == "stem":
            assert load_case(address.replace(":stem", f":{number}")) == load_case(address)


def test_a_name_goes_before_a_number_and_may_hold_a_colon(varied: Path) -> None:
    assert load_case(f"{varied}:2").operator == "conv_tbc_backward"
    assert load_case(f"{varied}:3").transposed and load_case(f"{varied}:a:b").cube_math_type == 1
    assert address_of("resnet50:conv1") == ("resnet50", "conv1") and address_of("resnet50") is None


@pytest.mark.parametrize("direction", ["", ":forward"])
def test_an_address_scales_the_batch(direction: str) -> None:
    loaded, scaled = load_case(f"resnet50:conv1{direction}"), load_case(f"resnet50:1:batch=3{direction}")
    assert scaled.tensors["input"][0] == (3, *loaded.tensors["input"][0][1:]) and scaled.operator == loaded.operator
    assert {name: dtype for name, (_, dtype) in scaled.tensors.items()} == {
        name: dtype for name, (_, dtype) in loaded.tensors.items()
    }
    assert scaled.attributes == loaded.attributes


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("resnet50", "^resnet50: that is a network: run-network resnet50, or a layer of it, resnet50:conv1$"),
        ("conv4_1_3x3", "^conv4_1_3x3: that is a layer of a network; its address is resnet50:conv4_1_3x3$"),
        ("resnet50:conv2_1_3", r"no layer 'conv2_1_3' in resnet50; did you mean resnet50:conv2_1_3x3\?; allowed are names and"),
        ("resnet50:conv2_1_4x4", r"did you mean resnet50:conv2_1_3x3, "),
        ("convnext_tiny:stage9", r"did you mean convnext_tiny:stage\d_1\w*, convnext_tiny:stage\d_1\w*, convnext_tiny:stage"),
        ("resnet50:54", "no layer '54' in resnet50; allowed are names and numbers from 1 to 53: conv1, "),
        ("resnet50:0", "no layer '0'"),
        ("resnet50:conv1:batch=0", "^batch is 0; allowed is a whole number from 1 to 2147483647$"),
        ("resnet50:conv1:batch=two", "no layer 'conv1:batch=two' in resnet50; behind a layer stand :batch=N, .*; allowed"),
        ("resnet50:conv1:batch=-1", "behind a layer stand :batch=N, with a whole number from 1, and then :forward; allowed"),
        ("resnet50:conv1:forward:batch=2", "no layer 'conv1:forward' in resnet50; behind a layer stand :batch=N"),
        ("resnet50:", "no layer given in resnet50"),
        (":conv1", "^:conv1: no network given before the colon; shipped networks: convnext_tiny, "),
        ("/dev/null", "^/dev/null: is a device or a pipe, not a file, and no case of that name; shipped cases: bf16, "),
        ("by_hand:batch=4", "^by_hand: that is a case, which has no layers: run by_hand; sweep by_hand --vary batch=8"),
        ("resnet5:conv1", r"^resnet5: no such file, and no network of that name; did you mean 'resnet50'\?"),
        (f"resnet50:conv1:batch={'9' * 5000}", "no layer 'conv1:batch=9+' in resnet50; behind a layer stand :batch=N, "),
        (f"resnet50:{'9' * 5000}", "no layer '9+' in resnet50; allowed are names and numbers from 1 to 53: "),
        ("a" * 300, r"^a+: cannot be looked for \(File name too long\), and no case of that name; shipped cases: bf16, "),
        (f"{'a' * 300}:conv1", r"^a+: cannot be looked for \(File name too long\), and no network of that name; shipped"),
    ],
)
def test_wrong_addresses(case: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_case(case)


def test_a_path_that_the_system_does_not_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^a+: cannot be looked for \(File name too long\), and no network of that name"):
        load_network("a" * 300)
    look = os.stat

    def closed(path: Any, **more: Any) -> os.stat_result:
        if str(path).startswith("closed/"):  # as for a user who may not search the folder
            raise PermissionError(13, "Permission denied", path)
        return look(path, **more)

    monkeypatch.setattr(os, "stat", closed)
    for read in (load_network, load_case):
        with pytest.raises(ConfigError, match=r"^closed/x.yaml: cannot be looked for \(Permission denied\), and no "):
            read("closed/x.yaml")


def test_a_layer_without_gradients_and_a_network_file(varied: Path) -> None:
    with pytest.raises(ConfigError, match=r"asks for no gradient, .*varied.yaml:frozen:forward$"):
        load_case(f"{varied}:frozen")
    with pytest.raises(ConfigError, match=r"that is a network: run-network .*varied.yaml, or a layer of it, .*yaml:stem"):
        load_case(varied)
    with pytest.raises(ConfigError, match=r"^resnet50:conv1: that is a layer of a network, which is a case: run"):
        load_network("resnet50:conv1")


@pytest.mark.parametrize(
    "command",
    [
        "run varied.yaml:stem --mode timing",
        "tile varied.yaml:stem --kernel dW --limit 0",
        "explain varied.yaml:a:b",
        "precision varied.yaml:stem --json",
        "check varied.yaml:1",
        "sweep varied.yaml:stem --vary batch=1,2 --jobs 1",
        "compare varied.yaml:stem varied.yaml:up",
        "explain-status varied.yaml:up",
        "run-network varied.yaml --jobs 1",
    ],
)
def test_commands_take_addresses(varied: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(varied.parent)
    ran = run(*command.split())
    assert (ran.code, ran.out == "") == (0, False), ran.err
    if command.startswith("sweep"):
        assert (varied.parent / "sweep-varied-stem").is_dir()


def test_compare_says_what_a_network_is() -> None:
    said = refused("compare", "resnet50", "by_hand")
    assert "that is a network" in said and "resnet50:LAYER" in said
    assert "run-network resnet50 --out out/resnet50" in said and "compare out/resnet50 OTHER" in said


def test_compare_says_what_a_network_file_is(varied: Path) -> None:
    said = refused("compare", "by_hand", str(varied))
    assert f"run-network {varied} --out out/varied" in said and f"{varied}:LAYER" in said


@pytest.mark.parametrize("address", ["RESNET50:conv1", "resnet50:Conv1", "ResNet50:CONV1:forward"])
def test_names_that_ship_are_taken_in_any_case(address: str) -> None:
    assert load_case(address) == load_case(address.lower())
    assert load_case("By_Hand") == load_case("by_hand") and load_network("RESNET50").layers == load_network("resnet50").layers


def test_a_case_is_no_network(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("operator: convolution_backward\ninput: {shape: [2, 4, 8, 8], dtype: float16}\nweight: [6, 4, 3, 3]\n")
    for name in ("by_hand", str(path), f"{path}:batch=4"):
        with pytest.raises(ConfigError, match=r"that is a case, which has no layers: run \S+; sweep \S+ --vary batch=8"):
            load_case(name) if ":" in name else load_network(name)


def test_a_case_is_neither_python_nor_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    with pytest.raises(ConfigError, match=r"own\.py: that is a Python file; .*: kernel \S+own\.py, or check"):
        load_case(tmp_path / "own.py")
    given: Any = {"operator": "convolution_backward"}
    with pytest.raises(ConfigError, match=r"^a dict given; allowed are a case's name, "):
        load_case(given)
