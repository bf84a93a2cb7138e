// Vector calls in both forms: a count of elements, or a mask with repeats. The order of the mask words of a call is that of
// the public API (cases: tests/ascend_c/words).
#pragma once
#include "asim/sync.h"

namespace asim {

// Mask words around a call in count form; the last two stand in either order, by the call's family.
struct Counted {
    Site site;
    bool norm_first, sets;
    Counted(Site where, int64_t count, bool norm, bool sets_mask = true) : site(where), norm_first(norm), sets(sets_mask) {
        if (!sets) return;  // then the caller has set the mask (public documentation of isSetMask)
        set_counting(site, true);
        set_vector_mask(site, 0, count);
    }
    ~Counted() {
        if (!sets) return;
        if (norm_first) set_counting(site, false);
        set_vector_mask(site, -1, -1);
        if (!norm_first) set_counting(site, false);
    }
};
// The mask of a call in repeat mode: two words of bits, or a number of elements.
struct AnyMask {
    const uint64_t *words;
    int64_t count;
};
template <class Words> struct MaskOf : AnyMask {
    MaskOf(Words given) : AnyMask{given, 0} {}
    template <class N, class = std::enable_if_t<std::is_arithmetic_v<N> || std::is_enum_v<N>>> MaskOf(N number) : AnyMask{nullptr, (int64_t)number} {}
};
using Mask = MaskOf<uint64_t *>;
using ConstMask = MaskOf<const uint64_t *>;
struct MaskBits { uint64_t words[2]; };
template <class... T> inline MaskBits bits_of(Site site, const AnyMask &mask) {
    if (mask.words) return {{mask.words[0], mask.words[1]}};
    int64_t count = elements_of_mask<T...>(site, mask.count);
    return {{(uint64_t)low_bits(count), (uint64_t)low_bits(count - 64)}};
}
template <bool sets, class... T> inline void mask_for_call(Site site, const AnyMask &mask) {
    if (!sets) return;
    auto bits = bits_of<T...>(site, mask);
    set_vector_mask(site, bits.words[1], bits.words[0]);
}

using Binary = decltype(Word::vadd);
using Unary = decltype(Word::vabs);
using WithScalar = decltype(Word::vadds);
using Reduction = decltype(Word::vcadd);
template <class T> inline void binary(Site site, Binary word, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src0,
                                      const AscendC::LocalTensor<T> &src1, int64_t repeat, const AscendC::BinaryRepeatParams &p) {
    word(site, {.dst = at(dst), .src0 = at(src0), .src1 = at(src1), .format = format_of<T>(), .repeat = repeat,
                .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.src0BlkStride, .src1_block_stride = p.src1BlkStride,
                .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.src0RepStride, .src1_repeat_stride = p.src1RepStride});
}
template <class T> inline void unary(Site site, Unary word, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
                                     int64_t repeat, const AscendC::UnaryRepeatParams &p) {
    word(site, {.dst = at(dst), .src0 = at(src), .format = format_of<T>(), .repeat = repeat, .dst_block_stride = p.dstBlkStride,
                .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.srcRepStride});
}
template <class T> inline void scalar(Site site, WithScalar word, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
                                      T value, int64_t repeat, const AscendC::UnaryRepeatParams &p) {
    word(site, {.dst = at(dst), .src0 = at(src), .format = format_of<T>(), .value = immediate(value), .repeat = repeat,
                .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride,
                .src0_repeat_stride = p.srcRepStride});
}
template <class T>
inline void duplicate(Site site, const AscendC::LocalTensor<T> &dst, T value, int64_t repeat, int64_t block, int64_t stride) {
    Word::vector_dup(site, {.dst = at(dst), .format = format_of<T>(), .value = immediate(value), .repeat = repeat, .dst_block_stride = block,
                            .src0_block_stride = 1, .dst_repeat_stride = stride, .src0_repeat_stride = 0});
}
template <class From, class To> constexpr bool casts() { return converts(format_of<From>(), format_of<To>()); }
template <class D, class S> inline void convert(Site site, const AscendC::LocalTensor<D> &dst, const AscendC::LocalTensor<S> &src,
                                                AscendC::RoundMode mode, int64_t repeat, const AscendC::UnaryRepeatParams &p) {
    static_assert(casts<S, D>(), "the vector unit of these cores does not convert so");
    Word::vconv(site, {.dst = at(dst), .src0 = at(src), .source = format_of<S>(), .target = format_of<D>(), .mode = mode, .repeat = repeat,
                       .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride,
                       .src0_repeat_stride = p.srcRepStride});
}

}  // namespace asim

