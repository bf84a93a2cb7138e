"""What watching costs: a training step of ResNet-50 with `simulate` around it and nothing simulated, against the step alone.

Usage: python tools/bench/torch_mode.py [repeats] [batch] [size]

Forward, backward and an SGD step in float32 on the CPU; mode "timing" notes the calls and simulates them only when somebody
asks. Steps with and without take turns, so that a busy machine disturbs both alike. Beside the wall clock stands the
processor time.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ascend_sim.torch import simulate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "torch"))
from models import resnet50  # noqa: E402 - the tests' own ResNet-50

LIMIT = 0.05
"""What the project promises."""


def seconds(model: Any, optimizer: Any, images: Any, labels: Any, context: Any) -> tuple[float, float]:
    """Wall clock and processor time of one training step."""
    begin = time.perf_counter(), time.process_time()
    with context:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def main(repeats: int, batch: int, size: int) -> None:
    """Print the medians of both and the overhead."""
    torch.manual_seed(0)
    model, images, labels = resnet50(), torch.randn(batch, 3, size, size), torch.arange(batch) % 1000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = (model, optimizer, images, labels)
    seconds(*step, nullcontext())  # torch chooses its algorithms on the first call
    alone, watched = [], []
    for _ in range(repeats):
        alone.append(seconds(*step, nullcontext()))
        watched.append(seconds(*step, simulate(model)))
    print(f"ResNet-50, batch {batch}, {size} x {size}, {repeats} repeats, {torch.get_num_threads()} threads")
    for clock, name in enumerate(("wall clock", "processor")):
        plain = statistics.median(times[clock] for times in alone)
        inside = statistics.median(times[clock] for times in watched)
        overhead = 100 * (inside / plain - 1)
        print(f"{name:10}  alone {plain:.3f} s, watched {inside:.3f} s, overhead {overhead:+.1f} % (limit {LIMIT:.0%})")


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:4]]
    main(*given, *(10, 8, 224)[len(given) :])
