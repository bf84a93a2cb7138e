"""The formats of the vector operations per product, copied by hand from the vendor's API pages (asc-devkit)."""

from __future__ import annotations

import pytest

from ascend_sim.chip import load_chip

HALF, FLOAT = {"float16"}, {"float16", "float32"}
NUMBERS = {*FLOAT, "int16", "int32"}
ON_950 = {*NUMBERS, "bfloat16", "uint16", "uint32"}  # of 16 and 32 bits; the wider and narrower ones are not modelled
BITS_16 = {"int16", "uint16"}
MOVED = {*FLOAT, "int16", "uint16", "int32", "uint32"}

# operation: (910, 310P, 910B and 910_93, 950); None: "not supported".
STATED: dict[str, tuple[set[str] | None, ...]] = {
    "add": ({*FLOAT, "int32"}, NUMBERS, NUMBERS, ON_950),
    "mul": ({*FLOAT, "int32"}, NUMBERS, NUMBERS, ON_950),
    "max": ({*FLOAT, "int32"}, NUMBERS, NUMBERS, ON_950),
    "adds": (FLOAT, NUMBERS, NUMBERS, {*NUMBERS, "bfloat16"}),
    "muls": (FLOAT, NUMBERS, NUMBERS, {*NUMBERS, "bfloat16"}),
    "maxs": (None, NUMBERS, NUMBERS, {*NUMBERS, "bfloat16"}),
    "axpy": (FLOAT, FLOAT, FLOAT, {*FLOAT, "bfloat16"}),
    "leaky_relu": (None, FLOAT, FLOAT, FLOAT),
    "abs": (FLOAT, FLOAT, FLOAT, NUMBERS),
    "relu": (HALF, {*FLOAT, "int32"}, {*FLOAT, "int32"}, {*FLOAT, "int32"}),
    "exp": (FLOAT, FLOAT, FLOAT, FLOAT),
    "rsqrt": (FLOAT, FLOAT, FLOAT, FLOAT),
    "reciprocal": (FLOAT, FLOAT, FLOAT, FLOAT),
    "and": (BITS_16, BITS_16, BITS_16, {*BITS_16, "int32", "uint32"}),
    "not": (BITS_16, BITS_16, BITS_16, {*BITS_16, "int32", "uint32"}),
    "compare": (FLOAT, FLOAT, FLOAT, ON_950),
    "compare_eq": (FLOAT, FLOAT, {*FLOAT, "int32"}, ON_950),
    "compares": (None, FLOAT, FLOAT, ON_950),
    "select": (None, FLOAT, FLOAT, ON_950),  # the 910 has mode 0 alone, whose mask is a register
    "duplicate": ({*MOVED, "bfloat16"}, {*MOVED, "bfloat16"}, {*MOVED, "bfloat16"}, {*MOVED, "bfloat16"}),
    "broadcast": (None, MOVED, {*MOVED, "bfloat16"}, {*MOVED, "bfloat16"}),
    "gather": (None, MOVED, {*MOVED, "bfloat16"}, {*MOVED, "bfloat16"}),
    "reduce_max": (HALF, FLOAT, FLOAT, {*FLOAT, "int16", "uint16", "int32", "uint32"}),
    "block_reduce_max": (HALF, FLOAT, FLOAT, FLOAT),
    "block_reduce_sum": (HALF, FLOAT, FLOAT, FLOAT),
    "pair_reduce_sum": (HALF, FLOAT, FLOAT, FLOAT),
    "mul_add": (None, FLOAT, FLOAT, {*FLOAT, "bfloat16"}),
    "fused_mul_add": (None, FLOAT, FLOAT, None),
    "fused_mul_add_relu": (None, FLOAT, FLOAT, None),
    "scatter": (None, {*FLOAT, "uint16", "uint32"}, None, {"float32"}),  # of the 950 what our kernels take
}
CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")


@pytest.mark.parametrize(("name", "column"), [(name, column) for column, name in enumerate(CHIPS)])
def test_formats_are_those_of_the_pages(name: str, column: int) -> None:
    ops = load_chip(name).vector.ops
    wrong = {}
    for operation, stated in STATED.items():
        has = set(ops[operation].cycles_per_repeat) if operation in ops else None
        if has != stated[column]:
            wrong[operation] = (has, stated[column])
    assert wrong == {}
