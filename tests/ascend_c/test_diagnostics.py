"""Errors of the compiler: one to three lines each, the user's file and line first."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.ascend_c.diagnostics import shown_errors
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.function import cpp_kernel
from tests.support.ascend_c.kernels import BEGIN, made, needs_compiler, vector_kernel
from tests.support.sampling import part_of_cases

LINE = BEGIN.count("\n") + 2
BROKEN = {
    "Add(d, a, b, 64)": "expected ';'",
    "Sort32(d, a, b, 1);": "Sort32 is not simulated (sorting); docs/ascend-c.md lists what is",
    "AscendC::Scatter(d, a, b, 0, 64);": "Scatter is not simulated (not an operation of dav-2201)",
    "SliceInfo slices[2];": "SliceInfo is not simulated (copies of slices)",
    "VdeqInfo scales;": "VdeqInfo is not simulated (scales of their own for the elements of a block)",
    "float v = a.GetValue();": "too few arguments to function call",
    "SetLoadDataRepeat({0, 1, 0});": "SetLoadDataRepeat is not simulated (kernels of the cube core)",
    "Exp(a, a);": "no matching function for call to 'Exp' (requires at least 3 arguments, but 2 were provided)",
    "LoadDataRepeatParam again(0, 1, 0);": "LoadDataRepeatParam is not simulated (kernels of the cube core)",
    "auto mode = QuantMode_t::QF322F16_PRE;": "QF322F16_PRE is not simulated (quantisation by Fixpipe)",
    "IBSet(xg, d, 0, 0);": "IBSet is not simulated (one core's flags for another)",
    "LoadData2DParamsV2 p;": "LoadData2DParamsV2 is not simulated (kernels of the cube core)",
    "Adddd(d, a, b, 64);": "use of undeclared identifier 'Adddd'; docs/ascend-c.md lists the API's names that are known",
    "PadParams pad;": "unknown type name 'PadParams'; docs/ascend-c.md lists",
    "oops(d);": "use of undeclared identifier 'oops'\n",
    "d.Foo();": "no member named 'Foo'",
    "LocalTensor<half> h; Add(d, a, h, 64);": (
        "no matching function for call to 'Add' (deduced conflicting types for parameter 'T' ('float' vs. 'half'))"
    ),
    "SetFlag(0);": "no matching function for call to 'SetFlag' (couldn't infer template argument 'event')",
    "uint32_t m[2] = {1, 0}; Add(d, a, b, m, 1, {1, 1, 1, 8, 8, 8});": (
        "from 'uint32_t[2]' (aka 'unsigned int[2]') to a mask, 'uint64_t[]' or a number of elements, for 4th argument)"
    ),
    "Add(d, a, b, (uint64_t)64, 1, {1, 1, 1, 8, 8, 8}, 3);": "no matching function for call to 'Add'\n",
    'asm(".incbin \\"kernel.py\\"");': "assembly is not simulated; use calls of the API",
    "__REDIRECT(,,.nops 1);": "assembly is not simulated; use calls of the API",
    "int x = 1;": "redefinition of 'x'",
    "return 1;": "should not return a value",
    "SetFlag<HardEvent::MTE2_X>(0);": "no member named 'MTE2_X'",
    "TQue<QuePosition::CO2, 1> q;": "a TQue is of A1, A2, B1, B2, C1, C2, CO1, C2PIPE2GM, VECIN, VECOUT or VECCALC",
    "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AICORE);": "use of undeclared identifier 'KERNEL_TYPE_AICORE'",
    "LocalTensor<int8_t> c; Cast(c, a, RoundMode::CAST_RINT, 64);": "the vector unit of these cores does not convert so",
    "LocalTensor<int4b_t> c;": "int4b_t is not simulated (numbers of half a byte)",
    "DataCopy(d, xg, 64, 3);": "no matching function for call to 'DataCopy'",
    "LocalTensor<half> h = d;": "no viable conversion from 'LocalTensor<float>' to 'LocalTensor<half>'",
    "TQue<TPosition::VECIN, 1> q; auto c = q.AllocTensor();": "no matching member function for call to 'AllocTensor'",
    "Muls(d, a, 2.0f);": "no matching function for call to 'Muls'",
    "xg.SetGlobalBuffer((__gm__ half *)x);": "no matching member function for call to 'SetGlobalBuffer'",
    "Mmad(one, two, three);": "use of undeclared identifier 'one'",
    "std::vector<int> v;": "no member named 'vector' in namespace 'std'",
    "throw 1;": "cannot use 'throw' with exceptions disabled",
    "TQue<TPosition::VECIN, 1> q; q.EnQue<TPosition::VECIN, TPosition::VECCALC>(a);": (
        "EnQue and DeQue with positions: GM to VECIN, VECOUT to GM and VECIN to VECOUT are simulated"
    ),
    "Matmul<float> mm;": "too few template arguments for alias template 'Matmul'",
    "using N = MatmulType<TPosition::A1, CubeFormat::NZ, half>; Matmul<N, N, N> mm;": (
        "error: Matmul: A, B, C and the bias at TPosition::GM, VECIN, VECOUT and VECCALC are simulated"
    ),
    "std::string name = a.name;": "error: no member named 'name'",
    "LocalTensor<DTYPE_X> c;": "DTYPE_X is unknown: an operator's project defines it; give --define DTYPE_X=VALUE",
    "int helper(int); int n = helper(3);": "helper is declared and has no definition",
    "}\nstruct K { static void go(LocalTensor<float> t, int n); };\nvoid other() { LocalTensor<float> a; K::go(a, 3);": (
        "go is declared and has no definition"
    ),
    "Cast(d, a);": "no matching function for call to 'Cast'",
    "const uint64_t m[2] = {1, 0}; Abs(d, a, m, 1, {1, 1, 8, 8});": "no matching function for call to 'Abs'",
    '}\n#include "missing.h"\n{': "'missing.h' file not found",
    "TPipe p; TPipe q = p;": "call to deleted constructor",
    "constexpr int n = a.GetSize();": "constexpr",
    "#error stop": "stop",
    "return 3;": "error: void function 'kernel' should not return a value\n",
    'printf("no end);': "error: missing terminating '\"' character\n",
    "char c = 'x;": "error: missing terminating ' character\n",
    "/* no end": "error: unterminated /* comment",
    'auto text = R"(no end;': "error: raw string missing terminating delimiter",
    "GM_ADDR tiling = x; GET_TILING_DATA(t, tiling);": "GET_TILING_DATA: of which structure? REGISTER_TILING_DEFAULT",
    "ShiftLeft(d, a, a, 64);": "ShiftLeft is not simulated (with these",
    "LocalTensor<half> h; Axpy(h, d, 2.0f, 64);": "operands have one type, or dst is float and the others half",
    "LocalTensor<half> h; MulAddDst(h, d, d, 64);": "operands have one type, or dst is float and the others half",
    "DataCopyPad(d, a, DataCopyParams(), Nd2NzParams());": "DataCopyPad is not simulated (with these arguments)",
    "using M = MatmulType<TPosition::GM, CubeFormat::ND, float>; Matmul<M, M, M, M> mm; mm.Iterate(true, a);": (
        "Iterate into a tensor: the MatmulType of C says TPosition::CO1"
    ),
    "static constexpr FixpipeConfig ub(CO2Layout::NZ, true); Fixpipe<float, float, ub>(xg, a, FixpipeParamsV220());": (
        "error: FixpipeConfig with isToUB or enableFixVal is not simulated (not of this architecture)"
    ),
    "CumSum(d, a, b, 64);": "CumSum is not simulated (functions of the library)",
    "d.SetUserTag(1);": "SetUserTag is not simulated (buffers of the library, and their handles)",
    "MrgSort4Info one; GetSortLen<float>(one); two.Foo();": "MrgSort4Info is not simulated (sorting)",
}


@part_of_cases(3, "LocalTensor<int8_t> c", "__REDIRECT", "const uint64_t m", "uint32_t m", "Adddd(", "oops(")
@needs_compiler
@pytest.mark.parametrize("code", BROKEN)
def test_a_broken_kernel_names_its_line(tmp_path: Path, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        made(tmp_path, vector_kernel(f"\n{code}\n", tensors="x"))
    first, *rest = str(caught.value).splitlines()
    line = LINE + 1 + code.partition("#include")[0].count("\n")
    assert first.startswith((f"{tmp_path}/kernel.cpp:{line}: error: ", f"{tmp_path}/kernel.cpp:{line - 1}: error: "))
    assert BROKEN[code] in str(caught.value) and len(rest) <= 2, str(caught.value)


@needs_compiler
def test_a_kernel_has_no_heap(tmp_path: Path) -> None:
    code = "\nvolatile int n = 9; int *p = new int[n];\np[0] = 1; a.SetValue(0, p[0]);\n"
    with pytest.raises(CompileError, match=rf"kernel\.cpp:{LINE + 1}: error: a kernel has no heap; new, delete and containers"):
        made(tmp_path, vector_kernel(code, tensors="x"))


@needs_compiler
def test_errors_inside_templates_name_the_line_that_asked_for_them(tmp_path: Path) -> None:
    text = "template <class T> void go(LocalTensor<T> d) {\n    MrgSort(d, d);\n}\n" + vector_kernel("go(d);", tensors="x")
    with pytest.raises(CompileError, match=r"kernel\.cpp:4: error: MrgSort is not simulated"):
        made(tmp_path, text)


def test_an_error_in_our_headers_is_told_where_the_user_caused_it(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    said = f"{ours}/a.h:7:3: error: bad\n{tmp_path}/user.cpp:2:9: note: in instantiation of\n  junk\n"
    (tmp_path / "user.cpp").write_text("one\n  two;\n")
    assert shown_errors(said, (ours,)) == f"{tmp_path}/user.cpp:2: error: bad\n    two;"
    assert shown_errors(f"{ours}/a.h:7:3: error: bad\n", (ours,)) == "the kernel cannot be compiled: bad"
    assert shown_errors(f"{ours}/a.h:7:3: error: bad\n{said}", (ours,)) == f"{tmp_path}/user.cpp:2: error: bad\n    two;"


def test_twenty_kernels_are_broken() -> None:
    assert len(BROKEN) >= 20


@needs_compiler
@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (0, '2: error: __global__ is unknown; a kernel\'s file begins with #include "kernel_operator.h"'),
        (1, "3: error: GlobalTensor is unknown; a kernel's file begins with using namespace AscendC; or write AscendC::Glo"),
    ],
)
def test_a_file_without_its_beginning_has_one_error(tmp_path: Path, missing: int, said: str) -> None:
    lines = BEGIN.splitlines()
    del lines[missing]
    text = "\n".join([*lines, vector_kernel("Exp(a, a, 64);", tensors="x").replace("{", "{\n", 1)])
    (tmp_path / "kernel.cpp").write_text(text)
    with pytest.raises(CompileError) as caught:
        cpp_kernel(tmp_path / "kernel.cpp")
    assert said in str(caught.value) and len(str(caught.value).splitlines()) == 2, str(caught.value)


@needs_compiler
@pytest.mark.parametrize("linkage", ['extern "C" ', ""])
def test_a_function_without_an_end_is_told(tmp_path: Path, linkage: str) -> None:
    text = linkage + "__global__ __aicore__ void open(GM_ADDR x) {\n    if (x) {\n}\n"
    with pytest.raises(CompileError, match=r"kernel\.cpp:3: error: expected '}'"):
        made(tmp_path, text)


@needs_compiler
def test_a_kernel_with_the_name_of_a_function_of_the_c_library_is_told_at_its_line(tmp_path: Path) -> None:
    text = 'extern "C" __global__ __aicore__ void free(GM_ADDR x, GM_ADDR z) {}\n'
    with pytest.raises(CompileError, match=r"kernel\.cpp:3: error: several functions are named free") as caught:
        made(tmp_path, text)
    assert len(str(caught.value).splitlines()) == 2


def test_a_line_has_one_error_and_headers_of_the_system_none(tmp_path: Path) -> None:
    said = "/u.cpp:1:1: error: bad\n/u.cpp:1:9: error: worse\n/usr/include/x.h:3:1: error: odd\n/u.cpp:2:1: note: here\n"
    assert shown_errors(said, (Path("/usr/include"),)) == "/u.cpp:1: error: bad\n/u.cpp:2: error: odd"


def test_many_errors_are_cut(tmp_path: Path) -> None:
    said = "".join(f"/u.cpp:{line}:1: error: bad {line}\n" for line in range(1, 15))
    assert shown_errors(said, ()).splitlines()[-1] == "and 4 further errors"


def test_output_without_an_error_is_shown() -> None:
    assert shown_errors("killed\n", ()) == "the compiler ended without an error that can be read: killed"
