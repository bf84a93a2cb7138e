/* The columns of a program's timeline, packed as its rows finish (../columns.py, `Packed`, is the Python twin;
 * docs/design.md, "Hazards are a sweep over the finished timeline").
 *
 * The rows of each pipe finish in order, those of different pipes do not, so several pieces fill up at a time; a full piece is
 * packed. The times of a few thousand rows are close together, and most other columns are small or zero: a row of 80 bytes
 * takes about 20. A packed piece is appended to a file, or stays in memory if the file is full. */
#define _POSIX_C_SOURCE 200809L /* files: lseek, write */
#define _FILE_OFFSET_BITS 64
#include "columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHIFT = 12, PIECE_ROWS = 1 << SHIFT };
enum { OF_ALL = sizeof(Times) / sizeof(i64), OF_MOVES = sizeof(Move) / sizeof(i64) - 1, TIMES = OF_ALL + OF_MOVES };

/* Times of a row, `end` and `retire` as differences to the time before; and the columns of a transfer, in row `at`. */
typedef struct {
    i64 times[OF_ALL];
} Row;
typedef struct {
    i64 at, numbers[OF_MOVES];
} Moved;

/* A piece that fills up: its rows, and behind them `moves` transfers. */
typedef struct {
    Row *rows;
    i64 missing, packed_at, moves;
} Piece;

struct Kept {
    i64 count;
    Piece *pieces;
    Row *spare;
    char *packed; /* packed pieces that are not in the file, in the order of packing */
    i64 size, room, file;
};

static i64 piece_count(const Kept *kept) { return (kept->count + PIECE_ROWS - 1) >> SHIFT; }

/* Return empty columns for `count` rows; `file` is a descriptor, or -1 for none. NULL: no memory. */
Kept *kept_new(i64 count, i64 file) {
    Kept *kept = malloc(sizeof *kept);
    if (!kept) return NULL;
    *kept = (Kept){.count = count, .file = file};
    kept->pieces = calloc((size_t)piece_count(kept) + 1, sizeof(Piece));
    if (kept->pieces) return kept;
    free(kept);
    return NULL;
}

