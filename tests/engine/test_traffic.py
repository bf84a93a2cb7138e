"""Shared GM bandwidth and L2 against `naive_memory`: exact fractions, one transfer at a time, a list for a cache."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.l2 import L2Cache
from ascend_sim.engine.traffic import Traffic, Transfer
from ascend_sim.isa.base import GmAccess
from ascend_sim.memory.gm import gm_operand
from ascend_sim.memory.regions import Region
from tests.support.engine.machine import CHIP, changed, ideal_memory, program, quiet, run_one, task_of
from tests.support.engine.maxplus import schedule
from tests.support.engine.naive_memory import Cache, NaiveTransfer, simulate, whole
from tests.support.engine.random_programs import SIZES, RandomChip, Step, steps, variants, writer
from tests.support.sampling import sampled

LINE = 512
SLACK = 1
"""Cycles: where two limits bind at the same level, who gets the last 2**-16 byte per cycle is nobody's law."""


def memory(
    read: float, write: float, hbm: float, latency: int = 0, refetch: bool = False, ratios: tuple[float, float] = (1, 1)
) -> ChipSpec:
    """A chip with these bandwidths in bytes per cycle for the whole chip."""
    cores = CHIP.cores.aic
    return changed(
        quiet(CHIP),
        memory={
            "l2_read_bytes_per_cycle_per_aic": read / cores,
            "l2_write_bytes_per_cycle_per_aic": write / cores,
            "hbm_gb_per_s": hbm * CHIP.clock.cube_mhz / 1e3,
            "hbm_efficiency": 1.0,
            "hbm_latency": latency,
            "l2_write_efficiency": 1.0,
            "partial_line_refetch": refetch,
            "same_line_read_ratio": ratios[0],
            "write_back_ratio": ratios[1],
        },
    )


def fly(chip: ChipSpec, capacity: int, moves: list[NaiveTransfer]) -> tuple[list[Transfer], list[int], Traffic]:
    """Let the moves loose on Traffic, each at its start; the transfers and their ends."""
    env = simpy.Environment()
    traffic = Traffic(env, chip, L2Cache(capacity))
    transfers: list[Any] = [None] * len(moves)
    ends = [0] * len(moves)

    def one(i: int, move: NaiveTransfer) -> Any:
        yield env.timeout(move.start // 2)  # asked for before its time
        access = GmAccess(move.direction, move.region, float(move.port))
        transfers[i] = traffic.request(move.start, move.order, access, move.address)
        yield transfers[i].done
        ends[i] = int(env.now)

    for i, move in enumerate(moves):
        env.process(one(i, move))
    env.run()
    return transfers, ends, traffic


def exact(chip: ChipSpec, capacity: int, moves: list[NaiveTransfer]) -> None:
    m = chip.memory
    limits = (chip.l2_read_bytes_per_cycle(), chip.l2_write_bytes_per_cycle(), chip.hbm_bytes_per_cycle())
    read, write, hbm = (whole(Fraction(limit)) for limit in limits)
    simulate(
        moves,
        Cache(capacity),
        LINE,
        m.partial_line_refetch,
        m.hbm_latency,
        read,
        write,
        hbm,
        (Fraction(m.same_line_read_ratio), Fraction(m.write_back_ratio)),
    )


regions = st.builds(Region, st.just("src0"), st.just("GM"), st.integers(1, 3000), st.integers(3000, 5000), st.integers(1, 4))
moves_strategy = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.sampled_from(["read", "read", "write", "atomic"]),
        regions,
        st.integers(0, 40_000),
        st.sampled_from([40, 100, 153.25]),
    ),
    min_size=1,
    max_size=14,
)


