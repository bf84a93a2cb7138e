"""CPU time of layers of real networks: every N-th one of tests/data/network_layers.json, `timing` with its report as a dict,
float16, batch 32 (3-D: 4), ascend910b3: dX and dW by themselves and in one call, as `run-network` and `--json` run them; that
is without a timeline, and then with one, which keeps the columns of every row.

Usage: python tools/bench/layers.py [every [offset]]     (30 and 0; a list of more layers takes minutes)

Rows are instructions with flags. What is imported when the first call is made is imported before.
"""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asked import arguments

from ascend_sim import TensorSpec, convolution_backward

LAYERS = Path(__file__).resolve().parents[2] / "tests/data/network_layers.json"
HEAVIEST = 10


@dataclass(frozen=True)
class BenchLayer:
    """One of the list, as its `columns` have it."""

    input: list[int]
    output: list[int]
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    transposed: int
    output_padding: list[int]
    network: str

    def run(self, mask: tuple[bool, bool, bool], timeline: bool) -> tuple[float, int]:
        """CPU seconds of the call, and its rows where the timeline is kept."""
        batch = 4 if len(self.kernel) == 3 else 32
        first, second = (self.input[0], self.output[0]) if self.transposed else (self.output[0], self.input[0])
        shapes = ([batch, self.output[0], *self.made()], [batch, *self.input], [first, second // self.groups, *self.kernel])
        tensors = [TensorSpec(shape, "float16") for shape in shapes]
        window: Any = self.stride, self.padding, self.dilation, bool(self.transposed), self.output_padding, self.groups
        begin = time.process_time()
        options: Any = {"chip": "ascend910b3", "mode": "timing", "timeline": timeline}
        result = convolution_backward(*tensors, None, *window, mask, **options)
        result.report.to_dict()
        seconds = time.process_time() - begin
        return seconds, sum(len(run.program) for run in result.timeline.programs) if timeline else 0

    def made(self) -> list[int]:
        """Sizes of the map that it makes; those of a network that pads on one side alone are one less, without that pad."""
        if self.transposed:
            return self.output[1:]
        sizes = zip(self.input[1:], self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return [(size + 2 * pad - (taps - 1) * apart - 1) // step + 1 for size, taps, step, pad, apart in sizes]

    def __str__(self) -> str:
        """A line of the table."""
        sizes = ["x".join(map(str, one)) for one in (self.input, self.output, self.kernel, self.stride)]
        notes = ", transposed" * self.transposed + f", {self.groups} groups" * (self.groups > 1)
        return f"{sizes[0]} -> {sizes[1]}, {sizes[2]} by {sizes[3]}{notes} | {self.network}"


WAYS = {
    "dX": ((True, False, False), False),
    "dW": ((False, True, False), False),
    "both in one call": ((True, True, False), False),
    "both, with a timeline": ((True, True, False), True),
}
"""Passes of every layer, with True if its timeline is kept."""


def main(every: int = 30, offset: int = 0) -> None:
    """Two tables: all layers together, one way after the other, so that no call finds what another of its layer left; and the
    heaviest of them.
    """
    listed = json.loads(LAYERS.read_text(encoding="utf-8"))["layers"]
    for mask, timeline in WAYS.values():
        BenchLayer(*listed[0]).run(mask, timeline)
    layers = [BenchLayer(*row) for row in listed[offset::every]]
    measured = {way: [layer.run(mask, timeline) for layer in layers] for way, (mask, timeline) in WAYS.items()}
    seconds = {way: [one[0] for one in found] for way, found in measured.items()}
    counts = [one[1] for one in measured["both, with a timeline"]]
    print("| layers | | CPU s, mean | median | all |\n|---|---|---|---|---|")
    for way, spent in ({"each of dX and dW": seconds["dX"] + seconds["dW"]} | seconds).items():
        print(f"| {len(layers)} | {way} | {statistics.mean(spent):.3f} | {statistics.median(spent):.3f} | {sum(spent):.1f} |")
    print("\n| CPU s, both | with a timeline | rows | layer | network |\n|---|---|---|---|---|")
    whole = zip(seconds["both in one call"], seconds["both, with a timeline"], counts, layers, strict=True)
    for short, long, count, layer in sorted(whole, key=lambda one: -one[0])[:HEAVIEST]:
        print(f"| {short:.2f} | {long:.2f} | {count:,} | {layer} |")


if __name__ == "__main__":
    main(*map(int, arguments()))
