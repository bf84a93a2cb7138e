// Matmul on a cube core: tiles of baseM x baseN, pieces of baseK through L1 and both halves of L0A and L0B. Order of words, flags
// and addresses for GM operands of half in rows are those of tests/ascend_c/matmul_words.json; other operands are assumed.
#pragma once
#include "asim/cube.h"
#include "asim/matmul_config.h"
#include "asim/pipe.h"

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

// Rooms in L1 for the pieces of an operand. A row of tiles keeps all its pieces of K if they fit; else rooms are used in turn.
struct PieceRooms {
    static constexpr int MOST = 64;
    int64_t start = 0, bytes = 0;
    int count = 0, held[MOST], event[MOST], next = 0;  // number of the piece (-1: none), and the flag that frees a room (-1: none)
    bool whole = false;
    void begin(int64_t at, int64_t size, int rooms, bool keeps) {
        start = at, bytes = size, count = rooms, whole = keeps, next = 0;
        for (int i = 0; i < MOST; i++) held[i] = event[i] = -1;
    }
};

template <class A, class B, class C, class Bias> struct MatmulTypes {
    using T = typename A::T;
    static_assert(std::is_same_v<T, typename B::T>, "Matmul: A and B are of one type");
    static constexpr bool BYTES = std::is_same_v<T, int8_t>;
    static_assert(BYTES || is_float<T>, "Matmul: A and B are half, bfloat16_t, float or int8_t");
    using Sum = std::conditional_t<BYTES, int32_t, float>;
    using Out = typename C::T;
    static_assert(BYTES ? std::is_same_v<Out, int32_t> : is_float<Out>,
                  "Matmul: C is half, bfloat16_t or float; of int8_t it is int32_t (scales are not simulated)");
    static_assert(A::pos == AscendC::TPosition::GM && B::pos == AscendC::TPosition::GM && C::pos == AscendC::TPosition::GM,
                  "Matmul: A, B and C at TPosition::GM are simulated");
    static_assert(A::format == CubeFormat::ND && B::format == CubeFormat::ND && (C::format == CubeFormat::ND || C::format == CubeFormat::ND_ALIGN),
                  "Matmul: A, B and C in CubeFormat::ND are simulated");
    static_assert(A::layout == AscendC::LayoutMode::NONE && B::layout == AscendC::LayoutMode::NONE, "Matmul: batches are not simulated");
    static_assert(std::is_same_v<typename Bias::T, Sum> || (!BYTES && is_float<typename Bias::T>), "Matmul: the bias is half or float; of int8_t int32_t");
};

}  // namespace asim

