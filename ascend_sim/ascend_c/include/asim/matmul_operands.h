// Types, tiling and operands of a Matmul, on a cube core and on a vector core.
#pragma once
#include "asim/copy.h"
#include "asim/matmul_config.h"

namespace AscendC {

enum class CubeFormat { ND = 0, NZ, ZN, ZZ, NN, ND_ALIGN, SCALAR, VECTOR, ROW_MAJOR = 0, COLUMN_MAJOR = 8 };
enum class LayoutMode { NONE = 0, BSNGD, SBNGD, BNGS1S2, NORMAL };
template <TPosition POSITION, CubeFormat FORMAT, class TYPE, bool ISTRANS = false, LayoutMode LAYOUT = LayoutMode::NONE,
          bool IBSHARE = false, TPosition SRCPOS = TPosition::GM>
struct MatmulType {
    static constexpr TPosition pos = POSITION, srcPos = SRCPOS;
    static constexpr CubeFormat format = FORMAT;
    using T = TYPE;
    static constexpr bool isTrans = ISTRANS, ibShare = IBSHARE;
    static constexpr LayoutMode layout = LAYOUT;
};
namespace tiling {
struct TCubeTiling {
    int32_t usedCoreNum = 0, M = 0, N = 0, Ka = 0, Kb = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, baseM = 0, baseN = 0;
    int32_t baseK = 0, depthA1 = 0, depthB1 = 0, stepM = 0, stepN = 0, isBias = 0, transLength = 0, iterateOrder = 0, shareMode = 0;
    int32_t shareL1Size = 0, shareL0CSize = 0, shareUbSize = 0, batchM = 0, batchN = 0, singleBatchM = 0, singleBatchN = 0, stepKa = 0;
    int32_t stepKb = 0, depthAL1CacheUB = 0, depthBL1CacheUB = 0, dbL0A = 0, dbL0B = 0, dbL0C = 0, ALayoutInfoB = 0, ALayoutInfoS = 0;
    int32_t ALayoutInfoN = 0, ALayoutInfoG = 0, ALayoutInfoD = 0, BLayoutInfoB = 0, BLayoutInfoS = 0, BLayoutInfoN = 0;
    int32_t BLayoutInfoG = 0, BLayoutInfoD = 0, CLayoutInfoB = 0, CLayoutInfoS1 = 0, CLayoutInfoN = 0, CLayoutInfoG = 0;
    int32_t CLayoutInfoS2 = 0, BatchNum = 0, mxTypePara = 0;
};
}  // namespace tiling

}  // namespace AscendC
using TCubeTiling = AscendC::tiling::TCubeTiling;
using AscendC::CubeFormat;

