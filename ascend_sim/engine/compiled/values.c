/* Values of instructions that move bytes, row by row. The twin is in Python: ../functional.py and ../replay.py, and `read` and
 * `commit` of the instructions. Python executes instructions that C does not know, or whose bytes lie outside of memory: a
 * call returns the reason of its stop, and the course has the position. The order of values: docs/design.md, "Values
 * follow time". */
#include "values.h"

#include <stdlib.h>
#include <string.h>
#include "memory.h"

enum { READ = 0, WRITTEN = 1, DST = 1 };

/* Return the address of a place; NULL if a part of it is outside of memory. */
static uint8_t *begin_of(const Values *values, const Place *place, const i64 *row) {
    i64 operand = operand_of(row, place->column), address = operand;
    const Bytes *space = &values->buffers[place->space];
    if (place->space == GM) {
        i64 slot = slot_of(operand);
        if (slot < 0 || slot >= values->tensor_count) return NULL;
        space = &values->tensors[slot];
        address = operand & (((i64)1 << SLOT_SHIFT) - 1);
    }
    if (address < 0 || address > space->size) return NULL;
    if (address + place->low < 0 || address + place->high > space->size) return NULL;
    return space->bytes + address;
}

/* 1 if C executes the row: its instruction moves or multiplies bytes, all inside of memory. */
static int is_known(const Values *values, const Action *action, const i64 *row) {
    if (action->what != MOVES && action->what != MULTIPLIES) return 0;
    for (i64 i = 0; i < action->takes; i++)
        if (!begin_of(values, &action->from[i], row)) return 0;
    if (!begin_of(values, &action->to, row)) return 0;
    for (i64 i = values->first[row[0]]; i < values->first[row[0] + 1]; i++) {
        const Touch *touch = &values->touches[i];
        if (touch->space == GM) continue;
        i64 address = operand_of(row, touch->column), size = values->buffers[touch->space].size;
        if (address < 0 || address > size || touch->offset < 0 || address + touch->extent > size) return 0;
    }
    return 1;
}

/* ../values.py, ProgramValues: return 1 if all blocks that are read were written (`all_written`), or mark blocks as written
 * (`note_written`). Accumulators are read late. */
static int all_written(const Values *values, const i64 *row, int late) {
    for (i64 i = values->first[row[0]]; i < values->first[row[0] + 1]; i++) {
        const Touch *touch = &values->touches[i];
        if (touch->space == GM || touch->writes || (touch->column == DST) != late) continue;
        i64 address = operand_of(row, touch->column) + touch->offset;
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
        i64 address = operand_of(row, touch->column) + touch->offset;
        for (i64 plane = 0; plane < touch->planes; plane++) {
            for (i64 line = 0; line < touch->rows; line++) {
                i64 begin = address + plane * touch->plane_stride + line * touch->row_stride;
                i64 first = begin / values->block, past = (begin + touch->row_bytes + values->block - 1) / values->block;
                memset(values->written[touch->space].bytes + first, 1, (size_t)(past - first));
            }
        }
    }
}

/* The place of the numbers with which a product begins; they are not converted. */
enum { START = 2 };
static Conversion conversion_of(const Action *action, i64 number) {
    Conversion none = {AS_IS, 0, 0, NULL};
    return number == START ? none : action->as;
}

static i64 taken_bytes(const Action *action, i64 number) {
    return converted_bytes(conversion_of(action, number).cast, action->from[number].count * action->from[number].item);
}

/* Take the items of a place, converted. */
static void take(const Values *values, const Action *action, i64 number, const i64 *row, uint8_t *to) {
    gather(&action->from[number], begin_of(values, &action->from[number], row), conversion_of(action, number), to);
}

static void put(const Values *values, const Action *action, const i64 *row, const uint8_t *held) {
    uint8_t *at = begin_of(values, &action->to, row);
    if (action->what == MOVES && !action->takes)
        scatter_zeros(&action->to, at);
    else if (action->adds && !action->product.width)
        scatter_sum(&action->to, at, held, action->adds == 2);
    else
        scatter(&action->to, at, held);
    if (action->settles) make_finite(&action->to, at);
}

/* Compute a sum of products: it begins with the given rows, with the numbers at its place, or with zeros. */
static void multiply(const Values *values, const Scratch *scratch, const Action *action, const i64 *row) {
    const Product *product = &action->product;
    size_t line = (size_t)product->n * sizeof(float);
    Conversion none = {AS_IS, 0, 0, NULL};
    if (action->adds)
        gather(&action->to, begin_of(values, &action->to, row), none, scratch->product.bytes);
    else if (action->takes > START)
        for (i64 i = 0; i < product->m; i++) memcpy(scratch->product.bytes + (size_t)i * line, scratch->factors[START].bytes, line);
    else
        memset(scratch->product.bytes, 0, (size_t)product->m * line);
    add_products(product, (const float *)(const void *)scratch->factors[0].bytes, (const float *)(const void *)scratch->factors[1].bytes,
                 (float *)(void *)scratch->product.bytes);
}

