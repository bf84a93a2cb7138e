"""A chip as data: `load_chip("ascend910b3")` reads its YAML, checks every field and returns a frozen `ChipSpec`."""

from __future__ import annotations

import difflib
import functools
import json
import math
import re
import typing
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ascend_sim.chip.files import dotted, file_of, is_path, leaves, merge, read_layers, shipped_files, shipped_texts
from ascend_sim.chip.headroom import headroom_fault
from ascend_sim.chip.leaf import PLAIN, Source
from ascend_sim.chip.section import Section
from ascend_sim.chip.sections import (
    Alignment,
    Buffer,
    Bytes,
    Clock,
    CoreKind,
    Cores,
    Cube,
    Cycles,
    FixpipeRates,
    Flag,
    Identity,
    LaunchCosts,
    Load3d,
    MemoryRates,
    Overflow,
    Path,
    Sync,
    Vector,
)
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_names
from ascend_sim.shipped import from_cache

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@frozen(kw_only=True)
class ScalarCosts(Section):
    """Cycles of the scalar unit: for issuing one instruction (by kind of core), and for its own loads and stores.

    It reads and writes GM through a data cache of lines; if `cleans_data_cache`, the kernel can have them written back.
    """

    issue_cycles: dict[CoreKind, Cycles]
    ub_cycles: Cycles
    gm_line_cycles: Cycles
    gm_cached_cycles: Cycles
    data_cache_line_bytes: Bytes
    cleans_data_cache: Flag
    clean_line_cycles: Cycles
    clean_all_cycles: Cycles


_PATH_KEY = re.compile(r"(?P<source>\w+)->(?P<destination>\w+)(:(?P<variant>\w+))?")
_FAMILY = "dav-"
_VENDOR = "ascend"
_VECTOR_ONLY = ":aiv"  # variant of a path: the port of a vector-only core
_OUTSIDE = ("GM", "FILL")  # ends of a path that are not buffers of a core; FILL is a constant


