"""The application: its commands, imported when they are called, and their errors, one line each.

That line is JSON under --json; the exit code is 2.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ascend_sim.cli import stopping
from ascend_sim.errors import AclnnError, MemoryLimitError, SimError

_CLICK_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""Base class of click's errors, found from typer's, since typer may bring its own click."""


_LONGEST_LINE = 1200
PANELS = {
    "Run": ("run", "run-network", "kernel", "judge", "c", "init"),
    "Understand": ("explain", "report", "compare", "check", "validate"),
    "Optimise": ("tile", "sweep"),
    "Numerics": ("precision", "compare-training", "format"),
    "Reference": ("cases", "networks", "chips", "explain-status"),
}
"""Panel of the help text -> its commands, in order."""
COMMANDS = tuple(name for names in PANELS.values() for name in names)
"""All commands in order; `run-network` is in `cli/run_network.py`, which is imported when it is called."""
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
_USUAL = {
    "run": {"chip", "mode", "cube_math_type", "conformance", "tiling", "l2", "full", "out", "html", "json_output", "help"}
}
"""Command -> options that its help shows first; the others follow under Advanced."""
_EXAMPLES = {
    "html": "page.html", "plot": "figures.png", "heat_map": "figures.png", "pareto_plot": "front.png", "csv_output": "rows.csv",
    "table": "rows.csv", "rows": "op_summary.csv", "out": "out/", "tiling": "best.yaml", "input": "tensors.npz",
    "results": "results.jsonl", "build": "c/", "with_file": "more.cpp", "include": "headers/", "vary": "batch=1,2",
}  # fmt: skip
"""Values for the message of an option that was given none: every path has one."""
_RESULTS = ("--full", "--html", "--plot", "--json", "--csv", "--out")
"""Options that ask for a form of the result; each command has some of them."""
_OUTPUTS = ("bias", "output", "grad_input", "grad_weight", "grad_bias")
"""Names of outputs that a user may give as an option, beside the short ones."""
_RUNS = {"cases": "run", "networks": "run-network"}
"""The command that runs one of those that a command lists."""


class CommandGroup(TyperGroup):
    """The group of all commands; a command's module is imported when it is first asked for.

    A wrong option, an empty value or an unknown command ends in one line (JSON under --json) and exit code 2.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:  # all, so that a near name can be suggested
            if name not in self.commands:
                import_module(f"ascend_sim.cli.{name.replace('-', '_')}")
                self.commands[name] = _command(name)
        command: Any = self.commands.get(cmd_name)  # Typer's kinds, which have panels
        if command is not None:
            _without_types(command.get_params(ctx))
            # Its paragraphs: the lines are those of the code.
            command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
            command.rich_help_panel = _PANEL_OF[cmd_name]
            options: list[Any] = command.get_params(ctx) if cmd_name in _USUAL else []
            for option in options:
                if option.param_type_name == "option" and option.name not in _USUAL[cmd_name]:
                    option.rich_help_panel = "Advanced"
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        return _leave_defaults(_without_types(super().get_params(ctx)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:  # which is completion
            _check_values(command, rest)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(stopping.tell()) from None

    def main(self, *arguments: Any, **settings: Any) -> Any:
        args = arguments[0] if arguments else settings.pop("args", None)
        given = list(sys.argv[1:] if args is None else args)
        if os.environ.get("_ASCEND_SIM_COMPLETE") == "complete_bash":
            from ascend_sim.cli.completing import whole_words

            with whole_words():
                super().main(given, *arguments[1:], **settings)
        try:
            for option, value in pairwise([*given, "--"]):
                if option.startswith("--") and (value == "" or option.endswith("=")):
                    raise typer.BadParameter(f"{option.rstrip('=')}: nothing given; leave the option out to get its default")
            code = super().main(given, *arguments[1:], **{**settings, "standalone_mode": False})
        except _CLICK_ERROR as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                print(error.format_message(), file=sys.stderr, end="")  # empty where the help was printed
                sys.exit(error.exit_code)
            context = getattr(error, "ctx", None)
            text = " ".join(error.format_message().split()).rstrip(".")
            text = _wrong_number(error, text) or text
            if context is not None:
                option, shared = getattr(error, "option_name", None), context.find_root()
                better = [_extra_arguments(context, text)]
                better += [about(context, option) for about in (_missing_result, _output, _field)]
                text = f"{next(filter(None, better), text)}; {context.command_path} --help has more"
                if context is not shared and any(option in one.opts for one in shared.command.params):
                    text = f"{option} stands before the command: ascend-sim {option} ... {context.info_name}"
            if "--json" in given:
                print(json.dumps({"status": None, "error": text}))
            else:
                print(f"ascend-sim: {plain_text(text)}", file=sys.stderr)
            sys.exit(2)
        except typer.Abort:
            sys.exit(1)
        except (Exception, MemoryLimitError) as error:
            ended = error if isinstance(error, (SimError, MemoryLimitError)) else stopping.raised()
            if ended is None:
                raise
            if isinstance(ended, KeyboardInterrupt):  # a library made another error of it
                sys.exit(stopping.tell())
            print(f"ascend-sim: {ended}", file=sys.stderr)  # the limit of memory, where no command has begun
            sys.exit(2)
        sys.exit(code or 0)


def _extra_arguments(context: Any, text: str) -> str:
    """Return a better message for click's error `text` about unexpected extra arguments; "" if `text` is another error.

    It names up to eight options of the command that take a value, or, for a command that lists, the one that runs what it
    lists.
    """
    extra = text.removeprefix("Got unexpected extra argument").partition("(")[2].partition("(")[2].rstrip(")")
    if not text.startswith("Got unexpected extra argument") or not extra:
        return ""
    taken = [one.name.upper() for one in context.command.params if one.param_type_name == "argument"]
    text = f"{context.info_name} takes {' '.join(taken) or 'no argument'}, and {extra} is too much"
    if context.info_name in _RUNS:
        return f"{text}: it lists them; ascend-sim {_RUNS[context.info_name]} {extra} runs one"
    options = [one.opts[0] for one in context.command.params if one.param_type_name == "option" and not one.is_flag]
    return f"{text}; it may belong behind an option: {', '.join(options[:8])}" if options else text


def _wrong_number(error: Any, text: str) -> str:
    """Return a better message for click's error `text` about an option that is no number, or beyond its limits; else ""."""
    kind: Any = getattr(getattr(error, "param", None), "type", None)
    told = re.fullmatch(r"Invalid value for '(.+)': (.+) is not (a valid|in the range) .*", text)
    name = getattr(kind, "name", "").partition(" ")[0]
    if told is None or name not in ("integer", "float"):
        return ""
    limits = {word: getattr(kind, side, None) for word, side in (("from", "min"), ("to", "max"))}
    allowed = "".join(f" {word} {limit:g}" for word, limit in limits.items() if limit is not None)
    return f"{told[1]} is {told[2]}; allowed is a {'whole ' if name == 'integer' else ''}number{allowed}"


