/* Copies between a buffer and bytes that lie one behind the other, and conversions of the latter. What they do to a value is
 * what numpy and ml_dtypes do to it, NaN patterns included: the twin is in ../../isa and ../../numerics. */
#include "moves.h"

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

/* One item after the other; the compiler makes a plain move of each where it knows the size. */
static inline void step(
    uint8_t *restrict to, i64 to_step, const uint8_t *restrict from, i64 from_step, i64 count, size_t item) {
    for (i64 i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, item);
}

static void copy_run(uint8_t *to, i64 to_step, const uint8_t *from, i64 from_step, i64 count, i64 item) {
    switch (item) {
    case 1: step(to, to_step, from, from_step, count, 1); break;
    case 2: step(to, to_step, from, from_step, count, 2); break;
    case 4: step(to, to_step, from, from_step, count, 4); break;
    case 8: step(to, to_step, from, from_step, count, 8); break;
    case 16: step(to, to_step, from, from_step, count, 16); break;
    case 32: step(to, to_step, from, from_step, count, 32); break;
    default: step(to, to_step, from, from_step, count, (size_t)item);
    }
}

/* What is done to a run of the innermost loop: items `stride` apart in the buffer, `apart` in what is on its way. */
typedef void Run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item);

static void take_run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item) {
    copy_run(packed, apart, at, stride, count, item);
}

static void put_run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item) {
    copy_run(at, stride, packed, apart, count, item);
}

static void zero_run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item) {
    (void)packed, (void)apart;
    for (i64 i = 0; i < count; i++) memset(at + i * stride, 0, (size_t)item);
}

static inline int is_nan(uint32_t bits) { return (int32_t)(bits & 0x7FFFFFFF) > 0x7F800000; }

/* Of two NaN the first stays, as it does in numpy: which one a compiler adds to the other is not said. */
static inline uint32_t sum(uint32_t held, uint32_t more) {
    uint32_t total = bits_of(float_of(held) + float_of(more)), nan = -(uint32_t)is_nan(held);
    return (total & ~nan) | ((held | 0x400000) & nan);
}

static inline void add_floats(uint8_t *restrict to, const uint8_t *restrict from, i64 count) {
    for (i64 i = 0; i < count; i++) {
        uint32_t held, more;
        memcpy(&held, to + 4 * i, 4);
        memcpy(&more, from + 4 * i, 4);
        held = sum(held, more);
        memcpy(to + 4 * i, &held, 4);
    }
}

static void sum_run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item) {
    for (i64 i = 0; i < count; i++) add_floats(at + i * stride, packed + i * apart, item / 4);
}

/* isa/base.py, ValueModel.settled: no infinity and no NaN stays. */
static void finite_run(uint8_t *at, i64 stride, uint8_t *packed, i64 apart, i64 count, i64 item) {
    (void)packed, (void)apart;
    for (i64 i = 0; i < count; i++) {
        for (i64 byte = 0; byte < item; byte += 4) {
            uint32_t bits;
            memcpy(&bits, at + i * stride + byte, 4);
            uint32_t magnitude = bits & 0x7FFFFFFF;
            if (magnitude >= 0x7F800000) {
                bits = magnitude > 0x7F800000 ? 0 : (bits & 0x80000000) | 0x7F7FFFFF;
                memcpy(at + i * stride + byte, &bits, 4);
            }
        }
    }
}

/* `packed` may be missing where nothing is on its way. */
static inline void over_runs(const Place *place, uint8_t *at, uint8_t *packed, Run *run) {
    i64 inner = place->loops - 1, count = 1, stride = 0, apart = 0;
    if (inner >= 0) count = place->shape[inner], stride = place->strides[inner], apart = place->packed[inner];
    i64 index[MOST_LOOPS] = {0}, offset = place->offset, passed = 0;
    for (i64 left = place->count; left > 0; left -= count) {
        run(at + offset, stride, packed ? packed + passed : NULL, apart, count, place->item);
        for (i64 loop = inner - 1; loop >= 0; loop--) {
            offset += place->strides[loop];
            passed += place->packed[loop];
            if (++index[loop] < place->shape[loop]) break;
            offset -= place->shape[loop] * place->strides[loop];
            passed -= place->shape[loop] * place->packed[loop];
            index[loop] = 0;
        }
    }
}

static inline void listed(const int32_t *list, i64 count, const uint8_t *at, uint8_t *packed, size_t item) {
    for (i64 i = 0; i < count; i++) {
        if (list[i] < 0)
            memset(packed + i * (i64)item, 0, item);
        else
            memcpy(packed + i * (i64)item, at + list[i], item);
    }
}

