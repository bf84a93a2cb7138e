"""Writer of the fields in a kernel method's docstring: which field of an instruction each parameter becomes, and its limits.

`python tools/instruction_parameters.py` writes them at the end of the docstrings in ascend_sim/kernel, `--check` compares. No
parameter is bound to a field by hand: a call is repeated with one value changed, and the fields of its instruction are
compared. The limits are those of configs/instructions.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from instruction_samples import CHIPS, PROBES, SECTIONS, Demo

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.forms import GROUPS, Field, Form, declared
from ascend_sim.isa.forms.form import Way
from ascend_sim.isa.not_simulated import refuse_not_simulated
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.tensor import Tensor, item_bytes

HEAD = "Fields of "
"""Beginning of the paragraph."""
WIDTH = 128
STEPS = (1, 2, 3, 8, 15, 16, 32, 33, 64, 512, 1024)
"""Changes of a whole number."""
FORMATS = ("float16", "float32", "int8", "hifloat8")
"""Formats of 2, 4 and 1 bytes."""
Leaves = Mapping[str, Any]
"""Values in the arguments of a call by name: PARAMETER, or PARAMETER.PART of a tuple, a tensor or an instruction."""


def leaves(arguments: Leaves) -> Leaves:
    """Return the single values in the arguments of a call.

    Several tensors have one shape and format together: `shape[0]`, `shape[1]` and `dtype` without a parameter.
    """
    found: dict[str, Any] = {}
    tensors = [name for name, value in arguments.items() if isinstance(value, Tensor | LocalTensor)]
    for name, value in arguments.items():
        parts: Leaves = {"": value}
        if isinstance(value, Tensor | LocalTensor):
            common = "" if tensors[1:] else f"{name}."
            found |= {f"{common}shape[{axis}]": size for axis, size in enumerate(value.shape)} | {f"{common}dtype": value.dtype}
            parts = {"strides[0]": value.strides[0]} if isinstance(value, Tensor) else {"row_stride": value.row_stride}
        elif isinstance(value, Instruction):
            parts = {part: one for part, one in vars(value).items() if one is not None}
        elif hasattr(value, "_asdict"):
            parts = value._asdict()
        found |= {f"{name}.{part}".rstrip("."): one for part, one in parts.items()}
    return found


def with_leaf(arguments: Leaves, leaf: str, new: Any) -> Leaves:
    """Return the arguments with another value of one leaf."""
    parameter, _, part = leaf.rpartition(".")
    if leaf in arguments:
        return {**arguments, leaf: new}
    names = [parameter] if parameter else [name for name, one in arguments.items() if isinstance(one, Tensor | LocalTensor)]
    return {**arguments, **{name: with_part(arguments[name], part, new) for name in names}}


def with_part(value: Any, part: str, new: Any) -> Any:
    """Return a tuple, a tensor or an instruction with another value of one part."""
    if part.startswith("shape["):
        axis = int(part[-2])
        return replace(value, shape=(*value.shape[:axis], new, *value.shape[axis + 1 :]))
    if part == "strides[0]":
        return replace(value, strides=(new, *value.strides[1:]))
    if isinstance(value, Tensor):
        return replace(value, dtype=new, strides=(*value.strides[:-1], item_bytes(new)))
    return value._replace(**{part: new}) if isinstance(value, tuple) else replace(value, **{part: new})


def others(value: Any) -> Iterator[Any]:
    """Yield other values of a number, a switch, a format, or a row of numbers."""
    if isinstance(value, bool) or value is None:
        yield from (one for one in (True, False) if one is not value)
    elif isinstance(value, int):
        yield from (value + step for step in STEPS)
    elif isinstance(value, tuple):
        yield from ((*value[:at], value[at] + STEPS[-1], *value[at + 1 :]) for at in range(len(value)))
    elif value in FORMATS:
        yield from (one for one in FORMATS if one != value)


class ProbedCall:
    """Call of a kernel's method by a sample on a chip; its instructions are made, not written."""

    def __init__(self, sample: Demo, chip: ChipSpec) -> None:
        for kind in chip.cores.kinds:  # until one that has the buffers
            kernel = Kernel(InstructionTable(chip, kind), 0, kind, [1 << 40], blocks=1)
            self.chip, self.method, self.keys = chip, getattr(kernel, sample.method), []
            kernel._emit = lambda key, *operands: self.keys.append(key)  # type: ignore[method-assign]
            setattr(kernel, sample.method, self._noted)
            sample.make(kernel, Tensor.at(0, "x", (64, 64), sample.dtypes[0]), sample.dtypes[0])
            self.leaves, self.plain = leaves(self.arguments), self.instruction({})
            if self.plain is not None:
                break

    def _noted(self, *positional: Any, **named: Any) -> None:
        bound = inspect.signature(self.method).bind(*positional, **named)
        bound.apply_defaults()
        self.arguments: Leaves = dict(bound.arguments)

    def instruction(self, values: Leaves) -> Any:
        """Return the first instruction of the call with other values of some leaves; None if the method refuses them."""
        self.keys.clear()
        arguments = self.arguments
        try:
            for leaf, value in values.items():
                arguments = with_leaf(arguments, leaf, value)
            self.method(**arguments)
            (kind, *fields), *_ = self.keys
            return kind(*fields)
        except SimError:
            return None

    def forms(self) -> Iterator[Form]:
        """Yield the forms of the chip that can express the call's instruction."""
        one = self.plain
        for form in (form for group in GROUPS for form in declared(group, self.chip.identity.arch)):
            alike = isinstance(one, form.way.kind) and form.way.route(one) in form.routes
            if alike and form.way.says(one) and form.can_say(one):
                yield form

    def values(self, form: Form, values: Leaves) -> Leaves | None:
        """Return the raw fields of the call's instruction, with its dtype and itemsize where the form limits them.

        Returns None where other values of leaves make no instruction of that way.
        """
        one = self.instruction(values)
        limited = [name for name, allowed in (("dtype", form.dtypes), ("itemsize", form.items)) if allowed]
        try:
            if type(one) is type(self.plain) and (not form.dtypes or one.dtype in form.dtypes) and form.way.says(one):
                raw = zip(form.way.names, form.way.values(one), strict=True)
                return dict(raw) | {name: getattr(one, name) for name in limited}
        except SimError:  # a format without arithmetic
            pass
        return None


