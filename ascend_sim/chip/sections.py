"""The sections of a chip file as frozen models; every number declares its unit.

Cycles are cycles of the cube clock. `head` is what an instruction occupies its pipe for beyond its data; `latency` lies
between the end of that occupancy and retirement.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Annotated, Literal

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.chip.leaf import NotEmpty, Quantity
from ascend_sim.chip.section import Section
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen

Pipe = Literal["S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"]
Buffer = Literal["L1", "L0A", "L0B", "L0C", "UB", "BT", "FB"]
CoreKind = Literal["AIC", "AIV", "AI_CORE"]
CubeDtype = Literal[
    "float16", "bfloat16", "float32", "hf32", "int8", "int4", "hifloat8", "float8_e4m3fn", "float8_e5m2", "mxfp8", "mxfp4",
]  # fmt: skip
CastMode = Literal["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD", "HYBRID", "NONE"]
OverflowMode = Literal["inf_nan", "saturate"]
VectorDtype = Literal["float16", "bfloat16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]

Bytes = Annotated[int, Quantity("bytes", above=0)]
Cycles = Annotated[int, Quantity("cycles", least=0)]
FractionalCycles = Annotated[float, Quantity("cycles", least=0)]
CoreCount = Annotated[int, Quantity("cores", least=0)]
Bits = Annotated[int, Quantity("bits", above=0)]
Count = Annotated[int, Quantity("count", least=0)]
Depth = Annotated[int, Quantity("instructions", above=0)]
Elements = Annotated[int, Quantity("elements", above=0)]
ElementRate = Annotated[float, Quantity("elements/cycle", above=0)]
WholeElementRate = Annotated[int, Quantity("elements/cycle", above=0)]
ByteRate = Annotated[float, Quantity("bytes/cycle", above=0)]
RepeatCycles = Annotated[float, Quantity("cycles/repeat", above=0)]
Megahertz = Annotated[float, Quantity("MHz", above=0)]
GigabytesPerSecond = Annotated[float, Quantity("GB/s", above=0)]
Microseconds = Annotated[float, Quantity("us", least=0)]
Fraction = Annotated[float, Quantity("ratio", above=0, most=1)]
Ratio = Annotated[float, Quantity("ratio", least=0)]
Factor = Annotated[float, Quantity("ratio", least=1)]
Flag = Annotated[bool, Quantity("bool")]
SomeCount = Annotated[int, Quantity("count", above=0)]
Width = Annotated[int, Quantity(above=0)]
"""A key of a table: a stride, or the bytes of an element."""


@frozen(kw_only=True)
class Identity(Section):
    """Names of a chip: SoC and short SoC as in the vendor's files, product as in the operator documents.

    `note` is a warning of `chip_of`, shown once in a process.
    """

    soc: str
    short_soc: str
    series: str
    arch: str
    product: str
    note: str = ""


@frozen(kw_only=True)
class CoreParts(Section):
    """Parts of one core of a kind: its pipes and buffers."""

    pipes: tuple[Pipe, ...]
    buffers: tuple[Buffer, ...]


@frozen(kw_only=True)
class Cores(Section):
    """Core counts; coupled chips count AI Cores in `aic` and vector-only cores in `aiv`."""

    aic: Annotated[int, Quantity("cores", above=0)]
    aiv: CoreCount
    aiv_per_aic: CoreCount
    coupled: Annotated[bool, Quantity()]
    kinds: dict[CoreKind, CoreParts]

    @property
    def vector_units(self) -> int:
        """Return the cores for a vector kernel: all vector cores, on coupled chips the AI Cores and the vector-only ones."""
        return self.aic + self.aiv if self.coupled else self.aiv

    def vector_kind(self, block: int) -> CoreKind:
        """Return the kind of core that runs block `block` of a vector kernel: "AIV", on coupled chips "AI_CORE" for the first
        `aic` of every `vector_units` blocks.
        """
        if not self.coupled:
            return "AIV"
        return "AI_CORE" if block % self.vector_units < self.aic else "AIV"


@frozen(kw_only=True)
class Clock(Section):
    """Clocks in MHz: `cube_mhz` counts all cycles; `vector_mhz` is set only where vector cores have a clock of their own."""

    cube_mhz: Megahertz
    vector_mhz: Megahertz | None = None


@frozen(kw_only=True)
class Alignment(Section):
    """Alignment of addresses, in bytes: blocks in local memory, fractals of operands in L0A and L0B, of results in L0C."""

    block: Annotated[int, Quantity("bytes", only=BLOCK_BYTES)]
    fractal: Annotated[int, Quantity("bytes", only=FRACTAL_BYTES)]
    accumulator: Annotated[int, Quantity("bytes", only=ACCUMULATOR_FRACTAL_BYTES)]

    def unit(self, space: str) -> int:
        """Return the alignment of addresses in `space`, in bytes: 1 in GM, `fractal` in L0A and L0B, `accumulator` in L0C,
        `block` in every other.
        """
        return {"GM": 1, "L0A": self.fractal, "L0B": self.fractal, "L0C": self.accumulator}.get(space, self.block)


@frozen(kw_only=True)
class CubeRate(Section):
    """Cube rate of one dtype: `k0` is K of one fractal; a 16 x 16 output fractal takes `k_per_cycle` of K each cycle."""

    k0: Elements
    k_per_cycle: WholeElementRate


@frozen(kw_only=True)
class Cube(Section):
    """Mmad occupies head + ceil(m / m0) ceil(n / n0) ceil(k / k0) k0 / k_per_cycle cycles.

    Its head is `head_first` if the pipe was idle, else `head_stream`. `hf32_mantissa_bits` is what HF32 mode keeps of an fp32
    operand; None without that mode. `l0a_by_columns`: fractals of L0A lie as [K1][M1], not as [M1][K1]. Mmads may follow each
    other on a tile of L0C of at least `interlocked_fractals` without a barrier.
    """

    m0: Annotated[int, Quantity("elements", only=FRACTAL)]
    n0: Annotated[int, Quantity("elements", only=FRACTAL)]
    interlocked_fractals: SomeCount
    rates: dict[CubeDtype, CubeRate]
    hf32_mantissa_bits: Bits | None = None
    l0a_by_columns: Flag = False
    head_first: Cycles
    head_stream: Cycles
    latency: Cycles

    def macs_per_cycle(self, dtype: str) -> int:
        """Return the multiply-accumulates per cycle and core. Raises SimError for a dtype that the cube does not take."""
        rate = self.rates.get(dtype)  # type: ignore[call-overload]
        if rate is None:
            raise SimError(f"the cube does not take {dtype!r}; it takes {', '.join(self.rates)} (chip file, cube.rates)")
        return self.m0 * self.n0 * rate.k_per_cycle


@frozen(kw_only=True)
class Path(Section):
    """A data path: its pipe and the cost of a transfer; `bytes_per_cycle` is the port of one core.

    `unaligned_row` is what the pipe needs for every row of a copy from or to GM whose rows or row distance in GM are not whole
    32-byte blocks.
    """

    pipe: Pipe
    bytes_per_cycle: ByteRate
    head: Cycles
    latency: Cycles
    unaligned_row: Cycles | None = None


@frozen(kw_only=True)
class Load3dRates(Section):
    """Bytes/cycle into an L0 buffer by `stride_w`, else `other`; `transpose_32bit` caps 4-byte transposes (None: no cap)."""

    stride_w: dict[Width, ByteRate]
    other: ByteRate
    transpose_32bit: ByteRate | None = None
    row_slots: Count


@frozen(kw_only=True)
class Load3dLimits(Section):
    """The largest values of the instruction's fields: `kernel`, `dilation`, `pad` and `stride` on either axis.

    `k_extent` is the most elements of K in one load.
    """

    kernel: Count
    dilation: Count
    pad: Count
    stride: Count
    k_extent: Elements


@frozen(kw_only=True)
class Load3d(Section):
    """Image-to-column load; its head and latency replace those of the L1 path, its pipe is the path's.

    `slide_rows` switches on, in `rate`, the published rule for n > 1 rows: `row_bytes` / (2 stride_w + row_slots + n), rounded
    down, at least `other`. No instruction gives its rows to `rate`, so runs never take this rule.
    """

    head: Cycles
    latency: Cycles
    limits: Load3dLimits
    rates: dict[Buffer, Load3dRates]
    slide_rows: Flag
    row_bytes: Bytes

    def rate(self, dest: str, stride_w: int, itemsize: int, transpose: bool = False, rows: int = 1) -> float:
        """Return bytes/cycle into `dest` by `stride_w`, or, where `slide_rows` is set, by the class's rule if it slides over
        `rows` > 1 rows and the table lists `stride_w`. A `transpose` of 4-byte elements is capped.

        Raises `SimError` for a destination that load3d does not reach.
        """
        table = self.rates.get(dest)  # type: ignore[call-overload]
        if table is None:
            raise SimError(f"load3d does not reach {dest!r}; it reaches {', '.join(self.rates)} (chip file, load3d.rates)")
        rate = table.stride_w.get(stride_w, table.other)
        if self.slide_rows and rows > 1 and stride_w in table.stride_w:
            rate = max(table.other, float(self.row_bytes // (2 * stride_w + table.row_slots + rows)))
        if transpose and itemsize == 4 and table.transpose_32bit is not None:
            rate = min(rate, table.transpose_32bit)
        return rate


@frozen(kw_only=True)
class FixpipeRates(Section):
    """Conversion of L0C on its way out: elements/cycle by bytes per output element; the path's port caps it.

    Head and latency are the unit's own; those of the path L0C->GM or L0C->L1 come on top. fp32 in blocks of 8 channels has
    one rate of its own. `unit_flag`: cube and Fixpipe can hand tiles of L0C to each other fractal by fractal.
    """

    elements_per_cycle: dict[Width, ElementRate]
    channel_split_bytes_per_cycle: ByteRate
    unit_flag: Flag = False
    head: Cycles
    latency: Cycles

    def rate(self, itemsize: int, channel_split: bool = False) -> float:
        """Return bytes/cycle for elements of `itemsize` bytes; SimError for other sizes than the chip file lists. With
        `channel_split`, fp32 in blocks of 8 channels, `itemsize` does not count.
        """
        if channel_split:
            return self.channel_split_bytes_per_cycle
        elements = self.elements_per_cycle.get(itemsize)
        if elements is None:
            known = ", ".join(map(str, self.elements_per_cycle))
            raise SimError(
                f"Fixpipe writes no {itemsize}-byte elements; it writes {known} (chip file, fixpipe.elements_per_cycle)"
            )
        return elements * itemsize


@frozen(kw_only=True)
class VectorOp(Section):
    """Cycles per repeat by dtype; `head` is given only if it differs from the unit's."""

    cycles_per_repeat: dict[VectorDtype, RepeatCycles]
    head: FractionalCycles | None = None

    def scaled(self, factor: float) -> VectorOp:
        """Return a copy with every count of cycles times `factor`."""
        slopes = {dtype: slope * factor for dtype, slope in self.cycles_per_repeat.items()}
        return self.model_copy(update={"cycles_per_repeat": slopes, "head": None if self.head is None else self.head * factor})


