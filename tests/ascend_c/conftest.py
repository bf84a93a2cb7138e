"""Compiled kernels of the tests lie in a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ascend_sim.shipped import CACHE_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get(CACHE_VARIABLE)
    os.environ[CACHE_VARIABLE] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ[CACHE_VARIABLE]
    else:
        os.environ[CACHE_VARIABLE] = before
