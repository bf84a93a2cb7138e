"""What one call gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ascend_sim.engine.critical_path import critical_path
from ascend_sim.engine.timeline import Timeline
from ascend_sim.engine.values import Finding
from ascend_sim.errors import SimError
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.report.report import Report
from ascend_sim.report.words import words
from ascend_sim.runtime import Recording, without_recording

Array = NDArray[Any]


@dataclass(repr=False)
class Result:
    """What a call returned, in the caller's layout and dtype, and the report.

    `outputs` maps a name to an array; it lacks what was masked off, and in timing mode everything. `dtypes` names every
    output's format; `timeline`, `call` and `tasks` are what the report was made from, `recording` is what pictures and further
    runs are made from. There is no `timeline` and no `recording` in functional mode, nor where none was kept. `findings` are
    hazards and reads of what nobody wrote, and with `check` what the checks found.
    """

    outputs: dict[str, Array]
    report: Report
    dtypes: dict[str, str]
    timeline: Timeline | None = field(repr=False, default=None)
    call: AcceptedCall | None = field(repr=False, default=None)
    tasks: list[Any] = field(repr=False, default_factory=list)
    recording: Recording | None = field(repr=False, default=None)
    findings: list[Finding] = field(default_factory=list)

    def __repr__(self) -> str:
        """A line: the operator, chip and mode, the time, and every output."""
        report = self.report
        time = "no times" if report.total_us is None else f"{report.total_us:,.2f} us"
        shapes = ", ".join(f"{name} {list(array.shape)} {self.dtypes[name]}" for name, array in self.outputs.items())
        operator = report.problem.get("operator", "run")
        return f"<Result of {operator} on {report.chip}, mode {report.mode}, {time}: {shapes or 'no values'}>"

    @property
    def grad_input(self) -> Array | None:
        """The gradient of the input; None where there is none."""
        return self.outputs.get("grad_input")

    @property
    def grad_weight(self) -> Array | None:
        """The gradient of the weight; None where there is none."""
        return self.outputs.get("grad_weight")

    @property
    def grad_bias(self) -> Array | None:
        """The gradient of the bias; None where there is none."""
        return self.outputs.get("grad_bias")

    def write_html(self, path: str | Path, *, what_if: bool = True) -> None:
        """Write the run as one page; with `what_if` the programs run again with each rate of the chip doubled.

        Raises SimError in functional mode, which has no times, where no timeline was kept, and without Plotly.
        """
        from ascend_sim.report.page import write_page
        from ascend_sim.report.skeleton import check_plotly
        from ascend_sim.report.what_if import what_if as run_again

        if self.recording is None:
            raise SimError(f"write_html: {without_recording(self.report.mode)}")
        check_plotly()
        outcomes = run_again(self.recording) if what_if else None
        write_page(path, self.recording, self.report.to_dict(statements=True), outcomes)

    def _repr_html_(self) -> str:
        """For notebooks: the report, and where the time went."""
        if self.recording is None:
            return self.report._repr_html_()
        path = critical_path(self.recording.timeline)
        said = words(self.recording, self.report.to_dict(), path, None)
        return self.report._repr_html_() + "".join(f"<p>{escape(text)}</p>" for text in said)
