"""Tables and cards in HTML: for the HTML report, and for notebooks, which show `_repr_html_` of a report."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ascend_sim.report.summary import ADVICE, before_words, gain_words, head_words, kind_words, summary_of, wrong_words


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    marks: Sequence[str] = (),
    bar: int = -1,
    identity: str = "",
    sort: bool = False,
) -> str:
    """Return an HTML table: cells are HTML already, heads and caption are text. A column whose head begins with ">" is
    right-aligned.

    `marks` are attributes of the rows, one each. Column `bar` shows a share as a bar behind its figure: the row's `--part`, a
    style that `marks` sets. `identity` is the table's id. With `sort` a click on a column's name sorts the rows.
    """
    right = [' class="n"' if name.startswith(">") else "" for name in head]
    name = (f' id="{identity}"' if identity else "") + (' data-sort="yes"' if sort else "")
    lines = [f'<p class="faint">{escape(caption)}</p>'] if caption else []
    lines.append(f'<div class="scroll"><table{name}>')
    cells = "".join(f"<th{side}>{escape(one.removeprefix('>'))}</th>" for one, side in zip(head, right, strict=True))
    lines.append(f"<thead><tr>{cells}</tr></thead><tbody>")
    for number, row in enumerate(rows):
        mark = f" {marks[number]}" if marks else ""
        cells = "".join(
            f'<td class="n share">{cell}</td>' if column == bar else f"<td{right[column]}>{cell}</td>"
            for column, cell in enumerate(row)
        )
        lines.append(f"<tr{mark}>{cells}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def cards(facts: Iterable[tuple[str, str]]) -> str:
    """Return facts as a row of cards in HTML; a fact is (its figure or word, as HTML; its name, as text)."""
    shown = "".join(f'<div class="fact"><b>{figure}</b>{escape(name)}</div>' for figure, name in facts)
    return f'<div class="facts">{shown}</div>'


def problem_table(problem: Mapping[str, Any]) -> str:
    """Return a call as HTML: a table of its tensors, and its other arguments and MACs in one line, without the operator."""
    rows = [
        [escape(name), escape("x".join(map(str, tensor.get("shape", ())))), escape(str(tensor.get("dtype", "")))]
        for name, tensor in problem.get("tensors", {}).items()
    ]
    macs = problem.get("macs") or {}
    each = macs.items() if isinstance(macs, Mapping) else (("", macs),)
    rest = [f"{key} {value}" for key, value in problem.items() if key not in ("operator", "tensors", "macs")]
    rest += [f"{count:,} MACs {name}".strip() for name, count in each]
    return f'{table(("tensor", "shape", "dtype"), rows) if rows else ""}<p class="faint">{escape(", ".join(rest))}</p>'


def kernel_table(kernels: Sequence[Mapping[str, Any]], total: float | None) -> str:
    """Return an HTML table of the kernels in launch order; unless `total` (us) is None with their times, shares of it, busiest
    pipes and main stalls.
    """
    rows = []
    for kernel in kernels:
        row = [escape(kernel["op_type"]), escape(kernel["name"]), kernel["core_type"], str(kernel["block_dim"])]
        if total is not None:
            stall = kernel["main_stall"]
            row += [f"{kernel['task_us']:.2f}", f"{100 * kernel['task_us'] / total:.1f} %" if total else "-"]
            row += [escape(kernel["bottleneck_pipe"] or "-")]
            row += [f"{escape(stall['cause'])} {100 * stall['share']:.1f} %" if stall else "none"]
        rows.append(row)
    timed = (">us", ">share", "busiest pipe", "main stall") if total is not None else ()
    return table(("op_type", "kernel", "core", ">blocks", *timed), rows)


def results_name(names: Collection[str]) -> str:
    """Return "gradient" if all names begin with "grad_", also if there are none, else "output": the word for such results."""
    return "gradient" if all(name.startswith("grad_") for name in names) else "output"


def by_probe(figures: Mapping[str, Any]) -> str:
    """Return a note on an output's verdict: " (probe)" or " (probe: REASON)" if a probe decided it, " (on this data)" if it
    is correct and no probe ran, else "", as for an output without "decided_by".
    """
    if figures.get("decided_by") != "probe":
        return " (on this data)" if figures.get("decided_by") and figures["correct"] else ""
    failed = figures["probe"]["failed"]
    return f" (probe: {failed})" if failed else " (probe)"


def output_table(outputs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return an HTML table of every output with its errors and verdict, and a line below for each wrong one."""
    heads, *rows = output_rows(outputs)
    for row, figures in zip(rows, outputs.values(), strict=True):
        correct = figures.get("correct")
        style = "" if correct is None else f' class="{"good" if correct else "bad"}"'
        row[:] = [*map(escape, row[:-1]), f"<b{style}>{row[-1]}</b>"]
    wrong = [wrong_words(name, figures) for name, figures in outputs.items() if figures.get("wrong")]
    return table(heads, rows) + "".join(f'<p class="bad">{escape(text)}.</p>' for text in wrong)


