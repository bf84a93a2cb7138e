"""The line of the source that each instruction comes from: noted, kept in timeline.npz, told in the table of costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.errors import SimError
from ascend_sim.report.lines import line_table, note_lines
from ascend_sim.report.timeline_file import load_recording, write_timeline
from ascend_sim.runtime import Recording
from tests.support.report import small_kernels
from tests.support.report.small_kernels import CHIP, run_three

pytestmark = pytest.mark.fast

WRITTEN_BY = {
    "data_copy": ("data_copy",), "load_data_2d": ("load_data_2d",), "mmad": ("mmad",), "fixpipe": ("fixpipe",),
    "vector_cast": ("vector_cast",), "duplicate": ("vector_duplicate",), "scalar": ("scalar",),
    "set_flag": ("publish", "release", "BufferQueue", "acquire", "queue"), "pipe_barrier": ("pipe_barrier",),
    "wait_flag": ("acquire", "take", "close"), "cross_core_set_flag": ("cross_core_set",), "fill": ("fill",),
    "cross_core_wait_flag": ("cross_core_wait",),
}  # fmt: skip
"""Text in the line of a kernel that writes an instruction."""


@pytest.fixture(scope="module")
def noted() -> Recording:
    tasks, timeline = run_three()
    recording = Recording(CHIP, timeline, tasks)
    note_lines(recording)
    return recording


def lines_of(recording: Recording) -> list[list[Any]]:
    known, columns = line_table([run.program for run in recording.timeline.programs])
    return [[known[place] for place in column.tolist()] for column in columns]


def test_every_row_has_the_line_that_wrote_it(noted: Recording) -> None:
    source = Path(small_kernels.__file__).read_text(encoding="utf-8").splitlines()
    seen = set()
    for run, lines in zip(noted.timeline.programs, lines_of(noted), strict=True):
        for view, line in zip(run.program, lines, strict=True):
            assert line.file == "tests/support/report/small_kernels.py" and line.text == source[line.number - 1].strip()
            assert any(word in line.text for word in WRITTEN_BY[view.instruction.name]), (str(view), line)
            seen.add(view.instruction.name)
    assert {"data_copy", "mmad", "fixpipe", "set_flag", "wait_flag", "vector_cast"} <= seen


def test_the_file_keeps_them(noted: Recording, tmp_path: Path) -> None:
    write_timeline(tmp_path / "a.npz", noted)
    loaded, _ = load_recording(tmp_path / "a.npz")
    assert lines_of(loaded) == lines_of(noted)
    write_timeline(tmp_path / "b.npz", loaded)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with pytest.raises(SimError, match="no kernel to build"):
        note_lines(loaded)


def test_without_lines_nothing_is_told() -> None:
    _, timeline = run_three()
    known, columns = line_table([run.program for run in timeline.programs])
    assert known == [] and all((column == -1).all() for column in columns)


def test_a_kernel_that_writes_something_else_is_refused() -> None:
    tasks, timeline = run_three()
    other = dataclasses.replace(tasks[1], build=lambda block: tasks[1].build(block ^ 1))
    with pytest.raises(SimError, match="does not write the same program"):
        note_lines(Recording(CHIP, timeline, [tasks[0], other, tasks[2]]))
