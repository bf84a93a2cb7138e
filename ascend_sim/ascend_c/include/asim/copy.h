// Copies between GM, the Unified Buffer, L1, the bias table and the Fixpipe buffer.
#pragma once
#include "asim/sync.h"

namespace asim {

template <class T> inline int64_t blocks_of(Site site, const char *what, int64_t elements) {
    int64_t bytes = elements * (int64_t)sizeof(T);
    if (bytes < 0 || bytes % 32)
        refuse(site, "%s: %lld elements are %lld bytes; a count is a multiple of 32 bytes, DataCopyPad copies any", what,
               (long long)elements, (long long)bytes);
    return bytes / 32;
}
template <class Operands> inline void copy(Site site, WordOf<Operands> word, int64_t dst, int64_t src, const AscendC::DataCopyParams &p) {
    word(site, {.dst = dst, .src0 = src, .sid = 0, .n_burst = p.blockCount, .len_burst = p.blockLen, .src_gap = p.srcStride, .dst_gap = p.dstStride});
}
template <class T> inline void copy_aligned_in(Site site, int64_t dst, int64_t src, const AscendC::DataCopyExtParams &p, int64_t left, int64_t right) {
    constexpr int64_t PARTS = sizeof(T) == 8 ? 2 : 1;  // of 4 bytes each (assumed)
    if (PARTS == 2 && left + right && recorder.registers.mov_pad_val)
        refuse(site, "DataCopyPad: the padding of elements of 8 bytes is 0 alone (public documentation of paddingValue)");
    constexpr auto word = sizeof(T) == 1   ? Word::copy_gm_to_ubuf_align_b8
                          : sizeof(T) == 2 ? Word::copy_gm_to_ubuf_align_b16
                                           : Word::copy_gm_to_ubuf_align_b32;
    word(site, {.dst = dst, .src0 = src, .sid = 0, .n_burst = p.blockCount, .len_burst = p.blockLen, .left_pad = left * PARTS,
                .right_pad = right * PARTS, .gm_gap = p.srcStride, .local_gap = p.dstStride});
}
template <class T> inline void copy_aligned_out(Site site, int64_t dst, int64_t src, const AscendC::DataCopyExtParams &p) {
    constexpr auto word = sizeof(T) == 1   ? Word::copy_ubuf_to_gm_align_b8
                          : sizeof(T) == 2 ? Word::copy_ubuf_to_gm_align_b16
                                           : Word::copy_ubuf_to_gm_align_b32;
    word(site, {.dst = dst, .src0 = src, .sid = 0, .n_burst = p.blockCount, .len_burst = p.blockLen, .left_pad = 0, .right_pad = 0,
                .local_gap = p.srcStride, .gm_gap = p.dstStride});
}
inline void set_copy_padding(Site site, int64_t value) {
    recorder.registers.pads = 1;
    Word::set_mov_pad_val(site, {.mov_pad_val = value});
}
[[noreturn]] inline void no_copy(Site site, AscendC::Hardware from, AscendC::Hardware to) {
    refuse(site, "DataCopy from %s to %s: these cores have no such way", name_of(from), name_of(to));
}
template <class T> inline int64_t bits(T value) {
    int64_t all = 0;
    memcpy(&all, &value, sizeof value);
    return all;
}

}  // namespace asim

namespace AscendC {

template <class T> inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p, ASIM_SITE) {
    Hardware place = asim::place_of(dst);
    if (place == Hardware::UB) return asim::copy(site, asim::Word::copy_gm_to_ubuf, asim::at(dst), asim::at(src), p);
    if (place != Hardware::L1) asim::no_copy(site, Hardware::GM, place);
    asim::Word::copy_gm_to_cbuf(site, {.dst = asim::at(dst), .src0 = asim::at(src), .sid = 0, .n_burst = p.blockCount, .len_burst = p.blockLen,
                                       .src_gap = p.srcStride, .dst_gap = p.dstStride, .pad_mode = 0});
}
template <class T> inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, ASIM_SITE) {
    Hardware place = asim::place_of(src);
    if (place != Hardware::UB && place != Hardware::L1) asim::no_copy(site, place, Hardware::GM);
    asim::copy(site, place == Hardware::L1 ? asim::Word::copy_cbuf_to_gm : asim::Word::copy_ubuf_to_gm, asim::at(dst), asim::at(src), p);
}
// Inside the core: in the Unified Buffer, or from L1 to the bias table (half is widened) and to the Fixpipe buffer.
template <class T, class U> inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<U> &src, const DataCopyParams &p, ASIM_SITE) {
    Hardware from = asim::place_of(src), to = asim::place_of(dst);
    if (from == Hardware::UB && to == Hardware::UB) {
        return asim::copy(site, asim::Word::copy_ubuf_to_ubuf, asim::at(dst), asim::at(src), p);
    }
    if (from == Hardware::L1 && to == Hardware::BIAS) {
        int64_t widens = std::is_same_v<U, half> && std::is_same_v<T, float>;
        return asim::Word::copy_cbuf_to_bt(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<U>(), .conv_control = widens,
                                                  .n_burst = p.blockCount, .len_burst = p.blockLen, .src_gap = p.srcStride, .dst_gap = p.dstStride});
    }
    if (from != Hardware::L1 || to != Hardware::FIXBUF) asim::no_copy(site, from, to);
    asim::Word::copy_cbuf_to_fbuf(site, {.dst = asim::at(dst), .src0 = asim::at(src), .n_burst = p.blockCount, .len_burst = p.blockLen,
                                         .src_stride = p.srcStride, .dst_stride = p.dstStride});
}
template <class T> inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const uint32_t count, ASIM_SITE) {
    DataCopy(dst, src, DataCopyParams(1, asim::blocks_of<T>(site, "DataCopy", count), 0, 0), site);
}
template <class T> inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, ASIM_SITE) {
    DataCopy(dst, src, DataCopyParams(1, asim::blocks_of<T>(site, "DataCopy", count), 0, 0), site);
}
template <class T> inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t count, ASIM_SITE) {
    DataCopy(dst, src, DataCopyParams(1, asim::blocks_of<T>(site, "DataCopy", count), 0, 0), site);
}

template <class To, class From> inline void DataCopy(const To &dst, const From &src, const DataCopyParams &p, const DataCopyEnhancedParams &, ASIM_SITE) {
    DataCopy(dst, src, p, site);
}

template <class T> inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyExtParams &p,
                                           const DataCopyPadExtParams<T> &pad, ASIM_SITE) {
    if (pad.isPad) asim::set_copy_padding(site, asim::bits(pad.paddingValue));
    asim::copy_aligned_in<T>(site, asim::at(dst), asim::at(src), p, pad.leftPadding, pad.rightPadding);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p, ASIM_SITE) {
    asim::copy_aligned_out<T>(site, asim::at(dst), asim::at(src), p);
}
template <class T> inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p,
                                           const DataCopyPadParams &pad, ASIM_SITE) {
    DataCopyExtParams wide(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0);
    if (pad.isPad) asim::set_copy_padding(site, (int64_t)pad.paddingValue);
    asim::copy_aligned_in<T>(site, asim::at(dst), asim::at(src), wide, pad.leftPadding, pad.rightPadding);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, ASIM_SITE) {
    DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0), site);
}

}  // namespace AscendC
