/* GM bandwidth (../traffic.py): all active transfers of all cores share port, L2 and HBM, max-min fair, in integers. */
#include <stdlib.h>

#include "machine.h"

#define LATEST ((i64)1 << 61) /* the last cycle of a run (headroom.py) */
#define REBASE ((i64)1 << 60) /* what a class has served at most; the difference to its members' targets is all that counts */

static inline i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0); }

/* -- requests: a heap by (start, order) ------------------------------------------------------------------------------- */

static inline int before(const Transfer *a, const Transfer *b) {
    return a->start < b->start || (a->start == b->start && a->order < b->order);
}

static void push(Machine *machine, Transfer *transfer) {
    i64 i = machine->pending_count;
    machine->pending = grow(machine, machine->pending, &machine->pending_room, i + 1, sizeof(Transfer *));
    machine->pending_count++;
    Transfer **heap = machine->pending;
    while (i > 0 && before(transfer, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = transfer;
}

static Transfer *pop(Machine *machine) {
    Transfer **heap = machine->pending, *found = heap[0], *last = heap[--machine->pending_count];
    i64 i = 0;
    for (i64 child = 1; child < machine->pending_count; child = 2 * i + 1) {
        if (child + 1 < machine->pending_count && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return found;
}

static Transfer *new_transfer(Machine *machine) {
    Transfer *transfer = machine->unused;
    if (transfer) {
        machine->unused = transfer->next;
    } else {
        transfer = malloc(sizeof *transfer);
        if (!transfer) fail(machine, NO_MEMORY);
        transfer->all = machine->transfers;
        machine->transfers = transfer;
    }
    Transfer *all = transfer->all;
    *transfer = (Transfer){.all = all, .open = 1, .uses = 1};
    return transfer;
}

/* One of those who need it does so no longer. */
void release(Machine *machine, Transfer *transfer) {
    if (--transfer->uses) return;
    transfer->next = machine->unused;
    machine->unused = transfer;
}

/* A transfer that begins at cycle `start` (now or later); `order` breaks ties at one instant (Traffic.request). */
void request(Machine *machine, Core *core, int pipe, i64 start, i64 order, const Shape *shape, i64 first) {
    Transfer *transfer = new_transfer(machine);
    transfer->core = core;
    transfer->pipe = pipe;
    transfer->start = start;
    transfer->order = order;
    transfer->shape = shape;
    transfer->first = first;
    core->pipes[pipe].transfer = transfer;
    push(machine, transfer);
}

/* -- fills ------------------------------------------------------------------------------------------------------------ */

static int has_arrived(const Transfer *transfer, i64 now) { return !transfer->open && transfer->ready <= now; }

/* Drop the fills at the front whose lines have all arrived (Traffic._forget_fills). */
static void forget_fills(Machine *machine, i64 now) {
    while (machine->fill_head < machine->fill_end && has_arrived(machine->fills[machine->fill_head].transfer, now))
        release(machine, machine->fills[machine->fill_head++].transfer);
}

/* Room for one more fill; none is lost that anybody may still have to wait for. */
static void make_room_for_fill(Machine *machine, i64 now) {
    if (machine->fill_end < machine->fill_room) return;
    i64 kept = 0;
    for (i64 i = machine->fill_head; i < machine->fill_end; i++) {
        if (has_arrived(machine->fills[i].transfer, now)) release(machine, machine->fills[i].transfer);
        else machine->fills[kept++] = machine->fills[i];
    }
    machine->fill_head = 0;
    machine->fill_end = kept;
    machine->fills = grow(machine, machine->fills, &machine->fill_room, 2 * kept + 64, sizeof(Fill));
}

/* The fill that took in the line with this stamp, NULL if it has long arrived. */
static Fill *owner_of(Machine *machine, i64 stamp) {
    i64 low = machine->fill_head, high = machine->fill_end;
    if (low == high || stamp < machine->fills[low].begin) return NULL;
    while (high - low > 1) {
        i64 middle = (low + high) / 2;
        if (machine->fills[middle].begin <= stamp) low = middle;
        else high = middle;
    }
    return stamp < machine->fills[low].end ? &machine->fills[low] : NULL;
}

static Follower *new_follower(Machine *machine) {
    enum { BLOCK = 256 };
    if (!machine->spare) {
        i64 room = machine->follower_block_count;
        machine->follower_blocks = grow(machine, machine->follower_blocks, &room, room + 1, sizeof(Follower *));
        Follower *block = malloc(BLOCK * sizeof *block);
        if (!block) fail(machine, NO_MEMORY);
        machine->follower_blocks[machine->follower_block_count++] = block;
        for (int i = 0; i < BLOCK; i++) {
            block[i].next = machine->spare;
            machine->spare = &block[i];
        }
    }
    Follower *found = machine->spare;
    machine->spare = found->next;
    return found;
}

/* A reader that hits lines which are still on their way (`stamps` tell whose) cannot be done before they are there
 * (Traffic._await_fills). */
static void await_fills(Machine *machine, Transfer *transfer, const i64 *stamps, i64 count, i64 now) {
    forget_fills(machine, now);
    machine->asking++;
    i64 begin = 0, end = 0; /* of the owner of the line before: neighbours mostly have the same */
    for (i64 i = 0; i < count; i++) {
        if (begin <= stamps[i] && stamps[i] < end) continue;
        Fill *fill = owner_of(machine, stamps[i]);
        if (!fill) continue;
        begin = fill->begin;
        end = fill->end;
        if (fill->asked == machine->asking) continue;
        fill->asked = machine->asking;
        Transfer *owner = fill->transfer;
        if (!owner->open) {
            if (owner->ready > transfer->ready) transfer->ready = owner->ready;
            continue;
        }
        Follower *follower = new_follower(machine);
        *follower = (Follower){owner->followers, transfer};
        owner->followers = follower;
        transfer->open++;
    }
}

/* -- classes ---------------------------------------------------------------------------------------------------------- */

/* Make a transfer, of which HBM moves `m` bytes a byte, a member of the class of its like. */
static void join(Machine *machine, Transfer *transfer, i64 m, i64 weight) {
    const ShapeNumbers *shape = &transfer->shape->n;
    i64 c = 0;
    for (; c < machine->class_count; c++) {
        Class *one = &machine->classes[c];
        if (one->m == m && one->weight == weight && one->port == shape->port && one->direction == shape->direction) break;
    }
    if (c == machine->class_count) {
        machine->classes = grow(machine, machine->classes, &machine->class_room, c + 1, sizeof(Class));
        machine->class_count++;
        machine->classes[c] = (Class){.port = shape->port, .direction = shape->direction, .m = m, .weight = weight};
    }
    Class *kind = &machine->classes[c];
    transfer->target = kind->served + (shape->touched * machine->gm.line << FRACTION);
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

/* Progressive filling: raise all rates together, freeze whoever meets a limit, go on with the rest (Traffic._fill). */
static void share(Machine *machine) {
    i64 left_read = machine->gm.l2_read << FRACTION, left_write = machine->gm.l2_write, left_hbm = machine->gm.hbm << FRACTION;
    i64 unfrozen = machine->class_count;
    Class *classes = machine->classes, *behind = classes + machine->class_count;
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

/* How many of `lines`, read from now until that cycle, others are reading now, in eighths rounded down (Traffic._shared). */
static i64 shared_eighths(Machine *machine, Lines lines, i64 now, i64 until) {
    i64 met = 0;
    for (i64 i = 0; i < lines.count; i++) {
        i64 *seen = &machine->read_until[line_of(lines, i)];
        met += *seen > now;
        *seen = until;
    }
    return met * SHARED_STEPS / lines.count;
}

/* Begin a transfer: what its lines meet in the L2, and with it the class whose rate it gets (Traffic._start). */
static void start(Machine *machine, Transfer *transfer, i64 now) {
    const Shape *shape = transfer->shape;
    L2 *l2 = &machine->l2;
    const i64 count = shape->n.count, line = machine->gm.line;
    const Lines lines = shape->n.whole ? (Lines){transfer->first + shape->n.low, NULL, count}
                                       : (Lines){transfer->first, shape->offsets, count};
    i64 weight = (i64)1 << FRACTION, fetched, victims = 0, hits = 0;
    make_room_for_fill(machine, now); /* before the L2 changes: from here on nothing fails */
    machine->found = grow(machine, machine->found, &machine->found_room, count, sizeof(i64));
    transfer->stamp = l2->clock;
    if (shape->n.direction == READ) {
        if (machine->gm.same_line) {
            i64 until = now + (shape->n.touched * line << FRACTION) / shape->n.port;
            weight += floor_div(machine->gm.same_line * shared_eighths(machine, lines, now, until), SHARED_STEPS);
        }
        fetched = l2_read(l2, lines, shape->special, shape->n.specials, &victims, machine->found, &hits);
        if (hits) await_fills(machine, transfer, machine->found, hits, now);
    } else if (shape->n.direction == WRITE) {
        fetched = l2_write(l2, lines, shape->special, shape->n.specials, &victims);
    } else {
        fetched = l2_read(l2, lines, NULL, 0, &victims, machine->found, &hits);
        l2_write(l2, lines, NULL, 0, &victims);
    }
    if (l2->clock > transfer->stamp) {
        machine->fills[machine->fill_end++] = (Fill){transfer->stamp, l2->clock, 0, transfer};
        transfer->uses++;
    }
    transfer->misses = fetched;
    transfer->allocated = l2->clock - transfer->stamp;
    transfer->hits = count - (shape->n.direction == READ ? fetched : transfer->allocated);
    i64 moved = fetched + victims;
    transfer->hbm_bytes = moved * line;
    machine->hbm_bytes += transfer->hbm_bytes;
    join(machine, transfer, (moved << FRACTION) / shape->n.touched, weight);
}

/* Its own bytes, or those of a fill that it waits for, are through (Traffic._complete). */
static void complete(Machine *machine, Transfer *transfer, i64 now) {
    if (--transfer->open) return;
    if (transfer->misses && now + machine->gm.miss_latency > transfer->ready) transfer->ready = now + machine->gm.miss_latency;
    Core *core = transfer->core;
    core->pipes[transfer->pipe].over = now;
    core->wake |= (i64)1 << transfer->pipe;
    list_core(machine, core);
    Follower *follower = transfer->followers;
    transfer->followers = NULL;
    while (follower) {
        Follower *next = follower->next;
        Transfer *waiting = follower->transfer;
        follower->next = machine->spare;
        machine->spare = follower;
        if (transfer->ready > waiting->ready) waiting->ready = transfer->ready;
        complete(machine, waiting, now);
        follower = next;
    }
}

/* Complete every transfer that ends now; the cores that waited for them go on (Traffic._instant). */
void instant(Machine *machine, i64 now) {
    if (now > LATEST) fail(machine, CLOCK_OVERFLOW);
    const i64 elapsed = now - machine->now;
    machine->now = now;
    for (i64 c = 0; c < machine->class_count; c++) {
        Class *kind = &machine->classes[c];
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
            complete(machine, transfer, now);
        }
        if (kind->served > REBASE) {
            for (Transfer *member = kind->head; member; member = member->next) member->target -= kind->served;
            kind->served = 0;
        }
    }
    advance_listed(machine);
    machine->next = machine->pending_count ? machine->pending[0]->start : NEVER;
}

/* Start what is due, share the bandwidth anew; `next` is then the next start or completion (Traffic._settle). */
void settle(Machine *machine) {
    const i64 now = machine->now;
    while (machine->pending_count && machine->pending[0]->start <= now) start(machine, pop(machine), now);
    for (i64 c = machine->class_count; c-- > 0;)
        if (!machine->classes[c].members) machine->classes[c] = machine->classes[--machine->class_count];
    share(machine);
    i64 upcoming = machine->pending_count ? machine->pending[0]->start : NEVER;
    for (i64 c = 0; c < machine->class_count; c++) {
        Class *kind = &machine->classes[c];
        i64 over = now + (kind->head->target - kind->served + kind->rate - 1) / kind->rate;
        if (over < upcoming) upcoming = over;
    }
    machine->next = upcoming;
}