@frozen(kw_only=True)
class Overflow(Section):
    """Overflow modes of Cast and Fixpipe. Mode "inf_nan" keeps inf and NaN (CTRL[48] = 1); mode "saturate" writes the largest
    finite value, and 0 for NaN (CTRL[48] = 0).

    `modes` lists those of the chip; a process starts with `default`. `fixpipe_16bit_saturates`: 16-bit results of the Fixpipe
    saturate always.
    """

    modes: Annotated[tuple[OverflowMode, ...], NotEmpty()]
    default: OverflowMode
    modes_source: str
    fixpipe_16bit_saturates: Flag = False


@frozen(kw_only=True)
class UbBanks(Section):
    """Banks of the Unified Buffer, of `bytes` each: successive 32-byte blocks lie in successive groups of banks."""

    groups: Count
    per_group: Count
    bytes: Bytes


@frozen(kw_only=True)
class Vector(Section):
    """The vector unit. Occupancy: head + repeats x cycles_per_repeat + `count_tail` for a partial repeat.

    A repeat takes `bank_conflict` times as long for each further access to a bank group, and `bank_write_conflict` times if it
    reads and writes a bank (isa/vector/banks.py). Where the unit loops over the rows of a 2-D operand, a row takes at least its
    repeats + `row_overhead`. One instruction has at most `repeats_per_instruction` repeats if its operands have strides (None:
    any number), which are at most `repeat_stride_blocks` blocks (None: any number). `ops` lists the formats of each operation,
    from `ops_source`. `casts` maps "float32->float16" to the unit's cast modes for it, from `casts_source`; the first is the
    default.
    """

    repeat_bytes: Bytes
    head: FractionalCycles
    latency: Cycles
    bank_conflict: Factor
    bank_write_conflict: Factor
    count_tail: Cycles
    row_overhead: Cycles | None = None
    repeats_per_instruction: SomeCount | None = None
    repeat_stride_blocks: SomeCount | None = None
    banks: UbBanks
    ops: dict[str, VectorOp]
    ops_source: str
    casts: dict[str, Annotated[tuple[CastMode, ...], NotEmpty()]]
    casts_source: str

    def scaled(self, factor: float) -> Vector:
        """Return a copy with all cycles but `row_overhead` times `factor`; `latency` and `count_tail` are rounded up."""
        return self.model_copy(
            update={
                "head": self.head * factor,
                "latency": math.ceil(self.latency * factor),
                "count_tail": math.ceil(self.count_tail * factor),
                "ops": {name: op.scaled(factor) for name, op in self.ops.items()},
            }
        )

    def cast_mode(self, source: str, target: str, rounding: str | None = None) -> str:
        """Return `rounding` in capitals, or for None the pair's first mode. Raises SimError for a pair or a mode that the unit
        lacks.
        """
        modes = self.casts.get(f"{source}->{target}")
        if modes is None:
            known = ", ".join(self.casts)
            raise SimError(
                f"the vector unit does not cast {source} to {target}; it casts {known} "
                f"({self.casts_source}; chip file, vector.casts)"
            )
        if rounding is None:
            return modes[0]
        if not isinstance(rounding, str) or rounding.upper() not in modes:
            raise SimError(
                f"the vector unit has no cast mode {rounding} for {source} to {target}; it has {', '.join(modes)} "
                f"({self.casts_source}; chip file, vector.casts)"
            )
        return rounding.upper()

    def repeat_cycles(self, op: str, dtype: str) -> float:
        """Return the cycles of one repeat. Raises SimError for an operation or dtype that is not listed."""
        entry = self.ops.get(op)
        if entry is None:
            raise SimError(f"no vector operation {op!r}; there are {', '.join(self.ops)} (chip file, vector.ops)")
        slope = entry.cycles_per_repeat.get(dtype)  # type: ignore[call-overload]
        if slope is None:
            known = ", ".join(entry.cycles_per_repeat)
            raise SimError(f"vector operation {op} has no {dtype!r}; it has {known} (chip file, vector.ops.{op})")
        return float(slope)

    def cycles(self, op: str, dtype: str, nbytes: int, conflict: bool = False, rows: int = 1) -> tuple[int, int]:
        """Return (head, work) cycles of one instruction over `rows` rows of `nbytes` each, both rounded up, without `latency`.

        `conflict`: both sources lie in the same bank groups. Raises SimError for an operation or dtype that is not listed.
        """
        repeats, rest = divmod(nbytes, self.repeat_bytes)
        repeats += rest > 0
        work = repeats * self.repeat_cycles(op, dtype) * (self.bank_conflict if conflict else 1)
        if rows > 1 and self.row_overhead is not None:
            work = max(work, repeats + self.row_overhead)
        head = self.ops[op].head
        return math.ceil(self.head if head is None else head), math.ceil(rows * work) + (self.count_tail if rest else 0)


