// Parts of the C++ standard library and of its kind under the names of the public API.
#pragma once
#include <tuple>
#include "asim/types.h"

namespace asim {
template <class T> constexpr T pieces_in(T value, given<T> unit) { return unit ? (value + unit - 1) / unit : 0; }
}  // namespace asim
namespace AscendC {
namespace Std {
using namespace std;
template <class T, class U> constexpr T min(const T first, const U second) { return second < first ? second : first; }
template <class T, class U> constexpr T max(const T first, const U second) { return first < second ? second : first; }
}  // namespace Std
template <class T, class U> struct IsSameType : std::is_same<T, U> {};
template <bool condition, class T, class U> struct Conditional : std::conditional<condition, T, U> {};
// A kernel's own function of the same name comes first: these have more forms.
template <class... T> constexpr uint32_t DivCeil(T... both) { return asim::pieces_in<uint32_t>(both...); }
template <class... T> constexpr int32_t CeilDivision(T... both) { return asim::pieces_in<int32_t>(both...); }
template <class T, class... U> constexpr uint32_t AlignUp(T value, U... unit) { return asim::pieces_in<uint32_t>(value, unit...) * (unit * ...); }
}  // namespace AscendC
