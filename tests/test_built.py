"""The library of the compiled engine: one that was built from other sources is refused."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from ascend_sim import built as built_module
from ascend_sim.cli import app
from ascend_sim.engine.choice import VARIABLE
from ascend_sim.engine.compiled import library
from ascend_sim.errors import SimError


@pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")
def test_a_library_of_older_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read what Python fills otherwise than it was meant; who asks for the version hears of it too."""
    monkeypatch.setitem(built_module.SIZES, "Stamp", built_module.SIZES["Stamp"] + 8)
    monkeypatch.setenv(VARIABLE, "auto")
    words = "built from older sources (its structures differ)"
    with pytest.raises(SimError, match=re.escape(words)):
        library.load.__wrapped__()
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 2 and words in shown.output, shown.output
