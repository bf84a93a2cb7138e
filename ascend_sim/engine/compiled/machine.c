/* The compiled machine: cores and their shared GM, equal to the SimPy engine to the cycle. This file: functions for Python.
 *
 * The SimPy engine (../core.py, ../traffic.py, ../l2.py) is the reference; a rule has the same name in both, and
 * docs/design.md has its reason ("Time runs ahead of the clock", "GM transfers in classes", "The L2 as stamps"). Only waiting
 * differs: a SimPy process sleeps on an event, here a pipe keeps a state and its core a mask of the units to call next.
 * Each file calls those below it and none above (tests/engine/test_c_files.py):
 *
 *   machine.c                  functions for Python: a run and its memory
 *   core.c       core.py       one program on one core
 *   rows.c       sheet.py      the rows of a program, written out a piece at a time or looked at where they stand
 *   traffic.c    traffic.py    transfers, their classes and rates, the instants at which they begin and end
 *   l2.c         l2.py         resident and dirty lines
 *   watch.c      totals.py     totals of a program, without its columns: times, hazards, occupancy of its buffers
 *   hazards.c    hazards.py    accesses to the same bytes at the same time
 *   occupancy.c  occupancy.py  occupancy of a buffer over time
 *   memory.c                   memory, and the way out of a call that gets none
 *
 * Every call that can fail returns a negative `enum failure`; after that only `machine_free` may follow. */
#include "columns.h"
#include "core.h"
#include "hazards.h"
#include "memory.h"
#include "program.h"
#include "rows.h"
#include "shapes.h"
#include "traffic.h"
#include "values.h"
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#define MAY_FAIL(machine)                            \
    do {                                             \
        int why = setjmp((machine)->way_out.failed); \
        if (why) return why;                         \
    } while (0)

/* The most work of one call, after which Python handles signals: instants, and pieces of rows (issued or surveyed). */
enum { TURNS = 1 << 16, SLICE = 1 << 4 };
/* Results of the calls that advance cores. */
enum { SETTLED, SPOKEN, AGAIN, UNFINISHED };

typedef struct {
    WayOut way_out;
    Traffic traffic;
    Cores cores;
    Table *tables;
    Walk surveyed;
    Parts parts;
    i64 table_count, hazard_limit, watch_batch;
} Machine;

/* Return the bytes of structure `number` that Python fills or reads (built.py): a library of older sources returns another
 * number, or 0. */
EXPORT i64 machine_sizes(i64 number) {
    static const i64 sizes[] = {
        sizeof(Way), sizeof(Instruction), sizeof(Program), sizeof(Stamp), sizeof(Event), sizeof(CoreNumbers), sizeof(GmNumbers),
        sizeof(Touch), sizeof(Totals), sizeof(Hazard), sizeof(Action), sizeof(Values), sizeof(Events)};
    return number < (i64)(sizeof sizes / sizeof *sizes) ? sizes[number] : 0;
}

/* Take the oldest event that Python has not yet got; 0 if there is none. */
EXPORT i64 machine_hear(Machine *machine, Event *event) {
    Cores *cores = &machine->cores;
    if (cores->event_head == cores->event_end) return cores->event_head = cores->event_end = 0;
    *event = cores->events[cores->event_head++];
    return 1;
}

/* -- life and death --------------------------------------------------------------------------------------------------- */

/* The run is given up after cycle `last`: past it, no core computes ahead by more than a slice. */
EXPORT Machine *machine_new(const GmNumbers *gm, i64 now, i64 last) {
    Machine *machine = calloc(1, sizeof *machine);
    if (!machine) return NULL;
    machine->traffic = (Traffic){.way_out = &machine->way_out, .gm = *gm, .now = now, .next = NEVER};
    machine->cores = (Cores){.way_out = &machine->way_out, .traffic = &machine->traffic, .last = last};
    return machine;
}

/* Watch all programs: keep up to `limit` hazards of each, and as many in GM for each task. About `batch` finished rows wait
 * before they are compared. */
EXPORT i64 machine_watch(Machine *machine, i64 limit, i64 batch) {
    MAY_FAIL(machine);
    machine->hazard_limit = limit;
    machine->watch_batch = batch;
    machine->cores.gm_watch = gm_watch_new(limit, batch);
    if (!machine->cores.gm_watch) fail(&machine->way_out, NO_MEMORY);
    return 0;
}

/* Return the hazards in GM after a run; the machine owns them. */
EXPORT GmWatch *machine_gm(Machine *machine) { return machine->cores.gm_watch; }

static void free_core(Core *core) {
    for (i64 f = 0; core->flags && f < core->flag_count; f++) free(core->flags[f].uses);
    watch_free(core->watch);
    kept_free(core->kept);
    rows_close(&core->rows);
    free(core->memory);
    free(core);
}

