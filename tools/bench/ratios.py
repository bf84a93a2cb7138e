"""Speed of the compiled engine and of stamped programs: CPU seconds beside the SimPy engine and plain building, one run.

Usage: python tools/bench/ratios.py [--repeats N] [--long] [PART ...]

Parts: engines (same programs on both engines), calls (`timing` with report, ResNet-50 layers at batch 64, equal reports), start
(processes), search (bounds and candidates per second), tile (whole searches at batch 32, equal tables). Ways take turns, and
medians are printed; --long adds the first layer of ResNet-50, its whole backward pass and the searches of all its 3x3 layers,
minutes on SimPy.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine import CASES, ENGINES, medians, seconds

from ascend_sim import TensorSpec
from ascend_sim.calls.cases import accept_case, call_case
from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.ops.network import load_network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.studies.network.run import run_network
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.search import search

CHIP, BATCH, NETWORK = "ascend910b3", 64, "resnet50"
LAYERS = {"3x3 64 -> 64, 56x56": "conv2_1_3x3", "1x1 64 -> 256, 56x56": "conv2_1_1x1_out"}
LONG = {"first layer, 7x7 3 -> 64, 224x224": "conv1"}
CANDIDATES = 8
TILE_BATCH, TILE_LIMIT, TILE_TOP = 32, 32, 10
ADD = Path(__file__).parents[2] / "docs" / "ascend-c" / "add_custom.cpp"
COMMANDS = {
    "ascend-sim --version": ["--version"],
    "ascend-sim run document_example_2d --mode timing": ["run", "document_example_2d", "--mode", "timing"],
    "ascend-sim kernel docs/ascend-c/add_custom.cpp, compiled before": ["kernel", str(ADD)],
}


@contextmanager
def _plain() -> Any:
    """Programs are built row by row."""
    KernelBuilder.stamping = False
    try:
        yield
    finally:
        KernelBuilder.stamping = True


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of some work, and what it gives."""
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def _line(what: str, base: Sequence[float], fast: Sequence[float]) -> None:
    one, other = statistics.median(base), statistics.median(fast)
    print(f"| {what} | {one:.3f} | {other:.3f} | x{one / other:.1f} |", flush=True)


def _head(title: str, base: str, fast: str) -> None:
    print(f"\n| {title} | {base}, s | {fast}, s | ratio |\n|---|---|---|---|", flush=True)


def engines(repeats: int, _: bool) -> None:
    """Time equal programs on both engines: whole runs, and without their preparation."""
    print(f"\n| the same programs | {' | alone: '.join(['simpy, s | compiled, s | ratio'] * 2)} |\n{'|---' * 7}|", flush=True)
    for name, (make, shared) in CASES.items():
        case = make()
        turns = [[seconds(case, engine, shared) for engine in ENGINES] for _ in range(repeats)]
        simpy, compiled = (medians(times) for times in zip(*turns, strict=True))
        cells = (f"{one:.3f} | {other:.4f} | x{one / other:.1f}" for one, other in zip(simpy, compiled, strict=True))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _layer(name: str) -> Any:
    return next(layer for layer in load_network(NETWORK).at(BATCH).layers if layer.name == name)


def _both(what: str, work: Callable[[str], Any], repeats: int) -> None:
    """Work on an engine, plain on SimPy against the default; it must give the same."""
    base, fast = [], []
    for _ in range(repeats):
        with _plain():
            taken, expected = cpu(lambda: work("simpy"))
        base.append(taken)
        taken, found = cpu(lambda: work("auto"))
        fast.append(taken)
        if found != expected:
            raise SystemExit(f"{what}: the results differ")
    _line(what, base, fast)


