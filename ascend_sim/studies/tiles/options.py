"""Options of a search for tilings, each described once (`ascend_sim.options`)."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from ascend_sim.options.description import Option, Shell, described, of_case
from ascend_sim.options.run_options import ChoiceOptions, CodeOptions

IN_CALL = "call"
L2_OF_KERNEL = (IN_CALL, "cold", "warm")
"""States of the L2 in which a kernel can be tried."""


@described
class LimitOptions(TypedDict, total=False):
    """Options of a search that limit its simulations, its time, its precision and the number of results."""

    limit: Annotated[
        "int | None",
        Option(
            None,
            "a whole number from 0, or None",
            "New simulations after which no further one begins, for each kernel.",
            Shell(("tile",), "New simulations at most, for each kernel.", least=0),
        ),
    ]
    seconds: Annotated[
        "float | None",
        Option(
            None,
            "a number, or None",
            "Seconds after which the search of a kernel ends; the simulator's own choice is simulated in any case.",
            Shell(
                ("tile",),
                "Seconds at most, for each kernel, or inf; its own choice is always simulated.",
                least=0,
                name="time-limit",
                default=20.0,
            ),
        ),
    ]
    within: Annotated[
        "float",
        Option(
            0.0,
            "a number",
            "A share, 0.01 for 1 %: tilings that can be better by less are left out.",
            Shell(("tile",), "Leave out what can be better by less than this many per cent.", 0, 100, read="parse_share"),
        ),
    ]
    top: Annotated[
        "int | None",
        Option(
            None,
            "a whole number from 1, or None",
            "Tilings that are measured to their end; a slower one is stopped when that is known. None: all.",
        ),
    ]


@of_case
class SearchOptions(ChoiceOptions, CodeOptions, LimitOptions, total=False):
    """Keywords of `search_tilings`: limits, fixed fields, state of the L2, and the case's own options."""

    fields: Annotated[
        "Sequence[str]",
        Option(
            (),
            "a list of texts",
            'Fields that are fixed: "baseM=256", "grad_input.baseM=256".',
            Shell(
                ("tile",),
                "Fix a field: baseM=256, or dX.baseM=256; again for more.",
                many=True,
                name="field",
                completed="tiling_fields",
            ),
        ),
    ]
    l2: Annotated[
        "str",
        Option(
            IN_CALL,
            "a text",
            '"call": the kernel finds the L2 as the kernels before it in the call leave it. Alone: "warm", with its operands '
            'in the L2; "cold", with nothing there.',
            Shell(
                ("tile",), "call: the L2 as the kernels before it in the call leave it. Alone: warm, with its operands; cold."
            ),
            choices=L2_OF_KERNEL,
        ),
    ]
