/* The lines of GM that an access meets (shapes.c). */
#ifndef ASCEND_SIM_SHAPES_H
#define ASCEND_SIM_SHAPES_H

#include "memory.h"
#include "traffic.h"

/* The part that a row has of a line. */
typedef struct {
    i64 line, bytes, tail;
} Part;

/* Room for the parts of one access. */
typedef struct {
    Part *parts;
    i64 room;
} Parts;

void set_shape(WayOut *way_out, Parts *parts, Shape *shape, const Way *access, i64 phase, i64 line);
void free_shape(Shape *shape);

#endif
