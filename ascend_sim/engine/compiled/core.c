/* One program on one core (../core.py, CoreRun): the scalar unit issues, the pipes work, each as far ahead as it knows its
 * inputs. The columns `stall` and `cause` are written here too (../timeline.py, stall_columns). */
#include "core.h"

#include "hazards.h"

#include <stdlib.h>

/* Something that Python has to hear of; `at` is the instruction with which it happens, NULL for none. */
static void tell(Cores *cores, enum happening what, const Core *core, i64 pipe, const Instruction *at, i64 time) {
    cores->events = grow(cores->way_out, cores->events, &cores->event_room, cores->event_end + 1, sizeof(Event));
    cores->events[cores->event_end++] = (Event){what, core->program.number, pipe, at ? at - core->table->instructions : -1, time};
}

static const Shape *shape_of(const Core *core, i64 row, i64 *first) {
    const Table *table = core->table;
    const i64 *columns = row_at(&core->rows, row), line = table->numbers.line;
    const i64 address = address_of(&core->program, columns[table->instructions[columns[0]].operand]);
    *first = address / line;
    return table->shapes[table->shape_of[columns[0]][address % line]];
}

/* -- flags ------------------------------------------------------------------------------------------------------------ */

static inline i64 nth(const Ring *ring, i64 n) { return ring->items[n & (ring->room - 1)]; }

/* Room for the n-th number beside those from `needed` on. */
static void widen(Cores *cores, Ring *ring, i64 n, i64 needed) {
    Ring more = {NULL, 0};
    more.items = grow(cores->way_out, NULL, &more.room, ring->room ? 2 * ring->room : 8, sizeof(i64));
    for (i64 i = needed; i < n; i++) more.items[i & (more.room - 1)] = nth(ring, i);
    free(ring->items);
    *ring = more;
}

/* The n-th number; those from `needed` on are kept. */
static inline void put(Cores *cores, Ring *ring, i64 n, i64 needed, i64 number) {
    if (n - needed >= ring->room) widen(cores, ring, n, needed);
    ring->items[n & (ring->room - 1)] = number;
}

/* A set that arrives at this cycle; too early if the wait before it by as many as the flag counts was not over when it retired. */
static void raise(Cores *cores, const CoreNumbers *numbers, Flag *flag, i64 arrives) {
    const i64 n = flag->raised++, full = n - numbers->flag_max;
    put(cores, &flag->sets, n, flag->lowered < n ? flag->lowered : n, arrives);
    if (full >= 0 && full < flag->lowered && nth(&flag->taken, full) > arrives - numbers->flag_latency) flag->overflowed = 1;
}

/* A wait that is over at this cycle. */
static void lower(Cores *cores, const CoreNumbers *numbers, Flag *flag, i64 over) {
    const i64 n = flag->lowered++, behind = n + numbers->flag_max, needed = flag->raised - numbers->flag_max;
    put(cores, &flag->taken, n, needed < 0 ? 0 : needed < n ? needed : n, over);
    if (behind < flag->raised && over > nth(&flag->sets, behind) - numbers->flag_latency) flag->overflowed = 1;
}

/* -- pipes ------------------------------------------------------------------------------------------------------------ */

/* What the columns have of every row; what they have of a transfer besides, the transfer knows. */
typedef struct {
    i64 start, end, retire, stall, cause;
} Times;

static inline void keep(const Program *program, i64 row, Times times, const Transfer *moved) {
    program->start[row] = times.start;
    program->end[row] = times.end;
    program->retire[row] = times.retire;
    program->stall[row] = times.stall;
    program->cause[row] = times.cause;
    if (!moved) return;
    program->l2_wait[row] = moved->wait_l2;
    program->hbm_wait[row] = moved->wait_hbm;
    program->l2_hits[row] = moved->hits;
    program->l2_misses[row] = moved->allocated;
    program->hbm_bytes[row] = moved->hbm_bytes;
}

static void show(Cores *cores, const Core *core, const Instruction *instruction, i64 row, Times times, const Transfer *moved) {
    i64 all[TIMES] = {times.start, times.end, times.retire, times.stall, times.cause};
    if (moved) {
        all[5] = moved->wait_l2;
        all[6] = moved->wait_hbm;
        all[7] = moved->hits;
        all[8] = moved->allocated;
        all[9] = moved->hbm_bytes;
    }
    if (core->kept && !kept_row(core->kept, row, all, moved ? TIMES : CAUSE_TIME + 1)) fail(cores->way_out, NO_MEMORY);
    if (!watch_row(core->watch, instruction, row, all)) fail(cores->way_out, NO_MEMORY);
}

