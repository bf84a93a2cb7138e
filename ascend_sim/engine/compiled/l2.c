/* The L2 cache (../l2.py): a line is resident exactly while fewer than `capacity` lines were allocated after it. */
#include "l2.h"

/* Give one absent line a place; 1 if a dirty one had to leave it. Many at a time, as numpy does it, come to the same. */
static inline i64 allocate(L2 *l2, i64 line, uint8_t dirty, i64 *place) {
    i64 victim = l2->dirty[*place];
    l2->dirty[*place] = dirty;
    l2->stamp[line] = l2->clock++;
    if (++*place == l2->capacity) *place = 0;
    return victim;
}

/* Read `lines`, of which those at positions `bypass` are fetched without being kept (L2Cache.read).
 *
 * Returns the lines from HBM, adds dirty lines written back to `victims`, and puts the stamps of those that were there
 * into `found`, `hits` of them; but for those before `since`, of which nobody wants to know.
 */
i64 l2_read(L2 *l2, Lines lines, const i64 *bypass, i64 bypassed, i64 since, i64 *victims, i64 *found, i64 *hits) {
    const i64 threshold = l2->clock - l2->capacity, asked = since > threshold ? since : threshold;
    i64 absent = 0, present = 0;
    for (i64 i = 0, b = 0; i < lines.count; b++) {
        const i64 end = b < bypassed ? bypass[b] : lines.count;
        for (; i < end; i++) {
            const i64 stamp = l2->stamp[line_of(lines, i)];
            absent += stamp < threshold;
            found[present] = stamp;
            present += stamp >= asked;
        }
        if (i == lines.count) break;
        found[present] = l2->stamp[line_of(lines, i++)];
        present += found[present] >= asked;
    }
    *hits = present;
    i64 place = absent ? l2->clock % l2->capacity : 0;
    for (i64 i = 0, b = 0, left = absent; left; i++) {
        const int past = b < bypassed && bypass[b] == i;
        b += past;
        const i64 line = line_of(lines, i);
        if (past || l2->stamp[line] >= threshold) continue;
        *victims += allocate(l2, line, 0, &place);
        left--;
    }
    return absent + bypassed;
}

/* Write `lines`; an absent one of those at positions `partial` is fetched (L2Cache.write). Returns the lines from HBM. */
i64 l2_write(L2 *l2, Lines lines, const i64 *partial, i64 partials, i64 *victims) {
    i64 threshold = l2->clock - l2->capacity;
    i64 fetched = 0, present = 0;
    for (i64 i = 0; i < partials; i++) fetched += l2->stamp[line_of(lines, partial[i])] < threshold;
    for (i64 i = 0; i < lines.count; i++) present += l2->stamp[line_of(lines, i)] >= threshold;
    i64 place = l2->clock % l2->capacity;
    for (i64 i = 0, absent = lines.count - present; absent; i++) {
        i64 line = line_of(lines, i);
        if (l2->stamp[line] >= threshold) continue;
        *victims += allocate(l2, line, 1, &place);
        absent--;
    }
    if (present) {
        threshold = l2->clock - l2->capacity; /* to bring lines in may have driven some of the others out */
        const i64 lap = l2->clock - l2->clock % l2->capacity; /* a division for every line would cost more than the rest */
        for (i64 i = 0; i < lines.count; i++) {
            i64 stamp = l2->stamp[line_of(lines, i)], at = stamp - lap;
            if (stamp >= threshold) l2->dirty[at < 0 ? at + l2->capacity : at] = 1;
        }
    }
    return fetched;
}
