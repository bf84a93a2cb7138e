// Matmul on a cube core: tiles of baseM x baseN, pieces of baseK through L1 and both halves of L0A and L0B. Order of words, flags
// and addresses for GM operands of half in rows are those of tests/ascend_c/matmul_words.json; other operands are assumed.
#pragma once
#include "asim/cube.h"
#include "asim/matmul_messages.h"
#include "asim/matmul_operands.h"
#include "asim/pipe.h"

namespace asim {

// Rooms in L1 for the pieces of an operand. A row of tiles keeps all its pieces of K if they fit; else rooms are used in turn.
// A flag frees as many rooms together as a step has pieces, and more where an operand would need more than three flags.
struct PieceRooms {
    static constexpr int MOST = 64, FLAGS = 3;
    int64_t start = 0, bytes = 0;
    int count = 0, held[MOST], event[MOST], next = 0;  // number of the piece (-1: none), and the flag that frees a group (-1: none)
    int group = 1;
    bool whole = false;
    void begin(int64_t at, int64_t size, int rooms, int step, bool keeps) {
        start = at, bytes = size, count = rooms, whole = keeps, next = 0;
        group = keeps ? rooms : step * FLAGS < rooms ? (rooms + FLAGS - 1) / FLAGS : step < 1 ? 1 : step;
        for (int i = 0; i < MOST; i++) held[i] = event[i] = -1;
    }
};

}  // namespace asim