namespace asim {

inline int64_t up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
inline int64_t pieces_of(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
inline int64_t part_of(int64_t whole, int64_t unit, int64_t index) { return whole - index * unit < unit ? whole - index * unit : unit; }
// The Matmul whose tile lies in L0C until GetTensorC or End; tiles of all objects lie at the same place.
inline const void *of_l0c = nullptr;
inline void fills_l0c(Site site, const void *matmul) {
    if (of_l0c && of_l0c != matmul) refuse(site, "Matmul: L0C holds a tile of another object; its GetTensorC or End comes first");
    of_l0c = matmul;
}
inline void left_l0c(const void *matmul) {
    if (of_l0c == matmul) of_l0c = nullptr;
}

constexpr bool reaches(AscendC::TPosition position) {
    return position == AscendC::TPosition::GM || hardware_of(position) == AscendC::Hardware::UB;
}
template <class A, class B, class C, class Bias> struct MatmulTypes {
    using T = typename A::T;
    static_assert(std::is_same_v<T, typename B::T>, "Matmul: A and B are of one type");
    static constexpr bool BYTES = std::is_same_v<T, int8_t>;
    static_assert(BYTES || is_float<T>, "Matmul: A and B are half, bfloat16_t, float or int8_t");
    using Sum = std::conditional_t<BYTES, int32_t, float>;
    using Out = typename C::T;
    // Whole columns of fractals in GM, whose sides fill fractals (public documentation); and a result in L0C, a tensor of the kernel's.
    static constexpr bool NZ_A = A::format == CubeFormat::NZ, NZ_B = B::format == CubeFormat::NZ, NZ_C = C::format == CubeFormat::NZ;
    static constexpr bool IN_L0C = C::pos == AscendC::TPosition::CO1;
    static constexpr bool SCALED = BYTES && (std::is_same_v<Out, half> || std::is_same_v<Out, int8_t>);
    static_assert(BYTES ? std::is_same_v<Out, int32_t> || SCALED : is_float<Out>,
                  "Matmul: C is half, bfloat16_t or float; of int8_t it is int32_t, half or int8_t");
    static_assert(reaches(A::pos) && reaches(B::pos) && (reaches(C::pos) || IN_L0C) && (reaches(Bias::pos) || IN_L0C),
                  "Matmul: A, B, C and the bias at TPosition::GM, VECIN, VECOUT and VECCALC are simulated, and C at CO1");
    static_assert((A::format == CubeFormat::ND || NZ_A) && (B::format == CubeFormat::ND || NZ_B) &&
                      (C::format == CubeFormat::ND || C::format == CubeFormat::ND_ALIGN || NZ_C),
                  "Matmul: A, B and C in CubeFormat::ND and NZ are simulated");
    static_assert((!NZ_A || A::pos == AscendC::TPosition::GM) && (!NZ_B || B::pos == AscendC::TPosition::GM) &&
                      (!NZ_C || C::pos == AscendC::TPosition::GM || IN_L0C),
                  "Matmul: CubeFormat::NZ in the Unified Buffer is not simulated; in GM it is");
    static_assert(!IN_L0C || (NZ_C && std::is_same_v<Out, Sum>), "Matmul: C at CO1 is in CubeFormat::NZ, of float or int32_t");
    static_assert(A::layout == AscendC::LayoutMode::NONE && B::layout == AscendC::LayoutMode::NONE, "Matmul: batches are not simulated");
};

// Operands and shapes of a product: what the calls of a Matmul set before they compute, on a cube core and on a vector core.
template <class A, class B, class C, class Bias> class MatmulOperands : public MatmulTypes<A, B, C, Bias> {
public:
    using T = typename A::T;
    using BiasT = typename Bias::T;
    void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k); }
    void SetOrgShape(int m, int n, int ka, int kb, int kc = 0) { org_m_ = m, org_n_ = n, org_ka_ = ka, org_kb_ = kb, org_c_ = kc ? kc : n; }
    void SetSingleShape(int m, int n, int k, ASIM_SITE) {
        if (m < 1 || n < 1 || k < 1) refuse(site, "Matmul: a single shape of %d x %d x %d; each is at least 1", m, n, k);
        m_ = m, n_ = n, k_ = k;
        restart();
    }
    void SetTail(int m = -1, int n = -1, int k = -1) {
        if (m != -1) m_ = m;
        if (n != -1) n_ = n;
        if (k != -1) k_ = k;
        restart();
    }
    void SetTensorA(const AscendC::GlobalTensor<T> &gm, bool transposed = false, ASIM_SITE) {
        if (transposed && !A::isTrans) refuse(site, "SetTensorA: isTransposeA true; the MatmulType of A says isTrans false");
        a_ = gm, a_turned_ = transposed;
        restart();
    }
    void SetTensorB(const AscendC::GlobalTensor<T> &gm, bool transposed = false, ASIM_SITE) {
        if (transposed && !B::isTrans) refuse(site, "SetTensorB: isTransposeB true; the MatmulType of B says isTrans false");
        b_ = gm, b_turned_ = transposed;
        restart();
    }
    void SetBias(const AscendC::GlobalTensor<BiasT> &bias, ASIM_SITE) {
        using Sum = typename MatmulTypes<A, B, C, Bias>::Sum;
        static_assert(std::is_same_v<BiasT, Sum> || (std::is_same_v<Sum, float> && is_float<BiasT>),
                      "Matmul: the bias is half or float; of int8_t int32_t");
        if (live_ && !tiling_.isBias) refuse(site, "SetBias: the tiling says isBias 0");
        bias_ = bias, has_bias_ = true;
    }
    // Scales of a product of int8_t, of which a C of half or int8_t is made: one for all, or one a column.
    void SetQuantScalar(uint64_t scale) { scale_ = scale, scales_ = {}; }
    void SetQuantVector(const AscendC::GlobalTensor<uint64_t> &scales) { scales_ = scales, scale_ = 0; }
    void DisableBias() { has_bias_ = false; }
    void ClearBias() { has_bias_ = false; }
    // Data that only callbacks and other architectures use; here without effect.
    void SetSubBlockIdx(uint8_t) {}
    void SetUserDefInfo(uint64_t) {}
    template <class D> void SetSelfDefineData(D) {}
    void SetLocalWorkspace(const AscendC::LocalTensor<uint8_t> &) {}

protected:
    void begin_with(Site site, const TCubeTiling *tiling) {
        tiling_ = *tiling;
        SetSingleShape(tiling_.singleCoreM, tiling_.singleCoreN, tiling_.singleCoreK, site);
        SetOrgShape(tiling_.M, tiling_.N, tiling_.Ka, tiling_.Kb);
        live_ = true;
    }
    void expect_operands(Site site, const char *call) const {
        if (!live_) refuse(site, "%s: the Matmul was not initialised; REGIST_MATMUL_OBJ or Init does it", call);
        if (!a_.GetPhyAddr() || !b_.GetPhyAddr()) refuse(site, "%s: SetTensorA and SetTensorB come first", call);
        if (MatmulTypes<A, B, C, Bias>::SCALED && !scale_ && !scales_.GetPhyAddr())
            refuse(site, "%s: C of int8_t operands is half or int8_t; SetQuantScalar or SetQuantVector comes first", call);
    }
    int64_t tile_rows() const { return pieces_of(m_, tiling_.baseM); }
    int64_t tile_columns() const { return pieces_of(n_, tiling_.baseN); }
    int64_t row_of(int64_t tile) const { return tiling_.iterateOrder != 1 ? tile % tile_rows() : tile / tile_columns(); }
    int64_t column_of(int64_t tile) const { return tiling_.iterateOrder != 1 ? tile / tile_rows() : tile % tile_columns(); }
    void restart() { started_ = -1, row_ = -1, fresh_ = true; }

    TCubeTiling tiling_;
    AscendC::GlobalTensor<T> a_, b_;
    AscendC::GlobalTensor<BiasT> bias_;
    AscendC::GlobalTensor<uint64_t> scales_;
    uint64_t scale_ = 0;
    bool a_turned_ = false, b_turned_ = false, has_bias_ = false, live_ = false, fresh_ = true;
    int64_t m_ = 0, n_ = 0, k_ = 0, org_m_ = 0, org_n_ = 0, org_ka_ = 0, org_kb_ = 0, org_c_ = 0;
    int64_t started_ = -1, row_ = -1;  // the tile that was computed last, and its row of tiles
};

}  // namespace asim
