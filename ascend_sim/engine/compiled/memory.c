/* Memory, and the way out of a call that gets none. */
#include "memory.h"

#include <stdlib.h>

_Noreturn void fail(WayOut *way_out, enum failure why) { longjmp(way_out->failed, why); }

/* Return `old` with room for at least `least` items of `size` bytes. */
void *grow(WayOut *way_out, void *old, i64 *room, i64 least, i64 size) {
    if (least <= *room) return old;
    i64 more = 2 * *room > least ? 2 * *room : least;
    if (more > INT64_MAX / 2 / size) fail(way_out, NO_MEMORY);
    void *found = realloc(old, (size_t)(more * size));
    if (!found) fail(way_out, NO_MEMORY);
    *room = more;
    return found;
}

/* Return `count` items of `size` bytes, all 0. */
void *zeros(WayOut *way_out, i64 count, i64 size) {
    void *found = calloc((size_t)(count ? count : 1), (size_t)size);
    if (!found) fail(way_out, NO_MEMORY);
    return found;
}
