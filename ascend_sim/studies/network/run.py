"""All convolutions of a network, backward or forward, in `timing` mode: one result for each layer, equal layers simulated once.

    run = run_network(load_network("resnet50"), chip="ascend910b3", batch=64)
    run.layers[0].times["grad_weight"]     # us
    run.totals["total"]

Every distinct layer runs alone, with an empty L2, as one call of the operator that computes that pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, ValidationError

from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Progress
from ascend_sim.engine.watch import watched
from ascend_sim.errors import AclnnError, ConfigError, SimError
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.execute import execute
from ascend_sim.ops.layer import LayerCall
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import RunOptions
from ascend_sim.runtime.workers import spread_as_done
from ascend_sim.yaml_file import read_yaml

__all__ = ["AROUND", "Layer", "LayerTimes", "Network", "NetworkRun", "load_network", "network_names", "run_network"]

MOST_IMAGES = (1 << 31) - 1
"""Of a batch; far beyond what the memory of a chip holds."""
AROUND = "around"
"""The part of a layer's time that the kernels take which make no output: they bring tensors into other layouts and dtypes."""


def _pair(value: Any) -> Any:
    return (value, value) if type(value) is int else value


Count = Annotated[int, Field(strict=True, ge=1)]
Pair = Annotated[tuple[Count, Count], BeforeValidator(_pair)]
Pads = Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], BeforeValidator(_pair)]


