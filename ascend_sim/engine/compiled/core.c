/* One program on one core (../core.py, CoreRun): the scalar unit issues, the pipes work, each as far ahead as it knows its
 * inputs. The columns `stall` and `cause` are written here too (../timeline.py, stall_columns). Why a pipe may run ahead of the
 * clock, and why the unit flag leads: docs/design.md, "Time runs ahead of the clock" and "The unit flag"; words in quotes behind
 * the name of a twin are sections of that page. */
#include "core.h"

#include "hazards.h"

#include <stdlib.h>

/* Append an event for Python; `at` is the instruction that causes it, or NULL. */
static void tell(Cores *cores, enum happening what, const Core *core, i64 pipe, const Instruction *at, i64 time) {
    cores->events = grow(cores->way_out, cores->events, &cores->event_room, cores->event_end + 1, sizeof(Event));
    const i64 instruction = at ? at - core->table->instructions : -1;
    cores->events[cores->event_end++] = (Event){what, core->program.number, pipe, instruction, time};
}

static const Shape *shape_of(const Core *core, i64 row, i64 *first) {
    const Table *table = core->table;
    const i64 *columns = row_at(&core->rows, row), line = table->numbers.line;
    const i64 address = address_of(&core->program, columns[table->instructions[columns[0]].operand]);
    *first = address / line;
    return table->shapes[table->shape_of[columns[0]][address % line]];
}

/* -- flags ------------------------------------------------------------------------------------------------------------ */

/* Make room for the n-th set and wait of a flag; those that are still needed stay. */
static void make_room(Cores *cores, const Core *core, Flag *flag, i64 n) {
    const i64 least = flag->paired - core->program.flag_max, needed = least < 0 ? 0 : least;
    if (2 * (n - needed) >= flag->mask) { /* seldom */
        i64 room = 0;
        Use *more = grow(cores->way_out, NULL, &room, flag->uses ? 2 * (flag->mask + 1) : 32, sizeof(Use));
        for (i64 i = needed; i < n; i++) more[i & (room - 1)] = flag->uses[i & flag->mask];
        free(flag->uses);
        flag->uses = more;
        flag->mask = room - 1;
    }
    flag->end = needed + flag->mask + 1;
}

/* Append a set that arrives at this cycle. */
static inline void raise(Cores *cores, const Core *core, Flag *flag, i64 arrives) {
    const i64 n = flag->raised++;
    if (n >= flag->end) make_room(cores, core, flag, n);
    flag->uses[n & flag->mask].arrives = arrives;
}

/* Append a wait that is over at this cycle. */
static inline void lower(Cores *cores, const Core *core, Flag *flag, i64 over) {
    const i64 n = flag->lowered++;
    if (n >= flag->end) make_room(cores, core, flag, n);
    flag->uses[n & flag->mask].over = over;
}

/* Find the sets of the first `waits` waits; 0 while the last set is unknown (CoreFlag.pair; "A flag is one bit"). If a flag
 * holds n sets, a set is lost if it retires before the end of the n-th wait before its own. */
static inline int pair(const Core *core, Flag *flag, i64 waits) {
    const i64 most = core->program.flag_max;
    for (; flag->paired < waits; flag->paired++) {
        i64 n = flag->paired + flag->lost;
        if (n >= flag->raised) return 0;
        const i64 before = flag->paired - most;
        if (!most || before < 0) continue;
        const i64 over = before < flag->lowered ? flag->uses[before & flag->mask].over : NEVER;
        while (flag->uses[n & flag->mask].arrives - core->table->numbers.flag_latency < over) {
            if (!flag->lost++) flag->first_lost = n;
            if (++n >= flag->raised) return 0;
        }
    }
    return 1;
}

/* Set the flag of an instruction at this cycle, and wake the unit that sleeps on the flag. */
static inline void set(Cores *cores, Core *core, const Instruction *instruction, i64 time) {
    Flag *flag = &core->flags[instruction->other];
    raise(cores, core, flag, time + core->table->numbers.flag_latency);
    core->wake |= flag->sleeper;
    flag->sleeper = 0;
}

