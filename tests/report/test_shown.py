"""Results that `print` shows as text and a notebook as HTML, from one drawing."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import ascend_sim
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.printed import printed_html
from ascend_sim.studies.compare.layers import compare_layers


def draw(console: Console) -> None:
    say(console, "before <it>")
    grid = Grid("times & parts", ("layer", ">grad\nus", "~why"))
    grid.row("a<b", "1.5", "[bold]")
    console.print(grid)
    console.print("next: x", soft_wrap=True, highlight=False, markup=False)
    say(console, "last")


@pytest.mark.fast
def test_a_grid_becomes_a_table_and_lines_stay_lines() -> None:
    assert re.sub(r"\n", "", printed_html(draw)) == (
        '<div class="ascend-sim"><pre style="white-space: pre-wrap">before &lt;it&gt;</pre>'
        '<p><b>times &amp; parts</b></p><div class="scroll"><table><thead><tr><th>layer</th><th class="n">grad us</th>'
        '<th>why</th></tr></thead><tbody><tr><td>a&lt;b</td><td class="n">1.5</td><td>[bold]</td></tr></tbody></table>'
        '</div><pre style="white-space: pre-wrap">next: xlast</pre></div>'
    )


def network(folder: Path, batch: int = 4) -> Any:
    path = folder / "two.yaml"
    layer = f"input: [{batch}, 16, 8, 8], weight: [16, 16, 3, 3], padding: 1"
    layers = "".join(f"  - {{name: {name}, {layer}}}\n" for name in ("first", "second"))
    path.write_text(f"name: two\nbatch: {batch}\ndefaults: {{dtype: float16, bias: false}}\nlayers:\n{layers}")
    return ascend_sim.run_network(path)


def layers(folder: Path) -> Any:
    for name, batch in (("a", 4), ("b", 8)):
        (folder / name).mkdir()
        (folder / name / "network.json").write_text(json.dumps(network(folder, batch).to_dict()))
    return compare_layers(folder / "a", folder / "b")


RESULTS = {
    "network": lambda folder: network(folder),
    "precision": lambda _: ascend_sim.precision("by_hand", dtypes=["float16"]),
    "sweep": lambda _: ascend_sim.sweep("by_hand", {"batch": [1, 2]}),
    "compare": lambda _: ascend_sim.compare_runs("by_hand", "strided"),
    "compare layers": layers,
    "tile": lambda _: ascend_sim.search_tilings("by_hand", "grad_input", limit=2),
    "a search": lambda _: ascend_sim.search_tilings("by_hand", "grad_input", limit=2)[0],
}


@pytest.mark.parametrize("name", list(RESULTS))
def test_a_notebook_shows_what_print_shows_and_json_holds_it(name: str, tmp_path: Path) -> None:
    result = RESULTS[name](tmp_path)
    shown = unescape(re.sub(r"<[^>]*>", " ", result._repr_html_()))
    assert "<table>" in result._repr_html_()
    words = str(result).split()
    assert len(words) > 10 and set(words) <= set(shown.split())
    data = result.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


WRONG: dict[str, tuple[Any, str]] = {
    "a word for the batch": (lambda: ascend_sim.run_network("resnet18", batch="two"), "batch is 'two'; allowed is a whole"),
    "a list of fields": (lambda: ascend_sim.sweep("by_hand", ["batch"]), "vary: list given; allowed is a mapping"),
    "a chip that there is not": (lambda: ascend_sim.precision("by_hand", chips="ascend911"), "'ascend911' is not a known"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_wrong_arguments_of_a_study_get_one_line(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(ascend_sim.SimError) as raised:
        call()
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


def test_a_simulation_shows_its_summary_and_its_report() -> None:
    torch = pytest.importorskip("torch")
    import ascend_sim.torch

    model = torch.nn.Conv2d(4, 4, 3)
    with ascend_sim.torch.simulate(model, chip="ascend910b3") as sim:
        model(torch.ones(1, 4, 8, 8)).sum().backward()
    assert sim._repr_html_().endswith(sim.report._repr_html_().partition("<table>")[2]) and "<table>" in sim._repr_html_()
    shown = unescape(re.sub(r"<[^>]*>", " ", sim._repr_html_()))
    assert set(str(sim).split()) <= set(shown.split())
    assert sim.report.to_dict().items() <= sim.to_dict().items() and json.loads(json.dumps(sim.to_dict())) == sim.to_dict()
    table = sim.precision()
    assert "<table>" in table._repr_html_() and list(table.to_dict()) == list(table.tables)
