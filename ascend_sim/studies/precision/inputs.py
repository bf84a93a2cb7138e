"""Values that a precision study rounds to each dtype: the case's own, drawn anew, read from a file or given by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.ops.case import make_tensors
from ascend_sim.ops.case_data import Distribution
from ascend_sim.ops.case_entries import Case, DataEntry
from ascend_sim.ops.tensor_files import load_tensors
from ascend_sim.ops.verdicts.values import numbers

Array = NDArray[Any]


def with_inputs(case: Case, inputs: str | Path | None) -> Case:
    """Return the case with other values: of the named distribution with the case's seed and scale, or from a `.npz` file.

    None returns the case itself. Raises SimError for another name.
    """
    if inputs is None:
        return case
    if str(inputs).endswith(".npz"):
        return case.with_file(inputs)
    if str(inputs) not in get_args(Distribution):
        raise SimError(f"inputs {str(inputs)!r}: allowed are {', '.join(get_args(Distribution))}, or a .npz file")
    drawn = {"distribution": str(inputs), "seed": case.data.seed, "scale": case.data.scale}
    return case.model_copy(update={"data": DataEntry.model_validate(drawn)})


def base_tensors(case: Case) -> dict[str, Array]:
    """Return {name: float32 array} of the case's values before a row's dtype: drawn, or from the case's file."""
    if case.data.file is None:
        return make_tensors(case.in_dtype("float32"))
    found = load_tensors(case.data.file, {name: (shape, None) for name, (shape, _) in case.tensors.items()})
    return {name: numbers(array, dtype).astype(np.float32, copy=False) for name, (array, dtype) in found.items()}


def given_tensors(case: Case, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return the caller's arrays as float32 by name. Raises SimError for names or shapes other than the case's, and for values
    that are no numpy arrays of numbers.
    """
    if not isinstance(tensors, Mapping):
        raise SimError(f"tensors must be a dict of arrays by name, not {type(tensors).__name__}")
    for name, array in tensors.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind in "USOc":
            found = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
            raise SimError(f"tensors: {name} must be a numpy array of numbers, not {found}")
    shapes = {name: shape for name, (shape, _) in case.tensors.items()}
    given = {name: array.shape for name, array in tensors.items()}
    if given != shapes:
        raise SimError(f"tensors: {given} given; the case needs {shapes}")
    return {name: array.astype(np.float32) for name, array in tensors.items()}


def source_of(case: Case) -> str:
    """Return the source of the case's values in words: the file's path, or "DISTRIBUTION, seed N"."""
    return str(case.data.file) if case.data.file else f"{case.data.distribution}, seed {case.data.seed}"