/* Find the arrival of the set for the next wait of an instruction's flag; 0 if unknown, and the instruction's pipe sleeps. */
static inline int known_set(const Core *core, const Instruction *instruction, i64 *arrived) {
    Flag *flag = &core->flags[instruction->other];
    if (!pair(core, flag, flag->lowered + 1)) {
        flag->sleeper = (i64)1 << instruction->pipe;
        return 0;
    }
    *arrived = flag->uses[(flag->lowered + flag->lost) & flag->mask].arrives;
    return 1;
}

/* Return, after a run, the number of the first lost set of a flag, or -1 (CoreFlag.lost_set). */
i64 lost_set(const Core *core, Flag *flag) {
    pair(core, flag, flag->raised);
    return flag->lost ? flag->first_lost : -1;
}

/* -- pipes ------------------------------------------------------------------------------------------------------------ */

/* `times` is a pointer, because copying numbers that were just stored would wait for the stores. */
static __attribute__((noinline)) void show(
    Cores *cores, const Core *core, const Instruction *instruction, i64 row, const Times *times, const Move *move
) {
    if (core->kept && !kept_row(core->kept, row, times, move)) fail(cores->way_out, NO_MEMORY);
    if (!watch_row(core->watch, instruction, row, times, move)) fail(cores->way_out, NO_MEMORY);
}

/* Store the times of a finished row in the columns, and pass them to the watch. `move`: the columns of a transfer in a shared
 * GM, else NULL. */
static inline void row_is_over(
    Cores *cores, Core *core, const Instruction *instruction, i64 row, Times times, const Move *move
) {
    Program *program = &core->program;
    if (program->times) {
        program->times[row] = times;
        if (move) program->moves[program->move_count++] = *move;
    }
    if (core->watch) {
        const Times seen = times; /* in memory here alone */
        show(cores, core, instruction, row, &seen, move);
    }
}

static inline i64 later(i64 a, i64 b) { return a > b ? a : b; }

/* Let the head of the queue leave at cycle `t`, but not before the set of an earlier wait with a lead has arrived. */
static inline void leave(Pipe *pipe, i64 t) {
    pipe->place[(pipe->position + pipe->depth) & pipe->mask] = later(t, pipe->known);
}

/* Finish the row at the head, which leaves its queue at cycle `leaves`. */
static inline enum pipe_state finish(
    Cores *cores, Core *core, Pipe *pipe, const Instruction *instruction, i64 row, i64 leaves, Times times, const Move *move
) {
    pipe->free = times.end;
    leave(pipe, leaves);
    pipe->position++;
    row_is_over(cores, core, instruction, row, times, move);
    return IDLE;
}

/* Return the start of the row at the head: cycle `t`, or the retirement of the oldest row in flight if that is later
 * (CoreRun._pipe, `retired`; "Time runs ahead of the clock"). `gap` and `cause` as in `work_off`. */
static inline i64 take_flight(const Pipe *pipe, i64 t, i64 *gap, i64 *cause) {
    if (*pipe->oldest <= t) return t;
    *cause = *gap == 0 ? OUTSTANDING : NOTHING_TO_DO; /* too many in flight */
    *gap += *pipe->oldest - t;
    return *pipe->oldest;
}

/* Return the cycles of work from cycle `t` on: without a head if the pipe is busy until then (CoreRun._pipe, `busy_until`). */
static inline i64 work_of(const Pipe *pipe, const Instruction *instruction, i64 t) {
    return t > pipe->busy_until ? instruction->first : instruction->stream;
}

enum { UB_BLOCK = 32 }; /* bytes of a block of UB (chip/fractal.py) */

