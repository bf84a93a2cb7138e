"""Shell completion: names that ship with the package, and YAML files and folders beside them.

Names are listed from folders, without importing what reads them: a shell asks at every press of the tab key. Layers of a
network, tiling fields and fields of a sweep are read when a text has come so far.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import typer

from ascend_sim.errors import SimError

Complete = Callable[[str], list[str]]

_FAMILY = "dav-"
"""Prefix of chip files that only other chip files extend; they are not offered."""
_VENDOR = "ascend"
_BREAKS = ":="


@contextmanager
def whole_words() -> Iterator[None]:
    """Join the words of COMP_WORDS, which bash divides at colons and equals signs; print only the part of each completion
    behind the last one.

    COMP_WORDS and COMP_CWORD stay changed, and the block's output is held until its end. Bash puts a completion in behind such
    a sign, as it stands: blanks are escaped.
    """
    words, at = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", 0))
    joined: list[str] = []
    kept = ""
    for index, word in enumerate(words):
        breaks = bool(word) and not word.strip(_BREAKS)
        goes_on = bool(joined and word) and (breaks or joined[-1][-1:] in (*_BREAKS,))
        if index == at:
            kept = joined[-1] + breaks * word if goes_on else ""
            os.environ["COMP_CWORD"] = str(len(joined) - goes_on)
        joined[len(joined) - goes_on :] = [f"{joined[-1]}{word}" if goes_on else word]
    os.environ["COMP_WORDS"] = "\n".join(joined)
    kept = kept.partition("=")[2] if kept.startswith("--") else kept
    found = io.StringIO()
    try:
        with redirect_stdout(found):
            yield
    finally:
        print(*(one.removeprefix(kept).replace(" ", "\\ ") for one in found.getvalue().splitlines()), sep="\n")


def _beginning(names: Iterable[str], typed: str) -> list[str]:
    return [one for one in names if one.startswith(typed)]


def _shipped(folder: str) -> list[str]:
    """Return the sorted names, without ending, of the YAML files in a folder of configs; families of chips are left out."""
    names = [one.name for one in files("ascend_sim.configs").joinpath(folder).iterdir()]
    return sorted(one.removesuffix(".yaml") for one in names if one.endswith(".yaml") and not one.startswith(_FAMILY))


def _chips(incomplete: str) -> list[str]:
    """Return the shipped chips that begin with the text, any case, with or without "ascend"; the text's own letters stay as
    typed.
    """
    typed = incomplete.lower()
    names = _shipped("chips")
    forms = [*names, *(one.removeprefix(_VENDOR) for one in names if typed)]
    return [incomplete + one[len(typed) :] for one in _beginning(forms, typed)]


def _layers(incomplete: str) -> list[str]:
    """Return NETWORK:LAYER for the layers of the network (shipped, or a file) before the first colon; before a colon NETWORK:
    for each shipped network.
    """
    network, colon, layer = incomplete.partition(":")
    if not colon:
        return [f"{one}:" for one in _beginning(_shipped("networks"), incomplete)]
    from ascend_sim.shipped import load_shipped

    shipped = network in _shipped("networks")
    path = files("ascend_sim.configs").joinpath("networks", f"{network}.yaml") if shipped else Path(network)
    try:
        entries = load_shipped(path.read_text(encoding="utf-8"))["layers"]
        names = [str(one["name"]) for one in entries]
    except Exception:  # no file, no network, or a broken one: the command says so
        return []
    return [f"{network}:{one}" for one in _beginning(names, layer)]


def _completer(*kinds: str, endings: tuple[str, ...] = (".yaml",)) -> Complete:
    """Return a completion function: shipped names of these kinds ("cases", "chips", "networks", "layers"), then local files
    with one of the endings and folders.
    """
    own: dict[str, Complete] = {"chips": _chips, "layers": _layers}

    def complete(incomplete: str) -> list[str]:
        found: list[str] = []
        for kind in kinds:
            found += own[kind](incomplete) if kind in own else _beginning(_shipped(kind), incomplete)
        return [*found, *_beside(incomplete, endings)]

    return complete


def among(choices: tuple[str, ...]) -> Complete:
    """Return a completion function that offers those of `choices` that begin with the typed text."""
    return lambda incomplete: _beginning(choices, incomplete)


def several(choices: tuple[str, ...] | Complete) -> Complete:
    """Return a completion function for a list with commas, which completes its last part among those of `choices` that it
    lacks.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        found = choices(last) if callable(choices) else _beginning(choices, last)
        return [f"{before}{comma}{one}" for one in found if one not in before.split(",")]

    return complete


def tiling_fields(incomplete: str) -> list[str]:
    """Return completions of a --tiling text KERNEL.FIELD=VALUE,...: kernels up to the dot, then the kernel's fields by the
    vendor's names.

    Only the part behind the last comma is completed; the first part may also be a YAML file.
    """
    from ascend_sim.ops.kernels.tilings import TILINGS
    from ascend_sim.options.short_names import SHORT_NAMES, full_name

    before, comma, last = incomplete.rpartition(",")
    kernel, dot, _ = last.partition(".")
    if not dot:
        kernels = (*TILINGS, *(short for short, name in SHORT_NAMES.items() if name in TILINGS))
        found = [f"{one}." for one in kernels if one.startswith(last)]
        return [f"{before}{comma}{one}" for one in found] + ([] if comma else _beside(incomplete, (".yaml",)))
    tiling = TILINGS.get(full_name(kernel))
    fields = [] if tiling is None else [name for ours, name in tiling.VENDOR.items() if ours not in tiling.DERIVED]
    return [f"{before}{comma}{one}" for one in (f"{kernel}.{field}=" for field in fields) if one.startswith(last)]


