"""`ascend-sim run-network`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascend_sim.cli import app
from tests.support.studies.small_network import THREE_LAYERS


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(THREE_LAYERS)
    return path


def test_command_line(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["run-network", str(small), "--batch", "1", "--jobs", "1", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [layer["name"] for layer in data["layers"]] == ["first", "wide", "again"]
    assert "took" in result.stderr and "took" not in result.stdout
    assert json.loads((out / "network.json").read_text()) == data
    lines = (out / "layers.csv").read_text().splitlines()
    assert lines[0].startswith("layer,kind,input,weight,grad_input_us")
    assert len(lines) == 4


def test_command_line_table_and_errors(small: Path) -> None:
    result = CliRunner().invoke(app, ["run-network", str(small), "--batch", "1", "--jobs", "1", "--full"])
    for text in ("first", "wide", "again", "3 layers", "2 distinct"):
        assert text in result.stdout
    refused = CliRunner().invoke(app, ["run-network", "nothing.yaml"])
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1


def test_rows_of_the_page_are_links_to_pages_of_layers(small: Path, tmp_path: Path) -> None:
    """The layer that costs most over its copies has a page, which its copies share."""
    pytest.importorskip("plotly")
    page = tmp_path / "net.html"
    ran = CliRunner().invoke(
        app, ["run-network", str(small), "--jobs", "1", "--html", str(page), "--layer-pages", "1", "--json"]
    )
    assert ran.exit_code == 0, ran.output
    first = json.loads(ran.stdout)["summary"]["most"][0]
    links = re.findall(r'<a href="(net-layers/[^"]+)">(\w+)</a>', page.read_text())
    same = [row["name"] for row in json.loads(ran.stdout)["layers"] if first["layer"] in (row["name"], row["same_as"])]
    tables = [*same, *[first["layer"]] * 2]  # all layers, and it alone among those that cost most
    assert sorted(name for _, name in links) == sorted(tables) and len(same) == first["copies"]
    assert {link for link, _ in links} == {f"net-layers/{first['layer']}.html"}
    assert f"{first['us']:.1f}" in (tmp_path / links[0][0]).read_text()
    alone = CliRunner().invoke(app, ["run-network", str(small), "--layer-pages", "1"])
    assert alone.exit_code == 2 and "--layer-pages: needs the page of the network" in alone.stderr
