/* Occupancy of a buffer over time (../occupancy.py, which has the rule): one pass over the accesses in order of start
 * (docs/design.md, "Hazards are a sweep over the finished timeline").
 *
 * The Python twin cuts the buffer at the edges of all accesses first. Here a piece is cut when an access ends inside it, and
 * both parts keep the state of the whole.
 *
 * If only the peak is wanted, the past is joined on the way. The bytes held at a cycle may be known only long after it: a piece
 * is held until its last read, and whether a read was the last is known late. So the past is kept as stretches of time with the
 * most bytes held in each. Each cycle at which the tenure of a piece may have ended is an edge of stretches, so a later fall
 * concerns whole stretches only. There are about as many stretches as pieces, however long the program.
 */
#include "occupancy.h"

#include "memory.h"

#include <stdlib.h>

/* Bytes from `low` to the next piece: the tenure of the last write to them, which began at `begin`; NOTHING before one. */
struct Piece {
    i64 low, begin, last_read, retire;
};

enum { NOTHING = -1 };

/* Sort by key, digit by digit; items with equal keys stay in order. Returns the array that holds the result. */
static Item *sorted(Item *items, Item *spare, i64 count) {
    enum { BITS = 8, DIGITS = 1 << BITS };
    i64 in_order = 1, least = INT64_MAX, most = INT64_MIN;
    while (in_order < count && items[in_order - 1].key <= items[in_order].key) in_order++;
    if (in_order >= count) return items;
    for (i64 i = 0; i < count; i++) {
        least = items[i].key < least ? items[i].key : least;
        most = items[i].key > most ? items[i].key : most;
    }
    for (uint64_t range = (uint64_t)most - (uint64_t)least, shift = 0; shift < 64 && range >> shift; shift += BITS) {
        i64 place[DIGITS + 1] = {0};
        for (i64 i = 0; i < count; i++) place[(((uint64_t)items[i].key - (uint64_t)least) >> shift) % DIGITS + 1]++;
        for (int digit = 1; digit < DIGITS; digit++) place[digit] += place[digit - 1];
        for (i64 i = 0; i < count; i++) spare[place[(((uint64_t)items[i].key - (uint64_t)least) >> shift) % DIGITS]++] = items[i];
        Item *result = spare;
        spare = items;
        items = result;
    }
    return items;
}

/* Return the piece of this byte. Kernels touch the same bytes again and again, so `near` caches pieces. */
static i64 piece_of(Buffer *buffer, i64 byte) {
    int32_t *near = &buffer->near[(uint64_t)byte * 0x9E3779B97F4A7C15u >> (64 - NEAR_BITS)];
    const Piece *last = &buffer->pieces[*near];
    if (last[0].low <= byte && byte < last[1].low) return *near;
    i64 low = 0;
    for (i64 left = buffer->piece_count; left > 1;) { /* it is one of the `left` from `low` on; without branches */
        const i64 half = left / 2;
        low = buffer->pieces[low + half].low <= byte ? low + half : low;
        left -= half;
    }
    if (low <= INT32_MAX) *near = (int32_t)low;
    return low;
}

/* Return the piece that begins at this byte of piece `low`, which is cut there if necessary. NOTHING: no memory. */
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

/* Add a step: `bytes` more are held from this cycle on. A step just before the last ones, as the ends of tenures are, is
 * inserted at its place, so that little is left to sort. 0: no memory. */
static int step(Items *steps, i64 cycle, i64 bytes) {
    enum { LITTLE = 8 };
    const i64 first = steps->count > LITTLE ? steps->count - LITTLE : 0;
    i64 at = steps->count;
    while (at > first && steps->items[at - 1].key > cycle) at--;
    if (at && steps->items[at - 1].key == cycle) {
        steps->items[at - 1].value += bytes;
        return 1;
    }
    if (!has_room(steps)) return 0;
    if (at == first) at = steps->count; /* far before the last ones: sorted later */
    for (i64 i = steps->count++; i > at; i--) steps->items[i] = steps->items[i - 1];
    steps->items[at] = (Item){cycle, bytes};
    return 1;
}

/* End the tenure of a piece at this cycle. Returns its bytes. */
static i64 leave(Buffer *buffer, const Piece *piece, i64 cycle) {
    const i64 bytes = piece[1].low - piece[0].low;
    buffer->area += bytes * (cycle - piece->begin);
    return bytes;
}

