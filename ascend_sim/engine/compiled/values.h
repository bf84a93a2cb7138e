/* The values of a program's instructions (values.c). */
#ifndef ASCEND_SIM_VALUES_H
#define ASCEND_SIM_VALUES_H

#include "moves.h"
#include "products.h"
#include "program.h"

enum what { NO_VALUES, MOVES, MULTIPLIES, IN_PYTHON };

/* The effect of a distinct instruction: at its start it takes the items of up to two places and converts them; at its
 * retirement it puts them, or their product, to another place (../../isa/moves.py). A third place holds the numbers with which
 * the rows of the product begin, unconverted. */
typedef struct {
    i64 what, takes; /* takes: none are zeros */
    Conversion as;
    i64 adds, settles; /* adds: 1 float32, 2 int32; settles: no infinity and no NaN stays */
    Product product;
    Place from[3], to;
} Action;

/* Bytes, and their number. */
typedef struct {
    uint8_t *bytes;
    i64 size;
} Bytes;

/* A program and its memory; `written` has a flag for each block of a buffer: 1 once it is written. */
typedef struct {
    const i64 *rows, *order; /* of the rows, those that have values */
    i64 count;
    const Action *actions;
    const i64 *first;
    const Touch *touches;
    const Bytes *tensors;
    i64 tensor_count, block;
    Bytes buffers[SPACES], written[SPACES];
} Values;

/* Memory for factors and products in float32, and for items between two places that `move` cannot copy directly. */
typedef struct {
    Bytes factors[3], product;
} Scratch;

/* The reason why a call returned. */
enum stop { ENDED, WANTS_PRODUCT, WANTS_PYTHON, NOT_WRITTEN, NOT_WRITTEN_LATE, WANTS_PROGRAM, PROGRAM_ENDED };

/* The progress of the caller with the row at which a call stopped. */
enum stage { FRESH, LOOKED_AT, MULTIPLIED, DONE };

/* The starts and retirements of the instructions of many programs, in order (../events.py). An instruction takes its operands
 * when it retires, or earlier if they are about to be overwritten. `open` has the first of each list of instructions that have
 * started and taken nothing: a list for each program, and a last one for those that read GM. `next` is the next instruction of
 * the list (-1: none), `begun` the position of its start, `held` its operands: OPEN while it is on a list, NULL before its
 * start. `left` is the count of events left of each program. */
typedef struct {
    const i64 *owner, *row, *pair;
    const int8_t *starts, *watched;
    i64 count, program_count;
    const Values **programs;
    uint8_t **held;
    i64 *left, *open, *next, *begun;
} Events;

/* A run through the rows of a program, or through events: its position, the row and instruction at which it stopped, and the
 * progress of the caller with them. */
typedef struct {
    const Values *values;
    const Events *events;
    const Scratch *scratch;
    i64 position, stage, owner, row, instruction;
} Course;

#endif
