/* Lines of GM that an access meets at one phase inside a line (../lines.py, footprint, is the readable twin; docs/design.md,
 * "GM transfers in classes"). */
#include "shapes.h"

#include <stdlib.h>

static int by_line(const void *left, const void *right) {
    const Part *a = left, *b = right;
    return (a->line > b->line) - (a->line < b->line);
}

/* List the part that each row has of each line, by line, and return their count. A tail is the last part
 * of a row that is at least as long as a line and ends inside one. */
static i64 collect(WayOut *way_out, Parts *parts, const Way *access, i64 phase, i64 line) {
    i64 count = 0, sorted = 1;
    for (i64 plane = 0; plane < access->planes; plane++)
        for (i64 n = 0; n < access->rows; n++) {
            const i64 start = phase + access->offset + plane * access->plane_stride + n * access->row_stride;
            const i64 end = start + access->row_bytes, first = start / line, last = (end - 1) / line;
            parts->parts = grow(way_out, parts->parts, &parts->room, count + last - first + 1, sizeof(Part));
            sorted &= !count || first >= parts->parts[count - 1].line;
            for (i64 at = first; at <= last; at++) {
                const i64 begin = at == first ? start : at * line, behind = at == last ? end : (at + 1) * line;
                const int tail = at == last && access->row_bytes >= line && end % line;
                parts->parts[count++] = (Part){at, behind - begin, tail};
            }
        }
    if (!sorted) qsort(parts->parts, (size_t)count, sizeof(Part), by_line);
    return count;
}

/* Merge the parts of each line, and return the count of lines. */
static i64 merge(Part *parts, i64 count) {
    i64 lines = 0;
    for (i64 i = 0; i < count; i++) {
        if (lines && parts[lines - 1].line == parts[i].line) {
            parts[lines - 1].bytes += parts[i].bytes;
            parts[lines - 1].tail |= parts[i].tail;
        } else
            parts[lines++] = parts[i];
    }
    return lines;
}

static int is_special(const Part *part, i64 which, i64 line) {
    return which == ALL_LINES || (which == TAILS && part->tail) || (which == PARTIAL && part->bytes < line);
}

/* An empty shape gets the lines of `access` at an address `phase` bytes behind the start of a line. */
void set_shape(WayOut *way_out, Parts *parts, Shape *shape, const Way *access, i64 phase, i64 line) {
    const i64 touched = collect(way_out, parts, access, phase, line), count = merge(parts->parts, touched);
    const Part *all = parts->parts;
    i64 specials = 0, run_count = 0;
    for (i64 i = 0; i < count; i++) {
        specials += is_special(&all[i], access->special, line);
        run_count += !i || all[i].line != all[i - 1].line + 1;
    }
    shape->n = (ShapeNumbers){
        access->direction, access->port, touched, count, specials,
        ((touched * line << FRACTION) + access->port - 1) / access->port,
    };
    shape->runs = zeros(way_out, run_count, sizeof(Run));
    shape->special = zeros(way_out, specials, sizeof(i64));
    for (i64 i = 0, found = 0; i < count; i++) {
        if (!i || all[i].line != all[i - 1].line + 1) shape->runs[shape->run_count++].low = all[i].line;
        shape->runs[shape->run_count - 1].end = all[i].line + 1;
        if (is_special(&all[i], access->special, line)) shape->special[found++] = all[i].line;
    }
}

void free_shape(Shape *shape) {
    free(shape->runs);
    free(shape->special);
    free(shape);
}
