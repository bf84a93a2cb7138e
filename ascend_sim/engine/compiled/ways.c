/* Whether all operands of a program lie where they may, and how far its stamps may move together (../../kernel/sheet.py,
 * Sheet.is_right; docs/design.md, "Tiles that repeat are stamped"). */
#include "ways.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 3 };
enum found { WRONG, RIGHT, LEFT_TO_PYTHON };
#define FAR ((i64)1 << 62)

/* How far a number of one stamp may have gone, and that it is `rest` more than a multiple of its unit; `span` is which of the
 * sheet's spans it narrows. */
typedef struct {
    i64 rest, low, high, span;
} Way;

/* The ways of a stamp among all of them, when it was seen in this sheet. */
typedef struct {
    i64 first, behind, seen;
} Seen;

/* What is asked of one operand (kernel/sheet.py, Asked). */
typedef struct {
    i64 offset, extent, limit, unit;
} Asked;

typedef struct {
    WayOut way_out;
    const Sheet *sheet;
    Way *ways;
    i64 way_count, way_room, span_count;
} Look;

static Asked ask(const Sheet *sheet, i64 instruction, i64 operand, i64 address) {
    const i64 *at = sheet->limits + operand * sheet->kinds + instruction, all = OPERANDS * sheet->kinds;
    Asked found = {address, at[0], at[all], at[2 * all]};
    if (found.limit < 0) {
        const i64 slot = slot_of(address);
        found.limit = slot >= 0 && slot < sheet->tensors ? sheet->sizes[slot] : -1;
        found.offset = address & (((i64)1 << SLOT_SHIFT) - 1);
    }
    return found;
}

static int is_wrong(Asked asked) {
    return asked.extent > 0
        && (asked.offset < 0 || asked.offset > asked.limit - asked.extent || asked.offset % asked.unit);
}

/* Sums and products of what a user's kernel gives may wrap, as those of numpy; `Sheet.wraps` finds that out before. */
static i64 sum(i64 a, i64 b) { return (i64)((uint64_t)a + (uint64_t)b); }
static i64 difference(i64 a, i64 b) { return (i64)((uint64_t)a - (uint64_t)b); }
static i64 product(i64 a, i64 b) { return (i64)((uint64_t)a * (uint64_t)b); }

static i64 floor_mod(i64 value, i64 unit) {
    const i64 rest = value % unit;
    return rest < 0 ? rest + unit : rest;
}

static i64 gone(const i64 *steps, const i64 *where, i64 axes) {
    i64 by = 0;
    for (i64 axis = 0; axis < axes; axis++) by = sum(by, product(steps[axis], where[axis]));
    return by;
}

/* Whether the operands that do not move are right. */
static int rows_are_right(const Sheet *sheet, const Stamp *stamp) {
    i64 moved = 0;
    for (i64 row = 0; row < stamp->row_count; row++) {
        const i64 *cells = stamp->rows + row * COLUMNS;
        for (i64 operand = 0; operand < OPERANDS; operand++) {
            const i64 cell = row * COLUMNS + 1 + operand;
            while (moved < stamp->move_count && stamp->moves[moved * 3] < cell) moved++;
            if (moved < stamp->move_count && stamp->moves[moved * 3] == cell) continue;
            if (is_wrong(ask(sheet, cells[0], operand, cells[1 + operand]))) return 0;
        }
    }
    return 1;
}

/* The span of the sheet for such steps and units; a new one goes anywhere. -1: more than Python has room for. */
static i64 span_of(Look *look, const i64 *steps, i64 unit) {
    Span *spans = look->sheet->spans;
    for (i64 i = 0; i < look->span_count; i++)
        if (spans[i].unit == unit && !memcmp(spans[i].steps, steps, sizeof spans[i].steps)) return i;
    if (look->span_count == look->sheet->room) return -1;
    Span *new = &spans[look->span_count];
    *new = (Span){.unit = unit, .low = -FAR, .high = FAR};
    memcpy(new->steps, steps, sizeof new->steps);
    return look->span_count++;
}

