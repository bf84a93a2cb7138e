"""The work behind `ascend-sim tile`: searches for every chip and kernel asked for, and what they leave in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from ascend_sim.calls.cases import accept_case
from ascend_sim.calls.run import check_fits
from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.ops.case import load_case
from ascend_sim.ops.case_entries import Case
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import filled, with_options
from ascend_sim.options.run_options import ChoiceOptions
from ascend_sim.options.short_names import full_name
from ascend_sim.settings import check_options
from ascend_sim.studies.store import RESULTS
from ascend_sim.studies.tiles import pages
from ascend_sim.studies.tiles.kernel import CubeKernel
from ascend_sim.studies.tiles.options import IN_CALL, LimitOptions, SearchOptions
from ascend_sim.studies.tiles.outcome import SearchOutcome, SearchOutcomes
from ascend_sim.studies.tiles.search import State, search
from ascend_sim.studies.tiles.store import store_of

_FIELD = re.compile(r"(?:(?P<kernel>\w+)\.)?(?P<name>\w+)=(?P<value>-?[0-9]{1,18})")


def kernels_of(
    case: Case,
    chips: Sequence[str | Path | ChipSpec],
    kernel: str | None,
    *,
    l2: str = IN_CALL,
    launches: str | None = None,
    **options: Unpack[ChoiceOptions],
) -> list[CubeKernel]:
    """Return the cube kernels to search, chip by chip: `kernel`, or for None all that the call has and whose fields can be set.

    Raises SimError for an operator whose kernels have no tilings, a call that launches none of them, an unknown `kernel`, and
    where no kernel of a chip, or the named one, has fields to set; and as the call's checks do.
    """
    kernels = [one for one in OPERATORS[case.operator].cube_kernels if one in TILINGS]
    if not kernels:
        raise SimError(f"tile searches the tilings of {' and '.join(TILINGS)}; {case.operator} has neither of these kernels")
    kernel = full_name(kernel)
    if kernel is not None and kernel not in kernels:
        raise SimError(f"kernel {kernel!r}: allowed are {' and '.join(kernels)}")
    found: list[CubeKernel] = []
    for name in chips:
        spec = chip_of(name)
        check_fits(case.tensors, spec)
        call = accept_case(case, spec, **options)
        wanted = [kernel] if kernel else [one for one in kernels if one in call.outputs]
        computed = ", ".join(call.outputs)
        refused = None if wanted else SimError(f"this call has no cube kernel whose tiling can be set; it computes {computed}")
        for one in wanted:
            try:
                found.append(CubeKernel.of(call, spec, one, l2, launches or case.launches))
            except SimError as error:  # no fields to set; the other kernel may have some
                refused = error
        if refused is not None and (kernel or not any(one.chip is spec for one in found)):
            raise refused
    return found


@with_options(SearchOptions, top=10)
def search_tilings(
    case: str | Path | Case,
    kernel: str | None = None,
    *,
    chips: str | Sequence[str | ChipSpec] | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[str, State], None] | None = None,
    **options: Unpack[SearchOptions],
) -> SearchOutcomes:
    """Search the tiling with the fewest cycles of each cube kernel of a case (or of `kernel`) on each chip, as `ascend-sim
    tile` does.

    Returns an outcome for each. `chips` None is the case's. `out` is a folder with a store: results in it are not simulated
    again, and best.yaml (of several chips best-CHIP.yaml) is written to it. Raises SimError for a case or kernel that cannot be
    searched.
    """
    how = SearchOptions(**options)
    check_options(SearchOptions, {name: value for name, value in how.items() if value is not None})
    loaded = case if isinstance(case, Case) else load_case(case)
    named = [chips] if isinstance(chips, str) else list(dict.fromkeys(chips or [loaded.chip]))
    kernels = kernels_of(loaded, named, kernel, l2=how["l2"], launches=how["launches"], **filled(ChoiceOptions, how))
    folder = None if out is None else Path(out)
    outcomes = run_searches(kernels, how["fields"], folder, jobs=jobs, progress=progress, **filled(LimitOptions, how))
    if folder is not None:
        write_best(outcomes, folder)
    return outcomes


def parse_fields(texts: Sequence[str], kernels: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return {kernel: {field: number}} of texts with FIELD=NUMBER or KERNEL.FIELD=NUMBER, several with commas.

    A field without its kernel holds for all `kernels`, each of which has an entry. Raises ConfigError for another form (numbers
    are whole), another kernel, and a field given twice.
    """
    fields: dict[str, dict[str, int]] = {name: {} for name in kernels}
    for part in (part.strip() for text in texts for part in text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise ConfigError(f"--field {part!r}: allowed is FIELD=WHOLE NUMBER, for example baseM=256")
        only = full_name(match["kernel"])
        if only is not None and only not in kernels:
            raise ConfigError(f"--field {part!r}: {only} is not searched; searched: {', '.join(kernels)}")
        for name in (only,) if only else kernels:
            if match["name"] in fields[name]:
                raise ConfigError(f"--field: {name}.{match['name']} is given twice")
            fields[name][match["name"]] = int(match["value"])
    return fields


def run_searches(
    kernels: Sequence[CubeKernel],
    fields: Sequence[str],
    out: Path | None,
    *,
    jobs: int,
    progress: Callable[[str, State], None] | None = None,
    **limits: Unpack[LimitOptions],
) -> SearchOutcomes:
    """Search kernel by kernel and return the outcomes; `fields` are the fixed ones as `parse_fields` reads them.

    Results go to the store in the folder `out` (None: kept in memory) as they come. `progress` is called with "KERNEL on CHIP"
    and the State. An interrupt ends all searches, with the results so far, or is raised as by `search`. Raises errors as
    `parse_fields`, `store_of` and `search`.
    """
    fixed = parse_fields(fields, list(dict.fromkeys(kernel.name for kernel in kernels)))
    outcomes = SearchOutcomes()
    for kernel in kernels:
        store = store_of(kernel, None if out is None else out / RESULTS)
        name = f"{kernel.name} on {kernel.chip.name}"
        try:
            outcome = search(
                kernel,
                fixed[kernel.name],
                store=store,
                jobs=jobs,
                progress=None if progress is None else lambda state, name=name: progress(name, state),  # type: ignore[misc]
                **limits,
            )
        finally:
            store.close()
        outcomes.append(outcome)
        if outcome.reason == "interrupted":
            break
    return outcomes


def write_best(outcomes: Sequence[SearchOutcome], out: Path) -> dict[Path, Path | None]:
    """Write the best tilings to best.yaml for one chip, to best-CHIP.yaml for each of several; SimError if a file cannot be
    written.

    Returns {file: the new name of the file that stood there with other tilings or no YAML, or None}.
    """
    chips = list(dict.fromkeys(outcome.kernel.chip.name for outcome in outcomes))
    written = {}
    for chip in chips:
        path = out / ("best.yaml" if len(chips) == 1 else f"best-{chip}.yaml")
        written[path] = pages.write_best(path, [outcome for outcome in outcomes if outcome.kernel.chip.name == chip])
    return written
