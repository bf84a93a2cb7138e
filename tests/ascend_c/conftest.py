"""Compiled kernels of the tests lie in a cache of their own; they are compiled in a third of the time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ascend_sim.ascend_c import compiler
from ascend_sim.shipped import CACHE_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"  # workers share it
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield


@pytest.fixture(scope="module", autouse=True)
def compiled_fast() -> Iterator[None]:
    """Compile without optimisation; the examples of docs/ascend-c are compiled as those of users are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "FLAGS", tuple(one.replace("-O1", "-O0") for one in compiler.FLAGS))
        yield
