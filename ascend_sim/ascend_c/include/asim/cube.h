// Calls of a cube core: loads of L1, L0A and L0B, products, and Fixpipe out of L0C.
#pragma once
#include "asim/copy.h"
#include "asim/cube_types.h"

namespace asim {

using AscendC::Hardware;

// One bit of CTRL.
inline void set_control(Site site, int bit, bool on) {
    int64_t now = recorder.registers.ctrl;
    Word::set_ctrl_(site, {.ctrl = on ? now | 1ll << bit : now & ~(1ll << bit)});
}
constexpr int HF32 = 46, HF32_TRUNCATES = 47, COLUMNS_FIRST = 51;  // bits of CTRL (recorded words)
inline int64_t map_of(uint16_t height, uint16_t width, const uint8_t pads[4]) {
    int64_t value = width | (int64_t)height << 16;
    for (int i = 0; i < 4; i++) value |= (int64_t)pads[i] << (32 + 8 * i);
    return value;
}
// Value of the padding register: an element of one byte is in it twice.
template <class T> inline int64_t padding_of(T value) {
    int64_t all = bits(value);
    return sizeof(T) == 1 ? all | all << 8 : all;
}
// L0A or L0B; anything else is refused.
inline bool to_left(Site site, const char *call, Hardware place) {
    marked<CUBE_CALLS>();
    if (place != Hardware::L0A && place != Hardware::L0B)
        refuse(site, "%s to %s is not simulated; to A2 (L0A) and B2 (L0B) it is", call, name_of(place));
    return place == Hardware::L0A;
}
inline void expect(Site site, const char *call, const char *what, Hardware place, Hardware wanted) {
    marked<CUBE_CALLS>();
    if (place != wanted) refuse(site, "%s: the %s lies in %s; it must lie in %s", call, what, name_of(place), name_of(wanted));
}

template <class T> inline void img2col(Site site, const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
                                       const int64_t (&extents)[4], const int64_t (&filter)[6], const bool (&switches)[5],
                                       int64_t channels) {
    auto [size_w, size_h, transpose, right, small_k] = switches;
    if (small_k) refuse(site, "LoadData with enSmallK is not simulated; enSmallK false is");
    bool left = to_left(site, "LoadData", place_of(dst));
    if (!left && sizeof(T) == 1) return;  // the public API emits nothing (recorded words)
    (left ? Word::img2colv2_cbuf_to_ca : Word::img2colv2_cbuf_to_cb)(
        site, {.dst = at(dst), .src0 = at(src), .format = format_of<T>(), .k_extension = extents[0], .m_extension = extents[1],
               .k_start = extents[2], .m_start = extents[3], .stride_w = filter[0], .stride_h = filter[1], .filter_w = filter[2],
               .filter_h = filter[3], .dilation_w = filter[4], .dilation_h = filter[5], .filter_size_w = size_w, .filter_size_h = size_h,
               .transpose = transpose, .f_matrix_ctrl = right, .channel_size = channels});
}
template <class T> inline int64_t exact(T value) {
    if constexpr (is_float<T> && sizeof(T) == 2) return immediate(value);
    else return bits(value);
}
inline bool by_column(QuantMode_t mode) { return mode == VREQ8 || mode == VDEQF16 || mode == VQF322B8_PRE; }
inline bool by_scalar(QuantMode_t mode) { return mode == REQ8 || mode == DEQF16 || mode == QF322B8_PRE; }
inline void drain(Site site, decltype(Word::copy_matrix_cc_to_gm) word, int64_t dst, int64_t src, int64_t format, int64_t source,
                  const AscendC::DataCopyCO12DstParams &p) {
    word(site, {.dst = dst, .src0 = src, .format = format, .source = source, .sid = p.sid, .n_size = p.nSize, .m_size = p.mSize,
                .dst_stride = p.dstStride, .src_stride = p.srcStride, .unit_flag = p.unitFlag, .quant_pre = p.quantPre, .relu_pre = p.reluPre,
                .channel_split = p.channelSplit, .nz2nd_en = p.nz2ndEn});
}

}  // namespace asim

