"""Pages of a search: a table of the best beside the kernel of the call, a picture, and the best for `run --tiling`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from ascend_sim.errors import ConfigError, SimError
from ascend_sim.report.files import write_text
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.ladder import ladder_words
from ascend_sim.report.png import png_figure, write_png
from ascend_sim.studies.tiles.outcome import Result, SearchOutcome
from ascend_sim.studies.tiles.search import State
from ascend_sim.yaml_file import read_yaml

_L2 = {"call": "L2 as in the call", "warm": "alone, its operands in the L2", "cold": "alone, L2 cold"}
_PIPES = ("cube", "mte1", "mte2", "fixpipe", "vec", "scalar")
_SHORT = {"nothing to do": "idle"}
_BREAK = re.compile("(?<=^base)|(?<=^step)|(?<=[0-9]P)|(?=Core|Order|KType)")
"""Places at which heads of columns are broken, so that the table stays narrow."""


def render(outcome: SearchOutcome, console: Console, top: int = 10) -> None:
    """Print the answer, a table of the best `top` tilings below the kernel of the call, then the fields that all of them share,
    sources and findings.

    The simulator's own choice of fields is not among the best: it is the kernel of the call, or stands between where the call
    launches another tiling or kernel.
    """
    kernel, call, own = outcome.kernel, outcome.call, outcome.own
    best = [result for result in outcome.results if result["fields"] != own["fields"]][:top]
    same = call["fields"] == own["fields"]
    rows = [call, *([] if same else [own]), *best]
    names = list(dict.fromkeys(name for row in rows for name in row["fields"]))
    differ = [name for name in names if len({row["fields"].get(name) for row in rows if row["fields"]}) > 1]
    code = ", code warm" if kernel.launches == "warm" else ""
    say(console, f"{kernel.name} on {kernel.chip.name}, {_L2[kernel.l2]}{code}: {outcome.sentence}", style="bold")
    first = outcome.best
    gain = f"{100 * (first['cycles'] / call['cycles'] - 1):+.1f} %"
    answer = f"The best tiling takes {first['us']:.2f} us, {gain}."
    if not outcome.faster:
        known = outcome.listed and not outcome.open
        answer = "No tiling is faster." if known else "No tiling that was simulated is faster."
    say(console, f"in your call: {call['op_type']} {call['us']:.2f} us. {answer}")
    pipes = [pipe for pipe in _PIPES if any(row["busy"].get(pipe) for row in rows)]
    broken = [_BREAK.sub("\n", name, count=1) for name in differ]  # so that columns are narrow
    heads = ["cycles", "us", "against\ncall", "bound", *broken, "GM->L1\nMiB", "L1\nuse"]
    heads += [f"{pipe}\nbusy" for pipe in pipes]
    table = Grid("", ["tiling", "a device gets\nit by", *(f">{head}" for head in heads), "main stall"])
    way, words = outcome.reach
    places = {id(result): str(place) for place, result in enumerate(outcome.results, 1)}
    shown = enumerate(outcome.results[:top], 1)  # the place of other results is unknown
    rank = next((place for place, result in shown if result["fields"] == own["fields"]), None)
    for row in rows:
        name = "call" if row is call else "own" if row is own else f"{places[id(row)]}."
        if row is (call if same else own) and rank is not None:
            name += f", {rank}."
        how = "aclnn" if row is call else way
        table.row(name, how, *_cells(row, call, differ, pipes, kernel.chip.buffers["L1"]))
    console.print(table)
    common = {name: own["fields"][name] for name in names if name not in differ and name in own["fields"]}
    say(console, f"all: {', '.join(f'{name} {value}' for name, value in common.items())}")
    say(console, f"call: the kernel of your call ({call['source']}): {ladder_words(call['ladder'])}")
    if not same:
        say(console, f"own: the simulator's choice of fields ({own['source']}): {ladder_words(own['ladder'])}")
    say(console, f"{way}: {words}")
    for result in rows:
        if result["findings"]:
            say(console, f"finding: {result['findings'][0]}", style="red")


def _cells(row: Result, call: Result, names: Sequence[str], pipes: Sequence[str], l1: int) -> list[str]:
    against = row["cycles"] / call["cycles"] - 1
    stall = row["stall"]
    return [
        f"{row['cycles']:,}",
        f"{row['us']:.2f}",
        "" if row is call else f"{100 * against:+.1f}%",
        f"{row['bound']:,}" if "bound" in row else "-",
        *(str(row["fields"].get(name, "-")) for name in names),
        f"{row['bytes'].get('GM->L1', 0) / 2**20:.2f}",
        f"{100 * row['l1'] / l1:.0f}%",
        *(f"{100 * row['busy'].get(pipe, 0.0):.0f}%" for pipe in pipes),
        f"{row['bottleneck']} {_SHORT.get(stall['cause'], stall['cause'])} {100 * stall['share']:.0f}%" if stall else "none",
    ]


def best_fields(outcomes: Sequence[SearchOutcome]) -> dict[str, dict[str, int]]:
    """Return {kernel: fields of its best tiling} for `run --tiling`; kernels whose best tiling is slower than the call's are
    left out.
    """
    kept = [one for one in outcomes if one.best["cycles"] <= one.call["cycles"]]
    return {outcome.kernel.name: dict(outcome.best["fields"]) for outcome in kept}


def write_best(path: Path, outcomes: Sequence[SearchOutcome]) -> Path | None:
    """Write `best_fields` as YAML with comments to `path`; a file there that has other tilings, or is no YAML, is renamed
    first.

    Returns the renamed file's path, None if nothing was renamed. Raises SimError if that or writing fails.
    """
    call = outcomes[0].kernel.call
    shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in call.inputs.items())
    lines = [
        f"# Best tilings found for {outcomes[0].kernel.chip.name}; ascend-sim run CASE --tiling FILE takes this file\n",
        f"# {call.operator}: {shapes}, computed in {call.compute_dtype}\n",
    ]
    fields = best_fields(outcomes)
    for outcome in outcomes:
        cycles = f"{outcome.best['cycles']:,} cycles, {outcome.call['cycles']:,} in the call"
        kept_out = "" if outcome.kernel.name in fields else "; left out, for the kernel of the call is faster"
        lines.append(f"# {outcome.kernel.name}: {cycles} ({outcome.sentence}){kept_out}\n")
    there = None
    with suppress(ConfigError):  # no YAML file of ours
        there = read_yaml(path, "a mapping") if path.exists() else fields
    kept = None if there == fields else _keep(path)
    write_text(path, "".join(lines) + yaml.safe_dump(fields, sort_keys=False))
    return kept


def _keep(path: Path) -> Path:
    """Rename a file to the first free name beside it (best-1.yaml, best-2.yaml, ...) and return the new path.

    Raises SimError if that fails.
    """
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(1))
    kept = next(name for name in names if not name.exists())
    try:
        return path.rename(kept)
    except OSError as error:
        raise SimError(f"cannot rename {path} to {kept}: {error.strerror or error}") from None


def compare_chips(outcomes: Sequence[SearchOutcome], console: Console) -> None:
    """Print a table with a line for each chip and kernel: us of the call's kernel and of the best tiling, and the gain."""
    table = Grid("Chips side by side", ("chip", "kernel", ">call us", ">best us", ">gain"), names=2)
    for outcome in outcomes:
        call, best = outcome.call["us"], outcome.best["us"]
        gain = f"{100 * (outcome.best['cycles'] / outcome.call['cycles'] - 1):+.1f}%"
        table.row(outcome.kernel.chip.name, outcome.kernel.name, f"{call:.2f}", f"{best:.2f}", gain)
    console.print(table)


