// Calls whose result has another format than their sources: arithmetic with a cast on its way, and sums of float onto products of
// half. And the calls that take a scale from a register.
#pragma once
#include "asim/vector.h"

namespace asim {
template <class T, class U> inline void casting(Site site, decltype(Word::vmulconv) word, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<U> &src0,
                                                const AscendC::LocalTensor<U> &src1, int64_t repeat, const AscendC::BinaryRepeatParams &p) {
    word(site, {.dst = at(dst), .src0 = at(src0), .src1 = at(src1), .source = format_of<U>(), .target = format_of<T>(), .repeat = repeat,
                .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.src0BlkStride, .src1_block_stride = p.src1BlkStride,
                .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.src0RepStride, .src1_repeat_stride = p.src1RepStride});
}
template <class T, class U> inline AscendC::BinaryRepeatParams adjoining() {
    constexpr int64_t wide = widest<T, U>();
    return {1, 1, 1, (uint8_t)(8 * sizeof(T) / wide), (uint8_t)(8 * sizeof(U) / wide), (uint8_t)(8 * sizeof(U) / wide)};
}
template <class T, class U, class To, class From> constexpr bool is_pair = std::is_same_v<T, To> && std::is_same_v<U, From>;
}  // namespace asim

namespace AscendC {

#define ASIM_CASTING(Name, word, allowed, told)                                                                             \
    template <class T, class U>                                                                                             \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src0, const LocalTensor<U> &src1, uint32_t count,      \
                     ASIM_SITE) {                                                                                           \
        static_assert(allowed, told);                                                                                       \
        asim::Counted around(site, count, true);                                                                            \
        asim::casting(site, asim::Word::word, dst, src0, src1, 1, asim::adjoining<T, U>());                                 \
    }                                                                                                                       \
    template <class T, class U, bool sets = true>                                                                           \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src0, const LocalTensor<U> &src1,                      \
                     asim::ConstMask mask, const asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {                 \
        static_assert(allowed, told);                                                                                       \
        asim::mask_for_call<sets, T, U>(site, mask);                                                                        \
        asim::casting(site, asim::Word::word, dst, src0, src1, repeat, p);                                                  \
    }
#define ASIM_OF_SUMS (asim::is_pair<T, U, int8_t, half> || asim::is_pair<T, U, int8_t, int16_t> || asim::is_pair<T, U, half, float>)
#define ASIM_OF_PRODUCTS (asim::is_pair<T, U, int8_t, half> || asim::is_pair<T, U, uint8_t, half>)
ASIM_CASTING(AddReluCast, vaddreluconv, ASIM_OF_SUMS, "AddReluCast: int8_t of half or int16_t, and half of float")
ASIM_CASTING(SubReluCast, vsubreluconv, ASIM_OF_SUMS, "SubReluCast: int8_t of half or int16_t, and half of float")
ASIM_CASTING(MulCast, vmulconv, ASIM_OF_PRODUCTS, "MulCast: int8_t or uint8_t of half")
#undef ASIM_OF_SUMS
#undef ASIM_OF_PRODUCTS
#undef ASIM_CASTING

// Of one type, or float from half.
#define ASIM_WIDE(T, U) static_assert(asim::is_pair<T, U, float, half>, "operands have one type, or dst is float and the others half")
template <class T, class U> inline void asim_mul_add(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<U> &src0,
                                                     const LocalTensor<U> &src1, int64_t repeat, const BinaryRepeatParams &p) {
    if constexpr (std::is_same_v<T, U>) asim::binary(site, asim::Word::vmla, dst, src0, src1, repeat, p);
    else {
        ASIM_WIDE(T, U);
        asim::casting(site, asim::Word::vmla_wide_, dst, src0, src1, repeat, p);
    }
}
template <class T, class U>
inline void MulAddDst(const LocalTensor<T> &dst, const LocalTensor<U> &src0, const LocalTensor<U> &src1, const int32_t &count, ASIM_SITE) {
    asim::Counted around(site, count, true);
    asim_mul_add(site, dst, src0, src1, 1, asim::adjoining<T, U>());
}
template <class T, class U, bool sets = true>
inline void MulAddDst(const LocalTensor<T> &dst, const LocalTensor<U> &src0, const LocalTensor<U> &src1, asim::ConstMask mask,
                      const asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    asim::mask_for_call<sets, T, U>(site, mask);
    asim_mul_add(site, dst, src0, src1, repeat, p);
}
template <class T, class U> inline void asim_axpy(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<U> &src, U value,
                                                  int64_t repeat, const UnaryRepeatParams &p) {
    if constexpr (std::is_same_v<T, U>) asim::scalar<T>(site, asim::Word::vaxpy, dst, src, value, repeat, p);
    else {
        ASIM_WIDE(T, U);
        asim::Word::vaxpy_wide_(site, {.dst = asim::at(dst), .src0 = asim::at(src), .source = asim::format_of<U>(), .target = asim::format_of<T>(),
                                       .value = asim::immediate(value), .repeat = repeat, .dst_block_stride = p.dstBlkStride,
                                       .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride,
                                       .src0_repeat_stride = p.srcRepStride});
    }
}
#undef ASIM_WIDE
template <class T, class U>
inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src, const asim::given<U> &value, const int32_t &count, ASIM_SITE) {
    asim::Counted around(site, count, false);
    asim_axpy<T, U>(site, dst, src, value, 1, UnaryRepeatParams(1, 1, 8, 8 * sizeof(U) / asim::widest<T, U>()));
}
template <class T, class U, bool sets = true>
inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src, const asim::given<U> &value, asim::Mask mask, const asim::Repeats repeat,
                 const UnaryRepeatParams &p, ASIM_SITE) {
    asim::mask_for_call<sets, T, U>(site, mask);
    asim_axpy<T, U>(site, dst, src, value, repeat, p);
}