namespace AscendC {

// -- from GM and to L0A and L0B

template <class T> inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const Nd2NzParams &p, ASIM_SITE) {
    asim::expect(site, "DataCopy with Nd2NzParams", "destination", asim::place_of(dst), Hardware::L1);
    constexpr auto word = sizeof(T) == 1   ? asim::Word::copy_gm_to_cbuf_multi_nd2nz_b8
                          : sizeof(T) == 2 ? asim::Word::copy_gm_to_cbuf_multi_nd2nz_b16
                                           : asim::Word::copy_gm_to_cbuf_multi_nd2nz_b32s;
    word(site, {.dst = asim::at(dst), .src0 = asim::at(src), .sid = 0, .nd_num = p.ndNum, .n_value = p.nValue, .d_value = p.dValue,
                .src_nd_matrix_stride = p.srcNdMatrixStride, .src_d_value = p.srcDValue, .dst_nz_c0_stride = p.dstNzC0Stride,
                .dst_nz_n_stride = p.dstNzNStride, .dst_nz_matrix_stride = p.dstNzMatrixStride});
}
template <class T> void DataCopy(const LocalTensor<T> &, const LocalTensor<T> &, const Nd2NzParams &) = delete;
template <class T, class Params> void DataCopyPad(const LocalTensor<T> &, const LocalTensor<T> &, const Params &, const Nd2NzParams &) = delete;
template <class T> inline void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2DParams &p, ASIM_SITE) {
    asim::expect(site, "LoadData", "source", asim::place_of(src), Hardware::L1);
    bool left = asim::to_left(site, "LoadData", asim::place_of(dst));
    (left ? asim::Word::load_cbuf_to_ca : asim::Word::load_cbuf_to_cb)(
        site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .base_idx = p.startIndex, .repeat = p.repeatTimes,
               .src_stride = p.srcStride, .dst_gap = p.dstGap, .sid = p.sid, .transpose = p.ifTranspose, .addr_cal_mode = p.addrMode});
}
template <class T> inline void LoadData(const LocalTensor<T> &dst, const GlobalTensor<T> &src, const LoadData2DParams &p, ASIM_SITE) {
    if (p.ifTranspose) asim::refuse(site, "LoadData from GM: ifTranspose turns squares between L1 and L0 alone; false is possible");
    Hardware place = asim::place_of(dst);
    bool to_l1 = place == Hardware::L1, left = !to_l1 && asim::to_left(site, "LoadData", place);
    (to_l1 ? asim::Word::load_gm_to_cbuf : left ? asim::Word::load_gm_to_ca : asim::Word::load_gm_to_cb)(
        site, {.dst = asim::at(dst), .src0 = asim::at(src), .base_idx = p.startIndex, .repeat = p.repeatTimes, .src_stride = p.srcStride,
               .dst_gap = p.dstGap, .sid = p.sid, .addr_cal_mode = p.addrMode});
}
template <class T>
inline void LoadDataWithTranspose(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData2dTransposeParams &p, ASIM_SITE) {
    asim::expect(site, "LoadDataWithTranspose", "source", asim::place_of(src), Hardware::L1);
    bool left = asim::to_left(site, "LoadDataWithTranspose", asim::place_of(dst));
    (left ? asim::Word::load_cbuf_to_ca_transpose : asim::Word::load_cbuf_to_cb_transpose)(
        site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .index_id = p.startIndex, .repeat = p.repeatTimes,
               .src_stride = p.srcStride, .dst_gap = p.dstGap, .addr_mode = p.addrMode, .dst_frac_gap = p.dstFracGap});
}

// -- img2col

