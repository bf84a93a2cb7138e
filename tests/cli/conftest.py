"""Fixtures of the tests beside this file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.commands import write_case


@pytest.fixture
def case(tmp_path: Path) -> Path:
    return write_case(tmp_path)
