// Types, enumerations and parameter structures of the public API, and the number formats as numbers.
#pragma once
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include "asim/conversions.h"
#include "asim/recorder.h"

#define __aicore__
// A file's other entries are left out: their calls say nothing about the cores of the one that runs.
#define __global__ __attribute__((internal_linkage))
#define __vector__
#define __cube__
#define __mix__(...)
#define __gm__
#define __host_aicore__
#define __BLOCK_LOCAL__
#define __ubuf__
#define __biasbuf__
#define __fbuf__
#define __cc__
#define __cb__
#define __ca__
#define __cbuf__
#define __inout_pipe__(...)
#define __in_pipe__(...)
#define __out_pipe__(...)
#define __sync_alias__
#define __sync_noalias__

using half = _Float16;
using bfloat16_t = __bf16;
using GM_ADDR = uint8_t *;
enum pipe_t { PIPE_S = 0, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX = 10 };
enum event_t { EVENT_ID0 = 0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace asim {
template <class T> struct identity { using type = T; };
template <class T> using given = typename identity<T>::type;  // keeps an argument out of deduction

enum Format : int64_t { NONE, F16, BF16, F32, S8, U8, S16, U16, S32, U32, S64, U64 };
template <class T> constexpr Format format_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, half>) return F16;
    else if constexpr (std::is_same_v<U, bfloat16_t>) return BF16;
    else if constexpr (std::is_same_v<U, float>) return F32;
    else if constexpr (std::is_integral_v<U>) {
        constexpr bool sign = std::is_signed_v<U>;
        if constexpr (sizeof(U) == 1) return sign ? S8 : U8;
        else if constexpr (sizeof(U) == 2) return sign ? S16 : U16;
        else if constexpr (sizeof(U) == 4) return sign ? S32 : U32;
        else return sign ? S64 : U64;
    } else return NONE;
}
template <class T> constexpr bool is_float = format_of<T>() == F16 || format_of<T>() == BF16 || format_of<T>() == F32;
// Repeats of a call, a byte: the next word of a kernel that gives others is refused.
class Repeats {
public:
    template <class N, class = std::enable_if_t<std::is_arithmetic_v<N> || std::is_enum_v<N>>> Repeats(N number) : byte_((int64_t)number) {
        if ((int64_t)number != byte_) recorder.repeats = (int64_t)number;
    }
    operator uint8_t() const { return byte_; }

private:
    uint8_t byte_;
};
// A scalar operand as a field: the bits of a float32, or the number.
template <class T> inline int64_t immediate(T value) {
    if constexpr (is_float<T>) {
        float wide = (float)value;
        uint32_t bits;
        memcpy(&bits, &wide, sizeof bits);
        return bits;
    } else return (int64_t)value;
}
}  // namespace asim

