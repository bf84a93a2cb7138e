"""Write docs/instructions.md: every instruction that a kernel can write, with operands, pipe, regions and cost.

    python tools/instruction_reference.py            # writes the page
    python tools/instruction_reference.py --check    # exit code 1 if the page is not what the code says

Nothing is described by hand: each method of the builder is called once on one chip of each architecture, and the page shows
the instruction that it made. Which of a chip's numbers a cost is made of is found by watching what it reads.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

from instruction_limits import left_out, limits
from instruction_samples import CHIPS, SECTIONS, Demo, signature

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.section import Section
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.regions import Region

PAGE = Path(__file__).resolve().parents[1] / "docs" / "instructions.md"
CORES = ("AIC", "AI_CORE", "AIV")
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


class WatchedNumbers:
    """Part of a chip that notes which of its numbers are read, by their places in the file."""

    def __init__(self, node: Any, place: str, spec: ChipSpec, seen: set[str]) -> None:
        self._node, self._place, self._spec, self._seen = node, place, spec, seen

    def _wrapped(self, value: Any, key: Any) -> Any:
        place = f"{self._place}.{key}" if self._place else str(key)
        if isinstance(value, Section | Mapping):
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
            k.vector_cores = 2
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
    return f"| {told} | {pipe} | {regions(instruction.reads())} | {regions(instruction.writes())} | {' | '.join(cells)} |"


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
