"""Values of programs: their buffers and tensors, and findings on reads of bytes that were never written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.engine.shown_rows import ShownRows
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.vector import Gather
from ascend_sim.kernel.program import Program
from ascend_sim.memory.local import LocalMemory
from ascend_sim.memory.regions import Region, row_starts
from ascend_sim.numerics.distinct import distinct

_PLACE = {"dst": 0, "src0": 1, "src1": 2, "": 3}
"""Operand -> its index in the addresses of a row; a region without an operand counts from address 0."""
_Regions = list[tuple[int, Region]]
_Plan = tuple[_Regions, _Regions, _Regions]


@frozen
class Access:
    """One of the two accesses of a Clash: its program (`order_of`), its row, and True if it writes."""

    program: int
    row: int
    writes: bool


@frozen
class Clash:
    """Two accesses to bytes `low` to `high` - 1 of `space`: `late` begins at cycle `start`, `early` retires at `retire`."""

    early: Access
    late: Access
    space: str
    low: int
    high: int
    start: int
    retire: int


@frozen
class Finding:
    """One fault that a run noticed: `kind` is "hazard" or "uninitialised"; `text` names core, instruction and bytes; `level` is
    "WARNING" for one with which a run passes.

    `clash` has the two accesses of a hazard; None otherwise, and in the one that counts the hazards beyond the limit.
    """

    kind: str
    task: str
    text: str
    level: str = field(default="ERROR", kw_only=True)
    clash: Clash | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def of_unwritten(self) -> bool:
        """Return True for a read of bytes of a buffer that nothing wrote."""
        return self.kind == "uninitialised"

    def harmless(self, why: str) -> Self:
        """Return the finding as a warning, for the reason `why`."""
        return replace(self, level="WARNING")


class BlockShadow:
    """Cache of the 32-byte blocks that regions cover, by region and alignment."""

    def __init__(self) -> None:
        self._known: dict[tuple[Region, int], np.ndarray | slice] = {}

    def blocks(self, region: Region, address: int) -> np.ndarray | slice:
        """Return the numbers of the 32-byte blocks that a region covers at byte `address`: a slice for one row, or an array."""
        if region.rows == region.planes == 1:
            begin = address + region.offset
            return slice(begin // BLOCK_BYTES, -(-(begin + region.row_bytes) // BLOCK_BYTES))
        phase = address % BLOCK_BYTES
        key = (region, phase)
        known = self._known.get(key)
        if known is None:
            merged = region.simplified()
            starts = row_starts(merged) + phase
            first, last = starts // BLOCK_BYTES, (starts + merged.row_bytes - 1) // BLOCK_BYTES
            counts = last - first + 1
            offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            known = self._known[key] = distinct(np.repeat(first, counts) + offsets)
        return known + address // BLOCK_BYTES if not isinstance(known, slice) else known


def local_memory(chip: ChipSpec, kind: str) -> LocalMemory:
    """Return new, unwritten buffers for a core of `kind`."""
    return LocalMemory({name: chip.buffers[name] for name in chip.cores.kinds[kind].buffers})  # type: ignore[index]


class ProgramValues:
    """The memory of one program; reads of local bytes that were never written become `findings`.

    Raises ValueError for tensors without bytes.
    """

    def __init__(
        self,
        task: Task,
        program: Program,
        chip: ChipSpec,
        findings: list[Finding],
        shadow: BlockShadow,
        model: ValueModel | None = None,
        local: LocalMemory | None = None,
    ) -> None:
        self.task = task
        self.program = program
        self.local = local_memory(chip, program.core_kind) if local is None else local
        gm = []
        for tensor in task.tensors:
            if tensor.memory is None:
                raise ValueError(f"{tensor.name} has no bytes: values need a device with values")
            gm.append(tensor.memory)
        self.memory = Memory(self.local, gm, model or ValueModel.of(chip))
        self._findings = findings
        self._shadow = shadow
        self._plans: dict[int, _Plan] = {}
        self._local: dict[int, tuple[int, int, int]] = {}
        self._started: set[tuple[int, int, int, int]] = set()
        self._retired: set[tuple[int, int, int, int]] = set()
        self._astray: set[tuple[int, int, int, int]] = set()

    def run_again(self, local: LocalMemory) -> None:
        """Reset for another run of the program on the unwritten buffers `local`; GM and the findings so far stay."""
        self.local = local
        self.memory = Memory(local, self.memory.gm, self.memory.model)
        self._started.clear()
        self._retired.clear()
        self._astray.clear()

    def _prepare(self, argument: int) -> None:
        """Store the local regions of instruction number `argument`: those read at its start, those read at its retirement, and
        those written.

        Accumulators are read late: the cube interlocks its additions to an L0C tile. Sources from which values choose are left
        out; `at_start` checks the chosen elements.
        """
        instruction = self.program.table.instructions[argument]
        local = [(_PLACE[r.operand], r) for r in instruction.reads() if r.space != "GM"]
        early = [(place, region) for place, region in local if place != 0 and region.operand != instruction.chooses]
        late = [(place, region) for place, region in local if place == 0]
        writes = [(_PLACE[r.operand], r) for r in instruction.writes() if r.space != "GM"]
        places = {place for place, _ in (*local, *writes)}
        self._plans[argument] = (early, late, writes)
        self._local[argument] = (int(0 in places), int(1 in places), int(2 in places))

    def key(self, argument: int, dst: int, src0: int, src1: int) -> tuple[int, int, int, int]:
        """Return (instruction number, its three addresses, 0 for those that are not in a buffer).

        Reads are checked once for each key, because bytes stay written.
        """
        if argument not in self._local:
            self._prepare(argument)
        m0, m1, m2 = self._local[argument]
        return argument, dst * m0, src0 * m1, src1 * m2

    def at_start(self, row: int, key: tuple[int, int, int, int]) -> None:
        """Check the reads at an instruction's start, once for each `key`; unwritten bytes are a finding at `row`.

        Elements that values choose are checked each time, and are one finding for each `key`.
        """
        if key not in self._started:
            self._started.add(key)
            self._check(row, self._plans[key[0]][0], (*key[1:], 0))
        instruction = self.program.table.instructions[key[0]]
        if isinstance(instruction, Gather) and key not in self._astray:
            blocks, written = (key[2] + instruction.chosen(self.memory, key[3])) // BLOCK_BYTES, self.local.written["UB"]
            if self._unwritten(row, "UB", written[distinct(blocks[blocks < len(written)])]):
                self._astray.add(key)

    def at_retirement(self, row: int, key: tuple[int, int, int, int]) -> None:
        """Check the bytes into which an instruction accumulates, and mark the bytes that it writes; once for each `key`."""
        if key not in self._retired:
            self._retired.add(key)
            _, late, writes = self._plans[key[0]]
            addresses = *key[1:], 0
            self._check(row, late, addresses)
            for place, region in writes:
                self.local.written[region.space][self._shadow.blocks(region, addresses[place])] = True

    def _check(self, row: int, reads: Sequence[tuple[int, Region]], addresses: Sequence[int]) -> None:
        """Record a finding for each of the local regions `reads` with bytes that were never written."""
        for place, region in reads:
            self._unwritten(row, region.space, self.local.written[region.space][self._shadow.blocks(region, addresses[place])])

    def _unwritten(self, row: int, space: str, written: NDArray[np.bool_]) -> bool:
        """Record a finding for a row and return True unless all blocks that it reads were `written`."""
        if written.all():
            return False
        missing = int(written.size - np.count_nonzero(written)) * BLOCK_BYTES
        text = f"{self.program.where}: {self.program[row]} reads {missing} bytes of {space} that were never written"
        self._findings.append(Finding("uninitialised", self.task.name, text))
        return True


def raise_fault(error: Exception, values: ProgramValues, row: int) -> NoReturn:
    """Raise `error`, met while computing a row's values, as SimError with core, line and row; a fault of the simulator
    unchanged.
    """
    program = values.program
    instruction = program.table.instructions[program.rows[row][0]]
    if not isinstance(error, SimError) and type(instruction).__module__.split(".")[0] == "ascend_sim":
        raise error
    where = f"{values.task.name}: {program.where}: {ShownRows().shown(values.task, program, row)}"
    if isinstance(error, SimError):
        raise SimError(f"{where}: {error}") from error
    raise SimError(f"{where}: its values: {type(error).__name__}: {error}") from error
