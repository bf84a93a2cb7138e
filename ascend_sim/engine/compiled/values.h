/* The values of a program's instructions (values.c). */
#ifndef ASCEND_SIM_VALUES_H
#define ASCEND_SIM_VALUES_H

#include "moves.h"
#include "products.h"
#include "program.h"

enum what { NO_VALUES, MOVES, MULTIPLIES, IN_PYTHON };

/* What one distinct instruction does: it takes the items of up to two places and converts them when it starts, and puts them,
 * or the product of both, to another one when it retires (../../isa/moves.py). A third place is what the rows of the product
 * begin with, as it is. */
typedef struct {
    i64 what, takes; /* takes: none are zeros */
    Conversion as;
    i64 adds, settles; /* how they are put; adds: 1 float32, 2 int32 */
    Product product;
    Place from[3], to;
} Action;

/* Bytes, and their number. */
typedef struct {
    uint8_t *bytes;
    i64 size;
} Bytes;

/* A program and the memory that it works on; `written` has a flag for each block of a buffer that somebody wrote. */
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

/* Where factors and products stand, in float32; and between two places, where it cannot go straight, what is on its way. */
typedef struct {
    Bytes factors[3], product;
} Scratch;

/* What a call stopped at. */
enum stop { ENDED, WANTS_PRODUCT, WANTS_PYTHON, NOT_WRITTEN, NOT_WRITTEN_LATE, WANTS_PROGRAM, PROGRAM_ENDED };

/* How far the caller is with what it stopped at. */
enum stage { FRESH, LOOKED_AT, MULTIPLIED, DONE };

/* A start and a retirement of the instructions of many programs, in an order (../events.py). What an instruction reads stays
 * where it is until it retires, or until before that somebody writes there: `open` lists the instructions that have started
 * and not taken anything yet, those of each program and behind them those that read GM; `next` is the list's next one by the
 * number of an instruction (-1 ends a list), `begun` the place of its start. `held` is what an instruction has taken; OPEN
 * while it is on a list, nothing before its start. `left` are the events that each program has yet. */
typedef struct {
    const i64 *owner, *row, *pair;
    const int8_t *starts, *watched;
    i64 count, program_count;
    const Values **programs;
    uint8_t **held;
    i64 *left, *open, *next, *begun;
} Events;

/* A run of the rows of a program, or of events: where it is, and how far the caller is with what stopped it there, which is a
 * row of a program and its instruction. */
typedef struct {
    const Values *values;
    const Events *events;
    const Scratch *scratch;
    i64 position, stage, owner, row, instruction;
} Course;

#endif
