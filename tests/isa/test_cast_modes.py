"""Cast modes of the vector unit per chip, and saturation in Cast, Fixpipe and sums, from the chip file to a verdict."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ascend_sim import ConfigError, SimError, convolution_backward, load_chip
from ascend_sim.isa.cube import Fixpipe, Mmad
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.vector import ReduceRows, VectorBinary, VectorCast
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.local import LocalMemory
from ascend_sim.numerics import numpy_dtype, reference
from tests.support.sampling import part_of_cases

pytestmark = pytest.mark.fast

B3, A910, P3, C950 = (load_chip(name) for name in ("ascend910b3", "ascend910a", "ascend310p3", "ascend950pr_9589"))

# The vendor's tables, copied by hand: memory-vector Cast pages of asc-devkit (910A/310P, 910B/910_93, 950).
ALL16 = {"RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"}
STATED = {
    "ascend910a": {"float32->float16": {"ODD", "NONE"}, "float32->bfloat16": None, "float32->hifloat8": None},
    "ascend310p3": {"float32->float16": {"ODD", "NONE"}, "float32->bfloat16": None, "float16->bfloat16": None},
    "ascend910b3": {
        "float32->float16": {*ALL16, "ODD", "NONE"}, "float32->bfloat16": ALL16, "float16->bfloat16": None,
        "float32->float8_e4m3fn": None, "float32->hifloat8": None,
    },
    "ascend910_9391": {"float32->float16": {*ALL16, "ODD", "NONE"}, "float32->bfloat16": ALL16},
    "ascend950pr_9589": {
        "float32->float16": {*ALL16, "ODD", "NONE"}, "float32->bfloat16": ALL16, "float16->bfloat16": ALL16,
        "bfloat16->float16": ALL16, "float32->float8_e4m3fn": {"RINT"}, "float32->float8_e5m2": {"RINT"},
        "float32->hifloat8": {"ROUND", "HYBRID"}, "float16->hifloat8": {"ROUND", "HYBRID"}, "bfloat16->hifloat8": None,
    },
}  # fmt: skip


def builder(chip):
    return KernelBuilder(InstructionTable(chip), 0, "AI_CORE" if chip.cores.coupled else "AIV", [])


def memory(chip, overflow=None, sizes=(("UB", 65536),), gm=()):
    return Memory(LocalMemory(dict(sizes)), list(gm), ValueModel.of(chip, "blas", overflow))


def run_cast(chip, values, source, target, rounding, overflow=None):
    """`values` (patterns held in the source's dtype) through one VectorCast."""
    place = memory(chip, overflow)
    place.array("UB", 0, values.shape, numpy_dtype(source))[...] = values
    instruction = VectorCast(source, target, len(values), rounding)
    instruction.pipe(chip)
    instruction.commit(place, 32768, instruction.read(place, 32768, 0, 0))
    return place.array("UB", 32768, values.shape, numpy_dtype(target)).copy()


# -- cast modes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATED)
def test_the_chip_files_say_what_the_vendors_tables_say(name):
    casts = load_chip(name).vector.casts
    for pair, modes in STATED[name].items():
        assert (set(casts[pair]) if pair in casts else None) == modes, pair


def test_a_mode_that_the_chip_lacks_is_refused_when_the_program_is_built():
    for chip, rounding in ((A910, "RINT"), (P3, "TRUNC"), (B3, "HYBRID")):
        has = ", ".join(chip.vector.casts["float32->float16"])
        line = f"no cast mode {rounding} for float32 to float16; it has {has} ("
        with pytest.raises(SimError, match=re.escape(line)) as refusal:
            builder(chip).vector_cast(0, 0, "float32", "float16", 64, rounding)
        assert "Cast page" in str(refusal.value) and "vector.casts" in str(refusal.value)
        with pytest.raises(SimError, match=f"no cast mode {rounding}"):  # also when the instruction is made by hand
            InstructionTable(chip).add((VectorCast, "float32", "float16", 64, rounding))


def test_a_pair_that_the_chip_lacks_is_refused_with_the_pairs_that_it_has():
    with pytest.raises(SimError, match=r"does not cast float16 to bfloat16; it casts float32->float16, float32->bfloat16"):
        builder(B3).vector_cast(0, 0, "float16", "bfloat16", 64)
    with pytest.raises(SimError, match="does not cast float32 to bfloat16"):
        builder(A910).vector_cast(0, 0, "float32", "bfloat16", 64)


def test_without_a_mode_the_chips_own_is_taken():
    for chip, source, target, mode in (
        (B3, "float32", "float16", "RINT"),
        (B3, "bfloat16", "float32", "NONE"),
        (A910, "float32", "float16", "NONE"),
        (C950, "float32", "hifloat8", "ROUND"),
        (C950, "bfloat16", "float16", "RINT"),
    ):
        k = builder(chip)
        k.vector_cast(0, 1024, source, target, 64)
        assert k.table.instructions[-1].rounding == mode
    k = builder(B3)
    k.vector_cast(0, 1024, "float32", "float16", 64, "trunc")
    assert k.table.instructions[-1].rounding == "TRUNC"


def every_pair():
    for chip in (A910, B3, C950):
        for pair, modes in chip.vector.casts.items():
            own = "int" in pair or pair == "float32->float32"  # whole numbers: tests/isa/vector/test_conversion.py
            for mode in () if own else modes:
                yield pytest.param(chip, *pair.split("->"), mode, id=f"{chip.name}-{pair}-{mode}")


@part_of_cases(3)
@pytest.mark.parametrize(("chip", "source", "target", "mode"), list(every_pair()))
@pytest.mark.parametrize("overflow", ["inf_nan", "saturate"])
def test_every_mode_of_every_chip_rounds_as_the_scalar_truth(chip, source, target, mode, overflow):
    """Ties, neighbours of ties, small, large and special values, one at a time in exact arithmetic."""
    if overflow not in chip.overflow.modes:
        pytest.skip(f"{chip.name} has no {overflow}")
    rng = np.random.default_rng(1)
    wide = np.concatenate([
        rng.standard_normal(40), rng.standard_normal(30) * np.exp2(rng.integers(-26, 18, 30)),
        1 + np.arange(-8, 9) * 2.0**-12, np.arange(-4, 5) * 2.0**-25, np.arange(17) / 8 + 16,
        [65504, 65519, 65520, 7e4, -7e4, 448, 464, 465, 40959, 40960, 3e38, -3e38, 0, -0.0, np.inf, -np.inf, np.nan],
    ])  # fmt: skip
    with np.errstate(over="ignore"):
        if source == "hifloat8":
            held = np.arange(256).astype(np.uint8)
            values = [reference.decode(int(code), source) for code in held]
        else:
            held = wide.astype(np.float32).astype(numpy_dtype(source))
            values = [float(value) for value in held]
    got = run_cast(chip, held, source, target, mode, overflow)
    for value, result in zip(values, got, strict=True):
        width = "float16" if source == "float16" else "float32"
        expected = reference.round_value(value, target, mode, overflow == "saturate", source=width)
        shown = reference.decode(int(result), target) if target == "hifloat8" else float(result)
        np.testing.assert_array_equal(shown, expected, err_msg=f"{value!r} {mode}")
        assert np.isnan(shown) or np.signbit(shown) == np.signbit(expected)


def test_a_chip_of_the_users_may_lose_or_gain_modes(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text('extends: ascend910b3\nvector: {casts: {"float32->float16": [ODD], "float32->bfloat16": null}}\n')
    chip = load_chip(file)
    assert chip.vector.cast_mode("float32", "float16") == "ODD"
    with pytest.raises(SimError, match="has no cast mode RINT for float32 to float16; it has ODD"):
        chip.vector.cast_mode("float32", "float16", "RINT")
    with pytest.raises(SimError, match="does not cast float32 to bfloat16"):
        chip.vector.cast_mode("float32", "bfloat16")
    file.write_text('extends: ascend910b3\nvector: {casts: {"float32->float16": [NEAREST]}}\n')
    with pytest.raises(ConfigError, match=r"vector\.casts.*NEAREST"):
        load_chip(file)


# -- saturation --------------------------------------------------------------------------------------------------------


def test_modes_and_defaults_are_those_of_the_documents():
    """INF_NAN is the process default of 910B and A3 (and of the 950); 910 and 310P only saturate."""
    for name in ("ascend910b1", "ascend910b3", "ascend910_9391"):
        assert set(load_chip(name).overflow.modes) == {"inf_nan", "saturate"}
        assert ValueModel.of(load_chip(name)).overflow == "inf_nan"
    assert ValueModel.of(C950).overflow == "inf_nan"
    for chip in (A910, P3):
        assert chip.overflow.modes == ("saturate",) and ValueModel.of(chip).saturate


def test_a_mode_that_the_chip_lacks_is_one_clear_line():
    with pytest.raises(SimError, match=r"overflow 'inf_nan': ascend910a \(dav-1001\) has saturate \(.*overflow\.modes"):
        ValueModel.of(A910, "blas", "inf_nan")
    with pytest.raises(SimError, match=r"overflow 'wrap': ascend910b3 .* has inf_nan and saturate"):
        ValueModel.of(B3, "blas", "wrap")


def test_the_default_must_be_one_of_the_modes(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("extends: ascend910b3\noverflow: {modes: [saturate]}\n")
    with pytest.raises(ConfigError, match=r"overflow\.default: inf_nan is not one of overflow\.modes: saturate"):
        load_chip(file)


SPECIAL = np.float32([1e6, -1e6, np.inf, -np.inf, np.nan, 65519.9, 3.0, 1.0])
KEPT = [np.inf, -np.inf, np.inf, -np.inf, np.nan, 65504, 3, 1]
SATURATED = [65504, -65504, 65504, -65504, 0, 65504, 3, 1]


@pytest.mark.parametrize(("overflow", "expected"), [("inf_nan", KEPT), ("saturate", SATURATED)])
def test_cast_and_fixpipe(overflow, expected):
    np.testing.assert_array_equal(run_cast(B3, SPECIAL, "float32", "float16", "RINT", overflow), expected)
    assert_fixpipe(B3, "float16", overflow, expected)
    largest = np.finfo(np.float32).max
    wide = SPECIAL if overflow == "inf_nan" else np.where(np.isinf(SPECIAL), np.sign(SPECIAL) * largest, SPECIAL)
    assert_fixpipe(B3, "float32", overflow, np.nan_to_num(wide) if overflow == "saturate" else wide)


def assert_fixpipe(chip, dtype, overflow, expected):
    """One row of 16 columns out of L0C, the special values in the first eight."""
    target = np.zeros(64, np.uint8)
    place = memory(chip, overflow, (("L0C", 1024),), [target])
    place.array("L0C", 0, (16,), np.float32)[...] = 0
    place.array("L0C", 0, (8,), np.float32)[...] = SPECIAL
    fixpipe = Fixpipe(1, 16, 16, dtype, 16, 64)
    fixpipe.commit(place, 0, fixpipe.read(place, 0, 0, 0))
    np.testing.assert_array_equal(target.view(numpy_dtype(dtype))[:8], np.asarray(expected, numpy_dtype(dtype)))


def test_fixpipe_of_a_chip_whose_16_bit_results_always_saturate(tmp_path: Path):
    """One vendor page's rule for the 910B, as an option of the chip file."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        'extends: ascend910b3\noverflow: {fixpipe_16bit_saturates: {value: true, unit: bool, source: "C API page"}}\n'
    )
    chip = load_chip(file)
    assert_fixpipe(chip, "float16", "inf_nan", SATURATED)
    assert_fixpipe(chip, "float32", "inf_nan", SPECIAL)
    np.testing.assert_array_equal(run_cast(chip, SPECIAL, "float32", "float16", "RINT"), KEPT)
    result = backward(chip, 3e4, np.float16)
    assert np.isfinite(result.grad_input).all() and result.report.passed
    assert np.isinf(backward(B3, 3e4, np.float16).grad_input).any()


def test_sums_saturate_too():
    place = memory(B3, "saturate")
    large = np.float32([3e38, -3e38, np.inf, 1.0])
    place.array("UB", 0, (4,), np.float32)[...] = large
    add = VectorBinary("add", "float32", 4)
    reduce = ReduceRows(1, 2, 16)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(
            add.read(place, 64, 0, 0), np.float32([1, -1, 1, 0]) * np.finfo(np.float32).max + np.float32([0, 0, 0, 2])
        )
        assert reduce.read(place, 64, 0, 0)[0] == 0
    operands = memory(B3, "saturate", (("L0A", 512), ("L0B", 512), ("L0C", 1024)))
    for buffer in ("L0A", "L0B"):
        operands.array(buffer, 0, (16, 8), np.float32)[...] = 0
    operands.array("L0A", 0, (16, 8), np.float32)[0, 0] = 3e38
    operands.array("L0B", 0, (16, 8), np.float32)[0, 0] = 3e38
    mmad = Mmad(16, 8, 16, "float32", False)
    with np.errstate(over="ignore"):
        mmad.commit(operands, 0, mmad.read(operands, 0, 0, 0))
    assert operands.array("L0C", 0, (16,), np.float32)[0] == np.finfo(np.float32).max


def backward(chip, scale, dtype=np.float32, **options):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(dtype) for shape in ((1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 3, 3))]
    with np.errstate(over="ignore"):
        values[0] = (values[0].astype(np.float32) * np.float32(scale)).astype(dtype)
    return convolution_backward(*values, None, 1, 1, 1, False, 0, 1, (True, True, True), chip=chip, **options)


def test_overflow_from_the_call_to_the_verdict():
    """Operands of 1e5 cast to float16: infinities with inf_nan, 65504 when saturating; each is right in its own mode only."""
    kept = backward(B3, 1e5, cube_math_type=2)
    settled = backward(B3, 1e5, cube_math_type=2, overflow="saturate")
    assert not np.isfinite(kept.grad_input).all() and np.isfinite(settled.grad_input).all()
    assert kept.report.passed and settled.report.passed
    assert (kept.report.problem["overflow"], settled.report.problem["overflow"]) == ("inf_nan", "saturate")
    functional = backward(B3, 1e5, cube_math_type=2, overflow="saturate", mode="functional", deterministic=True)
    full = backward(B3, 1e5, cube_math_type=2, overflow="saturate", deterministic=True)
    for name, gradient in full.outputs.items():
        np.testing.assert_array_equal(gradient, functional.outputs[name])


def test_the_verdict_of_the_other_mode_is_wrong():
    from ascend_sim.ops.operators import OPERATORS
    from ascend_sim.ops.verdicts import judge

    operator = OPERATORS["convolution_backward"]

    kept, settled = (backward(B3, 3e4, np.float16, overflow=mode) for mode in ("inf_nan", "saturate"))
    assert np.isinf(kept.grad_input).any()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float16) for shape in ((1, 16, 4, 4), (1, 16, 4, 4), (16, 16, 3, 3))]
    with np.errstate(over="ignore"):
        inputs[0] = (inputs[0].astype(np.float32) * np.float32(3e4)).astype(np.float16)
    given = dict(zip(("grad_output", "input", "weight"), inputs, strict=True))
    for result, own, other in ((kept, "inf_nan", "saturate"), (settled, "saturate", "inf_nan")):
        gradients = {"grad_input": result.grad_input}
        assert judge(operator, result.call, B3, given, gradients, ValueModel.of(B3, "blas", own))["grad_input"]["correct"]
        assert not judge(operator, result.call, B3, given, gradients, ValueModel.of(B3, "blas", other))["grad_input"]["correct"]


def test_the_first_910_saturates_and_refuses_the_other_mode():
    # Finite operands: what inf + -inf settles to depends on how a sum is split over cores.
    result = backward(A910, 1e4, np.float16)
    assert np.isfinite(result.grad_input).all() and (np.abs(result.grad_input) == 65504).any() and result.report.passed
    with pytest.raises(SimError, match=r"ascend910a .* has saturate"):
        backward(A910, 1.0, np.float16, overflow="inf_nan")


def test_bfloat16_keeps_its_range():
    values = np.float32([1e38, 3.4e38, np.inf]).astype(np.float32)
    got = run_cast(B3, values, "float32", "bfloat16", "RINT", "saturate").astype(np.float32)
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    np.testing.assert_array_equal(got, np.float32([np.float32(ml_dtypes.bfloat16(1e38)), largest, largest]))
