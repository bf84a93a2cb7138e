"""commands.md and python.md: every command and every name at the top of the package, from the code."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.main import get_command

import ascend_sim
from ascend_sim.cli import app


def write(pages: Path) -> None:
    """Both pages."""
    (pages / "commands.md").write_text(commands(), encoding="utf-8")
    (pages / "python.md").write_text(names(), encoding="utf-8")


def commands() -> str:
    """A section for each command: what it does, its arguments and options with their defaults, an example."""
    program: Any = get_command(app)
    context = typer.Context(program)
    parts = ["# Commands\n", "Made from the code, as `ascend-sim COMMAND --help` prints it.\n"]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        hints = get_type_hints(command.callback)
        parts += [f"## {name}\n", f"{inspect.cleandoc(command.help or '')}\n"]
        if command.epilog:
            parts.append("".join(f"    {line.strip()}\n" for line in _examples(command.epilog)))
        parts += ["| | takes | default | |", "|---|---|---|---|"]
        for one in command.params:
            if one.name == "help":
                continue
            argument = one.param_type_name == "argument"
            shown = (one.metavar or one.name).upper() if argument else "`, `".join([*one.opts, *one.secondary_opts])
            takes = "" if getattr(one, "is_flag", False) else _takes(hints[one.name])
            default = "required" if one.required else _default(one.default)
            parts.append(f"| `{shown}` | {takes} | {default} | {_cell(one.help or '')} |")
        parts.append("")
    return "\n".join(parts)


def _takes(kind: Any) -> str:
    """The type of a parameter in words."""
    kinds = [one for one in get_args(kind) if one is not type(None)] if get_origin(kind) in (Union, UnionType) else [kind]
    if get_origin(kinds[0]) is list:
        return f"{_takes(get_args(kinds[0])[0])}, again for more"
    return {str: "text", int: "a whole number", float: "a number", Path: "a path", bool: ""}[kinds[0]]


def _examples(epilog: str) -> list[str]:
    return epilog.partition(":")[2].split("   |   ")


def _default(value: Any) -> str:
    plain = value is None or value is False or callable(value) or value == "" or value == ()
    return "" if plain else f"`{str(value).lower() if value is True else value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def names() -> str:
    """A section for each name: how it is called, and its docstring."""
    parts = ["# Python\n", "Every name at the top of `ascend_sim`, from the code; `ascend_sim.torch` has a [page](torch.md).\n"]
    for name in ascend_sim.__all__:
        one = getattr(ascend_sim, name)
        parts.append(f"## {name}\n")
        parts.append(f"```python\n{_call(name, one)}\n```\n")
        parts.append(f"```text\n{inspect.cleandoc(one.__doc__ or '')}\n```\n")
    return "\n".join(parts)


def _call(name: str, one: Any) -> str:
    try:
        signature = str(inspect.signature(one)).replace("'", "")
    except (TypeError, ValueError):
        return f"class {name}" if inspect.isclass(one) else name
    flat = f"{name}{signature}"
    return flat if len(flat) < 100 else flat.replace(", ", ",\n    ").replace("(", "(\n    ", 1)
