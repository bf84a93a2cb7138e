/* Products of the cube, added in the order of k (products.c). */
#ifndef ASCEND_SIM_PRODUCTS_H
#define ASCEND_SIM_PRODUCTS_H

#include "base.h"

enum { MOST_WIDTH = 64 };

/* Product [m, k] times [k, n]; rows of the factors hold `held` numbers. `width` products are added at a time; 0: the caller
 * multiplies. */
typedef struct {
    i64 m, n, k, held, width;
} Product;

void add_products(const Product *product, const float *left, const float *right, float *total);

#endif