namespace AscendC {

#define ASIM_BINARY(Name, word)                                                                                             \
    template <class T> inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1,   \
                                        const int32_t &count, ASIM_SITE) {                                                  \
        asim::Counted around(site, count, true);                                                                            \
        asim::binary(site, asim::Word::word, dst, src0, src1, 1, {});                                                       \
    }                                                                                                                       \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, asim::Mask mask,     \
                     const asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {                                        \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim::binary(site, asim::Word::word, dst, src0, src1, repeat, p);                                                   \
    }
ASIM_BINARY(Add, vadd)
ASIM_BINARY(Sub, vsub)
ASIM_BINARY(Mul, vmul)
ASIM_BINARY(Div, vdiv)
ASIM_BINARY(Max, vmax)
ASIM_BINARY(Min, vmin)
ASIM_BINARY(And, vand)
ASIM_BINARY(Or, vor)
ASIM_BINARY(FusedMulAdd, vmadd)
ASIM_BINARY(FusedMulAddRelu, vmaddrelu)
ASIM_BINARY(AddRelu, vaddrelu)
ASIM_BINARY(SubRelu, vsubrelu)
#undef ASIM_BINARY

#define ASIM_UNARY(Name, word)                                                                                              \
    template <class T>                                                                                                      \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t &count, ASIM_SITE) {               \
        asim::Counted around(site, count, true);                                                                            \
        asim::unary(site, asim::Word::word, dst, src, 1, {});                                                               \
    }                                                                                                                       \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, asim::Mask mask, const asim::Repeats repeat,           \
                     const UnaryRepeatParams &p, ASIM_SITE) {                                                               \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim::unary(site, asim::Word::word, dst, src, repeat, p);                                                           \
    }
ASIM_UNARY(Abs, vabs)
ASIM_UNARY(Exp, vexp)
ASIM_UNARY(Ln, vln)
ASIM_UNARY(Sqrt, vsqrt)
ASIM_UNARY(Rsqrt, vrsqrt)
ASIM_UNARY(Reciprocal, vrec)
ASIM_UNARY(Relu, vrelu)
ASIM_UNARY(Not, vnot)
#undef ASIM_UNARY

#define ASIM_SCALAR(Name, word)                                                                                             \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const asim::given<T> &value,                      \
                     const int32_t &count, ASIM_SITE) {                                                                     \
        asim::Counted around(site, count, false, sets);                                                                     \
        asim::scalar(site, asim::Word::word, dst, src, value, 1, {});                                                       \
    }                                                                                                                       \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const asim::given<T> &value, asim::Mask mask,     \
                     const asim::Repeats repeat, const UnaryRepeatParams &p, ASIM_SITE) {                                         \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim::scalar(site, asim::Word::word, dst, src, value, repeat, p);                                                   \
    }
ASIM_SCALAR(Adds, vadds)
ASIM_SCALAR(Muls, vmuls)
ASIM_SCALAR(Maxs, vmaxs)
ASIM_SCALAR(Mins, vmins)
ASIM_SCALAR(LeakyRelu, vlrelu)
#undef ASIM_SCALAR

template <class T, class W> inline void asim_shift(asim::Site site, W word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                                   int64_t bits, int64_t repeat, const UnaryRepeatParams &p, bool rounds) {
    static_assert(std::is_integral_v<T> && (sizeof(T) == 2 || sizeof(T) == 4), "shifts: whole numbers of 16 or 32 bits");
    if (bits < 0 || bits > 8 * (int64_t)sizeof(T))
        asim::refuse(site, "a shift by %lld bits; allowed are 0 to %d", (long long)bits, 8 * (int)sizeof(T));
    if constexpr (std::is_same_v<const W, asim::WithScalar>) asim::scalar(site, word, dst, src, (T)bits, repeat, p);
    else
        word(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .value = bits, .repeat = repeat,
                    .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride,
                    .src0_repeat_stride = p.srcRepStride, .round = rounds});
}
#define ASIM_SHIFT(Name, word, rounds, ...)                                                                                 \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const asim::given<T> &bits,                       \
                     const int32_t &count, ASIM_SITE) {                                                                     \
        asim::Counted around(site, count, false, sets);                                                                     \
        asim_shift(site, asim::Word::word, dst, src, bits, 1, {}, false);                                                   \
    }                                                                                                                       \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const asim::given<T> &bits, asim::Mask mask,     \
                     const asim::Repeats repeat, const UnaryRepeatParams &p __VA_ARGS__, ASIM_SITE) {                             \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim_shift(site, asim::Word::word, dst, src, bits, repeat, p, rounds);                                              \
    }
#define ASIM_ROUNDS , bool round = false
template <class T, class U> void ShiftLeft(const LocalTensor<T> &, const LocalTensor<T> &, const LocalTensor<U> &, int32_t) = delete;
template <class T, class U> void ShiftRight(const LocalTensor<T> &, const LocalTensor<T> &, const LocalTensor<U> &, int32_t) = delete;
ASIM_SHIFT(ShiftLeft, vshl, false)
ASIM_SHIFT(ShiftRight, vshr, round, ASIM_ROUNDS)
#undef ASIM_ROUNDS
#undef ASIM_SHIFT

