"""CPU time of building the programs of ResNet-50 (backward), row by row and with stamps in turns.

Usage: python tools/bench/building.py [chip] [batch] [layers]

Programs of both ways are compared on the way. `layers` takes so many of its distinct layers, from the first on. Whole calls
are in `ratios.py`.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from asked import arguments

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.host import collector_paused
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import Program
from ascend_sim.ops.execute import bind
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import load_network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import Device, Task

REPEATS = 3


def tasks_of(layer: Layer, chip: ChipSpec) -> list[Task]:
    """The launches of the backward pass of a layer."""
    operator = OPERATORS["convolution_backward"]
    plan = operator.plan(accept_case(operator.of_layer(layer), chip), chip)
    device = Device(chip, with_values=False)
    tensors_of = {t.name: device.allocate(t.size, t.name) for t in plan.tensors.values() if t.role != "workspace"}
    return bind(plan, chip, tensors_of, device.allocate(plan.workspace_bytes, "workspace"))


def built(task: Task, stamping: bool) -> tuple[list[Program], float]:
    """The programs of all blocks, and the CPU seconds that they took, without Python's collector as in a run."""
    KernelBuilder.stamping = stamping
    begin = time.process_time()
    with collector_paused():
        programs = [program for block in range(task.block_dim) for program in task.build(block)]
    seconds = time.process_time() - begin
    KernelBuilder.stamping = True
    return programs, seconds


def network(chip: ChipSpec, batch: int, count: int | None) -> None:
    """Print seconds and ratios by kernel."""
    layers = list({repr(one.given): one for one in load_network("resnet50").at(batch).layers}.values())[:count]
    plain, stamped, rows = Counter[str](), Counter[str](), Counter[str]()
    for layer in layers:
        for one, other in zip(tasks_of(layer, chip), tasks_of(layer, chip), strict=True):
            name = one.template or one.op_type
            first, seconds = built(one, stamping=False)
            plain[name] += seconds
            second, seconds = built(other, stamping=True)
            stamped[name] += seconds
            rows[name] += sum(map(len, first))
            if not all(np.array_equal(a.rows, b.rows) for a, b in zip(first, second, strict=True)):
                raise SystemExit(f"{layer.name}: {one.name}: the programs differ")
    print(f"{chip.name}, batch {batch}, {len(layers)} layers; CPU seconds row by row and with stamps")
    for name, seconds in [*plain.most_common(), ("all", plain.total())]:
        other, count_of = (stamped[name], rows[name]) if name != "all" else (stamped.total(), rows.total())
        print(f"{name:24s} {count_of:9d} rows {seconds:8.2f} {other:8.2f}  x{seconds / other:.1f}")


def main(arguments: list[str]) -> None:
    """The network's programs, or those of its first layers."""
    chip = arguments[0] if arguments else "ascend910b3"
    batch = int(arguments[1]) if len(arguments) > 1 else 64
    network(load_chip(chip), batch, int(arguments[2]) if len(arguments) > 2 else None)


if __name__ == "__main__":
    main(arguments())
