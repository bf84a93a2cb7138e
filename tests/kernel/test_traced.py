# ruff: noqa: E501 - a body of the table is one line
"""Traced loops: whatever a body does, the rows of `k.range` and `k.each` are those of a plain loop."""

from __future__ import annotations

import itertools
import linecache
import re
import textwrap
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ascend_sim import check_kernel, empty, kernel_function, launch
from ascend_sim.chip import load_chip
from ascend_sim.kernel.function import KernelError, KernelFunction, Launch
from ascend_sim.kernel.inspection import inspect
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.tensor import Tensor

CHIP = load_chip("ascend910b3")
HEAD = """
TILES = 3
table = {0: 5, 3: 7}
state = SimpleNamespace(count=0)

@kernel_function(core=("AI_CORE", "AIV"))
def f(k, x, y):
    q = k.ub_queue("q", x.shape[1], x.dtype, "MTE2", "MTE3")
    both = [k.local_tensor(x.shape[1], x.dtype, n) for n in "ab"]
    wide = k.local_tensor((8, x.shape[1]), x.dtype, "wide")
    n, c = x.shape
"""
SHAPE = (61, 64)
FILES = itertools.count()
MOVE = "k.gm_to_ub(q, x[{0}]); k.ub_to_gm(y[{0}], q)"
EVERY = "for i in RANGE(k.block, n, k.blocks):\n    "


def kernel_of(body: str, loop: str) -> KernelFunction:
    """A kernel of such a body, whose loops go through `loop` (RANGE) and, where that is no plain one, `k.each` (EACH)."""
    each = "iter" if loop == "range" else "k.each"
    source = HEAD + textwrap.indent(textwrap.dedent(body).replace("RANGE", loop).replace("EACH", each), "    ") + "\n"
    name = f"<kernel {next(FILES)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"kernel_function": kernel_function, "np": np, "SimpleNamespace": SimpleNamespace}
    exec(compile(source, name, "exec"), space)
    made: KernelFunction = space["f"]
    return made


def launched(kernel: KernelFunction, blocks: int = 5, shape: tuple[int, int] = SHAPE, chip: Any = CHIP) -> Launch:
    tensors = [Tensor.at(slot, name, shape, "float16") for slot, name in enumerate("xy")]
    return Launch.of(kernel, chip, blocks, tensors, {})


def built(started: Launch) -> list[Program]:
    return [program for block in range(started.blocks) for program in started.programs(block)]


def texts(programs: Sequence[Program]) -> list[Any]:
    """Rows in words, because tables may have their instructions in another order; tiles and flags."""
    return [(p.block, [(str(row), row.tile) for row in p], p.tiles, p.flags) for p in programs]


def repeated(started: Launch) -> float:
    """The part of the turns of traced loops that did not run."""
    counts = [one for table in started.tables.values() for one in table.stamps.turn_counts.values()]
    turns = sum(one.turns for one in counts)
    return 1 - sum(one.runs for one in counts) / turns if turns else 0.0


