"""Arguments of a C++ kernel's entry as the recorder takes them: tensors as pointers, numbers, structures by their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ascend_sim.ascend_c.recorder import FLOAT, GM_SHIFT, INTEGER, MOST_TENSORS, POINTER, STRUCT, Argument
from ascend_sim.ascend_c.source import KernelEntry
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.memory.gm import SLOT_SHIFT
from ascend_sim.options.description import names_of
from ascend_sim.options.run_options import LaunchOptions

_FIELD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*")
StructureField = tuple[int, str]
"""Number of a parameter, and the name of a field of its structure."""
_TILING = "tiling"
"""Begin of the name of a pointer parameter that is tiling data (tiling, tilingGm), given as bytes or fields by name."""


@frozen
class EntryParameter:
    """One parameter of a kernel's entry: its name, its kind (`recorder.POINTER` and so on) and its size in bytes."""

    name: str
    kind: int
    size: int

    @property
    def is_tensor(self) -> bool:
        """Return True if the parameter takes a tensor: a pointer, unless its name begins with "tiling", as tiling data's do."""
        return self.kind == POINTER and not self.name.lower().startswith(_TILING)

    @property
    def has_fields(self) -> bool:
        """Return True for a structure or the tiling data, which can be given field by field."""
        return self.kind == STRUCT or (self.kind == POINTER and not self.is_tensor)


def entry_parameters(entry: KernelEntry, described: Sequence[tuple[int, int]]) -> tuple[EntryParameter, ...]:
    """Return the entry's parameters from their names and (kind, size); a name that is also an option of `launch` gets an
    underscore.
    """
    own = names_of(LaunchOptions)
    names = [*entry.parameters, *(f"argument{number}" for number in range(len(entry.parameters), len(described)))]
    return tuple(
        EntryParameter(f"{name}_" if name in own else name, kind, size)
        for name, (kind, size) in zip(names, described, strict=False)
    )


def entry_arguments(
    parameters: Sequence[EntryParameter], tensors: Sequence[Tensor], fields: Mapping[str, Any], registers_tiling: bool
) -> tuple[list[Argument], dict[StructureField, float]]:
    """Return (arguments in the order of the parameters, values of the structure fields set by name).

    Tensors become pointers into GM, those of a list ("x[0]", "x[1]") a table of pointers and shapes. `registers_tiling`: the
    kernel's file registers the structure of the tiling data. Raises SimError for too many tensors, wrong sizes, and bad field
    names and numbers.
    """
    if len(tensors) > MOST_TENSORS:
        raise SimError(f"{len(tensors)} tensors; a C++ kernel takes at most {MOST_TENSORS}")
    given: list[Argument] = []
    by_name: dict[StructureField, Any] = {}
    loose = _loose_fields(parameters, fields)
    for number, one in enumerate(parameters):
        if one.is_tensor:
            places = [tensor for tensor in tensors if tensor.name.partition("[")[0] == one.name]
            given.append(pointer_of(places[0]) if places[0].name == one.name else _list_bytes(places))
        elif one.has_fields:
            value, own = fields.get(one.name), loose[one.name]
            if isinstance(value, Mapping):
                from ascend_sim.ascend_c.matmul_tilings import CUBE_FIELDS, cube_tiling_bytes  # few kernels have one

                is_cube = one.kind == POINTER and value.keys() <= set(CUBE_FIELDS) and not registers_tiling
                value, own = (cube_tiling_bytes(value), own) if is_cube else (None, {**value, **own})
            by_name |= {(number, name): each for name, each in _flat(own)}
            given.append(_structure(one, value, own, registers_tiling))
        else:
            given.append(_number(one.name, one.kind, fields[one.name]))
    for _, name in by_name:
        if not _FIELD.fullmatch(name):
            raise SimError(f"{name!r} is not a field of a structure; allowed are names like count, shape.rows and parts[1]")
    return given, {field: _number(field[1], None, value) for field, value in by_name.items()}


