"""`tools/mutants`: plants one mistake at a time in a copy of the tree and tells which test finds it."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cosmic
import generic
import listed
import touched
import trial
from listed import Mutant, StaleError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "out" / "mutants.jsonl"
SURVIVED = "survived"
SAMPLE = 20
"""Generic changes that are drawn unless another number is given."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/mutants", description=__doc__)
    parser.add_argument("text", nargs="*", help="only entries with one of these in their rule or file")
    parser.add_argument("--floor", nargs="+", default=(), help="only entries of these files of the list")
    parser.add_argument("--check", action="store_true", help="only see that every entry still fits the tree")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines; what stands there is not run again")
    parser.add_argument("--again", action="store_true", help="run those again that survived")
    parser.add_argument("--seconds", type=int, default=60, help="least CPU time that one run of tests may take (%(default)s)")
    parser.add_argument("--named", action="store_true", help="only the tests that an entry names, not those of their folder")
    parser.add_argument("--generic", nargs="+", metavar="FILE", help="changes of operators and bounds in these files instead")
    parser.add_argument(
        "--diff", nargs="?", const="", metavar="REVISION",
        help="generic changes of the lines that the working tree has otherwise than REVISION (by default where the branch left "
        "main; on main, HEAD~1)",
    )  # fmt: skip
    parser.add_argument("--cosmic-ray", metavar="COMMAND", help="generic changes by cosmic-ray, of an environment of its own")
    parser.add_argument(
        "--sample", type=int, metavar="N",
        help=f"how many of the generic changes ({SAMPLE} by default); alone: N of the list and N of all generic changes",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="which ones are drawn (%(default)s)")
    parser.add_argument("--tests", nargs="+", default=(), help="tests for the generic changes, not those at their place")
    return parser.parse_args()


def folders(tests: tuple[str, ...]) -> tuple[str, ...]:
    """The rooms of the named tests; not the whole suite for a test that stands at its top."""
    rooms = {str(Path(test.partition("::")[0]).parent) for test in tests if test.partition("::")[0].endswith(".py")}
    return tuple(sorted(rooms - {"tests"}))


def populations(options: argparse.Namespace) -> list[list[Mutant]]:
    """Return the mutants that the options mean, in groups of which each is drawn from on its own."""
    tests = tuple(options.tests)
    if options.generic and options.cosmic_ray:
        found = cosmic.mutants(ROOT, options.generic, tests, options.seed, options.cosmic_ray)
        return [list(itertools.islice(found, options.sample or SAMPLE))]
    if options.generic:
        return [[one for file in options.generic for one in generic.mutants(ROOT, file, tests)]]
    if options.diff is not None:
        return [of_change(options.diff or touched.start_of_work(ROOT), tests)]
    if not options.sample:
        return [listed.read_list()]
    sources = sorted(path for room in ("ascend_sim", "ops") for path in (ROOT / room).rglob("*.py"))
    files = [file for path in sources if tests or generic.tests_of(ROOT, file := str(path.relative_to(ROOT)))]
    return [listed.read_list(), [one for file in files for one in generic.mutants(ROOT, file, tests)]]


def of_change(revision: str, tests: tuple[str, ...]) -> list[Mutant]:
    """Return the generic changes of the lines that were touched since a revision; says which files it leaves out."""
    lines = touched.touched_lines(ROOT, revision)
    sources = {file for file in lines if file.endswith(".py") and not file.startswith("tests/")}
    without = {file for file in sources if not (tests or generic.tests_of(ROOT, file))}
    c = {file for file in lines if file.endswith((".c", ".h"))}
    for why, files in (("generic changes know Python alone", c), ("there are no tests at its place", without)):
        if files:
            print(f"left out, as {why}: {', '.join(sorted(files))}")
    return [one for file in sorted(sources - without) for one in generic.mutants(ROOT, file, tests, lines[file])]


