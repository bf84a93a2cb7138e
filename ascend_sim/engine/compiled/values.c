/* Values of instructions that move bytes, row by row. The twin is in Python: ../functional.py and ../replay.py, and `read` and
 * `commit` of the instructions. What C does not know it leaves to them, and so it does with what lies outside of memory: a call
 * returns the place it came to and says what it stopped at. */
#include "values.h"

#include <stdlib.h>
#include <string.h>
#include "memory.h"

enum { READ = 0, WRITTEN = 1, DST = 1 };

/* Where a place begins; NULL where some of it is outside of memory. */
static uint8_t *begin_of(const Values *values, const Place *place, const i64 *row) {
    i64 operand = row[place->column], address = operand;
    const Bytes *space = &values->buffers[place->space];
    if (place->space == GM) {
        i64 slot = slot_of(operand);
        if (slot < 0 || slot >= values->tensor_count) return NULL;
        space = &values->tensors[slot];
        address = operand & (((i64)1 << SLOT_SHIFT) - 1);
    }
    if (address < 0 || address > space->size || address % place->unit) return NULL;
    if (address + place->low < 0 || address + place->high > space->size) return NULL;
    return space->bytes + address;
}

/* Whether the row is C's: its instruction moves something, all of it inside of memory. */
static int is_known(const Values *values, const Action *action, const i64 *row) {
    if (action->what != MOVES && action->what != MULTIPLIES) return 0;
    for (i64 i = 0; i < action->takes; i++)
        if (!begin_of(values, &action->from[i], row)) return 0;
    if (!begin_of(values, &action->to, row)) return 0;
    for (i64 i = values->first[row[0]]; i < values->first[row[0] + 1]; i++) {
        const Touch *touch = &values->touches[i];
        if (touch->space == GM) continue;
        i64 address = row[touch->column], size = values->buffers[touch->space].size;
        if (address < 0 || address > size || touch->offset < 0 || address + touch->extent > size) return 0;
    }
    return 1;
}

/* ../values.py, ProgramValues: look whether blocks that are read were written, or note that they are. What is accumulated
 * into is read late. */
static int all_written(const Values *values, const i64 *row, int late) {
    for (i64 i = values->first[row[0]]; i < values->first[row[0] + 1]; i++) {
        const Touch *touch = &values->touches[i];
        if (touch->space == GM || touch->writes || (touch->column == DST) != late) continue;
        i64 address = row[touch->column] + touch->offset;
        for (i64 plane = 0; plane < touch->planes; plane++) {
            for (i64 line = 0; line < touch->rows; line++) {
                i64 begin = address + plane * touch->plane_stride + line * touch->row_stride;
                i64 first = begin / values->block, past = (begin + touch->row_bytes + values->block - 1) / values->block;
                if (memchr(values->written[touch->space].bytes + first, 0, (size_t)(past - first))) return 0;
            }
        }
    }
    return 1;
}

static void note_written(const Values *values, const i64 *row) {
    for (i64 i = values->first[row[0]]; i < values->first[row[0] + 1]; i++) {
        const Touch *touch = &values->touches[i];
        if (touch->space == GM || !touch->writes) continue;
        i64 address = row[touch->column] + touch->offset;
        for (i64 plane = 0; plane < touch->planes; plane++) {
            for (i64 line = 0; line < touch->rows; line++) {
                i64 begin = address + plane * touch->plane_stride + line * touch->row_stride;
                i64 first = begin / values->block, past = (begin + touch->row_bytes + values->block - 1) / values->block;
                memset(values->written[touch->space].bytes + first, 1, (size_t)(past - first));
            }
        }
    }
}

static i64 items_of(const Action *action, i64 take) {
    i64 size = action->cast == HALF_TO_FLOAT || action->cast == BFLOAT_TO_FLOAT ? 2 : 4;
    return action->from[take].count * action->from[take].item / size;
}

static i64 taken_bytes(const Action *action, i64 number) {
    if (action->cast == AS_IS) return action->from[number].count * action->from[number].item;
    return items_of(action, number) * (action->cast == FLOAT_TO_HALF || action->cast == FLOAT_TO_BFLOAT ? 2 : 4);
}

