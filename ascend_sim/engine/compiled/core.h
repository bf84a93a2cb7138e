/* One program on one core (core.c). */
#ifndef ASCEND_SIM_CORE_H
#define ASCEND_SIM_CORE_H

#include "base.h"
#include "columns.h"
#include "memory.h"
#include "program.h"
#include "rows.h"
#include "traffic.h"
#include "watch.h"

/* What a core needs to know of its chip. */
typedef struct {
    i64 line, flag_latency, barrier_latency, depth[PIPES], outstanding[PIPES];
} CoreNumbers;

/* What a core tells Python: that it is over, or that it is at a cross-core flag (../cross.py). */
enum happening { FINISHED, RAISES, PASSES_BY, WAITS };
typedef struct {
    i64 what, core, pipe, instruction, time;
} Event;

/* The distinct instructions of a task; shape_of[i][phase] is the number of a shape, or NO_SHAPE. */
enum { NO_SHAPE = -1 };
typedef struct Table {
    struct Table *next;
    CoreNumbers numbers;
    Instruction *instructions;
    Way *accesses; /* of transfers */
    int32_t **shape_of;
    Touched *touched;
    void **blocks; /* what `touched` points into */
    Shape **shapes;
    i64 count, flags, number, block_count, shape_count, shape_room;
} Table;

/* What was issued to a pipe, and when. */
typedef struct {
    i64 time, row, instruction;
} Issued;

/* When the n-th set of a flag arrives and when its n-th wait is over. */
typedef struct {
    i64 arrives, over;
} Use;

/* core_flag.py: sets and waits of a flag, the n-th of each at place `n & mask`; for those before `end` there is room. Of
 * `paired` waits the set is known, and `lost` sets were. A set is kept until its wait found it, a wait until the set was looked
 * at that is as many behind it as the flag holds (Program, flag_max). */
typedef struct {
    Use *uses;
    i64 mask, end, raised, lowered, paired, lost, first_lost;
    i64 sleeper; /* mask of the pipe that waits for the next set */
} Flag;

enum pipe_state { IDLE, ON_FLAG, MOVING, ON_CROSS };
typedef struct {
    i64 free, busy_until, last_retire, known; /* as in CoreRun._pipe */
    i64 position, waiting;    /* how many rows are over, and how many more were issued to it: none while it is awake */
    int32_t depth, mask;
    i64 *place;               /* when the n-th row finds a place in the queue, at place `n & mask` */
    i64 *retired, *oldest, *newest; /* a ring of retirements, as many as may be in flight, its first and its last number */
    i64 state, begun;         /* what it sleeps on, and when the row began at which it does */
    i64 over;                 /* when that was over: the end of a transfer, the instant of a cross-core flag */
    Issued *queue;            /* those that are not over, place `n & mask`; one more than `depth`, for the one at work */
    Transfer *transfer;
} Pipe;

enum core_state { RUNNING, WANTS, DRAINS, HOLDS, ISSUED, OVER }; /* HOLDS: the scalar unit waits for a flag */
struct Core {
    Core *next, *previous, *listed;
    Program program;
    Rows rows;
    const Table *table;
    i64 row, t, begun, state, want, queue_full, finish;
    i64 wake;    /* mask of the pipes to call */
    i64 in_list; /* of the cores to advance */
    i64 flag_count; /* of its program: another one that began meanwhile may have brought the table more */
    Pipe *pipes;
    Flag *flags;
    void *memory;
    Watch *watch; /* NULL: the columns alone are asked for */
    Kept *kept;   /* of a watched core: its columns, packed; NULL where it keeps none */
};

/* All cores, and what they have to say. */
typedef struct {
    WayOut *way_out;
    Traffic *traffic;
    GmWatch *gm_watch; /* NULL: nobody watches */
    Core *first, *to_advance;
    i64 pieces, last; /* of rows that may still be issued before Python is heard; behind the `last` cycle no core goes on */
    Event *events;
    i64 event_head, event_end, event_room;
} Cores;

void begin(Cores *cores, Core *core);
void go_on(Cores *cores, Core *core, i64 pipe, i64 over);
int advance_listed(Cores *cores);
i64 lost_set(const Core *core, Flag *flag);

#endif