template <class T>
inline void Duplicate(const LocalTensor<T> &dst, const asim::given<T> &value, const int32_t &count, ASIM_SITE) {
    asim::Counted around(site, count, false);
    asim::duplicate<T>(site, dst, value, 1, 1, 8);
}
template <class T, bool sets = true>
inline void Duplicate(const LocalTensor<T> &dst, const asim::given<T> &value, asim::Mask mask, const asim::Repeats repeat,
                      const uint16_t block, const uint8_t stride, ASIM_SITE) {
    asim::mask_for_call<sets, T>(site, mask);
    asim::duplicate<T>(site, dst, value, repeat, block, stride);
}

template <class D, class S>
inline void Cast(const LocalTensor<D> &dst, const LocalTensor<S> &src, const RoundMode &mode, const uint32_t count, ASIM_SITE) {
    constexpr int64_t wide = asim::widest<D, S>();
    asim::Counted around(site, count, true);
    asim::convert(site, dst, src, mode, 1, UnaryRepeatParams(1, 1, 8 * sizeof(D) / wide, 8 * sizeof(S) / wide));
}
template <class D, class S, bool sets = true>
inline void Cast(const LocalTensor<D> &dst, const LocalTensor<S> &src, const RoundMode &mode, asim::ConstMask mask,
                 const asim::Repeats repeat, const UnaryRepeatParams &p, ASIM_SITE) {
    asim::mask_for_call<sets, D, S>(site, mask);
    asim::convert(site, dst, src, mode, repeat, p);
}

template <class T, bool sets = true>
inline void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src, asim::ConstMask mask, const asim::Repeats repeat,
                 const CopyRepeatParams &p, ASIM_SITE) {
    asim::mask_for_call<sets, T>(site, mask);
    asim::Word::vcopy(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .repeat = repeat,
                             .dst_block_stride = p.dstStride, .src0_block_stride = p.srcStride, .dst_repeat_stride = p.dstRepeatSize,
                             .src0_repeat_stride = p.srcRepeatSize});
}

