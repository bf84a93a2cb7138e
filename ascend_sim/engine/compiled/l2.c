/* The L2 cache (../l2.py): a line is resident exactly while fewer than `capacity` lines were allocated after it
 * (docs/design.md, "The L2 as stamps").
 *
 * The Python twin looks at every line of a transfer; here the bounds of a block often answer for all of its lines. */
#include "l2.h"

#include <string.h>

/* Lines that a transfer meets in the L2: the count of `absent` ones, and `present` stamps in `found`, those from `asked` on. */
typedef struct {
    const i64 threshold, asked;
    i64 absent, present, *found;
} Look;

/* 1 if all stamps of a block are known to be below `stamp`. */
static inline int all_before(const Block *block, i64 stamp) { return block->behind && block->behind <= stamp; }

/* Look at each of some lines of a block; if these are all of its lines, note the bounds of their stamps. */
static inline void look_at_each(const L2 *l2, i64 line, i64 end, Look *look) {
    Block *block = &l2->blocks[line >> BLOCK_SHIFT];
    i64 oldest = INT64_MAX, newest = 0, absent = 0, present = look->present;
    const int whole = end - line == BLOCK;
    for (; line < end; line++) {
        const i64 stamp = l2->stamp[line];
        oldest = stamp < oldest ? stamp : oldest;
        newest = stamp > newest ? stamp : newest;
        absent += stamp < look->threshold;
        look->found[present] = stamp;
        present += stamp >= look->asked;
    }
    look->absent += absent;
    look->present = present;
    if (!whole) return;
    block->oldest = oldest;
    block->behind = newest + 1;
}

/* Look at some lines of a block: by its bounds if they suffice. */
static inline void look_at(const L2 *l2, i64 line, i64 end, Look *look) {
    const Block *block = &l2->blocks[line >> BLOCK_SHIFT];
    if (all_before(block, look->threshold)) look->absent += end - line;
    else if (block->oldest < look->threshold || !all_before(block, look->asked)) look_at_each(l2, line, end, look);
}

/* Give contiguous lines places from `*place` on; returns the count of dirty lines that are evicted. */
static i64 allocate_all(L2 *l2, i64 line, i64 end, uint8_t dirty, i64 *place) {
    const i64 clock = l2->clock - line;
    i64 victims = 0;
    for (i64 i = line; i < end; i++) l2->stamp[i] = clock + i;
    l2->clock += end - line;
    while (line < end) {
        const i64 left = l2->capacity - *place, count = end - line < left ? end - line : left;
        uint8_t *const places = l2->dirty + *place;
        for (i64 i = 0; i < count; i++) victims += places[i];
        memset(places, dirty, (size_t)count);
        line += count;
        *place = count < left ? *place + count : 0;
    }
    return victims;
}

/* Give each absent line, of some lines of a block, a place; returns the count of evicted dirty lines. */
static i64 allocate(L2 *l2, i64 line, i64 end, i64 threshold, uint8_t dirty, i64 *place) {
    Block *block = &l2->blocks[line >> BLOCK_SHIFT];
    if (block->oldest >= threshold) return 0;
    const i64 before = l2->clock, whole = end - line == BLOCK;
    i64 victims = 0;
    if (all_before(block, threshold)) {
        victims = allocate_all(l2, line, end, dirty, place);
    } else {
        for (; line < end; line++)
            if (l2->stamp[line] < threshold) victims += allocate_all(l2, line, line + 1, dirty, place);
    }
    if (l2->clock > before) block->behind = l2->clock;
    if (whole && l2->clock - before == BLOCK) block->oldest = before;
    return victims;
}

/* Read `lines`; the lines at the offsets `bypass` from the first are fetched and not kept (L2Cache.read).
 *
 * Returns the count of lines from HBM, adds dirty lines written back to `victims`, and puts the stamps of resident lines, if
 * they are at least `since`, into `found`, `hits` of them.
 */
i64 l2_read(L2 *l2, Lines lines, const i64 *bypass, i64 bypassed, i64 since, i64 *victims, i64 *found, i64 *hits) {
    const i64 threshold = l2->clock - l2->capacity, asked = since > threshold ? since : threshold;
    const Run *const behind = lines.runs + lines.run_count;
    Look kept = {.threshold = threshold, .asked = asked, .found = found};
    i64 past = bypassed ? lines.first + bypass[0] : NEVER, b = 0; /* the next line that is not kept */
    for (const Run *run = lines.runs; run < behind; run++)
        for (i64 line = lines.first + run->low, next; line < lines.first + run->end; line = next) {
            next = next_block(line, lines.first + run->end);
            if (past >= next) {
                look_at(l2, line, next, &kept);
                continue;
            }
            look_at(l2, line, past, &kept);
            found[kept.present] = l2->stamp[past];
            kept.present += found[kept.present] >= asked;
            next = past + 1;
            past = ++b < bypassed ? lines.first + bypass[b] : NEVER;
        }
    *hits = kept.present;
    const i64 full = l2->clock + kept.absent;
    i64 place = kept.absent ? l2->clock % l2->capacity : 0;
    past = bypassed ? lines.first + bypass[b = 0] : NEVER;
    for (const Run *run = lines.runs; run < behind && l2->clock < full; run++)
        for (i64 line = lines.first + run->low, next; line < lines.first + run->end; line = next) {
            next = next_block(line, lines.first + run->end);
            const int is_past = past < next;
            if (is_past) next = past;
            *victims += allocate(l2, line, next, threshold, 0, &place);
            if (!is_past) continue;
            next++;
            past = ++b < bypassed ? lines.first + bypass[b] : NEVER;
        }
    return kept.absent + bypassed;
}

/* Write `lines`; absent lines at the offsets `partial` from the first are fetched (L2Cache.write). Returns the count of lines
 * from HBM. */
i64 l2_write(L2 *l2, Lines lines, const i64 *partial, i64 partials, i64 *victims) {
    i64 threshold = l2->clock - l2->capacity, fetched = 0, unasked[BLOCK];
    const Run *const behind = lines.runs + lines.run_count;
    Look all = {.threshold = threshold, .asked = NEVER, .found = unasked};
    for (i64 i = 0; i < partials; i++) fetched += l2->stamp[lines.first + partial[i]] < threshold;
    for (const Run *run = lines.runs; run < behind; run++)
        for (i64 line = lines.first + run->low, next; line < lines.first + run->end; line = next) {
            next = next_block(line, lines.first + run->end);
            look_at(l2, line, next, &all);
        }
    const i64 full = l2->clock + all.absent;
    i64 place = l2->clock % l2->capacity;
    for (const Run *run = lines.runs; run < behind && l2->clock < full; run++)
        for (i64 line = lines.first + run->low, next; line < lines.first + run->end; line = next) {
            next = next_block(line, lines.first + run->end);
            *victims += allocate(l2, line, next, threshold, 1, &place);
        }
    if (all.absent == lines.count) return fetched;
    threshold = l2->clock - l2->capacity; /* the new lines may have evicted some of the others */
    const i64 lap = l2->clock - l2->clock % l2->capacity; /* a division for every line would cost more than the rest */
    for (const Run *run = lines.runs; run < behind; run++)
        for (i64 line = lines.first + run->low; line < lines.first + run->end; line++) {
            const i64 stamp = l2->stamp[line], at = stamp - lap;
            if (stamp >= threshold) l2->dirty[at < 0 ? at + l2->capacity : at] = 1;
        }
    return fetched;
}
