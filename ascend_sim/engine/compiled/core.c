/* One program on one core (../core.py, CoreRun): the scalar unit issues, the pipes work, each as far ahead as it knows its
 * inputs. The columns `stall` and `cause` are written here too (../timeline.py, stall_columns). */
#include "core.h"

#include "hazards.h"

#include <stdlib.h>

static inline const Instruction *instruction_at(const Core *core, i64 row) {
    return core->table->instructions + *row_at(&core->rows, row);
}

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

/* The n-th number; those from `needed` on are kept. */
static void put(Cores *cores, Ring *ring, i64 n, i64 needed, i64 number) {
    if (n - needed >= ring->room) {
        Ring more = {NULL, 0};
        more.items = grow(cores->way_out, NULL, &more.room, ring->room ? 2 * ring->room : 8, sizeof(i64));
        for (i64 i = needed; i < n; i++) more.items[i & (more.room - 1)] = nth(ring, i);
        free(ring->items);
        *ring = more;
    }
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

/* A row of a watched core is over: its times go where the columns are kept, and to whoever watches. */
static void row_is_over(Cores *cores, Core *core, const Instruction *instruction, i64 row) {
    const i64 *times = core->at[instruction->pipe];
    const int count = instruction->kind == TRANSFER ? TIMES : CAUSE_TIME + 1;
    if (core->kept && !kept_row(core->kept, row, times, count)) fail(cores->way_out, NO_MEMORY);
    for (int i = 0; core->columns[0] && i < count; i++) core->columns[i][row] = times[i];
    if (!watch_row(core->watch, instruction, row, times)) fail(cores->way_out, NO_MEMORY);
}

/* Work off the queue of pipe `p` in order (CoreRun._pipe); returns a mask of the units of this core to call. */
static i64 run_pipe(Cores *cores, Core *core, int p) {
    Pipe *pipe = &core->pipes[p];
    const Table *table = core->table;
    const i64 flag_latency = table->numbers.flag_latency, barrier_latency = table->numbers.barrier_latency;
    i64 *start_of = core->program.start, *end_of = core->program.end, *retire_of = core->program.retire;
    i64 *stall_of = core->program.stall, *cause_of = core->program.cause;
    Issued *queue = pipe->queue;
    i64 *left_at = pipe->left_at, *retired = pipe->retired;
    const i64 issued = pipe->issued, mask = pipe->mask, limit = pipe->limit, left_before = pipe->left;
    i64 free = pipe->free, busy_until = pipe->busy_until, last_retire = pipe->last_retire, known = pipe->known;
    i64 left = pipe->left, oldest = pipe->oldest, state = pipe->state, t = pipe->t, row = pipe->row, wake = 0;
    for (;;) {
        i64 gap = 0; /* how long the pipe stood still before this row */
        if (state == IDLE) {
            if (left == issued) break;
            t = queue[left & mask].time;
            row = queue[left & mask].row;
            if (free > t) t = free;
            gap = t - free;
        }
        const Instruction *instruction = instruction_at(core, row);
        const i64 at = core->watch ? TIMES * p : row; /* its place in the columns */
        i64 cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE;
        switch (instruction->kind) {
        case LOCAL:
        case TRANSFER: {
            i64 latency = instruction->latency;
            if (state == IDLE) {
                if (retired[oldest] > t) { /* too many in flight */
                    if (gap == 0) cause = OUTSTANDING;
                    else cause = NOTHING_TO_DO;
                    t = retired[oldest];
                    gap = t - free;
                }
                left_at[left++ & mask] = t > known ? t : known;
                start_of[at] = t;
                stall_of[at] = gap;
                cause_of[at] = cause;
                free = t + (t > busy_until ? instruction->first : instruction->stream);
                if (instruction->kind == TRANSFER) {
                    i64 first;
                    const Shape *shape = shape_of(core, row, &first);
                    if (cores->traffic->gm.shared) {
                        Transfer *transfer = request(cores->traffic, free, core->program.order * PIPES + p, shape, first);
                        transfer->core = core;
                        transfer->pipe = p;
                        pipe->transfer = transfer;
                        state = MOVING;
                        goto asleep;
                    }
                    free += shape->n.port_cycles;
                }
            } else {
                Transfer *transfer = pipe->transfer;
                state = IDLE;
                free = pipe->over;
                core->program.l2_wait[at] = transfer->wait_l2;
                core->program.hbm_wait[at] = transfer->wait_hbm;
                core->program.l2_hits[at] = transfer->hits;
                core->program.l2_misses[at] = transfer->allocated;
                core->program.hbm_bytes[at] = transfer->hbm_bytes;
                if (transfer->ready > free) latency += transfer->ready - free;
                release(cores->traffic, transfer);
                pipe->transfer = 0;
            }
            busy_until = free;
            if (free + latency > last_retire) last_retire = free + latency;
            retired[oldest] = last_retire;
            if (++oldest == limit) oldest = 0;
            end_of[at] = free;
            retire_of[at] = last_retire;
            break;
        }
        case SET: {
            left_at[left++ & mask] = t > known ? t : known;
            free = start_of[at] = end_of[at] = t;
            stall_of[at] = gap;
            cause_of[at] = cause;
            i64 raised = retire_of[at] = last_retire > t ? last_retire : t;
            Flag *flag = &core->flags[instruction->other];
            raise(cores, &table->numbers, flag, raised + flag_latency);
            if (core->pipes[instruction->waiter].state == ON_FLAG) wake |= (i64)1 << instruction->waiter;
            break;
        }
        case WAIT: {
            if (state == IDLE) {
                start_of[at] = t;
                stall_of[at] = gap;
            }
            Flag *flag = &core->flags[instruction->other];
            if (flag->raised <= flag->lowered) {
                state = ON_FLAG;
                goto asleep;
            }
            state = IDLE;
            i64 arrived = nth(&flag->sets, flag->lowered);
            gap = stall_of[at];
            cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE;
            if (instruction->first) { /* its lead */
                if (arrived > known) known = arrived;
                arrived -= instruction->first;
            }
            if (arrived > t) {
                if (!instruction->stream) { /* it is not at work */
                    if (arrived - t >= gap) cause = FLAG; /* the longer part names the cause */
                    gap += arrived - t;
                }
                t = arrived;
            }
            lower(cores, &table->numbers, flag, t);
            left_at[left++ & mask] = t > known ? t : known;
            stall_of[at] = gap;
            cause_of[at] = cause;
            free = end_of[at] = t;
            retire_of[at] = t > known ? t : known;
            break;
        }
        case BARRIER: {
            left_at[left++ & mask] = t > known ? t : known;
            i64 begun = start_of[at] = t;
            if (last_retire > t) t = last_retire;
            t += barrier_latency;
            if (t > begun && t - begun >= gap) cause = PIPE_BUSY;
            stall_of[at] = gap + t - begun;
            cause_of[at] = cause;
            free = end_of[at] = retire_of[at] = t;
            break;
        }
        case DISARMED: {
            Flag *flag = &core->flags[instruction->other];
            lower(cores, &table->numbers, flag, t);
            left_at[left++ & mask] = t > known ? t : known;
            stall_of[at] = gap;
            cause_of[at] = cause;
            free = start_of[at] = end_of[at] = retire_of[at] = t;
            break;
        }
        case CROSS_SET:
            left_at[left++ & mask] = t > known ? t : known;
            stall_of[at] = gap;
            cause_of[at] = cause;
            free = start_of[at] = end_of[at] = t;
            retire_of[at] = last_retire > t ? last_retire : t;
            tell(cores, RAISES, core, p, instruction, retire_of[at]);
            break;
        case CROSS_WAIT: {
            if (state == IDLE) {
                start_of[at] = t;
                stall_of[at] = gap;
                pipe->over = t;
                tell(cores, instruction->other ? WAITS : PASSES_BY, core, p, instruction, t);
                if (instruction->other) {
                    state = ON_CROSS;
                    goto asleep;
                }
            }
            state = IDLE;
            gap = stall_of[at];
            cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE;
            i64 held = pipe->over - t;
            if (held > 0 && held >= gap) cause = CROSS_CORE;
            stall_of[at] = gap + held;
            cause_of[at] = cause;
            t = pipe->over;
            left_at[left++ & mask] = t > known ? t : known;
            free = end_of[at] = retire_of[at] = t;
            break;
        }
        default: /* scalar work is not issued to a pipe */
            fail(cores->way_out, BAD_ROW);
        }
        if (core->watch) row_is_over(cores, core, instruction, row);
    }
asleep:
    pipe->free = free, pipe->busy_until = busy_until, pipe->last_retire = last_retire, pipe->known = known;
    pipe->left = left, pipe->oldest = oldest, pipe->state = state, pipe->t = t, pipe->row = row;
    if (core->state == WANTS && core->want == p && left > left_before) wake |= 1 << S;
    if (core->state == DRAINS && state == IDLE) wake |= 1 << S;
    return wake;
}

/* The cycle by which the pipes of `mask` have worked off all that was issued to them, -1 while they have not. */
static i64 drained(const Core *core, i64 mask) {
    i64 over = core->program.begin;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        if (!(mask >> p & 1)) continue;
        if (pipe->left != pipe->issued || pipe->state != IDLE) return -1;
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
        if (pipe->left != pipe->issued) {
            const i64 row = pipe->queue[pipe->left & pipe->mask].row;
            if (row < first) first = row;
        }
        if (pipe->state != IDLE && pipe->row < first) first = pipe->row;
    }
    const i64 waiting = core->watch ? watch_first(core->watch) : first;
    return waiting < first ? waiting : first;
}

