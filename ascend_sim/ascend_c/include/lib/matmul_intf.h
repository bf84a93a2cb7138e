// The Matmul library (docs/ascend-c.md).
#pragma once
#include "kernel_operator.h"
