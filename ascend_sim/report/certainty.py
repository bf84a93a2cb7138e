"""Uncertainty of a time: the interval in which the measured times of 80 % of such kernels lie.

    sure = interval(load_chip("ascend910b2"), "TransData", us=53.7)
    sure.low_us, sure.high_us, sure.kernels, sure.chips, sure.borrowed

`configs/measurements/errors.yaml` has measured over predicted times of kernels, predicted without measured facts, by kind
(architecture, operator, grouped or not, version of the library), chip and network; `tools/measured_errors.py` makes it. The
prediction is the one that ships. Where costs were fitted on a kernel, the file also has the error of costs that were fitted
without its layer. The larger of both scatters counts, so a fit makes no kind surer than it is and a bad fit hides nothing.

The logarithm of such a ratio is the sum of a part of its network and a part of its kernel. The variance of networks is the
same for all kinds, pooled over the kinds with several networks, so that a kind measured in one network is not taken for surer
than it is. The variance of kernels is the kind's. The interval is a prediction interval of Student's t around the mean of the
networks. Where many kernels were measured, their own distances from the mean replace t if they are smaller: errors have
longer tails than a normal distribution's.

The interval uses the kernels of the same chip and size (short or long, `LONG_US`) if enough of these were measured, else
those of the same size on all chips of the architecture, else all. Size goes before chip: a launch is a large part of a short
kernel on every chip, and chips of an architecture have the same cores. A kind that was not measured borrows the kernels of
the nearest measured kind (`nearest`), with the variance of a network added: two kinds differ as two networks do (assumed). If
kernels of other chips are among them, a part of the chip is added, with the variance of a network too (assumed: only one kind
was measured on several chips, and its networks, each on one chip, are too few to separate a chip's part from theirs). Rules
fitted on rows have seen these rows: on a new kind of network errors are larger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import Any, NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.shipped import read_config

LEVEL = 0.8
"""Share of a kind's kernels that an interval is to hold."""
MADE = 0.85
"""Level of Student's t that intervals are made with: costs and rules have seen the kernels of errors.yaml, so that new kernels
err more (chosen on open rows: 80 to 85 % of the kernels of networks that were left out lie inside).
"""
LONG_US = 100
"""Predicted time from which a kernel counts as long: its launch is not a large part of it (chosen, not fitted)."""
ENOUGH = 8
"""Kernels of a size, or of a size on one chip, that are enough for an interval of their own (chosen, not fitted)."""
MANY = 20
"""Kernels from which their own errors bound the interval: a few large ones among them widen no other (chosen, not fitted)."""
_FEWEST = 2
"""Kernels below which nothing is known of how errors scatter."""


class MeasuredError(NamedTuple):
    """A measured kernel: its chip, the predicted time `us`, and `error`, the log of measured / predicted time.

    `left_out` is that log for a prediction by costs that were fitted without the kernel's layer; equal to `error` where nothing
    was fitted on it.
    """

    chip: str
    us: float
    error: float
    left_out: float


Errors = Mapping[str, Sequence[MeasuredError]]
"""Network -> its kernels of one kind."""


@frozen
class ErrorKind:
    """Kind of kernel whose measured errors are taken together, by network; `library` is "" if it does not depend on the
    library's version.

    Kinds are equal whatever their `errors`.
    """

    arch: str
    op_types: tuple[str, ...]
    grouped: bool = False
    library: str = ""
    errors: Errors = field(default_factory=dict, compare=False)

    def where(self, keep: Callable[[str, MeasuredError], bool]) -> ErrorKind:
        """Return a copy of the kind with only the kernels for which `keep(network, kernel)` is True; without empty networks."""
        kept = {network: [one for one in found if keep(network, one)] for network, found in self.errors.items()}
        return replace(self, errors={network: found for network, found in kept.items() if found})

    def on(self, chip: str) -> ErrorKind:
        """Return a copy of the kind with the kernels of one chip only."""
        return self.where(lambda _, one: one.chip == chip)

    @property
    def chips(self) -> tuple[str, ...]:
        """Return the sorted names of the chips on which kernels of the kind were measured."""
        return tuple(sorted({one.chip for found in self.errors.values() for one in found}))

    @property
    def kernels(self) -> int:
        """Return the number of measured kernels."""
        return sum(map(len, self.errors.values()))

    @property
    def kernel(self) -> str:
        """Return the kind's name without the architecture: its operators (any MatMuls are "MatMul"), "grouped", the library's
        version.
        """
        kernel = "MatMul" if "MatMul" in self.op_types else ", ".join(self.op_types)
        return kernel + ", grouped" * self.grouped + (f", library {self.library}" if self.library else "")

    @property
    def name(self) -> str:
        """Return the kind's name with the architecture, as reports show it."""
        return f"{self.arch} {self.kernel}"


