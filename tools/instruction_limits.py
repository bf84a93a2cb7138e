"""The limits of each architecture's instructions, as tables of docs/instructions.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ascend_sim.isa.forms import GROUPS, Field, atomics, declared
from ascend_sim.isa.not_simulated import not_simulated

METHODS = {
    "DataCopy": "data_copy", "DataCopyPlanes": "data_copy_planes", "DataCopyNd2Nz": "data_copy_nd2nz",
    "DataCopyDn2Nz": "data_copy_dn2nz", "Fill": "fill", "LoadData2D": "load_data_2d", "LoadData3D": "load_data_3d",
    "Mmad": "mmad", "LoadBias": "load_bias", "Fixpipe": "fixpipe", "FixpipeNd": "fixpipe_nd", "FixpipeDn": "fixpipe_dn",
    "L0cToUb": "l0c_to_ub", "VectorCopy": "copy", "DataCopyPadded": "emit", "Elementwise": "add` and others, `emit",
    "VectorBinary": "emit", "FixpipeToL1": "emit",
}  # fmt: skip
"""The method that makes each effect."""


def limits(arch: str) -> Iterator[str]:
    """Yield the table of an architecture's instruction words: a line for each form, then the atomic additions to GM."""
    yield "| instruction | way | method | fields | set to their least | also | addresses | source |"
    yield "|---|---|---|---|---|---|---|---|"
    for form in (form for group in GROUPS for form in declared(group) if arch in form.architectures):
        also = [rule.words for rule in form.rules]
        also += [f"items of {', '.join(map(str, form.items))} bytes"] if form.items else []
        also += [", ".join(form.dtypes)] if form.dtypes else []
        also += [f"no rule, as the sources disagree: {form.disputed}"] if form.disputed else []
        aligned = ", ".join(f"{operand} {unit}" for operand, unit in form.aligned.items())
        sources = dict.fromkeys([form.source, *(one.source for one in (*form.fields, *form.rules))])
        cells = (
            f"`{form.name}`", ", ".join(form.routes), f"`{METHODS[form.way.kind.__name__]}`", held(form.fields),
            held(form.fixed), "<br>".join(also) or "-", aligned or "-", "<br>".join(sources),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    for one in (one for one in atomics() if arch in one.architectures):
        added = f"{', '.join(one.dtypes)} | - | - | - | {one.source} |"
        ways = "`atomic_add=`, `keep=`" if "max" in one.operations else "`atomic_add=`"
        yield f"| atomic {', '.join(one.operations)} | {', '.join(one.origins)} to GM | {ways} | {added}"


def held(fields: Iterable[Field]) -> str:
    """Values and units of fields."""
    return "<br>".join(f"{one.name} {values_of(one)}" for one in fields) or "-"


def values_of(field: Field) -> str:
    """Lowest and highest value of a field, and its unit."""
    return f"{field.low:,} to {field.high:,} {field.unit}"


def left_out() -> Iterator[str]:
    """Yield what stays out, as a table."""
    yield "No method writes these; what names one is refused in one line, in Python and in C++."
    yield ""
    yield "| instruction or mode | architectures | source |"
    yield "|---|---|---|"
    for one in not_simulated():
        yield f"| {one.words} | {', '.join(one.architectures)} | {one.source} |"
