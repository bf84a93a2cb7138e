/* Hazards (../hazards.py, which says the rule): every access is compared with the accesses in flight at its start
 * (docs/design.md, "Hazards are a sweep over the finished timeline"). */
#include "hazards.h"

#include <stdlib.h>
#include <string.h>

enum { KNOWN = 4096, TASK_SHIFT = 24 };

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }

/* 1 if a row of `a` shares a byte with the bytes from `low` to `high`. */
static int meets(const Touch *a, i64 low, i64 high) {
    for (i64 plane = 0; plane < a->planes; plane++) {
        const i64 base = a->offset + plane * a->plane_stride;
        i64 row = 0; /* the first one that does not end before `low` */
        if (a->row_stride > 0 && low - base - a->row_bytes >= 0) row = (low - base - a->row_bytes) / a->row_stride + 1;
        else if (a->row_stride == 0 && base + a->row_bytes <= low) continue;
        if (row < a->rows && base + row * a->row_stride < high) return 1;
    }
    return 0;
}

/* 1 if two regions share a byte when the address of `b` is `distance` bytes behind that of `a` (memory/regions.py). */
static int overlap(const Touch *a, const Touch *b, i64 distance) {
    for (i64 plane = 0; plane < b->planes; plane++)
        for (i64 row = 0; row < b->rows; row++) {
            const i64 low = distance + b->offset + plane * b->plane_stride + row * b->row_stride;
            if (low < a->extent && low + b->row_bytes > a->offset && meets(a, low, low + b->row_bytes)) return 1;
        }
    return 0;
}

/* Cached `overlap`. -1: no memory. */
static i64 known_overlap(Known **known, const Touch *a, const Touch *b, i64 distance) {
    if (a->rows * a->planes == 1 && b->rows * b->planes == 1) return 1; /* their hulls meet */
    if (!*known && !(*known = calloc(KNOWN, sizeof(Known)))) return -1;
    const uint64_t mixed = ((uint64_t)(uintptr_t)a * 31 + (uint64_t)(uintptr_t)b) * 31 + (uint64_t)distance;
    Known *place = &(*known)[(mixed * 0x9E3779B97F4A7C15u) >> 52];
    if (place->one != a || place->other != b || place->distance != distance)
        *place = (Known){a, b, distance, overlap(a, b, distance)};
    return place->meet;
}

static int report(Found *found, const Access *early, const Access *late) {
    if (found->total++ >= found->limit) return 1;
    if (found->count == found->room) {
        const i64 room = found->room ? 2 * found->room : 8;
        Hazard *more = realloc(found->items, room * sizeof(Hazard));
        if (!more) return 0;
        found->items = more;
        found->room = room;
    }
    Hazard *hazard = &found->items[found->count++];
    const Ran *one = early->ran, *other = late->ran;
    *hazard = (Hazard){
        {one->program, other->program}, {one->table, other->table}, {one->row, other->row},
        {early->touch->writes, late->touch->writes}, .space = late->touch->space, .low = most(early->low, late->low),
        .high = least(early->high, late->high), .start = other->start, .retire = one->retire};
    memcpy(hazard->values[0], one->values, sizeof one->values);
    memcpy(hazard->values[1], other->values, sizeof other->values);
    return 1;
}

static i64 address_in(const Access *access) { return access->low - access->touch->offset; }

/* 1 if two accesses to L0C are a product and a drain with the unit flag that never overtake each other (_in_step). */
static int in_step(const Access *early, const Access *late) {
    const Touch *a = early->touch, *b = late->touch;
    if (!a->paced || !b->paced || early->ran->pipe == late->ran->pipe) return 0;
    const i64 over = early->ran->pipe == CUBE ? early->retire : early->ran->end - b->head, fractals = a->tile_rows * a->tile_columns;
    i64 overlap = 0;
    if (fractals && address_in(early) == address_in(late) && a->tile_rows == b->tile_rows && a->tile_columns == b->tile_columns)
        overlap = least(a->work, b->work) * (fractals - 1) / fractals;
    return late->ran->start >= over - overlap;
}

/* 1 if two accesses that meet in time and hull are a hazard (_sweep). */
static int is_hazard(const Access *early, const Access *late) {
    const Touch *a = early->touch, *b = late->touch;
    if (!(a->writes || b->writes) || (a->ordered & b->ordered)) return 0;
    if (b->space == L0C_SPACE && in_step(early, late)) return 0;
    const Ran *one = early->ran, *other = late->ran;
    if (one->program != other->program || one->pipe != other->pipe) return 1;
    return a->writes && one->row != other->row;
}

/* Add a hazard if two accesses, whose hulls meet while the earlier one is in flight, are one. 0: no memory. */
static int meet(const Access *early, const Access *late, Found *found, Known **known) {
    if (!is_hazard(early, late)) return 1;
    const i64 do_so = known_overlap(known, early->touch, late->touch, address_in(late) - address_in(early));
    return do_so >= 0 && (!do_so || report(found, early, late));
}

void flight_free(Flight *active) {
    free(active->items);
    free(active->aside);
}

/* Drop accesses that retire by the horizon, before which no access starts any more, and copy the rows of the others aside: the
 * memory of compared rows is used again. 0: no memory. */