def values_of(field: Field) -> str:
    """Return the lowest and highest value of a field, and its unit."""
    return f"{field.low:,} to {field.high:,} {field.unit}"


class Meaning(NamedTuple):
    """A sum of leaves, each times a factor, and a constant; without `factors` any other function of the leaves."""

    leaves: tuple[str, ...]
    factors: tuple[Fraction, ...] = ()
    constant: Fraction = Fraction(0)

    def at(self, values: Leaves) -> Fraction:
        """Return the sum for values of the leaves."""
        return sum((f * values[leaf] for leaf, f in zip(self.leaves, self.factors, strict=True)), self.constant)

    @property
    def counts_alike(self) -> bool:
        """Return True for a sum of leaves that are multiplied by one number, or its negative."""
        return bool(self.factors) and max(self.factors) > 0 and len({abs(f) for f in self.factors}) == 1

    @property
    def words(self) -> str:
        """Return the sum of the leaves, or the leaves."""
        if self.counts_alike:
            terms = sorted(zip(self.factors, self.leaves, strict=True), key=lambda term: term[0] < 0)
            return "`" + "".join(f" {'-' if f < 0 else '+'} {leaf}" for f, leaf in terms)[3:] + "`"
        *several, last = (f"`{leaf}`" for leaf in self.leaves)
        return f"{', '.join(several)} and {last}" if several else last

    def limits(self, field: Field) -> str:
        """Return the limits of the sum, or of the field in its own unit where the leaves are no sum."""
        if field.unit == "a switch":
            return "0 or 1"
        if not self.counts_alike:
            return values_of(field)
        factor, unit = abs(self.factors[0]), field.unit_bytes
        low, high = ((one * unit - self.constant) / factor for one in (field.low, field.high))
        step = unit / factor
        return f"{-(-low // 1):,} to {high // 1:,}{f' in steps of {step}' if step > 1 else ''}"


