"""A call of an operator as a case, which commands and `run_case` take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ascend_sim.chip import ChipSpec, chip_names, load_chip
from ascend_sim.errors import SimError
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.operator import Operator
from ascend_sim.options.description import options_in
from ascend_sim.options.run_options import STEP, RunOptions


def ships(chip: ChipSpec) -> bool:
    """Return True if the package has this chip, unchanged, under its name."""
    return chip.name in chip_names() and load_chip(chip.name) == chip


def case_of(
    operator: Operator[Any, Any],
    tensors: Mapping[str, Any],
    attributes: Mapping[str, Any],
    options: Mapping[str, Any],
    chip: ChipSpec,
) -> Case:
    """Return a call as a Case with contiguous tensors, the options that a case may have (others are dropped), and the chip if
    it `ships`; else the case has the default chip.

    `tensors` have a shape and a dtype; those of None, and attributes of None, are left out. A call in a training step
    (`l2="step"`) becomes one with a cold L2. Raises SimError if no case can express the call.
    """
    entries: dict[str, Any] = {"operator": operator.name}
    for name, spec in tensors.items():
        if spec is not None:
            entries[name] = {"shape": tuple(spec.shape), "dtype": spec.dtype}
    entries |= {name: value for name, value in attributes.items() if value is not None}
    for name, _, option in options_in(RunOptions):
        if option.case and options.get(name) not in (None, STEP):
            entries[name] = options[name]
    if ships(chip):
        entries["chip"] = chip.name
    try:
        case: Case = operator.case.model_validate(entries)
    except ValidationError as error:
        raise SimError(f"no case can express this call ({error.errors()[0]['msg']})") from None
    return case
