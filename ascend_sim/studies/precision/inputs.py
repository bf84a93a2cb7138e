"""Values that a precision study rounds to each dtype: the case's own, drawn anew, read from a file or given by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.ops.case import Case, DataEntry, make_tensors
from ascend_sim.ops.case_data import Distribution
from ascend_sim.ops.tensor_files import load_tensors
from ascend_sim.ops.verdicts.values import numbers

__all__ = ["base_tensors", "given_tensors", "source_of", "with_inputs"]

Array = NDArray[Any]


def with_inputs(case: Case, inputs: str | Path | None) -> Case:
    """Return the case with other values: a distribution of the same seed and scale, or a `.npz` file."""
    if inputs is None:
        return case
    if str(inputs).endswith(".npz"):
        return case.with_file(inputs)
    if str(inputs) not in get_args(Distribution):
        raise SimError(f"inputs {str(inputs)!r}: allowed are {', '.join(get_args(Distribution))}, or a .npz file")
    drawn = {"distribution": str(inputs), "seed": case.data.seed, "scale": case.data.scale}
    return case.model_copy(update={"data": DataEntry.model_validate(drawn)})


def base_tensors(case: Case) -> dict[str, Array]:
    """Return the case's tensors in float32, before they are rounded to a row's dtype."""
    if case.data.file is None:
        return make_tensors(case.in_dtype("float32"))
    found = load_tensors(case.data.file, {name: (shape, None) for name, (shape, _) in case.tensors.items()})
    return {name: numbers(array, dtype).astype(np.float32, copy=False) for name, (array, dtype) in found.items()}


def given_tensors(case: Case, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return the caller's arrays in float32. Raises SimError for names or shapes other than the case's."""
    shapes = {name: shape for name, (shape, _) in case.tensors.items()}
    given = {name: tuple(array.shape) for name, array in tensors.items()}
    if given != shapes:
        raise SimError(f"tensors: {given} given; the case needs {shapes}")
    return {name: array.astype(np.float32) for name, array in tensors.items()}


def source_of(case: Case) -> str:
    """Return the words that name where the case's values come from."""
    return str(case.data.file) if case.data.file else f"{case.data.distribution}, seed {case.data.seed}"
