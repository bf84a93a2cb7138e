"""A case under many settings: every combination of the varied fields, each a row with times, buffers and errors.

    found = ascend_sim.sweep("strided", {"baseM": [64, 128], "chip": ["ascend910b3", "ascend910a"]})
    found.best, found.rows, found.front("us", "l1")

A point that is refused is a row with its reason. Finished points are kept in a store as they come (`out`): a sweep that was
killed goes on where it was, and two processes share the work of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Any, Unpack

from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case
from ascend_sim.options.description import with_options
from ascend_sim.report.shown import ShownResult
from ascend_sim.runtime import Progress
from ascend_sim.settings import check_options
from ascend_sim.studies.points import finish_all
from ascend_sim.studies.pools import Cluster, Failed, Pool, Processes
from ascend_sim.studies.store import RESULTS, Store
from ascend_sim.studies.sweep.fields import Draft, SweepField, field_of
from ascend_sim.studies.sweep.options import SweepOptions
from ascend_sim.studies.sweep.point import LARGER_IS_BETTER, SweepPoint, measure
from ascend_sim.studies.sweep.values import MOST_POINTS, grouped

ROOM = "studies.sweep"
Row = Mapping[str, Any]


@frozen(repr=False)
class Sweep(ShownResult):
    """Result of `sweep`, each point a row: the varied fields, "status" (0: ran), "reason", and the columns of `measure`.

    Rows are in the order of the combinations, the last field running fastest. `reused` points were in the store. An
    interrupted sweep is not `complete`: it has the finished rows.
    """

    case: str
    fields: tuple[str, ...]
    rows: tuple[Row, ...]
    reused: int = 0
    complete: bool = True
    tile: bool = False
    l2: str = "cold"
    """State of the L2 before each point; "" where it is varied."""

    _drawn = "ascend_sim.studies.sweep.pages:render"

    @property
    def ran(self) -> list[Row]:
        """Return the rows whose status is 0."""
        return [row for row in self.rows if row["status"] == 0]

    @property
    def best(self) -> Row | None:
        """Return the row with the shortest time; None where no point ran."""
        return min(self.ran, key=lambda row: row["us"], default=None)

    @property
    def columns(self) -> list[str]:
        """Return the names of all columns that some row has, the varied fields first."""
        return list(dict.fromkeys([*self.fields, *(name for row in self.rows for name in row)]))

    def numeric(self, column: str) -> list[Row]:
        """Return the rows that ran and have a number in `column`. Raises SimError where no row has one."""
        found = [row for row in self.ran if _is_number(row.get(column))]
        if not found:
            there = [name for name in self.columns if any(_is_number(row.get(name)) for row in self.ran)]
            raise SimError(f"no row has a number in column {column!r}; there are {', '.join(there) or 'none'}")
        return found

    def front(self, first: str = "us", second: str = "l1") -> list[Row]:
        """Return the Pareto front of two columns: the rows that no other beats in one without being worse in the other,
        the best by `first` first.

        Less is better, but more for columns that end in "tflops" or "efficiency". Rows without a number in both are left out,
        of equal ones the first is kept. Raises SimError for a column without numbers.
        """
        signs = [-1 if column.endswith(LARGER_IS_BETTER) else 1 for column in (first, second)]
        both = [row for row in self.numeric(first) if row in self.numeric(second)]
        ordered = sorted(both, key=lambda row: (signs[0] * row[first], signs[1] * row[second]))
        found: list[Row] = []
        for row in ordered:
            if not found or signs[1] * row[second] < signs[1] * found[-1][second]:
                found.append(row)
        return found

    @property
    def unchanged(self) -> bool:
        """Return True if every cube kernel had one and the same tiling at all points that ran; False if some of them lack a
        kernel that others have.
        """
        of_cube = [name for name in self.columns if name.endswith("_tiling")]
        return all(len({row.get(name) for row in self.ran}) == 1 for name in of_cube)

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain data: "case", "fields", "complete", "tile", "l2", the numbers of "points" and of "refused"
        ones, and all "rows".
        """
        return {
            "case": self.case,
            "fields": list(self.fields),
            "complete": self.complete,
            "tile": self.tile,
            "l2": self.l2,
            "points": len(self.rows),
            "refused": len(self.rows) - len(self.ran),
            "rows": [dict(row) for row in self.rows],
        }

    def __repr__(self) -> str:
        best = f", best {self.best['us']:,.2f} us" if self.best else ""
        return f"<Sweep of {self.case} over {', '.join(self.fields)}: {len(self.rows)} points{best}>"


