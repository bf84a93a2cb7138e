"""Limits of a chip's numbers, so that no count wraps: engines count cycles and 2**-16 bytes in int64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LAUNCH_TABLES = (
    "task_overhead_us", "overhead_per_block_us", "block_us", "core_start_us", "cold_us", "cold_per_block_us", "prologue_us",
    "uncached_per_block_us",
)  # fmt: skip
"""Tables of the chip file's section `launch`, each in us by kind of core or by template."""
MOST_CYCLES = (1 << 31) - 1
"""Most cycles of one instruction or latency; 2**30 of them in a row still fit a clock of 2**61 cycles."""
LEAST_RATE, MOST_RATE = 2.0**-16, 2.0**30
"""Bytes per cycle; an engine's unit is 2**-16, and what is left of a bandwidth times a fraction in 2**-16 stays below 2**62."""
MOST_RATIO = 1 << 10
MOST_LINE = 1 << 16
"""Most bytes of an L2 line: an engine keeps a number for every address inside one."""


def _rates(chip: Any) -> Iterator[tuple[str, float]]:
    yield "memory.hbm_gb_per_s", chip.hbm_bytes_per_cycle()
    yield "memory.l2_read_bytes_per_cycle_per_aic", chip.l2_read_bytes_per_cycle()
    yield "memory.l2_write_bytes_per_cycle_per_aic", chip.l2_write_bytes_per_cycle()
    for name, path in chip.paths.items():
        yield f"paths.{name}.bytes_per_cycle", path.bytes_per_cycle


def _cycles(chip: Any) -> Iterator[tuple[str, int]]:
    yield "memory.hbm_latency", chip.memory.hbm_latency
    for name in ("flag_latency", "barrier_latency", "cross_latency"):
        yield f"sync.{name}", getattr(chip.sync, name)
    for kind, cycles in chip.scalar.issue_cycles.items():
        yield f"scalar.issue_cycles.{kind}", cycles
    for table in ("queue_depth", "outstanding"):
        for pipe, depth in getattr(chip.sync, table).items():
            yield f"sync.{table}.{pipe}", depth
    yield "sync.flag_max", chip.sync.flag_max


def _launch_cycles(chip: Any) -> Iterator[tuple[str, int]]:
    for table in LAUNCH_TABLES:
        for kind, us in getattr(chip.launch, table).items():
            yield f"launch.{table}.{kind}", chip.cycles(us)


def headroom_fault(chip: Any) -> str | None:
    """Return a message on the first number of `chip` (a ChipSpec) that an engine's int64 units cannot hold, since a count could
    wrap or a rate is below 2**-16 bytes per cycle; None if all fit.
    """
    for name, rate in _rates(chip):
        if not LEAST_RATE <= rate < MOST_RATE:
            return f"{name}: comes to {rate:g} bytes per cycle; an engine counts from 2**-16 to below 2**30 (int64)"
    for name, cycles in _cycles(chip):
        if cycles > MOST_CYCLES:
            return f"{name}: is {cycles}; at most {MOST_CYCLES}, or an engine's int64 counts could wrap"
    for name, cycles in _launch_cycles(chip):
        if cycles > MOST_CYCLES:
            return f"{name}: comes to {cycles} cycles; at most {MOST_CYCLES}, or an engine's int64 clock could wrap"
    if chip.memory.l2_line_bytes > MOST_LINE:
        return f"memory.l2_line_bytes: is {chip.memory.l2_line_bytes}; at most {MOST_LINE}"
    if chip.memory.same_line_read_ratio >= MOST_RATE:
        return f"memory.same_line_read_ratio: is {chip.memory.same_line_read_ratio:g}; must be below 2**30 (int64)"
    if chip.memory.write_back_ratio >= MOST_RATIO:
        return f"memory.write_back_ratio: is {chip.memory.write_back_ratio:g}; must be below {MOST_RATIO} (int64)"
    return None