def meanings(call: ProbedCall, form: Form) -> dict[str, Meaning]:
    """Return the meaning of each field of a form that a leaf of the call changes; "dtype" and "itemsize" count as fields."""
    plain = call.values(form, {})
    assert plain is not None
    slopes: dict[str, dict[str, set[Fraction | None]]] = {field: defaultdict(set) for field in plain}
    for leaf, value in call.leaves.items():
        for new in others(value):
            for field, raw in (call.values(form, {leaf: new}) or {}).items():
                if isinstance(value, bool) or not isinstance(value, int) or isinstance(raw, str):
                    slopes[field][leaf].add(Fraction(0) if raw == plain[field] else None)
                else:
                    slopes[field][leaf].add(Fraction(raw - plain[field], new - value))
    found = {}
    for field, by_leaf in slopes.items():
        reached = {leaf: one for leaf, one in by_leaf.items() if one != {0}}
        if reached:
            found[field] = Meaning(tuple(reached))
            factors = [one.pop() if len(one) == 1 else None for one in reached.values()]
            if None not in factors:
                found[field] = summed(call, form, field, Meaning(tuple(reached), tuple(filter(None, factors))))
    return found


def summed(call: ProbedCall, form: Form, field: str, guess: Meaning) -> Meaning:
    """Return the sum with its constant if it holds with all its leaves changed together, else without factors."""
    plain = call.values(form, {})
    assert plain is not None
    whole = guess._replace(constant=plain[field] - guess.at(call.leaves))
    for step in STEPS:
        together = {leaf: call.leaves[leaf] + step * at for at, leaf in enumerate(guess.leaves, 1)}
        found = call.values(form, together)
        if found is not None and found[field] != whole.at(together):
            return Meaning(guess.leaves)
    return whole


class Reached(NamedTuple):
    """A field that a method reaches by a form, on one architecture and route.

    `field` is "" for a format or the bytes of an item; `place` is that of its last leaf in the method's signature.
    """

    form: Form
    arch: str
    route: str
    meaning: Meaning
    field: str
    limits: str
    place: int


@cache
def reached(method: str) -> tuple[Reached, ...]:
    """Return the fields that the probes of a method reach."""
    found = []
    for sample in (one for one in PROBES if one.method == method):
        for chip in map(load_chip, CHIPS):
            call = ProbedCall(sample, chip)
            for form in call.forms():
                fields = {one.name: one for one in form.fields}
                where = form, chip.identity.arch, form.way.route(call.plain)
                if not fields:
                    found.append(Reached(*where, Meaning(("*",)), "", f"no limit by {form.name}", 0))
                for name, meaning in meanings(call, form).items():
                    place = max(map(list(call.leaves).index, meaning.leaves))
                    if name in fields:
                        found.append(Reached(*where, meaning, name, meaning.limits(fields[name]), place))
                    else:
                        allowed = form.items if name == "itemsize" else simulated(chip, call.plain.name, form.dtypes)
                        words = f"items of {', '.join(map(str, allowed))} bytes" if name == "itemsize" else ", ".join(allowed)
                        found.append(Reached(*where, meaning, "", words, place))
    return tuple(found)


@cache
def writes() -> dict[tuple[str, str, Way], list[str]]:
    """Return the methods that write each form, by its name, architecture and way; `emit` comes last."""
    found: dict[tuple[str, str, Way], list[str]] = defaultdict(list)
    samples = [*PROBES, *(one for title, some in SECTIONS.items() if title.startswith("Vectors: ") for one in some)]
    for sample in sorted(samples, key=lambda one: one.method == "emit"):
        for chip in map(load_chip, CHIPS):
            for form in ProbedCall(sample, chip).forms():
                methods = found[form.name, chip.identity.arch, form.way]
                methods += [sample.method] * (sample.method not in methods)
    return found


