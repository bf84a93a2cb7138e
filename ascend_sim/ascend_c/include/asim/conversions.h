// Conversions to and from half and bfloat16_t for which a compiler calls its run-time library, where the processor has no
// instruction for them. A kernel is linked without that library.
#pragma once
#include <cstdint>
#include <cstring>

namespace asim {
// Bits of the nearest number with `digits` digits behind the point and exponents from 1 - bias on; of ties the even one.
inline uint16_t narrowed(double value, int digits, int bias) {
    uint64_t bits, infinity = 0x7FFull << 52, highest = (2 * bias + 1ull) << digits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t sign = bits >> 63 << 15, magnitude = bits & ~(1ull << 63);
    if (magnitude > infinity) return sign | highest | 1ull << (digits - 1) | (magnitude & ((1ull << 52) - 1)) >> (52 - digits);
    int64_t exponent = (int64_t)(magnitude >> 52) - 1023, least = 1 - bias, small = exponent < least ? least - exponent : 0;
    int64_t dropped = 52 - digits + small;
    if (dropped > 60) return sign;
    uint64_t whole = (magnitude & ((1ull << 52) - 1)) | 1ull << 52, tie = 1ull << (dropped - 1);
    uint64_t kept = whole >> dropped, rest = whole & (2 * tie - 1);
    kept += rest > tie || (rest == tie && kept & 1);
    if (!small) kept += (uint64_t)(exponent - least) << digits;
    return sign | (kept < highest ? kept : highest);
}
// A half or bfloat16_t as it is returned, in the lowest bits of a vector register: to return the type itself may need a conversion.
typedef uint16_t Returned __attribute__((vector_size(16)));
inline Returned returned(uint16_t bits) { return Returned{bits}; }
}  // namespace asim

#define ASIM_RUNTIME extern "C" __attribute__((used, weak, visibility("hidden")))
ASIM_RUNTIME asim::Returned __truncdfhf2(double value) { return asim::returned(asim::narrowed(value, 10, 15)); }
ASIM_RUNTIME asim::Returned __truncsfhf2(float value) { return asim::returned(asim::narrowed(value, 10, 15)); }
ASIM_RUNTIME asim::Returned __truncdfbf2(double value) { return asim::returned(asim::narrowed(value, 7, 127)); }
ASIM_RUNTIME asim::Returned __truncsfbf2(float value) { return asim::returned(asim::narrowed(value, 7, 127)); }
ASIM_RUNTIME float __extendhfsf2(_Float16 value) {
    uint16_t half;
    memcpy(&half, &value, sizeof half);
    uint32_t exponent = half >> 10 & 31, rest = half & 1023, sign = (uint32_t)(half >> 15) << 31;
    float small = (float)rest * 0x1p-24f, wide;
    uint32_t bits = ((exponent == 31 ? 255 : exponent + 112) << 23) | rest << 13;
    if (!exponent) memcpy(&bits, &small, sizeof bits);
    bits |= sign;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}
#undef ASIM_RUNTIME
