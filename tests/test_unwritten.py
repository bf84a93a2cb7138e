"""Reads of unwritten bytes of buffers: a warning where no output depends on them, as on the padding of a tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.kernel.function import KernelFunction
from ascend_sim.launching import outputs_depend
from ascend_sim.memory.local import LocalMemory, poisoned_with

CHIP = asim.load_chip("ascend910b3")
TAIL, PADDED = 10, 64
X = np.arange(1, TAIL + 1, dtype=np.int32)


def kernel(what: str) -> KernelFunction:
    """Return a kernel that loads 10 numbers and computes on 64; `what` says which of them it stores."""

    @asim.kernel_function(core="AIV")
    def padded(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        a, b = k.local_tensor(PADDED, x.dtype, "a"), k.local_tensor(PADDED, x.dtype, "b")
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        k.gm_to_ub(a[:TAIL], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        (k.adds if what == "tail" else k.maxs if what == "larger" else k.mins)(b, a, 5)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, b[: y.size])

    return padded


def levels(what: str, *tensors: Any) -> list[tuple[str, str]]:
    """Return kind and level of what a check finds."""
    return [(one.kind, one.level) for one in asim.check_kernel(kernel(what), 1, *tensors).findings]


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("mode", ["full", "functional"])
def test_padding_that_is_dropped_is_a_warning(engine: str, mode: str) -> None:
    y = asim.empty(TAIL, "int32")
    run = asim.launch(kernel("tail"), 1, X, y, expected={"y": X + 5}, engine=engine, mode=mode)
    assert run.passed and [(one.kind, one.level) for one in run.findings] == [("uninitialised", "WARNING")]
    said = "a read of bytes of buffers that were never written (a check names the lines); no output depends on these bytes"
    assert [one for one in run.report.warnings if one.startswith(said)]
    assert levels("tail", X, y) == [("uninitialized read", "WARNING")]


@pytest.mark.parametrize("what", ["tail", "larger", "smaller"])
def test_padding_that_is_stored_is_an_error(what: str) -> None:
    """Numbers below 5 are hidden by a larger one and numbers above it by a smaller one, and NaN is -1 in int32."""
    y = asim.empty(PADDED, "int32")
    run = asim.launch(kernel(what), 1, X, y)
    assert [one.kind for one in run.findings] == ["uninitialised"] and not run.passed
    assert levels(what, X, y) == [("uninitialized read", "ERROR")]


def test_a_comparison_that_is_false_for_nan_is_an_error() -> None:
    @asim.kernel_function(core="AIV")
    def below(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        a, bits = k.local_tensor(PADDED, x.dtype, "a"), k.local_tensor(32, "uint8", "bits")
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        k.gm_to_ub(a[:TAIL], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.compare(bits[: PADDED // 8], "lt", a, 0.0)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, bits[: PADDED // 8])

    x, y = X.astype(np.float32), asim.empty(PADDED // 8, "uint8")
    assert [one.level for one in asim.check_kernel(below, 1, x, y).findings] == ["ERROR"]


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_a_read_long_before_the_bytes_come_is_an_error(engine: str) -> None:
    """No hazard: the load begins behind another, when the read is over. Block by block the bytes would be there."""

    @asim.kernel_function(core="AIV")
    def early(k: asim.Kernel, big: asim.Tensor, x: asim.Tensor, y: asim.Tensor) -> None:
        first, a, b = (k.local_tensor(size, x.dtype, name) for size, name in ((big.size, "big"), (TAIL, "a"), (TAIL, "b")))
        done = k.flag("V", "MTE3", "done")
        k.gm_to_ub(first, big)
        k.gm_to_ub(a, x)
        k.adds(b, a, 5)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, b)

    run = asim.launch(early, 1, np.zeros(16384, np.int32), X, asim.empty(TAIL, "int32"), engine=engine)
    assert [(one.kind, one.level) for one in run.findings] == [("uninitialised", "ERROR")] and not run.passed
    assert (run.outputs["y"] != X + 5).all()


@pytest.mark.parametrize("mode", ["full", "functional"])
def test_a_run_with_its_checks_says_what_both_say(mode: str) -> None:
    """A check of the kernel alone passes, and so does a run without one."""
    run = asim.launch(kernel("tail"), 1, X, asim.empty(TAIL, "int32"), mode=mode, check=True)
    assert run.passed
    assert [(one.kind, one.level) for one in run.findings] == [("uninitialised", "WARNING"), ("uninitialized read", "WARNING")]
    stored = asim.launch(kernel("tail"), 1, X, asim.empty(PADDED, "int32"), mode=mode, check=True)
    assert [one.level for one in stored.findings] == ["ERROR", "ERROR"] and not stored.passed


def test_without_values_it_stays_an_error() -> None:
    x: Any = type("Shaped", (), {"shape": (TAIL,), "dtype": np.dtype(np.int32)})()
    y = asim.empty(TAIL, "int32")
    assert levels("tail", x, y) == [("uninitialized read", "ERROR")]
    assert outputs_depend(kernel("tail"), 1, (x, y), {}, CHIP, ())


def test_beside_another_error_it_stays_one() -> None:
    """Values behind a race are unknown, and so is what depends on them."""

    @asim.kernel_function(core="AIV")
    def racing(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor) -> None:
        a, b, c = (k.local_tensor(PADDED, x.dtype, name) for name in "abc")
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        k.gm_to_ub(a[:TAIL], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.gm_to_ub(c[:TAIL], x)
        k.adds(b, a, 5)
        k.adds(b[:TAIL], c[:TAIL], 5)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, b[:TAIL])

    found = asim.check_kernel(racing, 1, X, asim.empty(TAIL, "int32")).findings
    assert {"RAW", "uninitialized read"} <= {one.kind for one in found if one.level == "ERROR"}

    @asim.kernel_function(core="AIV")
    def twice(k: asim.Kernel, x: asim.Tensor, big: asim.Tensor, y: asim.Tensor) -> None:
        a, b, c = (k.local_tensor(size, x.dtype, name) for size, name in ((PADDED, "a"), (PADDED, "b"), (big.size, "c")))
        loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
        k.gm_to_ub(a[:TAIL], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.gm_to_ub(c, big)
        k.adds(c[:PADDED], a, 5)
        k.adds(b, a, 5)
        k.set_flag(done), k.wait_flag(done)
        k.ub_to_gm(y, b[:TAIL])

    run = asim.launch(twice, 1, X, np.zeros(16384, np.int32), asim.empty(TAIL, "int32"))
    assert {(one.kind, one.level) for one in run.findings} == {("hazard", "ERROR"), ("uninitialised", "ERROR")}


def test_a_workspace_may_hold_padding() -> None:
    """Outputs count, not what a workspace keeps."""

    @asim.kernel_function(core="AIV")
    def kept(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, w: asim.Tensor) -> None:
        a, loaded = k.local_tensor(PADDED, x.dtype, "a"), k.flag("MTE2", "MTE3", "loaded")
        k.gm_to_ub(a[:TAIL], x)
        k.set_flag(loaded), k.wait_flag(loaded)
        k.ub_to_gm(w, a)
        k.ub_to_gm(y, a[:TAIL])

    tensors = X, asim.empty(TAIL, "int32"), asim.empty(PADDED, "int32", workspace=True)
    assert not outputs_depend(kept, 1, tensors, {}, CHIP, ())
    assert outputs_depend(kept, 1, (*tensors[:2], asim.empty(PADDED, "int32")), {}, CHIP, ())


def test_buffers_keep_their_poison() -> None:
    with poisoned_with(0x4B):
        memory = LocalMemory({"UB": 64})
    memory.buffers["UB"][:] = 0
    memory.written["UB"][:] = True
    memory.poison()
    assert (memory.buffers["UB"] == 0x4B).all() and (LocalMemory({"UB": 64}).buffers["UB"] == 0xFF).all()
