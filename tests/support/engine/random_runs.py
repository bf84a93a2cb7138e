"""Random whole runs from a seed: every kind of row, odd chips, streams, events, gangs, waves, broken programs.

`Run(seed)` is the same run every time; `Run(seed).outcome(engine)` says everything that an engine makes of it.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.totals import Watched
from ascend_sim.engine.watch import from_columns, watched
from ascend_sim.errors import SimError
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.isa.sync import ONE_VECTOR, SECOND_VECTOR
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.sync import Flag
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, changed, columns, program, quiet, task_of
from tests.support.engine.random_programs import _TIMED, RandomChip, flag_pairs, scalar_access, tile

SIZE = 64 * KIB
"""Bytes of each of the two tensors of a task: one is read, one is written, by all its blocks."""
_COUPLED = {"910a": "ascend910a", "310p": "ascend310p3"}
"""Families whose cores have cube and vector unit, and a chip of each."""
_PARTS = {"AIC": [("AIC", 0)], "AIV": [("AIV", 0)], "AI_CORE": [("AI_CORE", 0)], "MIX": [("AIC", 0), ("AIV", 0), ("AIV", 1)]}


class RandomRun:
    """Tasks on a chip, and how they are run; `seed` decides everything."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.watch = seed % 2 == 1
        self.family = random.choice(["910b"] * 5 + ["910a", "310p", "950"])
        self.chip = self._chip()
        self.l2_before = random.choice(["cold", "cold", "cold", "warm"])
        self.options: dict[str, Any] = {
            "shared_gm": random.random() < 0.85,
            "max_cycles": random.choice([None] * 9 + [random.randrange(100, 5000)]),
            "core_order": random.choice([None, None, lambda count: list(range(count))[::-1]]),
        }
        self.times = random.choice([1, 1, 2])
        self.sound = True
        self.ahead = random.random() < 0.15
        sizes = (SIZE, SIZE)
        self.tasks = [self._task(i, sizes) for i in range(random.choice([1, 1, 2, 3, 4]))]

    # -- the chip ------------------------------------------------------------------------------------------------------

    def _chip(self) -> ChipSpec:
        random = self.random
        if self.family in _COUPLED:
            chip = load_chip(_COUPLED[self.family])
            chip = changed(chip, cores={"aic": random.randint(1, 3), "aiv": random.randint(0, 2) * (self.family == "310p")})
        else:
            chip = load_chip("ascend950pr_9589") if self.family == "950" else self._variant()
            chip = changed(chip, cores={"aic": (aic := random.randint(1, 5)), "aiv": 2 * aic})
        chip = random.choice([quiet, quiet, self._launch, lambda chip: chip])(chip)
        line = chip.memory.l2_line_bytes
        memory: dict[str, Any] = {}
        if random.random() < 0.8:
            memory["l2_bytes"] = random.choice([1, 3, 8, 16, 64, 1000]) * line
        if random.random() < 0.5:
            memory["l2_read_bytes_per_cycle_per_aic"] = random.choice([0.5, 3.0, 20.0, 1e6])
            memory["l2_write_bytes_per_cycle_per_aic"] = random.choice([0.5, 2.5, 15.0, 1e6])
            memory["hbm_gb_per_s"] = random.choice([1e-4, 1.0, 20.0, 300.0, 1e9])
        if random.random() < 0.6:
            memory["same_line_read_ratio"] = random.choice([0.0, 0.3, 1.0, 1.3, 4.0])
            memory["write_back_ratio"] = random.choice([0.0, 0.5, 1.0, 1.6])
            memory["partial_line_refetch"] = random.random() < 0.5
            memory["hbm_latency"] = random.choice([0, 3, 70, 700])
        # Flags that count, so that random sets and waits come to an end; and now and then some of few, or one bit.
        sync: dict[str, Any] = {"flag_max": random.randint(1, 3) if random.random() < 0.15 else 99}
        sync["cross_wait_stops_issue"] = random.random() < 0.5
        if random.random() < 0.06:
            sync["cross_flag_max"] = random.randint(0, 2)
        return changed(chip, memory=memory, sync=sync)

    def _variant(self) -> ChipSpec:
        """A 910B3 with short queues and small, often equal or zero times."""
        random = self.random
        short = [random.randint(0, 5) for _ in range(12)]
        few = [tuple(random.choice([1, 2, 3, 4, 32]) for _ in _TIMED) for _ in range(2)]
        latency = random.randint(0, 60)
        return RandomChip(
            few[0],
            few[1],
            short[0],
            short[1],
            short[2],
            short[3],
            (short[4], short[5], short[6]),
            (short[7], latency),
            (short[8], short[9]),
            (short[10], short[11]),
        ).chip

    def _launch(self, chip: ChipSpec) -> ChipSpec:
        """A few cycles of everything around a kernel."""
        cycle = 1 / chip.clock.cube_mhz
        few = {kind: self.random.randint(0, 9) * cycle for kind in ("AIC", "AIV", "AI_CORE")}
        return changed(
            chip,
            launch={
                "task_overhead_us": few,
                "core_start_us": few,
                "overhead_per_block_us": few,
                "block_us": few,
                "cold_us": few,
                "cold_per_block_us": few,
                "kept_launches": self.random.randint(0, 2),
                "uncached_per_block_us": {"Test": self.random.randint(0, 2) * cycle},
                "prologue_us": {"Test": self.random.randint(0, 9) * cycle},
                "hidden_us": self.random.randint(0, 9) * cycle,
            },
        )

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, index: int, sizes: tuple[int, ...]) -> Task:
        random = self.random
        coupled = {"910a": ["AI_CORE"], "310p": ["AI_CORE", "MIX_VECTOR_CORE"]}
        kind = random.choice(coupled.get(self.family, ["AIC", "AIV", "MIX"]))
        cores = self.chip.cores
        limit = {"AIV": cores.aiv, "MIX_VECTOR_CORE": cores.vector_units}.get(kind, cores.aic)
        gang = random.random() < 0.25
        blocks = random.randint(1, limit if gang else min(2 * limit + 1, 8))
        script = self._cross_script(kind, gang)
        steps = random.choice([3, 12, 40])
        made: list[list[Program]] = []
        for block in range(blocks):
            parts = [(cores.vector_kind(block), 0)] if kind == "MIX_VECTOR_CORE" else _PARTS[kind]
            made.append([self._program(part, sub, block, sizes, script, steps) for part, sub in parts])
        names = [f"event {i}" for i in range(2)]
        return task_of(
            made,
            [],
            kind,
            name=f"task{index}",
            stream=random.choice([0, 0, 1, 2]),
            all_cores=gang,
            wait_events=[name for name in names if index and random.random() < 0.1],
            record_events=[name for name in names if index == 0 or random.random() < 0.3],
        )

    def _cross_script(self, kind: str, gang: bool) -> list[tuple[int, int]]:
        """(flag, mode) of every meeting of the task's cores, in order."""
        random = self.random
        if self.family in _COUPLED:
            return []
        modes = [2, 1] + [ONE_VECTOR] * (self.family == "950") if kind == "MIX" else []
        if gang or random.random() < 0.05:  # a barrier of all that are not all on cores never ends
            modes.append(0)
        return [(random.randint(0, 2), random.choice(modes)) for _ in range(random.choice([0, 1, 3, 8]))] if modes else []

    def _program(
        self, kind: str, sub: int, block: int, sizes: tuple[int, ...], script: list[tuple[int, int]], steps: int
    ) -> Program:
        random = self.random
        pipes = [pipe for pipe in self.chip.cores.kinds[kind].pipes if pipe != "S"]  # type: ignore[index]
        disarm = {f"{a}->{b} {i}" for a in (*pipes, "S") for b in (*pipes, "S") for i in (0, 1) if random.random() < 0.03}
        if random.random() < 0.05:
            disarm.add(f"cross-core {random.randint(0, 2)}")

        def write(k: KernelBuilder) -> None:
            flags = _Flags(k, random)
            tiles = UnitFlagTiles(k, "unit", (0, 32 * KIB)[: random.randint(1, 2)]) if kind == "AIC" else None
            places = sorted(random.randint(0, steps) for _ in script)
            meetings = list(zip(places, script, strict=True))
            for step in range(steps + 1):
                while meetings and meetings[0][0] == step:
                    self._meet(k, kind, pipes, *meetings.pop(0)[1])
                self._step(k, pipes, flags, tiles)
            flags.take_down()
            if tiles is not None:
                tiles.close()

        made = program(self.chip, kind, write, sizes, block=block, sub_block=sub, disarm=disarm)
        if len(made) > 1 and random.random() < 0.005:  # an order, or a set or a wait left out, that a builder refuses
            order = list(range(len(made)))
            a, b = random.randrange(len(made)), random.randrange(len(made))
            order[a], order[b] = order[b], order[a]
            if random.random() < 0.5:
                del order[a]
            made = made.with_rows(np.ascontiguousarray(made.rows[order]))
        return made

    def _meet(self, k: KernelBuilder, kind: str, pipes: list[str], flag: int, mode: int) -> None:
        """A core raises a flag and waits for it, each always on one pipe: of two pipes nobody says which comes first."""
        random = self.random
        if mode == 1 and kind != "AIV":
            return
        raising, waiting = pipes[(flag + mode) % len(pipes)], pipes[(flag + k.block + k.sub_block) % len(pipes)]
        raises, waits = random.random() > 0.003, random.random() > 0.003
        numbers = [flag, flag + SECOND_VECTOR] if mode == ONE_VECTOR and kind == "AIC" else [flag]
        if mode in (2, ONE_VECTOR) and kind == "AIV":  # the cube speaks first
            if waits:
                k.cross_core_wait(flag, mode, waiting)
            k.cross_core_set(flag, mode, raising)
            return
        for number in numbers * raises:
            k.cross_core_set(number, mode, raising)
        for number in numbers * waits:
            k.cross_core_wait(number, mode, waiting)

    def _step(self, k: KernelBuilder, pipes: list[str], flags: _Flags, tiles: UnitFlagTiles | None) -> None:
        random = self.random
        verb = random.choice(
            ["work"] * 8
            + ["tile"] * (tiles is not None)
            + ["set"] * 3
            + ["wait"] * 3
            + ["barrier", "all", "one", "scalar"]
            + ["ahead"] * self.ahead
        )
        pipe = random.choice(pipes)
        if verb == "work":
            _work(k, pipe, random)
        elif verb == "tile":
            assert tiles is not None
            tile(k, tiles, random.randint(0, 3), random.randint(0, 11), gm_operand(1, 96 * random.randint(0, 99)))
        elif verb == "set":
            flags.set()
        elif verb == "wait":
            flags.wait()
        elif verb == "ahead":
            flags.ahead()
        elif verb == "barrier":
            k.pipe_barrier(pipe)
        elif verb == "all":
            k.pipe_barrier("ALL")
        elif verb == "one":
            k.scalar_wait(pipe)
        elif random.random() < 0.5 and self.family not in _COUPLED:
            scalar_access(k, *(random.randint(0, 11) for _ in range(3)), 0)
        else:
            k.scalar(random.choice([0, 1, 20, 300]))

    # -- running -------------------------------------------------------------------------------------------------------

    def outcome(self, engine: str, keep: bool = True) -> dict[str, Any]:
        """Timeline, L2, clock, bytes, progress, totals, or the error and its text; comparable with ==.

        Without `keep` what only columns say is missing.
        """
        device = Device(self.chip, with_values=False)
        tensors = [device.allocate(SIZE, name) for name in ("in", "out")]
        if self.l2_before == "warm":
            device.warm(tensors[0])
        for task in self.tasks:
            task.tensors = tensors
        progress: list[tuple[str, int, int]] = []
        found: dict[str, Any] = {}
        for turn in range(self.times):
            runner = Engine(device, engine=engine, progress=lambda *now: progress.append(now), **self.options)
            try:
                timeline = runner.run(self.tasks, keep=keep, watch=self.watch)
            except SimError as error:
                found[f"error {turn}"] = type(error).__name__, str(error)
                return found
            found |= {f"{name} {turn}": value for name, value in everything(device, timeline).items()}
            found[f"watched {turn}"] = self.watched(timeline)
            found[f"hbm {turn}"] = runner.hbm_bytes
            found[f"progress {turn}"] = sorted(progress)  # nobody says which of two blocks that end at one cycle is told first
        return found

    def watched(self, timeline: Timeline) -> Watched:
        """Totals and hazards; from columns as numpy finds them."""
        if not timeline.kept:
            return watched(timeline)
        found = from_columns(self.tasks, timeline.programs)
        assert timeline.watched == (found if self.watch else None)
        return found


