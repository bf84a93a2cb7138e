"""The compiled engine against the SimPy engine: everything that a run leaves behind must be equal."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.errors import CycleLimitError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import TRANSFER, Cost, GmAccess, Instruction
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from ascend_sim.memory.regions import Region
from tests.support.engine.machine import CHIP, changed, program, quiet, task_of
from tests.support.engine.random_runs import RandomRun, everything
from tests.support.sampling import as_part, part_of_cases, sample

pytestmark = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


def assert_equal(seed: int) -> None:
    run = RandomRun(seed)
    expected, found = run.outcome("simpy"), run.outcome("compiled")
    assert list(found) == list(expected), f"Run({seed})"
    for name, value in expected.items():
        assert found[name] == value, f"Run({seed}): {name}"


@as_part
@part_of_cases(0, "[0]", "[120]")
@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_runs_are_equal(first: int) -> None:
    for seed in range(first, first + sample(16, 40)):
        assert_equal(seed)


def test_the_scalar_unit_goes_on_for_a_pipe_that_waits_for_its_flag() -> None:
    """One random run in which no pipe has worked off its queue; the limit of cycles told the engines apart."""
    assert_equal(1909)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_random_runs_are_equal(first: int) -> None:
    for seed in range(first, first + 100):
        assert_equal(seed)


def test_engines_of_several_threads_do_not_meet() -> None:
    """Every machine has its memory to itself, and C runs without Python's lock."""
    seeds = range(300, 316)
    expected = [RandomRun(seed).outcome("compiled") for seed in seeds]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(lambda seed: RandomRun(seed).outcome("compiled"), seeds)) == expected


def compiled(made: Program, tensors: int = 1, chip: Any = CHIP) -> Any:
    device = Device(chip, with_values=False)
    held = [device.allocate(65536, f"t{i}") for i in range(tensors)]
    return Engine(device, engine="compiled").run([task_of([[made]], held)])


def copies(count: int) -> Program:
    def write(k: Any) -> None:
        for i in range(count):
            k.data_copy("GM", "UB", 0, gm_operand(0, 32 * i), 32)

    return program(CHIP, "AIV", write, [65536])


@pytest.mark.parametrize(("column", "value"), [(0, 7), (0, -1), (2, gm_operand(3, 0)), (2, -1)])
def test_rows_that_point_nowhere_are_refused(column: int, value: int) -> None:
    """A builder makes no such rows; C must not follow them."""
    made = copies(3)
    made = made.with_rows(made.rows.copy())
    made.rows[1, column] = value
    with pytest.raises(SimError, match="a row that points outside"):
        compiled(made)


def test_rows_of_any_layout_are_taken() -> None:
    made = copies(50)
    expected = compiled(made).programs[0].end.tolist()
    made = made.with_rows(np.asfortranarray(made.rows))
    assert compiled(made).programs[0].end.tolist() == expected


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"l2_read_bytes_per_cycle_per_aic": 1e9}, "memory.l2_read_bytes_per_cycle_per_aic: comes to 2e.10 bytes per cycle"),
        ({"l2_write_bytes_per_cycle_per_aic": 1e-9}, "memory.l2_write_bytes_per_cycle_per_aic: comes to .* from 2..-16"),
        ({"hbm_latency": 1 << 31}, "memory.hbm_latency: is 2147483648; at most 2147483647"),
        ({"l2_line_bytes": 1 << 17}, "memory.l2_line_bytes: is 131072; at most 65536"),
        ({"same_line_read_ratio": 2.0**30}, "memory.same_line_read_ratio: is 1.07374e.09; must be below 2..30"),
        ({"write_back_ratio": 1024.0}, "memory.write_back_ratio: is 1024; must be below 1024"),
    ],
)
def test_a_chip_with_which_counts_could_wrap_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SimError, match=words):
        compiled(copies(1), chip=changed(CHIP, memory=fields))


@pytest.mark.parametrize(
    ("section", "fields", "words"),
    [
        ("sync", {"flag_max": 1 << 31}, "sync.flag_max: is 2147483648; at most 2147483647"),
        ("launch", {"task_overhead_us": {"AIV": 1e16}}, "launch.task_overhead_us.AIV: comes to 1.* cycles; at most"),
        ("launch", {"overhead_per_block_us": {"AIV": 2e6}}, "launch.overhead_per_block_us.AIV: comes to"),
        ("launch", {"block_us": {"AIV": 2e6}}, "launch.block_us.AIV: comes to"),
        ("launch", {"core_start_us": {"AIV": 2e6}}, "launch.core_start_us.AIV: comes to"),
        ("launch", {"prologue_us": {"Test": 2e6}}, "launch.prologue_us.Test: comes to"),
    ],
)
def test_a_chip_that_launches_beyond_the_clock_is_refused(section: str, fields: dict[str, Any], words: str) -> None:
    """A launch of 1e16 us would begin at a cycle that wraps, and end before it began."""
    with pytest.raises(SimError, match=words):
        compiled(copies(1), chip=changed(CHIP, **{section: fields}))


