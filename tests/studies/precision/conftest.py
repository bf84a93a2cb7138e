"""Fixtures of the tests beside this file."""

import pytest

from ascend_sim import precision
from ascend_sim.studies.precision import run as precision_run
from tests.support.studies.precision_cases import CASE


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    file = tmp_path_factory.mktemp("cases") / "small.yaml"
    file.write_text(CASE)
    return str(file)


@pytest.fixture(scope="module")
def table(case):
    return precision(case)


@pytest.fixture
def asked(monkeypatch, table):
    """The command line on a ready table; holds what it asked for."""
    calls = []

    def answer(case, **options):
        calls.append(options)
        return table

    monkeypatch.setattr(precision_run, "precision", answer)
    return calls
