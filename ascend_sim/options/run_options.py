"""Every option of a run, described once: calls of operators, launches of kernels, and the studies that make them.

`RunOptions` are those of an operator in Python, `CaseOptions` of a function that runs a case, `LaunchOptions` of `launch`.
The other classes are what faces with fewer options have.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from ascend_sim.options.description import Option, Shell, described, of_case

if TYPE_CHECKING:
    from ascend_sim.chip import ChipSpec

MODES = ("full", "functional", "timing")
L2_STATES = ("cold", "warm")
STEP = "step"
"""Value of `l2`: the state of the L2 that the earlier kernels of a training step leave; only a network or a profile has it."""
LAUNCH_STATES = ("cold", "warm")
Conformance = Literal["documented", "library"]
CONFORMANCES: tuple[Conformance, ...] = ("documented", "library")


@described
class ChipOptions(TypedDict, total=False):
    """The option `chip` of functions that take no case."""

    chip: Annotated[
        "str | Path | ChipSpec",
        Option(
            "ascend910b3",
            "a chip's name, the path of a chip file or a ChipSpec",
            "A chip's name, the path of a chip file, or what `load_chip` returned.",
            Shell(("kernel", "compare-training", "run-network"), "Chip name or chip file."),
        ),
    ]


@described
class EngineOptions(TypedDict, total=False):
    """Options for the outcome of a run (values, time or both) and the engine that computes it."""

    mode: Annotated[
        "str",
        Option(
            "full",
            "a text",
            '"full": values and time; "functional": values alone; "timing": time alone, for which tensors need no values.',
            Shell(("run", "kernel"), "full (values and time), functional (values) or timing (time)."),
            choices=MODES,
        ),
    ]
    engine: Annotated[
        "str | None",
        Option(None, "a text or None", '"auto" (as None), "simpy" or "compiled": the same results at another speed.'),
    ]


@described
class TaskOptions(EngineOptions, total=False):
    """Options for running the tasks of one run: progress, limits, observer, timeline."""

    progress: Annotated[
        "Callable[[str, int, int], None] | None",
        Option(
            None,
            "a function or None",
            "A function that is called with the name of a step, how much of it is done, and of how much.",
        ),
    ]
    max_cycles: Annotated[
        "int | None",
        Option(
            None,
            "a whole number from 1, or None",
            "The cycles after which a run is stopped.",
            Shell(("run", "kernel"), "Stop a run that gets longer than this.", least=1),
        ),
    ]
    observer: Annotated[
        "object | None",
        Option(
            None,
            "an object with the methods watch, started and retired, or None",
            'Looks at memory while mode "full" computes values (`ascend_sim.engine.replay.Observer`).',
        ),
    ]
    timeline: Annotated[
        "bool | int",
        Option(
            True,
            "True, False or a number of instructions, 2 or more",
            'False: a run in mode "timing" keeps no instruction, and its report has no waterfall, critical path, what-if and '
            "page; every other figure is the same. A number keeps the timeline of at most that many instructions. It lies "
            "in a temporary file, some 20 bytes an instruction.",
        ),
    ]


@described
class L2Options(TypedDict, total=False):
    """The option `l2`: lines that the L2 holds when a run starts."""

    l2: Annotated[
        "str",
        Option(
            "cold",
            "a text",
            '"cold": the L2 holds nothing when the run starts; "warm": it holds the inputs, as far as they fit; "step", of '
            "networks, their layers and models: what the earlier kernels of the training step left.",
            Shell(
                ("run", "kernel", "run-network"),
                "cold: nothing is in the L2 at the start; warm: the inputs are; step (networks, layers): what the step left.",
            ),
            choices=(*L2_STATES, STEP),
            case=True,
        ),
    ]


@described
class CodeOptions(TypedDict, total=False):
    """The option `launches`: code that the cores' instruction caches hold when a run starts."""

    launches: Annotated[
        "str",
        Option(
            "cold",
            "a text",
            '"cold": other kernels ran before, as in a training step, and each kernel fetches its code unless the call itself '
            'launched it shortly before; "warm": the same call ran just before, as in a benchmark, and left the '
            "code of its last kernels (the chip's launch.kept_launches).",
            Shell(
                ("run", "kernel", "run-network", "tile"),
                "cold: other kernels ran before, and code is fetched; warm: the same call ran just before and left "
                "the code of its last kernels.",
            ),
            choices=LAUNCH_STATES,
            case=True,
        ),
    ]


