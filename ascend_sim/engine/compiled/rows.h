/* The rows of a program, written out a piece at a time or looked at where they stand (rows.c). */
#ifndef ASCEND_SIM_ROWS_H
#define ASCEND_SIM_ROWS_H

#include "base.h"
#include "program.h"

/* Pieces of PIECE rows. Those from `first` to `end` are available: each is memory of its `own`, or lies in a stamp, where whole
 * pieces need no change. The next row comes after `at` rows and `moved` moves of stamp `put`, whose place begins at `where`. */
enum { PIECE_SHIFT = 12, PIECE = 1 << PIECE_SHIFT };
typedef struct {
    const Program *program;
    const i64 **pieces;
    i64 **own, *spare;
    i64 first, end, put, at, moved, where;
} Rows;

int rows_open(Rows *rows, const Program *program);
void rows_close(Rows *rows);
int rows_go_on(Rows *rows);
void rows_forget(Rows *rows, i64 row);

/* Rows before this one have been written out. */
static inline i64 rows_behind(const Rows *rows) { return rows->end << PIECE_SHIFT; }
static inline const i64 *row_at(const Rows *rows, i64 row) {
    return rows->pieces[row >> PIECE_SHIFT] + (row & (PIECE - 1)) * COLUMNS;
}

/* A walk through all rows in order, inside the stamps: only rows that the caller asks for are written out. The stamp has the
 * rows from `next` to `behind` left. */
typedef struct {
    const Program *program;
    const Stamp *stamp;
    const i64 *next, *behind;
    i64 puts, moved, where, row[COLUMNS];
} Walk;

void walk_into(Walk *walk);
const i64 *walk_row(Walk *walk);

/* Go on to the next row; there must be one. Returns its instruction. */
static inline i64 walk_on(Walk *walk) {
    while (walk->next == walk->behind) walk_into(walk);
    walk->next += COLUMNS;
    return walk->next[-COLUMNS];
}

#endif