def _check_values(command: Any, words: Sequence[str]) -> None:
    """Raise click's error for an option that needs a value but stands last or before another option of the command."""
    options = [one for one in command.params if one.param_type_name == "option"]
    known = {word for one in options for word in (*one.opts, *one.secondary_opts)}
    taking = {word: one for one in options if not (one.is_flag or one.count) for word in one.opts}
    for word, following in pairwise([*words, None]):
        if word in taking and word not in getattr(command, "alone", ()) and (following is None or following in known):
            option = taking[word]
            example = f", for example {word} {_EXAMPLES[option.name]}" if option.name in _EXAMPLES else ""
            raise _CLICK_ERROR(f"{word} needs a value{example}. {option.help}".rstrip("."))


def _missing_result(context: Any, option: str | None) -> str:
    """Return an error that names the command's options for its results, if `option` asks for a form of them that it lacks; else
    "".
    """
    known = {name for one in context.command.params for name in one.opts}
    if option not in _RESULTS or option in known:
        return ""
    results = ", ".join(one for one in _RESULTS if one in known)
    return f"{context.info_name} has no {option}" + (f"; options for its results: {results}" if results else "")


def _output(context: Any, option: str | None) -> str:
    """Return an error that names the options for a number of a result, if `option` is the name of an output and the command is
    `explain`; else "".
    """
    from ascend_sim.options.short_names import full_name  # an error alone needs it

    known = {word for one in context.command.params for word in one.opts}
    if "--element" not in known or option in known or full_name((option or "").lstrip("-").replace("-", "_")) not in _OUTPUTS:
        return ""
    return (
        f"{context.info_name} has no {option}: --element names a number of grad_input or output, --weight one of grad_weight; "
        "a number of grad_bias is the sum of gradOutput over its channel"
    )


def _field(context: Any, option: str | None) -> str:
    """Return an error that says where a field of the call stands, if `option` is one that the command lacks; else "".

    "" also for a command that takes neither a case nor a network.
    """
    from ascend_sim.studies.sweep.fields import is_of_a_call  # an error alone needs it

    known = {name for one in context.command.params for name in (one.name, *one.opts)}
    field = (option or "").removeprefix("--").replace("-", "_")
    if not known & {"case", "network"} or option in known or not is_of_a_call(field):
        return ""
    if "network" in known:
        return f"{context.info_name} has no {option}: its network's file has it; defaults: {{{field}: ...}} sets all layers"
    layer = f", or a layer's address (NETWORK:LAYER:{field}=8)" if field == "batch" else ""
    return (
        f"{context.info_name} has no {option}: it stands in the case{layer}; ascend-sim sweep CASE --vary {field}=... varies it"
    )


