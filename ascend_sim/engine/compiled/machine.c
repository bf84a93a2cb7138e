/* What Python calls (machine.py), and memory. Every call that can fail returns a negative `enum failure`; after that only
 * `machine_free` may follow. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define MAY_FAIL(machine)                          \
    do {                                           \
        int why = setjmp((machine)->failed);       \
        if (why) return why;                       \
    } while (0)

enum { TURNS = 1 << 16 }; /* instants between two looks at signals */

_Noreturn void fail(Machine *machine, enum failure why) { longjmp(machine->failed, why); }

/* `old` with room for at least `least` items of `size` bytes. */
void *grow(Machine *machine, void *old, i64 *room, i64 least, i64 size) {
    if (least <= *room) return old;
    i64 more = 2 * *room > least ? 2 * *room : least;
    if (more > INT64_MAX / 2 / size) fail(machine, NO_MEMORY);
    void *found = realloc(old, (size_t)(more * size));
    if (!found) fail(machine, NO_MEMORY);
    *room = more;
    return found;
}

static void *zeros(Machine *machine, i64 count, i64 size) {
    void *found = calloc((size_t)(count ? count : 1), (size_t)size);
    if (!found) fail(machine, NO_MEMORY);
    return found;
}

/* Something that Python has to hear of. */
void tell(Machine *machine, enum happening what, Core *core, i64 pipe, i64 row, i64 time) {
    machine->events = grow(machine, machine->events, &machine->event_room, machine->event_end + 1, sizeof(Event));
    machine->events[machine->event_end++] = (Event){what, core->program.number, pipe, row, time};
}

/* The oldest thing not yet heard of; 0 when there is none. */
EXPORT i64 machine_hear(Machine *machine, Event *event) {
    if (machine->event_head == machine->event_end) return machine->event_head = machine->event_end = 0;
    *event = machine->events[machine->event_head++];
    return 1;
}

/* -- life and death --------------------------------------------------------------------------------------------------- */

EXPORT Machine *machine_new(const GmNumbers *gm, i64 now) {
    Machine *machine = calloc(1, sizeof *machine);
    if (!machine) return NULL;
    machine->gm = *gm;
    machine->now = now;
    machine->next = NEVER;
    return machine;
}

/* Programs that are `watched` find up to `limit` hazards each, and each task as many in the GM. Some `batch` of rows that are over
 * wait before they are looked at. */
EXPORT i64 machine_watch(Machine *machine, i64 limit, i64 batch) {
    MAY_FAIL(machine);
    machine->hazard_limit = limit;
    machine->watch_batch = batch;
    machine->gm_watch = gm_watch_new(limit, batch);
    if (!machine->gm_watch) fail(machine, NO_MEMORY);
    return 0;
}

/* The run is over. The hazards in the GM; the machine keeps them. */
EXPORT GmWatch *machine_gm(Machine *machine) { return machine->gm_watch; }

static void free_core(Core *core) {
    for (i64 f = 0; core->flags && f < core->flag_count; f++) {
        free(core->flags[f].sets.items);
        free(core->flags[f].taken.items);
    }
    watch_free(core->watch);
    free(core->memory);
    free(core);
}

EXPORT void machine_free(Machine *machine) {
    if (!machine) return;
    while (machine->cores) {
        Core *core = machine->cores;
        machine->cores = core->next;
        free_core(core);
    }
    while (machine->tables) {
        Table *table = machine->tables;
        machine->tables = table->next;
        for (i64 i = 0; i < table->count; i++) free(table->shape_of[i]);
        for (i64 i = 0; i < table->block_count; i++) free(table->blocks[i]);
        free(table->blocks);
        free(table->touched);
        free(table->shape_of);
        free(table->instructions);
        free(table);
    }
    while (machine->transfers) {
        Transfer *transfer = machine->transfers;
        machine->transfers = transfer->all;
        free(transfer);
    }
    for (i64 i = 0; i < machine->shape_count; i++) {
        free(machine->shapes[i]->offsets);
        free(machine->shapes[i]->special);
        free(machine->shapes[i]);
    }
    for (i64 i = 0; i < machine->follower_block_count; i++) free(machine->follower_blocks[i]);
    free(machine->follower_blocks);
    free(machine->shapes);
    free(machine->pending);
    free(machine->classes);
    free(machine->fills);
    free(machine->read_until);
    free(machine->found);
    free(machine->events);
    gm_watch_free(machine->gm_watch);
    free(machine);
}

