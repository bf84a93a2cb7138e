"""The page of a simulated model, which is that of a network."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ascend_sim  # noqa: E402
from ascend_sim.ops.network import load_network  # noqa: E402
from ascend_sim.studies.network.page import write_page  # noqa: E402
from ascend_sim.torch import simulate  # noqa: E402
from tests.support.report.browser import chromium, cut_off, emulate, unnamed  # noqa: E402
from tests.support.torch.steps import step  # noqa: E402

SECTIONS = ("Layers", "Layers by time", "Kinds of kernels")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def body(path: Path) -> str:
    return path.read_text().partition("<main>")[2].partition("</main>")[0]


def test_the_page_and_the_table_show_every_layer(tiny: Any, tmp_path: Path) -> None:
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    sim.write_html(tmp_path / "model.html")
    page, table = body(tmp_path / "model.html"), str(sim.report).splitlines()
    data = sim.report.to_dict()
    launches: Counter[str] = Counter()
    for number, layer in enumerate(data["layers"]):
        assert table[2 + number].startswith(layer["layer"])
        assert f"{layer['us']['total']:.1f}" in table[2 + number] and f">{layer['us']['total']:,.1f}</td>" in page
        assert f"<summary>{layer['layer']}: " in page
        for call in layer["calls"]:
            launches.update({kernel["op_type"]: 0 for kernel in call["kernels"]})
            for kernel in call["kernels"]:
                launches[kernel["op_type"]] += call["count"]
    assert f"{data['totals_us']['total']:.1f}" in table[-1] and f"<b>{data['totals_us']['total']:,.1f}</b>us in all" in page
    assert sum(layer["share"] for layer in data["layers"]) == pytest.approx(1, abs=1e-3)
    for op_type, count in launches.items():
        assert f'<td>{op_type}</td><td class="n">{count}</td>' in page


def test_a_call_that_is_made_twice_counts_twice(tmp_path: Path) -> None:
    """In the table of kinds: launches, and their time."""
    layer, x = torch.nn.Conv2d(16, 16, 3, padding=1), torch.randn(1, 16, 8, 8)
    with simulate(layer, chip="ascend910b3", mode="timing") as sim:
        layer(layer(x)).sum().backward()
    sim.write_html(tmp_path / "model.html")
    page = body(tmp_path / "model.html")
    launches: Counter[str] = Counter()
    times: Counter[str] = Counter()
    counts = set()
    for call in (call for row in sim.report.to_dict()["layers"] for call in row["calls"]):
        counts.add(call["count"])
        for kernel in call["kernels"]:
            launches[kernel["op_type"]] += call["count"]
            times[kernel["op_type"]] += call["count"] * kernel["task_us"]
    assert max(counts) > 1
    for op_type, count in launches.items():
        assert f'<td>{op_type}</td><td class="n">{count}</td><td class="n">{times[op_type]:,.1f}</td>' in page


def test_it_is_the_page_of_a_network(tmp_path: Path) -> None:
    """The backward pass of a model has the ranking of the network that it is exported to."""
    pytest.importorskip("plotly")
    model = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, padding=1))
    with simulate(model, forward=False) as sim:
        model(torch.randn(2, 16, 8, 8, requires_grad=True)).sum().backward()
    sim.to_network(tmp_path / "net.yaml")
    run = ascend_sim.run_network(tmp_path / "net.yaml")
    sim.write_html(tmp_path / "model.html")
    write_page(tmp_path / "network.html", run)
    tables = []
    for name in ("model", "network"):
        page = body(tmp_path / f"{name}.html")
        assert all(f"<h2>{section}</h2>" in page for section in SECTIONS) and 'id="layers"' in page
        ranking = page.partition('id="ranking"')[2].partition("</table>")[0]
        heads = page.partition('id="all-layers"')[2].partition("</thead>")[0]
        tables.append((heads, re.sub(r"<code.*?</code>", "", ranking)))  # a command here, a line of Python there
    assert tables[0] == tables[1] and "longest kernel" in tables[0][0]
    assert load_network(tmp_path / "net.yaml").batch == 2


def test_every_convolution_has_the_line_that_opens_it(tiny: Any, tmp_path: Path) -> None:
    """The lines run, and the page says how to get pages of the layers, to which the names then lead."""
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    sim.write_html(tmp_path / "model.html")
    page = body(tmp_path / "model.html")
    lines = [unescape(one) for one in re.findall(r'<code class="command">(.*?)</code>', page)]
    assert lines[0] == lines[1], "the layer that costs most is the next to open"
    assert len(lines) - 1 == sum(row.layer.kind != "matmul" for row in sim.report.rows) > 1
    name = re.search(r"sim\[(.*)\]\.run", lines[0])
    assert name and sim[json.loads(name[1])].run().report.total_us > 0
    assert "layers=5" in page and "<a " not in page
    sim.write_html(tmp_path / "model.html", layers=1)
    page = body(tmp_path / "model.html")
    (link,) = set(re.findall(r'<a href="([^"]+)">', page))
    assert "layers=5" not in page and page.count(f'href="{link}"') == 3  # in every table
    layer = (tmp_path / link).read_text()
    assert re.search(r"<title>(.*?): ", layer)[1] == re.search(r"<h1>(.*?): ", layer)[1] == json.loads(name[1])  # type: ignore[index]


def test_a_functional_run_has_no_times(tiny: Any, tmp_path: Path) -> None:
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8), mode="functional")
    sim.write_html(tmp_path / "model.html")
    page = body(tmp_path / "model.html")
    assert "<h2>Kinds of kernels</h2>" not in page and "us in all" not in page and "<summary>" in page


def test_it_needs_no_plotly(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    monkeypatch.setattr("ascend_sim.report.network_page.find_spec", lambda name: None)
    sim.write_html(tmp_path / "model.html")
    text = (tmp_path / "model.html").read_text()
    assert 'id="layers"' not in text and 'id="ranking"' in text


@pytest.mark.parametrize("width", [1600, 400])
def test_nothing_is_cut_off_and_the_console_is_silent(browser: Any, tiny: Any, tmp_path: Path, width: int) -> None:
    pytest.importorskip("plotly")
    sim, _, _ = step(tiny, torch.randn(1, 3, 8, 8))
    sim.write_html(tmp_path / "model.html")
    emulate(browser, width, 900, mobile=width < 600)
    browser.get((tmp_path / "model.html").as_uri())
    browser.implicitly_wait(5)
    browser.find_element("css selector", 'body[data-ready="yes"]')
    browser.find_element("css selector", "#layers .main-svg")
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert cut_off(browser, ".scroll" if width < 600 else "") == [] and unnamed(browser) == []
    assert [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")] == []