// Repeats that a count fills: a comparison leaves out the elements of a broken one.
template <class T> inline int64_t asim_whole_repeats(asim::Site site, const char *call, int64_t count) {
    int64_t repeats = count * (int64_t)sizeof(T) / 256;
    if (count && !repeats)
        asim::refuse(site, "%s: %lld elements fill no whole repeat of 256 bytes, and a broken one is left out", call, (long long)count);
    return repeats;
}
template <class T, class U> inline void asim_compare(asim::Site site, const LocalTensor<U> &dst, const LocalTensor<T> &src0,
                                                     const LocalTensor<T> &src1, CMPMODE mode, int64_t repeat, const BinaryRepeatParams &p) {
    asim::Word::vcmpv(site, {.dst = asim::at(dst), .src0 = asim::at(src0), .src1 = asim::at(src1), .format = asim::format_of<T>(), .mode = mode,
                             .repeat = repeat, .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.src0BlkStride,
                             .src1_block_stride = p.src1BlkStride, .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.src0RepStride,
                             .src1_repeat_stride = p.src1RepStride});
}
template <class T, class U>
inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode,
                    uint32_t count, ASIM_SITE) {
    asim_compare(site, dst, src0, src1, mode, asim_whole_repeats<T>(site, "Compare", count), {});
}
// The forms with a mask take whole repeats: no mask word stands before a comparison.
template <class T, class U, bool sets = true>
inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode,
                    asim::ConstMask, asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    asim_compare(site, dst, src0, src1, mode, repeat, p);
}
template <class T, class U> inline void asim_compare_scalar(asim::Site site, const LocalTensor<U> &dst, const LocalTensor<T> &src, T value,
                                                            CMPMODE mode, int64_t repeat, const UnaryRepeatParams &p) {
    asim::Word::vcmpvs(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .mode = mode,
                              .value = asim::immediate<T>(value), .repeat = repeat, .dst_block_stride = p.dstBlkStride,
                              .src0_block_stride = p.srcBlkStride, .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.srcRepStride});
}
template <class T, class U>
inline void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src, const asim::given<T> value, CMPMODE mode,
                          uint32_t count, ASIM_SITE) {
    asim_compare_scalar<T>(site, dst, src, value, mode, asim_whole_repeats<T>(site, "CompareScalar", count), {});
}
template <class T, class U, bool sets = true>
inline void CompareScalar(const LocalTensor<U> &dst, const LocalTensor<T> &src, const asim::given<T> value, CMPMODE mode,
                          asim::ConstMask, asim::Repeats repeat, const UnaryRepeatParams &p, ASIM_SITE) {
    asim_compare_scalar<T>(site, dst, src, value, mode, repeat, p);
}
template <class T, class U>
inline void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src, const asim::given<T> value, CMPMODE mode,
                     uint32_t count, ASIM_SITE) {
    CompareScalar(dst, src, value, mode, count, site);
}
template <class T, class U, bool sets = true>
inline void Compares(const LocalTensor<U> &dst, const LocalTensor<T> &src, const asim::given<T> value, CMPMODE mode,
                     asim::ConstMask mask, asim::Repeats repeat, const UnaryRepeatParams &p, ASIM_SITE) {
    CompareScalar<T, U, sets>(dst, src, value, mode, mask, repeat, p, site);
}
// The forms without dst leave their bits in the mask register, by which a selection without a mask chooses.
template <class T> inline void asim_compare_to_register(asim::Site site, const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode,
                                                        const BinaryRepeatParams &p) {
    asim::Word::vcmp(site, {.src0 = asim::at(src0), .src1 = asim::at(src1), .format = asim::format_of<T>(), .mode = mode, .repeat = 1,
                            .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.src0BlkStride, .src1_block_stride = p.src1BlkStride,
                            .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.src0RepStride, .src1_repeat_stride = p.src1RepStride});
}
template <class T, bool sets = true>
inline void Compare(const LocalTensor<T> &src0, const LocalTensor<T> &src1, CMPMODE mode, asim::ConstMask mask,
                    const BinaryRepeatParams &p, ASIM_SITE) {
    asim::mask_for_call<sets, T>(site, mask);
    asim_compare_to_register(site, src0, src1, mode, p);
}
template <class T> inline void SetCmpMask(const LocalTensor<T> &src, ASIM_SITE) {
    asim::Word::load_cmpmask(site, {.src0 = asim::at(src)});
}
template <class T> inline void GetCmpMask(const LocalTensor<T> &dst, ASIM_SITE) {
    asim::Word::store_cmpmask(site, {.dst = asim::at(dst)});
}
// `mask` and `other` are the places of the bits and of the second operand behind `base`; bits at -1 are those of the mask register.
template <class T> inline void asim_select_word(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src0, int64_t base, SELMODE mode,
                                                int64_t repeat, const BinaryRepeatParams &p, int64_t value, int64_t mask, int64_t other) {
    asim::Word::vsel(site, {.dst = asim::at(dst), .src0 = asim::at(src0), .src1 = base, .format = asim::format_of<T>(), .mode = mode, .repeat = repeat,
                            .dst_block_stride = p.dstBlkStride, .src0_block_stride = p.src0BlkStride, .src1_block_stride = p.src1BlkStride,
                            .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.src0RepStride, .src1_repeat_stride = p.src1RepStride,
                            .value = value, .mask_offset = mask, .other_offset = other});
}
template <class T, SELMODE mode>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const LocalTensor<T> &src1, asim::Repeats repeat,
                   const BinaryRepeatParams &p, ASIM_SITE) {
    static_assert(mode == SELMODE::VSEL_CMPMASK_SPR, "Select without a mask is simulated in mode VSEL_CMPMASK_SPR alone");
    asim_select_word(site, dst, src0, asim::at(src1), mode, repeat, p, 0, -1, 0);
}