@frozen(kw_only=True)
class ChipSpec(Section):
    """One SoC: plain numbers in the units that their fields declare, `sources` says where each is from.

    `references` spells out the short names in source texts. A chip without a Fixpipe (the coupled ones) has `fixpipe`
    None and fewer buffers and paths.
    """

    name: str
    references: dict[str, str] = field(default_factory=dict)
    identity: Identity
    cores: Cores
    clock: Clock
    buffers: dict[Buffer, Bytes]
    alignment: Alignment
    cube: Cube
    paths: dict[str, Path]
    load3d: Load3d
    fixpipe: FixpipeRates | None = None
    vector: Vector
    overflow: Overflow
    memory: MemoryRates
    sync: Sync
    scalar: ScalarCosts
    launch: LaunchCosts
    sources: ClassVar[Mapping[str, Source]] = {}
    """{dotted path of a number (`paths.GM->L1.head`): its unit and source}; each chip has its own, no field of it."""

    def __repr__(self) -> str:
        cores = f"{self.cores.aic} + {self.cores.aiv} cores"
        return f"<ChipSpec {self.name}: {self.identity.soc}, {self.identity.arch}, {cores}, {self.clock.cube_mhz:g} MHz>"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        """Return True if all fields are equal, also name, note and references; `sources` and cached values do not count."""
        return isinstance(other, ChipSpec) and all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))

    def with_sources(self, sources: Mapping[str, Source]) -> Self:
        """Set the sources of this chip's numbers in place and return it."""
        object.__setattr__(self, "sources", dict(sources))
        return self

    def model_copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy with the fields of `update`, which are not checked, and the same sources."""
        return super().model_copy(update).with_sources(self.sources)

    @property
    def pipes(self) -> tuple[str, ...]:
        """Return the pipes of all kinds of core of the chip, each once."""
        return tuple(dict.fromkeys(pipe for kind in self.cores.kinds.values() for pipe in kind.pipes))

    def to_json(self) -> str:
        """Return all fields and sources as JSON text for `from_json`; it is not a chip file, which `load_chip` reads."""
        sources = {place: [source.unit, source.text, source.fitted_on] for place, source in self.sources.items()}
        return json.dumps({"chip": self.model_dump(mode="json"), "sources": sources})

    @classmethod
    def from_json(cls, text: str) -> ChipSpec:
        """Return the chip of a text from `to_json`. Raises ValueError, KeyError or TypeError for another text."""
        data = json.loads(text)
        spec = _adapter().validate_json(json.dumps(data["chip"]), context=PLAIN)
        return spec.with_sources(
            {place: Source(unit, text, tuple(rows)) for place, (unit, text, rows) in dict(data["sources"]).items()}
        )

    def numbers(self) -> dict[str, Any]:
        """Return {dotted path (`paths.GM->L1.bytes_per_cycle`): number or bool} of the chip, without texts, lists and None."""
        return dict(_numbers(json.loads(self.model_dump_json())))

    def with_numbers(self, changes: Mapping[str, Any]) -> ChipSpec:
        """Return a copy of the chip with the numbers of `changes` (by dotted path), name and sources unchanged.

        Raises ConfigError for an unknown path, also of a number that the chip leaves out, and for a number that its field does
        not allow or that contradicts others (`disagreement`).
        """
        tree = json.loads(self.model_dump_json())
        known = dict(_numbers(tree))
        for place, value in changes.items():
            if place not in known:
                close = difflib.get_close_matches(place, known, n=3, cutoff=0.5)
                hint = f"; did you mean {', '.join(close)}?" if close else ""
                raise ConfigError(f"chip.{place}: {self.name} has no such number{hint}")
            *sections, key = next(path for path in _places(tree) if dotted(path) == place)
            node = tree
            for section in sections:
                node = node[section]
            node[key] = value
        from pydantic import ValidationError

        try:
            spec = _adapter().validate_json(json.dumps(tree), context=PLAIN)
        except ValidationError as error:
            raise ConfigError(_line(error.errors()[0], f"chip {self.name}")) from None
        if fault := spec.disagreement():
            raise ConfigError(f"chip {self.name}: {fault}")
        return spec.with_sources(self.sources)

    def us(self, cycles: float) -> float:
        """Return cube-clock cycles as microseconds."""
        return cycles / self.clock.cube_mhz

    def cycles(self, us: float) -> int:
        """Return microseconds as cube-clock cycles, rounded up (a millionth of a cycle is rounding noise)."""
        return math.ceil(round(us * self.clock.cube_mhz, 6))

    def hbm_bytes_per_cycle(self) -> float:
        """Return the HBM bandwidth in bytes per cube cycle that a whole chip's long streams reach (efficiency included)."""
        return self.memory.hbm_gb_per_s * 1e3 * self.memory.hbm_efficiency / self.clock.cube_mhz

    def l2_read_bytes_per_cycle(self) -> float:
        """Return the L2 read bandwidth of the whole chip in bytes per cube cycle: the rate per AIC times the AICs."""
        return self.memory.l2_read_bytes_per_cycle_per_aic * self.cores.aic

    def l2_write_bytes_per_cycle(self) -> float:
        """Return the L2 write bandwidth of the whole chip in bytes per cube cycle that streams reach (efficiency included)."""
        return self.memory.l2_write_bytes_per_cycle_per_aic * self.memory.l2_write_efficiency * self.cores.aic

    @property
    def has_unit_flag(self) -> bool:
        """Return True if cube and Fixpipe can hand tiles of L0C to each other fractal by fractal."""
        return self.fixpipe is not None and self.fixpipe.unit_flag

    def headroom_fault(self) -> str | None:
        """Return a message on the first number that an engine's int64 units cannot hold; None if all fit."""
        return headroom_fault(self)

    def peak_tflops(self, dtype: str) -> float:
        """Return the dense cube peak of the whole chip in TFLOP/s, two operations for each multiply-accumulate. SimError for a
        dtype that the cube does not take.
        """
        return 2 * self.cube.macs_per_cycle(dtype) * self.cores.aic * self.clock.cube_mhz / 1e6

    def path(self, src: str, dst: str, variant: str | None = None) -> Path:
        """Return the data path from `src` to `dst` (`GM`, `FILL` or a buffer). Raises SimError if the chip has none.

        `variant` chooses among paths between the same two places, as in the chip file's key `GM->UB:aiv`; None is the plain
        path.
        """
        key = f"{src}->{dst}" + (f":{variant}" if variant else "")
        found = self.paths.get(key)
        if found is None:
            there = ", ".join(name for name in self.paths if name.startswith(f"{src}->")) or "nothing"
            raise SimError(
                f"{self.name} ({self.identity.arch}) has no path {key}; from {src} there is {there} (chip file, paths)"
            )
        return found

    def with_scalar_work(self, cycles: int) -> Self:
        """Return the chip with `cycles` more for issuing each instruction on any core. Raises SimError if they are too many."""
        issue = {kind: issued + cycles for kind, issued in self.scalar.issue_cycles.items()}
        made = self.model_copy({"scalar": self.scalar.model_copy({"issue_cycles": issue})})
        if fault := headroom_fault(made):
            raise SimError(fault)
        return made

    def seen_by(self, kind: str) -> ChipSpec:
        """Return the chip as a core of `kind` sees it; only vector-only cores beside AI Cores (coupled chips) differ.

        These have the paths of variant "aiv", and a vector unit and FILL->UB of another clock, converted to cycles of the
        cube's clock.
        """
        if kind != "AIV" or not self.cores.coupled or not self.cores.aiv:
            return self
        return self._vector_only

    @functools.cached_property
    def _vector_only(self) -> ChipSpec:
        own = {key.removesuffix(_VECTOR_ONLY): path for key, path in self.paths.items() if key.endswith(_VECTOR_ONLY)}
        speed = (self.clock.vector_mhz or self.clock.cube_mhz) / self.clock.cube_mhz
        fill = self.paths["FILL->UB"]
        own["FILL->UB"] = fill.model_copy(update={"bytes_per_cycle": fill.bytes_per_cycle * speed})
        return self.model_copy(update={"paths": self.paths | own, "vector": self.vector.scaled(1 / speed)})

    def disagreement(self) -> str | None:
        """Return a message on the first key or field that is malformed, contradicts another, lacks an entry for a part of the
        chip, or could make an engine's counts wrap; None if there is none.
        """
        if not self.cores.coupled and self.cores.aiv != self.cores.aic * self.cores.aiv_per_aic:
            return f"cores.aiv: {self.cores.aiv} is not aic x aiv_per_aic = {self.cores.aic} x {self.cores.aiv_per_aic}"
        for kind, parts in self.cores.kinds.items():
            for buffer in parts.buffers:
                if buffer not in self.buffers:
                    return f"cores.kinds.{kind}.buffers: {buffer} has no size under buffers"
        for key, path in self.paths.items():
            match = _PATH_KEY.fullmatch(key)
            if match is None:
                return f"paths.{key}: must be SOURCE->DESTINATION or SOURCE->DESTINATION:VARIANT"
            for end in match["source"], match["destination"]:
                if end not in self.buffers and end not in _OUTSIDE:
                    return f"paths.{key}: {end} is neither a buffer of this chip nor {' or '.join(_OUTSIDE)}"
            if path.pipe not in self.pipes:
                return f"paths.{key}.pipe: no core of this chip has the pipe {path.pipe}"
        if self.overflow.default not in self.overflow.modes:
            return f"overflow.default: {self.overflow.default} is not one of overflow.modes: {', '.join(self.overflow.modes)}"
        for kind in self.cores.kinds:
            if kind not in self.scalar.issue_cycles:
                return f"scalar.issue_cycles: missing key {kind}, a kind of core of this chip"
        for table in ("queue_depth", "outstanding"):
            missing = [pipe for pipe in self.pipes if pipe != "S" and pipe not in getattr(self.sync, table)]
            if missing:
                return f"sync.{table}: missing key {missing[0]}, a pipe of this chip"
        return self.headroom_fault()


