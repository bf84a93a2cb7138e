"""The timeline of one block as a figure: pipes as rows, instructions, stalls and flags, in three windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.critical_path import SCALAR_TIME, PathStep
from ascend_sim.engine.flags import flag_pairs
from ascend_sim.engine.timeline import CAUSES, ProgramRun, at_work
from ascend_sim.isa.base import CROSS_WAIT, PIPE_INDEX, PIPES, TRANSFER, WAIT
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.report.colors import COLORS, NOTHING, OUTLINE, STALL_COLORS
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.figures import EDGE, LEGEND, SLICES, TIME_MARGIN, Figure, new_figure, origin_of
from ascend_sim.runtime import Recording

WINDOW_ROWS = 300
"""Instructions drawn one by one in each of the three windows of a timeline."""
_WAITS = (WAIT, CROSS_WAIT)


def windows(run: ProgramRun, rows: int = WINDOW_ROWS) -> dict[str, NDArray[np.int64]]:
    """Return {window: rows that are drawn one by one}: `rows` each of "start", "steady state" and "end", by start time.

    A block of at most three times as many is one window, "whole block".
    """
    order = np.argsort(run.start, kind="stable")
    if len(order) <= 3 * rows:
        return {"whole block": order}
    middle = int(np.searchsorted(run.start[order], (run.begin + run.finish) // 2))
    middle = min(max(middle - rows // 2, rows), len(order) - 2 * rows)
    return {"start": order[:rows], "steady state": order[middle : middle + rows], "end": order[-rows:]}


def timeline_figure(
    recording: Recording,
    run: ProgramRun,
    path: Sequence[PathStep],
    rows: int = WINDOW_ROWS,
    *,
    origin: int | None = None,
) -> Figure:
    """Return the figure of one block: pipes as rows, with instructions, stalls, flags and the critical path.

    `layout.meta["windows"]` has the windows as ranges of the axis. The axis counts us from cycle `origin`, by default the
    launch of the first task.
    """
    chip, origin = recording.chip, origin_of(recording) if origin is None else origin
    index = next(i for i, one in enumerate(recording.timeline.programs) if one is run)
    critical = {step.row for step in path if step.program == index and step.what in (*PIPES, SCALAR_TIME)}
    parts = windows(run, rows)
    drawn = np.unique(np.concatenate(list(parts.values())))
    pipe, names = run.program.per_row("pipe"), [tensor.name for tensor in recording.tasks[run.task].tensors]
    used = [name for name in PIPES if (pipe == PIPE_INDEX[name]).any()]
    figure = new_figure(
        110 + 52 * len(used),
        barmode="overlay",
        bargap=0.3,
        xaxis_title="us",
        legend=LEGEND,
        hovermode="closest",
        dragmode="zoom",
        hoverdistance=4,
    )

    def us(cycles: Any) -> Any:
        return np.round((np.asarray(cycles) - origin) / chip.clock.cube_mhz, 5)

    _gathered(figure, run, parts, used, us)
    _stalls(figure, run, drawn, us, chip.clock.cube_mhz)
    shown = drawn[run.end[drawn] > run.start[drawn]]
    kinds = np.array([run.program.table.instructions[i].name for i in run.program.rows[shown, 0].tolist()], dtype=object)
    works = ~np.isin(kinds, ("wait_flag", "cross_core_wait_flag"))
    for name in used:
        of_pipe = shown[(pipe[shown] == PIPE_INDEX[name]) & works]
        if len(of_pipe):
            figure.add_bar(
                y=[name] * len(of_pipe),
                base=us(run.start[of_pipe]),
                x=np.round((run.end - run.start)[of_pipe] / chip.clock.cube_mhz, 5),
                orientation="h",
                name=name,
                width=0.62,
                marker={"color": COLORS[name], "line": {"width": 0.5, "color": EDGE}},
                text=[_hover(run, row, names, row in critical) for row in of_pipe.tolist()],
                textposition="none",
                hovertemplate="%{text}<extra></extra>",
            )
    _flags(figure, run, drawn, us)
    held = [row for row in shown.tolist() if row in critical]
    if held:
        figure.add_bar(
            y=[PIPES[pipe[row]] for row in held],
            base=us(run.start[held]),
            orientation="h",
            width=0.62,
            x=np.round((run.end - run.start)[held] / chip.clock.cube_mhz, 5),
            name="critical path",
            hoverinfo="skip",
            marker={
                "color": "rgba(0,0,0,0)",
                "line": {"width": 2, "color": OUTLINE},
                "pattern": {"shape": "/", "size": 6, "solidity": 0.2, "fgcolor": OUTLINE, "fillmode": "overlay"},
            },
        )
    figure.update_yaxes(categoryorder="array", categoryarray=used[::-1], fixedrange=True, automargin=False)
    spans = {name: us([run.start[part].min(), run.retire[part].max()]).tolist() for name, part in parts.items()}
    if len(parts) > 1:
        spans["whole block"] = us([run.begin, run.finish]).tolist()
    first = next(iter(spans.values()))
    figure.update_layout(meta={"windows": spans}, xaxis_range=first, margin_l=TIME_MARGIN)
    return figure


def _gathered(figure: Figure, run: ProgramRun, parts: Mapping[str, NDArray[np.int64]], used: list[str], us: Any) -> None:
    """Draw, between the windows, a bar for each pipe and slice of time whose height is the share in which the pipe was busy.

    Nothing where the block is one window.
    """
    if len(parts) < 2:
        return
    pipe = run.program.per_row("pipe")
    works = run.end > run.start
    edges = [(int(run.retire[part].max()), int(run.start[part].min())) for part in parts.values()]
    gaps = [(left[0], right[1]) for left, right in pairwise(edges) if right[1] > left[0]]
    for name in used:
        rows = np.flatnonzero((pipe == PIPE_INDEX[name]) & works & ~np.isin(run.program.per_row("kind"), _WAITS))
        bases, lengths, texts, heights = [], [], [], []
        for begin, end in gaps:
            slices = np.linspace(begin, end, SLICES // 2 + 1)
            busy = np.diff(_busy_until(run.start[rows], run.end[rows], slices))
            share = np.clip(busy / np.diff(slices), 0, 1)
            seen = share > 0
            bases += us(slices[:-1][seen]).tolist()
            lengths += (us(slices[1:][seen]) - us(slices[:-1][seen])).tolist()
            heights += np.round(0.62 * share[seen], 3).tolist()
            texts += [f"{name} busy {100 * one:.0f} % (gathered)" for one in share[seen].tolist()]
        if bases:
            figure.add_bar(
                y=[name] * len(bases),
                base=bases,
                x=lengths,
                width=heights,
                orientation="h",
                showlegend=False,
                opacity=0.5,
                marker={"color": COLORS[name], "line": {"width": 0}},
                text=texts,
                textposition="none",
                hovertemplate="%{text}<extra></extra>",
            )


def _busy_until(start: NDArray[np.int64], end: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of cycles that a pipe was busy before each of `times`; its instructions do not overlap."""
    if not len(start):
        return np.zeros(len(times))
    moments = np.stack([start, end], 1).ravel()
    done = np.cumsum(end - start)
    return np.interp(times, moments, np.stack([done - (end - start), done], 1).ravel(), left=0.0)


