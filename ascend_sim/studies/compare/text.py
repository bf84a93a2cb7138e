"""A comparison on a terminal: first the answer on one screen, or all tables. Two runs fit 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ascend_sim.errors import SimError
from ascend_sim.options.short_names import full_name
from ascend_sim.report.columns import counted
from ascend_sim.report.grid import Grid, say
from ascend_sim.report.summary import before_words
from ascend_sim.studies.compare.facts import LETTERS, Fact, KernelFacts, RunComparison, Value

_SHOWN = 3
"""Kernels that are shown without being asked for: those whose times differ most."""
_MOST_OF_TWO, _MOST_OF_MANY = (3, 6, 5), (2, 2, 3)
"""Rows of a summary beside the total: facts of the call, results, kernels. Tables of many runs go on below."""
_MOST_CAUSES = 3
_ALWAYS = {"total us", "us", "cycles", "blocks", "bottleneck"}
"""Facts that are shown where they are equal too."""
_FOLDED = (" compute dtype", " max abs error", " worst error over bound")
"""Ends of facts of an output that are shown only where they differ: verdict and equal bits come first."""
_EQUAL_BITS, _LARGEST = " equal bits with A", " largest |A - this|"
"""Ends of facts that compare an output with the first run's; a summary has both in one row."""
_RATIO = 10
"""A number that is this many times another is compared by the ratio of both, not in per cent."""
HEADS = {
    "waterfall": "waterfall, cycles",
    "stalls": "stalls, us",
    "bytes": "bytes by path",
    "instructions": "instructions",
    "buffers": "most bytes held",
    "tiling": "tiling",
    "tensors": "tensors",
}
"""Heads above the facts of a group."""


def render(
    comparison: RunComparison, console: Console, *, kernels: Sequence[str] = (), full: bool = False, everything: bool = False
) -> None:
    """Print a comparison with `*` at values that differ: its summary, or all tables.

    `full` prints the whole call, outputs, times of all kernels, and facts of the three whose times differ most; `kernels` names
    those to show, alone. `everything` shows all kernels, and equal facts as well. Raises SimError for a kernel that no run has.
    """
    for letter, run in zip(LETTERS, comparison.runs, strict=False):
        say(console, f"{letter}  {run.title}, {shown_value(run.report['total_us'])} us")
    befores = [before_words(run.report["problem"]) for run in comparison.runs if run.report["problem"].get("l2")]
    say(console, "; ".join(dict.fromkeys(befores)))
    if comparison.without_values:
        say(console, comparison.without_values)
    if full or kernels or everything:
        console.print()
        tables(comparison, console, kernels=kernels, everything=everything)
    else:
        _summary(console, comparison)
    if comparison.same:
        facts = sum(len(facts) for kernel in comparison.kernels for facts in kernel.groups.values())
        say(console, f"No difference: {counted(len(comparison.kernels), 'kernel')}, {counted(facts, 'fact')} of them equal")


def _summary(console: Console, comparison: RunComparison) -> None:
    """Print the total, facts of the call that differ, results (facts of the outputs, those that differ first, but equal ones
    too), and the kernels that differ, the largest difference first, each up to a number of lines; then the causes of the first
    kernel that has some, and how many more there are.
    """
    rows = _FactRows(console, comparison)
    total, *others = comparison.call
    facts = [fact for fact in others if fact.differs]
    most_facts, most_results, most_kernels = _MOST_OF_TWO if len(comparison.runs) == 2 else _MOST_OF_MANY
    results = sorted(comparison.outputs, key=lambda fact: (fact.name.endswith((*_FOLDED, _LARGEST)), not fact.differs))
    largest = {
        fact.name.replace(_LARGEST, _EQUAL_BITS): f"up to {shown_value(fact.values[-1])}"
        for fact in comparison.outputs
        if fact.name.endswith(_LARGEST) and fact.values[-1]
    }
    rows.facts("", [total, *facts[:most_facts]], True)
    if results:
        rows.title("results")
    for fact in results[:most_results]:
        rows.add(fact, fact.differs, largest.get(fact.name, ""))
    differing = sorted((kernel for kernel in comparison.kernels if kernel.differs), key=lambda kernel: -kernel.spread)
    if differing:
        rows.title("kernels, us")
    for kernel in differing[:most_kernels]:
        rows.add(Fact(kernel.name, kernel.fact("kernel", "us").values), True)
    rows.print()
    causes = next((f"{kernel.name}: {words}" for kernel in differing if (words := _causes(comparison, kernel))), "")
    if causes:
        say(console, causes)
    counts = {"fact": len(facts) - most_facts, "kernel": len(differing) - most_kernels}
    left = [counted(count, f"more {thing}") for thing, count in counts.items() if count > 0]
    if not comparison.same:
        more = f"--full ({', '.join(left)})" if left else "--full"
        say(console, f"more: {more}, --kernel {differing[0].name}" if differing else f"more: {more}")