class Layer(BaseModel):
    """One convolution: `k`, `stride`, `dilation` and `pad` are a number or [height, width] (pad also up, down, left, right).

    W defaults to H. Sizes are elements of the layer's input and weight.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    Ci: Count
    H: Count
    W: Count | None = None
    Co: Count
    k: Pair
    stride: Pair = (1, 1)
    pad: Pads = (0, 0)
    dilation: Pair = (1, 1)
    groups: Count = 1
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"
    cube_math_type: Annotated[int, Field(strict=True)] = 0
    bias: StrictBool = True

    @property
    def output(self) -> tuple[int, int]:
        """(height, width) of the layer's output; ConfigError where the kernel does not fit or the padding is odd."""
        if len(self.pad) not in (2, 4):
            raise ConfigError(f"layer {self.name}: pad: {list(self.pad)} given; allowed: a number, 2 or 4 values")
        pads = (2 * self.pad[0], 2 * self.pad[1]) if len(self.pad) == 2 else (sum(self.pad[:2]), sum(self.pad[2:]))
        sizes = []
        for axis, size, pad, k, stride, dilation in zip(
            "HW", (self.H, self.W or self.H), pads, self.k, self.stride, self.dilation, strict=True
        ):
            reach = dilation * (k - 1) + 1
            if size + pad < reach:
                raise ConfigError(
                    f"layer {self.name}: k: a kernel that reaches {reach} does not fit in {axis} = {size} with "
                    f"{pad} of padding"
                )
            sizes.append((size + pad - reach) // stride + 1)
        return sizes[0], sizes[1]

    @cached_property
    def shape_text(self) -> str:
        """The layer in a few characters."""
        height, width = self.k
        return f"{self.Ci}x{self.H}x{self.W or self.H} -> {self.Co}, {height}x{width}" + (
            f" s{self.stride[0]}" if self.stride[0] == self.stride[1] else f" s{self.stride[0]},{self.stride[1]}"
        )

    @property
    def problem(self) -> Layer:
        """The same layer without its name: equal problems take equal time."""
        return self.model_copy(update={"name": "", "W": self.W or self.H})


@dataclass(frozen=True)
class Network:
    """A named list of layers, in forward order."""

    name: str
    layers: tuple[Layer, ...]


@dataclass(frozen=True)
class LayerTimes:
    """What one layer's call took: `times` us of each part and "total" (launch gaps included); kernels are report rows."""

    times: Mapping[str, float]
    instructions: int
    kernels: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class NetworkRun:
    """One LayerTimes for every layer of a network; `same_as[i]` is the layer that layer i shares its result with, or None.

    A run that was interrupted is not `complete`: its network has the layers that were finished.
    """

    network: Network
    chip: str
    batch: int
    layers: Sequence[LayerTimes]
    same_as: Sequence[str | None]
    direction: str = "backward"
    complete: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """What a layer's time is split into: the outputs of the operator, and the kernels around those that make them."""
        return (*OPERATORS.of_pass(self.direction).layer_parts, AROUND)

    @property
    def totals(self) -> dict[str, float]:
        """Sums over the layers, us."""
        return {part: sum(layer.times[part] for layer in self.layers) for part in (*self.parts, "total")}

    @property
    def distinct(self) -> int:
        """Layers that were simulated."""
        return sum(same is None for same in self.same_as)

    @property
    def findings(self) -> list[str]:
        """What the hazard check found, one line each."""
        return [
            f"{layer.name}: {finding['task']}: {finding['text']}"
            for layer, times, same in zip(self.network.layers, self.layers, self.same_as, strict=True)
            if same is None
            for finding in times.findings
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data; kernels stand with the first of equal layers."""
        layers = []
        for layer, times, same in zip(self.network.layers, self.layers, self.same_as, strict=True):
            row = layer.model_dump(mode="json") | {"W": layer.W or layer.H, "same_as": same, "us": dict(times.times)}
            layers.append(
                row | ({"instructions": times.instructions, "kernels": times.kernels} if same is None else {})
            )
        totals = {part: round(value, 4) for part, value in self.totals.items()}
        return {
            "network": self.network.name,
            "chip": self.chip,
            "batch": self.batch,
            "complete": self.complete,
            "distinct_layers": self.distinct,
            "totals_us": totals,
            "layers": layers,
            "findings": self.findings,
        }


def network_names() -> list[str]:
    """Names of the networks that ship with the package, sorted."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _shipped().iterdir() if entry.name.endswith(".yaml"))


def load_network(name_or_path: str | Path) -> Network:
    """The network of that name, or the file at that path: `layers`, and `defaults` that every layer may leave out.

    Raises ConfigError, one line with file, layer and field, for everything that is not a network.
    """
    name = str(name_or_path)
    path = _shipped() / f"{name}.yaml" if name in network_names() else Path(name)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise ConfigError(
            f"{name}: {what}, and no network of that name; shipped networks: {', '.join(network_names())}"
        )
    data: Any = read_yaml(path, "a network file is a mapping with the key layers")
    data = _mapping(path, "a network file", data, ("name", "defaults", "layers"))
    defaults = _mapping(path, "defaults", data.get("defaults") or {}, tuple(Layer.model_fields))
    entries = data.get("layers")
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: layers: {entries!r} given; must be a list of layers")
    layers = tuple(_layer(path, number, entry, defaults) for number, entry in enumerate(entries, 1))
    seen: set[str] = set()
    for layer in layers:
        if layer.name in seen:
            raise ConfigError(f"{path}: layer {layer.name!r} is given twice; every layer has a name of its own")
        seen.add(layer.name)
    return Network(str(data.get("name") or path.stem), layers)


def _mapping(path: Path, what: str, value: Any, allowed: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {what} is a mapping with {', '.join(allowed)}; this one is {type(value).__name__}")
    for key in value:
        if key not in allowed:
            raise ConfigError(f"{path}: {what}: unknown key {key!r}; allowed: {', '.join(allowed)}")
    return value


def _layer(path: Path, number: int, entry: Any, defaults: Mapping[str, Any]) -> Layer:
    what = f"layer {number}"
    if isinstance(entry, dict) and isinstance(entry.get("name"), str):
        what = f"layer {entry['name']}"
    given = _mapping(path, what, entry, tuple(Layer.model_fields))
    try:
        layer = Layer.model_validate({**defaults, **given})
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0]
        message = "missing" if first["type"] == "missing" else f"{first['input']!r} given; {first['msg'].lower()}"
        raise ConfigError(f"{path}: {what}: {field}: {message}") from error
    try:
        _ = layer.output
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if layer.Ci % layer.groups or layer.Co % layer.groups:
        raise ConfigError(f"{path}: {what}: groups: {layer.groups} given; must divide Ci {layer.Ci} and Co {layer.Co}")
    return layer


def _shipped() -> Path:
    return Path(str(files("ascend_sim.configs"))) / "networks"


def run_network(
    network: Network,
    *,
    chip: str | Path = "ascend910b3",
    batch: int = 64,
    conformance: str = "documented",
    l2: str = "cold",
    direction: str = "backward",
    jobs: int = 1,
    progress: Progress | None = None,
) -> NetworkRun:
    """One pass ("backward" or "forward") of every layer at this batch.

    `chip` is a name or a file; `jobs` processes share the distinct layers. An interrupt (Ctrl-C) ends it with the layers that
    were finished, if there are any.

    Raises SimError for a batch below 1, and what the operator raises for a layer that it refuses, with the layer's name.
    """
    if not 1 <= batch <= MOST_IMAGES:
        raise SimError(f"batch is {batch}; allowed is a whole number from 1 to {MOST_IMAGES}")
    OPERATORS.of_pass(direction)
    name = load_chip(chip).name
    first: dict[Layer, str] = {}
    same_as = []
    for layer in network.layers:
        owner = first.setdefault(layer.problem, layer.name)
        same_as.append(None if owner == layer.name else owner)
    distinct = [layer for layer, same in zip(network.layers, same_as, strict=True) if same is None]
    simulate = partial(_run_layer, chip=str(chip), batch=batch, conformance=conformance, l2=l2, direction=direction)
    results: dict[Layer, LayerTimes] = {}
    complete = True
    try:
        with closing(spread_as_done(simulate, distinct, jobs=min(jobs, len(distinct)))) as done:
            for number, times in done:
                results[distinct[number].problem] = times
                if progress is not None:
                    progress(network.name, len(results), len(distinct))
    except KeyboardInterrupt:
        if not results:
            raise
        complete = False
    finished = [(layer, same) for layer, same in zip(network.layers, same_as, strict=True) if layer.problem in results]
    return NetworkRun(
        replace(network, layers=tuple(layer for layer, _ in finished)),
        name,
        batch,
        [results[layer.problem] for layer, _ in finished],
        [same for _, same in finished],
        direction,
        complete,
    )


def _run_layer(layer: Layer, *, chip: str, batch: int, conformance: str, l2: str, direction: str) -> LayerTimes:
    """One call of the operator, without the figures of a full report, which would take almost as long as the run."""
    spec, operator = load_chip(chip), OPERATORS.of_pass(direction)
    try:
        call = operator.accept(operator.of_layer(layer_call(layer, batch)), spec, conformance=conformance)
        plan = operator.plan(call, spec)
    except AclnnError as error:
        raise AclnnError(error.status, f"layer {layer.name}: {error.message}") from error
    run = execute(plan, spec, dict.fromkeys(call.inputs), RunOptions(mode="timing", keep=False), l2=l2)
    timeline = run.outcome.timeline
    assert timeline is not None
    maker = {launch: part for part, (launch, _) in operator.layer_parts.items()}
    times = dict.fromkeys((*operator.layer_parts, AROUND), 0.0)
    kernels = []
    for task, span in zip(run.tasks, timeline.tasks, strict=True):
        task_us = round(spec.us(span.finish - span.launch), 4)
        times[maker.get(task.name, AROUND)] += task_us
        source = task.info.get("tiling_source")
        kernels.append(
            {
                "op_type": task.op_type,
                "name": task.name,
                "block_dim": task.block_dim,
                "task_us": task_us,
                "tiling_source": source,
            }
        )
    total = spec.us(timeline.finish - min(span.launch for span in timeline.tasks))
    times = {part: round(value, 4) for part, value in (times | {"total": total}).items()}
    findings = [{"kind": one.kind, "task": one.task, "text": one.text} for one in run.outcome.findings]
    return LayerTimes(times, sum(totals.instructions for totals in watched(timeline).of_task), kernels, findings)


def layer_call(layer: Layer, batch: int) -> LayerCall:
    """A layer at a batch, as operators take it."""

    def tensor(*shape: int) -> TensorArg:
        return TensorArg(shape, layer.dtype, "NCHW")

    return LayerCall(
        tensor(batch, layer.Ci, layer.H, layer.W or layer.H),
        tensor(layer.Co, layer.Ci // layer.groups, *layer.k),
        tensor(batch, layer.Co, *layer.output),
        layer.stride,
        layer.pad,
        layer.dilation,
        layer.groups,
        layer.bias,
        layer.cube_math_type,
    )