/* Return the cycles by which bank conflicts lengthen a row (Program.bank_cycles; ../../isa/vector/banks.py). */
static __attribute__((noinline)) i64 bank_cycles(Core *core, const Instruction *instruction, i64 row) {
    static const int pairs[3][2] = {{2, 3}, {2, 1}, {3, 1}}; /* columns of a row: src0 and src1, then each and dst */
    const CoreNumbers *numbers = &core->table->numbers;
    const i64 *operands = row_at(&core->rows, row), *cycles = (const i64 *)(intptr_t)instruction->other;
    i64 most = 0;
    for (int pair = 0; pair < 3; pair++, cycles += numbers->bank_groups) {
        const i64 first = operands[pairs[pair][0]], second = operands[pairs[pair][1]];
        const i64 apart = (second / UB_BLOCK - first / UB_BLOCK) % numbers->bank_groups;
        const i64 added = cycles[apart < 0 ? apart + numbers->bank_groups : apart];
        if (added > most && (!pair || first / numbers->bank_bytes == second / numbers->bank_bytes)) most = added;
    }
    core->bank_conflicts += most;
    return most;
}

/* Mark the pipe busy until cycle `t`, and return the retirement cycle. */
static inline i64 work_until(Pipe *pipe, i64 t, i64 latency) {
    i64 *const oldest = pipe->oldest;
    pipe->busy_until = t;
    pipe->oldest = oldest == pipe->newest ? pipe->retired : oldest + 1;
    return *oldest = pipe->last_retire = later(pipe->last_retire, t + latency);
}

/* A transfer at the head: it meets those of all cores, or takes as long as its port does (CoreRun._add_port_time; "GM transfers
 * in classes"). */
static __attribute__((noinline)) enum pipe_state transfer(
    Cores *cores, Core *core, Pipe *pipe, const Instruction *instruction, i64 row, i64 t
) {
    i64 gap = t - pipe->free, cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE, latency = instruction->latency, first;
    const i64 begun = take_flight(pipe, t, &gap, &cause);
    const Shape *shape = shape_of(core, row, &first);
    Transfer *over = pipe->transfer;
    t = begun + work_of(pipe, instruction, begun);
    if (!cores->traffic->gm.shared) {
        t += shape->n.port_cycles;
    } else if (!over) {
        Transfer *asked = request(cores->traffic, t, core->program.order * PIPES + instruction->pipe, shape, first);
        asked->core = core;
        asked->pipe = instruction->pipe;
        pipe->transfer = asked;
        pipe->begun = begun;
        leave(pipe, begun);
        return MOVING;
    } else {
        t = pipe->over;
        if (over->ready > t) latency += over->ready - t;
    }
    const Times times = {begun, t, work_until(pipe, t, latency), gap, cause};
    if (!over) return finish(cores, core, pipe, instruction, row, begun, times, NULL);
    const Move move = {row, over->wait_l2, over->wait_hbm, over->hits, over->allocated, over->hbm_bytes};
    release(cores->traffic, over);
    pipe->transfer = NULL;
    return finish(cores, core, pipe, instruction, row, begun, times, &move);
}

/* Execute the first unfinished row of a pipe (CoreRun._pipe). Returns IDLE when the row is over, or the state in which the pipe
 * sleeps. The next call begins the row anew: it computes the same numbers, and goes on with the input that was missing. */
