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
        int begins = events->phase[position] == 1, watched = events->watched && events->watched[position];
        if (stage != DONE && begins) {
            if (stage == FRESH && (watched || !is_known(values, action, row))) {
                *stop = WANTS_PYTHON;
                return position;
            }
            if (stage == FRESH && !all_written(values, row, 0)) {
                *stop = NOT_WRITTEN;
                return position;
            }
            if (stage != MULTIPLIED && action->what == MULTIPLIES) {
                for (i64 i = 0; i < action->takes; i++)
                    take(values, action, i, row, scratch->moved.bytes, scratch->factors[i].bytes);
                *stop = WANTS_PRODUCT;
                return position;
            }
            uint8_t *held = events->held[pair] = malloc((size_t)(action->room ? action->room : 1));
            if (!held) return NO_MEMORY;
            if (stage == MULTIPLIED)
                memcpy(held, scratch->product.bytes, (size_t)action->room);
            else
                for (i64 i = 0; i < action->takes; i++) take(values, action, i, row, scratch->moved.bytes, held);
        } else if (stage != DONE) {
            uint8_t *held = events->held[pair];
            if (!held) { /* it did not start here */
                *stop = WANTS_PYTHON;
                return position;
            }
            if (stage == FRESH && !all_written(values, row, 1)) {
                *stop = NOT_WRITTEN_LATE;
                return position;
            }
            note_written(values, row);
            put(values, action, row, held);
            free(held);
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
    for (i64 i = 0; i < count; i++) free(held[i]);
}
