/* How full a buffer is over time (../occupancy.py, which says the rule): one pass over the accesses in order of start
 * (docs/design.md, "Hazards are a sweep over the finished timeline").
 *
 * The Python twin cuts the buffer at the edges of all accesses first. Here a piece is cut when an access ends inside it, and
 * both parts keep what was known of the whole.
 *
 * Who wants the peak alone forgets the past on the way. What is held at a cycle may be known only long after it: a piece that
 * nobody read lately is held until its last read, unless another one comes. So the past is kept as stretches of time and the
 * most that was held in each, one for every cycle at which such a piece may turn out to have ended: whatever is taken off
 * later is taken off whole stretches. They are as many as there are pieces, however long the program.
 */
#include "occupancy.h"

#include "memory.h"
#include "program.h"
#include "rows.h"

#include <stdlib.h>

/* Bytes from `low` to the next piece: the tenure of the last write to them, which began at `begin`; NOTHING before one. */
struct Piece {
    i64 low, begin, last_read, retire;
};

enum { NOTHING = -1 };

/* Sort by key, then by value: ascending runs are merged in pairs until one is left. Returns the array that holds the result.
 * What comes from several pipes has few runs. */
static i64 run_end(const Item *items, i64 begin, i64 count) {
    for (begin++; begin < count; begin++) {
        const Item *last = &items[begin - 1], *next = &items[begin];
        if (next->key < last->key || (next->key == last->key && next->value < last->value)) break;
    }
    return begin;
}

