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
inline void copy(Site site, Word word, int64_t dst, int64_t src, const AscendC::DataCopyParams &p) {
    record(site, word, {dst, src}, {0, p.blockCount, p.blockLen, p.srcStride, p.dstStride, recorder.registers.atomic});
}
template <class T> inline void copy_aligned(Site site, bool in, int64_t dst, int64_t src, const AscendC::DataCopyExtParams &p,
                                            int64_t left = 0, int64_t right = 0) {
    constexpr int64_t PARTS = sizeof(T) == 8 ? 2 : 1;  // of 4 bytes each (assumed)
    const auto &registers = recorder.registers;
    if (PARTS == 2 && left + right && registers.copy_padding)
        refuse(site, "DataCopyPad: the padding of elements of 8 bytes is 0 alone (public documentation of paddingValue)");
    Word word = in ? (sizeof(T) == 1   ? Word::copy_gm_to_ubuf_align_b8
                      : sizeof(T) == 2 ? Word::copy_gm_to_ubuf_align_b16
                                       : Word::copy_gm_to_ubuf_align_b32)
                   : (sizeof(T) == 1   ? Word::copy_ubuf_to_gm_align_b8
                      : sizeof(T) == 2 ? Word::copy_ubuf_to_gm_align_b16
                                       : Word::copy_ubuf_to_gm_align_b32);
    record(site, word, {dst, src},
           {0, p.blockCount, p.blockLen, left * PARTS, right * PARTS, p.srcStride, p.dstStride, registers.atomic,
            left + right ? registers.copy_padding : 0, registers.pads && left + right});
}
inline void set_copy_padding(Site site, int64_t value) {
    recorder.registers.copy_padding = value;
    recorder.registers.pads = 1;
    record(site, Word::set_mov_pad_val, {0}, {value});
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
    asim::record(site, asim::Word::copy_gm_to_cbuf, {asim::at(dst), asim::at(src)},
                 {0, p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0});
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
        return asim::record(site, asim::Word::copy_cbuf_to_bt, {asim::at(dst), asim::at(src)},
                            {asim::format_of<U>(), widens, p.blockCount, p.blockLen, p.srcStride, p.dstStride});
    }
    if (from != Hardware::L1 || to != Hardware::FIXBUF) asim::no_copy(site, from, to);
    asim::record(site, asim::Word::copy_cbuf_to_fbuf, {asim::at(dst), asim::at(src)},
                 {p.blockCount, p.blockLen, p.srcStride, p.dstStride});
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
    asim::copy_aligned<T>(site, true, asim::at(dst), asim::at(src), p, pad.leftPadding, pad.rightPadding);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyExtParams &p, ASIM_SITE) {
    asim::copy_aligned<T>(site, false, asim::at(dst), asim::at(src), p);
}
template <class T> inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const DataCopyParams &p,
                                           const DataCopyPadParams &pad, ASIM_SITE) {
    DataCopyExtParams wide(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0);
    if (pad.isPad) asim::set_copy_padding(site, (int64_t)pad.paddingValue);
    asim::copy_aligned<T>(site, true, asim::at(dst), asim::at(src), wide, pad.leftPadding, pad.rightPadding);
}
template <class T>
inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src, const DataCopyParams &p, ASIM_SITE) {
    DataCopyPad(dst, src, DataCopyExtParams(p.blockCount, p.blockLen, p.srcStride, p.dstStride, 0), site);
}

}  // namespace AscendC
