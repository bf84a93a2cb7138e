/* Numbers: times are cycles, rates 2**-16 bytes per cycle, amounts 2**-16 bytes; headroom.py says why nothing wraps. */
#ifndef ASCEND_SIM_BASE_H
#define ASCEND_SIM_BASE_H

#include <stdint.h>

typedef int64_t i64;

#define NEVER ((i64)1 << 62)

#define EXPORT __attribute__((visibility("default")))

#endif