EXPORT void machine_free(Machine *machine) {
    if (!machine) return;
    while (machine->cores.first) {
        Core *core = machine->cores.first;
        machine->cores.first = core->next;
        free_core(core);
    }
    while (machine->tables) {
        Table *table = machine->tables;
        machine->tables = table->next;
        for (i64 i = 0; i < table->count; i++) free(table->shape_of[i]);
        for (i64 i = 0; i < table->block_count; i++) free(table->blocks[i]);
        for (i64 i = 0; i < table->shape_count; i++) free_shape(table->shapes[i]);
        free(table->shapes);
        free(table->blocks);
        free(table->touched);
        free(table->shape_of);
        free(table->accesses);
        free(table->instructions);
        free(table);
    }
    free(machine->parts.parts);
    free_traffic(&machine->traffic);
    free(machine->cores.events);
    gm_watch_free(machine->cores.gm_watch);
    free(machine);
}

/* Lend the machine the memory of an L2Cache and `read_until` of as many lines; `clock` counts only the first time. */
EXPORT i64 machine_lend_l2(
    Machine *machine, i64 *stamp, i64 *read_until, i64 reach, uint8_t *dirty, i64 capacity, i64 clock
) {
    MAY_FAIL(machine);
    lend_l2(&machine->traffic, stamp, read_until, reach, dirty, capacity, clock);
    return 0;
}

EXPORT i64 machine_l2_clock(const Machine *machine) { return machine->traffic.l2.clock; }
EXPORT i64 machine_hbm_bytes(const Machine *machine) { return machine->traffic.hbm_bytes; }
EXPORT i64 machine_next(const Machine *machine) { return machine->traffic.next; }

/* -- instructions and their shapes ------------------------------------------------------------------------------------ */

EXPORT Table *table_new(Machine *machine, const CoreNumbers *numbers) {
    Table *table = calloc(1, sizeof *table);
    if (!table) return NULL;
    table->numbers = *numbers;
    table->next = machine->tables;
    table->number = machine->table_count++;
    machine->tables = table;
    return table;
}

/* Append `count` instructions to the table, which then has `flags` flags. The i-th touches `touches` from first[i] to
 * first[i + 1]; `accesses` has the direction, port and region of each transfer. */
EXPORT i64 table_extend(
    Machine *machine, Table *table, const Instruction *more, const Way *accesses, const i64 *first, const Touch *touches,
    i64 count, i64 flags
) {
    MAY_FAIL(machine);
    i64 room = table->count, same = table->count, too = table->count, also = table->count, blocks = table->block_count;
    table->blocks = grow(&machine->way_out, table->blocks, &blocks, table->block_count + 1, sizeof(void *));
    Touch *copy = zeros(&machine->way_out, first[count], sizeof(Touch));
    memcpy(copy, touches, (size_t)first[count] * sizeof(Touch));
    table->blocks[table->block_count++] = copy;
    table->touched = grow(&machine->way_out, table->touched, &too, table->count + count, sizeof(Touched));
    for (Core *core = machine->cores.first; core; core = core->next)
        if (core->watch && core->table == table) watch_know(core->watch, table->touched);
    table->instructions = grow(&machine->way_out, table->instructions, &room, table->count + count, sizeof(Instruction));
    table->accesses = grow(&machine->way_out, table->accesses, &also, table->count + count, sizeof(Way));
    table->shape_of = grow(&machine->way_out, table->shape_of, &same, table->count + count, sizeof(int32_t *));
    for (i64 i = 0; i < count; i++) {
        const Instruction *one = &more[i];
        int on_a_pipe = one->kind >= LOCAL && one->kind < SCALAR && one->pipe > S && one->pipe < PIPES;
        int scalar = one->pipe == S && one->kind >= SET && one->kind <= BARRIER_ALL && one->kind != TRANSFER &&
                     one->kind != BARRIER;
        if (!on_a_pipe && !scalar) fail(&machine->way_out, BAD_ROW);
        table->instructions[table->count] = *one;
        table->accesses[table->count] = accesses[i];
        table->touched[table->count] = (Touched){copy + first[i], first[i + 1] - first[i]};
        table->shape_of[table->count++] = NULL;
    }
    table->flags = flags;
    return 0;
}

