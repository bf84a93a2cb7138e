"""The cube's models of addition: against rational arithmetic, through the machine's Mmad, and what they leave alone."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from ascend_sim import SimError, compare, convolution_backward
from ascend_sim.chip import load_chip
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.memory.local import LocalMemory
from ascend_sim.numerics.accumulate import ACCUMULATIONS, add_chunks, add_exact_groups
from tests.support.sampling import part_of_cases

CHIP = load_chip("ascend910b3")
DIGITS = {"float16": 11, "bfloat16": 8, "hf32": 12, "float32": 24}


@pytest.mark.parametrize("name", ACCUMULATIONS)
def test_blas_adds_on_one_thread(name):
    """Its order of additions depends on the number of threads; the model of every chip uses no BLAS for float products."""
    with threadpool_limits(limits=2, user_api="blas"):
        with ValueModel.of(CHIP, name).one_order():
            inside = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {2}
    assert inside == ({2} if name == "chunk" else {1})


def is_rounded(result, exact):
    """Return True if a float32 is the nearest one to a rational number, ties to the even one."""
    if abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return np.isinf(result) and (result > 0) == (exact > 0)
    if not np.isfinite(result):
        return False
    error = abs(Fraction(float(result)) - exact)
    for other in (np.nextafter(result, np.float32(np.inf)), np.nextafter(result, np.float32(-np.inf))):
        # Beyond the largest value stands 2^128, as if the exponent went on.
        value = Fraction(2) ** 128 * int(np.sign(other)) if np.isinf(other) else Fraction(float(other))
        distance = abs(value - exact)
        if distance < error or (distance == error and result.view(np.uint32) & 1):
            return False
    return True


def in_format(values, dtype):
    """float32 values that the format holds, written without the project's casts."""
    if dtype == "float16":
        return np.float32(np.float16(values))
    if dtype == "bfloat16":
        return values.astype(ml_dtypes.bfloat16).astype(np.float32)
    if dtype == "hf32":
        return (values.view(np.uint32) & np.uint32(0xFFFFF000)).view(np.float32)
    return values


def random_operands(rng, shape, dtype, spread):
    """Normal values times powers of two up to 2^-spread .. 2^spread, some of them zero."""
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-spread, spread + 1, shape))
    values[rng.random(shape) < 0.05] = 0
    with np.errstate(over="ignore"):
        values = in_format(values.astype(np.float32), dtype)
    return np.where(np.isfinite(values), values, np.float32(1))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(list(DIGITS)), st.sampled_from([0, 3, 12, 30, 60]), st.integers(1, 17))
def test_an_exact_group_is_rounded_once(seed, dtype, spread, width):
    """One group on top of a sum: the nearest float32 of the rational value, however far the operands are apart."""
    rng = np.random.default_rng(seed)
    left, right = (random_operands(rng, (rows, width), dtype, spread) for rows in (3, 4))
    start = random_operands(rng, (3, 4), "float32", spread)
    result = add_exact_groups(start, left, right, width, DIGITS[dtype])
    for i, j in np.ndindex(3, 4):
        products = (Fraction(float(a)) * Fraction(float(b)) for a, b in zip(left[i], right[j], strict=True))
        assert is_rounded(result[i, j], Fraction(float(start[i, j])) + sum(products))


def test_groups_follow_each_other_in_increasing_k():
    rng = np.random.default_rng(5)
    left, right = (random_operands(rng, (rows, 22), "float32", 4) for rows in (3, 2))
    total = np.zeros((3, 2), np.float32)
    for group in range(0, 22, 4):
        total = add_exact_groups(total, left[:, group : group + 4], right[:, group : group + 4], 4, 24)
    np.testing.assert_array_equal(add_exact_groups(np.zeros((3, 2), np.float32), left, right, 4, 24), total)


def test_ties_and_what_lies_just_beside_them():
    """2^24 + 1 is a tie; the smallest product beside it decides, although float64 cannot hold it too."""
    for tail, expected in ((0.0, 2.0**24), (2.0**-60, 2.0**24 + 2), (-(2.0**-60), 2.0**24)):
        left = np.float32([[2.0**12, 1.0, tail, 0.0]])
        right = np.float32([[2.0**12, 1.0, 1.0, 1.0]])
        assert add_exact_groups(np.zeros((1, 1), np.float32), left, right, 4, 24)[0, 0] == expected


def test_infinite_nan_overflow_and_zero():
    huge, inf, nan = np.float32(3e38), np.float32(np.inf), np.float32(np.nan)
    cases = [([inf, 1], [1, 1], 0, inf), ([inf, -inf], [1, 1], 0, nan), ([inf], [0], 0, nan), ([nan], [1], 0, nan)]
    cases += [([huge, huge], [1, 1], 0, inf), ([-huge], [1], -huge, -inf), ([huge, -huge], [2, 2], 7, 7), ([1], [1], inf, inf)]
    cases += [([0, 0], [5, 5], 0, 0)]
    for left, right, start, expected in cases:
        a, b = np.float32([left]), np.float32([right])
        got = add_exact_groups(np.full((1, 1), start, np.float32), a, b, 4, 24)[0, 0]
        np.testing.assert_array_equal(got, np.float32(expected))


