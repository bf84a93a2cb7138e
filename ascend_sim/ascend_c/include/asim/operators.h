// z = x + y and so on: as many elements as z has; a comparison takes as many as x has (public documentation of the operators).
#pragma once
#include "asim/vector.h"

namespace AscendC {

template <class T, int operation> struct asim_pair_of {
    LocalTensor<T> first, second;
    asim::Site site;
    template <class D> void compute(const LocalTensor<D> &dst) const {
        const int32_t count = dst.GetSize();
        if constexpr (operation == 0) Add(dst, first, second, count, site);
        else if constexpr (operation == 1) Sub(dst, first, second, count, site);
        else if constexpr (operation == 2) Mul(dst, first, second, count, site);
        else if constexpr (operation == 3) Div(dst, first, second, count, site);
        else if constexpr (operation == 4) And(dst, first, second, count, site);
        else if constexpr (operation == 5) Or(dst, first, second, count, site);
        else {
            constexpr CMPMODE MODES[] = {CMPMODE::LT, CMPMODE::GT, CMPMODE::EQ, CMPMODE::LE, CMPMODE::GE, CMPMODE::NE};
            Compare(dst, first, second, MODES[operation - 6], first.GetSize(), site);
        }
    }
};

}  // namespace AscendC
