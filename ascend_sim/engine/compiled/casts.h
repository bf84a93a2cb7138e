/* Conversions of numbers, with the results of numpy and ml_dtypes, NaN patterns too. The twin is in ../../numerics. */
#ifndef ASCEND_SIM_CASTS_H
#define ASCEND_SIM_CASTS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int is_nan(uint32_t bits) { return (int32_t)(bits & 0x7FFFFFFF) > 0x7F800000; }

/* A float16 moved to the top of a float32 has an exponent that is too small by the difference of the biases. */
static inline uint32_t widened_half(uint32_t half, uint32_t how) {
    (void)how;
    uint32_t magnitude = bits_of(float_of((half & 0x7FFF) << 13) * 0x1p112f);
    magnitude |= (half & 0x7C00) == 0x7C00 ? 0x7F800000 : 0; /* infinities and NaN */
    return (half & 0x8000) << 16 | magnitude;
}

/* To nearest even; a NaN keeps the upper bits of its pattern. All four cases are worked out, for vectors to choose from. */
static inline uint32_t narrowed_half(uint32_t bits) {
    int32_t magnitude = (int32_t)(bits & 0x7FFFFFFF);
    uint32_t usual = (uint32_t)(magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = bits_of(float_of((uint32_t)magnitude) + 0.5f) - bits_of(0.5f); /* the last digit of 0.5 is a subnormal's */
    uint32_t nan = 0x7C00 | ((uint32_t)magnitude >> 13 & 0x3FF);
    nan += nan == 0x7C00;
    uint32_t half = magnitude < 0x38800000 ? small : usual; /* 2**-14 */
    half = magnitude >= 0x47800000 ? 0x7C00 : half;         /* 2**16 */
    half = is_nan(bits) ? nan : half;
    return (bits >> 16 & 0x8000) | half;
}

/* To nearest even; all NaN become one, but for the sign. */
static inline uint32_t narrowed_bfloat(uint32_t bits) {
    if (is_nan(bits)) return (bits >> 16 & 0x8000) | 0x7FC0;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t rounded_hf32(uint32_t bits, uint32_t dropped) {
    uint32_t kept = (bits + ((uint32_t)1 << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped << dropped;
    return is_nan(bits) ? 0x7FC00000 : kept;
}

/* Overflow and infinity to the largest finite number, NaN to 0 (numerics/casting.py, _saturated). */
static inline uint32_t saturated(uint32_t result, uint32_t given, uint32_t infinity, uint32_t sign) {
    if (is_nan(given)) return 0;
    return (result & ~sign) == infinity ? (result & sign) | (infinity - 1) : result;
}

typedef uint32_t Rule(uint32_t given, uint32_t how);

static inline uint32_t widened_bfloat(uint32_t narrow, uint32_t how) {
    (void)how;
    return narrow << 16;
}

static inline uint32_t half_of(uint32_t given, uint32_t saturate) {
    uint32_t half = narrowed_half(given);
    return saturate ? saturated(half, given, 0x7C00, 0x8000) : half;
}

static inline uint32_t bfloat_of(uint32_t given, uint32_t saturate) {
    uint32_t narrow = narrowed_bfloat(given);
    return saturate ? saturated(narrow, given, 0x7F80, 0x8000) : narrow;
}

static inline uint32_t float_as_said(uint32_t given, uint32_t saturate) {
    return saturate ? saturated(given, given, 0x7F800000, 0x80000000) : given;
}

#endif
