"""Which functions of a file are kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_sim.ascend_c.source import KernelEntry, choose, entries
from ascend_sim.errors import SimError

pytestmark = pytest.mark.fast

TEXT = """// extern "C" __global__ __aicore__ void in_a_comment(GM_ADDR x) {}
/* __global__ __aicore__ void in_another(
*/ const char *text = "__global__ void in_a_text() {";
extern "C" __global__ __aicore__ void declared(GM_ADDR x);
extern "C" __global__ __aicore__ void first(GM_ADDR x, __gm__ uint8_t *y,
                                            const Tiling<int, 2> tiling, GM_ADDR)
{
}
template <typename T>
__global__ [aicore] void second(void)
{
}
__aicore__ inline void helper(int n) {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.cpp"
    path.write_text(TEXT)
    return path


def test_kernels_are_found_with_their_parameters(file: Path) -> None:
    assert entries(file) == [
        KernelEntry("first", 5, ("x", "y", "tiling", "argument3")),
        KernelEntry("second", 10, (), is_template=True),
    ]


def test_one_of_several_is_chosen_by_its_name(file: Path) -> None:
    assert choose(file, "second<half>") == ("second<half>", KernelEntry("second", 10, (), is_template=True))
    with pytest.raises(SimError, match="several kernels; give one of first, second"):
        choose(file, None)
    with pytest.raises(SimError, match="no kernel 'third'; give one of first, second"):
        choose(file, "third")


def test_a_kernel_of_one_name_may_stand_twice(tmp_path: Path) -> None:
    """Two definitions are alternatives of the preprocessor, or an error that the compiler names."""
    path = tmp_path / "twice.cpp"
    path.write_text("#ifdef A\n__global__ void one(GM_ADDR x) {}\n#else\n__global__ void one(GM_ADDR x) {}\n#endif\n")
    assert choose(path, None) == ("one", KernelEntry("one", 2, ("x",)))


def test_the_beginning_of_a_kernel_may_be_a_macro(tmp_path: Path) -> None:
    """The line behind a macro's definition is no part of it."""
    path = tmp_path / "macro.cpp"
    begins = "#define BEGIN \\\n  __global__\n#define KERNEL BEGIN __aicore__\nvoid helper() {}\n"
    path.write_text(f"{begins}KERNEL void one(GM_ADDR x) {{}}\n__global__ void other() {{}}\n")
    assert entries(path) == [KernelEntry("one", 5, ("x",)), KernelEntry("other", 6, ())]


def test_a_kernel_may_be_a_call_of_a_macro(tmp_path: Path) -> None:
    """Calls may stand in other macros and on several lines; entries have the lines of the calls."""
    path = tmp_path / "declared.cpp"
    path.write_text(
        "#define SCALE(T, cores, ...) \\\n"
        '    extern "C" __global__ cores void scale_##T(GM_ADDR x, uint32_t n_##T) \\\n'
        "    { scale<T>(x, n_##T); }\n"
        "#define BOTH(cores) SCALE(half, cores) SCALE(float, cores)\n"
        "BOTH(__vector__)\n"
        "SCALE(int32_t,\n      __mix__(1, 2),\n      more)\n"
        "__global__ void last(GM_ADDR x) {}\n"
    )
    assert entries(path) == [
        KernelEntry("scale_half", 5, ("x", "n_half"), cores="AIV"),
        KernelEntry("scale_float", 5, ("x", "n_float"), cores="AIV"),
        KernelEntry("scale_int32_t", 6, ("x", "n_int32_t"), cores="MIX"),
        KernelEntry("last", 9, ("x",)),
    ]


def test_a_macro_that_begins_kernels_may_be_defined_twice(tmp_path: Path) -> None:
    """Its second definition is no call of the first; nothing here knows which of the two counts."""
    path = tmp_path / "twice.cpp"
    define = '#define KERNEL(T) extern "C" __global__ __aicore__ void add_##T(GM_ADDR x) {{ {} }}\n'
    path.write_text(f"#ifdef ONE\n{define.format('one();')}#else\n{define.format('other();')}#endif\nKERNEL(half)\n")
    assert [(entry.name, entry.line) for entry in entries(path)] == [("add_half", 6)]


def test_the_beginning_of_a_kernel_may_be_a_macro_of_an_included_header(tmp_path: Path) -> None:
    """Headers may include each other; a line of the file stays the same, and a kernel of a header is none of the file."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "inner" / "begin.h").write_text('#include "../outer.h"\n#define BEGIN __global__\n')
    (tmp_path / "shared" / "kind.h").write_text("#define KERNEL BEGIN __aicore__\n__global__ void other() {}\n")
    (tmp_path / "outer.h").write_text('#include "inner/begin.h"\n# include <kind.h>\n#include "kernel_operator.h"\n')
    path = tmp_path / "kernel.cpp"
    path.write_text('#include "outer.h"\n\nKERNEL void one(GM_ADDR x) {}\n')
    assert entries(path, [tmp_path / "shared"]) == [KernelEntry("one", 3, ("x",))]
    with pytest.raises(SimError, match="no kernel"):
        choose(path, None)


def test_files_without_a_kernel_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.cpp").write_text("int x;\n")
    with pytest.raises(SimError, match=r'empty.cpp: no kernel; one begins with extern "C" __global__ __aicore__ void NAME'):
        choose(tmp_path / "empty.cpp", None)
    with pytest.raises(SimError, match="no such file"):
        choose(tmp_path / "missing.cpp", None)
    with pytest.raises(SimError, match="is a folder"):
        choose(tmp_path, None)


DECLARED = {
    "__vector__": "AIV",
    "__aicore__ __cube__": "AIC",
    "__mix__(1, 2)": "MIX",
    "__mix__(1,1) __aicore__": "MIX_1_1",
    "__mix__(0, 1)": "AIV",
    "__mix__(1, few ? 1 : 2)": "?",
    "__schedmode__(1) __attribute__((aiv))": "",
    "[[bisheng::core_ratio(1, 2)]] __aicore__": "MIX",
    "[[deprecated]] [[bisheng::core_ratio(0,1)]]": "AIV",
}


@pytest.mark.parametrize("words", DECLARED)
def test_a_declaration_names_the_cores(tmp_path: Path, words: str) -> None:
    path = tmp_path / "declared.cpp"
    path.write_text(f"__global__ {words} void one(GM_ADDR x) {{}}\n")
    assert choose(path, None) == ("one", KernelEntry("one", 1, ("x",), "", DECLARED[words]))


def test_a_kernel_may_stand_in_namespaces(tmp_path: Path) -> None:
    path = tmp_path / "scopes.cpp"
    path.write_text(
        "namespace {\nint n() { return 0; }\n}\nnamespace a::b { namespace { namespace c {\n"
        "template <class T> __global__ void one(GM_ADDR x) { if (x) {} }\n} } }\n__global__ void two(GM_ADDR x) {}\n"
    )
    assert [choose(path, name)[0] for name in ("one<half>", "a::b::c::one<half>", "two")] == [
        "a::b::c::one<half>",
        "a::b::c::one<half>",
        "two",
    ]


def test_a_template_needs_its_arguments(file: Path) -> None:
    with pytest.raises(SimError, match=r"kernels.cpp:10: kernel second is a template; give its arguments, as in second<half>"):
        choose(file, "second")


def test_attributes_before_a_declaration_name_the_cores(tmp_path: Path) -> None:
    path = tmp_path / "declared.cpp"
    path.write_text('extern "C" [[bisheng::core_ratio(1, 2)]] [[deprecated]] __global__ __aicore__ void one(GM_ADDR x) {}\n')
    assert choose(path, None) == ("one", KernelEntry("one", 1, ("x",), "", "MIX"))