def progress_text(name: str, state: State) -> str:
    """Return a search's state as a progress line: simulated tilings, all that may still beat the best, fewest cycles so far.

    Before the first result it says that tilings are listed.
    """
    if state.best is None:
        return f"{name}: listing tilings, the simulator's own choice first"
    return f"{name}: {state.simulated:,} of {state.simulated + state.open:,}, best {state.best:,}"


def plot(outcomes: Sequence[SearchOutcome], path: Path) -> None:
    """Write a PNG with two axes for each search: simulated cycles against the bound, and against L1 use.

    Raises SimError as `check_png` and `write_png`.
    """
    figure = png_figure(path, 11, 4.2 * len(outcomes))
    for outcome, (left, right) in zip(outcomes, figure.subplots(len(outcomes), 2, squeeze=False), strict=True):
        name = f"{outcome.kernel.name} on {outcome.kernel.chip.name}"
        cycles = [result["cycles"] for result in outcome.results]
        for axis, values, label in (
            (left, _column(outcome.results, "bound"), "bound, cycles"),
            (right, [size / 1024 for size in _column(outcome.results, "l1")], "L1 that the tiling takes, KiB"),
        ):
            axis.scatter(values, cycles, s=12, alpha=0.6, label="simulated")
            axis.scatter(values[:1], cycles[:1], s=70, marker="*", color="tab:green", label="best", zorder=3)
            axis.set(xlabel=label, ylabel="cycles", title=name)
            axis.grid(alpha=0.3)
        left.scatter([outcome.own["bound"]], [outcome.own["cycles"]], marker="D", color="tab:red", label="own choice", zorder=3)
        right.scatter([outcome.own["l1"] / 1024], [outcome.own["cycles"]], marker="D", color="tab:red", zorder=3)
        ends = (min(_column(outcome.results, "bound")), max(_column(outcome.results, "bound")))
        left.plot(ends, ends, color="black", linewidth=0.8, label="cycles = bound")
        right.axvline(outcome.kernel.chip.buffers["L1"] / 1024, color="black", linewidth=0.8, label="size of L1")
        for axis in (left, right):
            axis.legend(fontsize="small")
    write_png(figure, path)


def _column(results: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [result[name] for result in results]