/* Lend the machine the memory of an L2Cache; `clock` counts only the first time. */
EXPORT i64 machine_lend_l2(Machine *machine, i64 *stamp, i64 reach, uint8_t *dirty, i64 capacity, i64 clock) {
    MAY_FAIL(machine);
    if (!machine->l2.stamp) machine->l2.clock = clock;
    machine->l2 = (L2){stamp, dirty, reach, capacity, machine->l2.clock};
    if (machine->gm.same_line && reach > machine->read_reach) {
        i64 before = machine->read_reach;
        machine->read_until = grow(machine, machine->read_until, &machine->read_reach, reach, sizeof(i64));
        memset(machine->read_until + before, 0, (size_t)(machine->read_reach - before) * sizeof(i64));
    }
    return 0;
}

EXPORT i64 machine_l2_clock(const Machine *machine) { return machine->l2.clock; }
EXPORT i64 machine_hbm_bytes(const Machine *machine) { return machine->hbm_bytes; }
EXPORT i64 machine_now(const Machine *machine) { return machine->now; }
EXPORT i64 machine_next(const Machine *machine) { return machine->next; }
EXPORT i64 machine_start_due(const Machine *machine) {
    return machine->pending_count && machine->pending[0]->start <= machine->now;
}

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

/* The table has `count` instructions more, of which the i-th touches `touches` from first[i] to first[i + 1], and `flags` flags
 * in all. */
EXPORT i64 table_extend(
    Machine *machine, Table *table, const Instruction *more, const i64 *first, const Touch *touches, i64 count, i64 flags
) {
    MAY_FAIL(machine);
    i64 room = table->count, same = table->count, too = table->count, blocks = table->block_count;
    table->blocks = grow(machine, table->blocks, &blocks, table->block_count + 1, sizeof(void *));
    Touch *copy = zeros(machine, first[count], sizeof(Touch));
    memcpy(copy, touches, (size_t)first[count] * sizeof(Touch));
    table->blocks[table->block_count++] = copy;
    table->touched = grow(machine, table->touched, &too, table->count + count, sizeof(Touched));
    for (Core *core = machine->cores; core; core = core->next)
        if (core->watch && core->table == table) watch_know(core->watch, table->touched);
    table->instructions = grow(machine, table->instructions, &room, table->count + count, sizeof(Instruction));
    table->shape_of = grow(machine, table->shape_of, &same, table->count + count, sizeof(int32_t *));
    for (i64 i = 0; i < count; i++) {
        const Instruction *one = &more[i];
        int on_a_pipe = one->kind >= LOCAL && one->kind < SCALAR && one->pipe > S && one->pipe < PIPES;
        int scalar = one->pipe == S && one->kind >= SCALAR && one->kind <= BARRIER_ALL;
        if (!on_a_pipe && !scalar) fail(machine, BAD_ROW);
        table->instructions[table->count] = *one;
        table->touched[table->count] = (Touched){copy + first[i], first[i + 1] - first[i]};
        table->shape_of[table->count++] = NULL;
    }
    table->flags = flags;
    return 0;
}

