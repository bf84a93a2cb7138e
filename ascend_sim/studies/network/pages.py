"""A network's convolutions as a table: one line a layer and the totals."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from rich.console import Console

from ascend_sim.ops.network import load_network, network_names, text_of
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.certainty import words
from ascend_sim.report.columns import counted
from ascend_sim.report.files import as_csv
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.ranking import print_lines
from ascend_sim.report.summary import LAYOUT
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.summary import lines_of, summary_of
from ascend_sim.studies.network.tuning import Tuned

_LIST_HEADS = ("network", "convolutions", "distinct", "batch", "first input", "shapes from")


def list_rows() -> list[tuple[str, ...]]:
    """Return a row of texts for each network that ships with the package; `_LIST_HEADS` names the columns."""
    rows: list[tuple[str, ...]] = []
    for name in network_names():
        network = load_network(name)
        kinds = {
            "transposed": sum(layer.transposed for layer in network.layers),
            "in groups": sum(layer.groups > 1 for layer in network.layers),
        }
        count = ", ".join([str(len(network.layers)), *(f"{many} {kind}" for kind, many in kinds.items() if many)])
        distinct = len({repr(layer.given) for layer in network.layers})
        first = "x".join(map(str, network.layers[0].input.shape or ()))
        rows.append((name, count, str(distinct), str(network.batch), first, network.source))
    return rows


def list_table() -> Grid:
    """Return the table of the networks that ship with the package, a line each, for a terminal."""
    network, *numbers, source = _LIST_HEADS
    table = Grid("", (network, *(f">{head}" for head in numbers), f"~{source}"))
    for row in list_rows():
        table.row(*row)
    return table


def list_markdown() -> str:
    """Return the table of the networks that ship with the package in Markdown, names as code."""
    rows = [(f"`{name}`", *rest) for name, *rest in list_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (_LIST_HEADS, ("---",) * len(_LIST_HEADS), *rows)) + "\n"


def heads(run: NetworkRun) -> dict[str, str]:
    """Return {part: head of its column} for `Operator.layer_parts` in the run's direction, the layout kernels and the total."""
    made = {part: head for part, (_, head) in OPERATORS.of_pass(run.direction).layer_parts.items()}
    return made | {LAYOUT: f"{LAYOUT} us", "total": "total us"}


def render(run: NetworkRun, console: Console) -> None:
    """Print a line for each layer in forward order, the totals, layout time, interval, refusals and findings.

    A refused layer has "refused" in place of times; the column "same as" is left out where all layers differ.
    """
    columns = heads(run)
    several = run.simulated < len(run.layers)
    title = f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}, us"
    titles = [f">{head.removesuffix(' us')}" for head in columns.values()]
    table = Grid(title, ("layer", "input * weight", *titles, *["same as"] * several))
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        figures = ["refused" if times.refused else _time_text(times.times[part]) for part in columns]
        table.row(layer.name, text_of(layer), *figures, *[same or ""] * several)
    totals = [_time_text(run.totals[part]) for part in columns]
    table.row(counted(len(run.layers), "layer"), f"{run.distinct} distinct", *totals, *[""] * several, style="bold")
    console.print(table)
    lines = [layout_line(run)] if run.layout else []
    lines.append(words(run.interval))
    lines += [f"refused: {refusal}; the totals are those of the other layers" for refusal in run.refused]
    if not run.complete:
        lines.append("interrupted: only the layers that were finished stand here, and the totals are theirs")
    for line in (*lines, *(f"finding: {finding}" for finding in run.findings)):
        say(console, line)


def render_summary(run: NetworkRun, console: Console, more: str = "more: --full, --html page.html") -> None:
    """Print the result of a pass in a few lines; the last one is `more`, unless that is ""."""
    print_lines(lines_of(summary_of(run), more), console)


def _time_text(us: float) -> str:
    """Return a part's time as text; "-" for 0, a part that no kernel computes, such as a gradient not asked for."""
    return f"{us:.1f}" if us else "-"


def layout_line(run: NetworkRun) -> str:
    """Return a line on the kernels that only convert layouts or dtypes: share of the total in per cent, and us by operator."""
    parts = ", ".join(f"{name} {us:,.1f}" for name, us in run.layout.items())
    whole = sum(run.layout.values())
    return (
        f"layout: kernels that only convert layouts and dtypes, "
        f"{100 * whole / run.totals['total']:.0f} % of the time, us: {parts}"
    )


def render_tuned(tuned: Tuned, console: Console) -> None:
    """Print us before and after for each layer, the largest saving first, and the sentence on the network's gain."""
    heads = ("layer", ">us", ">tuned us", ">saved us", ">saved")
    table = Grid(f"{tuned.after.network.name}: searched tilings", heads)
    for name, before, after in tuned.ranked:
        saved = before - after
        table.row(name, f"{before:.1f}", f"{after:.1f}", f"{saved:.1f}", f"{100 * saved / before:.1f} %")
    console.print(table)
    say(console, tuned.sentence)


def cost_line(run: NetworkRun, seconds: float, jobs: int) -> str:
    """Return the line on the cost of the simulation itself: seconds, processes (`jobs`, at most the simulations), CPU time and
    memory (except on Windows), layers, instructions.
    """
    instructions = sum(times.instructions for times, same in zip(run.layers, run.same_as, strict=True) if same is None)
    usage = ""
    with suppress(ImportError):  # on Windows
        import resource

        all_of = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(one.ru_utime + one.ru_stime for one in all_of)
        peak = max(one.ru_maxrss for one in all_of) * (1 if sys.platform == "darwin" else 1024)
        usage = f" ({cpu:.0f} s of CPU, at most {peak / 1e6:.0f} MB each)"
    return (
        f"took {seconds:.1f} s on {counted(min(jobs, run.simulated), 'process', 'processes')}{usage}: "
        f"{counted(run.simulated, 'layer')} simulated, {instructions:,} instructions"
    )


def csv_text(run: NetworkRun) -> str:
    """Return the layers as CSV, a line each: shapes, us of each part and in total (empty where refused), the equal layer,
    the refusal.
    """
    parts = (*run.parts, "total")
    rows: list[list[Any]] = [["layer", "kind", "input", "weight", *(f"{part}_us" for part in parts), "same_as", "refused"]]
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        sizes = ["x".join(map(str, entry.shape or ())) for entry in (layer.input, layer.weight)]
        figures = [None if times.refused else times.times[part] for part in parts]
        rows.append([layer.name, layer.kind, *sizes, *figures, same, times.refused])
    return as_csv(rows)
