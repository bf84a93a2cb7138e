/* Memory, and the way out of a call that gets none (memory.c). */
#ifndef ASCEND_SIM_MEMORY_H
#define ASCEND_SIM_MEMORY_H

#include <setjmp.h>
#include "base.h"

enum failure { NO_MEMORY = -1, CLOCK_OVERFLOW = -2, BAD_ROW = -3, BAD_SHAPE = -4 };

/* The point at which a failed call goes on. */
typedef struct {
    jmp_buf failed;
} WayOut;

_Noreturn void fail(WayOut *way_out, enum failure why);
void *grow(WayOut *way_out, void *old, i64 *room, i64 least, i64 size);
void *zeros(WayOut *way_out, i64 count, i64 size);

#endif