def test_a_clock_that_would_wrap_ends_the_run() -> None:
    device = Device(quiet(CHIP), with_values=False)
    tensor = device.allocate(65536, "t")
    device.clock = (1 << 61) - 100
    with pytest.raises(SimError, match=r"longer than 2\*\*61 cycles"):
        Engine(device, engine="compiled").run([task_of([[copies(20)]], [tensor])])


@frozen
class Reads(Instruction):
    """Rows of GM on top of one another in UB, which no copy can say: more bytes than a buffer holds in one transfer."""

    row_bytes: int
    rows: int
    stride: int

    name = "reads"
    kind = TRANSFER

    def _copy(self) -> DataCopy:
        return DataCopy("GM", "UB", self.row_bytes, self.rows, self.stride)

    def pipe(self, chip: ChipSpec) -> str:
        return "MTE2"

    def cost(self, chip: ChipSpec) -> Cost:
        return self._copy().cost(chip)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        return self._copy().gm_access(chip)

    def reads(self) -> tuple[Region, ...]:
        return self._copy().reads()

    def writes(self) -> tuple[Region, ...]:
        return self._copy().writes()


def assert_both_equal(chip: Any, made: list[list[Program]], sizes: list[int]) -> None:
    found = []
    for engine in ("simpy", "compiled"):
        device = Device(chip, with_values=False)
        tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(sizes)]
        found.append(everything(device, Engine(device, engine=engine).run([task_of(made, tensors)])))
    assert found[1] == found[0]


def test_a_class_that_is_served_for_very_long_counts_on() -> None:
    """Bytes served to a class are counted from its beginning; where they would wrap they are counted anew.

    Two cores read the same line two million times in a transfer; they never pause together, so that the class lives on.
    """

    def write(k: Any) -> None:
        for i in range(1200):
            k._emit((Reads, 32, 1 << (20 if i == k.block == 1 else 21), 0), 0, gm_operand(0, 0))

    chip = changed(quiet(CHIP), memory={"l2_line_bytes": 1 << 16, "l2_bytes": 1 << 26}, cores={"aiv": 2})
    assert 1200 * 2**21 * 2**16 * 2**16 > 2**63
    assert_both_equal(chip, [[program(chip, "AIV", write, [65536], block=b)] for b in range(2)], [65536])


def test_many_fills_on_their_way_at_once() -> None:
    """40 cores read lines that others are just fetching, far more than C has room for at first."""
    random = Random(1)

    def write(k: Any) -> None:
        for _ in range(60):
            k.data_copy("GM", "UB", 0, gm_operand(0, 512 * random.randrange(8000)), 512 * random.randint(1, 24))

    size = 1 << 23
    chip = changed(quiet(CHIP), memory={"hbm_latency": 5000})
    assert_both_equal(chip, [[program(chip, "AIV", write, [size], block=b)] for b in range(40)], [size])


def test_a_hit_on_nothing_but_the_first_line_on_its_way() -> None:
    """The second core reads the line that the first one, the only one at work, fetches first."""

    def write(k: Any) -> None:
        k.scalar(20 * k.block)
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 512 if k.block else 2048)

    chip = changed(quiet(CHIP), memory={"hbm_latency": 5000}, cores={"aiv": 2})
    assert_both_equal(chip, [[program(chip, "AIV", write, [2048], block=b)] for b in range(2)], [2048])


def test_a_block_of_lines_that_lacked_its_last_one() -> None:
    """Two cores read 32 lines of which one, the only one at work, is on its way; the first of them has C look at each."""

    def write(k: Any) -> None:
        k.scalar(100 * k.block + 20000 * (k.block > 0))
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 512 * (32 if k.block else 31))
        if not k.block:
            k.scalar(20000)
            k.data_copy("GM", "UB", 0, gm_operand(0, 512 * 31), 512)

    chip = changed(quiet(CHIP), memory={"hbm_latency": 5000}, cores={"aic": 2, "aiv": 3})
    assert_both_equal(chip, [[program(chip, "AIV", write, [16384], block=b)] for b in range(3)], [16384])


def test_lines_that_cost_less_than_a_plain_read_when_shared() -> None:
    """A part of a negative surcharge is rounded down, also in C, which rounds towards zero by itself."""

    def write(k: Any) -> None:
        k.scalar(100 * k.block)
        k._emit((Reads, 65536, 64, 65536), 0, gm_operand(0, 768 * 1024 * k.block))

    memory = {"same_line_read_ratio": 0.3, "l2_read_bytes_per_cycle_per_aic": 3.0, "hbm_latency": 0}
    chip = changed(quiet(CHIP), memory=memory, cores={"aic": 2, "aiv": 4})
    assert_both_equal(chip, [[program(chip, "AIV", write, [1 << 23], block=b)] for b in range(4)], [1 << 23])


