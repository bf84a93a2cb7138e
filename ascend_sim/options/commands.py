"""Commands that go on from a run with the settings of that run: for the shell, or lines of Python.

commands = ShellCommands("my.yaml", {"deterministic": True}, {"deterministic": True}, ("grad_input",))
commands.run({"block_dim": {"grad_input": 8}})   # ascend-sim run my.yaml --block-dim grad_input=8 --deterministic
commands.tile("grad_input"), commands.sweep("batch", [32, 64])
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ascend_sim.frozen import frozen
from ascend_sim.options.description import Described, names_of, options_in
from ascend_sim.options.run_options import STEP, CacheOptions, LibraryOptions, PlanOptions, RunOptions
from ascend_sim.options.short_names import with_full_names

_TIMES = names_of(PlanOptions) | names_of(CacheOptions)
"""Options that change a call's times; all others change its values, or the work of the simulator."""

_OF_SWEEP = names_of(LibraryOptions) | {"chip"}
"""Options that a sweep takes itself; it has fields for those of a case."""


def changed(options: Mapping[str, Any], change: Mapping[str, Any], kernels: Sequence[str]) -> dict[str, Any]:
    """Return the options of a call with those of `change`. Its tiling fields and blocks, by full names of kernels, join those
    that `options` has for other fields and kernels; a bare number of blocks in `options` is that of each of `kernels`.
    """
    found = {**options, **change}
    if "tiling" in change:
        own = with_full_names("tiling", options.get("tiling") or {})
        found["tiling"] = own | {kernel: {**own.get(kernel, {}), **fields} for kernel, fields in change["tiling"].items()}
    if "block_dim" in change:
        blocks = options.get("block_dim") or {}
        own = with_full_names("block_dim", blocks if isinstance(blocks, Mapping) else dict.fromkeys(kernels, blocks))
        found["block_dim"] = own | change["block_dim"]
    return found


class Commands(Protocol):
    """Interface of the ways to go on from a run; each method returns "" where there is no such command."""

    @property
    def name(self) -> str:
        """Return the name of the call in a summary; "" for none."""

    def run(self, change: Mapping[str, Any]) -> str:
        """Return the command that runs the call again with a change of its options."""

    def tile(self, kernel: str) -> str:
        """Return the command that searches the tilings of a cube kernel."""

    def sweep(self, field: str, values: Sequence[int]) -> str:
        """Return the command that runs the call with each value of a field."""


@frozen
class ShellCommands:
    """Commands of the shell on a case: `given` are the options that its run was given, `whole` also those of the case, `values`
    the file of its tensors ("": its own), `kernels` the names of its cube kernels. `at_batch` is what stands before and behind
    a batch in the address of a layer.

    A search chooses tilings and blocks itself, so its command names none. Where `l2` is "step", a sweep of a layer's batch is a
    run with the last batch instead.
    """

    name: str
    given: Mapping[str, Any]
    whole: Mapping[str, Any]
    kernels: tuple[str, ...] = ()
    values: str = ""
    at_batch: tuple[str, str] = ("", "")

    def run(self, change: Mapping[str, Any]) -> str:
        new = changed(self.whole, change, self.kernels)
        own = ["--input", self.values] if self.values else []
        return self._line("run", {**self.given, **{name: new[name] for name in change}}, own, tuple(change))

    def tile(self, kernel: str) -> str:
        left = {name: value for name, value in self.given.items() if name not in ("tiling", "block_dim")}
        return self._line("tile", left, ["--kernel", kernel])

    def sweep(self, field: str, values: Sequence[int]) -> str:
        before, behind = self.at_batch
        if before and field == "batch" and self.given.get("l2") == STEP:  # no sweep begins behind the step of a network
            return replace(self, name=f"{before}:batch={values[-1]}{behind}", values="").run({"mode": "timing"})
        return self._line("sweep", self.given, ["--vary", f"{field}={','.join(map(str, values))}"])

    def _line(self, verb: str, options: Mapping[str, Any], own: Sequence[str], first: tuple[str, ...] = ()) -> str:
        """Return the command line with the chip, the `first` options, its `own` words and the other options, in this order; ""
        if it has no word for one of them that changes times. Options with default values are left out, unless a case may have
        another value or they are among `first`.
        """
        words: dict[str, list[str]] = {}
        for one in options_in(RunOptions):
            value = options.get(one.name)
            may_differ = one.option.case or one.name in ("chip", *first)  # from the case's value, or by the change
            if value is None or (value == one.option.default and not may_differ):
                continue
            found = _option_words(verb, one, value)
            if found is None:
                return ""
            words[one.name] = found
        ordered = [word for name in ("chip", *first) for word in words.pop(name, [])]
        line = ["ascend-sim", verb, self.name, *ordered, *own, *(word for found in words.values() for word in found)]
        return shlex.join(line)