/* A row is over: its times go where the columns are kept, and to whoever watches. `moved`: the transfer that it was in a GM which
 * is shared, else NULL. */
static inline void row_is_over(
    Cores *cores, const Core *core, const Instruction *instruction, i64 row, Times times, const Transfer *moved
) {
    if (core->program.start) keep(&core->program, row, times, moved);
    if (core->watch) show(cores, core, instruction, row, times, moved);
}

static inline i64 later(i64 a, i64 b) { return a > b ? a : b; }

/* Work off the queue of pipe `p` in order (CoreRun._pipe); returns a mask of the units of this core to call. A pipe that slept
 * begins its row anew, and comes as far by the same numbers. */
static i64 run_pipe(Cores *cores, Core *core, int p) {
    Pipe *pipe = &core->pipes[p];
    const Table *table = core->table;
    const CoreNumbers *numbers = &table->numbers;
    const Instruction *instructions = table->instructions;
    Issued *queue = pipe->queue;
    i64 *retired = pipe->retired;
    const i64 issued = pipe->issued, mask = pipe->mask, limit = pipe->limit;
    i64 free = pipe->free, busy_until = pipe->busy_until, last_retire = pipe->last_retire, known = pipe->known;
    i64 position = pipe->position, oldest = pipe->oldest, asleep = IDLE, wake = 0;
    for (; position != issued; position++) {
        Issued *head = &queue[position & mask];
        const Instruction *instruction = instructions + head->instruction;
        i64 t = later(head->time, free), begun = t;
        i64 gap = t - free; /* how long the pipe stood still before this row */
        i64 cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE, retires;
        i64 leaves = t; /* its queue, or later, when the flag of an earlier wait comes in */
        Transfer *moved = NULL;
        switch (instruction->kind) {
        case LOCAL:
        case TRANSFER: {
            i64 latency = instruction->latency;
            if (retired[oldest] > t) { /* too many in flight */
                cause = gap == 0 ? OUTSTANDING : NOTHING_TO_DO;
                begun = leaves = t = retired[oldest];
                gap = t - free;
            }
            t += t > busy_until ? instruction->first : instruction->stream;
            if (instruction->kind == TRANSFER) {
                i64 first;
                const Shape *shape = shape_of(core, head->row, &first);
                moved = pipe->transfer; /* that is over */
                if (!cores->traffic->gm.shared) {
                    t += shape->n.port_cycles;
                } else if (!moved) {
                    pipe->transfer = request(cores->traffic, t, core->program.order * PIPES + p, shape, first);
                    pipe->transfer->core = core;
                    pipe->transfer->pipe = p;
                    pipe->begun = begun;
                    head->left = later(leaves, known);
                    asleep = MOVING;
                    goto asleep;
                } else {
                    t = pipe->over;
                    if (moved->ready > t) latency += moved->ready - t;
                }
            }
            free = busy_until = t;
            retires = last_retire = later(last_retire, t + latency);
            retired[oldest] = last_retire;
            if (++oldest == limit) oldest = 0;
            break;
        }
        case SET: {
            free = t;
            retires = later(last_retire, t);
            raise(cores, numbers, &core->flags[instruction->other], retires + numbers->flag_latency);
            if (core->pipes[instruction->waiter].state == ON_FLAG) wake |= (i64)1 << instruction->waiter;
            break;
        }
        case WAIT: {
            Flag *flag = &core->flags[instruction->other];
            if (flag->raised <= flag->lowered) {
                pipe->begun = begun;
                asleep = ON_FLAG;
                goto asleep;
            }
            i64 arrived = nth(&flag->sets, flag->lowered);
            if (instruction->first) { /* its lead */
                known = later(known, arrived);
                arrived -= instruction->first;
            }
            if (arrived > t) {
                if (!instruction->stream) { /* it is not at work */
                    if (arrived - t >= gap) cause = FLAG; /* the longer part names the cause */
                    gap += arrived - t;
                }
                t = arrived;
            }
            lower(cores, numbers, flag, t);
            free = leaves = t;
            retires = later(t, known);
            break;
        }
        case BARRIER: {
            t = later(t, last_retire) + numbers->barrier_latency;
            if (t > begun && t - begun >= gap) cause = PIPE_BUSY;
            gap += t - begun;
            free = retires = t;
            break;
        }
        case DISARMED: {
            lower(cores, numbers, &core->flags[instruction->other], t);
            free = retires = t;
            break;
        }
        case CROSS_SET:
            free = t;
            retires = later(last_retire, t);
            tell(cores, RAISES, core, p, instruction, retires);
            break;
        case CROSS_WAIT: {
            if (pipe->state != ON_CROSS) {
                tell(cores, instruction->other ? WAITS : PASSES_BY, core, p, instruction, t);
                pipe->over = t;
                if (instruction->other) {
                    pipe->begun = begun;
                    asleep = ON_CROSS;
                    goto asleep;
                }
            }
            pipe->state = IDLE;
            const i64 held = pipe->over - t;
            if (held > 0 && held >= gap) cause = CROSS_CORE;
            gap += held;
            free = leaves = retires = pipe->over;
            break;
        }
        default: /* scalar work is not issued to a pipe */
            fail(cores->way_out, BAD_ROW);
        }
        head->left = later(leaves, known);
        row_is_over(cores, core, instruction, head->row, (Times){begun, free, retires, gap, cause}, moved);
        if (moved) {
            release(cores->traffic, moved);
            pipe->transfer = NULL;
        }
    }
asleep:
    pipe->free = free, pipe->busy_until = busy_until, pipe->last_retire = last_retire, pipe->known = known;
    pipe->position = position, pipe->oldest = oldest, pipe->state = asleep;
    const i64 left = position + (asleep == MOVING), more = left > pipe->left;
    pipe->left = left;
    if (core->state == WANTS && core->want == p && more) wake |= 1 << S;
    if (core->state == DRAINS && asleep == IDLE) wake |= 1 << S;
    return wake;
}

