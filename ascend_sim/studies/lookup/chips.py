"""Chips as tables: all shipped ones in a list, some side by side, or one with every number and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from rich.console import Group, RenderableType
from rich.text import Text

from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.errors import binary_size
from ascend_sim.report.grid import Grid

_PEAKS = (("fp16", "float16"), ("hf32", "hf32"), ("fp32", "float32"))
_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2"}
_NUMBER = ("field", ">value", "unit", "~source")


def chips_table() -> Grid:
    """Return the table of all shipped chips: product, architecture, AIC (a coupled chip's AI Cores) and AIV counts, clock,
    derived dense cube peaks in TFLOPS, size and bandwidth of HBM, size of the L2.
    """
    columns = ("AIC", "AIV", "MHz", *(f"{name}\nTFLOPS" for name, _ in _PEAKS), "HBM\nGiB", "HBM\nGB/s", "L2\nMiB")
    title = "Chips (peaks derived: 2 x MAC/cycle x AIC x clock)"
    table = Grid(title, ("chip", "product", "arch", *(f">{column}" for column in columns)))
    for spec in map(load_chip, chip_names()):
        table.row(
            spec.name,
            spec.identity.product,
            spec.identity.arch,
            str(spec.cores.aic),
            str(spec.cores.aiv),
            f"{spec.clock.cube_mhz:g}",
            *(f"{spec.peak_tflops(dtype):.1f}" if dtype in spec.cube.rates else "-" for _, dtype in _PEAKS),
            f"{spec.memory.hbm_bytes / 2**30:.4g}",
            f"{spec.memory.hbm_gb_per_s:g}",
            f"{spec.memory.l2_bytes / 2**20:g}",
        )
    return table


def chip_detail(spec: ChipSpec) -> RenderableType:
    """Return one chip for a terminal: pipes and buffers of its cores, value, unit and source of every number by section,
    derived peaks, references.
    """
    identity = spec.identity
    shape = "coupled" if spec.cores.coupled else "split"
    head = Text(f"{spec.name}: {identity.soc}, {identity.series}, {identity.arch} ({shape})", style="bold")
    cores = [
        Text(f"  {kind}: pipes {' '.join(parts.pipes)}; buffers {' '.join(parts.buffers)}")
        for kind, parts in spec.cores.kinds.items()
    ]
    derived, references = Grid("derived", _NUMBER), Grid("references", ("short", "~source"))
    for row in _derived_rows(spec):
        derived.row(*row)
    for name, citation in spec.references.items():
        references.row(name, citation)
    return Group(head, *cores, *_sections(spec), derived, references)


def compare_table(specs: Sequence[ChipSpec]) -> RenderableType:
    """Return chips side by side: product, architecture, kind of cores, derived figures, then every number in which they differ
    as shown ("-" where a chip has none).

    Numbers that are equal in all of `specs` are left out and counted below the table.
    """
    table = Grid("Chips side by side", ("field", *(f">{spec.name}" for spec in specs), "unit"))
    for name in ("product", "arch"):
        table.row(name, *(getattr(spec.identity, name) for spec in specs), "")
    table.row("cores", *("coupled" if spec.cores.coupled else "split" for spec in specs), "")
    derived = [{name: (text, unit) for name, text, unit, _ in _derived_rows(spec)} for spec in specs]
    figures = dict.fromkeys((name, unit) for rows in derived for name, (_, unit) in rows.items())
    for name, unit in sorted(figures, key=lambda figure: figure[1] == "GB/s"):
        table.row(name, *(rows[name][0] if name in rows else "-" for rows in derived), unit)
    numbers = [spec.numbers() for spec in specs]
    equal, order = 0, [section.name for section in fields(ChipSpec)]
    places = dict.fromkeys(place for spec in specs for place in spec.sources)
    for place in sorted(places, key=lambda place: order.index(place.partition(".")[0])):
        unit = next(spec.sources[place].unit for spec in specs if place in spec.sources)
        figure = binary_size if unit == "bytes" else _number
        shown = [figure(of_chip[place]) if place in of_chip else "-" for of_chip in numbers]
        if len(set(shown)) == 1:
            equal += 1
            continue
        table.row(place, *shown, "" if unit == "bytes" else unit)
    return Group(table, Text(f"{equal} numbers are equal in all of them; ascend-sim chips NAME shows each with its source"))


def _sections(spec: ChipSpec) -> list[Grid]:
    tables, numbers = [], spec.numbers()
    for section in [one.name for one in fields(ChipSpec)]:
        places = [place for place in spec.sources if place.startswith(f"{section}.")]
        if places:
            table = Grid(section, _NUMBER)
            for place in places:
                source, text = spec.sources[place], _number(numbers[place])
                if source.unit == "bytes" and numbers[place] >= 1024:
                    text = binary_size(numbers[place])
                text, _, unit = text.partition(" ")
                table.row(place.removeprefix(f"{section}."), text, unit or source.unit, source.text)
            tables.append(table)
    return tables


def _derived_rows(spec: ChipSpec) -> list[tuple[str, str, str, str]]:
    """Return (name, value, unit, formula) of the figures that follow from a chip: cube peak of each dtype, HBM and L2 rates."""
    rows = []
    for dtype in spec.cube.rates:
        peak, unit = f"{spec.peak_tflops(dtype):.1f}", "TOPS" if dtype.startswith("int") else "TFLOPS"
        rows.append((f"{_SHORT.get(dtype, dtype)} peak", peak, unit, "2 x MAC/cycle x AIC x clock"))
    for name, rate, how in (
        ("HBM, long linear stream", spec.hbm_bytes_per_cycle(), "hbm_gb_per_s x hbm_efficiency"),
        ("L2 read, all cores", spec.l2_read_bytes_per_cycle(), "per AIC x AIC"),
        ("L2 write, all cores", spec.l2_write_bytes_per_cycle(), "per AIC x AIC"),
    ):
        rows.append((name, f"{rate * spec.clock.cube_mhz / 1e3:.0f}", "GB/s", f"{how}; {rate:.1f} bytes/cycle"))
    return rows


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:g}"
