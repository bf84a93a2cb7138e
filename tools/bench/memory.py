"""Peak memory and CPU time of large runs in timing mode, each in a process of its own: without a timeline, and with one of at
most as many instructions as `ascend-sim run` keeps for its text.

Usage: python tools/bench/memory.py [CASE ...]     (billion takes minutes of CPU)
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from asked import arguments

from ascend_sim import TensorSpec, convolution_backward


@dataclass(frozen=True)
class MemoryCase:
    """gradOutput, input and weight of a call in fp16, and what is asked for."""

    chip: str
    shapes: tuple[tuple[int, ...], ...]
    stride: int = 1
    padding: int = 0
    mask: tuple[bool, bool, bool] = (True, True, False)
    tiling: dict[str, Any] = field(default_factory=dict)

    def run(self, timeline: int) -> tuple[int, float, float]:
        """Instructions, CPU seconds, peak MB of this process."""
        begin = time.process_time()
        tensors = [TensorSpec(shape, "float16") for shape in self.shapes]
        pairs = (self.stride,) * 2, (self.padding,) * 2, (1, 1)
        report = convolution_backward(
            *tensors, None, *pairs, False, (0, 0), 1, self.mask,
            chip=self.chip, mode="timing", timeline=timeline, tiling=self.tiling or None,
        ).report.to_dict()  # fmt: skip
        rows = sum(sum(kernel["counts"]["instructions"].values()) for kernel in report["kernels"])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
        return rows, time.process_time() - begin, peak


_KEPT = 100_000_000
_DX = (True, False, False)
CASES = {
    "3x3": MemoryCase("ascend910b3", ((64, 64, 56, 56), (64, 64, 56, 56), (64, 64, 3, 3)), padding=1),
    "first": MemoryCase("ascend910b3", ((64, 64, 112, 112), (64, 3, 224, 224), (64, 3, 7, 7)), stride=2, padding=3),
    "patches": MemoryCase("ascend910a", ((16, 1024, 14, 14), (16, 3, 224, 224), (1024, 3, 16, 16)), stride=16, mask=_DX),
    "billion": MemoryCase(
        "ascend910b3", ((1088, 512, 14, 14), (1088, 512, 14, 14), (512, 512, 3, 3)), padding=1, mask=_DX,
        tiling={"grad_input": {"baseM": 16, "baseN": 16, "baseK": 16}},
    ),
}  # fmt: skip
"""The last one in the smallest tiles that there are."""


def _measure(name: str, timeline: int, results: Connection) -> None:
    results.send(CASES[name].run(timeline))


def _measured(name: str, timeline: int) -> tuple[int, float, float]:
    """Run `Case.run` in a process of its own and return its result."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(name, timeline, send))
    process.start()
    send.close()
    found = receive.recv()
    process.join()
    return found


def main(names: list[str]) -> None:
    """A line for each case."""
    print("| run | instructions | CPU s | peak MB | with a timeline, CPU s | peak MB |\n|---|---|---|---|---|---|")
    for name in names or [name for name in CASES if name != "billion"]:
        rows, seconds, peak = _measured(name, 0)
        _, longer, more = _measured(name, _KEPT)
        print(f"| {name} | {rows:,} | {seconds:.1f} | {peak:.0f} | {longer:.1f} | {more:.0f} |", flush=True)


if __name__ == "__main__":
    main(arguments())
