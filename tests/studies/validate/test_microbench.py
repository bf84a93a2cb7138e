"""Small programs against published measurements: streams on all cores, single transfers, a vector add, the matmul loop.

The rows of `configs/measurements/microbench.csv` with `sets` decided a cost in the chip file, which was frozen before the
others were compared. Not blind either: `partial_line_refetch`, a yes or no that the unaligned rows made a yes; the L2 read rate
and the dispatch interval, which were picked with the rows in view. Streams are compared at 17 % unless said.
"""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.report.counts import Counts
from ascend_sim.studies.validate.launch import MeasuredRow
from ascend_sim.studies.validate.microbench import MatrixStream, VectorAdd, measure, single_transfer, transfer_cycles
from ascend_sim.studies.validate.rows import read_rows, shipped_rows
from ascend_sim.studies.validate.run import simulate
from tests.support.places import DOCS, TOOLS

PAGE = DOCS / "measured-bandwidth.md"
TOOL = TOOLS / "bench" / "bandwidth.py"
CHIP = load_chip("ascend910b1")
TOLERANCE = 0.17
SPEC = importlib.util.spec_from_file_location("bandwidth", TOOL)
assert SPEC is not None and SPEC.loader is not None
BENCH = importlib.util.module_from_spec(SPEC)
sys.modules["bandwidth"] = BENCH
SPEC.loader.exec_module(BENCH)


def rows_of(op_type: str, chip: str = "ascend910b1") -> list[MeasuredRow]:
    return [row for row in shipped_rows() if (row.kernel.op_type, row.kernel.chip) == (op_type, chip)]


STREAMS = {BENCH.name_of(row): row for row in rows_of("DataCopyStream")}
CURVE = {
    row.kernel["nbytes"]: float(row.cells["cycles"]) for row in rows_of("DataCopy") if row.kernel.label("path") == "GM->L1"
}
UB_TO_GM = {
    row.kernel["nbytes"]: float(row.cells["cycles"]) for row in rows_of("DataCopy") if row.kernel.label("path") == "UB->GM"
}


@functools.cache
def error(name: str) -> float:
    """(predicted - measured) / measured of a stream's time."""
    row = STREAMS[name]
    return simulate(row.kernel).task_us / row.duration_us - 1


@pytest.mark.parametrize("name", STREAMS)
def test_streams(name: str) -> None:
    assert abs(error(name)) < TOLERANCE


@pytest.mark.parametrize("name", [name for name, row in STREAMS.items() if row.cells["sets"]])
def test_rows_that_set_a_cost_come_out_as_measured(name: str) -> None:
    assert abs(error(name)) < 0.05


@pytest.mark.parametrize("row", rows_of("DataCopyStream", "ascend950pr_9589"), ids=BENCH.name_of)
def test_streams_of_the_950(row: MeasuredRow) -> None:
    """Without a dispatch interval its cores stay in step, which costs the smallest rows 8 of 39 cycles."""
    assert simulate(row.kernel).task_us == pytest.approx(row.duration_us, rel=0.2)


@pytest.mark.parametrize(("parts", "ratio"), [(1, 0.0), (4, 0.75)])
def test_hit_ratio(parts: int, ratio: float) -> None:
    """Measured 0.00005 and 0.75: the matrix does not fit the L2, a quarter of it does."""
    run = measure(CHIP, MatrixStream("UB", (64, 1024), splits=parts, repeats=4))
    assert 1 - run.hbm_bytes / run.useful_bytes == pytest.approx(ratio, abs=0.001)


@pytest.mark.parametrize("stream", [MatrixStream("UB", (1, 64), walked=1), MatrixStream("L1", (64, 64), walked=64)])
def test_a_line_read_in_four_pieces_leaves_hbm_once(stream: MatrixStream) -> None:
    run = measure(CHIP, stream)
    assert run.hbm_bytes == run.useful_bytes


