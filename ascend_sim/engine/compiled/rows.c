/* The rows of a program, written out a piece at a time, or looked at where they stand (../../kernel/sheet.py): stamps at their
 * places, never all at once (docs/design.md, "Tiles that repeat are stamped"). `rows_forget` frees the pieces of rows that the
 * caller has finished. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

static i64 piece_count(const Rows *rows) { return (rows->program->count + PIECE - 1) >> PIECE_SHIFT; }

/* Begin with the first row. 0: no memory. */
int rows_open(Rows *rows, const Program *program) {
    *rows = (Rows){.program = program};
    rows->pieces = calloc((size_t)piece_count(rows) + 1, sizeof *rows->pieces);
    rows->own = calloc((size_t)piece_count(rows) + 1, sizeof *rows->own);
    return rows->pieces && rows->own;
}

void rows_close(Rows *rows) {
    for (i64 i = rows->first; i < rows->end; i++) free(rows->own[i]);
    free(rows->own);
    free(rows->pieces);
    free(rows->spare);
    *rows = (Rows){0};
}

static const Stamp *stamp_at(const Program *program, i64 put) {
    const int32_t which = program->which[put];
    return which < 0 ? &program->own[-1 - which] : &program->stamps[which];
}

/* Return the next `count` rows if they lie in one stamp and no move changes them, else NULL. A program that was built row by
 * row is one stamp, which is never copied. */
static const i64 *as_they_stand(Rows *rows, i64 count) {
    const Stamp *stamp = stamp_at(rows->program, rows->put);
    if (stamp->row_count - rows->at < count || rows->program->tiles[rows->put]) return NULL;
    const i64 at = rows->at, behind = at + count;
    if (rows->moved < stamp->move_count && stamp->moves[rows->moved * 3] < behind * COLUMNS) return NULL;
    rows->at = behind;
    return stamp->rows + at * COLUMNS;
}

/* Write out the next `count` rows. */
static void write_out(Rows *rows, i64 *to, i64 count) {
    const Program *program = rows->program;
    while (count) {
        const Stamp *stamp = stamp_at(program, rows->put);
        const i64 at = rows->at, left = stamp->row_count - at, n = left < count ? left : count;
        const i64 tile = program->tiles[rows->put];
        memcpy(to, stamp->rows + at * COLUMNS, (size_t)(n * COLUMNS) * sizeof(i64));
        if (tile)
            for (i64 i = 0; i < n; i++) to[i * COLUMNS + COLUMNS - 1] += tile;
        for (; rows->moved < stamp->move_count; rows->moved++) {
            const i64 *move = stamp->moves + rows->moved * 3; /* cell, axis, step */
            if (move[0] >= (at + n) * COLUMNS) break;
            to[move[0] - at * COLUMNS] += move[2] * program->where[rows->where + move[1]];
        }
        to += n * COLUMNS;
        count -= n;
        rows->at += n;
        if (n < left) continue;
        rows->where += stamp->axes;
        rows->put++;
        rows->at = rows->moved = 0;
    }
}

/* Write out the next piece; there must be one. 0: no memory. */
int rows_go_on(Rows *rows) {
    const i64 begin = rows->end << PIECE_SHIFT, left = rows->program->count - begin, count = left < PIECE ? left : PIECE;
    const i64 *piece = as_they_stand(rows, count);
    if (!piece) {
        i64 *own = rows->spare;
        rows->spare = NULL;
        if (!own && !(own = malloc((size_t)(count * COLUMNS) * sizeof(i64)))) return 0;
        write_out(rows, own, count);
        rows->own[rows->end] = own;
        piece = own;
    }
    rows->pieces[rows->end++] = piece;
    return 1;
}

/* Free the pieces of rows before this one. */
void rows_forget(Rows *rows, i64 row) {
    for (const i64 kept = row >> PIECE_SHIFT; rows->first < kept && rows->first < rows->end; rows->first++) {
        if (!rows->own[rows->first]) continue;
        free(rows->spare);
        rows->spare = rows->own[rows->first];
        rows->own[rows->first] = NULL;
    }
}

/* Go on to the next stamp, or the first one. */
void walk_into(Walk *walk) {
    if (walk->stamp) walk->where += walk->stamp->axes;
    const Stamp *stamp = walk->stamp = stamp_at(walk->program, walk->puts++);
    walk->next = stamp->rows;
    walk->behind = stamp->rows + stamp->row_count * COLUMNS;
    walk->moved = 0;
}

/* Return the current row of the walk, at its place; called at most once a row. Its tile counts from the stamp's first one. */
const i64 *walk_row(Walk *walk) {
    const Stamp *stamp = walk->stamp;
    const i64 *at = walk->next - COLUMNS, cell = at - stamp->rows;
    memcpy(walk->row, at, sizeof walk->row);
    for (; walk->moved < stamp->move_count; walk->moved++) {
        const i64 *move = stamp->moves + walk->moved * 3; /* cell, axis, step */
        if (move[0] >= cell + COLUMNS) break;
        if (move[0] >= cell) walk->row[move[0] - cell] += move[2] * walk->program->where[walk->where + move[1]];
    }
    return walk->row;
}
