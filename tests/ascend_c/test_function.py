"""C++ kernels: values, rows, lines, and kernels that do not end well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.confinement import JUDGED
from ascend_sim.ascend_c.function import cpp_kernel
from ascend_sim.ascend_c.recorder import ProgramRecorder
from ascend_sim.errors import SimError
from tests.support.ascend_c.kernels import BEGIN, IN, OUT, floats, made, needs_compiler, refusal, vector_kernel, written
from tests.support.places import DOCS
from tests.support.sampling import part_of_cases

pytestmark = needs_compiler
EXAMPLE = DOCS / "ascend-c" / "add_custom.cpp"
CHIPS = ("ascend910b3", "ascend910_9391")
FIRST_LINE = BEGIN.count("\n") + 2
"""The line of the first statement of `vector_kernel`."""


@asim.kernel_function(core="AIV")
def python_add(k: asim.Kernel, x: asim.Tensor, y: asim.Tensor, z: asim.Tensor, *, length: int) -> None:
    """The program that add_custom.cpp is, written row by row."""
    tile, share = 4096, length // k.blocks
    first = share * k.block
    buffers = [k.allocate("UB", tile * 2, f"buffer {number}") for number in range(6)]
    (x_in, y_in, z_out), size = (buffers[0:2], buffers[2:4], buffers[4:6]), tile * 2
    full = [k.flag("MTE2", "V", f"full {number}") for number in range(2)]
    free = [k.flag("V", "MTE2", f"free {number}") for number in range(4)]
    done = k.flag("V", "MTE3", "done")
    given = [k.flag("MTE3", "V", f"given {number}") for number in range(2)]
    turns = share // tile
    for turn in range(turns):
        side, at = turn % 2, (first + turn * tile) * 2
        for number in range(2):
            if turn > 1:
                k.wait_flag(free[2 * side + number])
        k.data_copy("GM", "UB", x_in[side], x.address + at, size)
        k.data_copy("GM", "UB", y_in[side], y.address + at, size)
        for flag in full:
            k.set_flag(flag)
        for flag in full:
            k.wait_flag(flag)
        if turn > 1:
            k.wait_flag(given[side])
        k.vector_binary("add", z_out[side], x_in[side], y_in[side], "float16", tile)
        k.set_flag(done)
        for number in range(2):
            k.set_flag(free[2 * side + number])
        k.wait_flag(done)
        k.data_copy("UB", "GM", z.address + at, z_out[side], size)
        k.set_flag(given[side])
    for number in (0, 2, 1, 3):
        k.wait_flag(free[number])
    for flag in given:
        k.wait_flag(flag)
    k.pipe_barrier("ALL")


def half(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float16)


def plain_rows(program: Any) -> list[tuple[Any, ...]]:
    """Rows without the names of flags: pipe, instruction with its fields, addresses."""
    return [(row.pipe, row.instruction, row.dst, row.src0, row.src1) for row in program]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("engine", ("simpy", "compiled"))
def test_the_example_is_the_python_kernel_of_the_same_words(chip: str, engine: Any) -> None:
    x, y = half(8 * 32768), half(8 * 32768, 1)
    runs = [
        asim.launch(kernel, 8, x, y, asim.empty(x.shape, "float16"), length=x.size, chip=chip, engine=engine)
        for kernel in (cpp_kernel(EXAMPLE), python_add)
    ]
    assert (runs[0].outputs["z"] == x + y).all() and not runs[0].findings
    assert [plain_rows(one) for one in runs[0].programs] == [plain_rows(one) for one in runs[1].programs]
    ours, python = (run.report.to_dict(statements=False)["kernels"][0] for run in runs)
    assert ours["core_us_max"] == python["core_us_max"] and ours["pipes_us"] == python["pipes_us"]
    assert runs[0].report.total_us == runs[1].report.total_us


@pytest.mark.parametrize("mode", ("functional", "timing"))
def test_every_mode_runs(mode: Any) -> None:
    x, y = half(32768), half(32768, 1)
    run = asim.launch(cpp_kernel(EXAMPLE), 4, x, y, asim.empty(x.shape, "float16"), length=x.size, mode=mode)
    if mode == "functional":
        assert (run.outputs["z"] == x + y).all()
    else:
        assert run.report.total_us > 0


def test_check_finds_nothing_in_the_example() -> None:
    x = half(65536)
    report = asim.check_kernel(cpp_kernel(EXAMPLE), 4, x, x, asim.empty(x.shape, "float16"), length=x.size)
    assert not report.findings, report.render()


# -- lines -------------------------------------------------------------------------------------------------------------


REFUSED = {
    "DataCopy(a, xg, 65);": "DataCopy: 65 elements are 260 bytes; a count is a multiple of 32 bytes",
    "DataCopy(a[8192 * 6], xg, 64);": "covers bytes 196608 to 196864 of 196608",
    "DataCopy(a, xg[64], 64);": "covers bytes 256 to 512 of 256",
    "DataCopy(a, xg[-8], 8);": "a copy from or to GM at an address that lies in no tensor",
    "Add(d, a, b, (uint64_t)64, 2, {2, 1, 1, 8, 8, 8});": (
        "blocks of dst 64 bytes and 2 rows 256 bytes apart would be written over each other"
    ),
    "uint64_t kept; GatherMask(d, a, (uint8_t)8, false, 0u, GatherMaskParams(1, 1, 8, 0), kept);": (
        "GatherMask: src1Pattern 8; allowed are 1 to 7"
    ),
    "Abs(d, a, (uint64_t)64, 1, {1, 256, 8, 8});": "src0_block_stride = 256; 0 to 255 32-byte blocks are possible",
    "Adds(d, a, 1.0f, (uint64_t)64, 1, {256, 1, 8, 8});": "dst_block_stride = 256; 1 to 255 32-byte blocks are possible",
    "Add(d, a, b, -1);": "vadd: a count of -1 elements; allowed is 1 or more",
    "ASSERT(x == nullptr);": "ASSERT(x == nullptr) is false",
    'ascendc_assert(x == nullptr, "%p\\n", x);': "ASSERT(x == nullptr) is false",
    "set_flag(PIPE_MTE2, PIPE_V, EVENT_ID3);": "is still raised at the end of the block; sets without a wait: 1",
    "SetFlag<HardEvent::MTE2_V>(8);": "SetFlag: event id 8; allowed are 0 to 7",
    "SetFlag<HardEvent::MTE2_V>(1);": "is still raised at the end of the block; sets without a wait: 1",
    "SetFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1);": (
        "has 1 waits more than sets"
    ),
    "for (int i = 0; i < 2; i++) SetFlag<HardEvent::MTE2_V>(1);for (int i = 0; i < 2; i++) WaitFlag<HardEvent::MTE2_V>(1);": (
        "is set twice without a wait between; a flag holds 1"
    ),
    "WaitFlag<HardEvent::V_MTE3>(2);": "has 1 waits more than sets; a wait without a set never ends",
    "ShiftLeft(d.ReinterpretCast<int32_t>(), a.ReinterpretCast<int32_t>(), 33, 64);": "a shift by 33 bits; allowed are 0 to 32",
    "ReduceSum(d, a, b, -1);": "vcadd: a count of -1 elements; allowed is 1 or more",
    "Trap();": "the kernel called Trap()",
    "if (TILING_KEY_IS(1)) Trap();": "TILING_KEY_IS: which key? Give --define TILING_KEY_VAR=NUMBER",
    "Transpose(d, a);": "Transpose: elements of float32; a square of 16 x 16 elements of 2 bytes is simulated",
    "uint64_t l[16] = {0, 32, 96}; TransDataTo5HD<half>(l, l, TransDataTo5HDParams(false, false, 1, 0, 0));": (
        "the addresses of dst are not equally far apart"
    ),
    "uint64_t l[16], m[16]; for (int i = 0; i < 16; i++) l[i] = 32 * i, m[i] = 4096 + 32 * i; m[9] += 32;"
    "TransDataTo5HD<half>(l, m, TransDataTo5HDParams(false, false, 1, 0, 0));": (
        "the addresses of src are not equally far apart"
    ),
    "uint64_t l[16], m[16]; for (int i = 0; i < 16; i++) l[i] = 512 - 32 * i, m[i] = 4096 + 32 * i;"
    "TransDataTo5HD<half>(l, m, TransDataTo5HDParams(false, false, 1, 0, 0));": "the addresses of dst decrease",
    "const int n = 300; Adds(d, a, 1.0f, (uint64_t)64, n, {1, 1, 8, 8});": (
        "a repeat of 300, which the API's uint8_t cuts to 44; allowed are 0 to 255"
    ),
    "Adds(d, a, 1.0f, (uint64_t)64, 300.5, {1, 1, 8, 8});": "a repeat of 300, which the API's uint8_t cuts to 44",
    "LoadData2DParams(0, -1, 1, 0, 0, false, 0); Abs(d, a, 64);": "a repeat of -1, which the API's uint8_t cuts to 255",
    "LocalTensor<half> h = d.ReinterpretCast<half>(); LocalTensor<int32_t> n = a.ReinterpretCast<int32_t>();"
    "SetDeqScale((half)0); Cast(h, n, RoundMode::CAST_NONE, 64);": "SetDeqScale(half) sets it before, and not to 0",
    "Gather(d, a, b.ReinterpretCast<uint32_t>(), 40000u, 64u);": "srcBaseOffset lies behind the source's tensor",
    "GetTPipePtr()->FetchEventID(HardEvent::V_MTE3);": "GetTPipePtr: the kernel has no TPipe yet",
    "CrossCoreWaitFlag(16);": "CrossCoreWaitFlag: flag 16; allowed are 0 to 15",
    "TPipe p; TQue<QuePosition::VECIN, 1> q; q.AllocTensor<float>();": "AllocTensor: the queue has no buffers",
    "TPipe p; TQue<QuePosition::VECIN, 1> q; p.InitBuffer(q, 1, 32); q.AllocTensor<float>(); q.AllocTensor<float>();": (
        "AllocTensor: all 1 buffers of the queue are in use"
    ),
    "TPipe p; TQue<QuePosition::VECIN, 1> q; p.InitBuffer(q, 1, 32); q.DeQue<float>();": "DeQue: the queue is empty",
    "TPipe p; TQue<QuePosition::VECIN, 1> q; p.InitBuffer(q, 1, 32); q.EnQue(d[64]);": "EnQue: the tensor at UB address",
    "TPipe p; TQue<QuePosition::VECIN, 1> q; p.InitBuffer(q, 2, 100000);": "the Unified Buffer has 196608 bytes",
    "LocalTensor<bfloat16_t> h = d.ReinterpretCast<bfloat16_t>(); Add(h, h, h, 64);": "has no add of bfloat16",
    "volatile int *p = (int *)x; int v = p[3];": (
        "the kernel crashed (segmentation fault) behind the call in this line; scalar code follows a pointer into x, to byte "
        "12: GetValue of a GlobalTensor reads GM"
    ),
    "volatile int *p = (int *)d.GetPhyAddr(); int v = *p;": (
        "the kernel crashed (segmentation fault) behind the call in this line; scalar code that follows a pointer into GM or UB"
    ),
    "__builtin_trap();": "the kernel crashed (illegal instruction)",
    "DataCopyPadExtParams<float> pad(true, 0, 9, 0); DataCopyPad(a, xg, DataCopyExtParams(1, 24, 0, 0, 0), pad);": (
        "padding of 0 and 9 elements; 8 are possible on a side"
    ),
}
"""Statements that are refused when the kernel is recorded, and what the refusal says."""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lines = "\n".join(f"if (which == {number}) {{ {one} }}" for number, one in enumerate(REFUSED))
    text = vector_kernel(f"PipeBarrier<PIPE_V>();\n{lines}", tensors="x", numbers="int32_t which")
    return made(tmp_path_factory.mktemp("refusing"), text)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_run_is_told_with_its_line(refusing: Any, number: int) -> None:
    """The line of a crash is that of the last call before it."""
    said = refusal(refusing, floats(64), which=number)
    assert [*REFUSED.values()][number] in said
    crashed = "crashed" in said
    line = FIRST_LINE if crashed else FIRST_LINE + 1 + number
    assert f"kernel.cpp:{line}: kernel kernel: " in said and "\n" not in said


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_check_tells_it_with_its_line(refusing: Any, number: int) -> None:
    report = asim.check_kernel(refusing, 1, floats(64), which=number)
    line = FIRST_LINE if "crashed" in [*REFUSED.values()][number] else FIRST_LINE + 1 + number
    assert not report.passed and f"kernel.cpp:{line}" in report.render(), report.render()


def test_a_flag_that_is_set_twice_names_the_line_of_its_first_set(tmp_path: Path) -> None:
    """Also where that is the line of a TPipe, which holds M_MTE1 0 to 2 on a cube core."""
    begins = (
        'extern "C" __global__ __aicore__ void cube(GM_ADDR x) { KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);\nTPipe pipe;'
    )
    one = "SetFlag<HardEvent::M_MTE1>({0});", "WaitFlag<HardEvent::M_MTE1>({0});"
    for event, first, lines in ((1, 4, "{0}"), (3, 6, "{0}{1}\n{0}\n{0}\n{1}{1}")):
        text = f"{begins}\n{lines.format(*one).format(event)}\n}}\n"
        said = refusal(made(tmp_path, text), floats(64))
        assert f"kernel.cpp:{first + 1}: " in said and f"set twice without a wait between, first in {tmp_path}" in said
        assert f"kernel.cpp:{first}; a flag holds 1" in said


PLANTED = {
    "missing wait": "DataCopy(a, xg, 64);\nMuls(d, a, 2.0f, 64); SetFlag<HardEvent::V_MTE3>(0);"
    " WaitFlag<HardEvent::V_MTE3>(0); DataCopy(zg, d, 64);",
    "uninitialised": f"\nMuls(d, b, 2.0f, 64);\n{OUT}",
    "wrong event": f"{IN}\nMuls(d, a, 2.0f, 64); SetFlag<HardEvent::V_MTE3>(1);\nWaitFlag<HardEvent::V_MTE3>(2);"
    " DataCopy(zg, d, 64);",
    "too many elements": f"{IN}\nMuls(d, a, 2.0f, 65); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);"
    " DataCopy(zg, d, 64);",
    "result read early": f"{IN}\nMuls(d, a, 2.0f, 64);\nDataCopy(zg, d, 64);",
}


@part_of_cases(3)
@pytest.mark.parametrize("name", PLANTED)
def test_check_finds_a_planted_mistake(tmp_path: Path, name: str) -> None:
    kernel = made(tmp_path, vector_kernel(PLANTED[name], tensors="x z"))
    report = asim.check_kernel(kernel, 1, floats(64), asim.empty(64, "float32"))
    assert not report.passed and f"kernel.cpp:{FIRST_LINE + 1}" in report.render(), report.render()


def test_a_check_tells_that_hints_to_the_l2_change_nothing(tmp_path: Path) -> None:
    bodies = {"plain": f"{IN} Adds(d, a, 1.0f, 64); {OUT}"}
    bodies["hinted"] = "zg.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);" + bodies["plain"]
    said = {}
    for name, body in bodies.items():
        (tmp_path / name).mkdir()
        kernel = made(tmp_path / name, vector_kernel(body, tensors="x z"))
        said[name] = asim.check_kernel(kernel, 1, floats(64), asim.empty(64, "float32")).remarks
    assert said["plain"] == [] and any("SetL2CacheHint changes nothing" in one for one in said["hinted"])


def test_rows_name_the_line_of_a_called_function(tmp_path: Path) -> None:
    helper = tmp_path / "helper.h"
    helper.write_text(f"{BEGIN}inline void go(LocalTensor<float> d) {{\n    Duplicate(d, 1.0f, 64);\n}}\n")
    text = '#include "helper.h"\n' + vector_kernel(f"go(d); {OUT}", tensors="z")
    run = asim.launch(made(tmp_path, text), 1, asim.empty(64, "float32"))
    notes = run.programs[0].notes
    assert notes is not None and notes.line(0) == (str(helper), 4)


# -- kernels that do not end -------------------------------------------------------------------------------------------


def test_a_loop_of_calls_ends_at_its_limit(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel("\nfor (;;) PipeBarrier<PIPE_V>();", tensors="x"), rows=5000)
    said = refusal(kernel, floats(8))
    assert f"kernel.cpp:{FIRST_LINE + 1}: kernel kernel: the kernel did not end within 5,000 calls" in said


def test_a_check_records_no_block_behind_one_that_does_not_end(tmp_path: Path) -> None:
    body = "\nif (GetBlockIdx()) for (;;) PipeBarrier<PIPE_V>(); PipeBarrier<PIPE_V>();"
    report = asim.check_kernel(made(tmp_path, vector_kernel(body, tensors="x"), rows=5000), 4, floats(8))
    ends = [one for one in report.findings if one.kind == "refused"]
    assert [(one.count, one.details[0]) for one in ends] == [(1, "in block 1 AIV")]
    assert report.rows == 1


def test_a_loop_without_calls_ends_in_time(tmp_path: Path) -> None:
    body = "PipeBarrier<PIPE_V>(); volatile int n = 0; for (;;) n = n + 1;"
    kernel = made(tmp_path, vector_kernel(body, tensors="x"), seconds=0.3)
    assert f"kernel.cpp:{FIRST_LINE}: kernel kernel: the kernel did not end within 0.3 s" in refusal(kernel, floats(8))


def test_a_deep_recursion_is_a_crash(tmp_path: Path) -> None:
    text = "static int deep(volatile int n) { return n ? deep(n + 1) + n : 0; }\n"
    kernel = made(tmp_path, text + vector_kernel("PipeBarrier<PIPE_V>(); deep(1);", tensors="x"))
    assert "the kernel crashed (segmentation fault)" in refusal(kernel, floats(8))


def test_a_kernel_that_ends_the_process_is_refused(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel("exit(0);", tensors="x"))
    assert "is not a recording" in refusal(kernel, floats(8)) or "are not a recording" in refusal(kernel, floats(8))


def test_what_a_kernel_prints_is_no_recording(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = f'printf("hello\\n"); PRINTF("%d %.1f\\n", 3, (half)2.5); Duplicate(d, 1.0f, 64); {OUT}'
    kernel = made(tmp_path, vector_kernel(body, tensors="z"))
    for _ in range(2):
        assert (asim.launch(kernel, 1, asim.empty(64, "float32")).outputs["z"] == 1).all()
        assert "hello\n3 2.5\n" in capfd.readouterr().err


def test_a_template_is_named_with_its_arguments(tmp_path: Path) -> None:
    text = f"""template <typename T> __global__ __aicore__ void fill(GM_ADDR z) {{
    GlobalTensor<T> zg; zg.SetGlobalBuffer((__gm__ T *)z); LocalTensor<T> d(TPosition::VECOUT, 0, 64);
    Duplicate(d, (T)3, 64); {OUT} }}\n"""
    for name, dtype in (("half", "float16"), ("int32_t", "int32")):
        kernel = made(tmp_path, text, entry=f"fill<{name}>")
        assert (asim.launch(kernel, 1, asim.empty(64, dtype)).outputs["z"] == 3).all()


def test_several_files_includes_and_defines(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "value.h").write_text("constexpr float VALUE = 2.0f * FACTOR;\nfloat other();\n")
    other = tmp_path / "other.cpp"
    other.write_text('#include "value.h"\nfloat other() { return VALUE; }\n')
    path = written(tmp_path, '#include "value.h"\n' + vector_kernel(f"Duplicate(d, other(), 64); {OUT}", tensors="z"))
    kernel = cpp_kernel(path, other, include=[tmp_path / "more"], defines={"FACTOR": 4})
    assert (asim.launch(kernel, 1, asim.empty(64, "float32")).outputs["z"] == 8).all()


def test_host_code_that_launches_is_left_out(tmp_path: Path) -> None:
    """The vendor's samples have a function for the host behind the kernel, in the same file."""
    host = """
#ifndef ASCENDC_CPU_DEBUG
void fill_do(uint32_t blockDim, void *stream, uint8_t *z)
{
    kernel<<<blockDim, nullptr,
             stream>>>(z);
}
#endif
"""
    text = f"#ifdef __CCE_AICORE__\n{vector_kernel(f'Duplicate(d, 4.0f, 64); {OUT}', tensors='z')}#endif\n{host}"
    (tmp_path / "beside.h").touch()
    kernel = made(tmp_path, f'#include "beside.h"\n{text}')
    run = asim.launch(kernel, 1, asim.empty(64, "float32"))
    notes = run.programs[0].notes
    assert (run.outputs["z"] == 4).all()
    assert notes is not None and notes.line(0) == (str(tmp_path / "kernel.cpp"), 6)
    with pytest.raises(SimError, match=r"kernel\.cpp:18: error: use of undeclared identifier 'oops'"):
        made(tmp_path, f'#include "beside.h"\n{text}\nint wrong() {{ return oops; }}\n')


