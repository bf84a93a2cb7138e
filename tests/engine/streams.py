"""Kernels that only move data, after the asc-devkit data_copy sample, and what was measured with them.

The sample reads a 12288 x 12288 matrix of halves. Every core owns a contiguous share of the rows and walks it tile by
tile, columns inside; one instruction moves one tile, each to the same place, without a flag or a barrier. A run here may
take fewer rows of each share (a steady state needs no more) but never fewer cores. Beside it stand single transfers (the
msKPP curves) and the inner loop of the matmul sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

SIDE = 12288
ITEM = 2
KIB = 1024


@dataclass(frozen=True)
class Stream:
    """`tile` rows x columns per instruction into `destination`, from a matrix whose rows have `columns` and no padding.

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
        """The cores that have the destination."""
        return "AIV" if self.destination == "UB" else "AIC"


@dataclass(frozen=True)
class Measured:
    """What a profiler would say of a stream: times in us are means over the cores, bandwidths TB/s (1e12) of useful bytes."""

    useful_bytes: int
    hbm_bytes: int
    transfers: int
    mte2_us: float
    core_us: float

    @property
    def by_mte2(self) -> float:
        """Useful bytes over the busy time of MTE2."""
        return self.useful_bytes / self.mte2_us / 1e6

    @property
    def by_core(self) -> float:
        """Useful bytes over core time, start-up included."""
        return self.useful_bytes / self.core_us / 1e6

    @property
    def hit_ratio(self) -> float:
        """Part of the useful bytes that did not come from HBM (of tiles that are whole lines)."""
        return 1 - self.hbm_bytes / self.useful_bytes


def _program(table: InstructionTable, stream: Stream, block: int, share: int, size: int) -> tuple[Program, int]:
    """The program of one block, and the bytes that it asks for."""
    k = KernelBuilder(table, block, stream.core_kind, [size])
    tile_rows, tile_columns = stream.tile
    room = k.allocate(stream.destination, tile_rows * tile_columns * ITEM, "tile")
    pitch = stream.columns * ITEM
    part = stream.columns // stream.splits
    first_row = block * share
    useful = 0
    for split in range(stream.splits):
        end = (split + 1) * part
        for _ in range(stream.repeats):
            for row in range(first_row, first_row + (stream.rows or share), tile_rows):
                for column in range(split * part, end, tile_columns):
                    wide = min(tile_columns, end - column)
                    source = gm_operand(0, row * pitch + column * ITEM)
                    useful += tile_rows * wide * ITEM
                    if stream.destination == "UB":
                        k.data_copy("GM", "UB", room, source, wide * ITEM, tile_rows, pitch, tile_columns * ITEM)
                    else:
                        k.data_copy_nd2nz(room, source, tile_rows, wide, ITEM, pitch, tile_rows)
    return k.finish(), useful


