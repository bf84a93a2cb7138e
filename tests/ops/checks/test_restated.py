"""The rules against a second restatement of the documents, on thousands of variants of the vendor's own calls."""

from __future__ import annotations

from collections import Counter

import pytest

from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from tests.support.ops.check_calls import check, conv_row, status, tbc_row
from tests.support.ops.restated import documented_conv, documented_tbc, library_conv, library_tbc
from tests.support.ops.variants import Call, Variants
from tests.support.ops.vendor_cases import CALLS, CONV_UT, TBC_UT

PRODUCTS = ("310P", "910", "910B", "910_93", "910_95")


def restated(call: Call, product: str, conformance: str, deterministic: bool) -> int:
    if isinstance(call, ConvBackwardCall):
        if conformance == "library":
            return library_conv(call, product, deterministic)
        return documented_conv(call, product)
    return library_tbc(call, product) if conformance == "library" else documented_tbc(call, product)


def compare(seed: int, count: int) -> Counter[tuple[str, str, int]]:
    """How often each status came, by operator and profile; fails at the first difference."""
    make, seen = Variants(seed), Counter[tuple[str, str, int]]()
    choose = make.random.choice
    for _ in range(count):
        call = make.bias(call) if isinstance(call := choose(CALLS), ConvBackwardCall) else call
        call, product, deterministic = make(call), choose(PRODUCTS), choose((False, True))
        for conformance in ("documented", "library"):
            expected = restated(call, product, conformance, deterministic)
            found = check(call, product, conformance, deterministic=deterministic)
            assert found.status == expected, (product, conformance, deterministic, call, found.failure)
            seen[type(call).__name__, conformance, expected] += 1
    return seen


def test_variants_of_the_vendors_calls_end_as_restated():
    seen = compare(seed=1, count=4000)
    for operator in ("ConvBackwardCall", "ConvTbcCall"):
        for conformance in ("documented", "library"):
            assert all(seen[operator, conformance, code] > 50 for code in (0, 161001, 161002)), seen
    assert seen["ConvBackwardCall", "library", 561103] > 10, seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 5))
def test_many_variants_of_the_vendors_calls_end_as_restated(seed):
    compare(seed, count=60_000)


def test_the_restatement_agrees_with_the_asserted_statuses():
    """So that two equal slips would have to be the vendor's as well."""
    rows = [(conv_row(row), row) for row in CONV_UT] + [(tbc_row(row), row) for row in TBC_UT]
    for call, row in rows:
        product = "910_95" if row["product"] == "950" else row["product"]
        assert restated(call, product, "library", False) == row["status"], row
        assert status(call, row["product"], "library") == row["status"], row
