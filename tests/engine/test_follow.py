"""Refusals of a `Follower`; its ways are tested with `explain`."""

from __future__ import annotations

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.engine.follow import Follower
from ascend_sim.errors import SimError


@asim.kernel_function(core="AIV")
def copied(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
    row = k.local_tensor(8, "float32", "row")
    k.gm_to_ub(row, x)
    k.pipe_barrier("ALL")
    k.ub_to_gm(y[:8], row)


@pytest.mark.parametrize(
    ("tensor", "offset", "said"), [("z", 0, "no tensor z; the run has x, y"), ("y", 32, "y: no instruction wrote the byte 32")]
)
def test_an_item_that_no_kernel_wrote_is_refused(tensor: str, offset: int, said: str) -> None:
    run = asim.launch(copied, 1, np.zeros(8, np.float32), asim.empty(16, "float32"))
    with pytest.raises(SimError, match=said):
        Follower(tensor, offset, "float32").watch(run.recording.tasks, run.timeline.programs)
