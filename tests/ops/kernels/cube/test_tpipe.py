"""Buffers between the flags of a TPipe."""

from __future__ import annotations

from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.kernels.cube.tpipe import RAISED, TPipePipeline, ping_pong


def builder() -> KernelBuilder:
    return KernelBuilder(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [])


def words(k: KernelBuilder) -> list[str]:
    return [f"{view.pipe} {view.instruction.name}" for view in k.finish()]


def test_a_pipe_without_work_raises_and_takes_its_flags() -> None:
    k = builder()
    TPipePipeline(k, 2, 1, 1024).close()
    assert words(k) == ["M set_flag"] * RAISED + ["MTE1 wait_flag"] * RAISED + ["S pipe_barrier"]


def test_the_number_of_a_load_chooses_its_buffer() -> None:
    k = builder()
    a1, _ = ping_pong(k, (2, 1024), (1, 512))
    places = []
    for number in (0, 1, 3, 4):
        a1.turn(number)
        places.append(a1.begin(number))
        a1.loaded()
        assert a1.read() == places[-1]
        a1.done()
    assert places == [0, 1024 + 512, 1024 + 512, 0]
    a1.close()
    assert words(k).count("MTE2 wait_flag") == 4  # each but the first two waits for the load before it, and the end for both


def test_the_operand_that_is_held_is_not_loaded_again() -> None:
    k = builder()
    a1, _ = ping_pong(k, (2, 1024), (2, 512))
    first = a1.begin("rows")
    a1.loaded()
    assert a1.begin("rows") is None and a1.read() == first
    a1.done()
    a1.close()


def test_buffers_lie_in_turn() -> None:
    k = builder()
    a1, b1 = ping_pong(k, (2, 1024), (2, 512))
    assert (a1.address, b1.address) == (0, 1024)
    a1.turn(1)
    b1.turn(1)
    assert (a1.address, b1.address) == (1536, 2560)