inline void SetFmatrix(uint16_t height, uint16_t width, const uint8_t pads[4], const FmatrixMode &mode, ASIM_SITE) {
    int64_t map = asim::map_of(height, width, pads);
    if (mode == FmatrixMode::FMATRIX_RIGHT) asim::Word::set_fmatrix_b(site, {.fmatrix_b = map});
    else asim::Word::set_fmatrix(site, {.fmatrix = map});
}
template <class T> inline void SetLoadDataPaddingValue(const T value, ASIM_SITE) {
    asim::Word::set_padding(site, {.padding = asim::padding_of(value)});
}
inline void SetLoadDataBoundary(uint32_t size, ASIM_SITE) {
    asim::Word::set_l1_3d_size(site, {.l1_3d_size = size});
}
template <class T, const IsResetLoad3dConfig &config = IS_RESER_LOAD3D_DEFAULT_CONFIG, class U = T>
inline void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData3DParamsV2<U> &p, ASIM_SITE) {
    if (config.isSetFMatrix) SetFmatrix(p.l1H, p.l1W, p.padList, FmatrixMode::FMATRIX_LEFT, site);
    if (config.isSetPadding) SetLoadDataPaddingValue(p.padValue, site);
    asim::img2col(site, dst, src, {p.kExtension, p.mExtension, p.kStartPt, p.mStartPt},
                  {p.strideW, p.strideH, p.filterW, p.filterH, p.dilationFilterW, p.dilationFilterH},
                  {p.filterSizeW, p.filterSizeH, p.enTranspose, p.fMatrixCtrl, p.enSmallK}, p.channelSize);
}
// Several fields are packed in each number of `p`; the word has the shifted numbers (recorded words).
template <class T>
inline void LoadData(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LoadData3DParamsV2Pro &p, ASIM_SITE) {
    uint64_t e = p.extConfig, f = p.filterConfig;
    asim::img2col(site, dst, src, {(int64_t)e, (int64_t)(e >> 16), (int64_t)(e >> 32), (int64_t)(e >> 48)},
                  {(int64_t)f, (int64_t)(f >> 8), (int64_t)(f >> 16), (int64_t)(f >> 24), (int64_t)(f >> 32), (int64_t)(f >> 40)},
                  {p.filterSizeW, p.filterSizeH, p.enTranspose, p.fMatrixCtrl, p.enSmallK}, p.channelSize);
}

// -- constants

template <class T, class U = T> inline void InitConstValue(const LocalTensor<T> &dst, const InitConstValueParams<U> &p, ASIM_SITE) {
    asim::marked<asim::CUBE_CALLS>();
    Hardware place = asim::place_of(dst);
    if (place != Hardware::L1 && place != Hardware::L0A && place != Hardware::L0B)
        asim::refuse(site, "InitConstValue of %s; L1, L0A and L0B are filled so", asim::name_of(place));
    auto word = place == Hardware::L0A   ? asim::Word::create_ca_matrix
                : place == Hardware::L0B ? asim::Word::create_cb_matrix
                : std::is_same_v<T, bfloat16_t> ? asim::Word::create_cbuf_matrix_bf16
                                                : asim::Word::create_cbuf_matrix;
    int64_t times = p.repeatTimes | (int64_t)p.blockNum << 16 | (int64_t)p.dstGap << 32;
    // Numbers of four bytes go as their bits.
    word(site, {.dst = asim::at(dst), .format = sizeof(T) == 4 ? asim::U32 : asim::format_of<T>(), .config = times,
                .value = asim::exact((U)p.initValue)});
}
template <class T, class U = T> inline void Fill(const LocalTensor<T> &dst, const InitConstValueParams<U> &p, ASIM_SITE) {
    InitConstValue<T, U>(dst, p, site);
}

// -- products

