/* The L2 cache: resident and dirty lines (l2.c). */
#ifndef ASCEND_SIM_L2_H
#define ASCEND_SIM_L2_H

#include "base.h"

/* Distinct ascending lines: first + offsets[i], or first + i where `offsets` is NULL. */
typedef struct {
    i64 first;
    const i64 *offsets;
    i64 count;
} Lines;

static inline i64 line_of(Lines lines, i64 i) { return lines.first + (lines.offsets ? lines.offsets[i] : i); }

typedef struct {
    i64 *stamp;     /* of every line up to `reach`; numpy's memory */
    uint8_t *dirty; /* of every place */
    i64 reach, capacity, clock;
} L2;

i64 l2_read(L2 *l2, Lines lines, const i64 *bypass, i64 bypassed, i64 since, i64 *victims, i64 *found, i64 *hits);
i64 l2_write(L2 *l2, Lines lines, const i64 *partial, i64 partials, i64 *victims);

#endif
