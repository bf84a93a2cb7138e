"""Turns of loops and calls of functions in C++ against arithmetic, and random programs against an interpreter of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from ascend_sim.ascend_c.counted import CALL, TURN, TURN_IN_BLOCK, with_counts
from ascend_sim.ascend_c.function import cpp_kernel
from ascend_sim.checking import check_kernel
from ascend_sim.errors import SimError
from ascend_sim.launching import empty, launch
from tests.support.ascend_c.kernels import BEGIN, made, needs_compiler, recorded, vector_kernel, written
from tests.support.sampling import sampled

Statement = tuple[Any, ...]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "turns", "calls"),
    [
        ("void f() { for (;;) g(); }", 1, 1),
        ('// for (;;) {\n/* while (1) */ auto s = "for (;;) {"; char c = \'{\'; auto r = R"x(do {)" while (1) {)x";', 0, 0),
        ("void f() { do { while (a) b(); } while (c); while (d); }", 3, 1),
        ("void f() { do while (a) b(); while (c); }", 2, 1),
        ("void f() { if (a) { } else if (b) { } switch (c) { } LOOP(d) { } if constexpr (e) { } }", 0, 1),
        ("void f() { auto g = [&](int a) mutable { }; auto h = [=] { }; int i[2] {1, 2}; return [] { return 1; }; }", 0, 4),
        (
            "struct A { A(int x) : y(x), z{x} { } ~A() { } auto f() const -> int { return 1; } int operator()(int x) { } };",
            0,
            4,
        ),
        ("void f() { struct B { int g() { return 1; } } b; }", 0, 2),
        ("struct alignas(8) C { int x; }; enum class D : uint8_t { E }; namespace n { void f() noexcept { } }", 0, 1),
        ('extern "C" __global__ __aicore__ void kernel(GM_ADDR x) { } __aicore__ void f(int a) // why\n{ }', 0, 1),
        ("#define LOOP(i, n) for (int i = 0; \\\n i < n; i++)\n#define NO(x) {x}\nvoid f() { LOOP(i, 3) { } }", 1, 1),
        ("#if A\nvoid f() { for (;;) {\n#else\nvoid f() { while (1) {\n#endif\n} do { } while (0); }", 3, 2),
        ("int a = 1'000; void f() { for (auto x : y) for (int i = 0; i < 3; i++) { } }", 2, 1),
        ("void f() { if (a) do b(); while (c); else for (;;) { } }", 2, 1),
        ("}} ) void f() { for (", 0, 1),
        (f"void f() {'__a__' * 40} x {{ }}", 0, 0),
        ("void f() const __attribute__((cold)) { } void f() __aicore__ noexcept { } auto f() -> decltype(x) { }", 0, 3),
        ("struct A { int f() & { } int f() && { } A operator[](int i) { } int g() throw() { } int (*h())[3] { } };", 0, 5),
        ("struct [[a]] { int x; } b; void f() [[c]] { for (;;) [[d]] { if (e) [[f(g[0])]] { } } switch (h) [[i]] { } }", 1, 1),
        (
            "struct __attribute__((packed)) { int x; } y; void f() { [] () noexcept(noexcept(g())) -> decltype(g()) { }(); }",
            0,
            2,
        ),
        ("constexpr int T[2] {1, 2}, U[1][1] {{1}}; struct S { int x[1] {3}; }; void f() { int y[1][1] {{1}}; }", 0, 1),
        ("void f() { if (a) [&] { }(); else [&] { }(); for (;;) [] (int x) { }(1); return b and [] { return 1; }(); }", 1, 5),
        ("void f() <% for (;;) <% int t<:1:> <%1%>; %> %> A<::B> c;", 1, 1),
        ("#define DO(x) \\\n do { \\ \n x; \\\n } \\\n while (0)\nvoid f() { DO(a); while (b) c; }", 2, 1),
        ("#if 0 // a\n don't } ( {\n#endif\nvoid f() {\n#if 0\n do (\n#else\n do {\n#endif\n} while (b); } void g() { }", 2, 2),
        ("void f() {\n#if 0\n don't } do ;\n#endif\n while (b); } void g() { }", 2, 2),
        ('#define GLOB "src/*.h" // a /* b\n#define N 3 // "\nvoid f() { } /* end */ auto s = u8R"(" { for (;;))";', 0, 1),
    ],
)
def test_a_loop_and_a_function_get_a_count_each(text: str, turns: int, calls: int) -> None:
    found = with_counts(text)
    plain = found.replace(TURN, "").replace(CALL, "")
    assert (found.count(TURN) + plain.count(TURN_IN_BLOCK), found.count(CALL)) == (turns, calls)
    assert plain.replace(TURN_IN_BLOCK, "") == text and found.count("\n") == text.count("\n")


@pytest.mark.fast
def test_the_while_of_a_do_is_no_loop_of_its_own() -> None:
    text = "do{0} while (a){0} b(); while (c); do {{{1} }} while (d); while (e){0} ;"
    assert with_counts(text.format("", "")) == text.format(TURN, TURN_IN_BLOCK)


FUNCTIONS = """
#include "loops.h"
constexpr int squares(int n) { int sum = 0; for (int i = 1; i <= n; i++) sum += i * i; return sum; }
static_assert(squares(3) == 14);
#define REPEAT(i, n) for (int i = 0; i < (n); ++i)
template <class T> struct Total {
    T value = 0;
    __aicore__ inline void add(T x) { value += x; }
};
"""
BODY = """
Total<int> sum;
REPEAT(i, 3) REPEAT(j, 4) sum.add(twice(j));
while (int left = sum.value--) { if (left == 30) break; }
if (sum.value) do sum.value--; while (sum.value > 20); else sum.add(1);
for (int each : {1, 2, 3})
    switch (each) { case 2: continue; default: [&] { sum.add(each); }(); }