inline void SetHF32Mode(bool on, ASIM_SITE) { asim::set_control(site, asim::HF32, on); }
inline void SetHF32Mode(HF32Mode mode, ASIM_SITE) { SetHF32Mode(mode == HF32Mode::ENABLE, site); }
inline void SetHF32TransMode(bool truncates, ASIM_SITE) { asim::set_control(site, asim::HF32_TRUNCATES, truncates); }
inline void SetHF32TransMode(HF32TransMode mode, ASIM_SITE) { SetHF32TransMode(mode == HF32TransMode::NEAREST_ZERO, site); }
inline void SetMMLayoutTransform(bool columns_first, ASIM_SITE) { asim::set_control(site, asim::COLUMNS_FIRST, columns_first); }
inline void SetMMColumnMajor(ASIM_SITE) { SetMMLayoutTransform(false, site); }
inline void SetMMRowMajor(ASIM_SITE) { SetMMLayoutTransform(true, site); }
template <class T, class U, class S>
inline void asim_mmad(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<U> &left, const LocalTensor<S> &right, int64_t bias,
                      bool from_bias, const MmadParams &p) {
    asim::expect(site, "Mmad", "result", asim::place_of(dst), Hardware::L0C);
    asim::expect(site, "Mmad", "left operand", asim::place_of(left), Hardware::L0A);
    asim::expect(site, "Mmad", "right operand", asim::place_of(right), Hardware::L0B);
    asim::Word::mad(site, {.dst = asim::at(dst), .src0 = asim::at(left), .src1 = asim::at(right), .format = asim::format_of<T>(),
                           .source = asim::format_of<U>(), .target = asim::format_of<S>(), .m = p.m, .k = p.k, .n = p.n,
                           .unit_flag = p.unitFlag, .k_direction_align = p.kDirectionAlign, .c_matrix_source = from_bias,
                           .c_matrix_init_val = p.cmatrixInitVal && !p.isBias, .bias = bias, .goes_on = p.asim_goes_on});
}
template <class T, class U, class S>
inline void Mmad(const LocalTensor<T> &dst, const LocalTensor<U> &left, const LocalTensor<S> &right, const MmadParams &p, ASIM_SITE) {
    asim_mmad(site, dst, left, right, -1, p.cmatrixSource, p);
}
template <class T, class U, class S, class V>
inline void Mmad(const LocalTensor<T> &dst, const LocalTensor<U> &left, const LocalTensor<S> &right, const LocalTensor<V> &bias,
                 const MmadParams &p, ASIM_SITE) {
    Hardware place = asim::place_of(bias);
    if (place != Hardware::BIAS && place != Hardware::L0C)
        asim::refuse(site, "Mmad: the bias lies in %s; it must lie in the bias table or in L0C", asim::name_of(place));
    asim_mmad(site, dst, left, right, asim::at(bias), place == Hardware::BIAS, p);
}

// -- results

