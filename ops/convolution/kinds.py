"""Kinds of the attributes that convolutions share."""

from __future__ import annotations

from ascend_sim.ops.kinds import FLAG, NUMBER, NUMBERS, ArgumentKind

ATTRIBUTES: dict[str, ArgumentKind] = {
    "stride": NUMBERS,
    "padding": NUMBERS,
    "dilation": NUMBERS,
    "transposed": FLAG,
    "output_padding": NUMBERS,
    "groups": NUMBER,
}
