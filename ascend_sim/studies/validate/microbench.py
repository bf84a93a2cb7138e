"""Small programs like those that published bandwidths and transfer curves were measured with.

Streams and the vector add follow the descriptions of the asc-devkit samples `data_copy` and `add_high_performance`, single
transfers those of MindStudio msKPP's tables. `launches` runs them for the rows of `configs/measurements`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL_BYTES
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

STREAMS = {"GM->UB": "UB", "GM->L1:nd2nz": "L1"}
"""Paths of streams and where they lead."""

HALF = 2
"""Bytes of an fp16 element: streams and the add are of halves."""
KIB = 1024
STEADY = 192
"""Instructions of each core after which a longer stream measures nothing new."""
TENSOR = 512 * KIB
"""Bytes in GM that a single transfer may touch; they lie in the L2."""


@frozen
class MatrixStream:
    """Program in which all cores read a `rows` x `columns` matrix of halves without padding, `tile` rows x columns an
    instruction.

    Every core owns a contiguous share of the rows and walks it tile by tile, columns inside, each tile to the same place of
    `destination`, without a flag or a barrier. `splits` cuts the columns into that many parts, each of which is walked
    `repeats` times before the next. `walked` rows of each share are run (None: all): a steady state needs no more.
    """

    destination: str
    tile: tuple[int, int]
    rows: int = 12288
    columns: int = 12288
    walked: int | None = None
    splits: int = 1
    repeats: int = 1

    @property
    def core_kind(self) -> str:
        """Return the kind of core that has the destination buffer: AIV for UB, else AIC."""
        return "AIV" if self.destination == "UB" else "AIC"

    def cores(self, chip: ChipSpec) -> int:
        """Return the number of cores of `core_kind` on the chip."""
        return chip.cores.aiv if self.core_kind == "AIV" else chip.cores.aic

    @property
    def useful_bytes(self) -> int:
        """Return the bytes of the whole matrix, times `repeats`."""
        return self.rows * self.columns * HALF * self.repeats

    def shortened(self, cores: int) -> MatrixStream:
        """Return the stream cut to the rows that a steady state needs: at least 192 instructions of each core.

        A stream that reads its matrix again, or has no more rows than that, is returned itself.
        """
        height, width = self.tile
        steps = -(-STEADY // -(-self.columns // width)) * height
        if self.repeats > 1 or steps >= self.rows // cores:
            return self
        return replace(self, walked=steps)


@frozen
class Measured:
    """Figures of a stream as a profiler prints them.

    Times in us are means over the cores; bandwidths in TB/s (1e12) count useful bytes.
    """

    useful_bytes: int
    hbm_bytes: int
    mte2_us: float
    core_us: float

    @property
    def by_mte2(self) -> float:
        """Return the useful bytes over the busy time of MTE2, in TB/s."""
        return self.useful_bytes / self.mte2_us / 1e6

    @property
    def by_core(self) -> float:
        """Return the useful bytes over the cores' time, start-up included, in TB/s."""
        return self.useful_bytes / self.core_us / 1e6


def _program(table: InstructionTable, stream: MatrixStream, block: int, share: int, size: int) -> tuple[Program, int]:
    """Return (program of one block, useful bytes that it reads); `share` is the block's rows, of which it reads `stream.walked`
    (None: all), and `size` the bytes of the whole matrix.
    """
    k = KernelBuilder(table, block, stream.core_kind, [size])
    tile_rows, tile_columns = stream.tile
    room = k.allocate(stream.destination, tile_rows * tile_columns * HALF, "tile")
    pitch = stream.columns * HALF
    part = stream.columns // stream.splits
    first_row = block * share
    useful = 0
    for split in range(stream.splits):
        end = (split + 1) * part
        for _ in range(stream.repeats):
            for row in range(first_row, first_row + (stream.walked or share), tile_rows):
                for column in range(split * part, end, tile_columns):
                    wide = min(tile_columns, end - column)
                    source = gm_operand(0, row * pitch + column * HALF)
                    useful += tile_rows * wide * HALF
                    if stream.destination == "UB":
                        k.data_copy("GM", "UB", room, source, wide * HALF, tile_rows, pitch, tile_columns * HALF)
                    else:
                        k.data_copy_nd2nz(room, source, tile_rows, wide, HALF, pitch, tile_rows)
    return k.finish(), useful