def methods_of(form: Form, arch: str) -> list[str]:
    """Return the methods that write a form on an architecture."""
    return writes()[form.name, arch, form.way]


def simulated(chip: ChipSpec, method: str, dtypes: tuple[str, ...]) -> list[str]:
    """Return the formats of a form that are not declared as left out."""
    found = []
    for dtype in dtypes:
        try:
            refuse_not_simulated(chip, method, dtype)
            found.append(dtype)
        except SimError:
            pass
    return found


def paragraph(method: str) -> list[str]:
    """Return the lines of a method's paragraph for the route of its first probe: parameters, then fields and limits.

    Limits name their architectures unless they are those of all; parameters with equal limits share a line.
    """
    route = reached(method)[0].route
    here = [one for one in reached(method) if one.route == route]
    names = dict.fromkeys(name for one in here for name in one.form.name.split(" (")[0].split(", "))
    archs = sorted({one.arch for one in here})
    order = list(dict.fromkeys(one.field for one in here))
    here.sort(key=lambda one: (one.place, order.index(one.field)))
    lines: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in here:
        lines[one.meaning.words][one.field, one.limits].append(one.arch)
    alike: dict[tuple[Any, ...], list[tuple[str, list[str]]]] = defaultdict(list)
    for words, chunks in lines.items():
        places = (f" ({', '.join(sorted({*found}))})" if {*found} != {*archs} else "" for found in chunks.values())
        kind = tuple((limits, place) for (_, limits), place in zip(chunks, places, strict=True))
        alike[words if " and " in words else "", kind].append((words, [field for field, _ in chunks]))
    where = f"{route} on {', '.join(archs)}" if len(archs) < len(CHIPS) else route
    made = [f"{HEAD}{', '.join(names)} ({where}; more: docs/instructions.md):"]
    for (_, kind), shared in alike.items():
        said, before = "", ""
        for at, (limits, place) in enumerate(kind):
            fields = ", ".join(dict.fromkeys(fields[at] for _, fields in shared))
            said += f"; {fields if fields != before else ''} {limits}{place}"
            before = fields
        made.append(f"- {', '.join(words for words, _ in shared)}: {' '.join(said[2:].split())}".replace(" ; ", "; "))
    return made


def with_paragraph(source: str, method: str) -> str:
    """Return the source of a file with the paragraph at the end of a method's docstring."""
    (function,) = (
        one
        for kind in ast.parse(source).body if isinstance(kind, ast.ClassDef)
        for one in kind.body if isinstance(one, ast.FunctionDef) and one.name == method
    )  # fmt: skip
    document, lines = function.body[0], source.splitlines()
    assert document.end_lineno is not None
    indent = " " * document.col_offset
    text = "\n".join(lines[document.lineno - 1 : document.end_lineno]).removesuffix('"""').rstrip()
    kept = text.partition(f"\n\n{indent}{HEAD}")[0]
    wrapped = [
        textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
                      break_on_hyphens=False)
        for line in paragraph(method)
    ]  # fmt: skip
    block = [kept, "", *wrapped, f'{indent}"""']
    return "\n".join([*lines[: document.lineno - 1], *block, *lines[document.end_lineno :], ""])


def written() -> dict[Path, str]:
    """Return the sources of all files whose methods have such a paragraph, with the paragraphs of today."""
    found: dict[Path, str] = {}
    for method in dict.fromkeys(one.method for one in PROBES if one.method != "emit"):
        path = Path(inspect.getfile(getattr(Kernel, method)))
        found[path] = with_paragraph(found.get(path) or path.read_text(encoding="utf-8"), method)
    return found


def main() -> None:
    stale = {path: text for path, text in written().items() if path.read_text(encoding="utf-8") != text}
    if "--check" in sys.argv[1:]:
        raise SystemExit(f"not what the code says: {', '.join(path.name for path in stale)}" if stale else 0)
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
