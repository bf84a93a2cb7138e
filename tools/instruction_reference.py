"""Write docs/instructions.md: every instruction that a kernel can write, with operands, pipe, regions and cost.

    python tools/instruction_reference.py            # writes the page
    python tools/instruction_reference.py --check    # exit code 1 if the page is not what the code says

Nothing is described by hand: each method of the builder is called once on one chip of each architecture, and the page shows
the instruction that it made. Which of a chip's numbers a cost is made of is found by watching what it reads.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from instruction_limits import left_out, limits
from pydantic import BaseModel

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.vector.named import NamedInstruction, named
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import ChannelMatrices, CopyLoop, MapWindow, ScatterLoops, Span, TilePiece, TurnLayout
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.regions import Region

PAGE = Path(__file__).resolve().parents[1] / "docs" / "instructions.md"
CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")
CORES = ("AIC", "AI_CORE", "AIV")
DTYPES = ("float32", "float16", "int32", "int16", "uint16")
MARKS = ("stated", "derived", "fitted", "assumed")
"""From the surest to the least sure."""
PLACES_AND_LOOPS = (
    "ub_queue", "queue", "queue_of", "local_tensor", "allocate", "flag", "ordered", "range", "each", "next_tile", "emit",
)  # fmt: skip
"""Methods of a kernel that write no instruction of their own."""
NOT_INSTRUCTIONS = {
    *PLACES_AND_LOOPS, "drop_set", "finish", "close_queues", "repeated", "repeated_at", "row_bytes", "stamped", "carry",
    "unit_flag", "vector", "split", "written_over", "can_copy", "copy_rows", "fill_unit", "extend", "count_flag", "is_armed",
    "is_cross_armed",
}  # fmt: skip


@dataclass(frozen=True)
class Demo:
    """One call: `make(k, gm, dtype)` with a matrix of 64 x 64 in GM.

    `shows` names the instruction that is meant where the call makes others too; `kind` is the one of a `k.vector` call.
    """

    method: str
    make: Callable[[Kernel, Tensor, str], Any]
    note: str = ""
    shows: str = ""
    dtypes: tuple[str, ...] = ("float16",)
    kind: type[NamedInstruction] | None = None

    @property
    def call(self) -> str:
        """The method, and the name of the instruction where there are several."""
        return self.method if self.kind is None else f'{self.method}("{self.kind.name}")'

    @property
    def described(self) -> tuple[str, str]:
        """The call with its parameters, and what is said of it."""
        if self.kind is None:
            return signature(self.method), inspect.getdoc(getattr(Kernel, self.method)) or ""
        sources = [f"src{i}" if isinstance(one, tuple) else "number" for i, one in enumerate(self.kind.example[1:])]
        return f'k.{self.method}("{self.kind.name}", dst, {", ".join(sources)})', inspect.getdoc(self.kind) or ""


def ub(place: int, shape: tuple[int, ...], dtype: str) -> LocalTensor:
    return LocalTensor(place * 16384, shape, dtype)


def elements(method: str, sources: int, *more: Any, dtypes: tuple[str, ...] = DTYPES) -> Demo:
    """An element-wise instruction on 1024 elements."""

    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        getattr(k, method)(*(ub(i, (1024,), dtype) for i in range(1 + sources)), *more)

    return Demo(method, make, "1024 elements", dtypes=dtypes)


def by_name(kind: type[NamedInstruction]) -> Demo:
    """An instruction of a file of its own, on the operands of its example."""

    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        operands = enumerate(kind.operands(dtype))
        k.vector(kind.name, *(ub(i, *one) if isinstance(one, tuple) else one for i, one in operands))

    shapes = [sized(one) for one in kind.operands("")]
    return Demo("vector", make, f"{shapes[0]} from {', '.join(shapes[1:])}", dtypes=kind.dtypes, kind=kind)


def sized(operand: tuple[tuple[int, ...], str] | float) -> str:
    """The shape of an operand, with its format where that is its own; or its number."""
    if not isinstance(operand, tuple):
        return f"{operand:g}"
    shape, dtype = operand
    return f"{' x '.join(map(str, shape))} {dtype}".rstrip()


def rows(method: str) -> Demo:
    def make(k: Kernel, gm: Tensor, dtype: str) -> None:
        count = 8 * 128
        parts = {"block": count // (32 // gm.itemsize), "pair_": count // 2}
        blocks = parts.get(method[:5], 16 if method.endswith("index") else 8)
        getattr(k, method)(ub(0, (blocks,), dtype), ub(1, (8, 128), dtype))

    return Demo(method, make, "8 rows of 128", dtypes=DTYPES)


def flags(k: Kernel, source: str, destination: str) -> None:
    flag = k.flag(source, destination, "example")
    k.set_flag(flag)
    k.wait_flag(flag)


def compare(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.compare(ub(0, (128,), "uint8"), "lt", ub(1, (1024,), dtype), ub(2, (1024,), dtype))


def select(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.select(ub(0, (1024,), dtype), ub(1, (128,), "uint8"), ub(2, (1024,), dtype), 0.0)


def across(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.broadcast_row(ub(0, (8, 128), dtype), ub(1, (128,), dtype))


def column(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.broadcast_column(ub(0, (8, 128), dtype), ub(1, (8,), dtype))


def gather(k: Kernel, gm: Tensor, dtype: str) -> None:
    k.gather(ub(0, (256,), dtype), ub(1, (1024,), dtype), ub(2, (256,), "uint32"))


def img2col(k: Kernel, gm: Tensor, dtype: str) -> None:
    """16 channels of an 8 x 8 map under a 3 x 3 kernel."""
    window = MapWindow(8, 8, k_h=3, k_w=3, out_height=6, out_width=6)
    k.load_data_3d("L0A", 0, 0, 2, window, rows=Span(0, 36), columns=Span(0, 144))


SECTIONS: dict[str, list[Demo]] = {
    "Between GM and UB": [
        Demo("gm_to_ub", lambda k, gm, dtype: k.gm_to_ub(ub(0, (64, 64), dtype), gm), "64 rows of 64"),
        Demo("ub_to_gm", lambda k, gm, dtype: k.ub_to_gm(gm, ub(0, (64, 64), dtype)), "64 rows of 64"),
        Demo("data_copy", lambda k, gm, dtype: k.data_copy("GM", "UB", 0, gm.address, 96, 4, 128, 96), "4 rows of 96 bytes"),
        Demo(
            "data_copy_planes",
            lambda k, gm, dtype: k.data_copy_planes("UB", "GM", gm.address, 0, 4, CopyLoop(16, 4, 108), CopyLoop(2, 64, 1728)),
            "2 planes of 16 rows of 4 bytes",
        ),
        Demo("fill", lambda k, gm, dtype: k.fill("L1", 0, 8192), "8192 bytes"),
    ],
    "Matrices": [
        Demo("gm_to_l1", lambda k, gm, dtype: k.gm_to_l1(0, gm), "64 x 64"),
        Demo("l1_to_l0a", lambda k, gm, dtype: k.l1_to_l0a(0, 0, 64, 64, dtype, held=64), "64 x 64"),
        Demo("l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 64, 64, dtype, held=64), "64 x 64"),
        Demo(
            "l1_to_l0b", lambda k, gm, dtype: k.l1_to_l0b(0, 0, 64, 64, dtype, held=64, transpose=True),
            "64 x 64, transpose=True",
        ),
        Demo("mmad", lambda k, gm, dtype: k.mmad(0, 0, 0, 64, 64, 64, dtype, True), "64 x 64 x 64, accumulate=True"),
        Demo("load_bias", lambda k, gm, dtype: k.load_bias(0, 0, 64, dtype), "64 numbers"),
        Demo("l0c_to_gm", lambda k, gm, dtype: k.l0c_to_gm(gm, 0), "64 x 64"),
        Demo("l0c_to_ub", lambda k, gm, dtype: k.l0c_to_ub(0, 0, 64, 4, 64, dtype), "64 rows of 4 x 16"),
        Demo("data_copy_nd2nz", lambda k, gm, dtype: k.data_copy_nd2nz(0, gm.address, 64, 64, 2, 128, 64), "64 x 64"),
        Demo(
            "data_copy_dn2nz", lambda k, gm, dtype: k.data_copy_dn2nz(0, gm.address, ChannelMatrices(20, 5, 2, 64, 32, 160)),
            "20 channels of 5 pixels",
        ),
        Demo("load_data_2d", lambda k, gm, dtype: k.load_data_2d("L0B", 0, 0, 2, 16, 1, True), "16 fractals, turned"),
        Demo("load_data_3d", img2col, "3 x 3 kernel on 8 x 8 pixels"),
        Demo("fixpipe", lambda k, gm, dtype: k.fixpipe(gm.address, 0, 64, 64, 64, dtype, 16, 2048), "64 x 64"),
        Demo("fixpipe_nd", lambda k, gm, dtype: k.fixpipe_nd(gm.address, 0, 64, 64, 64, dtype, 128), "64 x 64"),
        Demo(
            "fixpipe_dn", lambda k, gm, dtype: k.fixpipe_dn(gm.address, 0, TilePiece(64, 64, 64), dtype, 2, 128), "64 x 64"
        ),
    ],
    "Vectors: element by element": [
        *(elements(name, 2) for name in ("add", "sub", "mul", "mul_add", "div", "max", "min", "add_relu", "sub_relu")),
        *(elements(name, 2) for name in ("fused_mul_add", "fused_mul_add_relu")),
        *(elements(name, 2, dtypes=("int16", "uint16")) for name in ("bitwise_and", "bitwise_or")),
        elements("bitwise_not", 1, dtypes=("int16", "uint16")),
        *(elements(name, 1, 2) for name in ("adds", "muls", "maxs", "mins", "axpy", "leaky_relu")),
        *(elements(name, 1) for name in ("abs", "exp", "ln", "sqrt", "rsqrt", "reciprocal", "relu")),
        Demo("cast", lambda k, gm, dtype: k.cast(ub(0, (1024,), "float16"), ub(1, (1024,), "float32")), "fp32 to fp16, 1024"),
        Demo("compare", compare, "1024 elements", dtypes=DTYPES),
        Demo("select", select, "1024 elements", dtypes=DTYPES),
    ],
    "Vectors: reductions and places": [
        *(rows(name) for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_max_index", "reduce_min_index")),
        *(rows(name) for name in ("block_reduce_sum", "block_reduce_max", "block_reduce_min", "pair_reduce_sum")),
        Demo("duplicate", lambda k, gm, dtype: k.duplicate(ub(0, (1024,), dtype), 1), "1024 elements", dtypes=DTYPES),
        elements("copy", 1),
        Demo("broadcast_row", across, "to 8 rows of 128", dtypes=DTYPES),
        Demo("broadcast_column", column, "to 8 rows of 128", dtypes=DTYPES),
        Demo("gather", gather, "256 of 1024 elements", dtypes=DTYPES),
        Demo(
            "transpose", lambda k, gm, dtype: k.transpose(ub(0, (64, 32), dtype), ub(1, (32, 64), dtype)), "32 x 64",
            dtypes=DTYPES,
        ),
    ],
    "Vectors by name": [by_name(kind) for kind in named().values()],
    "Vectors by address": [
        Demo("vector_binary", lambda k, gm, dtype: k.vector_binary("add", 0, 8192, 16384, dtype, 1024), "1024 elements"),
        Demo("vector_cast", lambda k, gm, dtype: k.vector_cast(0, 8192, "float32", "float16", 1024), "1024 elements"),
        Demo("vector_duplicate", lambda k, gm, dtype: k.vector_duplicate(0, dtype, 1024), "1024 elements"),
        Demo("reduce_rows", lambda k, gm, dtype: k.reduce_rows(0, 8192, 8, 128, 512), "8 rows of 128"),
        Demo(
            "scatter",
            lambda k, gm, dtype: k.scatter(0, 8192, "float32", ScatterLoops(3, 8, 16, 512, 64, 4, 192, 12)),
            "3 x 8 x 16 elements",
        ),
        Demo(
            "transpose_blocks", lambda k, gm, dtype: k.transpose_blocks(0, 8192, True, 2, 16, 64, TurnLayout(128)), "16 x 64"
        ),
        Demo("interleave", lambda k, gm, dtype: k.interleave(0, 8192, 16384, 2, 512), "512 pairs"),
    ],
    "Order and time": [
        Demo("set_flag", lambda k, gm, dtype: flags(k, "MTE2", "MTE3"), shows="set_flag"),
        Demo("wait_flag", lambda k, gm, dtype: flags(k, "MTE2", "MTE3"), shows="wait_flag"),
        Demo("pipe_barrier", lambda k, gm, dtype: k.pipe_barrier("MTE2")),
        Demo("scalar_wait", lambda k, gm, dtype: k.scalar_wait("MTE2")),
        Demo("scalar", lambda k, gm, dtype: k.scalar(10), "10 cycles"),
        Demo("scalar_load", lambda k, gm, dtype: k.scalar_load(ub(0, (1,), dtype)), "of UB"),
        Demo("scalar_store", lambda k, gm, dtype: k.scalar_store(ub(0, (1,), dtype), 1), "to UB"),
        Demo("scalar_copy", lambda k, gm, dtype: k.scalar_copy(ub(0, (1,), dtype), ub(1, (1,), dtype)), "within UB"),
        Demo("clean_data_cache", lambda k, gm, dtype: k.clean_data_cache(), "all lines"),
        Demo("cross_core_set", lambda k, gm, dtype: k.cross_core_set(0, 2, "MTE2")),
        Demo("cross_core_wait", lambda k, gm, dtype: k.cross_core_wait(0, 2, "MTE2")),
    ],
}  # fmt: skip


class WatchedNumbers:
    """Part of a chip that notes which of its numbers are read, by their places in the file."""

    def __init__(self, node: Any, place: str, spec: ChipSpec, seen: set[str]) -> None:
        self._node, self._place, self._spec, self._seen = node, place, spec, seen

    def _wrapped(self, value: Any, key: Any) -> Any:
        place = f"{self._place}.{key}" if self._place else str(key)
        if isinstance(value, BaseModel | Mapping):
            return WatchedNumbers(value, place, self._spec, self._seen)
        if place in self._spec.sources:
            self._seen.add(place)
        return value

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self._node), name, None)
        if isinstance(self._node, Mapping):
            return getattr(self._node, name)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)
        if isinstance(own, FunctionType):
            return MethodType(own, self)
        return self._wrapped(getattr(self._node, name), name)

    def __getitem__(self, key: Any) -> Any:
        return self._wrapped(self._node[key], key)

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self._node else default

    def __contains__(self, key: Any) -> bool:
        return key in self._node

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)


@dataclass(frozen=True)
class Made:
    """Instructions that a sample made on a chip, all alike, and their number."""

    instruction: Instruction
    count: int
    dtype: str
    core: str
    table: InstructionTable


def made_on(sample: Demo, chip: ChipSpec) -> Made | str:
    """The instruction on the first kind of core and in the first dtype that take it, or why there is none."""
    refusal = ""
    for dtype in sample.dtypes:
        for core in CORES:
            if core not in chip.cores.kinds:
                continue
            table = InstructionTable(chip, core)
            gm = Tensor.at(0, "x", (64, 64), dtype)
            k = Kernel(table, 0, core, [gm.nbytes], blocks=1)
            try:
                sample.make(k, gm, dtype)
                program = k.finish()
            except SimError as error:
                refusal = refusal or str(error)
                continue
            shown = [view.instruction for view in program if sample.shows in ("", view.instruction.name)]
            return Made(shown[0], len(shown), dtype, core, table)
    return refusal


def cost_of(made: Made) -> str:
    """Head + work + latency in cycles, bytes over a rate for what crosses GM, and the marks of the numbers in it."""
    chip, seen = made.table.chip, set[str]()
    watched: Any = WatchedNumbers(chip, "", chip, seen)
    cost, access = made.instruction.cost(watched), made.instruction.gm_access(watched)
    work = str(cost.work)
    if access is not None:
        rate = f"{access.region.total}/{access.rate:g}"
        work = rate if not cost.work else f"max({rate}, {work})"
    marks = sorted({chip.sources[place].mark for place in seen}, key=MARKS.index)
    text = f"{cost.head_stream} + {work} + {cost.latency}"
    if cost.head_first != cost.head_stream:
        text = f"{cost.head_first} or {text}"
    if made.count > 1:
        text += f", {made.count} times"
    return f"{text} {', '.join(marks)}" if marks else text


def region(one: Region) -> str:
    """Bytes of a region: "dst UB 4096", with rows and planes where there are several."""
    size = f"{one.row_bytes}"
    if one.rows > 1:
        size = f"{one.rows} x {size} every {one.row_stride}"
    if one.planes > 1:
        size = f"{one.planes} x ({size}) every {one.plane_stride}"
    return f"{one.operand} {one.space} {size}"


def regions(found: tuple[Region, ...]) -> str:
    return "<br>".join(region(one) for one in found) or "-"


def row(sample: Demo, chips: list[ChipSpec]) -> str:
    """The line of a method."""
    found = [made_on(sample, chip) for chip in chips]
    first = next((made for made in reversed(found) if isinstance(made, Made)), None)
    if first is None:
        raise SystemExit(f"{sample.method}: no chip takes the sample: {found}")
    cells = []
    for made in found:
        if isinstance(made, str):
            cells.append("-")
        else:
            cells.append(cost_of(made) + (f" ({made.dtype})" if made.dtype != sample.dtypes[0] else ""))
    instruction = first.instruction
    pipe = instruction.pipe(first.table.chip)
    told = f"`{sample.call}`" + (f", {sample.note}" if sample.note else "")
    if len(sample.dtypes) > 1:
        told += f" of {sample.dtypes[0]}"
    return (
        f"| {told} | {pipe} | {regions(instruction.reads())} | {regions(instruction.writes())} | {' | '.join(cells)} |"
    )


def signature(method: str) -> str:
    """`k.method(...)` as it is written, without types."""
    parameters = list(inspect.signature(getattr(Kernel, method)).parameters.values())[1:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"k.{method}{inspect.Signature(plain)}"


def formats(chips: list[ChipSpec]) -> list[str]:
    """Which formats every operation of the vector unit has, by architecture."""
    operations = dict.fromkeys(op for chip in chips for op in chip.vector.ops)
    lines = [head("operation", chips), "|---" * (1 + len(chips)) + "|"]
    for operation in sorted(operations):
        has = [chip.vector.ops.get(operation) for chip in chips]
        cells = ["-" if one is None else ", ".join(one.cycles_per_repeat) for one in has]
        lines.append(f"| {operation} | {' | '.join(cells)} |")
    return lines


def head(first: str, chips: list[ChipSpec]) -> str:
    return f"| {first} | {' | '.join(f'{chip.name} ({chip.identity.arch})' for chip in chips)} |"


def beginning(said: str) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join(said.partition("\n\n")[0].split())


def effects(described: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of a table of calls and the beginnings of their docstrings."""
    rows = (f"| `{call}` | {beginning(said).replace('|', chr(92) + '|')} |" for call, said in described)
    return ["| call | effect |", "|---|---|", *rows]


