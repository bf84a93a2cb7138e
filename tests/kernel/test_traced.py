"""Traced loops: whatever a body does, the rows of `k.range` and `k.each` are those of a plain loop."""

from __future__ import annotations

import itertools
import re
from random import Random
from typing import Any

import numpy as np
import pytest

from ascend_sim import check_kernel, empty, launch
from ascend_sim.chip import load_chip
from ascend_sim.kernel.function import KernelError, KernelFunction
from ascend_sim.kernel.inspection import inspect
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.tensor import Tensor
from tests.support.kernel.traced_kernels import BODIES, CHIP, SHAPE, WRONG, built, kernel_of, launched, repeated, texts
from tests.support.sampling import as_part, part_of_cases, sample


@part_of_cases(3)
@pytest.mark.parametrize("name", BODIES)
def test_a_body_writes_what_it_writes_in_a_plain_loop(name: str) -> None:
    """In the first launch and in one that finds its stamps; loops that can be repeated are."""
    body, least = BODIES[name]
    plain, kernel = (kernel_of(body, loop) for loop in ("range", "k.range"))
    for _ in range(2):
        started = launched(kernel)
        assert texts(built(started)) == texts(built(launched(plain)))
    assert (repeated(started) >= least) if least else repeated(started) < 0.6


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend950pr_9589"])
@pytest.mark.parametrize("name", ["plain", "tail", "ordered", "each: pairs", "both loops"])
def test_other_chips(name: str, chip: str) -> None:
    body, _ = BODIES[name]
    spec = load_chip(chip)
    programs = [built(launched(kernel_of(body, loop), chip=spec)) for loop in ("range", "k.range")]
    assert texts(programs[0]) == texts(programs[1])


@pytest.mark.parametrize("name", BODIES)
def test_lines_and_pieces_of_buffers_under_inspection(name: str) -> None:
    body, _ = BODIES[name]
    found = []
    for loop in ("range", "k.range"):
        with inspect():
            programs = built(launched(kernel_of(body, loop), blocks=2))
        notes = [one.notes for one in programs if one.notes is not None]
        lines = [[(one.line(row) or ("", 0))[1] for row in range(len(p))] for one, p in zip(notes, programs, strict=True)]
        found.append((lines, [[(a.buffer, a.start, a.size, a.name) for a in one.allocated] for one in notes]))
    assert found[0] == found[1]


def found_in(report: Any) -> list[str]:
    """Findings in words with their lines, whatever the file is called."""
    return [re.sub(r"<kernel \d+>", "FILE", f"{one.kind} {one.text}") for one in report.findings]


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_as_in_a_plain_loop(name: str) -> None:
    told, checked = [], []
    for loop in ("range", "k.range"):
        kernel = kernel_of(WRONG[name], loop)
        with pytest.raises(KernelError) as error:
            built(launched(kernel))
        told.append(str(error.value).partition(">:")[2])
        tensors = [empty(SHAPE, "float16") for _ in range(2)]
        checked.append(found_in(check_kernel(kernel, 3, *tensors)))
    assert told[0] == told[1] and told[0]
    assert checked[0] == checked[1] and checked[0]


@pytest.mark.parametrize("name", ["plain", "tail", "ordered", "ping-pong", "each: slices", "columns of UB"])
def test_a_check_finds_the_same(name: str) -> None:
    """Reads of what nobody wrote, races and waits of real runs, with the lines that they name."""
    found = []
    for loop in ("range", "k.range"):
        report = check_kernel(kernel_of(BODIES[name][0], loop), 3, *[empty(SHAPE, "float16") for _ in range(2)])
        found.append(found_in(report))
    assert found[0] == found[1]


def test_a_body_runs_for_its_cases_and_to_be_compared() -> None:
    """A plain copy of 1,000 rows through two buffers: two fresh ones, two used ones, and comparisons at 1, 8, 64 and 512."""
    started = launched(kernel_of(BODIES["one argument"][0], "k.range"), blocks=1, shape=(1000, 64))
    built(started)
    ((count,),) = [table.stamps.turn_counts.values() for table in started.tables.values()]
    assert (count.turns, count.runs) == (1000, 4 + 2 * 3)