class MutantRuns:
    """Runs mutants and keeps what came out, a line of JSON each: rule, file, tests, the test that found it or "survived"."""

    def __init__(self, copy: trial.TreeCopy, results: Path, seconds: int, named: bool) -> None:
        self.copy, self.results, self.seconds, self.named = copy, results, seconds, named
        self._limits: dict[tuple[str, ...], int] = {}

    def limit(self, tests: tuple[str, ...]) -> int:
        """CPU seconds for these tests, at least three times what they take where nothing is changed.

        0 where they do not pass there within ten times the limit: they show nothing then.
        """
        if tests not in self._limits:
            outcome = self.copy.run(tests, 10 * self.seconds, keep_compiled=True)
            if outcome.killed:
                print(f"without any mistake: {outcome.by} fails", flush=True)
            self._limits[tests] = 0 if outcome.killed else max(self.seconds, 3 * round(outcome.cpu))
        return self._limits[tests]

    def one(self, mutant: Mutant) -> dict[str, Any]:
        """Named tests first, then their folder, where it passes without the mistake. RuntimeError if neither does."""
        found = SURVIVED
        seconds = 0.0
        text = mutant.changed(self.copy.text(mutant.file))
        rounds = list(filter(None, (mutant.tests,) if self.named else (mutant.tests, folders(mutant.tests))))
        if not rounds:
            raise RuntimeError("there are no tests at its place; --tests names some")
        if not any(map(self.limit, rounds)):
            raise RuntimeError("its tests do not pass without it")
        for tests in rounds:
            limit = self.limit(tests)
            if not limit:
                continue
            with self.copy.with_text(mutant.file, text):
                outcome = self.copy.run(tests, limit)
            seconds += outcome.seconds
            if outcome.killed:
                found = outcome.by
                break
        line = {
            "identity": mutant.identity, "floor": mutant.floor, "rule": mutant.rule, "file": mutant.file,
            "found_by": found, "named": found.startswith(mutant.tests), "seconds": seconds,
        }  # fmt: skip
        self.results.parent.mkdir(parents=True, exist_ok=True)
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line


def known(results: Path) -> dict[str, dict[str, Any]]:
    """The last line of each mutant; the end of a line that was being written when a run was stopped is left out."""
    lines: dict[str, dict[str, Any]] = {}
    if results.exists():
        for text in results.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            lines[line["identity"]] = line
    return lines


def summary(mutants: list[Mutant], lines: dict[str, dict[str, Any]], tell: Callable[[str], object] = print) -> None:
    """How many of each floor were found, and every survivor."""
    for floor in sorted({mutant.floor for mutant in mutants}):
        own = [lines[mutant.identity] for mutant in mutants if mutant.floor == floor and mutant.identity in lines]
        if own:
            killed = sum(line["found_by"] != SURVIVED for line in own)
            named = sum(line["named"] for line in own)
            tell(f"{floor:24} {killed:4} of {len(own):4} found, {named:4} by the tests that are named")
    done = [lines[mutant.identity] for mutant in mutants if mutant.identity in lines]
    survivors = [line for line in done if line["found_by"] == SURVIVED]
    for line in survivors:
        tell(f"survived: {line['floor']}: {line['rule']} ({line['file']})")
    share = 100 * (len(done) - len(survivors)) / max(len(done), 1)
    rest = f", {len(mutants) - len(done)} not run" if len(mutants) > len(done) else ""
    tell(f"{len(done)} of {len(mutants)} run, {len(done) - len(survivors)} found, {share:.1f} %{rest}")


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the copy and the tests in it go, too
    try:
        groups = populations(options)
    except (StaleError, OSError, ValueError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    groups = [
        [m for m in group if any(part in m.rule or part in m.file for part in options.text or [""])
         and (not options.floor or m.floor in options.floor)]
        for group in groups
    ]  # fmt: skip
    every = [mutant for group in groups for mutant in group]
    is_generic = options.generic or options.diff is not None
    count = options.sample or (SAMPLE if is_generic else len(every))
    chosen = [mutant for group in groups for mutant in draw(group, count, options.seed)]
    stale = listed.check(ROOT, chosen)
    if stale or options.check:
        print("\n".join(stale) or f"{len(chosen)} entries fit the tree")
        return 2 if stale else 0
    lines = {} if options.diff is not None else known(options.results)  # the tests of a change are being written
    left = [m for m in chosen if m.identity not in lines or (options.again and lines[m.identity]["found_by"] == SURVIVED)]
    if len(left) < len(chosen):
        print(f"{len(chosen) - len(left)} stand in {options.results} and are not run; --again runs those that survived")
    trial.import_what_is_not_ours()
    with trial.copy_of(ROOT) as copy:
        runs = MutantRuns(copy, options.results, options.seconds, options.named)
        for number, mutant in enumerate(left, 1):
            try:
                line = lines[mutant.identity] = runs.one(mutant)
            except (StaleError, RuntimeError) as error:  # no program, or no C
                print(f"{number:4} of {len(left)}  {mutant.rule}: not run: {error}", flush=True)
                continue
            print(f"{number:4} of {len(left)}  {line['seconds']:6.1f} s  {mutant.rule}: {line['found_by']}", flush=True)
    summary(every, lines)
    return int(any(lines.get(mutant.identity, {"found_by": SURVIVED})["found_by"] == SURVIVED for mutant in chosen))


def draw(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return `count` of the mutants, every one as likely as another, in their order."""
    numbers = random.Random(seed).sample(range(len(mutants)), min(count, len(mutants)))
    return [mutants[number] for number in sorted(numbers)]


if __name__ == "__main__":
    sys.exit(main())
