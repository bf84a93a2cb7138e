/* Copies between a buffer and bytes that lie one behind the other, with a conversion if wanted. Values are
 * those of numpy and ml_dtypes, NaN patterns included: the twin is in ../../isa and ../../numerics. */
#include "moves.h"

#include "casts.h"

/* These parts are inlined into the few functions at the end, which are compiled once for every processor and once for those
 * with vectors of 32 bytes. */
#define PART static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__)
#define WIDE __attribute__((target("avx2")))
#define IS_WIDE __builtin_cpu_supports("avx2")
#else
#define WIDE
#define IS_WIDE 0
#endif

/* A loop: its count, and its steps in the buffer and in the packed bytes. */
typedef struct {
    i64 count, stride, apart;
} Loop;

/* The work on the items of two nested loops; `how` is a parameter of the conversion. */
typedef void Plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how);

/* Work on all loops of a place, two at a time. `to_size` packed bytes belong to `from_size` of the buffer (0: none). The longer
 * of the two loops is the inner one. */
PART void over_planes(
    const Place *place, uint8_t *at, uint8_t *packed, i64 from_size, i64 to_size, Plane *plane, uint32_t how) {
    Loop loops[MOST_LOOPS], none = {1, 0, 0};
    for (i64 i = 0; i < place->loops; i++)
        loops[i] = (Loop){place->shape[i], place->strides[i], place->packed[i] / from_size * to_size};
    if (place->list) {
        i64 size = place->item / from_size * to_size;
        for (i64 i = 0; i < place->count; i++) {
            if (place->list[i] < 0)
                memset(packed + i * size, 0, (size_t)size);
            else
                plane(at + place->list[i], packed + i * size, none, none, place->item, how);
        }
        return;
    }
    i64 last = place->loops - 1, offset = place->offset, passed = 0, index[MOST_LOOPS] = {0};
    Loop inner = last >= 0 ? loops[last] : none, outer = last >= 1 ? loops[last - 1] : none;
    i64 together = inner.count * outer.count;
    if (outer.count > inner.count) none = inner, inner = outer, outer = none;
    for (i64 left = place->count; left > 0; left -= together) {
        plane(at + offset, packed + passed, outer, inner, place->item, how);
        for (i64 i = last - 2; i >= 0; i--) {
            offset += loops[i].stride;
            passed += loops[i].apart;
            if (++index[i] < loops[i].count) break;
            offset -= loops[i].count * loops[i].stride;
            passed -= loops[i].count * loops[i].apart;
            index[i] = 0;
        }
    }
}

/* Copy item by item; if the size is a constant, the compiler makes a plain move of each. */
PART void step(uint8_t *restrict to, i64 to_step, const uint8_t *restrict from, i64 from_step, i64 count, size_t item) {
    for (i64 i = 0; i < count; i++) memcpy(to + i * to_step, from + i * from_step, item);
}