def _loose_fields(parameters: Sequence[EntryParameter], fields: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return {structure: its fields given by keyword}: those of the only structure, or "structure.field" of several.

    Raises SimError for a field that names none of several structures.
    """
    known = {one.name for one in parameters}
    holders = [one.name for one in parameters if one.has_fields]
    found: dict[str, dict[str, Any]] = {one: {} for one in holders}
    for name, value in fields.items():
        if name in known:
            continue
        holder, _, rest = (holders[0], "", name) if len(holders) == 1 else name.partition(".")
        if holder not in found:
            allowed = " or ".join(f"{one}.{name}" for one in holders)
            raise SimError(f"{name}: the kernel has several structures; give {allowed}")
        found[holder][rest] = value
    return found


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (name, number) of each field of a structure; those of structures and arrays in it as "shape.rows", "parts[1]"."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{name}.{key}" if name else key)
    elif name and isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        for number, each in enumerate(value):
            yield from _flat(each, f"{name}[{number}]")
    else:
        yield name, value


def _structure(one: EntryParameter, value: Any, by_name: Mapping[str, Any], registers_tiling: bool) -> Argument:
    """Return the argument for a structure or the tiling data: the bytes of `value`. Without a value a structure is zeros, and
    the tiling data are None if fields are set by name, else 0, a null pointer.

    Raises SimError for a value without bytes or of another size, and for field names without REGISTER_TILING_DEFAULT.
    """
    if value is not None:
        try:
            data = value.tobytes() if isinstance(value, np.generic | np.ndarray) else bytes(memoryview(value).cast("B"))
        except TypeError:
            raise SimError(f"{one.name}: {value!r}; give fields by name, or bytes, also as a numpy array") from None
        if one.kind == STRUCT and len(data) != one.size:
            raise SimError(f"{one.name}: {len(data)} bytes; the structure has {one.size}")
        return data
    if one.kind == STRUCT:
        return bytes(one.size)
    if by_name and not registers_tiling:
        raise SimError(
            f"{one.name}: fields by name need REGISTER_TILING_DEFAULT(structure) in the kernel's file; "
            f"or give {one.name} as bytes"
        )
    return None if by_name else 0


def pointer_of(tensor: Tensor) -> int:
    """Return the pointer of a tensor as C++ has it, made of its slot (`recorder.GM_SHIFT`); it points to no memory."""
    return ((tensor.address >> SLOT_SHIFT) + 1) << GM_SHIFT


def _list_bytes(tensors: Sequence[Tensor]) -> bytes:
    """Return the bytes behind a list of tensors (asim/lists.h, ListTensorDesc)."""
    shapes = [word for n, one in enumerate(tensors) for word in (n << 32 | len(one.shape), *one.shape)]
    words = [8 * (1 + len(shapes)), *shapes, *map(pointer_of, tensors)]
    return np.array(words, np.uint64).tobytes()


def _number(name: str, kind: int | None, value: Any) -> float:
    """Return a number for the recorder: an int if `kind` is INTEGER, a float if it is FLOAT, an int or a float for None. A bool
    is an int.

    `float` converts other values, but for INTEGER every value that is not an int (3.0, "3") is a SimError. So is a value that
    `float` refuses or that is beyond its range, and an int outside -2^63 to 2^64 - 1 unless `kind` is FLOAT.
    """
    if isinstance(value, bool | np.bool_):
        value = int(value)
    whole = isinstance(value, int | np.integer)
    if kind == INTEGER and not whole:
        raise SimError(f"{name}: {value!r}; the kernel takes a whole number")
    if whole and kind != FLOAT and not -(1 << 63) <= value < 1 << 64:
        raise SimError(f"{name}: a number outside -2^63 to 2^64 - 1; a number of the kernel has at most 64 bits")
    try:
        return int(value) if whole and kind != FLOAT else float(value)  # half and bfloat16 of ml_dtypes are no np.floating
    except OverflowError:
        raise SimError(f"{name}: a number beyond the range of a float; allowed is up to 1.8e308") from None
    except (TypeError, ValueError):
        raise SimError(f"{name}: {value!r} is not a number") from None
