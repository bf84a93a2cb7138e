/* Accesses to the same bytes at the same time (hazards.c). */
#ifndef ASCEND_SIM_HAZARDS_H
#define ASCEND_SIM_HAZARDS_H

#include "base.h"
#include "program.h"

/* A hazard: the earlier and the later of two accesses, each with its program's `order`, its row and what stands in it. */
typedef struct {
    i64 program[2], table[2], row[2], writes[2], values[2][COLUMNS];
    i64 space, low, high, start, retire;
} Hazard;

/* One access, its bytes `low` to `high`. */
typedef struct {
    i64 start, end, retire, program, table, row, pipe, address, low, high;
    const Touch *touch;
    i64 values[COLUMNS];
} Access;

typedef struct {
    Access *items;
    i64 count, room;
} Accesses;

/* Hazards as they are found: all are counted, `limit` of them are kept. */
typedef struct {
    Hazard *items;
    i64 count, room, total;
} Found;

typedef struct {
    const Touch *one, *other;
    i64 distance, meet;
} Known;

/* Those in flight, in order of start; `all` has them at `place`, and the places of `items` behind `count` are free. */
typedef struct {
    i64 retire, low, high, place;
} Flying;
typedef struct {
    Flying *items;
    Access *all;
    i64 count, made, room;
} Flight;

void flight_free(Flight *active);
Access *flight_next(Flight *active);
int hazards_of(Flight *active, Found *found, i64 limit, Known **known);

/* The GM, which all programs share. */
typedef struct GmWatch GmWatch;
GmWatch *gm_watch_new(i64 limit, i64 batch);
void gm_watch_free(GmWatch *gm);
int gm_watch_add(GmWatch *gm, const Access *access);
int gm_watch_is_full(const GmWatch *gm);
int gm_watch_work_off(GmWatch *gm, i64 horizon);
Found *gm_watch_found(GmWatch *gm, i64 task);

#endif
