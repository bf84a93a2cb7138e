/* Hazards (../hazards.py, which says the rule): every access is compared with those that are in flight when it starts
 * (docs/design.md, "Hazards are a sweep over the finished timeline"). */
#include "hazards.h"

#include <stdlib.h>
#include <string.h>

enum { KNOWN = 4096, TASK_SHIFT = 24 };

static inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 most(i64 a, i64 b) { return a > b ? a : b; }

/* Whether a row of `a` shares a byte with the bytes from `low` to `high`. */
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

/* Whether two regions share a byte when the address of `b` is `distance` bytes behind that of `a` (memory/regions.py). */
static int overlap(const Touch *a, const Touch *b, i64 distance) {
    for (i64 plane = 0; plane < b->planes; plane++)
        for (i64 row = 0; row < b->rows; row++) {
            const i64 low = distance + b->offset + plane * b->plane_stride + row * b->row_stride;
            if (low < a->extent && low + b->row_bytes > a->offset && meets(a, low, low + b->row_bytes)) return 1;
        }
    return 0;
}

/* The same, remembered. -1: no memory. */
static i64 known_overlap(Known **known, const Touch *a, const Touch *b, i64 distance) {
    if (a->rows * a->planes == 1 && b->rows * b->planes == 1) return 1; /* their hulls meet */
    if (!*known && !(*known = calloc(KNOWN, sizeof(Known)))) return -1;
    const uint64_t mixed = ((uint64_t)(uintptr_t)a * 31 + (uint64_t)(uintptr_t)b) * 31 + (uint64_t)distance;
    Known *place = &(*known)[(mixed * 0x9E3779B97F4A7C15u) >> 52];
    if (place->one != a || place->other != b || place->distance != distance)
        *place = (Known){a, b, distance, overlap(a, b, distance)};
    return place->meet;
}

static int report(Found *found, i64 limit, const Access *early, const Access *late) {
    if (found->total++ >= limit) return 1;
    if (found->count == found->room) {
        const i64 room = found->room ? 2 * found->room : 8;
        Hazard *more = realloc(found->items, room * sizeof(Hazard));
        if (!more) return 0;
        found->items = more;
        found->room = room;
    }
    Hazard *hazard = &found->items[found->count++];
    *hazard = (Hazard){
        {early->program, late->program}, {early->table, late->table}, {early->row, late->row},
        {early->touch->writes, late->touch->writes}, .space = late->touch->space, .low = most(early->low, late->low),
        .high = least(early->high, late->high), .start = late->start, .retire = early->retire};
    memcpy(hazard->values[0], early->values, sizeof early->values);
    memcpy(hazard->values[1], late->values, sizeof late->values);
    return 1;
}

/* Whether two accesses to L0C are a product and a drain with the unit flag that never overtake each other (_in_step). */
static int in_step(const Access *early, const Access *late) {
    const Touch *a = early->touch, *b = late->touch;
    if (!a->paced || !b->paced || early->pipe == late->pipe) return 0;
    const i64 over = early->pipe == CUBE ? early->retire : early->end - b->head, fractals = a->tile_rows * a->tile_columns;
    i64 overlap = 0;
    if (fractals && early->address == late->address && a->tile_rows == b->tile_rows && a->tile_columns == b->tile_columns)
        overlap = least(a->work, b->work) * (fractals - 1) / fractals;
    return late->start >= over - overlap;
}

/* Whether two accesses that meet in time and hull may not do so (_sweep). */
static int is_hazard(const Access *early, const Access *late) {
    const Touch *a = early->touch, *b = late->touch;
    if (!(a->writes || b->writes) || (a->atomic && b->atomic)) return 0;
    if (b->space == L0C_SPACE && in_step(early, late)) return 0;
    if (early->program != late->program || early->pipe != late->pipe) return 1;
    return a->writes && early->row != late->row && !(b->space == L0C_SPACE && early->pipe == CUBE);
}

void flight_free(Flight *active) {
    free(active->items);
    free(active->all);
}

