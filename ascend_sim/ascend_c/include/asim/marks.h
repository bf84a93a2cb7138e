// Marks of a compiled kernel.
#pragma once

namespace asim {

// A library has the symbol of a mark if its kernel calls `marked` anywhere (recorder.py): it joins all cores, so that all
// its blocks must run at once; it calls the cube or the vector unit; it gives hints to the L2; its vector cores ask the cube
// core for products; its own C++ is not counted (counted.py); it names the cores that it runs on (KernelMetaType).
constexpr int ALL_CORES = 0, CUBE_CALLS = 1, VECTOR_CALLS = 2, CACHE_HINTS = 3, ASKS_CUBE = 4, UNCOUNTED = 5, TASK_TYPES = 16;
template <int number> struct __attribute__((visibility("default"))) Mark { static char mark; };
template <int number> char Mark<number>::mark = 1;
template <int number> inline void marked() { *(volatile char *)&Mark<number>::mark = 1; }

}  // namespace asim