static inline __attribute__((always_inline)) enum pipe_state work_off(
    Cores *cores, Core *core, Pipe *pipe, const Instruction *instruction, i64 row, i64 issued
) {
    const CoreNumbers *numbers = &core->table->numbers;
    const i64 begun = later(issued, pipe->free);
    i64 gap = begun - pipe->free; /* how long the pipe stood still before this row */
    i64 cause = gap > 0 ? NOTHING_TO_DO : NO_CAUSE;
    switch (instruction->kind) {
    case LOCAL: { /* works by itself: a head, longer for the first of a stream, and its work (CoreRun._pipe, LOCAL; "Time runs
                   * ahead of the clock") */
        const i64 t = take_flight(pipe, begun, &gap, &cause);
        const i64 end = t + work_of(pipe, instruction, t) + (instruction->other ? bank_cycles(core, instruction, row) : 0);
        const i64 retires = work_until(pipe, end, instruction->latency);
        return finish(cores, core, pipe, instruction, row, t, (Times){t, end, retires, gap, cause}, NULL);
    }
    case SET: { /* raised when all before it has retired, seen a latency later; wakes the flag's sleeper (CoreRun._pipe, SET;
                 * "Time runs ahead of the clock") */
        const i64 retires = later(pipe->last_retire, begun);
        set(cores, core, instruction, retires);
        return finish(cores, core, pipe, instruction, row, begun, (Times){begun, begun, retires, gap, cause}, NULL);
    }
    case WAIT: { /* takes the oldest set that is neither taken nor lost; with a lead the pipe goes on that much sooner, but
                  * later rows leave the queue no sooner (CoreRun._pipe, WAIT; "The unit flag") */
        Flag *flag = &core->flags[instruction->other];
        i64 t = begun, arrived;
        if (!known_set(core, instruction, &arrived)) {
            pipe->begun = begun;
            return ON_FLAG;
        }
        if (instruction->first) { /* its lead */
            pipe->known = later(pipe->known, arrived);
            arrived -= instruction->first;
        }
        if (arrived > t) {
            if (!instruction->stream) { /* it is not at work */
                if (arrived - t >= gap) cause = FLAG; /* the longer part names the cause */
                gap += arrived - t;
            }
            t = arrived;
        }
        lower(cores, core, flag, t);
        return finish(cores, core, pipe, instruction, row, t, (Times){begun, t, later(t, pipe->known), gap, cause}, NULL);
    }
    case TRANSFER: /* to or from GM (CoreRun._pipe, TRANSFER; "GM transfers in classes") */
        return transfer(cores, core, pipe, instruction, row, begun);
    case BARRIER: { /* until all before it on this pipe has retired (CoreRun._pipe, BARRIER; "Time runs ahead of the clock") */
        const i64 t = later(begun, pipe->last_retire) + numbers->barrier_latency;
        if (t > begun && t - begun >= gap) cause = PIPE_BUSY;
        return finish(cores, core, pipe, instruction, row, begun, (Times){begun, t, t, gap + t - begun, cause}, NULL);
    }
    case DISARMED: /* a wait that holds nothing, but takes its set (CoreRun._pipe, DISARMED; "Hazards are a sweep over the
                    * finished timeline") */
        lower(cores, core, &core->flags[instruction->other], begun);
        pair(core, &core->flags[instruction->other], core->flags[instruction->other].lowered);
        return finish(cores, core, pipe, instruction, row, begun, (Times){begun, begun, begun, gap, cause}, NULL);
    case CROSS_SET: { /* Python knows waits of other cores (CoreRun._pipe, CROSS_SET; ../cross.py; "Two engines, one law") */
        const i64 retires = later(pipe->last_retire, begun);
        tell(cores, RAISES, core, instruction->pipe, instruction, retires);
        return finish(cores, core, pipe, instruction, row, begun, (Times){begun, begun, retires, gap, cause}, NULL);
    }
    case CROSS_WAIT: { /* the pipe sleeps until Python says when it was over (CoreRun._pipe, CROSS_WAIT; ../cross.py; "Two engines,
                        * one law") */
        if (pipe->state != ON_CROSS) {
            tell(cores, instruction->other ? WAITS : PASSES_BY, core, instruction->pipe, instruction, begun);
            pipe->over = begun;
            if (instruction->other) {
                pipe->begun = begun;
                return ON_CROSS;
            }
        }
        const i64 t = pipe->over, held = t - begun;
        if (held > 0 && held >= gap) cause = CROSS_CORE;
        return finish(cores, core, pipe, instruction, row, t, (Times){begun, t, t, gap + held, cause}, NULL);
    }
    default: /* scalar work is not issued to a pipe */
        fail(cores->way_out, BAD_ROW);
    }
}

/* Work off the queue of a pipe that slept. */
static void run_pipe(Cores *cores, Core *core, Pipe *pipe) {
    const Instruction *instructions = core->table->instructions;
    for (; pipe->waiting; pipe->waiting--) {
        const Issued *head = &pipe->queue[pipe->position & pipe->mask];
        pipe->state = work_off(cores, core, pipe, instructions + head->instruction, head->row, head->time);
        if (pipe->state != IDLE) break;
    }
}

