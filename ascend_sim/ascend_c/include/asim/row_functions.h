// Functions of rows in the Unified Buffer: reductions, softmax, broadcasts. Compositions of basic calls in float32
// over as many rows as the temporary space holds (assumed: the library's own steps are not known).
#pragma once
#include "asim/functions.h"

namespace AscendC {

enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
    constexpr SoftmaxConfig(bool check = true, uint32_t rows = 0, uint32_t columns = 0, SoftmaxMode way = SoftmaxMode::SOFTMAX_NORMAL)
        : isCheckTiling(check), oriSrcM(rows), oriSrcK(columns), mode(way) {}
    bool isCheckTiling;
    uint32_t oriSrcM, oriSrcK;
    SoftmaxMode mode;
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};
struct SoftMaxShapeInfo { uint32_t srcM = 0, srcK = 0, oriSrcM = 0, oriSrcK = 0; };
struct SumParams { uint32_t outter = 1, inner = 0, n = 0; };
struct MeanParams { uint32_t outter = 1, inner = 0, n = 0; };
namespace tiling {
struct SoftMaxTiling {
    uint32_t srcM = 0, srcK = 0, srcSize = 0, outMaxM = 0, outMaxK = 0, outMaxSize = 0, splitM = 0, splitK = 0, splitSize = 0;
    uint32_t reduceM = 0, reduceK = 0, reduceSize = 0, rangeM = 0, tailM = 0, tailSplitSize = 0, tailReduceSize = 0;
};
}  // namespace tiling
namespace Pattern::Reduce {
struct AR {};
struct RA {};
}  // namespace Pattern::Reduce

}  // namespace AscendC
using SoftMaxTiling = AscendC::tiling::SoftMaxTiling;

namespace AscendC {
// Copy the elements of the mask, repeat by repeat; the steps count blocks.
template <class T> inline void asim_copy_rows(asim::Site site, const LocalTensor<T> &dst, const LocalTensor<T> &src, int64_t repeat, int64_t to, int64_t from) {
    asim::Word::vcopy(site, {.dst = asim::at(dst), .src0 = asim::at(src), .format = asim::format_of<T>(), .repeat = repeat, .dst_block_stride = 1,
                             .src0_block_stride = 1, .dst_repeat_stride = to, .src0_repeat_stride = from});
}
}  // namespace AscendC

