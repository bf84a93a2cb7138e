"""L0C to UB: which elements arrive where, how they are rounded, on which chips the way exists, what it costs."""

import numpy as np
import pytest

from ascend_sim import SimError, load_chip
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.local import LocalMemory
from tests.support.isa.workbench import Workbench

pytestmark = pytest.mark.fast

A910, P3, B3, C950 = (load_chip(name) for name in ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"))


def moved(instruction, tile, source, model=None):
    """Return UB after the instruction read from byte `source` of L0C, which holds `tile`."""
    memory = Memory(LocalMemory({"L0C": tile.nbytes, "UB": 65536}), [], model or ValueModel.of(A910))
    memory.array("L0C", 0, tile.shape, np.float32)[...] = tile
    instruction.commit(memory, 1024, instruction.read(memory, 1024, source, 0))
    (written,) = instruction.writes()
    return memory.buffers["UB"][1024 : 1024 + written.extent]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_piece_of_a_tile_arrives_as_column_blocks_of_whole_fractals(dtype):
    tile = np.random.default_rng(0).standard_normal((5, 64, 16)).astype(np.float32)  # [N1][M1*16][16]
    found = moved(L0cToUb(20, 3, 64, dtype), tile, (1 * 64 + 16) * 64)  # from column block 1, row 16
    expected = np.empty((3, 32, 16), dtype)
    for column in range(3):
        for row in range(32):
            for i in range(16):
                expected[column, row, i] = tile[1 + column, 16 + row, i]
    assert found.tobytes() == expected.tobytes()
    bench = Workbench()  # compares with C
    bench.put("L0C", 0, tile[:4, :48])
    bench.do(L0cToUb(20, 3, 48, dtype), 1024, (1 * 48 + 16) * 64)
    assert bench.get("UB", 1024, dtype, 3 * 32 * 16).tolist() == tile[1:4, 16:48].astype(dtype).ravel().tolist()


def test_a_narrow_result_is_rounded_once_to_nearest_even_and_saturates():
    tile = np.zeros((1, 16, 16), np.float32)
    tile[0, 0, :5] = (1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-20, 1e6, -np.inf)
    found = moved(L0cToUb(16, 1, 16, "float16"), tile, 0).view(np.float16)[:5]
    assert found.tolist() == [1, 1 + 2.0**-9, 1 + 2.0**-10, 65504, -65504]


def test_a_result_that_is_kept_saturates_where_it_is_asked_for():
    tile = np.zeros((1, 16, 16), np.float32)
    tile[0, 0, :3] = (np.inf, -np.inf, 1.5)
    most = float(np.finfo(np.float32).max)
    for overflow, wanted in (("saturate", [most, -most, 1.5]), ("inf_nan", [np.inf, -np.inf, 1.5])):
        found = moved(L0cToUb(16, 1, 16, "float32"), tile, 0, ValueModel.of(B3, overflow=overflow)).view(np.float32)[:3]
        assert found.tolist() == wanted


def test_it_runs_where_the_path_table_has_it():
    assert L0cToUb(16, 1, 16, "float16").pipe(A910) == L0cToUb(16, 1, 16, "float32").pipe(P3) == "V"
    assert L0cToUb(16, 1, 16, "float32").pipe(C950) == "FIX"
    with pytest.raises(SimError, match=r"ascend910b3 \(dav-2201\) has no path L0C->UB; from L0C there is L0C->"):
        L0cToUb(16, 1, 16, "float32").pipe(B3)
    with pytest.raises(SimError, match="does not cast float32 to bfloat16"):
        L0cToUb(16, 1, 16, "bfloat16").pipe(A910)


def test_fp32_bytes_out_of_l0c_take_the_time():
    # 910A reads 256 bytes of L0C per cycle, 310P 512: 32 rows x 2 blocks x 16 columns x 4 bytes = 4096 bytes.
    for dtype in ("float32", "float16"):
        assert L0cToUb(32, 2, 64, dtype).cost(A910).work == 16
        assert L0cToUb(32, 2, 64, dtype).cost(P3).work == 8


def test_the_builder_checks_both_ends():
    k = KernelBuilder(InstructionTable(A910), 0, "AI_CORE", [])
    k.l0c_to_ub(0, 262144 - 1024, 16, 2, 16, "float32")
    with pytest.raises(SimError, match="src0 covers bytes 261120 to 263168 of 262144"):
        k.finish()