@described
class CacheOptions(L2Options, CodeOptions, total=False):
    """Options of the state that earlier kernels left: lines of the L2, code in the cores' instruction caches."""


@described
class OverflowOptions(TypedDict, total=False):
    """The option for results beyond the range of a format."""

    overflow: Annotated[
        "str | None",
        Option(
            None,
            "a text or None",
            '"inf_nan" or "saturate"; None: the chip\'s default.',
            Shell(
                ("run", "explain", "precision", "compare-training"),
                "inf_nan or saturate; default: the chip's.",
                completed=("inf_nan", "saturate"),
            ),
        ),
    ]


@described
class ValueOptions(OverflowOptions, total=False):
    """Options that choose the model of the cube's additions and the overflow mode."""

    accumulate: Annotated[
        "str",
        Option(
            "chunk",
            "a text",
            'A model of the cube\'s additions: "blas", "chunk" or "exact_group".',
            Shell(
                ("run", "explain", "compare-training"),
                "Model of the cube's sums: blas, chunk or exact_group.",
                completed=("blas", "chunk", "exact_group"),
            ),
        ),
    ]


@described
class TrainingOptions(ChipOptions, ValueOptions, total=False):
    """The keywords of `ascend_sim.torch.compare_training` that are those of any run."""


@described
class AnyRunOptions(TaskOptions, CacheOptions, ValueOptions, total=False):
    """Options that calls of operators and launches of kernels share."""

    check: Annotated[
        "bool",
        Option(
            False,
            "True or False",
            "Also look for mistakes in the kernels, as `ascend-sim check` does; they are among the findings.",
            Shell(("run",), "Also look for mistakes in the kernels, as `ascend-sim check` does."),
        ),
    ]


@described
class LaunchOptions(ChipOptions, AnyRunOptions, total=False):
    """The keywords of `launch`; a kernel's own keywords cannot have these names."""

    disarm: Annotated[
        "str | Sequence[str]",
        Option(
            (),
            'the name of a flag, or a list of such, like ["L0"]',
            "Flags whose waits are ignored, to see what breaks.",
            Shell(("kernel",), "Ignore this flag's waits, to see what breaks. Repeatable.", many=True),
        ),
    ]
    scalar_cycles_per_word: Annotated[
        "int | None",
        Option(
            None,
            "a whole number from 0, or None",
            "An experiment: cycles of scalar work before each instruction, beside those of its issue.",
            Shell(("kernel",), "An experiment: cycles of scalar work before each instruction, beside its issue.", least=0),
        ),
    ]
    expected: Annotated[
        "Any",
        Option(
            None,
            "",
            "What the outputs must be: an array where there is one output, else arrays by name, or an `Expected` in their "
            "place, or a function of input arrays and numbers by their parameters' names that returns such. The verdict "
            "stands in the report.",
        ),
    ]


@described
class ConformanceOptions(TypedDict, total=False):
    """The option `conformance`, which chooses the operator's rules: documents or released library."""

    conformance: Annotated[
        "str",
        Option(
            "documented",
            "a text",
            'What the operator accepts: "documented" (the operator documents) or "library" (the released library).',
            Shell(
                ("run", "explain", "explain-status", "precision", "run-network", "tile"),
                "documented (the operator documents) or library (the released library).",
            ),
            choices=CONFORMANCES,
            case=True,
        ),
    ]


@described
class LibraryOptions(TypedDict, total=False):
    """The option `library`, which chooses the version of the operator's kernels."""

    library: Annotated[
        "str | None",
        Option(
            None,
            "a text or None",
            "A version of the vendor's kernels; None: the newest of configs/libraries.yaml.",
            Shell(
                ("run", "explain", "explain-status", "precision", "run-network", "tile", "sweep"),
                "Version of the vendor's kernels: 9.0.0, 2026-08; default: the newest.",
            ),
        ),
    ]


@described
class ProfileOptions(ConformanceOptions, LibraryOptions, total=False):
    """Options that choose the operator's rules and the version of its kernels."""


@described
class RuleOptions(ProfileOptions, total=False):
    """Options that choose the operator's rules: those of a profile, and determinism."""

    deterministic: Annotated[
        "bool | None",
        Option(
            None,
            "True, False or None",
            "Whether sums of several cores are added in one order; None: the default of chip and profile.",
            Shell(("run", "explain", "explain-status", "tile"), "Default: of the chip and profile."),
            case=True,
        ),
    ]


