// Parts of the C++ standard library and of its kind under the names of the public API.
#pragma once
#include "asim/types.h"

namespace AscendC {
namespace Std {
using std::conditional, std::conditional_t, std::enable_if, std::enable_if_t, std::false_type, std::integral_constant, std::is_base_of,
    std::is_base_of_v, std::is_convertible, std::is_convertible_v, std::is_same, std::is_same_v, std::true_type;
template <class T, class U> constexpr T min(const T first, const U second) { return second < first ? second : first; }
template <class T, class U> constexpr T max(const T first, const U second) { return first < second ? second : first; }
}  // namespace Std
template <class T, class U> using IsSameType = std::is_same<T, U>;
constexpr uint32_t AlignUp(uint32_t number, uint32_t unit) { return (number + unit - 1) / unit * unit; }
constexpr int32_t CeilDivision(int32_t number, int32_t divisor) { return (number + divisor - 1) / divisor; }
}  // namespace AscendC