PART void copy_run(uint8_t *to, i64 to_step, const uint8_t *from, i64 from_step, i64 count, i64 item) {
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

/* Exchange the bits of `mask` in `high` with the bits `by` higher in `low`. */
PART void swap(uint64_t *low, uint64_t *high, int by, uint64_t mask) {
    uint64_t differ = ((*low >> by) ^ *high) & mask;
    *high ^= differ;
    *low ^= differ << by;
}

PART uint64_t load(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

PART void store(uint8_t *to, uint64_t word) { memcpy(to, &word, sizeof word); }

/* Four columns of four 2-byte items become rows. */
PART void turn_square(uint8_t *to, i64 to_row, const uint8_t *from, i64 from_column) {
    uint64_t a = load(from), b = load(from + from_column), c = load(from + 2 * from_column), d = load(from + 3 * from_column);
    swap(&a, &b, 16, 0x0000FFFF0000FFFF);
    swap(&c, &d, 16, 0x0000FFFF0000FFFF);
    swap(&a, &c, 32, 0x00000000FFFFFFFF);
    swap(&b, &d, 32, 0x00000000FFFFFFFF);
    store(to, a), store(to + to_row, b), store(to + 2 * to_row, c), store(to + 3 * to_row, d);
}

/* 2-byte items that lie one behind the other in `from` along its columns, in `to` along its rows: by squares, then the rest. */
static void turn(uint8_t *to, i64 to_row, const uint8_t *from, i64 from_column, i64 rows, i64 columns) {
    i64 whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (i64 row = 0; row < whole_rows; row += 4)
        for (i64 column = 0; column < whole_columns; column += 4)
            turn_square(to + row * to_row + 2 * column, to_row, from + column * from_column + 2 * row, from_column);
    for (i64 row = 0; row < rows; row++) {
        i64 column = row < whole_rows ? whole_columns : 0;
        step(to + row * to_row + 2 * column, 2, from + column * from_column + 2 * row, from_column, columns - column, 2);
    }
}

/* Copies `to` <- `from`; a swapped pair of loops is the same copy. */
PART void copy_plane(uint8_t *to, i64 to_outer, i64 to_inner, const uint8_t *from, i64 from_outer, i64 from_inner, i64 outer,
                     i64 inner, i64 item) {
    int little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    if (little && item == 2 && from_outer == 2 && to_inner == 2)
        turn(to, to_outer, from, from_inner, outer, inner);
    else if (little && item == 2 && from_inner == 2 && to_outer == 2)
        turn(to, to_inner, from, from_outer, inner, outer);
    else
        for (i64 i = 0; i < outer; i++)
            copy_run(to + i * to_outer, to_inner, from + i * from_outer, from_inner, inner, item);
}

PART void take_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    (void)how;
    copy_plane(packed, outer.apart, inner.apart, at, outer.stride, inner.stride, outer.count, inner.count, size);
}

PART void put_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    (void)how;
    copy_plane(at, outer.stride, inner.stride, packed, outer.apart, inner.apart, outer.count, inner.count, size);
}

/* The work on an item of `size` bytes; for the `usual` size the compiler makes code without a loop. */
typedef void Item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how);

PART void each(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, i64 usual, Item *act, uint32_t how) {
    for (i64 i = 0; i < outer.count; i++) {
        uint8_t *one = at + i * outer.stride, *other = packed + i * outer.apart;
        if (size == usual)
            for (i64 j = 0; j < inner.count; j++) act(one + j * inner.stride, other + j * inner.apart, usual, how);
        else
            for (i64 j = 0; j < inner.count; j++) act(one + j * inner.stride, other + j * inner.apart, size, how);
    }
}

typedef uint32_t Rule(uint32_t given, uint32_t how);

/* One loop for each pair of widths, and the compiler puts the rule in it. */
PART void widen(Rule *rule, uint32_t how, i64 count, const uint8_t *restrict from, uint8_t *restrict to) {
    for (i64 i = 0; i < count; i++) {
        uint16_t given;
        memcpy(&given, from + 2 * i, 2);
        uint32_t result = rule(given, how);
        memcpy(to + 4 * i, &result, 4);
    }
}

PART void narrow(Rule *rule, uint32_t how, i64 count, const uint8_t *restrict from, uint8_t *restrict to) {
    for (i64 i = 0; i < count; i++) {
        uint32_t given;
        memcpy(&given, from + 4 * i, 4);
        uint16_t result = (uint16_t)rule(given, how);
        memcpy(to + 2 * i, &result, 2);
    }
}

PART void keep_width(Rule *rule, uint32_t how, i64 count, const uint8_t *restrict from, uint8_t *restrict to) {
    for (i64 i = 0; i < count; i++) {
        uint32_t given;
        memcpy(&given, from + 4 * i, 4);
        given = rule(given, how);
        memcpy(to + 4 * i, &given, 4);
    }
}