def everything(device: Device, timeline: Timeline) -> dict[str, Any]:
    """All that a run leaves behind."""
    l2, known = device.l2, 4096
    stamps = l2.stamps(np.arange(known))  # type: ignore[arg-type]
    left = {
        "tasks": [(task.launch, task.begin, task.finish) for task in timeline.tasks],
        "clock": (device.clock, l2.clock),
        "resident": (stamps[stamps >= l2.clock - l2.capacity].tolist(), np.flatnonzero(l2._dirty).tolist()),
    }
    if not timeline.kept:
        return left
    return left | {
        "programs": columns(timeline),
        "transfers": [
            tuple(getattr(run, name).tolist() for name in ("l2_hits", "l2_misses", "hbm_bytes")) for run in timeline.programs
        ],
        "cores": [run.core for run in timeline.programs],
        "busy": [(run.busy(), run.stalls("S")) for run in timeline.programs],
        "types": {getattr(run, name).dtype.str for run in timeline.programs for name in ("start", "cause", "hbm_bytes")},
    }


class _Flags:
    """Flags between pipes that are set and waited for in an order that can work."""

    def __init__(self, k: KernelBuilder, random: Random) -> None:
        self._k, self._random = k, random
        self._open: list[Flag] = []
        self._owed: list[Flag] = []
        self._pairs = flag_pairs(k)

    def set(self) -> None:
        source, destination = self._random.choice(self._pairs)
        flag = self._k.flag(source, destination, f"{source}->{destination} {self._random.randint(0, 1)}")
        self._k.set_flag(flag)
        self._open.append(flag)

    def ahead(self) -> None:
        """A wait that is issued before its set, which the next `take_down` issues at the latest."""
        source, destination = self._random.choice([pair for pair in self._pairs if pair[1] != "S"])
        flag = self._k.flag(source, destination, f"{source}->{destination} ahead")
        self._k.wait_flag(flag)
        self._owed.append(flag)

    def wait(self) -> None:
        if self._owed and self._random.random() < 0.5:
            self._k.set_flag(self._owed.pop(0))
        if self._open:
            self._k.wait_flag(self._open.pop(self._random.randrange(len(self._open))))

    def take_down(self) -> None:
        while self._owed:
            self._k.set_flag(self._owed.pop(0))
        while self._open:
            self.wait()


