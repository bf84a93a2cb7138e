"""Do what the waterfall's statements say, and compare the gain with the promised one.

python tools/promises.py                    # ten layers of the shipped networks: promised and got, exit code 1 beyond 20 %
python tools/promises.py --seconds 20       # of each search of tilings, which promises nothing but says what it found

For each layer the three largest statements of its cube kernels. A batch f times as large is held against f calls, filled
channels against as many calls as do the same products; what start and launch save is looked up in the new waterfall.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ascend_sim import run_case, search_tilings
from ascend_sim.errors import SimError
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.grid import Grid
from ascend_sim.studies.network.file import Layer, Network, load_network

LAYERS = (
    ("resnet50", "conv1", 8), ("resnet50", "conv2_2_3x3", 1), ("resnet50", "conv3_1_3x3", 8), ("resnet50", "conv5_2_1x1_in", 8),
    ("resnet18", "conv4_1_a", 2), ("vgg16", "conv4_2", 2), ("mobilenet_v2", "block5_depthwise", 8), ("unet", "down4_1", 1),
    ("r3d_18", "layer4_1_a", 2), ("wav2vec2", "conv3", 2),
)  # fmt: skip
"""Network, layer, batch: of every kind, with batches at which different things cost most."""
WITHIN = 0.2
Kernels = dict[str, dict[str, Any]]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each search of tilings")
    parser.add_argument("--chip", default="ascend910b3")
    options = parser.parse_args()
    table = Grid("", ("layer", "kernel", "part", "what was done", ">promised", ">got", ">got/promised"), names=3)
    off = 0
    for name, layer, batch in LAYERS:
        for row, fits in checked(load_network(name).at(batch), layer, options.chip, options.seconds):
            table.row(f"{name} {layer} x{batch}", *row)
            off += not fits
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160).print(table)
    print(f"{off} promises were off by more than {100 * WITHIN:.0f} %")
    return int(off > 0)


def checked(network: Network, name: str, chip: str, seconds: float) -> list[tuple[tuple[str, ...], bool]]:
    """A row for each of the layer's three largest statements, and whether what it promised was got."""
    before = kernels(layer_of(network, name), chip)
    said = [(kernel, one) for kernel in before.values() for one in kernel["statements"]]
    rows = []
    for kernel, one in sorted(said, key=lambda pair: -pair[1]["cycles"])[:3]:
        what, gain = kernel["name"], one["gain"]
        if not one["change"]:
            done, got = searched(network, name, what, chip, seconds) if one["command"] else ("nothing to do here", None)
            rows.append(((what, one["part"], done, "-", "-" if got is None else f"{got:,}", "-"), True))
            continue
        change, factor = next(iter(one["change"].items()))
        if change == "batch":
            after = kernels(layer_of(network.at(network.batch * factor), name), chip)[what]
            done = f"{factor} times the batch"
        else:
            after = kernels(filled(layer_of(network, name), factor), chip)[what]
            done = f"channels in multiples of {factor}"
        old, new = kernel["waterfall"], after["waterfall"]
        if one["part"] in ("start", "launch"):
            got = factor * old[one["part"]] - new.get(one["part"], 0)
        else:  # the same work by calls like the one before
            calls = factor if change == "batch" else 1 + gain / sum(old.values())
            got = round(calls * sum(old.values()) - sum(new.values()))
        ratio = got / gain
        rows.append(((what, one["part"], done, f"{gain:,}", f"{got:,}", f"{ratio:.2f}"), abs(ratio - 1) <= WITHIN))
    return rows


def layer_of(network: Network, name: str) -> Layer:
    """A layer by its name."""
    return next(layer for layer in network.layers if layer.name == name)


def kernels(layer: Layer, chip: str) -> Kernels:
    """The cube kernels of the layer's backward pass, as the report has them."""
    result = run_case(OPERATORS.of_pass("backward", layer.kind).of_layer(layer), chip=chip, mode="timing")
    return {kernel["name"]: kernel for kernel in result.report.kernels if "waterfall" in kernel}


def filled(layer: Layer, block: int) -> Layer:
    """The layer with channels, or channels of a group, in multiples of `block`; in groups by having fewer of them."""
    maps, weight = list(layer.input.shape or ()), list(layer.weight.shape or ())
    groups = layer.groups
    if groups > 1:
        groups = max(1, groups * weight[1] // block)
        weight[1] = maps[1] // groups
    else:
        weight[:2] = (-(-channels // block) * block for channels in weight[:2])
        maps[1] = weight[1]
    return layer.model_copy(
        update={
            "groups": groups,
            "input": layer.input.model_copy(update={"shape": tuple(maps)}),
            "weight": layer.weight.model_copy(update={"shape": tuple(weight)}),
        }
    )


def searched(network: Network, name: str, kernel: str, chip: str, seconds: float) -> tuple[str, int | None]:
    """What a search of tilings saves, in cycles."""
    layer = layer_of(network, name)
    try:
        (found,) = search_tilings(
            OPERATORS.of_pass("backward", layer.kind).of_layer(layer), kernel, chips=chip, seconds=seconds
        )
    except SimError as error:
        return f"tile: {error}", None
    return "tile", found.own["cycles"] - found.best["cycles"]


if __name__ == "__main__":
    sys.exit(main())
