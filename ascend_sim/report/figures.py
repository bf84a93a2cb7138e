"""The figures of the HTML report as Plotly figures without colours of the page: those follow the reader's light or dark mode.

Everything is drawn from a Recording and the report made from it; times are us from the launch of the first task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.critical_path import KINDS, PathStep, by_what
from ascend_sim.engine.occupancy import occupancy
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import PIPES
from ascend_sim.report import bandwidth
from ascend_sim.report.colors import COLORS, NOTHING
from ascend_sim.report.roofline import PIPE_KEYS
from ascend_sim.report.waterfall import WORDS
from ascend_sim.runtime import Recording

SLICES = 400
"""Pieces into which a curve with many steps is gathered."""
_PART_COLORS = {
    "ideal": COLORS["M"], "zeros": COLORS["MTE1"], "padded channels": COLORS["MTE1"], "tile edges": COLORS["MTE1"],
    "idle cores": COLORS["core start"], "uneven cores": COLORS["core start"], "heads": COLORS["issue"],
    "wait MTE2": COLORS["MTE2"], "wait MTE1": COLORS["flag"], "wait FIX": COLORS["FIX"], "wait V": COLORS["V"],
    "wait MTE3": COLORS["MTE3"], "start": COLORS["launch"], "drain": COLORS["launch"], "launch": COLORS["launch"],
}  # fmt: skip
TIME_MARGIN = 62
"""Left of the figures that share an axis of time."""
EDGE = "rgba(127,127,127,0.6)"
"""Around boxes and markers, on light and on dark ground."""
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_STEPS = {"shape": "hv", "width": 1.5}
LEGEND = {"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0}

Figure: TypeAlias = go.Figure


def new_figure(height: int, **layout: Any) -> Figure:
    """Return an empty Plotly figure of that height with small margins, without template; `layout` are further settings."""
    figure = go.Figure(layout_template=go.layout.Template())
    figure.update_layout(height=height, margin={"l": 8, "r": 8, "t": 8, "b": 8}, **layout)
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return figure


def path_figure(recording: Recording, path: Sequence[PathStep]) -> Figure:
    """Return a bar figure: for each kernel on the critical path its us there, stacked by what took the time; others are left
    out.
    """
    chip = recording.chip
    names = [task.name for task in recording.tasks]
    parts = [by_what(path, index) for index in range(len(names))]
    shown = [index for index, part in enumerate(parts) if part]
    figure = new_figure(90 + 26 * len(shown), barmode="stack", legend=LEGEND, xaxis_title="us on the critical path")
    for what in KINDS:
        cycles = [parts[index].get(what, 0) for index in shown]
        if any(cycles):
            total = sum(cycles) / (path[-1].end - path[0].begin)
            figure.add_bar(
                y=[f"{index + 1} {names[index]}" for index in shown],
                x=[round(chip.us(one), 3) for one in cycles],
                name=what,
                orientation="h",
                marker_color=COLORS[what],
                hovertemplate=f"%{{y}}<br>{what} %{{x}} us<br>{100 * total:.1f} % of the whole path<extra></extra>",
            )
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def roofline_figure(recording: Recording, report: Mapping[str, Any]) -> Figure | None:
    """Return a figure of TFLOP/s against FLOP per byte, with three points for each cube kernel (MTE1, L2, HBM), under the
    chip's ceilings.

    A level over which the kernel moved nothing has no point. None if no kernel has products.
    """
    chip = recording.chip
    per_us = chip.clock.cube_mhz * 1e-6  # bytes/cycle -> TB/s
    levels = {
        **{
            f"MTE1 into {buffer}": chip.paths[f"L1->{buffer}"].bytes_per_cycle * chip.cores.aic * per_us
            for buffer in ("L0A", "L0B")
            if f"L1->{buffer}" in chip.paths
        },
        "L2": chip.l2_read_bytes_per_cycle() * per_us,
        "HBM": chip.hbm_bytes_per_cycle() * per_us,
    }
    points: list[tuple[str, str, float, float]] = []
    peaks: dict[str, float] = {}
    for task, kernel in enumerate(report["kernels"]):
        if not kernel.get("macs"):
            continue
        dtype = recording.tasks[task].info["compute_dtype"]
        peaks[dtype] = chip.peak_tflops(dtype)
        reached = 2e-6 * kernel["macs"] / kernel["task_us"]
        for level, count in _level_bytes(recording, kernel, task).items():
            if count:
                points.append((level, kernel["name"], 2 * kernel["macs"] / count, reached))
    if not points:
        return None
    figure = new_figure(380, legend=LEGEND)
    symbols = dict(zip(dict.fromkeys(one[1] for one in points), _SYMBOLS, strict=False))
    intensities = [one[2] for one in points]
    low, high = min(intensities) / 4, max(*intensities, 2 * max(peaks.values()) / levels["HBM"]) * 2
    for dtype, peak in peaks.items():
        _add_limit(figure, ([low, high], [peak, peak]), f"cube {dtype}: {peak:.0f} TFLOP/s", {"color": COLORS["M"]})
    top = max(peaks.values())
    colors = {"MTE1": COLORS["MTE1"], "L2": COLORS["MTE2"], "HBM": COLORS["FIX"]}
    for name, rate in levels.items():
        level, dash = name.partition(" ")[0], "dash" if name.endswith("L0A") else "dot"
        ends, line = ([low, top / rate], [low * rate, top]), {"color": colors[level], "dash": dash}
        _add_limit(figure, ends, f"{name}: {rate:.1f} TB/s", line, level)
        mine = [one for one in points if one[0] == level and not name.endswith("L0B")]  # MTE1 has two lines
        marks = [symbols.get(one[1], _SYMBOLS[-1]) for one in mine]
        figure.add_scatter(
            x=[one[2] for one in mine],
            y=[one[3] for one in mine],
            text=[one[1] for one in mine],
            mode="markers",
            marker={"color": colors[level], "size": 11, "line": {"width": 1, "color": EDGE}, "symbol": marks},
            legendgroup=level,
            showlegend=False,
            hovertemplate=f"%{{text}}<br>%{{x:.1f}} FLOP per byte through {level}<br>%{{y:.1f}} TFLOP/s<extra></extra>",
        )
    for name, symbol in symbols.items():
        marker = {"color": NOTHING, "size": 11, "symbol": symbol}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
    figure.update_xaxes(type="log", title="FLOP per byte", dtick=1)
    figure.update_yaxes(type="log", title="TFLOP/s", tickvals=[n * 10**e for e in range(-6, 5) for n in (1, 2, 5)])
    return figure


def _add_limit(
    figure: Figure, ends: tuple[Sequence[float], Sequence[float]], name: str, line: Mapping[str, Any], group: str | None = None
) -> None:
    """Add a straight line that marks a limit to a figure, between two points, `ends` (x of both, y of both)."""
    x, y = ends
    figure.add_scatter(x=x, y=y, mode="lines", name=name, line={"width": 2, **line}, legendgroup=group, hoverinfo="name")


def _level_bytes(recording: Recording, kernel: Mapping[str, Any], task: int) -> dict[str, int]:
    """Return {"MTE1", "L2", "HBM": bytes} of a kernel: into L0A and L0B, between core and L2, and over HBM."""
    moved = kernel["counts"]["bytes"]
    whole = {path: count for path, count in moved.items() if ":" not in path}
    return {
        "MTE1": sum(count for path, count in whole.items() if path.startswith("L1->L0")),
        "L2": sum(count for path, count in whole.items() if "GM" in path.split("->")),
        "HBM": hbm_bytes(recording, task),
    }


def hbm_bytes(recording: Recording, task: int) -> int:
    """Return the bytes that HBM moved during a task."""
    return sum(int(run.hbm_bytes.sum()) for run in recording.timeline.of(task))


def bounds_figure(kernel: Mapping[str, Any]) -> Figure:
    """Return a bar figure of a kernel's lower bounds, in per cent of the time of its longest core."""
    bounds = sorted(kernel["roofline"]["cycles"].items(), key=lambda item: item[1])
    longest = kernel["core_cycles_max"]
    figure = new_figure(60 + 24 * len(bounds), xaxis_title="% of the longest core", showlegend=False)
    pipes = {key: pipe for pipe, key in PIPE_KEYS.items()}
    figure.add_bar(
        y=[name for name, _ in bounds],
        x=[100 * cycles / longest for _, cycles in bounds],
        orientation="h",
        text=[f"{100 * cycles / longest:.1f} %" for _, cycles in bounds],
        textposition="auto",
        cliponaxis=False,
        marker_color=[COLORS.get(pipes.get(name, ""), COLORS["latency"]) for name, _ in bounds],
        customdata=[cycles for _, cycles in bounds],
        hovertemplate="%{y}<br>at least %{customdata:,} cycles<extra></extra>",
    )
    figure.update_xaxes(range=[0, 100])
    return figure


