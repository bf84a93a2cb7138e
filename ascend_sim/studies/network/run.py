"""All convolutions of a network, backward or forward, in `timing` mode: one result for each layer, equal layers simulated once.

    run = run_network(load_network("resnet50"), chip="ascend910b3", batch=64)
    run.layers[0].times["grad_weight"]     # us
    run.totals["total"]

Every distinct layer runs alone, with the L2 that `l2` asks for, as one call of the operator that computes that pass; with
"step" every layer does, as equal ones find different contents. A layer that the operator refuses has its status and the
reason in place of times.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from ascend_sim.calls.cases import accept_case, kernels_before_layers
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.engine.engine import Progress
from ascend_sim.engine.watch import watched
from ascend_sim.errors import AclnnError, SimError, TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.execute import execute
from ascend_sim.ops.kernels.cube.libraries import known_library
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network, load_network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled, with_options
from ascend_sim.options.run_options import STEP, CacheOptions, ProfileOptions, TaskOptions
from ascend_sim.report.certainty import together
from ascend_sim.report.report import ideal_cycles, interval_of
from ascend_sim.report.shown import LayersShown
from ascend_sim.report.summary import LAYOUT
from ascend_sim.runtime import KernelMoves
from ascend_sim.settings import check_options
from ascend_sim.studies.network.options import NetworkOptions
from ascend_sim.studies.network.summary import summary_of
from ascend_sim.studies.points import finish_all
from ascend_sim.studies.pools import Failed, Processes
from ascend_sim.studies.store import RESULTS, Store

Tilings = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Tiling fields by layer and cube kernel."""


@frozen
class LayerTimes:
    """Result of one layer's call: `times` in us of each part and "total" (launch gaps included).

    `kernels` has a dict for each launch: "op_type", "name", "part", "block_dim", "task_us", "interval", "ideal_us" and
    "tiling_source". `findings` has dicts of "kind", "task" and "text".

    A refused layer has no times but `refused`, the reason, and the call's `status`, None if it was not the operator that
    refused.
    """

    times: Mapping[str, float]
    instructions: int = 0
    kernels: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, str]] = ()
    refused: str = ""
    status: int | None = 0

    def __repr__(self) -> str:
        if self.refused:
            return f"<LayerTimes: refused: {self.refused[:80]}>"
        return f"<LayerTimes: {self.times['total']:,.1f} us, {len(self.kernels)} kernels>"

    @property
    def ideal(self) -> float:
        """Return the us that the layer's products take on all cube cores at their peak rate; kernels without products count as
        0.
        """
        return sum(kernel["ideal_us"] for kernel in self.kernels)

    @property
    def layout(self) -> dict[str, float]:
        """Return {operator: us} of the kernels that only convert layouts or dtypes."""
        found: Counter[str] = Counter()
        for kernel in self.kernels:
            if kernel["part"] == LAYOUT:
                found[kernel["op_type"]] += kernel["task_us"]
        return dict(found)