@pytest.mark.parametrize(("destination", "columns"), [("UB", 1024), ("L1", 256)])
def test_unaligned_rows_need_the_partial_line_rule(destination: str, columns: int) -> None:
    """Without it the next tile would find the line at the end of a row in the L2, and the penalty would vanish."""
    memory = CHIP.memory.model_copy(update={"partial_line_refetch": False})
    stream = MatrixStream(destination, (64, columns), columns=12287, walked=128)
    with_rule, without = (measure(chip, stream).by_mte2 for chip in (CHIP, CHIP.model_copy(update={"memory": memory})))
    assert without > (1 + TOLERANCE) * with_rule


@pytest.mark.parametrize(("stream", "measured"), [(MatrixStream("UB", (1, 64)), 0.551), (MatrixStream("L1", (64, 64)), 1.065)])
def test_small_rows_hold_when_the_cores_begin_four_times_as_far_apart(stream: MatrixStream, measured: float) -> None:
    cores = stream.cores(CHIP)
    assert measure(CHIP, stream.shortened(cores), spread_us=2.0).by_mte2 == pytest.approx(measured, rel=TOLERANCE)


def test_a_stream_is_shortened_only_where_nothing_is_read_again() -> None:
    short = MatrixStream("UB", (64, 64)).shortened(48)
    assert short.walked == 64 and short.useful_bytes == 12288 * 12288 * 2
    for whole in (MatrixStream("UB", (64, 1024), repeats=4), MatrixStream("UB", (256, 12288))):
        assert whole.shortened(48) == whole
    assert MatrixStream("UB", (64, 64), splits=4).shortened(48) == MatrixStream("UB", (64, 64), walked=64, splits=4)


@pytest.mark.parametrize("kib", [1, 2, 8, 16, 32, 64, 128, 256, 512])
def test_single_gm_to_l1(kib: int) -> None:
    """1 KiB sets the latency. The curve's step at 4 KiB (234 cycles, and 237 for 8) is not in the model: 18 % there."""
    assert transfer_cycles(CHIP, "GM->L1", kib * 1024) == pytest.approx(CURVE[kib * 1024], rel=0.15)


@pytest.mark.parametrize("kib", [1, 2, 4, 8, 16, 32])
def test_single_ub_to_gm(kib: int) -> None:
    """1 KiB sets the latency. From 64 KiB the curve stays at 66 bytes/cycle, where the profiler's peak is 108.4."""
    assert transfer_cycles(CHIP, "UB->GM", kib * 1024) == pytest.approx(UB_TO_GM[kib * 1024], rel=0.15)


def test_occupancy_of_l0c_to_gm() -> None:
    """Read as transfers back to back the curve is what the Fixpipe is occupied for."""
    curve = {
        row.kernel["nbytes"]: float(row.cells["cycles"]) for row in rows_of("DataCopy") if "L0C" in row.kernel.label("path")
    }
    for nbytes in (8192, 32768, 131072):
        assert single_transfer(CHIP, "L0C->GM", nbytes)[0] == pytest.approx(curve[nbytes], rel=0.15)


@pytest.mark.parametrize(
    ("path", "nbytes", "message"),
    [
        ("L1->UB", 32, "path 'L1->UB': allowed are GM->L1"),
        ("L0C->GM", 100, "an L0C row of 16 results has 64"),
        ("L1->L0A", 100, "a fractal has 512"),
        ("GM->UB", 400000, "400000 bytes: UB of ascend910b1 has 196608"),
        ("L1->BT", 3000, "3000 bytes: BT of ascend910b1 has 1024"),
        ("GM->L1", 2**20, "at most 524288"),
    ],
)
def test_transfers_that_cannot_be(path: str, nbytes: int, message: str) -> None:
    with pytest.raises(SimError, match=message):
        transfer_cycles(CHIP, path, nbytes)


