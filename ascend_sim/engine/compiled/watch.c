/* Totals of a program, without its columns (../totals.py): times of its pipes, hazards, occupancy of its buffers
 * (docs/design.md, "Hazards are a sweep over the finished timeline").
 */
#include "watch.h"

#include "memory.h"
#include "occupancy.h"

#include <stdlib.h>
#include <string.h>

/* Finished rows of a pipe that touch memory, in order of start. */
typedef struct {
    Ran *items;
    i64 head, end, room;
} Line;

/* Bytes of a buffer that are written in a cycle. */
typedef struct {
    i64 space, low, high, retire;
} Write;

struct Watch {
    const Program *program;
    const Rows *rows;
    const Touched *touched;
    GmWatch *gm;
    i64 table, batch, waiting, full;
    Line lines[PIPES];
    Write *writes; /* of one cycle */
    i64 write_count, write_room;
    Flight active[SPACES];
    Buffer buffers[SPACES];
    Found found;
    Known *known;
    Totals totals;
};

Watch *watch_new(const Rows *rows, const Touched *touched, i64 table, GmWatch *gm, i64 limit, i64 batch) {
    Watch *watch = calloc(1, sizeof *watch);
    if (!watch) return NULL;
    *watch = (Watch){
        .program = rows->program, .rows = rows, .touched = touched, .gm = gm, .table = table, .batch = batch, .full = batch,
        .found = {.limit = limit}};
    for (int p = 0; p < PIPES; p++) watch->totals.pipes[p].end = rows->program->begin;
    return watch;
}

void watch_free(Watch *watch) {
    if (!watch) return;
    for (int p = 0; p < PIPES; p++) free(watch->lines[p].items);
    for (int space = 0; space < SPACES; space++) {
        flight_free(&watch->active[space]);
        buffer_free(&watch->buffers[space]);
    }
    free(watch->writes);
    free(watch->found.items);
    free(watch->known);
    free(watch);
}

/* Take the new address of the table, which has grown. */
void watch_know(Watch *watch, const Touched *touched) { watch->touched = touched; }

int watch_is_full(const Watch *watch) { return watch->waiting >= watch->full; }

/* Add a finished row; `move`: its columns of a transfer, or NULL (ProgramRun.busy, ProgramRun.stalls). 0: no memory. */
int watch_row(Watch *watch, const Instruction *instruction, i64 row, const Times *times, const Move *move) {
    const i64 start = times->start, end = times->end, stall = times->stall, cause = times->cause;
    const i64 pipe = instruction->pipe, kind = instruction->kind;
    PipeTotals *totals = &watch->totals.pipes[pipe];
    totals->rows++;
    if (end > totals->end) totals->end = end;
    const int at_work = kind == WAIT && instruction->stream;
    if ((kind == WAIT && !at_work) || kind == BARRIER || kind == CROSS_WAIT) {
        const i64 held = end - start;
        totals->stalls[held > 0 ? NOTHING_TO_DO : cause] += stall - held;
        totals->stalls[kind == WAIT ? FLAG : kind == BARRIER ? PIPE_BUSY : CROSS_CORE] += held;
    } else {
        totals->stalls[cause] += stall;
    }
    if (pipe == S && kind != SCALAR) totals->busy += watch->program->issue;
    if (kind == LOCAL || kind == TRANSFER || kind == SCALAR || at_work) totals->busy += end - start;
    if (move) {
        totals->l2_wait += move->l2_wait;
        totals->hbm_wait += move->hbm_wait;
        watch->totals.l2_hits += move->l2_hits;
        watch->totals.l2_misses += move->l2_misses;
        watch->totals.hbm_bytes += move->hbm_bytes;
    }
    const i64 *values = row_at(watch->rows, row);
    if (!watch->touched[values[0]].count) return 1;
    Line *line = &watch->lines[pipe];
    if (line->end == line->room) {
        const i64 room = line->room ? 2 * line->room : 64;
        Ran *more = realloc(line->items, (size_t)room * sizeof(Ran));
        if (!more) return 0;
        line->items = more;
        line->room = room;
    }
    line->items[line->end++] = (Ran){
        start, end, times->retire, row, watch->program->order, (int32_t)watch->table, (int32_t)pipe,
        {values[0], values[1], values[2], values[3], values[4]}};
    watch->waiting++;
    return 1;
}

/* Return the start of the next row of a pipe, INT64_MAX if there is none. */
static i64 next_start(const Line *line) { return line->head < line->end ? line->items[line->head].start : INT64_MAX; }

/* Return the pipe whose next row starts first, by `starts`; -1 if none starts before the horizon. */
static int first_line(const Watch *watch, const i64 *starts, i64 horizon) {
    const Line *lines = watch->lines;
    int best = S;
    for (int p = S + 1; p < PIPES; p++) {
        if (starts[p] > starts[best] || starts[p] == INT64_MAX) continue;
        if (starts[p] < starts[best] || lines[p].items[lines[p].head].row < lines[best].items[lines[best].head].row) best = p;
    }
    return starts[best] < horizon ? best : -1;
}

