"""Mistakes planted in C++ kernels: a check names each with its line, and says nothing of the twin without it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_sim as asim
from tests.support.ascend_c.kernels import BEGIN, floats, made, needs_compiler, vector_kernel

pytestmark = needs_compiler


class Planted(NamedTuple):
    """A kernel's body and what a check says of it: a kind with its space, or a part of a refusal.

    `bug` says which twin runs; the comment `here` stands in the lines of which one must be named.
    """

    said: str
    body: str
    blocks: int = 1


LOAD = "DataCopy(a, xg, 64);  // here"
WAIT = "SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);"
STORE = "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\nDataCopy(zg, d, 64);"
QUEUE = (
    "TPipe pipe; TQue<QuePosition::VECIN, 1> in; pipe.InitBuffer(in, 1, 256); "
    "TBuf<> own; pipe.InitBuffer(own, 512); d = own.Get<float>();"
)
QUEUES = f"{QUEUE} TQue<QuePosition::VECOUT, 1> out; pipe.InitBuffer(out, 1, 256);"
SHARE = "zg.SetValue(16 * GetBlockIdx(), (float)GetBlockIdx());  // here"
PLANTED = {
    "no flag from a copy to the vector unit": Planted(
        "RAW UB", f"{LOAD}\nif (!bug) {{ {WAIT} }}\nAdds(d, a, 1.0f, 64);  // here\n{STORE}"
    ),
    "no flag from the vector unit to a copy": Planted(
        "RAW UB",
        f"{LOAD} \n{WAIT}\nAdds(d, a, 1.0f, 64);  // here\n"
        "if (!bug) { SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0); }\nDataCopy(zg, d, 64);  // here",
    ),
    "a buffer is loaded again while it is read": Planted(
        "WAR UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);  // here\n"
        "if (!bug) { SetFlag<HardEvent::V_MTE2>(0); WaitFlag<HardEvent::V_MTE2>(0); }\n"
        f"DataCopy(a, xg, 64);  // here\n{WAIT}\nAdd(d, d, a, 64);\n{STORE}",
    ),
    "a result is overwritten while it is stored": Planted(
        "WAR UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}  // here\n"
        "if (!bug) { SetFlag<HardEvent::MTE3_V>(0); WaitFlag<HardEvent::MTE3_V>(0); }\nAdds(d, a, 2.0f, 64);  // here",
    ),
    "no barrier between two calls that depend": Planted(
        "RAW UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(b, a, 1.0f, 64);  // here\nif (!bug) PipeBarrier<PIPE_V>();\n"
        f"Muls(d, b, 2.0f, 64);  // here\n{STORE}",
    ),
    "the wrong event": Planted(
        "unpaired wait_flag",
        "DataCopy(a, xg, 64);\nSetFlag<HardEvent::MTE2_V>(0);\nif (!bug) WaitFlag<HardEvent::MTE2_V>(0);\n"
        f"if (bug) WaitFlag<HardEvent::MTE2_V>(1);  // here\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "a flag is set twice": Planted(
        "set twice",
        f"DataCopy(a, xg, 64);\nif (bug) SetFlag<HardEvent::MTE2_V>(0);\nSetFlag<HardEvent::MTE2_V>(0);  // here\n"
        "WaitFlag<HardEvent::MTE2_V>(0);\nif (bug) WaitFlag<HardEvent::MTE2_V>(0);\n"
        f"Adds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "a set without a wait": Planted(
        "unpaired set_flag",
        f"DataCopy(a, xg, 64);\n{WAIT}\nif (bug) SetFlag<HardEvent::V_MTE2>(3);  // here\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "a length that is not a whole block": Planted(
        "a count is a multiple of 32 bytes", f"DataCopy(a, xg, bug ? 63 : 64);  // here\n{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}"
    ),
    "a repeat too many": Planted(
        "illegal write UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nLocalTensor<float> last = d[196608 / 4 - 16384 - 64];\n"
        f"Duplicate(last, 1.0f, (uint64_t)64, bug ? 2 : 1, 1, 8);  // here\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "a repeat of zero": Planted(
        "a repeat of 256, which the API's uint8_t cuts to 0",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdd(d, a, a, (uint64_t)64, bug ? 256 : 1, {{1, 1, 1, 8, 8, 8}});  // here\n{STORE}",
    ),
    "a tail beyond the tensor": Planted(
        "illegal read GM", f"DataCopy(a, xg[bug ? 8 : 0], 64);  // here\n{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}"
    ),
    "a tail that nobody writes": Planted(
        "unwritten output GM",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\n"
        "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\nDataCopy(zg, d, bug ? 56 : 64);",
    ),
    "memory that nobody wrote": Planted(
        "uninitialized read UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nif (!bug) Duplicate(b, 1.0f, 64);\nPipeBarrier<PIPE_V>();\n"
        f"Add(d, a, b, 64);  // here\n{STORE}",
    ),
    "GetValue before the copy is over": Planted(
        "RAW UB",
        f"{LOAD}\nif (!bug) {{ SetFlag<HardEvent::MTE2_S>(0); WaitFlag<HardEvent::MTE2_S>(0); }}\n"
        f"float v = a.GetValue(0);  // here\nDuplicate(d, v, 64);\n{STORE}",
    ),
    "GetValue before the vector unit is done": Planted(
        "RAW UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(b, a, 1.0f, 64);  // here\n"
        "if (!bug) { SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0); }\n"
        f"float v = b.GetValue(0);  // here\nDuplicate(d, v, 64);\n{STORE}",
    ),
    "SetValue without a flag to the vector unit": Planted(
        "RAW UB",
        "DataCopy(a, xg, 64);\nSetFlag<HardEvent::MTE2_S>(0); WaitFlag<HardEvent::MTE2_S>(0);\n"
        "a.SetValue(3, 7.0f);  // here\nif (!bug) { SetFlag<HardEvent::S_V>(0); WaitFlag<HardEvent::S_V>(0); }\n"
        f"Adds(d, a, 1.0f, 64);  // here\n{STORE}",
    ),
    "SetValue without a flag to a copy": Planted(
        "RAW UB",
        "Duplicate(d, 0.0f, 64);\nSetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);\n"
        "d.SetValue(5, xg.GetValue(5));  // here\n"
        "if (!bug) { SetFlag<HardEvent::S_MTE3>(0); WaitFlag<HardEvent::S_MTE3>(0); }\nDataCopy(zg, d, 64);  // here",
    ),
    "GM is read before it was stored": Planted(
        "RAW GM",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}  // here\n"
        "if (!bug) { SetFlag<HardEvent::MTE3_MTE2>(0); WaitFlag<HardEvent::MTE3_MTE2>(0); }\nDataCopy(b, zg, 64);  // here\n"
        "SetFlag<HardEvent::MTE2_MTE3>(0); WaitFlag<HardEvent::MTE2_MTE3>(0); DataCopy(zg, b, 64);",
    ),
    "two blocks write one place": Planted(
        "WAW GM",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\nSetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\n"
        "DataCopy(zg[bug ? 0 : 32 * GetBlockIdx()], d, 32);  // here\nif (bug) DataCopy(zg[32], d, 32);",
        2,
    ),
    "no SyncAll between blocks": Planted(
        "RAW GM",
        f"{SHARE}\nDataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(zg);\n"
        "if (!bug) SyncAll();\nfloat v = zg.GetValue(16 * (1 - GetBlockIdx()));  // here\n"
        "for (int i = 1; i < 16; i++) zg.SetValue(16 * GetBlockIdx() + i, v);\n"
        "for (int i = 32; i < 64; i++) if (!GetBlockIdx()) zg.SetValue(i, v);",
        2,
    ),
    "an index beyond a buffer": Planted(
        "stray UB",
        f"{QUEUE} DataCopy(d, xg, 64);\n{WAIT}\nLocalTensor<float> e = d[bug ? 128 : 64];\nAdds(e, d, 1.0f, 64);  // here\n"
        "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\nDataCopy(zg, e, 64);  // here",
    ),
    "an address of no buffer": Planted(
        "stray UB",
        f"{QUEUE} LocalTensor<float> e(TPosition::VECCALC, bug ? 65536 : 256, 64);\nDataCopy(e, xg, 64);  // here\n{WAIT}\n"
        f"Adds(d, e, 1.0f, 64);  // here\n{STORE}",
    ),
    "an index beyond a buffer, into the one behind": Planted(
        "stray UB",
        f"{QUEUE} TBuf<> more; pipe.InitBuffer(more, 256); auto e = more.Get<float>(); DataCopy(d, xg, 64);\n{WAIT}\n"
        "Adds(bug ? d[128] : e, d, 1.0f, 64);  // here\n"
        "SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\nDataCopy(zg, e, 64);",
    ),
    "SetValue beyond a buffer, into the one behind": Planted(
        "stray UB",
        f"{QUEUE} TBuf<> more; pipe.InitBuffer(more, 256); auto e = more.Get<float>(); Duplicate(d, 1.0f, 64);\n"
        "Duplicate(e, 1.0f, 64);\nSetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);\n"
        "d.SetValue(bug ? 130 : 5, 2.0f);  // here\n"
        "SetFlag<HardEvent::S_MTE3>(0); WaitFlag<HardEvent::S_MTE3>(0);\nDataCopy(zg, d, 32); DataCopy(zg[32], e, 32);",
    ),
    "GetValue of an element beyond a buffer": Planted(
        "stray UB",
        f"{QUEUE} Duplicate(d, 1.0f, 64);\nSetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);\n"
        "d.SetValue(bug ? 128 : 5, 2.0f);  // here\n"
        "SetFlag<HardEvent::S_MTE3>(0); WaitFlag<HardEvent::S_MTE3>(0);\nDataCopy(zg, d, 64);",
    ),
    "a buffer of a queue too many": Planted(
        "AllocTensor: all 1 buffers of the queue are in use",
        f"{QUEUE} auto one = in.AllocTensor<float>(); DataCopy(one, xg, 64); in.EnQue(one);\none = in.DeQue<float>();\n"
        "if (!bug) in.FreeTensor(one);\nauto two = in.AllocTensor<float>();  // here\nDataCopy(two, xg, 64); in.EnQue(two);\n"
        f"two = in.DeQue<float>(); Adds(d[64], two, 1.0f, 64); in.FreeTensor(two); Duplicate(d, 1.0f, 64);\n{STORE}",
    ),
    "a queue that is empty": Planted(
        "DeQue: the queue is empty",
        f"{QUEUE} auto one = in.AllocTensor<float>(); DataCopy(one, xg, 64);\nif (!bug) in.EnQue(one);\n"
        f"one = in.DeQue<float>();  // here\nAdds(d[64], one, 1.0f, 64); in.FreeTensor(one); Duplicate(d, 1.0f, 64);\n{STORE}",
    ),
    "a tensor that is not a buffer of the queue": Planted(
        "is not a buffer of this queue",
        f"{QUEUE} auto one = in.AllocTensor<float>(); DataCopy(one, xg, 64);\nin.EnQue(bug ? d[128] : one);  // here\n"
        f"one = in.DeQue<float>();\nAdds(d[64], one, 1.0f, 64); in.FreeTensor(one); Duplicate(d, 1.0f, 64);\n{STORE}",
    ),
    "a comparison of no whole repeat": Planted(
        "fill no whole repeat",
        f"DataCopy(a, xg, 64);\n{WAIT}\nLocalTensor<uint8_t> bits = b.ReinterpretCast<uint8_t>();\n"
        f"CompareScalar(bits, a, 0.0f, CMPMODE::GT, bug ? 32 : 64);  // here\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "operands that lie partly over each other": Planted(
        "lies partly over it within a repeat",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(a[bug ? 8 : 64], a, 1.0f, 56);  // here\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "EnQue and DeQue left out": Planted(
        "RAW UB",
        f"{QUEUES}\nauto s = in.AllocTensor<float>(); DataCopy(s, xg, 64);  // here\n"
        "if (!bug) { in.EnQue(s); s = in.DeQue<float>(); }\n"
        "auto t = out.AllocTensor<float>(); Adds(t, s, 1.0f, 64);  // here\n"
        "out.EnQue(t); t = out.DeQue<float>(); DataCopy(zg, t, 64); out.FreeTensor(t); in.FreeTensor(s);",
    ),
    "FreeTensor left out": Planted(
        "all 1 buffers of the queue are in use",
        f"{QUEUES}\nfor (int i = 0; i < 2; i++) {{\nauto s = in.AllocTensor<float>();  // here\n"
        "DataCopy(s, xg, 64); in.EnQue(s); s = in.DeQue<float>(); auto t = out.AllocTensor<float>(); Adds(t, s, 1.0f, 64);\n"
        "if (!bug) in.FreeTensor(s);\nout.EnQue(t); t = out.DeQue<float>(); DataCopy(zg, t, 64); out.FreeTensor(t); }",
    ),
    "a table that nobody loaded": Planted(
        "uninitialized read UB",
        f"DataCopy(a[bug ? 512 : 0], xg, 64);\n{WAIT}\nauto u = b.ReinterpretCast<int32_t>();\n"
        "CreateVecIndex(u, (int32_t)0, 64); PipeBarrier<PIPE_V>(); Muls(u, u, (int32_t)4, 64); PipeBarrier<PIPE_V>();\n"
        f"LocalTensor<float> table(TPosition::VECCALC, 0, 128);\n"
        f"Gather(d, table, u.ReinterpretCast<uint32_t>(), 0u, 64);  // here\n{STORE}",
    ),
    "an address between blocks": Planted(
        "misaligned access UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\nSetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\n"
        "DataCopy(zg, d[bug ? 3 : 0], 56);  // here\nDataCopy(zg[56], d[56], 8);",
    ),
    "an event that is none": Planted(
        "event id 8; allowed are 0 to 7",
        "DataCopy(a, xg, 64);\nSetFlag<HardEvent::MTE2_V>(bug ? 8 : 7);  // here\nWaitFlag<HardEvent::MTE2_V>(7);\n"
        f"Adds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "buffers beyond the memory": Planted(
        "the Unified Buffer has 196608 bytes",
        "TPipe pipe; TBuf<> one, two; pipe.InitBuffer(one, 100 * 1024);\n"
        f"pipe.InitBuffer(two, bug ? 100 * 1024 : 64);  // here\nDataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "an atomic sum onto nothing": Planted(
        "uninitialized read GM",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\n"
        "if (bug) SetAtomicAdd<float>();\nDataCopy(zg, d, 64);  // here\nSetAtomicNone();",
    ),
    "gaps that leave the tensor": Planted(
        "illegal read GM",
        "DataCopyPad(a, xg, DataCopyExtParams(4, 64, bug ? 256 : 0, 0, 0), DataCopyPadExtParams<float>());  // here\n"
        f"{WAIT}\nAdds(d, a, 1.0f, 64);\n{STORE}",
    ),
    "a mask without an element": Planted(
        "uninitialized read UB",
        f"DataCopy(a, xg, 64);\n{WAIT}\nuint64_t some[2] = {{bug ? 0ull : ~0ull, 0}};\n"
        f"Adds(d, a, 1.0f, some, 1, {{1, 1, 8, 8}});\n{STORE}  // here",
    ),
    "results are exchanged a second time without SyncAll": Planted(
        "WAR GM",
        f"DataCopy(a, xg, 64);\n{WAIT}\nAdds(d, a, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);\n"
        "int me = GetBlockIdx();\nfor (int i = 0; i < 2; i++) {\nDataCopy(zg[32 * me], d, 32);  // here\nSyncAll();\n"
        "DataCopy(b, zg[32 - 32 * me], 32);  // here\nif (!bug) SyncAll(); }",
        2,
    ),
}
"""By name; the buffers d, a, b of 32 KiB lie one behind the other (`vector_kernel`)."""


@pytest.fixture(scope="module")
def text() -> str:
    cases = "\n".join(f"if (which == {i}) {{\n{one.body}\n}}" for i, one in enumerate(PLANTED.values()))
    return vector_kernel(cases, tensors="x z", numbers="int32_t which, int32_t bug")


@pytest.fixture(scope="module")
def kernel(text: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return made(tmp_path_factory.mktemp("planted"), text)


def report(kernel: Any, number: int, blocks: int, bug: bool) -> Any:
    return asim.check_kernel(kernel, blocks, floats(64), asim.empty(64, "float32"), which=number, bug=int(bug))


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=list(PLANTED))
def test_a_mistake_is_told_with_its_line(kernel: Any, text: str, number: int) -> None:
    planted = [*PLANTED.values()][number]
    found = report(kernel, number, planted.blocks, True)
    said = found.render()
    labels = {" ".join(filter(None, (one.kind, one.space))) for one in found.findings}
    assert planted.said in labels or planted.said in said, said
    lines = (BEGIN + text).splitlines()
    first = lines.index(f"if (which == {number}) {{") + 1
    marked = [first + 1 + i for i, line in enumerate(planted.body.splitlines()) if "// here" in line]
    named = {int(line) for line in re.findall(r"kernel\.cpp:(\d+)", said)}
    assert not marked or named & set(marked), (marked, said)


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=list(PLANTED))
def test_its_twin_is_clean(kernel: Any, number: int) -> None:
    planted = [*PLANTED.values()][number]
    found = report(kernel, number, planted.blocks, False)
    assert not found.findings, found.render()
    assert found.passed


def test_the_values_of_a_twin_are_right(kernel: Any) -> None:
    x = floats(64)
    run = asim.launch(kernel, 1, x, asim.empty(64, "float32"), which=0, bug=0)
    np.testing.assert_array_equal(run.outputs["z"], x + 1)


def test_the_suite_is_large(tmp_path: Path) -> None:
    assert len(PLANTED) >= 36
