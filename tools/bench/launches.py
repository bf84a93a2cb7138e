"""CPU time of launching the kernels of docs/kernels at large sizes in mode "timing", row by row and with k.range in turns.

    python tools/bench/launches.py [kernel ...]

"build" is the part that writes programs. Both ways must say the same time of the kernel.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from asked import arguments

from ascend_sim import empty, launch
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.function import KernelFunction
from ascend_sim.kernel.function import Launch as KernelLaunch

REPEATS = 4
GOAL = 5.0
"""How much faster a launch is to be."""
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "kernels"
ROWS, SLOT = (100_000, 256), (4, 2, 64, 64)
LARGE: dict[str, tuple[int, list[Any]]] = {
    "vector_add": (20, [empty(20_000_000, "float16")] * 3),
    "softmax": (20, [empty(ROWS, "float32")] * 2),
    "layer_norm": (20, [empty(ROWS, "float32"), *[empty(256, "float32")] * 2, empty(ROWS, "float32")]),
    "matmul": (20, [*[empty((4096, 4096), "float16")] * 2, empty((4096, 4096), "float32")]),
    "matmul_split_k": (20, [empty((1024, 16384), "float16"), empty((16384, 1024), "float16"), empty((1024, 1024), "float32")]),
    "flash_attention": (4, [*[empty((16, 2048, 64), "float16")] * 4,
                            *[empty(SLOT, dtype, workspace=True) for dtype in ("float32", "float16", "float32")]]),
}  # fmt: skip
"""Blocks and tensors by the name of the kernel."""


class Seconds(NamedTuple):
    """CPU seconds of a launch, and of building its programs."""

    launch: float
    build: float


def kernel(name: str) -> KernelFunction:
    """The kernel of a file."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: KernelFunction = getattr(module, name)
    return made


def timed(run: Callable[[], Any], stamping: bool) -> tuple[Any, Seconds]:
    """Return the result of `run` and its CPU seconds."""
    built, plain = 0.0, KernelLaunch.programs

    def programs(self: KernelLaunch, block: int) -> Any:
        nonlocal built
        begin = time.process_time()
        made = plain(self, block)
        built += time.process_time() - begin
        return made

    KernelBuilder.stamping, KernelLaunch.programs = stamping, programs  # type: ignore[method-assign]
    try:
        begin = time.process_time()
        found = run()
        return found, Seconds(time.process_time() - begin, built)
    finally:
        KernelBuilder.stamping, KernelLaunch.programs = True, plain  # type: ignore[method-assign]


def main(names: list[str]) -> None:
    """Print seconds and ratios of each kernel: the least of several turns."""
    print(f"CPU seconds, the least of {REPEATS}:   row by row (build)    k.range (build)   ratio (build)")
    for name in names or LARGE:
        blocks, tensors = LARGE[name]
        made, least = kernel(name), {}
        for _ in range(REPEATS):
            figures = {}
            for stamping in (False, True):
                run, seconds = timed(lambda: launch(made, blocks, *tensors, mode="timing", timeline=False), stamping)  # noqa: B023
                least[stamping] = Seconds(*map(min, seconds, least.get(stamping, seconds)))
                figures[stamping] = run.report.total_us
            assert figures[False] == figures[True], f"{name}: {figures}"
        (slow, slow_build), (fast, fast_build) = least[False], least[True]
        told = "" if slow >= GOAL * fast else f"   below {GOAL}"
        ratios = f"x{slow / fast:5.1f} (x{slow_build / fast_build:.1f}){told}"
        print(f"{name:22s} {slow:18.3f} ({slow_build:.3f}) {fast:10.3f} ({fast_build:.3f})  {ratios}", flush=True)


if __name__ == "__main__":
    main(arguments())
