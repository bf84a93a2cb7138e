"""Sources of a comparison: calls that are simulated now, and runs that were made or written before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from difflib import get_close_matches
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascend_sim.calls.cases import call_case, specs_of
from ascend_sim.calls.result import Result
from ascend_sim.chip import chip_names, shipped_name
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.launching import KernelRun
from ascend_sim.npz_file import DAMAGED, one_line
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.case import case_names, load_case
from ascend_sim.ops.case_entries import Case, spelled
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.ops.network import address_of, network_names
from ascend_sim.report.page import open_run
from ascend_sim.report.report import Report
from ascend_sim.report.timeline_file import load_recording
from ascend_sim.runtime import Progress, Recording
from ascend_sim.runtime.recording import without_recording
from ascend_sim.yaml_file import read_yaml

Given: TypeAlias = str | Path | Case | Result | KernelRun
Kind = Literal["case", "chip", "tiling", "folder", "timeline", "result"]

_UNKNOWN = ("mode", "workspace_bytes", "findings", "warnings")
"""Fields of a report that timeline.npz alone does not have."""


@frozen(eq=False)
class OneRun:
    """One run to compare: its label and kind of source, its report (as `Report.to_dict` returns it), recording, outputs
    {name: (array, dtype)}, and the case that a chip or a tiling runs.
    """

    label: str
    kind: Kind
    report: Mapping[str, Any]
    recording: Recording
    outputs: Mapping[str, tuple[NDArray[Any], str]] = field(default_factory=dict)
    case: str = ""

    @property
    def title(self) -> str:
        """Words for a head: "by_hand with best.yaml (tiling) on ascend910b3", "by_hand on other.yaml (chip)"."""
        if self.kind == "chip":
            return f"{self.case} on {self.label} (chip)"
        with_case = f"{self.case} with " if self.case else ""
        return f"{with_case}{self.label} ({self.kind}) on {self.report['chip']}"


def open_sources(
    given: tuple[Given, ...],
    case: str | Path | Case | None = None,
    chip: str | Path | None = None,
    progress: Progress | None = None,
) -> list[OneRun]:
    """Return the runs in order; cases, tilings and chips are simulated now in timing mode, others are read.

    Tilings and chips belong to `case`; `chip` replaces the chip of cases and tilings. Kinds are checked before anything runs.
    Raises SimError for a source of another kind, for a tiling or chip without `case`, and for a `case` or `chip` that no run
    uses.
    """
    kinds = [_kind(one) for one in given]
    if case is None:
        for one, kind in zip(given, kinds, strict=True):
            if kind in ("tiling", "chip"):
                raise SimError(f"{one}: a {kind}, which cannot run by itself; give its case with --case")
    elif not {"tiling", "chip"} & set(kinds):
        raise SimError(f"--case {_label(case)}: none of the runs uses it; a tiling or a chip would")
    if chip is not None and not {"case", "tiling"} & set(kinds):
        raise SimError(f"--chip {chip}: none of the runs uses it; a case or a tiling would")
    return [_open(one, kind, case, chip, progress) for one, kind in zip(given, kinds, strict=True)]


def _kind(given: Given) -> Kind:
    if isinstance(given, Result | KernelRun):
        return "result"
    if isinstance(given, Case):
        return "case"
    if not isinstance(given, str | Path):
        raise SimError(
            f"compare: a {type(given).__name__} given; allowed are names, paths, cases, and results of a call or launch"
        )
    name, path = str(given), Path(given)
    if not name.strip():
        raise SimError(f"compare: {name!r} given; allowed are a case, a folder of `run --out`, a tiling, a chip, a timeline")
    if spelled(name, network_names()) in network_names():
        raise _is_a_network(name)
    if spelled(name, case_names()) in case_names() or address_of(name):
        return "case"
    if isdir(path):
        return "folder"
    if path.suffix == ".npz":
        return "timeline"
    if isfile(path):
        return _kind_of_yaml(path)
    if shipped_name(name):
        return "chip"
    near = get_close_matches(name, [*case_names(), *chip_names()], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise SimError(f"{name}: no such file or folder, and no case or chip of that name{hint}")


def _is_a_network(name: str) -> SimError:
    folder = f"out/{Path(name).stem}"
    return SimError(
        f"{name}: that is a network; its runs are compared layer by layer from their folders: ascend-sim run-network {name} "
        f"--out {folder}, the other one too, then ascend-sim compare {folder} OTHER. A layer is a case: {name}:LAYER"
    )


def _kind_of_yaml(path: Path) -> Kind:
    entries = read_yaml(path, "a case, a tiling or a chip is a mapping")
    if "operator" in entries:
        return "case"
    if "layers" in entries:
        raise _is_a_network(str(path))
    if entries.keys() & TILINGS.keys():
        return "tiling"
    if entries.keys() & {"extends", "cores"}:
        return "chip"
    raise SimError(
        f"{path}: neither a case (operator: ...), a tiling ({': ..., '.join(TILINGS)}: ...) nor a chip (extends: ...)"
    )


def _label(given: str | Path | Case) -> str:
    """Return the name or path that was given; of a Case its operator."""
    return given.operator if isinstance(given, Case) else str(given)


def _open(
    given: Given, kind: Kind, case: str | Path | Case | None, chip: str | Path | None, progress: Progress | None
) -> OneRun:
    if isinstance(given, Result | KernelRun):
        return _made(given.report.problem.get("operator", "a run"), kind, given)
    label = _label(given)
    if isinstance(given, Case):
        return _made(label, kind, _simulate(given, chip, None, progress))
    path = Path(given)
    if kind == "folder":
        recording, report = open_run(path)
        return OneRun(label, kind, report, recording, _written(path))
    if kind == "timeline":
        recording, _ = load_recording(path)
        return OneRun(label, kind, _report_of(recording), recording)
    if kind == "case":
        return _made(label, kind, _simulate(label, chip, None, progress))
    assert case is not None  # for the type checker: open_sources refused it
    if kind == "chip":
        return _made(label, kind, _simulate(case, given, None, progress), _label(case))
    fields = read_yaml(path, "a tiling maps kernels to fields")
    if not all(isinstance(one, dict) for one in fields.values()):
        raise SimError(f"{path}: a tiling maps each kernel to fields, like grad_input: {{baseM: 256}}")
    return _made(label, kind, _simulate(case, chip, fields, progress), _label(case))


def _written(folder: Path) -> dict[str, tuple[NDArray[Any], str]]:
    """Return {name: (array, dtype)} from gradients.npz and outputs.npz in the folder of a run; {} if it has neither. Raises
    SimError for a damaged one.
    """
    found: dict[str, tuple[NDArray[Any], str]] = {}
    for path in (folder / "gradients.npz", folder / "outputs.npz"):
        if not path.is_file():
            continue
        try:
            with np.load(path, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
        except (*DAMAGED, ValueError) as error:
            raise SimError(f"{path}: damaged .npz file ({one_line(error)})") from None
        for name, array in arrays.items():
            if not name.endswith("_dtype"):
                dtype = str(arrays.get(f"{name}_dtype", array.dtype))
                found[name] = (array.view(numpy_dtype(dtype)) if array.dtype == np.uint16 else array), dtype
    return found


def _simulate(
    name: str | Path | Case, chip: str | Path | None, tiling: Mapping[str, Mapping[str, Any]] | None, progress: Progress | None
) -> Result:
    case = name if isinstance(name, Case) else load_case(name)
    return call_case(case, specs_of(case), chip=chip, mode="timing", tiling=tiling, progress=progress)


def _made(label: str, kind: Kind, run: Result | KernelRun, case: str = "") -> OneRun:
    if run.recording is None:
        raise SimError(f"{label}: {without_recording(run.report.mode)}")
    arrays = {name: array for name, array in run.outputs.items() if isinstance(array, np.ndarray)}
    outputs = {name: (array, run.dtypes.get(name, str(array.dtype))) for name, array in arrays.items()}
    return OneRun(label, kind, run.report.to_dict(statements=False), run.recording, outputs, case)


def _report_of(recording: Recording) -> dict[str, Any]:
    """Return the report of a recording alone as plain data; mode, workspace, findings and warnings are None."""
    l2 = "step" if any(one.dirty for one in recording.cached) else "warm" if recording.cached else "cold"
    report = Report.build(recording.chip, recording.timeline, recording.tasks, l2=l2).to_dict(statements=False)
    return report | dict.fromkeys(_UNKNOWN)
