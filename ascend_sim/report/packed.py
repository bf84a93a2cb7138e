"""All instructions of a run for a page: the columns of every block, packed; the page's script unpacks a block when it is seen.

A block is one run of bytes: its columns in the order of `columns_of`, each `rows` integers as LEB128 varints (signed ones
folded: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...), deflated with a zlib header, in base64. That is about one byte an instruction.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.critical_path import SCALAR_TIME, PathStep
from ascend_sim.engine.timeline import CAUSES, ProgramRun
from ascend_sim.isa.base import CROSS_WAIT, PIPES, WAIT
from ascend_sim.isa.sync import SetFlag, WaitFlag
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.report.colors import COLORS, STALL_COLORS
from ascend_sim.report.counts import bytes_of
from ascend_sim.report.lines import line_table
from ascend_sim.runtime import Recording

LIMIT = 4 << 20
"""Most bytes of packed blocks in a page by default: with the script that draws figures it stays below 10 MB."""
_OPERANDS = ("dst", "src0", "src1")
_STILL = {WAIT: "flag", CROSS_WAIT: "cross-core"}
"""Cause of a stall by the kind of row that is not work: it is drawn as standing still."""


class PackedBlocks:
    """All blocks of a run, packed as plain data for a page; those whose numbers are in `first` come before the others.

    From the block on that goes beyond `limit` bytes (None: no limit) all are left out, never the first; `left_out` counts them.
    `path` is the critical path, which the data mark.
    """

    def __init__(
        self, recording: Recording, path: Sequence[PathStep], first: Iterable[int] = (), limit: int | None = LIMIT
    ) -> None:
        self._recording = recording
        self._tables: dict[int, int] = {}
        self._told: list[list[Any]] = []
        critical: dict[int, set[int]] = {}  # rows on the critical path, by program
        for step in path:
            if step.program >= 0 and step.what in (*PIPES, SCALAR_TIME):
                critical.setdefault(step.program, set()).add(step.row)
        runs = recording.timeline.programs
        self._lines, of_rows = line_table([run.program for run in runs])
        order = dict.fromkeys([*first, *range(len(runs))])
        self.blocks: dict[int, str] = {}
        size = 0
        for index in order:
            text = _packed(runs[index], sorted(critical.get(index, ())), of_rows[index])
            size += len(text)
            if self.blocks and limit is not None and size > limit:
                break
            self.blocks[index] = text
        self.left_out = len(runs) - len(self.blocks)

    def to_dict(self) -> dict[str, Any]:
        """Return the blocks with chip, tasks, tables and source lines as plain data for `timeline.js`."""
        chip, timeline = self._recording.chip, self._recording.timeline
        blocks = [self._block(index, timeline.programs[index], data) for index, data in sorted(self.blocks.items())]
        return {
            "mhz": chip.clock.cube_mhz,
            "origin": timeline.launch,
            "tasks": [run.task for run in timeline.programs],
            "pipes": PIPES,
            "causes": CAUSES,
            "colors": {name: COLORS[name] for name in PIPES},
            "stalls": STALL_COLORS,
            "tensors": [[tensor.name for tensor in task.tensors] for task in self._recording.tasks],
            "tables": self._told,
            "lines": [f"{line.place}  {line.text}" for line in self._lines],
            "blocks": blocks,
        }

    def _block(self, index: int, run: ProgramRun, data: str) -> dict[str, Any]:
        program = run.program
        if id(program.table) not in self._tables:
            self._tables[id(program.table)] = len(self._told)
            self._told.append(instruction_entries(program.table))
        return {
            "index": index,
            "task": run.task,
            "name": program.where,
            "core": f"{program.core_kind} {run.core}",
            "begin": run.begin,
            "finish": run.finish,
            "rows": len(program),
            "table": self._tables[id(program.table)],
            "flags": {f"{a} {b} {number}": name for name, (a, b, number) in program.flags.items()},
            "data": data,
        }


def instruction_entries(table: InstructionTable) -> list[dict[str, Any]]:
    """Return a dict for every distinct instruction of a table: "name", "fields" (its parameters as a text), "pipe" (its
    number), "bytes", "spaces" of its operands and "path".

    A SetFlag or WaitFlag also has "flag", and the latter "waits" (False if it is disarmed). "idle" of an instruction that is
    not work names the stall that it counts as, "" for any other than a wait for a flag.
    """
    told = []
    for place, instruction in enumerate(table.instructions):
        spaces = {one.operand: one.space for one in (*instruction.reads(), *instruction.writes())}
        one: dict[str, Any] = {
            "name": instruction.name,
            "fields": ", ".join(f"{name}={value}" for name, value in instruction.parameters().items()),
            "pipe": table.pipes[place],
            "bytes": bytes_of(table, place),
            "spaces": [spaces.get(name, "") for name in _OPERANDS],
            "path": instruction.path(),
        }
        if isinstance(instruction, SetFlag | WaitFlag):
            one["flag"] = f"{instruction.source} {instruction.destination} {instruction.flag}"
            if isinstance(instruction, WaitFlag):
                one["waits"] = table.kinds[place] == WAIT
        if not instruction.at_work:
            one["idle"] = _STILL.get(table.kinds[place], "")
        told.append(one)
    return told


def columns_of(run: ProgramRun) -> dict[str, NDArray[np.int64]]:
    """Return {name: column} of a block before packing, a number for each row; most are differences, of which most are 0."""
    program = run.program
    instruction, pipe = program.rows[:, 0], program.per_row("pipe")
    free = np.zeros(len(program), np.int64)
    for number in range(len(PIPES)):
        rows = np.flatnonzero(pipe == number)
        if len(rows):
            free[rows] = np.concatenate(([run.begin], run.end[rows[:-1]]))
    addresses = {}
    for place, name in enumerate(_OPERANDS, 1):
        column = program.rows[:, place]
        addresses[f"{name} slot"] = _since_last(column >> SLOT_SHIFT, instruction)
        addresses[name] = _since_last(column & OFFSET_MASK, instruction)
    return {
        "instruction": instruction,
        "gap": run.start - free,
        "length": run.end - run.start,
        "latency": run.retire - run.end,
        "cause": run.cause,
        "tile": np.diff(program.rows[:, 4], prepend=0),
        **addresses,
        "l2_wait": run.l2_wait,
        "hbm_wait": run.hbm_wait,
        "hbm_bytes": run.hbm_bytes,
    }


def varints(values: NDArray[np.int64]) -> bytes:
    """Return signed integers as LEB128 bytes, one after the other; small numbers of either sign are short."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    bits = [folded >> np.uint64(shift) for shift in range(0, 64, 7)]
    length = np.ones(len(values), np.int64)
    for one in bits[1:]:
        length += one > 0
    ends = np.cumsum(length)
    made = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for place, one in enumerate(bits):
        rows = np.flatnonzero(length > place)
        more = np.where(length[rows] > place + 1, 128, 0).astype(np.uint8)
        made[(ends - length)[rows] + place] = (one[rows] & np.uint64(127)).astype(np.uint8) | more
    return made.tobytes()


def _packed(run: ProgramRun, critical: Sequence[int], lines: NDArray[np.int64]) -> str:
    columns = [*columns_of(run).values(), np.asarray([len(critical)], np.int64), np.diff(critical, prepend=0)]
    columns.append(np.diff(lines, prepend=0))
    return base64.b64encode(zlib.compress(b"".join(varints(np.asarray(one, np.int64)) for one in columns), 9)).decode()


def _since_last(column: NDArray[np.int64], instruction: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the difference of every value from that of the last row with the same instruction; the first such row keeps its
    value.
    """
    order = np.argsort(instruction, kind="stable")
    sorted_by, values = instruction[order], column[order]
    difference = values.copy()
    difference[1:] -= np.where(sorted_by[1:] == sorted_by[:-1], values[:-1], 0)
    back = np.empty_like(difference)
    back[order] = difference
    return back