def _causes(comparison: RunComparison, kernel: KernelFacts) -> str:
    """Return the changes of a kernel between two runs as text: at most three of blocks, tiling and tensors, then at most three
    parts of its waterfall in us.

    "" for more than two runs, and for a kernel that one run lacks.
    """
    if len(comparison.runs) != 2 or kernel.missing:
        return ""
    blocks, tiling, tensors = kernel.fact("kernel", "blocks"), kernel.groups.get("tiling", ()), kernel.groups.get("tensors", ())
    changed = [fact for fact in (blocks, *tiling, *tensors) if fact.differs][:_MOST_CAUSES]
    words = [f"{fact.name} {' -> '.join(map(shown_value, fact.values))}" for fact in changed]
    gaps = []
    for fact in kernel.groups.get("waterfall", ()):
        of_runs = zip(comparison.runs, fact.values, strict=True)
        before, after = (run.recording.chip.us(float(cycles or 0)) for run, cycles in of_runs)
        gaps.append((after - before, fact.name))
    most = sorted((gap for gap in gaps if round(gap[0], 2)), key=lambda gap: -abs(gap[0]))[:_MOST_CAUSES]
    return ", ".join([*words, *(f"{name} {us:+,.2f} us" for us, name in most)])


def tables(comparison: RunComparison, console: Console, *, kernels: Sequence[str] = (), everything: bool = False) -> None:
    """Print the whole call, outputs, times of all kernels (with `kernels` of these alone) and the facts of some, as `render`
    with `full` does.
    """
    shown = chosen_kernels(comparison, kernels, everything)
    rows = _FactRows(console, comparison)
    rows.facts("the whole call", comparison.call, everything)
    results = [fact for fact in comparison.outputs if fact.differs or not fact.name.endswith(_FOLDED)]
    rows.facts("results", comparison.outputs if everything else results, True)
    rows.title("kernels, us")
    for kernel in shown if kernels else comparison.kernels:
        rows.add(Fact(kernel.name, kernel.fact("kernel", "us").values), kernel.differs)
    rows.print()
    if next(fact for fact in comparison.call if fact.name == "cube MHz").differs:
        say(console, "\nThe clocks differ: cycles are those of each run's own.")
    for kernel in shown:
        _kernel(console, comparison, kernel, everything)
    left = [kernel.name for kernel in comparison.kernels if kernel.differs and kernel not in shown]
    if left:
        say(console, f"\n{counted(len(left), 'more kernel')} with differences (--kernel NAME or --all): {', '.join(left)}")


def chosen_kernels(comparison: RunComparison, names: Sequence[str], everything: bool) -> list[KernelFacts]:
    """Return the kernels to show, in launch order: all with `everything`, those in `names` (dX for grad_input too), or else
    the three differing ones whose times differ most.

    Raises SimError for a name that no kernel has.
    """
    known = [kernel.name for kernel in comparison.kernels]
    names = [full_name(name) for name in names]
    for name in names:
        if name not in known:
            raise SimError(f"--kernel {name}: no such kernel; there are {', '.join(known)}")
    if names or everything:
        return [kernel for kernel in comparison.kernels if everything or kernel.name in names]
    most = sorted((one for one in comparison.kernels if one.differs), key=lambda one: -one.spread)[:_SHOWN]
    return [kernel for kernel in comparison.kernels if kernel in most]


