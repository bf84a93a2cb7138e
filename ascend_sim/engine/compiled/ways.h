/* Where the stamps of a program may stand (ways.c). */
#ifndef ASCEND_SIM_WAYS_H
#define ASCEND_SIM_WAYS_H

#include "program.h"

enum { AXES = 8 };

/* What moves by the same steps and stays on the same units may go from `low` to `high`. */
typedef struct {
    i64 steps[AXES], unit, low, high;
} Span;

/* The stamps of a program (kernel/sheet.py), `puts` of them, and what is asked of them. `looked` says of which of its task's
 * stamps the rows that do not move were found right. `limits` are [extent, capacity, unit][operand][instruction]
 * (kernel/program.py, limits) with so many `kinds` of instructions, `sizes` the bytes of the task's tensors; `spans` are to be
 * filled in. */
typedef struct {
    const Stamp *stamps, *own;
    const int32_t *which;
    const i64 *where;
    i64 puts, stamp_count, own_count;
    uint8_t *looked;
    const i64 *limits;
    i64 kinds;
    const i64 *sizes;
    i64 tensors;
    Span *spans;
    i64 room;
} Sheet;

#endif
