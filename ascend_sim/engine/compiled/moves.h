/* Bytes that an instruction moves, and the number formats that it moves them between (moves.c). */
#ifndef ASCEND_SIM_MOVES_H
#define ASCEND_SIM_MOVES_H

#include "base.h"

enum { MOST_LOOPS = 5 };
enum cast { AS_IS, HALF_TO_FLOAT, BFLOAT_TO_FLOAT, FLOAT_TO_HF32, FLOAT_TO_HALF, FLOAT_TO_BFLOAT, FLOAT_TO_FLOAT, BYTE_TO_FLOAT };

/* Items of a buffer in an order: those of `loops` loops, the last one innermost, or those of a `list` of byte offsets (below
 * zero: an item of zeros). All lie from `low` to before `high` behind the address that `column` of a row holds. */
typedef struct {
    i64 space, column, low, high;
    i64 item, count; /* bytes of an item, and the count of items */
    i64 offset, loops, shape[MOST_LOOPS], strides[MOST_LOOPS], packed[MOST_LOOPS]; /* packed: strides of the packed bytes */
    const int32_t *list;
} Place;

/* Conversion to another format, a `cast`; hf32 keeps `bits` of the mantissa; `saturate`: all results are finite. `floats` has
 * the float32 of each code of 8 bits. */
typedef struct {
    i64 cast, bits, saturate;
    const uint32_t *floats;
} Conversion;

i64 converted_bytes(i64 cast, i64 bytes);
void gather(const Place *place, const uint8_t *at, Conversion as, uint8_t *packed);
void scatter(const Place *place, uint8_t *at, const uint8_t *packed);
void scatter_sum(const Place *place, uint8_t *at, const uint8_t *packed, int whole);
void scatter_zeros(const Place *place, uint8_t *at);
void make_finite(const Place *place, uint8_t *at);

#endif
