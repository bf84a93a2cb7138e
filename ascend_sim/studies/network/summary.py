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

    Keys: "us" of one, "copies", "all" (us of all copies), "ideal" of the cube at its peak, "layout", "beyond" (the time above
    the ideal over all copies, an upper bound of what can be saved) and "parts", us over all copies.
    """
    copies: dict[str, int] = {}
    for layer, same in zip(run.network.layers, run.same_as, strict=True):
        copies[same or layer.name] = copies.get(same or layer.name, 0) + 1
    found = []
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        if same is None and not times.refused:
            us, count = times.times["total"], copies[layer.name]
            found.append(
                {
                    "layer": layer.name, "text": text_of(layer), "us": us, "copies": count, "all": us * count,
                    "ideal": times.ideal, "layout": times.times[LAYOUT], "beyond": (us - times.ideal) * count,
                    "parts": {part: times.times[part] * count for part in run.parts},
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
    if not run.network.address or isinstance(run.options["chip"], ChipSpec):
        return ""
    batch = f":batch={run.batch}" if run.network.rescaled else ""
    address = f"{run.network.address}:{layer}{batch}{':forward' if run.direction == 'forward' else ''}"
    given |= {"tiling": run.tilings[layer]} if layer in run.tilings else {}
    return ShellCommands(address, given, given).run({"mode": "timing"})


def lines_of(summary: dict[str, Any], more: str = "") -> list[str]:
    """Return a summary as lines: time, parts, the layers with most time, trouble, the next command; the last one is `more`,
    unless that is "".

    Of refusals and findings two each are shown, the others counted.
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
