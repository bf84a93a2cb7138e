"""The answer of a run in at most fifteen lines: time, uncertainty, parts, verdicts, and what to do next.

    summary = summary_of(report)        # report: Report.to_dict(); plain data, "summary" of the JSON
    lines_of(summary)                   # the same as text

Every advice says how its gain is known. The library chooses the tilings of aclnn's kernels: a tiling or a number of blocks
reaches a device only through a kernel of one's own or a tuned table of the library, and its line says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from textwrap import shorten
from typing import Any

from ascend_sim.report.certainty import LEVEL
from ascend_sim.report.columns import text_width, wrapped

LAYOUT = "layout"
"""The part of a call's time in kernels that only convert layouts and dtypes (TransData, Cast, MemSet)."""
ADVICE = 3
"""Pieces of advice that are shown at first."""
_LINES = 15
_SHOWN = 2
"""Lines of each kind of trouble: wrong outputs, findings, warnings."""
_PARTS = 5
_NOTE = 280
"""Characters of a finding or a warning, three rows of a terminal with its remedy."""
_LARGE = 0.25
"""Share of a call from which a vector kernel that makes an output is spoken of."""
_LINE = 160
"""Characters of a piece of advice."""
KINDS = {
    "simulated": "simulated",
    "stand-in": "simulated on a stand-in; aclnn cannot set it",
    "own kernel": "simulated; aclnn cannot set it, an own kernel can",
    "table": "simulated; aclnn cannot set it, a tuned table of its library or an own kernel can",
    "search": "at most; aclnn chooses this tiling, an own kernel may have another",
    "table search": "at most; aclnn chooses this tiling, a tuned table of its library or an own kernel may have another",
    "stand-in search": "at most; searched on a stand-in, aclnn cannot set it",
    "set search": "at most; the call sets this tiling, which aclnn cannot; another may be faster",
    "bound": "at most",
    "mask": "at most; only a call that masks this output out saves it",
    "room": "computed; these products come for nothing, the call gets no shorter",
    "cause": "a cause; no change of the call is known that helps",
}
"""Origin of an advice's gain, and its way to a device, in words."""


def summary_of(report: Mapping[str, Any], case: str = "") -> dict[str, Any]:
    """Return the figures and the advice of a report as plain data; `case` is its name.

    Keys: "case"; "operator", "chip", "mode", "l2", "launches" and "scalar_work" as in the report; "total_us", "interval",
    "parts" from `_parts`; "values" ("correct", "wrong" or None); "scalar_code", "wrong", "findings" and "warnings" as texts;
    the advice (`_advice`) as "statements"; "timeline", True if one was kept. Parts, interval and advice are empty or None for
    a run without times.
    """
    problem, total, outputs = report["problem"], report["total_us"], report["outputs"]
    judged = [figures["correct"] for figures in outputs.values() if figures.get("correct") is not None]
    return {
        "operator": problem.get("operator", "run"),
        "case": case,
        "chip": report["chip"],
        "mode": report["mode"],
        "l2": problem.get("l2"),
        "launches": problem.get("launches"),
        "scalar_work": problem.get("scalar_work"),
        "scalar_code": code_words(report),
        "total_us": total,
        "interval": report["interval"],
        "parts": [] if not total else _parts(report, total),
        "values": None if not judged else "correct" if all(judged) else "wrong",
        "wrong": [wrong_words(name, figures) for name, figures in outputs.items() if figures.get("wrong")],
        "findings": [f"{one['kind']} in {one['task']}: {one['text']}" for one in report["findings"]],
        "warnings": list(report["warnings"]),
        "statements": _advice(report),
        "timeline": "timeline" not in report,
    }


def code_words(told: Mapping[str, Any]) -> str:
    """Return the counts of the scalar code in a report or a check, summed over the cores, as text; "" without any."""
    counts = told.get("scalar_code", {}).values()
    turns, calls = (sum(one[name] for one in counts) for name in ("loop_turns", "calls"))
    return f"{turns:,} loop turn{'s' * (turns != 1)}, {calls:,} call{'s' * (calls != 1)}" if counts else ""


