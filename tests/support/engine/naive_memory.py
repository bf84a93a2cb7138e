"""The shared memory system, slowly: fractions, one transfer at a time, the cache as a plain list of lines.

A transfer pays the lines that it touches at its port and in the L2, and what the L2 misses and has to write back at HBM, in
the proportion m of the two that is fixed when it starts. A read pays the L2 more for lines that were begun to be read so
short ago that their reader, at the speed of its port, would still be at it; the part of such lines counts in eighths. Rates
are max-min fair: raise all together, stop those that meet a limit; a rate, and m, is a whole number of 2**-16 (bytes per
cycle), rounded down. A transfer is over at the first whole cycle at which all its bytes are through and every other transfer
whose fill it hits is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from ascend_sim.memory.regions import Region


@dataclass
class Cache:
    """Lines in the order in which they came; line -> (dirty, transfer that brought it)."""

    capacity: int
    lines: dict[int, tuple[bool, object]] = field(default_factory=dict)
    readers: dict[int, int] = field(default_factory=dict)
    """Line -> the cycle until which its last reader needs it."""

    def bring(self, line: int, dirty: bool, owner: object) -> int:
        """Put an absent line at the end; returns 1 when a dirty line had to leave."""
        self.lines[line] = (dirty, owner)
        if len(self.lines) <= self.capacity:
            return 0
        oldest = next(iter(self.lines))
        return int(self.lines.pop(oldest)[0])


@dataclass(eq=False)
class NaiveTransfer:
    """A transfer: when, what and how fast at most; and what came of it."""

    start: int
    order: int
    direction: str
    region: Region
    address: int
    port: Fraction
    fetched: int = 0
    victims: int = 0
    by_reads: int = 0
    touched: int = 0
    left: Fraction = Fraction(0)
    m: Fraction = Fraction(0)
    weight: Fraction = Fraction(1)
    rate: Fraction = Fraction(0)
    awaits: set[NaiveTransfer] = field(default_factory=set)
    done: int = -1
    ready: int = -1


def bytes_of(region: Region, address: int) -> list[tuple[int, int]]:
    """(first byte, end) of every row, rows that adjoin as one."""
    runs: list[tuple[int, int]] = []
    for plane in range(region.planes):
        for row in range(region.rows):
            first = address + region.offset + plane * region.plane_stride + row * region.row_stride
            if runs and runs[-1][1] == first:
                runs[-1] = (runs[-1][0], first + region.row_bytes)
            else:
                runs.append((first, first + region.row_bytes))
    return runs


def begin(move: NaiveTransfer, cache: Cache, size: int, refetch: bool, same_line: Fraction, write_back: Fraction) -> None:
    """Look up every line at the start of a move: what HBM has to fetch and to take back, and who else reads it."""
    covered: dict[int, set[int]] = {}
    tails: set[int] = set()
    for first, end in bytes_of(move.region, move.address):
        lines = range(first // size, (end - 1) // size + 1)
        move.touched += len(lines)
        for line in lines:
            inside = range(max(first, line * size), min(end, (line + 1) * size))
            covered.setdefault(line, set()).update(inside)
        if len(lines) > 1 and end - first >= size and end % size:
            tails.add(lines[-1])
    present = {line for line in covered if line in cache.lines}
    order = sorted(covered)
    if move.direction == "read":
        met = sum(cache.readers.get(line, 0) > move.start for line in order)
        move.weight += whole(whole(same_line - 1) * Fraction(8 * met // len(order), 8))
        cache.readers |= dict.fromkeys(order, move.start + floor(move.touched * size / move.port))
        bypass = tails if refetch else set()
        move.awaits = {cache.lines[line][1] for line in present if isinstance(cache.lines[line][1], NaiveTransfer)}  # type: ignore[misc]
        move.fetched = sum(line not in present or line in bypass for line in order)
        move.by_reads = sum(cache.bring(line, False, move) for line in order if line not in present | bypass)
    else:
        if move.direction == "atomic":
            move.fetched = sum(line not in present for line in order)
            move.by_reads = sum(cache.bring(line, False, move) for line in order if line not in present)
            present = {line for line in covered if line in cache.lines}
        else:
            move.fetched = sum(line not in present and len(covered[line]) < size for line in order)
        move.victims += sum(cache.bring(line, True, move) for line in order if line not in present)
        for line in order:
            if line in cache.lines:
                cache.lines[line] = (True, cache.lines[line][1])
    # Lines that reads drive out cost HBM more than those that writes do.
    move.m = whole((move.fetched + move.victims + move.by_reads * whole(write_back)) / move.touched)
    move.victims += move.by_reads
    move.left = Fraction(move.touched * size)


def whole(value: Fraction) -> Fraction:
    """Rounded down to a multiple of 2**-16."""
    return Fraction(floor(value * 65536), 65536)


def share(moves: list[NaiveTransfer], read: Fraction, write: Fraction, hbm: Fraction) -> None:
    """Max-min fair rates: raise all rates together; who meets a full resource stays there."""
    limits = [(read, lambda x: x.direction != "write", lambda x: x.weight),
              (write, lambda x: x.direction != "read", lambda _: Fraction(1)),
              (hbm, lambda _: True, lambda x: x.m)]  # fmt: skip
    rising = set(moves)
    while rising:
        levels = [min(move.port for move in rising)]
        for room, counts, weight in limits:
            used = sum((weight(x) * x.rate for x in moves if counts(x) and x not in rising), Fraction(0))
            pull = sum((weight(x) for x in rising if counts(x)), Fraction(0))
            levels.append(whole((room - used) / pull) if pull else Fraction(10**9))
        level = min(levels)
        for move in rising:
            move.rate = level
        full = [(counts, weight) for (room, counts, weight), own in zip(limits, levels[1:], strict=True) if own == level]
        rising = {x for x in rising if x.port > level and not any(counts(x) and weight(x) for counts, weight in full)}


def simulate(
    moves: list[NaiveTransfer],
    cache: Cache,
    line: int,
    refetch: bool,
    latency: int,
    read: Fraction,
    write: Fraction,
    hbm: Fraction,
    ratios: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1)),
) -> None:
    """Fill in `done` and `ready` (when the last of its lines is out of HBM) of every move.

    `ratios` are what reads of a line that others read cost the L2, and lines that reads drive out cost HBM.
    """
    waiting = sorted(moves, key=lambda move: (move.start, move.order))
    active: list[NaiveTransfer] = []
    now = 0
    while waiting or active:
        over = True
        while over:  # one end may be what another waits for
            over = [x for x in active if x.left <= 0 and all(other.done >= 0 for other in x.awaits)]
            for move in over:
                move.done = now
                move.ready = max([now + latency * bool(move.fetched), *(other.ready for other in move.awaits)])
                active.remove(move)
        while waiting and waiting[0].start <= now:
            begin(waiting[0], cache, line, refetch, *ratios)
            active.append(waiting.pop(0))
        flowing = [move for move in active if move.left > 0]
        share(flowing, read, write, hbm)
        following = [move.start for move in waiting[:1]] + [now + ceil(move.left / move.rate) for move in flowing]
        if not following:
            continue
        then = max(min(following), now + 1)
        for move in flowing:
            move.left -= move.rate * (then - now)
        now = then
