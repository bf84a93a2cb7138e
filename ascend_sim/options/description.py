"""Descriptions of options, and their use in Python; `ascend_sim.cli.options` uses them for the shell."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from ascend_sim.errors import SimError
from ascend_sim.keywords import check_keywords

Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options", bound=Mapping[str, Any])
Class = TypeVar("Class", bound=type)


class Shell(NamedTuple):
    """Description of an option on the command line: its commands, its help and its name there.

    `least` and `most` limit a number; `many`: the option may be given more than once. `read` names the function of
    `ascend_sim.cli.values` that makes the value from the text. `completed` are values that a shell completes if the
    option has no `choices`, or the name of a function of `ascend_sim.cli.completing`. `default` stands in place of the
    option's own.
    """

    commands: tuple[str, ...]
    words: str
    least: float | None = None
    most: float | None = None
    many: bool = False
    read: str = ""
    name: str = ""
    completed: tuple[str, ...] | str = ()
    default: Any = None


class Option(NamedTuple):
    """Description of an option beside its name and type; `words` is its help text, `shell` its form on the command line (None:
    not there).

    `kind` names in errors what the option must be (`ascend_sim.settings` has the test for it); `choices` are all values that a
    text may have. `case` marks an option that a case file may set: in functions that take a case, None means the case's.
    """

    default: Any
    kind: str
    words: str
    shell: Shell | None = None
    choices: tuple[str, ...] = ()
    case: bool = False


class Described(NamedTuple):
    """One option of a class: its name, the text of its type, and its description."""

    name: str
    type: str
    option: Option

    @property
    def flag(self) -> str:
        """Return the option's name on the command line, such as `--cube-math-type`."""
        shell = self.option.shell
        return f"--{((shell and shell.name) or self.name).replace('_', '-')}"


@dataclass_transform(kw_only_default=True)
def described(options: Class) -> Class:
    """Return the class of options unchanged; the decorator makes editors that only read source (Jedi) complete its keywords."""
    return options


@dataclass_transform(kw_only_default=True)
def of_case(options: Class) -> Class:
    """Mark a class of options, in place, for functions that take a case, and return it: options that a case file may set then
    default to None, which means the case's value.
    """
    options._of_case = True  # type: ignore[attr-defined]
    return options


def options_in(options: type) -> Iterator[Described]:
    """Yield each option of a class, in order, with its name and type; a case's options default to None in a class `of_case`."""
    cased = getattr(options, "_of_case", False)
    for name, annotation in options.__annotations__.items():
        (option,) = annotation.__metadata__
        text = annotation.__origin__.__forward_arg__
        if cased and option.case and option.default is not None:
            text, option = f"{text} | None", option._replace(default=None)
        yield Described(name, text, option)


def names_of(options: type) -> frozenset[str]:
    """Return the names of all options of a class, inherited ones included."""
    return frozenset(options.__annotations__)


def filled(options: type[Options], given: Mapping[str, Any]) -> Options:
    """Return every option of a class with its value in `given`, or its default; other names in `given` are dropped."""
    return {one.name: given.get(one.name, one.option.default) for one in options_in(options)}  # type: ignore[return-value]


def check_choices(options: type, given: Mapping[str, Any]) -> None:
    """Raise SimError for the first text value that is not among its option's choices."""
    for name, _, option in options_in(options):
        if option.choices and name in given and given[name] not in option.choices:
            raise SimError(f"{name} {given[name]!r}: allowed are {listed(option.choices)}")


def listed(choices: Sequence[str]) -> str:
    """Return names joined for an error message: "a and b" for two, else commas between them."""
    return (" and " if len(choices) == 2 else ", ").join(choices)


def with_options(options: type, rest: str = "", **defaults: Any) -> Callable[[Function], Function]:
    """Return a decorator for a function whose `**` takes these options: they appear in its signature and docstring.

    The function gets all of them, with a default for each left out (`defaults` replace the described ones). Another keyword
    raises TypeError, unless `rest` names such further keywords.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        all_of_it = [
            one._replace(option=one.option._replace(default=defaults.get(one.name, one.option.default)))
            for one in options_in(options)
        ]
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        added = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.option.default, annotation=one.type)
            for one in all_of_it
        ]
        last = [inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD, annotation="Any")] if rest else []
        left_out = {one.name: one.option.default for one in all_of_it}
        known = {one.name for one in own} | set(left_out)

        @wraps(function)
        def face(*given: Any, **named: Any) -> Any:
            check_keywords(function.__name__, () if rest else named, known)
            return function(*given, **{**left_out, **named})

        face.__signature__ = signature.replace(parameters=[*own, *added, *last])  # type: ignore[attr-defined]
        told = [f"    {one.name}: {one.option.words}" for one in all_of_it]
        face.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *told])
        return face  # type: ignore[return-value]

    return decorate