@with_options(SweepOptions)
def sweep(
    case: str | Path | Case,
    vary: Mapping[str, Any],
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    **options: Unpack[SweepOptions],
) -> Sweep:
    """Run a case under every combination of `vary`, which maps a field to its values, or to one.

    Fields with commas between them vary together: {"chip.cores.aic,chip.cores.aiv": [(24, 48), (20, 40)]} is two settings.

    A field is one of a case file ("stride", "cube_math_type", "data.seed"), a size of the layer ("batch", "in_channels",
    "kernel_size", ...), a tiling field of a cube kernel ("baseM" of each that has it, "grad_input.baseM"), "chip", or a number
    of the chip ("chip.memory.hbm_gb_per_s"). `out` is a folder with the store. `jobs` processes share the points, or the
    workers of the Dask `scheduler` ("tcp://HOST:PORT"). An interrupt (Ctrl-C) ends it with the finished points; before the
    first one it is raised.

    Raises ConfigError for an unknown field, a field or value that is missing or given twice, more than 100,000 points, and if
    every combination has values that are not allowed or do not fit together; SimError for a store, a scheduler or a file of
    values that cannot be used.
    """
    how = SweepOptions(**options)
    check_options(SweepOptions, {name: value for name, value in how.items() if value is not None})
    named = case if isinstance(case, Case) else load_case(case)
    base = chip_of(how["chip"] or named.chip)
    if not isinstance(vary, Mapping):
        raise ConfigError(f"vary: {type(vary).__name__} given; allowed is a mapping of fields to values, {{'batch': [1, 2]}}")
    values = grouped(vary)
    _check_values(values)
    fields = {name: field_of(name, named, base) for group in values for name in group}
    rows: list[dict[str, Any]] = []
    points: dict[str, SweepPoint] = {}
    for combination in product(*values.values()):
        row = dict(zip(fields, chain.from_iterable(combination), strict=True))
        made = _point(named, base, fields, row, how)
        if isinstance(made, SweepPoint):
            points.setdefault(made.name, made)
            row["point"] = made.name
        else:
            row |= made
        rows.append(row)
    if not points:
        raise ConfigError(f"no point can run, of {len(rows)}: {rows[0]['reason']}")
    pool: Pool = Processes(min(jobs, max(len(points), 1))) if scheduler is None else Cluster(scheduler, ROOM)
    store = Store({"study": "sweep"}, None if out is None else Path(out) / RESULTS, room=ROOM)
    done = finish_all(store, points, measure, pool, "sweep", progress)
    told = []
    for row in rows:
        own = {field: value.name if isinstance(value, ChipSpec) else value for field, value in row.items() if field != "point"}
        data = done.results.get(row["point"]) if "point" in row else {}
        if data is not None:  # None: interrupted before it was run
            told.append({**own, **({"status": None, "reason": data.why} if isinstance(data, Failed) else data)})
    name = case if isinstance(case, str) else "case" if isinstance(case, Case) else Path(case).stem
    l2 = "" if "l2" in fields else named.l2
    return Sweep(str(name), tuple(fields), tuple(told), done.reused, done.complete, how["tile"], l2)


def _point(
    case: Case, chip: ChipSpec, fields: Mapping[str, SweepField], values: Mapping[str, Any], how: SweepOptions
) -> SweepPoint | dict[str, Any]:
    """Return the point with those values of the fields, not run; {"status": None, "reason": ...} where a value is not allowed
    or they do not fit together.
    """
    try:
        draft = Draft.of(case, chip)
        for name, value in values.items():
            fields[name].put(draft, value)
        return SweepPoint(*draft.made(), how["mode"], how["tile"], how["library"])
    except ConfigError as error:
        return {"status": None, "reason": str(error)}


def _check_values(values: Mapping[tuple[str, ...], Sequence[Sequence[Any]]]) -> None:
    """Raise ConfigError for a sweep without fields, for a field without values or with one twice, and for more than 100,000
    points.
    """
    if not values:
        raise ConfigError("nothing is varied: give at least one field, for example --vary batch=1:64:*2")
    for name, given in ((",".join(group), given) for group, given in values.items()):
        if not given:
            raise ConfigError(f"--vary {name}: no value given")
        if len({repr(value) for value in given}) < len(given):
            raise ConfigError(f"--vary {name}: a value is given twice")
    count = prod(len(given) for given in values.values())
    if count > MOST_POINTS:
        raise ConfigError(f"{count:,} points; allowed are at most {MOST_POINTS:,}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