def bytes_figure(recording: Recording, kernel: Mapping[str, Any], task: int) -> Figure:
    """Return a bar figure of a kernel's bytes by path, and of those that HBM moved, in MB."""
    moved = {path: count for path, count in kernel["counts"]["bytes"].items() if ":" not in path}
    moved["HBM"] = hbm_bytes(recording, task)
    figure = new_figure(70 + 26 * len(moved), xaxis_title="MB", showlegend=False)
    parts = dict.fromkeys(moved, "")
    for key, count in kernel["counts"]["bytes"].items():
        path, colon, part = key.partition(":")
        if colon:
            parts[path] += f"{'<br>' * bool(parts[path])}{part}: {count:,} bytes"
    figure.add_bar(
        y=list(moved),
        x=[count / 1e6 for count in moved.values()],
        orientation="h",
        marker_color=COLORS["MTE2"],
        customdata=[[f"{count:,}", parts[path]] for path, count in moved.items()],
        hovertemplate="%{y}<br>%{customdata[0]} bytes<br>%{customdata[1]}<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed")
    return figure


def waterfall_figure(chip: ChipSpec, kernel: Mapping[str, Any]) -> Figure:
    """Return a figure of a waterfall: a bar in us for each part, beginning where the last ended, then the whole kernel."""
    parts: Mapping[str, int] = kernel["waterfall"]
    ends = np.cumsum(list(parts.values()))
    elapsed = int(ends[-1])
    figure = new_figure(70 + 22 * (len(parts) + 1), xaxis_title="us", showlegend=False)
    rows = [
        *((WORDS[name], int(end) - cycles, cycles) for (name, cycles), end in zip(parts.items(), ends, strict=True)),
        ("the kernel", 0, elapsed),
    ]
    figure.add_bar(
        y=[name for name, _, _ in rows],
        base=[round(chip.us(before), 4) for _, before, _ in rows],
        x=[round(chip.us(cycles), 4) for _, _, cycles in rows],
        orientation="h",
        marker_color=[_PART_COLORS.get(name, NOTHING) for name in (*parts, "")],
        customdata=[[f"{cycles:,}", f"{100 * cycles / elapsed:.1f}"] for _, _, cycles in rows],
        hovertemplate="%{y}<br>%{x:.2f} us, %{customdata[0]} cycles, %{customdata[1]} % of the kernel<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed")
    return figure


