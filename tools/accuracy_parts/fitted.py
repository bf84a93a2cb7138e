"""Fitted costs of the chip files, and the rows that fitted them."""

from __future__ import annotations

from accuracy_parts.rows import B2, FIRST
from ascend_sim.chip import chip_names, load_chip
from ascend_sim.ops.kernels.cube.libraries import libraries
from ascend_sim.studies.validate.launches import CALLS
from ascend_sim.studies.validate.pages import Group

FITTED = """## Fitted costs and the rows that fitted them

From the chip files, as `ascend-sim chips NAME` prints them, and from `configs/libraries.yaml`. Sources that name AlexNet,
ResNet-50, the MatMul rows or the GEMM sample are rows of the tables above; msKPP, the copy sample, pto-isa and the add sample
are small programs."""


def fitted_sources(chip: str) -> list[str]:
    """The sources of fitted costs, of a chip and of kernels of the library that run on it."""
    spec = load_chip(chip)
    found = [source.text for source in spec.sources.values() if source.mark == "fitted"]
    return found + [text for arch, _, text in library_costs() if arch == spec.identity.arch]


def library_costs() -> list[tuple[str, str, str]]:
    """Architecture, place and source of the fitted costs of kernels that differ by the library's version."""
    return [
        (kernel["arch"], f"{version}, {name}.{cost}", leaf["source"])
        for version, kernels in libraries().items()
        for name, kernel in kernels.items()
        if isinstance(kernel, dict)
        for cost, leaf in kernel.items()
        if isinstance(leaf, dict) and leaf["source"].startswith("fitted")
    ]


def group_is_named(group: Group, source: str) -> bool:
    """Whether a source names the network or sample of a group's rows; of calls it names those of 3-D dW."""
    if group.op_type in CALLS:
        return group.op_type == "npu_conv3d_backward" and "3-D dW" in source
    network = {B2: "AlexNet", FIRST: "ResNet-50"}.get(group.chip, "")
    if group.series and group.series != network:
        network = ""
    names = [network, *NAMES_OF.get((group.chip, group.series), ())]
    return any(name and name in source for name in names)


NAMES_OF = {
    ("ascend910b1", "8192^3 sample"): ("910B1 8192^3",), ("ascend950pr_9589", "8192^3 sample"): ("8192^3 fp16 MatMul samples",),
    ("ascend910_9381", "pto-isa"): ("A3 3072^3",), ("ascend910b3", "LLM"): ("910B3, 910B1",),
    (FIRST, "batch 32, other software"): ("batch 32",),
}  # fmt: skip
"""How the sources of fitted costs call rows that come from no network of the convolutions."""


def fitted_costs() -> str:
    """Every fitted cost, and what its source says of its rows."""
    lines = ["| chips | cost | fitted on |", "|---|---|---|"]
    seen: dict[tuple[str, str], list[str]] = {}
    for name in chip_names():
        chip = load_chip(name)
        for place, source in chip.sources.items():
            if source.mark == "fitted":
                text = source.text.removeprefix("fitted: ").replace("|", "/")
                seen.setdefault((place, text), []).append(chip.identity.arch)
    for arch, place, text in library_costs():
        seen[place, text.removeprefix("fitted: ").replace("|", "/")] = [arch]
    for (place, text), archs in seen.items():
        lines.append(f"| {', '.join(dict.fromkeys(archs))} | {place} | {text} |")
    return "\n".join(lines)