// The place of a selection's other operand is passed in scratch memory of the library, at the end of the buffer.
constexpr int64_t ASIM_SCRATCH = 188416, ASIM_SCRATCH_ELEMENTS = 32;
inline void asim_barrier(asim::Site site) {
    asim::Word::own_barrier_(site, {.with_flags = false});
    asim::Word::pipe_barrier(site, {.pipe = PIPE_V});
}
inline void asim_mask_address(asim::Site site, int64_t address) {
    asim::Word::set_cmpmask(site, {.address = address});
    asim_barrier(site);
}
template <class V> inline void asim_scratch(asim::Site site, V value) {
    LocalTensor<V> scratch(TPosition::VECCALC, ASIM_SCRATCH, ASIM_SCRATCH_ELEMENTS);
    asim::allocated_for_library(site, ASIM_SCRATCH, scratch.GetLength());
    asim::duplicate<V>(site, scratch, value, 1, 1, 8);
    asim_barrier(site);
    asim_mask_address(site, ASIM_SCRATCH);
}
template <class T, class U>
inline void asim_select(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0,
                        const LocalTensor<T> *src1, T scalar, SELMODE mode, int64_t repeat, const BinaryRepeatParams &p) {
    int64_t bits = asim::at(mask), other = src1 ? asim::at(*src1) : bits, base = bits < other ? bits : other;
    asim_select_word(site, dst, src0, base, mode, repeat, p, asim::immediate(scalar), bits - base, other - base);
}
template <class T, class U> inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0,
                                               const LocalTensor<T> &src1, SELMODE mode, uint32_t count, ASIM_SITE) {
    asim::set_counting(site, true);
    if (mode == SELMODE::VSEL_CMPMASK_SPR) asim_mask_address(site, asim::at(mask));
    else {
        asim::set_vector_mask(site, 0, ASIM_SCRATCH_ELEMENTS);
        asim_scratch<uint32_t>(site, asim::at(mask));
    }
    asim::set_vector_mask(site, 0, count);
    asim_select(site, dst, mask, src0, &src1, T(0), mode, 1, {});
    asim_barrier(site);
    asim::set_vector_mask(site, -1, -1);
    asim::set_counting(site, false);
}
template <class T, class U> inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0,
                                               asim::given<T> scalar, SELMODE mode, uint32_t count, ASIM_SITE) {
    asim::set_counting(site, true);
    asim::set_vector_mask(site, 0, ASIM_SCRATCH_ELEMENTS);
    asim_scratch<T>(site, scalar);
    asim::set_vector_mask(site, 0, count);
    asim_select(site, dst, mask, src0, (const LocalTensor<T> *)nullptr, scalar, mode, 1, {});
    asim::set_vector_mask(site, -1, -1);
    asim::set_counting(site, false);
}
template <class T, class U, bool sets = true>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                   SELMODE mode, asim::ConstMask elements, asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    if (mode == SELMODE::VSEL_CMPMASK_SPR) asim_mask_address(site, asim::at(mask));
    else {
        asim::mask_of_count(site, ASIM_SCRATCH_ELEMENTS);
        asim_scratch<uint32_t>(site, asim::at(mask));
    }
    asim::mask_for_call<sets, T>(site, elements);
    asim_select(site, dst, mask, src0, &src1, T(0), mode, repeat, p);
}
// The scalar is what SetCmpMask has loaded: mode 3 of the word here.
template <class T, class U> inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0,
                                               asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    asim_select(site, dst, mask, src0, (const LocalTensor<T> *)nullptr, T(0), (SELMODE)3, repeat, p);
}
template <class T, class U, bool sets = true>
inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &mask, const LocalTensor<T> &src0, asim::given<T> scalar,
                   SELMODE mode, asim::ConstMask elements, asim::Repeats repeat, const BinaryRepeatParams &p, ASIM_SITE) {
    asim::mask_of_count(site, ASIM_SCRATCH_ELEMENTS);
    asim_scratch<T>(site, scalar);
    asim::mask_for_call<sets, T>(site, elements);
    asim_select(site, dst, mask, src0, (const LocalTensor<T> *)nullptr, scalar, mode, repeat, p);
}

template <class T>
inline void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &src, const asim::Repeats repeat, const BrcbRepeatParams &p, ASIM_SITE) {
    asim::set_vector_mask(site, -1, -1);
    asim::Word::vbrcb(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .dst_block_stride = p.dstBlkStride,
                             .dst_repeat_stride = p.dstRepStride, .repeat = repeat});
}

template <class T> inline void asim_reduce(asim::Site site, asim::Reduction word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                           int64_t repeat, int64_t dst_stride, int64_t block, int64_t stride, int64_t order) {
    word(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .repeat = repeat, .dst_repeat_stride = dst_stride,
                .src0_block_stride = block, .src0_repeat_stride = stride, .order = order});
}
template <class T> inline void asim_reduce_parts(asim::Site site, decltype(asim::Word::vcgadd) word, const LocalTensor<T> &dst,
                                                 const LocalTensor<T> &src, int64_t repeat, int64_t dst_stride, int64_t block, int64_t stride) {
    word(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .repeat = repeat, .dst_repeat_stride = dst_stride,
                .src0_block_stride = block, .src0_repeat_stride = stride});
}
#define ASIM_REDUCE(Name, word)                                                                                             \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, asim::ConstMask mask, const int32_t repeat,     \
                     const int32_t dst_stride, const int32_t block, const int32_t stride ASIM_ORDER, ASIM_SITE) {           \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim_reduce(site, asim::Word::word, dst, src, repeat, dst_stride, block, stride, ASIM_ORDER_FIELD);                 \
    }
// The word's last operand: 0 the value alone, 1 value and index, 2 index and value, 3 the index alone.
inline int64_t asim_order(ReduceOrder order) {
    return order == ReduceOrder::ORDER_ONLY_VALUE ? 0 : order == ReduceOrder::ORDER_VALUE_INDEX ? 1
         : order == ReduceOrder::ORDER_INDEX_VALUE ? 2 : 3;
}
#define ASIM_ORDER
#define ASIM_ORDER_FIELD 0
ASIM_REDUCE(WholeReduceSum, vcadd)
template <class T, bool sets = true>
inline void RepeatReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeat, const int32_t elements,
                            const int32_t, const int32_t block, const int32_t dst_stride, const int32_t stride, ASIM_SITE) {
    WholeReduceSum<T, sets>(dst, src, elements, repeat, dst_stride, block, stride, site);
}
#undef ASIM_ORDER
#undef ASIM_ORDER_FIELD
#define ASIM_ORDER , ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX
#define ASIM_ORDER_FIELD asim_order(order)
ASIM_REDUCE(WholeReduceMax, vcmax)
ASIM_REDUCE(WholeReduceMin, vcmin)
#undef ASIM_ORDER
#undef ASIM_ORDER_FIELD
#undef ASIM_REDUCE