@sampled(60, 250)
@given(
    moves_strategy, st.integers(40, 600), st.integers(40, 600), st.integers(20, 600), st.integers(40, 200),
    st.integers(0, 300), st.booleans(),
    st.tuples(st.sampled_from([1.0, 1.5, 2.25]), st.sampled_from([1.0, 1.6, 0.5])),
)  # fmt: skip
def test_against_exact_fractions(
    drawn: list[Any], read: int, write: int, hbm: int, capacity: int, latency: int, refetch: bool, ratios: tuple[float, float]
) -> None:
    chip = memory(read, write, hbm, latency, refetch, ratios)
    moves = [
        NaiveTransfer(start, i, d, region, at, whole(Fraction(port))) for i, (start, d, region, at, port) in enumerate(drawn)
    ]
    transfers, ends, traffic = fly(chip, capacity, moves)
    exact(chip, capacity, moves)
    for move, transfer, end in zip(moves, transfers, ends, strict=True):
        assert transfer.lines == move.touched
        assert (transfer.misses, transfer.hbm_bytes // LINE - transfer.misses) == (move.fetched, move.victims)
        assert abs(end - move.done) <= SLACK
        assert abs(max(transfer.ready, end) - max(move.ready, move.done)) <= SLACK
    assert traffic.hbm_bytes == sum(move.fetched + move.victims for move in moves) * LINE


@settings(max_examples=60, deadline=None)
@given(variants(), st.lists(steps(30), min_size=2, max_size=4), st.integers(20, 400), st.integers(20, 400))
def test_programs_that_share_memory(variant: RandomChip, blocks: list[list[Step]], l2: int, hbm: int) -> None:
    """Several cores, scarce memory: each core's timeline is the recurrence over the ends that the memory gave it, and the
    ends are those that the slow memory gives transfers with these starts. Together: the timeline of the whole machine.
    """
    chip = variant.chip.model_copy(update={"memory": memory(l2, l2, hbm, 70).memory})
    kind = "AIC"
    made = [program(chip, kind, writer(kind, actions), SIZES, block=b) for b, actions in enumerate(blocks)]
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(SIZES)]
    asked: list[tuple[Transfer, list[int]]] = []

    class WatchedTraffic(Traffic):
        def request(self, start: int, order: int, access: GmAccess, address: int) -> Transfer:
            assert start >= self.env.now, "a request for the past"
            transfer = super().request(start, order, access, address)
            end: list[int] = []
            transfer.done.callbacks.append(lambda _: end.append(int(self.env.now)))
            asked.append((transfer, end))
            return transfer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ascend_sim.engine.machine.Traffic", WatchedTraffic)
        timeline = Engine(device, engine="simpy").run([task_of([[p] for p in made], tensors)])
    moves = [
        NaiveTransfer(t.start, t.order, t.access.direction, t.access.region, t.address, whole(Fraction(t.access.rate)))
        for t, _ in asked
    ]
    exact(chip, device.l2.capacity, moves)
    for move, (transfer, end) in zip(moves, asked, strict=True):
        assert abs(end[0] - move.done) <= SLACK
        assert abs(max(transfer.ready, end[0]) - max(move.ready, move.done)) <= SLACK

    took: dict[tuple[int, int], tuple[int, int]] = {}
    by_order: dict[int, list[tuple[Transfer, list[int]]]] = {}
    for pair in asked:
        by_order.setdefault(pair[0].order, []).append(pair)
    for index, p in enumerate(made):
        for pipe in range(7):
            rows = [i for i, view in enumerate(p) if view.instruction.gm_access(chip) and p.per_row("pipe")[i] == pipe]
            for row, (transfer, end) in zip(rows, by_order.get((index << 3) * 7 + pipe, []), strict=True):
                took[index, row] = (end[0] - transfer.start, max(transfer.ready - end[0], 0))
    for run, times in zip(timeline.programs, schedule(made, [t.base for t in tensors], took), strict=True):
        assert run.start.tolist() == times.start
        assert run.end.tolist() == times.end
        assert run.retire.tolist() == times.retire
        assert run.finish == times.finish


def test_equal_transfers_get_equal_shares() -> None:
    """Four reads of 8 KB against an L2 of 64 bytes per cycle: 16 each, so 512 cycles; a write beside them is not held."""
    chip = memory(64, 1000, 1e6)
    moves = [NaiveTransfer(0, i, "read", Region("src0", "GM", 8192), i * 8192, Fraction(100)) for i in range(4)]
    moves.append(NaiveTransfer(0, 4, "write", Region("dst", "GM", 8192), 1 << 20, Fraction(64)))
    transfers, ends, _ = fly(chip, 1000, moves)
    assert ends == [512, 512, 512, 512, 128]
    assert [t.wait_l2 for t in transfers] == [512] * 4 + [0]


