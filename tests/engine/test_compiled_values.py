"""Values by C against numpy: bit patterns of every kind, what C leaves to Python, whole programs and whole calls.

Every test of `tests/isa` that uses its workbench compares the two as well, on random instructions and random bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_sim
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.choice import VARIABLE
from ascend_sim.engine.compiled import library
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.replay import replay
from ascend_sim.engine.watch import watched
from ascend_sim.errors import DeadlockError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, FixpipeNd, Mmad
from ascend_sim.isa.direct import DataCopyDn2Nz, FixpipeDn
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.transfer import DataCopy, DataCopyNd2Nz, Fill
from ascend_sim.isa.vector import BroadcastColumn, Duplicate, Transpose, TransposeBlocks, VectorBinary, VectorCast, VectorCopy
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics import numpy_dtype
from tests.support.engine.machine import columns, program
from tests.support.engine.random_programs import RandomChip, Step, steps, variants, writer
from tests.support.engine.values import full, functional, prepared
from tests.support.engine.vector_programs import VECTOR_SIZES, VERBS, VectorStep, vector_chips, vector_steps, vector_writer
from tests.support.isa.workbench import GM_BYTES, MODELS, SIZES, Workbench, copy_of, everything, models_of, run_in_c
from tests.support.sampling import sampled

pytestmark = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")

GM1 = gm_operand(1, 40)


def words(seed: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """float32 patterns around every limit of the formats, both signs: zeros, subnormals, ties, overflow, infinities, NaN."""
    rng = np.random.default_rng(seed)
    exponents = np.arange(256, dtype=np.uint32) << 23
    edges = np.array(
        [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x18000, 0x400000, 0x7FFFFF], np.uint32
    )
    found = np.concatenate(((exponents[:, None] | edges).ravel(), rng.integers(0, 1 << 32, 700, np.uint32)))
    found = np.concatenate((found, found ^ np.uint32(1 << 31)))
    return rng.permutation(found)


def memory_of(space: str, values: np.ndarray[Any, Any]) -> Memory:
    bench = Workbench()
    bench.memory.buffers[space] = np.resize(values.view(np.uint8), max(values.nbytes, SIZES[space])).copy()
    return bench.memory


def fresh() -> Memory:
    return copy_of(Workbench().memory, MODELS[0])


def both(instruction: Instruction, memory: Memory, dst: int, src0: int, src1: int = 0, models: Any = MODELS) -> None:
    """In C and in numpy, with both ways of overflow; the bytes are equal, and C does run it."""
    for model in models:
        one, other = copy_of(memory, model), copy_of(memory, model)
        with np.errstate(all="ignore"):
            instruction.commit(one, dst, instruction.read(one, dst, src0, src1))
            assert run_in_c(instruction, other, dst, src0, src1)
        assert everything(one) == everything(other), model.overflow


HALVES = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_16_bit_pattern_widens_as_in_numpy(source: str) -> None:
    """Where the mode saturates Python does it."""
    memory = copy_of(memory_of("UB", HALVES), MODELS[0])
    memory.buffers["UB"] = np.resize(memory.buffers["UB"], 6 << 16)
    memory = copy_of(memory, MODELS[0])
    cast = VectorCast(source, "float32", 1 << 16, "NONE")
    one, other = copy_of(memory, MODELS[0]), copy_of(memory, MODELS[0])
    cast.commit(one, 2 << 16, cast.read(one, 2 << 16, 0, 0))
    assert run_in_c(cast, other, 2 << 16, 0, 0)
    assert everything(one) == everything(other)
    assert not run_in_c(cast, copy_of(memory, MODELS[1]), 2 << 16, 0, 0)


@pytest.mark.parametrize("source", ["hifloat8", "float8_e4m3fn", "float8_e5m2"])
def test_every_8_bit_code_widens_as_in_numpy(source: str) -> None:
    """Also where the numbers are written beside or over their codes; where the mode saturates Python does it."""
    memory = memory_of("UB", np.arange(256, dtype=np.uint8))
    for count, dst, src0 in ((256, 1024, 0), (250, 32, 0), (64, 64, 128)):
        cast = VectorCast(source, "float32", count, "NONE")
        both(cast, memory, dst, src0, models=MODELS[:1])
        assert not run_in_c(cast, copy_of(memory, MODELS[1]), dst, src0, 0)


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_float32_patterns_narrow_as_in_numpy(target: str) -> None:
    values = words(0)
    memory = memory_of("UB", np.concatenate((values, values)))
    both(VectorCast("float32", target, len(values), "RINT"), memory, 4 * len(values), 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_patterns_leave_l0c_as_in_numpy(dtype: str) -> None:
    memory = memory_of("L0C", words(1)[:4096])
    item = 4 if dtype == "float32" else 2
    for instruction in (
        Fixpipe(40, 48, 48, dtype, 16, 48 * 16 * item),
        FixpipeNd(40, 45, 48, dtype, 48 * item),
        FixpipeDn(30, 20, 48, 3, dtype, item, 48 * item, row=7),
    ):
        both(instruction, memory, GM1, 64)
    both(L0cToUb(20, 2, 48, dtype), memory, 256, 128)


@pytest.mark.parametrize(
    "mmad",
    [
        Mmad(32, 32, 48, "float16", True),
        Mmad(16, 40, 16, "bfloat16", False),
        Mmad(32, 24, 32, "float32", True),
        Mmad(32, 24, 32, "hf32", True, 11),
        Mmad(17, 9, 33, "hf32", False, 10),
    ],
    ids=str,
)
def test_sums_of_all_patterns_are_those_of_numpy(mmad: Mmad) -> None:
    """Factors with NaN and infinities; and sums of two NaN, of which the one in L0C stays."""
    memory = memory_of("L0C", words(2)[:4096])
    for space, seed in (("L0A", 3), ("L0B", 4)):
        memory.buffers[space] = memory_of(space, words(seed)[:4096]).buffers[space][: SIZES[space]]
    both(mmad, memory, 1024, 512, 1024)


EIGHT_BITS = models_of(load_chip("ascend950pr_9589"))


@pytest.mark.parametrize("dtype", ["hifloat8", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("shape", [(32, 32, 64, True), (17, 9, 33, False)], ids=str)
def test_sums_of_8_bit_codes_are_those_of_numpy(dtype: str, shape: tuple[int, int, int, bool]) -> None:
    """Random codes, with NaN and infinities, and on rows without them."""
    for most in (256, 100):
        memory = memory_of("L0C", words(2)[:4096])
        for space, seed in (("L0A", 3), ("L0B", 4)):
            memory.buffers[space][:] = np.random.default_rng(seed).integers(0, most, SIZES[space], np.uint8)
        both(Mmad(*shape[:3], dtype, shape[3]), memory, 1024, 512, 1024, models=EIGHT_BITS)


def test_atomic_sums_of_all_patterns_are_those_of_numpy() -> None:
    memory = memory_of("UB", words(5)[:2048])
    memory.gm[1][:] = words(6)[: GM_BYTES // 4].view(np.uint8)
    memory.gm[1][4096:8192] = memory.buffers["UB"][4096:8192] ^ 0x80  # the same magnitudes
    both(DataCopy("UB", "GM", 2048, 4, 2048, 2080, "float32"), memory, gm_operand(1, 4), 0)
    both(Fixpipe(40, 48, 48, "float32", 8, 1300, True), memory, gm_operand(1, 4), 64)


KNOWN: list[tuple[Instruction, int, int]] = [
    (DataCopy("GM", "UB", 70, 3, 200, 96), 64, gm_operand(0, 96)),
    (DataCopyNd2Nz(5, 20, 2, 100, 8), 32, gm_operand(0, 96)),
    (DataCopyNd2Nz(5, 32, 2, 100, 8), 32, gm_operand(0, 96)),
    (DataCopyNd2Nz(5, 32, 2, 100, 11, "", 2), 32, gm_operand(0, 96)),
    (DataCopyDn2Nz(20, 5, 2, 30, 32, 160), 32, gm_operand(0, 96)),
    (DataCopyDn2Nz(16, 5, 4, 30, 32, 160), 32, gm_operand(0, 96)),
    (Fill("L1", 96), 64, 0),
    (LoadData2D("L0A", 2, 3, 2), 512, 64),
    (LoadData2D("L0A", 2, 3, 2, True, 3), 512, 64),
    (LoadData2D("L0B", 1, 3, 2, True, 2), 512, 64),
    (LoadData2D("L0B", 1, 3, 2, True, 1, 3), 512, 64),
    (LoadData2D("L0A", 4, 3, 2, True, 1, 3), 512, 64),
    (LoadData3D("L0A", 2, 5, 4, 2, 3, 1, 2, 1, 1, 1, 1, 4, 2, 1, 7, 32, 80), 0, 64),
    (LoadData3D("L0B", 4, 5, 4, 2, 2, 2, 1, 2, 1, 1, 0, 3, 3, 2, 6, 16, 40), 0, 64),
    (LoadData3D("L0A", 2, 5, 4, 2, 3, 1, 1, 1, 1, 0, 0, 4, 2, 1, 7, 32, 80, True), 0, 64),
    (Duplicate("float32", 5, 0.0, 3, 64), 512, 0),
    (VectorCopy("float32", 21, 3, 96, 0), 512, 64),
    (BroadcastColumn("float32", 20, 5, 96), 2048, 64),
    (Transpose("float16", 5, 20, 32, 64), 2048, 64),
    (TransposeBlocks(True, 2, 16, 7, 32), 512, 64),
    (TransposeBlocks(True, 2, 5, 7, 32, 64, 2), 512, 64),
    (TransposeBlocks(False, 2, 5, 7, 32, 64, 3), 2048, 64),
]


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case[0].name)
def test_c_runs_what_moves_bytes(case: tuple[Instruction, int, int]) -> None:
    both(case[0], Workbench(3).memory, case[1], case[2])


@sampled(60, 600)
@given(
    size=st.sampled_from([2, 4]),
    channels=st.integers(1, 16),
    pixels=st.integers(1, 21),
    to_c0=st.booleans(),
    gap=st.sampled_from([0, 32]),
    whole=st.booleans(),
)
def test_c_turns_blocks_of_any_shape(size: int, channels: int, pixels: int, to_c0: bool, gap: int, whole: bool) -> None:
    """By squares, and what is left of rows and columns; all behind them stays as it was."""
    c0 = 32 // size
    row = -(-size * pixels // 32) * 32 + gap
    turned = TransposeBlocks(to_c0, size, c0 if whole else min(channels, c0), pixels, row, 32 + gap)
    both(turned, Workbench(4).memory, 4096, 64)
    both(Transpose(f"float{8 * size}", channels, pixels, 64, row), Workbench(4).memory, 4096, 64)


@pytest.mark.parametrize("dst", [0, 32, 64, 96, 128, 160, 192, 256])
@pytest.mark.parametrize(
    "instruction",
    [
        DataCopy("UB", "UB", 128),
        DataCopy("UB", "UB", 32, 4, 64, 32),
        DataCopy("UB", "UB", 32, 4, 32, 64),
        VectorCopy("float32", 8, 4, 32, 64),
        VectorCast("float16", "float32", 40, "NONE"),
        VectorCast("float32", "float16", 33, "RINT"),
        TransposeBlocks(True, 2, 16, 8, 32),
    ],
    ids=str,
)
def test_what_is_written_over_was_read_before(instruction: Instruction, dst: int) -> None:
    """Source and destination of an instruction overlap, or just do not."""
    memory = memory_of("UB", words(7)[: SIZES["UB"] // 4])
    both(instruction, memory, dst, 96, models=MODELS[:1])


LEFT: list[tuple[Instruction, int, int]] = [
    (VectorBinary("add", "float16", 37), 512, 64),
    (DataCopy("UB", "GM", 64, 2, 96, 100, "float16"), GM1, 96),
    (DataCopy("UB", "UB", 64, 3, 64, 32), 512, 0),  # rows of dst cover each other
    (Duplicate("float32", 5, -0.0), 512, 0),
]


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case[0].name)
def test_c_leaves_the_rest_to_python(case: tuple[Instruction, int, int]) -> None:
    memory = fresh()
    before = everything(memory)
    assert not run_in_c(case[0], memory, case[1], case[2], 0)
    assert everything(memory) == before


@pytest.mark.parametrize(
    ("dst", "src0"),
    [
        (SIZES["UB"] - 95, 0),
        (-1, 0),
        (1 << 62, 0),
        (0, gm_operand(0, GM_BYTES - 95)),
        (0, gm_operand(2, 0)),
        (0, -1),
        (0, gm_operand(0, (1 << 44) - 8)),
    ],
)
def test_what_lies_outside_of_memory_is_never_touched_by_c(dst: int, src0: int) -> None:
    memory = fresh()
    before = everything(memory)
    copy = DataCopy("GM", "UB", 32, 2, 64, 64)
    assert not run_in_c(copy, memory, dst, src0, 0)
    assert everything(memory) == before
    assert run_in_c(copy, memory, SIZES["UB"] - 96, gm_operand(1, GM_BYTES - 96), 0)


def test_a_load_may_begin_between_blocks() -> None:
    load = LoadData3D("L0A", 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 2, 2, 0, 4, 0, 16)
    both(load, fresh(), 0, 80)


def test_who_changes_read_or_commit_is_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    class Louder(DataCopy):
        def commit(self, memory: Memory, dst: int, pending: Any) -> None:
            super().commit(memory, dst, pending + 1)

    plain, louder = (kind("GM", "UB", 32) for kind in (DataCopy, Louder))
    assert plain.described(MODELS[0]) is not None
    assert louder.described(MODELS[0]) is None
    monkeypatch.setattr(DataCopy, "read", lambda *_: None)
    assert plain.described(MODELS[0]) is None


@sampled(40, 300)
@given(variant=variants(), kind=st.sampled_from(["AIC", "AIV"]), actions=steps(30))
def test_random_programs_leave_the_same_bytes_and_findings(variant: RandomChip, kind: str, actions: list[Step]) -> None:
    """They race and read what nobody wrote; in time and row by row."""
    for run in (full, functional):
        found = []
        for engine in ("simpy", "compiled"):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(VARIABLE, engine)
                tensors, findings = run(variant.chip, kind, writer(kind, actions))
                found.append(([tensor.tobytes() for tensor in tensors], findings))
        assert found[0] == found[1]


@sampled(60, 1500)
@given(chosen=vector_chips(), actions=vector_steps())
def test_random_vector_programs_are_equal(chosen: tuple[ChipSpec, str], actions: list[VectorStep]) -> None:
    """Bytes, findings and every cycle, of both engines, or the deadlock of a set that was lost; bytes row by row as well."""
    chip, kind = chosen
    found: list[Any] = []
    for engine in ("simpy", "compiled"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, engine)
            device, task = prepared(chip, kind, vector_writer(actions), VECTOR_SIZES)
            try:
                timeline = Engine(device).run([task])
            except DeadlockError as error:
                found.append(str(error))
                continue
            findings = watched(timeline).findings + replay(device, [task], timeline.programs)
            tensors, others = functional(chip, kind, vector_writer(actions), VECTOR_SIZES)
            bytes_left = [one.data.tobytes() for one in task.tensors], [one.tobytes() for one in tensors]
            found.append((bytes_left, findings, others, columns(timeline)))
    assert found[0] == found[1]


def test_random_vector_programs_write_what_they_name() -> None:
    """On some chip each, over what hypothesis draws; a verb that every chip refuses would test nothing."""
    wrote: set[str] = set()

    @settings(max_examples=150, database=None, derandomize=True)
    @given(chosen=vector_chips(), actions=vector_steps(30))
    def once(chosen: tuple[ChipSpec, str], actions: list[VectorStep]) -> None:
        program(chosen[0], chosen[1], vector_writer(actions, wrote), VECTOR_SIZES)

    once()
    assert wrote == VERBS


CALLS = [
    ("ascend910a", "float16", {}),
    ("ascend310p3", "float16", {}),
    ("ascend910b3", "float16", {}),
    ("ascend910b3", "float16", {"overflow": "saturate"}),
    ("ascend910b3", "bfloat16", {"accumulate": "chunk"}),
    ("ascend910b3", "float32", {"cube_math_type": 1}),
    ("ascend950pr_9589", "float32", {}),
]


@pytest.mark.parametrize(("chip", "dtype", "options"), CALLS)
def test_whole_calls_give_the_same_bytes(chip: str, dtype: str, options: dict[str, Any]) -> None:
    """With infinities and NaN among the data, in both modes."""
    rng = np.random.default_rng(0)
    shapes = (2, 20, 6, 7), (2, 36, 6, 7), (20, 36, 3, 3)
    tensors = [rng.standard_normal(shape, np.float32).astype(numpy_dtype(dtype)) for shape in shapes]
    tensors[0][1, 3, 2, 2], tensors[1][0, 5, 5, 5], tensors[1][1, 7, 0, 0] = np.inf, np.nan, -np.inf
    for mode in ("functional", "full"):
        found = []
        for engine in ("simpy", "compiled"):
            attributes = [20], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3
            how = {"chip": chip, "mode": mode, "engine": engine, **options}
            result = ascend_sim.convolution_backward(*tensors, *attributes, **how)
            found.append([one.tobytes() for one in (result.grad_input, result.grad_weight, result.grad_bias)])
        assert found[0] == found[1]