def test_blocks_and_launches_share_stamps() -> None:
    kernel = kernel_of(BODIES["plain"][0], "k.range")
    first, again, other = (launched(kernel, blocks) for blocks in (5, 5, 4))
    built(first)
    (table,) = first.tables.values()
    (loop,) = table.stamps.of_traced.values()
    known = [*itertools.chain(*loop.stamps.values())]
    built(again)
    assert again.tables is first.tables and len(known) == 4 and [*itertools.chain(*loop.stamps.values())] == known
    assert other.tables is not first.tables
    assert launched(kernel, chip=load_chip("ascend910b1")).tables is not first.tables


def test_a_state_that_changes_between_launches_is_found() -> None:
    """State that no loop sees, here behind an attribute of a module's object, is compared in each launch."""
    kernel = kernel_of("for i in RANGE(n):\n    k.scalar(1 + np.mode)", "k.range")
    space = kernel.function.__globals__
    space["np"] = type(np)("settings")
    for mode in (3, 3, 8, 0):
        space["np"].mode = mode
        costs = {str(row.instruction) for one in built(launched(kernel, blocks=1)) for row in one}
        assert len(costs) == 1 and f"={1 + mode}" in costs.pop()


def test_a_state_that_changes_late_is_told() -> None:
    """A counter that nobody sees: rows that were repeated may be wrong, so the kernel is refused."""
    body = "for i in RANGE(200):\n    k.scalar(1 + (np.step() > {}))"
    for late, wrong in ((-1, False), (0, False), (1, True), (2, True)):  # 0: before anything was repeated
        kernels = [kernel_of(body.format(late), loop) for loop in ("range", "k.range")]
        for kernel in kernels:
            kernel.function.__globals__["np"] = module = type(np)("settings")
            module.step = itertools.count().__next__
        plain = texts(built(launched(kernels[0], 1)))
        if not wrong:
            assert texts(built(launched(kernels[1], 1))) == plain
            continue
        with pytest.raises(KernelError, match=r">:12: .* writes other rows than an earlier one that met the same conditions"):
            built(launched(kernels[1], 1))


def test_a_turn_that_is_compared_has_its_tiles() -> None:
    """The rows are the same in every turn, and what they are counted as is not."""
    told = []
    for loop in ("range", "k.range"):
        kernel = kernel_of("for i in RANGE(40):\n    k.scalar(1); k.next_tile(counted=np.step() % 2 == 0)", loop)
        kernel.function.__globals__["np"] = module = type(np)("settings")
        module.step = itertools.count().__next__
        told.append(texts(built(launched(kernel, 1))))
    assert told[0] == told[1]


def test_a_loop_inside_of_a_turn_moves_with_it() -> None:
    for name in ("both loops", "inner loop backwards"):
        started = launched(kernel_of(BODIES[name][0], "k.range"), blocks=1)
        built(started)
        ((count,),) = [table.stamps.turn_counts.values() for table in started.tables.values()]
        assert count.turns > 30 and count.runs < 15


def test_a_state_that_only_runs_change_is_found_by_a_check() -> None:
    """The counter stands still while turns are repeated; a check writes all turns and compares."""
    kernel = kernel_of("for i in RANGE(200):\n    k.scalar(1 + (np.step() > 9))", "k.range")
    kernel.function.__globals__["np"] = module = type(np)("settings")
    module.step = itertools.count().__next__
    report = check_kernel(kernel, 1, *[empty(SHAPE, "float16") for _ in range(2)])
    assert any("repeats '" in one.text and one.level == "ERROR" for one in report.findings)


