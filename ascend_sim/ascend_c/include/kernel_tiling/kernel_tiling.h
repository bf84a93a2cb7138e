// Structures of tiling data that the functions and Matmul take (docs/ascend-c.md).
#pragma once
#include "kernel_operator.h"
