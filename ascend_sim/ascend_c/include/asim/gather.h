// Calls that bring elements to other places: gathering by offsets, turned squares. And the scale of casts from int32.
#pragma once
#include "asim/vector.h"

namespace AscendC {

template <class T> inline void asim_gather(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                           const LocalTensor<uint32_t> &offsets, uint32_t base, int64_t stride, int64_t repeat) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather: elements of 2 or 4 bytes");
    asim::Word::vgather(site, {.dst = asim::at(dst), .src0 = asim::at(src) + base, .src1 = asim::at(offsets), .format = asim::format_of<T>(),
                               .dst_repeat_stride = stride, .repeat = repeat, .source_bytes = (int64_t)src.GetLength() - base});
}
template <class T> inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &offsets,
                                      const uint32_t base, const uint32_t count, ASIM_SITE) {
    constexpr int64_t LANES = asim_lanes<T>;
    for (int64_t done = 0; done < (int64_t)count;) {
        int64_t left = count - done, repeat = left / LANES < 255 ? left / LANES : 255, lanes = repeat ? LANES : left;
        asim::mask_of_count(site, lanes);
        asim_gather(site, dst[done], src, offsets[done], base, 8, repeat ? repeat : 1);
        done += repeat ? repeat * LANES : left;
    }
}
template <class T> inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &offsets,
                                      const uint32_t base, asim::ConstMask mask, const asim::Repeats repeat, const uint16_t stride, ASIM_SITE) {
    asim::mask_for_call<true, T>(site, mask);
    asim_gather(site, dst, src, offsets, base, stride, repeat);
}

struct GatherRepeatParams {
    GatherRepeatParams() = default;
    GatherRepeatParams(uint8_t dst, uint8_t dst_repeat) : dstRepStride(dst_repeat), dstBlkStride(dst) {}
    uint32_t blockNumber = 8;
    uint16_t dstRepStride = 8;
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1, src0RepStride = 8, src1RepStride = 8;  // sources: of no effect
    bool repeatStrideMode = false, strideSizeMode = false;
};
template <class T> inline void Gatherb(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &offset,
                                       const asim::Repeats repeat, const GatherRepeatParams &p, ASIM_SITE) {
    asim::set_vector_mask(site, -1, -1);
    asim::Word::vgatherb(site, {.dst = asim::at(dst), .src0 = asim::at(src), .src1 = asim::at(offset), .format = asim::format_of<T>(),
                                .dst_repeat_stride = p.dstRepStride, .dst_block_stride = p.dstBlkStride, .repeat = repeat,
                                .source_bytes = src.GetLength()});
}

enum class GatherMaskMode : uint8_t { VERSION_V1, VERSION_V2 };
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::VERSION_V2;
struct GatherMaskParams {
    GatherMaskParams() = default;
    GatherMaskParams(uint8_t block, uint16_t repeat, uint16_t stride, uint8_t bits)
        : src0BlockStride(block), repeatTimes(repeat), src0RepeatStride(stride), src1RepeatStride(bits) {}
    uint8_t src0BlockStride = 1;
    uint16_t repeatTimes = 0, src0RepeatStride = 8;
    uint8_t src1RepeatStride = 8;
};
// Mode registers stand around the word; it leaves the count mode behind. The pattern of a number has an address of its own.
template <class T> inline void asim_gather_mask(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t bits,
                                                int64_t pattern, bool counts, uint32_t mask, const GatherMaskParams &p) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "GatherMask: elements of 2 or 4 bytes");
    asim::set_counting(site, counts);
    asim::set_vector_mask(site, 0, mask);
    asim::Word::vreducev2(site, {.dst = asim::at(dst), .src0 = asim::at(src), .src1 = bits, .format = asim::format_of<T>(), .repeat = p.repeatTimes,
                                 .src0_block_stride = p.src0BlockStride, .pattern = pattern, .src0_repeat_stride = p.src0RepeatStride,
                                 .src1_repeat_stride = p.src1RepeatStride});
}
template <class T, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint8_t pattern, const bool counts,
                       const uint32_t mask, const GatherMaskParams &p, uint64_t &kept, ASIM_SITE) {
    if (pattern < 1 || pattern > 7) asim::refuse(site, "GatherMask: src1Pattern %d; allowed are 1 to 7", pattern);
    asim_gather_mask(site, dst, src, asim::at(src) + 256 * (int64_t)(sizeof(T) * sizeof(T)), pattern, counts, mask, p);
    asim::set_counting(site, false);
    int64_t each = counts ? mask : 256 / sizeof(T), step = pattern == 7 ? 1 : pattern < 3 ? 2 : 4;
    int64_t first = pattern == 7 ? 0 : pattern < 3 ? pattern - 1 : pattern - 3;
    kept = p.repeatTimes * ((each - first + step - 1) / step);
}
// Count of the set bits of a pattern in a tensor, from the values computed so far.
template <class T, class U, GatherMaskMode mode = defaultGatherMaskMode>
inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<U> &bits, const bool counts,
                       const uint32_t mask, const GatherMaskParams &p, uint64_t &kept, ASIM_SITE) {
    static_assert(sizeof(T) == sizeof(U), "GatherMask: the pattern's elements are as wide as those that it selects");
    asim_gather_mask(site, dst, src, asim::at(bits), 0, counts, mask, p);
    if (!asim::ON_CUBE) kept = asim::value_of_last_row(site);
    asim::set_counting(site, false);
}