/* What moves by `steps` and asks for this at `where` narrows a way of its stamp; 0: more spans than there is room for. */
static int narrow(Look *look, i64 first, const i64 *steps, Asked asked, i64 way_gone) {
    const i64 low = difference(way_gone, asked.offset), rest = floor_mod(low, asked.unit); /* to where it begins */
    const i64 high = sum(asked.limit - asked.extent, low);
    const i64 span = span_of(look, steps, asked.unit);
    if (span < 0) return 0;
    i64 i = first;
    while (i < look->way_count && (look->ways[i].span != span || look->ways[i].rest != rest)) i++;
    if (i == look->way_count) {
        look->ways = grow(&look->way_out, look->ways, &look->way_room, look->way_count + 1, sizeof(Way));
        look->ways[look->way_count++] = (Way){rest, -FAR, FAR, span};
    }
    Way *way = &look->ways[i];
    if (low > way->low) way->low = low;
    if (high < way->high) way->high = high;
    return 1;
}

/* The ways of a stamp that was seen for the first time, at `where`. */
static enum found find_ways(Look *look, const Stamp *stamp, const i64 *where) {
    const i64 first = look->way_count;
    for (i64 moved = 0; moved < stamp->move_count;) {
        const i64 cell = stamp->moves[moved * 3];
        i64 steps[AXES] = {0};
        for (; moved < stamp->move_count && stamp->moves[moved * 3] == cell; moved++)
            steps[stamp->moves[moved * 3 + 1]] = stamp->moves[moved * 3 + 2];
        const i64 way_gone = gone(steps, where, stamp->axes), operand = cell % COLUMNS - 1;
        const i64 address = sum(stamp->rows[cell], way_gone);
        const Asked asked = ask(look->sheet, stamp->rows[cell - cell % COLUMNS], operand, address);
        if (asked.extent <= 0) continue;
        if (is_wrong(asked)) return WRONG;
        if (!narrow(look, first, steps, asked, way_gone)) return LEFT_TO_PYTHON;
    }
    return RIGHT;
}

/* Whether a stamp is right at `where`, for which its ways and the sheet's spans are narrowed. */
static int stands_right(Look *look, const Stamp *stamp, const Seen *seen, const i64 *where) {
    for (i64 i = seen->first; i < seen->behind; i++) {
        const Way *way = &look->ways[i];
        Span *span = &look->sheet->spans[way->span];
        const i64 by = gone(span->steps, where, stamp->axes);
        if (by < way->low || by > way->high || difference(by, way->rest) % span->unit) return 0;
        const i64 low = difference(way->low, by), high = difference(way->high, by);
        if (low > span->low) span->low = low;
        if (high < span->high) span->high = high;
    }
    return 1;
}

static enum found look_through(Look *look, Seen *seen_of) {
    const Sheet *sheet = look->sheet;
    const i64 *where = sheet->where;
    for (i64 put = 0; put < sheet->puts; put++) {
        const int32_t which = sheet->which[put];
        const Stamp *stamp = which < 0 ? &sheet->own[-1 - which] : &sheet->stamps[which];
        Seen *seen = &seen_of[which < 0 ? sheet->stamp_count - 1 - which : which];
        if (stamp->axes > AXES) return LEFT_TO_PYTHON;
        if (!seen->seen) {
            if ((which < 0 || !sheet->looked[which]) && !rows_are_right(sheet, stamp)) return WRONG;
            if (which >= 0) sheet->looked[which] = 1;
            seen->first = look->way_count;
            const enum found found = find_ways(look, stamp, where);
            if (found != RIGHT) return found;
            seen->behind = look->way_count;
            seen->seen = 1;
        }
        if (!stands_right(look, stamp, seen, where)) return WRONG;
        where += stamp->axes;
    }
    return RIGHT;
}

/* How many spans say how far the stamps may move from where they stand; BAD_ROW where an operand is wrong there, BAD_SHAPE where
 * there are more spans than room for them, or more axes. */
EXPORT i64 sheet_look(const Sheet *sheet) {
    Look look = {.sheet = sheet};
    Seen *volatile seen = NULL;
    volatile i64 result = NO_MEMORY;
    if (!setjmp(look.way_out.failed)) {
        seen = zeros(&look.way_out, sheet->stamp_count + sheet->own_count, sizeof(Seen));
        const enum found found = look_through(&look, seen);
        result = found == RIGHT ? look.span_count : found == WRONG ? BAD_ROW : BAD_SHAPE;
    }
    free(seen);
    free(look.ways);
    return result;
}
