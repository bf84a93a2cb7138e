"""The tilings of a network's cube kernels: searched layer by layer, and what the network gains by them.

tuned = tune(load_network("resnet50"), out="tuned", seconds=10.0)
tuned.sentence, tuned.tilings["conv3_1_3x3"]["grad_weight"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os.path import isdir, isfile
from pathlib import Path
from typing import Unpack

import yaml

from ascend_sim.engine.engine import Progress
from ascend_sim.errors import ConfigError, SimError, why_no_file
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.ops.layer import Layer
from ascend_sim.ops.network import Network
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled, with_options
from ascend_sim.options.short_names import full_name, with_full_names
from ascend_sim.report.files import atomic_write
from ascend_sim.studies.network.options import TuneOptions
from ascend_sim.studies.network.run import NetworkRun, Tilings, run_network
from ascend_sim.studies.tiles.command import kernels_of, run_searches
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.options import LimitOptions
from ascend_sim.studies.tiles.outcome import SearchOutcome
from ascend_sim.yaml_file import read_yaml

TILINGS_FILE = "tilings.yaml"
"""File in a folder with the tilings that `tune` found, by layer and kernel, for `run_network`."""
_Found = dict[str, dict[str, dict[str, int]]]


@frozen
class Tuned:
    """Result of `tune`: the backward pass `before` and `after` the search, and the tilings of the kernels that got faster.

    `open` counts the searches that ended before all other tilings were ruled out; an interrupted one is not `complete`.
    """

    before: NetworkRun
    after: NetworkRun
    tilings: Tilings
    searches: int
    open: int
    complete: bool = True

    @property
    def ranked(self) -> list[tuple[str, float, float]]:
        """Return (layer, us before, us after), the largest saving first, of the layers that took time before."""
        pairs = zip(self.before.network.layers, self.before.layers, self.after.layers, strict=True)
        found = [(layer.name, old.times["total"], new.times["total"]) for layer, old, new in pairs if old.times.get("total")]
        return sorted(found, key=lambda row: (row[2] - row[1], -row[1]))

    @property
    def sentence(self) -> str:
        """Return a sentence on the gain: us before and after, per cent, changed layers, and the searches that stopped early."""
        before, after = self.before.totals["total"], self.after.totals["total"]
        rest = f"; {self.open} of {self.searches} searches were stopped before the rest was ruled out" if self.open else ""
        less = 100 * (1 - after / before) if before else 0.0
        return (
            f"the network takes {after:,.1f} us in place of {before:,.1f}: {less:.1f} % less, with other tilings in "
            f"{len(self.tilings)} layers{rest}"
        )


@with_options(TuneOptions, seconds=10.0, top=1)
def tune(
    network: Network,
    *,
    out: str | Path,
    batch: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    searching: Progress | None = None,
    **options: Unpack[TuneOptions],
) -> Tuned:
    """Search the cube kernels of every distinct layer, each kernel at most `seconds`, and run the network with the tilings that
    make their kernel faster.

    `batch` None is the network's own. Results are kept in the store of `out` as they come, so that a killed tuning goes on. An
    interrupt ends the searches; the network runs with the tilings found so far. `searching` is called before each layer's
    search with the layer's name, the number of searched layers, and that of all. Raises SimError as `run_network` does.
    """
    how = TuneOptions(**options)
    chip, conformance, library = how["chip"], how["conformance"], how["library"]
    run = partial(run_network, chip=chip, conformance=conformance, library=library, out=out, jobs=jobs, progress=progress)
    kernels = partial(kernels_of, chips=[chip], kernel=None, conformance=conformance, library=library)
    before = run(network, batch=batch)
    found: _Found = {}
    searches = unfinished = turn = 0
    complete = before.complete
    for layer, times, same in zip(before.network.layers, before.layers, before.same_as, strict=True):
        if same is not None:
            if same in found:
                found[layer.name] = found[same]
            continue
        if times.refused or not complete:
            continue
        if searching is not None:
            searching(layer.name, turn, before.distinct)
        turn += 1
        outcomes = _search(layer, kernels, Path(out), jobs, filled(LimitOptions, how))
        searches += len(outcomes)
        unfinished += sum(outcome.open > 0 or not outcome.listed for outcome in outcomes)
        complete = all(outcome.reason != "interrupted" for outcome in outcomes)
        if better := {one.kernel.name: dict(one.best["fields"]) for one in outcomes if one.best["fields"] and one.faster}:
            found[layer.name] = better
    after = run(before.network, batch=batch, tilings=found)
    kept = _faster(before, after, found)
    if kept != found:
        after = run(before.network, batch=batch, tilings=kept)
    return Tuned(before, after, kept, searches, unfinished, complete)


def _search(
    layer: Layer, kernels: Callable[..., list[CubeKernel]], out: Path, jobs: int, limits: LimitOptions
) -> list[SearchOutcome]:
    """Search the cube kernels of a layer's backward pass and return the outcomes.

    `kernels` returns the cube kernels of a case. [] for a layer without gradients, for kernels without fields to set, and where
    a search raises SimError.
    """
    if not layer.trains:
        return []
    case = OPERATORS.of_pass("backward", layer.kind).of_layer(layer)
    try:
        found = kernels(case, cube_math_type=layer.cube_math_type)
        return run_searches(found, [], out, jobs=jobs, **limits)
    except SimError:  # a kernel without fields, or none that fits the grid
        return []


def _faster(before: NetworkRun, after: NetworkRun, found: _Found) -> _Found:
    """Return those tilings of `found` whose kernel takes less time in `after` than in `before`.

    Another tiling of one kernel may change what the next finds in the L2, so each must gain in the whole call.
    """
    kept: _Found = {}
    for layer, old, new in zip(before.network.layers, before.layers, after.layers, strict=True):
        better = {
            kernel: fields
            for kernel, fields in found.get(layer.name, {}).items()
            if not new.refused and new.times[kernel] < old.times[kernel]
        }
        if better:
            kept[layer.name] = better
    return kept


def write_tilings(tilings: Tilings, out: str | Path) -> Path:
    """Write {layer: {kernel: fields}} as `tilings.yaml` into the folder `out`, over an earlier one; return the file's path.
    Raises SimError where it cannot be written.
    """
    path = Path(out) / TILINGS_FILE
    plain = {name: {kernel: dict(fields) for kernel, fields in kernels.items()} for name, kernels in tilings.items()}
    with atomic_write(path) as file:
        file.write(b"# Tiling fields by layer and cube kernel, as `run-network --tile` found them.\n")
        file.write(yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=120).encode())
    return path


def read_tilings(given: str | Path, layers: Sequence[str] = ()) -> Tilings:
    """Return {layer: {kernel: fields}} from a tilings file, or from the one in a folder; short kernel names become full ones.

    A file of one tiling, as `tile` writes it (best.yaml), is taken for each of `layers`. Raises ConfigError for a missing or
    broken file, for kernels that are none, and for fields that are not whole numbers, SimError for a kernel named twice; names
    of layers and fields are not checked.
    """
    path = Path(given) / TILINGS_FILE if isdir(given) else Path(given)
    if not isfile(path):
        missing = f"no {TILINGS_FILE} in it; run-network --tile writes one" if isdir(given) else why_no_file(path)
        raise ConfigError(f"--tiling {given}: {missing}")
    entries = read_yaml(path, "tilings are a mapping of layers, or of kernels")
    if entries and {full_name(name) for name in entries} <= set(TILINGS):
        entries = dict.fromkeys(layers, entries)
    for layer, given_kernels in entries.items():
        if not isinstance(given_kernels, dict) or not {full_name(name) for name in given_kernels} <= set(TILINGS):
            raise ConfigError(f"{path}: {layer}: allowed are the kernels {' and '.join(TILINGS)} with their fields")
        entries[layer] = kernels = with_full_names(f"{path}: {layer}", given_kernels)
        for kernel, fields in kernels.items():
            if not isinstance(fields, dict) or not all(type(value) is int for value in fields.values()):
                raise ConfigError(f"{path}: {layer}.{kernel}: allowed are fields with whole numbers")
    return entries