#define ASIM_BLOCKS(Name, word)                                                                                             \
    template <class T, bool sets = true>                                                                                    \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const int32_t repeat, asim::ConstMask mask,     \
                     const int32_t dst_stride, const int32_t block, const int32_t stride, ASIM_SITE) {                      \
        asim::mask_for_call<sets, T>(site, mask);                                                                           \
        asim_reduce_parts(site, asim::Word::word, dst, src, repeat, dst_stride, block, stride);                             \
    }
ASIM_BLOCKS(BlockReduceSum, vcgadd)
ASIM_BLOCKS(PairReduceSum, vcpadd)
ASIM_BLOCKS(BlockReduceMax, vcgmax)
ASIM_BLOCKS(BlockReduceMin, vcgmin)
#undef ASIM_BLOCKS

// The same under the names that take the operation as an argument; both types are one on these cores.
enum class ReduceType { NONE = -1, SUM, MAX, MIN };
#define ASIM_OPERATION static_assert(std::is_same_v<T, U> && type != ReduceType::NONE, "a reduction of these cores: SUM, MAX or MIN, of one type")
template <ReduceType type, class T, class U, bool sets = true>
inline void ReduceRepeat(const LocalTensor<T> &dst, const LocalTensor<U> &src, asim::ConstMask mask, const int32_t repeat, const int32_t dst_stride,
                         const int32_t block, const int32_t stride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, ASIM_SITE) {
    ASIM_OPERATION;
    if constexpr (type == ReduceType::SUM) WholeReduceSum<T, sets>(dst, src, mask, repeat, dst_stride, block, stride, site);
    else if constexpr (type == ReduceType::MAX) WholeReduceMax<T, sets>(dst, src, mask, repeat, dst_stride, block, stride, order, site);
    else WholeReduceMin<T, sets>(dst, src, mask, repeat, dst_stride, block, stride, order, site);
}
template <ReduceType type, class T, class U, bool sets = true>
inline void ReduceDataBlock(const LocalTensor<T> &dst, const LocalTensor<U> &src, asim::ConstMask mask, const int32_t repeat,
                            const int32_t dst_stride, const int32_t block, const int32_t stride, ASIM_SITE) {
    ASIM_OPERATION;
    if constexpr (type == ReduceType::SUM) BlockReduceSum<T, sets>(dst, src, repeat, mask, dst_stride, block, stride, site);
    else if constexpr (type == ReduceType::MAX) BlockReduceMax<T, sets>(dst, src, repeat, mask, dst_stride, block, stride, site);
    else BlockReduceMin<T, sets>(dst, src, repeat, mask, dst_stride, block, stride, site);
}
template <ReduceType type, class T, class U, bool sets = true>
inline void ReducePairElem(const LocalTensor<T> &dst, const LocalTensor<U> &src, asim::ConstMask mask, const int32_t repeat,
                           const int32_t dst_stride, const int32_t block, const int32_t stride, ASIM_SITE) {
    ASIM_OPERATION;
    static_assert(type == ReduceType::SUM, "ReducePairElem: SUM");
    PairReduceSum<T, sets>(dst, src, repeat, mask, dst_stride, block, stride, site);
}
#undef ASIM_OPERATION

