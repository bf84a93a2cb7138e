// Norms of rows in the Unified Buffer: compositions of basic calls, as in row_functions.h (assumed).
#pragma once
#include "asim/row_functions.h"

namespace AscendC::tiling {
struct LayerNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0, inputXSize = 0, meanVarSize = 0, numberOfTmpBuf = 0;
    uint32_t meanTmpTensorPos = 0, meanTmpTensorSize = 0, varianceTmpTensorPos = 0, varianceTmpTensorSize = 0, tmpBufSize = 0;
    uint32_t oneTmpSize = 0, firstTmpStartPos = 0, secondTmpStartPos = 0, thirdTmpStartPos = 0, loopRound = 0, inputRoundSize = 0;
    uint32_t inputTailSize = 0, inputTailPos = 0, meanVarRoundSize = 0, meanVarTailSize = 0, meanVarTailPos = 0, bshCurLength = 0;
    uint32_t bsCurLength = 0;
    float lastDimValueBack = 0;
};
struct RmsNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
    float reciprocalOfHLength = 0;
    uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0, inputTailPos = 0, tailBshLength = 0;
    uint32_t tailBsLength = 0;
};
}  // namespace AscendC::tiling
using LayerNormTiling = AscendC::tiling::LayerNormTiling;
using RmsNormTiling = AscendC::tiling::RmsNormTiling;

namespace asim {

// (x - mean) / sqrt(variance + epsilon) gamma + beta, with mean and variance of each row.
template <class T> inline void layer_norm(Site site, const LocalTensor<T> &dst, const LocalTensor<T> &mean, const LocalTensor<T> &variance,
                                          const LocalTensor<T> &src, const LocalTensor<T> &gamma, const LocalTensor<T> &beta,
                                          const Temporary &space, float epsilon, const RowShape &shape) {
    const char *call = "LayerNorm";
    check_size(site, call, "inputX", src, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "output", dst, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "outputMean", mean, shape.rows), check_size(site, call, "outputVariance", variance, shape.rows);
    check_size(site, call, "gamma", gamma, shape.columns), check_size(site, call, "beta", beta, shape.columns);
    int64_t line = is_half<T> ? (shape.stride + 15) / 16 * 16 : 0;
    over_tiles<T>(site, call, shape, space, {is_half<T> ? 2 : 1, 2 * line, IN_BLOCK<T>}, [&](const RowWork &work, int64_t first, const RowShape &tile) {
        Floats x = widened(work, tile, src[first * shape.stride]), y = x, squares, factor, shift;
        if constexpr (is_half<T>) {
            squares = work.second, factor = floats(space.start, line), shift = floats(space.start + line * 4, line);
            if (!first) {
                AscendC::Cast(factor, gamma, AscendC::RoundMode::CAST_NONE, shape.columns, site);
                AscendC::Cast(shift, beta, AscendC::RoundMode::CAST_NONE, shape.columns, site);
                work.barrier();
            }
        } else y = dst[first * shape.stride], squares = work.wide, factor = gamma, shift = beta;
        float share = 1.0f / shape.columns;
        work.reduce(Word::vcadd, Word::vadd, tile, x);
        work.of_values(Word::vmuls, share, tile.rows);
        put_values(work, mean, first, tile.rows);
        work.spread_values(tile.rows);
        work.binary(Word::vsub, tile, y, x, work.spread, true);
        work.both(Word::vmul, tile, squares, y, y);
        work.reduce(Word::vcadd, Word::vadd, tile, squares);
        work.of_values(Word::vmuls, share, tile.rows);
        put_values(work, variance, first, tile.rows);
        work.of_values(Word::vadds, epsilon, tile.rows);
        AscendC::Sqrt(work.values, work.values, tile.rows, site);
        work.barrier();
        work.spread_values(tile.rows);
        work.binary(Word::vdiv, tile, y, y, work.spread, true);
        work.binary(Word::vmul, tile, y, y, factor, false);
        work.binary(Word::vadd, tile, y, y, shift, false);
        narrowed(work, tile, dst[first * shape.stride], y);
    });
}

// x / sqrt(mean of squares + epsilon) gamma.
template <class T> inline void rms_norm(Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &gamma,
                                        const Temporary &space, float epsilon, const RowShape &shape) {
    const char *call = "RmsNorm";
    check_size(site, call, "srcLocal", src, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "dstLocal", dst, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "gammaLocal", gamma, shape.columns);
    int64_t line = is_half<T> ? (shape.stride + 15) / 16 * 16 : 0;
    over_tiles<T>(site, call, shape, space, {is_half<T> ? 2 : 1, line, 1}, [&](const RowWork &work, int64_t first, const RowShape &tile) {
        Floats x = widened(work, tile, src[first * shape.stride]), y = x, squares, factor;
        if constexpr (is_half<T>) {
            squares = work.second, factor = floats(space.start, line);
            if (!first) AscendC::Cast(factor, gamma, AscendC::RoundMode::CAST_NONE, shape.columns, site), work.barrier();
        } else y = dst[first * shape.stride], squares = work.wide, factor = gamma;
        work.both(Word::vmul, tile, squares, x, x);
        work.reduce(Word::vcadd, Word::vadd, tile, squares);
        work.of_values(Word::vmuls, 1.0f / shape.columns, tile.rows);
        work.of_values(Word::vadds, epsilon, tile.rows);
        AscendC::Sqrt(work.values, work.values, tile.rows, site);
        work.barrier();
        work.spread_values(tile.rows);
        work.binary(Word::vdiv, tile, y, x, work.spread, true);
        work.binary(Word::vmul, tile, y, y, factor, false);
        narrowed(work, tile, dst[first * shape.stride], y);
    });
}

}  // namespace asim

