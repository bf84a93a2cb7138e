/* The L2 lines that a program reads and writes (../lines.py, mark_lines; docs/design.md, "The L2 as stamps"). */
#include "memory.h"
#include "program.h"
#include "rows.h"

#include <stddef.h>

/* Mark the lines of `bytes` bytes from an address on; 0 where GM has no such lines. */
static int mark(uint8_t *lines, i64 count, i64 line, i64 address, i64 bytes) {
    const i64 first = address / line, last = (address + bytes - 1) / line;
    if (address < 0 || last >= count)
        return 0;
    for (i64 i = first; i <= last; i++)
        lines[i] = 1;
    return 1;
}

/* Marks of all lines of the GM. */
typedef struct {
    const Program *program;
    const i64 *first, *kinds;
    const Touch *touches;
    uint8_t *read, *written;
    i64 line, count;
} Marks;

/* Mark the lines that the current row of a walk touches in GM; atomics read, and scalar accesses pass the L2 by. */
static i64 mark_row(const Marks *marks, Walk *walk, i64 instruction) {
    if (marks->kinds[instruction] != TRANSFER) return 0;
    const i64 *const first = marks->first + instruction, *row = NULL;
    for (const Touch *touch = marks->touches + first[0]; touch < marks->touches + first[1]; touch++) {
        if (touch->space != GM) continue;
        if (!row) row = walk_row(walk);
        const i64 operand = row[touch->column], slot = slot_of(operand);
        if (slot < 0 || slot >= marks->program->tensors) return BAD_ROW;
        const i64 address = address_of(marks->program, operand) + touch->offset;
        uint8_t *lines = touch->writes && !touch->ordered ? marks->written : marks->read;
        for (i64 plane = 0; plane < touch->planes; plane++)
            for (i64 n = 0; n < touch->rows; n++) {
                const i64 start = address + plane * touch->plane_stride + n * touch->row_stride;
                if (!mark(lines, marks->count, marks->line, start, touch->row_bytes)) return BAD_ROW;
            }
    }
    return 0;
}

/* Mark the lines that the rows of a program touch in GM. `first` and `touches` are those of its table (kernel/program.py,
 * Touches), `kinds` the kinds of its instructions; `read` and `written` have an entry for each of the `count` lines of GM. */
EXPORT i64 mark_lines(
    const Program *program, const i64 *first, const Touch *touches, const i64 *kinds, i64 line, uint8_t *read,
    uint8_t *written, i64 count
) {
    const Marks marks = {program, first, kinds, touches, read, written, line, count};
    Walk walk = {.program = program};
    i64 result = 0;
    for (i64 row = 0; !result && row < program->count; row++) result = mark_row(&marks, &walk, walk_on(&walk));
    return result;
}