// Reductions of many elements to one. The scalar unit moves the last value to its place.
inline void asim_between(asim::Site site, HardEvent event, int32_t id = 0) {
    auto pair = asim::PIPES_OF_EVENT[(int)event];
    asim::Word::queue_event_(site, {.source = pair[0], .destination = pair[1], .id = id});  // the library's own: these rows tell checks
    asim::Word::own_barrier_(site, {.with_flags = true});
    asim::set_flag(site, event, id);
    asim::wait_flag(site, event, id);
}
template <class T> inline void asim_move(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src) {
    asim::Word::copy_ub_(site, {.dst = asim::at(dst), .src0 = asim::at(src), .size = sizeof(T)});
}
template <class T> inline void asim_result(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src) {
    asim_between(site, HardEvent::V_S);
    asim_move(site, dst, src);
    asim_between(site, HardEvent::S_V);
    asim_between(site, HardEvent::S_MTE3);
}
template <class T> inline void asim_reduce(asim::Site site, asim::Reduction word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                           int64_t repeat, int64_t stride, int64_t order) {
    asim_reduce(site, word, dst, src, repeat, 1, 1, stride, order);
}
template <class T, bool sets = true> inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                                           const LocalTensor<T> &, const int32_t count, ASIM_SITE) {
    if (sets) asim::set_counting(site, true);
    if (sets) asim::set_vector_mask(site, 0, count);
    asim_reduce(site, asim::Word::vcadd, dst, src, 1, 8, 1);
    asim_result(site, dst, dst);
    asim::set_counting(site, false);
    asim::set_vector_mask(site, -1, -1);
}
template <class T> inline void asim_sum(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,
                                        int32_t repeat, int32_t stride) {
    asim_reduce(site, asim::Word::vcadd, work, src, repeat, stride, 0);
    asim_barrier(site);
    constexpr int32_t LANES = 256 / (int32_t)sizeof(T);
    asim::set_counting(site, true);
    for (int32_t left = repeat; ; left = (left + LANES - 1) / LANES) {  // one sum for each LANES sums
        asim::set_vector_mask(site, 0, left);
        asim_reduce(site, asim::Word::vcadd, work, work, 1, 8, 0);
        if (left <= LANES) break;
        asim_barrier(site);
    }
    asim::set_counting(site, false);
    asim_barrier(site);
    asim_result(site, dst, work);
}
template <class T> inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,
                                         asim::ConstMask mask, const int32_t repeat, const int32_t stride, ASIM_SITE) {
    asim::mask_for_call<true, T>(site, mask);
    asim_sum(site, dst, src, work, repeat, stride);
}