namespace AscendC {

template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T> &output, const LocalTensor<T> &outputMean, const LocalTensor<T> &outputVariance, const LocalTensor<T> &inputX,
                      const LocalTensor<T> &gamma, const LocalTensor<T> &beta, const LocalTensor<uint8_t> &sharedTmpBuffer, const asim::given<T> epsilon,
                      const LayerNormTiling &tiling, ASIM_SITE) {
    ASIM_ROW_TYPE("LayerNorm", T);
    asim::layer_norm(site, output, outputMean, outputVariance, inputX, gamma, beta, asim::temporary(sharedTmpBuffer), (float)epsilon,
                     {(int64_t)tiling.bLength * tiling.sLength, tiling.originalHLength, tiling.hLength});
}
template <class T, bool isReuseSource = false>
inline void LayerNorm(const LocalTensor<T> &output, const LocalTensor<T> &outputMean, const LocalTensor<T> &outputVariance, const LocalTensor<T> &inputX,
                      const LocalTensor<T> &gamma, const LocalTensor<T> &beta, const asim::given<T> epsilon, const LayerNormTiling &tiling, ASIM_SITE) {
    ASIM_ROW_TYPE("LayerNorm", T);
    asim::layer_norm(site, output, outputMean, outputVariance, inputX, gamma, beta, asim::temporary(site, "LayerNorm"), (float)epsilon,
                     {(int64_t)tiling.bLength * tiling.sLength, tiling.originalHLength, tiling.hLength});
}
template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &gamma,
                    const LocalTensor<uint8_t> &sharedTmpBuffer, const asim::given<T> epsilon, const RmsNormTiling &tiling, ASIM_SITE) {
    ASIM_ROW_TYPE("RmsNorm", T);
    asim::rms_norm(site, dst, src, gamma, asim::temporary(sharedTmpBuffer), (float)epsilon,
                   {(int64_t)tiling.bLength * tiling.sLength, tiling.originalHLength, tiling.hLength});
}
template <class T, bool isBasicBlock = false>
inline void RmsNorm(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<T> &gamma, const asim::given<T> epsilon,
                    const RmsNormTiling &tiling, ASIM_SITE) {
    ASIM_ROW_TYPE("RmsNorm", T);
    asim::rms_norm(site, dst, src, gamma, asim::temporary(site, "RmsNorm"), (float)epsilon,
                   {(int64_t)tiling.bLength * tiling.sLength, tiling.originalHLength, tiling.hLength});
}
#undef ASIM_ROW_TYPE

}  // namespace AscendC
