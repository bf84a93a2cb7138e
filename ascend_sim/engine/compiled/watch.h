/* Totals of a program, without its columns: times, hazards, occupancy of its buffers (watch.c).
 *
 * Rows come pipe by pipe as they finish. Their accesses are checked in order of start, up to a horizon before which no row
 * starts any more; checked rows are dropped. Functions return 0 if they get no memory. */
#ifndef ASCEND_SIM_WATCH_H
#define ASCEND_SIM_WATCH_H

#include "base.h"
#include "hazards.h"
#include "program.h"
#include "rows.h"

/* Totals of a program (../totals.py). `stalls` by cause; `end` is that of the last row. */
enum { CAUSES = 10 };
typedef struct {
    i64 rows, busy, end, stalls[CAUSES], l2_wait, hbm_wait, bank_conflicts;
} PipeTotals;
typedef struct {
    PipeTotals pipes[PIPES];
    i64 hbm_bytes, l2_hits, l2_misses, hazards, peak[SPACES], area[SPACES];
} Totals;

typedef struct Watch Watch;
Watch *watch_new(const Rows *rows, const Touched *touched, i64 table, GmWatch *gm, i64 limit, i64 batch);
void watch_free(Watch *watch);
int watch_row(Watch *watch, const Instruction *instruction, i64 row, const Times *times, const Move *move);
int watch_is_full(const Watch *watch);
int watch_work_off(Watch *watch, i64 horizon);
int watch_end(Watch *watch);
i64 watch_read(const Watch *watch, i64 finish, i64 queue_full, Totals *totals, Hazard *hazards);
void watch_know(Watch *watch, const Touched *touched);

#endif
