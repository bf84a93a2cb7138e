"""Layers of ResNet-50, backward, on one core: here, in SCALE-Sim and in ZigZag; what each says, and the CPU time that it takes.

Usage: python tools/bench/others.py [--environment DIR] [--chip NAME]

The others are installed into DIR, an environment of their own (default: a temporary one), from PyPI. They know matrix
products, so that they get dX and dW as the products that img2col makes of them (pixels x channels x taps); their array has as
many multipliers as the chip's cube, their memories are sized as its buffers, and GM is as wide as its path to L1.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSIONS = ("scalesim==3.0.0", "zigzag-dse==3.9.1", "numpy<2.2", "six")
"""SCALE-Sim 3.0.0 makes numbers of arrays in a way that newer numpy refuses; ZigZag imports six and does not ask for it."""
NETWORK, LAYERS = "resnet50", ("conv2_1_3x3", "conv2_1_1x1_out", "conv5_2_3x3")
CLOCKED = "float16"

WIDENED = ("rf_64KB_I", "rf_64KB_W", "sram_256KB_O", "sram_1MB_A", "sram_1MB_W")
"""Memories of ZigZag's `ascend_like`, an 8-bit machine of 1,024 multipliers: L0A, L0B, L0C and the halves of L1."""

SCALE = """[general]
run_name = run
[architecture_presets]
ArrayHeight = {side}
ArrayWidth = {side}
IfmapSramSzkB = {left}
FilterSramSzkB = {right}
OfmapSramSzkB = {out}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = ws
Bandwidth = {elements}
ReadRequestBuffer = 128
WriteRequestBuffer = 128
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""


@dataclass(frozen=True)
class BenchProduct:
    """A matrix product [m, k] x [k, n] that one gradient of a layer is."""

    name: str
    m: int
    n: int
    k: int


def products(layer: Any) -> tuple[BenchProduct, BenchProduct]:
    """dX and dW of a 2-D convolution of one group and stride 1, as img2col makes them."""
    images, cin, *size = layer.input.shape
    cout, _, *taps = layer.weight.shape
    pixels = images * math.prod(size)
    return (BenchProduct("dX", pixels, cin, cout * math.prod(taps)), BenchProduct("dW", cin * math.prod(taps), cout, pixels))


def run(command: list[str], folder: Path) -> float:
    """CPU seconds of a process and its children; its last words where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (folder / "stdout").write_text(done.stdout, encoding="utf-8")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def here(layer: Any, chip: str, folder: Path) -> tuple[float, list[int]]:
    """`run --mode timing` of the call, each kernel on one block: cycles of that core."""
    case = {
        "operator": "convolution_backward", "chip": chip, "cube_math_type": 0, "output_mask": [True, True, False],
        "input": {"shape": list(layer.input.shape), "dtype": CLOCKED},
        "weight": {"shape": list(layer.weight.shape), "dtype": CLOCKED},
        "grad_output": {"dtype": CLOCKED}, "padding": list(layer.padding or [0]),
    }  # fmt: skip
    (folder / "case.yaml").write_text(json.dumps(case), encoding="utf-8")
    command = [sys.executable, "-m", "ascend_sim", "run", "case.yaml", "--mode", "timing", "--json", "--block-dim", "1"]
    taken = run(command, folder)
    report = json.loads((folder / "stdout").read_text(encoding="utf-8"))
    found = {kernel["name"]: kernel["core_cycles_max"] for kernel in report["kernels"]}
    return taken, [found["grad_input"], found["grad_weight"]]


def scale_sim(
    python: Path, pair: tuple[BenchProduct, BenchProduct], machine: dict[str, Any], folder: Path
) -> tuple[float, list[int]]:
    """SCALE-Sim's products, weights stationary: cycles with prefetching."""
    rows = "".join(f"{product.name},{product.m},{product.n},{product.k},\n" for product in pair)
    (folder / "layers.csv").write_text("Layer,M,N,K,\n" + rows, encoding="utf-8")
    (folder / "layout.csv").write_text("", encoding="utf-8")
    (folder / "machine.cfg").write_text(SCALE.format(**machine), encoding="utf-8")
    files = ["-c", "machine.cfg", "-t", "layers.csv", "-l", "layout.csv", "-i", "gemm", "-s", "N", "-p", "."]
    taken = run([str(python), "-W", "ignore", "-m", "scalesim.scale", *files], folder)
    lines = (folder / "run" / "COMPUTE_REPORT.csv").read_text(encoding="utf-8").splitlines()[1:]
    return taken, [int(float(line.split(",")[1])) for line in lines]


def zigzag(
    python: Path, pair: tuple[BenchProduct, BenchProduct], machine: dict[str, Any], folder: Path
) -> tuple[float, list[int]]:
    """ZigZag's least latency of the products, on its own `ascend_like` with the chip's numbers."""
    asked = {"machine": machine, "products": [vars(product) for product in pair]}
    taken = run([str(python), str(Path(__file__).resolve()), "--zigzag", json.dumps(asked)], folder)
    return taken, json.loads((folder / "latency.json").read_text(encoding="utf-8"))


