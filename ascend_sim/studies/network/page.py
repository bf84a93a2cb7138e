"""A network's convolutions as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from ascend_sim.calls.cases import run_case
from ascend_sim.ops.network import text_of
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import CaseOptions
from ascend_sim.report.certainty import words
from ascend_sim.report.files import make_folder
from ascend_sim.report.layer_pages import folder_of, page_name
from ascend_sim.report.network_page import NetworkPage, PageLayer
from ascend_sim.report.skeleton import check_plotly
from ascend_sim.studies.network.options import NetworkOptions
from ascend_sim.studies.network.pages import heads, layout_line
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.summary import address_in, command_of, ranked
from ascend_sim.studies.network.tuning import Tuned


def write_layer_pages(page: str | Path, run: NetworkRun, most: int, **options: Unpack[NetworkOptions]) -> dict[str, str]:
    """Run the `most` distinct layers that cost most again, write a page for each into the folder beside `page`, and return
    {layer: link}.

    Equal layers share a link. `options` are those of the network's run. Raises SimError without Plotly, where the folder or a
    file cannot be written, and as `run_case`.
    """
    folder = folder_of(page)
    make_folder(folder)
    layers = {layer.name: layer for layer in run.network.layers}
    how = filled(NetworkOptions, options)
    given: Any = {key: value for key, value in how.items() if key in CaseOptions.__annotations__}
    links: dict[str, str] = {}
    for row in ranked(run)[:most]:
        name = row["layer"]
        case = OPERATORS.of_pass(run.direction, layers[name].kind).of_layer(layers[name])
        result = run_case(address_in(run, name) or case, **{**given, "mode": "timing", "tiling": run.tilings.get(name)})
        result.write_html(folder / page_name(name), name=f"{run.network.name}:{name}")
        links[name] = f"{folder.name}/{page_name(name)}"
    copies = [[run.network.layers[number].name for number in numbers] for numbers in run.copies]
    return {name: links[one] for names in copies for name in names for one in names if one in links}


def write_page(path: str | Path, run: NetworkRun, tuned: Tuned | None = None, links: Mapping[str, str] | None = None) -> None:
    """Write the page of a network's run, with what tilings save if `tuned`; `links` is {layer: link to its page}. Raises
    SimError without Plotly, and where the file cannot be written.
    """
    check_plotly()
    rows = [row for row in ranked(run) if row["us"]]
    saved = None if tuned is None else {name: before - after for name, before, after in tuned.ranked}
    calls = "1+0" if run.direction == "forward" else "0+1"
    layers = list(zip(run.network.layers, run.layers, run.same_as, strict=True))
    shown = []
    for layer, times, same in layers:
        dtype = str(OPERATORS.of_pass(run.direction, layer.kind).of_layer(layer).tensors["input"][1])
        refused = f"refused with {times.status or 'no status'}" if times.refused else ""
        shown.append(PageLayer(layer.name, text_of(layer), dtype, calls, times.times, times.kernels, same or "", refused))
    notes = [] if run.complete else ["Interrupted: only the layers that were finished stand here."]
    notes += [f"{layout_line(run)}."] if run.layout else []
    notes += [f"{words(run.interval)}.", *(f"refused: {refusal}" for refusal in run.refused), *run.findings]
    NetworkPage(
        f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}",
        heads(run),
        shown,
        run.distinct,
        notes,
        [(kernel["op_type"], kernel["task_us"]) for times in run.layers for kernel in times.kernels],
        [
            (f"{layer.name}: {text_of(layer)}, {times.times['total']:,.2f} us", times.kernels)
            for layer, times, same in layers
            if same is None and times.kernels
        ],
        rows,
        {row["layer"]: line for row in rows if (line := command_of(run, row["layer"]))},
        "With --layer-pages 5 the command that wrote this page writes pages of the five longest layers too, and their names "
        "lead there.",
        links or {},
        saved,
        "" if tuned is None else tuned.sentence,
    ).write(path)
