/* Programs as Python passes them: rows, instructions, and the bytes that these touch. */
#ifndef ASCEND_SIM_PROGRAM_H
#define ASCEND_SIM_PROGRAM_H

#include "base.h"

enum kind { LOCAL, SET, WAIT, DISARMED, TRANSFER, BARRIER, CROSS_SET, CROSS_WAIT, SCALAR, BARRIER_ALL }; /* isa/base.py */
enum { S, CUBE = 4, V = 5, PIPES = 7 }; /* isa/base.py: the scalar unit is pipe 0 */
enum { COLUMNS = 5 };        /* of a program's rows: instruction, dst, src0, src1, tile (kernel/program.py) */
enum { SLOT_SHIFT = 44 };    /* of a GM operand (memory/gm.py) */
/* ../timeline.py */
enum cause { NO_CAUSE = 0, QUEUE_FULL = 1, FLAG = 2, PIPE_BUSY = 3, CROSS_CORE = 7, OUTSTANDING = 8, NOTHING_TO_DO = 9 };

/* One distinct instruction of a table. */
typedef struct {
    i64 kind, pipe;
    i64 first, stream, latency; /* cycles behind a pause, back to back, and from the end of occupancy to retirement;
                                   WAIT: its lead, and whether it is at work */
    i64 other;   /* SET, WAIT: its flag; SCALAR: cycles; BARRIER_ALL: mask of pipes; CROSS_WAIT: whether armed;
                    LOCAL: the address of its bank conflicts (core.c, bank_cycles), or 0 */
    i64 operand; /* TRANSFER: the column of its GM address */
    i64 extent;  /* TRANSFER: bytes from that address to the end of the last one touched */
} Instruction;

/* Rows that a program repeats at several places; `moves` are (index of a number in `rows`, axis, step by which it moves), in
 * order (kernel/stamp.py). */
typedef struct {
    const i64 *rows, *moves;
    i64 row_count, move_count, axes;
} Stamp;

/* Columns of a timeline: those of every row, and those of transfers (../timeline.py). */
typedef struct {
    i64 start, end, retire, stall, cause;
} Times;
typedef struct {
    i64 row, l2_wait, hbm_wait, l2_hits, l2_misses, hbm_bytes;
} Move;

/* A program, and memory for the columns of its timeline: `times` of all rows, and `moves` in the order in which transfers end,
 * `move_count` so far. Both are NULL if the run keeps no columns, or if `packed` keeps them in `file` or in memory (columns.c).
 * Its rows are stamps (kernel/sheet.py): `which` is a number of the task's stamps, or -1 - i for stamp i of its `own`, with the
 * first tile of each and all places; rows.c writes them out. A flag can be set `flag_max` times before a wait; 0: any number
 * of times. */
typedef struct {
    const Stamp *stamps, *own;
    const int32_t *which;
    const i64 *tiles, *where, *bases;
    i64 count, tensors, begin, issue, order, number, flag_max, packed, file, move_count;
    Times *times;
    Move *moves;
} Program;

/* The slot and the address of an operand in GM. */
static inline i64 slot_of(i64 operand) { return operand >> SLOT_SHIFT; }
static inline i64 address_of(const Program *program, i64 operand) {
    return program->bases[slot_of(operand)] + (operand & (((i64)1 << SLOT_SHIFT) - 1));
}

/* The bytes that an instruction reads or writes in one space, relative to an operand (../../memory/regions.py, Region, merged
 * as far as it goes; `extent` and `column` as in kernel/program.py, Touches). */
enum { GM, L0C_SPACE = 4, SPACES = 8 }; /* kernel/program.py, SPACES */
typedef struct {
    i64 space, column, offset, extent, writes, ordered, row_bytes, row_stride, rows, plane_stride, planes;
    i64 paced, tile_rows, tile_columns, work, head; /* isa/base.py, Pace */
} Touch;

/* The address operand in a column of a row; 0 for a region without one, which lies where its instruction says. */
static inline i64 operand_of(const i64 *row, i64 column) { return column ? row[column] : 0; }

/* Accesses of one instruction: reads before writes. */
typedef struct {
    const Touch *touches;
    i64 count;
} Touched;

#endif
