"""A network's convolutions as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ascend_sim.ops.network import text_of
from ascend_sim.report.certainty import words
from ascend_sim.report.network_page import NetworkPage, PageLayer, next_line, ranking
from ascend_sim.report.skeleton import check_plotly
from ascend_sim.studies.network.pages import heads, layout_line
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.summary import ranked, summary_of
from ascend_sim.studies.network.tuning import Tuned


def write_page(path: str | Path, run: NetworkRun, tuned: Tuned | None = None, links: Mapping[str, str] | None = None) -> None:
    """Write the page of a network's run, with what tilings save if `tuned`; `links` is {layer: link to its page}. Raises
    SimError without Plotly, and where the file cannot be written.
    """
    check_plotly()
    saved = None if tuned is None else {name: before - after for name, before, after in tuned.ranked}
    layers = list(zip(run.network.layers, run.layers, run.same_as, strict=True))
    NetworkPage(
        f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}",
        heads(run),
        [
            PageLayer(layer.name, text_of(layer), times.times, (same or "",), bool(times.refused))
            for layer, times, same in layers
        ],
        run.distinct,
        _notes(run),
        ("same as",),
        [(kernel["op_type"], kernel["task_us"]) for times in run.layers for kernel in times.kernels],
        [
            (f"{layer.name}: {text_of(layer)}, {times.times['total']:,.2f} us", times.kernels)
            for layer, times, same in layers
            if same is None and times.kernels
        ],
        [
            ranking(ranked(run), run.totals["total"], saved, "" if tuned is None else tuned.sentence),
            next_line(summary_of(run)["next"]),
        ],
    ).write(path, links)


def _notes(run: NetworkRun) -> list[str]:
    notes = [] if run.complete else ["Interrupted: only the layers that were finished stand here."]
    notes += [f"{layout_line(run)}."] if run.layout else []
    notes.append(f"{words(run.interval)}.")
    return [*notes, *(f"refused: {refusal}" for refusal in run.refused), *run.findings]