def _cores(recording: Recording, task: int) -> dict[str, list[ProgramRun]]:
    """Return {core, such as "AIC 3": its blocks of kernel `task`}, by kind and number."""
    found: dict[tuple[str, int], list[ProgramRun]] = {}
    for run in recording.timeline.of(task):
        found.setdefault((run.program.core_kind, run.core), []).append(run)
    return {f"{kind} {core}": found[kind, core] for kind, core in sorted(found)}


def utilisation_figure(recording: Recording, task: int) -> Figure:
    """Return a heat map of pipes by cores: per cent of the time of the core's blocks of kernel `task` in which it was busy;
    pipes that never were are left out.
    """
    cores = _cores(recording, task)
    busy = [[run.busy() for run in runs] for runs in cores.values()]
    spans = [max(sum(run.finish - run.launch for run in runs), 1) for runs in cores.values()]
    cycles = {pipe: [sum(each[pipe] for each in blocks) for blocks in busy] for pipe in PIPES}
    pipes = [pipe for pipe in PIPES if any(cycles[pipe])]
    shares = [[100 * each / span for each, span in zip(cycles[pipe], spans, strict=True)] for pipe in pipes]
    figure = new_figure(90 + 26 * len(pipes), xaxis_title="core")
    figure.add_heatmap(
        x=list(cores),
        y=pipes,
        z=np.round(shares, 2),
        zmin=0,
        zmax=100,
        colorscale="Viridis",
        colorbar={"title": "busy %", "thickness": 12},
        hovertemplate="%{y} of %{x}: busy %{z:.1f} %<extra></extra>",
    )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(type="category")
    return figure


