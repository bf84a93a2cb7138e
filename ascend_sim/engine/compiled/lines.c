/* The L2 lines that a program reads and writes (../lines.py, mark_lines). */
#include "memory.h"
#include "program.h"

/* Mark the lines of `bytes` bytes from an address on; 0 where GM has no such lines. */
static int mark(uint8_t *lines, i64 count, i64 line, i64 address, i64 bytes) {
    const i64 first = address / line, last = (address + bytes - 1) / line;
    if (address < 0 || last >= count)
        return 0;
    for (i64 i = first; i <= last; i++)
        lines[i] = 1;
    return 1;
}

/* What the rows of a program touch in GM; atomics read. `first` and `touches` are those of its table (kernel/program.py, Touches),
 * `read` and `written` have an entry for each of the `count` lines of GM. */
EXPORT i64 mark_lines(
    const Program *program, const i64 *first, const Touch *touches, i64 line, uint8_t *read, uint8_t *written, i64 count
) {
    const i64 *row = program->rows, *end = row + program->count * COLUMNS;
    for (; row < end; row += COLUMNS)
        for (const Touch *touch = touches + first[row[0]]; touch < touches + first[row[0] + 1]; touch++) {
            if (touch->space != GM)
                continue;
            const i64 operand = row[touch->column], slot = slot_of(operand);
            if (slot < 0 || slot >= program->tensors)
                return BAD_ROW;
            const i64 address = address_of(program, operand) + touch->offset;
            uint8_t *lines = touch->writes && !touch->atomic ? written : read;
            for (i64 plane = 0; plane < touch->planes; plane++)
                for (i64 n = 0; n < touch->rows; n++) {
                    const i64 start = address + plane * touch->plane_stride + n * touch->row_stride;
                    if (!mark(lines, count, line, start, touch->row_bytes))
                        return BAD_ROW;
                }
        }
    return 0;
}
