/* The compiled machine: cores and the GM that they share, equal to the SimPy engine to the cycle.
 *
 * The SimPy engine (../core.py, ../traffic.py, ../l2.py) is the reference; a rule stands in both under the same name, and
 * docs/design.md says why it is so ("Time runs ahead of the clock", "GM transfers in classes", "The L2 as stamps"). What
 * differs is how one waits: a SimPy process sleeps on an event, here a pipe keeps a state and its core a mask of the units to
 * call next.
 *
 *   core.c     core.py      one program on one core
 *   traffic.c  traffic.py   transfers, their classes and rates, the instants at which they begin and end
 *   l2.c       l2.py        resident and dirty lines
 *   machine.c               what Python calls, and memory
 *   watch.c    totals.py    what is known of a program without its columns: totals, hazards, how full its buffers were
 *   hazards.c  hazards.py   accesses to the same bytes at the same time
 *   occupancy.c  occupancy.py  how full a buffer is over time
 *   lines.c    lines.py     the lines that a program reads and writes
 *
 * Times are cycles, rates 2**-16 bytes per cycle, amounts 2**-16 bytes, all int64; headroom.py says why nothing wraps.
 */
#ifndef ASCEND_SIM_MACHINE_H
#define ASCEND_SIM_MACHINE_H

#include <setjmp.h>
#include <stdint.h>

typedef int64_t i64;

#define EXPORT __attribute__((visibility("default")))

enum kind { LOCAL, SET, WAIT, DISARMED, TRANSFER, BARRIER, CROSS_SET, CROSS_WAIT, SCALAR, BARRIER_ALL }; /* isa/base.py */
enum { S, CUBE = 4, PIPES = 7 }; /* isa/base.py: the scalar unit is pipe 0 */
enum { TIMES = 10 };         /* columns of a program's timeline (../timeline.py) */
enum { COLUMNS = 5 };        /* of a program's rows: instruction, dst, src0, src1, tile (kernel/program.py) */
enum { SLOT_SHIFT = 44 };    /* of a GM operand (memory/gm.py) */
enum { FRACTION = 16, SHARED_STEPS = 8 }; /* traffic.py */
enum direction { READ, WRITE, ATOMIC };
enum limit { PORT, L2_SHARE, HBM_SHARE };
enum cause { NO_CAUSE = 0, QUEUE_FULL = 1, FLAG = 2, PIPE_BUSY = 3, CROSS_CORE = 7, OUTSTANDING = 8, NOTHING_TO_DO = 9 }; /* timeline.py */
enum failure { NO_MEMORY = -1, CLOCK_OVERFLOW = -2, BAD_ROW = -3, BAD_SHAPE = -4 };

#define NEVER ((i64)1 << 62)

/* -- what Python hands over ------------------------------------------------------------------------------------------- */

/* One distinct instruction of a table. */
typedef struct {
    int32_t kind, pipe;
    i64 first, stream, latency; /* cycles behind a pause, back to back, and from the end of occupancy to retirement;
                                   WAIT: its lead, and whether it is at work */
    i64 other;   /* SET, WAIT: its flag; SCALAR: cycles; BARRIER_ALL: mask of pipes; CROSS_WAIT: whether armed */
    i64 waiter;  /* SET: the pipe that waits for it */
    i64 operand; /* TRANSFER: the column of its GM address */
    i64 extent;  /* TRANSFER: bytes from that address to the end of the last one touched */
} Instruction;

/* What a core needs to know of its chip. */
typedef struct {
    i64 line, flag_latency, barrier_latency, flag_max, depth[PIPES], outstanding[PIPES];
} CoreNumbers;

/* What the shared GM needs to know of its chip; `shared` 0: every transfer runs at the speed of its port. */
typedef struct {
    i64 shared, line, l2_read, l2_write, hbm, miss_latency, same_line;
} GmNumbers;

/* The lines of one access at one phase inside a line, relative to the line of its address (../lines.py, Footprint). */
typedef struct {
    i64 direction, port, touched, count, low, whole; /* whole: the lines follow each other from `low` */
    i64 specials;    /* positions: of a read those that go past the L2, of a write those not covered whole */
    i64 port_cycles; /* how long it takes alone */
} ShapeNumbers;

/* A program and the columns of its timeline, a number for each row; for each pipe, the row that it is at, where the program is
 * `watched` instead of kept. `moved` is how far its GM operands lie behind what the rows say, by tensor; `bases` have it too. */
typedef struct {
    const i64 *rows, *bases, *moved;
    i64 count, tensors, begin, issue, order, number, watched;
    i64 *start, *end, *retire, *stall, *cause, *l2_wait, *hbm_wait, *l2_hits, *l2_misses, *hbm_bytes;
} Program;

/* The bytes that an instruction reads or writes in one space, relative to an operand (../../memory/regions.py, Region, merged
 * as far as it goes; `extent` and `column` as in kernel/program.py, Touches). */