namespace asim {

using AscendC::LocalTensor;
template <class T> constexpr int64_t IN_BLOCK = 32 / (int64_t)sizeof(T);
constexpr int64_t ROWS_TOGETHER = 240;  // a word repeats at most 255 times
constexpr int64_t LONG_HALF = 256;      // floats of each half of the room in which a long row is reduced
struct RowNeeds { int64_t wides, more, unit; };

// Rows of `columns` elements, `stride` elements apart.
struct RowShape { int64_t rows, columns, stride; };
// A word's share of rows: some columns of all rows (across), or one row. An operand with one value for each does not advance.
struct RowPart {
    int64_t row, column, elements, repeat;
    bool across;
    template <class T> LocalTensor<T> of(const LocalTensor<T> &tensor, const RowShape &shape) const { return tensor[row * shape.stride + column]; }
    template <class T> int64_t step(const RowShape &shape) const { return across ? shape.stride / IN_BLOCK<T> : 8 * (int64_t)sizeof(T) / 4; }
    Floats of_row(const Floats &values) const { return values[row * LANES]; }
    Floats of_column(const Floats &values) const { return values[column]; }
};
template <class Each> inline void over(const RowShape &shape, const Each &each) {
    if (shape.stride / 8 <= 255)
        for (int64_t column = 0; column < shape.columns; column += LANES)
            each(RowPart{0, column, shape.columns - column < LANES ? shape.columns - column : LANES, shape.rows, true});
    else
        for (int64_t row = 0; row < shape.rows; row++)
            for (int64_t column = 0; column < shape.columns;) {
                int64_t left = shape.columns - column, repeat = left / LANES < 255 ? left / LANES : 255;
                each(RowPart{row, column, repeat ? LANES : left, repeat ? repeat : 1, false});
                column += repeat ? repeat * LANES : left;
            }
}

// Rows of a tile, and their tensors in the temporary space.
struct RowWork {
    Site site;
    Floats spread, blocks, values, wide, second;  // [rows, 64], [rows, 8], [rows], and two times [rows, stride]
    void barrier() const { AscendC::asim_barrier(site); }
    // One word for each part: d = s combined with the value of its row, or of its column.
    void binary(Binary word, const RowShape &shape, const Floats &d, const Floats &s, const Floats &other, bool by_row) const {
        over(shape, [&](const RowPart &part) {
            set_mask(part.elements);
            int64_t step = part.step<float>(shape), still = part.across != by_row ? 0 : 8;
            asim::binary(site, word, part.of(d, shape), part.of(s, shape), by_row ? part.of_row(other) : part.of_column(other), part.repeat,
                         AscendC::BinaryRepeatParams(1, 1, 1, step, step, still));
        });
        barrier();
    }
    void both(Binary word, const RowShape &shape, const Floats &d, const Floats &a, const Floats &b) const {
        over(shape, [&](const RowPart &part) {
            set_mask(part.elements);
            int64_t step = part.step<float>(shape);
            asim::binary(site, word, part.of(d, shape), part.of(a, shape), part.of(b, shape), part.repeat,
                         AscendC::BinaryRepeatParams(1, 1, 1, step, step, step));
        });
        barrier();
    }
    void exp(const RowShape &shape, const Floats &d, const Floats &s) const {
        over(shape, [&](const RowPart &part) {
            set_mask(part.elements);
            int64_t step = part.step<float>(shape);
            asim::unary(site, Word::vexp, part.of(d, shape), part.of(s, shape), part.repeat, AscendC::UnaryRepeatParams(1, 1, step, step));
        });
        barrier();
    }
    template <class D, class S> void cast(const RowShape &shape, const LocalTensor<D> &d, const LocalTensor<S> &s, AscendC::RoundMode mode) const {
        over(shape, [&](const RowPart &part) {
            set_mask(part.elements);
            convert(site, part.of(d, shape), part.of(s, shape), mode, part.repeat,
                    AscendC::UnaryRepeatParams(1, 1, part.step<D>(shape), part.step<S>(shape)));
        });
        barrier();
    }
    void set_mask(int64_t elements) const { mask_of_count(site, elements); }
    void reduce_repeats(Reduction word, const Floats &d, const Floats &s, int64_t elements, int64_t repeat, int64_t step) const {
        for (int64_t done = 0; done < repeat; done += 255) {
            int64_t here = repeat - done < 255 ? repeat - done : 255;
            set_mask(elements);
            AscendC::asim_reduce(site, word, d[done], s[done * step * 8], here, step, 0);
        }
    }
    // values[row] = a reduction of the row; `word` is that of one repeat, `fold` that of two operands.
    void reduce(Reduction word, Binary fold, const RowShape &shape, const Floats &s) const {
        AscendC::Duplicate(values, 0.0f, (shape.rows + 7) / 8 * 8, site);
        barrier();
        if (shape.stride / 8 > 255) return reduce_long(word, shape, s);
        if (shape.columns <= LANES) {
            reduce_repeats(word, values, s, shape.columns, shape.rows, shape.stride / 8);
            return barrier();
        }
        int64_t step = shape.stride / 8;
        for (int64_t column = LANES; column < shape.columns; column += LANES) {
            int64_t left = shape.columns - column;
            bool first = column == LANES;
            if (first && left < LANES) {  // lanes that the fold does not reach
                set_mask(LANES);
                AscendC::asim_copy_rows(site, spread, s, shape.rows, 8, step);
                barrier();
            }
            set_mask(left < LANES ? left : LANES);
            asim::binary(site, fold, spread, first && left >= LANES ? s : spread, s[column], shape.rows,
                         AscendC::BinaryRepeatParams(1, 1, 1, 8, first && left >= LANES ? step : 8, step));
            barrier();
        }
        reduce_repeats(word, values, spread, LANES, shape.rows, 8);
        barrier();
    }
    void reduce_long(Reduction word, const RowShape &shape, const Floats &s) const {
        for (int64_t row = 0; row < shape.rows; row++) {
            Floats from = s[row * shape.stride];
            bool odd = false;
            for (int64_t left = shape.columns; left > 1;) {
                int64_t whole = left / LANES, rest = left % LANES, made = whole + (rest > 0);
                Floats to = made == 1 ? values[row] : spread[odd ? LONG_HALF : 0];
                if (whole) reduce_repeats(word, to, from, LANES, whole, 8);
                if (rest) reduce_repeats(word, to[whole], from[whole * LANES], rest, 1, 8);
                barrier();
                from = to, left = made, odd = !odd;
            }
        }
    }
    // The value of each row in all lanes of `spread`: by blocks of 8.
    void lanes(int64_t rows, const Floats &from, int64_t step = 1) const {
        set_mask(8);
        for (int64_t block = 0; block < 8; block++) AscendC::asim_copy_rows(site, spread[block * 8], from, rows, 8, step);
        barrier();
    }
    void spread_values(int64_t rows) const {
        AscendC::Brcb(blocks, values, (rows + 7) / 8, {1, 8}, site);
        barrier();
        lanes(rows, blocks);
    }
    void of_values(WithScalar word, float scalar, int64_t rows) const {
        asim::Counted around(site, rows, false);
        asim::scalar(site, word, values, values, scalar, 1, {});
        barrier();
    }
};

template <class T> constexpr bool is_half = std::is_same_v<T, half>;
template <class T> constexpr bool is_row_type = is_half<T> || std::is_same_v<T, float>;
#define ASIM_ROW_TYPE(Name, T) static_assert(asim::is_row_type<T>, Name " takes half and float on this architecture")

// Run `body` over tiles of rows: (work, first row, shape of the tile). `wides` tensors of the tile's size come with it, and
// `more` floats beside them; a tile that is not the last has a multiple of `unit` rows.
template <class T, class Body> inline void over_tiles(Site site, const char *call, const RowShape &shape, const Temporary &space,
                                                      const RowNeeds &needs, const Body &body) {
    constexpr int64_t MOST_COLUMNS = LONG_HALF * LANES;
    if (shape.rows < 1 || shape.columns < 1 || shape.stride < shape.columns || shape.stride % IN_BLOCK<T>)
        refuse(site, "%s: %lld rows of %lld elements, %lld apart; at least 1, and rows of whole blocks of 32 bytes", call,
               (long long)shape.rows, (long long)shape.columns, (long long)shape.stride);
    if (shape.columns > MOST_COLUMNS)
        refuse(site, "%s: rows of %lld elements are not simulated; of at most %lld are", call, (long long)shape.columns, (long long)MOST_COLUMNS);
    auto bytes = [&](int64_t rows) { return 4 * (needs.more + (rows + 7) / 8 * 8 * (LANES + 8 + 1) + needs.wides * rows * shape.stride); };
    int64_t least = shape.rows < needs.unit ? shape.rows : needs.unit, most = shape.rows;
    check_temporary(site, call, space, bytes(least));
    while (most > ROWS_TOGETHER || bytes(most) > space.bytes) most = (most - 1) / needs.unit * needs.unit;
    int64_t next = space.start + needs.more * 4, padded = (most + 7) / 8 * 8;
    auto take = [&](int64_t count) { return next += count * 4, floats(next - count * 4, count); };
    RowWork work = {site, take(padded * LANES), take(padded * 8), take(padded)};
    if (needs.wides > 0) work.wide = take(most * shape.stride);
    if (needs.wides > 1) work.second = take(most * shape.stride);
    for (int64_t first = 0; first < shape.rows; first += most)
        body(work, first, RowShape{shape.rows - first < most ? shape.rows - first : most, shape.columns, shape.stride});
    set_vector_mask(site, -1, -1);
}
template <class T> inline void check_size(Site site, const char *call, const char *what, const LocalTensor<T> &tensor, int64_t least) {
    if ((int64_t)tensor.GetSize() < least)
        refuse(site, "%s: %s has %u elements; the shape needs %lld", call, what, tensor.GetSize(), (long long)least);
}
inline RowShape softmax_shape(Site site, const char *call, const AscendC::tiling::SoftMaxTiling &tiling, const AscendC::SoftMaxShapeInfo &info) {
    int64_t rows = info.srcM ? info.srcM : tiling.srcM, stride = info.srcK ? info.srcK : tiling.srcK;
    if (!rows || !stride) refuse(site, "%s: neither the tiling nor SoftMaxShapeInfo has srcM and srcK", call);
    return {info.oriSrcM ? info.oriSrcM : rows, info.oriSrcK ? info.oriSrcK : stride, stride};
}
// A value of each row as a block of 32 bytes.
template <class V> inline void put_blocks(const RowWork &work, const LocalTensor<V> &out, int64_t first, int64_t rows) {
    if constexpr (is_half<V>) {
        LocalTensor<half> narrow = work.spread.ReinterpretCast<half>(), wide = narrow[ROWS_TOGETHER + 16];
        AscendC::Cast(narrow, work.values, AscendC::RoundMode::CAST_RINT, (rows + 7) / 8 * 8, work.site);
        work.barrier();
        AscendC::Brcb(wide, narrow, (rows + 7) / 8, {1, 8}, work.site);
        work.barrier();
        AscendC::Adds(out[first * 16], wide, half(0), rows * 16, work.site);
    } else {
        AscendC::Brcb(work.blocks, work.values, (rows + 7) / 8, {1, 8}, work.site);
        work.barrier();
        AscendC::Adds(out[first * 8], work.blocks, 0.0f, rows * 8, work.site);
    }
    work.barrier();
}
template <class V> inline void put_values(const RowWork &work, const LocalTensor<V> &out, int64_t first, int64_t rows) {
    if constexpr (is_half<V>) AscendC::Cast(out[first], work.values, AscendC::RoundMode::CAST_RINT, rows, work.site);
    else AscendC::Adds(out[first], work.values, 0.0f, rows, work.site);
    work.barrier();
}
// Rows as float32: half is widened into `work.wide`.
template <class T> inline Floats widened(const RowWork &work, const RowShape &shape, const LocalTensor<T> &src) {
    if constexpr (is_half<T>) return work.cast(shape, work.wide, src, AscendC::RoundMode::CAST_NONE), work.wide;
    else return src;
}
template <class T> inline void narrowed(const RowWork &work, const RowShape &shape, const LocalTensor<T> &dst, const Floats &from) {
    if constexpr (is_half<T>) work.cast(shape, dst, from, AscendC::RoundMode::CAST_RINT);
}

// exp(x - max) / sum, with the largest element and the sum of each row.
template <class T, class V> inline void softmax(Site site, const LocalTensor<T> &dst, const LocalTensor<V> *sum, const LocalTensor<V> *max,
                                                const LocalTensor<T> &src, const Temporary &space, const RowShape &shape) {
    check_size(site, "SoftMax", "the source", src, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, "SoftMax", "the destination", dst, (shape.rows - 1) * shape.stride + shape.columns);
    if (sum) check_size(site, "SoftMax", "sumTensor", *sum, shape.rows * IN_BLOCK<V>);
    if (max) check_size(site, "SoftMax", "maxTensor", *max, shape.rows * IN_BLOCK<V>);
    over_tiles<T>(site, "SoftMax", shape, space, {is_half<T>, 0, 1}, [&](const RowWork &work, int64_t first, const RowShape &tile) {
        Floats x = widened(work, tile, src[first * shape.stride]), y = x;
        if constexpr (!is_half<T>) y = dst[first * shape.stride];
        work.reduce(Word::vcmax, Word::vmax, tile, x);
        if (max) put_blocks(work, *max, first, tile.rows);
        work.spread_values(tile.rows);
        work.binary(Word::vsub, tile, y, x, work.spread, true);
        work.exp(tile, y, y);
        work.reduce(Word::vcadd, Word::vadd, tile, y);
        if (sum) put_blocks(work, *sum, first, tile.rows);
        work.spread_values(tile.rows);
        work.binary(Word::vdiv, tile, y, y, work.spread, true);
        narrowed(work, tile, dst[first * shape.stride], y);
    });
}
template <class T, class V> inline void simple_softmax(Site site, const LocalTensor<T> &dst, const LocalTensor<V> &sum,
                                                       const LocalTensor<V> &max, const LocalTensor<T> &src, const Temporary &space,
                                                       const RowShape &shape) {
    check_size(site, "SimpleSoftMax", "inSumTensor", sum, shape.rows * IN_BLOCK<V>);
    check_size(site, "SimpleSoftMax", "inMaxTensor", max, shape.rows * IN_BLOCK<V>);
    int64_t most = !is_half<V> ? 0 : shape.rows < ROWS_TOGETHER ? shape.rows : ROWS_TOGETHER;
    over_tiles<T>(site, "SimpleSoftMax", shape, space, {is_half<T>, most * 16, 1},
                  [&](const RowWork &work, int64_t first, const RowShape &tile) {
        Floats x = widened(work, tile, src[first * shape.stride]), y = x;
        if constexpr (!is_half<T>) y = dst[first * shape.stride];
        auto spread = [&](const LocalTensor<V> &values) {
            if constexpr (is_half<V>) {
                Floats wide = floats(space.start, tile.rows * 16);
                AscendC::Cast(wide, values[first * 16], AscendC::RoundMode::CAST_NONE, tile.rows * 16, site);
                work.barrier();
                work.lanes(tile.rows, wide, 2);
            } else work.lanes(tile.rows, values[first * 8]);
        };
        spread(max);
        work.binary(Word::vsub, tile, y, x, work.spread, true);
        work.exp(tile, y, y);
        spread(sum);
        work.binary(Word::vdiv, tile, y, y, work.spread, true);
        narrowed(work, tile, dst[first * shape.stride], y);
    });
}

// A reduction of each row, times a factor.
template <class T> inline void reduce_rows(Site site, const char *call, Reduction word, Binary fold, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                           const Temporary &space, const RowShape &shape, float factor = 1) {
    check_size(site, call, "the source", src, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "the destination", dst, shape.rows);
    over_tiles<T>(site, call, shape, space, {is_half<T>, 0, IN_BLOCK<T>}, [&](const RowWork &work, int64_t first, const RowShape &tile) {
        work.reduce(word, fold, tile, widened(work, tile, src[first * shape.stride]));
        if (factor != 1) work.of_values(Word::vmuls, factor, tile.rows);
        put_values(work, dst, first, tile.rows);
    });
}
// A reduction of each column.
template <class T> inline void reduce_columns(Site site, const char *call, Binary fold, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                              const RowShape &shape, float factor = 1) {
    check_size(site, call, "the source", src, (shape.rows - 1) * shape.stride + shape.columns);
    check_size(site, call, "the destination", dst, shape.columns);
    AscendC::Adds(dst, src, T(0), shape.columns, site);
    for (int64_t row = 1; row < shape.rows; row++) {
        AscendC::asim_barrier(site);
        asim::Counted around(site, shape.columns, true);
        asim::binary(site, fold, dst, dst, src[row * shape.stride], 1, {});
    }
    AscendC::asim_barrier(site);
    if (factor == 1) return;
    AscendC::Muls(dst, dst, T(factor), shape.columns, site);
    AscendC::asim_barrier(site);
}
template <class T, class pattern> inline void reduce(Site site, const char *call, Reduction word, Binary fold, const LocalTensor<T> &dst,
                                                     const LocalTensor<T> &src, const Temporary &space, const uint32_t shape[], bool padded, bool mean) {
    constexpr bool rows = std::is_same_v<pattern, AscendC::Pattern::Reduce::AR>;
    static_assert(rows || std::is_same_v<pattern, AscendC::Pattern::Reduce::RA>, "the patterns AR and RA are simulated");
    int64_t stride = shape[1];
    if (padded) stride = (stride + IN_BLOCK<T> - 1) / IN_BLOCK<T> * IN_BLOCK<T>;
    if (stride % IN_BLOCK<T>) refuse(site, "%s: rows of %u elements are not whole blocks of 32 bytes; srcInnerPad true says that they are filled up", call, shape[1]);
    RowShape given = {shape[0], shape[1], stride};
    if (rows) reduce_rows(site, call, word, fold, dst, src, space, given, mean ? 1.0f / shape[1] : 1);
    else reduce_columns(site, call, fold, dst, src, given, mean ? 1.0f / shape[0] : 1);
}

}  // namespace asim