def test_a_name_that_launch_has_gets_an_underscore(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel(f"Duplicate(d, (float)mode, 64); {OUT}", tensors="z", numbers="int32_t mode"))
    assert (asim.launch(kernel, 1, asim.empty(64, "float32"), mode_=5).outputs["z"] == 5).all()


def test_blocks_are_recorded_apart(tmp_path: Path) -> None:
    """A static variable that a kernel writes is seen by no other block."""
    store = OUT.replace("zg, d, 64", "zg[GetBlockIdx() * 8], d, 8")
    body = f"turns++; Duplicate(d, (float)(turns * 100 + block_idx), 8); {store}"
    text = "static int turns = 0;\n" + vector_kernel(body, tensors="z")
    run = asim.launch(made(tmp_path, text), 3, asim.empty(24, "float32"))
    np.testing.assert_array_equal(run.outputs["z"], np.repeat([100, 101, 102], 8))


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Requests for a recording."""
    found: list[Any] = []
    begin = ProgramRecorder.begin
    monkeypatch.setattr(ProgramRecorder, "begin", lambda self, *given: found.append(given) or begin(self, *given))
    return found


def test_what_ran_is_checked_without_a_second_recording(begun: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    given = half(16384), half(16384), asim.empty(16384, "float16")
    kernel = cpp_kernel(EXAMPLE)
    asim.launch(kernel, 2, *given, length=16384)
    assert not asim.check_kernel(kernel, 2, *given, length=16384).findings
    assert len(begun) == 2
    asim.launch(kernel, 4, *given, length=16384)
    assert len(begun) == 6
    monkeypatch.setattr("ascend_sim.ascend_c.function._KEPT_ROWS", 3)
    again = cpp_kernel(EXAMPLE)
    for count in (1, 2):
        asim.launch(again, 1, *given, length=16384)
        assert len(begun) == 6 + count


def test_a_judged_kernel_is_recorded_each_time(begun: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JUDGED, "1")
    given = half(4096), half(4096), asim.empty(4096, "float16")
    kernel = cpp_kernel(EXAMPLE)
    for _ in range(2):
        asim.launch(kernel, 1, *given, length=4096)
    assert len(begun) == 2


def test_zeros_of_both_signs_are_two_requests(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel(f"Duplicate(d, scale, 64); {OUT}", tensors="z", numbers="float scale"))
    for scale in (0.0, -0.0):
        run = asim.launch(kernel, 1, asim.empty(64, "float32"), scale=scale)
        assert (np.signbit(run.outputs["z"]) == np.signbit(scale)).all()


@pytest.mark.parametrize("chip", ("ascend910a", "ascend310p3", "ascend950pr_9589"))
def test_other_architectures_are_refused(chip: str) -> None:
    x = half(4096)
    with pytest.raises(SimError, match=r"kernel add_custom: Ascend C kernels run on dav-2201 \(910B, 910_93\); "):
        asim.launch(cpp_kernel(EXAMPLE), 1, x, x, x, length=4096, chip=chip)


def test_entries_of_a_file_have_their_own_cores(tmp_path: Path) -> None:
    kinds = {"AIV": "AIV_ONLY", "AIC": "AIC_ONLY", "MIX_1_1": "MIX_AIC_1_1"}
    text = "".join(
        f'extern "C" __global__ __aicore__ void k{kind}(GM_ADDR x) {{ KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{named}); }}\n'
        for kind, named in kinds.items()
    )
    text += 'extern "C" __global__ __aicore__ void plain(GM_ADDR x) { LocalTensor<float> a; Abs(a, a, 64); }\n'
    for kind in kinds:
        assert made(tmp_path, text, entry=f"k{kind}").cores == (kind,)
    assert made(tmp_path, text, entry="plain").cores == ("AIV",)


def test_a_judged_kernel_starts_no_process_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JUDGED, "1")
    kernel = made(tmp_path, vector_kernel("PipeBarrier<PIPE_V>();", tensors="x"))
    kernel.start_recording()
    assert kernel._recorder(())._process is None


def test_a_process_starts_early_if_no_argument_chooses_the_library(tmp_path: Path) -> None:
    for numbers, starts in (("int32_t count", True), ("Tiling tiling", False)):
        body = vector_kernel("PipeBarrier<PIPE_V>();", tensors="x", numbers=numbers)
        kernel = made(tmp_path, f"struct Tiling {{ int32_t count; }};\n{body}")
        kernel.start_recording()
        assert (kernel._recorder(())._process is not None) is starts