int flight_set_aside(Flight *active, i64 horizon) {
    i64 kept = 0;
    for (i64 i = 0; i < active->count; i++)
        if (active->items[i].retire > horizon) active->items[kept++] = active->items[i];
    active->count = kept;
    Ran *aside = kept ? malloc((size_t)kept * sizeof(Ran)) : NULL;
    if (kept && !aside) return 0;
    for (i64 i = 0; i < kept; i++) {
        aside[i] = *active->items[i].ran;
        active->items[i].ran = &aside[i];
    }
    free(active->aside);
    active->aside = aside;
    return 1;
}

/* Compare the access of a row to the bytes from `low` to `high` with the active ones of its space, and add it to them. It comes
 * as single numbers, because copying a structure that was just stored would wait for the store. 0: no memory. */
int hazards_of(Flight *active, const Ran *ran, const Touch *touch, i64 low, i64 high, Found *found, Known **known) {
    if (active->count == active->room) {
        const i64 room = active->room ? 2 * active->room : 32;
        Access *more = realloc(active->items, (size_t)room * sizeof(Access));
        if (!more) return 0;
        active->items = more;
        active->room = room;
    }
    const i64 start = ran->start;
    Access *kept = active->items;
    for (const Access *early = kept, *behind = kept + active->count; early < behind; early++) {
        if (early->retire <= start) continue;
        if (kept < early) *kept = *early;
        const Access *one = kept++;
        if (one->low >= high || low >= one->high) continue;
        const Access late = {ran->retire, low, high, touch, ran};
        if (!meet(one, &late, found, known)) return 0;
    }
    *kept = (Access){ran->retire, low, high, touch, ran};
    active->count = kept + 1 - active->items;
    return 1;
}

/* -- the GM, which all programs share --------------------------------------------------------------------------------- */

/* An access that waits for its comparison, with its row. */
typedef struct {
    Ran ran;
    const Touch *touch;
    i64 address;
} Waiting;

struct GmWatch {
    Waiting *waiting;
    i64 count, room;
    Flight active;
    Found *of_task;
    Known *known;
    i64 tasks, limit, batch, full;
};

GmWatch *gm_watch_new(i64 limit, i64 batch) {
    GmWatch *gm = calloc(1, sizeof *gm);
    if (gm) *gm = (GmWatch){.limit = limit, .batch = batch, .full = batch};
    return gm;
}

void gm_watch_free(GmWatch *gm) {
    if (!gm) return;
    for (i64 i = 0; i < gm->tasks; i++) free(gm->of_task[i].items);
    free(gm->of_task);
    free(gm->waiting);
    flight_free(&gm->active);
    free(gm->known);
    free(gm);
}

int gm_watch_add(GmWatch *gm, const Ran *ran, const Touch *touch, i64 address) {
    if (gm->count == gm->room) {
        const i64 room = gm->room ? 2 * gm->room : 64;
        Waiting *more = realloc(gm->waiting, (size_t)room * sizeof(Waiting));
        if (!more) return 0;
        gm->waiting = more;
        gm->room = room;
    }
    gm->waiting[gm->count++] = (Waiting){*ran, touch, address};
    return 1;
}

int gm_watch_is_full(const GmWatch *gm) { return gm->count >= gm->full; }

static int in_turn(const void *one, const void *other) {
    const Waiting *a = one, *b = other;
    if (a->ran.start != b->ran.start) return a->ran.start < b->ran.start ? -1 : 1;
    if (a->ran.program != b->ran.program) return a->ran.program < b->ran.program ? -1 : 1;
    if (a->ran.row != b->ran.row) return a->ran.row < b->ran.row ? -1 : 1;
    return (a->touch > b->touch) - (a->touch < b->touch);
}

/* Return the hazards of a task. NULL: no memory. */
Found *gm_watch_found(GmWatch *gm, i64 task) {
    if (task >= gm->tasks) {
        Found *more = realloc(gm->of_task, (task + 1) * sizeof(Found));
        if (!more) return NULL;
        memset(more + gm->tasks, 0, (task + 1 - gm->tasks) * sizeof(Found));
        for (i64 i = gm->tasks; i <= task; i++) more[i].limit = gm->limit;
        gm->of_task = more;
        gm->tasks = task + 1;
    }
    return &gm->of_task[task];
}

/* Compare all accesses that start before the horizon. 0: no memory. */
int gm_watch_work_off(GmWatch *gm, i64 horizon) {
    Waiting *items = gm->waiting;
    i64 ready = 0;
    for (i64 i = 0; i < gm->count; i++)
        if (items[i].ran.start < horizon) {
            const Waiting one = items[i];
            items[i] = items[ready];
            items[ready++] = one;
        }
    if (ready) qsort(items, (size_t)ready, sizeof(Waiting), in_turn);
    for (const Waiting *one = items; one < items + ready; one++) {
        Found *found = gm_watch_found(gm, one->ran.program >> TASK_SHIFT);
        const i64 low = one->address + one->touch->offset, high = one->address + one->touch->extent;
        if (!found || !hazards_of(&gm->active, &one->ran, one->touch, low, high, found, &gm->known)) return 0;
    }
    if (ready && !flight_set_aside(&gm->active, horizon)) return 0;
    gm->count -= ready;
    if (ready) memmove(items, items + ready, (size_t)gm->count * sizeof(Waiting));
    gm->full = most(gm->batch, 2 * gm->count);
    return 1;
}