def _stalls(figure: Figure, run: ProgramRun, drawn: NDArray[np.int64], us: Any, mhz: float) -> None:
    """Draw a thin bar for each stall of a pipe, by cause: a wait at a flag, and the gap before each of the rows `drawn`."""
    pieces: dict[str, list[tuple[str, int, int]]] = {}
    last: dict[int, int] = {}
    pipe, kind = run.program.per_row("pipe"), run.program.per_row("kind")
    inside, works = set(drawn.tolist()), at_work(run.program)
    for row in range(len(run.start)):
        number = int(pipe[row])
        if number == 0:
            continue
        before, last[number] = last.get(number, run.begin), int(run.end[row])
        if row not in inside:
            continue
        held = int(kind[row]) in _WAITS and not works[row]
        if run.start[row] > before:
            cause = "nothing to do" if held else CAUSES[int(run.cause[row])]
            pieces.setdefault(cause, []).append((PIPES[number], before, int(run.start[row])))
        if held and run.end[row] > run.start[row]:
            cause = "flag" if int(kind[row]) == _WAITS[0] else "cross-core"
            pieces.setdefault(cause, []).append((PIPES[number], int(run.start[row]), int(run.end[row])))
    for cause, found in pieces.items():
        figure.add_bar(
            y=[name for name, _, _ in found],
            base=us([begin for _, begin, _ in found]),
            x=np.round([(end - begin) / mhz for _, begin, end in found], 5),
            orientation="h",
            width=0.16,
            name=f"stall: {cause}",
            opacity=0.85,
            marker={"color": STALL_COLORS.get(cause, NOTHING), "line": {"width": 0}},
            text=[f"{name} stands still: {cause}<br>{end - begin:,} cycles" for name, begin, end in found],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )


def _flags(figure: Figure, run: ProgramRun, drawn: NDArray[np.int64], us: Any) -> None:
    """Draw a line from each set of a flag to its wait if both rows are in `drawn`."""
    inside = set(drawn.tolist())
    xs: list[float | None] = []
    ys: list[str | None] = []
    texts: list[str | None] = []
    identities = {tuple(flag): name for name, flag in run.program.flags.items()}
    pipe = run.program.per_row("pipe")
    for wait, raised in sorted(flag_pairs(run).items()):
        if wait in inside and raised in inside:
            flag = run.program.table.instructions[int(run.program.rows[wait, 0])]
            name = identities.get((flag.source, flag.destination, flag.flag), f"{flag.flag}")  # type: ignore[attr-defined]
            xs += [*us([run.retire[raised], run.end[wait]]).tolist(), None]
            ys += [PIPES[pipe[raised]], PIPES[pipe[wait]], None]
            text = f"flag {name}<br>{PIPES[pipe[raised]]} sets, {PIPES[pipe[wait]]} waits"
            texts += [text, text, None]
    if xs:
        figure.add_scatter(
            x=xs,
            y=ys,
            mode="lines+markers",
            name="flags",
            line={"width": 1, "color": "#e377a2"},
            marker={"size": 4},
            text=texts,
            hovertemplate="%{text}<br>%{x} us<extra></extra>",
            opacity=0.7,
        )


def _hover(run: ProgramRun, row: int, names: Sequence[str], critical: bool) -> str:
    """Return the hover text of an instruction as HTML: parameters, addresses, bytes, cycles, and if it is critical."""
    view = run.program[row]
    fields = [f"{key}={value}" for key, value in view.instruction.parameters().items()]
    lines = [f"<b>{view.instruction.name}</b> (row {row}, tile {view.tile})", *_wrapped(fields)]
    lines += _addresses(view, names)
    size = bytes_of(run.program.table, int(run.program.rows[row, 0]))
    if size:
        lines.append(f"{size:,} bytes")
    start, end, retire = int(run.start[row]), int(run.end[row]), int(run.retire[row])
    lines.append(f"cycles {start:,} to {end:,}: {end - start:,}, retires {retire:,}")
    if int(run.program.per_row("kind")[row]) == TRANSFER:
        lines.append(f"HBM {int(run.hbm_bytes[row]):,} bytes, limited by L2 {run.l2_wait[row]:,}, by HBM {run.hbm_wait[row]:,}")
    if critical:
        lines.append("on the critical path")
    return "<br>".join(lines)


def _wrapped(fields: Sequence[str], width: int = 60) -> Iterator[str]:
    line = ""
    for field in fields:
        if line and len(line) + len(field) > width:
            yield line
            line = ""
        line += f"{', ' if line else ''}{field}"
    if line:
        yield line


def _addresses(view: Any, names: Sequence[str]) -> list[str]:
    spaces = {one.operand: one.space for one in (*view.instruction.reads(), *view.instruction.writes())}
    lines = []
    for operand in ("dst", "src0", "src1"):
        if operand in spaces:
            value = getattr(view, operand)
            if spaces[operand] == "GM":
                lines.append(f"{operand} = GM {names[value >> SLOT_SHIFT]} + {value & OFFSET_MASK:#x}")
            else:
                lines.append(f"{operand} = {spaces[operand]} + {value:#x}")
    return lines