namespace AscendC {

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto &MM_CFG = CFG_NORM>
class MatmulImpl : asim::MatmulTypes<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE> {
    using Types = asim::MatmulTypes<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>;
    using T = typename Types::T;
    using Sum = typename Types::Sum;
    using Out = typename Types::Out;
    using BiasT = typename BIAS_TYPE::T;
    static constexpr int64_t C0 = 32 / sizeof(T), HALF_L0 = 32768;
    static constexpr bool UNIT_FLAG = asim_checked<MM_CFG>::unit_flag;

public:
    void Init(const TCubeTiling *tiling, TPipe *pipe = nullptr, ASIM_SITE) {
        asim::marked<asim::CUBE_CALLS>();
        if (!asim::ON_CUBE)
            asim::refuse(site, "Matmul on a vector core, which asks a cube core by messages, is not simulated; KERNEL_TYPE_AIC_ONLY is, "
                               "and code that ASCEND_IS_AIC guards");
        if (!asim::pool) asim::refuse(site, "Matmul: there is no TPipe; make one before REGIST_MATMUL_OBJ or Init");
        tiling_ = *tiling;
        check(site);
        SetSingleShape(tiling_.singleCoreM, tiling_.singleCoreN, tiling_.singleCoreK, site);
        SetOrgShape(tiling_.M, tiling_.N, tiling_.Ka, tiling_.Kb);
        SetMMLayoutTransform(true, site);
        live_ = true;
    }
    void SetOrgShape(int m, int n, int k) { SetOrgShape(m, n, k, k); }
    void SetOrgShape(int m, int n, int ka, int kb, int kc = 0) { org_m_ = m, org_n_ = n, org_ka_ = ka, org_kb_ = kb, org_c_ = kc ? kc : n; }
    void SetSingleShape(int m, int n, int k, ASIM_SITE) {
        if (m < 1 || n < 1 || k < 1) asim::refuse(site, "Matmul: a single shape of %d x %d x %d; each is at least 1", m, n, k);
        m_ = m, n_ = n, k_ = k;
        restart();
    }
    void SetTail(int m = -1, int n = -1, int k = -1) {
        if (m != -1) m_ = m;
        if (n != -1) n_ = n;
        if (k != -1) k_ = k;
        restart();
    }
    void SetTensorA(const GlobalTensor<T> &gm, bool transposed = false, ASIM_SITE) {
        if (transposed && !A_TYPE::isTrans) asim::refuse(site, "SetTensorA: isTransposeA true; the MatmulType of A says isTrans false");
        a_ = gm, a_turned_ = transposed;
        restart();
    }
    void SetTensorB(const GlobalTensor<T> &gm, bool transposed = false, ASIM_SITE) {
        if (transposed && !B_TYPE::isTrans) asim::refuse(site, "SetTensorB: isTransposeB true; the MatmulType of B says isTrans false");
        b_ = gm, b_turned_ = transposed;
        restart();
    }
    void SetBias(const GlobalTensor<BiasT> &bias, ASIM_SITE) {
        if (!tiling_.isBias && on()) asim::refuse(site, "SetBias: the tiling says isBias 0");
        bias_ = bias, has_bias_ = true;
    }
    void DisableBias() { has_bias_ = false; }
    void ClearBias() { has_bias_ = false; }
    void SetHF32(bool on = false, int32_t transMode = 0, ASIM_SITE) {
        SetHF32Mode(on, site);
        if (transMode) SetHF32TransMode(true, site);
    }
    // Calls for vector cores, which ask a cube core by messages; here without effect.
    void SetSubBlockIdx(uint8_t) {}
    void SetUserDefInfo(uint64_t) {}
    template <class D> void SetSelfDefineData(D) {}
    template <class D> void SetWorkspace(D *, int) {}
    template <class D> void SetWorkspace(const GlobalTensor<D> &) {}
    void SetLocalWorkspace(const LocalTensor<uint8_t> &) {}
    // Compute the next tile; false behind the last one.
    template <bool sync = true> bool Iterate(bool enPartialSum = false, ASIM_SITE) {
        if (!on()) return false;
        if (!live_) asim::refuse(site, "Iterate: the Matmul was not initialised; REGIST_MATMUL_OBJ or Init does it");
        if (!a_.GetPhyAddr() || !b_.GetPhyAddr()) asim::refuse(site, "Iterate: SetTensorA and SetTensorB come first");
        int64_t rows = asim::pieces_of(m_, tiling_.baseM), columns = asim::pieces_of(n_, tiling_.baseN);
        if (started_ < 0) begin(site);
        if (++started_ >= rows * columns) return free_rooms(site), started_ = -1, false;
        bool rows_first = tiling_.iterateOrder != 1;
        int64_t row = rows_first ? started_ % rows : started_ / columns, column = rows_first ? started_ / rows : started_ % columns;
        compute(site, row, column, enPartialSum);
        return true;
    }
    template <bool sync = true> void GetTensorC(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASIM_SITE) {
        if (!on()) return;
        if (row_ < 0) asim::refuse(site, "GetTensorC: there is no tile; Iterate computes one");
        drain(site, gm, enAtomic, enSequentialWrite);
    }
    template <bool sync = true>
    void IterateAll(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool = false, bool = false, ASIM_SITE) {
        while (Iterate<sync>(false, site)) drain(site, gm, enAtomic, enSequentialWrite);
    }
    void End(ASIM_SITE) {
        if (!on() || !live_) return;
        free_rooms(site);
        asim_pair(site, HardEvent::FIX_M, queue_event(site, HardEvent::FIX_M));
        SetMMLayoutTransform(false, site);
        live_ = false;
    }

private:
    static bool on() { return asim::ON_CUBE; }
    void restart() { started_ = -1, row_ = -1; }
    static void asim_pair(asim::Site site, HardEvent event, int id) { asim::set_flag(site, event, id), asim::wait_flag(site, event, id); }
    void check(asim::Site site) const {
        const TCubeTiling &t = tiling_;
        if (t.baseM < 1 || t.baseN < 1 || t.baseK < 1 || t.depthA1 < 1 || t.depthB1 < 1)
            asim::refuse(site, "Matmul: baseM %d, baseN %d, baseK %d, depthA1 %d, depthB1 %d; each is at least 1", t.baseM, t.baseN, t.baseK,
                         t.depthA1, t.depthB1);
        if (t.baseM % 16 || t.baseN % 16 || t.baseK % C0 || (t.baseN % C0) || (t.baseM % C0))
            asim::refuse(site, "Matmul: baseM %d, baseN %d, baseK %d; they are multiples of 16, and of the %d elements of 32 bytes", t.baseM,
                         t.baseN, t.baseK, (int)C0);
        int64_t halves[2] = {t.dbL0A > 1 ? 2 : 1, t.dbL0B > 1 ? 2 : 1}, sizes[2] = {(int64_t)t.baseM * t.baseK, (int64_t)t.baseN * t.baseK};
        for (int i = 0; i < 2; i++)
            if (sizes[i] * (int64_t)sizeof(T) * halves[i] > asim::bytes_of(i ? Hardware::L0B : Hardware::L0A))
                asim::refuse(site, "Matmul: %lld x %lld bytes of a piece of %s do not fit into %s", (long long)halves[i],
                             (long long)(sizes[i] * sizeof(T)), i ? "B" : "A", i ? "L0B" : "L0A");
        if ((int64_t)t.baseM * t.baseN * 4 * (t.dbL0C > 1 ? 2 : 1) > asim::bytes_of(Hardware::L0C))
            asim::refuse(site, "Matmul: a tile of %d x %d does not fit into L0C (dbL0C %d)", t.baseM, t.baseN, t.dbL0C);
        if (t.isBias && t.baseN * 4 > asim::bytes_of(Hardware::BIAS))
            asim::refuse(site, "Matmul: a bias of %d elements does not fit into the bias table", t.baseN);
    }
    // Make rooms for pieces: for all of K if stepKa (stepKb) covers it, else depthA1 (depthB1) of them.
    void begin(asim::Site site) {
        int64_t pieces = asim::pieces_of(k_, tiling_.baseK), next = asim::pool->used[(int)Hardware::L1];
        int64_t sizes[2] = {(int64_t)tiling_.baseM * asim::up(tiling_.baseK, 16) * (int64_t)sizeof(T),
                            (int64_t)tiling_.baseN * asim::up(tiling_.baseK, 16) * (int64_t)sizeof(T)};
        int depths[2] = {tiling_.depthA1, tiling_.depthB1}, steps[2] = {tiling_.stepKa, tiling_.stepKb};
        for (int side = 0; side < 2; side++) {
            bool keeps = pieces <= steps[side] && pieces <= depths[side];
            int count = keeps ? (int)pieces : depths[side] < asim::PieceRooms::MOST ? depths[side] : asim::PieceRooms::MOST;
            rooms_[side].begin(next, sizes[side], count, keeps);
            next += sizes[side] * (keeps ? pieces : count);
        }
        bias_room_ = next;
        next += tiling_.isBias ? asim::up(tiling_.baseN * (int64_t)sizeof(BiasT), 64) : 0;
        if (next > asim::bytes_of(Hardware::L1))
            asim::refuse(site, "Matmul: pieces of A (depthA1 %d) and B (depthB1 %d) end at %lld; L1 has %lld bytes", depths[0], depths[1],
                         (long long)next, (long long)asim::bytes_of(Hardware::L1));
        last_[0] = last_[1] = -1;
        bias_event_ = -1;
        if (a_turned_ && (m_ % 16 || k_ % 16)) clear(site, rooms_[0].start, rooms_[0].bytes * rooms_[0].count);
        if ((b_turned_ || Types::BYTES) && (n_ % 16 || k_ % 16)) clear(site, rooms_[1].start, rooms_[1].bytes * rooms_[1].count);
        if (tiling_.isBias && n_ * sizeof(BiasT) % 64) clear(site, bias_room_, asim::up(tiling_.baseN * (int64_t)sizeof(BiasT), 64));
    }
    // Zero a room: fractals and biases are loaded whole, but copies do not fill all of a room.
    void clear(asim::Site site, int64_t start, int64_t bytes) {
        LocalTensor<half> all(TPosition::A1, start, bytes / 2);
        InitConstValue(all, InitConstValueParams<half>(1, bytes / 32, 0, 0), site);
        asim::record(site, asim::Word::own_barrier_);
        asim::record(site, asim::Word::pipe_barrier, {0}, {(int64_t)PIPE_MTE2});
    }
    void release(asim::Site site, int side, int room) {
        asim::PieceRooms &rooms = rooms_[side];
        rooms.event[room] = asim::pool->take_queue_event(site, HardEvent::MTE1_MTE2);
        asim::set_flag(site, HardEvent::MTE1_MTE2, rooms.event[room]);
        rooms.held[room] = -1;
    }
    void reclaim(asim::Site site, int &event) {
        if (event < 0) return;
        asim::wait_flag(site, HardEvent::MTE1_MTE2, event);
        asim::pool->release_event(HardEvent::MTE1_MTE2, event);
        event = -1;
    }
    void free_rooms(asim::Site site) {
        for (int side = 0; side < 2; side++) {
            asim::PieceRooms &rooms = rooms_[side];
            if (rooms.whole && rooms.held[0] >= 0) release(site, side, 0);
        }
        for (int side = 0; side < 2; side++)
            for (int room = 0; room < rooms_[side].count; room++) {
                rooms_[side].held[room] = -1;
                reclaim(site, rooms_[side].event[room]);
            }
        reclaim(site, bias_event_);
    }
    // Address of a piece in L1; it is loaded if no room has it.
    template <class Load> int64_t piece(asim::Site site, int side, int64_t tile, int64_t number, const Load &load) {
        asim::PieceRooms &rooms = rooms_[side];
        int room = rooms.whole ? (int)number : rooms.next;
        int64_t address = rooms.start + rooms.bytes * room;
        if (rooms.whole) {
            if (last_[side] != tile && number == 0) {
                reclaim(site, rooms.event[0]);
                for (int i = 0; i < rooms.count; i++) rooms.held[i] = -1;
            }
            last_[side] = tile;
            if (rooms.held[room] >= 0) return address;
            rooms.held[room] = (int)number;
        } else reclaim(site, rooms.event[room]);
        load(address);
        asim_pair(site, HardEvent::MTE2_MTE1, queue_event(site, HardEvent::MTE2_MTE1));
        return address;
    }
    static int queue_event(asim::Site site, HardEvent event) {
        int id = asim::pool->take_queue_event(site, event);
        asim::pool->release_event(event, id);
        return id;
    }
    void done(asim::Site site, int side) {
        asim::PieceRooms &rooms = rooms_[side];
        if (rooms.whole) return;
        release(site, side, rooms.next);
        rooms.next = (rooms.next + 1) % rooms.count;
    }
    LocalTensor<T> at(TPosition position, int64_t address) const { return LocalTensor<T>(position, address, 1 << 16); }
    // Rows [rows, columns] of GM as fractals in L1.
    void fractals(asim::Site site, const GlobalTensor<T> &from, int64_t address, int64_t rows, int64_t columns, int64_t width) {
        int64_t step = width <= 65535 ? width : 0;
        if (rows > 1 && !step) asim::refuse(site, "Matmul: rows of %lld elements; the copy to L1 counts to 65535", (long long)width);
        DataCopy(at(TPosition::A1, address), from, Nd2NzParams(1, rows, columns, 0, step, asim::up(rows, 16), 1, 0), site);
    }
    void compute(asim::Site site, int64_t row, int64_t column, bool partial) {
        int64_t m = asim::part_of(m_, tiling_.baseM, row), n = asim::part_of(n_, tiling_.baseN, column), pieces = asim::pieces_of(k_, tiling_.baseK);
        row_ = row, column_ = column;
        place_ = tiling_.dbL0C > 1 ? (place_ + HALF_L0 * 2) % (HALF_L0 * 4) : 0;
        leave(site, 0, row);
        leave(site, 1, column);
        for (int64_t number = 0; number < pieces; number++) {
            int64_t k = asim::part_of(k_, tiling_.baseK, number), start = number * tiling_.baseK;
            int64_t left = piece(site, 0, row, number, [&](int64_t address) {
                int64_t first = row * tiling_.baseM;
                if (a_turned_) fractals(site, a_[start * org_m_ + first], address, k, m, org_m_);
                else fractals(site, a_[first * org_ka_ + start], address, m, k, org_ka_);
            });
            int64_t right = piece(site, 1, column, number, [&](int64_t address) {
                int64_t first = column * tiling_.baseN;
                if (b_turned_) fractals(site, b_[first * org_kb_ + start], address, n, k, org_kb_);
                else fractals(site, b_[start * org_n_ + first], address, k, n, org_n_);
            });
            if (number == 0 && has_bias_ && !partial) bring_bias(site, column, n);
            int ping = ping_, id = tiling_.dbL0A > 1 || tiling_.dbL0B > 1 ? ping : 0;
            LocalTensor<T> l0a = at(TPosition::A2, tiling_.dbL0A > 1 ? HALF_L0 * ping : 0), l0b = at(TPosition::B2, tiling_.dbL0B > 1 ? HALF_L0 * ping : 0);
            ping_ = !ping_;
            load(site, l0a, l0b, left, right, m, n, k, id);
            asim_pair(site, HardEvent::MTE1_M, id);
            bool last = number + 1 == pieces, first = number == 0 && !partial;
            MmadParams p(m, n, k, UNIT_FLAG ? last ? 3 : 2 : 0, false, first && !has_bias_);
            LocalTensor<Sum> sum(TPosition::CO1, place_, 1 << 15);
            if (first && has_bias_) {
                LocalTensor<Sum> table(TPosition::C2, 0, n);
                Mmad(sum, l0a, l0b, table, p, site);
                asim::set_flag(site, HardEvent::M_MTE1, 2);
            } else Mmad(sum, l0a, l0b, p, site);
            asim::set_flag(site, HardEvent::M_MTE1, id);
            done(site, 0);
            done(site, 1);
        }
    }
    // Give the room of an operand back when the tiles go on to another row (column) of it.
    void leave(asim::Site site, int side, int64_t tile) {
        if (rooms_[side].whole && last_[side] >= 0 && last_[side] != tile) release(site, side, 0);
    }
    void bring_bias(asim::Site site, int64_t column, int64_t n) {
        LocalTensor<BiasT> room(TPosition::C1, bias_room_, n);
        LocalTensor<Sum> table(TPosition::C2, 0, n);
        reclaim(site, bias_event_);
        DataCopy(room, bias_[column * tiling_.baseN], Nd2NzParams(1, 1, n, 0, n, 1, 1, 0), site);
        asim_pair(site, HardEvent::MTE2_MTE1, queue_event(site, HardEvent::MTE2_MTE1));
        asim::wait_flag(site, HardEvent::M_MTE1, 2);
        DataCopy(table, room, DataCopyParams(1, asim::pieces_of(n * sizeof(BiasT), 64), 0, 0), site);
        bias_event_ = asim::pool->take_queue_event(site, HardEvent::MTE1_MTE2);
        asim::set_flag(site, HardEvent::MTE1_MTE2, bias_event_);
    }
    // Bring both pieces into L0A and L0B: by LoadData 3D where the operand lies as the unit takes it.
    void load(asim::Site site, const LocalTensor<T> &l0a, const LocalTensor<T> &l0b, int64_t left, int64_t right, int64_t m, int64_t n, int64_t k, int id) {
        static constexpr uint8_t NONE[4] = {0, 0, 0, 0};
        int64_t rows = asim::up(m, 16), deep = asim::up(k, C0), wide = asim::up(n, 16);
        bool by_map = !b_turned_ && !Types::BYTES;
        if (!a_turned_) SetFmatrix(1, rows, NONE, FmatrixMode::FMATRIX_LEFT, site);
        if (by_map) SetFmatrix(1, asim::up(k, 16), NONE, FmatrixMode::FMATRIX_RIGHT, site);
        asim::wait_flag(site, HardEvent::M_MTE1, id);
        if (!a_turned_) {
            LoadData(l0a, at(TPosition::A1, left),
                     LoadData3DParamsV2Pro(deep, false, false, false, false, false, (uint64_t)deep | (uint64_t)m << 16, 0x10101010101ull), site);
        } else turned(site, l0a, at(TPosition::A1, left), rows, k, true);
        if (by_map) {
            int64_t columns = asim::up(n, C0);
            LoadData(l0b, at(TPosition::B1, right),
                     LoadData3DParamsV2Pro(columns, false, false, false, false, true, (uint64_t)columns | (uint64_t)k << 16, 0x10101010101ull), site);
        } else if (b_turned_) {
            LoadData(l0b, at(TPosition::B1, right), LoadData2DParams(0, deep / C0 * (wide / 16), 1, 0, 0, false, 0), site);
        } else turned(site, l0b, at(TPosition::B1, right), wide, k, false);
    }
    // Fractals [outer][K] in L1, turned into [outer][K] of L0A or [K][outer] of L0B.
    void turned(asim::Site site, const LocalTensor<T> &to, const LocalTensor<T> &from, int64_t outer, int64_t k, bool left) {
        if constexpr (sizeof(T) == 4) {
            asim::refuse(site, "Matmul: A of float transposed is not simulated");
        } else if constexpr (sizeof(T) == 2) {
            int64_t deep = asim::pieces_of(k, 16), across = outer / 16;
            for (int64_t i = 0; i < (left ? across : deep); i++) {
                if (left) LoadData(to[i * deep * 256], from[i * deep * 256], LoadData2DParams(0, deep, 1, 0, 0, true, 0), site);
                else LoadData(to[i * across * 256], from[i * 256], LoadData2DParams(0, across, deep, 0, 0, true, 0), site);
            }
        } else if (left) {
            asim::refuse(site, "Matmul: A of int8_t transposed is not simulated");
        } else {
            int64_t deep = asim::pieces_of(k, 32), across = asim::pieces_of(outer, 32), high = asim::up(k, 16) / 32;
            if (k % 32 || outer % 32) asim::refuse(site, "Matmul: B of int8_t with K or N of a tile that is no multiple of 32 is not simulated, but transposed");
            for (int64_t i = 0; i < deep; i++)
                LoadDataWithTranspose(to[i * across * 1024], from[i * 1024], LoadData2dTransposeParams(0, across, high, 1, 0), site);
        }
    }
    void drain(asim::Site site, const GlobalTensor<Out> &gm, uint8_t atomic, bool sequential) {
        int64_t m = asim::part_of(m_, tiling_.baseM, row_), n = asim::part_of(n_, tiling_.baseN, column_);
        int64_t width = sequential ? tiling_.baseN : org_c_;
        LocalTensor<Sum> sum(TPosition::CO1, place_, 1 << 15);
        FixpipeParamsV220 p(n, m, asim::up(m, 16), width, false);
        p.deqScalar = 0;
        if (std::is_same_v<Out, half>) p.quantPre = F322F16;
        if (std::is_same_v<Out, bfloat16_t>) p.quantPre = F322BF16;
        p.unitFlag = UNIT_FLAG ? 3 : 0;
        if (!UNIT_FLAG) asim_pair(site, HardEvent::M_FIX, queue_event(site, HardEvent::M_FIX));
        if (atomic) SetAtomicAdd<Out>(site);
        Fixpipe(sequential ? gm : gm[row_ * tiling_.baseM * org_c_ + column_ * tiling_.baseN], sum, p, site);
        if (atomic) SetAtomicNone(site);
        if (!UNIT_FLAG) asim_pair(site, HardEvent::FIX_M, queue_event(site, HardEvent::FIX_M));
    }