def measure(chip: ChipSpec, stream: Stream, spread_us: float | None = None) -> Measured:
    """Run `stream` on all cores of its kind from a cold L2.

    `spread_us` is the time in which all blocks are dispatched, instead of what the chip's `launch.block_us` makes of it.
    """
    if spread_us is not None:
        count = chip.cores.aiv if stream.core_kind == "AIV" else chip.cores.aic
        launch = chip.launch.model_copy(update={"block_us": {stream.core_kind: spread_us / count}})
        chip = chip.model_copy(update={"launch": launch})
    device = Device(chip, with_values=False)
    cores = chip.cores.aiv if stream.core_kind == "AIV" else chip.cores.aic
    matrix = device.allocate(SIDE * stream.columns * ITEM, "matrix")
    table = InstructionTable(chip)
    built = [_program(table, stream, b, SIDE // cores, matrix.size) for b in range(cores)]
    task = Task("stream", "Stream", stream.core_kind, cores, [matrix], lambda block: [built[block][0]])
    engine = Engine(device)
    runs = engine.run([task]).of(0)
    assert engine.traffic is not None
    busy = float(np.mean([run.busy()["MTE2"] for run in runs]))
    core = float(np.mean([run.finish - run.launch for run in runs]))
    transfers = sum(int((run.program.per_row("pipe") == PIPES.index("MTE2")).sum()) for run in runs)
    useful = sum(asked for _, asked in built)
    return Measured(useful, engine.traffic.hbm_bytes, transfers, chip.us(busy), chip.us(core))


@dataclass(frozen=True)
class Row:
    """One line of the sample's tables: `measured` TB/s on 24 AIC or 48 AIV at 1850 MHz, by MTE2 or by core time.

    `sets` names the cost in the chip file that this row decided.
    """

    name: str
    stream: Stream
    measured: float
    by: str = "mte2"
    sets: str = ""

    def simulated(self, chip: ChipSpec, spread_us: float | None = None) -> float:
        """TB/s of the same kind in the simulator."""
        run = measure(chip, self.stream, spread_us)
        return run.by_mte2 if self.by == "mte2" else run.by_core


_UB_LARGE = Stream("UB", (64, 1024))
_L1_LARGE = Stream("L1", (64, 1024))
ROWS = (
    Row("UB, 1 x 128 B", Stream("UB", (1, 64), rows=1), 0.551, sets="paths.GM->UB.head"),
    Row("UB, 64 x 128 B", Stream("UB", (64, 64), rows=64), 1.368),
    Row("UB, 64 x 2 KB", _UB_LARGE, 1.490, sets="memory.hbm_efficiency"),
    Row("UB, 64 x 2 KB, unaligned", replace(_UB_LARGE, columns=12287), 1.166),
    Row("L1 nd2nz, 64 x 128 B", Stream("L1", (64, 64), rows=64), 1.065),
    Row("L1 nd2nz, 64 x 512 B", Stream("L1", (64, 256), rows=128), 1.408),
    Row("L1 nd2nz, 64 x 512 B, unaligned", Stream("L1", (64, 256), 12287, rows=128), 0.715),
    Row("UB, whole matrix x 4", replace(_UB_LARGE, repeats=4), 1.480, "core"),
    Row("UB, in 4 parts, each x 4", replace(_UB_LARGE, splits=4, repeats=4), 3.407, "core"),
    Row("L1 nd2nz, whole matrix x 4", replace(_L1_LARGE, repeats=4), 1.385, "core"),
    Row("L1 nd2nz, in 4 parts, each x 4", replace(_L1_LARGE, splits=4, repeats=4), 3.037, "core",
        sets="paths.GM->L1:nd2nz.bytes_per_cycle"),
)  # fmt: skip
"""asc-devkit data_copy README, the columns of Atlas A2."""

HITS = {"UB": 6.02, "L1": 5.04}
"""TB/s of the L2 hits in "in 4 parts, each x 4": 3/4 of the bytes over its time less 1/4 of that of "whole matrix x 4"
[derived]."""


def hit_bandwidth(whole: float, parts: float) -> float:
    """TB/s of L2 hits from the two bandwidths, by the derivation of `HITS`."""
    return 0.75 / (1 / parts - 0.25 / whole)


CURVES = {
    "GM->L1": {1: 172.8, 2: 192.3, 4: 234.1, 8: 236.8, 16: 294.7, 32: 372.8, 64: 623.2, 128: 945.0, 256: 1681.4},
    "UB->GM": {1: 150.7, 2: 155.3, 4: 181.1, 8: 237.4, 16: 316.2, 32: 506.8, 64: 992.8},
    "L0C->GM": {1: 82.6, 2: 82.0, 4: 80.0, 8: 85.2, 16: 135.1, 32: 272.8, 64: 559.0, 128: 1116.3},
}
"""Cycles per transfer by KiB: MindStudio mskpp resource910b.cpp, 910B1 tables at 1800 MHz, one core, L2 hits."""


def _run_alone(chip: ChipSpec, kind: str, build: object, tensors: int) -> ProgramRun:
    """One program on one core of an idle device whose tensors of 512 KiB lie in the L2."""
    device = Device(chip, with_values=False)
    held = [device.allocate(512 * KIB, f"tensor {i}") for i in range(tensors)]
    for tensor in held:
        device.warm(tensor)
    k = KernelBuilder(InstructionTable(chip), 0, kind, [tensor.size for tensor in held])
    build(k)  # type: ignore[operator]
    program = k.finish()
    return Engine(device).run([Task("alone", "Alone", kind, 1, held, lambda _: [program])]).programs[0]


def single_transfer(chip: ChipSpec, path: str, kib: int) -> tuple[int, int]:
    """(cycles of occupancy, cycles from start to retirement) of one transfer of `kib` KiB with nothing else under way."""

    def build(k: KernelBuilder) -> None:
        if path == "L0C->GM":  # fp32 out of one column of fractals: as many bytes leave as L0C holds
            rows = kib * KIB // 64
            k.fixpipe(gm_operand(0, 0), 0, rows, 16, rows, "float32", 16, rows * 64)
        elif path == "UB->GM":
            k.data_copy("UB", "GM", gm_operand(0, 0), 0, kib * KIB)
        else:
            k.data_copy("GM", "L1", 0, gm_operand(0, 0), kib * KIB)

    run = _run_alone(chip, "AIV" if path == "UB->GM" else "AIC", build, 1)
    return int(run.end[-1] - run.start[-1]), int(run.retire[-1] - run.start[-1])


@dataclass(frozen=True)
class Loop:
    """Cycles per step of the matmul sample's inner loop."""

    m_busy: float
    mte1_busy: float
    period: float


def matmul_loop(chip: ChipSpec, steps: int) -> Loop:
    """The sample's step on operands in L1: one load3d of 16 KB, four load2d of 8 KB, one fp16 Mmad 128 x 64 x 256."""

    def build(k: KernelBuilder) -> None:
        left = [k.allocate("L0A", 16 * KIB, f"l0a[{i}]") for i in range(2)]
        right = [k.allocate("L0B", 32 * KIB, f"l0b[{i}]") for i in range(2)]
        sums = k.allocate("L0C", 128 * KIB, "l0c")
        map_in_l1, weights_in_l1 = k.allocate("L1", 16 * KIB, "map"), k.allocate("L1", 32 * KIB, "weights")
        # A 1 x 1 kernel over one row of 128 pixels and 64 channels: img2col is the plain matrix.
        whole_map = ("L0A", ITEM, 1, 128, 1, 1, 1, 1, 1, 1, 0, 0, 1, 128, 0, 128, 0, 64)
        queue = BufferQueue(k, "l0", "MTE1", "M", [0, 1])
        for step in range(steps):
            half = queue.acquire()
            k.load_data_3d(whole_map, left[half], map_in_l1)
            for quarter in range(4):
                offset = quarter * 8 * KIB
                k.load_data_2d("L0B", right[half] + offset, weights_in_l1 + offset, ITEM, 16)
            queue.publish()
            half = queue.take()
            k.mmad(sums, left[half], right[half], 128, 64, 256, "float16", step > 0)
            queue.release()
        queue.close()

    run = _run_alone(chip, "AIC", build, 0)
    busy = run.busy()
    mmads = np.flatnonzero(run.program.per_row("pipe") == PIPES.index("M"))
    work = mmads[run.end[mmads] > run.start[mmads] + 500]
    period = (run.start[work[-1]] - run.start[work[0]]) / (len(work) - 1)
    return Loop(busy["M"] / steps, busy["MTE1"] / steps, float(period))
