"""Values in simulated time: `full` against `functional`, forgotten waits, what was never written, one instant's order."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_sim as asim
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.values import BlockShadow
from ascend_sim.errors import SimError
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from ascend_sim.memory.local import POISON
from ascend_sim.memory.regions import Region
from tests.support.engine.machine import CHIP, KIB, Writer, changed, quiet, random_bytes
from tests.support.engine.random_programs import SIZES, RandomChip, Step, steps, variants, writer
from tests.support.engine.values import full, functional, prepared

pytestmark = pytest.mark.usefixtures("each_engine")

QUIET = quiet(CHIP)


@settings(max_examples=60)
@given(
    st.integers(1, 100), st.integers(0, 100), st.integers(0, 3), st.integers(0, 300), st.integers(0, 3),
    st.integers(0, 70), st.integers(0, 200),
)  # fmt: skip
def test_the_blocks_of_a_region_are_those_of_its_bytes(
    row_bytes: int, row_stride: int, rows: int, plane_stride: int, planes: int, offset: int, address: int
) -> None:
    region = Region("dst", "UB", row_bytes, row_stride, rows, plane_stride, planes, offset)
    wanted = {
        (address + offset + plane * plane_stride + row * row_stride + byte) // 32
        for plane in range(planes)
        for row in range(rows)
        for byte in range(row_bytes)
    }
    everything, shadow = np.arange(100), BlockShadow()
    for _ in range(2):  # the second time it is remembered
        assert set(everything[shadow.blocks(region, address)].tolist()) == wanted


def copies(k: Any) -> None:
    """Four kilobytes at a time from tensor 0 through UB to tensor 1, doubled on the way; double buffered."""
    waiting = BufferQueue(k, "in", "MTE2", "V", [0, 8 * KIB])
    done = BufferQueue(k, "out", "V", "MTE3", [16 * KIB, 24 * KIB])
    for i in range(6):
        k.data_copy("GM", "UB", waiting.acquire(), gm_operand(0, i * 4 * KIB), 4 * KIB)
        waiting.publish()
        source, target = waiting.take(), done.acquire()
        k.vector_binary("add", target, source, source, "float16", 2 * KIB)
        waiting.release()
        done.publish()
        k.data_copy("UB", "GM", gm_operand(1, i * 4 * KIB), done.take(), 4 * KIB)
        done.release()
    waiting.close()
    done.close()


def test_full_is_functional_and_right() -> None:
    (source, target), findings = full(CHIP, "AIV", copies)
    (_, other), others = functional(CHIP, "AIV", copies)
    assert findings == others == []
    wanted = source[: 24 * KIB].view(np.float16) * np.float16(2)
    assert np.array_equal(target[: 24 * KIB].view(np.float16), wanted)
    assert np.array_equal(target, other)


FLAGS = [f"{queue}[{i}] {state}" for queue in ("in", "out") for i in range(2) for state in ("full", "free")]


@pytest.mark.parametrize("name", FLAGS)
def test_a_forgotten_wait_shows(name: str) -> None:
    """A producer that is late leaves wrong bytes; a consumer that is late leaves a hazard."""
    queue, state = name[:-3].split("[")[0], name.split()[-1]
    late = {("in", "full"): "GM->UB", ("in", "free"): "V", ("out", "full"): "V", ("out", "free"): "UB->GM"}[queue, state]
    slow = slow_pipe(late)
    (_, right), _ = full(slow, "AIV", copies)
    (_, wrong), findings = full(slow, "AIV", copies, disarm=[name])
    assert findings
    assert {finding.kind for finding in findings} <= {"hazard", "uninitialised"}
    if name.endswith("full"):
        assert not np.array_equal(right, wrong)
    assert full(slow, "AIV", copies)[1] == []


def slow_pipe(part: str) -> ChipSpec:
    """The vector unit, or a path, needs 9000 cycles more."""
    if part == "V":
        return changed(CHIP, vector={"head": 9000.0})
    return CHIP.model_copy(update={"paths": CHIP.paths | {part: CHIP.paths[part].model_copy(update={"head": 9000})}})


@settings(max_examples=60, deadline=None)
@given(variants(), st.sampled_from(["AIC", "AIV"]), steps(30))
def test_runs_without_findings_have_the_functional_values(variant: RandomChip, kind: str, actions: list[Step]) -> None:
    """Random programs mostly race; one that is ordered by a barrier after every row does not, and gives equal bytes."""

    def write(k: Any) -> None:
        for step in actions:
            writer(kind, [step])(k)
            k.pipe_barrier("ALL")

    tensors, findings = full(variant.chip, kind, write)
    others, other_findings = functional(variant.chip, kind, write)
    assert [f for f in findings if f.kind == "hazard"] == []
    assert findings == other_findings
    for one, other in zip(tensors, others, strict=True):
        assert np.array_equal(one, other)


def test_poison_is_found_where_it_is_read() -> None:
    def write(k: Any) -> None:
        k.vector_duplicate(0, "float16", 16 * 5)  # 160 bytes
        k.pipe_barrier("V")
        k.vector_binary("add", 4096, 0, 1024, "float16", 16 * 7)
        k.pipe_barrier("V")
        k.vector_binary("add", 4096, 0, 0, "float16", 16 * 5)

    for run in (full, functional):
        _, findings = run(CHIP, "AIV", write)
        assert [f.kind for f in findings] == ["uninitialised", "uninitialised"]
        assert "block 0 AIV0: 2 V vector_binary" in findings[0].text
        assert "reads 64 bytes of UB that were never written" in findings[0].text
        assert "reads 224 bytes of UB that were never written" in findings[1].text


def test_the_end_of_a_run_of_bytes_that_fills_no_block_is_looked_at() -> None:
    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 0), 32)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(0, 64), 0, 40)

    for run in (full, functional):
        _, findings = run(CHIP, "AIV", write)
        assert len(findings) == 1
        assert "reads 32 bytes of UB that were never written" in findings[0].text


def test_accumulating_into_a_fresh_tile_is_found() -> None:
    def write(k: Any) -> None:
        k.fill("L0A", 0, 512)
        k.fill("L0B", 0, 512)
        k.pipe_barrier("ALL")
        k.mmad(0, 0, 0, 16, 16, 16, "float16", True)

    for run in (full, functional):
        _, findings = run(CHIP, "AIC", write)
        assert len(findings) == 1
        assert "M mmad" in findings[0].text
        assert "reads 1024 bytes of L0C that were never written" in findings[0].text


@pytest.mark.parametrize("space", ["L0A", "L0B"])
def test_a_product_is_that_of_what_stood_there_when_it_started(space: str) -> None:
    """A factor that is loaded anew while the product is under way."""

    def program(early: bool) -> Writer:
        def write(k: Any) -> None:
            k.data_copy("GM", "L1", 0, gm_operand(0, 0), 24 * KIB)
            k.pipe_barrier("ALL")
            k.load_data_2d("L0A", 0, 0, 2, 16)
            k.load_data_2d("L0B", 0, 8 * KIB, 2, 16)
            k.pipe_barrier("ALL")
            k.mmad(0, 0, 0, 128, 32, 112, "float16", False)
            if not early:
                k.pipe_barrier("ALL")
            k.load_data_2d(space, 0, 16 * KIB, 2, 16)
            k.pipe_barrier("ALL")
            k.fixpipe(gm_operand(1, 0), 0, 96, 96, 112, "float16", 16, 4 * KIB)

        return write

    slow = changed(QUIET, cube={"head_first": 9000, "head_stream": 9000})
    (_, wanted), none = full(slow, "AIC", program(early=False))
    (_, found), (hazard,) = full(slow, "AIC", program(early=True))
    assert none == []
    assert hazard.kind == "hazard"
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("blocks", [7, 8, 9, 19])
def test_every_block_runs_once_and_is_told_of_in_order(blocks: int) -> None:
    """Some are built together."""

    def write(k: Any) -> None:
        k.data_copy("GM", "UB", 0, gm_operand(0, 32 * k.block), 32)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 32 * k.block), 0, 32, atomic_add="float32")

    device, task = prepared(CHIP, "AIV", write, SIZES, blocks=blocks)
    source, target = (tensor.data for tensor in task.tensors)
    assert source is not None
    assert target is not None
    source.view(np.float32)[: 8 * blocks] = np.arange(1, 8 * blocks + 1)
    target[:] = 0
    told: list[tuple[int, int]] = []
    built: list[int] = []
    engine = FunctionalEngine(
        device, progress=lambda _, *done: told.append(done), on_program=lambda _, __, program: built.append(program.block)
    )
    engine.run([task])
    assert np.array_equal(target[: 32 * blocks], source[: 32 * blocks])
    assert not target[32 * blocks :].any()
    assert built == [*range(blocks)]
    assert told == [(done, blocks) for done in range(1, blocks + 1)]


def test_every_block_begins_with_fresh_buffers() -> None:
    def write(k: Any) -> None:
        if k.block == 0:
            k.vector_duplicate(0, "float16", 16)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, k.block * 32), 0, 32)

    chip = changed(CHIP, cores={"aiv": 1})
    for run in (full, functional):
        tensors, findings = run(chip, "AIV", write, blocks=2)
        assert len(findings) == 1
        assert findings[0].text.startswith("block 1 AIV0: 1 MTE3 data_copy")
        assert tensors[1][:64].tolist() == [0] * 32 + [POISON] * 32


# -- one instant -----------------------------------------------------------------------------------------------------------


def copy_chain(flag_latency: int) -> tuple[ChipSpec, Writer]:
    """V doubles 32 bytes, MTE3 stores them at the very instant at which they retire."""
    chip = changed(QUIET, sync={"flag_latency": flag_latency, "barrier_latency": 0})

    def write(k: Any) -> None:
        flag = k.flag("V", "MTE3", "ready")
        k.vector_duplicate(0, "float16", 16, 1.0)
        k.pipe_barrier("V")
        k.vector_binary("add", 32, 0, 0, "float16", 16)
        k.set_flag(flag)
        k.wait_flag(flag)
        k.data_copy("UB", "GM", gm_operand(1, 0), 32, 32)

    return chip, write


@pytest.mark.parametrize("flag_latency", [0, 1])
def test_what_retires_at_an_instant_is_read_at_it(flag_latency: int) -> None:
    chip, write = copy_chain(flag_latency)
    tensors, findings = full(chip, "AIV", write)
    assert findings == []
    assert tensors[1][:32].view(np.float16).tolist() == [2.0] * 16


def test_what_starts_at_an_instant_reads_before_what_retires_later() -> None:
    """An instruction reads at its start: an overwrite that begins and ends while it works does not reach its values."""
    chip = changed(QUIET, paths={"latency": 0})
    slow = {"UB->GM": chip.paths["UB->GM"].model_copy(update={"head": 0, "latency": 5000})}
    chip = chip.model_copy(update={"paths": chip.paths | slow})

    def write(k: Any) -> None:
        k.vector_duplicate(0, "float16", 16, 1.0)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 32)
        k.vector_duplicate(0, "float16", 16, 3.0)

    tensors, findings = full(chip, "AIV", write)
    assert tensors[1][:32].view(np.float16).tolist() == [1.0] * 16
    assert [f.kind for f in findings] == ["hazard"]


def test_one_cycle_of_work_without_latency() -> None:
    """Each instruction retires at the instant at which the next on its pipe starts and reads what it left behind."""
    chip = changed(QUIET, vector={"head": 0.0, "latency": 0, "count_tail": 0}, scalar={"issue_cycles": {"AIV": 0}})

    def write(k: Any) -> None:
        k.vector_duplicate(0, "float16", 128, 1.0)
        for _ in range(3):
            k.vector_binary("add", 0, 0, 0, "float16", 128)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 256)

    tensors, findings = full(chip, "AIV", write)
    assert tensors[1][:256].view(np.float16).tolist() == [8.0] * 128
    assert findings == []


def test_atomics_add_in_the_order_of_time_and_once_each() -> None:
    def write(k: Any) -> None:
        k.vector_duplicate(0, "float32", 8, 2.0**k.block)
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(0, 0), 0, 32, atomic_add="float32")

    for run in (full, functional):
        device_sizes = (32, 32)
        tensors, findings = run(CHIP, "AIV", write, device_sizes, blocks=9)
        start = random_bytes(Device(CHIP), 32, "t", 0).data.view(np.float32)
        assert findings == []
        np.testing.assert_array_equal(tensors[0].view(np.float32), start + np.float32(511))


def meeting(k: Any, first: Any, then: Any) -> None:
    """Do `first`, tell everybody, wait for everybody, do `then`."""
    first()
    k.cross_core_set(0, 0, "MTE3")
    k.cross_core_wait(0, 0, "MTE2")
    then()
    k.pipe_barrier("ALL")


def test_cross_core_flags_order_values_round_by_round() -> None:
    """Nobody passes the second meeting because everyone came to the first."""

    def write(k: Any) -> None:
        k.vector_duplicate(0, "float32", 8, float(k.block + 1))
        k.pipe_barrier("ALL")
        meeting(k, lambda: None, lambda: None)
        meeting(
            k,
            lambda: k.data_copy("UB", "GM", gm_operand(0, k.block * 32), 0, 32),
            lambda: k.data_copy("GM", "UB", 512, gm_operand(0, 0), 96),
        )
        k.data_copy("UB", "GM", gm_operand(1, k.block * 96), 512, 96)

    wanted = np.repeat(np.float32([1, 2, 3]), 8)
    for run in (full, functional):
        tensors, findings = run(CHIP, "AIV", write, (96, 288), blocks=3)
        assert findings == []
        np.testing.assert_array_equal(tensors[1].view(np.float32).reshape(3, 24), np.tile(wanted, (3, 1)))


def test_one_core_that_raises_twice_does_not_stand_for_two() -> None:
    def write(k: Any) -> None:
        k.vector_duplicate(0, "float32", 8, float(k.block + 1))
        k.pipe_barrier("ALL")
        if k.block == 1:
            k.scalar(5000)
        k.data_copy("UB", "GM", gm_operand(0, k.block * 32), 0, 32)
        k.cross_core_set(0, 0, "MTE3")
        k.cross_core_set(0, 0, "MTE3")
        k.cross_core_wait(0, 0, "MTE2")
        k.data_copy("GM", "UB", 512, gm_operand(0, 0), 64)
        k.cross_core_wait(0, 0, "MTE2")
        k.pipe_barrier("ALL")
        k.data_copy("UB", "GM", gm_operand(1, k.block * 64), 512, 64)

    wanted = np.repeat(np.float32([1, 2]), 8)
    for run in (full, functional):
        tensors, findings = run(CHIP, "AIV", write, (64, 128), blocks=2)
        assert findings == []
        np.testing.assert_array_equal(tensors[1].view(np.float32).reshape(2, 16), np.tile(wanted, (2, 1)))


def test_what_another_block_wrote_is_not_written_in_this_one() -> None:
    """The first block writes its UB, the second reads its own."""

    def write(k: Any) -> None:
        if k.block == 0:
            k.data_copy("GM", "UB", 0, gm_operand(0, 0), 4 * KIB)
        k.data_copy("UB", "GM", gm_operand(1, k.block * 4 * KIB), 0, 4 * KIB)

    tensors, findings = functional(CHIP, "AIV", write, blocks=2)
    assert [one.kind for one in findings] == ["uninitialised"] and "block 1" in findings[0].text
    assert (tensors[1][4 * KIB : 8 * KIB] == POISON).all()


@asim.kernel_function(core="AIV")
def picked(k: Any, x: Any, offsets: Any, y: Any) -> None:
    """Gathers of each row of `offsets` from a table of 128 numbers, of which the first half is loaded."""
    table, row = k.local_tensor(128, "float32", "table"), k.local_tensor(64, "float32", "row")
    chosen = k.local_tensor(64, "uint32", "chosen")
    full, done, free = k.flag("MTE2", "V", "full"), k.flag("V", "MTE3", "done"), k.flag("MTE3", "MTE2", "free")
    k.gm_to_ub(table[:64], x)
    for i in range(offsets.shape[0]):
        if i:
            k.wait_flag(free)
        k.gm_to_ub(chosen, offsets[i])
        k.set_flag(full), k.wait_flag(full)
        k.gather(row, table, chosen)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y[i], row)
        k.set_flag(free)
    k.wait_flag(free)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("bad", [{}, {1: 256}, {1: 400, 2: 300}])
def test_a_gather_reads_the_elements_that_its_offsets_choose(mode: Any, bad: dict[int, int]) -> None:
    """Each time others: what nobody wrote is one finding of the instruction, as soon as it is chosen."""
    x = np.arange(64, dtype=np.float32)
    offsets = np.tile(np.arange(64, dtype=np.uint32)[::-1] * 4, (3, 1))
    for row, offset in bad.items():
        offsets[row, 5] = offset
    given = asim.launch(picked, 1, x, offsets, asim.empty((3, 64), "float32"), mode=mode)
    assert ["gather" in one.text and "reads 32 bytes of UB" in one.text for one in given.findings] == [True] * bool(bad)
    good = [row for row in range(3) if row not in bad]
    assert (given.outputs["y"][good] == x[::-1]).all()


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_an_offset_outside_the_table_names_core_line_and_row(mode: Any) -> None:
    offsets = np.full((1, 64), 512, np.uint32)
    lines, first = inspect.getsourcelines(picked.function)
    line = first + next(number for number, text in enumerate(lines) if "k.gather(" in text)
    told = rf"^picked: block 0 AIV0: .*test_values\.py:{line}, \d+ V gather dst=.*: gather: offset 0 is 512 bytes; src0 has"
    with pytest.raises(SimError, match=told):
        asim.launch(picked, 1, np.zeros(64, np.float32), offsets, asim.empty((1, 64), "float32"), mode=mode)