class Interval(NamedTuple):
    """Uncertainty interval `low_us` to `high_us`, from the errors of `kernels` measured kernels of `networks` networks.

    `chips` are the chips of these kernels if some are of other chips than the predicted one; `borrowed` names their kind if it
    is another.
    """

    low_us: float
    high_us: float
    kernels: int
    networks: int
    chips: tuple[str, ...] = ()
    borrowed: str = ""

    def times(self, us: float) -> Interval:
        """Return the interval with both ends multiplied by `us`."""
        return self._replace(low_us=us * self.low_us, high_us=us * self.high_us)


@cache
def kinds() -> tuple[ErrorKind, ...]:
    """Return the measured kinds of errors.yaml; read once."""
    found = []
    for one in read_config("measurements/errors.yaml")["kinds"]:
        errors: dict[str, list[MeasuredError]] = {}  # a network that ran on several chips remains one
        for chip, networks in one["errors"].items():
            for network, rows in networks.items():
                measured = [
                    MeasuredError(chip, us, math.log(ratio), math.log(left_out[0] if left_out else ratio))
                    for us, ratio, *left_out in rows
                ]
                errors.setdefault(network, []).extend(measured)
        found.append(ErrorKind(one["arch"], tuple(one["op_types"]), one["grouped"], one["library"], errors))
    return tuple(found)


def interval(
    chip: ChipSpec, op_type: str, us: float, *, cube: bool | None = None, grouped: bool = False, library: str = ""
) -> Interval:
    """Return the 80 % interval of a kernel that is predicted to take `us`, from its kind, or borrowed from the nearest and
    wider.

    `cube` is True if the cube works in it; None: the operator's name decides. `grouped` and `library` as in `ErrorKind`.
    """
    return _shipped(chip.identity.arch, chip.name, op_type, us >= LONG_US, cube, grouped, library).times(us)


@cache
def _shipped(arch: str, chip: str, op_type: str, long: bool, cube: bool | None, grouped: bool, library: str) -> Interval:
    """Return the interval of a kind of kernel as multiples of the predicted time, which is `long` or short; other arguments
    as in `interval`.
    """
    for kind in kinds():
        if (kind.arch, kind.grouped, kind.library) == (arch, grouped, library) and op_type in kind.op_types:
            found = _multiples(kind, chip, long, _shipped_between(), lent=False)
            if found is not None:
                return found
    kind = nearest(kinds(), arch, op_type, cube=cube, grouped=grouped, library=library)
    found = _multiples(kind, chip, long, _shipped_between(), lent=True)
    assert found is not None
    return found


def nearest(
    among: Sequence[ErrorKind], arch: str, op_type: str, *, cube: bool | None = None, grouped: bool = False, library: str = ""
) -> ErrorKind:
    """Return the kind of `among` that differs least from the given one; kinds with fewer than two kernels are passed over.

    Compared are, in this order: the unit that works, the architecture, the computation, the operator, groups, the library's
    version. `cube` as in `interval`. Of equally near kinds the one with the most kernels is taken (chosen, not fitted). Raises
    ValueError if no kind has two kernels.
    """
    cube = _of_cube(op_type) if cube is None else cube

    def distance(kind: ErrorKind) -> tuple[bool | int, ...]:
        return (
            _of_cube(kind.op_types[0]) != cube,
            kind.arch != arch,
            _work(kind.op_types[0]) != _work(op_type),
            op_type not in kind.op_types,
            kind.grouped != grouped,
            kind.library != library,
            -kind.kernels,
        )

    return min((kind for kind in among if kind.kernels >= _FEWEST), key=distance)


