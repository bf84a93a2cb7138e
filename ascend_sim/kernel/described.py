"""Everything that follows from an instruction's class and fields on one chip: computed once, shared by all tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.headroom import MOST_CYCLES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import PIPE_INDEX, Cost, GmAccess, Instruction
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.forms import Form, form_of, format_added
from ascend_sim.isa.sync import WaitUnitFlag
from ascend_sim.isa.vector.base import VectorInstruction
from ascend_sim.isa.vector.mask_register import (
    CompareToRegister,
    LoadMaskRegister,
    SelectByRegister,
    SelectRegisterScalar,
    StoreMaskRegister,
)
from ascend_sim.kernel.field_types import check_types
from ascend_sim.kernel.stamp import like
from ascend_sim.kernel.touches import OPERAND_COLUMN, Touched, moves_nothing, touched
from ascend_sim.memory.gm import OFFSET_MASK
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.integers import storage

Key = tuple[Any, ...]
"""An instruction's class and its parameters, under which a table has it once."""
_MOST_ROWS = 1 << 24
"""Limit for one region, adjoining rows merged: engines go over them one by one, and C cannot be interrupted meanwhile."""
Limits = Sequence[Sequence[int]]
"""(bytes touched from the address on, size of the buffer, alignment) of each operand; see `InstructionTable.limits`."""
_PLAIN = frozenset((int, str, bool))
"""Types of fields that stay as they are."""
_DESCRIBED = 1 << 13
"""Descriptions of instructions that are kept, each of a few kB."""


TRAITS: dict[str, tuple[type, ...]] = {
    "by_unit_flag": (WaitUnitFlag,),
    "sets_mask": (CompareToRegister, LoadMaskRegister),
    "takes_mask": (SelectByRegister, SelectRegisterScalar, StoreMaskRegister),
    "by_vector": (VectorInstruction,),
    "in_integers": (),
}
"""Name of a property that checks of a program ask for -> the instructions that have it: those that wait for a unit flag, set
or take the mask register, run on the vector unit; "in_integers": those that take or leave int32 in L0C.
"""


@frozen(eq=False)
class DescribedInstruction:
    """Everything that follows from an instruction's class and fields, its `key`, on one chip.

    `limits` are those of its operands' addresses, as in `InstructionTable.limits`; `spaces` are the buffers that it touches;
    `moves_nothing` is True if it has a region without bytes or with a negative stride; `conflicts` are those over banks
    (`VectorInstruction.bank_cycles`).
    """

    key: Key
    instruction: Instruction
    pipe: int
    cost: Cost
    conflicts: NDArray[np.int64] | None
    access: GmAccess | None
    touched: Touched
    limits: Limits
    spaces: frozenset[str]
    moves_nothing: bool
    traits: frozenset[str]


class ThisChip:
    """Key of a chip, equal only to a key of the same object: comparing the numbers of chips takes long."""

    def __init__(self, chip: ChipSpec) -> None:
        self.chip = chip

    def __hash__(self) -> int:
        return id(self.chip)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThisChip) and other.chip is self.chip


@lru_cache(_DESCRIBED, typed=True)
def described(this: ThisChip, kind: type[Instruction], *given: Any) -> DescribedInstruction:
    """Return the description of instruction `kind(*given)` on a chip; the last 8192 are cached, so that tables share them.

    Integers of numpy become Python's. Raises SimError as `InstructionTable.add`.
    """
    chip, key = this.chip, (kind, *given)
    check_types(key)
    fields = tuple([value if type(value) in _PLAIN else _of_python(value) for value in given])
    instruction = kind(*fields)
    pipe = PIPE_INDEX[instruction.pipe(chip)]  # first, for its message on what the chip lacks is the clearest
    form = form_of(instruction, chip)
    cost, access = instruction.cost(chip), instruction.gm_access(chip)
    head, scalar_time = max(cost.head_first, cost.head_stream), getattr(instruction, "cycles", 0)
    conflicts = instruction.bank_cycles(chip) if isinstance(instruction, VectorInstruction) else None
    longest = max(head + cost.work + (0 if conflicts is None else int(conflicts.max())), cost.latency, scalar_time)
    if longest > MOST_CYCLES:
        raise SimError(
            f"{instruction.name} lasts {longest} cycles on {chip.name}; at most {MOST_CYCLES}, or an engine's int64 clock "
            f"could wrap"
        )
    found = touched(instruction, chip)
    regions = found[0]
    for region in regions:
        _check_region(instruction, region, chip)
    spaces = frozenset([region.space for region in regions if region.space != "GM"])
    limits = _limits_of(instruction, form, regions, chip)
    rest = limits, spaces, any(map(moves_nothing, regions)), _traits_of(instruction)
    return DescribedInstruction((kind, *fields), instruction, pipe, cost, conflicts, access, found, *rest)


def _limits_of(instruction: Instruction, form: Form | None, regions: Sequence[Region], chip: ChipSpec) -> Limits:
    """Return the limits of the addresses of an instruction with these regions."""
    found = {name: [0, 0, 1] for name in OPERAND_COLUMN}
    for region in regions:
        if region.operand in found:
            capacity = -1 if region.space == "GM" else chip.buffers.get(region.space, 0)  # type: ignore[call-overload]
            found[region.operand] = [max(found[region.operand][0], region.extent), capacity, chip.alignment.unit(region.space)]
    for name, least in chain(instruction.aligned().items(), form.aligned.items() if form is not None else ()):
        found[name][2] = least
    if instruction.atomic and (dtype := format_added(instruction)):  # an address of whole elements (asc-devkit, DataCopy)
        found["dst"][2] = max(found["dst"][2], storage(dtype).itemsize)
    return [*found.values()]


def _traits_of(instruction: Instruction) -> frozenset[str]:
    kind: Any = type(instruction)
    found = _traits_of_kind(kind)
    in_integers = "int32" in (instruction.taken, instruction.result if isinstance(instruction, Mmad) else "")
    return found | {"in_integers"} if in_integers else found


@cache
def _traits_of_kind(kind: type[Instruction]) -> frozenset[str]:
    return frozenset([name for name, kinds in TRAITS.items() if issubclass(kind, kinds)])


def _check_region(instruction: Instruction, region: Region, chip: ChipSpec) -> None:
    """Raise SimError for a region with too many bytes or rows for an engine, or at a fixed place outside its buffer."""
    most = max(map(abs, (region.extent, region.total, region.row_stride, region.plane_stride)))
    if most > OFFSET_MASK:
        raise SimError(f"{instruction.name} goes over {most} bytes of {region.space}; at most {OFFSET_MASK}")
    if not region.operand:
        capacity = chip.buffers.get(region.space, 0)  # type: ignore[call-overload]
        if region.offset < 0 or region.extent > capacity:
            raise SimError(
                f"{instruction.name} covers bytes {region.offset} to {region.extent} of {region.space}, which has {capacity} "
                f"(chip {chip.name}, buffers.{region.space})"
            )
    if region.rows * region.planes > _MOST_ROWS:
        merged = region.simplified()
        if merged.rows * merged.planes > _MOST_ROWS:
            raise SimError(f"{instruction.name} has {region.rows * region.planes} rows; at most {_MOST_ROWS}")


def _of_python(value: Any) -> Any:
    """Return a numpy integer as a Python int, which does not overflow; also inside tuples. Other values stay."""
    if isinstance(value, np.integer):
        return int(value)
    return like(value, [_of_python(item) for item in value]) if isinstance(value, tuple) else value