enum { GM, L0C_SPACE = 4, SPACES = 8 }; /* kernel/program.py, SPACES */
typedef struct {
    i64 space, column, offset, extent, writes, atomic, row_bytes, row_stride, rows, plane_stride, planes;
    i64 paced, tile_rows, tile_columns, work, head; /* isa/base.py, Pace */
} Touch;

/* What one instruction touches: reads before writes. */
typedef struct {
    const Touch *touches;
    i64 count;
} Touched;

/* A hazard: the earlier and the later of two accesses, each with its program's `order`, its row and what stands in it. */
typedef struct {
    i64 program[2], table[2], row[2], writes[2], values[2][COLUMNS];
    i64 space, low, high, start, retire;
} Hazard;

/* What a program comes to (../totals.py). `stalls` by cause; `end` is that of the last row. */
enum { CAUSES = 10 };
typedef struct {
    i64 rows, busy, end, stalls[CAUSES], l2_wait, hbm_wait;
} PipeTotals;
typedef struct {
    PipeTotals pipes[PIPES];
    i64 hbm_bytes, l2_hits, l2_misses, hazards, peak[SPACES], area[SPACES];
} Totals;

/* What a core tells Python: that it is over, or that it is at a cross-core flag (../cross.py). */
enum happening { FINISHED, RAISES, PASSES_BY, WAITS };
typedef struct {
    i64 what, core, pipe, row, time;
} Event;

/* -- the L2 ----------------------------------------------------------------------------------------------------------- */

/* Distinct ascending lines: first + offsets[i], or first + i where `offsets` is NULL. */
typedef struct {
    i64 first;
    const i64 *offsets;
    i64 count;
} Lines;

static inline i64 line_of(Lines lines, i64 i) { return lines.first + (lines.offsets ? lines.offsets[i] : i); }

typedef struct {
    i64 *stamp;     /* of every line up to `reach`; numpy's memory */
    uint8_t *dirty; /* of every place */
    i64 reach, capacity, clock;
} L2;

i64 l2_read(L2 *l2, Lines lines, const i64 *bypass, i64 bypassed, i64 *victims, i64 *found, i64 *hits);
i64 l2_write(L2 *l2, Lines lines, const i64 *partial, i64 partials, i64 *victims);

/* -- transfers -------------------------------------------------------------------------------------------------------- */

typedef struct Machine Machine;
typedef struct Core Core;
typedef struct Transfer Transfer;
typedef struct Watch Watch;
typedef struct GmWatch GmWatch;

typedef struct {
    ShapeNumbers n;
    i64 *offsets, *special;
} Shape;

/* A reader that waits for the fill of another transfer. */
typedef struct Follower {
    struct Follower *next;
    Transfer *transfer;
} Follower;

/* traffic.py, Transfer. It lives while its pipe waits for it and while it stands among the fills (`uses`). */
struct Transfer {
    Transfer *all, *next, *previous; /* all that were ever made; neighbours in its class, `next` also among the unused */
    Core *core;
    const Shape *shape;
    Follower *followers;
    i64 pipe, start, order, first, open, ready, stamp, misses, hits, allocated, hbm_bytes, wait_l2, wait_hbm;
    i64 target, l2, hbm; /* in its class: served at the end, waits at the start */
    int uses;
};

/* Lines with stamps from `begin` to `end` are those that `transfer` took in. */
typedef struct {
    i64 begin, end, asked;
    Transfer *transfer;
} Fill;

/* traffic.py, _Class: members in the order of their targets. */
typedef struct {
    i64 port, direction, m, weight;
    i64 rate, limit, served, l2, hbm, members, frozen;
    Transfer *head, *tail;
} Class;

void request(Machine *machine, Core *core, int pipe, i64 start, i64 order, const Shape *shape, i64 first);
void instant(Machine *machine, i64 now);
void settle(Machine *machine);
void release(Machine *machine, Transfer *transfer);

/* -- cores ------------------------------------------------------------------------------------------------------------ */

/* The distinct instructions of a task; shape_of[i][phase] is the number of a shape, or NO_SHAPE. */
enum { NO_SHAPE = -1, ASKED = -2 };
typedef struct Table {
    struct Table *next;
    CoreNumbers numbers;
    Instruction *instructions;
    int32_t **shape_of;
    Touched *touched;
    void **blocks; /* what `touched` points into */
    i64 count, flags, number, block_count;
} Table;

typedef struct {
    i64 time, row;
} Issued;

/* Numbers that are asked for for some time: the n-th stands at place `n & (room - 1)` until it is overwritten. */
typedef struct {
    i64 *items, room;
} Ring;

/* core.py: when the sets of a flag arrive and when its waits took them. A set is kept until its wait took it, a wait until the
 * set has come that is `flag_max` behind it: the later of the two sees whether the flag was raised too often. */
typedef struct {
    Ring sets, taken;
    i64 raised, lowered, overflowed;
} Flag;