namespace AscendC {
#ifdef __DAV_CUBE__

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto &MM_CFG = CFG_NORM>
class MatmulImpl : public asim::MatmulOperands<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE> {
    using Types = asim::MatmulOperands<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>;
    using T = typename Types::T;
    using Sum = typename Types::Sum;
    using Out = typename Types::Out;
    using BiasT = typename Types::BiasT;
    using Types::a_, Types::b_, Types::bias_, Types::a_turned_, Types::b_turned_, Types::has_bias_, Types::live_, Types::tiling_;
    using Types::m_, Types::n_, Types::k_, Types::org_m_, Types::org_n_, Types::org_ka_, Types::org_kb_, Types::org_c_;
    using Types::started_, Types::row_, Types::restart;
    static constexpr int64_t C0 = 32 / sizeof(T), HALF_L0 = 32768;
    static constexpr bool UNIT_FLAG = asim_checked<MM_CFG>::unit_flag && !Types::IN_L0C;
    static constexpr int64_t ROWS = Types::BYTES ? 32 : 16;  // of a square that is transposed
    static constexpr int64_t NZ_WIDTH = sizeof(Out) == 1 ? 32 : 16;  // columns of a column of fractals of the result
    static constexpr const FixpipeConfig &LAYOUT = Types::NZ_C ? CFG_NZ : CFG_ROW_MAJOR;

public:
    using Types::SetTensorA, Types::SetTensorB, Types::SetBias, Types::SetQuantVector;
    void Init(const TCubeTiling *tiling, TPipe * = nullptr, ASIM_SITE) {
        asim::marked<asim::CUBE_CALLS>();
        if (!asim::pool) asim::refuse(site, "Matmul: there is no TPipe; make one before REGIST_MATMUL_OBJ or Init");
        tiling_ = *tiling;
        check(site);
        Types::begin_with(site, tiling);
        SetMMLayoutTransform(true, site);
    }
    void SetTensorA(const LocalTensor<T> &, bool = false, ASIM_SITE) { no_local(site, "SetTensorA"); }
    void SetTensorB(const LocalTensor<T> &, bool = false, ASIM_SITE) { no_local(site, "SetTensorB"); }
    void SetBias(const LocalTensor<BiasT> &, ASIM_SITE) { no_local(site, "SetBias"); }
    void SetQuantVector(const LocalTensor<uint64_t> &, ASIM_SITE) { no_local(site, "SetQuantVector"); }
    void SetHF32(bool on = false, int32_t transMode = 0, ASIM_SITE) {
        SetHF32Mode(on, site);
        if (transMode) SetHF32TransMode(true, site);
    }
    template <class D> void SetWorkspace(D *, int) {}
    template <class D> void SetWorkspace(const GlobalTensor<D> &) {}
    // Compute the next tile; false behind the last one.
    template <bool sync = true> bool Iterate(bool enPartialSum, const LocalTensor<Sum> &tile, ASIM_SITE) {
        static_assert(Types::IN_L0C, "Matmul: Iterate into a tensor: the MatmulType of C says TPosition::CO1");
        if (!on()) return false;
        asim::expect(site, "Iterate", "tensor", asim::place_of(tile), Hardware::L0C);
        place_ = asim::at(tile);
        return next_tile(site, enPartialSum);
    }
    template <bool sync = true> bool Iterate(bool enPartialSum = false, ASIM_SITE) {
        if (!on()) return false;
        if (Types::IN_L0C) asim::refuse(site, "Matmul: C at TPosition::CO1: Iterate takes a tensor of L0C, and Fixpipe stores it");
        return next_tile(site, enPartialSum);
    }
    template <bool sync = true> void GetTensorC(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASIM_SITE) {
        if (!on()) return;
        if (row_ < 0) asim::refuse(site, "GetTensorC: there is no tile; Iterate computes one");
        drain(site, gm, enAtomic, enSequentialWrite);
    }
    template <bool sync = true>
    void IterateAll(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool = false, bool = false, ASIM_SITE) {
        while (Iterate<sync>(false, site))
            drain(site, enSequentialWrite ? gm[started_ * tiling_.baseM * tiling_.baseN] : gm, enAtomic, enSequentialWrite);
    }
    template <bool sync = true> void IterateAll(const LocalTensor<Out> &, uint8_t = 0, ASIM_SITE) { no_local(site, "IterateAll"); }
    template <bool sync = true> void GetTensorC(const LocalTensor<Out> &, uint8_t = 0, bool = false, ASIM_SITE) { no_local(site, "GetTensorC"); }
    template <bool sync = true>
    void GetTensorC(const GlobalTensor<Out> &, const LocalTensor<Out> &, uint8_t = 0, bool = false, ASIM_SITE) { no_local(site, "GetTensorC"); }
    template <bool sync = true> GlobalTensor<Out> GetTensorC(uint8_t = 0, bool = false, ASIM_SITE) {
        no_local(site, "GetTensorC without a destination");
        return {};
    }
    void WaitIterateAll() {}
    void WaitGetTensorC() {}
    void End(ASIM_SITE) {
        if (!on() || !live_) return;
        free_rooms(site);
        asim_pair(site, HardEvent::FIX_M, queue_event(site, HardEvent::FIX_M));
        SetMMLayoutTransform(false, site);
        asim::left_l0c(this);
        restart();
    }

private:
    friend struct asim::MatmulServer;
    bool next_tile(asim::Site site, bool partial) {
        Types::expect_operands(site, "Iterate");
        if (started_ < 0) begin(site);
        if (++started_ >= Types::tile_rows() * Types::tile_columns()) return free_rooms(site), started_ = -1, false;
        compute(site, Types::row_of(started_), Types::column_of(started_), partial);
        return true;
    }
    // Compute for a vector core: its operands and shapes stand in the message.
    void serve(asim::Site site, const asim::MatmulMessage &message, int64_t core) {
        using asim::MatmulMessage;
        if (message.asks & MatmulMessage::TILING) return Init(&message.tiling, nullptr, site);
        if (message.asks & (MatmulMessage::TILE | MatmulMessage::ALL)) {
            if (!live_) asim::refuse(site, "Matmul: its vector core asks for products, and its tiling is not known here; REGIST_MATMUL_OBJ takes it");
            if (message.fresh || core != served_) {
                rest(site);
                restart();
                a_.SetGlobalBuffer((T *)message.a), b_.SetGlobalBuffer((T *)message.b), bias_.SetGlobalBuffer((BiasT *)message.bias);
                a_turned_ = message.turned & 1, b_turned_ = message.turned & 2, has_bias_ = message.has_bias;
                m_ = message.m, n_ = message.n, k_ = message.k, org_m_ = message.org_m, org_n_ = message.org_n;
                org_ka_ = message.org_ka, org_kb_ = message.org_kb, org_c_ = message.org_c;
                Types::scale_ = message.scale, Types::scales_.SetGlobalBuffer((uint64_t *)message.scales);
                if (message.hf32 != hf32_) SetHF32(hf32_ = message.hf32, 0, site);
                served_ = core;
                if (message.tile) begin(site), started_ = message.tile - 1;
            }
        }
        GlobalTensor<Out> to;
        to.SetGlobalBuffer((Out *)message.c);
        if (message.asks & MatmulMessage::ALL) IterateAll(to, message.atomic, message.sequential, false, false, site);
        if (message.asks & MatmulMessage::TILE) Iterate(message.partial, site);
        if (message.asks & MatmulMessage::RESULT) GetTensorC(to, message.atomic, message.sequential, site);
    }
    // Leave L1 to another Matmul.
    void rest(asim::Site site) { free_rooms(site); }
    static bool on() { return asim::ON_CUBE && !asim::matmuls_served; }
    static void no_local(asim::Site site, const char *call) {
        if (on())
            asim::refuse(site, "%s of a tensor in the Unified Buffer on a cube core; vector cores have it, where REGIST_MATMUL_OBJ "
                               "stands in code of both cores", call);
    }
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
        free_rooms(site);
        int64_t pieces = asim::pieces_of(k_, tiling_.baseK), next = asim::pool->used[(int)Hardware::L1];
        int64_t sizes[2] = {(int64_t)tiling_.baseM * asim::up(tiling_.baseK, 16) * (int64_t)sizeof(T),
                            (int64_t)tiling_.baseN * asim::up(tiling_.baseK, 16) * (int64_t)sizeof(T)};
        int depths[2] = {tiling_.depthA1, tiling_.depthB1}, steps[2] = {tiling_.stepKa, tiling_.stepKb};
        for (int side = 0; side < 2; side++) {
            bool keeps = pieces <= steps[side] && pieces <= depths[side];
            int count = keeps ? (int)pieces : depths[side] < asim::PieceRooms::MOST ? depths[side] : asim::PieceRooms::MOST;
            rooms_[side].begin(next, sizes[side], count, steps[side], keeps);
            next += sizes[side] * (keeps ? pieces : count);
        }
        bias_room_ = next;
        next += tiling_.isBias ? asim::up(tiling_.baseN * (int64_t)sizeof(BiasT), 64) : 0;
        scale_room_ = next;
        next += Types::SCALED ? asim::up(tiling_.baseN * 8, 128) : 0;
        if (next > asim::bytes_of(Hardware::L1))
            asim::refuse(site, "Matmul: pieces of A (depthA1 %d) and B (depthB1 %d) end at %lld; L1 has %lld bytes", depths[0], depths[1],
                         (long long)next, (long long)asim::bytes_of(Hardware::L1));
        last_[0] = last_[1] = -1;
        bias_event_ = -1;
        if (a_turned_ && k_ % ROWS) clear(site, rooms_[0].start, rooms_[0].bytes * rooms_[0].count);
        if (b_turned_ ? n_ % 16 : Types::BYTES && k_ % ROWS) clear(site, rooms_[1].start, rooms_[1].bytes * rooms_[1].count);
        if (Types::scales_.GetPhyAddr() && n_ * 8 % 128) clear(site, scale_room_, asim::up(tiling_.baseN * 8, 128));
        if (tiling_.isBias && n_ * sizeof(BiasT) % (Types::BYTES ? 128 : 64)) clear(site, bias_room_, asim::up(tiling_.baseN * (int64_t)sizeof(BiasT), 64));
    }
    // Zero a room: fractals and biases are loaded whole, and copies fill whole columns of fractals but no rows beyond an operand's.
    void clear(asim::Site site, int64_t start, int64_t bytes) {
        LocalTensor<half> all(TPosition::A1, start, bytes / 2);
        InitConstValue(all, InitConstValueParams<half>(1, bytes / 32, 0, 0), site);
        asim::Word::own_barrier_(site, {.with_flags = false});
        asim::Word::pipe_barrier(site, {.pipe = PIPE_MTE2});
    }
    void release(asim::Site site, int side, int room) {
        asim::PieceRooms &rooms = rooms_[side];
        int &event = rooms.event[room / rooms.group];
        event = asim::pool->take_queue_event(site, HardEvent::MTE1_MTE2);
        asim::set_flag(site, HardEvent::MTE1_MTE2, event);
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
            if (rooms.next % rooms.group) release(site, side, rooms.next - 1);
            rooms.next = 0;
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
        } else if (room % rooms.group == 0) reclaim(site, rooms.event[room / rooms.group]);
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
        int room = rooms.next;
        rooms.next = (room + 1) % rooms.count;
        if (rooms.next % rooms.group == 0) release(site, side, room);
    }
    LocalTensor<T> at(TPosition position, int64_t address) const { return LocalTensor<T>(position, address, 1 << 16); }
    // A piece (first row and column, rows and columns) of a matrix of `whole` rows and columns in GM as columns of fractals in L1,
    // each of the piece's rows, rounded up to `unit`.
    template <bool nz>
    void bring(asim::Site site, const GlobalTensor<T> &from, int64_t address, const int64_t (&piece)[4], const int64_t (&whole)[2], int64_t unit) {
        auto [row, column, rows, columns] = piece;
        int64_t height = asim::up(rows, unit), filled = asim::up(rows, 16);
        if constexpr (nz) {
            int64_t high = asim::up(whole[0], 16);
            if (whole[1] % C0 || whole[0] % 16)
                asim::refuse(site, "Matmul: CubeFormat::NZ of %lld x %lld; rows are a multiple of 16, columns of %d", (long long)whole[0],
                             (long long)whole[1], (int)C0);
            if (high - filled > 65535) asim::refuse(site, "Matmul: NZ of %lld rows; the gap of a copy to L1 counts to 65535", (long long)high);
            DataCopyParams p(asim::pieces_of(columns, C0), filled, high - filled, height - filled);
            DataCopy(at(TPosition::A1, address), from[column * high + row * C0], p, site);
        } else {
            int64_t width = whole[1], step = width <= 65535 ? width : 0;
            if (rows > 1 && !step) asim::refuse(site, "Matmul: rows of %lld elements; the copy to L1 counts to 65535", (long long)width);
            DataCopy(at(TPosition::A1, address), from[row * width + column], Nd2NzParams(1, rows, columns, 0, step, height, 1, 0), site);
        }
    }
    void compute(asim::Site site, int64_t row, int64_t column, bool partial) {
        int64_t m = asim::part_of(m_, tiling_.baseM, row), n = asim::part_of(n_, tiling_.baseN, column), pieces = asim::pieces_of(k_, tiling_.baseK);
        row_ = row, column_ = column;
        if (!Types::IN_L0C) {
            asim::fills_l0c(site, this);
            if (!partial) place_ = tiling_.dbL0C > 1 ? (place_ + HALF_L0 * 2) % (HALF_L0 * 4) : 0;
        }
        int64_t wide = Types::BYTES && !b_turned_ ? asim::up(n, ROWS) : n;  // columns of whole squares
        leave(site, 0, row);
        leave(site, 1, column);
        for (int64_t number = 0; number < pieces; number++) {
            int64_t k = asim::part_of(k_, tiling_.baseK, number), start = number * tiling_.baseK;
            int64_t left = piece(site, 0, row, number, [&](int64_t address) {
                int64_t first = row * tiling_.baseM;
                if (a_turned_) bring<Types::NZ_A>(site, a_, address, {start, first, k, m}, {org_ka_, org_m_}, ROWS);
                else bring<Types::NZ_A>(site, a_, address, {first, start, m, k}, {org_m_, org_ka_}, 16);
            });
            int64_t right = piece(site, 1, column, number, [&](int64_t address) {
                int64_t first = column * tiling_.baseN;
                if (b_turned_) bring<Types::NZ_B>(site, b_, address, {first, start, n, k}, {org_n_, org_kb_}, 16);
                else bring<Types::NZ_B>(site, b_, address, {start, first, k, n}, {org_kb_, org_n_}, ROWS);
            });
            if (number == 0 && has_bias_ && !partial) bring_bias(site, column, n, wide);
            int id = tiling_.dbL0A > 1 && tiling_.dbL0B > 1 ? ping_ : 0;  // one flag for both: halves of one alone are not used (assumed)
            LocalTensor<T> l0a = at(TPosition::A2, HALF_L0 * id), l0b = at(TPosition::B2, HALF_L0 * id);
            ping_ = !ping_;
            load(site, l0a, l0b, left, right, m, wide, k, id);
            asim_pair(site, HardEvent::MTE1_M, id);
            bool last = number + 1 == pieces, first = number == 0 && !partial;
            MmadParams p(m, wide, k, UNIT_FLAG ? last ? 3 : 2 : 0, false, first && !has_bias_);
            p.asim_goes_on = UNIT_FLAG && partial;  // how the library hands such a tile on is not documented (assumed: it goes on)
            LocalTensor<Sum> sum(TPosition::CO1, place_, 1 << 15);
            // A tile of L0C below ten fractals does not interlock (configs/chips, cube.interlocked_fractals).
            if (!first && asim::pieces_of(m, 16) * asim::pieces_of(n, 16) < 10) PipeBarrier<PIPE_M>(site);
            if (first && has_bias_) {
                LocalTensor<Sum> table(TPosition::C2, 0, wide);
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
    void bring_bias(asim::Site site, int64_t column, int64_t n, int64_t wide) {
        LocalTensor<BiasT> room(TPosition::C1, bias_room_, n);
        LocalTensor<Sum> table(TPosition::C2, 0, wide);
        reclaim(site, bias_event_);
        DataCopy(room, bias_[column * tiling_.baseN], Nd2NzParams(1, 1, n, 0, n, 1, 1, 0), site);
        asim_pair(site, HardEvent::MTE2_MTE1, queue_event(site, HardEvent::MTE2_MTE1));
        asim::wait_flag(site, HardEvent::M_MTE1, 2);
        DataCopy(table, room, DataCopyParams(1, asim::pieces_of(wide * sizeof(BiasT), 64), 0, 0), site);
        bias_event_ = asim::pool->take_queue_event(site, HardEvent::MTE1_MTE2);
        asim::set_flag(site, HardEvent::MTE1_MTE2, bias_event_);
    }
    // The scales of a tile's columns into L1 (order and place assumed); each tile waits for the Fixpipe of the one before.
    void bring_scales(asim::Site site, int64_t n) {
        LocalTensor<float> room(TPosition::A1, scale_room_, 2 * n);
        GlobalTensor<float> from;
        from.SetGlobalBuffer((float *)Types::scales_.GetPhyAddr(column_ * tiling_.baseN));
        asim_pair(site, HardEvent::FIX_MTE2, queue_event(site, HardEvent::FIX_MTE2));
        DataCopy(room, from, Nd2NzParams(1, 1, 2 * n, 0, 2 * n, 1, 1, 0), site);
        asim_pair(site, HardEvent::MTE2_FIX, queue_event(site, HardEvent::MTE2_FIX));
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
        } else turned(site, l0a, at(TPosition::A1, left), sizeof(T) == 4 ? m : rows, k, true);
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
        if constexpr (sizeof(T) == 4) {  // A alone: rows of K as pixels of a map, whose window is transposed (assumed)
            static constexpr uint8_t NONE[4] = {0, 0, 0, 0};
            int64_t columns = asim::up(outer, C0);
            SetFmatrix(1, asim::up(k, 16), NONE, FmatrixMode::FMATRIX_LEFT, site);
            LoadData(to, from, LoadData3DParamsV2Pro(columns, true, false, false, false, false, (uint64_t)columns | (uint64_t)k << 16, 0x10101010101ull), site);
        } else if constexpr (sizeof(T) == 2) {
            int64_t deep = asim::pieces_of(k, 16), across = outer / 16;
            for (int64_t i = 0; i < (left ? across : deep); i++) {
                if (left) LoadData(to[i * deep * 256], from[i * deep * 256], LoadData2DParams(0, deep, 1, 0, 0, true, 0), site);
                else LoadData(to[i * across * 256], from[i * 256], LoadData2DParams(0, across, deep, 0, 0, true, 0), site);
            }
        } else {  // squares of 32 x 32, of which A's have a row of fractals each, B's a column (public example)
            int64_t deep = asim::pieces_of(k, 32), across = asim::pieces_of(outer, 32);
            for (int64_t i = 0; i < (left ? across : deep); i++) {
                if (left) LoadDataWithTranspose(to[i * deep * 1024], from[i * deep * 1024], LoadData2dTransposeParams(0, deep, 1, 0, deep - 1), site);
                else LoadDataWithTranspose(to[i * across * 1024], from[i * 1024], LoadData2dTransposeParams(0, across, deep, 1, 0), site);
            }
        }
    }
    void drain(asim::Site site, const GlobalTensor<Out> &gm, uint8_t atomic, bool sequential) {
        int64_t m = asim::part_of(m_, tiling_.baseM, row_), n = asim::part_of(n_, tiling_.baseN, column_);
        int64_t width = sequential ? tiling_.baseN : org_c_, high = sequential ? tiling_.baseM : org_m_;
        LocalTensor<Sum> sum(TPosition::CO1, place_, 1 << 15);
        FixpipeParamsV220 p(n, m, asim::up(m, 16), Types::NZ_C ? high * NZ_WIDTH * (int64_t)sizeof(Out) / 32 : width, false);
        if (Types::NZ_C && (org_m_ % 16 || org_n_ % NZ_WIDTH))
            asim::refuse(site, "Matmul: C in CubeFormat::NZ of %lld x %lld; rows are a multiple of 16, columns of %d", (long long)org_m_,
                         (long long)org_n_, (int)NZ_WIDTH);
        p.deqScalar = 0;
        if (std::is_same_v<Out, half>) p.quantPre = F322F16;
        if (std::is_same_v<Out, bfloat16_t>) p.quantPre = F322BF16;
        asim::left_l0c(this);
        const bool by_column = Types::scales_.GetPhyAddr();
        if (std::is_same_v<Out, half> && Types::SCALED) p.quantPre = by_column ? VDEQF16 : DEQF16;
        if (std::is_same_v<Out, int8_t>) p.quantPre = by_column ? VREQ8 : REQ8;
        p.deqScalar = Types::scale_ | (uint64_t)std::is_same_v<Out, int8_t> << 46;  // a result with a sign
        if (Types::SCALED && by_column) bring_scales(site, n);
        p.unitFlag = UNIT_FLAG ? 3 : 0;
        if (!UNIT_FLAG) asim_pair(site, HardEvent::M_FIX, queue_event(site, HardEvent::M_FIX));
        if (atomic > 3) asim::refuse(site, "Matmul: enAtomic %d; 0 to 3 are possible: none, add, max, min", atomic);
        if (atomic == 1) SetAtomicAdd<Out>(site);
        if (atomic == 2) SetAtomicMax<Out>(site);
        if (atomic == 3) SetAtomicMin<Out>(site);
        int64_t row = row_ * tiling_.baseM, column = column_ * tiling_.baseN;
        GlobalTensor<Out> to = sequential ? gm : gm[Types::NZ_C ? column * high + row * NZ_WIDTH : row * org_c_ + column];
        if (Types::SCALED && by_column) Fixpipe<Out, Sum, LAYOUT>(to, sum, LocalTensor<uint64_t>(TPosition::A1, scale_room_, tiling_.baseN), p, site);
        else Fixpipe<Out, Sum, LAYOUT>(to, sum, p, site);
        if (atomic) SetAtomicNone(site);
        if (!UNIT_FLAG) asim_pair(site, HardEvent::FIX_M, queue_event(site, HardEvent::FIX_M));
    }

    int64_t column_ = -1, place_ = 0, bias_room_ = 0, scale_room_ = 0, last_[2] = {-1, -1};
    int64_t served_ = -1;  // number of the vector core for which it computed last
    int ping_ = 0, bias_event_ = -1;
    bool hf32_ = false;
    asim::PieceRooms rooms_[2];
};
#endif
}  // namespace AscendC
