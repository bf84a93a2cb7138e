"""Rows of the vendor's open kernels for gradients of convolutions, and our kernels beside them.

    python -m tests.support.ops.originals          # counts and cycles of both, layer by layer

`tests/data/originals.json` holds the rows of both original kernels as this engine executed them: every instruction of
every block with its addresses (source and mark: in the file). `Original.task` replays them, so that one engine times both.
"""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ascend_sim import TensorSpec
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, Mmad
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, PipeBarrier, SetFlag, WaitFlag
from ascend_sim.isa.transfer import DataCopy, Fill
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import SLOT_SHIFT, gm_operand
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.runtime import Device, Task
from tests.support.ops.conv_problems import BACKWARD, NAMES, arguments

FILE = Path(__file__).parents[2] / "data/originals.json"
OPCODES: Mapping[str, type[Instruction]] = {
    one.name: one
    for one in (
        CrossCoreSetFlag, CrossCoreWaitFlag, DataCopy, Fill, Fixpipe, LoadData2D, LoadData3D, Mmad, PipeBarrier, SetFlag,
        WaitFlag,
    )
}  # fmt: skip
SLOTS = {"dx": {2: 0, 1: 1, 3: 2}, "dw": {2: 0, 0: 1, 3: 2}}
"""GM arguments of the originals (x, weight or sizes, gradOutput, result) -> tensors of our tasks (gradOutput, operand, result).
"""
LEFT_OUT = ("operand", "flag", "out_height", "armed", "gemv", "bias")
"""Fields that are not compared: labels and defaults of ours, names of flags, and the originals' rows of output, which count 255
rows of padding below the map.
"""
DERIVED = {
    kind: {cls.VENDOR[name] for name in cls.DERIVED} for kind, cls in (("dx", GradInputTiling), ("dw", GradWeightTiling))
}
"""Fields of a tiling that follow from the others."""


class RowPlace(NamedTuple):
    """An address: a memory, in GM the tensor, and an offset."""

    space: str
    tensor: int
    offset: int


class OriginalRow(NamedTuple):
    """A row as far as both kernels may be compared: names of flags are theirs, and so are the labels of operands."""

    pipe: str
    name: str
    fields: tuple[tuple[str, object], ...]
    places: tuple[RowPlace, ...]