sum.add(squares(3));
static_assert(squares(2) == 5);
Duplicate(a, (float)sum.value, 64);
"""
TURNS = (3 + 12) + 7 + 9 + 3 + 3
"""Turns of the nest, of the loop that ends at 30, of 29 down to 20, of the three values, of the squares."""
CALLS = 12 * 2 + 2 * 2 + 2
"""Twelve sums of a double, two lambdas with a sum, a sum of squares."""


@needs_compiler
@pytest.mark.parametrize("define", ((), ("LEFT",)))
def test_turns_and_calls_are_those_of_arithmetic(tmp_path: Path, define: tuple[str, ...]) -> None:
    (tmp_path / "loops.h").write_text("inline int twice(int x) { return 2 * x; }\n")
    kernel = made(tmp_path, FUNCTIONS + vector_kernel(BODY, tensors="x"), defines=define)
    found = recorded(kernel, 1 << 40)
    assert (found.turns, found.calls) == (TURNS, CALLS)
    assert [Path(file).name for file, _ in found.lines] == ["kernel.cpp"]
    assert found.lines[0][1] == (BEGIN + FUNCTIONS + vector_kernel(BODY)).partition("Duplicate")[0].count("\n") + 1


@needs_compiler
def test_a_header_of_loops_several_lines_long_keeps_its_lines(tmp_path: Path) -> None:
    kernel = made(tmp_path, vector_kernel("for (int i = 0;\n a.GetValue(0) > i;\n i++) {}", tensors="x"))
    found = recorded(kernel, 1 << 40)
    assert found.turns == 0 and [line for _, line in found.lines] == [5]


@needs_compiler
def test_a_launch_and_a_check_count_by_kind_of_core(tmp_path: Path) -> None:
    text = """