/* The shape of an instruction's access at one phase; `special` are positions among the `count` lines. */
EXPORT i64 table_add_shape(
    Machine *machine, Table *table, i64 instruction, i64 phase, const ShapeNumbers *numbers, const i64 *offsets,
    const i64 *special
) {
    MAY_FAIL(machine);
    const i64 last = numbers->whole ? numbers->low + numbers->count - 1 : offsets[numbers->count - 1];
    const i64 first = numbers->whole ? numbers->low : offsets[0], line = table->numbers.line;
    if (first < 0 || last > (phase + table->instructions[instruction].extent - 1) / line) fail(machine, BAD_SHAPE);
    machine->shapes = grow(machine, machine->shapes, &machine->shape_room, machine->shape_count + 1, sizeof(Shape *));
    Shape *shape = zeros(machine, 1, sizeof *shape);
    machine->shapes[machine->shape_count++] = shape;
    shape->n = *numbers;
    if (!numbers->whole) {
        shape->offsets = zeros(machine, numbers->count, sizeof(i64));
        memcpy(shape->offsets, offsets, (size_t)numbers->count * sizeof(i64));
    }
    shape->special = zeros(machine, numbers->specials, sizeof(i64));
    memcpy(shape->special, special, (size_t)numbers->specials * sizeof(i64));
    table->shape_of[instruction][phase] = (int32_t)(machine->shape_count - 1);
    return 0;
}

/* What a program needs before it can begin: the shapes that nobody asked for yet as pairs (instruction, phase), and how many
 * lines the L2 has to know. Returns how many pairs; they fit in `asked` or the rest comes with the next call. */
EXPORT i64 program_survey(Machine *machine, Table *table, const Program *program, i64 *asked, i64 room, i64 *reach) {
    MAY_FAIL(machine);
    const i64 line = table->numbers.line;
    i64 found = 0;
    for (i64 row = 0; row < program->count; row++) {
        const i64 *columns = program->rows + row * COLUMNS;
        if (columns[0] < 0 || columns[0] >= table->count) fail(machine, BAD_ROW);
        const Instruction *one = &table->instructions[columns[0]];
        if (one->kind != TRANSFER) continue;
        const i64 operand = columns[one->operand], slot = operand >> SLOT_SHIFT;
        if (slot < 0 || slot >= program->tensors) fail(machine, BAD_ROW);
        const i64 address = program->bases[slot] + (operand & (((i64)1 << SLOT_SHIFT) - 1)), phase = address % line;
        const i64 behind = (address + one->extent - 1) / line + 1;
        if (behind > *reach) *reach = behind;
        int32_t **shapes = &table->shape_of[columns[0]];
        if (!*shapes) {
            *shapes = zeros(machine, line, sizeof(int32_t));
            for (i64 i = 0; i < line; i++) (*shapes)[i] = NO_SHAPE;
        }
        if ((*shapes)[phase] != NO_SHAPE) continue;
        if (found == room) return found; /* the caller counts anew */
        (*shapes)[phase] = ASKED;
        asked[2 * found] = columns[0];
        asked[2 * found + 1] = phase;
        found++;
    }
    return found;
}

/* -- running ---------------------------------------------------------------------------------------------------------- */

static i64 power_of_two(i64 least) {
    i64 power = 1;
    while (power < least) power *= 2;
    return power;
}

/* Begin a surveyed program on a core of its own and let it compute ahead. `found` is the core. */
EXPORT i64 core_begin(Machine *machine, const Table *table, const Program *program, Core **found) {
    MAY_FAIL(machine);
    Core *core = zeros(machine, 1, sizeof *core);
    core->next = machine->cores;
    if (core->next) core->next->previous = core;
    machine->cores = core;
    *found = core;
    core->program = *program;
    core->table = table;
    core->t = core->finish = program->begin;
    core->flag_count = table->flags;
    i64 size = table->flags * (i64)sizeof(Flag);
    for (int p = 1; p < PIPES; p++)
        size += power_of_two(table->numbers.depth[p]) * (i64)(sizeof(Issued) + sizeof(i64)) +
                table->numbers.outstanding[p] * (i64)sizeof(i64);
    char *at = core->memory = zeros(machine, size, 1);
    core->flags = (Flag *)at;
    at += table->flags * (i64)sizeof(Flag);
    for (int p = 1; p < PIPES; p++) {
        Pipe *pipe = &core->pipes[p];
        const i64 places = power_of_two(table->numbers.depth[p]);
        *pipe = (Pipe){
            .free = program->begin, .busy_until = -1, .last_retire = program->begin,
            .known = program->begin, .depth = table->numbers.depth[p],
            .mask = places - 1, .limit = table->numbers.outstanding[p]};
        pipe->queue = (Issued *)at;
        at += places * (i64)sizeof(Issued);
        pipe->left_at = (i64 *)at;
        at += places * (i64)sizeof(i64);
        pipe->retired = (i64 *)at;
        at += pipe->limit * (i64)sizeof(i64);
        for (i64 i = 0; i < pipe->limit; i++) pipe->retired[i] = program->begin;
    }
    if (program->watched) {
        core->watch = watch_new(
            &core->program, table->touched, table->number, machine->gm_watch, machine->hazard_limit, machine->watch_batch);
        if (!core->watch) fail(machine, NO_MEMORY);
        Program *own = &core->program;
        i64 **const columns[TIMES] = {&own->start, &own->end, &own->retire, &own->stall, &own->cause, &own->l2_wait, &own->hbm_wait,
                                      &own->l2_hits, &own->l2_misses, &own->hbm_bytes};
        for (int i = 0; i < TIMES; i++) *columns[i] = &core->at[0][i];
    }
    core->wake = 1 << S;
    list_core(machine, core);
    advance_listed(machine);
    if (machine->pending_count && machine->pending[0]->start < machine->next) machine->next = machine->pending[0]->start;
    return 0;
}

