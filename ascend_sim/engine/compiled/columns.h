/* The columns of a program's timeline, packed as its rows finish (columns.c). */
#ifndef ASCEND_SIM_COLUMNS_H
#define ASCEND_SIM_COLUMNS_H

#include "base.h"
#include "program.h"

/* Packing of a column of a piece: `base` is its smallest number; the differences to it begin `at` bytes into the piece, each of
 * `width` bytes (0 if all numbers are equal). */
typedef struct {
    i64 base, width, at;
} Packing;

typedef struct Kept Kept;
Kept *kept_new(i64 count, i64 file);
void kept_free(Kept *kept);
int kept_row(Kept *kept, i64 row, const Times *times, const Move *move);
char *kept_take(Kept *kept, i64 *size, i64 *places);

#endif