namespace AscendC {

#define ASIM_SOFTMAX_CHECKS(T, NZ, config)                                                                                  \
    ASIM_ROW_TYPE("SoftMax", T);                                                                                            \
    static_assert(!NZ, "SoftMax of the NZ format is not simulated; isDataFormatNZ false is");                               \
    static_assert(config.mode == SoftmaxMode::SOFTMAX_NORMAL, "SOFTMAX_OUTPUT_WITHOUT_BRC is not simulated; SOFTMAX_NORMAL is")
// With sum and largest element of each row (of the source's type, or float of half), or without; with temporary space or not.
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, class V = T>
inline void SoftMax(const LocalTensor<T> &dst, const LocalTensor<V> &sumTensor, const LocalTensor<V> &maxTensor, const LocalTensor<T> &src,
                    const LocalTensor<uint8_t> &sharedTmpBuffer, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, isDataFormatNZ, config);
    asim::softmax(site, dst, &sumTensor, &maxTensor, src, asim::temporary(sharedTmpBuffer), asim::softmax_shape(site, "SoftMax", tiling, info));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, class V = T>
inline void SoftMax(const LocalTensor<T> &dst, const LocalTensor<V> &sumTensor, const LocalTensor<V> &maxTensor, const LocalTensor<T> &src,
                    const SoftMaxTiling &tiling, const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, isDataFormatNZ, config);
    asim::softmax(site, dst, &sumTensor, &maxTensor, src, asim::temporary(site, "SoftMax"), asim::softmax_shape(site, "SoftMax", tiling, info));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer, const SoftMaxTiling &tiling,
                    const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, false, config);
    const LocalTensor<T> *none = nullptr;
    asim::softmax(site, dst, none, none, src, asim::temporary(sharedTmpBuffer), asim::softmax_shape(site, "SoftMax", tiling, info));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG>
