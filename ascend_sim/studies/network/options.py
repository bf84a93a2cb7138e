"""Options of runs of a network, each described once (`ascend_sim.options`)."""

from ascend_sim.options.description import described
from ascend_sim.options.run_options import CacheOptions, ChipOptions, ProfileOptions
from ascend_sim.studies.tiles.options import LimitOptions

__all__ = ["NetworkOptions", "TuneOptions"]


@described
class NetworkOptions(ChipOptions, ProfileOptions, CacheOptions, total=False):
    """The keywords of `run_network` that are those of any run."""


@described
class TuneOptions(ChipOptions, ProfileOptions, LimitOptions, total=False):
    """The keywords of `tune` that are those of runs and of searches."""
