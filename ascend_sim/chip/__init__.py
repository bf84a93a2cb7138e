"""Chips: YAML files with a source for every number, checked and loaded as `ChipSpec`."""

from ascend_sim.chip.leaf import Source
from ascend_sim.chip.sections import Path
from ascend_sim.chip.spec import ChipSpec, chip_names, chip_of, load_chip, shipped_name

__all__ = ["ChipSpec", "Path", "Source", "chip_names", "chip_of", "load_chip", "shipped_name"]
