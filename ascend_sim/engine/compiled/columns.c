/* The columns of a program's timeline, packed as its rows come to their end (../columns.py, `Packed`, is the Python twin).
 *
 * Rows come to their end in the order of each pipe, so a piece of them fills up for a while; it is packed when it is full.
 * The times of a few thousand rows lie close together, and most of the other columns are small or zero: 80 bytes of a row
 * become about 20, and nobody holds the others. */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFT = 12, PIECE_ROWS = 1 << SHIFT };
enum { APART = PIECE_ROWS + 8 }; /* from column to column: a row's numbers at a distance of 2^15 bytes would drive each other out of the cache */
enum { START_TIME, END_TIME, RETIRE_TIME }; /* the first columns; the later two are packed as what they exceed the one before by */

typedef struct {
    i64 *columns; /* while it fills up: PIECE_ROWS numbers of each column */
    i64 missing, packed_at;
} Piece;

struct Kept {
    i64 count;
    Piece *pieces;
    i64 *spare;
    char *packed; /* all that is, one piece behind the other as they come to their end */
    i64 size, room;
};

static i64 piece_count(const Kept *kept) { return (kept->count + PIECE_ROWS - 1) >> SHIFT; }

/* For a program of so many rows. NULL: no memory. */
Kept *kept_new(i64 count) {
    Kept *kept = malloc(sizeof *kept);
    if (!kept) return NULL;
    *kept = (Kept){.count = count};
    kept->pieces = calloc((size_t)piece_count(kept) + 1, sizeof(Piece));
    if (kept->pieces) return kept;
    free(kept);
    return NULL;
}

void kept_free(Kept *kept) {
    if (!kept) return;
    for (i64 i = 0; i < piece_count(kept); i++) free(kept->pieces[i].columns);
    free(kept->packed);
    free(kept->pieces);
    free(kept->spare);
    free(kept);
}

static i64 rows_of(const Kept *kept, i64 piece) {
    const i64 left = kept->count - (piece << SHIFT);
    return left < PIECE_ROWS ? left : PIECE_ROWS;
}

static i64 width_of(uint64_t most) { return !most ? 0 : !(most >> 8) ? 1 : !(most >> 16) ? 2 : !(most >> 32) ? 4 : 8; }

/* Numbers so far above `base`, in `width` bytes each. */
static void write_narrow(char *to, const i64 *numbers, i64 count, i64 base, i64 width) {
    const uint64_t least = (uint64_t)base;
    if (width == 1) {
        uint8_t *narrow = (uint8_t *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint8_t)((uint64_t)numbers[i] - least);
    } else if (width == 2) {
        uint16_t *narrow = (uint16_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint16_t)((uint64_t)numbers[i] - least);
    } else if (width == 4) {
        uint32_t *narrow = (uint32_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint32_t)((uint64_t)numbers[i] - least);
    } else if (width == 8) {
        uint64_t *narrow = (uint64_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint64_t)numbers[i] - least;
    }
}

/* Room for so many bytes more, behind those that are there. NULL: no memory. */
static char *more_room(Kept *kept, i64 size) {
    if (kept->size + size > kept->room) {
        const i64 room = 2 * kept->room + size;
        char *more = realloc(kept->packed, (size_t)room);
        if (!more) return NULL;
        kept->packed = more;
        kept->room = room;
    }
    char *found = kept->packed + kept->size;
    kept->size += size;
    return found;
}

/* All rows of a piece are over. 0: no memory. */
static int pack(Kept *kept, i64 number) {
    Piece *piece = &kept->pieces[number];
    const i64 count = rows_of(kept, number);
    i64 *const start = piece->columns, *const end = start + END_TIME * APART, *const retire = start + RETIRE_TIME * APART;
    for (i64 i = 0; i < count; i++) {
        retire[i] -= end[i];
        end[i] -= start[i];
    }
    Packing packing[TIMES];
    i64 size = sizeof packing;
    for (int c = 0; c < TIMES; c++) {
        const i64 *numbers = piece->columns + c * APART;
        i64 least = numbers[0], most = numbers[0];
        for (i64 i = 1; i < count; i++) {
            least = numbers[i] < least ? numbers[i] : least;
            most = numbers[i] > most ? numbers[i] : most;
        }
        packing[c] = (Packing){least, width_of((uint64_t)most - (uint64_t)least), size};
        size += (packing[c].width * count + 7) / 8 * 8;
    }
    piece->packed_at = kept->size;
    char *to = more_room(kept, size);
    if (!to) return 0;
    memcpy(to, packing, sizeof packing);
    for (int c = 0; c < TIMES; c++) {
        const i64 bytes = packing[c].width * count;
        write_narrow(to + packing[c].at, piece->columns + c * APART, count, packing[c].base, packing[c].width);
        memset(to + packing[c].at + bytes, 0, (size_t)((bytes + 7) / 8 * 8 - bytes));
    }
    free(kept->spare);
    kept->spare = piece->columns;
    piece->columns = NULL;
    return 1;
}

/* A row is over: the first `count` of its times, the others are 0. 0: no memory. */
int kept_row(Kept *kept, i64 row, const i64 *times, int count) {
    Piece *piece = &kept->pieces[row >> SHIFT];
    if (!piece->columns) {
        piece->columns = kept->spare ? kept->spare : malloc(TIMES * APART * sizeof(i64));
        if (!piece->columns) return 0;
        kept->spare = NULL;
        piece->missing = rows_of(kept, row >> SHIFT);
    }
    i64 *at = piece->columns + (row & (PIECE_ROWS - 1));
    int c = 0;
    for (; c < count; c++) at[c * APART] = times[c];
    for (; c < TIMES; c++) at[c * APART] = 0;
    return --piece->missing ? 1 : pack(kept, row >> SHIFT);
}

/* All pieces, which are the caller's from now on, how many bytes they are, and where each begins. */
char *kept_take(Kept *kept, i64 *size, i64 *places) {
    for (i64 i = 0; i < piece_count(kept); i++) places[i] = kept->pieces[i].packed_at;
    char *all = kept->packed, *fit = realloc(all, (size_t)kept->size);
    *size = kept->size;
    kept->packed = NULL;
    kept->size = kept->room = 0;
    return fit ? fit : all;
}
