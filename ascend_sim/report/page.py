"""The HTML report: one self-contained page with everything that a run and its report say.

    write_page("report.html", recording, report.to_dict(), outcomes=what_if(recording))

It needs Plotly to be made and nothing to be read: script, style and figures are all inside.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from ascend_sim.engine.critical_path import PathStep, by_what, critical_path
from ascend_sim.errors import SimError
from ascend_sim.keywords import near_names
from ascend_sim.npz_file import one_line
from ascend_sim.report.advice import layer_words
from ascend_sim.report.blocks import EXPLAINED, costs_part, timeline_part, words_part
from ascend_sim.report.columns import counted
from ascend_sim.report.files import write_text
from ascend_sim.report.html import cards, output_table, problem_table, results_name, summary_html, table
from ascend_sim.report.ladder import ladder_words
from ascend_sim.report.packed import LIMIT, PackedBlocks
from ascend_sim.report.races import Findings
from ascend_sim.report.report import VERSION
from ascend_sim.report.skeleton import Figures, check_plotly, framed
from ascend_sim.report.summary import title_of
from ascend_sim.report.timeline_file import digest_of, load_recording
from ascend_sim.report.what_if import ChangedRun
from ascend_sim.report.words import words
from ascend_sim.runtime import Recording

_KERNELS = 12
"""Kernels with figures of their own, the longest first; every kernel has a timeline."""
_BANDWIDTH = (
    "All cores together: what they load from global memory (GM) and write there, the L2 lines that these bytes touch, and what "
    "HBM moves. The dotted line is the highest rate of HBM."
)
_FOOT = (
    '<footer class="faint">Made by ascend-sim. Times follow from published instruction costs and measured bandwidths; '
    "<code>ascend-sim chips NAME</code> says of every number where it is from and which are assumed.</footer>"
)


def write_page(
    path: str | Path,
    recording: Recording,
    report: Mapping[str, Any],
    outcomes: Sequence[ChangedRun] | None = None,
    *,
    name: str = "",
    limit: int | None = LIMIT,
) -> list[str]:
    """Write the page as one HTML file and return its paragraphs on the bottleneck; `report` is `Report.to_dict()` of the same
    run.

    `name` of the call stands in the heading; "" for the case of the report's summary. Without `outcomes` it says nothing of
    other rates. Blocks beyond `limit` bytes, packed, are left out, and it says so. Raises SimError without Plotly, for a report
    without times or with other names of kernels than the run, and where the file cannot be written.
    """
    check_plotly()
    kernels, title = report["kernels"], title_of(report, name)
    if report["total_us"] is None or [kernel["name"] for kernel in kernels] != [task.name for task in recording.tasks]:
        raise SimError("the report does not belong to the run in the timeline: its kernels differ, or it has no times")
    steps = critical_path(recording.timeline)
    said = words(recording, report, steps, outcomes)
    figures, found = Figures(), Findings(recording, report)
    kernels_text, packed = _one_kernel(recording, report, steps, figures, limit)
    parts = [
        _head(report, title, found.part()),
        kernels_text,
        _kernels(kernels, report["total_us"]),
        _bottleneck(recording, report, steps, outcomes, said, figures),
        _rooflines(recording, report, figures),
        _FOOT,
    ]
    blocks = None if packed is None else {**packed.to_dict(), "clashes": found.clashes}
    write_text(path, framed(title, parts, figures, blocks))
    return said


class StoredRun(NamedTuple):
    """Stored run from a folder of `run --out`: the `recording`, and the `report` as its file has it."""

    recording: Recording
    report: dict[str, Any]

    def __repr__(self) -> str:
        what = f"{self.report['problem'].get('operator', 'run')} on {self.report['chip']}"
        return f"<StoredRun of {what}: {len(self.report['kernels'])} kernels, {self.report['total_us']:,.2f} us>"


@near_names
def open_run(folder: str | Path) -> StoredRun:
    """Return the run that `run --out` left in a folder.

    Raises SimError for a folder without report.json and timeline.npz that belong together, and for files that are damaged or of
    another version.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise SimError(f"{folder}: a file; give the folder that `ascend-sim run CASE --out DIR` writes")
    if not folder.is_dir():
        from ascend_sim.ops.case import address_of, case_names  # a wrong folder alone needs it

        case = str(folder) if address_of(str(folder)) or str(folder) in case_names() else "CASE"
        raise SimError(
            f"{folder}: there is no such folder; give one that a run wrote: ascend-sim run {case} --out out, then ascend-sim "
            "report out"
        )
    for name in ("report.json", "timeline.npz"):
        if not (folder / name).is_file():
            raise SimError(f"{folder}: no {name} in it; `ascend-sim run CASE --out {folder}` in mode full or timing writes it")
    recording, digest = load_recording(folder / "timeline.npz")
    return StoredRun(recording, _stored_report(folder / "report.json", digest))


