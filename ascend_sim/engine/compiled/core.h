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

/* Numbers of the chip that a core uses; `bank_bytes` are the addresses of one bank of each of the `bank_groups`. */
typedef struct {
    i64 line, flag_latency, barrier_latency, bank_groups, bank_bytes, depth[PIPES], outstanding[PIPES];
} CoreNumbers;

/* Events of a core for Python: its end, or a cross-core flag (../cross.py). */
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
    void **blocks; /* memory of the arrays in `touched` */
    Shape **shapes;
    i64 count, flags, number, block_count, shape_count, shape_room;
} Table;

/* A row that was issued to a pipe, and the cycle of its issue. */
typedef struct {
    i64 time, row, instruction;
} Issued;

/* The arrival of the n-th set of a flag, and the end of its n-th wait. */
typedef struct {
    i64 arrives, over;
} Use;

/* core_flag.py: sets and waits of a flag, the n-th of each at place `n & mask`, with room for numbers below `end`. The sets of
 * the first `paired` waits are known; `lost` sets were lost. A set is kept until its wait has found it; a wait until the set of
 * the wait `flag_max` later is found (Program). */
typedef struct {
    Use *uses;
    i64 mask, end, raised, lowered, paired, lost, first_lost;
    i64 sleeper; /* mask of the pipe that waits for the next set */
} Flag;

enum pipe_state { IDLE, ON_FLAG, MOVING, ON_CROSS };
typedef struct {
    i64 free, busy_until, last_retire, known; /* as in CoreRun._pipe */
    i64 position, waiting;    /* count of finished rows, and of issued rows that wait: 0 while the pipe is awake */
    int32_t depth, mask;
    i64 *place;               /* cycle at which the queue has room for the n-th row, at place `n & mask` */
    i64 *retired, *oldest, *newest; /* a ring of retirements, as many as may be in flight, its first and its last number */
    i64 state, begun;         /* its state, and the cycle at which the row began on which it sleeps */
    i64 over;                 /* cycle at which the sleep ended: end of a transfer, or of a cross-core wait */
    Issued *queue;            /* unfinished rows, at place `n & mask`: `depth`, and the one that is executed */
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
    i64 bank_conflicts; /* cycles that they took, on V */
    i64 flag_count; /* flags of its program; the table may have got more since, from other programs */
    Pipe *pipes;
    Flag *flags;
    void *memory;
    Watch *watch; /* NULL: only columns are wanted */
    Kept *kept;   /* packed columns of a watched core, or NULL */
};

/* All cores, and their events. */
typedef struct {
    WayOut *way_out;
    Traffic *traffic;
    GmWatch *gm_watch; /* NULL: GM is not watched */
    Core *first, *to_advance;
    i64 pieces, last; /* pieces of rows to issue before the call returns; the last cycle of a run */
    Event *events;
    i64 event_head, event_end, event_room;
} Cores;

void begin(Cores *cores, Core *core);
void go_on(Cores *cores, Core *core, i64 pipe, i64 over);
int advance_listed(Cores *cores);
i64 lost_set(const Core *core, Flag *flag);

#endif