/* The conversions, for an item and for the items of two loops. */
#define CONVERSION(name, loop, rule, width, usual) \
    PART void name##_item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how) { loop(rule, how, size / width, at, packed); } \
    PART void name(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) { \
        each(at, packed, outer, inner, size, usual, name##_item, how); \
    }
CONVERSION(half_to_float, widen, widened_half, 2, 32)
CONVERSION(bfloat_to_float, widen, widened_bfloat, 2, 32)
CONVERSION(float_to_hf32, keep_width, rounded_hf32, 4, 32)
CONVERSION(float_to_half, narrow, half_of, 4, 64)
CONVERSION(float_to_bfloat, narrow, bfloat_of, 4, 64)
CONVERSION(float_to_float, keep_width, float_as_said, 4, 64)

/* The first of two NaN stays, as in numpy; a plain C sum leaves the choice to the compiler. */
PART uint32_t sum(uint32_t held, uint32_t more) {
    uint32_t total = bits_of(float_of(held) + float_of(more)), nan = -(uint32_t)is_nan(held);
    return (total & ~nan) | ((held | 0x400000) & nan);
}

PART void add_floats(uint8_t *restrict to, const uint8_t *restrict from, i64 count) {
    for (i64 i = 0; i < count; i++) {
        uint32_t held, more;
        memcpy(&held, to + 4 * i, 4);
        memcpy(&more, from + 4 * i, 4);
        held = sum(held, more);
        memcpy(to + 4 * i, &held, 4);
    }
}

PART void sum_item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how) {
    (void)how;
    add_floats(at, packed, size / 4);
}

PART void sum_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    each(at, packed, outer, inner, size, 64, sum_item, how);
}

/* int32 to int32; a sum that leaves the range wraps around, as in numpy. */
PART void whole_item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how) {
    (void)how;
    for (i64 byte = 0; byte < size; byte += 4) {
        uint32_t held, more;
        memcpy(&held, at + byte, 4);
        memcpy(&more, packed + byte, 4);
        held += more;
        memcpy(at + byte, &held, 4);
    }
}

PART void whole_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    each(at, packed, outer, inner, size, 64, whole_item, how);
}

PART void zero_item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how) {
    (void)packed, (void)how;
    memset(at, 0, (size_t)size);
}

PART void zero_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    each(at, packed, outer, inner, size, 32, zero_item, how);
}

/* isa/base.py, ValueModel.settled: no infinity and no NaN stays. */
PART void finite_item(uint8_t *at, uint8_t *packed, i64 size, uint32_t how) {
    (void)packed, (void)how;
    for (i64 byte = 0; byte < size; byte += 4) {
        uint32_t bits;
        memcpy(&bits, at + byte, 4);
        uint32_t magnitude = bits & 0x7FFFFFFF;
        if (magnitude >= 0x7F800000) {
            bits = magnitude > 0x7F800000 ? 0 : (bits & 0x80000000) | 0x7F7FFFFF;
            memcpy(at + byte, &bits, 4);
        }
    }
}

PART void finite_plane(uint8_t *at, uint8_t *packed, Loop outer, Loop inner, i64 size, uint32_t how) {
    each(at, packed, outer, inner, size, 64, finite_item, how);
}

PART void listed(const int32_t *list, i64 count, const uint8_t *at, uint8_t *packed, size_t item) {
    for (i64 i = 0; i < count; i++) {
        if (list[i] < 0)
            memset(packed + i * (i64)item, 0, item);
        else
            memcpy(packed + i * (i64)item, at + list[i], item);
    }
}

PART void gather_list(const Place *place, const uint8_t *at, uint8_t *packed) {
    switch (place->item) {
    case 1: listed(place->list, place->count, at, packed, 1); break;
    case 2: listed(place->list, place->count, at, packed, 2); break;
    case 4: listed(place->list, place->count, at, packed, 4); break;
    case 8: listed(place->list, place->count, at, packed, 8); break;
    case 32: listed(place->list, place->count, at, packed, 32); break;
    default: listed(place->list, place->count, at, packed, (size_t)place->item);
    }
}

/* The float32 of codes of 8 bits. The codes are gathered behind the place of the first three quarters of the result, so that each
 * is read before a number is written over it. */