@pytest.mark.parametrize("bypass", [False, True])
def test_a_vector_add_past_the_l2_leaves_it_to_the_result(bypass: bool) -> None:
    """Both sources pass the L2's size: kept, they drive the result out of it; going past, only they come from HBM."""
    small = CHIP.model_copy(update={"memory": CHIP.memory.model_copy(update={"l2_bytes": 2**20})})
    device = Device(small, with_values=False)
    add = VectorAdd(2**19, 8192, 4, buffers=2, bypass=bypass)
    engine = Engine(device)
    engine.run([add.task(small, device)])
    assert (engine.hbm_bytes == 2 * 2**20) is bypass


def test_a_vector_add_reads_and_writes_every_element_once() -> None:
    device = Device(CHIP, with_values=False)
    task = VectorAdd(100_000, 4096, 3).task(CHIP, device)
    moved = Counts(task, [program for block in range(3) for program in task.build(block)]).as_dict()["bytes"]
    assert (moved["GM->UB"], moved["UB->GM"]) == (400_000, 200_000)


def test_matmul_loop() -> None:
    """Measured: 3082.158 us of cube on 24 cores for fp16 8192^3, MTE1 busy 430 cycles per Mmad; the heads come from here."""
    loop = BENCH.matmul_loop(CHIP, 200)
    assert loop.m_busy == pytest.approx(512 + 10.0, abs=0.1)
    assert loop.mte1_busy == 320 + 5 * 22
    assert loop.period == pytest.approx(522, abs=0.1), "the loads of the next step hide behind the Mmad"
    mmads_per_core = (8192 // 128) * (8192 // 256) * (8192 // 64) / CHIP.cores.aic
    assert CHIP.us(loop.m_busy * mmads_per_core) == pytest.approx(3082.158, rel=0.001)


HEADS = "chip,op_type,dtype,path,quantity,M,N,tile_m,tile_n,repeats,nbytes,buffers,bypass,block_dim,duration_us"
ROWS = f"""{HEADS}
ascend910b1,DataCopyStream,fp16,GM->UB,mte2,3072,256,64,256,,,,,48,5
ascend910b1,DataCopyStream,fp16,GM->UB,mte2,3072,256,64,256,,,,,24,5
ascend910b1,DataCopyStream,fp16,GM->UB,mte2,1000,256,64,256,,,,,48,5
ascend910b1,DataCopyStream,fp16,GM->L0A,mte2,3072,256,64,256,,,,,48,5
ascend910b1,DataCopy,fp16,GM->L1,transfer,,,,,,2048,,,,0.1
ascend910b1,VectorAdd,fp16,,task,64,1024,,4096,,,2,1,8,10
"""


def test_rows_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    found = [simulate(row.kernel) for row in read_rows(path)]
    assert [one.skipped for one in found[:1] + found[4:]] == [""] * 3
    assert found[4].task_us == pytest.approx(CHIP.us(transfer_cycles(CHIP, "GM->L1", 2048)))
    assert "read by all 48 AIV" in found[1].skipped
    assert "not whole tiles of 64 rows for each of 48 cores" in found[2].skipped
    assert "path 'GM->L0A': allowed for DataCopyStream: GM->UB, GM->L1:nd2nz" in found[3].skipped


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GM->UB,mte2", "GM->UB,task", "quantity: 'task' given; allowed for DataCopyStream: mte2, core"),
        ("GM->UB,mte2", ",mte2", "path missing; DataCopyStream needs one"),
        ("2,1,8,10", "2,2,8,10", "bypass: '2' given"),
        (",2048,", ",,", "nbytes missing; DataCopy needs nbytes"),
    ],
)
def test_wrong_rows(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        read_rows(path)


def test_the_page_shows_what_the_simulator_says() -> None:
    shown = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in STREAMS and len(cells) == 5:
            shown[cells[0]] = (float(cells[1]), float(cells[2]))
    assert list(shown) == list(STREAMS)
    for name, (measured, value) in shown.items():
        bandwidth = BENCH.bandwidth(STREAMS[name], STREAMS[name].duration_us)
        assert bandwidth == pytest.approx(measured, abs=0.001)
        assert value == pytest.approx(bandwidth / (1 + error(name)), rel=0.01), name
