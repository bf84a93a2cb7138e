/* GM bandwidth (../traffic.py): all active transfers of all cores share port, L2 and HBM, max-min fair, in integers. Why in
 * classes: docs/design.md, "GM transfers in classes"; words in quotes behind the name of a twin are sections of that page. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#define LATEST ((i64)1 << 61) /* the last cycle of a run (headroom.py) */
#define REBASE ((i64)1 << 60) /* limit of `served`; only its difference to the targets of the members counts */

static inline i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0); }

/* -- requests: a heap by (start, order) ------------------------------------------------------------------------------- */

static inline int before(const Transfer *a, const Transfer *b) {
    return a->start < b->start || (a->start == b->start && a->order < b->order);
}

static void push(Traffic *traffic, Transfer *transfer) {
    i64 i = traffic->pending_count;
    traffic->pending = grow(traffic->way_out, traffic->pending, &traffic->pending_room, i + 1, sizeof(Transfer *));
    traffic->pending_count++;
    Transfer **heap = traffic->pending;
    while (i > 0 && before(transfer, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = transfer;
}

static Transfer *pop(Traffic *traffic) {
    Transfer **heap = traffic->pending, *found = heap[0], *last = heap[--traffic->pending_count];
    i64 i = 0;
    for (i64 child = 1; child < traffic->pending_count; child = 2 * i + 1) {
        if (child + 1 < traffic->pending_count && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return found;
}

static Transfer *new_transfer(Traffic *traffic) {
    Transfer *transfer = traffic->unused;
    if (transfer) {
        traffic->unused = transfer->next;
    } else {
        transfer = malloc(sizeof *transfer);
        if (!transfer) fail(traffic->way_out, NO_MEMORY);
        transfer->all = traffic->transfers;
        traffic->transfers = transfer;
    }
    Transfer *all = transfer->all;
    *transfer = (Transfer){.all = all, .open = 1, .uses = 1};
    return transfer;
}

/* Give up one use of a transfer; the last one returns it to the unused. */
void release(Traffic *traffic, Transfer *transfer) {
    if (--transfer->uses) return;
    transfer->next = traffic->unused;
    traffic->unused = transfer;
}

/* Prefetch block and stamps of the first lines, which have mostly left the processor's cache; their use comes later. */
static inline void fetch_early(const Traffic *traffic, const Shape *shape, i64 first) {
    enum { OF_ONE = 8, SOME = 4 * OF_ONE }; /* stamps in a line of that cache; its own prefetching brings the rest */
    const i64 low = first + shape->runs[0].low, end = first + shape->runs[0].end;
    __builtin_prefetch(&traffic->l2.blocks[low >> BLOCK_SHIFT], 1);
    for (i64 line = low; line < end && line < low + SOME; line += OF_ONE) __builtin_prefetch(&traffic->l2.stamp[line], 1);
}

/* Request a transfer that begins at cycle `start` (now or later); `order` breaks ties at one instant (Traffic.request). */
Transfer *request(Traffic *traffic, i64 start, i64 order, const Shape *shape, i64 first) {
    Transfer *transfer = new_transfer(traffic);
    transfer->start = start;
    transfer->order = order;
    transfer->shape = shape;
    transfer->first = first;
    fetch_early(traffic, shape, first);
    push(traffic, transfer);
    return transfer;
}

/* Move the next instant forward to the first requested start. */
void hurry(Traffic *traffic) {
    if (traffic->pending_count && traffic->pending[0]->start < traffic->next) traffic->next = traffic->pending[0]->start;
}

/* -- fills ------------------------------------------------------------------------------------------------------------ */

static int has_arrived(const Transfer *transfer, i64 now) { return !transfer->open && transfer->ready <= now; }

/* Drop the fills at the front whose lines have all arrived (Traffic._forget_fills; "GM transfers in classes"). */
static void forget_fills(Traffic *traffic, i64 now) {
    while (traffic->fill_head < traffic->fill_end && has_arrived(traffic->fills[traffic->fill_head].transfer, now))
        release(traffic, traffic->fills[traffic->fill_head++].transfer);
}

/* Make room for one more fill; only fills that have arrived are dropped. */
static void make_room_for_fill(Traffic *traffic, i64 now) {
    if (traffic->fill_end < traffic->fill_room) return;
    i64 kept = 0;
    for (i64 i = traffic->fill_head; i < traffic->fill_end; i++) {
        if (has_arrived(traffic->fills[i].transfer, now)) release(traffic, traffic->fills[i].transfer);
        else traffic->fills[kept++] = traffic->fills[i];
    }
    traffic->fill_head = 0;
    traffic->fill_end = kept;
    traffic->fills = grow(traffic->way_out, traffic->fills, &traffic->fill_room, 2 * kept + 64, sizeof(Fill));
}

/* Return the fill that brings in the line with this stamp; NULL if it has long arrived. */
static Fill *owner_of(Traffic *traffic, i64 stamp) {
    i64 low = traffic->fill_head, high = traffic->fill_end;
    if (low == high || stamp < traffic->fills[low].begin) return NULL;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (traffic->fills[middle].begin <= stamp) low = middle;
        else high = middle;
    }
    return stamp < traffic->fills[low].end ? &traffic->fills[low] : NULL;
}

static Follower *new_follower(Traffic *traffic) {
    enum { MANY = 256 };
    if (!traffic->spare) {
        i64 room = traffic->follower_block_count;
        traffic->follower_blocks = grow(traffic->way_out, traffic->follower_blocks, &room, room + 1, sizeof(Follower *));
        Follower *block = malloc(MANY * sizeof *block);
        if (!block) fail(traffic->way_out, NO_MEMORY);
        traffic->follower_blocks[traffic->follower_block_count++] = block;
        for (int i = 0; i < MANY; i++) {
            block[i].next = traffic->spare;
            traffic->spare = &block[i];
        }
    }
    Follower *found = traffic->spare;
    traffic->spare = found->next;
    return found;
}

/* Let a reader that hits lines of unfinished fills wait for these; `stamps` are those of the lines
 * (Traffic._await_fills; "GM transfers in classes"). */
static void await_fills(Traffic *traffic, Transfer *transfer, const i64 *stamps, i64 count) {
    traffic->asking++;
    i64 begin = 0, end = 0; /* of the fill of the line before: neighbours mostly share it */
    for (i64 i = 0; i < count; i++) {
        if (begin <= stamps[i] && stamps[i] < end) continue;
        Fill *fill = owner_of(traffic, stamps[i]);
        if (!fill) continue;
        begin = fill->begin;
        end = fill->end;
        if (fill->asked == traffic->asking) continue;
        fill->asked = traffic->asking;
        Transfer *owner = fill->transfer;
        if (!owner->open) {
            if (owner->ready > transfer->ready) transfer->ready = owner->ready;
            continue;
        }
        Follower *follower = new_follower(traffic);
        *follower = (Follower){owner->followers, transfer};
        owner->followers = follower;
        transfer->open++;
    }
}

/* -- classes ---------------------------------------------------------------------------------------------------------- */

/* Add a transfer to its class; HBM moves `m` bytes for each byte of it. */
static void join(Traffic *traffic, Transfer *transfer, i64 m, i64 weight) {
    const ShapeNumbers *shape = &transfer->shape->n;
    i64 c = 0;
    for (; c < traffic->class_count; c++) {
        Class *one = &traffic->classes[c];
        if (one->m == m && one->weight == weight && one->port == shape->port && one->direction == shape->direction) break;
    }
    if (c == traffic->class_count) {
        traffic->classes = grow(traffic->way_out, traffic->classes, &traffic->class_room, c + 1, sizeof(Class));
        traffic->class_count++;
        traffic->classes[c] = (Class){.port = shape->port, .direction = shape->direction, .m = m, .weight = weight};
    }
    Class *kind = &traffic->classes[c];
    transfer->target = kind->served + (shape->touched * traffic->gm.line << FRACTION);
    transfer->l2 = kind->l2;
    transfer->hbm = kind->hbm;
    Transfer *earlier = kind->tail; /* equal targets stay in the order in which they began */
    while (earlier && earlier->target > transfer->target) earlier = earlier->previous;
    Transfer *later = earlier ? earlier->next : kind->head;
    transfer->previous = earlier;
    transfer->next = later;
    *(earlier ? &earlier->next : &kind->head) = transfer;
    *(later ? &later->previous : &kind->tail) = transfer;
    kind->members++;
}

static inline i64 reads(const Class *kind) { return kind->direction != WRITE ? kind->weight : 0; }
static inline i64 writes(const Class *kind) { return kind->direction != READ; }

static inline i64 rest(i64 left, i64 taken) { return left > taken ? left - taken : 0; }

/* Progressive filling: raise all rates together, freeze the classes that meet a limit, go on with the rest (Traffic._fill; "GM
 * transfers in classes"). */
static void share(Traffic *traffic) {
    i64 left_read = traffic->gm.l2_read << FRACTION, left_write = traffic->gm.l2_write, left_hbm = traffic->gm.hbm << FRACTION;
    i64 unfrozen = traffic->class_count;
    Class *classes = traffic->classes, *behind = classes + traffic->class_count;
    for (Class *kind = classes; kind < behind; kind++) kind->frozen = 0;
    while (unfrozen) {
        i64 lowest = NEVER, readers = 0, writers = 0, misses = 0;
        for (Class *kind = classes; kind < behind; kind++) {
            if (kind->frozen) continue;
            if (kind->port < lowest) lowest = kind->port;
            readers += reads(kind) * kind->members;
            writers += writes(kind) * kind->members;
            misses += kind->m * kind->members;
        }
        i64 level = lowest, limit = PORT;
        if (readers && left_read / readers < level) level = left_read / readers, limit = L2_SHARE;
        if (writers && left_write / writers < level) level = left_write / writers, limit = L2_SHARE;
        if (misses && left_hbm / misses < level) level = left_hbm / misses, limit = HBM_SHARE;
        int read_bound = limit == L2_SHARE && readers && left_read / readers <= level;
        if (level < 1) level = 1;
        for (Class *kind = classes; kind < behind; kind++) {
            if (kind->frozen) continue;
            if (limit == PORT) kind->frozen = kind->port == lowest;
            else if (limit == HBM_SHARE) kind->frozen = kind->m > 0;
            else kind->frozen = read_bound ? reads(kind) > 0 : writes(kind);
            if (!kind->frozen) continue;
            unfrozen--;
            kind->rate = level;
            kind->limit = limit;
            i64 taken = level * kind->members;
            left_read = rest(left_read, taken * reads(kind));
            left_write = rest(left_write, taken * writes(kind));
            left_hbm = rest(left_hbm, taken * kind->m);
        }
    }
}

/* -- the model -------------------------------------------------------------------------------------------------------- */

/* Note that some lines of a block are read from now to cycle `until`; return the count of those that others read now. If the
 * block has no other readers, or only of these lines, one cycle serves the block, and the lines' own cycles are not read. */
static i64 meet_readers(Traffic *traffic, i64 line, i64 end, i64 now, i64 until) {
    Block *block = &traffic->l2.blocks[line >> BLOCK_SHIFT];
    const i64 low = line & ~(i64)(BLOCK - 1);
    const uint32_t asked = UINT32_MAX >> (BLOCK - (end - line)) << (line - low);
    const uint32_t read = block->until > now ? block->read : 0;
    if (block->until <= now || (read && (!(read & ~asked) || block->until == until))) {
        block->until = until;
        block->read = read | asked;
        return __builtin_popcount(read & asked);
    }
    const i64 high = read ? next_block(low, traffic->l2.reach) : low;
    i64 *own = traffic->read_until, met = 0;
    for (i64 i = low; i < high; i++) own[i] = read >> (i - low) & 1 ? block->until : 0;
    for (i64 i = line; i < end; i++) {
        met += own[i] > now;
        own[i] = until;
    }
    block->until = until > block->until ? until : block->until;
    block->read = 0;
    return met;
}

/* Note that `lines` are read from now to cycle `until`; return the share of them that others read now, in eighths rounded down
 * (Traffic._shared; "GM transfers in classes"). */
static i64 shared_eighths(Traffic *traffic, Lines lines, i64 now, i64 until) {
    i64 met = 0;
    for (const Run *run = lines.runs; run < lines.runs + lines.run_count; run++)
        for (i64 line = lines.first + run->low, next; line < lines.first + run->end; line = next) {
            next = next_block(line, lines.first + run->end);
            met += meet_readers(traffic, line, next, now, until);
        }
    return met * SHARED_STEPS / lines.count;
}

/* Begin a transfer: look its lines up in the L2, and add it to the class for its rate (Traffic._start; "GM transfers in
 * classes"). */
static void start(Traffic *traffic, Transfer *transfer, i64 now) {
    const Shape *shape = transfer->shape;
    L2 *l2 = &traffic->l2;
    const i64 count = shape->n.count, line = traffic->gm.line;
    const Lines lines = {transfer->first, count, shape->run_count, shape->runs};
    i64 weight = (i64)1 << FRACTION, fetched, driven_out = 0, victims = 0, hits = 0; /* dirty lines that reads drive out, and that writes do */
    make_room_for_fill(traffic, now); /* before the L2 changes: from here on nothing fails */
    traffic->found = grow(traffic->way_out, traffic->found, &traffic->found_room, count, sizeof(i64));
    transfer->stamp = l2->clock;
    if (shape->n.direction == READ) {
        if (traffic->gm.same_line) {
            i64 until = now + (shape->n.touched * line << FRACTION) / shape->n.port;
            weight += floor_div(traffic->gm.same_line * shared_eighths(traffic, lines, now, until), SHARED_STEPS);
        }
        forget_fills(traffic, now);
        const i64 since = traffic->fill_head < traffic->fill_end ? traffic->fills[traffic->fill_head].begin : NEVER;
        fetched = l2_read(l2, lines, shape->special, shape->n.specials, since, &driven_out, traffic->found, &hits);
        if (hits) await_fills(traffic, transfer, traffic->found, hits);
    } else if (shape->n.direction == WRITE) {
        fetched = l2_write(l2, lines, shape->special, shape->n.specials, &victims);
    } else {
        fetched = l2_read(l2, lines, NULL, 0, NEVER, &driven_out, traffic->found, &hits);
        l2_write(l2, lines, NULL, 0, &victims);
    }
    if (l2->clock > transfer->stamp) {
        traffic->fills[traffic->fill_end++] = (Fill){transfer->stamp, l2->clock, 0, transfer};
        transfer->uses++;
    }
    transfer->misses = fetched;
    transfer->allocated = l2->clock - transfer->stamp;
    transfer->hits = count - (shape->n.direction == WRITE ? transfer->allocated : fetched);
    const i64 moved = (fetched + victims << FRACTION) + driven_out * traffic->gm.write_back;
    transfer->hbm_bytes = (fetched + victims + driven_out) * line;
    traffic->hbm_bytes += transfer->hbm_bytes;
    join(traffic, transfer, moved / shape->n.touched, weight);
}

/* Count the end of its own bytes, or of a fill that it waits for (Traffic._complete; "GM transfers in classes"). */
static void complete(Traffic *traffic, Transfer *transfer, i64 now) {
    if (--transfer->open) return;
    if (transfer->misses && now + traffic->gm.miss_latency > transfer->ready) transfer->ready = now + traffic->gm.miss_latency;
    transfer->next = traffic->over;
    traffic->over = transfer;
    Follower *follower = transfer->followers;
    transfer->followers = NULL;
    while (follower) {
        Follower *next = follower->next;
        Transfer *waiting = follower->transfer;
        follower->next = traffic->spare;
        traffic->spare = follower;
        if (transfer->ready > waiting->ready) waiting->ready = transfer->ready;
        complete(traffic, waiting, now);
        follower = next;
    }
}

/* Complete every transfer that ends at cycle `now` (Traffic._instant; "GM transfers in classes"). They come linked by `next`;
 * the cores that waited for them go on before `settle`, which finds the next instant. */
Transfer *instant(Traffic *traffic, i64 now) {
    if (now > LATEST) fail(traffic->way_out, CLOCK_OVERFLOW);
    const i64 elapsed = now - traffic->now;
    traffic->now = now;
    for (i64 c = 0; c < traffic->class_count; c++) {
        Class *kind = &traffic->classes[c];
        kind->served += kind->rate * elapsed;
        if (kind->limit == HBM_SHARE) kind->hbm += elapsed;
        else if (kind->limit == L2_SHARE) kind->l2 += elapsed;
        while (kind->head && kind->head->target <= kind->served) {
            Transfer *transfer = kind->head;
            kind->head = transfer->next;
            *(kind->head ? &kind->head->previous : &kind->tail) = NULL;
            kind->members--;
            transfer->wait_l2 = kind->l2 - transfer->l2;
            transfer->wait_hbm = kind->hbm - transfer->hbm;
            complete(traffic, transfer, now);
        }
        if (kind->served > REBASE) {
            for (Transfer *member = kind->head; member; member = member->next) member->target -= kind->served;
            kind->served = 0;
        }
    }
    traffic->next = NEVER;
    Transfer *over = traffic->over;
    traffic->over = NULL;
    return over;
}

/* Start the transfers that are due, share the bandwidth anew; `next` is then the next start or completion (Traffic._settle;
 * "GM transfers in classes"). */
void settle(Traffic *traffic) {
    const i64 now = traffic->now;
    while (traffic->pending_count && traffic->pending[0]->start <= now) start(traffic, pop(traffic), now);
    for (i64 c = traffic->class_count; c-- > 0;)
        if (!traffic->classes[c].members) traffic->classes[c] = traffic->classes[--traffic->class_count];
    share(traffic);
    traffic->next = NEVER;
    hurry(traffic);
    for (i64 c = 0; c < traffic->class_count; c++) {
        Class *kind = &traffic->classes[c];
        i64 over = now + (kind->head->target - kind->served + kind->rate - 1) / kind->rate;
        if (over < traffic->next) traffic->next = over;
    }
}

/* -- its memory ------------------------------------------------------------------------------------------------------- */

/* Use the memory of an L2Cache, and `read_until` for the cycles until which lines are read; `clock` is used only the first
 * time. */
void lend_l2(Traffic *traffic, i64 *stamp, i64 *read_until, i64 reach, uint8_t *dirty, i64 capacity, i64 clock) {
    const L2 *known = &traffic->l2;
    const i64 count = (reach + BLOCK - 1) >> BLOCK_SHIFT;
    Block *blocks = zeros(traffic->way_out, count, sizeof(Block));
    i64 had = 0;
    if (known->blocks) {
        clock = known->clock;
        had = (known->reach + BLOCK - 1) >> BLOCK_SHIFT;
        memcpy(blocks, known->blocks, (size_t)had * sizeof(Block));
    }
    if (known->blocks || clock == 2 * capacity) /* new lines, or all of an L2 that is cold: their stamps are 0 */
        for (i64 i = had; i < count; i++) blocks[i].behind = 1;
    free(known->blocks);
    traffic->l2 = (L2){stamp, dirty, reach, capacity, clock, blocks};
    traffic->read_until = read_until;
}

void free_traffic(Traffic *traffic) {
    while (traffic->transfers) {
        Transfer *transfer = traffic->transfers;
        traffic->transfers = transfer->all;
        free(transfer);
    }
    for (i64 i = 0; i < traffic->follower_block_count; i++) free(traffic->follower_blocks[i]);
    free(traffic->follower_blocks);
    free(traffic->pending);
    free(traffic->classes);
    free(traffic->fills);
    free(traffic->found);
    free(traffic->l2.blocks);
}
