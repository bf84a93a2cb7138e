/* The columns of a program's timeline, packed as its rows come to their end (columns.c). */
#ifndef ASCEND_SIM_COLUMNS_H
#define ASCEND_SIM_COLUMNS_H

#include "base.h"
#include "program.h"

/* How a column of a piece is packed: `base` is the least of its numbers, and what they exceed it by stands in `width` bytes
 * each, `at` bytes behind the beginning of the piece; nothing stands there where all are the same (width 0). */
typedef struct {
    i64 base, width, at;
} Packing;

typedef struct Kept Kept;
Kept *kept_new(i64 count, i64 file);
void kept_free(Kept *kept);
int kept_row(Kept *kept, i64 row, const Times *times, const Move *move);
char *kept_take(Kept *kept, i64 *size, i64 *places);

#endif