/* Check the accesses of a row for hazards and note its reads; writes wait for the reads of the same cycle. 0: no memory. */
static int look_at(Watch *watch, const Ran *ran) {
    const Touched *touched = &watch->touched[ran->values[0]];
    for (const Touch *touch = touched->touches; touch < touched->touches + touched->count; touch++) {
        const i64 operand = operand_of(ran->values, touch->column), space = touch->space;
        if (space == GM) {
            if (!gm_watch_add(watch->gm, ran, touch, address_of(watch->program, operand))) return 0;
            continue;
        }
        const i64 low = operand + touch->offset, high = operand + touch->extent;
        if (!hazards_of(&watch->active[space], ran, touch, low, high, &watch->found, &watch->known)) return 0;
        if (!touch->writes) {
            if (!buffer_touch(&watch->buffers[space], low, high, ran->start, ran->retire, 0)) return 0;
            continue;
        }
        if (watch->write_count == watch->write_room) {
            const i64 room = 2 * watch->write_room + 8;
            Write *more = realloc(watch->writes, (size_t)room * sizeof(Write));
            if (!more) return 0;
            watch->writes = more;
            watch->write_room = room;
        }
        watch->writes[watch->write_count++] = (Write){space, low, high, ran->retire};
    }
    return 1;
}

/* Look at all rows that start before the horizon, in order of start and then of rows. 0: no memory. */
int watch_work_off(Watch *watch, i64 horizon) {
    i64 starts[PIPES];
    for (int p = S; p < PIPES; p++) starts[p] = next_start(&watch->lines[p]);
    int pipe = first_line(watch, starts, horizon);
    while (pipe >= 0) {
        const i64 start = starts[pipe];
        watch->write_count = 0;
        do {
            Line *line = &watch->lines[pipe];
            if (!look_at(watch, &line->items[line->head++])) return 0;
            starts[pipe] = next_start(line);
            watch->waiting--;
            pipe = first_line(watch, starts, horizon);
        } while (pipe >= 0 && starts[pipe] == start);
        for (const Write *one = watch->writes; one < watch->writes + watch->write_count; one++)
            if (!buffer_touch(&watch->buffers[one->space], one->low, one->high, start, one->retire, 1)) return 0;
    }
    for (int space = 0; space < SPACES; space++)
        if (!flight_set_aside(&watch->active[space], horizon)) return 0;
    for (int p = S; p < PIPES; p++) {
        Line *line = &watch->lines[p];
        if (!line->head) continue;
        memmove(line->items, line->items + line->head, (size_t)(line->end - line->head) * sizeof(Ran));
        line->end -= line->head;
        line->head = 0;
    }
    for (int space = 0; space < SPACES; space++) {
        Buffer *buffer = &watch->buffers[space];
        const i64 steps = buffer->rises.count + buffer->falls.count;
        if (steps > 2 * watch->batch + 3 * buffer->joined && !buffer_forget(buffer)) return 0;
    }
    watch->full = 2 * watch->waiting > watch->batch ? 2 * watch->waiting : watch->batch;
    return 1;
}

/* Finish after the last row. 0: no memory. */
int watch_end(Watch *watch) {
    if (!watch_work_off(watch, INT64_MAX)) return 0;
    for (int space = 0; space < SPACES; space++) {
        Buffer *buffer = &watch->buffers[space];
        if (!buffer_end(buffer) || !buffer_forget(buffer)) return 0;
        watch->totals.area[space] = buffer->area;
        watch->totals.peak[space] = buffer->peak;
    }
    watch->totals.hazards = watch->found.total;
    return 1;
}

/* Read the totals and up to `limit` hazards of a program that ended at cycle `finish`. Returns the count of the
 * hazards. */
i64 watch_read(const Watch *watch, i64 finish, i64 queue_full, Totals *totals, Hazard *hazards) {
    *totals = watch->totals;
    const Program *program = watch->program;
    PipeTotals *scalar = &totals->pipes[S];
    scalar->busy += program->issue * (program->count - scalar->rows);
    scalar->stalls[QUEUE_FULL] = queue_full;
    const i64 held = scalar->stalls[PIPE_BUSY] + scalar->stalls[CROSS_CORE] + scalar->stalls[FLAG];
    scalar->stalls[NOTHING_TO_DO] = finish - program->begin - scalar->busy - queue_full - held;
    for (int p = S + 1; p < PIPES; p++) totals->pipes[p].stalls[NOTHING_TO_DO] += finish - totals->pipes[p].end;
    if (watch->found.count) memcpy(hazards, watch->found.items, (size_t)watch->found.count * sizeof(Hazard));
    return watch->found.count;
}

/* Compare all accesses to GM that still wait, after the last program. */
EXPORT i64 gm_end(GmWatch *gm) { return gm_watch_work_off(gm, INT64_MAX) ? 0 : NO_MEMORY; }

/* Return the count of all hazards of a task in GM; `hazards` gets those that are kept, `count` of them. */
EXPORT i64 gm_read(GmWatch *gm, i64 task, Hazard *hazards, i64 *count) {
    const Found *found = gm_watch_found(gm, task);
    if (!found) return NO_MEMORY;
    *count = found->count;
    if (found->count) memcpy(hazards, found->items, (size_t)found->count * sizeof(Hazard));
    return found->total;
}
