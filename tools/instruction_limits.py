"""The limits of each architecture's instructions, as tables of docs/instructions.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from instruction_parameters import methods_of, values_of

from ascend_sim.isa.forms import GROUPS, Field, Form, atomics, declared
from ascend_sim.isa.not_simulated import not_simulated


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
            f"`{form.name}`", ", ".join(form.routes), writers(form, arch), held(form.fields),
            held(form.fixed), "<br>".join(also) or "-", aligned or "-", "<br>".join(sources),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
    for one in (one for one in atomics() if arch in one.architectures):
        added = f"{', '.join(one.dtypes)} | - | - | dst an element | {one.source}<br>API DataCopy, constraints |"
        ways = "`atomic_add=`, `keep=`" if "max" in one.operations else "`atomic_add=`"
        yield f"| atomic {', '.join(one.operations)} | {', '.join(one.origins)} to GM | {ways} | {added}"


def held(fields: Iterable[Field]) -> str:
    """Values and units of fields."""
    return "<br>".join(f"{one.name} {values_of(one)}" for one in fields) or "-"


def writers(form: Form, arch: str) -> str:
    """The first methods that write a form, those of the chip's own instructions before those that take tensors."""
    names = methods_of(form, arch)
    return ", ".join(f"`{name}`" for name in names[:3]) + " and others" * (len(names) > 3)


def left_out() -> Iterator[str]:
    """Yield what stays out, as a table."""
    yield "No method writes these; what names one is refused in one line, in Python and in C++."
    yield ""
    yield "| instruction or mode | architectures | source |"
    yield "|---|---|---|"
    for one in not_simulated():
        yield f"| {one.words} | {', '.join(one.architectures)} | {one.source} |"
