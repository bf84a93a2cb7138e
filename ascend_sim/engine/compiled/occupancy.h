/* Occupancy of a buffer over time (occupancy.c). */
#ifndef ASCEND_SIM_OCCUPANCY_H
#define ASCEND_SIM_OCCUPANCY_H

#include "base.h"

typedef struct {
    i64 key, value;
} Item;

typedef struct Piece Piece;
typedef struct {
    Item *items;
    i64 count, room;
} Items;
enum { NEAR_BITS = 10 }; /* a long sum in L1 has some hundred places that are asked for in turn */
typedef struct {
    Piece *pieces;
    i64 piece_count, piece_room, area;
    i64 joined, peak; /* rises that stand for the past; the most bytes held, once nothing comes any more */
    int32_t near[1 << NEAR_BITS]; /* of a byte with this hash: the piece in which one of them lay last */
    Items rises, falls; /* cycle, and the change of the bytes that are held */
} Buffer;
int buffer_touch(Buffer *buffer, i64 low, i64 high, i64 start, i64 retire, i64 writes);
int buffer_forget(Buffer *buffer);
int buffer_end(Buffer *buffer);
void buffer_free(Buffer *buffer);

#endif
