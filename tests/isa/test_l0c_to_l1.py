"""The Fixpipe to L1 beside the one to GM: the same bytes, at the chip's path."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.isa.cube import Fixpipe
from ascend_sim.isa.l0c_to_l1 import FixpipeToL1
from ascend_sim.isa.quantisation import Quantisation
from ascend_sim.memory.gm import SLOT_SHIFT
from tests.support.isa.workbench import CHIP, Workbench

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("dtype", "c0", "pre"),
    [
        ("float16", 16, None),
        ("bfloat16", 16, Quantisation("float32", relu=True)),
        ("int8", 32, Quantisation("int32", 2.0**-24)),
    ],
)
def test_l1_gets_what_gm_would(dtype: str, c0: int, pre: Quantisation | None) -> None:
    fields = 10, 40, 16, dtype, c0, 352, False, pre
    there, here = Workbench(4), Workbench(4)
    for bench in (there, here):
        bench.memory.buffers["L0C"][:] = (
            np.random.default_rng(1).standard_normal(len(bench.memory.buffers["L0C"]) // 4).astype(np.float32).view(np.uint8)
        )
        bench.memory.gm[1][:2048] = bench.memory.buffers["L1"][:2048]
    there.do(Fixpipe(*fields), 1 << SLOT_SHIFT, 1024)
    here.do(FixpipeToL1(*fields), 0, 1024)
    np.testing.assert_array_equal(here.memory.buffers["L1"][:2048], there.memory.gm[1][:2048])


def test_it_moves_at_the_lower_rate() -> None:
    """3 blocks of 16 rows of 16 halves at 128 bytes a cycle (Cube page) or the Fixpipe's own."""
    load = FixpipeToL1(16, 48, 16, "float16", 16, 512)
    unit = CHIP.fixpipe
    assert unit is not None and load.pipe(CHIP) == "FIX" and load.gm_access(CHIP) is None
    assert load.cost(CHIP).work == -(-3 * 512 // min(unit.rate(2, False), 128))