def _without_types(options: list[Any]) -> list[Any]:
    """Hide the type of flags in the help, since they take no value; return the same options."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


app = typer.Typer(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Convolution, backward and forward, on a simulated Ascend AI Core: values, cycles, a timeline of every instruction.",
    epilog="Examples:  ascend-sim run resnet50_conv2_3x3 --out out/   |   ascend-sim chips ascend910b3",
)


def _command(name: str) -> Any:
    """Return a new click command for the callback registered in `app` as `name`; its module must have been imported."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.registered_commands = [
        one for one in app.registered_commands if name == (one.name or getattr(one.callback, "__name__", "").replace("_", "-"))
    ]
    command = get_command(alone)
    _leave_defaults(command.params)
    return command


def _leave_defaults(options: list[Any]) -> list[Any]:
    """Make options that are not given skip typer's value conversion, which is slow to set up; return the same options."""
    for option in options:
        if not option.required and not isinstance(option.process_value, partial):
            option.process_value = partial(_if_given, option, option.process_value)
    return options


def _if_given(option: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    if value is not None and value is not option.default:
        return process(context, value)
    return value if option.callback is None else option.callback(context, option, value)


def _choose_engine(engine: str | None) -> None:
    if engine is None:
        return
    from ascend_sim.engine.choice import VARIABLE, chosen_engine

    with errors(False):
        chosen_engine(engine)
    os.environ[VARIABLE] = engine  # worker processes hear of it too


def _limit_memory(gib: str | None) -> None:
    from ascend_sim.host import MEMORY_VARIABLE, memory_limit

    with errors(False):
        memory_limit(gib)
    if gib is not None:
        os.environ[MEMORY_VARIABLE] = gib  # worker processes hear of it too


def _print_version(asked: bool) -> None:
    if not asked:
        return
    from ascend_sim import __version__
    from ascend_sim.engine.choice import working_engine

    with errors(False):
        print(f"ascend-sim {__version__}, engine {working_engine()}")
    raise typer.Exit


@app.callback()
def _whole_program(
    engine: Annotated[
        str | None,
        typer.Option(
            is_eager=True,
            callback=_choose_engine,
            help="What times the programs: auto, simpy or compiled, with the same results (or ASCEND_SIM_ENGINE).",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(
            is_eager=True,
            callback=_limit_memory,
            metavar="GIB",
            help="What a process may hold, in GiB; default: all that this machine has (or ASCEND_SIM_MAX_MEMORY).",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and the engine that runs."),
    ] = False,
) -> None:
    pass


class OptionalValues(TyperCommand):
    """Command with options that may be given without a value, last or before another `--` option; `alone` maps such an option
    to its value then.
    """

    alone: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled = []
        for argument, following in pairwise([*args, "--"]):
            filled.append(argument)
            if argument in self.alone and following.startswith("--"):
                filled.append(self.alone[argument])
        return super().parse_args(ctx, filled)


_MADE: list[list[Path]] = []
"""Folders that `make_folder` created for commands that still run, innermost first in each list."""


@contextmanager
def errors(as_json: bool) -> Iterator[None]:
    """Turn SimError, MemoryLimitError, OSError and MemoryError of the block into one line on stderr (JSON on stdout if
    `as_json`) and `typer.Exit` with code 2. A SimError that is `whole` keeps its lines.

    Other exceptions pass. Folders that `make_folder` created in the block are removed in any case if they are empty.
    """
    made = len(_MADE)
    try:
        yield
    except (SimError, MemoryLimitError, OSError, MemoryError) as error:
        status = error.status if isinstance(error, AclnnError) else None
        text = f"this machine has not enough memory: {error}" if isinstance(error, MemoryError) else str(error)
        if as_json:
            verdict = error.verdict if isinstance(error, SimError) else None
            print(json.dumps({"status": status, "error": text} | ({"verdict": verdict} if verdict else {})))
        else:
            print(f"ascend-sim: {plain_text(text, isinstance(error, SimError) and error.whole)}", file=sys.stderr)
        raise typer.Exit(2) from None
    finally:
        while len(_MADE) > made:
            from ascend_sim.report.files import remove_empty

            remove_empty(_MADE.pop())


def plain_text(text: str, whole: bool = False) -> str:
    """Return `text` for a terminal on one line: control characters and line breaks escaped, its middle cut out above 1200
    characters.

    `whole` keeps line breaks and the full length.
    """
    shown = "".join(one if one.isprintable() or (whole and one == "\n") else repr(one)[1:-1] for one in text)
    if whole or len(shown) <= _LONGEST_LINE:
        return shown
    return f"{shown[: _LONGEST_LINE * 2 // 3]} ... {shown[-_LONGEST_LINE // 3 :]}"


def make_folder(out: Path) -> None:
    """Create the folder of `--out` with its parents. At the end of its block `errors` removes those created here that are
    empty.

    Raises SimError if a file has that name, or if the folder cannot be created or written in.
    """
    from ascend_sim.report import files

    try:
        _MADE.append(files.make_folder(out))
    except SimError as error:
        raise SimError(f"--out {error}") from None