namespace AscendC {

constexpr int32_t DEFAULT_C0_SIZE = 32;
constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr uint32_t ONE_REPEAT_BYTE_SIZE = 256;
constexpr uint8_t DEFAULT_BLK_STRIDE = 1;
constexpr uint8_t DEFAULT_REPEAT_STRIDE = 8;
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr int32_t DEFAULT_BLK_NUM = 8, DEFAULT_BLOCK_SIZE = 256, MAX_REPEAT_TIMES = 255;
constexpr uint8_t DEFAULT_DATA_COPY_NBURST = 1, DEFAULT_DATA_COPY_STRIDE = 0, B16_BYTE_SIZE = 2, B32_BYTE_SIZE = 4;
constexpr int32_t ONE_BLK_HALF_NUM = ONE_BLK_SIZE / B16_BYTE_SIZE, ONE_BLK_FLOAT_NUM = ONE_BLK_SIZE / B32_BYTE_SIZE;
constexpr int32_t ONE_REPEAT_HALF_SIZE = ONE_REPEAT_BYTE_SIZE / B16_BYTE_SIZE, ONE_REPEAT_FLOAT_SIZE = ONE_REPEAT_BYTE_SIZE / B32_BYTE_SIZE;
constexpr int32_t MAX_REPEAT_HALF_SIZE = ONE_REPEAT_HALF_SIZE * MAX_REPEAT_TIMES, MAX_REPEAT_FLOAT_SIZE = ONE_REPEAT_FLOAT_SIZE * MAX_REPEAT_TIMES;
constexpr int32_t B16_DATA_NUM_PER_BLOCK = ONE_BLK_HALF_NUM, B32_DATA_NUM_PER_BLOCK = ONE_BLK_FLOAT_NUM;
constexpr int32_t B16_DATA_NUM_PER_REPEAT = ONE_REPEAT_HALF_SIZE, B32_DATA_NUM_PER_REPEAT = ONE_REPEAT_FLOAT_SIZE;
constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16, INVALID_TEVENTID = -1;
constexpr int32_t QUE_MAX_EVENT = 8, MASK_ARRAY_SIZE = 4, PAD_SIZE = 4, DEFAULT_REDUCE_DST_REP_STRIDE = 1;
constexpr uint32_t ONE_BLK_B2_NUM = 128, ONE_BLK_B1_NUM = 256;
// Of dav-2201: a test holds them against the chip's buffers.
constexpr uint32_t TOTAL_UB_SIZE = 192 * 1024, TOTAL_L0A_SIZE = 64 * 1024, TOTAL_L0B_SIZE = TOTAL_L0A_SIZE, TOTAL_L0C_SIZE = 128 * 1024;
constexpr int32_t TOTAL_VEC_LOCAL_SIZE = 184 * 1024;

enum class TPosition : uint8_t {
    GM, A1, A2, B1, B2, C1, C2, CO1, CO2, VECIN, VECOUT, VECCALC, LCM = VECCALC, SPM, SHM = SPM, TSCM, C2PIPE2GM,
    C2PIPE2LOCAL, MAX
};
using QuePosition = TPosition;
enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };
enum class HardEvent : uint8_t {
    MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, MTE2_V, V_MTE2, MTE3_V, V_MTE3, M_V, V_M, V_V, MTE3_MTE1, MTE1_MTE3, MTE1_V, MTE2_M,
    M_MTE2, V_MTE1, M_FIX, FIX_M, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S, MTE2_FIX, FIX_MTE2, FIX_S,
    M_S, FIX_MTE3, MTE1_FIX, FIX_MTE1, FIX_FIX, MAX
};
enum class CacheRwMode { READ = 1, WRITE, RW };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL, CACHE_MODE_LAST, CACHE_MODE_PERSISTENT = 4 };
enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class SELMODE : uint8_t { VSEL_CMPMASK_SPR, VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };
enum class MaskMode : uint8_t { NORMAL, COUNTER };
enum class ReduceOrder : uint8_t { ORDER_VALUE_INDEX, ORDER_INDEX_VALUE, ORDER_ONLY_VALUE, ORDER_ONLY_INDEX };

enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };
constexpr uint8_t K_MAX_SHAPE_DIM = 8;
struct ShapeInfo {
    ShapeInfo() = default;
    ShapeInfo(uint8_t axes, const uint32_t sizes[], uint8_t original_axes, const uint32_t original_sizes[], DataFormat format)
        : shapeDim(axes), originalShapeDim(original_axes), dataFormat(format) {
        for (int axis = 0; axis < axes && axis < K_MAX_SHAPE_DIM; axis++) shape[axis] = sizes[axis];
        for (int axis = 0; axis < original_axes && axis < K_MAX_SHAPE_DIM; axis++) originalShape[axis] = original_sizes[axis];
    }
    ShapeInfo(uint8_t axes, const uint32_t sizes[], DataFormat format) : ShapeInfo(axes, sizes, axes, sizes, format) {}
    ShapeInfo(uint8_t axes, const uint32_t sizes[]) : ShapeInfo(axes, sizes, axes, sizes, DataFormat::ND) {}
    uint8_t shapeDim = 0, originalShapeDim = 0;
    uint32_t shape[K_MAX_SHAPE_DIM] = {}, originalShape[K_MAX_SHAPE_DIM] = {};
    DataFormat dataFormat = DataFormat::ND;
};