def in_zigzag(asked: dict[str, Any]) -> None:
    """Run each product with the loops that ZigZag likes best, in the Python of its environment."""
    import yaml  # of its environment
    import zigzag  # type: ignore[import-not-found]
    from zigzag.api import get_hardware_performance_zigzag  # type: ignore[import-not-found]

    inputs, machine = Path(zigzag.__file__).parent / "inputs", asked["machine"]
    hardware = yaml.safe_load((inputs / "hardware/ascend_like.yaml").read_text(encoding="utf-8"))
    mapping = yaml.safe_load((inputs / "mapping/ascend_like.yaml").read_text(encoding="utf-8"))[:1]
    maps = machine["multipliers"] // 16**2  # its array: 16 outputs, 16 inputs, and so many pixels
    across = 2 ** (maps.bit_length() // 2)
    hardware["operational_array"]["sizes"] = [16, 16, across, maps // across]
    mapping[0]["spatial_mapping"] |= {"D3": [f"OX, {across}"], "D4": [f"OY, {maps // across}"]}
    memories = hardware["memories"]
    for name, size in zip(WIDENED, machine["buffers"], strict=True):
        memories[name]["size"] = 8 * size
    for name in ("rf_1B", "rf_2B"):  # registers of an 8-bit machine, for operands and results of twice the width
        memories[name]["size"] *= 2
        for port in memories[name]["ports"]:
            port |= {side: 2 * port[side] for side in ("bandwidth_min", "bandwidth_max")}
    for name in WIDENED:  # as wide as that array and those operands need them
        for port in memories[name]["ports"]:
            port["bandwidth_max"] *= 2 * machine["multipliers"] // 1024
    for port in memories["dram"]["ports"]:
        port["bandwidth_max"] = 8 * machine["bytes"]
    Path("hardware.yaml").write_text(yaml.safe_dump(hardware, sort_keys=False), encoding="utf-8")
    Path("mapping.yaml").write_text(yaml.safe_dump(mapping, sort_keys=False), encoding="utf-8")
    found = []
    for product in asked["products"]:
        rows = next(rows for rows in range(math.isqrt(product["m"]), 0, -1) if product["m"] % rows == 0)
        sizes = {"B": 1, "K": product["n"], "C": product["k"], "OY": rows, "OX": product["m"] // rows}
        layer = {
            "id": 0, "name": product["name"], "operator_type": "Conv",
            "equation": "O[b][k][oy][ox]+=W[k][c]*I[b][c][oy][ox]", "dimension_relations": [],
            "loop_dims": list(sizes), "loop_sizes": list(sizes.values()),
            "operand_precision": {"W": 16, "I": 16, "O": 32, "O_final": 32}, "operand_source": {"I": 0, "W": 0},
        }  # fmt: skip
        Path("layer.yaml").write_text(yaml.safe_dump([layer], sort_keys=False), encoding="utf-8")
        _, latency, _ = get_hardware_performance_zigzag(
            "layer.yaml", "hardware.yaml", "mapping.yaml", dump_folder="out", loma_show_progress_bar=False
        )
        found.append(int(latency))
    Path("latency.json").write_text(json.dumps(found), encoding="utf-8")


def machine_of(chip: Any) -> dict[str, Any]:
    """One core in the words of the others: multipliers, GM's width in bytes and elements, buffers in KiB and bytes."""
    multipliers = int(chip.cube.m0 * chip.cube.n0 * chip.cube.rates[CLOCKED].k_per_cycle)
    width = int(chip.paths["GM->L1"].bytes_per_cycle)
    sizes = {"left": chip.buffers["L1"] // 2, "right": chip.buffers["L1"] // 2, "out": chip.buffers["L0C"]}
    return {
        "multipliers": multipliers, "side": math.isqrt(multipliers), "bytes": width, "elements": width // 2,
        "buffers": [*(chip.buffers[name] for name in ("L0A", "L0B", "L0C")), sizes["left"], sizes["right"]],
        **{name: size // 1024 for name, size in sizes.items()},
    }  # fmt: skip


def compare(python: Path, chip_name: str) -> None:
    """Both tables: cycles by product, CPU seconds by layer."""
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.network import load_network

    machine = machine_of(load_chip(chip_name))
    layers = {layer.name: layer for layer in load_network(NETWORK).at(1).layers}
    times = []
    print("| cycles on one core | ideal | ascend-sim | SCALE-Sim | ZigZag |\n|---|---|---|---|---|", flush=True)
    for name in LAYERS:
        pair, found, spent = products(layers[name]), [], []
        others = (python, pair, machine)
        with tempfile.TemporaryDirectory() as scratch:
            for tool, given in ((here, (layers[name], chip_name)), (scale_sim, others), (zigzag, others)):
                folder = Path(scratch) / tool.__name__
                folder.mkdir()
                taken, cycles = tool(*given, folder)
                found.append(cycles)
                spent.append(taken)
        for product, *cycles in zip(pair, *found, strict=True):
            ideal = product.m * product.n * product.k // machine["multipliers"]
            print(f"| {name}, {product.name} | {ideal:,} | " + " | ".join(f"{n:,}" for n in cycles) + " |", flush=True)
        times.append(f"| {name} | " + " | ".join(f"{seconds:.1f}" for seconds in spent) + " |")
    print("\n| a process for both gradients, CPU s | ascend-sim | SCALE-Sim | ZigZag |\n|---|---|---|---|")
    print("\n".join(times))


def main() -> None:
    """Install the others where they are not, then compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--chip", default="ascend910b3")
    parser.add_argument("--zigzag", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.zigzag:
        return in_zigzag(json.loads(asked.zigzag))
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.environment or Path(scratch)).resolve()
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *VERSIONS], check=True)
        compare(python, asked.chip)
    return None


if __name__ == "__main__":
    main()