@dataclass(frozen=True, eq=False)
class Original:
    """One layer: its problem, the tiling of both kernels, the original's instructions and rows of every block."""

    kind: str
    op_type: str
    problem: Mapping[str, int]
    dtype: str
    chip: str
    deterministic: bool
    tiling: Mapping[str, int]
    counts: Mapping[str, int]
    instructions: Sequence[str]
    blocks: Sequence[Sequence[Sequence[int]]]

    @property
    def name(self) -> str:
        """Return the kind of kernel and the sizes of the layer."""
        p = self.problem
        sizes = "x".join(str(p[axis]) for axis in ("N", "Ci", "D", "H", "W"))
        return f"{self.kind}-{sizes}-{p['Co']}-k{p['kd']}{p['k']}-s{p.get('stride', 1)}"

    @property
    def gradient(self) -> str:
        """Return the output of our operator."""
        return "grad_input" if self.kind == "dx" else "grad_weight"

    def spec(self) -> ChipSpec:
        """Return the chip."""
        return load_chip(self.chip)

    def task(self, tensors: Sequence[Any]) -> Task:
        """Return the launch of the original's rows on the tensors of our kernel."""
        table = InstructionTable(self.spec())
        sizes = [tensor.size for tensor in tensors]
        keys = [_Key.of(text, SLOTS[self.kind]) for text in self.instructions]

        def build(block: int) -> list[Program]:
            k = KernelBuilder(table, block, "AIC", sizes)
            for number, *offsets in self.blocks[block]:
                keys[number].emit(k, offsets)
            return [k.finish()]

        return Task(self.gradient, self.op_type, "AIC", len(self.blocks), tensors, build, all_cores=True)

    def ours(self) -> tuple[Device, Task]:
        """Return our kernel for the layer on a fresh device with nothing in its L2, in the tiling of the original."""
        p, chip = self.problem, self.spec()
        stride, pads = (1, *[p.get("stride", 1)] * 2), (p["kd"] // 2, p["pad"], p["pad"])
        size, kernel = (p["D"], p["H"], p["W"]), (p["kd"], p["k"], p["k"])
        out = [(i + 2 * pad - k) // s + 1 for i, pad, k, s in zip(size, pads, kernel, stride, strict=True)]
        shapes = [(p["N"], p["Co"], *out), (p["N"], p["Ci"], *size), (p["Co"], p["Ci"], *kernel)]
        named = dict(zip(NAMES, [TensorSpec(shape, self.dtype) for shape in shapes], strict=True))
        mask = (self.kind == "dx", self.kind == "dw", False)
        call = arguments(named, None, stride, pads, (1, 1, 1), False, (0, 0, 0), 1, mask, 0, "documented")
        fields = {name: value for name, value in self.tiling.items() if name not in DERIVED[self.kind]}
        accepted = BACKWARD.accept(
            call, chip, conformance="documented", deterministic=self.deterministic, tiling={self.gradient: fields}
        )
        plan = BACKWARD.plan(accepted, chip)
        step = next(step for step in plan.steps if step.name == self.gradient)
        assert step.op_type == self.op_type, f"{self.name}: our plan launches {step.op_type}"
        device = Device(chip, with_values=False)
        allocations = {name: device.allocate(plan.tensors[name].size, name) for name in step.tensors}
        return device, step.make(chip, allocations)


class _Key(NamedTuple):
    """An instruction of an original, and which of its operands lie in which tensor of ours (-1: not in GM)."""

    key: tuple[Any, ...]
    operands: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, text: str, slots: Mapping[int, int]) -> _Key:
        """Read what an instruction is printed as, without its addresses."""
        _, name, *words = text.replace(",", "").split(" ")
        opcode, given = OPCODES[name], dict(word.split("=", 1) for word in words if "=" in word)
        operands = [(one, given[one]) for one in ("dst", "src0", "src1") if one in given]
        values = []
        for one in fields(opcode):  # type: ignore[arg-type]
            kind = one.type if isinstance(one.type, str) else one.type.__name__
            value: Any = given.get(one.name)
            if value is None:
                assert one.default is not MISSING, f"{text}: no {one.name}"
                value = one.default
            elif kind != "str":
                value = value == "True" if kind == "bool" else int(value)
            values.append(value)
        places = [(one, slots[int(space[2:])] if space.startswith("GM") else -1) for one, space in operands]
        return cls((opcode, *values), tuple(places))

    def emit(self, k: KernelBuilder, offsets: Sequence[int]) -> None:
        """Append the row."""
        addresses = {
            where: offset if slot < 0 else gm_operand(slot, offset)
            for (where, slot), offset in zip(self.operands, offsets, strict=True)
        }
        k._emit(self.key, **addresses)


@cache
def originals() -> tuple[Original, ...]:
    """Return all layers."""
    file = json.loads(FILE.read_text(encoding="utf-8"))
    rows = json.loads(lzma.decompress(b64decode("".join(file["rows"]))))
    return tuple(Original(**layer, **packed) for layer, packed in zip(file["layers"], rows, strict=True))


def comparable(program: Program) -> list[OriginalRow]:
    """Return the rows of a program as they are compared."""
    kinds = []
    for instruction in program.table.instructions:
        chosen = tuple([(name, value) for name, value in instruction.parameters().items() if name not in LEFT_OUT])
        spaces = {region.operand: region.space for region in (*instruction.reads(), *instruction.writes())}
        kinds.append((instruction.pipe(program.table.chip), instruction.name, chosen, spaces))
    rows = []
    for number, *addresses, _ in program.rows.tolist():
        pipe, name, chosen, spaces = kinds[number]
        places = [
            RowPlace(spaces[operand], *divmod(address, 1 << SLOT_SHIFT))
            for operand, address in zip(("dst", "src0", "src1"), addresses, strict=True)
            if operand in spaces
        ]
        rows.append(OriginalRow(pipe, name, chosen, tuple(places)))
    return rows


def counts(programs: Sequence[Program]) -> Counter[str]:
    """Return how often each instruction stands in programs."""
    found: Counter[str] = Counter()
    for program in programs:
        for instruction, count in zip(program.table.instructions, program.counts(), strict=True):
            found[instruction.name] += int(count)
    return +found


class Beside(NamedTuple):
    """Both kernels of a layer: instructions by name, and cycles of the longest block."""

    theirs: Counter[str]
    ours: Counter[str]
    their_cycles: int
    our_cycles: int

    @property
    def ratio(self) -> float:
        """Return our cycles over theirs."""
        return self.our_cycles / self.their_cycles


def beside(layer: Original) -> Beside:
    """Run both kernels of a layer alone on a chip whose L2 holds nothing."""
    device, task = layer.ours()
    ours = Engine(device).run([task]).programs
    device, task = layer.ours()
    theirs = Engine(device).run([layer.task(task.tensors)]).programs
    their_counts, our_counts = (counts([run.program for run in runs]) for runs in (theirs, ours))
    their_cycles, our_cycles = (max(run.finish - run.begin for run in runs) for runs in (theirs, ours))
    return Beside(their_counts, our_counts, their_cycles, our_cycles)


def first_difference(layer: Original) -> str:
    """Return the first row that the two kernels do not have in common, else ""."""
    _, task = layer.ours()
    replayed = layer.task(task.tensors)
    for block in range(len(layer.blocks)):
        theirs, ours = (comparable(one.build(block)[0]) for one in (replayed, task))
        for number, (their, our) in enumerate(zip(theirs, ours, strict=False)):
            if their != our:
                return f"{layer.name}, block {block}, row {number}:\n  theirs {their}\n  ours   {our}"
        if len(theirs) != len(ours):
            return f"{layer.name}, block {block}: {len(theirs)} rows, ours {len(ours)}"
    return ""


def table() -> Iterator[str]:
    """Yield the lines of the comparison: for each layer the counts that differ, cycles of both and their ratio."""
    for layer in originals():
        one = beside(layer)
        names = sorted({*one.theirs, *one.ours})
        differing = [f"{name} {one.theirs[name]} {one.ours[name]}" for name in names if one.theirs[name] != one.ours[name]]
        yield f"{layer.name:34} {one.their_cycles:>7} {one.our_cycles:>7} {one.ratio:6.3f}  {', '.join(differing)}"


if __name__ == "__main__":
    print(f"{'layer':34} {'theirs':>7} {'ours':>7}  ratio  instructions that differ: theirs, ours")
    for line in table():
        print(line, flush=True)