@frozen
class NetworkRun(LayersShown):
    """Result of one pass of a network: a LayerTimes for every layer; `same_as[i]` names the earlier layer whose result layer
    i shares, or is None. `options` and `tilings` are those that it was given.

    A run that was interrupted is not `complete`: its network has only the layers that were finished.
    """

    network: Network
    chip: str
    batch: int
    layers: Sequence[LayerTimes]
    same_as: Sequence[str | None]
    direction: str = "backward"
    complete: bool = True
    options: NetworkOptions = field(default_factory=lambda: filled(NetworkOptions, {}))
    tilings: Tilings = field(default_factory=dict)

    _drawn = "ascend_sim.studies.network.pages:render_summary"
    _more = "ascend_sim.studies.network.pages:render"
    _options = MappingProxyType({"more": ""})
    _width = 10_000

    def __repr__(self) -> str:
        what = f"{self.network.name}, batch {self.batch}, {self.direction} on {self.chip}"
        return f"<NetworkRun of {what}: {len(self.layers)} layers, {self.totals['total']:,.1f} us>"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts of a layer's time: `Operator.layer_parts` of this direction, then "layout"."""
        return (*OPERATORS.of_pass(self.direction).layer_parts, LAYOUT)

    @property
    def totals(self) -> dict[str, float]:
        """Return {part: us} and "total", summed over the layers that were not refused; equal layers count each."""
        ran = [layer for layer in self.layers if not layer.refused]
        return {part: sum(layer.times[part] for layer in ran) for part in (*self.parts, "total")}

    @property
    def layout(self) -> dict[str, float]:
        """Return {operator: us} of the kernels of all layers that only convert layouts or dtypes, longest first."""
        found: Counter[str] = Counter()
        for layer in self.layers:
            found.update(layer.layout)
        return dict(found.most_common())

    @property
    def interval(self) -> dict[str, Any]:
        """Return the uncertainty interval of the total time of all kernels (`report.certainty.together`)."""
        return together(kernel for layer in self.layers for kernel in layer.kernels)

    @property
    def refused(self) -> list[str]:
        """Return "LAYER: status N: reason" for every refused layer, without a status that is None; layers that are equal to an
        earlier one are left out.
        """
        return [
            f"{layer.name}: {'' if times.status is None else f'status {times.status}: '}{times.refused}"
            for layer, times, same in zip(self.network.layers, self.layers, self.same_as, strict=True)
            if times.refused and same is None
        ]

    @cached_property
    def copies(self) -> list[list[int]]:
        """Return the indices of the layers that make the same call, a list for each distinct layer.

        Copies share one simulation, unless each finds what earlier layers left in the L2.
        """
        found: dict[str, list[int]] = {}
        for number, layer in enumerate(self.network.layers):
            found.setdefault(_problem(layer, self.direction, self.tilings.get(layer.name)), []).append(number)
        return list(found.values())

    @property
    def distinct(self) -> int:
        """Return the number of distinct layers."""
        return len(self.copies)

    @property
    def simulated(self) -> int:
        """Return the number of simulations: layers that do not share an earlier one's result."""
        return sum(same is None for same in self.same_as)

    @property
    def findings(self) -> list[str]:
        """Return the findings of the hazard check, one line each, of the distinct layers."""
        return [
            f"{layer.name}: {finding['task']}: {finding['text']}"
            for layer, times, same in zip(self.network.layers, self.layers, self.same_as, strict=True)
            if same is None
            for finding in times.findings
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain data: settings, "totals_us" and "layout_us" by name, "interval", "layers", "findings" and
        "summary".

        A layer equal to an earlier one names it in "same_as" and has no "instructions" and "kernels".
        """
        layers = []
        for layer, times, same in zip(self.network.layers, self.layers, self.same_as, strict=True):
            row = layer.model_dump(mode="json", exclude_unset=True) | {"same_as": same, "us": dict(times.times)}
            if times.refused:
                row |= {"status": times.status, "refused": times.refused}
            layers.append(row | ({"instructions": times.instructions, "kernels": times.kernels} if same is None else {}))
        totals = {part: round(value, 4) for part, value in self.totals.items()}
        return {
            "network": self.network.name,
            "chip": self.chip,
            "batch": self.batch,
            "complete": self.complete,
            "distinct_layers": self.distinct,
            "totals_us": totals,
            "interval": self.interval,
            "layout_us": {name: round(us, 4) for name, us in self.layout.items()},
            "layers": layers,
            "findings": self.findings,
            "summary": summary_of(self),
        }


@with_options(NetworkOptions)
def run_network(
    network: str | Path | Network,
    *,
    batch: int | None = None,
    direction: str = "backward",
    tilings: Tilings | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    **options: Unpack[NetworkOptions],
) -> NetworkRun:
    """Run one pass ("backward" or "forward") of every layer in timing mode and return the times; `batch` None is the network's
    own.

    `network` is the name of one that ships with the package, a network file, or a Network. `jobs` processes share the distinct
    layers. A layer without gradients takes no backward pass: its times are 0. `tilings` are fields of the cube kernels by
    layer, for the backward pass. `out` is a folder with a store: results in it are not simulated again. An interrupt (Ctrl-C)
    ends it with the layers that were finished; before the first one it is raised. Raises SimError for an unknown network, chip
    or option, a batch below 1, and tilings of unknown layers; where every layer is refused, AclnnError or SimError with the
    first refusal.
    """
    how = NetworkOptions(**options)
    check_options(NetworkOptions, how)
    if not isinstance(network, Network):
        network = load_network(str(network))
    spec = chip_of(how["chip"])
    OPERATORS.of_pass(direction).product(spec).profile(how["conformance"])  # raises for an unknown profile
    network = network if batch is None else network.at(batch)
    given = dict(tilings or {})
    unknown = [name for name in given if name not in {layer.name for layer in network.layers}]
    if unknown:
        raise SimError(f"tilings: {network.name} has no layer {unknown[0]!r}")
    problems = [_problem(layer, direction, given.get(layer.name)) for layer in network.layers]
    before: dict[str, tuple[KernelMoves, ...]] = dict.fromkeys(problems, ())
    if how["l2"] == STEP:  # equal layers find different contents in the L2
        problems = [f"{problem} at {place}" for place, problem in enumerate(problems)]
        found = kernels_before_layers(network, spec, direction, filled(ProfileOptions, how))
        before = dict(zip(problems, found, strict=True))
    first: dict[Any, str] = {}
    same_as = []
    for layer, problem in zip(network.layers, problems, strict=True):
        owner = first.setdefault(problem, layer.name)
        same_as.append(None if owner == layer.name else owner)
    items = {
        problem: (layer, given.get(layer.name), before[problem])
        for layer, problem, same in zip(network.layers, problems, same_as, strict=True)
        if same is None
    }
    simulate = partial(_run_layer, chip=spec, options=how, direction=direction)
    what = {
        "study": "network",
        "chip": spec.name,
        "numbers": hashlib.sha256(spec.model_dump_json().encode()).hexdigest(),
        "conformance": how["conformance"],
        "library": known_library(how["library"]),
        **filled(CacheOptions, how),
        "direction": direction,
    }
    store = Store(what, None if out is None else Path(out) / RESULTS, room="studies.network")
    pool = Processes(min(jobs, len(items)) if jobs > 0 else jobs)
    done = finish_all(store, items, simulate, pool, network.name, progress)
    results = {
        problem: LayerTimes({}, refused=data.why, status=None) if isinstance(data, Failed) else LayerTimes(**data)
        for problem, data in done.results.items()
    }
    finished = [
        (layer, problem, same)
        for layer, problem, same in zip(network.layers, problems, same_as, strict=True)
        if problem in results
    ]
    run = NetworkRun(
        replace(network, layers=tuple(layer for layer, _, _ in finished)),
        spec.name,
        network.batch,
        [results[problem] for _, problem, _ in finished],
        [same for _, _, same in finished],
        direction,
        done.complete,
        how,
        given,
    )
    if all(layer.refused for layer in run.layers):
        refusal = run.layers[0]
        text = f"layer {run.network.layers[0].name}: {refusal.refused}"
        raise AclnnError(refusal.status, text) if refusal.status else SimError(text)
    return run


def _problem(layer: Layer, direction: str, tiling: Mapping[str, Mapping[str, int]] | None) -> str:
    """Return the key of a layer's call as JSON: operator, tensors, attributes, cubeMathType, tiling, and whether it has
    gradients.

    Layers with equal keys take equal time if they find the L2 in equal states.
    """
    operator = OPERATORS.of_pass(direction, layer.kind)
    case: Case = operator.of_layer(layer)
    trains = layer.trains or direction != "backward"
    said = [operator.name, trains, layer.cube_math_type, case.tensors, case.attributes, tiling]
    return json.dumps(said, sort_keys=True)


def _run_layer(
    item: tuple[Layer, Mapping[str, Mapping[str, int]] | None, Sequence[KernelMoves]],
    *,
    chip: ChipSpec,
    options: NetworkOptions,
    direction: str,
) -> dict[str, Any] | Failed:
    """Run one layer's call in timing mode and return its `LayerTimes` as a dict, without the full report, which takes as
    long again.

    All times are 0 for a layer without gradients in the backward pass. A refusal becomes `refused`; another SimError a Failed.
    """
    layer, tiling, before = item
    operator = OPERATORS.of_pass(direction, layer.kind)
    if direction == "backward" and not layer.trains:
        return asdict(LayerTimes(dict.fromkeys((*operator.layer_parts, LAYOUT, "total"), 0.0)))
    try:
        call = accept_case(operator.of_layer(layer), chip, tiling=tiling, **filled(ProfileOptions, options))
        plan = operator.plan(call, chip)
        what: TaskOptions = {"mode": "timing", "timeline": False}
        run = execute(plan, chip, dict.fromkeys(call.inputs), what, **filled(CacheOptions, options), before=before)
    except AclnnError as error:
        return asdict(LayerTimes({}, refused=error.message, status=int(error.status)))
    except TilingError as error:
        return asdict(LayerTimes({}, refused=str(error), status=None))
    except SimError as error:
        return Failed(str(error))
    timeline = run.outcome.timeline
    assert timeline is not None
    maker = {launch: part for part, (launch, _) in operator.layer_parts.items()}
    times = dict.fromkeys((*operator.layer_parts, LAYOUT), 0.0)
    kernels = []
    for task, span in zip(run.tasks, timeline.tasks, strict=True):
        task_us, part = round(chip.us(span.finish - span.launch), 4), maker.get(task.name, LAYOUT)
        times[part] += task_us
        kernels.append(
            {
                "op_type": task.op_type,
                "name": task.name,
                "part": part,
                "block_dim": task.block_dim,
                "task_us": task_us,
                "interval": interval_of(chip, task, task_us),
                "ideal_us": round(chip.us(ideal_cycles(chip, task) or 0), 4),
                "tiling_source": task.info.get("tiling_source"),
            }
        )
    total = chip.us(timeline.finish - min(span.launch for span in timeline.tasks))
    return asdict(
        LayerTimes(
            {part: round(value, 4) for part, value in (times | {"total": total}).items()},
            sum(totals.instructions for totals in watched(timeline).of_task),
            kernels,
            [{"kind": one.kind, "task": one.task, "text": one.text} for one in run.outcome.findings],
        )
    )
