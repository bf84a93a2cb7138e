"""Do what the waterfall's statements say, and compare the gain with the promised one.

python tools/promises.py                    # ten layers of the shipped networks: promised and got, exit code 1 beyond 20 %
python tools/promises.py --seconds 20       # of each search of tilings, which is held against what "at most" was said
python tools/promises.py CASE CASE ...      # case files in place of them

For each layer the three largest statements of its cube kernels. What is compared is the time of the whole kernel, as the user
sees it: a batch f times as large against f calls, filled channels against as many calls as do the same products, anything else
against the call itself. Statements that promise nothing are counted apart, and so are those that say "at most".
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ascend_sim import run_case, search_tilings
from ascend_sim.errors import SimError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, load_network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.report.grid import Grid

LAYERS = (
    ("resnet50", "conv1", 8), ("resnet50", "conv2_2_3x3", 1), ("resnet50", "conv3_1_3x3", 8), ("resnet50", "conv5_2_1x1_in", 8),
    ("resnet18", "conv4_1_a", 2), ("vgg16", "conv4_2", 2), ("mobilenet_v2", "block5_depthwise", 8), ("unet", "down4_1", 1),
    ("r3d_18", "layer4_1_a", 2), ("wav2vec2", "conv3", 2),
)  # fmt: skip
"""Network, layer, batch: of every kind, with batches at which different things cost most."""
WITHIN = 0.2
Kernels = dict[str, dict[str, Any]]


FITS, OFF, HELD, EXCEEDED, NOTHING = (
    "promises within 20 %", "promises off by more", 'told as "at most", and a search found no more',
    'told as "at most", and a search, which changes other parts too, found more', "promise nothing",
)  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each search of tilings")
    parser.add_argument("--chip", default="ascend910b3", help="of the ten layers; cases have their own")
    parser.add_argument("--top", type=int, default=3, help="statements of each layer, the largest first")
    options = parser.parse_args()
    table = Grid("", ("layer", "kernel", "parts", "what was done", ">promised", ">got", ">got/promised"), names=3)
    counts = dict.fromkeys((FITS, OFF, HELD, EXCEEDED, NOTHING), 0)
    calls: list[tuple[str, Case]] = [(name, load_case(name)) for name in options.cases]
    for name, layer, batch in () if calls else LAYERS:
        found = layer_of(load_network(name).at(batch), layer)
        case = OPERATORS.of_pass("backward", found.kind).of_layer(found)
        calls.append((f"{name} {layer} x{batch}", case.model_copy(update={"chip": options.chip})))
    for name, case in calls:
        for row, outcome in checked(case, options.top, options.seconds):
            table.row(name, *row)
            counts[outcome] += 1
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 160).print(table)
    print("\n".join(f"{outcome}: {count}" for outcome, count in counts.items()))
    return int(counts[OFF] > 0)


def checked(case: Case, top: int, seconds: float) -> list[tuple[tuple[str, ...], str]]:
    """A row for each of the call's `top` largest statements, and what became of it."""
    before = kernels(case)
    said = [(kernel, one) for kernel in before.values() for one in kernel["statements"]]
    rows = []
    for kernel, one in sorted(said, key=lambda pair: -pair[1]["cycles"])[:top]:
        name, gain, change, elapsed = kernel["name"], one["gain"], one["change"], sum(kernel["waterfall"].values())
        head = (name, ", ".join(one["parts"]))
        if gain is None:
            rows.append(((*head, "nothing is promised", "-", "-", "-"), NOTHING))
            continue
        if not change:
            done, got = searched(case, name, seconds) if name in TILINGS else ("no search", None)
            outcome = NOTHING if got is None else HELD if got <= gain else EXCEEDED
            rows.append(((*head, done, f"<= {gain:,}", "-" if got is None else f"{got:,}", "-"), outcome))
            continue
        after, calls, done = changed(case, change)
        # as many of the old calls as do the work of the new one
        got = round((calls or 1 + gain / elapsed) * elapsed) - sum(after[name]["waterfall"].values())
        ratio = got / gain
        row = (*head, done, f"{gain:,}", f"{got:,}", f"{ratio:.2f}")
        rows.append((row, FITS if abs(ratio - 1) <= WITHIN else OFF))
    return rows


def changed(case: Case, change: Mapping[str, Any]) -> tuple[Kernels, int, str]:
    """The cube kernels of the changed call, how many of the old ones do as much (0: as the products say), what was done."""
    ((what, value),) = change.items()
    if what == "batch":
        axis = OPERATORS[case.operator].batch_axes["input"]
        return kernels(resized(case, lambda maps, _: multiplied(maps, axis, value))), value, f"{value} times the batch"
    if what == "channels":
        return kernels(filled(case, value)), 0, f"channels in multiples of {value}"
    fields = value if isinstance(value, Mapping) else {"": value}
    done = ", ".join(f"{kernel} {one}".strip().replace("'", "") for kernel, one in fields.items())
    return kernels(case, **change), 1, f"{what} {done}"


def layer_of(network: Network, name: str) -> Layer:
    """A layer by its name."""
    return next(layer for layer in network.layers if layer.name == name)


def kernels(case: Case, **settings: Any) -> Kernels:
    """The cube kernels of the call, as the report has them."""
    report = run_case(case, mode="timing", **settings).report.to_dict()
    return {kernel["name"]: kernel for kernel in report["kernels"] if "waterfall" in kernel}


def multiplied(shape: list[int], axis: int, factor: int) -> None:
    """One size of a shape times a factor."""
    shape[axis] *= factor


def resized(case: Case, change: Callable[[list[int], list[int]], Any], **fields: Any) -> Case:
    """The case with other shapes of input and weight; what follows from them follows again."""
    maps, weight = list(case.tensors["input"][0]), list(case.tensors["weight"][0])
    change(maps, weight)
    entries = case.model_dump(exclude_unset=True) | fields
    for name, shape in (("input", maps), ("weight", weight)):
        entries[name] = dict(entries[name]) | {"shape": shape}
    return type(case).model_validate(entries)


def filled(case: Case, block: int) -> Case:
    """The layer with channels, or channels of a group, in multiples of `block`; in groups by having fewer of them."""
    groups = case.attributes.get("groups", 1)
    more = max(1, groups * case.tensors["weight"][0][1] // block) if groups > 1 else 1

    def fill(maps: list[int], weight: list[int]) -> None:
        if groups > 1:
            weight[1] = maps[1] // more
        else:
            weight[:2] = (-(-channels // block) * block for channels in weight[:2])
            maps[1] = weight[0 if case.attributes.get("transposed") else 1]

    return resized(case, fill, groups=more)


def searched(case: Case, kernel: str, seconds: float) -> tuple[str, int | None]:
    """Return the cycles that a search of tilings saves."""
    try:
        (found,) = search_tilings(case, kernel, seconds=seconds)
    except SimError as error:
        return f"tile: {error}", None
    return "tile", found.call["cycles"] - found.best["cycles"]


if __name__ == "__main__":
    sys.exit(main())
