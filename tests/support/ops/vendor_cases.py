"""The calls of the vendor's own tests."""

from __future__ import annotations

from tests.support.ops.check_calls import LABEL, OWN_TABLES, TABLES, conv_row, rows, tbc_row
from tests.support.ops.variants import Call

CONV_UT = [row for row in rows(TABLES / "cases_ut_conv_backward.json") if row["status"] is not None]


TBC_UT = [row for row in rows(TABLES / "cases_ut_tbc.json") if row["status"] is not None]


CONV_ST = rows(OWN_TABLES / "cases_st_conv_backward.json")


TBC_ST = rows(OWN_TABLES / "cases_st_tbc.json")


def conv_system_call(row):
    shape, dtype = row["input"]
    label = LABEL[len(shape)]
    tensors = {name: [*row[name], label] for name in ("gradOutput", "input", "weight")}
    bias = [[row["gradOutput"][0][1]], dtype, "ND"]
    return conv_row({**row, **tensors, "gradInput": tensors["input"], "gradWeight": tensors["weight"], "gradBias": bias})


def tbc_system_call(row):
    tensors = {name: [*row[name], "ND"] for name in ("self", "input", "weight", "bias")}
    outputs = {"gradInput": tensors["input"], "gradWeight": tensors["weight"], "gradBias": tensors["bias"]}
    return tbc_row({**row, **tensors, **outputs})


CALLS: list[Call] = [
    *map(conv_row, CONV_UT), *map(conv_system_call, CONV_ST), *map(tbc_row, TBC_UT), *map(tbc_system_call, TBC_ST)
]  # fmt: skip
