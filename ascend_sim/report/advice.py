"""What the waterfall of a kernel says in words: its largest parts, what the user can change about each, and the command.

for statement in statements(chip, kernel, stride=(2, 2)):
    statement.text, statement.command       # command "" where no command of this program changes it
    statement.change, statement.gain        # {"batch": 2}, and the cycles that twice the batch saves against two of these calls

A gain is promised only where the waterfall says what the change leaves as it is; what a search of tilings finds, nobody knows
before (tools/promises.py does what the statements of ten layers say, and compares).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.report.waterfall import WORDS

_SHOWN = 3
_WORTH_SAYING = 0.05
"""Parts below this share of the kernel are not spoken of."""
_CASE = "CASE"
_SEARCH = "another tiling may save some of it; the search tells how much"


@dataclass(frozen=True)
class Statement:
    """One part of a waterfall in words: `cycles` are what it costs.

    `change` is what the text promises a gain of, {} for nothing: {"batch": f} a batch f times as large, {"channels": c}
    channels (of a group) filled up to multiples of c. `gain` is in cycles, against as many of these calls as do the same work.
    """

    part: str
    cycles: int
    text: str
    command: str
    change: Mapping[str, int]
    gain: int


def statements(chip: ChipSpec, kernel: Mapping[str, Any], stride: Sequence[int] = ()) -> list[Statement]:
    """The largest parts of `kernel` (an entry of `Report.kernels`) besides the useful products, the largest first.

    `stride` is that of the layer, along height and width.
    """
    parts = {name: cycles for name, cycles in kernel.get("waterfall", {}).items() if name != "ideal"}
    elapsed = sum(kernel.get("waterfall", {}).values())
    worth = [name for name, cycles in parts.items() if cycles >= _WORTH_SAYING * elapsed]
    found = []
    for name in sorted(worth, key=lambda name: -parts[name])[:_SHOWN]:
        cause, words, command = _told(name, chip, kernel, stride)
        share = f"{100 * parts[name] / elapsed:.0f} % ({chip.us(parts[name]):.1f} us)"
        change, gain = _promised(name, chip, kernel)
        found.append(Statement(name, parts[name], f"{share}: {cause}. {words}", command, change, gain))
    return found


def _promised(part: str, chip: ChipSpec, kernel: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """A change of the layer and what it saves; ({}, 0) where the waterfall does not tell."""
    parts, blocks, cores = kernel["waterfall"], kernel["block_dim"], chip.cores.aic
    elapsed = sum(parts.values())
    if part in ("start", "launch") and blocks <= cores:  # once a core, however much it has to do
        return {"batch": 2}, parts[part]
    if part == "idle cores" and cores // blocks > 1:
        return {"batch": cores // blocks}, (cores // blocks - 1) * elapsed
    if part == "padded channels":
        needed = parts["ideal"] + parts.get("zeros", 0)
        return {"channels": chip.cube.n0}, round(elapsed * parts[part] / needed)
    return {}, 0


def layer_words(problem: Mapping[str, Any]) -> str:
    """A layer as people name it: "256 -> 512 channels, kernel 3x3, stride 2x2, maps 28x28, batch 32"; "" for other calls."""
    tensors = problem.get("tensors", {})
    if not {"input", "weight"} <= tensors.keys() or "stride" not in problem:
        return ""
    maps, weight = tensors["input"]["shape"], tensors["weight"]["shape"]
    if len(maps) != len(weight) or len(maps) < 3:
        return ""
    grouped = problem.get("groups", 1)
    first, second = weight[0], weight[1] * grouped
    channels = f"{first} -> {second}" if problem.get("transposed") else f"{second} -> {first}"
    words = [
        f"{channels} channels",
        f"kernel {_by(weight[2:])}",
        f"stride {_by(problem['stride'])}",
        f"maps {_by(maps[2:])}",
    ]
    if grouped != 1:
        words.append(f"{grouped} groups")
    return ", ".join([*words, f"batch {maps[0]}"])


def _told(part: str, chip: ChipSpec, kernel: Mapping[str, Any], stride: Sequence[int]) -> tuple[str, str, str]:
    """Cause, what to change, command."""
    name, waterfall, tiling = kernel["name"], kernel["waterfall"], kernel["tiling"]
    search = f"ascend-sim tile {_CASE} --kernel {name}" if name in TILINGS else ""
    cores, blocks = chip.cores.aic, kernel["block_dim"]
    change, gain = _promised(part, chip, kernel)
    elapsed = sum(waterfall.values())
    share = f"{100 * gain / (2 * elapsed):.0f} %"
    base = ", ".join(f"{field} {tiling[field]}" for field in ("baseM", "baseN", "baseK") if field in tiling)
    fields = f" ({base})" if base else ""
    if part == "zeros":
        factor = (waterfall["ideal"] + waterfall["zeros"]) / waterfall["ideal"]
        if prod(stride) == 1:
            return (
                f"products beyond the border: {factor:.1f} times the useful ones",
                "They belong to the layer's padding",
                "",
            )
        cause = f"stride {_by(stride)} puts zeros between the pixels of gradOutput, and the cube multiplies them"
        split = "kernelSplitMode" in tiling
        return (
            f"{cause}: {factor:.1f} times the useful products",
            "A split of the kernel by the stride (kernelSplitMode) multiplies none"
            if split
            else f"No tiling of this kernel avoids it ({chip.identity.arch}); chips that split the kernel by the stride do",
            search if split else "",
        )
    if part == "padded channels":
        return (
            f"channels are filled up to whole blocks of {chip.cube.n0}, groups are merged until they fill one",
            f"Channels (and channels of a group) in multiples of {chip.cube.n0} take no longer: {1 + gain / elapsed:.1f} times "
            f"the products in the same time",
            "",
        )
    if part == "tile edges":
        return f"tiles{fields} are larger than what is left at their edges", _SEARCH.capitalize(), search
    if part == "idle cores":
        return (
            f"only {blocks} of {cores} cores have a block",
            f"{change['batch']} times the batch takes hardly longer, for the others get work; so may a tiling of smaller blocks"
            if change
            else "A larger batch may give the others work, or a tiling with smaller blocks",
            search,
        )
    if part == "uneven cores":
        work = kernel["cube_work_cycles"]
        mean = sum(work) / len(work)
        return (
            f"the work is not shared evenly: the busiest core has {max(work) / mean:.2f} times the mean{fields}",
            f"{_SEARCH.capitalize()}, or a batch whose tiles divide by {cores} cores",
            search,
        )
    if part == "heads":
        count = kernel["counts"]["instructions"].get("mmad", 0)
        mean = sum(kernel["cube_work_cycles"]) / max(count, 1)
        return (
            f"{count:,} Mmads are short ({mean:.0f} cycles in the mean), and each has a head",
            f"Larger base blocks{fields} make fewer of them",
            search,
        )
    if part in ("start", "launch") and change:
        return (
            "the start of the core and the first loads, before the first Mmad"
            if part == "start"
            else "launching, or blocks that wait for a core",
            f"It comes once a launch: twice the work in one, as with twice the batch, takes {share} less than two",
            "",
        )
    if part in ("start", "drain", "launch"):
        return (
            {
                "start": "the start of the core and the first loads, before the first Mmad",
                "drain": "results leave after the last Mmad",
                "launch": "launching, or blocks that wait for a core",
            }[part],
            "It comes once a block: fewer and longer blocks have less of it",
            "",
        )
    if part == "wait MTE2":
        moved = kernel["counts"]["bytes"].get("GM->L1", 0)
        return (
            f"the cube waits for loads from GM ({moved / 2**20:.1f} MiB)",
            "Tiles that stay longer in L1 (stepM, stepN, baseM, baseN) load less; 16-bit operands load half of 32-bit ones",
            search,
        )
    if part == "wait MTE1":
        return (
            "the cube waits for L0A and L0B, which MTE1 fills from L1",
            f"Each element in L0 is used baseM or baseN times: larger or squarer base blocks{fields} need fewer loads",
            search,
        )
    if part in ("wait FIX", "wait V", "wait MTE3"):
        return (
            f"the cube {WORDS[part]}, which takes results out of L0C",
            "A second L0C buffer (cl0Pbuffer 2) or a longer K for each tile hides it",
            search,
        )
    return WORDS[part], _SEARCH.capitalize(), search


def _by(extents: Any) -> str:
    return "x".join(str(extent) for extent in extents) if isinstance(extents, list | tuple) else str(extents)