/* Add the shape of an instruction's access at one phase. */
static void add_shape(Machine *machine, Table *table, i64 instruction, i64 phase) {
    const Way *access = &table->accesses[instruction];
    if (access->port <= 0) fail(&machine->way_out, BAD_SHAPE);
    table->shapes = grow(&machine->way_out, table->shapes, &table->shape_room, table->shape_count + 1, sizeof(Shape *));
    Shape *shape = zeros(&machine->way_out, 1, sizeof *shape);
    table->shapes[table->shape_count++] = shape;
    set_shape(&machine->way_out, &machine->parts, shape, access, phase, table->numbers.line);
    table->shape_of[instruction][phase] = (int32_t)(table->shape_count - 1);
}

/* Prepare a program: add the missing shapes of its transfers, count them in `transfers`, and raise `reach` to the count of
 * lines that the L2 needs. A call surveys a slice from row `*at` on, which is 0 at first. */
EXPORT i64 program_survey(Machine *machine, Table *table, const Program *program, i64 *at, i64 *transfers, i64 *reach) {
    MAY_FAIL(machine);
    const i64 line = table->numbers.line, left = program->count - *at, slice = (i64)SLICE << PIECE_SHIFT;
    const i64 end = *at + (left < slice ? left : slice);
    i64 row = *at;
    if (!row) machine->surveyed = (Walk){.program = program};
    for (; row < end; row++) {
        const i64 instruction = walk_on(&machine->surveyed);
        if (instruction < 0 || instruction >= table->count) fail(&machine->way_out, BAD_ROW);
        const Instruction *one = &table->instructions[instruction];
        if (one->kind != TRANSFER) continue;
        ++*transfers;
        const i64 operand = walk_row(&machine->surveyed)[one->operand], slot = slot_of(operand);
        if (slot < 0 || slot >= program->tensors) fail(&machine->way_out, BAD_ROW);
        const i64 address = address_of(program, operand), phase = address % line;
        const i64 behind = (address + one->extent - 1) / line + 1;
        if (behind > *reach) *reach = behind;
        int32_t **shapes = &table->shape_of[instruction];
        if (!*shapes) {
            *shapes = zeros(&machine->way_out, line, sizeof(int32_t));
            for (i64 i = 0; i < line; i++) (*shapes)[i] = NO_SHAPE;
        }
        if ((*shapes)[phase] == NO_SHAPE) add_shape(machine, table, instruction, phase);
    }
    *at = row;
    return 0;
}

/* -- running ---------------------------------------------------------------------------------------------------------- */

/* Return the places of a queue, a power of two: its depth, and one for the row that the pipe executes. */
static i64 places_of(const CoreNumbers *numbers, int p) {
    i64 places = 1;
    while (places <= numbers->depth[p]) places *= 2;
    return places;
}

/* Let all cores compute ahead until they need unknown inputs, or to the end of a slice. */
static i64 compute(Machine *machine) {
    if (machine->cores.pieces <= 0) machine->cores.pieces = SLICE;
    if (!advance_listed(&machine->cores)) return UNFINISHED;
    hurry(&machine->traffic);
    return machine->cores.event_end ? SPOKEN : AGAIN;
}

/* Compute the next slice: the only call that may follow UNFINISHED. */
EXPORT i64 machine_go_on(Machine *machine) {
    MAY_FAIL(machine);
    return compute(machine);
}

/* Begin a surveyed program on a core of its own and let it compute ahead. `found` is the core. */
EXPORT i64 core_begin(Machine *machine, const Table *table, const Program *program, Core **found) {
    MAY_FAIL(machine);
    Core *core = zeros(&machine->way_out, 1, sizeof *core);
    core->next = machine->cores.first;
    if (core->next) core->next->previous = core;
    machine->cores.first = core;
    *found = core;
    core->program = *program;
    if (!rows_open(&core->rows, &core->program)) fail(&machine->way_out, NO_MEMORY);
    core->table = table;
    core->t = core->finish = program->begin;
    core->flag_count = table->flags;
    i64 size = PIPES * (i64)sizeof(Pipe) + table->flags * (i64)sizeof(Flag);
    for (int p = 1; p < PIPES; p++)
        size += places_of(&table->numbers, p) * (i64)(sizeof(Issued) + sizeof(i64)) +
                table->numbers.outstanding[p] * (i64)sizeof(i64);
    char *at = core->memory = zeros(&machine->way_out, size, 1);
    core->pipes = (Pipe *)at;
    at += PIPES * (i64)sizeof(Pipe);
    core->flags = (Flag *)at;
    at += table->flags * (i64)sizeof(Flag);
    for (int p = 1; p < PIPES; p++) {
        Pipe *pipe = &core->pipes[p];
        const i64 places = places_of(&table->numbers, p);
        *pipe = (Pipe){
            .free = program->begin, .busy_until = -1, .last_retire = program->begin,
            .known = program->begin, .depth = (int32_t)table->numbers.depth[p],
            .mask = (int32_t)(places - 1)};
        pipe->queue = (Issued *)at;
        at += places * (i64)sizeof(Issued);
        pipe->place = (i64 *)at;
        at += places * (i64)sizeof(i64);
        pipe->retired = pipe->oldest = (i64 *)at;
        at += table->numbers.outstanding[p] * (i64)sizeof(i64);
        pipe->newest = (i64 *)at - 1;
        for (i64 i = 0; i < places; i++) pipe->place[i] = program->begin;
        for (i64 *i = pipe->retired; i <= pipe->newest; i++) *i = program->begin;
    }
    if (machine->cores.gm_watch) {
        core->watch = watch_new(
            &core->rows, table->touched, table->number, machine->cores.gm_watch, machine->hazard_limit, machine->watch_batch);
        if (!core->watch) fail(&machine->way_out, NO_MEMORY);
        if (program->packed && !(core->kept = kept_new(program->count, program->file))) fail(&machine->way_out, NO_MEMORY);
    }
    begin(&machine->cores, core);
    return compute(machine);
}