def varied_fields(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of FIELD=VALUES of a sweep: a field's name up to its next dot; behind the equals sign the values of a
    field that has names for them.

    The case on the command line ("strided" without one) says which fields there are; [] for a wrong one.
    """
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case
    from ascend_sim.options.short_names import SHORT_NAMES
    from ascend_sim.studies.sweep.fields import case_fields, known_fields

    name, equals, values = incomplete.partition("=")
    try:
        case = load_case(_case_of(ctx))
        chip = load_chip(ctx.params.get("chip") or case.chip)
    except SimError:  # the command says so
        return []
    if not equals:
        before, comma, last = name.rpartition(",")
        names = known_fields(case, chip)
        shorts = [(f"{short}.", f"{full}.") for short, full in SHORT_NAMES.items()]
        names += [one.replace(full, short, 1) for one in names for short, full in shorts if one.startswith(full)]
        known = [one[len(last) :] for one in names if one.startswith(last)]
        steps = dict.fromkeys(f"{step}{dot or '='}" for step, dot, _ in (one.partition(".") for one in known))
        return [f"{before}{comma}{last}{step}" for step in steps]
    if name == "chip":
        words: tuple[str, ...] | Complete = _chips
    else:
        annotation = case_fields(type(case)).get(name)
        words = ("true", "false") if "bool" in str(annotation).lower() else tuple(_texts_of(annotation))
    return [f"{name}={one}" for one in several(words)(values)]


def _case_of(ctx: typer.Context) -> str:
    """Return the case on the command line, "strided" without one; click leaves words before an option without
    its value unread.
    """
    return ctx.params.get("case") or next(iter(ctx.args), "strided")


def waits(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of KERNEL.FLAG of a case's call: its kernels up to the dot, then the flags of that kernel's first
    block; [] for a wrong case.
    """
    from ascend_sim.calls.checks import tasks_of_call
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case

    kernel, dot, _ = incomplete.partition(".")
    try:
        case = load_case(_case_of(ctx))
        tasks = tasks_of_call(case, load_chip(ctx.params.get("chip") or case.chip))[1]
    except SimError:  # the command says so
        return []
    if not dot:
        return _beginning([f"{task.name}." for task in tasks], incomplete)
    programs = [program for task in tasks if task.name == kernel for program in task.build(0)]
    return _beginning(sorted({f"{kernel}.{flag}" for program in programs for flag in program.flag_names()}), incomplete)


def formats(incomplete: str) -> list[str]:
    """Return the names of number formats that begin with the typed text, other names of a format included; without a text its
    main names alone.
    """
    from ascend_sim.numerics.formats import FORMATS

    names = [name for entry in FORMATS.values() for name in (entry.name, *entry.aliases)]
    return _beginning(names if incomplete else FORMATS, incomplete)


def _texts_of(annotation: Any) -> Iterable[str]:
    """Yield the texts of the Literals in an annotation."""
    for one in get_args(annotation):
        if isinstance(one, str):
            yield one
        else:
            yield from _texts_of(one)


def _beside(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    """Return local files with one of the endings, and folders (with a slash), whose path begins with `incomplete`; hidden ones
    only once their dot is typed.
    """
    head, slash, tail = incomplete.rpartition("/")
    try:
        found = sorted(Path(head + slash or ".").iterdir())
    except OSError:
        return []
    shown = [one for one in found if one.name.startswith(tail) and (tail or not one.name.startswith("."))]
    return [f"{head}{slash}{one.name}{'/' if one.is_dir() else ''}" for one in shown if one.is_dir() or one.suffix in endings]


CASES = _completer("cases", "layers")
CHIPS = _completer("chips")
NETWORKS = _completer("networks")
RUNS = _completer("cases", "layers", "chips", endings=(".yaml", ".npz"))
"""Completion of the arguments of `compare`: cases, chips, tilings, folders and timelines of runs."""
SUBJECTS = _completer("cases", "layers", endings=(".yaml", ".py", ".cpp"))
"""Completion of the argument of `check`: cases, files of kernels and folders."""
SEVERAL_CHIPS = several(_chips)
"""Completion of a list of chips."""
KERNELS = among(("grad_input", "grad_weight", "dX", "dW"))
"""Completion of the kernels that `tile` searches."""
TOOLS = among(("memcheck", "racecheck", "initcheck", "synccheck"))
"""Completion of the tools of `check`."""
INPUTS = among(("uniform", "normal", "relu", "wide", "ones", "adversarial"))
"""Completion of the distributions of `precision --inputs`."""
PRECISIONS = several(("fp32", "hf32", "fp16", "bf16", "hifloat8"))
"""Completion of the precisions of a training."""
