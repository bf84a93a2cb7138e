"""A network's convolutions as a table: one line a layer and the totals."""

from __future__ import annotations

import csv
import io
import sys

from rich.console import Console
from rich.table import Table

from ascend_sim.ops.operators import OPERATORS
from ascend_sim.studies.network.file import Layer, layer_text
from ascend_sim.studies.network.run import AROUND, NetworkRun
from ascend_sim.studies.network.tuning import Tuned


def heads(run: NetworkRun) -> dict[str, str]:
    """The head of each part's column."""
    made = {part: head for part, (_, head) in OPERATORS.of_pass(run.direction).layer_parts.items()}
    return made | {AROUND: f"{AROUND} us", "total": "total us"}


def render(run: NetworkRun, console: Console) -> None:
    """Print the layers in forward order, and by operator what "around" is: the kernels beside those that make the outputs."""
    table = Table(title=f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}", title_justify="left")
    table.add_column("layer")
    table.add_column("input * weight")
    columns = heads(run)
    for head in columns.values():
        table.add_column(head, justify="right")
    table.add_column("same as")
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        figures = ["refused" if times.refused else f"{times.times[part]:.1f}" for part in columns]
        table.add_row(layer.name, text_of(layer), *figures, same or "")
    table.add_section()
    totals = [f"{run.totals[part]:.1f}" for part in columns]
    table.add_row(f"{len(run.layers)} layers", f"{run.distinct} distinct", *totals, "")
    console.print(table)
    if run.around:
        console.print(around_line(run))
    for refusal in run.refused:
        console.print(f"refused: {refusal}; the totals are those of the other layers")
    if not run.complete:
        console.print("interrupted: only the layers that were finished stand here, and the totals are theirs")
    for finding in run.findings:
        console.print(f"finding: {finding}")


def around_line(run: NetworkRun) -> str:
    """What the kernels around take, by operator."""
    parts = ", ".join(f"{name} {us:,.1f}" for name, us in run.around.items())
    whole = sum(run.around.values())
    return (
        f"around: kernels that make no output but bring tensors into the layouts and dtypes that the others read and write, "
        f"{100 * whole / run.totals['total']:.0f} % of the time, us: {parts}"
    )


def render_tuned(tuned: Tuned, console: Console) -> None:
    """Print what other tilings save, the layers with the most first, and what the network gains."""
    table = Table(title=f"{tuned.after.network.name}: searched tilings", title_justify="left")
    for head in ("layer", "us", "tuned us", "saved us", "saved"):
        table.add_column(head, justify="left" if head == "layer" else "right")
    for name, before, after in tuned.ranked:
        saved = before - after
        table.add_row(name, f"{before:.1f}", f"{after:.1f}", f"{saved:.1f}", f"{100 * saved / before:.1f} %")
    console.print(table)
    console.print(tuned.sentence)


def cost_line(run: NetworkRun, seconds: float, jobs: int) -> str:
    """What the simulation itself took."""
    instructions = sum(times.instructions for times, same in zip(run.layers, run.same_as, strict=True) if same is None)
    return (
        f"took {seconds:.1f} s on {min(jobs, run.distinct)} processes{_usage()}: {run.distinct} distinct layers, "
        f"{instructions:,} instructions"
    )


def _usage() -> str:
    """CPU time of this process and its ended children and the memory of the largest; "" where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on Windows
        return ""
    all_of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in all_of)
    peak = max(one.ru_maxrss for one in all_of) * (1 if sys.platform == "darwin" else 1024)
    return f" ({cpu:.0f} s of CPU, at most {peak / 1e6:.0f} MB each)"


def text_of(layer: Layer) -> str:
    """The layer in a few characters."""
    shapes = {name: getattr(layer, name).shape or () for name in ("input", "weight")}
    return layer_text(shapes, {name: value for name, value in layer.said.items() if value is not None})


def csv_text(run: NetworkRun) -> str:
    """One line a layer, times in us."""
    text = io.StringIO()
    writer, parts = csv.writer(text, lineterminator="\n"), (*run.parts, "total")
    writer.writerow(["layer", "kind", "input", "weight", *(f"{part}_us" for part in parts), "same_as", "refused"])
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        sizes = ["x".join(map(str, entry.shape or ())) for entry in (layer.input, layer.weight)]
        figures = ["" if times.refused else times.times[part] for part in parts]
        writer.writerow([layer.name, layer.kind, *sizes, *figures, same or "", times.refused])
    return text.getvalue()