/* Issue in order; each instruction costs its issue time and a free place in the queue of its pipe (CoreRun._scalar). */
static i64 run_scalar(Cores *cores, Core *core) {
    const i64 count = core->program.count, issue = core->program.issue;
    i64 row = core->row, t = core->t, state = core->state == DRAINS ? DRAINS : RUNNING, queue_full = 0, wake = 0;
    for (; row < count; row++) {
        if (row == rows_behind(&core->rows)) {
            core->row = row;
            rows_forget(&core->rows, first_needed(core));
            if (!rows_go_on(&core->rows)) fail(cores->way_out, NO_MEMORY);
        }
        const Instruction *instruction = instruction_at(core, row);
        if (instruction->pipe != S) {
            Pipe *pipe = &core->pipes[instruction->pipe];
            const i64 n = pipe->issued;
            if (n >= pipe->left + pipe->depth) {
                state = WANTS;
                core->want = instruction->pipe;
                break;
            }
            t += issue;
            if (n >= pipe->depth) {
                const i64 place = pipe->left_at[(n - pipe->depth) & pipe->mask];
                if (place > t) {
                    queue_full += place - t;
                    t = place;
                }
            }
            pipe->queue[n & pipe->mask] = (Issued){t, row};
            pipe->issued = n + 1;
            wake |= (i64)1 << instruction->pipe;
            continue;
        }
        const i64 at = core->watch ? TIMES * S : row;
        i64 held = 0;
        if (instruction->kind == BARRIER_ALL) {
            if (state != DRAINS) {
                core->program.start[at] = t;
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
            core->program.start[at] = t;
            t += issue + instruction->other;
        }
        core->program.end[at] = core->program.retire[at] = t;
        core->program.stall[at] = held;
        core->program.cause[at] = held ? PIPE_BUSY : NO_CAUSE;
        if (core->watch) row_is_over(cores, core, instruction, row);
    }
    core->row = row, core->t = t, core->queue_full += queue_full;
    core->state = row == count ? ISSUED : state;
    for (int p = 1; p < PIPES; p++)
        if (core->pipes[p].state != IDLE) wake &= ~((i64)1 << p);
    return wake;
}

/* The cycle before which no row of this core starts that is not over yet. */
static i64 horizon(const Core *core) {
    i64 least = NEVER;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        i64 next = pipe->free;
        if (pipe->state != IDLE) next = core->at[p][0]; /* its start */
        else if (pipe->left == pipe->issued && core->state == ISSUED) next = NEVER;
        else if (pipe->left == pipe->issued && core->t > next) next = core->t;
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