// Casts by the scale of SetDeqScale: of int32_t to half, which have no mode.
#define ASIM_DEQ(Name)                                                                                                      \
    template <class T, class U, bool vector = true, bool half_block = true>                                                 \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src, const uint32_t count, ASIM_SITE) {                \
        static_assert(asim::is_pair<T, U, half, int32_t>, #Name ": int32_t to half alone is simulated");                    \
        Cast(dst, src, RoundMode::CAST_NONE, count, site);                                                                  \
    }                                                                                                                       \
    template <class T, class U, bool sets = true, bool vector = true, bool half_block = true>                               \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<U> &src, asim::ConstMask mask, asim::Repeats repeat,                     \
                     const UnaryRepeatParams &p, ASIM_SITE) {                                                               \
        static_assert(asim::is_pair<T, U, half, int32_t>, #Name ": int32_t to half alone is simulated");                    \
        Cast<T, U, sets>(dst, src, RoundMode::CAST_NONE, mask, repeat, p, site);                                            \
    }
ASIM_DEQ(CastDeq)
ASIM_DEQ(CastDequant)
#undef ASIM_DEQ

// A sum of int32_t, its scale, half, and ReLU, piece by piece in the library's scratch memory and over both sources (recorded words
// of a count; pieces and masks are assumed).
constexpr int32_t ASIM_SUMS_AT_ONCE = 2048;
inline void asim_add_deq_relu(asim::Site site, const LocalTensor<half> &dst, const LocalTensor<int32_t> &src0,
                              const LocalTensor<int32_t> &src1, int64_t repeat, const BinaryRepeatParams &p, const BinaryRepeatParams &last) {
    half scale;
    memcpy((void *)&scale, &asim::recorder.registers.deq_scale, sizeof scale);
    LocalTensor<int32_t> sums(TPosition::VECCALC, ASIM_SCRATCH, ASIM_SUMS_AT_ONCE);
    asim::allocated_for_library(site, ASIM_SCRATCH, sums.GetLength());
    const auto numbers = src0.ReinterpretCast<float>();
    const auto halves = src1.ReinterpretCast<half>(), zeros = sums.ReinterpretCast<half>();
    asim::binary(site, asim::Word::vadd, sums, src0, src1, repeat,
                 BinaryRepeatParams(1, p.src0BlkStride, p.src1BlkStride, 8, p.src0RepStride, p.src1RepStride));
    asim_barrier(site);
    asim::convert(site, numbers, sums, RoundMode::CAST_NONE, repeat, UnaryRepeatParams(p.src0BlkStride, 1, p.src0RepStride, 8));
    for (float factor : {1.0f / 131072, (float)scale, 131072.0f}) {
        asim_barrier(site);
        asim::scalar(site, asim::Word::vmuls, numbers, numbers, factor, repeat,
                     UnaryRepeatParams(p.src0BlkStride, p.src0BlkStride, p.src0RepStride, p.src0RepStride));
    }
    asim_barrier(site);
    asim::convert(site, halves, numbers, RoundMode::CAST_NONE, repeat, UnaryRepeatParams(1, p.src0BlkStride, 4, p.src0RepStride));
    asim_barrier(site);
    asim::duplicate<half>(site, zeros, half(0), 1, 1, 8);
    asim_barrier(site);
    asim::binary(site, asim::Word::vmax, dst, zeros, halves, repeat, last);
    asim_barrier(site);
}
inline void AddDeqRelu(const LocalTensor<half> &dst, const LocalTensor<int32_t> &src0, const LocalTensor<int32_t> &src1,
                       const int32_t &count, ASIM_SITE) {
    for (int32_t done = 0; done < count; done += ASIM_SUMS_AT_ONCE) {
        asim::Counted around(site, count - done < ASIM_SUMS_AT_ONCE ? count - done : ASIM_SUMS_AT_ONCE, true);
        asim_add_deq_relu(site, dst[done], src0[done], src1[done], 1, {}, {});
    }
}
template <bool sets = true>
inline void AddDeqRelu(const LocalTensor<half> &dst, const LocalTensor<int32_t> &src0, const LocalTensor<int32_t> &src1,
                       asim::ConstMask mask, const asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    constexpr int64_t AT_ONCE = ASIM_SUMS_AT_ONCE / asim_lanes<int32_t>;
    const BinaryRepeatParams last(p.dstBlkStride, 1, 1, p.dstRepStride, 0, 4);
    asim::mask_for_call<sets, int32_t>(site, mask);
    for (int64_t done = 0; done < repeat; done += AT_ONCE)
        asim_add_deq_relu(site, dst[done * p.dstRepStride * 16], src0[done * p.src0RepStride * 8], src1[done * p.src1RepStride * 8],
                          repeat - done < AT_ONCE ? repeat - done : AT_ONCE, p, last);
}

}  // namespace AscendC