/* Work off the queues of all pipes in `wake`, and of the pipes that these wake. */
static void run_pipes(Cores *cores, Core *core) {
    while (core->wake) {
        Pipe *pipe = &core->pipes[__builtin_ctzll((uint64_t)core->wake)];
        core->wake &= core->wake - 1;
        run_pipe(cores, core, pipe);
    }
}

/* Return the cycle at which the pipes of `mask` have finished all issued rows, or -1 while a row is unfinished
 * (CoreRun._all_drained). */
static i64 drained(const Core *core, i64 mask) {
    i64 over = core->program.begin;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        if (!(mask >> p & 1)) continue;
        if (pipe->waiting) return -1;
        if (pipe->free > over) over = pipe->free;
        if (pipe->last_retire > over) over = pipe->last_retire;
    }
    return over;
}

/* Return the first row that a pipe or the scalar unit still needs. */
static i64 first_needed(const Core *core) {
    i64 first = core->row;
    for (int p = 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        if (!pipe->waiting) continue;
        const i64 row = pipe->queue[pipe->position & pipe->mask].row;
        if (row < first) first = row;
    }
    return first;
}

enum { NOT_YET = -1 }; /* the end of a wait, while it is unknown */
/* Rows are read once, and no cache holds them: each is prefetched AHEAD rows before it is needed. */
enum { AHEAD = 32 };

/* Issue in order; each instruction costs its issue time and a free place in the queue of its pipe (CoreRun._scalar; "Time runs
 * ahead of the clock"). A pipe that is awake has an empty queue, and executes its instruction at once; the instructions of a
 * sleeping pipe wait in its queue. */