BODIES = {
    "plain": (EVERY + MOVE.format("i"), 0.6),
    "one argument": ("for i in RANGE(n):\n    " + MOVE.format("i"), 0.9),
    "negative index": (EVERY + "k.gm_to_ub(q, x[i - n]); k.ub_to_gm(y[-1 - i], q)", 0.6),
    "backwards": ("for i in RANGE(n - 1 - k.block, -1, -k.blocks):\n    " + MOVE.format("i"), 0.6),
    "ping-pong": (EVERY + "k.gm_to_ub(both[i % 2], x[i]); k.pipe_barrier('ALL'); k.ub_to_gm(y[i], both[i & 1])", 0.6),
    "counter": ("m = 0\n" + EVERY + "m += 1\n    k.gm_to_ub(both[m % 2], x[i])", 0),
    "first flag": ("first = True\n" + EVERY + "if first: k.scalar(7)\n    first = False\n    " + MOVE.format("i"), 0),
    "list grows": ("seen = []\n" + EVERY + "seen.append(0); k.scalar(len(seen))", 0),
    "list grows late": ("seen = []\n" + EVERY + "seen.append(0)\n    if len(seen) > 9: k.scalar(5)", 0),
    "list of numbers": ("seen = []\nfor i in RANGE(n):\n    seen.append(i); k.scalar(1)\nfor i in seen: k.gm_to_ub(both[0], x[i])", 0),
    "divmod": ("for t in RANGE(k.block, n * 4, k.blocks):\n    i, j = divmod(t, 4)\n    k.gm_to_ub(both[0][: c // 4], x[i, j * (c // 4) : (j + 1) * (c // 4)])", 0),
    "divmod by 20": ("for t in RANGE(k.block, n, k.blocks):\n    i, j = divmod(t, 20)\n    k.gm_to_ub(both[0], x[i * 20 + j]); k.scalar(1 if j > 15 else 2)", 0.2),
    "square": (EVERY + MOVE.format("i * i % n"), 0),
    "a cost of its own": (EVERY + "k.scalar(i); " + MOVE.format("i"), 0),
    "cases": ("for i in RANGE(0, n):\n    if i == 5: k.scalar(9)\n    if i in (7, 8): k.scalar(3)\n    if not i: continue\n    " + MOVE.format("i"), 0.5),
    "break": ("for i in RANGE(0, n):\n    if i == 25: break\n    " + MOVE.format("i") + "\nk.scalar(1)", 0.5),
    "break in the middle": ("for i in RANGE(0, n):\n    k.gm_to_ub(q, x[i])\n    k.ub_to_gm(y[i], q)\n    if i > 25: break\nk.scalar(1)", 0.5),
    "return": ("for i in RANGE(0, n):\n    k.next_tile(); " + MOVE.format("i") + "\n    if i > 25: return", 0.5),
    "else": ("for i in RANGE(0, n):\n    " + MOVE.format("i") + "\nelse:\n    k.scalar(1)", 0.9),
    "block in the body": ("for i in RANGE(0, n):\n    k.gm_to_ub(q, x[(i + k.block) % n]); k.ub_to_gm(y[i], q)", 0.7),
    "block before": ("b = k.block\nmine = x[b:]\nfor i in RANGE(0, 20):\n    k.gm_to_ub(q, mine[i]); k.scalar(b); k.ub_to_gm(y[i], q)", 0.5),
    "block in a helper": ("def put(i):\n    k.scalar(1 + k.block); k.gm_to_ub(both[0], x[i])\nfor i in RANGE(n):\n    put(i)", 0.7),
    "inner loop": ("for r in range(3):\n    for i in RANGE(0, n - r):\n        k.gm_to_ub(q, x[i + r]); k.ub_to_gm(y[i], q); k.scalar(r)", 0.8),
    "both loops": ("for r in RANGE(0, n, 2):\n    for i in RANGE(r, min(r + 2, n)):\n        " + MOVE.format("i"), 0.6),
    "inner loop backwards": ("for r in RANGE(0, n - 3):\n    for i in RANGE(r + 2, r - 1, -1):\n        " + MOVE.format("i"), 0.8),
    "used after": (EVERY + MOVE.format("i") + "\nk.gm_to_ub(both[0], x[i])", 0),
    "count after": ("for i in RANGE(k.block * 8, n, k.blocks * 8):\n    p = len(x[i : i + 8])\n    for r in range(p): k.gm_to_ub(wide[r], x[i + r])\nk.scalar(p)", 0),
    "rows of UB": ("for r in RANGE(8):\n    k.gm_to_ub(wide[r], x[r]); k.ub_to_gm(y[r], wide[r])", 0.5),
    "columns of UB": ("for r in RANGE(0, 64, 16):\n    k.gm_to_ub(wide[0, r : r + 16], x[0, r : r + 16])", 0.5),
    "tail": ("for i in RANGE(k.block * 8, n, 8):\n    t = x[i : i + 8]\n    k.gm_to_ub(wide[: len(t)], t)", 0.3),
    "float": (EVERY + "k.muls(both[1], both[0], 1 / (1 + i // 10))", 0.2),
    "adds": (EVERY + "k.adds(both[1], both[0], i)", 0),
    "min max abs": ("for i in RANGE(n):\n    k.gm_to_ub(q, x[min(i, 30)]); k.ub_to_gm(y[max(i, 30)], q); k.scalar(abs(i - 30) // 16)", 0.5),
    "numpy": ("a = np.arange(n)[::-1]\n" + EVERY + "k.gm_to_ub(q, x[int(a[i])]); k.ub_to_gm(y[np.int64(1) * i], q)", 0),
    "bits": ("for i in RANGE(n):\n    k.gm_to_ub(q, x[i >> 3]); k.ub_to_gm(y[(i << 1) // 2], q); k.scalar(1 + (i & 3))", 0),
    "dict": ("d = {0: 5, 3: 7}\n" + EVERY + "k.scalar(d.get(i, 1)); " + MOVE.format("i"), 0),
    "reshape": (EVERY + "k.gm_to_ub(both[0].reshape(2, c // 2), x[i].reshape(2, -1)); k.ub_to_gm(y[i], both[0])", 0.6),
    "text": (EVERY + "s = f'{i:03}'\n    " + MOVE.format("i") + "; k.scalar(int(s[-1]))", 0),
    "type": (EVERY + "k.scalar(1 if isinstance(i, int) else 2); " + MOVE.format("i"), 0.6),
    "helper": ("def put(i):\n    " + MOVE.format("i") + "\n" + EVERY + "put(i)", 0.6),
    "nonlocal": ("m = 0\ndef put(i):\n    nonlocal m\n    m += 1\n    k.scalar(m // 9)\n" + EVERY + "put(i)", 0),
    "iterator": ("m = iter(range(99))\n" + EVERY + "k.scalar(next(m))", 0),
    "state of the file": ("for i in RANGE(n):\n    state.count += 1; k.scalar(state.count)", 0),
    "state behind an attribute": ("for i in RANGE(n):\n    k.scalar(setattr(k, 'm', getattr(k, 'm', 0) + 1) or k.m)", 0),
    "names of the file": (EVERY + "k.scalar(TILES + table.get(0)); " + MOVE.format("i"), 0.6),
    "two loops": ("for i in RANGE(0, n): " + MOVE.format("i") + "\nfor i in RANGE(0, n): k.gm_to_ub(q, y[i]); k.ub_to_gm(x[i], q)", 0.9),
    "allocation": (EVERY + "t = k.local_tensor(8, x.dtype, 't') if i == k.block else both[0][:8]\n    " + MOVE.format("i") + "; k.duplicate(t)", 0),
    "late allocation": ("t = None\nfor i in RANGE(n):\n    " + MOVE.format("i") + "\n    if i == 40: k.local_tensor(8, x.dtype, 't')", 0.3),
    "late flag": ("for i in RANGE(n):\n    " + MOVE.format("i") + "\n    if i == 7: k.flag('MTE2', 'V', 'f')", 0),
    "ordered": ("with k.ordered('V'):\n    for i in RANGE(n):\n        k.gm_to_ub(both[0], x[i]); k.abs(both[1], both[0]); k.abs(both[0], both[1])", 0.8),
    "ordered or not": ("def run():\n    for i in RANGE(n):\n        k.gm_to_ub(both[0], x[i]); k.abs(both[1], both[0])\nrun()\nwith k.ordered('V'):\n    run()", 0.8),
    "ordered inside": ("for i in RANGE(n):\n    with k.ordered('V'):\n        k.gm_to_ub(both[0], x[i]); k.abs(both[1], both[0]); k.abs(both[0], both[1])", 0.8),
    "a queue by hand": ("for i in RANGE(n):\n    k.gm_to_ub(q.acquire(), x[i]); q.publish()\n    k.ub_to_gm(y[i], q.take()); q.release()\nk.scalar(1 + q.filling.address // 64)", 0.8),
    "no rows": ("for i in RANGE(n):\n    if i % 2: k.scalar(1)", 0.8),
    "emptied and filled": ("for i in RANGE(0, n - 1):\n    k.next_tile()\n    k.gm_to_ub(wide[:2], x[i : i + 2]); k.next_tile(counted=False)", 0.8),
    "tensor as address": ("for i in RANGE(n):\n    k.data_copy('GM', 'UB', 0, x[i], 64)", 0.8),
    "atomic": ("for i in RANGE(n):\n    k.ub_to_gm(y[i], both[0], atomic_add=True)", 0.8),
    "own except": ("for i in RANGE(n):\n    try:\n        x[i + 30]\n        k.scalar(1)\n    except Exception:\n        k.scalar(2)", 0.3),
    "list()": ("for i in list(RANGE(k.block, n, k.blocks)):\n    " + MOVE.format("i"), 0),
    "comprehension": ("[(k.gm_to_ub(q, x[i]), k.ub_to_gm(y[i], q)) for i in RANGE(k.block, n, k.blocks)]", 0),
    "enumerate": ("for m, i in enumerate(RANGE(k.block, n, k.blocks)):\n    " + MOVE.format("i") + "; k.scalar(m)", 0),
    "zip": ("for i, t in zip(RANGE(0, n), both * n):\n    k.gm_to_ub(t, x[i])", 0),
    "walrus": ("for i in RANGE(0, n):\n    if (h := i * 7 % n) > 20: k.gm_to_ub(q, x[h]); k.ub_to_gm(y[i], q)", 0),
    "huge": ("for i in RANGE(2**70, 2**70 + 20):\n    k.gm_to_ub(both[0], x[i - 2**70])", 0),
    "each: pairs": ("for i, j in EACH([(i, j) for i in range(0, n - 4, 4) for j in (0, 32)]):\n    k.gm_to_ub(wide[:4, :32], x[i : i + 4, j : j + 32])", 0.7),
    "each: slices": ("for s in EACH([slice(i, min(i + 8, n)) for i in range(0, n, 8)]):\n    k.gm_to_ub(wide[: s.stop - s.start], x[s])", 0.5),
    "each: kinds": ("for kind, i in EACH([('ab'[i % 3 == 0], i) for i in range(n)]):\n    k.scalar(4 if kind == 'a' else 5); k.gm_to_ub(both[0], x[i])", 0.8),
    "each: numbers": ("for i in EACH(list(range(0, n, 2))):\n    " + MOVE.format("i"), 0.5),
    "each: nested": ("for (i, t), (s, step) in EACH([((i, both[0]), (slice(i, i + 2), 1)) for i in range(n - 2)]):\n    k.gm_to_ub(t, x[i]); k.gm_to_ub(wide[:2], x[s])", 0.8),
    "each: other lengths": ("for p in EACH([(i,) * (1 + i % 2) for i in range(n)]):\n    k.gm_to_ub(both[0], x[p[0]])", 0),
    "each: tensors": ("for t in EACH([x[i] for i in range(n)] * 3):\n    k.gm_to_ub(both[0], t)", 0),
    "each: an iterator in it": ("for i, t in EACH([(i, iter('a')) for i in range(n)]):\n    k.gm_to_ub(both[0], x[i])", 0),
    "each: names": ("for t in EACH('ab' * 30):\n    k.scalar(ord(t))", 0.8),
}  # fmt: skip


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
        lines = [
            [(one.line(row) or ("", 0))[1] for row in range(len(p))] for one, p in zip(notes, programs, strict=True)
        ]
        found.append((lines, [[(a.buffer, a.start, a.size, a.name) for a in one.allocated] for one in notes]))
    assert found[0] == found[1]