def test_a_hit_gets_what_misses_leave() -> None:
    """Misses share an HBM of 32 bytes per cycle; a transfer that hits takes its whole port beside them."""
    chip = memory(1e6, 1e6, 32)
    moves = [NaiveTransfer(0, i, "read", Region("src0", "GM", 4096), i * 4096, Fraction(100)) for i in range(2)]
    again = NaiveTransfer(1000, 9, "read", Region("src0", "GM", 4096), 0, Fraction(128))
    cold = NaiveTransfer(1000, 10, "read", Region("src0", "GM", 4096), 1 << 20, Fraction(128))
    transfers, ends, _ = fly(chip, 1000, [*moves, again, cold])
    assert ends == [256, 256, 1032, 1128]
    assert [t.misses for t in transfers] == [8, 8, 0, 8]
    assert [t.wait_hbm for t in transfers] == [256, 256, 0, 128]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(32, 9000), st.integers(0, 60)), min_size=1, max_size=25), st.booleans(),
    st.integers(10, 200), st.integers(10, 200), st.sampled_from([1.0, 1.1, 2.0, 7.0]), st.sampled_from([1.0, 1.3, 4.0]),
)  # fmt: skip
def test_more_bandwidth_is_never_slower(
    copies: list[tuple[int, int]], back: bool, l2: int, hbm: int, more_l2: float, more_hbm: float
) -> None:
    """Reads alone, or writes alone: a read that begins earlier may meet a write that it would otherwise have let pass."""

    def write(k: Any) -> None:
        for size, pause in copies:
            k.scalar(pause)
            if back:
                k.data_copy("UB", "GM", gm_operand(1, 0), 0, size // 32 * 32)
            else:
                k.data_copy("GM", "UB", 0, gm_operand(0, size), size)

    slow = run_one(memory(l2, l2, hbm), "AIV", write, SIZES)
    fast = run_one(memory(l2 * more_l2, l2 * more_l2, hbm * more_hbm), "AIV", write, SIZES)
    assert (fast.end <= slow.end + SLACK).all()
    assert fast.finish <= slow.finish + SLACK


@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize("kind", ["AIC", "AIV"])
def test_no_run_beats_any_of_its_limits(kind: str) -> None:
    """Lines moved in each direction over L2, and what missed over HBM, take at least their bytes over the bandwidth."""
    chip = memory(200, 150, 120)
    device = Device(chip, with_values=False)
    tensors = [device.allocate(1 << 20, "in"), device.allocate(1 << 20, "out")]
    place, out = ("UB", "UB") if kind == "AIV" else ("L1", "L1")

    def write(k: Any) -> None:
        for i in range(20):
            k.data_copy("GM", place, 0, gm_operand(0, (k.block * 20 + i) * 4096), 4096)
            k.data_copy(out, "GM", gm_operand(1, (k.block * 20 + i) * 4096), 0, 4096)

    made = [[program(chip, kind, write, [1 << 20] * 2, block=b)] for b in range(8)]
    engine = Engine(device)
    timeline = engine.run([task_of(made, tensors)])
    moved = 8 * 20 * 4096
    assert engine.hbm_bytes == moved  # reads miss, full-line writes fetch nothing, nothing dirty had to leave
    shortest = max(moved / 200, moved / 150, moved / 120)
    assert shortest <= timeline.finish < shortest * 1.1


@pytest.mark.usefixtures("each_engine")
def test_shared_memory_that_is_not_scarce_changes_nothing() -> None:
    def write(k: Any) -> None:
        for i in range(30):
            k.data_copy("GM", "UB", 0, gm_operand(0, i * 700), 32 + i * 64)

    chip = ideal_memory(CHIP)
    shared, alone = (run_one(chip, "AIV", write, SIZES, shared_gm=shared) for shared in (True, False))
    assert shared.end.tolist() == alone.end.tolist()
    assert shared.retire.tolist() == alone.retire.tolist()


def bytes_of_hbm(chip: ChipSpec, write: Any) -> int:
    """Return the bytes of HBM that one AIV moves through an L2 of eight lines."""
    device = Device(changed(chip, memory={"l2_bytes": 8 * LINE}), with_values=False)
    engine = Engine(device)
    made = [[program(device.chip, "AIV", write, [1 << 16] * 2)]]
    engine.run([task_of(made, [device.allocate(1 << 16, name) for name in ("in", "out")])])
    return engine.hbm_bytes // LINE


@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize(("atomic", "fetched"), [("float32", 4), ("", 0)])
def test_atomic_adds_are_written_back(atomic: str, fetched: int) -> None:
    """Four lines that are added to come in and, driven out by eight others, leave as four that were stored do."""

    def write(k: Any) -> None:
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 4 * LINE, atomic_add=atomic)
        k.pipe_barrier("ALL")
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 8 * LINE)

    assert bytes_of_hbm(memory(200, 200, 100), write) == fetched + 8 + 4


