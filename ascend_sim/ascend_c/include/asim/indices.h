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
// With a mask: the numbers of one repeat in the library's scratch memory, to which each repeat adds its own beginning (assumed).
template <class T> inline void CreateVecIndex(LocalTensor<T> dst, const asim::given<T> &first, asim::Mask mask, asim::Repeats repeat,
                                              uint16_t block, uint8_t stride, ASIM_SITE) {
    if (!repeat) return;
    LocalTensor<T> numbers(TPosition::VECCALC, ASIM_SCRATCH, asim_lanes<T>);
    asim::allocated_for_library(site, ASIM_SCRATCH, numbers.GetLength());
    asim_between(site, HardEvent::V_S);
    asim_progression<T>(site, numbers, first, (T)1, asim_lanes<T>);
    asim::mask_for_call<true, T>(site, mask);
    for (int64_t number = 0; number < repeat; number++)
        asim::scalar(site, asim::Word::vadds, dst[number * stride * 32 / sizeof(T)], numbers, (T)(number * asim_lanes<T>), 1,
                     UnaryRepeatParams(block, 1, 8, 8));
}
// The steps of a progression are those of CreateVecIndex (assumed).
template <class T> inline void ArithProgression(const LocalTensor<T> &dst, const asim::given<T> &firstValue, const asim::given<T> &diffValue,
                                                const int32_t count, ASIM_SITE) {
    asim_progression<T>(site, dst, firstValue, diffValue, count);
}

}  // namespace AscendC
