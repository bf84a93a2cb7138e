// Transpose of whole tensors, [N, C, H, W] to [N, H, W, C] and back. Its words are assumed: each element is spread over a block of
// the temporary buffer, so that 16 blocks in any order become 16 elements in a row. The buffer has its documented size.
#pragma once
#include "asim/gather.h"

namespace AscendC {

enum class TransposeType : uint8_t {
    TRANSPOSE_TYPE_NONE, TRANSPOSE_NZ2ND_0213, TRANSPOSE_NZ2NZ_0213, TRANSPOSE_NZ2NZ_012_WITH_N, TRANSPOSE_NZ2ND_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITHOUT_N, TRANSPOSE_NZ2NZ_012_WITHOUT_N, TRANSPOSE_ND2ND_ONLY, TRANSPOSE_ND_UB_GM, TRANSPOSE_GRAD_ND_UB_GM,
    TRANSPOSE_ND2ND_B16, TRANSPOSE_NCHW2NHWC, TRANSPOSE_NHWC2NCHW
};
struct TransposeParamsExt {
    TransposeParamsExt() = default;
    TransposeParamsExt(uint16_t n, uint16_t c, uint16_t h, uint16_t w, TransposeType type)
        : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type) {}
    uint16_t nSize = 0, cSize = 0, hSize = 0, wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};

// 16 addresses in steps of bytes; of 4-byte elements two of them, which adjoin, are one.
struct asim_list {
    asim_list(int64_t start, int64_t step, int64_t together = 1) {
        for (int64_t i = 0; i < 16; i++) at[i] = start + i / together * step + i % together * 32;
    }
    uint64_t at[16];
};
template <class T> class asim_turn {
    static constexpr int64_t SIZE = sizeof(T), PAIR = SIZE == 4 ? 2 : 1, HALVES = SIZE == 1 ? 2 : 1;
    static constexpr int64_t STRIP = 32 / SIZE, SPREAD = 32 * PAIR, GROUP = 16 * HALVES, ROOM = 512;
    static constexpr int64_t SQUARES = 2;  // groups that are turned together

public:
    asim_turn(asim::Site site, int64_t channels, int64_t pixels, int64_t spread) : site_(site), c_(channels), hw_(pixels), spread_(spread) {}
    // Elements of `blocks` blocks, `step` bytes apart, spread: element k of block i at `at` + k * apart + i * next.
    void spread(int64_t from, int64_t blocks, int64_t step, int64_t apart, int64_t next) {
        for (int64_t half = 0; half < HALVES; half++)
            for (int64_t done = 0; done < blocks; done += MOST)
                turn(spread_ + half * 16 * apart + done * next, apart, from + done * step, 0, some(blocks - done), next, step, 0, half);
        asim_barrier(site_);
    }
    // Elements that were spread, one every `apart` bytes from `first` on, in a row: `count` groups, `next` bytes apart; each at `to`,
    // `step` bytes apart.
    void gather(int64_t first, int64_t apart, int64_t next, int64_t count, int64_t to, int64_t step, int64_t bytes = GROUP * SIZE) {
        int64_t room = spread_ + c_ * HALVES * ROOM;
        for (int64_t half = 0; half < HALVES; half++) turn(room, SPREAD, first + half * 16 * apart, apart, count, ROOM, next, half, 0);
        asim_barrier(site_);
        DataCopyParams p(count, bytes / 32, (ROOM - bytes) / 32, step / 32 - bytes / 32);
        asim::copy(site_, asim::Word::copy_ubuf_to_ubuf, to, room, p);
        asim_barrier(site_);
    }
    void to_channels_last(int64_t from, int64_t to) {
        for (int64_t pixel = 0; pixel < hw_; pixel += STRIP) {
            spread(from + pixel * SIZE, c_, hw_ * SIZE, c_ * SPREAD, SPREAD);
            const int64_t elements = STRIP * c_, groups = elements / GROUP, start = to + pixel * c_ * SIZE;
            for (int64_t done = 0; done < groups; done += SQUARES)
                gather(spread_ + done * GROUP * SPREAD, SPREAD, GROUP * SPREAD, groups - done < SQUARES ? groups - done : SQUARES,
                       start + done * GROUP * SIZE, GROUP * SIZE);
            if (elements % GROUP) gather(spread_ + (elements - GROUP) * SPREAD, SPREAD, 0, 1, start + (elements - GROUP) * SIZE, 64);
        }
    }
    void to_channels_first(int64_t from, int64_t to) {
        for (int64_t pixel = 0; pixel < hw_; pixel += STRIP) {
            spread(from + pixel * c_ * SIZE, c_, 32, SPREAD, STRIP * SPREAD);
            for (int64_t c = 0; c < c_; c++) gather(spread_ + c * SPREAD, c_ * SPREAD, 0, 1, to + (c * hw_ + pixel) * SIZE, 32);
        }
    }

private:
    static constexpr int64_t MOST = 255;  // repeats of an instruction
    static int64_t some(int64_t count) { return count < MOST ? count : MOST; }
    void turn(int64_t to, int64_t to_step, int64_t from, int64_t from_step, int64_t count, int64_t to_next, int64_t from_next, bool to_half,
              bool from_half) {
        asim_list dst(to, to_step, PAIR), src(from, from_step);
        const bool many = count > 1;  // a single repeat begins a step behind its addresses
        TransDataTo5HDParams p(to_half, from_half, count, many ? to_next / 32 : 0, many ? from_next / 32 : 0);
        TransDataTo5HD<T>(dst.at, src.at, p, site_);
    }
    asim::Site site_;
    int64_t c_, hw_, spread_;
};

template <class T>
inline void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer,
                      const TransposeParamsExt &p, ASIM_SITE) {
    using Type = TransposeType;
    if (p.transposeType == Type::TRANSPOSE_TYPE_NONE) return;
    if (p.transposeType == Type::TRANSPOSE_ND2ND_B16) return Transpose(dst, src, site);
    const bool last = p.transposeType == Type::TRANSPOSE_NCHW2NHWC;
    if (!last && p.transposeType != Type::TRANSPOSE_NHWC2NCHW)
        asim::refuse(site, "Transpose: transposeType %d is not simulated, nor supported by the public API", (int)p.transposeType);
    if (!last && sizeof(T) == 4) asim::refuse(site, "Transpose: TRANSPOSE_NHWC2NCHW of elements of 4 bytes is not simulated");
    const int64_t pixels = (int64_t)p.hSize * p.wSize, image = pixels * p.cSize * (int64_t)sizeof(T);
    if (pixels * (int64_t)sizeof(T) % 32) asim::refuse(site, "Transpose: hSize * wSize = %lld elements; they fill blocks of 32 bytes", (long long)pixels);
    if (p.cSize == 1) return DataCopy(dst, src, (uint32_t)(p.nSize * pixels), site);
    asim_turn<T> one(site, p.cSize, pixels, asim::at(sharedTmpBuffer));
    for (int64_t n = 0; n < p.nSize; n++) {
        if (last) one.to_channels_last(asim::at(src) + n * image, asim::at(dst) + n * image);
        else one.to_channels_first(asim::at(src) + n * image, asim::at(dst) + n * image);
    }
}

}  // namespace AscendC