Item *sorted(Item *items, Item *spare, i64 count) {
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

/* The piece in which this byte lies; a kernel asks for the same bytes again and again. */
static i64 piece_of(Buffer *buffer, i64 byte) {
    int32_t *near = &buffer->near[(uint64_t)byte * 0x9E3779B97F4A7C15u >> (64 - NEAR_BITS)];
    const Piece *last = &buffer->pieces[*near];
    if (last[0].low <= byte && byte < last[1].low) return *near;
    i64 low = 0;
    for (i64 left = buffer->piece_count; left > 1;) { /* it is one of the `left` from `low` on; no branch to guess */
        const i64 half = left / 2;
        low = buffer->pieces[low + half].low <= byte ? low + half : low;
        left -= half;
    }
    if (low <= INT32_MAX) *near = (int32_t)low;
    return low;
}

/* The piece that begins at this byte, which lies in piece `low`; 1 more of them where it was inside. NOTHING: no memory. */
static i64 cut(Buffer *buffer, i64 low, i64 byte) {
    if (buffer->pieces[low].low == byte) return low;
    if (buffer->piece_count == buffer->piece_room) {
        Piece *more = realloc(buffer->pieces, 2 * buffer->piece_room * sizeof(Piece));
        if (!more) return NOTHING;
        buffer->pieces = more;
        buffer->piece_room *= 2;
    }
    for (i64 i = buffer->piece_count++; i > low; i--) buffer->pieces[i] = buffer->pieces[i - 1];
    buffer->pieces[++low].low = byte;
    return low;
}

static int has_room(Items *steps) {
    if (steps->count < steps->room) return 1;
    const i64 room = steps->room ? 2 * steps->room : 64;
    Item *more = realloc(steps->items, room * sizeof(Item));
    if (!more) return 0;
    steps->items = more;
    steps->room = room;
    return 1;
}

/* From this cycle on so many bytes more are held. What lies a little before the last ones, as the ends of tenures do, goes to
 * its place, so that there is little to sort. 0: no memory. */
static int step(Items *steps, i64 cycle, i64 bytes) {
    enum { LITTLE = 32 };
    const i64 first = steps->count > LITTLE ? steps->count - LITTLE : 0;
    i64 at = steps->count;
    while (at > first && steps->items[at - 1].key > cycle) at--;
    if (at && steps->items[at - 1].key == cycle) {
        steps->items[at - 1].value += bytes;
        return 1;
    }
    if (!has_room(steps)) return 0;
    for (i64 i = steps->count++; i > at; i--) steps->items[i] = steps->items[i - 1];
    steps->items[at] = (Item){cycle, bytes};
    return 1;
}

/* The tenure of a piece is over at this cycle. 0: no memory. */
static int leave(Buffer *buffer, const Piece *piece, i64 cycle) {
    const i64 bytes = piece[1].low - piece[0].low;
    buffer->area += bytes * (cycle - piece->begin);
    return step(&buffer->falls, cycle, -bytes);
}

/* An access, which starts no earlier than those before it; of one cycle the reads come first (_tenures). 0: no memory. */
int buffer_touch(Buffer *buffer, i64 low, i64 high, i64 start, i64 retire, i64 writes) {
    if (low >= high) return 1;
    if (!buffer->pieces) {
        buffer->pieces = malloc(64 * sizeof(Piece));
        if (!buffer->pieces) return 0;
        buffer->piece_room = 64;
        buffer->piece_count = 2; /* the second one is the end */
        buffer->pieces[0] = (Piece){INT64_MIN, NOTHING, NOTHING, NOTHING};
        buffer->pieces[1] = (Piece){INT64_MAX, NOTHING, NOTHING, NOTHING};
    }
    const i64 first = cut(buffer, piece_of(buffer, low), low);
    if (first < 0) return 0;
    for (Piece *piece = &buffer->pieces[first]; piece->low < high; piece++) {
        if (piece[1].low > high) {
            const i64 at = piece - buffer->pieces;
            if (cut(buffer, at, high) < 0) return 0;
            piece = &buffer->pieces[at];
        }
        if (!writes) { /* of a piece that nobody wrote it does not count */
            piece->last_read = retire > piece->last_read ? retire : piece->last_read;
            continue;
        }
        /* A read may still run (a hazard): tenures of one piece never overlap. */
        const i64 end = piece->last_read != NOTHING && piece->last_read < start ? piece->last_read : start;
        if (piece->begin != NOTHING && !leave(buffer, piece, end)) return 0;
        piece->begin = start;
        piece->last_read = NOTHING;
        piece->retire = retire;
    }
    return !writes || step(&buffer->rises, start, high - low);
}

/* When the tenure of a piece is over if nothing comes any more. */
static i64 last_use(const Piece *piece) { return piece->last_read != NOTHING ? piece->last_read : piece->retire; }

/* Nothing comes any more. 0: no memory. */
int buffer_end(Buffer *buffer) {
    for (Piece *piece = buffer->pieces; piece < &buffer->pieces[buffer->piece_count]; piece++)
        if (piece->begin != NOTHING && !leave(buffer, piece, last_use(piece))) return 0;
    return 1;
}

/* All steps in order; the caller frees `memory`. NULL: no memory. */
static Item *steps_of(Buffer *buffer, Item **memory) {
    const i64 falls = buffer->falls.count, count = falls + buffer->rises.count;
    Item *all = *memory = malloc((2 * count + 1) * sizeof(Item));
    if (!all) return NULL;
    for (i64 i = 0; i < count; i++) all[i] = i < falls ? buffer->falls.items[i] : buffer->rises.items[i - falls];
    return sorted(all, all + count, count);
}

/* Put the steps into `past`, and join its stretches before the horizon, where nothing starts any more. 0: no memory. */
int buffer_forget(Buffer *buffer, i64 horizon) {
    Item *memory, *steps = steps_of(buffer, &memory), *ends = malloc(2 * (buffer->piece_count + 1) * sizeof(Item));
    Items before = buffer->past, past = {0};
    i64 count = buffer->falls.count + buffer->rises.count, end_count = 0, held = 0, change = 0, i = 0, j = 0, k = 0;
    int done = steps && ends;
    for (i64 p = 0; done && p < buffer->piece_count; p++)
        if (buffer->pieces[p].begin != NOTHING) ends[end_count++] = (Item){last_use(&buffer->pieces[p]), 0};
    Item *end = done ? sorted(ends, ends + end_count, end_count) : NULL;
    while (done && (i < count || j < before.count || k < end_count)) {
        i64 cycle = INT64_MAX;
        int kept = 0;
        if (i < count) cycle = steps[i].key;
        if (j < before.count && before.items[j].key < cycle) cycle = before.items[j].key;
        if (k < end_count && end[k].key < cycle) cycle = end[k].key;
        for (; i < count && steps[i].key == cycle; i++) change += steps[i].value;
        for (; j < before.count && before.items[j].key == cycle; j++) held = before.items[j].value;
        for (; k < end_count && end[k].key == cycle; k++) kept = 1;
        const i64 now = held + change;
        if (cycle >= horizon || kept || !past.count) done = step(&past, cycle, now);
        else if (past.items[past.count - 1].value < now) past.items[past.count - 1].value = now;
    }
    free(memory);
    free(ends);
    free(done ? before.items : past.items);
    if (done) {
        buffer->past = past;
        buffer->rises.count = buffer->falls.count = 0;
    }
    return done;
}

void buffer_free(Buffer *buffer) {
    free(buffer->pieces);
    free(buffer->rises.items);
    free(buffer->falls.items);
    free(buffer->past.items);
}

/* The accesses in order of start, reads before writes of one cycle, as (key, place in `accesses`) (_accesses). */
typedef struct {
    i64 low, high, start, retire, writes;
} Span;

static i64 collect(
    const Program *program, const i64 *pipes, const i64 *first, const Touch *touches, i64 space, Span *spans, Item *order
) {
    i64 count = 0, of_pipe[PIPES + 1] = {0};
    for (int filled = 0; filled < 2; filled++) { /* each pipe starts its rows in order: few runs to merge */
        count = 0;
        Rows rows;
        int there = rows_open(&rows, program);
        for (i64 row = 0; there && row < program->count; row++) {
            const i64 *at = next_row(&rows, row);
            there = at != NULL;
            if (!there) break;
            for (const Touch *one = touches + first[at[0]]; one < touches + first[at[0] + 1]; one++) {
                if (one->space != space) continue;
                if (!filled) {
                    of_pipe[pipes[at[0]] + 1]++;
                    continue;
                }
                const i64 low = at[one->column] + one->offset, high = at[one->column] + one->extent;
                spans[count] = (Span){low, high, program->start[row], program->retire[row], one->writes};
                order[of_pipe[pipes[at[0]]]++] = (Item){2 * program->start[row] + one->writes, count};
                count++;
            }
        }
        rows_close(&rows);
        if (!there) return NO_MEMORY;
        for (int p = 0; !filled && p < PIPES; p++) of_pipe[p + 1] += of_pipe[p];
    }
    return count;
}

/* Fill `time` and `held` with the curve of the buffer `space`, from the program's rows, `start` and `retire`; returns how many
 * moments it has, or NO_MEMORY. `pipes` has the pipe of every instruction of the table, `touches` what instruction `i` touches
 * from first[i] on; at most `most` accesses, and two moments for each of them. */
EXPORT i64 occupancy(
    const Program *program, const i64 *pipes, const i64 *first, const Touch *touches, i64 space, i64 most, i64 *time, i64 *held
) {
    Buffer buffer = {0};
    i64 moments = NO_MEMORY, bytes = 0;
    Span *spans = malloc(most * sizeof(Span));
    Item *order = malloc(2 * most * sizeof(Item)), *memory = NULL;
    int done = spans && order;
    if (done) {
        const i64 count = collect(program, pipes, first, touches, space, spans, order);
        const Item *turn = sorted(order, order + most, count);
        done = count >= 0;
        for (i64 k = 0; done && k < count; k++) {
            const Span *span = &spans[turn[k].value];
            done = buffer_touch(&buffer, span->low, span->high, span->start, span->retire, span->writes);
        }
    }
    const Item *steps = done && buffer_end(&buffer) ? steps_of(&buffer, &memory) : NULL;
    if (steps) {
        const i64 count = buffer.falls.count + buffer.rises.count;
        moments = 0;
        for (i64 i = 0; i < count; i++) {
            bytes += steps[i].value;
            moments += !i || steps[i].key != steps[i - 1].key;
            time[moments - 1] = steps[i].key;
            held[moments - 1] = bytes;
        }
    }
    free(memory);
    free(order);
    free(spans);
    buffer_free(&buffer);
    return moments;
}
