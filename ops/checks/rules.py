"""The machinery of the checks: a rule, an ordered list of rules, and the walk that ends in a status.

    rules = RuleList()

    @rules.rule("stride.positive", "000, stride: greater than 0")
    def _(c):                                       # c: the facts of one call
        if min(c.call.stride) < 1:
            return fail(f"stride = {show(c.call.stride)}: every value must be at least 1")

    result = rules.run(facts, "documented")

A rule may rely on everything that the rules before it have established: the walk stops at the first failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from reprlib import Repr
from typing import Any, Literal

from ascend_sim.frozen import frozen
from ascend_sim.ops.status import Status
from ascend_sim.options.run_options import CONFORMANCES, Conformance

Verdict = Literal["pass", "fail", "skipped", "not reached"]


@frozen
class Failure:
    """A refusal: the vendor's status and one line with argument, value, limit and the source of the limit."""

    status: int
    message: str


@frozen
class CheckResult:
    """Outcome of the rules: `status` (0: all pass), first `failure` or None, `trace` of (rule id, verdict), `warnings`."""

    status: int
    failure: Failure | None
    trace: list[tuple[str, Verdict]]
    warnings: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        first = next((name for name, said in self.trace if said == "fail"), "")
        failed = f"refused by {first}" if first else "accepted"
        return f"<CheckResult {self.status}: {failed}, {len(self.trace)} rules>"


@frozen
class Rule:
    """One check of a call: `check(facts)` returns None or a Failure; where `when(facts)` is False it counts as "skipped".

    It holds only in `profiles`; `source` names the document that asks for it.
    """

    id: str
    source: str
    check: Callable[[Any], Failure | None]
    profiles: tuple[Conformance, ...] = CONFORMANCES
    when: Callable[[Any], bool] | None = None

    def __repr__(self) -> str:
        return f"<Rule {self.id}>"


class RuleList:
    """Rules in the order in which they are added, each with the profiles in which it holds."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def rule(
        self, id: str, source: str, *, only: Conformance | None = None, when: Callable[[Any], bool] | None = None
    ) -> Callable[[Callable[[Any], Failure | None]], Callable[[Any], Failure | None]]:
        """Return a decorator that adds a rule with this id and source; it holds in the profile `only`, or in both for
        None, and is skipped where `when(facts)` is False.
        """
        profiles = CONFORMANCES if only is None else (only,)

        def append(check: Callable[[Any], Failure | None]) -> Callable[[Any], Failure | None]:
            self._rules.append(Rule(id, source, check, profiles, when))
            return check

        return append

    def run(self, facts: Any, conformance: str) -> CheckResult:
        """Apply the profile's rules in order until one fails. Return the status, the failure if any, and a verdict on
        each rule of the profile; without failure also the warnings of `facts`.

        The failure's message names the rule and its source. A profile's name is not checked: an unknown one has no rules.
        """
        failure: Failure | None = None
        trace: list[tuple[str, Verdict]] = []
        for rule in self._rules:
            if conformance not in rule.profiles:
                continue
            if failure is not None:
                trace.append((rule.id, "not reached"))
            elif rule.when is not None and not rule.when(facts):
                trace.append((rule.id, "skipped"))
            elif (found := rule.check(facts)) is None:
                trace.append((rule.id, "pass"))
            else:
                failure = Failure(found.status, f"{found.message} (rule {rule.id}: {rule.source})")
                trace.append((rule.id, "fail"))
        status = Status.SUCCESS if failure is None else failure.status
        return CheckResult(int(status), failure, trace, [] if failure else list(facts.warnings))


def fail(message: str, status: int = Status.PARAM_INVALID) -> Failure:
    """Return a failure with `status`; `RuleList.run` adds the rule's id and source to the message."""
    return Failure(int(status), message)


class _Short(Repr):
    """Writer of values like `repr`, of bounded length: 12 elements of a list, 30 characters of a string; an integer of more
    than 128 bits is written as its number of bits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = 12

    def repr_int(self, x: int, level: int) -> str:
        return f"{x}" if x.bit_length() <= 128 else f"a {x.bit_length()}-bit integer"


_short = _Short()


def show(value: Any) -> str:
    """Return a value for an error message, like `repr` but shortened (`_Short`); a tuple is written as a list, tuples inside it
    as tuples.
    """
    return _short.repr(list(value) if isinstance(value, tuple) else value)