inline void SoftMax(const LocalTensor<T> &dst, const LocalTensor<T> &src, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, false, config);
    const LocalTensor<T> *none = nullptr;
    asim::softmax(site, dst, none, none, src, asim::temporary(site, "SoftMax"), asim::softmax_shape(site, "SoftMax", tiling, info));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, class V = T>
inline void SimpleSoftMax(const LocalTensor<T> &dst, const LocalTensor<V> &inSumTensor, const LocalTensor<V> &inMaxTensor, const LocalTensor<T> &src,
                          const LocalTensor<uint8_t> &sharedTmpBuffer, const SoftMaxTiling &tiling, const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, isDataFormatNZ, config);
    asim::simple_softmax(site, dst, inSumTensor, inMaxTensor, src, asim::temporary(sharedTmpBuffer), asim::softmax_shape(site, "SimpleSoftMax", tiling, info));
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG, class V = T>
inline void SimpleSoftMax(const LocalTensor<T> &dst, const LocalTensor<V> &inSumTensor, const LocalTensor<V> &inMaxTensor, const LocalTensor<T> &src,
                          const SoftMaxTiling &tiling, const SoftMaxShapeInfo &info = {}, ASIM_SITE) {
    ASIM_SOFTMAX_CHECKS(T, isDataFormatNZ, config);
    asim::simple_softmax(site, dst, inSumTensor, inMaxTensor, src, asim::temporary(site, "SimpleSoftMax"), asim::softmax_shape(site, "SimpleSoftMax", tiling, info));
}
#undef ASIM_SOFTMAX_CHECKS


