"""Cost of watching: a training step of ResNet-50 with `simulate` around it and nothing simulated, against the step alone.

Usage: python tools/bench/torch_mode.py [pairs] [batch] [size]

Forward, backward and an SGD step in float32 on the CPU; mode "timing" notes the calls and simulates them only when somebody
asks. A pair is a step alone and a watched one, each first in every second pair, so that a machine that slows down or warms up
disturbs both alike; the overhead is the median over pairs of watched / alone, and beside it stand the bounds between which the
median lies 19 times in 20 (order statistics). Processor time suffers less from other work than the wall clock does; with
OMP_NUM_THREADS=1 threads that wait for each other do not count as work.

Watching costs the same whatever the images' size: it looks at calls, not at elements. So the same pairs on 32 x 32 images, of
which it is a large part, tell it more exactly, in milliseconds.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from asked import arguments

from ascend_sim.torch import simulate

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from tests.support.torch.models import resnet50  # noqa: E402 - the tests' own ResNet-50

LIMIT = 0.05
"""Limit that the project promises."""
SMALL = 32
"""Pixels of the small images."""
CLOCKS = (("wall clock", time.perf_counter), ("processor", time.process_time))


def seconds(model: Any, optimizer: Any, images: Any, labels: Any, context: Any) -> list[float]:
    """Return the time of one training step by each clock."""
    begin = [clock() for _, clock in CLOCKS]
    with context:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return [clock() - first for (_, clock), first in zip(CLOCKS, begin, strict=True)]


def bounds(values: list[float]) -> tuple[float, float]:
    """Two of the values that have the median between them with 95 %, whatever the distribution."""
    count, values = len(values), sorted(values)
    tail, below = 0.0, 0  # P(at most `below` - 1 values lie under the median)
    while below < count // 2 and tail + math.comb(count, below) / 2**count <= 0.025:
        tail += math.comb(count, below) / 2**count
        below += 1
    return values[max(below - 1, 0)], values[count - max(below, 1)]


def measured(pairs: int, batch: int, size: int) -> list[tuple[list[float], list[float]]]:
    """For each clock what steps alone and watched ones took, in pairs."""
    torch.manual_seed(0)
    model, images, labels = resnet50(), torch.randn(batch, 3, size, size), torch.arange(batch) % 1000
    step = (model, torch.optim.SGD(model.parameters(), lr=0.01), images, labels)
    contexts = (nullcontext, lambda: simulate(model))
    for context in contexts:  # torch chooses its algorithms on the first call
        seconds(*step, context())
    taken: tuple[list[list[float]], list[list[float]]] = [], []
    for number in range(pairs):
        for which in (0, 1) if number % 2 else (1, 0):
            taken[which].append(seconds(*step, contexts[which]()))
    return [([times[clock] for times in taken[0]], [times[clock] for times in taken[1]]) for clock in range(len(CLOCKS))]


def main(pairs: int, batch: int, size: int) -> None:
    """Print medians of both and of their ratio, and the fixed cost."""
    whole, small = measured(pairs, batch, size), measured(4 * pairs, batch, SMALL)
    print(f"ResNet-50, batch {batch}, {size} x {size}, {pairs} pairs, {torch.get_num_threads()} threads; limit {LIMIT:.0%}")
    for (name, _), (alone, watched), (little, more) in zip(CLOCKS, whole, small, strict=True):
        usual = statistics.median(alone)
        ratios = [100 * (after / before - 1) for before, after in zip(alone, watched, strict=True)]
        added = [100 * (after - before) / usual for before, after in zip(little, more, strict=True)]
        print(f"{name}: a step alone takes {usual:.3f} s")
        for text, values in (("measured on it", ratios), (f"on {SMALL} x {SMALL} images", added)):
            low, high = bounds(values)
            print(f"  {text:20}  {statistics.median(values):+5.1f} % of it ({low:+.1f} to {high:+.1f} %)")


if __name__ == "__main__":
    given = [int(text) for text in arguments()[:3]]
    main(*given, *(20, 8, 224)[len(given) :])