inline void SetFixpipeNz2ndFlag(uint16_t matrices, uint16_t src_matrix, uint16_t dst_matrix, ASIM_SITE) {
    asim::Word::set_nd_para(site, {.nd_para = matrices | (int64_t)src_matrix << 16 | (int64_t)dst_matrix << 32});
}
inline void SetFixpipePreQuantFlag(uint64_t scale, ASIM_SITE) {
    asim::Word::set_quant_pre(site, {.quant_scale = scale});
}
// Places of the scales (units of 128 bytes) and of ReLU's slopes (units of 64) in the Fixpipe buffer, and the unit flag
// (recorded words).
template <class T, bool relu = false> inline void SetFixPipeConfig(const LocalTensor<T> &data, bool unit = false, ASIM_SITE) {
    int64_t place = relu ? asim::at(data) >> 6 : asim::at(data) >> 7 << 8;
    asim::Word::set_fpc(site, {.fpc = place | (int64_t)((uint64_t)unit << 63)});
}
template <class T>
inline void SetFixPipeConfig(const LocalTensor<T> &relu, const LocalTensor<T> &scales, bool unit = false, ASIM_SITE) {
    asim::Word::set_fpc(site, {.fpc = asim::at(relu) >> 6 | asim::at(scales) >> 7 << 8 | (int64_t)((uint64_t)unit << 63)});
}
template <class T, class U>
inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const DataCopyCO12DstParams &p, ASIM_SITE) {
    asim::expect(site, "DataCopy with DataCopyCO12DstParams", "source", asim::place_of(src), Hardware::L0C);
    if (p.clipReluPre || p.eltWiseOp) asim::refuse(site, "DataCopy: clipReluPre and eltWiseOp are not simulated; 0 is");
    asim::drain(site, asim::Word::copy_matrix_cc_to_gm, asim::at(dst), asim::at(src), asim::format_of<T>(), asim::format_of<U>(), p);
}
template <class T, class U> void DataCopy(const LocalTensor<T> &, const LocalTensor<U> &, const DataCopyCO12DstParams &) = delete;
template <class U>
inline DataCopyCO12DstParams asim_drained(asim::Site site, const LocalTensor<U> &src, const FixpipeParamsV220 &p, bool rows) {
    asim::expect(site, "Fixpipe", "source", asim::place_of(src), Hardware::L0C);
    DataCopyCO12DstParams out(p.nSize, p.mSize, p.dstStride, p.srcStride, p.quantPre, p.reluEn, p.isChannelSplit, rows);
    out.unitFlag = p.unitFlag;
    return out;
}
// Scales of the columns, if `scales` has any, go to the start of the Fixpipe buffer, in units of 128 bytes; the store waits for them.
inline void asim_scaled(asim::Site site, const FixpipeParamsV220 &p, int64_t scales) {
    if (asim::by_scalar(p.quantPre)) SetFixpipePreQuantFlag(p.deqScalar, site);
    if (asim::by_column(p.quantPre)) {
        if (scales < 0) asim::refuse(site, "Fixpipe: VREQ8, VDEQF16 and VQF322B8_PRE take the scales of the columns, a tensor in L1");
        asim::Word::copy_cbuf_to_fbuf(site, {.dst = 0, .src0 = scales, .n_burst = 1, .len_burst = (p.nSize * 8 + 127) / 128, .src_stride = 0,
                                             .dst_stride = 0});
        asim::Word::set_fpc(site, {.fpc = 0});
    }
    asim::Word::own_barrier_(site, {.with_flags = false});
    asim::Word::pipe_barrier(site, {.pipe = PIPE_FIX});
}
template <class T, class U>
inline void asim_to_gm(asim::Site site, const GlobalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &p, bool rows,
                       int64_t scales) {
    DataCopyCO12DstParams out = asim_drained(site, src, p, rows);
    if (rows) SetFixpipeNz2ndFlag(p.ndNum, p.srcNdStride, p.dstNdStride, site);
    asim_scaled(site, p, scales);
    asim::drain(site, asim::Word::copy_matrix_cc_to_gm, asim::at(dst), asim::at(src), asim::format_of<T>(), asim::format_of<U>(), out);
}
template <const FixpipeConfig &config> constexpr bool asim_in_rows() {
    static_assert(config.format != CO2Layout::COLUMN_MAJOR, "Fixpipe writes rows (CFG_ROW_MAJOR) or fractals (CFG_NZ) on this architecture");
    static_assert(!config.further, "FixpipeConfig with isToUB or enableFixVal is not simulated (not of this architecture)");
    return config.format == CO2Layout::ROW_MAJOR;
}
template <class T, class U, const FixpipeConfig &config = CFG_ROW_MAJOR>
inline void Fixpipe(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &p, ASIM_SITE) {
    asim_to_gm(site, dst, src, p, asim_in_rows<config>(), -1);
}
template <class T, class U, const FixpipeConfig &config = CFG_ROW_MAJOR, class S = uint64_t>
inline void Fixpipe(const GlobalTensor<T> &dst, const LocalTensor<U> &src, const LocalTensor<S> &scales, const FixpipeParamsV220 &p, ASIM_SITE) {
    asim::expect(site, "Fixpipe", "tensor of scales", asim::place_of(scales), Hardware::L1);
    asim_to_gm(site, dst, src, p, asim_in_rows<config>(), asim::at(scales));
}
// To L1 in fractals, whatever the configuration says (public documentation).
template <class T, class U>
inline void asim_to_l1(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &p, int64_t scales) {
    asim::expect(site, "Fixpipe", "destination", asim::place_of(dst), Hardware::L1);
    asim_scaled(site, p, scales);
    asim::drain(site, asim::Word::copy_matrix_cc_to_cbuf, asim::at(dst), asim::at(src), asim::format_of<T>(), asim::format_of<U>(),
                asim_drained(site, src, p, false));
}
template <class T, class U, const FixpipeConfig &config = CFG_ROW_MAJOR>
inline void Fixpipe(const LocalTensor<T> &dst, const LocalTensor<U> &src, const FixpipeParamsV220 &p, ASIM_SITE) {
    asim_to_l1(site, dst, src, p, -1);
}
template <class T, class U, const FixpipeConfig &config = CFG_ROW_MAJOR, class S = uint64_t>
inline void Fixpipe(const LocalTensor<T> &dst, const LocalTensor<U> &src, const LocalTensor<S> &scales, const FixpipeParamsV220 &p, ASIM_SITE) {
    asim::expect(site, "Fixpipe", "tensor of scales", asim::place_of(scales), Hardware::L1);
    asim_to_l1(site, dst, src, p, asim::at(scales));
}

}  // namespace AscendC