// The first n of `inner` elements of each of `outter` rows.
template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer, const SumParams &p, ASIM_SITE) {
    ASIM_ROW_TYPE("Sum", T);
    asim::reduce_rows(site, "Sum", asim::Word::vcadd, asim::Word::vadd, dst, src, asim::temporary(sharedTmpBuffer), {p.outter, p.n, p.inner});
}
template <class T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
inline void Sum(const LocalTensor<T> &dst, const LocalTensor<T> &src, const SumParams &p, ASIM_SITE) {
    ASIM_ROW_TYPE("Sum", T);
    asim::reduce_rows(site, "Sum", asim::Word::vcadd, asim::Word::vadd, dst, src, asim::temporary(site, "Sum"), {p.outter, p.n, p.inner});
}
template <class T, class accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer, const MeanParams &p, ASIM_SITE) {
    ASIM_ROW_TYPE("Mean", T);
    asim::reduce_rows(site, "Mean", asim::Word::vcadd, asim::Word::vadd, dst, src, asim::temporary(sharedTmpBuffer), {p.outter, p.n, p.inner}, 1.0f / p.n);
}
template <class T, class accType = T, bool isReuseSource = false, bool isBasicBlock = false, int32_t reduceDim = -1>
inline void Mean(const LocalTensor<T> &dst, const LocalTensor<T> &src, const MeanParams &p, ASIM_SITE) {
    ASIM_ROW_TYPE("Mean", T);
    asim::reduce_rows(site, "Mean", asim::Word::vcadd, asim::Word::vadd, dst, src, asim::temporary(site, "Mean"), {p.outter, p.n, p.inner}, 1.0f / p.n);
}

