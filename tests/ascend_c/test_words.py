"""Every call emits the words that the public API's headers emit (words.json, scenarios.json: recorded from small sources)."""

from __future__ import annotations

import json
import re
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.ascend_c.stream import FINE
from ascend_sim.ascend_c.words import NAMES, Word, header, word_of
from tests.support.ascend_c.kernels import made, needs_compiler, recorded
from tests.support.ascend_c.vendor_words import vendor_words
from tests.support.sampling import part_of_cases

HERE = Path(__file__).parent
CASES = json.loads((HERE / "words.json").read_text())
SCENARIOS = json.loads((HERE / "scenarios.json").read_text())
HELP = """
template <class T> LocalTensor<T> LT(uint32_t at) { return LocalTensor<T>(TPosition::VECCALC, at, 0x8000 / sizeof(T)); }
#define D(T) auto d = LT<T>(0);
#define A(T) auto a = LT<T>(0x8000);
#define B(T) auto b = LT<T>(0x10000);
#define G(T) GlobalTensor<T> g; g.SetGlobalBuffer((T *)gm);
template <class T> LocalTensor<T> LQ(TPosition place, uint32_t at) { return LocalTensor<T>(place, at, 0x8000 / sizeof(T)); }
#define P1(T) auto l1 = LQ<T>(TPosition::A1, 0x1000);
#define A2(T) auto a2 = LQ<T>(TPosition::A2, 0x1000);
#define B2(T) auto b2 = LQ<T>(TPosition::B2, 0x2000);
#define C1(T) auto co = LQ<T>(TPosition::CO1, 0x4000);
static void told(const char *what, int64_t value) { asim::Word::own_barrier_({what, 1}, {.with_flags = value}); }
#define RET(v) told("RETURNS", (int64_t)(v))
#define AE(v) told("RETURNS", (v).asim_address())
#define mark(n) told("MARK", n)
"""


ON_CUBE = "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);"


def _core(case: dict[str, Any]) -> str:
    return str(case.get("core", "AIV"))


@cache
def _recorded_cases(folder: Path, core: str) -> list[list[list[Any]]]:
    begin_case = "asim::recorder.registers.ctrl = 0;"
    lines = "\n".join(f"{{ {begin_case} {case['code'] if _core(case) == core else ''} }}" for case in CASES)
    named = ON_CUBE if core == "AIC" else ""
    text = f'{HELP}extern "C" __global__ __aicore__ void cases(GM_ADDR gm) {{ {named}\n{lines}\n}}\n'
    (folder / core).mkdir(exist_ok=True)
    recording = recorded(made(folder / core, text), 1 << GM_SHIFT, block=1, blocks=2)
    assert recording.how == FINE, recording
    begin = 2 + HELP.count("\n") + 2
    found: list[list[list[Any]]] = [[] for _ in CASES]
    at = -1
    for place, word in vendor_words(recording):
        at = at if place[0] == "RETURNS" else place[1] - begin
        found[at].append(word)
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


JOINS = ("ffts_cross_core_sync", "wait_flag_dev")
"""Words that a SyncAll with a workspace has here beyond the vendor's (assumed; asim/soft_sync.h)."""
RETURNING = [number for number, case in enumerate(CASES) if any(word[0] == "RETURNS" for word in case["words"])]
"""Cases that only ask for a value stand in no word's line; they are looked at together."""


def _as_told(words: list[list[Any]]) -> list[list[Any]]:
    """Return the words with one entry for neighbouring accesses of scalar code: the cases tell only where it touched memory."""
    scalar = ["scalar_read_of_UB_"]
    plain = [scalar if word[0].startswith("scalar_") else word for word in words]
    return [word for at, word in enumerate(plain) if word != scalar or plain[at - 1 : at] != [scalar]]