/* 1 if the bytes of a place are contiguous. */
static int is_one(const Place *place) { return !place->loops && !place->list; }

/* Take and put at once: without scratch memory if one of the two places is contiguous and they do not overlap. */
static void move(const Values *values, const Scratch *scratch, const Action *action, const i64 *row) {
    const Place *from = &action->from[0], *to = &action->to;
    if (action->takes) {
        const uint8_t *source = begin_of(values, from, row);
        uint8_t *at = begin_of(values, to, row);
        int meet = source + from->low < at + to->high && at + to->low < source + from->high;
        if (!meet && is_one(to) && !action->adds && !action->settles && taken_bytes(action, 0) == to->item) {
            take(values, action, 0, row, at + to->offset);
            return;
        }
        if (!meet && is_one(from) && action->as.cast == AS_IS) {
            put(values, action, row, source + from->offset);
            return;
        }
        take(values, action, 0, row, scratch->factors[0].bytes);
    }
    put(values, action, row, scratch->factors[0].bytes);
}

static enum stop stop_at(Course *course, i64 position, i64 owner, i64 row, const Values *values, enum stop why) {
    course->position = position;
    course->owner = owner;
    course->row = row;
    course->instruction = values ? values->rows[COLUMNS * row] : 0;
    return why;
}

/* Run the rows of `order` from the position of the course to the first that the caller has to handle. */
EXPORT i64 values_run(Course *course) {
    const Values *values = course->values;
    const Scratch *scratch = course->scratch;
    i64 stage = course->stage;
    for (i64 position = course->position; position < values->count; position++, stage = FRESH) {
        i64 number = values->order[position];
        const i64 *row = values->rows + COLUMNS * number;
        const Action *action = &values->actions[row[0]];
        if (stage == DONE) continue;
        if (stage != MULTIPLIED) {
            if (stage == FRESH && !is_known(values, action, row)) {
                return stop_at(course, position, 0, number, values, WANTS_PYTHON);
            }
            if (stage == FRESH && !all_written(values, row, 0)) {
                return stop_at(course, position, 0, number, values, NOT_WRITTEN);
            }
            if (action->what == MULTIPLIES) {
                for (i64 i = 0; i < action->takes; i++) take(values, action, i, row, scratch->factors[i].bytes);
                if (!action->product.width) return stop_at(course, position, 0, number, values, WANTS_PRODUCT);
                multiply(values, scratch, action, row);
            }
        }
        if (action->what == MULTIPLIES)
            put(values, action, row, scratch->product.bytes);
        else
            move(values, scratch, action, row);
        if (!all_written(values, row, 1)) {
            return stop_at(course, position, 0, number, values, NOT_WRITTEN_LATE);
        }
        note_written(values, row);
    }
    return ENDED;
}

/* The mark of an instruction that has started and taken nothing. */
static uint8_t open_mark;
#define OPEN (&open_mark)

static i64 *list_of(const Events *events, i64 owner, int in_gm) {
    return &events->open[in_gm ? events->program_count : owner];
}

/* 1 if an action on a list takes from GM; `begin` lists none that takes from GM and elsewhere. */
static int reads_gm(const Action *action) { return action->takes && action->from[0].space == GM; }

static const Action *action_of(const Events *events, i64 owner, i64 row_number, const i64 **row) {
    const Values *values = events->programs[owner];
    *row = values->rows + COLUMNS * row_number;
    return &values->actions[(*row)[0]];
}

/* Copy the operands of a started instruction to memory of its own. 0: no memory. */
static int hold(const Events *events, i64 pair) {
    i64 owner = events->owner[events->begun[pair]], size = 0;
    const i64 *row;
    const Action *action = action_of(events, owner, events->row[events->begun[pair]], &row);
    for (i64 i = 0; i < action->takes; i++) size += taken_bytes(action, i);
    uint8_t *held = events->held[pair] = malloc((size_t)(size ? size : 1));
    if (!held) return 0;
    for (i64 i = 0; i < action->takes; held += taken_bytes(action, i++))
        take(events->programs[owner], action, i, row, held);
    return 1;
}

static void close_one(const Events *events, i64 *list, i64 pair) {
    while (*list != pair) list = &events->next[*list];
    *list = events->next[pair];
}

