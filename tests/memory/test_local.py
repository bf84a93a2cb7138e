"""The buffers of a core: poisoned at the start, with a shadow of what was written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.engine.values import BlockShadow
from ascend_sim.memory.local import LocalMemory
from ascend_sim.memory.regions import Region
from tests.support.sampling import sampled

pytestmark = pytest.mark.fast


def test_a_fresh_buffer_is_nan_in_every_format() -> None:
    memory = LocalMemory({"UB": 64, "L1": 100})
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        assert np.isnan(memory.buffers["UB"].view(dtype).astype(np.float32)).all()
    assert {name: len(shadow) for name, shadow in memory.written.items()} == {"UB": 2, "L1": 4}
    assert not memory.written["UB"].any()


def test_poison_forgets_everything() -> None:
    memory = LocalMemory({"UB": 64})
    memory.buffers["UB"][:] = 3
    memory.written["UB"][:] = True
    memory.poison()
    assert (memory.buffers["UB"] == 0xFF).all()
    assert not memory.written["UB"].any()


@sampled(50, 200)
@given(
    st.builds(
        Region, st.just("dst"), st.just("UB"), st.integers(1, 100), st.integers(100, 200), st.integers(1, 4),
        st.integers(900, 1000), st.integers(1, 3), st.integers(0, 100),
    ),
    st.lists(st.integers(0, 40), min_size=1, max_size=3),
)  # fmt: skip
def test_the_shadow_of_a_region(region: Region, places: list[int]) -> None:
    """Remembered per region and alignment; used again at other addresses."""
    shadow = BlockShadow()
    for place in places:
        address = place * 16
        marks = np.zeros(400, np.bool_)
        marks[shadow.blocks(region, address)] = True
        wanted = {
            (address + region.offset + p * region.plane_stride + r * region.row_stride + byte) // BLOCK_BYTES
            for p in range(region.planes)
            for r in range(region.rows)
            for byte in range(region.row_bytes)
        }
        assert set(np.flatnonzero(marks).tolist()) == wanted
