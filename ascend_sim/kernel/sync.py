"""The methods of a `KernelBuilder` that order pipes and cores: flags, barriers, flags between cores."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import RowError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.sync import (
    ONE_VECTOR,
    SECOND_VECTOR,
    CrossCoreSetFlag,
    CrossCoreWaitFlag,
    PipeBarrier,
    ScalarWait,
    SetFlag,
    WaitFlag,
    WaitUnitFlag,
    cross_name,
)
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.inspection import Inspection, Notes
from ascend_sim.kernel.loops import StampedLoops
from ascend_sim.kernel.program import InstructionTable

CROSS_MODES = {0: "all cores of a kind", 1: "the vector cores of a block", 2: "a cube core and its vector cores"}
"""Cores that a cross-core flag joins, by mode, on every chip that has them."""
_ONE_VECTOR_MODE = {ONE_VECTOR: "a cube core and one of its vector cores"}


@frozen(eq=False)
class Flag:
    """A flag of one program, set by pipe `source` and waited for by `destination`; `identity` is its id within that pair."""

    name: str
    source: str
    destination: str
    identity: int


def _set_key(flag: Flag) -> Key:
    return SetFlag, flag.source, flag.destination, flag.identity


def _waits_for(key: Key, flag: Flag) -> bool:
    return key[0] in (WaitFlag, WaitUnitFlag) and key[1:4] == (flag.source, flag.destination, flag.identity)


class SyncMethods(StampedLoops):
    """Methods of a builder for flags, barriers and cross-core flags.

    Flags get ids by name; in a finished program each must have as many sets as waits.
    """

    if TYPE_CHECKING:
        chip: ChipSpec
        notes: Notes | None
        _index: dict[Key, int]
        _inspection: Inspection | None

        @property
        def _where(self) -> str: ...

        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...
        def _refuse(self, error: SimError, tool: str = "memcheck") -> None: ...
        def _check_pipe(self, pipe: str, what: str, scalar: bool = False) -> None: ...

    def __init__(self, table: InstructionTable, sizes: Sequence[int], disarm: Collection[str]) -> None:
        super().__init__(table, sizes)
        self._disarm = frozenset(disarm)
        self._flags: dict[str, Flag] = {}
        self._pairs: dict[tuple[str, str], int] = {}
        self._dropped: set[Flag] = set()

    def unit_flag(self, source: str, destination: str, name: str) -> Flag:
        """Return the unit flag `name` between two pipes for a tile of L0C, a new one at first use; later the pipes are not
        compared.

        Its ids never run out, for each fractal has a flag of its own. Raises SimError on a chip without unit flags, and at
        first use inside a stamped loop (a traced loop goes on as a plain one).
        """
        if not self.chip.has_unit_flag:
            raise SimError(f"{self.chip.name} ({self.chip.identity.arch}) has no unit flag (chip file, fixpipe.unit_flag)")
        known = self._flags.get(name)
        if known is None:
            self._outside_stamps(f"the first use of unit flag {name!r}")
            known = self._flags[name] = Flag(name, source, destination, self.chip.sync.flag_ids + len(self._flags))
            self._balance[known] = 0
        return known

    def flag(self, source: str, destination: str, name: str) -> Flag:
        """Return the flag of that name between two pipes, a new one at first use; ids are handed out in order and limited by
        the chip.

        Raises SimError for pipes other than at first use, and at first use for a pipe that the core lacks, a pipe with itself,
        a pair that the chip has no flags for, without a free id, and inside a stamped loop (a traced loop goes on as a plain
        one).
        """
        known = self._flags.get(name)
        if known is not None:
            if (known.source, known.destination) != (source, destination):
                raise SimError(
                    f"block {self.block} {self.core_kind}: flag {name!r} joins {known.source} and {known.destination}, "
                    f"not {source} and {destination}"
                )
            return known
        self._outside_stamps(f"the first use of flag {name!r}")
        for pipe in (source, destination):
            self._check_pipe(pipe, f"flag {name!r}", scalar=True)
        if source == destination:
            self._refuse(
                SimError(
                    f"block {self.block} {self.core_kind}: flag {name!r} joins {source} with itself; a flag orders two pipes, "
                    f"pipe_barrier({source!r}) orders one"
                ),
                "synccheck",
            )
        pairs = self.chip.sync.flag_pairs.get(self.core_kind)  # type: ignore[call-overload]
        if pairs is not None and source != destination and destination not in pairs.get(source, ()):
            kind, there = self.core_kind, ", ".join(pairs.get(source, ())) or "no pipe"
            self._refuse(
                SimError(
                    f"block {self.block} {kind}: flag {name!r} goes from {source} to {destination}; an {kind} of "
                    f"{self.chip.name} has flags from {source} to {there} (chip file, sync.flag_pairs: "
                    f"{self.chip.sync.flag_pairs_source})"
                ),
                "synccheck",
            )
        number = self._pairs.get((source, destination), 0)
        if number >= self.chip.sync.flag_ids:
            self._refuse(
                SimError(
                    f"block {self.block} {self.core_kind}: flag {name!r} is number {number + 1} from {source} to "
                    f"{destination}; the chip has {self.chip.sync.flag_ids} (chip {self.chip.name}, sync.flag_ids)"
                ),
                "synccheck",
            )
        self._pairs[source, destination] = number + 1
        flag = self._flags[name] = Flag(name, source, destination, number)
        self._balance[flag] = 0
        return flag

    def set_flag(self, flag: Flag) -> None:
        """Append a set of the flag.

        Raises SimError unless it is a flag of this program, from `flag` or `unit_flag`.
        """
        try:
            self._balance[flag] += 1
        except (KeyError, TypeError):  # TypeError: it cannot be a key
            raise self._no_flag("set_flag", flag) from None
        self._emit(_set_key(flag))

    def wait_flag(self, flag: Flag, lead: int | None = None) -> None:
        """Append a wait for a flag. With `lead`, for unit flags between M and FIX only, the wait may end that many cycles
        early.

        The lead should not exceed the work of the row before the set. The set may be issued later: other pipes go on. A wait
        for a disarmed flag holds nothing. Raises SimError as `set_flag`, and for a lead of another flag.
        """
        try:
            self._balance[flag] -= 1
        except (KeyError, TypeError):
            raise self._no_flag("wait_flag", flag) from None
        is_unit_flag = flag.identity >= self.chip.sync.flag_ids
        if lead is not None and not (is_unit_flag and {flag.source, flag.destination} == {"M", "FIX"}):
            raise SimError(
                f"block {self.block} {self.core_kind}: wait_flag of {flag.name!r} ({flag.source}->{flag.destination}) with "
                f"lead={lead}: only a unit flag has a lead, between M and FIX"
            )
        fields = (flag.source, flag.destination, flag.identity, flag.name not in self._disarm)
        self._emit((WaitFlag, *fields) if lead is None else (WaitUnitFlag, *fields, lead))

    def extend(self, rows: NDArray[np.int64], lines: NDArray[np.int32]) -> None:
        """Append rows (instruction, dst, src0, src1, tile) that were made elsewhere, unchecked, with the numbers of their
        source lines in `lines`, which count under inspection alone.

        Flags in them must be counted by `count_flag`.
        """
        self._sheet.written.frombytes(rows.astype(np.int64, copy=False).tobytes())
        if self.notes is not None:
            self.notes.rows.frombytes(lines.astype(np.int32, copy=False).tobytes())

    def count_flag(self, flag: Flag, sets: int) -> None:
        """Add `sets` to the balance of a flag, for rows made elsewhere; a wait counts as -1."""
        self._balance[flag] += sets

    def is_armed(self, flag: Flag) -> bool:
        """Return True unless the flag's name is in the launch's `disarm`; waits of a disarmed flag do not wait."""
        return flag.name not in self._disarm

    def _no_flag(self, method: str, given: object) -> SimError:
        return SimError(
            f"block {self.block} {self.core_kind}: {method}({given!r}): it takes a flag of this program, as "
            f"k.flag(source, destination, name) gives it"
        )

    def drop_set(self, flag: Flag) -> None:
        """Mark the flag's last set for removal from the finished program, if it has more sets than waits so far; one set of a
        flag at most.

        Raises SimError inside a stamped loop; a traced loop goes on as a plain one.
        """
        self._outside_stamps(f"drop of flag {flag.name!r}")
        if self._balance[flag] > 0:
            self._balance[flag] -= 1
            self._dropped.add(flag)

    def pipe_barrier(self, pipe: str) -> None:
        """Append a barrier: later work of a pipe begins when its earlier work has retired; "ALL": of any pipe, when all work
        has.

        Raises SimError for a pipe that the core lacks, and for S.
        """
        if pipe != "ALL":
            self._check_pipe(pipe, "pipe_barrier")
        self._emit((PipeBarrier, pipe))

    def scalar_wait(self, pipe: str) -> None:
        """Append a wait of the scalar unit until a pipe's earlier work has retired; nothing further is issued until then.

        Raises SimError for a pipe that the core lacks, and for S.
        """
        self._check_pipe(pipe, "scalar wait")
        self._emit((ScalarWait, pipe))

    def cross_core_set(self, flag: int, mode: int, pipe: str) -> None:
        """Raise a cross-core flag from `pipe`; `mode` says which cores it joins (CROSS_MODES).

        Raises SimError for a pipe that the core lacks, and for a flag or mode that the chip lacks or this core may not use;
        under inspection flag and mode are recorded instead and nothing is appended.
        """
        if self._check_cross(flag, mode, pipe):
            self._emit((CrossCoreSetFlag, flag, mode, pipe))

    def cross_core_wait(self, flag: int, mode: int, pipe: str) -> None:
        """Hold `pipe` until a cross-core flag is raised; its name to disarm it is `cross_name(flag)`.

        On chips with sync.cross_wait_stops_issue no pipe gets later instructions meanwhile. Raises SimError as
        `cross_core_set`; a wait for a disarmed flag holds nothing.
        """
        if self._check_cross(flag, mode, pipe):
            self._emit((CrossCoreWaitFlag, flag, mode, pipe, self.is_cross_armed(flag)))

    def is_cross_armed(self, flag: int) -> bool:
        """Return True unless the cross-core flag's name is in the launch's `disarm`; its waits then do not wait."""
        return cross_name(flag) not in self._disarm

    def _check_cross(self, flag: int, mode: int, pipe: str) -> bool:
        """Return True if the chip has the cross-core flag and mode for this core, and the core the pipe.

        Raises SimError otherwise; under inspection records a wrong flag or mode and returns False.
        """
        sync = self.chip.sync
        modes = CROSS_MODES | (_ONE_VECTOR_MODE if sync.cross_one_vector_ids else {})
        to_one = mode == ONE_VECTOR and mode in modes
        self._check_pipe(pipe, f"cross-core flag {flag}", scalar=to_one)  # mode 4 alone has S (CrossCoreSetFlag page)
        count, field = sync.cross_flag_ids, "sync.cross_flag_ids"
        cores = 1
        if to_one:
            count, field = sync.cross_one_vector_ids, "sync.cross_one_vector_ids"
            cores = self.chip.cores.aiv_per_aic if self.core_kind == "AIC" else 1
        ranges = [range(number * SECOND_VECTOR, number * SECOND_VECTOR + count) for number in range(cores)]
        if not isinstance(flag, int | np.integer) or not any(flag in one for one in ranges):
            there = " and ".join(f"{one[0]} to {one[-1]}" for one in ranges) if count else "none"
            text = f"cross-core flag {flag}: the chip has {there} (chip {self.chip.name}, {field})"
        elif mode not in modes:
            told = ", ".join(f"{number} ({words})" for number, words in modes.items())
            text = f"cross-core flag {flag}: mode {mode!r}; allowed are {told}"
        elif mode == 1 and self.core_kind == "AIC":
            text = f"cross-core flag {flag}: mode 1 joins {CROSS_MODES[1]}; this is a cube core"
        else:
            return True
        self._refuse(SimError(text), "synccheck")
        return False

    # -- what a program leaves open ------------------------------------------------------------------------------------

    def _check_all_taken(self) -> None:
        """Raise RowError for the first flag with more sets than waits, or fewer, at the last row with such a set or wait."""
        for flag, balance in self._balance.items():
            if not balance:
                continue
            what = f"{self._where}: flag {flag.name!r} ({flag.source}->{flag.destination}) is"
            if balance > 0:
                kinds = [self._index[_set_key(flag)]]
                text = f"still raised at the end of the block; sets without a wait: {balance}"
            else:
                kinds = [index for key, index in self._index.items() if _waits_for(key, flag)]
                text = (
                    f"waited for more often than set; waits without a set: {-balance}; {flag.destination} would wait for ever"
                )
            raise RowError(f"{what} {text}", max(last for _, _, last in self._sheet.last(kinds)))

    def _dropped_kinds(self) -> list[int]:
        """Return the numbers in the table of the set instructions whose last row is to be removed (`drop_set`)."""
        return [self._index[_set_key(flag)] for flag in self._dropped]