@needs_compiler
@pytest.mark.parametrize("core", ("AIV", "AIC"))
def test_a_call_emits_its_words(core: str, folder: Path) -> None:
    told: list[str] = []
    for case, words in zip(CASES, _recorded_cases(folder, core), strict=True):
        if _core(case) != core or any(word[0] == "RETURNS" for word in case["words"]):
            continue
        left_out = ("RETURNS", *(JOINS if case["form"].startswith("soft") else ()))
        emitted = [word for word in words if word[0] not in left_out]
        if _as_told(emitted) != _as_told(case["words"]):
            told.append(f"{case['name']} ({case['form']}): {case['code']}: {emitted}, not {case['words']}")
    assert told == []


@needs_compiler
@pytest.mark.parametrize("core", ("AIV", "AIC"))
def test_a_call_returns_what_it_returns(core: str, folder: Path) -> None:
    wanted = [word for number in RETURNING if _core(CASES[number]) == core for word in CASES[number]["words"]]
    assert [word for words in _recorded_cases(folder, core) for word in words if word[0] == "RETURNS"] == wanted


@part_of_cases(5)
@needs_compiler
@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_a_scenario_of_queues(number: int, tmp_path: Path) -> None:
    """Buffers, events and the order of sets and waits are those of the public API."""
    one = SCENARIOS[number]
    named = ON_CUBE if _core(one) == "AIC" else ""
    text = f'{HELP}extern "C" __global__ __aicore__ void scenario(GM_ADDR gm) {{ {named} {one["code"]} }}\n'
    recording = recorded(made(tmp_path, text), 1 << GM_SHIFT, blocks=1)
    assert recording.how == FINE, recording
    segments: list[dict[str, Any]] = [{"mark": 0, "words": []}]
    for _, word in vendor_words(recording):
        if word[0] == "MARK":
            segments.append({"mark": word[1], "words": []})
        else:
            if word[0] == "vadds":  # the scenarios have its scalar as bits
                word[3] = struct.unpack("<I", struct.pack("<f", word[3]["f"]))[0]
            segments[-1]["words"].append(word)
    assert segments == one["segments"]


@needs_compiler
def test_the_mask_register_is_set_and_read_by_one_word(tmp_path: Path) -> None:
    text = (
        f'{HELP}extern "C" __global__ __aicore__ void both(GM_ADDR gm) {{ A(half) D(uint8_t) SetCmpMask(a); GetCmpMask(d); }}\n'
    )
    words = [word for _, word in vendor_words(recorded(made(tmp_path, text), 1 << GM_SHIFT, blocks=1))]
    assert words == [["set_cmpmask", 0x8000], ["get_cmpmask", 0]]


@needs_compiler
def test_a_comparison_into_the_mask_register_has_the_operands_of_its_intrinsic(tmp_path: Path) -> None:
    """Operands are both sources, the repeat, the strides of blocks and of repeats (public page of vcmp)."""
    call = "A(float) B(float) Compare(a, b, CMPMODE::LT, (uint64_t)64, BinaryRepeatParams(1, 2, 3, 4, 5, 6));"
    text = f'{HELP}extern "C" __global__ __aicore__ void both(GM_ADDR gm) {{ {call} }}\n'
    words = [word for _, word in vendor_words(recorded(made(tmp_path, text), 1 << GM_SHIFT, blocks=1))]
    assert words == [["set_vector_mask", 0, -1], ["vcmp_lt", 0x8000, 0x10000, 1, 1, 2, 3, 4, 5, 6]]


def test_the_header_has_every_word_with_its_number_and_whether_it_is_recorded_unasked() -> None:
    found = re.findall(r"static constexpr WordOf<\w+> (\w+)\{(\d+), ([01]), '([CV ])'\};", header())
    assert [(name, int(number)) for name, number, *_ in found] == [(name, number) for number, name in enumerate(NAMES)]
    told = {name: (always, core) for name, _, always, core in found}
    assert [told[name] for name in ("set_vector_mask", "allocate_", "vadd", "mad", "copy_ubuf_to_gm", "dcci")] == [
        *(("0", " "), ("1", " "), ("1", "V"), ("1", "C"), ("1", "V"), ("1", " "))
    ]


def test_a_shape_is_read_by_the_names_of_its_fields() -> None:
    assert word_of((NAMES.index("set_flag"), 4, 1, 7)) == Word("set_flag", {"source": 4, "destination": 1, "id": 7})