__aicore__ inline void nothing() {}
extern "C" __global__ __aicore__ void kernel(GM_ADDR x) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    if ASCEND_IS_AIC { for (int i = 0; i < 5; i++) ; }
    if ASCEND_IS_AIV { for (int i = 0; i <= GetBlockIdx(); i++) nothing(); }
    PipeBarrier<PIPE_ALL>();
}"""
    kernel = made(tmp_path, text)
    run = launch(kernel, 3, empty(64, "float32"))
    vectors = sum(range(1, 7))
    expected = {"AIC": {"loop_turns": 15, "calls": 0}, "AIV": {"loop_turns": vectors, "calls": vectors}}
    assert run.report.scalar_code == run.report.to_dict()["scalar_code"] == expected
    assert check_kernel(kernel, 3, empty(64, "float32")).to_dict()["scalar_code"] == expected


@needs_compiler
@pytest.mark.parametrize("mode", ("full", "timing", "functional"))
def test_blocks_that_read_values_are_counted_once(tmp_path: Path, mode: str) -> None:
    kernel = made(tmp_path, vector_kernel("while (xg.GetValue(0) > 0) { xg.SetValue(0, xg.GetValue(0) - 1); }", tensors="x"))
    given = empty(64, "float32", workspace=True)
    assert launch(kernel, 2, given, mode=mode).report.scalar_code == {"AIV": {"loop_turns": 0, "calls": 0}}


@needs_compiler
def test_further_files_are_counted(tmp_path: Path) -> None:
    more = written(tmp_path, "int more(int n) { int sum = 0; while (n) sum += n--; return sum; }", "more.cpp")
    file = written(tmp_path, "int more(int n);\n" + vector_kernel("Duplicate(a, (float)more(4), 64);", tensors="x"))
    found = recorded(cpp_kernel(file, more), 1 << 40)
    assert (found.turns, found.calls) == (4, 1)


@needs_compiler
@pytest.mark.parametrize("include", ('#include "sub/a.h"', '#define HEADER "loops.h"\n#include HEADER'))
def test_headers_that_the_compiler_alone_finds_are_counted(tmp_path: Path, include: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.h").write_text('#include "loops.h"\n')
    (tmp_path / "loops.h").write_text("inline int f(int n) { int sum = 0; while (n) sum += n--; return sum; }\n")
    file = written(tmp_path, f"{include}\n" + vector_kernel("Duplicate(a, (float)f(4), 64);", tensors="x"))
    found = recorded(cpp_kernel(file), 1 << 40)
    assert (found.turns, found.calls) == (4, 1)


@needs_compiler
def test_a_kernel_that_has_no_place_for_counts_is_compiled_without(tmp_path: Path) -> None:
    ends = "#define ENDS } while (n < 9)\n" + vector_kernel("int n = 0; do { n++; ENDS; for (;;) break;", tensors="x")
    kernel = made(tmp_path, ends)
    assert recorded(kernel, 1 << 40).turns == 0
    assert launch(kernel, 1, empty(64, "float32")).report.scalar_code == {}


@pytest.mark.fast
def test_a_macro_may_begin_a_kernel() -> None:
    text = "KERNEL f(GM_ADDR x) { } void g() { }"
    assert with_counts(text, kernels={"KERNEL"}).count(CALL) == 1


@needs_compiler
@pytest.mark.parametrize("body", ("for (int i = 0; i < 2; i++) { int i = 3; }", "while (int i = 0)\n{ int i = 3; }"))
def test_a_count_hides_no_error(tmp_path: Path, body: str) -> None:
    with pytest.raises(SimError, match=r"kernel\.cpp:\d+: error: redefinition of 'i'"):
        made(tmp_path, vector_kernel(body, tensors="x"))


@needs_compiler
@pytest.mark.parametrize("define", ((), ("N=3",)))
def test_files_of_other_systems_are_counted(tmp_path: Path, define: tuple[str, ...]) -> None:
    folder = tmp_path / "Größe 测试 \U0001f600"
    folder.mkdir()
    loops = "#pragma once\n#define KERNEL __global__ __aicore__ \\\n  void\ninline void f() { for (int i = 0; i < 3; i++) ; }\n"
    launch_by_host = "#ifdef HOST\nvoid host() { kernel<<<1, nullptr, nullptr>>>(0); }\n#endif\n"
    kernel = vector_kernel("f(); Duplicate(a, 1.0f, 64);", tensors="x").replace("__global__ __aicore__ void", "KERNEL")
    for name, text in (("loops.h", loops), ("kernel.cpp", f'{BEGIN}#include "loops.h"\n{kernel}{launch_by_host}')):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    found = recorded(cpp_kernel(folder / "kernel.cpp", defines=define), 1 << 40)
    assert (found.turns, found.calls, [line for _, line in found.lines]) == (3, 1, [5])


def _bodies(depth: int, in_loop: bool) -> st.SearchStrategy[list[Statement]]:
    leaves: list[st.SearchStrategy[Statement]] = [st.tuples(st.sampled_from(["add", "call"]), st.integers(1, 9))]
    if in_loop:
        leaves.append(st.tuples(st.sampled_from(["break", "continue"]), st.integers(2, 4)))
    one = st.one_of(leaves)
    if depth:
        inner = _bodies(depth - 1, True)
        one |= st.tuples(st.sampled_from(["for", "while", "declared", "do"]), st.integers(0, 4), inner)
        one |= st.tuples(st.just("if"), st.integers(2, 3), _bodies(depth - 1, in_loop), _bodies(depth - 1, in_loop))
    return st.lists(one, min_size=1, max_size=3)


def _text(statement: Statement, depth: int = 0) -> str:
    kind, number, *bodies = statement
    parts = [" ".join(_text(one, depth + 1) for one in body) for body in bodies]
    first, *_ = [part if len(body) == 1 else f"{{ {part} }}" for part, body in zip(parts, bodies, strict=True)] or [""]
    i = f"i{depth}"
    return {
        "add": f"x = (x * 7 + {number}) % 1000;",
        "call": f"x = step(x, {number});",
        "break": f"if (x % {number} == 0) break;",
        "continue": f"if (x % {number} == 0) continue;",
        "for": f"for (int {i} = 0; {i} < {number}; {i}++) {first}",
        "while": f"{{ int {i} = {number}; while ({i}-- > 0) {first} }}",
        "declared": f"{{ int {i} = {number}; while (int left = {i}--) {first} }}",
        "do": f"{{ int {i} = 0; do {first} while (++{i} < {number}); }}",
        "if": f"if (x % {number} == 0) {{ {''.join(parts[:1])} }} else {{ {''.join(parts[1:])} }}",
    }[kind]


class Twin:
    """An interpreter of the random programs, which counts as it goes."""

    def __init__(self) -> None:
        self.x, self.turns, self.calls = 1, 0, 0

    def run(self, body: list[Statement]) -> str:
        for kind, number, *bodies in body:
            if kind in ("add", "call"):
                self.x = (self.x * 7 + number) % 1000 if kind == "add" else self.x + number
                self.calls += kind == "call"
            elif kind in ("break", "continue"):
                if self.x % number == 0:
                    return str(kind)
            elif kind == "if":
                if left := self.run(bodies[0] if self.x % number == 0 else bodies[1]):
                    return left
            else:
                for _ in range(max(number, kind == "do")):
                    self.turns += 1
                    if self.run(bodies[0]) == "break":
                        break
        return ""


@needs_compiler
@sampled(3, 30, deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
@given(programs=st.lists(_bodies(3, False), min_size=4, max_size=12))
def test_random_nests_turn_as_often_as_their_twins(tmp_path: Path, programs: list[list[Statement]]) -> None:
    cases = " ".join(f"case {n}: {' '.join(map(_text, body))} break;" for n, body in enumerate(programs))
    text = "inline int step(int x, int n) { return x + n; }\n" + vector_kernel(
        f"int x = 1; switch (which) {{ {cases} }} Duplicate(a, (float)x, 64);", tensors="y", numbers="int which"
    )
    kernel = made(tmp_path, text)
    for number, body in enumerate(programs):
        twin, found = Twin(), recorded(kernel, 1 << 40, number)
        twin.run(body)
        assert (found.turns, found.calls) == (twin.turns, twin.calls)
        (filled,) = [one for one in found.shapes if len(one) > 5]
        assert np.uint32(filled[2]).view(np.float32) == twin.x