def _places(node: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path, as a tuple of keys, to every number and every bool of a dumped chip; lists are passed over."""
    for key, child in node.items():
        if isinstance(child, dict):
            yield from _places(child, (*at, key))
        elif isinstance(child, bool | int | float):
            yield (*at, key)


def _numbers(tree: Any) -> Iterator[tuple[str, Any]]:
    for path in _places(tree):
        node = tree
        for key in path:
            node = node[key]
        yield dotted(path), node


def chip_names() -> list[str]:
    """Return the names of the shipped chips; files of a family (`dav-2201`) are left out."""
    return [name for name in shipped_files() if not name.startswith(_FAMILY)]


def shipped_name(given: str) -> str | None:
    """Return the name of the shipped chip that `given` names; None for `ascend` alone and what no chip's name begins with.

    A name is that of its file, in any case of letters, with `ascend` or without: `Ascend910B3` and `910b3` are one chip. Raises
    `ConfigError`, with the chips, for a family's short name (`910b`) and for the beginning of one or more names (`ascend31`).
    """
    short, known = given.strip().lower(), chip_names()
    if short in known:
        return short
    name = f"{_VENDOR}{short.removeprefix(_VENDOR)}"
    begins_others = any(one.startswith(name) and one != name for one in known)
    if name in known and not begins_others:
        return name
    members = [one for one in known if _load_shipped(one).identity.short_soc.lower() == name] if begins_others else []
    if not members and name not in (*known, _VENDOR):
        members = [one for one in known if one.startswith(name)]
    if members:
        raise ConfigError(
            f"{given!r} is a family, not a chip; its chips: {', '.join(members)}; or give the path of a .yaml file"
        )
    return name if name in known else None


def near_chips(given: str) -> str:
    """Return the part of a message behind an unknown chip's name: "; did you mean ...?" with up to three chips that end alike
    or are spelled alike, "." if there are none.
    """
    short, known = given.lower().removeprefix(_VENDOR), chip_names()
    alike = [name for name in known if short and name.endswith(short)]
    spelled = difflib.get_close_matches(short, [name.removeprefix(_VENDOR) for name in known], n=3)
    near = alike[:3] or [f"{_VENDOR}{one}" for one in spelled]
    return f"; did you mean {', '.join(near)}?" if near else "."


@near_names
def load_chip(name_or_path: str | FilePath) -> ChipSpec:
    """Return a chip: a shipped one by a name that `shipped_name` knows, or the path of a .yaml file of the user's.

    A file's chip is called after the file. Raises `ConfigError` for the name of a family or an unknown name (with the
    known names) and for a file that cannot be used (with file and field).
    """
    if is_path(name_or_path):
        return _load(name_or_path)
    name = shipped_name(str(name_or_path))
    if name is None:
        given, known = str(name_or_path).lower(), chip_names()
        hint = near_chips(given)
        what = "is a family, not a chip" if given in shipped_files() else "is not a known chip"
        raise ConfigError(f"{name_or_path!r} {what}{hint} Known: {', '.join(known)}; or give the path of a .yaml file")
    return _load_shipped(name)


_NOTED: dict[Any, Any] = {}
"""Notes of chips that this process has shown."""


def chip_of(chip: str | FilePath | ChipSpec) -> ChipSpec:
    """Return the ChipSpec of option `chip` (a name, a file or a ChipSpec); errors are those of `load_chip`. A chip loaded here
    warns with its note, if any, once in a process.
    """
    spec = chip if isinstance(chip, ChipSpec) else load_chip(chip)
    if spec.identity.note and spec is not chip:
        warnings.warn_explicit(spec.identity.note, UserWarning, spec.name, 1, registry=_NOTED)
    return spec


@functools.cache
def _load_shipped(name: str) -> ChipSpec:
    made_of = [f"{cls.__name__} {cls.__annotations__}" for cls in Section.__subclasses__()]
    return from_cache(f"chip {name}", (*shipped_texts(), *made_of), lambda: _load(name))


@functools.cache
def _adapter() -> TypeAdapter[ChipSpec]:
    """Return pydantic's validator of chips."""
    from pydantic import TypeAdapter

    return TypeAdapter(ChipSpec)


