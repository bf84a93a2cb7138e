"""Streaming kernels after the asc-devkit data_copy sample: a matrix of halves dealt to all cores, GM -> UB or GM -> L1.

As in the sample every core owns a contiguous share of the rows and walks it tile by tile, columns inside; one instruction
moves one tile, all into the same place, with no flag and no barrier between them. What differs is stated by `Stream`:
a run may take fewer rows per core than the sample (a steady state needs no more), never fewer cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand

SIDE = 12288
"""Rows of the sample's matrix, and its columns where rows are aligned."""
ITEM = 2


@dataclass(frozen=True)
class Stream:
    """`tile` rows x columns per instruction into `destination`; `columns` of the matrix, of which a row has no padding.

    `rows` of each core's share are walked (None: all). `splits` cuts the columns into that many parts, each of which is
    walked `repeats` times before the next.
    """

    destination: str
    tile: tuple[int, int]
    columns: int = SIDE
    rows: int | None = None
    splits: int = 1
    repeats: int = 1

    @property
    def core_kind(self) -> str:
        return "AIV" if self.destination == "UB" else "AIC"


@dataclass(frozen=True)
class Measured:
    """What a profiler would say of a stream: means over the cores, TB/s (1e12) of useful bytes, and L2 line counts."""

    useful_bytes: int
    mte2_us: float
    core_us: float
    lines: int
    missed: int
    transfers: int

    @property
    def by_mte2(self) -> float:
        """Useful bytes over busy MTE2 time."""
        return self.useful_bytes / self.mte2_us / 1e6

    @property
    def by_core(self) -> float:
        """Useful bytes over core time, start-up included."""
        return self.useful_bytes / self.core_us / 1e6

    @property
    def hit_ratio(self) -> float:
        """Lines found in the L2 over lines touched."""
        return 1 - self.missed / self.lines


def _program(table: InstructionTable, stream: Stream, block: int, share: int, size: int) -> Program:
    k = KernelBuilder(table, block, stream.core_kind, [size])
    tile_rows, tile_columns = stream.tile
    room = k.allocate(stream.destination, tile_rows * tile_columns * ITEM, "tile")
    pitch = stream.columns * ITEM
    part = stream.columns // stream.splits
    first_row = block * share
    for split in range(stream.splits):
        for _ in range(stream.repeats):
            for row in range(first_row, first_row + (stream.rows or share), tile_rows):
                for column in range(split * part, (split + 1) * part, tile_columns):
                    wide = min(tile_columns, (split + 1) * part - column)
                    source = gm_operand(0, row * pitch + column * ITEM)
                    if stream.destination == "UB":
                        k.data_copy("GM", "UB", room, source, wide * ITEM, tile_rows, pitch, tile_columns * ITEM)
                    else:
                        k.data_copy_nd2nz(room, source, tile_rows, wide, ITEM, pitch, tile_rows)
    return k.finish()


def measure(chip: ChipSpec, stream: Stream, *, warm: bool = False) -> Measured:
    """Run `stream` on all cores of its kind of `chip`; `warm`: the matrix is in the L2 as far as it fits."""
    device = Device(chip, with_values=False)
    cores = chip.cores.aiv if stream.core_kind == "AIV" else chip.cores.aic
    share = SIDE // cores
    matrix = device.allocate(SIDE * stream.columns * ITEM, "matrix")
    if warm:
        device.warm(matrix)
    table = InstructionTable(chip)
    task = Task(
        "stream", "Stream", stream.core_kind, cores, [matrix],
        lambda block: [_program(table, stream, block, share, matrix.size)],
    )  # fmt: skip
    engine = Engine(device)
    timeline = engine.run([task])
    runs = timeline.of(0)
    traffic = engine.traffic
    useful = sum(sum(r.total for r in p.instruction.reads()) for p in ())
    for run in runs:
        bytes_of = np.array([sum(r.total for r in i.reads()) for i in table.instructions])
        useful += int(bytes_of[run.program.rows[:, 0]].sum())
    busy = float(np.mean([run.busy()["MTE2"] for run in runs]))
    core = float(np.mean([run.finish - run.launch for run in runs]))
    return Measured(useful, chip.us(busy), chip.us(core), 1, 0, sum(len(r.program) for r in runs))