def output_rows(outputs: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the heads of columns, then a row of texts for each output: name, shape, dtypes, errors ("-" if unknown, "not
    finite" for None), and last its verdict.
    """
    rows = [[results_name(outputs), "shape", "dtype", "computed in", ">max abs error", ">error/bound", "verdict"]]
    for name, figures in outputs.items():
        correct = figures.get("correct")
        verdict = "not checked" if correct is None else ("correct" if correct else "WRONG") + by_probe(figures)
        shape = "x".join(map(str, figures.get("shape", ())))
        errors = [figures.get(key, "-") for key in ("max_abs_error", "worst_error_over_bound")]
        told = ["not finite" if one is None else one if isinstance(one, str) else f"{one:.3g}" for one in errors]
        rows.append([name, shape, *(str(figures.get(key, "-")) for key in ("dtype", "compute_dtype")), *told, verdict])
    return rows


def summary_html(report: Mapping[str, Any]) -> str:
    """Return a report's summary as HTML: the time's first five parts as cards, its uncertainty, the L2's state before, and all
    advice with commands, from the fourth on folded.
    """
    summary = report.get("summary") or summary_of(report)
    parts = [(f"{100 * one['share']:.0f} %", f"{one['part']}, {one['us']:,.1f} us") for one in summary["parts"][:5]]
    sure = head_words(summary["total_us"], summary["interval"])
    l2 = f"; {before_words(summary)}" if summary["l2"] else ""
    advice = []
    for one in summary["statements"]:
        gain = f"<b>{words}</b> " if (words := gain_words(one)) else ""
        known = f'<span class="faint">({escape(kind_words(one))})</span>'
        command = f"<br>{code_html(one['command'])}" if one["command"] else ""
        advice.append(f"<li>{escape(', '.join(one['kernels']))}: {escape(one['what'])} {gain}{known}{command}</li>")
    lines = [cards(parts), f'<p class="faint">{escape(sure + l2)}.</p>']
    if advice:
        lines.append(f'<ol id="advice">{"".join(advice[:ADVICE])}</ol>')
    if rest := advice[ADVICE:]:
        listed = f'<ol start="{ADVICE + 1}">{"".join(rest)}</ol>'
        lines.append(f"<details><summary>{len(rest)} more</summary>{listed}</details>")
    return "\n".join(lines)


def code_html(line: str) -> str:
    """Return a command, or a line of Python, as HTML to which the page adds a copy button."""
    return f'<code class="command">{escape(line)}</code>'


def report_html(report: Mapping[str, Any], summary: str) -> str:
    """Return a report (`Report.to_dict()`) as HTML without style or script: the text `summary`, tables of problem, kernels and
    outputs, then findings and warnings.
    """
    total = report["total_us"]
    title = f"{report['problem'].get('operator', 'run')} on {report['chip']}, mode {report['mode']}"
    found = [f"<b>{escape(one['kind'])}</b> in {escape(one['task'])}: {escape(one['text'])}" for one in report["findings"]]
    lines = [
        f"<h4>{escape(title)}{'' if total is None else f': {total:,.2f} us'}</h4>",
        f"<pre>{escape(summary)}</pre>",
        problem_table(report["problem"]),
        kernel_table(report["kernels"], total),
        output_table(report["outputs"]) if report["outputs"] else "",
        *(f"<p>{one}</p>" for one in (*found, *(f"warning: {escape(one)}" for one in report["warnings"]))),
    ]
    return f'<div class="ascend-sim">{"".join(lines)}</div>'
