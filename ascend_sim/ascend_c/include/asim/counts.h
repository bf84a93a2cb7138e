// Counts turns of loops and calls of functions in a kernel's own C++ (counted.py).
#pragma once
#include <cstdint>

namespace asim {

struct Counts {
    int64_t turns, calls;
};
inline Counts counts;

// Behind the head of a loop: count a turn, unless the compiler computes a constant. Always false, so that the body runs.
constexpr bool turn() {
    if (!__builtin_is_constant_evaluated()) counts.turns++;
    return false;
}
constexpr void called() {
    if (!__builtin_is_constant_evaluated()) counts.calls++;
}

}  // namespace asim
