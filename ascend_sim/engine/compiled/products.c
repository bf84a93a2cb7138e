/* Products of the cube in the model `chunk`: those of a fractal's k one after the other, and their sum to the sum so far. Every
 * product and every sum is rounded to float32. The order depends on k alone, so that a sum has the same bits wherever its row
 * and its column stand. The twin is in Python: ../../numerics/accumulate.py, add_chunks; docs/design.md, "Values
 * follow time". */
#include "products.h"

#include <string.h>

/* Vectors of 16, 32 and 64 bytes give the same bits; the compiler is not allowed to fuse a product with a sum (C11). */
#define NAME add_narrow
#define BYTES 16
#define ACROSS 16
#define DOWN 2
#define TARGET
#include "products_loop.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define NAME add_wide
#define BYTES 32
#define ACROSS 16
#define DOWN 4
#define TARGET __attribute__((target("avx2")))
#include "products_loop.h"

#define NAME add_widest
#define BYTES 64
#define ACROSS 64
#define DOWN 4
#define TARGET __attribute__((target("avx512f")))
#include "products_loop.h"
#endif

/* Add the products to `total` [m, n]. A NaN of the result is the usual one, whatever it was made of. */
void add_products(const Product *product, const float *left, const float *right, float *total) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f"))
        add_widest(product, left, right, total);
    else if (__builtin_cpu_supports("avx2"))
        add_wide(product, left, right, total);
    else
#endif
        add_narrow(product, left, right, total);
    for (i64 i = 0; i < product->m * product->n; i++) total[i] = total[i] == total[i] ? total[i] : __builtin_nanf("");
}