template <class T> inline void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, ASIM_SITE) {
    asim::marked<asim::VECTOR_CALLS>();
    asim::Word::vtranspose(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>()});
}

struct TransDataTo5HDParams {
    TransDataTo5HDParams() = default;
    TransDataTo5HDParams(bool dst_half, bool src_half, asim::Repeats repeat, uint16_t dst, uint16_t src)
        : dstHighHalf(dst_half), srcHighHalf(src_half), repeatTimes(repeat), dstRepStride(dst), srcRepStride(src) {}
    bool dstHighHalf = false, srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0, srcRepStride = 0;
};
// Distance between the addresses of a list; with 4-byte elements two addresses make a row of dst.
inline int64_t asim_list_step(asim::Site site, const char *what, const uint64_t list[16], int64_t together) {
    int64_t step = list[together] - list[0];
    for (int64_t i = 0; i < 16; i++)
        if ((int64_t)list[i] != (int64_t)list[0] + i / together * step + i % together * 32)
            asim::refuse(site, "TransDataTo5HD: the addresses of %s are not equally far apart, which is not simulated", what);
    if (step < 0) asim::refuse(site, "TransDataTo5HD: the addresses of %s decrease, which is not simulated", what);
    return step / together;
}
template <class T> inline void TransDataTo5HD(uint64_t dst[16], uint64_t src[16], const TransDataTo5HDParams &p, ASIM_SITE) {
    asim::marked<asim::VECTOR_CALLS>();
    for (int64_t number = 0; number < 4; number++) {
        const uint64_t *a = number < 2 ? dst + 8 * number : src + 8 * (number - 2);
        asim::Word::set_va_reg_sb(site, {.number = number, .address0 = a[0], .address1 = a[1], .address2 = a[2], .address3 = a[3],
                                         .address4 = a[4], .address5 = a[5], .address6 = a[6], .address7 = a[7]});
    }
    int64_t dst_step = asim_list_step(site, "dst", dst, sizeof(T) == 4 ? 2 : 1), src_step = asim_list_step(site, "src", src, 1);
    if (sizeof(T) == 1)
        asim::Word::scatter_vnchwconv_b8(site, {.dst = dst[0], .src0 = src[0], .format = asim::format_of<T>(), .repeat = p.repeatTimes,
                                                .dst_repeat_stride = p.dstRepStride, .src0_repeat_stride = p.srcRepStride,
                                                .dst_upper = p.dstHighHalf, .src_upper = p.srcHighHalf, .dst_step = dst_step, .src_step = src_step});
    else
        (sizeof(T) == 2 ? asim::Word::scatter_vnchwconv_b16 : asim::Word::scatter_vnchwconv_b32)(
            site, {.dst = dst[0], .src0 = src[0], .format = asim::format_of<T>(), .repeat = p.repeatTimes, .dst_repeat_stride = p.dstRepStride,
                   .src0_repeat_stride = p.srcRepStride, .dst_step = dst_step, .src_step = src_step});
}
template <class T> void TransDataTo5HD(const LocalTensor<uint64_t> &, const LocalTensor<uint64_t> &, const TransDataTo5HDParams &) = delete;
template <class T>
inline void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16], const TransDataTo5HDParams &p, ASIM_SITE) {
    uint64_t to[16], from[16];
    for (int i = 0; i < 16; i++) to[i] = asim::at(dst[i]), from[i] = asim::at(src[i]);
    TransDataTo5HD<T>(to, from, p, site);
}

inline void asim_deq_scale(asim::Site site, int64_t value) {
    asim::Word::set_deqscale(site, {.deq_scale = value});
}
inline void SetDeqScale(half scale, ASIM_SITE) { asim_deq_scale(site, asim::bits(scale)); }
// The scale, 9 bits of the offset and the sign of the result in one register (recorded word).
inline void SetDeqScale(float scale, int16_t offset, bool signMode, ASIM_SITE) {
    asim_deq_scale(site, asim::bits(scale) | (int64_t)(offset & 0x1ff) << 37 | (int64_t)signMode << 46);
}

}  // namespace AscendC
