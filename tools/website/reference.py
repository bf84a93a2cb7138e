"""chips.md and a page for each chip: every number with its source, from the chip files."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from ascend_sim.chip import ChipSpec, chip_names, load_chip


def write(pages: Path) -> None:
    """Write all reference pages."""
    (pages / "chips").mkdir()
    rows = []
    for name in chip_names():
        spec = load_chip(name)
        (pages / "chips" / f"{name}.md").write_text(chip(spec), encoding="utf-8")
        memory, identity = spec.memory, spec.identity
        rows.append(
            f"| [{name}](chips/{name}.md) | {identity.series} | {identity.arch} | {spec.cores.aic} | {spec.cores.aiv} "
            f"| {spec.clock.cube_mhz:g} | {spec.peak_tflops('float16'):.1f} | {memory.hbm_bytes / 2**30:.4g} "
            f"| {memory.hbm_gb_per_s:g} | {memory.l2_bytes / 2**20:g} |"
        )
    head = "| chip | series | architecture | AIC | AIV | MHz | fp16 TFLOPS | HBM GiB | HBM GB/s | L2 MiB |"
    text = "# Chips\n\nMade from the chip files; a chip of your own is one file: [adding a chip](adding-a-chip.md).\n\n"
    text += "\n".join([head, f"|{'---|' * 10}", *rows]) + "\n"
    (pages / "chips.md").write_text(text, encoding="utf-8")


def chip(spec: ChipSpec) -> str:
    """The numbers of a chip, section by section."""
    numbers = spec.numbers()
    parts = [f"# {spec.name}\n", f"{spec.identity.soc}, {spec.identity.series}, {spec.identity.arch}.\n"]
    for section in [one.name for one in fields(ChipSpec)]:
        places = [place for place in spec.sources if place.startswith(f"{section}.")]
        if places:
            parts += [f"## {section}\n", "| number | value | unit | source |", "|---|---|---|---|"]
        for place in places:
            source, value = spec.sources[place], numbers[place]
            shown = f"{value:g}" if isinstance(value, float) else str(value).lower()
            field = place.removeprefix(f"{section}.").replace(">", "&gt;")
            parts.append(f"| {field} | {shown} | {source.unit} | {_cell(source.text)} |")
        parts += [""] * bool(places)
    parts += ["## references\n", "| short | source |", "|---|---|"]
    parts += [f"| {name} | {_cell(text)} |" for name, text in spec.references.items()]
    return "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
