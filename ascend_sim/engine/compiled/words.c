/* Translation of the words of a recorded kernel to rows of a program (twin in numpy: ../../ascend_c/rows.py; docs/design.md,
 * "A program is a table of interned instructions").
 *
 * A word is five numbers: its shape, its line and three addresses. A shape is five numbers of `shapes`: its first step,
 * its count of steps, and for each address 1 if it is in GM. A step is an instruction and the offsets of its operands to the
 * addresses. */
#include "program.h"

enum { WIDTH = 5, STEP = 4, OPERANDS = 3, POINTER_SHIFT = 40 };

/* Write the rows of all words and return their count, or -1 for a pointer into GM outside of all tensors. */
EXPORT i64 words_to_rows(const i64 *words, i64 count, const i64 *shapes, const i64 *steps, i64 tensors, const int32_t *line_numbers,
                         i64 *rows, int32_t *lines) {
    const i64 *const begin = rows;
    for (const i64 *word = words; word < words + count * WIDTH; word += WIDTH) {
        const i64 *shape = shapes + word[0] * WIDTH;
        const int32_t line = line_numbers[word[1]];
        for (const i64 *step = steps + shape[0] * STEP; step < steps + (shape[0] + shape[1]) * STEP; step += STEP) {
            rows[0] = step[0];
            for (int i = 0; i < OPERANDS; i++) {
                const i64 address = word[2 + i] + step[1 + i], slot = (address >> POINTER_SHIFT) - 1;
                if (shape[2 + i] && (slot < 0 || slot >= tensors)) return -1;
                rows[1 + i] = shape[2 + i] ? (slot << SLOT_SHIFT) + (address & (((i64)1 << POINTER_SHIFT) - 1)) : address;
            }
            rows[WIDTH - 1] = 0;
            rows += WIDTH;
            *lines++ = line;
        }
    }
    return (rows - begin) / WIDTH;
}

/* Find for each flag the first word that raises it above `most`, in `twice`, and return the count of such flags. `moves` has
 * the flag of each shape (-1: none) and its change; `stands`, the levels, begins with zeros, `twice` with -1. */
EXPORT i64 words_set_twice(const i64 *words, i64 count, const i64 *moves, i64 most, i64 *stands, i64 *twice) {
    i64 found = 0;
    for (i64 i = 0; i < count; i++) {
        const i64 *move = moves + words[i * WIDTH] * 2;
        if (move[0] < 0) continue;
        stands[move[0]] += move[1];
        if (stands[move[0]] > most && twice[move[0]] < 0) {
            twice[move[0]] = i;
            found++;
        }
    }
    return found;
}
