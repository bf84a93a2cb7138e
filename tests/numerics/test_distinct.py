"""Tests of ascend_sim.numerics.distinct."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ascend_sim.numerics.distinct import distinct


@pytest.mark.parametrize("values", [np.array([], np.int64), np.array([3, 1, 3, 2, 1]), np.array([2.5, -1.0, 2.5])])
def test_distinct_values_are_those_of_a_set_sorted(values):
    assert distinct(values).tolist() == sorted(set(values.tolist()))


def test_distinct_columns():
    columns = np.array([[1, 0, 1, 1], [2, 5, 2, 3]])
    assert distinct(columns, axis=1).T.tolist() == sorted(map(list, set(map(tuple, columns.T.tolist()))))


def test_a_run_imports_no_masked_arrays():
    code = "import sys, ascend_sim as asim; asim.run_case('by_hand'); assert 'numpy.ma' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