@frozen(kw_only=True)
class MemoryRates(Section):
    """Rates of HBM and the L2. The chip's L2 rate is the rate per AIC times its AICs. Long streams reach a rate times its
    efficiency; L2 reads have none, so they reach the whole rate.

    `hbm_latency`: cycles that a miss adds. `same_line_read_ratio`: L2 time of a read of a line that others read (plain: 1).
    `write_back_ratio`: HBM time of writing back a byte that a read evicts (a byte that a write evicts: 1).
    `partial_line_refetch`: a row longer than a line reads the partial line at its end from HBM even if the L2 holds it.
    """

    hbm_bytes: Bytes
    hbm_gb_per_s: GigabytesPerSecond
    hbm_efficiency: Fraction
    hbm_latency: Cycles
    l2_bytes: Bytes
    l2_line_bytes: Bytes
    l2_read_bytes_per_cycle_per_aic: ByteRate
    l2_write_bytes_per_cycle_per_aic: ByteRate
    l2_write_efficiency: Fraction
    same_line_read_ratio: Ratio
    write_back_ratio: Ratio
    partial_line_refetch: Flag


@frozen(kw_only=True)
class Sync(Section):
    """Flags in a core and between cores with their largest counts, barriers, and the depths of the pipes' queues.

    `flag_pairs`: kind of core -> pipe -> pipes that it can send a flag to; a kind not listed has no rule.
    `cross_one_vector_ids` counts flags to one vector core. `cross_wait_stops_issue`: a wait for another core holds all pipes,
    not one. `message_cycles` are the scalar unit's for a message of another core in GM that it reads again and again.
    """

    flag_ids: Count
    flag_pairs: dict[CoreKind, dict[Pipe, tuple[Pipe, ...]]] = field(default_factory=dict)
    flag_pairs_source: str = "unknown"
    flag_max: SomeCount
    flag_latency: Cycles
    cross_flag_ids: Count
    cross_one_vector_ids: Count
    cross_flag_max: Count
    cross_latency: Cycles
    cross_wait_stops_issue: Flag
    message_cycles: Cycles
    barrier_latency: Cycles
    queue_depth: dict[Pipe, Depth]
    outstanding: dict[Pipe, Depth]