@pytest.mark.parametrize(
    "body",
    [
        "k.gm_to_ub(q, x[i]); k.ub_to_gm(y[i], q)",
        "if i >= 40: k.scalar(9)\n    k.gm_to_ub(both[0], x[i])",
        "k.scalar(1 + i % 3); k.gm_to_ub(both[0], x[i])",
        "k.gm_to_ub(q, x[i]); k.ub_to_gm(y[i], q); k.scalar(5 if i in (2, 22, 37) else 6)",
        "k.scalar(1 + k.block); k.gm_to_ub(both[0], x[i])",
        "k.gm_to_ub(wide[: len(x[i : i + 8])], x[i : i + 8])",
    ],
)
def test_blocks_over_pieces_are_moved_where_their_guards_hold(body: str) -> None:
    """Programs of one loop over pieces that lie elsewhere: moved whole, or written anew where another case begins."""
    source = f"for kind, i in k.each(pieces):\n    {body}"
    shapes = [Tensor.at(slot, name, SHAPE, "float16") for slot, name in enumerate("xy")]
    told = []
    for loop in ("iter", "k.each"):
        kernel = kernel_of(source.replace("k.each", loop).replace("pieces", "x.pieces"), "range")
        table, programs = InstructionTable(CHIP), []
        for block in range(12):
            pieces = [("ab"[place % 2], 5 * block + place) for place in range(3 + block % 2)]
            k = Kernel(table, block, "AIV", [one.nbytes for one in shapes], blocks=12)
            given = PiecedTensor(*[getattr(shapes[0], name) for name in ("name", "shape", "dtype", "address", "strides")])
            given.pieces = pieces

            def write(k: Kernel = k, given: Any = given, kernel: KernelFunction = kernel) -> Program:
                kernel(k, given, shapes[1])
                return k.finish()

            programs.append(k.written_over(pieces, write) if loop == "k.each" else write())
        told.append(texts(programs))
    assert told[0] == told[1]


class PiecedTensor(Tensor):
    """A tensor that brings the pieces of its block along."""

    pieces: list[Any]

    def visible(self) -> tuple[Any, ...]:
        return self.name, self.shape, self.address


def test_short_loops_and_loops_that_differ_in_every_turn_are_plain() -> None:
    short = launched(kernel_of("for i in RANGE(7):\n    k.scalar(1)", "k.range"), blocks=1)
    built(short)
    assert repeated(short) == 0 and not any(table.stamps.known for table in short.tables.values())
    other = launched(kernel_of("for i in RANGE(5000):\n    k.scalar(i)", "k.range"), blocks=1)
    built(other)
    assert [len(table.stamps.known) for table in other.tables.values()] == [33]