// Extremes go down in three levels over pairs of value and index; each level keeps the values at even places.
template <class T> constexpr int64_t asim_lanes = 256 / (int64_t)sizeof(T);
inline void asim_even(asim::Site site, int64_t pairs) {
    int64_t bits[2] = {0, 0};
    for (int64_t i = 0; i < 2 * pairs && i < 128; i += 2) bits[i / 64] |= 1ll << i % 64;
    asim::set_vector_mask(site, bits[1], bits[0]);
}
template <class T> inline int64_t asim_level(asim::Site site, asim::Reduction word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                             int64_t pairs) {
    constexpr int64_t LANES = asim_lanes<T>;
    int64_t whole = 2 * pairs / LANES, rest = 2 * pairs % LANES;
    if (whole) {
        asim_even(site, LANES / 2);
        asim_reduce(site, word, dst, src, whole, 8, 1);
    }
    if (rest) {
        asim_even(site, rest / 2);
        asim_reduce(site, word, dst[2 * whole], src[whole * LANES], 1, 8, 1);
    }
    return whole + (rest > 0);
}
template <class T> inline void asim_first(asim::Site site, asim::Reduction word, const LocalTensor<T> &work, const LocalTensor<T> &src,
                                          const uint64_t mask[], int64_t repeat, int64_t stride) {
    for (int64_t done = 0; done < repeat; done += 255) {
        asim::set_vector_mask(site, mask[1], mask[0]);
        asim_reduce(site, word, work[2 * done], src[done * stride * 32 / (int64_t)sizeof(T)], repeat - done < 255 ? repeat - done : 255, stride, 1);
    }
}
template <class T> inline void asim_rows(asim::Site site, asim::Reduction word, const LocalTensor<T> &work, const LocalTensor<T> &src,
                                         const uint64_t mask[], int64_t repeat, int64_t stride) {
    asim_first(site, word, work, src, mask, repeat, stride);
    if (repeat == 1) return;
    asim_barrier(site);
    int64_t pairs = asim_level(site, word, work, work, repeat);
    asim_barrier(site);
    asim_level(site, word, work, work, pairs);
}
// With the index each level has a place of its own behind the one before, so that scalar code finds its way back to the element.
template <class T> using asim_index = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
template <class T> inline void asim_store(asim::Site site, const LocalTensor<T> &dst, asim_index<T> value, asim_index<T> index) {
    LocalTensor<asim_index<T>> bits = dst.template ReinterpretCast<asim_index<T>>();
    bits.SetValue(0, value, site);
    bits.SetValue(1, index, site);
}
template <class T> inline void asim_indexed(asim::Site site, asim::Reduction word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                            const LocalTensor<T> &work, const uint64_t mask[], int64_t repeat, int64_t stride) {
    constexpr int64_t LANES = asim_lanes<T>, BLOCK = 32 / (int64_t)sizeof(T), DEEPEST = 8;
    if (repeat == 1) return asim_first(site, word, dst, src, mask, 1, stride);
    int64_t starts[DEEPEST] = {0}, levels = 1;
    asim_first(site, word, work, src, mask, repeat, stride);
    asim_barrier(site);
    for (int64_t pairs = repeat; pairs > 1; levels++) {
        starts[levels] = starts[levels - 1] + (2 * pairs + BLOCK - 1) / BLOCK * BLOCK;
        pairs = asim_level(site, word, work[starts[levels]], work[starts[levels - 1]], pairs);
        if (levels == 1) asim_barrier(site);
    }
    asim_between(site, HardEvent::V_S);
    LocalTensor<asim_index<T>> bits = work.template ReinterpretCast<asim_index<T>>();
    int64_t pair = 0;  // of a level; in the first it is the repeat
    for (int64_t level = levels - 1; level > 0; level--)
        pair = pair * (LANES / 2) + bits.GetValue(starts[level] + 2 * pair + 1, site) / 2;
    asim_store(site, dst, bits.GetValue(starts[levels - 1], site), pair * stride * BLOCK + bits.GetValue(2 * pair + 1, site));
    asim_between(site, HardEvent::S_V);
    asim_between(site, HardEvent::S_MTE3);
}
template <class T> inline void asim_extreme_index(asim::Site site, asim::Reduction word, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                                  const LocalTensor<T> &work, const uint64_t all[], const uint64_t some[],
                                                  int64_t whole) {
    constexpr int64_t LANES = asim_lanes<T>;
    LocalTensor<asim_index<T>> found = dst.template ReinterpretCast<asim_index<T>>();
    if (whole) asim_indexed(site, word, dst, src, work, all, whole, 8);
    if (!some[0]) return;
    if (!whole) return asim_first(site, word, dst, src, some, 1, 8);
    asim_between(site, HardEvent::V_S);
    asim_index<T> first = found.GetValue(0, site), place = found.GetValue(1, site);
    asim_first(site, word, dst, src[whole * LANES], some, 1, 8);
    asim_between(site, HardEvent::V_S);
    asim_index<T> behind = found.GetValue(1, site);
    asim_store(site, work, first, found.GetValue(0, site));
    asim_between(site, HardEvent::S_V);
    asim::set_vector_mask(site, 0, 3);
    asim_reduce(site, word, dst, work, 1, 8, 1);
    asim_between(site, HardEvent::V_S);
    found.SetValue(1, found.GetValue(1, site) ? whole * LANES + behind : place, site);
    asim_between(site, HardEvent::S_V);
    asim_between(site, HardEvent::S_MTE3);
}
template <class T> inline void asim_extreme(asim::Site site, const char *call, asim::Reduction word, const LocalTensor<T> &dst,
                                            const LocalTensor<T> &src, const LocalTensor<T> &work, int64_t count, bool index) {
    if (count < 1) asim::refuse(site, "%s: %lld elements; a reduction has at least 1", call, (long long)count);
    constexpr int64_t LANES = asim_lanes<T>;
    int64_t whole = count / LANES, rest = count % LANES;
    const uint64_t all[2] = {~0ull, LANES > 64 ? ~0ull : 0}, some[2] = {(uint64_t)asim::low_bits(rest), (uint64_t)asim::low_bits(rest - 64)};
    if (index) return asim_extreme_index(site, word, dst, src, work, all, some, whole);
    if (whole) {
        asim_rows(site, word, work, src, all, whole, 8);
        asim_result(site, dst, work);
        if (!rest) return;
        asim_between(site, HardEvent::V_S);
        asim_move(site, dst, dst);
    }
    asim_rows(site, word, work, src[whole * LANES], some, 1, 8);
    if (!whole) return asim_result(site, dst, work);
    asim_between(site, HardEvent::V_S);
    asim_move(site, work[1], work);
    asim_between(site, HardEvent::S_V);
    asim_between(site, HardEvent::S_MTE3);
    asim_between(site, HardEvent::V_S);
    asim_move(site, work, dst);
    asim_between(site, HardEvent::S_V);
    asim::set_vector_mask(site, 0, 3);
    asim_reduce(site, word, work, work, 1, 8, 1);
    asim_result(site, dst, work);
}
#define ASIM_EXTREME(Name, word)                                                                                            \
    template <class T> inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,    \
                                        const int32_t count, bool index = false, ASIM_SITE) {                               \
        asim_extreme(site, #Name, asim::Word::word, dst, src, work, count, index);                                          \
    }                                                                                                                       \
    template <class T> inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &work,    \
                                        asim::ConstMask mask, const int32_t repeat, const int32_t stride,                   \
                                        bool index = false, ASIM_SITE) {                                                    \
        const auto bits = asim::bits_of<T>(site, mask);                                                                     \
        if (index) return asim_indexed(site, asim::Word::word, dst, src, work, bits.words, repeat, stride);                 \
        asim_rows(site, asim::Word::word, work, src, bits.words, repeat, stride);                                           \
        asim_result(site, dst, work);                                                                                       \
    }
ASIM_EXTREME(ReduceMax, vcmax)
ASIM_EXTREME(ReduceMin, vcmin)
#undef ASIM_EXTREME

}  // namespace AscendC