def mmad(chip, left, right, dtype, model, *, start=None, hf32_bits=0):
    """One Mmad of the machine: operands into L0A and L0B as fractals, the sum out of L0C."""
    storage = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}.get(dtype, np.float32)
    (m, k), n = left.shape, len(right)
    instruction = Mmad(m, k, n, dtype, start is not None, hf32_bits)
    memory = Memory(LocalMemory({"L0A": 65536, "L0B": 65536, "L0C": 131072}), [], ValueModel.of(chip, model))
    c0 = 32 // np.dtype(storage).itemsize
    k1 = -(-k // c0)
    for buffer, matrix, order in (("L0A", left, (0, 2, 1, 3)), ("L0B", right, (2, 0, 1, 3))):
        rows1 = -(-len(matrix) // 16)
        padded = np.zeros((rows1 * 16, k1 * c0), storage)
        padded[: len(matrix), :k] = matrix
        fractals = np.ascontiguousarray(padded.reshape(rows1, 16, k1, c0).transpose(order))
        memory.array(buffer, 0, fractals.shape, storage)[...] = fractals
    shape = (-(-n // 16), -(-m // 16) * 16, 16)
    if start is not None:
        memory.array("L0C", 0, shape, np.float32)[...] = start
    instruction.commit(memory, 0, instruction.read(memory, 0, 0, 0))
    out = memory.array("L0C", 0, shape, np.float32)
    return out.transpose(1, 0, 2).reshape(shape[1], -1)[:m, :n].copy()


def one_sum(chip, dtype, model, values, start=None):
    """The sum of `values` (times ones) that the machine arrives at."""
    left = np.zeros((1, len(values)), np.float32)
    left[0] = values
    bits = chip.cube.hf32_mantissa_bits if dtype == "hf32" else 0
    return float(mmad(chip, left, np.ones_like(left), dtype, model, start=start, hf32_bits=bits)[0, 0])


def test_the_group_is_what_the_chip_multiplies_in_a_cycle():
    """fp32: 4 products a cycle on the 910B, 1 on the 950, fractals of 8; sums of 2^24 and ones tell them apart."""
    late = [2.0**24] + [0] * 7 + [1, 0, 0, 0, 1, 0, 0, 0]  # two ones in one fractal, in different cycles
    together = [2.0**24, 1, 1, 1]
    assert one_sum(CHIP, "float32", "chunk", late) == 2**24 + 2
    assert one_sum(CHIP, "float32", "exact_group", late) == 2**24
    assert one_sum(CHIP, "float32", "exact_group", together) == 2**24 + 4  # 2^24 + 3 is a tie
    ascend950 = load_chip("ascend950pr_9589")
    assert one_sum(ascend950, "float32", "exact_group", together) == 2**24
    assert one_sum(CHIP, "hf32", "exact_group", late[:12] + [0] * 4) == 2**24
    half = [2.0**12] + [2.0**-12] * 14 + [0]  # fp16: 16 products a cycle, so nothing is lost here
    assert one_sum(CHIP, "float16", "exact_group", half) == 2**12 + 14 * 2**-12
    assert one_sum(CHIP, "float16", "exact_group", [0] * 16 + half, start=2.0**12) == 2**13 + 2**-8  # a tie


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("model", ACCUMULATIONS)
def test_every_model_multiplies_and_goes_on_from_l0c(dtype, model):
    """Small whole numbers: any order is exact, also in a tile with ragged edges."""
    rng = np.random.default_rng(3)
    left, right = rng.integers(-8, 9, (21, 37)).astype(np.float32), rng.integers(-8, 9, (18, 37)).astype(np.float32)
    np.testing.assert_array_equal(mmad(CHIP, left, right, dtype, model), left @ right.T)
    np.testing.assert_array_equal(mmad(CHIP, left, right, dtype, model, start=5.0), left @ right.T + 5)


def test_chunks_add_in_float32():
    rng = np.random.default_rng(8)
    left, right = (random_operands(rng, (4, 40), "float16", 2) for _ in range(2))
    total = np.zeros((4, 4), np.float32)
    for k in range(40):  # chunks of one: every product and every sum rounded
        total += np.outer(left[:, k], right[:, k])
    np.testing.assert_array_equal(add_chunks(np.zeros((4, 4), np.float32), left, right, 1), total)


def matmul_bits(cube_math_type, model, seed):
    """Effective bits of a 64 x 64 x 64 product: grad_input of a 1 x 1 convolution."""
    rng = np.random.default_rng(seed)
    gradient, weight = rng.standard_normal((1, 64, 8, 8), np.float32), rng.standard_normal((64, 64, 1, 1), np.float32)
    result = convolution_backward(
        gradient,
        np.zeros((1, 64, 8, 8), np.float32),
        weight,
        None,
        1,
        0,
        1,
        False,
        0,
        1,
        (True, False, False),
        cube_math_type=cube_math_type,
        mode="functional",
        accumulate=model,
    )
    exact = weight[:, :, 0, 0].astype(float).T @ gradient[0].reshape(64, 64).astype(float)
    return compare(result.grad_input, exact.reshape(1, 64, 8, 8)).effective_bits


def test_published_effective_bits():
    """A third party measured 12.7 bits for 64 x 64 fp32 products under HF32, and 23.9 without, on a 910B."""
    hf32 = [matmul_bits(1, "exact_group", seed) for seed in range(4)]
    exact = [matmul_bits(0, "exact_group", seed) for seed in range(4)]
    assert np.mean(hf32) == pytest.approx(12.7, abs=0.1)
    assert np.mean(exact) == pytest.approx(23.9, abs=0.1)
    assert np.mean([matmul_bits(0, "blas", seed) for seed in range(4)]) < np.mean(exact) - 0.1


def tensors(dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = ((2, 20, 7, 7), (2, 18, 7, 7), (20, 18, 3, 3))
    return [rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def backward(values, **options):
    return convolution_backward(*values, None, 1, 1, 1, False, 0, 1, (True, True, True), deterministic=True, **options)


@part_of_cases(3)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("model", ACCUMULATIONS)
def test_full_and_functional_agree_and_are_correct(dtype, model):
    full, functional = (backward(tensors(dtype), mode=mode, accumulate=model) for mode in ("full", "functional"))
    for name, gradient in full.outputs.items():
        np.testing.assert_array_equal(gradient, functional.outputs[name])
    assert full.report.passed
    assert full.report.to_dict(statements=False)["problem"]["accumulate"] == model


def test_models_differ_in_values_and_not_in_time():
    runs = [backward(tensors(), mode="full", accumulate=model) for model in ("blas", "exact_group")]
    assert runs[0].report.total_us == runs[1].report.total_us
    assert (runs[0].grad_weight != runs[1].grad_weight).any()
    np.testing.assert_allclose(runs[0].grad_weight, runs[1].grad_weight, rtol=1e-3, atol=1e-4)


def test_an_unknown_model_is_one_clear_line():
    with pytest.raises(SimError, match=r"^accumulate 'kahan': allowed are blas, chunk, exact_group$"):
        backward(tensors(), accumulate="kahan")


def test_split_k_is_added_in_the_order_of_simulated_arrival():
    """Atomic additions: the same bits in every full run, others in block order (`functional`), both right."""
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(shape, np.float32) for shape in ((2, 32, 14, 14), (2, 32, 14, 14), (32, 32, 3, 3))]
    mask = (False, True, False)
    runs = [
        convolution_backward(*values, None, 1, 1, 1, False, 0, 1, mask, deterministic=False, mode=mode)
        for mode in ("full", "full", "functional")
    ]
    first, again, in_block_order = (run.grad_weight for run in runs)
    np.testing.assert_array_equal(first, again)
    assert (first != in_block_order).any()
    assert all(run.report.passed for run in runs)


SHAPES = (  # input, weight, stride, padding of a batch of five images
    ((5, 3, 56, 56), (64, 3, 14, 14), 14, 0),
    ((5, 32, 14, 14), (48, 32, 3, 3), 1, 1),
    ((5, 40, 9, 9), (24, 40, 3, 3), 2, 1),
)


@part_of_cases(0, "ascend910b3", "ascend950pr_9589-1")
@pytest.mark.parametrize("cube_math_type", [0, 1, 2])
@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910b", "ascend950pr_9589"])
def test_an_image_has_the_same_bits_in_any_batch(chip: str, cube_math_type: int) -> None:
    """grad_input of one image, in batches of one, two and five."""
    if (chip, cube_math_type) == ("ascend910b", 0):
        pytest.skip("the first 910 refuses float32 that is kept")
    rng = np.random.default_rng(3)
    for shape, filters, stride, padding in SHAPES:
        size = (shape[2] + 2 * padding - filters[2]) // stride + 1
        grad_output = rng.standard_normal((shape[0], filters[0], size, size)).astype(np.float32)
        x, weight = (rng.standard_normal(one).astype(np.float32) for one in (shape, filters))
        found = [
            convolution_backward(
                grad_output[:count], x[:count], weight, stride=stride, padding=padding, cube_math_type=cube_math_type,
                output_mask=(True, False, False), mode="functional", chip=chip,
            ).grad_input[0]
            for count in (1, 2, 5)
        ]  # fmt: skip
        assert (found[0] == found[1]).all() and (found[0] == found[2]).all(), (shape, filters)