@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize(("refetch", "lines"), [(True, 3), (False, 2)])
def test_partial_tails_are_fetched_again(refetch: bool, lines: int) -> None:
    """700 bytes twice: the second line is only begun, and a chip with this rule does not keep it."""

    def write(k: Any) -> None:
        for _ in range(2):
            k.data_copy("GM", "UB", 0, gm_operand(0, 0), 700)
            k.pipe_barrier("ALL")

    assert bytes_of_hbm(memory(200, 200, 100, refetch=refetch), write) == lines


@pytest.mark.usefixtures("each_engine")
@pytest.mark.parametrize(("lines", "hits"), [(4, 2), (12, 2), (40, 2)])
def test_hits_of_an_atomic_add_are_lines_that_were_there(lines: int, hits: int) -> None:
    """With more lines than the L2 has room for, those that were read first are taken in once more to be written."""
    chip = changed(memory(200, 200, 100), memory={"l2_bytes": 8 * LINE})

    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(1, 0), 2 * LINE)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, lines * LINE, atomic_add="float32")

    run = run_one(chip, "AIV", write, SIZES)
    assert run.l2_hits[-1] == hits
    assert run.l2_misses[-1] == lines - hits + max(lines - 8, 0)


def test_cycles_held_back_are_counted() -> None:
    chip = memory(100, 100, 50)
    run = run_one(chip, "AIV", lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, 0), 5120), SIZES)
    assert (run.l2_wait[0], run.hbm_wait[0]) == (0, 103)  # 5120 bytes at 50 a cycle


@pytest.mark.usefixtures("each_engine")
def test_cycles_held_back_by_both_at_once_are_the_l2s() -> None:
    """Eight cores read at 40 bytes a cycle together, which is all that L2 and HBM have: at equal levels the L2 is told."""
    chip = memory(40, 1e6, 40)
    assert (chip.l2_read_bytes_per_cycle(), chip.hbm_bytes_per_cycle()) == (40, 40)
    size = 65536
    write = lambda k: k.data_copy("GM", "UB", 0, gm_operand(0, size * k.block), size)  # noqa: E731
    device = Device(chip, with_values=False)
    tensor = device.allocate(8 * size, "t")
    made = [[program(chip, "AIV", write, [8 * size], block=block)] for block in range(8)]
    timeline = Engine(device).run([task_of(made, [tensor])])
    assert [(run.l2_wait[0], run.hbm_wait[0]) for run in timeline.programs] == [(13108, 0)] * 8  # 65536 bytes at 5 a cycle


def test_a_reader_of_lines_under_way_waits_for_their_fill() -> None:
    """The second core hits the lines that the first one fetches, but has them no sooner; a third one comes after that."""
    chip = memory(1e6, 1e6, 16, latency=335)
    slow = NaiveTransfer(0, 0, "read", Region("src0", "GM", 1024), 0, Fraction(128))
    other = NaiveTransfer(0, 1, "read", Region("src0", "GM", 512), 4096, Fraction(128))
    both = NaiveTransfer(3, 2, "read", Region("src0", "GM", 4608), 0, Fraction(128))  # hits three lines of two fills
    on_its_way = NaiveTransfer(200, 3, "read", Region("src0", "GM", 512), 512, Fraction(128))
    late = NaiveTransfer(2000, 4, "read", Region("src0", "GM", 512), 512, Fraction(128))
    transfers, ends, _ = fly(chip, 1000, [slow, other, both, on_its_way, late])
    assert [t.misses for t in transfers] == [2, 1, 6, 0, 0]
    assert ends[2] > max(ends[:2])
    assert transfers[3].ready == ends[0] + 335
    assert ends[3] == 204
    assert (ends[4], transfers[4].ready) == (2004, 0)


@pytest.mark.parametrize(("apart", "cycles"), [(64 * LINE, 1024), (0, 1408)])
def test_one_line_for_many_readers_costs_the_l2_more(apart: int, cycles: int) -> None:
    """Four readers of 64 lines each, 128 bytes per cycle for all: 1024 cycles. When the lines are the same, three of them
    find a reader at work and count 1.5 times: rates are equal, so the end comes after (1 + 3 x 1.5) / 4 of that.
    """
    chip = memory(128, 128, 1e6, ratios=(1.5, 1))
    region = Region("src0", "GM", 64 * LINE)
    moves = [NaiveTransfer(0, i, "read", region, i * apart, whole(Fraction(100))) for i in range(4)]
    _, ends, _ = fly(chip, 10_000, moves)
    assert max(ends) == pytest.approx(cycles, abs=1)