/* The items of a place, one behind the other. */
void gather(const Place *place, const uint8_t *at, uint8_t *packed) {
    if (!place->list) {
        over_runs(place, (uint8_t *)at, packed, take_run);
        return;
    }
    switch (place->item) {
    case 1: listed(place->list, place->count, at, packed, 1); break;
    case 2: listed(place->list, place->count, at, packed, 2); break;
    case 4: listed(place->list, place->count, at, packed, 4); break;
    case 8: listed(place->list, place->count, at, packed, 8); break;
    case 32: listed(place->list, place->count, at, packed, 32); break;
    default: listed(place->list, place->count, at, packed, (size_t)place->item);
    }
}

/* The other way round; a place that is written has loops and no list. */
void scatter(const Place *place, uint8_t *at, const uint8_t *packed) { over_runs(place, at, (uint8_t *)packed, put_run); }

/* Add float32 to what a place holds. */
void scatter_sum(const Place *place, uint8_t *at, const uint8_t *packed) { over_runs(place, at, (uint8_t *)packed, sum_run); }

void scatter_zeros(const Place *place, uint8_t *at) { over_runs(place, at, NULL, zero_run); }

void make_finite(const Place *place, uint8_t *at) { over_runs(place, at, NULL, finite_run); }

/* A float16 moved to the top of a float32 has an exponent that is too small by the difference of the biases. */
static inline uint32_t widened_half(uint32_t half, uint32_t how) {
    (void)how;
    uint32_t magnitude = bits_of(float_of((half & 0x7FFF) << 13) * 0x1p112f);
    magnitude |= (half & 0x7C00) == 0x7C00 ? 0x7F800000 : 0; /* infinities and NaN */
    return (half & 0x8000) << 16 | magnitude;
}

/* To nearest even; a NaN keeps the upper bits of its pattern. */
static inline uint32_t narrowed_half(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF, half;
    if (is_nan(bits)) {
        half = 0x7C00 | (magnitude >> 13 & 0x3FF);
        half += half == 0x7C00;
    } else if (magnitude >= 0x47800000) { /* 2**16 */
        half = 0x7C00;
    } else if (magnitude < 0x38800000) { /* 2**-14: the last digit of 0.5 is a subnormal's */
        half = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    } else {
        half = (magnitude - 0x38000000 + 0xFFF + (magnitude >> 13 & 1)) >> 13;
    }
    return sign | half;
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

/* One loop for each rule, which the compiler puts in it. */
static inline void widen(Rule *rule, i64 count, const uint8_t *from, uint8_t *to) {
    for (i64 i = 0; i < count; i++) {
        uint16_t given;
        memcpy(&given, from + 2 * i, 2);
        uint32_t result = rule(given, 0);
        memcpy(to + 4 * i, &result, 4);
    }
}

static inline void narrow(Rule *rule, uint32_t how, i64 count, const uint8_t *from, uint8_t *to) {
    for (i64 i = 0; i < count; i++) {
        uint32_t given;
        memcpy(&given, from + 4 * i, 4);
        uint16_t result = (uint16_t)rule(given, how);
        memcpy(to + 2 * i, &result, 2);
    }
}

static inline void keep_width(Rule *rule, uint32_t how, i64 count, const uint8_t *from, uint8_t *to) {
    for (i64 i = 0; i < count; i++) {
        uint32_t given;
        memcpy(&given, from + 4 * i, 4);
        given = rule(given, how);
        memcpy(to + 4 * i, &given, 4);
    }
}

/* `count` numbers to another format; `bits` of the mantissa stay in hf32. */
void convert(enum cast cast, i64 bits, i64 saturate, i64 count, const uint8_t *restrict from, uint8_t *restrict to) {
    switch (cast) {
    case HALF_TO_FLOAT: widen(widened_half, count, from, to); break;
    case BFLOAT_TO_FLOAT: widen(widened_bfloat, count, from, to); break;
    case FLOAT_TO_HF32: keep_width(rounded_hf32, (uint32_t)(23 - bits), count, from, to); break;
    case FLOAT_TO_HALF: narrow(half_of, saturate != 0, count, from, to); break;
    case FLOAT_TO_BFLOAT: narrow(bfloat_of, saturate != 0, count, from, to); break;
    case FLOAT_TO_FLOAT: keep_width(float_as_said, saturate != 0, count, from, to); break;
    case AS_IS: break;
    }
}