def test_many_loops_with_other_values_around_them_end_as_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task holds its stamps, so there must not be one for each value."""
    monkeypatch.setattr("ascend_sim.kernel.traced._MOST_STAMPS", 20)
    body = "for r in range(40):\n    for i in RANGE(8):\n        k.scalar(1 + r)"
    plain = texts(built(launched(kernel_of(body, "range"), blocks=1)))
    started = launched(kernel_of(body, "k.range"), blocks=1)
    assert texts(built(started)) == plain
    assert [len(table.stamps.known) for table in started.tables.values()] == [21]


def test_without_stamping_the_numbers_are_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "stamping", False)
    started = launched(kernel_of("for i in RANGE(n):\n    assert type(i) is int; k.scalar(1)", "k.range"))
    built(started)
    assert repeated(started) == 0


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_launch_gives_the_same_values_times_and_findings(engine: str) -> None:
    x = np.arange(61 * 64, dtype=np.float16).reshape(SHAPE)
    runs = [
        launch(kernel_of(BODIES[name][0], loop), 5, x, empty(SHAPE, "float16"), engine=engine, check=True)
        for name in ("plain", "cases")
        for loop in ("range", "k.range")
    ]
    for one, other in (runs[:2], runs[2:]):
        assert one.report.total_us == other.report.total_us and found_in(one) == found_in(other)
        assert all(np.array_equal(one.outputs[name], values, equal_nan=True) for name, values in other.outputs.items())
    assert np.array_equal(runs[1].outputs["y"], x)


# -- random kernels ------------------------------------------------------------------------------------------------------


def number(random: Random, names: str, depth: int = 2) -> str:
    """Some number that a kernel computes."""
    if not depth or random.random() < 0.3:
        return random.choice([*names, *names, str(random.randint(0, 9)), "n"])
    one, other = (number(random, names, depth - 1) for _ in range(2))
    return random.choice(
        [
            f"({one} + {other})", f"({one} - {other})", f"({one} * {random.randint(2, 4)})",
            f"({one} // {random.choice([2, 3, 8])})",
            f"({one} % {random.choice([2, 3, 7, 20])})", f"min({one}, {other})", f"max({one}, {other})", f"abs({one})",
            f"({one} if {other} > {random.randint(0, 40)} else {random.randint(0, 9)})", f"({one} & 3)",
        ]
    )  # fmt: skip


def rows_of_kernel(random: Random, names: str, depth: int, inside: bool) -> list[str]:
    """Statements that write rows; `inside` a loop they may leave it."""
    lines = []
    for _ in range(random.randint(1, 3)):
        one, other = number(random, names), number(random, names)
        kind = random.randint(0, 11 if depth else 6)
        if kind <= 1:
            lines.append(f"k.gm_to_ub(q, x[{one} % n]); k.ub_to_gm(y[{other} % n], q)")
        elif kind == 2:
            lines.append(f"k.gm_to_ub(both[{one} % 2], x[min(max({other}, 0), n - 1)])")
        elif kind == 3:
            lines.append(
                f"a = {one} % (n - 4); t = x[a : a + {random.choice(['4', f'1 + {other} % 3'])}]; k.gm_to_ub(wide[: len(t)], t)"
            )
        elif kind == 4:
            lines.append(f"k.scalar({one} % 5)" if random.random() < 0.5 else "k.next_tile()")
        elif kind == 5:
            lines.append(f"v = {one}" if random.random() < 0.7 else f"v += {one}")
        elif kind == 6:
            lines.append(f"k.gm_to_ub(wide[{one} % 8], x[{other} % n]); k.abs(wide[0], wide[{one} % 8])")
        elif kind <= 8:
            inner = rows_of_kernel(random, names, depth - 1, inside)
            lines += [f"if {one} > {other}:", *[f"    {line}" for line in inner]]
            if random.random() < 0.4:
                lines += ["else:", *[f"    {line}" for line in rows_of_kernel(random, names, depth - 1, inside)]]
        elif kind == 9:
            inner = rows_of_kernel(random, names + "j", 0, True)
            lines += [f"for j in {random.choice(['RANGE', 'range'])}({one} % 3, 4):", *[f"    {line}" for line in inner]]
        elif kind == 10:
            lines += ["with k.ordered('V'):", *[f"    {line}" for line in rows_of_kernel(random, names, depth - 1, inside)]]
        elif inside:
            lines += [f"if {one} == {random.randint(5, 40)}: {random.choice(['break', 'continue', 'continue'])}"]
    return lines or ["k.scalar(1)"]


@part_of_cases(3)
@as_part
@pytest.mark.parametrize("seed", range(sample(8, 24)))
def test_random_kernels(seed: int) -> None:
    random = Random(seed)
    for _ in range(8):
        loops = []
        for _ in range(random.randint(1, 2)):
            head = random.choice(
                [
                    "for i in RANGE(k.block, n, k.blocks):",
                    "for i in RANGE(n):",
                    "for i in RANGE(n - 1, -1, -2):",
                    "for i, v in EACH([(i, i % 3) for i in range(n)]):",
                ]
            )
            loops += [head, *[f"    {line}" for line in rows_of_kernel(random, "iv", 2, True)]]
        body = "\n".join([f"v = {random.choice(['0', 'k.block'])}", *loops])
        plain = texts(built(launched(kernel_of(body, "range"), blocks=3)))
        kernel = kernel_of(body, "k.range")
        assert texts(built(launched(kernel, blocks=3))) == plain, body
        assert texts(built(launched(kernel, blocks=3))) == plain, body