@described
class AcceptOptions(RuleOptions, total=False):
    """Options of accepting a call: its rules, and the caller's choices of tiling, blocks and disarmed flags."""

    tiling: Annotated[
        "Mapping[str, Mapping[str, object]] | None",
        Option(
            None,
            'fields per kernel, like {"grad_input": {"baseM": 256}}, or None',
            'Fields of the cube kernels\' tilings, like {"grad_input": {"baseM": 336}}.',
            Shell(
                ("run", "explain"),
                "dX.baseM=256,dW.baseK=64,... or a YAML file with the same fields.",
                read="parse_tiling",
                completed="tiling_fields",
            ),
            case=True,
        ),
    ]
    block_dim: Annotated[
        "int | Mapping[str, int] | None",
        Option(
            None,
            'a whole number, or one per kernel, like {"grad_weight": 32}, or None',
            'Blocks of the cube kernels: a number for all of them, or one per kernel, like {"grad_weight": 32}.',
            Shell(("run",), "Blocks of the cube kernels: 32, or dX=16,dW=32.", read="parse_block_dim"),
            case=True,
        ),
    ]
    disarm: Annotated[
        "Mapping[str, Sequence[str]] | None",
        Option(
            None,
            'flags per kernel, like {"grad_input": ["L0"]}, or None',
            "Flags whose waits are ignored, per kernel, to see what breaks.",
            Shell(
                ("run",),
                "Ignore the waits of KERNEL.FLAG, to see what breaks. Repeatable.",
                many=True,
                read="parse_disarm",
                completed="waits",
            ),
        ),
    ]


@described
class MathOptions(TypedDict, total=False):
    """The option cube_math_type (cubeMathType), which is neither a tensor nor an attribute."""

    cube_math_type: Annotated[
        "int",
        Option(
            0,
            "an integer",
            "The precision of the cube: 0 keep, 1 allow down, 2 fp16, 3 hf32.",
            Shell(("run", "explain", "explain-status", "tile"), "0 keep, 1 allow down, 2 fp16, 3 hf32."),
            case=True,
        ),
    ]


@described
class ChoiceOptions(MathOptions, RuleOptions, total=False):
    """Options by which an operator chooses its kernels itself: cubeMathType and rules, without tiling and blocks."""


@described
class PlanOptions(MathOptions, AcceptOptions, total=False):
    """Options that decide which kernels a call launches, and how: cubeMathType, rules, tiling, blocks, disarmed flags."""


@described
class _CallOptions(PlanOptions, AnyRunOptions, total=False):
    """Options that calls from Python and calls of a case share."""

    probe: Annotated[
        "bool | None",
        Option(
            None,
            "True, False or None",
            "Run the programs again on data on which each product counts, when the report's outputs are looked at; None: "
            "where that is soon done (2^28 products), and beyond where the caller's data may lose one.",
            Shell(
                ("run",),
                "Run the programs again on data on which each product counts; default: small calls, and where data need it.",
            ),
        ),
    ]


@described
class RunOptions(ChipOptions, _CallOptions, total=False):
    """The keywords of an operator in Python: every option of a call."""

    dtypes: Annotated[
        "str | Mapping[str, str] | None",
        Option(
            None,
            'the format of uint8 codes, like "hifloat8", or one per tensor, like {"weight": "hifloat8"}, or None',
            'The format of uint8 codes: "hifloat8" or "float8_e4m3fn" for all tensors, or by tensor.',
        ),
    ]


@of_case
class CaseChipOptions(TypedDict, total=False):
    """The option `chip` of functions that take a case; None means the case's chip."""

    chip: Annotated[
        "str | Path | ChipSpec | None",
        Option(
            None,
            "a chip's name, the path of a chip file or a ChipSpec",
            "A chip's name, the path of a chip file, or what `load_chip` returned; None: the case's.",
            Shell(("run", "explain", "explain-status", "sweep"), "Chip name or chip file; default: the case's."),
        ),
    ]


@of_case
class CaseOptions(CaseChipOptions, _CallOptions, total=False):
    """The keywords of functions that run a case. Options that a case file may set default to None, which means the case's
    value; the others have defaults of their own.
    """


@of_case
class ExplainOptions(CaseChipOptions, PlanOptions, CacheOptions, ValueOptions, total=False):
    """The keywords of `explain`, which runs a case in mode "full"."""


@of_case
class StatusOptions(CaseChipOptions, ChoiceOptions, total=False):
    """The keywords of `explain_status`."""
