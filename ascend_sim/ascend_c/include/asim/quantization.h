// Scaled integers of rows in the Unified Buffer: compositions of basic calls, as in row_functions.h (assumed).
#pragma once
#include "asim/row_functions.h"

namespace AscendC {
enum class DeQuantMode : uint8_t { DEQUANT_WITH_SINGLE_ROW = 0, DEQUANT_WITH_MULTI_ROW = 1 };
struct DequantParams { uint32_t m, n, calCount; };
}  // namespace AscendC

namespace asim {

// dst = src scale, for calCount elements of each of m rows; `times(d, first)` multiplies a row by the scale in float.
template <class Out, class Times>
inline void dequant(Site site, const LocalTensor<Out> &dst, const LocalTensor<int32_t> &src, const Temporary &space, int64_t taken,
                    AscendC::DequantParams p, bool single, const Times &times) {
    static_assert(std::is_same_v<Out, float> || std::is_same_v<Out, bfloat16_t>,
                  "AscendDequant: float and bfloat16_t are simulated; half, whose scales are uint64_t, is not");
    if (single && p.m == 1 && p.calCount && p.calCount % IN_BLOCK<Out> == 0 && p.n % p.calCount == 0)
        p = {p.n / p.calCount, p.calCount, p.calCount};
    if (!p.m || !p.calCount || p.calCount > p.n || p.n % 8)
        refuse(site, "AscendDequant: m %u, n %u, calCount %u; calCount is from 1 to n, and n a multiple of 8", p.m, p.n, p.calCount);
    int64_t step = (p.n + IN_BLOCK<Out> - 1) / IN_BLOCK<Out> * IN_BLOCK<Out>;
    check_size(site, "AscendDequant", "srcTensor", src, (int64_t)p.m * p.n);
    check_size(site, "AscendDequant", "dstTensor", dst, (p.m - 1) * step + p.calCount);
    constexpr bool narrow = !std::is_same_v<Out, float>;
    check_temporary(site, "AscendDequant", space, taken + narrow * p.n * 4);
    for (int64_t row = 0; row < p.m; row++) {
        Floats wide = floats(space.start + taken, p.n);
        if constexpr (!narrow) wide = dst[row * step];
        AscendC::Cast(wide, src[row * p.n], AscendC::RoundMode::CAST_NONE, p.calCount, site);
        AscendC::asim_barrier(site);
        times(wide, p.calCount);
        AscendC::asim_barrier(site);
        if constexpr (!narrow) continue;
        else AscendC::Cast(dst[row * step], wide, AscendC::RoundMode::CAST_RINT, p.calCount, site);
        AscendC::asim_barrier(site);
    }
}
template <class Out, class Scale>
inline void dequant_by_column(Site site, const LocalTensor<Out> &dst, const LocalTensor<int32_t> &src, const LocalTensor<Scale> &scale,
                              const Temporary &space, const AscendC::DequantParams &p, bool single) {
    static_assert(std::is_same_v<Scale, float> || std::is_same_v<Scale, bfloat16_t>, "AscendDequant: scales of float and bfloat16_t are simulated");
    check_size(site, "AscendDequant", "deqScale", scale, p.calCount);
    if constexpr (std::is_same_v<Scale, float>) {
        dequant(site, dst, src, space, 0, p, single, [&](const Floats &d, int64_t n) { AscendC::Mul(d, d, scale, n, site); });
    } else {
        int64_t bytes = (p.calCount + 7) / 8 * 32;
        check_temporary(site, "AscendDequant", space, bytes);
        Floats wide = floats(space.start, bytes / 4);
        AscendC::Cast(wide, scale, AscendC::RoundMode::CAST_NONE, p.calCount, site);
        AscendC::asim_barrier(site);
        dequant(site, dst, src, space, bytes, p, single, [&](const Floats &d, int64_t n) { AscendC::Mul(d, d, wide, n, site); });
    }
}

}  // namespace asim

namespace AscendC {

#define ASIM_SINGLE mode == DeQuantMode::DEQUANT_WITH_SINGLE_ROW
template <class dstT, class scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<dstT> &dst, const LocalTensor<int32_t> &src, const LocalTensor<scaleT> &deqScale,
                          const LocalTensor<uint8_t> &sharedTmpBuffer, DequantParams params, ASIM_SITE) {
    asim::dequant_by_column(site, dst, src, deqScale, asim::temporary(sharedTmpBuffer), params, ASIM_SINGLE);
}
template <class dstT, class scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<dstT> &dst, const LocalTensor<int32_t> &src, const LocalTensor<scaleT> &deqScale, DequantParams params, ASIM_SITE) {
    asim::dequant_by_column(site, dst, src, deqScale, asim::temporary(site, "AscendDequant"), params, ASIM_SINGLE);
}
template <class dstT, class scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<dstT> &dst, const LocalTensor<int32_t> &src, const asim::given<scaleT> deqScale,
                          const LocalTensor<uint8_t> &sharedTmpBuffer, DequantParams params, ASIM_SITE) {
    asim::dequant(site, dst, src, asim::temporary(sharedTmpBuffer), 0, params, ASIM_SINGLE,
                  [&](const asim::Floats &d, int64_t n) { Muls(d, d, (float)deqScale, n, site); });
}
template <class dstT, class scaleT, DeQuantMode mode = DeQuantMode::DEQUANT_WITH_SINGLE_ROW>
inline void AscendDequant(const LocalTensor<dstT> &dst, const LocalTensor<int32_t> &src, const asim::given<scaleT> deqScale, DequantParams params, ASIM_SITE) {
    asim::dequant(site, dst, src, asim::temporary(site, "AscendDequant"), 0, params, ASIM_SINGLE,
                  [&](const asim::Floats &d, int64_t n) { Muls(d, d, (float)deqScale, n, site); });
}
#undef ASIM_SINGLE

}  // namespace AscendC
