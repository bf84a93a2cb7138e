"""The vendor's own calls: unit-test rows with their asserted status, system-test rows with the status due."""

from __future__ import annotations

import pytest

from tests.support.ops.check_calls import check, conv_row, tbc_row
from tests.support.ops.vendor_cases import CONV_ST, CONV_UT, TBC_ST, TBC_UT, conv_system_call, tbc_system_call


@pytest.mark.parametrize("row", CONV_UT, ids=lambda row: f"{row['id']}-{row['test']}")
def test_conv_backward_unit_tests_end_in_their_asserted_status(row):
    result = check(conv_row(row), row["product"], "library")
    assert result.status == row["status"], result.failure


@pytest.mark.parametrize("row", TBC_UT, ids=lambda row: f"{row['id']}-{row['test']}")
def test_tbc_unit_tests_end_in_their_asserted_status(row):
    result = check(tbc_row(row), row["product"], "library")
    assert result.status == row["status"], result.failure


@pytest.mark.parametrize("product", ["910B", "910_93", "910_95"])
def test_system_test_rows_pass_the_library_on_a2_a3_and_950(product):
    refused = [
        (row["id"], result.failure) for row in CONV_ST if (result := check(conv_system_call(row), product, "library")).status
    ]
    refused += [
        (row["id"], result.failure) for row in TBC_ST if (result := check(tbc_system_call(row), product, "library")).status
    ]
    assert not refused


@pytest.mark.parametrize("product", ["310P", "910"])
def test_system_test_rows_on_the_fp16_cube_need_a_dtype_and_a_rank_that_it_has(product):
    for row in CONV_ST:
        rank, dtype = len(row["input"][0]), row["input"][1]
        computable = dtype == "float16" or (dtype == "float32" and row["cubeMathType"] in (1, 2))
        accepted = computable and rank < 5 and 0 not in row["gradOutput"][0]  # an empty gradOutput is refused there
        assert check(conv_system_call(row), product, "library").status == (0 if accepted else 161002), row["id"]
    for row in TBC_ST:
        accepted = row["self"][1] == "float16"  # every row has cubeMathType 0
        assert check(tbc_system_call(row), product, "library").status == (0 if accepted else 161002), row["id"]


def test_system_test_rows_under_the_documents_fail_only_for_bfloat16_with_options_2_and_3():
    for row in CONV_ST:
        refused = row["input"][1] == "bfloat16" and row["cubeMathType"] in (2, 3)
        result = check(conv_system_call(row), "910B", "documented")
        assert result.status == (161002 if refused else 0), (row["id"], result.failure)
    for row in TBC_ST:
        assert check(tbc_system_call(row), "910B", "documented").status == 0, row["id"]
