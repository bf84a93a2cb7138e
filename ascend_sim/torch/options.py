"""Options of `ascend_sim.torch.simulate`, each described once (`ascend_sim.options`)."""

from typing import Annotated

from ascend_sim.options.description import Option, described
from ascend_sim.options.run_options import STEP, CacheOptions, ChipOptions, ChoiceOptions, EngineOptions, ValueOptions


@described
class SimulateOptions(ChipOptions, EngineOptions, ChoiceOptions, CacheOptions, ValueOptions, total=False):
    """The keywords of `simulate`, with defaults and descriptions."""

    values: Annotated[
        "str",
        Option(
            "torch",
            "a text",
            'Whose outputs of convolutions and of their gradients PyTorch goes on with: its own ("torch"), or the chip\'s '
            '("chip").',
            choices=("torch", "chip"),
        ),
    ]
    forward: Annotated["bool", Option(True, "True or False", "Whether forward convolutions run on the chip too.")]
    matmul: Annotated[
        "bool", Option(True, "True or False", "Whether matrix products (of Linear layers and the like) are timed too.")
    ]
    strict: Annotated[
        "bool", Option(False, "True or False", "Raise where the operator refuses a call, which is else a row with its status.")
    ]
    jobs: Annotated[
        "int",
        Option(
            1,
            "a whole number from 1",
            'Processes that share the simulations in mode "timing"; a script must then guard its start with '
            '`if __name__ == "__main__"`.',
        ),
    ]


def alone(options: SimulateOptions) -> SimulateOptions:
    """Return the options for a call that runs alone: `l2="step"` becomes "cold", since there is no step before it."""
    return SimulateOptions(**{**options, "l2": "cold"}) if options["l2"] == STEP else options