def measure(chip: ChipSpec, stream: MatrixStream, spread_us: float | None = None) -> Measured:
    """Run `stream` on all cores of its kind from a cold L2 and return its figures.

    `spread_us` is the time in which all blocks are dispatched; None: by the chip's `launch.block_us`. Raises SimError where the
    cores cannot share the rows in whole tiles.
    """
    cores = stream.cores(chip)
    if stream.rows % (cores * stream.tile[0]):
        raise SimError(f"{stream.rows} rows are not whole tiles of {stream.tile[0]} rows for each of {cores} cores")
    if spread_us is not None:
        launch = chip.launch.model_copy(update={"block_us": {stream.core_kind: spread_us / cores}})
        chip = chip.model_copy(update={"launch": launch})
    device = Device(chip, with_values=False)
    matrix = device.allocate(stream.rows * stream.columns * HALF, "matrix")
    table = InstructionTable(chip)
    built = [_program(table, stream, block, stream.rows // cores, matrix.size) for block in range(cores)]
    task = Task("stream", "MatrixStream", stream.core_kind, cores, [matrix], lambda block: [built[block][0]])
    engine = Engine(device)
    runs = engine.run([task]).of(0)
    busy = float(np.mean([run.busy()["MTE2"] for run in runs]))
    core = float(np.mean([run.finish - run.launch for run in runs]))
    useful = sum(asked for _, asked in built)
    return Measured(useful, engine.hbm_bytes, chip.us(busy), chip.us(core))


@frozen
class VectorAdd:
    """Program for z = x + y of `count` halves on `blocks` vector cores, `tile` elements an instruction, `buffers` of each
    operand in UB.

    With `bypass` x and y leave no lines in the L2.
    """

    count: int
    tile: int
    blocks: int
    buffers: int = 1
    bypass: bool = False

    def task(self, chip: ChipSpec, device: Device) -> Task:
        """Return the add as a task with x, y and z allocated on `device`; its inputs come from HBM."""
        tensors = [device.allocate(self.count * HALF, name) for name in "xyz"]
        table = InstructionTable(chip)
        share = -(-self.count // self.blocks // 128) * 128  # whole repeats of the vector unit

        def build(block: int) -> list[Program]:
            k = KernelBuilder(table, block, "AIV", [tensor.size for tensor in tensors])
            places: dict[str, list[int]] = {name: [] for name in "xyz"}
            for name in "xy" * self.buffers + "z" * self.buffers:  # x and y of an add side by side, as in the sample
                places[name].append(k.allocate("UB", self.tile * HALF, f"{name}[{len(places[name])}]"))
            pairs = [("MTE2", "V"), ("MTE2", "V"), ("V", "MTE3")]
            left, right, out = (BufferQueue(k, name, *pipes, places[name]) for name, pipes in zip("xyz", pairs, strict=True))
            for start in range(block * share, min((block + 1) * share, self.count), self.tile):
                elements = min(self.tile, (block + 1) * share - start, self.count - start)
                for slot, queue in enumerate((left, right)):
                    place = gm_operand(slot, start * HALF)
                    k.data_copy("GM", "UB", queue.acquire(), place, elements * HALF, l2_bypass=self.bypass)
                    queue.publish()
                k.vector_binary("add", out.acquire(), left.take(), right.take(), "float16", elements)
                left.release()
                right.release()
                out.publish()
                k.data_copy("UB", "GM", gm_operand(2, start * HALF), out.take(), elements * HALF)
                out.release()
            for queue in (left, right, out):
                queue.close()
            return [k.finish()]

        return Task("add", "VectorAdd", "AIV", self.blocks, tensors, build)


ALONE = ("GM->L1", "GM->L0A", "GM->L0B", "GM->UB", "UB->GM", "L0C->GM")
"""Paths whose published cycles are those of one transfer with nothing else under way."""
BACK_TO_BACK = ("L1->L0A", "L1->L0B", "L1->BT", "L1->FB")
"""Paths whose published cycles are those between two transfers of a stream: smaller than a latency could be."""


def transfer_cycles(chip: ChipSpec, path: str, nbytes: int) -> int:
    """Return the cycles of one transfer of `nbytes`, counted as in the published curve of its path.

    Paths of ALONE count from start to retirement, those of BACK_TO_BACK only the time that the pipe is occupied. Raises
    SimError for a path without a curve, and as `single_transfer`.
    """
    if path not in (*ALONE, *BACK_TO_BACK):
        raise SimError(f"path {path!r}: allowed are {', '.join((*ALONE, *BACK_TO_BACK))}")
    occupied, whole = single_transfer(chip, path, nbytes)
    return whole if path in ALONE else occupied


def single_transfer(chip: ChipSpec, path: str, nbytes: int) -> tuple[int, int]:
    """Return (cycles of occupancy, cycles from start to retirement) of one transfer on an idle device whose L2 has its
    bytes.

    Raises SimError for more than 512 KiB, and for bytes that the buffer cannot hold or the path cannot move at once.
    """
    source, destination = path.split("->")
    if nbytes > TENSOR:
        raise SimError(f"{nbytes} bytes: at most {TENSOR} lie ready for a transfer")
    for buffer, size in chip.buffers.items():
        if buffer in (source, destination) and nbytes > size:
            raise SimError(f"{nbytes} bytes: {buffer} of {chip.name} has {size}")

    def build(k: KernelBuilder) -> None:
        if source == "L0C":  # fp32 out of one column of fractals: as many bytes leave as L0C holds
            rows, rest = divmod(nbytes, 64)
            if rest:
                raise SimError(f"{nbytes} bytes: an L0C row of 16 results has 64")
            k.fixpipe(gm_operand(0, 0), 0, rows, 16, rows, "float32", 16, rows * 64)
        elif source == "L1" and destination in ("L0A", "L0B"):
            fractals, rest = divmod(nbytes, FRACTAL_BYTES)
            if rest:
                raise SimError(f"{nbytes} bytes: a fractal has {FRACTAL_BYTES}")
            k.load_data_2d(destination, 0, 0, HALF, fractals)
        else:
            target, origin = (gm_operand(0, 0) if place == "GM" else 0 for place in (destination, source))
            k.data_copy(source, destination, target, origin, nbytes)

    run = run_alone(chip, "AIV" if "UB" in (source, destination) else "AIC", build, 1)
    return int(run.end[-1] - run.start[-1]), int(run.retire[-1] - run.start[-1])


def run_alone(chip: ChipSpec, kind: str, build: Callable[[KernelBuilder], None], tensors: int) -> ProgramRun:
    """Run the program that `build` writes on one core of an idle device, with that many tensors in its L2, and return its
    `ProgramRun`.
    """
    device = Device(chip, with_values=False)
    held = [device.allocate(TENSOR, f"tensor {i}") for i in range(tensors)]
    for tensor in held:
        device.warm(tensor)
    k = KernelBuilder(InstructionTable(chip), 0, kind, [tensor.size for tensor in held])
    build(k)
    program = k.finish()
    return Engine(device).run([Task("alone", "Alone", kind, 1, held, lambda _: [program])]).programs[0]
