/* The words of a recorded kernel as the rows of a program (../../ascend_c/rows.py, which does the same in numpy; docs/design.md,
 * "A program is a table of interned instructions").
 *
 * A word is five numbers: its shape, its line and three addresses. Of a shape `shapes` has five numbers too: its first step, how
 * many steps it has, and which addresses lie in GM. A step is an instruction and how far its operands lie from the addresses. */
#include "program.h"

enum { WIDTH = 5, STEP = 4, OPERANDS = 3, POINTER_SHIFT = 40 };

/* The number of rows, or -1 for a pointer into GM that lies in none of the tensors. */
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

/* For each flag the first word that sets it above `most`, or -1. `moves` has the flag of each shape (-1: none) and by how much it
 * goes up; `stands` begins with zeros, `twice` with -1. */
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
