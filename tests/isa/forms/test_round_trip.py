"""Fields of every form become an effect, and the effect becomes those fields again; what it says is taken."""

from __future__ import annotations

from math import gcd

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.forms import GROUPS, Field, Form, declared, form_of
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast

CHIPS = {"dav-1001": "ascend910a", "dav-2002": "ascend310p3", "dav-2201": "ascend910b3", "dav-3510": "ascend950pr_9589"}
FORMS = [form for group in GROUPS for form in declared(group)]
MANY = {"n_burst", "repeat", "k_step", "m_size", "n_value", "nd_num", "loop1_size", "n_size", "d_value", "dn_num"}
"""Counts that decide whether the strides beside them mean anything."""
SIMULATED = ("float16", "float32", "hifloat8")


def items(form: Form) -> list[str]:
    """Formats that the form's items can have here."""
    sizes = {"float16": 2, "float32": 4, "hifloat8": 1}
    found = [name for name in SIMULATED if not form.items or sizes[name] in form.items]
    return [name for name in found if not form.dtypes or name in form.dtypes]


def values(field: Field, item_size: int) -> st.SearchStrategy[int]:
    """Raw values of a field: counts that mean something, bytes in whole units and elements."""
    low = max(field.low, 2 if field.name in MANY else 0)
    unit = field.unit_bytes
    step = item_size // gcd(item_size, unit) if field.unit == "bytes" else 1
    most = min(field.high, low + 4096) // step
    return st.integers(-(-low // step), max(most, -(-low // step))).map(lambda n: n * step * unit)


def fitting(form: Form, fields: dict[str, int], size: int) -> dict[str, int]:
    """Fields that the rules of the form leave together: a word that somebody could write."""
    f = dict(fields)
    rules = {rule.name for rule in form.rules}
    if "rows_held" in rules:
        f["local_stride"] += -(-f["len_burst"] // 32) * 32
    if "rows_adjoin" in rules and "local_stride" in f:
        f["local_stride"] = f["len_burst"] = min(f["len_burst"], 2097151)
    if "channel_split" in f:
        f["channel_split"] *= size == 4
        f["n_size"] = f["n_size"] // 16 * 16 + 32
    if "cc_to_cbuf" in form.name:
        f["n_size"] = f["n_size"] // 32 * 32 + 64
    if "dst_nz_n_stride" in f:
        f["d_value"] += 33  # more than one block
    if "m_step" in f:
        f["transpose"] *= size < 4
        f["m_step"] = 2 if f["transpose"] and size == 1 else 1
        f["dst_stride"] += f["m_step"] - 1  # fractals of squares lie apart
    if "right_pad" in f:
        f["right_pad"] %= 32 // size + 1
    if "turns_two_bytes" in rules:
        f["transpose"] *= size == 2
    if "dst_frac_gap" in f:  # squares of two fractals lie apart
        f["dst_frac_gap"], f["dst_gap"] = f["dst_frac_gap"] % 3 if size != 2 else 0, f["dst_gap"] | 3
    if "filter_w" in f:
        for axis, near, far in (("w", "left", "right"), ("h", "top", "bottom")):
            f[f"filter_{axis}"], f[f"dilation_{axis}"] = f[f"filter_{axis}"] % 7 + 1, f[f"dilation_{axis}"] % 5 + 1
            reach, step = f[f"dilation_{axis}"] * (f[f"filter_{axis}"] - 1) + 1, f[f"stride_{axis}"]
            pads = f[f"fmatrix.pad_{near}"] + f[f"fmatrix.pad_{far}"]
            least = reach + (step - (pads % step) if f[f"fmatrix.l1_{axis}"] % 2 else 0)
            f[f"fmatrix.l1_{axis}"] = max(f[f"fmatrix.l1_{axis}"], least)
    if "k_start" in f and "channel_size" in f:
        c0 = 32 // size
        f["k_start"] = f["k_start"] // c0 * c0
        runs = 0
        if "repeat_time" in f:
            f["repeat_time"], f["repeat_stride"] = f["repeat_time"] % 5 + 2, f["repeat_stride"] % 64
            f["k_extension"] = f["k_extension"] % 64 // c0 * c0 + c0
            runs = (f["repeat_time"] - 1) * f["repeat_stride"] * c0
            f["rpt_dst_stride"] += f["repeat_time"] * f["k_extension"] // 16 + 1
        f["channel_size"] = -(-(runs + f["k_start"] + f["k_extension"]) // (c0 * f["filter_w"] * f["filter_h"])) * c0
    return f


@st.composite
def said(draw: st.DrawFn, form: Form) -> tuple[str, dict[str, int], Instruction]:
    """A route, fields and the effect that they have."""
    item = draw(st.sampled_from(items(form)))
    size = {"float16": 2, "float32": 4, "hifloat8": 1}[item]
    route = draw(st.sampled_from(form.routes))
    fields = fitting(form, {one.name: draw(values(one, size)) for one in form.fields}, size)
    return route, fields, form.way.effect(route, fields, item)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.name} {'+'.join(form.architectures)}")
def test_fields_become_an_effect_and_that_becomes_fields(form: Form) -> None:
    kept: list[int] = []

    @sampled(25, 600)
    @given(said(form))
    def once(found: tuple[str, dict[str, int], Instruction]) -> None:
        route, fields, effect = found
        assume(not form.faults(effect))
        assert form.way.says(effect) and form.can_say(effect) and form.way.route(effect) == route
        raw = dict(zip(form.way.names, form.way.values(effect), strict=True))
        item = getattr(effect, "dtype", {1: "hifloat8", 2: "float16", 4: "float32"}[getattr(effect, "itemsize", 2)])
        assert form.way.effect(route, raw, item) == effect
        kept.append(sum(raw[name] == value for name, value in fields.items()) - len(fields))

    once()
    assert len(kept) > (10 if form.fields else 0)  # the rules leave enough
    assert max(kept, default=0) == 0  # of some, every field came back as it was


@sampled(100, 2000)
@given(st.data())
def test_what_a_form_of_the_chip_says_is_taken_and_what_none_says_is_not(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    route, _, effect = data.draw(said(form))
    for arch, name in CHIPS.items():
        chip = load_chip(name)
        able = [
            one for one in FORMS
            if arch in one.architectures and route in one.routes and isinstance(effect, one.way.kind) and one.way.says(effect)
            and not one.faults(effect)
        ]  # fmt: skip
        try:
            found = form_of(effect, chip)
        except SimError as error:
            assert not able and "\n" not in str(error) and f"({arch})" in str(error)
        else:
            assert found in able
