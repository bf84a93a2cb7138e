"""The store of a search: everything its results depend on, and the names of tilings in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ascend_sim.studies.store import Store
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.options import IN_CALL


def store_of(kernel: CubeKernel, path: Path | None = None) -> Store:
    """Return the store of the results of searching this kernel, in the file at `path` or in memory. Raises SimError as `Store`.

    Its study is the kernel's chip, problem, options, states of L2 and code, and with l2 "call" the kernels before it.
    """
    call = kernel.call
    what = {
        "study": "tile",
        "kernel": kernel.name,
        "chip": kernel.chip.name,
        "numbers": hashlib.sha256(kernel.chip.model_dump_json().encode()).hexdigest(),
        "problem": asdict(call.problem),
        "rank": call.rank,
        "transposed": call.forward,
        "compute_dtype": call.compute_dtype,
        "deterministic": call.deterministic,
        "conformance": call.conformance,
        "library": call.library,
        "routes": sorted(call.routes),
        "tiling": {name: dict(fields) for name, fields in call.tiling.items()},
        "blocks": dict(call.block_dim),
        "l2": kernel.l2,
        "launches": kernel.launches,
    }
    if kernel.l2 == IN_CALL:
        what["before"] = kernel.before()
    return Store(what, path, room="studies.tiles")


def key(fields: Mapping[str, int]) -> str:
    """Return a tiling's name in the store: its fields as JSON, sorted."""
    return json.dumps(fields, sort_keys=True)
