"""Errors of a user with a kernel of his own: one line for each."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.launched import CHIP, move, turns

ALLOWED = "allowed are an array of numbers, an Expected, or a dict of them by the outputs' names"


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ({"z": np.zeros((2, 32))}, "no output 'z'; the kernel has y"),
        (np.zeros((2, 31)), r"y has shape \[2, 31\]; the output has \[2, 32\]"),
        (lambda w: w, "asks for w; inputs of the kernel are x"),
        (lambda x: None, f"None for y; {ALLOWED}"),
        (lambda x: (x,), f"a value of type tuple for y; {ALLOWED}"),
        (lambda x: {"y": (x, x[1:])}, f"a value of type tuple for y; {ALLOWED}"),
        ("zeros", f"a value of type str for y; {ALLOWED}"),
        ([[1, 2], [3]], f"a value of type list for y; {ALLOWED}"),
        (asim.Expected(None), f"None for y; {ALLOWED}"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_compared_is_refused(expected: Any, told: str) -> None:
    x = np.zeros((2, 32), np.float16)
    with pytest.raises(asim.SimError, match=told):
        asim.launch(move, 1, x, asim.empty(x.shape, "float16"), chip=CHIP, expected=expected)


# -- what is refused ---------------------------------------------------------------------------------------------------


def told(*arguments: Any, kernel: Any = move, blocks: Any = 1, **options: Any) -> str:
    with pytest.raises(asim.SimError) as caught:
        asim.launch(kernel, blocks, *arguments, **{"chip": CHIP, **options})
    text = str(caught.value)
    assert "\n" not in text
    return text


X = np.zeros((2, 32), np.float16)

Y = asim.empty((2, 32), "float16")


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((X,), {}, "kernel move(k"),
        ((X, Y, Y), {}, "too many positional arguments"),
        ((X, Y), {"base_m": 4}, "unexpected keyword argument 'base_m'"),
        ((X, 3), {}, "y is int; a tensor is a numpy array or ascend_sim.empty(...)"),
        ((X,), {"y": Y}, "y is a tensor; tensors stand in order, without their names"),
        ((X, np.float16(3)), {}, "y is float16; a tensor is a numpy array or ascend_sim.empty(...)"),
        ((X, asim.TensorSpec((2, 32), "float16")), {}, "mode 'full' needs values, but y is a TensorSpec"),
        ((X.astype(np.float64), Y), {}, "dtype 'float64': a tensor is one of"),
        ((X.astype(">f2"), Y), {}, "byte order"),
        ((X, Y), {"blocks": 0}, "0 blocks"),
        ((X, Y), {"blocks": 65536}, "65536 blocks; a launch has at most 65535"),
        ((X, Y), {"blocks": True}, "True blocks"),
        ((X, Y), {"blocks": 2.0}, "2.0 blocks"),
        ((X, Y), {"mode": "fast"}, "mode 'fast': allowed are full, functional, timing"),
        ((X, Y), {"engine": "steam"}, "steam"),
        ((X, Y), {"l2": "hot"}, "l2 'hot': allowed are cold, warm, step"),
        ((X, Y), {"chip": "ascend911"}, "ascend911"),
        ((X, Y), {"chip": "ascend910a"}, "kernel move runs on AIV; ascend910a (dav-1001) has AI_CORE (chip file, cores.kinds)"),
        ((X, Y), {"kernel": turns, "chip": "ascend310p3"}, "runs on AIV"),
        ((X, Y), {"kernel": len}, "is not a kernel"),
        ((X, Y), {"disarm": [3]}, "disarm [3] must be the name of a flag, or a list of such"),
        ((X, Y), {"observer": ()}, "observer [] must be an object with the methods watch, started and retired, or None"),
        ((X, Y), {"disarm": ["x[7] full"]}, "disarm: no flag 'x[7] full' in move; did you mean 'x[1] full'?; it has x[0] free"),
        ((asim.empty((2**30, 2**10), "float16"), Y), {"mode": "timing"}, "its tensors take"),
    ],
)  # fmt: skip
def test_a_wrong_launch_is_told_in_one_line(arguments: Sequence[Any], options: dict[str, Any], said: str) -> None:
    if options.get("kernel") is turns:
        arguments, said = (X, X, X, X), "kernel turns runs on MIX; ascend310p3 (dav-2002) has AI_CORE, AIV"
    assert said in told(*arguments, **options)


def test_an_error_inside_the_kernel_names_file_and_line() -> None:
    def bad(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, what: str = "") -> None:
        k.gm_to_ub(0, x)
        if what == "python":
            raise KeyError("lost")
        if what == "builder":
            k.gm_to_ub(10**9, x[0, 99])
        k.ub_to_gm(y, 10**9 if what == "address" else 0)

    kernel = asim.kernel_function(core="AIV")(bad)
    first = bad.__code__.co_firstlineno
    for what, line, said in (
        ("python", 3, "KeyError: 'lost'"),
        ("builder", 5, "x[2, 32] float16: index 99"),
        ("address", 6, "block 0 AIV0: "),
    ):
        assert f"{Path(__file__).name}:{first + line}: kernel bad: {said}" in told(X, Y, kernel=kernel, what=what)


def test_a_flag_that_stays_raised_is_told_with_the_line_of_its_last_set() -> None:
    def bad(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        full = k.flag("MTE2", "MTE3", "full")
        for row in range(2):
            k.gm_to_ub(0, x[row])
            k.set_flag(full)
            if not row:
                k.wait_flag(full)
            k.ub_to_gm(y[row], 0)

    text = told(X, Y, kernel=asim.kernel_function(core="AIV")(bad))
    assert f"{Path(__file__).name}:{bad.__code__.co_firstlineno + 4}: kernel bad: block 0 AIV0" in text
    assert "flag 'full' (MTE2->MTE3) is still raised at the end of the block; sets without a wait: 1" in text


def test_a_builder_that_is_kept_takes_nothing_more() -> None:
    kept = []

    def keep(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        k.ub_to_gm(y, 0) if kept else k.scalar(1)
        kept.append(k)

    asim.launch(asim.kernel_function(core="AIV")(keep), 1, X, Y, chip=CHIP)
    for write in (lambda: kept[0].scalar(1), lambda: kept[0].pipe_barrier("ALL")):
        with pytest.raises(asim.SimError, match=r"block 0 AIV0: \w+ after the program was made"):
            write()


def test_a_dtype_that_the_cube_lacks_is_told() -> None:
    kernel = asim.kernel_function(core="AI_CORE")(lambda k, x: k.mmad(0, 0, 0, 16, 16, 16, "bfloat16", False))
    text = told(X, kernel=kernel, chip="ascend910a")
    assert "mmad: ascend910a (dav-1001) multiplies no bfloat16; it has float16, int8 (chip file, cube.rates)" in text


async def later(k: asim.Kernel, x: asim.Tensor) -> None:
    k.scalar(1)


async def later_in_parts(k: asim.Kernel, x: asim.Tensor) -> Any:
    yield k.scalar(1)


def in_parts(k: asim.Kernel, x: asim.Tensor) -> Any:
    k.scalar(1)
    yield


class Callable_:
    async def __call__(self, k: asim.Kernel, x: asim.Tensor) -> None:
        k.scalar(1)

    async def method(self, k: asim.Kernel, x: asim.Tensor) -> None:
        k.scalar(1)


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def plain(k: asim.Kernel, x: asim.Tensor) -> Any:
        return function(k, x)

    return plain


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (later, "kernel later: it is a coroutine (`async def`)"),
        (later_in_parts, "kernel later_in_parts: it is an asynchronous generator"),
        (in_parts, "kernel in_parts: it is a generator (`yield` in its body)"),
        (lambda k, x: (yield), "it is a generator"),
        (Callable_().method, "kernel method: it is a coroutine"),
        (Callable_(), "is not a function"),
        (functools.partial(later), "is not a function"),
    ],
)
def test_a_function_whose_call_runs_nothing_is_no_kernel(function: Any, said: str) -> None:
    with pytest.raises(asim.SimError, match=re.escape(said)) as refusal:
        asim.kernel_function(core="AIV")(function)
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("error")  # "coroutine was never awaited"
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda k, x: later(k, x), "coroutine"),
        (lambda k, x: later_in_parts(k, x), "async_generator"),
        (lambda k, x: in_parts(k, x), "generator"),
        (lambda k, x: (k.scalar(1) for _ in range(3)), "generator"),
        (lambda k, x: map(k.scalar, [1]), "map"),
        (lambda k, x: [k.scalar(1)], "list"),
        (lambda k, x: k.allocate("UB", 32, "a"), "int"),
        (lambda k, x: 0, "int"),
        (lambda k, x: False, "bool"),
        (wrapped(later), "coroutine"),
        (wrapped(in_parts), "generator"),
    ],
)
def test_a_kernel_returns_nothing(function: Any, kind: str) -> None:
    kernel = asim.kernel_function(core="AIV")(function)
    said = f"it returns a value of type {kind}; a kernel is a plain function"
    for mode in ("full", "timing", "functional"):
        with pytest.raises(asim.KernelError, match=said) as refusal:
            asim.launch(kernel, 1, X, chip=CHIP, mode=mode)
        assert "\n" not in str(refusal.value) and "test_launching_errors.py: kernel" in str(refusal.value)
    report = asim.check_kernel(kernel, 1, X, chip=CHIP)
    (finding,) = (one for one in report.findings if one.kind == "refused")
    assert said in finding.title and "test_launching_errors.py:" in finding.details[1]


def test_a_kernel_that_another_one_uses_may_return_something() -> None:
    """A call of it is a plain one; and marked again it is the same function."""

    @asim.kernel_function(core="AIV")
    def take(k: asim.Kernel, x: asim.Tensor) -> int:
        return k.allocate("UB", x.nbytes, "x")

    @asim.kernel_function(core="AIV")
    def copy(k: asim.Kernel, x: asim.Tensor) -> None:
        k.gm_to_ub(take(k, x), x)

    assert asim.launch(asim.kernel_function(core=("AIV", "AI_CORE"))(copy), 1, X, chip=CHIP).passed


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: asim.kernel_function(core="GPU"), "core 'GPU'; allowed are AIC, AIV, MIX, MIX_1_1, AI_CORE"),
        (lambda: asim.kernel_function(core=()), "allowed are AIC"),
        (lambda: asim.kernel_function(core="AIC")(3), "3 is not a function"),
        (lambda: asim.kernel_function(core="AIC")(lambda: None), "first parameter is the builder"),
        (lambda: asim.kernel_function(core="AIC")(lambda k, x, chip: None), "'chip' is a keyword of launch"),
        (lambda: asim.empty((2, -1), "float16"), "sizes are 0 or more"),
        (lambda: asim.empty("ab", "float16"), "shape"),
        (lambda: asim.empty((2,), "float64"), "float64"),
    ],
)
def test_what_makes_no_kernel_is_refused(make: Any, said: str) -> None:
    with pytest.raises(asim.SimError, match=re.escape(said)):
        make()


@asim.kernel_function(core="AIV")
def writes_wrongly(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, *, how: str) -> None:
    """One mistake of a beginner, by its name."""
    tile = k.local_tensor(32, "float16", "tile")
    if how == "a size with a point":
        k.data_copy("GM", "UB", 0, x.address, x.nbytes / 2)
    elif how == "a count with a point":
        k.vector_duplicate(0, "float16", 64 / 2)
    elif how == "a result in GM":
        k.adds(y[0], tile, 1)
    elif how == "a source in GM":
        k.add(tile, tile, x[0])
    elif how == "a row in GM":
        k.reduce_sum(tile, x)
    else:
        k.adds(tile, tile, "one")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("a size with a point", "data_copy: row_bytes is 64.0; a whole number is allowed"),
        ("a count with a point", "duplicate: count is 32.0; a whole number is allowed"),
        ("a result in GM", "adds: y[32] float16 is in GM; a vector instruction works on tensors in UB"),
        ("a source in GM", "add: x[32] float16 is in GM; a vector instruction works on tensors in UB"),
        ("a row in GM", "reduce_sum: x[2, 32] float16 is in GM; a vector instruction works on tensors in UB"),
        ("a word for a number", "adds: the scalar is 'one'; a number is allowed"),
    ],
)
def test_a_mistake_in_a_kernel_is_told_with_its_line(how: str, said: str) -> None:
    text = told(X, Y, kernel=writes_wrongly, how=how)
    assert said in text and re.search(r"test_launching_errors.py:\d+: kernel writes_wrongly: ", text)


def test_one_flag_may_be_disarmed_by_its_name_alone() -> None:
    one, many = (
        asim.launch(move, 1, np.ones((2, 32), np.float16), Y, chip=CHIP, disarm=given) for given in ("x[0] full", ["x[0] full"])
    )
    assert [str(found) for found in one.findings] == [str(found) for found in many.findings] != []


@pytest.mark.parametrize(("row", "rows"), [(1, 16), (0, 17)])
def test_a_piece_of_a_matrix_lies_inside_it(row: int, rows: int) -> None:
    @asim.kernel_function(core="AIC")
    def loads(k: asim.Kernel, x: asim.Tensor) -> None:
        k.l1_to_l0a(0, 0, rows, 16, "float16", held=16, row=row)

    with pytest.raises(asim.KernelError, match=f"rows {row} to 17 of 16.*a piece lies inside the matrix"):
        asim.launch(loads, 1, np.zeros(64, np.float32), chip="ascend910b3")


def test_rows_of_a_tensor_begin_at_blocks_in_ub() -> None:
    """Rows of 40 bytes are 64 apart there, though they have no gaps in GM."""

    @asim.kernel_function(core="AIV")
    def second_row(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        k.gm_to_ub(0, x)
        k.pipe_barrier("ALL")
        k.ub_to_gm(y, k.row_bytes(40))

    x, y = np.arange(20, dtype=np.float32).reshape(2, 10), asim.empty(10, "float32")
    result = asim.launch(second_row, 1, x, y, chip="ascend910b3")
    np.testing.assert_array_equal(result.outputs["y"], x[1])


def test_a_kernel_called_like_a_function_names_launch() -> None:
    """Outside of a kernel there is no builder: the message is the line that runs the kernel."""
    told = r"kernel move: a call needs the builder of another kernel; .*ascend_sim\.launch\(move, blocks, x, y\)"
    for arguments in ((), (np.zeros((2, 32), np.float16), asim.empty((2, 32), "float16"))):
        with pytest.raises(asim.SimError, match=told):
            move(*arguments)


def test_a_public_name_has_near_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'run_cas'; did you mean run_case"):
        asim.run_cas  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '__nothing__'$"):
        asim.__nothing__  # noqa: B018