def balance_figure(recording: Recording, task: int) -> Figure:
    """Return a bar figure: us of every core in kernel `task`, from dispatch to end, summed over its blocks."""
    chip = recording.chip
    cores = _cores(recording, task)
    cycles = [[run.finish - run.launch for run in runs] for runs in cores.values()]
    figure = new_figure(220, yaxis_title="us", xaxis_title="core", showlegend=False)
    figure.add_bar(
        x=list(cores),
        y=[round(chip.us(sum(each)), 3) for each in cycles],
        customdata=[[len(each), f"{sum(each):,}"] for each in cycles],
        marker_color=COLORS["core start"],
        hovertemplate="%{x}: %{y:.2f} us<br>%{customdata[1]} cycles in %{customdata[0]} blocks<extra></extra>",
    )
    figure.update_xaxes(type="category")
    return figure


def occupancy_figure(recording: Recording, run: ProgramRun) -> Figure | None:
    """Return a figure of the bytes held in each buffer while a block runs, in per cent of the buffer; None if it uses none."""
    chip, origin = recording.chip, recording.timeline.launch
    figure = new_figure(260, yaxis={"title": "% of the buffer", "range": [0, 105]}, xaxis_title="us", legend=LEGEND)
    colors = {"L1": "MTE2", "L0A": "MTE1", "L0B": "M", "L0C": "FIX", "UB": "V"}
    for name in chip.cores.kinds[run.program.core_kind].buffers:  # type: ignore[index]
        curve = occupancy(run, name)
        if not curve.peak:
            continue
        time, held = _thinned(curve.time, curve.held)
        capacity = chip.buffers[name]  # type: ignore[index]
        figure.add_scatter(
            x=np.round((time - origin) / chip.clock.cube_mhz, 4),
            y=np.round(100 * held / capacity, 2),
            name=name,
            mode="lines",
            line=_STEPS | {"color": COLORS.get(colors.get(name, ""), NOTHING)},
            customdata=held,
            hovertemplate=f"{name} %{{customdata:,}} of {capacity:,} bytes<br>%{{x}} us<extra></extra>",
        )
    return _over_time(figure) if figure.data else None


def bandwidth_figure(recording: Recording, task: int) -> Figure:
    """Return a figure of GB/s over the time of kernel `task`, a curve for each of LEVELS that has transfers, under the HBM's
    reachable rate.
    """
    chip = recording.chip
    edges = bandwidth.slices(recording, task)
    us = np.round((edges - recording.timeline.launch) / chip.clock.cube_mhz, 4)
    to_gb = chip.clock.cube_mhz * 1e-3
    colors = dict(zip(bandwidth.LEVELS, (COLORS["MTE2"], COLORS["MTE3"], COLORS["MTE1"], COLORS["FIX"]), strict=True))
    figure = new_figure(280, yaxis={"title": "GB/s", "rangemode": "tozero"}, xaxis_title="us", legend=LEGEND)
    for level, transfers in bandwidth.moved(recording, task).items():
        if not len(transfers[0]):
            continue
        rates = np.round(bandwidth.rate(*transfers, edges) * to_gb, 1)
        figure.add_scatter(
            x=us,
            y=np.append(rates, rates[-1]),
            name=level,
            mode="lines",
            line=_STEPS | {"color": colors[level]},
            hovertemplate=f"{level} %{{y:,.0f}} GB/s<br>%{{x}} us<extra></extra>",
        )
    limit = chip.hbm_bytes_per_cycle() * to_gb
    line = {"width": 1, "dash": "dot", "color": colors["HBM"]}
    _add_limit(figure, ([us[0], us[-1]], [limit, limit]), f"HBM at most: {limit:,.0f} GB/s", line)
    return _over_time(figure)


def _over_time(figure: Figure) -> Figure:
    """Set the margin and ticks of all figures that share an axis of time; return the same figure."""
    return figure.update_layout(margin_l=TIME_MARGIN).update_yaxes(automargin=False).update_xaxes(ticks="outside")


def _thinned(time: NDArray[np.int64], held: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a step curve of fewer steps: for each of 400 runs of equally many steps its maximum, then its minimum; a curve of
    at most 1,600 steps as it is.
    """
    if len(time) <= 4 * SLICES:
        return time, held
    edges = np.linspace(0, len(time), SLICES + 1).astype(np.int64)[:-1]
    least, most = np.minimum.reduceat(held, edges), np.maximum.reduceat(held, edges)
    middle = time[np.minimum(edges + np.diff(edges, append=len(time)) // 2, len(time) - 1)]
    return np.stack([time[edges], middle], 1).ravel(), np.stack([most, least], 1).ravel()