/* The items of a place, converted. */
static void take(const Values *values, const Action *action, i64 number, const i64 *row, uint8_t *moved, uint8_t *to) {
    const Place *place = &action->from[number];
    const uint8_t *at = begin_of(values, place, row);
    if (action->cast == AS_IS) {
        gather(place, at, to);
        return;
    }
    gather(place, at, moved);
    convert((enum cast)action->cast, action->bits, action->saturate, items_of(action, number), moved, to);
}

static void put(const Values *values, const Action *action, const i64 *row, const uint8_t *held) {
    uint8_t *at = begin_of(values, &action->to, row);
    if (action->what == MOVES && !action->takes)
        scatter_zeros(&action->to, at);
    else if (action->adds)
        scatter_sum(&action->to, at, held);
    else
        scatter(&action->to, at, held);
    if (action->settles) make_finite(&action->to, at);
}

/* Run the rows of `order` from `position` on, one after the other, to one that the caller has to do something about. */
EXPORT i64 values_run(const Values *values, const Scratch *scratch, i64 position, i64 stage, i64 *stop) {
    for (; position < values->count; position++, stage = FRESH) {
        const i64 *row = values->rows + COLUMNS * values->order[position];
        const Action *action = &values->actions[row[0]];
        if (stage == DONE) continue;
        uint8_t *held = action->what == MULTIPLIES ? scratch->product.bytes : scratch->factors[0].bytes;
        if (stage != MULTIPLIED) {
            if (stage == FRESH && !is_known(values, action, row)) {
                *stop = WANTS_PYTHON;
                return position;
            }
            if (stage == FRESH && !all_written(values, row, 0)) {
                *stop = NOT_WRITTEN;
                return position;
            }
            for (i64 i = 0; i < action->takes; i++)
                take(values, action, i, row, scratch->moved.bytes, scratch->factors[i].bytes);
            if (action->what == MULTIPLIES) {
                *stop = WANTS_PRODUCT;
                return position;
            }
        }
        put(values, action, row, held);
        if (!all_written(values, row, 1)) {
            *stop = NOT_WRITTEN_LATE;
            return position;
        }
        note_written(values, row);
    }
    *stop = ENDED;
    return position;
}

/* Of what has started and taken nothing yet. */
static uint8_t open_mark;
#define OPEN (&open_mark)

static i64 *list_of(const Events *events, i64 owner, int in_gm) {
    return &events->open[in_gm ? events->program_count : owner];
}

static const Action *action_of(const Events *events, i64 owner, i64 row_number, const i64 **row) {
    const Values *values = events->programs[owner];
    *row = values->rows + COLUMNS * row_number;
    return &values->actions[(*row)[0]];
}

/* Take what a started instruction reads into bytes of its own; whether there is memory for them. */
static int hold(const Events *events, const Scratch *scratch, i64 pair) {
    i64 owner = events->owner[events->begun[pair]], size = 0;
    const i64 *row;
    const Action *action = action_of(events, owner, events->row[events->begun[pair]], &row);
    for (i64 i = 0; i < action->takes; i++) size += taken_bytes(action, i);
    uint8_t *held = events->held[pair] = malloc((size_t)(size ? size : 1));
    if (!held) return 0;
    for (i64 i = 0; i < action->takes; held += taken_bytes(action, i++))
        take(events->programs[owner], action, i, row, scratch->moved.bytes, held);
    return 1;
}

static void close_one(const Events *events, i64 *list, i64 pair) {
    while (*list != pair) list = &events->next[*list];
    *list = events->next[pair];
}

/* Before bytes `low` to `high` are written: who is to have read there holds it from now on. */
static int hold_before(const Events *events, const Scratch *scratch, i64 *list, const uint8_t *low, const uint8_t *high) {
    for (i64 pair = *list; pair >= 0; pair = *list) {
        const i64 *row;
        i64 owner = events->owner[events->begun[pair]], meets = 0;
        const Action *action = action_of(events, owner, events->row[events->begun[pair]], &row);
        for (i64 i = 0; i < action->takes; i++) {
            const uint8_t *at = begin_of(events->programs[owner], &action->from[i], row);
            meets |= at + action->from[i].low < high && low < at + action->from[i].high;
        }
        if (!meets) {
            list = &events->next[pair];
            continue;
        }
        *list = events->next[pair];
        if (!hold(events, scratch, pair)) return 0;
    }
    return 1;
}

