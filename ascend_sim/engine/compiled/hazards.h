/* Accesses to the same bytes at the same time (hazards.c). */
#ifndef ASCEND_SIM_HAZARDS_H
#define ASCEND_SIM_HAZARDS_H

#include "base.h"
#include "program.h"

/* A hazard: the earlier and the later of two accesses, each with its program's `order`, its row and the row's columns. */
typedef struct {
    i64 program[2], table[2], row[2], writes[2], values[2][COLUMNS];
    i64 space, low, high, start, retire;
} Hazard;

/* A finished row, with its program's `order`, the number of its table and its columns. */
typedef struct {
    i64 start, end, retire, row, program;
    int32_t table, pipe;
    i64 values[COLUMNS];
} Ran;

/* An access of a row: the bytes from `low` to `high`. */
typedef struct {
    i64 retire, low, high;
    const Touch *touch;
    const Ran *ran;
} Access;

/* Hazards as they are found: all are counted, `limit` of them are kept. */
typedef struct {
    Hazard *items;
    i64 count, room, total, limit;
} Found;

typedef struct {
    const Touch *one, *other;
    i64 distance, meet;
} Known;

/* Accesses in flight, in order of start. Their rows stay where they waited for the comparison; `aside` has copies once that
 * memory is used again. */
typedef struct {
    Access *items;
    Ran *aside;
    i64 count, room;
} Flight;

void flight_free(Flight *active);
int flight_set_aside(Flight *active, i64 horizon);
int hazards_of(Flight *active, const Ran *ran, const Touch *touch, i64 low, i64 high, Found *found, Known **known);

/* The GM, which all programs share. */
typedef struct GmWatch GmWatch;
GmWatch *gm_watch_new(i64 limit, i64 batch);
void gm_watch_free(GmWatch *gm);
int gm_watch_add(GmWatch *gm, const Ran *ran, const Touch *touch, i64 address);
int gm_watch_is_full(const GmWatch *gm);
int gm_watch_work_off(GmWatch *gm, i64 horizon);
Found *gm_watch_found(GmWatch *gm, i64 task);

#endif