/* The cycle by which the pipes of `mask` have worked off all that was issued to them, -1 while they have not. */
static i64 drained(const Core *core, i64 mask) {
    i64 over = core->program.begin;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        if (!(mask >> p & 1)) continue;
        if (pipe->position != pipe->issued) return -1;
        if (pipe->free > over) over = pipe->free;
        if (pipe->last_retire > over) over = pipe->last_retire;
    }
    return over;
}

/* The first row that somebody may still ask for. */
static i64 first_needed(const Core *core) {
    i64 first = core->row;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        if (pipe->position == pipe->issued) continue;
        const i64 row = pipe->queue[pipe->position & pipe->mask].row;
        if (row < first) first = row;
    }
    const i64 waiting = core->watch ? watch_first(core->watch) : first;
    return waiting < first ? waiting : first;
}

/* The pipes to which something was issued since they slept (CoreRun._wake_pipes). */
static i64 to_wake(const Core *core) {
    i64 pipes = 0;
    for (int p = 1; p < PIPES; p++)
        if (core->pipes[p].state == IDLE && core->pipes[p].position != core->pipes[p].issued) pipes |= (i64)1 << p;
    return pipes;
}

/* Rows are read once, from memory that has long left the caches: so many rows before they are asked for, they are sent for. */
enum { AHEAD = 32 };

