"""Options of a table of precisions, each described once (`ascend_sim.options`)."""

from collections.abc import Sequence
from typing import Annotated

from ascend_sim.options.description import Option, Shell, of_case
from ascend_sim.options.run_options import OverflowOptions, ProfileOptions


@of_case
class PrecisionOptions(ProfileOptions, OverflowOptions, total=False):
    """Keywords of `precision` of each of its rows: conformance and library, overflow, the models of additions, the probe."""

    accumulate: Annotated[
        "str | Sequence[str]",
        Option(
            "chunk",
            "a text, or a list of texts",
            'A model of the cube\'s additions ("blas", "chunk", "exact_group"), several, or "all".',
            Shell(
                ("precision",),
                "Models of the cube's sums: blas, chunk, exact_group, several with commas, or all.",
                read="parse_models",
                completed=("blas", "chunk", "exact_group", "all"),
            ),
        ),
    ]
    probe: Annotated[
        "bool",
        Option(
            False,
            "True or False",
            "Run each row's programs again on data on which each product counts.",
            Shell(("precision",), "Run each row's programs again on data on which each product counts."),
        ),
    ]
