/* How full a buffer is over time (../occupancy.py, which says the rule): one pass over the accesses in order of start.
 *
 * The Python twin cuts the buffer at the edges of all accesses first. Here a piece is cut when an access ends inside it, and
 * both parts keep what was known of the whole.
 */
#include "machine.h"

#include <stdlib.h>

typedef struct {
    i64 low, high, retire, pipe, writes;
} Access;

/* Bytes from `low` to the next piece: the tenure of the last write to them, which began at `begin`; NOTHING before one. */
typedef struct {
    i64 low, begin, last_read, retire;
} Piece;

enum { NOTHING = -1 };

typedef struct {
    i64 key, value;
} Item;

typedef struct {
    Access *accesses;
    Item *order, *spare;
    i64 count;
    Piece *pieces;
    i64 piece_count, piece_room;
    Item *steps; /* cycle, and how many bytes more are held from it on */
    i64 step_count, step_room;
} Work;

/* Sort by key, then by value: ascending runs are merged in pairs until one is left. Returns the array that holds the result.
 * Each pipe starts its rows in order, so that there are few runs. */
static i64 run_end(const Item *items, i64 begin, i64 count) {
    for (begin++; begin < count; begin++) {
        const Item *last = &items[begin - 1], *next = &items[begin];
        if (next->key < last->key || (next->key == last->key && next->value < last->value)) break;
    }
    return begin;
}

static Item *sorted(Item *items, Item *spare, i64 count) {
    for (i64 runs = 2; runs > 1;) {
        runs = 0;
        for (i64 begin = 0; begin < count; runs++) {
            const i64 middle = run_end(items, begin, count), end = middle < count ? run_end(items, middle, count) : count;
            i64 one = begin, other = middle;
            for (i64 to = begin; to < end; to++) {
                const Item *a = &items[one], *b = &items[other];
                int second = one == middle || (other < end && (b->key < a->key || (b->key == a->key && b->value < a->value)));
                spare[to] = items[second ? other++ : one++];
            }
            begin = end;
        }
        Item *result = spare;
        spare = items;
        items = result;
    }
    return items;
}

/* The piece that begins at this byte; 1 more of them where it was inside one. NOTHING: no memory. */
static i64 cut(Work *work, i64 byte) {
    i64 low = 0, high = work->piece_count; /* the piece is at `low` or behind, and before `high` */
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (work->pieces[middle].low <= byte) low = middle;
        else high = middle;
    }
    if (work->pieces[low].low == byte) return low;
    if (work->piece_count == work->piece_room) {
        Piece *more = realloc(work->pieces, 2 * work->piece_room * sizeof(Piece));
        if (!more) return NOTHING;
        work->pieces = more;
        work->piece_room *= 2;
    }
    for (i64 i = work->piece_count++; i > low; i--) work->pieces[i] = work->pieces[i - 1];
    work->pieces[++low].low = byte;
    return low;
}

/* From this cycle on so many bytes more are held. 0: no memory. */
static int step(Work *work, i64 cycle, i64 bytes) {
    if (work->step_count && work->steps[work->step_count - 1].key == cycle) {
        work->steps[work->step_count - 1].value += bytes;
        return 1;
    }
    if (work->step_count == work->step_room) {
        Item *more = realloc(work->steps, 2 * work->step_room * sizeof(Item));
        if (!more) return 0;
        work->steps = more;
        work->step_room *= 2;
    }
    work->steps[work->step_count++] = (Item){cycle, bytes};
    return 1;
}

