// The public Ascend C API of vector and cube kernels on dav-2201, above words that a recorder keeps (docs/ascend-c.md).
#pragma once
#include "asim/recorder.h"
#include "asim/types.h"
#include "asim/tensor.h"
#include "asim/sync.h"
#include "asim/pipe.h"
#include "asim/copy.h"
#include "asim/vector.h"
#include "asim/functions.h"
#include "asim/row_functions.h"
#include "asim/cube_types.h"
#include "asim/cube.h"
#include "asim/launch.h"
