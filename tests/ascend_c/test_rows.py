"""From a recording to rows: buffers that a check knows, and flags of queues."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ascend_sim as asim
from tests.support.ascend_c.kernels import made, needs_compiler, vector_kernel

pytestmark = needs_compiler
QUEUE = """TPipe p; TQue<QuePosition::VECIN, 2> in; TBuf<TPosition::VECCALC> buffer;
p.InitBuffer(in, 2, 100); p.InitBuffer(buffer, 64); {more}
LocalTensor<float> t = in.AllocTensor<float>(); DataCopy(t, xg, 8); in.EnQue(t); t = in.DeQue<float>(); in.FreeTensor(t);
"""


def test_buffers_are_noted_with_their_lines(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel(QUEUE.format(more=""), tensors="x"))
    notes = asim.launch(kernel, 1, np.ones(64, np.float32)).programs[0].notes
    assert notes is not None
    assert [(one.name, one.start, one.size) for one in notes.allocated] == [
        ("VECIN buffer 0", 0, 128),
        ("VECIN buffer 1", 128, 128),
        ("VECCALC buffer 2", 256, 64),
    ]
    assert {one.line for one in notes.allocated} == {(str(tmp_path / "kernel.cpp"), 5)}
    assert set(notes.queues.values()) == {"of queues MTE2->V 0", "of queues V->MTE2 0"}


def test_buffers_that_are_handed_out_twice_are_not(tmp_path: Path) -> None:
    body = QUEUE.format(more="p.Reset(); p.InitBuffer(in, 2, 64);")
    notes = asim.launch(made(tmp_path, vector_kernel(body, tensors="x")), 1, np.ones(64, np.float32)).programs[0].notes
    assert notes is not None and not notes.allocated


def test_an_access_behind_a_buffer_is_found(tmp_path: Path) -> None:
    body = QUEUE.format(more="").replace("DataCopy(t, xg, 8)", "DataCopy(t, xg, 40)")
    report = asim.check_kernel(made(tmp_path, vector_kernel(body, tensors="x")), 1, np.ones(64, np.float32))
    assert not report.passed and "behind VECIN buffer 0" in report.render()


def test_what_queues_and_the_pipe_do_by_themselves_is_no_finding(tmp_path: Path) -> None:
    report = asim.check_kernel(
        made(tmp_path, vector_kernel(QUEUE.format(more=""), tensors="x")), 1, np.ones(64, np.float32)
    )
    assert not [one for one in report.findings if "redundant" in one.kind], report.render()
