/* The L2 cache: resident and dirty lines (l2.c). */
#ifndef ASCEND_SIM_L2_H
#define ASCEND_SIM_L2_H

#include "base.h"

/* Distinct ascending lines, counted from `first`: runs of neighbours. */
typedef struct {
    i64 low, end;
} Run;
typedef struct {
    i64 first, count, run_count;
    const Run *runs;
} Lines;

/* Bounds for BLOCK neighbouring lines: their stamps are at least `oldest` and below `behind` (0: unknown). Most transfers have
 * hundreds of lines, all long resident or all absent: then these bounds suffice. Lines with a bit in `read` are read until
 * cycle `until`; if `read` is 0, each line has its own cycle, at most `until` (traffic.c). */
enum { BLOCK_SHIFT = 5, BLOCK = 1 << BLOCK_SHIFT };
typedef struct {
    i64 oldest, behind, until;
    uint32_t read;
} Block;

/* Return the end of the block of a line, at most `end`. */
static inline i64 next_block(i64 line, i64 end) {
    const i64 next = (line | (BLOCK - 1)) + 1;
    return next < end ? next : end;
}

typedef struct {
    i64 *stamp;     /* of every line up to `reach`; numpy's memory */
    uint8_t *dirty; /* of every place */
    i64 reach, capacity, clock;
    Block *blocks; /* own memory */
} L2;

i64 l2_read(L2 *l2, Lines lines, const i64 *bypass, i64 bypassed, i64 since, i64 *victims, i64 *found, i64 *hits);
i64 l2_write(L2 *l2, Lines lines, const i64 *partial, i64 partials, i64 *victims);

#endif
