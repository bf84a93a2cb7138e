"""Options of a sweep, each described once (`ascend_sim.options`)."""

from typing import Annotated

from ascend_sim.options.description import Option, Shell, of_case
from ascend_sim.options.run_options import CaseChipOptions, LibraryOptions


@of_case
class SweepOptions(CaseChipOptions, LibraryOptions, total=False):
    """Keywords of `sweep` that each of its points runs with: chip, library, mode, search of tilings."""

    mode: Annotated[
        "str",
        Option(
            "timing",
            "a text",
            '"timing", or "full": with values and errors.',
            Shell(("sweep",), "timing, or full: with values and errors."),
            choices=("timing", "full"),
        ),
    ]
    tile: Annotated[
        "bool",
        Option(
            False,
            "True or False",
            "Search the tilings of the cube kernels at every point, as `search_tilings` does, with few simulations each.",
            Shell(("sweep",), "Search the tilings of the cube kernels at every point, as `tile` does."),
        ),
    ]