def _stored_report(path: Path, digest: str) -> dict[str, Any]:
    """Return the report in a file. Raises SimError if it is not a report, of another version, or its digest is not `digest`."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SimError(f"{path}: not a report: {one_line(error)}") from None
    if not isinstance(report, dict) or "version" not in report:
        raise SimError(f"{path}: not a report, or one written before reports had version numbers; run the case again")
    if report["version"] != VERSION:
        given = str(report["version"])[:20]
        raise SimError(f"{path}: a report of version {given}; this ascend-sim reads version {VERSION}: run the case again")
    if digest_of(report) != digest:
        raise SimError(f"{path}: not the report that was written with timeline.npz: changed, or of another run; run it again")
    return report


def _head(report: Mapping[str, Any], title: str, hazards: str) -> str:
    problem, outputs, findings = report["problem"], report["outputs"], report["findings"]
    kind = results_name(outputs)
    wrong = [name for name, figures in outputs.items() if figures.get("correct") is False]
    if wrong or findings:
        told = [*(f"{name} wrong" for name in wrong), *([counted(len(findings), "finding")] if findings else [])]
        verdict = f'<span class="bad">{escape(", ".join(told))}</span>'
    elif outputs:
        verdict = '<span class="good">correct</span>'
    else:
        verdict = "not checked"
    compared = f"{kind}s" if outputs else f"mode {report['mode']}, nothing to compare"
    time = f"{report['total_us']:,.2f} us", counted(len(report["kernels"]), "kernel")
    facts = [time, (verdict, compared), (escape(report["chip"]), f"mode {report['mode']}")]
    lines = [f"<h1>{escape(title)}</h1>", cards(facts), summary_html(report), hazards]
    lines += [f'<p class="faint">warning: {escape(one)}</p>' for one in report["warnings"]]
    more = f", and its {kind}s against float64" if outputs else ""
    lines += [f'<details id="call"><summary>The call{more}</summary>', problem_table(problem)]
    if outputs:
        lines += [f"<h3>{kind.capitalize()}s against float64</h3>", output_table(outputs)]
    return "\n".join([*lines, "</details>"])


def _bottleneck(
    recording: Recording,
    report: Mapping[str, Any],
    path: Sequence[PathStep],
    outcomes: Sequence[ChangedRun] | None,
    said: Sequence[str],
    figures: Figures,
) -> str:
    from ascend_sim.report.figures import path_figure

    paragraphs = "\n".join(f"<p>{escape(one)}</p>" for one in said)
    lines = [
        "<h2>What holds it up</h2>",
        f'<details id="words"><summary>In words</summary><div class="words">\n{paragraphs}\n</div></details>',
    ]
    if outcomes:
        lines += ["<h3>The same programs with other rates</h3>", _what_if_table(report["kernels"], outcomes)]
    if path:
        total = path[-1].end - path[0].begin
        chip = recording.chip
        lines += [
            "<h3>Critical path</h3>",
            f'<p class="faint">The chain of instructions and waits from the first cycle to the last: {total:,} cycles, '
            f"{chip.us(total):,.2f} us. It is as long as the run; an instruction that is not on it has time to spare.</p>",
            figures.add(path_figure(recording, path), "critical-path", "critical path by kernel"),
            _path_table(path, total),
        ]
    return "\n".join(lines)


def _what_if_table(kernels: Sequence[Mapping[str, Any]], outcomes: Sequence[ChangedRun]) -> str:
    order = sorted(range(len(kernels)), key=lambda i: -kernels[i]["task_us"])[:4]
    ranked = sorted(outcomes, key=lambda one: -one.saved)
    rows = [[escape(one.words), *map(_change, (one.saved, *(one.saved_by_task[i] for i in order)))] for one in ranked]
    head = ["change of the chip", ">whole call", *(f">{kernels[i]['name']}" for i in order)]
    caption = "How much longer (+) or shorter (-) the call and its longest kernels get; tilings stay as they are."
    return table(head, rows, caption=caption, identity="what-if")


def _change(saved: float) -> str:
    text = f"{-100 * saved:+.1f} %" if abs(saved) >= 0.0005 else "0"
    return f'<b class="good">{text}</b>' if saved >= 0.05 else text


def _path_table(path: Sequence[PathStep], total: int) -> str:
    rows = []
    for what, cycles in by_what(path).items():
        steps = [step for step in path if step.what == what]
        held = Counter(step.because for step in steps if step.because)
        told = ", ".join(f"{because} {number:,}" for because, number in held.most_common())
        count = sum(step.rows for step in steps)
        rows.append([what, f"{cycles:,}", f"{100 * cycles / total:.1f} %", f"{count:,}", told])
    head = ["what takes the time", ">cycles", ">share", ">steps", "and what each began after"]
    return f"<details><summary>The path by what takes the time</summary>{table(head, rows)}</details>"


def _kernels(kernels: Sequence[Mapping[str, Any]], total: float) -> str:
    rows, marks = [], []
    for index, kernel in enumerate(kernels):
        pipe, stall = kernel["bottleneck_pipe"], kernel["main_stall"]
        busy = kernel["pipes_us"][pipe] / kernel["core_us"] if pipe and kernel["core_us"] else 0.0
        share = kernel["task_us"] / total if total else 0.0
        rows.append(
            [
                f"{index + 1} {escape(kernel['name'])}",
                f"{kernel['task_us']:.2f}",
                f"{100 * share:.1f} %",
                _interval(kernel.get("interval")),
                f"{pipe} {100 * busy:.1f} %" if pipe else "-",
                f"{escape(stall['cause'])} {100 * stall['share']:.1f} %" if stall else "none",
                f"{100 * kernel['cube_efficiency']:.1f} %" if "cube_efficiency" in kernel else "-",
                f"{kernel['core_type']} x {kernel['block_dim']}",
                escape(kernel["op_type"]),
                escape(kernel["tiling_source"] or "-"),
            ]
        )
        marks.append(f'data-kernel="{index}" style="--part: {100 * share:.1f}%"')
    head = [
        "kernel",
        ">us",
        ">share",
        "80 % interval, us",
        "busiest pipe",
        "main stall",
        ">of the cube",
        "cores",
        "op_type",
        "tiling",
    ]
    caption = (
        "In launch order; a click shows the kernel above. Of the cube: the share of the longest core's time that the products "
        "need. 80 % interval: four in five measured kernels of this kind lie in theirs (docs/accuracy.md). Where the chip has "
        "few measured rows, it is of other chips; without any, of the nearest kind; both are widened (assumed)."
    )
    return "<h2>Kernels</h2>\n" + table(head, rows, caption=caption, marks=marks, bar=2, identity="kernels")


def _interval(found: Mapping[str, Any] | None) -> str:
    if found is None:  # an older run, of a kernel without measured rows
        return "-"
    notes = [f"as {found['borrowed']}"] if "borrowed" in found else []
    notes += [f"of {', '.join(found['chips'])}"] if "chips" in found else []
    wider = f" ({escape(', '.join([*notes, 'wider']))})" if notes else ""
    return f"{found['low_us']:,.1f} to {found['high_us']:,.1f}{wider}"


def _rooflines(recording: Recording, report: Mapping[str, Any], figures: Figures) -> str:
    from ascend_sim.report.figures import roofline_figure

    figure = roofline_figure(recording, report)
    if figure is None:
        return ""
    drawn = figures.add(figure, "roofline", "rooflines of the cube kernels")
    return (
        '<h2>Rooflines</h2>\n<p class="faint">A line is the highest speed that a level of memory, or the cube, allows. A cube '
        "kernel has a point for each level (MTE1, L2, HBM): to the right, its operations per byte there; upwards, the "
        "operations per second that it reached, launch included. MTE1 fills L0A and L0B by turns; its limit lies between "
        f"its two lines.</p>\n{drawn}"
    )


def _one_kernel(
    recording: Recording, report: Mapping[str, Any], path: Sequence[PathStep], figures: Figures, limit: int | None
) -> tuple[str, PackedBlocks | None]:
    """Return (HTML with a section for each kernel that ran, longest first, the run's packed blocks); ("", None) if none ran."""
    kernels = report["kernels"]
    order = sorted(range(len(kernels)), key=lambda i: -kernels[i]["task_us"])
    shown = [index for index in order if recording.timeline.of(index)]
    if not shown:
        return "", None
    chosen = {index: chosen_block(recording, index, path) for index in shown}
    packed = PackedBlocks(recording, path, chosen.values(), limit)
    options = "".join(
        f'<option value="{i}">{i + 1} {escape(kernels[i]["name"])}, {kernels[i]["task_us"]:.1f} us</option>' for i in shown
    )
    lines = [
        '<h2 id="one-kernel">One kernel</h2>',
        f'<p><select id="kernel" aria-label="kernel">{options}</select></p>',
        words_part(),
    ]
    if layer := layer_words(report["problem"]):
        lines.append(f'<p class="faint">The layer: {escape(layer)}.</p>')
    if len(shown) > _KERNELS:
        lines.append(f'<p class="faint">Pictures below the timeline: of the {_KERNELS} longest kernels.</p>')
    if packed.left_out:
        blocks = f"{packed.left_out:,} of {len(recording.timeline.programs):,} blocks"
        lines.append(
            f'<p class="faint" id="left-out">{blocks} are left out to keep the page small; '
            "<code>ascend-sim report OUT --all-blocks</code> draws them all, from the folder of <code>run --out OUT"
            "</code>.</p>"
        )
    for place, index in enumerate(shown):
        lines.append(_kernel(recording, kernels[index], index, chosen[index], path, figures if place < _KERNELS else None))
    return "\n".join(lines), packed


def _kernel(
    recording: Recording, kernel: Mapping[str, Any], task: int, place: int, path: Sequence[PathStep], figures: Figures | None
) -> str:
    """Return the HTML section of kernel `task`, its timeline on program `place` of the run; without `figures` only timeline,
    costs and tiling.
    """
    from ascend_sim.report import figures as drawings

    run = recording.timeline.programs[place]
    lines = [
        f'<section class="kernel" data-kernel="{task}" hidden>',
        f"<h3>Timeline of {escape(kernel['name'])}</h3>",
        f'<p class="faint">{EXPLAINED}</p>',
        timeline_part(task, place, kernel["name"]),
    ]
    if figures is not None and kernel.get("waterfall"):
        cycles, figure = sum(kernel["waterfall"].values()), drawings.waterfall_figure(recording.chip, kernel)
        lines.append(f"<h3>From the ideal to the {cycles:,} cycles of {escape(kernel['name'])}</h3>")
        lines.append(figures.add(figure, f"waterfall-{task}", f"waterfall of {kernel['name']}"))
    lines.append(costs_part(recording, task, path))
    if figures is not None:
        where = f"{run.program.where}, on core {run.core}"
        curve = drawings.occupancy_figure(recording, run)
        if curve is not None:
            drawn = figures.add(curve, f"occupancy-{task}", f"buffers of {kernel['name']}, {where}", time=f"{task}")
            lines.append(f'<div data-block-only="{place}"><h3>Buffers of {escape(where)}</h3>\n{drawn}</div>')
        cells = [
            ("Pipes of every core", drawings.utilisation_figure(recording, task), "pipes"),
            ("Balance of the cores", drawings.balance_figure(recording, task), "balance"),
            ("Bytes by path", drawings.bytes_figure(recording, kernel, task), "bytes"),
            ("Least time of each unit", drawings.bounds_figure(kernel), "bounds"),
        ]
        lines += ["<h3>Bandwidth</h3>", f'<p class="faint">{_BANDWIDTH}</p>']
        curve = drawings.bandwidth_figure(recording, task)
        lines.append(figures.add(curve, f"bandwidth-{task}", f"bandwidth of {kernel['name']}", time=f"{task}"))
        lines.append('<div class="columns">')
        for title, figure, name in cells:
            drawn = figures.add(figure, f"{name}-{task}", f"{title}, {kernel['name']}")
            lines.append(f"<div><h3>{title}</h3>{drawn}</div>")
        lines.append("</div>")
    return "\n".join([*lines, _tiling(kernel), "</section>"])


def chosen_block(recording: Recording, task: int, path: Sequence[PathStep]) -> int:
    """Return the number of the program of kernel `task`, which must have run, with most cycles on the critical `path`; if none
    is on it, of the one that ends last.
    """
    on_path: dict[int, int] = {}
    for step in path:
        if step.task == task and step.program >= 0:
            on_path[step.program] = on_path.get(step.program, 0) + step.cycles
    programs = enumerate(recording.timeline.programs)
    weights = on_path or {index: run.finish for index, run in programs if run.task == task}
    return max(weights, key=lambda index: (weights[index], -index))


def _tiling(kernel: Mapping[str, Any]) -> str:
    if not kernel["tiling"]:
        return ""
    fields = ", ".join(f"{name} {value}" for name, value in kernel["tiling"].items())
    chosen = str(kernel["tiling_source"]) + (f", library {kernel['library']}" if "library" in kernel else "")
    chosen += f"; input by {kernel['input_load']}" if "input_load" in kernel else ""
    surrogates = "".join(
        f"<p>Stands for what is not built: {escape(name)}, {escape(what)}.</p>"
        for name, what in kernel.get("surrogates", {}).items()
    )
    why = f"<p>Chosen by {escape(ladder_words(kernel['ladder']))}.</p>" if "ladder" in kernel else ""
    return f"<details><summary>Tiling ({escape(chosen)})</summary><p>{escape(fields)}</p>{why}{surrogates}</details>"