void kept_free(Kept *kept) {
    if (!kept) return;
    for (i64 i = 0; i < piece_count(kept); i++) free(kept->pieces[i].rows);
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

/* Write every `step`-th number, `count` of them, as its difference to `base` in `width` bytes. */
static void write_narrow(char *to, const i64 *numbers, i64 step, i64 count, i64 base, i64 width) {
    const uint64_t least = (uint64_t)base;
    if (width == 1) {
        uint8_t *narrow = (uint8_t *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint8_t)((uint64_t)numbers[i * step] - least);
    } else if (width == 2) {
        uint16_t *narrow = (uint16_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint16_t)((uint64_t)numbers[i * step] - least);
    } else if (width == 4) {
        uint32_t *narrow = (uint32_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint32_t)((uint64_t)numbers[i * step] - least);
    } else if (width == 8) {
        uint64_t *narrow = (uint64_t *)(void *)to;
        for (i64 i = 0; i < count; i++) narrow[i] = (uint64_t)numbers[i * step] - least;
    }
}

/* Write a column of transfers, with 0 in all other rows. */
static void write_moves(char *to, const Moved *moves, i64 count, int column, i64 rows, const Packing *packing) {
    const i64 none = 0;
    if (count < rows) write_narrow(to, &none, 0, rows, packing->base, packing->width);
    for (const Moved *one = moves; one < moves + count; one++)
        write_narrow(to + one->at * packing->width, &one->numbers[column], 0, 1, packing->base, packing->width);
}

/* Return room for `size` more bytes at the end of `packed`. NULL: no memory. */
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

/* Append bytes to the file and return their offset. -1: the file takes no more. */
static i64 append(int file, const char *bytes, i64 size) {
    const off_t begin = lseek(file, 0, SEEK_END);
    for (i64 done = 0; begin >= 0 && done < size;) {
        const ssize_t more = write(file, bytes + done, (size_t)(size - done));
        if (more > 0) done += more;
        else if (more == 0 || errno != EINTR) return -1;
    }
    return begin;
}

/* Move the last `size` packed bytes to the file, if it takes them. Returns their offset there, or -1 - offset in memory. */
static i64 put_away(Kept *kept, i64 size) {
    const i64 at = kept->size - size, begin = kept->file < 0 ? -1 : append((int)kept->file, kept->packed + at, size);
    if (begin < 0) {
        kept->file = -1;
        return -1 - at;
    }
    kept->size = at;
    return begin;
}

static inline void widen(i64 *least, i64 *most, i64 number) {
    *least = number < *least ? number : *least;
    *most = number > *most ? number : *most;
}

static Moved *moves_of(const Piece *piece) { return (Moved *)(void *)(piece->rows + PIECE_ROWS); }

/* Pack a piece whose rows are all finished. 0: no memory. */
static int pack(Kept *kept, i64 number) {
    Piece *piece = &kept->pieces[number];
    const Row *rows = piece->rows;
    const Moved *moves = moves_of(piece);
    const i64 count = rows_of(kept, number);
    i64 least[TIMES], most[TIMES], size = TIMES * (i64)sizeof(Packing);
    for (int c = 0; c < OF_ALL; c++) least[c] = most[c] = rows->times[c];
    for (int c = 0; c < OF_MOVES; c++) least[OF_ALL + c] = most[OF_ALL + c] = piece->moves < count ? 0 : moves->numbers[c];
    for (i64 i = 0; i < count; i++)
        for (int c = 0; c < OF_ALL; c++) widen(&least[c], &most[c], rows[i].times[c]);
    for (i64 i = 0; i < piece->moves; i++)
        for (int c = 0; c < OF_MOVES; c++) widen(&least[OF_ALL + c], &most[OF_ALL + c], moves[i].numbers[c]);
    Packing packing[TIMES];
    for (int c = 0; c < TIMES; c++) {
        packing[c] = (Packing){least[c], width_of((uint64_t)most[c] - (uint64_t)least[c]), size};
        size += (packing[c].width * count + 7) / 8 * 8;
    }
    char *to = more_room(kept, size);
    if (!to) return 0;
    memcpy(to, packing, sizeof packing);
    for (int c = 0; c < TIMES; c++) {
        const i64 bytes = packing[c].width * count;
        char *column = to + packing[c].at;
        if (c < OF_ALL) write_narrow(column, &rows->times[c], OF_ALL, count, packing[c].base, packing[c].width);
        else write_moves(column, moves, piece->moves, c - OF_ALL, count, &packing[c]);
        memset(column + bytes, 0, (size_t)((bytes + 7) / 8 * 8 - bytes));
    }
    piece->packed_at = put_away(kept, size);
    free(kept->spare);
    kept->spare = piece->rows;
    piece->rows = NULL;
    return 1;
}

/* Add a finished row; `move`: its columns of a transfer, NULL for zeros. 0: no memory. */
int kept_row(Kept *kept, i64 row, const Times *times, const Move *move) {
    Piece *piece = &kept->pieces[row >> SHIFT];
    if (!piece->rows) {
        piece->rows = kept->spare ? kept->spare : malloc(PIECE_ROWS * (sizeof(Row) + sizeof(Moved)));
        if (!piece->rows) return 0;
        kept->spare = NULL;
        piece->missing = rows_of(kept, row >> SHIFT);
    }
    const i64 at = row & (PIECE_ROWS - 1), start = times->start, end = times->end, retire = times->retire;
    piece->rows[at] = (Row){{start, end - start, retire - end, times->stall, times->cause}};
    if (move)
        moves_of(piece)[piece->moves++] =
            (Moved){at, {move->l2_wait, move->hbm_wait, move->l2_hits, move->l2_misses, move->hbm_bytes}};
    return --piece->missing ? 1 : pack(kept, row >> SHIFT);
}

/* Return the pieces in memory, which the caller then owns, their bytes in `size`, and the place of every piece. NULL: none. */
char *kept_take(Kept *kept, i64 *size, i64 *places) {
    for (i64 i = 0; i < piece_count(kept); i++) places[i] = kept->pieces[i].packed_at;
    *size = kept->size;
    if (!kept->size) return NULL;
    char *all = kept->packed, *fit = realloc(all, (size_t)kept->size);
    kept->packed = NULL;
    kept->size = kept->room = 0;
    return fit ? fit : all;
}
