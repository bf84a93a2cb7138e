"""Options of runs of a network, each described once (`ascend_sim.options`)."""

from ascend_sim.options.description import described
from ascend_sim.options.run_options import CacheOptions, ChipOptions, ProfileOptions
from ascend_sim.studies.tiles.options import LimitOptions


@described
class NetworkOptions(ChipOptions, ProfileOptions, CacheOptions, total=False):
    """Keywords that `run_network` shares with every run: chip, conformance and library, states of L2 and launches."""


@described
class TuneOptions(ChipOptions, ProfileOptions, LimitOptions, total=False):
    """Keywords that `tune` shares with runs and searches: chip, conformance and library, limits of a search."""