static void run_scalar(Cores *cores, Core *core) {
    const i64 count = core->program.count, issue = core->program.issue;
    const Instruction *instructions = core->table->instructions;
    i64 row = core->row, t = core->t, queue_full = 0;
    i64 state = core->state == DRAINS || core->state == HOLDS ? core->state : RUNNING;
    Pipe *pipes = core->pipes;
    i64 behind = rows_behind(&core->rows), ready = behind < count ? behind : count;
    const i64 *columns = row < ready ? row_at(&core->rows, row) : NULL;
    for (;; row++, columns += COLUMNS) {
        if (row == ready) {
            if (row == count || cores->pieces <= 0) break;
            cores->pieces--;
            core->row = row;
            rows_forget(&core->rows, first_needed(core));
            if (!rows_go_on(&core->rows)) fail(cores->way_out, NO_MEMORY);
            behind = rows_behind(&core->rows);
            ready = behind < count ? behind : count;
            columns = row_at(&core->rows, row);
        }
        __builtin_prefetch(columns + AHEAD * COLUMNS);
        const Instruction *instruction = instructions + columns[0];
        if (instruction->pipe != S) {
            Pipe *pipe = &pipes[instruction->pipe];
            const i64 n = pipe->position + pipe->waiting;
            if (pipe->waiting && pipe->waiting - (pipe->state == MOVING) >= pipe->depth) {
                state = WANTS;
                core->want = instruction->pipe;
                break;
            }
            const i64 asked = t + issue;
            t = later(asked, pipe->place[n & pipe->mask]);
            queue_full += t - asked;
            if (!pipe->waiting) {
                const enum pipe_state asleep = work_off(cores, core, pipe, instruction, row, t);
                if (core->wake) run_pipes(cores, core);
                if (asleep == IDLE) continue;
                pipe->state = asleep;
            }
            pipe->queue[n & pipe->mask] = (Issued){t, row, columns[0]};
            pipe->waiting++;
            continue;
        }
        i64 held = 0, cause = PIPE_BUSY;
        if (instruction->kind == SET) { /* SET, WAIT, DISARMED: CoreRun._scalar */
            core->begun = t += issue;
            set(cores, core, instruction, t);
            run_pipes(cores, core);
        } else if (instruction->kind == WAIT) {
            i64 arrived;
            if (state != HOLDS) core->begun = t += issue;
            if (!known_set(core, instruction, &arrived)) {
                state = HOLDS;
                break;
            }
            state = RUNNING;
            held = arrived > t ? arrived - t : 0;
            cause = FLAG;
            t += held;
            lower(cores, core, &core->flags[instruction->other], t);
        } else if (instruction->kind == DISARMED) {
            Flag *flag = &core->flags[instruction->other];
            core->begun = t += issue;
            lower(cores, core, flag, t);
            pair(core, flag, flag->lowered);
        } else if (instruction->kind == CROSS_SET) { /* as on a pipe, where the scalar unit stands (CoreRun._scalar; ../cross.py) */
            core->begun = t += issue;
            tell(cores, RAISES, core, S, instruction, t);
        } else if (instruction->kind == CROSS_WAIT) { /* until Python says when it was over (CoreRun._scalar; ../cross.py) */
            if (state != HOLDS) {
                core->begun = t += issue;
                pipes[S].over = instruction->other ? NOT_YET : t;
                tell(cores, instruction->other ? WAITS : PASSES_BY, core, S, instruction, t);
            }
            if (pipes[S].over == NOT_YET) {
                state = HOLDS;
                break;
            }
            state = RUNNING;
            held = pipes[S].over - t;
            cause = CROSS_CORE;
            t = pipes[S].over;
        } else if (instruction->kind == BARRIER_ALL) {
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
        row_is_over(cores, core, instruction, row, (Times){core->begun, t, t, held, held ? cause : NO_CAUSE}, NULL);
    }
    core->row = row, core->t = t, core->queue_full += queue_full;
    core->state = row == count ? ISSUED : state;
}

/* Return the earliest cycle at which an unfinished row of this core can start. */
static i64 horizon(const Core *core) {
    i64 least = core->state == ISSUED ? NEVER : core->t; /* that of the scalar unit */
    for (int p = S + 1; p < PIPES; p++) {
        const Pipe *pipe = &core->pipes[p];
        i64 next = pipe->free;
        if (pipe->state != IDLE) next = pipe->begun;
        else if (core->state == ISSUED) next = NEVER;
        else if (core->t > next) next = core->t;
        if (next < least) least = next;
    }
    return least;
}

/* Put a core on the list for `advance_listed`, and mark its pipes of mask `pipes` to be called. */
static void list(Cores *cores, Core *core, i64 pipes) {
    core->wake |= pipes;
    if (core->in_list) return;
    core->in_list = 1;
    core->listed = cores->to_advance;
    cores->to_advance = core;
}

/* Let a core compute ahead for as long as it knows its inputs (CoreRun.run). */
static void advance(Cores *cores, Core *core) {
    core->in_list = 0;
    run_pipes(cores, core);
    if (core->state != ISSUED) run_scalar(cores, core);
    if (core->watch && watch_is_full(core->watch) && !watch_work_off(core->watch, horizon(core)))
        fail(cores->way_out, NO_MEMORY);
    if (core->state == RUNNING && core->t <= cores->last) list(cores, core, 0);
    if (core->state != ISSUED) return;
    i64 over = drained(core, ((i64)1 << PIPES) - 2);
    if (over < 0) return;
    core->state = OVER;
    core->finish = over > core->t ? over : core->t;
    if (core->watch && !watch_end(core->watch)) fail(cores->way_out, NO_MEMORY);
    tell(cores, FINISHED, core, S, NULL, core->finish);
}

/* Check the accesses of all cores to GM, up to the earliest cycle at which another can start; new blocks start now or later. */
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

/* The scalar unit of a new core begins. */
void begin(Cores *cores, Core *core) { list(cores, core, 0); }

/* Let a pipe go on: its transfer, or its wait for a cross-core flag, ended at this cycle. */
void go_on(Cores *cores, Core *core, i64 pipe, i64 over) {
    core->pipes[pipe].over = over;
    list(cores, core, (i64)1 << pipe);
}

/* Advance every core on the list. 0: the limit of issued rows is reached, and cores are left on the list. */
int advance_listed(Cores *cores) {
    while (cores->to_advance) {
        if (cores->pieces <= 0) return 0;
        Core *core = cores->to_advance;
        cores->to_advance = core->listed;
        advance(cores, core);
    }
    if (cores->gm_watch && gm_watch_is_full(cores->gm_watch)) watch_gm(cores);
    return 1;
}