/* Add an access. Accesses come in order of start; at the same cycle, reads come first (_tenures). 0: no memory. */
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
    i64 more = high - low; /* than were held before, of these bytes */
    for (Piece *piece = &buffer->pieces[first]; piece->low < high; piece++) {
        if (piece[1].low > high) {
            const i64 at = piece - buffer->pieces;
            if (cut(buffer, at, high) < 0) return 0;
            piece = &buffer->pieces[at];
        }
        if (!writes) { /* a read of a piece without a write does not count */
            piece->last_read = retire > piece->last_read ? retire : piece->last_read;
            continue;
        }
        /* A read may still run (a hazard): tenures of one piece never overlap. */
        const i64 end = piece->last_read != NOTHING && piece->last_read < start ? piece->last_read : start;
        if (piece->begin != NOTHING) {
            const i64 bytes = leave(buffer, piece, end);
            if (end == start) more -= bytes;
            else if (!step(&buffer->falls, end, -bytes)) return 0;
        }
        piece->begin = start;
        piece->last_read = NOTHING;
        piece->retire = retire;
    }
    return !writes || step(&buffer->rises, start, more);
}

/* Return the end of the tenure of a piece if no access follows. */
static i64 last_use(const Piece *piece) { return piece->last_read != NOTHING ? piece->last_read : piece->retire; }

/* End all tenures, after the last access. 0: no memory. */
int buffer_end(Buffer *buffer) {
    for (Piece *piece = buffer->pieces; piece < &buffer->pieces[buffer->piece_count]; piece++) {
        const i64 end = last_use(piece);
        if (piece->begin != NOTHING && !step(&buffer->falls, end, -leave(buffer, piece, end))) return 0;
    }
    return 1;
}

/* Sort the falls (the rises come in order of start), and put a step that is never reached behind both. 0: no memory. */
static int in_order(Buffer *buffer) {
    Items *falls = &buffer->falls, *rises = &buffer->rises;
    if (!has_room(falls) || !has_room(rises)) return 0;
    Item *spare = malloc((size_t)falls->room * sizeof(Item));
    if (!spare) return 0;
    Item *const items = falls->items;
    falls->items = sorted(items, spare, falls->count);
    free(falls->items == items ? spare : items);
    falls->items[falls->count].key = rises->items[rises->count].key = INT64_MAX;
    return 1;
}

/* Return the sum of all rises and falls at this cycle, and pass them. */
static inline i64 steps_at(i64 cycle, const Item **rise, const Item **fall) {
    i64 bytes = 0;
    for (; (*rise)->key == cycle; (*rise)++) bytes += (*rise)->value;
    for (; (*fall)->key == cycle; (*fall)++) bytes += (*fall)->value;
    return bytes;
}

static inline i64 next_of(const Item *rise, const Item *fall) { return rise->key < fall->key ? rise->key : fall->key; }

/* Join the past: replace all steps by those between stretches. A stretch ends where the tenure of a piece may have ended.
 * Called between cycles: later accesses start after all earlier ones. A piece counts as held until the next write to it, so the
 * bytes held last are the most of all: no stretch begins behind the last step, and the rises stay in order. 0: no memory. */
int buffer_forget(Buffer *buffer) {
    Item *ends = malloc((size_t)(2 * buffer->piece_count + 1) * sizeof(Item));
    Items past = {0};
    i64 count = 0, held = 0, begin = INT64_MIN, before = 0;
    for (i64 p = 0; ends && p < buffer->piece_count; p++)
        if (buffer->pieces[p].begin != NOTHING) ends[count++].key = last_use(&buffer->pieces[p]);
    int done = ends && in_order(buffer);
    const Item *end = done ? sorted(ends, ends + count, count) : NULL, *rise = buffer->rises.items, *fall = buffer->falls.items;
    buffer->peak = 0;
    for (i64 k = 0; done && k <= count; k++) {
        const i64 edge = k < count ? end[k].key : INT64_MAX;
        i64 most = held;
        for (i64 cycle; (cycle = next_of(rise, fall)) < edge;) {
            held += steps_at(cycle, &rise, &fall);
            most = held > most ? held : most;
        }
        if (most != before) done = step(&past, begin, most - before);
        if (most > buffer->peak) buffer->peak = most;
        before = most;
        begin = edge;
        if (k < count) held += steps_at(edge, &rise, &fall);
    }
    free(ends);
    free(done ? buffer->rises.items : past.items);
    if (done) {
        buffer->rises = past;
        buffer->falls.count = 0;
        buffer->joined = past.count;
    }
    return done;
}

void buffer_free(Buffer *buffer) {
    free(buffer->pieces);
    free(buffer->rises.items);
    free(buffer->falls.items);
}
