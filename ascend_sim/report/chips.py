"""Chips as tables: all shipped ones side by side, or one with every number and where it comes from."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascend_sim.chip import ChipSpec, chip_names, load_chip

_PEAKS = (("fp16", "float16"), ("hf32", "hf32"), ("fp32", "float32"))
_NUMBER = ("field", "value", "unit", "source")


def chips_table() -> Table:
    """Return all shipped chips: cores, clock, derived dense cube peaks in TFLOPS, memory."""
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
            f"{spec.memory.hbm_bytes / 2**30:g}",
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
    for name, dtype in _PEAKS:
        peak = _peak(spec, dtype)
        if peak is not None:
            table.add_row(f"{name} peak", f"{peak:.1f}", "TFLOPS", Text("2 x MAC/cycle x AIC x clock"))
    for name, rate, how in (
        ("HBM, long linear stream", spec.hbm_bytes_per_cycle(), "hbm_gb_per_s x hbm_efficiency"),
        ("L2 read, all cores", spec.l2_read_bytes_per_cycle(), "per AIC x AIC"),
        ("L2 write, all cores", spec.l2_write_bytes_per_cycle(), "per AIC x AIC"),
    ):
        table.add_row(name, f"{rate * spec.clock.cube_mhz / 1e3:.0f}", "GB/s", Text(f"{how}; {rate:.1f} bytes/cycle"))
    return table


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