def _of_cube(op_type: str) -> bool:
    return "Conv" in op_type or "MatMul" in op_type


def _work(op_type: str) -> str:
    """Return an operator's name without rank and version, as Conv3DBackpropFilterV2 and Conv2DBackpropFilter do the same
    work; "MatMul" for any MatMul.
    """
    return "MatMul" if "MatMul" in op_type else re.sub(r"[23]D|V\d$", "", op_type)


@cache
def _shipped_between() -> float:
    return between_networks(kinds())


def between_networks(every: Iterable[ErrorKind]) -> float:
    """Return the variance of what a network has of its own in log(measured / predicted), pooled over the kinds with several
    networks (method of moments); 0 without such kinds.
    """
    total, freedom = 0.0, 0
    for kind in every:
        found = _by_network(kind.errors)
        if len(found) < 2:
            continue
        scattered = [_variance(errors) for errors in found if len(errors) > 1]
        within = _mean(scattered) if scattered else 0.0
        own = _variance([_mean(errors) for errors in found]) - within * _mean([1 / len(errors) for errors in found])
        total += max(own, 0.0) * (len(found) - 1)
        freedom += len(found) - 1
    return total / freedom if freedom else 0.0


def of_kind(kind: ErrorKind, chip: str, us: float, between: float, *, lent: bool = False) -> Interval | None:
    """Return the interval around `us` on a chip from the kernels of a kind; None with fewer than two kernels.

    `between` is the variance of a network. It counts 1 + 1 / networks times, once more if the kind is `lent` to another (a
    kind's part), and 1 + 1 / chips times more if other chips are among them (a chip's part): assumed.
    """
    found = _multiples(kind, chip, us >= LONG_US, between, lent)
    return None if found is None else found.times(us)


def _multiples(kind: ErrorKind, chip: str, long: bool, between: float, lent: bool) -> Interval | None:
    """Return the interval of `of_kind` as multiples of the predicted time, which is `long` (`LONG_US`) or short; None with
    fewer than two kernels.

    The kernels are those of the same length and chip if there are eight, else those of the same length if there are eight, else
    all. `lent`: the kind is lent to another one, which widens the interval.
    """
    sized = kind.where(lambda _, one: (one.us >= LONG_US) == long)
    of = next((some for some in (sized.on(chip), sized) if some.kernels >= ENOUGH), kind)
    if of.kernels < _FEWEST:
        return None
    found = _by_network(of.errors)
    kernels, networks = of.kernels, len(found)
    both = found, [[one.left_out for one in rows] for rows in of.errors.values()]
    times = _student(kernels - 1, MADE)
    own = times * math.sqrt(max(map(_within, both)))
    if kernels >= MANY:
        own = min(own, max(map(_held, both)))
    chips = () if of.chips == (chip,) else of.chips
    shared = 1 + 1 / networks + lent + (1 + 1 / len(chips) if chips else 0)
    reach = math.sqrt(times**2 * between * shared + own**2 * (1 + 1 / kernels))
    middle = _mean(map(_mean, found))
    ends = math.exp(middle - reach), math.exp(middle + reach)
    return Interval(*ends, kernels, networks, chips, kind.name if lent else "")


def _mean(numbers: Iterable[float]) -> float:
    listed = list(numbers)
    return math.fsum(listed) / len(listed)


def _variance(numbers: Sequence[float]) -> float:
    """Return the sample variance (by n - 1) of two numbers or more; the module `statistics` has it too, but takes long to
    import.
    """
    middle = _mean(numbers)
    return math.fsum((one - middle) ** 2 for one in numbers) / (len(numbers) - 1)


def _by_network(errors: Errors) -> list[list[float]]:
    """Return a list for each network with the errors of its kernels by shipped costs."""
    return [[one.error for one in rows] for rows in errors.values()]


