"""Words of a cube core as instructions, and fields that no instruction can say."""

from __future__ import annotations

from typing import Any

import pytest

from ascend_sim.ascend_c.translate import steps_of
from ascend_sim.ascend_c.words import FORMATS, WORDS, Word
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.cube import Fixpipe, FixpipeExtreme, FixpipeNd, FixpipeNdExtreme, Mmad
from ascend_sim.isa.transfer import DataCopyNd2Nz

CHIP = load_chip("ascend910b3")
HALF, SINGLE = FORMATS.index("float16"), FORMATS.index("float32")
USUAL = {
    "mad": {"format": SINGLE, "source": HALF, "target": HALF, "bias": -1, "m": 16, "k": 16, "n": 16, "c_matrix_init_val": 1},
    "copy_gm_to_cbuf_multi_nd2nz_b16": {
        "nd_num": 2, "n_value": 16, "d_value": 32, "src_nd_matrix_stride": 512, "src_d_value": 32, "dst_nz_c0_stride": 16,
        "dst_nz_n_stride": 1, "dst_nz_matrix_stride": 1024,
    },
    "copy_matrix_cc_to_gm": {"format": SINGLE, "source": SINGLE, "m_size": 16, "n_size": 16, "dst_stride": 20, "src_stride": 16,
                             "nz2nd_en": 1, "nd_para": 2 | 1 << 16 | 400 << 32},
    "load_cbuf_to_ca": {"format": HALF, "repeat": 2, "src_stride": 1, "base_idx": 3},
    "create_cbuf_matrix": {"format": HALF, "config": 2 | 4 << 16},
    "img2colv2_cbuf_to_ca": {"format": HALF, "fmatrix": -1},
}  # fmt: skip
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "a bias in L0C is not simulated": ("mad", {"bias": 64, "c_matrix_init_val": 0}),
    "operands of float16 and float32": ("mad", {"target": SINGLE}),
    "m = -1; allowed is 1 or more": ("mad", {"m": -1}),
    "kDirectionAlign with k = 8 is not simulated": (
        "mad",
        {"source": SINGLE, "target": SINGLE, "k": 8, "k_direction_align": 1},
    ),
    "dstNzNStride = 0; allowed is 1 or more": ("copy_gm_to_cbuf_multi_nd2nz_b16", {"dst_nz_n_stride": 0}),
    "quantPre 2 is not simulated": ("copy_matrix_cc_to_gm", {"quant_pre": 2}),
    "an atomic operation on float16 and an output of float32": ("copy_matrix_cc_to_gm", {"atomic": HALF}),
    "unitFlag with SetAtomicMax or SetAtomicMin is not simulated": (
        "copy_matrix_cc_to_gm",
        {"nz2nd_en": 0, "unit_flag": 3, "atomic": SINGLE | 1 << 8},
    ),
    "addrMode 1 is not simulated": ("load_cbuf_to_ca", {"addr_cal_mode": 1}),
    "ifTranspose turns elements of 2 bytes": ("load_cbuf_to_ca", {"format": SINGLE, "transpose": 1}),
    "no map is known; SetFmatrix": ("img2colv2_cbuf_to_ca", {}),
}


def steps(name: str, **changed: Any) -> Any:
    """Return the instructions of a word with the usual fields but for some; what is left out is 0."""
    return steps_of(Word(name, dict.fromkeys(WORDS[name].recorded, 0) | USUAL[name] | changed), CHIP)


@pytest.mark.parametrize("said", REFUSED)
def test_what_no_instruction_can_say_is_refused(said: str) -> None:
    name, changed = REFUSED[said]
    with pytest.raises(SimError, match=said):
        steps(name, **changed)


def test_matrices_are_instructions_of_their_own() -> None:
    first, second = steps("copy_gm_to_cbuf_multi_nd2nz_b16")
    assert first.key == second.key == (DataCopyNd2Nz, 16, 32, 2, 64, 16, "", 1)
    assert second[1:] == (2048, 1024, 0)
    _, row = steps("copy_matrix_cc_to_gm")
    assert row.key[:6] == (FixpipeNd, 16, 16, 16, "float32", 80) and row[1:] == (1600, 1024, 0)


def test_a_sum_begins_with_zero_with_the_bias_or_with_itself() -> None:
    begun = [
        steps("mad", **one)[0].key
        for one in ({}, {"c_matrix_init_val": 0}, {"c_matrix_init_val": 0, "c_matrix_source": 1, "bias": 64})
    ]
    assert [(key[0], key[5], key[8]) for key in begun] == [(Mmad, False, -1), (Mmad, True, -1), (Mmad, False, 64)]


@pytest.mark.parametrize(("mode", "source"), [(5, "int32"), (24, "float32")])
def test_a_byte_has_a_sign_where_the_scale_says_so(mode: int, source: str) -> None:
    fields = {"quant_pre": mode, "source": FORMATS.index(source), "format": FORMATS.index("int8")}
    found = [steps("copy_matrix_cc_to_gm", **fields, quant_scale=0x3F000000 | sign << 46)[0].key[4] for sign in (0, 1)]
    assert found == ["uint8", "int8"]


def test_hf32_is_a_bit_of_ctrl() -> None:
    single = {"source": SINGLE, "target": SINGLE}
    assert [steps("mad", **single, ctrl=bit)[0].key[4] for bit in (0, 1 << 46)] == ["float32", "hf32"]
    assert steps("load_cbuf_to_ca")[0].src0 == 3 * 512


@pytest.mark.parametrize(("operation", "keep"), [(0, ""), (1, "max"), (2, "min")])
@pytest.mark.parametrize("rows", [0, 1])
def test_a_drain_adds_or_keeps_an_extreme(operation: int, keep: str, rows: int) -> None:
    key = steps("copy_matrix_cc_to_gm", nz2nd_en=rows, atomic=SINGLE | operation << 8)[0].key
    plain, extreme = (FixpipeNd, FixpipeNdExtreme) if rows else (Fixpipe, FixpipeExtreme)
    assert key[0] is (extreme if keep else plain)
    assert key[-2 if keep else -1] is None and key[-3 if keep else -2] is True and (not keep or key[-1] == keep)
