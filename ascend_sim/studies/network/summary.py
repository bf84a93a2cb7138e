"""The answer of a network's pass in a few lines: time, its interval, its parts, the layers that cost most, the next command."""

from __future__ import annotations

from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.network import text_of
from ascend_sim.options.commands import ShellCommands
from ascend_sim.options.description import filled
from ascend_sim.options.run_options import CacheOptions
from ascend_sim.report.columns import counted
from ascend_sim.report.ranking import costs_of, ranking_lines
from ascend_sim.report.summary import LAYOUT, before_words, head_words, parts_words
from ascend_sim.studies.network.options import NetworkOptions

_TROUBLE = 2
"""Refused layers and findings that are shown."""


def ranked(run: Any) -> list[dict[str, Any]]:
    """Return a dict for each distinct layer of a `NetworkRun` that ran, longest time over all its copies first.

    Keys: "layer", the copy that takes longest; "text", its shapes; "copies" that ran; of all of them "all" us, "parts" and
    "beyond" (the time above the ideal, an upper bound of what can be saved); their means "us", "ideal" of the cube at its peak,
    and "layout".
    """
    found = []
    for copies in run.copies:
        ran = [number for number in copies if not run.layers[number].refused]
        if not ran:
            continue
        longest = run.network.layers[max(ran, key=lambda number: run.layers[number].times["total"])]
        times = {part: sum(run.layers[number].times[part] for number in ran) for part in (*run.parts, "total")}
        ideal, count = sum(run.layers[number].ideal for number in ran), len(ran)
        found.append(
            {
                "layer": longest.name, "text": text_of(longest), "us": times["total"] / count, "copies": count,
                "all": times["total"], "ideal": ideal / count, "layout": times[LAYOUT] / count,
                "beyond": times["total"] - ideal, "parts": {part: times[part] for part in run.parts},
            }
        )  # fmt: skip
    return sorted(found, key=lambda row: -row["all"])


def summary_of(run: Any) -> dict[str, Any]:
    """Return a `NetworkRun` as plain data: its settings, "total_us" and "interval", "parts" by time, the five layers with
    "most" time, the one with "most_layout", "refused", "findings", and the command to run "next".
    """
    totals, rows = run.totals, [row for row in ranked(run) if row["us"]]
    total, parts = totals["total"], {part: totals[part] for part in run.parts}
    return {
        "network": run.network.name,
        "direction": run.direction,
        "chip": run.chip,
        "batch": run.batch,
        **filled(CacheOptions, run.options),
        "layers": len(run.layers),
        "distinct_layers": run.distinct,
        "total_us": round(total, 4),
        "interval": run.interval,
        **costs_of(rows, parts, total, totals[LAYOUT]),
        "refused": list(run.refused),
        "findings": list(run.findings),
        "complete": run.complete,
        "next": command_of(run, rows[0]["layer"]) if rows else "",
    }


def command_of(run: Any, layer: str) -> str:
    """Return the shell command that runs `layer` alone as the run did; "" for a network or a chip that it cannot name."""
    usual: dict[str, Any] = dict(filled(NetworkOptions, {}))
    given = {name: value for name, value in run.options.items() if value != usual[name]}
    address = address_in(run, layer)
    if not address or isinstance(run.options["chip"], ChipSpec):
        return ""
    given |= {"tiling": run.tilings[layer]} if layer in run.tilings else {}
    return ShellCommands(address, given, given).run({"mode": "timing"})


def address_in(run: Any, layer: str) -> str:
    """Return the address of a layer of a `NetworkRun`, `NETWORK:LAYER`; "" for a network that was made in Python."""
    batch = f":batch={run.batch}" if run.network.rescaled else ""
    place = f"{layer}{batch}{':forward' if run.direction == 'forward' else ''}"
    return f"{run.network.address}:{place}" if run.network.address else ""


def lines_of(summary: dict[str, Any], more: str = "") -> list[str]:
    """Return a summary as lines: time, parts, the layers with most time, trouble, the next command; the last one is `more`,
    unless that is "".

    Of refusals and findings two each are shown, with at most 160 characters, the others counted.
    """
    what = f"{summary['network']}  {summary['direction']}  batch {summary['batch']}  {summary['chip']}"
    lines = [f"{what}   {head_words(summary['total_us'], summary['interval'])}", parts_words(summary["parts"])]
    layers = f"{counted(summary['layers'], 'layer')}, {summary['distinct_layers']} distinct"
    lines.append(f"{layers}   {before_words(summary)} of each layer   most time, copies together:")
    lines += ranking_lines(summary)
    for word, begin in (("refused", "refused: "), ("findings", "finding: ")):
        lines += [f"{begin}{one[:160]}" for one in summary[word][:_TROUBLE]]
        if len(summary[word]) > _TROUBLE:
            lines.append(f"... and {len(summary[word]) - _TROUBLE} more {word}")
    if not summary["complete"]:
        lines.append("interrupted: only the layers that were finished stand here, and the total is theirs")
    if summary["next"]:
        lines.append(f"next: {summary['next']}")
    return [*lines, more] if more else lines
