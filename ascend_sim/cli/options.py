"""Commands from functions, with options that are described once.

    @command(epilog="Example: ...")
    def run(case: Case, asked: CaseOptions, files: RunFiles) -> None: ...

A parameter whose type is a class of options (`ascend_sim.options`) stands for those of its options whose `Shell` names the
command; it gets what was given, read from the text. A parameter whose type is a dataclass stands for its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints, is_typeddict

import typer

from ascend_sim.cli import completing, values
from ascend_sim.cli.app import OptionalValues, app, errors
from ascend_sim.cli.completing import CASES, CHIPS, among
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.options.description import Described, Shell, options_in

Function = TypeVar("Function", bound=Callable[..., Any])

Case = Annotated[
    str,
    typer.Argument(
        help="A case file (.yaml), the name of a shipped case, or a layer of a network: NETWORK:LAYER.", autocompletion=CASES
    ),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each CPU.")]


@frozen
class Printed:
    """Options of a command that compares figures: JSON, CSV or a table, and a picture."""

    json_output: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False
    csv_output: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False
    plot: Annotated[Path | None, typer.Option(help="Draw the figures to this PNG file.")] = None

    def check(self) -> None:
        """Raise SimError, before the work, if --json and --csv were both given, and for --plot as `check_png`."""
        if self.json_output and self.csv_output:
            raise SimError("--json and --csv: give only one of them")
        if self.plot is not None:
            from ascend_sim.report.png import check_png

            check_png(self.plot)


def command(name: str | None = None, alone: Mapping[str, str] = {}, **settings: Any) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as command `name` (default: the function's, with dashes).

    A parameter whose type is a class of options becomes one option for each field, or each option in it that names this
    command. `alone` maps an option that may be given without a value to the value that it then gets; `settings` are those of
    `typer.Typer.command`. The decorated function takes these options as keywords, not the classes.
    """

    def decorate(function: Function) -> Function:
        own, kind = name or function.__name__.replace("_", "-"), type("Command", (OptionalValues,), {"alone": alone})
        return app.command(own, cls=kind, **settings)(_spread(function, own))

    return decorate


def _spread(function: Function, command: str) -> Function:
    """Return a function for typer: in place of an option class it has a parameter for each of its options that `command` has.

    Called, it collects the values into these classes again and calls `function`; a value that cannot be read ends the command
    with code 2.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[Parameter] = []
    groups: list[tuple[str, list[str], Callable[[dict[str, Any]], Any]]] = []
    for one in signature(function).parameters.values():
        kind = hints[one.name]
        made = [one.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)]
        if is_typeddict(kind) or is_dataclass(kind):
            if is_typeddict(kind):
                told = [(option, option.option.shell) for option in options_in(kind)]
                described = [(option, shell) for option, shell in told if shell is not None and command in shell.commands]
                made, make = list(map(_parameter, described)), partial(_read, described)
            else:
                own = get_type_hints(kind, include_extras=True)
                made, make = [_field(field, own[field.name]) for field in fields(kind)], partial(_made, kind)
            groups.append((one.name, [parameter.name for parameter in made], make))
        parameters += made

    @wraps(function)
    def run(**given: Any) -> Any:
        with errors(bool(given.get("json_output"))):
            taken = {group: make({name: given.pop(name) for name in names}) for group, names, make in groups}
        return function(**given, **taken)

    run.__signature__ = signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]  # typer would look through it
    return run  # type: ignore[return-value]


def _field(one: Any, annotation: Any) -> Parameter:
    """Return a keyword-only parameter with the name and default of a dataclass field (a field without one is required); typer
    reads flag and help from `annotation`.
    """
    default = Parameter.empty if one.default is MISSING else one.default
    return Parameter(one.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _made(kind: Any, given: dict[str, Any]) -> Any:
    return kind(**given)


def _parameter(described: tuple[Described, Shell]) -> Parameter:
    """Return the typer parameter of a described option: its flag, type, default, help text, limits and completion."""
    (name, text, option), shell = one, _ = described
    kind: Any = list[str] if shell.many else _TYPES.get(text.removesuffix(" | None"), str)
    default = shell.default or (option.default or None if kind not in _TYPES.values() else option.default)
    told = typer.Option(
        *([one.flag] if shell.name or default is False else []),
        help=shell.words,
        min=shell.least,
        max=shell.most,
        autocompletion=CHIPS if name == "chip" else _completer(shell, option.choices),
    )
    annotation: Any = Annotated[kind if default is not None else kind | None, told]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _completer(shell: Shell, choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    """Return the completion function for an option's value: named in `shell`, or among known choices; else None."""
    if isinstance(shell.completed, str):
        return getattr(completing, shell.completed)  # type: ignore[no-any-return]
    known = choices or shell.completed
    return among(known) if known else None


_TYPES = {"str": str, "int": int, "float": float, "bool": bool}
"""Option types that the shell parses itself; values of other types arrive as text."""


def _read(described: list[tuple[Described, Shell]], given: dict[str, Any]) -> dict[str, Any]:
    """Return {option: value} of the options that are not None, defaults too; texts are parsed by the reader that `Shell.read`
    names.

    Raises SimError for empty text, and as the readers.
    """
    found = {}
    for one, shell in described:
        value = given[one.name]
        if isinstance(value, str) and not value.strip():
            raise SimError(f"{one.flag}: nothing given; leave the option out to get its default")
        if value is not None:
            found[one.name] = getattr(values, shell.read)(value) if shell.read else value
    return found
