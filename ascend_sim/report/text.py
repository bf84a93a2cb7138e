"""A report as text: the problem, the kernels in launch order, how close they came to their bounds, the outputs.

Rows stay readable without colour and in a log; a table that is too wide goes on below, with its rows named again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ascend_sim.report.advice import layer_words
from ascend_sim.report.certainty import words
from ascend_sim.report.columns import GAP
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.html import output_rows
from ascend_sim.report.ladder import ladder_words
from ascend_sim.report.report import Report
from ascend_sim.report.summary import code_words, wrong_words
from ascend_sim.report.waterfall import WORDS

_FINDINGS_SHOWN = 5
_BAR = 24
"""Columns of the bars of a waterfall, fewer where a row would be longer than `_LINE` with them."""
_LINE = 80


def render(report: Report, console: Console, faster: Mapping[int, str] | None = None) -> None:
    """Print a report in full: problem, kernels, bounds, waterfalls with advice, outputs, findings.

    Its `problem` may have "operator", "tensors" {name: {shape, dtype}}, "macs" {name: n} and arguments. `faster` is {index of a
    kernel: a sentence on what a faster chip would change} (`what_if.faster_chip`).
    """
    data = report.to_dict()
    problem = data["problem"]
    say(console, f"{problem.get('operator', 'run')} on {data['chip']}, mode {data['mode']}", style="bold")
    _problem(console, problem)
    if counted := code_words(data):
        say(console, f"  C++ between the instructions: {counted}")
    _kernels(console, data)
    if any(kernel["roofline"] for kernel in data["kernels"]):
        console.print(_bounds(data["kernels"]))
    for index, kernel in enumerate(data["kernels"]):
        if kernel.get("waterfall"):
            _waterfall(console, data, kernel)
            if faster and index in faster:
                say(console, f"  {faster[index]}", indent="  ")
    if data["outputs"]:
        console.print(_outputs(data["outputs"]))
        for name, figures in data["outputs"].items():
            if figures.get("wrong"):
                say(console, wrong_words(name, figures), style="red")
    _findings(console, data)


def _problem(console: Console, problem: Mapping[str, Any]) -> None:
    if tensors := problem.get("tensors"):
        table = Grid("", ("", "", ""))
        for name, tensor in tensors.items():
            table.row(f"  {name}", str(tensor.get("shape", "")), str(tensor.get("dtype", "")))
        console.print(table)
    rest = {key: value for key, value in problem.items() if key not in ("operator", "tensors", "macs")}
    if rest:
        say(console, "  " + ", ".join(f"{key} {value}" for key, value in rest.items()))
    if macs := problem.get("macs"):
        each = macs if isinstance(macs, Mapping) else {"": macs}
        say(console, "  MACs: " + ", ".join(f"{name} {count:,}".strip() for name, count in each.items()))


def _kernels(console: Console, data: Mapping[str, Any]) -> None:
    columns = ("kernel", "op_type", "core", ">blocks", ">us", ">share", "bottleneck", "main stall")
    total = data["total_us"]
    timed = total is not None
    table = Grid("Kernels in launch order", columns if timed else columns[:4])
    for kernel in data["kernels"]:
        cells = [kernel["name"], kernel["op_type"], kernel["core_type"], str(kernel["block_dim"])]
        if timed:
            pipe, stall = kernel["bottleneck_pipe"], kernel["main_stall"]
            of_core = kernel["pipes_us"][pipe] / kernel["core_us"] if pipe and kernel["core_us"] else 0.0
            cells += [f"{kernel['task_us']:.2f}", _percent(kernel["task_us"] / total if total else 0.0)]
            cells += [f"{pipe} {_percent(of_core)}" if pipe else "-"]
            cells += [f"{stall['cause']} {_percent(stall['share'])}" if stall else "none"]
        table.row(*cells)
    console.print()
    console.print(table)
    say(console, f"Total: {f'{total:.2f} us' if timed else 'no times in functional mode'}", style="bold")
    if timed:
        say(console, words(data["interval"]))
    if "timeline" in data:
        say(console, f"Timeline {data['timeline']}; --out or --html keep it")
    chosen = [kernel for kernel in data["kernels"] if "ladder" in kernel]
    if chosen:
        say(console, "Why these tilings (--json has every reason):")
    for kernel in chosen:
        say(console, f"  {kernel['name']}: {ladder_words(kernel['ladder'])}", indent="    ")


def _bounds(kernels: Sequence[Mapping[str, Any]]) -> Grid:
    heads = ("kernel", "bound by", ">bound", ">longest core", ">ideal cube", ">cube")
    table = Grid("\nAgainst the bounds, in cycles", heads)
    for kernel in kernels:
        bounds, ideal = kernel["roofline"], kernel.get("ideal_cycles")
        cycles = f"{bounds['cycles'].get(bounds['bound_by'], 0):,}", f"{kernel['core_cycles_max']:,}"
        cube = _percent(kernel["cube_efficiency"]) if "cube_efficiency" in kernel else "-"
        table.row(kernel["name"], bounds["bound_by"] or "-", *cycles, "-" if ideal is None else f"{ideal:,}", cube)
    return table


def _waterfall(console: Console, data: Mapping[str, Any], kernel: Mapping[str, Any]) -> None:
    """Print a kernel's waterfall as a table with bars, each beginning where the last one ended, then its statements and
    commands.
    """
    elapsed = sum(kernel["waterfall"].values())
    table = Grid(f"\n{kernel['name']}: from the ideal to its {elapsed:,} cycles", ("", ">cycles", ">share", ""))
    rows = [(WORDS[name], f"{cycles:,}", _percent(cycles / elapsed)) for name, cycles in kernel["waterfall"].items()]
    beside = sum(max(map(len, cells)) + GAP for cells in zip(("", "cycles", "share"), *rows, strict=True))
    width, before = min(_BAR, _LINE - beside), 0
    for cells, cycles in zip(rows, kernel["waterfall"].values(), strict=True):
        ends = sorted((width * before // elapsed, -(-width * (before + cycles) // elapsed)))
        table.row(*cells, Text(" " * ends[0] + "\u2588" * max(ends[1] - ends[0], 1), no_wrap=True))
        before += cycles
    console.print(table)
    if kernel["statements"]:
        layer = layer_words(data["problem"])
        say(console, f"What costs most{' with ' + layer if layer else ''}:")
    for said in kernel["statements"]:
        say(console, f"  {said['text']}", indent="  ")
        if said["command"]:  # not wrapped, so that it can be copied
            console.print(Text(f"    {said['command']}"), soft_wrap=True)


def _outputs(outputs: Mapping[str, Mapping[str, Any]]) -> Grid:
    heads, *rows = output_rows(outputs)
    table = Grid(f"\n{heads[0].capitalize()}s against float64", heads)
    for (*cells, verdict), figures in zip(rows, outputs.values(), strict=True):
        correct = figures.get("correct")
        style = "green" if correct else "bold red" if correct is False else ""
        table.row(*cells, Text(verdict, style=style))
    return table


def _findings(console: Console, data: Mapping[str, Any]) -> None:
    findings = data["findings"]
    if findings or data["warnings"]:
        console.print()
    for warning in data["warnings"]:
        say(console, f"warning: {warning}", style="yellow")
    for finding in findings[:_FINDINGS_SHOWN]:
        say(console, f"{finding['kind']} in {finding['task']}: {finding['text']}", style="red")
    if len(findings) > _FINDINGS_SHOWN:
        say(console, f"... and {len(findings) - _FINDINGS_SHOWN} more findings", style="red")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