def _load(name_or_path: str | FilePath) -> ChipSpec:
    layers = read_layers(name_or_path)
    tree = merge(layers)
    if "name" in tree:
        raise ConfigError(f"{file_of(layers, ('name',))}: name: unknown key; a chip is called after its file")
    name = FilePath(name_or_path).stem if is_path(name_or_path) else str(name_or_path)
    from pydantic import ValidationError

    try:
        spec = _adapter().validate_python(tree | {"name": name})
    except ValidationError as error:
        # A wrong key makes two errors, itself and the right one missing: the wrong one is the one to name.
        found = sorted(error.errors(), key=lambda one: one["type"] == "missing")
        raise ConfigError(_line(found[0], file_of(layers, _place(found[0])))) from None
    if fault := spec.disagreement():
        raise ConfigError(f"{file_of(layers, ())}: {fault}")
    return spec.with_sources({place: leaf.source for place, leaf in leaves(tree)})


def _place(error: Any) -> tuple[object, ...]:
    return tuple(part for part in error["loc"] if part != "[key]")


def _line(error: Any, file: str) -> str:
    place = _place(error)
    if error["type"] == "unexpected_keyword_argument":
        known = _known_keys(place)
        close = difflib.get_close_matches(str(place[-1]), known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        said = f"unknown key; {hint}Allowed here: {', '.join(known)}"
    elif error["type"] == "missing":
        said = "missing key"
    elif error["type"] == "value_error":
        said = str(error["ctx"]["error"])
    else:
        said = f"{error['msg'][0].lower()}{error['msg'][1:]}, got {error['input']!r}"
    return f"{file}: {dotted(place)}: {said}" if place else f"{file}: {said}"


def _known_keys(place: tuple[object, ...]) -> list[str]:
    model: Any = ChipSpec
    for key in place[:-1]:
        if is_dataclass(model):
            model = typing.get_type_hints(model)[str(key)]
            options = [option for option in typing.get_args(model) if option is not type(None)]
            if type(None) in typing.get_args(model):
                model = options[0]
        else:  # dict[key type, model]
            model = typing.get_args(model)[1]
    return [one.name for one in fields(model) if one.name != "name" or model is not ChipSpec]