/* The accesses in order of start, reads before writes of one cycle (_accesses). */
static void collect(Work *work, const Program *program, const i64 *pipes, const Regions *regions) {
    const i64 *rows = program->rows;
    i64 of_pipe[PIPES + 1] = {0};
    work->count = 0;
    for (i64 row = 0; row < program->count; row++) {
        const i64 *at = &rows[COLUMNS * row], instruction = at[0];
        for (i64 i = regions->first[instruction]; i < regions->first[instruction + 1]; i++) {
            const i64 base = at[regions->column[i]], low = base + regions->offset[i], high = base + regions->extent[i];
            if (low >= high) continue;
            work->spare[work->count].key = 2 * program->start[row] + regions->writes[i];
            work->accesses[work->count++] = (Access){low, high, program->retire[row], pipes[instruction], regions->writes[i]};
            of_pipe[pipes[instruction] + 1]++;
        }
    }
    for (i64 p = 0; p < PIPES; p++) of_pipe[p + 1] += of_pipe[p];
    for (i64 i = 0; i < work->count; i++) work->order[of_pipe[work->accesses[i].pipe]++] = (Item){work->spare[i].key, i};
}

/* The tenures of all pieces, as steps (_tenures). 0: no memory. */
static int follow(Work *work, const Item *order) {
    for (i64 k = 0; k < work->count; k++) {
        const Access *access = &work->accesses[order[k].value];
        const i64 now = order[k].key / 2, first = cut(work, access->low), last = first < 0 ? NOTHING : cut(work, access->high);
        if (last < 0) return 0;
        for (Piece *piece = &work->pieces[first]; piece < &work->pieces[last]; piece++) {
            if (!access->writes) {
                if (piece->begin != NOTHING && access->retire > piece->last_read) piece->last_read = access->retire;
                continue;
            }
            if (piece->begin != NOTHING) {
                /* A read may still run (a hazard): tenures of one piece never overlap. */
                const i64 end = piece->last_read != NOTHING && piece->last_read < now ? piece->last_read : now;
                if (!step(work, end, piece[0].low - piece[1].low)) return 0;
            }
            piece->begin = now;
            piece->last_read = NOTHING;
            piece->retire = access->retire;
        }
    }
    for (Piece *piece = work->pieces; piece < &work->pieces[work->piece_count]; piece++) {
        if (piece->begin == NOTHING) continue;
        const i64 end = piece->last_read != NOTHING ? piece->last_read : piece->retire;
        if (!step(work, end, piece[0].low - piece[1].low)) return 0;
    }
    for (i64 k = 0; k < work->count; k++) {
        const Access *access = &work->accesses[order[k].value];
        if (access->writes && !step(work, order[k].key / 2, access->high - access->low)) return 0;
    }
    return 1;
}

static i64 curve(const Item *steps, i64 count, i64 *time, i64 *held) {
    i64 moments = 0, bytes = 0;
    for (i64 i = 0; i < count; i++) {
        bytes += steps[i].value;
        moments += !i || steps[i].key != steps[i - 1].key;
        time[moments - 1] = steps[i].key;
        held[moments - 1] = bytes;
    }
    return moments;
}

/* Fill `time` and `held` with the curve of the buffer in which the regions are, from the program's rows, `start` and `retire`;
 * returns how many moments it has, or NO_MEMORY. `pipes` has the pipe of every instruction of the table; at most `most`
 * accesses, and two moments for each of them. */
EXPORT i64 occupancy(const Program *program, const i64 *pipes, const Regions *regions, i64 most, i64 *time, i64 *held) {
    Work work = {.piece_count = 1, .piece_room = 64, .step_room = 64};
    i64 moments = NO_MEMORY;
    work.accesses = malloc(most * sizeof(Access));
    work.order = malloc(most * sizeof(Item));
    work.spare = malloc(most * sizeof(Item));
    work.pieces = malloc(work.piece_room * sizeof(Piece));
    work.steps = malloc(work.step_room * sizeof(Item));
    if (work.accesses && work.order && work.spare && work.pieces && work.steps) {
        work.pieces[0] = (Piece){INT64_MIN, NOTHING, NOTHING, NOTHING};
        collect(&work, program, pipes, regions);
        if (follow(&work, sorted(work.order, work.spare, work.count))) {
            Item *spare = malloc((work.step_count + 1) * sizeof(Item));
            if (spare) moments = curve(sorted(work.steps, spare, work.step_count), work.step_count, time, held);
            free(spare);
        }
    }
    free(work.accesses);
    free(work.order);
    free(work.spare);
    free(work.pieces);
    free(work.steps);
    return moments;
}
