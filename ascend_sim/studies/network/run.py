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
from functools import partial
from pathlib import Path
from typing import Any

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Progress
from ascend_sim.engine.watch import watched
from ascend_sim.errors import AclnnError, SimError
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.execute import execute
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import RunOptions
from ascend_sim.runtime.workers import spread_as_done
from ascend_sim.studies.network.file import Layer, Network

__all__ = ["AROUND", "LayerTimes", "NetworkRun", "run_network"]

MOST_IMAGES = (1 << 31) - 1
"""Of a batch; far beyond what the memory of a chip holds."""
AROUND = "around"
"""The part of a layer's time that the kernels take which make no output: they bring tensors into other layouts and dtypes."""


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
            row = layer.model_dump(mode="json", exclude_unset=True) | {"same_as": same, "us": dict(times.times)}
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


def run_network(
    network: Network,
    *,
    chip: str | Path = "ascend910b3",
    batch: int | None = None,
    conformance: str = "documented",
    l2: str = "cold",
    direction: str = "backward",
    jobs: int = 1,
    progress: Progress | None = None,
) -> NetworkRun:
    """One pass ("backward" or "forward") of every layer; `batch` None is the network's own.

    `chip` is a name or a file; `jobs` processes share the distinct layers. A layer without gradients takes no backward pass.
    An interrupt (Ctrl-C) ends it with the layers that were finished, if there are any.

    Raises SimError for a batch below 1, and what the operator raises for a layer that it refuses, with the layer's name.
    """
    if batch is not None and not 1 <= batch <= MOST_IMAGES:
        raise SimError(f"batch is {batch}; allowed is a whole number from 1 to {MOST_IMAGES}")
    OPERATORS.of_pass(direction)
    network = network if batch is None else network.at(batch)
    name = load_chip(chip).name
    problems = [_problem(layer, direction) for layer in network.layers]
    first: dict[Any, str] = {}
    same_as = []
    for layer, problem in zip(network.layers, problems, strict=True):
        owner = first.setdefault(problem, layer.name)
        same_as.append(None if owner == layer.name else owner)
    owners = [layer for layer, same in zip(network.layers, same_as, strict=True) if same is None]
    distinct = [problem for problem, same in zip(problems, same_as, strict=True) if same is None]
    simulate = partial(_run_layer, chip=str(chip), conformance=conformance, l2=l2, direction=direction)
    results: dict[Any, LayerTimes] = {}
    complete = True
    try:
        with closing(spread_as_done(simulate, owners, jobs=min(jobs, len(owners)))) as done:
            for number, times in done:
                results[distinct[number]] = times
                if progress is not None:
                    progress(network.name, len(results), len(distinct))
    except KeyboardInterrupt:
        if not results:
            raise
        complete = False
    finished = [
        (layer, problem, same)
        for layer, problem, same in zip(network.layers, problems, same_as, strict=True)
        if problem in results
    ]
    return NetworkRun(
        replace(network, layers=tuple(layer for layer, _, _ in finished)),
        name,
        network.batch,
        [results[problem] for _, problem, _ in finished],
        [same for _, _, same in finished],
        direction,
        complete,
    )


def _problem(layer: Layer, direction: str) -> Any:
    """What decides a layer's time: equal problems take equal time."""
    operator = OPERATORS.of_pass(direction, layer.kind)
    case: Case = operator.of_layer(layer)
    attributes = tuple(case.attributes.items())
    return operator.name, layer.trains, layer.cube_math_type, tuple(case.tensors.items()), attributes


def _run_layer(layer: Layer, *, chip: str, conformance: str, l2: str, direction: str) -> LayerTimes:
    """One call of the operator, without the figures of a full report, which would take almost as long as the run."""
    spec, operator = load_chip(chip), OPERATORS.of_pass(direction, layer.kind)
    if direction == "backward" and not layer.trains:
        return LayerTimes(dict.fromkeys((*operator.layer_parts, AROUND, "total"), 0.0), 0, (), ())
    try:
        call = accept_case(operator.of_layer(layer), spec, conformance=conformance)
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
