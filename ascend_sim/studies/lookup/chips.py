"""Chips as tables: all shipped ones in a list, some side by side, or one with every number and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascend_sim.chip import ChipSpec, chip_names, load_chip

_PEAKS = (("fp16", "float16"), ("hf32", "hf32"), ("fp32", "float32"))
_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2"}
_NUMBER = ("field", "value", "unit", "source")


def chips_table() -> Table:
    """Return all shipped chips: cores (a coupled chip's AI Cores as AIC), clock, derived dense cube peaks in TFLOPS, memory."""
    table = Table(title="Chips (peaks derived: 2 x MAC/cycle x AIC x clock)")
    table.add_column("chip", no_wrap=True)
    for column in ("product", "arch"):
        table.add_column(column)
    for column in ("AIC", "AIV", "MHz", *(f"{name} TFLOPS" for name, _ in _PEAKS), "HBM GiB", "HBM GB/s", "L2 MiB"):
        table.add_column(column, justify="right")
    for spec in map(load_chip, chip_names()):
        peaks = [_peak(spec, dtype) for _, dtype in _PEAKS]
        table.add_row(
            spec.name,
            spec.identity.product,
            spec.identity.arch,
            str(spec.cores.aic),
            str(spec.cores.aiv),
            f"{spec.clock.cube_mhz:g}",
            *("-" if peak is None else f"{peak:.1f}" for peak in peaks),
            f"{spec.memory.hbm_bytes / 2**30:.4g}",
            f"{spec.memory.hbm_gb_per_s:g}",
            f"{spec.memory.l2_bytes / 2**20:g}",
        )
    return table


def chip_detail(spec: ChipSpec) -> RenderableType:
    """Return one chip section by section: value, unit and source of every number, then the derived peaks."""
    identity = spec.identity
    shape = "coupled" if spec.cores.coupled else "split"
    head = Text(f"{spec.name}: {identity.soc}, {identity.series}, {identity.arch} ({shape})", style="bold")
    return Group(head, *_cores(spec), *_sections(spec), _derived(spec), _references(spec))


def compare_table(specs: Sequence[ChipSpec]) -> Table:
    """Return chips side by side: what they are, derived figures, then every number in which they differ ("-": has none).

    Numbers that are equal in all of `specs` are left out and counted in the caption.
    """
    table = Table(title="Chips side by side", caption_justify="left")
    table.add_column("field", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for spec in specs:
        table.add_column(spec.name, justify="right")
    for name in ("product", "arch"):
        table.add_row(name, "", *(getattr(spec.identity, name) for spec in specs))
    table.add_row("cores", "", *("coupled" if spec.cores.coupled else "split" for spec in specs))
    derived = [{name: (text, unit) for name, text, unit, _ in _derived_rows(spec)} for spec in specs]
    figures = dict.fromkeys((name, unit) for rows in derived for name, (_, unit) in rows.items())
    for name, unit in sorted(figures, key=lambda figure: figure[1] == "GB/s"):
        table.add_row(name, unit, *(rows[name][0] if name in rows else "-" for rows in derived))
    table.add_section()
    equal = 0
    for place in _places(specs):
        shown = [_number(value_at(spec, place)) if place in spec.sources else "-" for spec in specs]
        if len(set(shown)) == 1:
            equal += 1
            continue
        unit = next(spec.sources[place].unit for spec in specs if place in spec.sources)
        table.add_row(place, unit, *shown)
    table.caption = f"{equal} numbers are equal in all of them; ascend-sim chips NAME shows each with its source"
    return table


def _places(specs: Sequence[ChipSpec]) -> list[str]:
    """Dotted paths of all numbers that any chip has, section by section."""
    found = dict.fromkeys(place for spec in specs for place in spec.sources)
    order = {section: index for index, section in enumerate(ChipSpec.model_fields)}
    return sorted(found, key=lambda place: order[place.partition(".")[0]])


def _cores(spec: ChipSpec) -> list[Text]:
    return [
        Text(f"  {kind}: pipes {' '.join(parts.pipes)}; buffers {' '.join(parts.buffers)}")
        for kind, parts in spec.cores.kinds.items()
    ]


def _sections(spec: ChipSpec) -> list[Table]:
    tables = []
    for section in ChipSpec.model_fields:
        places = [place for place in spec.sources if place.startswith(f"{section}.")]
        if places:
            table = _grid(section, _NUMBER)
            for place in places:
                source = spec.sources[place]
                name = place.removeprefix(f"{section}.")
                table.add_row(Text(name), _number(value_at(spec, place)), source.unit, Text(source.text))
            tables.append(table)
    return tables


def _derived(spec: ChipSpec) -> Table:
    table = _grid("derived", _NUMBER)
    for name, text, unit, how in _derived_rows(spec):
        table.add_row(name, text, unit, Text(how))
    return table


def _derived_rows(spec: ChipSpec) -> list[tuple[str, str, str, str]]:
    """Name, value, unit and formula of the figures that follow from the numbers."""
    rows = [
        (
            f"{_SHORT.get(dtype, dtype)} peak",
            f"{spec.peak_tflops(dtype):.1f}",
            "TOPS" if dtype.startswith("int") else "TFLOPS",
            "2 x MAC/cycle x AIC x clock",
        )
        for dtype in spec.cube.rates
    ]
    for name, rate, how in (
        ("HBM, long linear stream", spec.hbm_bytes_per_cycle(), "hbm_gb_per_s x hbm_efficiency"),
        ("L2 read, all cores", spec.l2_read_bytes_per_cycle(), "per AIC x AIC"),
        ("L2 write, all cores", spec.l2_write_bytes_per_cycle(), "per AIC x AIC"),
    ):
        rows.append((name, f"{rate * spec.clock.cube_mhz / 1e3:.0f}", "GB/s", f"{how}; {rate:.1f} bytes/cycle"))
    return rows


def _references(spec: ChipSpec) -> Table:
    table = _grid("references", ("short", "source"))
    for name, citation in spec.references.items():
        table.add_row(name, Text(citation))
    return table


def value_at(spec: ChipSpec, place: str) -> float:
    """Return the number at a dotted path as `spec.sources` writes it."""
    node: Any = spec
    for key in place.split("."):
        node = getattr(node, key) if isinstance(node, BaseModel) else {str(k): v for k, v in node.items()}[key]
    return node


def _grid(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column == "value" else "left", no_wrap=column != columns[-1])
    return table


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:g}"


def _peak(spec: ChipSpec, dtype: str) -> float | None:
    return spec.peak_tflops(dtype) if dtype in spec.cube.rates else None
