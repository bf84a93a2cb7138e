"""`ascend-sim init`: what it writes runs, says every field, and replaces nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from ascend_sim.ops.case import load_case
from ascend_sim.ops.network import load_network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.studies.lookup.templates import TEMPLATES, template
from tests.support.cli.commands import refused, run

RUNS = {
    "case": "run {file} --mode timing",
    "network": "run-network {file} --batch 1 --jobs 1",
    "chip": "run by_hand --mode timing --chip {file}",
    "kernel": "check {file}",
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_what_it_writes_runs(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = run("init", kind).out.split(";")[0].removeprefix("wrote ")
    assert [path.name for path in tmp_path.iterdir()] == [written]
    done = run(*RUNS[kind].format(file=written).split())
    assert done.code == 0, done.out + done.err


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("mine", encoding="utf-8")
    assert "there is a file of that name already" in refused("init", "case", mine)
    assert mine.read_text(encoding="utf-8") == "mine"
    assert "ends in .py" in refused("init", "kernel", tmp_path / "kernel.yaml")
    assert "there are case, network, chip, kernel" in refused("init", "layer", tmp_path / "a.yaml")
    assert "there is no folder" in refused("init", "case", tmp_path / "nowhere" / "a.yaml")


def test_the_case_names_every_field_with_its_default(tmp_path: Path) -> None:
    """Fields that are commented out change nothing when they are taken in."""
    text = template("case")
    fields = set(re.findall(r"^(?:# )?(\w+):", text, flags=re.MULTILINE))
    assert fields == set(OPERATORS["convolution_backward"].case.model_fields)
    whole = re.sub(r"^# (\w+:)", r"\1", text, flags=re.MULTILINE)
    for name, content in (("short.yaml", text), ("whole.yaml", whole)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    short, said = load_case(tmp_path / "short.yaml"), load_case(tmp_path / "whole.yaml")
    assert said.attributes["bias_sizes"] == (128,)  # what None stands for
    assert short.tensors == said.tensors and short.attributes == said.attributes | {"bias_sizes": None}
    assert (short.data, short.tiling, short.block_dim, short.l2) == (said.data, said.tiling, said.block_dim, said.l2)


def test_numbers_of_the_chip_that_are_commented_out_are_right(tmp_path: Path) -> None:
    from ascend_sim.chip import load_chip

    whole = re.sub(r"^# ( *[\w>-]+:)", r"\1", template("chip"), flags=re.MULTILINE)
    assert set(yaml.safe_load(whole)) == {"extends", "identity", "memory", "cores", "clock", "buffers", "paths"}
    path = tmp_path / "faster.yaml"
    path.write_text(whole, encoding="utf-8")
    chip = load_chip(path)
    assert (chip.buffers["L1"], chip.cores.aic, chip.path("GM", "L1").bytes_per_cycle) == (1 << 20, 24, 300)


def test_the_network_has_every_kind_of_layer(tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(template("network"), encoding="utf-8")
    layers = load_network(path).layers
    assert {layer.groups > 1 for layer in layers} == {True, False} and layers[0].input.requires_grad is False


def test_the_next_command_takes_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is the shell's own splitting."""
    monkeypatch.chdir(tmp_path)
    said = run("init", "case", "my 'ünï' case.yaml").out
    assert shlex.split(said.split("next: ")[1]) == ["ascend-sim", "run", "my 'ünï' case.yaml"]