@frozen(kw_only=True)
class LaunchCosts(Section):
    """Costs of a kernel around its instructions, by kind of core.

    A task has at most `blocks_max` blocks. It pays `task_overhead_us`, and `overhead_per_block_us` for each of its blocks,
    before the first is dispatched, less `hidden_us` if it follows its stream's previous task at once. Blocks are dispatched
    `block_us` after each other and begin `core_start_us` later. A block begins another `cold_us`, and `cold_per_block_us` for
    each of the task's blocks that run at once, later if the code is cold: all cores fetch the same lines. Code is warm if it is
    among the last `kept_launches` launches on that kind of core (`Task.binary`). Code larger than the instruction cache is
    fetched at every launch, in `uncached_per_block_us` for each of those blocks, by `Task.template`. `prologue_us` is what a
    compiled kernel does on every core before its first data move (tiling data, addresses), by `Task.template`.
    """

    blocks_max: SomeCount
    task_overhead_us: dict[CoreKind, Microseconds]
    overhead_per_block_us: dict[CoreKind, Microseconds] = field(default_factory=dict)
    block_us: dict[CoreKind, Microseconds] = field(default_factory=dict)
    core_start_us: dict[CoreKind, Microseconds]
    cold_us: dict[CoreKind, Microseconds] = field(default_factory=dict)
    cold_per_block_us: dict[CoreKind, Microseconds] = field(default_factory=dict)
    kept_launches: Count
    uncached_per_block_us: dict[str, Microseconds] = field(default_factory=dict)
    prologue_us: dict[str, Microseconds] = field(default_factory=dict)
    hidden_us: Microseconds