/* Before Python writes, nobody knows where: whoever reads in that program or in GM holds it from now on. */
static int hold_all(const Events *events, const Scratch *scratch, i64 owner) {
    for (int which = 0; which < 2; which++) {
        i64 *list = list_of(events, owner, which);
        for (i64 pair = *list; pair >= 0; pair = *list) {
            *list = events->next[pair];
            if (!hold(events, scratch, pair)) return 0;
        }
    }
    return 1;
}

/* An instruction starts: it has read from now on, as far as anybody can tell. */
static int begin(const Events *events, const Scratch *scratch, i64 position, const Action *action) {
    i64 pair = events->pair[position], in_gm = 0;
    events->begun[pair] = position;
    for (i64 i = 0; i < action->takes; i++) in_gm += action->from[i].space == GM;
    if (in_gm && in_gm < action->takes) return hold(events, scratch, pair); /* it would be on two lists */
    i64 *list = list_of(events, events->owner[position], in_gm > 0);
    events->next[pair] = *list;
    *list = pair;
    events->held[pair] = OPEN;
    return 1;
}
/* It retires: what it has read goes to where it is put from, or where the factors of a product stand. */
static const uint8_t *taken(const Events *events, const Scratch *scratch, i64 position, const Action *action) {
    i64 owner = events->owner[position], pair = events->pair[position];
    const Values *values = events->programs[owner];
    const i64 *row = values->rows + COLUMNS * events->row[position];
    const uint8_t *held = events->held[pair];
    if (held == OPEN) {
        close_one(events, list_of(events, owner, action->takes && action->from[0].space == GM), pair);
        for (i64 i = 0; i < action->takes; i++)
            take(values, action, i, row, scratch->moved.bytes, scratch->factors[i].bytes);
        return scratch->factors[0].bytes;
    }
    if (action->what == MULTIPLIES) {
        memcpy(scratch->factors[0].bytes, held, (size_t)taken_bytes(action, 0));
        memcpy(scratch->factors[1].bytes, held + taken_bytes(action, 0), (size_t)taken_bytes(action, 1));
    }
    return held;
}

/* Run events from `position` on, to one that the caller has to do something about. NO_MEMORY where there is none. */
EXPORT i64 values_replay(const Events *events, const Scratch *scratch, i64 position, i64 stage, i64 *stop) {
    for (; position < events->count; position++, stage = FRESH) {
        i64 owner = events->owner[position], pair = events->pair[position];
        const Values *values = events->programs[owner];
        if (!values) {
            *stop = WANTS_PROGRAM;
            return position;
        }
        const i64 *row = values->rows + COLUMNS * events->row[position];
        const Action *action = &values->actions[row[0]];
        if (stage != DONE && events->starts[position]) {
            if (stage == FRESH && ((events->watched && events->watched[position]) || !is_known(values, action, row))) {
                *stop = WANTS_PYTHON;
                return position;
            }
            if (stage == FRESH && !all_written(values, row, 0)) {
                *stop = NOT_WRITTEN;
                return position;
            }
            if (!begin(events, scratch, position, action)) return NO_MEMORY;
        } else if (stage != DONE) {
            if (!events->held[pair]) { /* it did not start here */
                if (!hold_all(events, scratch, owner)) return NO_MEMORY;
                *stop = WANTS_PYTHON;
                return position;
            }
            if (stage == FRESH && !all_written(values, row, 1)) {
                *stop = NOT_WRITTEN_LATE;
                return position;
            }
            const uint8_t *from = scratch->product.bytes;
            if (stage != MULTIPLIED) {
                from = taken(events, scratch, position, action);
                if (action->what == MULTIPLIES) {
                    *stop = WANTS_PRODUCT;
                    return position;
                }
            }
            const uint8_t *at = begin_of(values, &action->to, row);
            i64 *readers = list_of(events, owner, action->to.space == GM);
            if (!hold_before(events, scratch, readers, at + action->to.low, at + action->to.high)) return NO_MEMORY;
            note_written(values, row);
            put(values, action, row, from);
            if (events->held[pair] != OPEN) free(events->held[pair]);
            events->held[pair] = NULL;
        }
        if (!--events->left[owner]) {
            *stop = PROGRAM_ENDED;
            return position;
        }
    }
    *stop = ENDED;
    return position;
}

/* Give back what instructions hold that started and will not retire. */
EXPORT void values_drop(uint8_t **held, i64 count) {
    for (i64 i = 0; i < count; i++)
        if (held[i] != OPEN) free(held[i]);
}
