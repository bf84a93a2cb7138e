"""Two runs of networks or simulations of a model side by side: the total, and every layer with what changed.

found = compare_layers("out/before", "out/after")     # each written by `run-network --out` or `Simulation.write`
found.rows[0]["layer"], found.to_dict()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os.path import isfile
from pathlib import Path
from typing import Any

from rich.console import Console

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.ops.network import layer_text
from ascend_sim.report.columns import counted
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.ranking import numbered
from ascend_sim.report.shown import LayersShown, ShownResult
from ascend_sim.studies.compare.text import relative

SIMULATION = "simulation.json"
FILES = ("network.json", SIMULATION)
"""Files of a folder that hold the times of layers: of `run-network --out`, and of a simulation of a model."""
_SHOWN = 12
_LEAST = 5e-4
"""Differences below this many us are rounding."""


def has_layers(run: object) -> bool:
    """Return True for a result with layers' times, and for a folder with network.json or simulation.json, which hold them."""
    return isinstance(run, LayersShown) or (isinstance(run, str | Path) and _file_in(run) is not None)


def _file_in(folder: str | Path) -> Path | None:
    return next((path for name in FILES if isfile(path := Path(folder) / name)), None)


@frozen
class LayersOfRun:
    """Times of one run's layers: `us` of each layer by part and in "total" (nothing for a refused layer), and its shapes in
    `texts`, both by the layer's name.
    """

    label: str
    title: str
    us: Mapping[str, Mapping[str, float]]
    texts: Mapping[str, str]

    @property
    def total(self) -> float:
        """Return the sum of the layers' total us; a refused layer counts as 0."""
        return sum(parts.get("total", 0.0) for parts in self.us.values())


