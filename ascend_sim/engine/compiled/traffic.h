/* Transfers, their classes and rates, the instants at which they begin and end (traffic.c). */
#ifndef ASCEND_SIM_TRAFFIC_H
#define ASCEND_SIM_TRAFFIC_H

#include "base.h"
#include "l2.h"
#include "memory.h"

enum { FRACTION = 16, SHARED_STEPS = 8 }; /* traffic.py */
enum direction { READ, WRITE, ATOMIC };
enum limit { PORT, L2_SHARE, HBM_SHARE };

/* Numbers of the chip for the shared GM; `shared` 0: every transfer runs at the speed of its port. */
typedef struct {
    i64 shared, line, l2_read, l2_write, hbm, miss_latency, same_line, write_back;
} GmNumbers;

/* The lines of one access at one phase inside a line, relative to the line of its address (../lines.py, Footprint). */
typedef struct {
    i64 direction, port, touched, count;
    i64 specials;    /* lines that a read takes past the L2, or that a write covers in part */
    i64 port_cycles; /* cycles of the access alone */
} ShapeNumbers;

/* Access of an instruction to GM, and its region there (../../isa/base.py, GmAccess); `special` selects the lines that bypass
 * the L2 or are written in part. */
typedef struct {
    i64 direction, port, special;
    i64 offset, row_bytes, row_stride, rows, plane_stride, planes;
} Way;
enum special { NOTHING, ALL_LINES, TAILS, PARTIAL };

typedef struct Core Core;
typedef struct Transfer Transfer;

typedef struct {
    ShapeNumbers n;
    i64 *special; /* lines, counted like the runs */
    Run *runs;
    i64 run_count;
} Shape;

/* A reader that waits for the fill of another transfer. */
typedef struct Follower {
    struct Follower *next;
    Transfer *transfer;
} Follower;

/* traffic.py, Transfer. It is kept while its pipe waits for it, and while it is one of the fills (`uses`). */
struct Transfer {
    Transfer *all, *next, *previous; /* list of all transfers; neighbours in its class, `next` also in the lists of
                                         finished and of unused ones */
    const Shape *shape;
    Follower *followers;
    Core *core; /* core and pipe that requested it; traffic.c does not use them */
    i64 pipe;
    i64 start, order, first, open, ready, stamp, misses, hits, allocated, hbm_bytes, wait_l2, wait_hbm;
    i64 target, l2, hbm; /* in its class: served at the end, waits at the start */
    int uses;
};

/* Lines that `transfer` brings into the L2: those with stamps from `begin` to `end`. */
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

/* traffic.py, Traffic. */
typedef struct {
    WayOut *way_out;
    GmNumbers gm;
    L2 l2;
    i64 now, next; /* the last instant, and the next one that is known */
    i64 hbm_bytes;

    Transfer **pending; /* a heap by (start, order) */
    i64 pending_count, pending_room;
    Class *classes;
    i64 class_count, class_room;
    Fill *fills; /* by stamp; those before `fill_head` have all arrived */
    i64 fill_head, fill_end, fill_room, asking;
    Transfer *transfers, *unused, *over;
    Follower *spare;
    Follower **follower_blocks;
    i64 follower_block_count;
    i64 *read_until; /* for every line: the cycle at which its last reader ends; numpy's memory */
    i64 *found, found_room;
} Traffic;

void lend_l2(Traffic *traffic, i64 *stamp, i64 *read_until, i64 reach, uint8_t *dirty, i64 capacity, i64 clock);
Transfer *request(Traffic *traffic, i64 start, i64 order, const Shape *shape, i64 first);
void hurry(Traffic *traffic);
Transfer *instant(Traffic *traffic, i64 now);
void settle(Traffic *traffic);
void release(Traffic *traffic, Transfer *transfer);
void free_traffic(Traffic *traffic);

#endif
