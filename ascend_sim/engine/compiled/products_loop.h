/* One way to add products, included by products.c with NAME, TARGET, BYTES of a vector, and ACROSS columns and DOWN rows that are
 * worked on together. */
#define JOINED(one, other) one##other
#define OF(one, other) JOINED(one, other)
#define VECTOR OF(NAME, _vector)
#define LANES (ACROSS * 4 / BYTES)
#define EACH_LANE(what) _Pragma("GCC unroll 4") for (int lane = 0; lane < LANES; lane++) { what; }
#define EACH(what) _Pragma("GCC unroll 4") for (int i = 0; i < rows; i++) EACH_LANE(what)

typedef float VECTOR __attribute__((vector_size(BYTES)));

/* `rows` rows and `columns` columns of `total`, and `width` products of each. */
TARGET static inline __attribute__((always_inline)) void OF(NAME, _block)(
    const float *left, i64 held, const VECTOR turned[][LANES], i64 width, float *total, i64 n, i64 columns, int rows) {
    VECTOR sum[DOWN][LANES], row[LANES];
    memset(row, 0, sizeof row);
    EACH(sum[i][lane] = left[i * held] * turned[0][lane])
    for (i64 k = 1; k < width; k++) EACH(sum[i][lane] += left[i * held + k] * turned[k][lane])
    for (int i = 0; i < rows; i++) {
        memcpy(row, total + i * n, (size_t)columns * sizeof(float));
        EACH_LANE(row[lane] += sum[i][lane])
        memcpy(total + i * n, row, (size_t)columns * sizeof(float));
    }
}

TARGET static void NAME(const Product *product, const float *left, const float *right, float *total) {
    i64 m = product->m, n = product->n, held = product->held;
    VECTOR turned[MOST_WIDTH][LANES];
    for (i64 column = 0; column < n; column += ACROSS) {
        i64 columns = n - column < ACROSS ? n - column : ACROSS;
        for (i64 k = 0; k < product->k; k += product->width) {
            i64 width = product->k - k < product->width ? product->k - k : product->width, i = 0;
            float line[ACROSS] = {0};
            for (i64 inner = 0; inner < width; inner++) {
                for (i64 j = 0; j < columns; j++) line[j] = right[(column + j) * held + k + inner];
                memcpy(turned[inner], line, sizeof line);
            }
            float *at = total + column;
            for (; columns == ACROSS && i + DOWN <= m; i += DOWN)
                OF(NAME, _block)(left + i * held + k, held, turned, width, at + i * n, n, ACROSS, DOWN);
            for (; i + DOWN <= m; i += DOWN)
                OF(NAME, _block)(left + i * held + k, held, turned, width, at + i * n, n, columns, DOWN);
            for (; i < m; i++) OF(NAME, _block)(left + i * held + k, held, turned, width, at + i * n, n, columns, 1);
        }
    }
}

#undef NAME
#undef BYTES
#undef ACROSS
#undef DOWN
#undef TARGET
#undef JOINED
#undef OF
#undef VECTOR
#undef LANES
#undef EACH_LANE
#undef EACH