def test_who_reads_a_line_is_known_when_lines_further_on_come() -> None:
    """A later block reaches further than C has room for, and begins with the lines that the first one is reading."""

    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 65536)
        k.data_copy("GM", "UB", 0, gm_operand(0, k.block << 22), 65536)

    memory = {"same_line_read_ratio": 3.0, "l2_read_bytes_per_cycle_per_aic": 3.0, "hbm_latency": 0}
    chip = changed(quiet(CHIP), memory=memory, cores={"aic": 2, "aiv": 4}, launch={"block_us": {"AIV": 0.05}})
    assert_both_equal(chip, [[program(chip, "AIV", write, [1 << 23], block=b)] for b in range(2)], [1 << 23])


@pytest.mark.parametrize("lines", [3, 40, 150, 700, 100_000])
def test_lines_in_blocks(lines: int) -> None:
    """C keeps bounds of 32 neighbouring lines: cores read, write and add to spans of them, whole blocks above all."""
    size = 1024 * 512

    def write(k: Any) -> None:
        random = Random(f"{lines} {k.block}")
        for _ in range(40):
            count = random.choice([1, 2, 31, 32, 33, 64, 96, 128, 200])
            first = random.choice([32 * random.randrange(20), random.randrange(800)])
            begin, end = random.choice([(0, 0), (32, 0), (0, 32), (64, 96)])
            place, span = gm_operand(0, 512 * first + begin), 512 * count - begin - end
            match random.randrange(6):
                case 0:
                    k.data_copy("UB", "GM", place, 0, span, atomic_add=random.choice(["", "float32"]))
                case 1:
                    rows, row = random.choice([(2, 40), (5, 8), (3, 1)])
                    apart = 512 * (row + random.choice([0, 1, 32]))
                    k.data_copy("GM", "UB", 0, place, 512 * row - begin, rows, apart, 512 * row)
                case 2:
                    k.data_copy("GM", "UB", 0, place, span, 1, span, span, "", "", True)
                case _:
                    k.data_copy("GM", "UB", 0, place, span)

    memory = {"l2_bytes": 512 * lines, "same_line_read_ratio": 3.0, "hbm_latency": 3000, "partial_line_refetch": True}
    chip = changed(quiet(CHIP), memory=memory, cores={"aic": 3, "aiv": 6})
    assert_both_equal(chip, [[program(chip, "AIV", write, [size], block=b)] for b in range(9)], [size])


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_regions_of_any_shape(seed: int) -> None:
    """Rows shorter and longer than a line that share lines, stand between those of other planes, and begin anywhere.

    The 950 alone has loops around copies.
    """
    size, random = 1 << 20, Random(seed)

    def write(k: Any) -> None:
        # Halves of lines, which two planes cover together.
        k.data_copy_planes("UB", "GM", gm_operand(0, 0), 0, 256, CopyLoop(4, 2048, 512), CopyLoop(2, 8192, 256))
        for _ in range(60):
            row, rows, planes = (
                random.choice([4, 100, 500, 512, 516, 700, 1100, 2048]),
                random.randint(1, 5),
                random.randint(1, 4),
            )
            step = random.choice([row, row + 4, row + 300, 512 * (row // 512 + 1), 3000])
            apart = random.choice([step * rows, step * rows + 100, row + 4 * random.randrange(200), 8000])
            place = gm_operand(0, random.choice([0, 4, 100, 508, 4 * random.randrange(5000)]))
            in_ub = CopyLoop(rows, 2048, step), CopyLoop(planes, 5 * 2048, apart)
            if random.randrange(3):
                there = [CopyLoop(one.times, one.dst_stride, one.src_stride) for one in in_ub]
                k.data_copy_planes("GM", "UB", 0, place, row, *there)
            elif apart >= step * rows:
                k.data_copy_planes("UB", "GM", place, 0, row, *in_ub)
            if not random.randrange(4):
                k.pipe_barrier("ALL")

    memory = {"l2_line_bytes": 512, "l2_bytes": 512 * 40, "hbm_latency": 3000, "partial_line_refetch": bool(seed % 2)}
    chip = changed(quiet(load_chip("ascend950pr_9589")), memory=memory, cores={"aic": 2, "aiv": 4})
    assert_both_equal(chip, [[program(chip, "AIV", write, [size], block=b)] for b in range(3)], [size])


def test_a_drain_that_writes_two_regions_is_one_transfer() -> None:
    """An odd number of fractals of bytes: the last one stands alone, behind blocks of two."""

    def write(k: Any) -> None:
        for number in range(9):
            place, m, n = gm_operand(0, 4096 * number + 32 * number), 1 + 5 * number, 16 * (1 + 2 * (number % 4))
            k.fixpipe(place, 0, m, n, 48, "int8", 32, 2048, pre=Quantisation("int32", 0.5))

    for name in ("ascend910b3", "ascend950pr_9589"):
        chip = changed(quiet(load_chip(name)), memory={"l2_bytes": 512 * 12}, cores={"aic": 2, "aiv": 4})
        assert_both_equal(chip, [[program(chip, "AIC", write, [1 << 16], block=b)] for b in range(3)], [1 << 16])


def test_flags_that_a_later_block_brings_are_none_of_an_earlier_one() -> None:
    """The blocks of a task share a table of instructions and flags, which grows while the first of them run already."""
    table = InstructionTable(CHIP)

    def build(block: int) -> list[Program]:
        k = KernelBuilder(table, block, "AIC", [65536])
        for _ in range(20):  # the later block begins before the earlier one ends
            k.data_copy("GM", "L1", 0, gm_operand(0, 0), 32768)
        for source, target in list(permutations(("MTE1", "MTE2", "M", "FIX"), 2))[: 1 + 11 * block]:
            for i in range(1 + 7 * block):
                flag = k.flag(source, target, f"{source} to {target} {i}")
                k.set_flag(flag)
                k.wait_flag(flag)
        return [k.finish()]

    ends = []
    for engine in ("simpy", "compiled"):
        table, device = InstructionTable(CHIP), Device(CHIP, with_values=False)
        task = Task("task", "Test", "AIC", 2, [device.allocate(65536, "t")], build)
        timeline = Engine(device, engine=engine).run([task])
        ends.append([(run.begin, run.finish) for run in timeline.programs])
    assert ends[0] == ends[1]


def test_sets_far_ahead_of_their_waits_are_kept() -> None:
    """V works out when it raises a flag 100 times before the transfer ends behind which MTE2 waits for the first of them."""

    def write(k: Any) -> None:
        flag = k.flag("V", "MTE2", "f")
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 4096)
        for _ in range(100):
            k.vector_duplicate(4096, "float32", 32768)
            k.set_flag(flag)
            k.wait_flag(flag)

    chip = changed(CHIP, sync={"queue_depth": {**CHIP.sync.queue_depth, "MTE2": 200}})
    assert_both_equal(chip, [[program(chip, "AIV", write, [65536])]], [65536])


def long_block(tiles: int, block: int = 0) -> Program:
    """Tiles of a thousand rows each, which no transfer holds up."""
    k = KernelBuilder(InstructionTable(CHIP), block, "AIV", [])
    done = k.flag("V", "MTE3", "done")
    for _ in k.stamped([(0, 0)] * tiles):
        for _ in range(499):
            k.vector_duplicate(0, "float16", 64)
        k.set_flag(done)
        k.wait_flag(done)
        for _ in range(499):
            k.vector_duplicate(4096, "float16", 128)
    return k.finish()


@pytest.mark.parametrize("keep", [True, False])
def test_a_block_that_is_longer_than_a_slice(keep: bool) -> None:
    """C comes back to Python in the middle of it, and goes on with the same row."""
    left = []
    for engine in ("simpy", "compiled"):
        device = Device(CHIP, with_values=False)
        blocks = [[long_block(90, block=block)] for block in range(2)]
        timeline = Engine(device, engine=engine).run([task_of(blocks)], keep=keep, watch=True)
        left.append((everything(device, timeline), timeline.watched))
    assert left[0] == left[1]


def test_a_long_block_hears_signals() -> None:
    """A handler that is called every few milliseconds of work: C is never gone for longer."""
    heard = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: heard.append(time.process_time()))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.005, 0.005)
    try:
        begin = time.process_time()
        Engine(Device(CHIP, with_values=False), engine="compiled").run([task_of([[long_block(3000)]])], keep=False)
        end = time.process_time()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    moments = [begin, *heard, end]
    assert max(np.diff(moments)) < (end - begin) / 4


def test_a_long_block_is_given_up_at_the_limit() -> None:
    """Nothing comes from C's heaviest work beyond it: as long as the whole block takes, the limit is told in no time."""
    made = long_block(3000)

    def seconds(**options: Any) -> float:
        begin = time.process_time()
        with suppress(CycleLimitError):
            Engine(Device(CHIP, with_values=False), engine="compiled", **options).run([task_of([[made]])], keep=False)
            assert not options
        return time.process_time() - begin

    assert seconds(max_cycles=1000) < seconds() / 4