def calls(repeats: int, long: bool) -> None:
    """Whole calls with their reports."""
    _head("`timing` with report", "SimPy, row by row", "default")
    for what, name in (LAYERS | (LONG if long else {})).items():
        layer = _layer(name)

        def run(engine: str, layer: Any = layer) -> dict[str, Any]:
            case = OPERATORS["convolution_backward"].of_layer(layer)
            values = {name: TensorSpec(*tensor) for name, tensor in case.tensors.items()}
            return call_case(case, values, chip=CHIP, mode="timing", engine=engine).report.to_dict()

        run("auto")  # what is loaded and cached once
        _both(what, run, 1 if name in LONG.values() else repeats)
    if long:
        loaded = load_network(NETWORK)

        def network(engine: str) -> Any:
            with _engine(engine):
                return run_network(loaded, chip=CHIP, batch=BATCH).to_dict()

        _both("the whole backward pass, `run-network`", network, 1)


@contextmanager
def _engine(name: str) -> Any:
    os.environ["ASCEND_SIM_ENGINE"] = name
    try:
        yield
    finally:
        del os.environ["ASCEND_SIM_ENGINE"]


def start(repeats: int, _: bool) -> None:
    """Processes from begin to end, beside Python with numpy alone."""
    print("\n| a process | CPU s |\n|---|---|")
    rows = {"python -c 'import numpy'": [sys.executable, "-c", "import numpy"]}
    rows |= {name: [sys.executable, "-m", "ascend_sim", *arguments] for name, arguments in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for name, command in rows.items():
            times = []
            for _ in range(repeats + 1):  # the first one writes what Python compiles
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            print(f"| {name} | {statistics.median(times[1:]):.2f} |", flush=True)


def tilings(repeats: int, _: bool) -> None:
    """Bounds per second, and candidates per second of a search that is ended early (listing and bounds not counted)."""
    print("\n| search, 3x3 64 -> 64 | tilings | bounds /s | candidates /s |\n|---|---|---|---|")
    chip = load_chip(CHIP)
    call = accept_case(OPERATORS["convolution_backward"].of_layer(_layer("conv2_1_3x3")), chip)
    for name in ("grad_input", "grad_weight"):
        kernel = CubeKernel.of(call, chip, name)
        listed = [tiling for _, tiling in kernel.tilings()]
        bounds = kernel.bounds()
        fields = [result["fields"] for result in search(kernel, limit=CANDIDATES).results]

        def bounded(bounds: Any = bounds, listed: Any = listed) -> Any:
            return bounds.least(listed)

        def simulated(kernel: CubeKernel = kernel, fields: Any = fields) -> Any:
            return [kernel.simulate(one) for one in fields]

        taken, each = (statistics.median(cpu(work)[0] for _ in range(repeats)) for work in (bounded, simulated))
        print(f"| {name} | {len(listed)} | {len(listed) / taken:,.0f} | {len(fields) / each:.1f} |", flush=True)


def searches(_: int, long: bool) -> None:
    """Whole searches of the 3x3 layers, of one of them if not `long`: the same table whatever runs them."""
    _head("search, batch 32", "SimPy, row by row", "default")
    chip = load_chip(CHIP)
    threes = [layer for layer in load_network(NETWORK).at(TILE_BATCH).layers if (layer.weight.shape or ())[2:] == (3, 3)]
    distinct = list({(layer.input, layer.weight, layer.stride): layer for layer in threes}.values())
    for layer in distinct if long else distinct[2:3]:
        call = accept_case(OPERATORS["convolution_backward"].of_layer(layer), chip)
        for name in ("grad_input", "grad_weight"):
            kernel = CubeKernel.of(call, chip, name)

            def table(engine: str, kernel: CubeKernel = kernel) -> Any:
                with _engine(engine):
                    outcome = search(kernel, limit=TILE_LIMIT, top=TILE_TOP)
                return outcome.own, outcome.results[:TILE_TOP], outcome.sentence

            _both(f"{layer.name}, {name}", table, 1)


PARTS = {"engines": engines, "calls": calls, "start": start, "search": tilings, "tile": searches}


def main() -> None:
    """The parts that are asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", action="store_true")
    asked = parser.parse_args()
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    for name in asked.parts or PARTS:
        PARTS[name](asked.repeats, asked.long)


if __name__ == "__main__":
    main()
