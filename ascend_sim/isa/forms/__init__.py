"""Checks that a chip's instruction words can express an instruction: their fields and limits are declared in
configs/instructions.

An instruction of the builder describes an effect. It is legal on a chip if a form of the chip's architecture can express it
(`form_of`). An instruction without a declared form is legal: a user's own, and one that only orders or waits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.forms.file import GROUPS, atomics, conversions, declared, ways_of
from ascend_sim.isa.forms.form import Field, Form, FormRule, Way
from ascend_sim.isa.not_simulated import refuse_not_simulated
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.memory.gm import Allocation

_GROUP = {
    "ascend_sim.isa.transfer": ("copies",),
    "ascend_sim.isa.vector.movement": ("copies",),
    "ascend_sim.isa.load": ("loads",),
    "ascend_sim.isa.cube": ("cube",),
    "ascend_sim.isa.bias": ("cube",),
    "ascend_sim.isa.direct": ("copies", "cube"),
    "ascend_sim.isa.l0c_to_ub": ("cube",),
    "ascend_sim.isa.vector.base": ("vector",),
}
"""Module of an instruction class -> its groups of declarations in configs/instructions."""


def form_of(instruction: Instruction, chip: ChipSpec) -> Form | None:
    """Return the first declared form by which the chip can express an instruction, or None if nothing is declared for its
    class.

    Raises SimError, in one line, if no form can, and for an atomic operation or a conversion that the chip lacks.
    """
    kind: Any = type(instruction)
    arch = chip.identity.arch
    ways = _ways(kind)
    if not ways:
        return None
    for form in _here(kind, arch, ways[0].route(instruction)):
        if form.way.says(instruction) and form.can_say(instruction):
            if instruction.atomic:
                _check_atomic(instruction, chip)
            if hasattr(instruction, "pre"):
                _check_conversion(instruction, chip)
            return form
    refuse_not_simulated(chip, instruction.name, ways[0].route(instruction))
    raise SimError(_refusal(instruction, chip))


def can_say(instruction: Instruction, chip: ChipSpec) -> bool:
    """Return True if `form_of` does not refuse the instruction: a form can express it, or none is declared for its class."""
    try:
        form_of(instruction, chip)
    except SimError:
        return False
    return True


_WHOLE_BLOCKS: dict[str, bool] = {}


def copies_whole_blocks(chip: ChipSpec) -> bool:
    """Return True if the chip's copies between GM and UB count whole 32-byte blocks: no form of it can copy one byte.

    Cached.
    """
    arch = chip.identity.arch
    if arch not in _WHOLE_BLOCKS:
        _WHOLE_BLOCKS[arch] = not can_say(DataCopy("GM", "UB", 1), chip)
    return _WHOLE_BLOCKS[arch]


def reach(tensor: Allocation, chip: ChipSpec) -> int:
    """Return the bytes of a tensor that instructions may touch: its size, or with its slack if copies count whole blocks."""
    return tensor.room if copies_whole_blocks(chip) else tensor.size


def _refusal(instruction: Any, chip: ChipSpec) -> str:
    """Return one line on why no form of the chip can express the instruction: the first fault of each form with the fewest
    faults.

    Without a form on this architecture the line names those that have one.
    """
    kind: Any = type(instruction)
    arch, ways = chip.identity.arch, _ways(kind)
    route = ways[0].route(instruction)
    what = f"{instruction.name} {route}" if "*" not in route else instruction.name
    meant = [form for group in GROUPS for form in declared(group) if form.way in ways and route in form.routes]
    meant = [form for form in meant if form.way.says(instruction)]
    here = [form for form in meant if arch in form.architectures]
    if here:
        tried = [(form.name, form.faults(instruction)) for form in here]
        fewest = min(len(faults) for _, faults in tried)
        near = [(name, faults) for name, faults in tried if len(faults) == fewest]
        lines: dict[str, list[str]] = {}  # one that several forms have is told once
        for name, faults in near:
            lines.setdefault(next(iter(faults.values())), []).append(name)
        text = "; ".join(f"{', '.join(names)}: {line}" for line, names in lines.items())
        return f"{what} on {chip.name} ({arch}): {text}"
    there = sorted({one for form in meant for one in form.architectures})
    has = f"{', '.join(there)} {'has' if len(there) == 1 else 'have'} it" if there else "no chip has it"
    return f"{what}: {chip.name} ({arch}) has no such instruction; {has} (configs/instructions)"


def _check_conversion(instruction: Any, chip: ChipSpec) -> None:
    """Raise SimError if the chip's Fixpipe cannot convert the instruction's numbers in L0C to its output format.

    An architecture without a declaration passes.
    """
    pre, dtype, arch = instruction.pre, instruction.dtype, chip.identity.arch
    source, scaled = instruction.taken, pre is not None and pre.scales
    for one in conversions():
        if arch in one.architectures:
            known = (one.scaled if scaled else one.plain).get(source, [])
            if dtype not in known:
                how = "with a scale" if scaled else "without a scale"
                raise SimError(
                    f"{instruction.name} on {chip.name} ({arch}): {source} of L0C to {dtype} {how}; "
                    f"{', '.join(known) or 'nothing'} is possible ({one.source})"
                )


def _check_atomic(instruction: Any, chip: ChipSpec) -> None:
    """Raise SimError if the chip lacks the instruction's atomic operation, its dtype, or its path to GM, or if rows are not
    whole elements.

    Operation, dtype and origin of an architecture without a declaration pass.
    """
    arch, operation, dtype = chip.identity.arch, getattr(instruction, "keep", "add"), format_added(instruction)
    origin, _, target = instruction.path().partition("->")
    what = f"{instruction.name} on {chip.name} ({arch}): atomic_{operation} of {dtype}"
    if target != "GM":
        raise SimError(f"{what} to {target}: only GM can be added to (the L2 does it); a copy to {target} overwrites")
    for one in atomics():
        if arch in one.architectures:
            if operation not in one.operations:
                raise SimError(f"{what}; {', '.join(one.operations)} is possible ({one.source})")
            if dtype not in one.dtypes:
                raise SimError(f"{what}; {', '.join(one.dtypes)} are possible ({one.source})")
            if origin not in one.origins:
                raise SimError(f"{what} from {origin}; it is possible from {', '.join(one.origins)} ({one.source})")
    if (row := getattr(instruction, "row_bytes", 0)) % (size := np.dtype(dtype).itemsize):
        raise SimError(f"{what}: rows of {row} bytes are not whole elements of {size} bytes")
    for region in instruction.writes():
        for apart in (region.row_stride * (region.rows > 1), region.plane_stride * (region.planes > 1)):
            if apart % size:
                raise SimError(f"{what}: rows {apart} bytes apart are not whole elements of {size} bytes")


def format_added(instruction: Any) -> str:
    """Return the format in which an atomic instruction changes the numbers of GM; "" if it does not say, as a recorded one."""
    added = getattr(instruction, "atomic_add", "")
    return added if isinstance(added, str) else str(getattr(instruction, "dtype", ""))


def _groups(kind: type[Instruction]) -> tuple[str, ...]:
    """Return the names of the groups of forms for an instruction class, from its own module and those of its base classes."""
    return tuple(dict.fromkeys(group for base in kind.__mro__ for group in _GROUP.get(base.__module__, ())))


@cache
def _ways(kind: type[Instruction]) -> tuple[Way, ...]:
    """Return the `Way`s to express instructions of a class, in the order of its groups of forms (`_groups`). Cached."""
    return tuple(way for group in _groups(kind) for way in ways_of(group).values() if issubclass(kind, way.kind))


@cache
def _here(kind: type[Instruction], arch: str, route: str) -> tuple[Form, ...]:
    """Return the forms of architecture `arch` for instructions of a class on `route` ("GM->UB"), in order of declaration.
    Cached.
    """
    forms = (form for group in _groups(kind) for form in declared(group, arch))
    return tuple(form for form in forms if issubclass(kind, form.way.kind) and route in form.routes)
