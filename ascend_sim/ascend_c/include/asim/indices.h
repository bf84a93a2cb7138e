// Tensors of rising numbers: the first block by the scalar unit, the first repeat block by block, the rest repeat by repeat.
#pragma once
#include "asim/pipe.h"
#include "asim/vector.h"

namespace AscendC {

template <class T> inline void asim_progression(asim::Site site, const LocalTensor<T> &dst, T first, T step, int64_t count) {
    using Wide = std::conditional_t<asim::is_float<T>, float, int64_t>;
    constexpr int64_t BLOCK = 32 / (int64_t)sizeof(T), LANES = asim_lanes<T>;
    if (count < 1) asim::refuse(site, "a count of %lld elements; allowed is 1 or more", (long long)count);
    for (int64_t i = 0; i < BLOCK && i < count; i++) dst.SetValue(i, (T)((Wide)first + (Wide)step * (Wide)i), site);
    if (count <= BLOCK) return;
    asim_between(site, HardEvent::S_V);
    for (int64_t done = BLOCK, unit = BLOCK; done < count; done += unit) {
        unit = done < LANES ? BLOCK : LANES;
        int64_t here = count - done < unit ? count - done : unit;
        asim::mask_of_count(site, here);
        asim::scalar(site, asim::Word::vadds, dst[done], dst[done - unit], (T)((Wide)step * (Wide)unit), 1, {});
        if (here == unit) asim_barrier(site);
    }
}
template <class T> inline void CreateVecIndex(const LocalTensor<T> &dst, const asim::given<T> &firstValue, uint32_t count, ASIM_SITE) {
    asim_progression<T>(site, dst, firstValue, (T)1, count);
}
template <class T, class M> void CreateVecIndex(const LocalTensor<T> &, const asim::given<T> &, M, uint8_t, uint16_t, uint8_t) = delete;
// The steps of a progression are those of CreateVecIndex (assumed).
template <class T> inline void ArithProgression(const LocalTensor<T> &dst, const asim::given<T> &firstValue, const asim::given<T> &diffValue,
                                                const int32_t count, ASIM_SITE) {
    asim_progression<T>(site, dst, firstValue, diffValue, count);
}

}  // namespace AscendC