/* The cross-core flag for which a pipe waits is there: the wait is over at cycle `over`. */
EXPORT i64 core_pass(Machine *machine, Core *core, i64 pipe, i64 over) {
    MAY_FAIL(machine);
    core->pipes[pipe].over = over;
    core->wake |= (i64)1 << pipe;
    list_core(machine, core);
    advance_listed(machine);
    if (machine->pending_count && machine->pending[0]->start < machine->next) machine->next = machine->pending[0]->start;
    return 0;
}

/* A flag that was raised more often than it can count, or -1 (CoreRun.flag_overflow). */
EXPORT i64 core_flag_overflow(const Core *core) {
    for (i64 f = 0; f < core->flag_count; f++) {
        const Flag *flag = &core->flags[f];
        if (flag->overflowed || flag->raised - core->table->numbers.flag_max > flag->lowered) return f;
    }
    return -1;
}

/* What was seen of a watched core that is over: the totals, and up to `limit` hazards. Returns how many those are. */
EXPORT i64 core_watched(const Core *core, Totals *totals, Hazard *hazards) {
    return watch_read(core->watch, core->finish, core->queue_full, totals, hazards);
}

EXPORT i64 core_queue_full(const Core *core) { return core->queue_full; }

/* For the tale of a deadlock: how many instructions were issued to a pipe and how many have left its queue. */
EXPORT void core_progress(const Core *core, i64 pipe, i64 *issued, i64 *left) {
    *issued = core->pipes[pipe].issued;
    *left = core->pipes[pipe].left;
}

/* Where the scalar unit stands: the pipe in whose queue it wants a place, 0 at a barrier for pipes, -1 if nowhere. */
EXPORT i64 core_scalar_wants(const Core *core, i64 *row) {
    *row = core->row;
    return core->state == WANTS ? core->want : core->state == DRAINS ? S : -1;
}

EXPORT void core_free(Machine *machine, Core *core) {
    *(core->previous ? &core->previous->next : &machine->cores) = core->next;
    if (core->next) core->next->previous = core->previous;
    free_core(core);
}

/* What happens at cycle `now`; `machine_run` or `machine_settle` has to follow at the same one. */
EXPORT i64 machine_instant(Machine *machine, i64 now) {
    MAY_FAIL(machine);
    instant(machine, now);
    return 0;
}

/* Settle, then all instants before `until`. Returns 1 behind an instant in which a core said something, so that it is not
 * yet settled; 2 to be called again; 0 when nothing is left before `until`. */
EXPORT i64 machine_run(Machine *machine, i64 until) {
    MAY_FAIL(machine);
    for (int turn = 0; turn < TURNS; turn++) {
        settle(machine);
        if (machine->next >= until) return 0;
        instant(machine, machine->next);
        if (machine->event_end) return 1;
    }
    return 2;
}