def _within(found: Sequence[Sequence[float]]) -> float:
    """Return the pooled variance of kernels around the means of their networks; 0 if each has one."""
    freedom = sum(map(len, found)) - len(found)
    squares = sum((error - _mean(errors)) ** 2 for errors in found for error in errors)
    return squares / freedom if freedom else 0.0


def _held(found: Sequence[Sequence[float]]) -> float:
    """Return the distance of kernel number ceil(LEVEL (n + 1)), by distance from the mean of its network, of the n kernels of
    `found`; the largest at most.
    """
    apart = sorted(abs(error - _mean(errors)) for errors in found for error in errors)
    return apart[min(math.ceil(LEVEL * (len(apart) + 1)), len(apart)) - 1]


def _student(freedom: int, level: float) -> float:
    """Return the quantile of Student's t with `freedom` degrees within which `level` lies, half on each side (Abramowitz and
    Stegun 26.7.5; for 80 and 85 % it is 4 and 7 % low at freedom 1).
    """
    z = 1.0
    for _ in range(9):  # Newton's method for the normal distribution, within which `level` lies
        z += (level - math.erf(z / math.sqrt(2))) / math.sqrt(2 / math.pi) * math.exp(z * z / 2)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def as_row(found: Interval) -> dict[str, Any]:
    """Return the interval as a dict of a report: "low_us" and "high_us" (four decimals), "kernels" and "networks".

    "chips" is there only if kernels of other chips count: the chips of all. "borrowed" is there only if the kernel's own kind
    was not measured: the kind that it is from.
    """
    row: dict[str, Any] = {
        "low_us": round(found.low_us, 4), "high_us": round(found.high_us, 4),
        "kernels": found.kernels, "networks": found.networks,
    }  # fmt: skip
    row |= {"chips": list(found.chips)} if found.chips else {}
    return row | ({"borrowed": found.borrowed} if found.borrowed else {})


def together(kernels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a dict with the 80 % interval of the summed time of kernels that have "task_us" and "interval": "of_us", "low_us",
    "high_us".

    Bounds are added, as if all errors went the same way. "unmeasured_us" is {operator without measured rows: us of its
    kernels}, "borrowed" {such an operator: the kind whose interval it has}, "other_chips_us" {names of chips: us of the kernels
    whose intervals were measured on these chips}.
    """
    rows = list(kernels)
    unmeasured: dict[str, float] = {}
    borrowed: dict[str, str] = {}
    other_chips: dict[str, float] = {}
    for row in rows:
        if "chips" in row["interval"]:
            chips = ", ".join(row["interval"]["chips"])
            other_chips[chips] = round(other_chips.get(chips, 0.0) + row["task_us"], 4)
        if "borrowed" in row["interval"]:
            unmeasured[row["op_type"]] = round(unmeasured.get(row["op_type"], 0.0) + row["task_us"], 4)
            borrowed[row["op_type"]] = row["interval"]["borrowed"]
    return {
        "of_us": round(sum(row["task_us"] for row in rows), 4),
        "low_us": round(sum(row["interval"]["low_us"] for row in rows), 4),
        "high_us": round(sum(row["interval"]["high_us"] for row in rows), 4),
        "unmeasured_us": unmeasured,
        "borrowed": borrowed,
        "other_chips_us": other_chips,
    }


def words(total: Mapping[str, Any]) -> str:
    """Return the result of `together` as one line: the time, both ends, and what is borrowed from other kinds or chips."""
    ends = f"{total['low_us']:,.1f} to {total['high_us']:,.1f} us"
    line = f"Uncertainty: {total['of_us']:,.1f} us, {100 * LEVEL:.0f} % interval {ends}"
    unmeasured = ", ".join(f"{name} {us:,.1f} us ({total['borrowed'][name]})" for name, us in total["unmeasured_us"].items())
    line += f"; not measured, so the nearest kind's interval, wider (assumed): {unmeasured}" if unmeasured else ""
    other_chips = "; ".join(f"{us:,.1f} us ({chips})" for chips, us in total["other_chips_us"].items())
    return line + (
        f"; few measured on this chip, so other chips count too, wider (assumed): {other_chips}" if other_chips else ""
    )