def found_in(report: Any) -> list[str]:
    """Findings in words with their lines, whatever the file is called."""
    return [re.sub(r"<kernel \d+>", "FILE", f"{one.kind} {one.text}") for one in report.findings]


WRONG = {
    "outside": "for i in RANGE(n + 3):\n    k.gm_to_ub(both[0], x[i])",
    "a wrong address": "for i in RANGE(n):\n    k.data_copy('GM', 'UB', 0, x.address + i * 2048, 4096)",
    "a wait before its set": "f = k.flag('MTE2', 'V', 'f')\nfor i in RANGE(n):\n    if i == 40: k.wait_flag(f)\n    k.scalar(1)",
    "a raised flag": "f = k.flag('MTE2', 'V', 'f')\nfor i in RANGE(n):\n    k.scalar(1)\n    if i == 40: k.set_flag(f)",
    "its own error": "for i in RANGE(n):\n    k.scalar(1)\n    if i > 30: raise ValueError(f'{i} is too many')",
    "not aligned": "for i in RANGE(n):\n    k.gm_to_ub(wide[0, i : i + 2], x[0, :2])",
    "no elements": "for i in RANGE(n):\n    k.gm_to_ub(both[0], x[i : 2 * i])",
    "a step of zero": "for i in RANGE(0, n, 0):\n    k.scalar(1)",
    "a fraction": "for i in RANGE(n / 2):\n    k.scalar(1)",
    "negative cycles": "for i in RANGE(n):\n    k.scalar(20 - i)",
    "a path that is missing": "for i in RANGE(n):\n    k.data_copy('UB', 'L1', 0, i * 0, 64)",
    "wide before it is there": "for i in RANGE(n):\n    k.adds(both[0], wide[: i % 3], 1)",
}  # fmt: skip


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
    """What no loop sees, here behind an attribute of a module's object, is looked at again in each launch."""
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
        with pytest.raises(
            KernelError, match=r">:12: .* writes other rows than an earlier one that met the same conditions"
        ):
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
            k = Kernel(table, block, "AIV", [one.nbytes for one in shapes], blocks=12, always=True)
            given = PiecedTensor(
                *[getattr(shapes[0], name) for name in ("name", "shape", "dtype", "address", "strides")]
            )
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
            f"({one} + {other})", f"({one} - {other})", f"({one} * {random.randint(2, 4)})", f"({one} // {random.choice([2, 3, 8])})",
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
            lines += [
                f"for j in {random.choice(['RANGE', 'range'])}({one} % 3, 4):",
                *[f"    {line}" for line in inner],
            ]
        elif kind == 10:
            lines += [
                "with k.ordered('V'):",
                *[f"    {line}" for line in rows_of_kernel(random, names, depth - 1, inside)],
            ]
        elif inside:
            lines += [f"if {one} == {random.randint(5, 40)}: {random.choice(['break', 'continue', 'continue'])}"]
    return lines or ["k.scalar(1)"]


@pytest.mark.parametrize("seed", range(24))
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