@frozen
class LayerComparison(ShownResult):
    """Comparison of two runs, layer by layer."""

    runs: tuple[LayersOfRun, LayersOfRun]

    def _draw(self, console: Console) -> None:
        render_layers(self, console)

    @property
    def same(self) -> bool:
        """Return True if both runs ran, or refused, each layer, with equal shapes and times of parts (to 0.0005 us)."""
        return not any(row["what"] for row in self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return one dict for each layer of either run, the largest change first.

        Keys: "layer", "us" (total of both runs, None for a refused or missing layer), "change" (of the totals, None taken as
        0), "parts" {part: change in us} with those that changed, "what": the difference in words (refused, missing, other
        shapes, or the changed parts), "" for none.
        """
        first, second = self.runs
        found = [self._row(name) for name in dict.fromkeys((*first.us, *second.us))]
        return sorted(found, key=lambda row: -abs(row["change"]))

    def _row(self, name: str) -> dict[str, Any]:
        before, after = (run.us.get(name, {}) for run in self.runs)
        times = [None if name not in run.us else run.us[name].get("total") for run in self.runs]
        parts = {
            part: round(after.get(part, 0.0) - before.get(part, 0.0), 4)
            for part in dict.fromkeys((*before, *after))
            if part != "total" and abs(after.get(part, 0.0) - before.get(part, 0.0)) >= _LEAST
        }
        return {
            "layer": name,
            "us": times,
            "change": round((times[1] or 0.0) - (times[0] or 0.0), 4),
            "parts": parts,
            "what": self._what(name, times, parts),
        }

    def _what(self, name: str, times: list[float | None], parts: Mapping[str, float]) -> str:
        there = [letter for letter, run in zip("AB", self.runs, strict=True) if name in run.us]
        refused = [letter for letter, us in zip("AB", times, strict=True) if us is None]
        if len(there) == 1:
            return f"only in {there[0]}"
        if len(refused) == 1:
            return f"refused in {refused[0]}"
        first, second = (run.texts[name] for run in self.runs)
        if first != second:
            return f"{first} -> {second}"
        longest = sorted(parts.items(), key=lambda part: -abs(part[1]))
        return ", ".join(f"{part} {us:+,.1f}" for part, us in longest)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: "runs" with "label", "title" and "total_us" of both runs, and `rows` under "layers"."""
        return {
            "runs": [{"label": run.label, "title": run.title, "total_us": round(run.total, 4)} for run in self.runs],
            "layers": self.rows,
        }


def compare_layers(*runs: object, options: Mapping[str, object] = {}) -> LayerComparison:
    """Return the comparison of two runs layer by layer, paired by name: results, or folders that they wrote.

    Raises SimError unless there are two, for anything without layers' times, and for any true value in `options`, which
    apply to single runs only.
    """
    for name, value in options.items():
        if value:
            raise SimError(f"--{name}: not for networks and simulations, which are compared by the times of layers")
    if len(runs) != 2:
        raise SimError(f"compare: {len(runs)} given; allowed are two networks or simulations, or their folders")
    first, second = map(_read, runs)
    return LayerComparison((first, second))


def render_layers(found: LayerComparison, console: Console, *, everything: bool = False) -> None:
    """Print both totals and the twelve layers that changed most; with `everything` all layers, equal ones too."""
    first, second = found.runs
    for letter, run in zip("AB", found.runs, strict=True):
        say(console, f"{letter}  {run.total:12,.1f} us   {run.label}: {run.title}")
    change = second.total - first.total
    ratio = f" ({relative(first.total, change)})" if first.total else ""
    say(console, f"B - A  {change:+8,.1f} us{ratio}")
    changed = [row for row in found.rows if row["what"]]
    shown = found.rows if everything else changed[:_SHOWN]
    if shown:
        table = Grid("", ("layer", ">A us", ">B us", ">B - A", "~what changed"))
        for row in shown:
            cells = ["-" if us is None else f"{us:,.1f}" for us in row["us"]]
            table.row(row["layer"], *cells, f"{row['change']:+,.1f}", row["what"] or "nothing")
        console.print(table)
    equal = len(found.rows) - len(changed)
    rest = [f"{counted(equal, 'layer')} equal"] if equal else []
    if len(changed) > len(shown):
        rest.append(f"{len(changed) - len(shown)} more that changed")
    if rest and not everything:
        say(console, f"{', '.join(rest)}; --all shows every layer")


def _read(run: object) -> LayersOfRun:
    if isinstance(run, LayersShown):
        return _layers_of(type(run).__name__, run.to_dict())
    path = _file_in(run) if isinstance(run, str | Path) else None
    if path is None:
        raise SimError(
            f"{run}: no network and no simulation, which are compared by layers; nor a folder with {' or '.join(FILES)}, as "
            "run-network --out and Simulation.write make them"
        )
    try:
        return _layers_of(str(run), json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SimError(f"{path}: no times of layers as this ascend-sim writes them ({type(error).__name__}: {error})") from None


def _layers_of(label: str, said: Mapping[str, Any]) -> LayersOfRun:
    """Return the layers of a file's data; a repeated name gets "#2", "#3" and so on. In data with both passes a forward layer's
    name ends in ":forward".
    """
    passes = {name: said[name] for name in ("forward", "backward") if name in said} or {"": said}
    titles, us, texts = list[str](), dict[str, dict[str, float]](), dict[str, str]()
    for direction, one in passes.items():
        after = ":forward" if len(passes) > 1 and direction == "forward" else ""
        if "network" in one:
            title, key = f"{one['network']}, batch {one['batch']}, on {one['chip']}", "name"
        else:
            title, key = f"a model on {one['chip']}, cubeMathType {one['cube_math_type']}", "layer"
        titles.append(title)
        names = numbered(row[key] for row in one["layers"])
        for name, row in zip(names, one["layers"], strict=True):
            us[name + after], texts[name + after] = dict(row["us"]), _text(row)
    return LayersOfRun(label, ", ".join(dict.fromkeys(titles)), us, texts)


def _text(row: Mapping[str, Any]) -> str:
    tensors = row.get("tensors") or {name: row[name] for name in ("input", "weight")}
    shapes = {name: entry["shape"] if isinstance(entry, Mapping) else entry for name, entry in tensors.items()}
    if not {"input", "weight"} <= shapes.keys():
        return " @ ".join("x".join(map(str, shape)) for shape in shapes.values())
    return layer_text(shapes, row)