enum pipe_state { IDLE, ON_FLAG, MOVING, ON_CROSS };
typedef struct {
    i64 free, busy_until, last_retire, known; /* as in CoreRun._pipe */
    i64 issued, left;                  /* how many were put into the queue, and how many have left it */
    i64 state, t, row;                 /* what it sleeps on, at which row, since when */
    i64 over;                          /* when that was over: the end of a transfer, the instant of a cross-core flag */
    i64 depth, mask, limit, oldest;
    Issued *queue;                     /* the last ones issued, place `n & mask` */
    i64 *left_at;                      /* when they left it */
    i64 *retired;                      /* the last `limit` retirements, a ring whose oldest one is at `oldest` */
    Transfer *transfer;
} Pipe;

enum core_state { RUNNING, WANTS, DRAINS, ISSUED, OVER };
struct Core {
    Core *next, *previous, *listed;
    Program program;
    const Table *table;
    i64 row, t, state, want, queue_full, finish;
    i64 wake;    /* mask of the units to call */
    i64 in_list; /* of the cores to advance */
    i64 flag_count; /* of its program: another one that began meanwhile may have brought the table more */
    Pipe pipes[PIPES];
    Flag *flags;
    void *memory;
    Watch *watch; /* NULL: the columns are kept */
    i64 at[PIPES][TIMES]; /* in place of the columns: the row at which each pipe is */
};

void list_core(Machine *machine, Core *core);
i64 horizon(const Core *core);
void advance_listed(Machine *machine);

/* -- watching: what is known of a program without its columns ----------------------------------------------------------
 *
 * Rows come pipe by pipe as they are over. What they touch is looked at in order of start, as far as a horizon before which
 * nothing begins any more; nothing behind it is kept. Functions return 0 where there is no memory. */

/* One access, its bytes `low` to `high`. */
typedef struct {
    i64 start, end, retire, program, table, row, pipe, address, low, high;
    const Touch *touch;
    i64 values[COLUMNS];
} Access;

typedef struct {
    Access *items;
    i64 count, room;
} Accesses;

/* Hazards as they are found: all are counted, `limit` of them are kept. */
typedef struct {
    Hazard *items;
    i64 count, room, total;
} Found;

typedef struct {
    const Touch *one, *other;
    i64 distance, meet;
} Known;

int hazards_of(Accesses *active, Access *access, Found *found, i64 limit, Known **known);
GmWatch *gm_watch_new(i64 limit, i64 batch);
void gm_watch_free(GmWatch *gm);
int gm_watch_add(GmWatch *gm, const Access *access);
int gm_watch_is_full(const GmWatch *gm);
int gm_watch_work_off(GmWatch *gm, i64 horizon);
Found *gm_watch_found(GmWatch *gm, i64 task);

Watch *watch_new(const Program *program, const Touched *touched, i64 table, GmWatch *gm, i64 limit, i64 batch);
void watch_free(Watch *watch);
int watch_row(Watch *watch, const Instruction *instruction, i64 row, const i64 *times);
int watch_is_full(const Watch *watch);
int watch_work_off(Watch *watch, i64 horizon);
int watch_end(Watch *watch);
i64 watch_read(const Watch *watch, i64 finish, i64 queue_full, Totals *totals, Hazard *hazards);
void watch_know(Watch *watch, const Touched *touched);

typedef struct {
    i64 key, value;
} Item;
Item *sorted(Item *items, Item *spare, i64 count);

/* One buffer over time (occupancy.c). */
typedef struct Piece Piece;
typedef struct {
    Item *items;
    i64 count, room;
} Items;
typedef struct {
    Piece *pieces;
    i64 piece_count, piece_room, area;
    Items rises, falls; /* cycle, and how many bytes more, or fewer, are held from it on */
    Items past;         /* from a cycle to the next one: the most bytes held */
} Buffer;
int buffer_touch(Buffer *buffer, i64 low, i64 high, i64 start, i64 retire, i64 writes);
int buffer_forget(Buffer *buffer, i64 horizon);
int buffer_end(Buffer *buffer);
void buffer_free(Buffer *buffer);

/* -- the machine ------------------------------------------------------------------------------------------------------ */

struct Machine {
    GmNumbers gm;
    L2 l2;
    i64 now, next; /* the last instant, and the next one that is known */
    i64 hbm_bytes;

    Table *tables;
    Shape **shapes;
    i64 shape_count, shape_room;
    Core *cores, *to_advance;

    Transfer **pending; /* a heap by (start, order) */
    i64 pending_count, pending_room;
    Class *classes;
    i64 class_count, class_room;
    Fill *fills; /* by stamp; those before `fill_head` have all arrived */
    i64 fill_head, fill_end, fill_room, asking;
    Transfer *transfers, *unused;
    Follower *spare;
    Follower **follower_blocks;
    i64 follower_block_count;
    i64 *read_until, read_reach;
    i64 *found, found_room;

    GmWatch *gm_watch;
    i64 hazard_limit, watch_batch, table_count;

    Event *events;
    i64 event_head, event_end, event_room;
    jmp_buf failed;
};

_Noreturn void fail(Machine *machine, enum failure why);
void *grow(Machine *machine, void *old, i64 *room, i64 least, i64 size);
void tell(Machine *machine, enum happening what, Core *core, i64 pipe, i64 row, i64 time);

#endif