/* End the wait of a pipe for a cross-core flag at cycle `over`. */
EXPORT i64 core_pass(Machine *machine, Core *core, i64 pipe, i64 over) {
    MAY_FAIL(machine);
    go_on(&machine->cores, core, pipe, over);
    return compute(machine);
}

/* Find the first flag from `*flag` on that lost a set; return the number of its first lost set, or -1 (CoreRun.lost_sets). */
EXPORT i64 core_lost_set(const Core *core, i64 *flag) {
    for (; *flag < core->flag_count; ++*flag) {
        const i64 lost = lost_set(core, &core->flags[*flag]);
        if (lost >= 0) return lost;
    }
    return -1;
}

/* Read the totals and up to `limit` hazards of a watched core that is over. Returns the count of the hazards. */
EXPORT i64 core_watched(const Core *core, Totals *totals, Hazard *hazards) {
    const i64 found = watch_read(core->watch, core->finish, core->queue_full, totals, hazards);
    totals->pipes[V].bank_conflicts = core->bank_conflicts;
    return found;
}

/* Return the packed columns of a core that is over: those in memory, their bytes in `size`, and the place of every piece
 * (columns.c). The caller frees them by `kept_drop`. */
EXPORT char *core_kept(Core *core, i64 *size, i64 *places) { return kept_take(core->kept, size, places); }
EXPORT void kept_drop(char *bytes) { free(bytes); }

EXPORT i64 core_issued_until(const Core *core) { return core->t; }
EXPORT i64 core_queue_full(const Core *core) { return core->queue_full; }

/* Count the instructions issued to a pipe and those that have left its queue, for the message of a deadlock. */
EXPORT void core_progress(const Core *core, i64 pipe, i64 *issued, i64 *left) {
    const Pipe *of = &core->pipes[pipe];
    *issued = of->position + of->waiting;
    *left = of->position + (of->state == MOVING);
}

/* Return the reason why the scalar unit stands still: a pipe whose queue is full, S for a wait of its own, PIPES for a barrier,
 * -1 for none. */
EXPORT i64 core_scalar_wants(const Core *core, i64 *row) {
    *row = core->row;
    return core->state == WANTS ? core->want : core->state == HOLDS ? S : core->state == DRAINS ? PIPES : -1;
}

EXPORT void core_free(Machine *machine, Core *core) {
    *(core->previous ? &core->previous->next : &machine->cores.first) = core->next;
    if (core->next) core->next->previous = core->previous;
    free_core(core);
}

/* Complete the transfers that end now; the cores that waited for them go on. */
static i64 advance_to(Machine *machine, i64 now) {
    for (Transfer *over = instant(&machine->traffic, now), *next; over; over = next) {
        next = over->next;
        go_on(&machine->cores, over->core, over->pipe, now);
    }
    return compute(machine);
}

/* Run the instant at cycle `now`; `machine_run` must follow at the same cycle. */
EXPORT i64 machine_instant(Machine *machine, i64 now) {
    MAY_FAIL(machine);
    return advance_to(machine, now);
}

/* Settle, then run all instants before `until`. Returns SPOKEN after an instant with an event for Python, which is not settled
 * yet; AGAIN to be called again; SETTLED when nothing is left before `until`. */
EXPORT i64 machine_run(Machine *machine, i64 until) {
    MAY_FAIL(machine);
    for (int turn = 0; turn < TURNS; turn++) {
        settle(&machine->traffic);
        if (machine->traffic.next >= until) return SETTLED;
        const i64 come_to = advance_to(machine, machine->traffic.next);
        if (come_to != AGAIN) return come_to;
    }
    return AGAIN;
}
