"""Bank conflicts of the Unified Buffer: measured adds, a naive count of accesses, and both engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.watch import from_columns, watched
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Cost
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.arithmetic import VectorBinary, VectorScalar, VectorUnary
from ascend_sim.isa.vector.banks import PAIRS, OperandBlocks, cycles_at
from ascend_sim.isa.vector.base import Elementwise, VectorInstruction
from ascend_sim.isa.vector.selection import Compare
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.regions import Region
from ascend_sim.studies.validate.microbench import VectorAdd
from tests.support.engine.machine import changed, quiet, task_of

BLOCK = 32


def added(chip: ChipSpec, instruction: Any, dst: int, src0: int, src1: int = 0) -> list[int]:
    """Return the cycles that conflicts over (groups, banks) add to one instruction at these addresses."""
    conflicts = instruction.bank_cycles(chip)
    if conflicts is None:
        return [0, 0]
    addresses = {name: np.array([at]) for name, at in (("dst", dst), ("src0", src0), ("src1", src1))}
    return [int(one) for one in cycles_at(chip, conflicts[None], addresses)[:, 0]]


# asc-devkit (mirror-cann), examples/01_simd_cpp_api/05_best_practices/04_memory_access/bank_conflict_ub/README.md: addresses of
# src0, src1 and dst, block and repeat stride of src0 in blocks, ticks of 50 MHz for 1,000 adds of 4,096 float32 on an A2.
SCENARIOS = [
    (0, 0x10100, 0x20000, (1, 8), 2390),
    (0, 0x4000, 0x10000, (1, 8), 4167),
    (0, 0x10000, 0x14100, (1, 8), 4167),
    (0, 0x10100, 0x4000, (1, 8), 2389),
    (0, 0x10100, 0x4020, (1, 8), 3751),
    (0, 0x10100, 0x10100, (1, 8), 2390),
    (0, 0x10100, 0x10100, (0, 1), 3584),
    (0, 0x10100, 0x10100, (0, 8), 2389),
]


@pytest.mark.parametrize(("src0", "src1", "dst", "strides", "ticks"), SCENARIOS)
def test_measured_adds(src0: int, src1: int, dst: int, strides: tuple[int, int], ticks: int) -> None:
    """In the seventh every second repeat has a conflict; it takes 11 % longer than these explain."""
    chip = load_chip("ascend910b1")
    block, repeat = (BLOCK * one for one in strides)
    add = VectorBinary("add", "float32", 64, 64, 256, repeat, None, (BLOCK, block, BLOCK), 256)
    cost = add.cost(chip)
    head = chip.vector.head
    predicted = head + cost.work + sum(added(chip, add, dst, src0, src1))
    measured = ticks * chip.clock.cube_mhz / 50 / 1000
    assert predicted == pytest.approx(measured, rel=0.11 if ticks == 3584 else 0.03)


@pytest.mark.parametrize(
    ("tile", "buffers", "vec_us"), [(4096, 1, 15.885), (16384, 1, 12.845), (16384, 2, 12.846), (16256, 2, 6.954)]
)
def test_measured_vector_time_of_an_add_by_all_cores(tile: int, buffers: int, vec_us: float) -> None:
    """asc-devkit, add_high_performance: aiv_vec_time of 8192 x 8192 halves on 48 cores; an eighth of them here."""
    chip = load_chip("ascend910b1")
    device = Device(chip, with_values=False)
    runs = Engine(device).run([VectorAdd(8192 * 8192 // 48 * 6, tile, 6, buffers).task(chip, device)]).of(0)
    assert chip.us(float(np.mean([run.busy()["V"] for run in runs]))) == pytest.approx(vec_us, rel=0.02)


@pytest.mark.parametrize(("step", "cycles"), [(1, 1), (3, 1), (2, 1), (4, 2), (8, 4), (16, 8), (24, 4), (0, 1)])
def test_blocks_of_one_operand(step: int, cycles: int) -> None:
    """Best practice "avoid bank conflicts of the Unified Buffer": eight blocks in one group take eight cycles, in two, four."""
    chip = load_chip("ascend910b3")
    for strides in ((step, 1), (1, step)):  # of dst, or of the source
        if strides[0]:
            copy = VectorUnary("abs", "float32", 64, 3, 8192, 8192, None, tuple(BLOCK * one for one in strides))
            assert added(chip, copy, 0, 0x10000) == [3 * (cycles - 1), 0]


def naive(chip: ChipSpec, slope: float, operands: dict[str, tuple[int, OperandBlocks]]) -> list[int]:
    """Return the cycles that conflicts add, from a list of the blocks that each repeat accesses."""
    vector, banks = chip.vector, chip.vector.banks
    size = banks.groups * banks.bytes
    blocks: dict[str, list[list[int]]] = {}
    for name, (address, one) in operands.items():
        blocks[name] = []
        for row in range(one.rows):
            at = [address + row * one.stride + number * one.step for number in range(-(-one.row_bytes // BLOCK))]
            for first in range(0, len(at), 8):
                accessed = at[first : first + 8][: 1 if one.step == 0 else 8]
                blocks[name].append([] if row and not one.stride else [place // BLOCK % banks.groups for place in accessed])
    groups, bank = 0.0, dict.fromkeys(PAIRS[1:], 0.0)
    for repeat in range(len(blocks["src0"])):
        reads = [group for name in ("src0", "src1") for group in blocks.get(name, [[]] * (repeat + 1))[repeat]]
        writes = blocks["dst"][repeat] if "dst" in blocks else []
        most = max(every.count(group) for every in (reads, writes, [0]) for group in range(banks.groups))
        groups += (most - 1) * (vector.bank_conflict - 1) * slope
        for source, _ in bank:
            own = blocks.get(source, [[]] * (repeat + 1))[repeat]
            if set(own) & set(writes) and sorted(own) != sorted(writes):
                bank[source, "dst"] += (vector.bank_write_conflict - 1) * slope
    found = [
        bank[source, "dst"] if source in operands and operands[source][0] // size == operands["dst"][0] // size else 0.0
        for source in ("src0", "src1")
        if "dst" in operands
    ]
    of_groups, of_banks = int(np.ceil(round(groups, 6))), int(np.ceil(round(max(found, default=0.0), 6)))
    return [of_groups, 0] if of_groups >= of_banks else [0, of_banks]


@pytest.mark.parametrize("name", ["ascend910b3", "ascend910a"])
def test_random_operands_against_a_naive_count(name: str) -> None:
    chip, rng = load_chip(name), np.random.default_rng(7)
    seen = set()
    for _ in range(300):
        rows = int(rng.choice([1, 1, 2, 5, 16]))
        strided = bool(rng.integers(2))
        count = 64 if strided else int(rng.integers(1, 400))
        dst, src0, src1 = (BLOCK * int(rng.integers(0, 6000)) for _ in range(3))
        strides = [BLOCK * int(rng.choice([0, 8, 9, 16, 50, int(rng.integers(1, 60))])) for _ in range(3)]
        blocks = tuple(BLOCK * int(rng.choice([1, 1, 2, 3, 4, 8, 16])) for _ in range(3)) if strided else ()
        steps = blocks or (BLOCK,) * 3
        layouts = {
            one: OperandBlocks(4 * count, rows, stride, step)
            for one, stride, step in zip(("dst", "src0", "src1"), strides, steps, strict=True)
        }
        add = VectorBinary("add", "float32", count, rows, strides[0], strides[1], None, blocks, strides[2])
        exp = VectorScalar("adds", "float32", count, rows, strides[0], strides[1], None, blocks)
        places = {"dst": dst, "src0": src0, "src1": src1}
        for instruction, used in ((add, ("dst", "src0", "src1")), (exp, ("dst", "src0"))):
            assert instruction.banked() == {one: layouts[one] for one in used}
            slope = chip.vector.ops[instruction.opcode].cycles_per_repeat["float32"]
            expected = naive(chip, slope, {one: (places[one], layouts[one]) for one in used})
            assert added(chip, instruction, dst, src0, src1) == expected, (instruction, places)
            seen.add((len(used), expected[0] > 0, expected[1] > 0))
    assert len(seen) >= 5


def test_a_comparison_reads_two_operands_and_others_have_no_conflicts() -> None:
    chip = load_chip("ascend910b3")
    compare = Compare("lt", "float32", 128)
    assert added(chip, compare, 0, 0x4000, 0x8000) == [2, 0] and added(chip, compare, 0, 0x4000, 0x8100) == [0, 0]
    assert added(chip, Compare("lt", "float32", 128, scalar=1.0), 0, 0x4000) == [0, 0]
    assert VectorBinary("add", "float32", 128).bank_cycles(load_chip("ascend950pr_9589")) is None  # two reads a cycle


@dataclass(frozen=True)
class Tripled(Elementwise):
    """An operation of a user's own, that the chip's table lacks, with a cost of its own."""

    name = "tripled"

    def pipe(self, chip: ChipSpec) -> str:
        return "V"

    def cost(self, chip: ChipSpec) -> Cost:
        return Cost(1, 1, 5, 0)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return 3 * self.source(memory, src0)


@dataclass(frozen=True)
class Whole(VectorInstruction):
    """An instruction of a user's own, without a format."""

    name = "whole"
    pipe, cost = Tripled.pipe, Tripled.cost

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", BLOCK),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return 7

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (BLOCK,), np.uint8)[...] = pending


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_users_own_vector_instruction_has_no_conflicts(engine: str) -> None:
    @asim.kernel_function(core="AIV")
    def triples(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        a, b = k.local_tensor(x.size, x.dtype, "a"), k.local_tensor(x.size, x.dtype, "b")
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        k.gm_to_ub(a, x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.emit(Tripled("tripled", "float32", x.size), b, a)
        k.emit(Whole(), b)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, b)

    run = asim.launch(triples, 1, np.ones(64, np.float32), asim.empty(64, "float32"), engine=engine)
    assert (run.outputs["y"][8:] == 3).all() and run.passed


def test_cycles_are_computed_once_for_all_scalars_and_kept_for_each_chip() -> None:
    """A kernel may add thousands of different numbers; a chip with other rates has other cycles."""
    chip = load_chip("ascend910b3")
    one, other = (VectorScalar("adds", "float32", 128, scalar=scalar).bank_cycles(chip) for scalar in (1.0, 2.0))
    assert one is other is not None
    table = InstructionTable(chip)
    for scalar in (3.0, 4.0):
        key = (VectorScalar, "adds", "float32", 128, 1, 0, 0, None, (), scalar)
        assert table.conflicts_of(table.add(key)) is one  # C reads them there: no copies in memory
    add = VectorBinary("add", "float32", 128)
    slow = changed(chip, vector={"bank_conflict": 3.0})
    np.testing.assert_array_equal(2 * add.bank_cycles(chip)[0], add.bank_cycles(slow)[0])


@pytest.mark.parametrize("name", ["bank_conflict", "bank_write_conflict"])
def test_conflicts_beyond_the_clock_are_refused(name: str) -> None:
    table = InstructionTable(changed(load_chip("ascend910b3"), vector={name: 1e300}))
    with pytest.raises(SimError, match="an engine's int64 clock could wrap"):
        table.add((VectorBinary, "add", "float32", 128))


@pytest.mark.parametrize("name", ["ascend910b3", "ascend310p3"])
def test_engines_and_totals_agree(name: str) -> None:
    """Random adds at random places: cycles, and the totals that a run without columns counts in C."""
    chip, rng = quiet(load_chip(name)), np.random.default_rng(3)
    kind = "AIV" if "AIV" in chip.cores.kinds else "AI_CORE"
    table = InstructionTable(chip)
    k = KernelBuilder(table, 0, kind, [])
    for _ in range(200):
        dst, src0, src1 = (8192 * int(slot) + BLOCK * int(rng.integers(0, 100)) for slot in rng.permutation(23)[:3])
        k.vector_binary("add", dst, src0, dst if rng.integers(4) == 0 else src1, "float32", int(rng.integers(1, 1000)))
    program = k.finish()
    found = {}
    for engine in ("simpy", "compiled"):
        for keep in (True, False):
            device = Device(chip, with_values=False)
            timeline = Engine(device, engine=engine).run([task_of([[program]])], keep=keep)
            pipe = watched(timeline).of_task[0].pipes[kind, "V"]
            found[engine, keep] = pipe.busy, pipe.bank_conflicts
            if keep:
                totals = from_columns([run.task for run in timeline.tasks], timeline.programs)
                assert totals.of_task[0].pipes[kind, "V"].bank_conflicts == pipe.bank_conflicts
    assert len(set(found.values())) == 1
    busy, conflicts = found["simpy", True]
    assert conflicts == program.bank_cycles().sum() and 0 < conflicts < busy