#define ASIM_PATTERN(Name, word, fold, mean, types, said)                                                                   \
    template <class T, class pattern, bool isReuseSource = false>                                                           \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const LocalTensor<uint8_t> &sharedTmpBuffer,     \
                     const uint32_t srcShape[], bool srcInnerPad, ASIM_SITE) {                                              \
        static_assert(types, #Name " with a pattern takes " said " on this architecture");                                  \
        asim::reduce<T, pattern>(site, #Name, asim::Word::word, asim::Word::fold, dst, src, asim::temporary(sharedTmpBuffer), srcShape, srcInnerPad, mean); \
    }                                                                                                                       \
    template <class T, class pattern, bool isReuseSource = false>                                                           \
    inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t srcShape[], bool srcInnerPad, ASIM_SITE) { \
        static_assert(types, #Name " with a pattern takes " said " on this architecture");                                  \
        asim::reduce<T, pattern>(site, #Name, asim::Word::word, asim::Word::fold, dst, src, asim::temporary(site, #Name), srcShape, srcInnerPad, mean); \
    }
ASIM_PATTERN(ReduceSum, vcadd, vadd, false, (std::is_same_v<T, float>), "float")
ASIM_PATTERN(ReduceMean, vcadd, vadd, true, (std::is_same_v<T, float>), "float")
ASIM_PATTERN(ReduceMax, vcmax, vmax, false, asim::is_row_type<T>, "half and float")
ASIM_PATTERN(ReduceMin, vcmin, vmin, false, asim::is_row_type<T>, "half and float")
#undef ASIM_PATTERN

// A row or a column of a matrix, or one element, over the whole of it.
template <class T> inline void asim_broadcast(asim::Site site, int dim, int axis, const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                              const uint32_t to[], const uint32_t from[], const asim::Temporary &space) {
    ASIM_ROW_TYPE("Broadcast", T);
    const char *call = "Broadcast";
    int64_t rows = dim == 2 ? to[0] : 1, columns = to[dim - 1], given = (dim == 2 ? from[0] : 1) * (int64_t)from[dim - 1];
    for (int i = 0; i < dim; i++)
        if (from[i] != to[i] && (from[i] != 1 || (dim == 2 && i != axis)))
            asim::refuse(site, "Broadcast: axis %d has %u elements and is to have %u; axis %d alone grows, from 1", i, from[i], to[i], axis);
    asim::check_size(site, call, "the source", src, given);
    asim::check_size(site, call, "the destination", dst, rows * columns);
    constexpr int64_t BLOCK = asim::IN_BLOCK<T>;
    if (given == rows * columns) return Adds(dst, src, T(0), given, site), asim_barrier(site);
    if (given == 1) {
        asim_between(site, HardEvent::V_S);
        T value = src.GetValue(0, site);
        asim_between(site, HardEvent::S_V);
        return Duplicate(dst, value, rows * columns, site), asim_barrier(site);
    }
    if (columns % BLOCK)
        asim::refuse(site, "Broadcast: rows of %lld elements are not simulated; rows of whole blocks of 32 bytes are", (long long)columns);
    if (axis == 0) {
        for (int64_t row = 0; row < rows; row++) Adds(dst[row * columns], src, T(0), columns, site);
        return asim_barrier(site);
    }
    int64_t blocks = (rows + 7) / 8;
    asim::check_temporary(site, call, space, blocks * 8 * (32 + (int64_t)sizeof(T)));
    LocalTensor<T> column(TPosition::VECCALC, space.start, blocks * 8 * BLOCK), values(TPosition::VECCALC, space.start + blocks * 256, blocks * 8);
    Duplicate(values, T(0), blocks * 8, site);
    asim_barrier(site);
    Adds(values, src, T(0), rows, site);
    asim_barrier(site);
    Brcb(column, values, blocks, {1, 8}, site);
    asim_barrier(site);
    asim::mask_of_count(site, BLOCK);
    int64_t step = columns / BLOCK;
    for (int64_t first = 0; first < rows; first += 255)
        for (int64_t at = 0; at < step; at++) {
            if (step <= 255) asim_copy_rows(site, dst[first * columns + at * BLOCK], column[first * BLOCK], rows - first < 255 ? rows - first : 255, step, 1);
            else for (int64_t row = first; row < rows && row < first + 255; row++)
                asim_copy_rows(site, dst[row * columns + at * BLOCK], column[row * BLOCK], 1, 8, 8);
        }
    asim::set_vector_mask(site, -1, -1);
    asim_barrier(site);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                      LocalTensor<uint8_t> &sharedTmpBuffer, ASIM_SITE) {
    static_assert((dim == 1 || dim == 2) && axis >= 0 && axis < dim, "Broadcast: dim is 1 or 2, and axis is smaller");
    asim_broadcast(site, dim, axis, dst, src, dstShape, srcShape, asim::temporary(sharedTmpBuffer));
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void Broadcast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t dstShape[dim], const uint32_t srcShape[dim], ASIM_SITE) {
    static_assert((dim == 1 || dim == 2) && axis >= 0 && axis < dim, "Broadcast: dim is 1 or 2, and axis is smaller");
    asim_broadcast(site, dim, axis, dst, src, dstShape, srcShape, asim::temporary(site, "Broadcast"));
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                      LocalTensor<uint8_t> &sharedTmpBuffer, ASIM_SITE) {
    Broadcast<T, dim, axis>(dst, src, dstShape, srcShape, sharedTmpBuffer, site);
}
template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>
inline void BroadCast(const LocalTensor<T> &dst, const LocalTensor<T> &src, const uint32_t dstShape[dim], const uint32_t srcShape[dim], ASIM_SITE) {
    Broadcast<T, dim, axis>(dst, src, dstShape, srcShape, site);
}

}  // namespace AscendC
