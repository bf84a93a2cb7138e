"""Rates of compiled kernels: cases that `judge` judges per minute, cold and cached, and words that become rows per second.

Usage: python tools/bench/ascend_c.py [--cases N] [--jobs N] [PART ...]

Parts: judge (small kernels of docs/ascend-c, each with a comment of its own, in a new cache), words (a kernel of 14,400
turns recorded and timed: the parts of the time, and beside it the same rows from a Python kernel whose loop is stamped).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import ascend_sim as asim
from ascend_sim.ascend_c.rows import ShapeSteps
from ascend_sim.shipped import CACHE_VARIABLE

EXAMPLES = Path(__file__).parents[2] / "docs" / "ascend-c"
SMALL = ("add_custom", "row_sums", "gelu_custom", "softmax_rows")
TURNS, TILE = 14_400, 256
BIG = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void big(GM_ADDR x, GM_ADDR z, uint32_t turns)
{
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float *)x);
    to.SetGlobalBuffer((__gm__ float *)z);
    TPipe pipe;
    TQue<QuePosition::VECIN, 2> in;
    TQue<QuePosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, 1024);
    pipe.InitBuffer(out, 2, 1024);
    for (uint32_t i = 0; i < turns; i++) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, from[i * 256], 256);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Adds(b, a, 1.0f, 256);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopy(to[i * 256], b, 256);
        out.FreeTensor(b);
    }
}
"""


@asim.kernel_function(core="AIV")
def stamped(k: asim.Kernel, x: asim.Tensor, z: asim.Tensor, *, turns: int) -> None:
    """Write eleven rows a turn, as the loop in C++ does."""
    inputs, outputs = k.ub_queue("x", TILE, x.dtype, "MTE2", "V"), k.ub_queue("y", TILE, x.dtype, "V", "MTE3")
    for i in k.range(turns):
        k.gm_to_ub(inputs, x[i * TILE : (i + 1) * TILE])
        with inputs.read() as a, outputs.write() as b:
            k.adds(b, a, 1.0)
        k.ub_to_gm(z[i * TILE : (i + 1) * TILE], outputs)


def judge(cases: int, jobs: int) -> None:
    """Print the cases per minute: a folder judged with an empty cache, and once more."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "cases"
        folder.mkdir()
        for number in range(cases):
            name = SMALL[number % len(SMALL)]
            (folder / f"{name}_{number}.cpp").write_text((EXAMPLES / f"{name}.cpp").read_text() + f"// {number}\n")
            shutil.copy(EXAMPLES / f"{name}.py", folder / f"{name}_{number}.py")
        environment = {**os.environ, CACHE_VARIABLE: str(Path(scratch) / "cache")}
        command = [sys.executable, "-m", "ascend_sim", "judge", str(folder), "--jobs", str(jobs)]
        first = [*command[:-3], str(next(folder.glob("*.cpp")))]
        subprocess.run(first, env=environment, capture_output=True)  # the compiler's own first start
        for what in ("cold", "cached"):
            begun, work = time.monotonic(), os.times()
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            seconds, now = time.monotonic() - begun, os.times()
            spent = now.children_user + now.children_system - work.children_user - work.children_system
            passed = done.stdout.count('"passed": true, "stage": null')
            print(f"judge, {what}: {passed} of {cases} passed, {60 * cases / seconds:.0f} a minute on {jobs} processes, "
                  f"{spent / cases:.2f} CPU s a case")  # fmt: skip


def words() -> None:
    """Print the rows of words per second in C, and the time of a long kernel beside a stamped one."""
    steps = ShapeSteps()
    steps._steps, steps.count = np.array([[1, 0, 0, 0], [2, 0, 0, 0]], np.int64), np.ones(2, np.int64)
    steps.in_gm = np.zeros((2, 3), np.bool_)
    recorded = np.zeros((1 << 20, 5), np.int64)
    recorded[:, 0] = np.arange(len(recorded)) % 2
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        found = steps.rows_in_c(recorded, 1, np.zeros(1, np.int32))
        taken.append(time.perf_counter() - begun)
    if found is None:
        print("no compiled engine")
        return
    print(f"words to rows: {len(recorded) / statistics.median(taken) / 1e6:.0f} million a second in C")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "big.cpp").write_text(BIG)
        kernels: dict[str, Any] = {"C++": asim.cpp_kernel(Path(scratch) / "big.cpp"), "Python, stamped": stamped}
        x = np.zeros(TURNS * TILE, np.float32)
        for name, kernel in kernels.items():
            times = []
            for turn in range(6):
                begun = time.process_time()
                run = asim.launch(kernel, 1, x, asim.empty(x.shape, "float32"), mode="timing", turns=TURNS)
                times += [time.process_time() - begun] if turn else []
            print(f"{name}: {sum(map(len, run.programs)):,} rows, {statistics.median(times):.3f} CPU s")


def main() -> None:
    """Run the parts that are given, all by default."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=("judge", "words", []), metavar="PART")
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if not given.parts or "words" in given.parts:
        words()
    if not given.parts or "judge" in given.parts:
        judge(given.cases, given.jobs)


if __name__ == "__main__":
    main()