/* Issue in order; each instruction costs its issue time and a free place in the queue of its pipe (CoreRun._scalar). */
static i64 run_scalar(Cores *cores, Core *core) {
    const i64 count = core->program.count, issue = core->program.issue;
    const Instruction *instructions = core->table->instructions;
    i64 row = core->row, t = core->t, state = core->state == DRAINS ? DRAINS : RUNNING, queue_full = 0;
    i64 behind = rows_behind(&core->rows);
    const i64 *columns = row < behind ? row_at(&core->rows, row) : NULL;
    for (; row < count; row++, columns += COLUMNS) {
        if (row == behind) {
            core->row = row;
            rows_forget(&core->rows, first_needed(core));
            if (!rows_go_on(&core->rows)) fail(cores->way_out, NO_MEMORY);
            behind = rows_behind(&core->rows);
            columns = row_at(&core->rows, row);
        }
        __builtin_prefetch(columns + AHEAD * COLUMNS);
        const Instruction *instruction = instructions + columns[0];
        if (instruction->pipe != S) {
            Pipe *pipe = &core->pipes[instruction->pipe];
            const i64 n = pipe->issued, depth = pipe->depth, mask = pipe->mask;
            if (n >= pipe->left + depth) {
                state = WANTS;
                core->want = instruction->pipe;
                break;
            }
            t += issue;
            const i64 place = pipe->queue[(n - depth) & mask].left;
            if (place > t) {
                queue_full += place - t;
                t = place;
            }
            Issued *last = &pipe->queue[n & mask];
            last->time = t;
            last->row = row;
            last->instruction = columns[0];
            pipe->issued = n + 1;
            continue;
        }
        i64 held = 0;
        if (instruction->kind == BARRIER_ALL) {
            if (state != DRAINS) {
                core->begun = t;
                t += issue;
            }
            i64 over = drained(core, instruction->other);
            if (over < 0) {
                state = DRAINS;
                break;
            }
            state = RUNNING;
            held = (over > t ? over - t : 0) + core->table->numbers.barrier_latency;
            t += held;
        } else {
            core->begun = t;
            t += issue + instruction->other;
        }
        row_is_over(cores, core, instruction, row, (Times){core->begun, t, t, held, held ? PIPE_BUSY : NO_CAUSE}, NULL);
    }
    core->row = row, core->t = t, core->queue_full += queue_full;
    core->state = row == count ? ISSUED : state;
    return to_wake(core);
}

/* The cycle before which no row of this core starts that is not over yet. */
static i64 horizon(const Core *core) {
    i64 least = NEVER;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        i64 next = pipe->free;
        if (pipe->state != IDLE) next = pipe->begun;
        else if (pipe->position == pipe->issued && core->state == ISSUED) next = NEVER;
        else if (pipe->position == pipe->issued && core->t > next) next = core->t;
        if (next < least) least = next;
    }
    return least;
}

/* Let a core compute ahead for as long as it knows its inputs (CoreRun.run). */
static void advance(Cores *cores, Core *core) {
    core->in_list = 0;
    i64 wake = core->wake;
    core->wake = 0;
    while (wake) {
        if (wake >> 1) { /* pipes first: the scalar unit then issues many instructions at one go */
            int p = __builtin_ctzll((uint64_t)wake & ~(uint64_t)1);
            wake &= ~((i64)1 << p);
            wake |= run_pipe(cores, core, p);
        } else {
            wake = core->state == ISSUED ? 0 : run_scalar(cores, core);
        }
    }
    if (core->watch && watch_is_full(core->watch) && !watch_work_off(core->watch, horizon(core))) fail(cores->way_out, NO_MEMORY);
    if (core->state != ISSUED) return;
    i64 over = drained(core, ((i64)1 << PIPES) - 2);
    if (over < 0) return;
    core->state = OVER;
    core->finish = over > core->t ? over : core->t;
    if (core->watch && !watch_end(core->watch)) fail(cores->way_out, NO_MEMORY);
    tell(cores, FINISHED, core, S, NULL, core->finish);
}

/* Look at what all cores did in the GM, as far as nothing can come before it; blocks still to come begin now or later. */
static void watch_gm(Cores *cores) {
    i64 until = cores->traffic->now;
    for (Core *core = cores->first; core; core = core->next) {
        if (!core->watch || core->state == OVER) continue;
        const i64 own = horizon(core);
        if (!watch_work_off(core->watch, own)) fail(cores->way_out, NO_MEMORY);
        if (own < until) until = own;
    }
    if (!gm_watch_work_off(cores->gm_watch, until)) fail(cores->way_out, NO_MEMORY);
}

/* Units of a core have something to do: put it on the list of those whom `advance_listed` calls. */
static void list(Cores *cores, Core *core, i64 units) {
    core->wake |= units;
    if (core->in_list) return;
    core->in_list = 1;
    core->listed = cores->to_advance;
    cores->to_advance = core;
}

/* The scalar unit of a new core begins. */
void begin(Cores *cores, Core *core) { list(cores, core, (i64)1 << S); }

/* What a pipe waited for was over at this cycle. */
void go_on(Cores *cores, Core *core, i64 pipe, i64 over) {
    core->pipes[pipe].over = over;
    list(cores, core, (i64)1 << pipe);
}

/* Advance every core on the list. */
void advance_listed(Cores *cores) {
    while (cores->to_advance) {
        Core *core = cores->to_advance;
        cores->to_advance = core->listed;
        advance(cores, core);
    }
    if (cores->gm_watch && gm_watch_is_full(cores->gm_watch)) watch_gm(cores);
}
