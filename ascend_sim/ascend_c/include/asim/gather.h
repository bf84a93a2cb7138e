// Calls that bring elements to other places: gathering by offsets, turned squares. And the scale of casts from int32.
#pragma once
#include "asim/vector.h"

namespace AscendC {

template <class T> inline void asim_gather(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                           const LocalTensor<uint32_t> &offsets, uint32_t base, int64_t stride, int64_t repeat) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "Gather: elements of 2 or 4 bytes");
    asim::record(site, asim::Word::vgather, {asim::at(dst), asim::at(src) + base, asim::at(offsets)},
                 {asim::format_of<T>(), (int64_t)src.GetLength() - base, stride, repeat, ASIM_MASK});
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
                                      const uint32_t base, const uint64_t mask, const asim::Repeats repeat, const uint16_t stride, ASIM_SITE) {
    asim::mask_for_call<true, T>(site, mask);
    asim_gather(site, dst, src, offsets, base, stride, repeat);
}
template <class T> inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint32_t> &offsets,
                                      const uint32_t base, const uint64_t mask[], const asim::Repeats repeat, const uint16_t stride, ASIM_SITE) {
    asim::set_vector_mask(site, mask[1], mask[0]);
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
    asim::record(site, asim::Word::vgatherb, {asim::at(dst), asim::at(src), asim::at(offset)},
                 {asim::format_of<T>(), (int64_t)src.GetLength(), p.dstRepStride, p.dstBlkStride, repeat});
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
    asim::record(site, asim::Word::vreducev2, {asim::at(dst), asim::at(src), bits},
                 {asim::format_of<T>(), p.repeatTimes, p.src0BlockStride, pattern, p.src0RepeatStride, p.src1RepeatStride, ASIM_MASK});
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
    asim::vector_call();
    asim::record(site, asim::Word::vtranspose, {asim::at(dst), asim::at(src)}, {asim::format_of<T>()});
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
    asim::vector_call();
    for (int64_t number = 0; number < 4; number++) {
        const uint64_t *a = number < 2 ? dst + 8 * number : src + 8 * (number - 2);
        asim::record(site, asim::Word::set_va_reg_sb, {0},
                     {number, (int64_t)a[0], (int64_t)a[1], (int64_t)a[2], (int64_t)a[3], (int64_t)a[4], (int64_t)a[5], (int64_t)a[6],
                      (int64_t)a[7]});
    }
    const int64_t lists[] = {(int64_t)dst[0], (int64_t)src[0]};
    int64_t dst_step = asim_list_step(site, "dst", dst, sizeof(T) == 4 ? 2 : 1), src_step = asim_list_step(site, "src", src, 1);
    if (sizeof(T) == 1)
        asim::record(site, asim::Word::scatter_vnchwconv_b8, lists,
                     {asim::format_of<T>(), p.repeatTimes, p.dstRepStride, p.srcRepStride, dst_step, src_step, p.dstHighHalf,
                      p.srcHighHalf});
    else
        asim::record(site, sizeof(T) == 2 ? asim::Word::scatter_vnchwconv_b16 : asim::Word::scatter_vnchwconv_b32, lists,
                     {asim::format_of<T>(), p.repeatTimes, p.dstRepStride, p.srcRepStride, dst_step, src_step});
}
template <class T> void TransDataTo5HD(const LocalTensor<uint64_t> &, const LocalTensor<uint64_t> &, const TransDataTo5HDParams &) = delete;
template <class T>
inline void TransDataTo5HD(const LocalTensor<T> (&dst)[16], const LocalTensor<T> (&src)[16], const TransDataTo5HDParams &p, ASIM_SITE) {
    uint64_t to[16], from[16];
    for (int i = 0; i < 16; i++) to[i] = asim::at(dst[i]), from[i] = asim::at(src[i]);
    TransDataTo5HD<T>(to, from, p, site);
}

inline void asim_deq_scale(asim::Site site, int64_t value) {
    asim::recorder.registers.deq_scale = value;
    asim::record(site, asim::Word::set_deqscale, {0}, {value});
}
inline void SetDeqScale(half scale, ASIM_SITE) { asim_deq_scale(site, asim::bits(scale)); }
// The scale, 9 bits of the offset and the sign of the result in one register (recorded word).
inline void SetDeqScale(float scale, int16_t offset, bool signMode, ASIM_SITE) {
    asim_deq_scale(site, asim::bits(scale) | (int64_t)(offset & 0x1ff) << 37 | (int64_t)signMode << 46);
}

}  // namespace AscendC
