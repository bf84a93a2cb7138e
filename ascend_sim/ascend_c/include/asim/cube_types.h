// Parameter structures of the cube's calls.
#pragma once
#include "asim/types.h"

// How Fixpipe turns results into the format of the output (public documentation of Fixpipe; numbers: the recorded words).
enum QuantMode_t { NoQuant = 0, F322F16 = 1, VREQ8 = 4, REQ8 = 5, VDEQF16 = 6, DEQF16 = 7, F322BF16 = 16,
                   VQF322B8_PRE = 23, QF322B8_PRE = 24 };

namespace AscendC {

struct LoadData2DParams {
    LoadData2DParams() = default;
    LoadData2DParams(uint16_t start, asim::Repeats repeat, uint16_t source, uint8_t stream, uint16_t gap, bool transpose, uint8_t mode)
        : startIndex(start), dstGap(gap), srcStride(source), ifTranspose(transpose), repeatTimes(repeat), sid(stream), addrMode(mode) {}
    uint16_t startIndex = 0, dstGap = 0, srcStride = 0;
    bool ifTranspose = false;
    uint8_t repeatTimes = 0, sid = 0, addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;
struct LoadData2dTransposeParams {
    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(uint16_t start, asim::Repeats repeat, uint16_t source, uint16_t gap, uint16_t fractal_gap, uint8_t mode = 0)
        : startIndex(start), repeatTimes(repeat), srcStride(source), dstGap(gap), dstFracGap(fractal_gap), addrMode(mode) {}
    uint16_t startIndex = 0;
    uint8_t repeatTimes = 0;
    uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
    uint8_t addrMode = 0;
};
template <class T> struct LoadData3DParamsV2 {
    LoadData3DParamsV2() = default;
    LoadData3DParamsV2(const uint8_t pads[4], uint16_t height, uint16_t width, uint16_t channels, uint16_t k, uint16_t m,
                       uint16_t k_start, uint16_t m_start, uint8_t stride_w, uint8_t stride_h, uint8_t filter_w, uint8_t filter_h,
                       uint8_t dilation_w, uint8_t dilation_h, bool transpose, bool small_k, T value)
        : l1H(height), l1W(width), channelSize(channels), kExtension(k), mExtension(m), kStartPt(k_start), mStartPt(m_start),
          strideW(stride_w), strideH(stride_h), filterW(filter_w), filterH(filter_h), dilationFilterW(dilation_w),
          dilationFilterH(dilation_h), enTranspose(transpose), enSmallK(small_k), padValue(value) {
        for (int i = 0; i < 4; i++) padList[i] = pads[i];
    }
    LoadData3DParamsV2(const uint8_t pads[4], uint16_t height, uint16_t width, uint16_t channels, uint16_t k, uint16_t m,
                       uint16_t k_start, uint16_t m_start, uint8_t stride_w, uint8_t stride_h, uint8_t filter_w, uint8_t filter_h,
                       uint8_t dilation_w, uint8_t dilation_h, bool transpose, bool small_k, T value, bool size_w, bool size_h,
                       bool right)
        : LoadData3DParamsV2(pads, height, width, channels, k, m, k_start, m_start, stride_w, stride_h, filter_w, filter_h,
                             dilation_w, dilation_h, transpose, small_k, value) {
        filterSizeW = size_w, filterSizeH = size_h, fMatrixCtrl = right;
    }
    uint8_t padList[4] = {0};
    uint16_t l1H = 0, l1W = 0, channelSize = 0, kExtension = 0, mExtension = 0, kStartPt = 0, mStartPt = 0;
    uint8_t strideW = 1, strideH = 1, filterW = 1, filterH = 1, dilationFilterW = 1, dilationFilterH = 1;
    bool enTranspose = false, enSmallK = false;
    T padValue = 0;
    bool filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
};
struct LoadData3DParamsV2Pro {
    LoadData3DParamsV2Pro() = default;
    LoadData3DParamsV2Pro(uint16_t channels, bool transpose, bool small_k, bool size_w, bool size_h, bool right, uint64_t extents,
                          uint64_t filter)
        : channelSize(channels), enTranspose(transpose), enSmallK(small_k), filterSizeW(size_w), filterSizeH(size_h),
          fMatrixCtrl(right), extConfig(extents), filterConfig(filter) {}
    uint16_t channelSize = 0;
    bool enTranspose = false, enSmallK = false, filterSizeW = false, filterSizeH = false, fMatrixCtrl = false;
    uint64_t extConfig = 0, filterConfig = 0x10101010101;
};
struct IsResetLoad3dConfig {
    bool isSetFMatrix = true, isSetPadding = true;
    constexpr IsResetLoad3dConfig(bool map = true, bool padding = true) : isSetFMatrix(map), isSetPadding(padding) {}
};
constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};
enum class FmatrixMode : uint8_t { FMATRIX_LEFT, FMATRIX_RIGHT };
template <class T> struct InitConstValueParams {
    InitConstValueParams() = default;
    InitConstValueParams(uint16_t repeat, uint16_t blocks, uint16_t gap, T value)
        : repeatTimes(repeat), blockNum(blocks), dstGap(gap), initValue(value) {}
    InitConstValueParams(uint16_t repeat, T value) : repeatTimes(repeat), initValue(value) {}
    uint16_t repeatTimes = 0, blockNum = 0, dstGap = 0;
    T initValue = 0;
};
struct Nd2NzParams {
    Nd2NzParams() = default;
    Nd2NzParams(uint16_t matrices, uint16_t rows, uint16_t columns, uint16_t src_matrix, uint16_t src_row, uint16_t dst_column,
                uint16_t dst_row, uint16_t dst_matrix)
        : ndNum(matrices), nValue(rows), dValue(columns), srcNdMatrixStride(src_matrix), srcDValue(src_row),
          dstNzC0Stride(dst_column), dstNzNStride(dst_row), dstNzMatrixStride(dst_matrix) {}
    uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0;
    uint16_t dstNzMatrixStride = 0;
};
enum class HF32Mode { ENABLE, DISABLE };
enum class HF32TransMode { NEAREST_ZERO, NEAREST_EVEN };
struct MmadParams {
    MmadParams() = default;
    MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, bool bias, int32_t offset, bool sparse, bool winograd_a, bool winograd_b)
        : m(rows), n(columns), k(depth), isBias(bias), fmOffset(offset), enSsparse(sparse), enWinogradA(winograd_a),
          enWinogradB(winograd_b) {}
    MmadParams(uint16_t rows, uint16_t columns, uint16_t depth, uint8_t unit, bool source, bool zero)
        : m(rows), n(columns), k(depth), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(zero) {}
    uint16_t m = 0, n = 0, k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false, enWinogradA = false, enWinogradB = false;
    uint8_t unitFlag = 0;
    bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
    bool asim_goes_on = false;  // a sum of the library that goes on in a tile which its unit flag calls full
};
enum class CO2Layout : uint8_t { NZ, ROW_MAJOR, COLUMN_MAJOR };
struct FixpipeConfig {
    CO2Layout format;
    bool further;  // L0C has no way to UB on these cores
    constexpr FixpipeConfig(CO2Layout layout, bool isToUB = false, bool enableFixVal = false)
        : format(layout), further(isToUB || enableFixVal) {}
};
constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ}, CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};
struct FixpipeParamsV220 {
    FixpipeParamsV220() = default;
    FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t source, uint32_t destination, bool relu)
        : nSize(columns), mSize(rows), srcStride(source), dstStride(destination), deqScalar(0), reluEn(relu) {}
    FixpipeParamsV220(uint16_t columns, uint16_t rows, uint16_t source, uint32_t destination, bool relu, QuantMode_t mode,
                      int64_t scale, uint16_t matrices, uint16_t src_matrix, uint16_t dst_matrix, uint8_t unit,
                      bool split = false)
        : nSize(columns), mSize(rows), srcStride(source), dstStride(destination), quantPre(mode), deqScalar(scale), ndNum(matrices),
          srcNdStride(src_matrix), dstNdStride(dst_matrix), reluEn(relu), unitFlag(unit), isChannelSplit(split) {}
    uint16_t nSize = 0, mSize = 0, srcStride = 0;
    uint32_t dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint64_t deqScalar;
    uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
    bool reluEn = false;
    uint8_t unitFlag = 0;
    bool isChannelSplit = false;
};
struct DataCopyCO12DstParams {
    DataCopyCO12DstParams() = default;
    DataCopyCO12DstParams(uint16_t columns, uint16_t rows, uint32_t destination, uint16_t source, QuantMode_t mode, uint8_t relu,
                          bool split, bool to_rows)
        : nSize(columns), mSize(rows), dstStride(destination), srcStride(source), quantPre(mode), reluPre(relu), channelSplit(split),
          nz2ndEn(to_rows) {}
    uint8_t sid = 0;
    uint16_t nSize = 0, mSize = 0;
    uint32_t dstStride = 0;
    uint16_t srcStride = 0;
    uint8_t unitFlag = 0, clipReluPre = 0, eltWiseOp = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    uint8_t reluPre = 0;
    bool channelSplit = false, nz2ndEn = false;
};

}  // namespace AscendC