struct BinaryRepeatParams {
    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t dst, uint8_t src0, uint8_t src1, uint8_t dst_repeat, uint8_t src0_repeat, uint8_t src1_repeat)
        : dstBlkStride(dst), src0BlkStride(src0), src1BlkStride(src1), dstRepStride(dst_repeat), src0RepStride(src0_repeat),
          src1RepStride(src1_repeat) {}
    uint32_t blockNumber = 8;
    uint8_t dstBlkStride = 1, src0BlkStride = 1, src1BlkStride = 1;
    uint8_t dstRepStride = 8, src0RepStride = 8, src1RepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false;  // reserved (public documentation)
};
struct UnaryRepeatParams {
    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t dst, uint16_t src, uint8_t dst_repeat, uint8_t src_repeat, bool half = false)
        : dstBlkStride(dst), srcBlkStride(src), dstRepStride(dst_repeat), srcRepStride(src_repeat), halfBlock(half) {}
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1, srcBlkStride = 1;
    uint8_t dstRepStride = 8, srcRepStride = 8;
    bool repeatStrideMode = false, strideSizeMode = false, halfBlock = false;  // reserved, and of CastDeq alone (public documentation)
};
struct BrcbRepeatParams {
    BrcbRepeatParams() = default;
    BrcbRepeatParams(uint16_t dst, uint16_t dst_repeat) : dstBlkStride(dst), dstRepStride(dst_repeat) {}
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1, dstRepStride = 8;
    uint8_t src0BlkStride = 1, src1BlkStride = 1, src0RepStride = 8, src1RepStride = 8;  // of no effect in Brcb, as the next two
    bool repeatStrideMode = false, strideSizeMode = false;
};
struct CopyRepeatParams {
    CopyRepeatParams() = default;
    CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dst_repeat, uint16_t src_repeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat) {}
    uint16_t dstStride = 0, srcStride = 0, dstRepeatSize = 8, srcRepeatSize = 8;
};
struct DataCopyParams {
    DataCopyParams() = default;
    DataCopyParams(uint16_t count, uint16_t length, uint16_t source, uint16_t destination)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination) {}
    uint16_t blockCount = 1, blockLen = 0;
    union { uint16_t srcGap = 0, srcStride; };
    union { uint16_t dstGap = 0, dstStride; };
};
enum class BlockMode : uint8_t {
    BLOCK_MODE_NORMAL = 0, BLOCK_MODE_MATRIX, BLOCK_MODE_VECTOR, BLOCK_MODE_SMALL_CHANNEL, BLOCK_MODE_DEPTHWISE
};
enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };
enum class pad_t : uint8_t { PAD_NONE = 0, PAD_MODE1, PAD_MODE2, PAD_MODE3, PAD_MODE4, PAD_MODE5, PAD_MODE6, PAD_MODE7, PAD_MODE8 };
// Arithmetic on the way from L0C to the Unified Buffer, a way that dav-2201 does not have (public documentation).
struct DataCopyEnhancedParams {
    DataCopyEnhancedParams() = default;
    DataCopyEnhancedParams(BlockMode block, DeqScale scale, uint64_t value, uint8_t store, bool relu, pad_t pad, uint64_t padding)
        : blockMode(block), deqScale(scale), deqValue(value), sidStoreMode(store), isRelu(relu), padMode(pad), padValue(padding) {}
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
    pad_t padMode = pad_t::PAD_NONE;
    uint64_t padValue = 0, deqTensorAddr = 0;
};
struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t length, uint32_t source, uint32_t destination, uint32_t reserved)
        : blockCount(count), blockLen(length), srcStride(source), dstStride(destination), rsv(reserved) {}
    uint16_t blockCount = 1;
    uint32_t blockLen = 0, srcStride = 0, dstStride = 0, rsv = 0;
};
struct DataCopyPadParams {
    DataCopyPadParams() = default;
    DataCopyPadParams(bool pads, uint8_t left, uint8_t right, uint64_t value)
        : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    uint64_t paddingValue = 0;
};
template <class T> struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pads, uint8_t left, uint8_t right, T value)
        : isPad(pads), leftPadding(left), rightPadding(right), paddingValue(value) {}
    bool isPad = false;
    uint8_t leftPadding = 0, rightPadding = 0;
    T paddingValue = 0;
};

}  // namespace AscendC

namespace asim {
constexpr AscendC::Hardware hardware_of(AscendC::TPosition position) {
    using P = AscendC::TPosition;
    using H = AscendC::Hardware;
    switch (position) {
        case P::GM: return H::GM;
        case P::A1: case P::B1: case P::C1: case P::TSCM: return H::L1;
        case P::A2: return H::L0A;
        case P::B2: return H::L0B;
        case P::C2: return H::BIAS;
        case P::CO1: return H::L0C;
        case P::C2PIPE2GM: return H::FIXBUF;
        default: return H::UB;
    }
}
inline const char *name_of(AscendC::Hardware place) {
    const char *const names[] = {"GM", "the Unified Buffer", "L1", "L0A", "L0B", "L0C", "the bias table", "the Fixpipe buffer"};
    return names[(int)place];
}
}  // namespace asim
