# ruff: noqa: E501 - a body of the table is one line
"""Kernels with loops whose bodies try what a body may do, and what their programs are."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ascend_sim import kernel_function
from ascend_sim.chip import load_chip
from ascend_sim.kernel.function import KernelFunction, Launch
from ascend_sim.kernel.program import Program
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
    "used after a break": ("last = 0\nfor i in RANGE(n):\n    " + MOVE.format("i") + "\n    if i < 20: last = i\n    if i == 26: break\nelse:\n    last = 1\nk.gm_to_ub(both[0], x[last])", 0),
    "used after a continue": ("last = 0\nfor r in range(3):\n    k.gm_to_ub(both[0], x[last])\n    for i in RANGE(n):\n        " + MOVE.format("i") + "; last = i\n    if r < 2: continue\n    last = 1", 0),
    "used in the else of a try": ("last = 0\ntry:\n    for i in RANGE(n):\n        " + MOVE.format("i") + "; last = i\nexcept KeyError:\n    pass\nelse:\n    k.gm_to_ub(both[0], x[last])", 0),
    "used after, in a match": ("match n:\n    case _:\n        for i in RANGE(n):\n            " + MOVE.format("i") + "\n        k.gm_to_ub(both[0], x[i])", 0),
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
    "default of a lambda": ("for r in range(3):\n    for i in RANGE(0, n - r):\n        k.scalar((lambda r=r: r + 1)())", 0.8),
    "function in a function": ("for r in range(3):\n    for i in RANGE(0, n - r):\n        k.scalar((lambda: (r + 1, lambda r: r))()[0])", 0.8),
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
