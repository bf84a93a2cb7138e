"""Values of another type than an instruction's field are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices, MapWindow, Span, TilePiece, TurnLayout
from ascend_sim.kernel.program import InstructionTable

pytestmark = pytest.mark.fast


def made(write: Callable[[KernelBuilder], object], kind: str = "AIC", chip: str = "ascend910b3") -> None:
    k = KernelBuilder(InstructionTable(load_chip(chip)), 7, kind, [4096, 100])
    write(k)
    k.finish()


@pytest.mark.parametrize(
    "write",
    [
        lambda k: k.data_copy("GM", "L1", 0, 0, 32, True),
        lambda k: k.fill("L1", 0, True),
        lambda k: k.cross_core_set(True, 2, "MTE2"),
        lambda k: k.cross_core_set(1, False, "MTE2"),
        lambda k: k.mmad(0, 0, 0, 16, True, 16, "float16", False),
    ],
)
def test_true_is_no_whole_number(write: Callable[[KernelBuilder], object]) -> None:
    with pytest.raises(SimError, match=r"is (True|False); a whole number is allowed"):
        made(write)


def test_a_switch_and_a_name_have_their_types() -> None:
    with pytest.raises(SimError, match="data_copy: atomic_add is 1; a name in quotes is allowed"):
        made(lambda k: k.data_copy("UB", "GM", 0, 0, 32, atomic_add=1), "AIV")  # type: ignore[arg-type]
    with pytest.raises(SimError, match="mmad: accumulate is 2; True or False is allowed"):
        made(lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", 2))  # type: ignore[arg-type]
    made(lambda k: k.mmad(0, 0, 0, 16, 16, 16, "float16", np.bool_(False)))
    with pytest.raises(SimError, match="mask True; a whole number whose bits"):
        made(lambda k: k.duplicate(k.local_tensor(64, "float32", "row"), 1.0, mask=True), "AIV")


LEAST = -(2**63)


@pytest.mark.parametrize(
    ("write", "kind", "words"),
    [
        (lambda k: k.data_copy("GM", "UB", 2.0, 0, 32), "AIV", "data_copy: dst is 2.0; an address is a whole number"),
        (lambda k: k.data_copy("GM", "UB", 0, None, 32), "AIV", "data_copy: src0 is None; an address is a whole number"),
        (lambda k: k.vector_binary("add", 0, 0, np.array([1, 2]), "float16", 16), "AIV", "vector_binary: src1 is array"),
        (lambda k: k.data_copy("GM", "UB", 0, 0, [32]), "AIV", r"data_copy: row_bytes is \[32\]; a whole number is allowed"),
        (lambda k: k.vector_binary("add", 0, 0, 0, "float16", LEAST), "AIV", "goes over"),
        (lambda k: k.transpose_blocks(0, 512, True, 0, 3, 4, TurnLayout(32)), "AIV", "itemsize is 0; an element has 1 to 32"),
        (lambda k: k.transpose_blocks(0, 512, True, 8, 3, 4, TurnLayout(32)), "AIV", "items of 8 bytes; it turns items of 2"),
        (lambda k: k.data_copy_nd2nz(0, 0, 2, 16, 64, 64, 2), "AIC", "itemsize is 64; an element has 1 to 32 bytes"),
        (lambda k: k.fixpipe(0, 0, 16, 0, 16, "float16", 16, 512), "AIC", "moves no bytes"),
        (lambda k: k.fixpipe(0, 0, 16, 16, 16, "float16", 0, 512), "AIC", "c0 = 0 of float16"),
        (lambda k: k.fixpipe_dn(0, 1024, TilePiece(16, 16, 16, row=-1), "float16", 32, 2), "AIC", "row = -1, first = 0"),
        (lambda k: k.fixpipe_dn(0, 1024, TilePiece(16, 16, 16, first=16), "float16", 32, 2), "AIC", "row = 0, first = 16"),
    ],
)
def test_a_wrong_value_is_told_with_its_field(write: Callable[[KernelBuilder], object], kind: str, words: str) -> None:
    with pytest.raises(SimError, match=words) as refused:
        made(write, kind)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize(
    ("field", "value", "least"), [("out_height", 0, 1), ("out_width", 0, 1), ("m_start", -1, 0), ("k_start", -16, 0)]
)
def test_a_map_has_positions_and_its_matrix_begins_at_the_first(chip: str, field: str, value: int, least: int) -> None:
    window = MapWindow(2, 2, k_h=3, k_w=3, pad_top=1, pad_left=1, out_height=2, out_width=2)
    start = {"m_start": 0, "k_start": 0}
    if field in start:
        start[field] = value
    else:
        window = window._replace(**{field: value})
    with pytest.raises(SimError, match=f"load_data_3d: {field} = {value}; it is {least} or more"):
        made(
            lambda k: k.load_data_3d("L0A", 0, 4096, 2, window, Span(start["m_start"], 4), Span(start["k_start"], 16)),
            "AIC" if "AIC" in load_chip(chip).cores.kinds else "AI_CORE",
            chip,
        )


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf"), "fast"])
def test_a_rate_is_a_number(rate: object) -> None:
    matrices = ChannelMatrices(16, 8, 2, 16, 32, 256)
    with pytest.raises(SimError, match=r"data_copy_dn2nz: most_bytes_per_cycle = .*; it is a number from 0"):
        made(lambda k: k.data_copy_dn2nz(0, 0, matrices, "", rate), chip="ascend950pr_9589")  # type: ignore[arg-type]