@frozen
class PythonCalls:
    """Lines of Python that go on from a call: `made` is an expression for its case, `whole` has its options, `kernels` names
    its cube kernels.
    """

    made: str
    whole: Mapping[str, Any]
    kernels: tuple[str, ...] = ()
    name: str = ""

    def run(self, change: Mapping[str, Any]) -> str:
        new = changed(self.whole, change, self.kernels)
        return self._line("run_case", *(f"{name}={new[name]!r}" for name in change), leave=change)

    def tile(self, kernel: str) -> str:
        return self._line("search_tilings", repr(kernel), leave=("tiling", "block_dim"))

    def sweep(self, field: str, values: Sequence[int]) -> str:
        return self._line("sweep", f"{{{field!r}: {list(values)}}}")

    def _line(self, function: str, *words: str, leave: Collection[str] = ()) -> str:
        """Return a call of `function` with the case, the words, and the options that no case has, without those to `leave`;
        options with default values, or that change no times, are left out, too. Return "" if `function` does not take one of
        them.
        """
        others = []
        for name, _, option in options_in(RunOptions):
            value = self.whole.get(name, option.default)
            if name in _TIMES - set(leave) and not option.case and value != option.default:
                if (function == "sweep" and name not in _OF_SWEEP) or (function == "search_tilings" and name == "disarm"):
                    return ""
                others.append(f"{name}={value!r}")
        return f"ascend_sim.{function}({', '.join([self.made, *words, *others])})"


def _option_words(verb: str, one: Described, value: Any) -> list[str] | None:
    """Return an option of a run as words of a command: [] if it changes nothing there, None if the command has no such word."""
    shell, name = one.option.shell, one.name
    value = with_full_names(name, value) if isinstance(value, Mapping) else value
    if name != "chip" and verb != "run" and name not in _TIMES:
        return []
    if verb == "sweep" and name not in _OF_SWEEP:
        return _varied(one, value)
    if verb == "tile" and name in names_of(CacheOptions):
        return None if value == STEP else [one.flag, value] if (name, value) != ("l2", "cold") else []
    if name != "chip" and (shell is None or verb not in shell.commands):
        return [] if verb == "run" else None
    if isinstance(value, bool):
        return [one.flag if value else one.flag.replace("--", "--no-", 1)]
    if name == "disarm":
        return [word for kernel, flags in value.items() for flag in flags for word in (one.flag, f"{kernel}.{flag}")]
    return [one.flag, ",".join(_pairs(value)) if isinstance(value, Mapping) else str(value)]


def _varied(one: Described, value: Any) -> list[str] | None:
    """Return an option of a case file as fields of a sweep with one value each; None for other options and for `l2` "step"."""
    if not one.option.case or value == STEP:
        return None
    if not isinstance(value, Mapping):
        return ["--vary", f"{one.name}={str(value).lower()}"]
    under = f"{one.name}." if one.name != "tiling" else ""
    return [word for pair in _pairs(value) for word in ("--vary", under + pair)]


def _pairs(values: Mapping[str, Any]) -> list[str]:
    """Return the entries of a mapping, or of mappings in it, as texts: a=1, or a.b=1."""
    nested = [(name, value if isinstance(value, Mapping) else {"": value}) for name, value in values.items()]
    return [f"{name}{'.' if field else ''}{field}={value}" for name, fields in nested for field, value in fields.items()]
