// Marks a library with a file whose C++ is compiled without counts.
#pragma once
#include "asim/marks.h"

template struct asim::Mark<asim::UNCOUNTED>;