    TCubeTiling tiling_;
    GlobalTensor<T> a_, b_;
    GlobalTensor<BiasT> bias_;
    bool a_turned_ = false, b_turned_ = false, has_bias_ = false, live_ = false;
    int64_t m_ = 0, n_ = 0, k_ = 0, org_m_ = 0, org_n_ = 0, org_ka_ = 0, org_kb_ = 0, org_c_ = 0;
    int64_t started_ = -1, row_ = -1, column_ = -1, place_ = 0, bias_room_ = 0, last_[2] = {-1, -1};
    int ping_ = 0, bias_event_ = -1;
    asim::PieceRooms rooms_[2];
};
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto &MM_CFG = CFG_NORM>
using Matmul = MatmulImpl<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG>;

inline void asim_register(asim::Site, TPipe *) {}
template <class M, class... Rest> inline void asim_register(asim::Site site, TPipe *pipe, M &one, const TCubeTiling *tiling, Rest &...rest) {
    if (tiling) one.Init(tiling, pipe, site);
    asim_register(site, pipe, rest...);
}
template <class M> inline void asim_register(asim::Site, TPipe *, M &) {}

}  // namespace AscendC
namespace matmul = AscendC;
#define REGIST_MATMUL_OBJ(pipe, workspace, ...) AscendC::asim_register(asim::Site::here(), pipe, __VA_ARGS__)