PART void bytes_to_floats(const Place *place, uint8_t *at, const uint32_t *floats, uint8_t *packed) {
    i64 count = place->count * place->item;
    uint8_t *codes = packed + 3 * count;
    if (place->list)
        gather_list(place, at, codes);
    else
        over_planes(place, at, codes, 1, 1, take_plane, 0);
    for (i64 i = 0; i < count; i++) memcpy(packed + 4 * i, &floats[codes[i]], 4);
}

PART void gather_any(const Place *place, const uint8_t *from, Conversion as, uint8_t *packed) {
    uint8_t *at = (uint8_t *)from;
    uint32_t finite = as.saturate != 0, dropped = (uint32_t)(23 - as.bits);
    switch ((enum cast)as.cast) {
    case AS_IS:
        if (place->list)
            gather_list(place, at, packed);
        else
            over_planes(place, at, packed, 1, 1, take_plane, 0);
        break;
    case HALF_TO_FLOAT: over_planes(place, at, packed, 2, 4, half_to_float, 0); break;
    case BFLOAT_TO_FLOAT: over_planes(place, at, packed, 2, 4, bfloat_to_float, 0); break;
    case FLOAT_TO_HF32: over_planes(place, at, packed, 4, 4, float_to_hf32, dropped); break;
    case FLOAT_TO_HALF: over_planes(place, at, packed, 4, 2, float_to_half, finite); break;
    case FLOAT_TO_BFLOAT: over_planes(place, at, packed, 4, 2, float_to_bfloat, finite); break;
    case FLOAT_TO_FLOAT: over_planes(place, at, packed, 4, 4, float_to_float, finite); break;
    case BYTE_TO_FLOAT: bytes_to_floats(place, at, as.floats, packed); break;
    }
}

WIDE static void gather_wide(const Place *place, const uint8_t *at, Conversion as, uint8_t *packed) {
    gather_any(place, at, as, packed);
}

static void gather_plain(const Place *place, const uint8_t *at, Conversion as, uint8_t *packed) {
    gather_any(place, at, as, packed);
}

WIDE static void sum_wide(const Place *place, uint8_t *at, uint8_t *packed) {
    over_planes(place, at, packed, 1, 1, sum_plane, 0);
}

static void sum_plain(const Place *place, uint8_t *at, uint8_t *packed) {
    over_planes(place, at, packed, 1, 1, sum_plane, 0);
}

/* Pack the items of a place, converted. */
void gather(const Place *place, const uint8_t *at, Conversion as, uint8_t *packed) {
    (IS_WIDE ? gather_wide : gather_plain)(place, at, as, packed);
}

/* Unpack items to a place, which has loops and no list. */
void scatter(const Place *place, uint8_t *at, const uint8_t *packed) {
    over_planes(place, at, (uint8_t *)packed, 1, 1, put_plane, 0);
}

/* Add float32, or int32 if `whole`, to the items of a place. */
void scatter_sum(const Place *place, uint8_t *at, const uint8_t *packed, int whole) {
    if (whole) {
        over_planes(place, at, (uint8_t *)packed, 1, 1, whole_plane, 0);
        return;
    }
    (IS_WIDE ? sum_wide : sum_plain)(place, at, (uint8_t *)packed);
}

/* Set the items of a place to 0. */
void scatter_zeros(const Place *place, uint8_t *at) { over_planes(place, at, at, 1, 0, zero_plane, 0); }

void make_finite(const Place *place, uint8_t *at) { over_planes(place, at, at, 1, 0, finite_plane, 0); }

/* Return the bytes of converted items, from their bytes before. */
i64 converted_bytes(i64 cast, i64 bytes) {
    if (cast == BYTE_TO_FLOAT) return 4 * bytes;
    if (cast == HALF_TO_FLOAT || cast == BFLOAT_TO_FLOAT) return 2 * bytes;
    return cast == FLOAT_TO_HALF || cast == FLOAT_TO_BFLOAT ? bytes / 2 : bytes;
}
