"""Speed of one layer, ResNet-50's 3x3 of the second stage at batch 32 with all three gradients, in every mode.

Usage: python tools/bench/layer.py [repeats]
       python tools/bench/layer.py ratios [repeats]

Each mode runs in a process of its own, whose peak memory is its own too; verdicts on the gradients are not part of the
time. The functional mode and torch's float32 backward, both on one thread, take turns within one process. Beside the wall
clock stands the processor time, which a busy machine disturbs less.

`ratios` takes turns in one process instead, on processor time: numpy against C for the values, functional against torch, full
against functional; for three layers of ResNet-50.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from asked import arguments

SHAPES = ((32, 64, 56, 56), (32, 64, 56, 56), (64, 64, 3, 3))
"""gradOutput, input, weight."""
ATTRIBUTES: tuple[Any, ...] = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, True, True))
LIMITS = {"timing": "4 s", "full": "1.2 x functional, 2 GB", "functional": "4 x torch"}
"""Limits that the project promises, printed beside the figures."""


def arrays(dtype: Any, shapes: Any = SHAPES) -> list[Any]:
    """Normal values in the layer's shapes."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def call(mode: str) -> Callable[[], object]:
    """The simulated layer in fp16, ready to run."""
    from ascend_sim import TensorSpec, convolution_backward

    values = [TensorSpec(shape, "float16") for shape in SHAPES] if mode == "timing" else arrays(np.float16)
    return lambda: convolution_backward(*values, *ATTRIBUTES, mode=mode)


def torch_call(shapes: Any = SHAPES, attributes: tuple[Any, ...] = ATTRIBUTES) -> Callable[[], object] | None:
    """torch's backward of the same layer in fp32 on one thread; None without torch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    tensors = [torch.from_numpy(array) for array in arrays(np.float32, shapes)]
    backward = torch.ops.aten.convolution_backward
    bias, *rest = attributes
    return lambda: backward(*tensors, [shapes[0][1]] if bias is None else bias, *rest)


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Wall clock and processor time of one call."""
    begin = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def peak_megabytes() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def measure(mode: str, repeats: int, results: Connection) -> None:
    """Times of every repeat, those of torch beside the functional mode, and the process's peak memory without torch."""
    run = call(mode)
    own, others = [seconds(run)], []
    peak = peak_megabytes()
    rival = torch_call() if mode == "functional" else None
    if rival is not None:
        rival()  # torch chooses its algorithm on the first call
        others.append(seconds(rival))
    for _ in range(repeats - 1):
        own.append(seconds(run))
        if rival is not None:
            others.append(seconds(rival))
    results.send((own, others, peak))


def main(repeats: int) -> None:
    """Print one line per mode: median and range of the seconds, peak memory, and the ratio to torch."""
    print(f"gradOutput, input, weight {SHAPES}, fp16, {repeats} repeats")
    print("mode       seconds: median (fastest to slowest), processor")
    context = multiprocessing.get_context("spawn")
    for mode, limit in LIMITS.items():
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(mode, repeats, send))
        process.start()
        send.close()
        own, others, peak = receive.recv()
        process.join()
        print(f"{mode:10} {spread(own)}  peak {peak:5.0f} MB  (limit {limit})")
        if others:
            print(f"{'torch fp32':10} {spread(others)}")
            wall, processor = (statistics.median(a[i] / b[i] for a, b in zip(own, others, strict=True)) for i in (0, 1))
            print(f"functional / torch: {wall:.2f} by the wall clock, {processor:.2f} by processor time")


LAYERS = {
    "3x3, 64 -> 64, 56x56": SHAPES,
    "1x1, 64 -> 256, 56x56": ((32, 256, 56, 56), (32, 64, 56, 56), (256, 64, 1, 1)),
    "7x7, 3 -> 64, stride 2, 224x224": ((32, 64, 112, 112), (32, 3, 224, 224), (64, 3, 7, 7)),
}
"""gradOutput, input, weight."""


def ratios(repeats: int) -> None:
    """A row for each layer: medians of the processor seconds of each way, and the medians of the ratios within a turn."""
    from ascend_sim import convolution_backward

    head = "torch fp32", "numpy", "functional", "full", "numpy / functional", "functional / torch", "full / functional"
    print(f"| batch 32, fp16, 910B3 | {' | '.join(head)} |")
    print("|---|---|---|---|---|---|---|---|")
    for name, shapes in LAYERS.items():
        values = arrays(np.float16, shapes)
        half, stride = shapes[2][2] // 2, shapes[1][2] // shapes[0][2]
        attributes = (None, (stride, stride), (half, half), *ATTRIBUTES[3:])
        ways: dict[str, Callable[[], object] | None] = {
            "torch": torch_call(shapes, attributes),
            "numpy": lambda v=values, a=attributes: convolution_backward(*v, *a, mode="functional", engine="simpy"),
            "functional": lambda v=values, a=attributes: convolution_backward(*v, *a, mode="functional"),
            "full": lambda v=values, a=attributes: convolution_backward(*v, *a, mode="full"),
        }  # type: ignore[dict-item]
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(repeats + 1):
            for way, run in ways.items():
                spent = seconds(run)[1] if run is not None else float("nan")
                if turn:  # the first one loads and caches
                    taken[way].append(spent)
        middle = [statistics.median(times) for times in taken.values()]
        pairs = (("numpy", "functional"), ("functional", "torch"), ("full", "functional"))
        found = [statistics.median(a / b for a, b in zip(taken[one], taken[other], strict=True)) for one, other in pairs]
        print(f"| {name} | {' | '.join(f'{s:.3f}' for s in middle)} | {' | '.join(f'{r:.2f}' for r in found)} |", flush=True)


def spread(times: list[tuple[float, float]]) -> str:
    """Median and range of the wall clock, median of the processor time."""
    wall, processor = zip(*times, strict=True)
    return f"{statistics.median(wall):7.3f} ({min(wall):.3f} to {max(wall):.3f}), {statistics.median(processor):7.3f} processor"


if __name__ == "__main__":
    asked = arguments()
    if asked[:1] == ["ratios"]:
        ratios(int(asked[1]) if len(asked) > 1 else 5)
    else:
        main(int(asked[0]) if asked else 3)