def _work(k: KernelBuilder, pipe: str, random: Random) -> None:
    """One instruction of `pipe`, as the chip has it: transfers of all directions, whole and in rows, at any byte of GM.

    Gaps of any bytes lie between rows of UB on a split chip; elsewhere they are whole blocks. Fixpipe writes whole blocks, and
    coupled chips fill whole fractals.
    """
    cube = "L1" in k.chip.cores.kinds[k.core_kind].buffers  # type: ignore[index]
    byte = random.choice([0, 0, 32, 100, 512, random.randrange(2000)]) + random.choice([0, 0, 8192])
    coupled = "L0C->UB" in k.chip.paths
    any_gap = k.core_kind == "AIV" and not coupled
    rows, gap = (random.choice([1, 1, 2, 5]), random.choice([0, 0, 32, *((100, 600, 3000) if any_gap else (96, 608, 3008))]))
    row_bytes = 32 * random.choice([1, 2, 16, 17, 40, 100])
    source, target = gm_operand(0, byte), gm_operand(1, byte)
    if pipe == "MTE1":
        k.load_data_2d(random.choice(["L0A", "L0B"]), 0, 0, 2, random.randint(1, 12))
    elif pipe == "MTE2":
        if random.random() < 0.1:
            k.fill("L1" if cube else "UB", 0, (512 if coupled else 32) * random.randint(1, 200))
            return
        place = "L1" if cube and ("UB" not in k.chip.buffers or "GM->UB" not in k.chip.paths or k.core_kind == "AIC") else "UB"
        k.data_copy("GM", place, 0, source, row_bytes, rows, row_bytes + gap, row_bytes, "", "", random.random() < 0.2)
    elif pipe == "MTE3":
        place = "L1" if k.core_kind == "AIC" else "UB"
        atomic = "float32" if random.random() < 0.25 else ""
        target = gm_operand(1, byte // 4 * 4) if atomic else target  # numbers are added at multiples of their size
        k.data_copy(place, "GM", target, 0, row_bytes, rows, row_bytes, row_bytes + gap, atomic)
    elif pipe == "M":
        sides = [16 * random.randint(1, 3) for _ in range(3)]
        k.mmad(0, 0, 0, *sides, "float16", random.random() < 0.5)
    elif pipe == "FIX":
        n, place, apart = 16 * random.randint(1, 3), gm_operand(1, byte // 32 * 32), random.choice([512, 1024])
        if random.random() < 0.3:  # an odd number of fractals of bytes leaves the last one alone
            k.fixpipe(place, 0, 16, n, 16, "int8", 32, apart, pre=Quantisation("float32", 0.5))
        else:
            k.fixpipe(place, 0, 16, n, 16, "float16", 16, apart, random.random() < 0.3)
    else:
        k.vector_duplicate(0, "float16", random.choice([16, 128, 1000]))


__all__ = ["CHIP", "RandomRun", "everything"]