def lines_of(summary: Mapping[str, Any], more: str = "", check: Sequence[str] = ()) -> list[str]:
    """Return a summary as at most fifteen lines; `check` is the line of a check or none, `more` is the last one, which says
    where to find the rest ("": no such line).

    Of wrong outputs, findings and warnings two each are shown, and as much advice as fits, three at most.
    """
    called = "  ".join(one for one in (summary["operator"], summary["case"], summary["chip"]) if one)
    lines = [f"{called}   {head_words(summary['total_us'], summary['interval'])}"]
    if summary["parts"]:
        lines.append(parts_words(summary["parts"]))
    values = {"wrong": "WRONG", None: "not computed" if summary["mode"] == "timing" else "not compared"}
    told = [f"values: {values.get(summary['values'], summary['values'])}", f"mode {summary['mode']}"]
    if summary["l2"] and summary["total_us"] is not None:
        told.append(before_words(summary))
        if summary.get("scalar_work") == "not timed":
            told.append(f"scalar work not timed{': ' * bool(counted := summary['scalar_code'])}{counted}")
    lines.append("   ".join(told))
    for word in ("wrong", "findings", "warnings"):
        before = "warning: " if word == "warnings" else ""
        lines += [shorten(f"{before}{one}", _NOTE, placeholder=" ...") for one in summary[word][:_SHOWN]]
        if len(summary[word]) > _SHOWN:
            lines.append(f"... and {len(summary[word]) - _SHOWN} more {word.replace('wrong', 'wrong outputs')}")
    lines += check
    if summary["total_us"] is not None and not summary["timeline"]:
        lines.append("no advice: the timeline was not kept; --out or --html keep it")
    room = min(ADVICE, (_LINES - 1 - len(lines)) // 2)  # an advice and its command
    for number, one in enumerate(summary["statements"][:room], 1):
        gain = f"   {words}" if (words := gain_words(one)) else ""
        lines.append(f"{number}  {', '.join(one['kernels'])}: {one['what']}{gain}   ({kind_words(one)})")
        if one["command"]:
            lines.append(f"   {one['command']}")
    return [*lines, more] if more else lines


def summary_text(summary: Mapping[str, Any], more: str = "") -> str:
    """Return a summary's lines as text, as wide as `text_width` says; commands are not wrapped, to be copied."""
    lines = lines_of(summary, more)
    pieces = ([line] if line.startswith("   ") else wrapped(line, text_width(), "   ") for line in lines)
    return "\n".join(piece for parts in pieces for piece in parts)


def head_words(total: float | None, interval: Mapping[str, Any] | None) -> str:
    """Return the total time with its 80 % interval as text, and a note if more than half of it is from other kinds or chips;
    "no times" if `total` is None.
    """
    if total is None:
        return "no times"
    if not interval or not interval["of_us"]:
        return f"{total:,.1f} us"
    ends = f"{100 * LEVEL:.0f} %: {interval['low_us']:,.0f} to {interval['high_us']:,.0f} us"
    other = max(interval["other_chips_us"].items(), key=lambda one: one[1], default=("", 0.0))
    unmeasured = sum(interval["unmeasured_us"].values())
    if unmeasured > interval["of_us"] / 2:
        ends += "; mostly kernels of kinds that were never measured"
    elif other[1] > interval["of_us"] / 2:
        ends += f"; measured mostly on {', '.join(chip.removeprefix('ascend') for chip in other[0].split(', '))}"
    return f"{total:,.1f} us   ({ends})"


def gain_words(advice: Mapping[str, Any]) -> str:
    """Return the gain of an advice as text, a saving below zero: "-6.0 us"; an estimate has two digits, "about -40 us". ""
    without a gain.
    """
    us = advice["gain_us"]
    if us is None or not advice.get("estimated"):
        return "" if us is None else f"{-us:.1f} us"
    rounded = float(f"{us:.1e}")
    return f"about {-rounded:,.{int(rounded < 10)}f} us"


def kind_words(advice: Mapping[str, Any]) -> str:
    """Return the words on how the gain of an advice is known, and on its way to a device."""
    from ascend_sim.report.advice import ESTIMATED

    return KINDS[advice["kind"]].replace("simulated", ESTIMATED if advice.get("estimated") else "simulated", 1)


def before_words(summary: Mapping[str, Any]) -> str:
    """Return the states of the L2 and of the cores' instruction caches before the run in words."""
    return f"L2 {summary['l2']}, code {summary.get('launches') or 'cold'} at the start"


def parts_words(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return the first five parts of a time with their shares as text, in the given order."""
    return "   ".join(f"{one['part']} {100 * one['share']:.0f} %" for one in parts[:_PARTS])


def title_of(report: Mapping[str, Any], name: str = "") -> str:
    """Return the title of a run's page: `name`, or the case of its summary, then operator and chip."""
    called = name or report.get("summary", {}).get("case", "")
    what = f"{report['problem'].get('operator', 'run')} on {report['chip']}"
    return f"{called}: {what}" if called else what


def wrong_words(name: str, figures: Mapping[str, Any]) -> str:
    """Return as text an output's wrong elements and the first one: "y: 10 of 1,048,576 wrong; first [9, 806]: ...".

    One that a probe found, on data of its own, has no values behind it.
    """
    text = f"{name}: {figures['wrong']:,} of {prod(figures['shape']):,} wrong"
    if "first" not in figures:  # found by the probe, on data of its own
        return f"{text} in the probe; first {figures['first_wrong']}"
    first = figures["first"]
    got, expected = (one if isinstance(one, str) else f"{one:.9g}" for one in (first["got"], first["expected"]))
    over = first["error_over_bound"]
    of_sums = " of a rounding or two; Expected.product bounds sums" if figures.get("bound") == "rounding" else ""
    times = "" if isinstance(over, str) else f", {over:.5g} x the bound{of_sums}"
    return f"{text}; first {figures['first_wrong']}: got {got}, expected {expected}{times}"


def _parts(report: Mapping[str, Any], total: float) -> list[dict[str, Any]]:
    """Return dicts "part", "us", "share", longest first: an operator's outputs and layout, or a run's kernels."""
    maker = _makers(report)
    times: dict[str, float] = {}
    for kernel in report["kernels"]:
        part = maker.get(kernel["name"], LAYOUT) if maker else kernel["name"]
        times[part] = times.get(part, 0.0) + kernel["task_us"]
    longest = sorted(times.items(), key=lambda one: -one[1])
    return [{"part": part, "us": round(us, 4), "share": round(us / total, 4)} for part, us in longest]


def _makers(report: Mapping[str, Any]) -> dict[str, str]:
    """Return {kernel: the output that it makes} of an operator's report; {} for others."""
    name = report["problem"].get("operator", "")
    if not name:
        return {}
    from ascend_sim.ops.operators import OPERATORS

    return {launch: part for part, (launch, _) in OPERATORS[name].layer_parts.items()} if name in OPERATORS else {}


def _of_vectors(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return an advice on each vector kernel that makes an output and takes a quarter of the call or more: nothing of it can be
    set.

    [] for a report without times or without a timeline.
    """
    maker, total = _makers(report), report["total_us"]
    if not total or "timeline" in report:
        return []
    return [
        {
            "kernels": [maker[kernel["name"]]],
            "what": f"{kernel['op_type']} takes {100 * kernel['task_us'] / total:.0f} % of the call and has no field to set",
            "kind": "mask",
            "gain_us": kernel["task_us"],
            "estimated": False,
            "command": "",
            "change": {},
        }
        for kernel in report["kernels"]
        if kernel["name"] in maker and "macs" not in kernel and kernel["task_us"] >= _LARGE * total
    ]


def _advice(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the kernels' statements as advice: first changes whose gain was simulated, then upper bounds of gains, last causes
    without a gain; in each the largest gain first.

    An advice has "kernels", "what" to change, "kind" (of `KINDS`), "gain_us" or None, "estimated", "command" and "change".
    One change that helps several kernels is one advice, and so is one search that may help with several parts of a kernel;
    gains are added. A change of which other kernels lose as much as it saves is left out. Upper bounds of vector kernels that
    make an output are among them.
    """
    found: dict[str, dict[str, Any]] = {}
    for kernel in report["kernels"]:
        for said in kernel.get("statements", ()):
            one = _advised(report, kernel, said)
            searched = one["kind"].endswith("search")
            known = found.setdefault(kernel["name"] if searched else f"{one['what']} {one['change']}", one)
            if known is one or (kernel["name"] in known["kernels"] and not searched):
                continue
            if searched:
                known["what"] += f", {one['what']}"
            else:
                known["kernels"] += one["kernels"]
            if one["gain_us"] is not None:
                known["gain_us"] = round((known["gain_us"] or 0.0) + one["gain_us"], 4)
                known["estimated"] |= one["estimated"]
    order = {"simulated": 0, "stand-in": 0, "table": 0, "own kernel": 0, "room": 2, "cause": 2}
    helps = [one for one in (*found.values(), *_of_vectors(report)) if one["gain_us"] is None or one["gain_us"] > 0]
    return sorted(helps, key=lambda one: (order.get(one["kind"], 1), -(one["gain_us"] or 0.0)))


def _advised(report: Mapping[str, Any], kernel: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    from ascend_sim.report.advice import settable_kernels  # a kernel with a waterfall alone needs these
    from ascend_sim.report.ladder import asks_table
    from ascend_sim.report.waterfall import WORDS

    change, stand_in = said["change"], kernel["tiling_source"] == "stand-in"
    what, kind, gain = _change(report, kernel, change), "simulated", said["gain"]
    table = asks_table(kernel.get("ladder", ())) and "block_dim" not in change
    if said["at_most"]:
        what = WORDS[said["parts"][0]]
        own = kernel["tiling_source"] == "manual"
        searched = "set search" if own else "stand-in search" if stand_in else "table search" if table else "search"
        kind = searched if kernel["name"] in settable_kernels() else "bound"
    elif not change:
        what, kind = said["text"].split(": ", 1)[1].split(". ")[0], "cause"
    elif "tiling" in change or "block_dim" in change:
        kind = "stand-in" if stand_in else "table" if table else "own kernel"
    elif "channels" in change:
        kind, gain = "room", None
    us = None if gain is None else gain * kernel["task_us"] / sum(kernel["waterfall"].values()) / change.get("batch", 1)
    return {
        "kernels": [kernel["name"]],
        "what": shorten(what, _LINE, placeholder=" ..."),
        "kind": kind,
        "gain_us": None if us is None else round(us, 4),
        "estimated": said["estimated"],
        "command": said["command"],
        "change": dict(change),
    }


def _change(report: Mapping[str, Any], kernel: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    """Return the first entry of a change of the call in a few words, "baseM=256 (now 128)"; "" for an empty change."""
    for name, value in change.items():
        if name == "tiling":
            fields = value[kernel["name"]].items()
            return ", ".join(f"{field}={new} (now {kernel['tiling'].get(field, 'none')})" for field, new in fields)
        if name == "block_dim":
            return f"{value[kernel['name']]} blocks (now {kernel['block_dim']})"
        if name == "batch":
            from ascend_sim.ops.operators import OPERATORS

            problem = report["problem"]
            axes, tensors = OPERATORS[problem["operator"]].batch_axes, problem["tensors"]
            batch = next(int(tensors[tensor]["shape"][axis]) for tensor, axis in axes.items() if tensor in tensors)
            return f"batch {value * batch} in one launch, for this call's work"
        if name == "channels":
            return f"channels in multiples of {value} take no longer"
        return f"{name}={value}"
    return ""