/* Where the next access is to be written, behind the `count` in flight. NULL: no memory. */
Access *flight_next(Flight *active) {
    if (active->count == active->made) {
        if (active->made == active->room) {
            const i64 room = active->room ? 2 * active->room : 32;
            Flying *items = realloc(active->items, (size_t)room * sizeof(Flying));
            if (items) active->items = items;
            Access *all = items ? realloc(active->all, (size_t)room * sizeof(Access)) : NULL;
            if (!all) return NULL;
            active->all = all;
            active->room = room;
        }
        active->items[active->made].place = active->made;
        active->made++;
    }
    return &active->all[active->items[active->count].place];
}

/* Compare the access at `flight_next` with the active ones of its space, and make it one of them. 0: no memory. */
int hazards_of(Flight *active, Found *found, i64 limit, Known **known) {
    const i64 place = active->items[active->count].place;
    const Access *access = &active->all[place];
    i64 kept = 0;
    for (i64 i = 0; i < active->count; i++) {
        const Flying early = active->items[i];
        if (early.retire <= access->start) continue;
        if (kept < i) {
            active->items[i].place = active->items[kept].place; /* of one that has retired */
            active->items[kept] = early;
        }
        kept++;
        if (early.low >= access->high || access->low >= early.high) continue;
        const Access *one = &active->all[early.place];
        if (!is_hazard(one, access)) continue;
        const i64 meet = known_overlap(known, one->touch, access->touch, access->address - one->address);
        if (meet < 0 || (meet && !report(found, limit, one, access))) return 0;
    }
    active->items[active->count].place = active->items[kept].place;
    active->items[kept] = (Flying){access->retire, access->low, access->high, place};
    active->count = kept + 1;
    return 1;
}

/* -- the GM, which all programs share --------------------------------------------------------------------------------- */

struct GmWatch {
    Accesses waiting;
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
    free(gm->waiting.items);
    flight_free(&gm->active);
    free(gm->known);
    free(gm);
}

int gm_watch_add(GmWatch *gm, const Access *access) {
    Accesses *waiting = &gm->waiting;
    if (waiting->count == waiting->room) {
        const i64 room = waiting->room ? 2 * waiting->room : 64;
        Access *more = realloc(waiting->items, room * sizeof(Access));
        if (!more) return 0;
        waiting->items = more;
        waiting->room = room;
    }
    waiting->items[waiting->count++] = *access;
    return 1;
}

int gm_watch_is_full(const GmWatch *gm) { return gm->waiting.count >= gm->full; }

static int in_turn(const void *one, const void *other) {
    const Access *a = one, *b = other;
    if (a->start != b->start) return a->start < b->start ? -1 : 1;
    if (a->program != b->program) return a->program < b->program ? -1 : 1;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return (a->touch > b->touch) - (a->touch < b->touch);
}

/* What the task has, NULL where there is no memory. */
Found *gm_watch_found(GmWatch *gm, i64 task) {
    if (task >= gm->tasks) {
        Found *more = realloc(gm->of_task, (task + 1) * sizeof(Found));
        if (!more) return NULL;
        memset(more + gm->tasks, 0, (task + 1 - gm->tasks) * sizeof(Found));
        gm->of_task = more;
        gm->tasks = task + 1;
    }
    return &gm->of_task[task];
}

/* Look at all accesses that start before the horizon. 0: no memory. */
int gm_watch_work_off(GmWatch *gm, i64 horizon) {
    Access *items = gm->waiting.items;
    i64 ready = 0;
    for (i64 i = 0; i < gm->waiting.count; i++)
        if (items[i].start < horizon) {
            const Access one = items[i];
            items[i] = items[ready];
            items[ready++] = one;
        }
    if (ready) qsort(items, (size_t)ready, sizeof(Access), in_turn);
    for (i64 i = 0; i < ready; i++) {
        Found *found = gm_watch_found(gm, items[i].program >> TASK_SHIFT);
        Access *next = found ? flight_next(&gm->active) : NULL;
        if (!next) return 0;
        *next = items[i];
        if (!hazards_of(&gm->active, found, gm->limit, &gm->known)) return 0;
    }
    gm->waiting.count -= ready;
    if (ready) memmove(items, items + ready, (size_t)gm->waiting.count * sizeof(Access));
    gm->full = most(gm->batch, 2 * gm->waiting.count);
    return 1;
}