/* Copy the operands of all listed instructions that read bytes `low` to `high`, before these are written. 0: no memory. */
static int hold_before(const Events *events, i64 *list, const uint8_t *low, const uint8_t *high) {
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
        if (!hold(events, pair)) return 0;
    }
    return 1;
}

/* Copy the operands of all listed instructions of a program and of GM, before Python writes unknown bytes. 0: no memory. */
static int hold_all(const Events *events, i64 owner) {
    for (int which = 0; which < 2; which++) {
        i64 *list = list_of(events, owner, which);
        for (i64 pair = *list; pair >= 0; pair = *list) {
            *list = events->next[pair];
            if (!hold(events, pair)) return 0;
        }
    }
    return 1;
}

/* Start an instruction: list it, so that later writes cannot change its operands. 0: no memory. */
static int begin(const Events *events, i64 position, const Action *action) {
    i64 pair = events->pair[position], in_gm = 0;
    events->begun[pair] = position;
    for (i64 i = 0; i < action->takes; i++) in_gm += action->from[i].space == GM;
    if (in_gm && in_gm < action->takes) return hold(events, pair); /* it would be on two lists */
    i64 *list = list_of(events, events->owner[position], in_gm > 0);
    events->next[pair] = *list;
    *list = pair;
    events->held[pair] = OPEN;
    return 1;
}

/* Bring factors to the scratch memory: from their places, or from the bytes that the instruction holds. */
static void lay_out(const Values *values, const Scratch *scratch, const Action *action, const i64 *row, const uint8_t *held) {
    for (i64 i = 0; i < action->takes; i++) {
        if (held == OPEN) {
            take(values, action, i, row, scratch->factors[i].bytes);
        } else {
            memcpy(scratch->factors[i].bytes, held, (size_t)taken_bytes(action, i));
            held += taken_bytes(action, i);
        }
    }
}

/* Run events from the position of the course to the first that the caller has to handle. Can return NO_MEMORY. */
EXPORT i64 values_replay(Course *course) {
    const Events *events = course->events;
    const Scratch *scratch = course->scratch;
    i64 stage = course->stage;
    for (i64 position = course->position; position < events->count; position++, stage = FRESH) {
        i64 owner = events->owner[position], number = events->row[position], pair = events->pair[position];
        const Values *values = events->programs[owner];
        if (!values) {
            return stop_at(course, position, owner, number, values, WANTS_PROGRAM);
        }
        const i64 *row = values->rows + COLUMNS * number;
        const Action *action = &values->actions[row[0]];
        if (stage != DONE && events->starts[position]) {
            if (stage == FRESH && ((events->watched && events->watched[position]) || !is_known(values, action, row))) {
                return stop_at(course, position, owner, number, values, WANTS_PYTHON);
            }
            if (stage == FRESH && !all_written(values, row, 0)) {
                return stop_at(course, position, owner, number, values, NOT_WRITTEN);
            }
            if (!begin(events, position, action)) return NO_MEMORY;
        } else if (stage != DONE) {
            if (!events->held[pair]) { /* it did not start here */
                if (!hold_all(events, owner)) return NO_MEMORY;
                return stop_at(course, position, owner, number, values, WANTS_PYTHON);
            }
            if (stage == FRESH && !all_written(values, row, 1)) {
                return stop_at(course, position, owner, number, values, NOT_WRITTEN_LATE);
            }
            const uint8_t *held = events->held[pair];
            if (stage != MULTIPLIED) {
                if (held == OPEN) close_one(events, list_of(events, owner, reads_gm(action)), pair);
                if (action->what == MULTIPLIES) {
                    lay_out(values, scratch, action, row, held);
                    if (!action->product.width) return stop_at(course, position, owner, number, values, WANTS_PRODUCT);
                    multiply(values, scratch, action, row);
                }
            }
            const uint8_t *at = begin_of(values, &action->to, row);
            i64 *readers = list_of(events, owner, action->to.space == GM);
            if (!hold_before(events, readers, at + action->to.low, at + action->to.high)) return NO_MEMORY;
            note_written(values, row);
            if (action->what == MOVES && held == OPEN)
                move(values, scratch, action, row);
            else
                put(values, action, row, action->what == MULTIPLIES ? scratch->product.bytes : held);
            if (events->held[pair] != OPEN) free(events->held[pair]);
            events->held[pair] = NULL;
        }
        if (!--events->left[owner]) {
            return stop_at(course, position, owner, number, values, PROGRAM_ENDED);
        }
    }
    return ENDED;
}

/* Free the operands of instructions that started and will not retire. */
EXPORT void values_drop(uint8_t **held, i64 count) {
    for (i64 i = 0; i < count; i++)
        if (held[i] != OPEN) free(held[i]);
}