def page() -> str:
    """The whole page."""
    chips = [load_chip(name) for name in CHIPS]
    lines = [
        "# Instructions",
        "",
        "For whoever writes a kernel (`docs/writing-a-kernel.md`): every instruction, with its cost and its limits. This",
        "page is made by `tools/instruction_reference.py` from the code.",
        "",
        "A line shows one call: its pipe, the bytes that it reads and writes (`rows x bytes every stride`), and its cost on a",
        "chip of each architecture: head + work + latency, in cycles of the cube's clock. An instruction holds its pipe for",
        "head and work, and retires when the latency is over. Two heads: of the first of a stream, and of those that follow. A",
        "GM transfer takes its bytes over the rate of the core's port, or longer where cores share the L2 and HBM. Marks of a",
        "cost: stated by the vendor, derived from its statements, fitted to measurements, assumed. `-`: not available on this",
        "architecture.",
    ]
    for title, samples in SECTIONS.items():
        if not samples:
            continue
        lines += ["", f"## {title}", ""]
        lines += effects(dict.fromkeys(sample.described for sample in samples))
        columns = "call | pipe | reads | writes"
        lines += ["", head(columns, chips), "|---" * (4 + len(chips)) + "|"]
        lines += [row(sample, chips) for sample in samples]
    lines += ["", "## Buffers, flags and loops", ""]
    lines += effects((signature(method), inspect.getdoc(getattr(Kernel, method)) or "") for method in PLACES_AND_LOOPS)
    lines += ["", "## Formats of the vector unit", "", *formats(chips), ""]
    lines += [
        "## Limits",
        "",
        "What the words of each architecture's instructions can say, from configs/instructions. An instruction that a kernel",
        "writes is refused unless one line of its way and method says it. A field's limits are in its own unit. A source",
        "without a mark is stated; API is docs/zh/api/SIMD-API of asc-devkit 82b89a15, HDR its include and impl/basic_api.",
        "Nothing is refused where no line has the way and the method: of the vector unit see the table above.",
        "",
    ]
    for chip in chips:
        lines += [f"### {chip.identity.arch} ({chip.name} and its family)", "", *limits(chip.identity.arch), ""]
    lines += ["### Not simulated", "", *left_out(), ""]
    return "\n".join(lines)


def undocumented() -> list[str]:
    """Methods of the builder that write instructions and have no sample."""
    public = {name for name, _ in inspect.getmembers(Kernel, inspect.isfunction) if not name.startswith("_")}
    return sorted(public - NOT_INSTRUCTIONS - {sample.method for samples in SECTIONS.values() for sample in samples})


def main() -> None:
    missing = undocumented()
    if missing:
        raise SystemExit(f"no sample of {', '.join(missing)}")
    text = page()
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if PAGE.read_text(encoding="utf-8") == text else f"{PAGE.name} is not what the code says")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
