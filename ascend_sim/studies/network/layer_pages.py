"""Pages of the layers of a network that cost most, which the network's own page links to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from ascend_sim.calls.cases import run_case
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import CaseOptions
from ascend_sim.report.files import make_folder
from ascend_sim.report.layer_pages import folder_of, page_name
from ascend_sim.studies.network.options import NetworkOptions
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.summary import ranked


def write_layer_pages(page: str | Path, run: NetworkRun, most: int, **options: Unpack[NetworkOptions]) -> dict[str, str]:
    """Run the `most` distinct layers that cost most again, write a page for each into the folder beside `page`, and return
    {layer: link}.

    Equal layers share a link. `options` are those of the network's run. Raises SimError without Plotly, and where a file cannot
    be written.
    """
    folder = folder_of(page)
    make_folder(folder)
    layers = {layer.name: layer for layer in run.network.layers}
    how = filled(NetworkOptions, options)
    links: dict[str, str] = {}
    for row in ranked(run)[:most]:
        name = row["layer"]
        case = OPERATORS.of_pass(run.direction, layers[name].kind).of_layer(layers[name])
        given: Any = {key: value for key, value in how.items() if key in CaseOptions.__annotations__}
        result = run_case(case, **{**given, "mode": "timing"})
        result.write_html(folder / page_name(name), name=f"{run.network.name}:{name}")
        links[name] = f"{folder.name}/{page_name(name)}"
    owners = ((layer.name, same or layer.name) for layer, same in zip(run.network.layers, run.same_as, strict=True))
    return {name: links[owner] for name, owner in owners if owner in links}