def _kernel(console: Console, comparison: RunComparison, kernel: KernelFacts, everything: bool) -> None:
    there = [letter for letter, row in zip(LETTERS, kernel.rows, strict=False) if row is not None]
    only = f", only in {' and '.join(there)}" if kernel.missing else ""
    say(console, f"\n{kernel.name}{only}", style="bold")
    rows = _FactRows(console, comparison)
    equal = []
    for group, facts in kernel.groups.items():
        whole = everything
        if group == "waterfall":  # the parts add up: equal ones are shown too
            whole = whole or kernel.missing or any(fact.differs for fact in facts)
        rows.facts(HEADS.get(group, ""), facts, whole)
        same = sum(not fact.differs for fact in facts)
        if same and not whole and group in HEADS:
            equal.append(f"{HEADS[group].partition(',')[0]} {same}")
    rows.print()
    if equal and not kernel.missing:
        say(console, f"  equal, not shown: {', '.join(equal)}")


class _FactRows:
    """Table of facts on a terminal, a row each: a mark where it differs, its name, the runs' values.

    Two runs have the difference as well; of more, values unlike the first run's are marked.
    """

    def __init__(self, console: Console, comparison: RunComparison) -> None:
        self._console, self._two = console, len(comparison.runs) == 2
        letters = LETTERS[: len(comparison.runs)]
        heads = [f">{head}" for head in (*letters, *(("B - A", "") if self._two else ()))]
        self._blank = [""] * len(heads)
        self._table = Grid("", ["", *heads])

    def title(self, text: str) -> None:
        self._table.row(Text(text, style="bold"), *self._blank)

    def facts(self, title: str, facts: Sequence[Fact], everything: bool) -> None:
        """Add the facts that differ, and times, cycles, blocks and bottleneck even if equal, below a title row; with
        `everything` all facts.

        Where no fact is to be shown the title is left out too.
        """
        shown = [fact for fact in facts if everything or fact.differs or fact.name in _ALWAYS]
        if shown and title:
            self.title(title)
        for fact in shown:
            self.add(fact, fact.differs)

    def add(self, fact: Fact, differs: bool, difference: str = "") -> None:
        """Add the row of a fact, marked if it `differs`; `difference` is shown in place of that between two runs."""
        if self._two:
            texts = [*shown_values(fact), *((difference, "") if difference else shown_difference(fact))]
        else:
            others = [" " if None in (value, fact.values[0]) or value == fact.values[0] else "*" for value in fact.values]
            texts = [f"{text}{mark}" for text, mark in zip(shown_values(fact), others, strict=True)]
        self._table.row(f"{'*' if differs else ' '} {fact.name}", *texts, style="yellow" if differs else "")

    def print(self) -> None:
        if self._table.row_count:
            self._console.print(self._table)


def shown_value(value: Value) -> str:
    """Return a value as table text: "-" for None, texts and bools as they are; numbers with commas, a float with two decimals,
    below 1 with four significant digits.
    """
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4g}"


def shown_values(fact: Fact) -> list[str]:
    """Return the values of a fact as table text: shares in per cent, others as `shown_value` has them."""
    return [_percent(value) if fact.is_share and value is not None else shown_value(value) for value in fact.values]


def _percent(share: Any) -> str:
    """Return a share in per cent with one decimal; a share that only rounds to 0 or 100 % is distinguished from them."""
    shown = f"{100 * share:.1f} %"
    return {"100.0 %": "> 99.9 %", "0.0 %": "< 0.1 %"}.get(shown, shown) if 0 < share < 1 else shown


def shown_difference(fact: Fact) -> tuple[str, str]:
    """Return (second run minus first, the change as `relative` has it) as text; of shares the difference in percentage points,
    and "".

    Both are "" for words, equal numbers, and a run without the fact; the second is "" where the first run has 0.
    """
    first, more = fact.values[0], fact.differences[1]
    if not more:
        return "", ""
    if fact.is_share:
        return f"{100 * more:+.1f} points", ""
    share = relative(first, more) if isinstance(first, int | float) and first else ""
    return f"{'+' if more > 0 else ''}{shown_value(more)}", share


def relative(first: float, more: float) -> str:
    """Return the change from `first` (not 0) to `first` + `more` as text: in per cent, or from ten times on as a ratio ("x
    12").
    """
    ratio = 1 + more / first
    return f"x {ratio:,.0f}" if ratio >= _RATIO else f"{100 * (ratio - 1):+.1f} %"
