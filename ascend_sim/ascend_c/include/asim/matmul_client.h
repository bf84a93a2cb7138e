// Matmul on a vector core, whose cube core computes what it asks for by messages; and the registration of a Matmul on both.
#pragma once
#include "asim/matmul.h"
#include "asim/vector.h"

namespace AscendC {
#ifndef __DAV_CUBE__

template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto &MM_CFG = CFG_NORM>
class MatmulImpl : public asim::MatmulOperands<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE> {
    using Types = asim::MatmulOperands<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>;
    using T = typename Types::T;
    using Out = typename Types::Out;
    using BiasT = typename Types::BiasT;
    using Message = asim::MatmulMessage;
    using Types::a_, Types::b_, Types::bias_, Types::a_turned_, Types::b_turned_, Types::has_bias_, Types::live_, Types::tiling_;
    using Types::m_, Types::n_, Types::k_, Types::org_m_, Types::org_n_, Types::org_ka_, Types::org_kb_, Types::org_c_;
    using Types::started_, Types::row_, Types::fresh_;
    static constexpr bool CHECKED = asim_checked<MM_CFG>::unit_flag;
    static constexpr int64_t AHEAD = 6;  // tiles that Iterate<false> asks for at once (assumed)

public:
    using Types::SetTensorA, Types::SetTensorB, Types::SetBias, Types::SetQuantVector;
    void Init(const TCubeTiling *tiling, TPipe * = nullptr, ASIM_SITE) {
        if (!asim::recorder.request.matmul_room) return;  // a kernel whose cube core calls its Matmul itself
        if (number_ < 0) asim::refuse(site, "Init: REGIST_MATMUL_OBJ comes first on a vector core");
        Message message;
        message.asks = Message::TILING, message.object = number_, message.tiling = *tiling;
        asim::post(site, message);
        Types::begin_with(site, tiling);
    }
    void SetTensorA(const LocalTensor<T> &tensor, bool transposed = false, ASIM_SITE) {
        if (!knows(site, "SetTensorA")) return;
        SetTensorA(brought<T>(site, tensor, rooms_[0], m_ * k_), transposed, site);
        org_ka_ = k_, org_m_ = m_;
    }
    void SetTensorB(const LocalTensor<T> &tensor, bool transposed = false, ASIM_SITE) {
        if (!knows(site, "SetTensorB")) return;
        SetTensorB(brought<T>(site, tensor, rooms_[1], n_ * k_), transposed, site);
        org_kb_ = k_, org_n_ = n_;
    }
    void SetBias(const LocalTensor<BiasT> &tensor, ASIM_SITE) {
        if (knows(site, "SetBias")) SetBias(brought<BiasT>(site, tensor, rooms_[2], n_), site);
    }
    void SetQuantVector(const LocalTensor<uint64_t> &tensor, ASIM_SITE) {
        if (knows(site, "SetQuantVector")) SetQuantVector(brought<uint64_t>(site, tensor, rooms_[4], n_));
    }
    void SetHF32(bool on = false, int32_t transMode = 0, ASIM_SITE) {
        if (transMode) asim::refuse(site, "SetHF32: transMode %d; 0 is simulated", transMode);
        hf32_ = on;
    }
    // Room in GM for the tiles of Iterate<false>.
    template <class D> void SetWorkspace(const D *start, int) { workspace_ = (int64_t)start; }
    template <class D> void SetWorkspace(const GlobalTensor<D> &start) { workspace_ = (int64_t)start.GetPhyAddr(); }

    // Ask for the next tile; false behind the last one. Without `sync` the first call asks for tiles ahead of GetTensorC.
    template <bool sync = true, class T> bool Iterate(bool, const LocalTensor<T> &, ASIM_SITE) {
        if (knows(site, "Iterate")) asim::refuse(site, "Iterate into a tensor of L0C on a vector core; cube cores have it");
        return false;
    }
    template <bool sync = true> bool Iterate(bool enPartialSum = false, ASIM_SITE) {
        if (!knows(site, "Iterate")) return false;
        Types::expect_operands(site, "Iterate");
        if (ahead_ && fresh_) ahead_ = false;
        if constexpr (!sync) {
            if (!ahead_) {
                if (enPartialSum) asim::refuse(site, "Iterate<false>: enPartialSum; it is possible with Iterate<true>");
                if (!workspace_) workspace_ = asim::taken_room(site, tiles() * tile_bytes());
                ahead_ = true, asked_ = got_ = 0;
                ask_ahead(site);
            }
            return got_ < tiles() || (Types::restart(), ahead_ = false);
        }
        if (started_ + 1 >= tiles()) return Types::restart(), false;
        started_++;
        asim::fills_l0c(site, this);
        Message message = filled(Message::TILE);
        message.tile = started_, message.partial = enPartialSum;
        asim::post(site, message);
        row_ = Types::row_of(started_);
        return true;
    }
    template <bool sync = true> void GetTensorC(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASIM_SITE) {
        if (!knows(site, "GetTensorC")) return;
        if (ahead_) asim::refuse(site, "GetTensorC behind Iterate<false> gives a tensor of the workspace, or fills one in the Unified Buffer");
        fetch(site, (int64_t)gm.GetPhyAddr(), enAtomic, enSequentialWrite, sync);
    }
    template <bool sync = true> void GetTensorC(const LocalTensor<Out> &local, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASIM_SITE) {
        asim::marked<asim::VECTOR_CALLS>();
        if (!knows(site, "GetTensorC")) return;
        int64_t tile = ahead_ ? got_ : started_, from = ahead_ ? take_ahead(site) : room(site, rooms_[3], tile_bytes());
        if (enAtomic) asim::refuse(site, "GetTensorC into the Unified Buffer: enAtomic %d; 0 is possible", enAtomic);
        if (!ahead_) fetch(site, from, 0, true, true);
        copy_in(site, local, from, tiling_.baseN, tile, enSequentialWrite);
        if (ahead_) ask_ahead(site);
    }
    template <bool sync = true>
    void GetTensorC(const GlobalTensor<Out> &gm, const LocalTensor<Out> &local, uint8_t enAtomic = 0, bool enSequentialWrite = false, ASIM_SITE) {
        asim::marked<asim::VECTOR_CALLS>();
        if (!knows(site, "GetTensorC")) return;
        fetch(site, (int64_t)gm.GetPhyAddr(), enAtomic, enSequentialWrite, true);
        int64_t row = Types::row_of(started_), column = Types::column_of(started_), width = enSequentialWrite ? tiling_.baseN : org_c_;
        int64_t start = enSequentialWrite ? 0 : row * tiling_.baseM * width + column * tiling_.baseN;
        copy_in(site, local, (int64_t)gm.GetPhyAddr(start), width, started_, enSequentialWrite);
    }
    // The next tile of Iterate<false>, in the workspace.
    template <bool sync = true> GlobalTensor<Out> GetTensorC(uint8_t = 0, bool = false, ASIM_SITE) {
        GlobalTensor<Out> tile;
        if (!knows(site, "GetTensorC")) return tile;
        if (!ahead_) asim::refuse(site, "GetTensorC without a destination: Iterate<false> comes first");
        tile.SetGlobalBuffer((Out *)take_ahead(site), tiling_.baseM * tiling_.baseN);
        ask_ahead(site);
        return tile;
    }
    template <bool sync = true>
    void IterateAll(const GlobalTensor<Out> &gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool waitIterateAll = false,
                    bool = false, ASIM_SITE) {
        if (!knows(site, "IterateAll")) return;
        Types::expect_operands(site, "IterateAll");
        Types::restart();
        asim::fills_l0c(site, this);
        asim::left_l0c(this);
        Message message = filled(Message::ALL);
        message.c = (int64_t)gm.GetPhyAddr(), message.atomic = enAtomic, message.sequential = enSequentialWrite;
        message.replies = sync || waitIterateAll;
        asim::post(site, message);
        Types::restart();
        if (sync) asim::wait_all(site);
    }
    template <bool sync = true> void IterateAll(const LocalTensor<Out> &local, uint8_t enAtomic = 0, ASIM_SITE) {
        Types::restart();
        while (Iterate<true>(false, site)) GetTensorC<true>(local, enAtomic, false, site);
    }
    void WaitIterateAll(ASIM_SITE) {
        if (knows(site, "WaitIterateAll") && asim::mailbox.owed) asim::wait_reply(site);
    }
    void WaitGetTensorC(ASIM_SITE) {
        if (knows(site, "WaitGetTensorC")) asim::wait_all(site);
    }
    void End(ASIM_SITE) {
        if (!live_) return;
        asim::wait_all(site);
        ahead_ = false;
        asim::left_l0c(this);
        Types::restart();
    }
    void asim_register(asim::Site site, const TCubeTiling *tiling) {
        number_ = asim::mailbox.count++;
        if (tiling) Types::begin_with(site, tiling);
    }

private:
    // False in a kernel whose cube core calls its Matmul itself.
    bool knows(asim::Site site, const char *call) const {
        if (asim::recorder.request.matmul_room && number_ < 0)
            asim::refuse(site, "%s: the Matmul was not initialised; REGIST_MATMUL_OBJ does it", call);
        return asim::recorder.request.matmul_room;
    }
    int64_t tiles() const { return Types::tile_rows() * Types::tile_columns(); }
    int64_t tile_bytes() const { return (int64_t)tiling_.baseM * tiling_.baseN * (int64_t)sizeof(Out); }
    static int64_t room(asim::Site site, std::pair<int64_t, int64_t> &one, int64_t bytes) {
        if (one.second < bytes) one = {asim::taken_room(site, bytes), bytes};
        return one.first;
    }
    Message filled(uint8_t asks) {
        Message message;
        message.asks = asks, message.object = number_, message.fresh = fresh_;
        message.a = (int64_t)a_.GetPhyAddr(), message.b = (int64_t)b_.GetPhyAddr(), message.bias = (int64_t)bias_.GetPhyAddr();
        message.has_bias = has_bias_, message.turned = a_turned_ | b_turned_ << 1, message.hf32 = hf32_;
        message.m = m_, message.n = n_, message.k = k_, message.org_m = org_m_, message.org_n = org_n_;
        message.scale = Types::scale_, message.scales = (int64_t)Types::scales_.GetPhyAddr();
        message.org_ka = org_ka_, message.org_kb = org_kb_, message.org_c = org_c_;
        fresh_ = false;
        return message;
    }
    void fetch(asim::Site site, int64_t to, uint8_t atomic, bool sequential, bool waits) {
        if (row_ < 0) asim::refuse(site, "GetTensorC: there is no tile; Iterate computes one");
        asim::left_l0c(this);
        Message message;
        message.asks = Message::RESULT, message.object = number_, message.c = to, message.replies = waits;
        message.atomic = atomic, message.sequential = sequential;
        asim::post(site, message);
        if (waits) asim::wait_all(site);
    }
    void ask_ahead(asim::Site site) {
        for (; asked_ < tiles() && asked_ < got_ + AHEAD; asked_++) {
            Message message = filled(Message::TILE | Message::RESULT);
            message.tile = asked_, message.sequential = 1, message.replies = 1, message.c = workspace_ + asked_ * tile_bytes();
            asim::post(site, message);
        }
    }
    int64_t take_ahead(asim::Site site) {
        if (got_ == tiles()) asim::refuse(site, "GetTensorC: all %lld tiles of Iterate<false> were taken", (long long)tiles());
        asim::wait_reply(site);
        return workspace_ + got_++ * tile_bytes();
    }
    // A tile of GM into the Unified Buffer: alone, or at its place in the matrix of the single shape.
    void copy_in(asim::Site site, const LocalTensor<Out> &local, int64_t from, int64_t width, int64_t tile, bool alone) {
        constexpr int64_t SIZE = sizeof(Out), BLOCK = 32 / SIZE;
        int64_t row = Types::row_of(tile), column = Types::column_of(tile);
        int64_t m = asim::part_of(m_, tiling_.baseM, row), n = asim::part_of(n_, tiling_.baseN, column);
        int64_t step = alone ? tiling_.baseN : asim::up(n_, BLOCK), start = alone ? 0 : row * tiling_.baseM * step + column * tiling_.baseN;
        GlobalTensor<Out> source;
        source.SetGlobalBuffer((Out *)from);
        asim::between(site, HardEvent::V_MTE2);
        if (n == width && n == step) DataCopy(local[start], source, m * n, site);
        else DataCopyPad(local[start], source, DataCopyExtParams(m, n * SIZE, (width - n) * SIZE, (step - asim::up(n, BLOCK)) / BLOCK, 0),
                         DataCopyPadExtParams<Out>(), site);
        asim::between(site, HardEvent::MTE2_V);
        asim::mailbox.reads = true;
    }
    // Tensor of the Unified Buffer in the room of this core in GM.
    template <class D> GlobalTensor<D> brought(asim::Site site, const LocalTensor<D> &tensor, std::pair<int64_t, int64_t> &one, int64_t elements) {
        asim::marked<asim::VECTOR_CALLS>();
        asim::wait_all(site);  // an earlier product may still read the room
        GlobalTensor<D> to;
        to.SetGlobalBuffer((D *)room(site, one, asim::up(elements * sizeof(D), 32)));
        asim::between(site, HardEvent::V_MTE3);
        asim::copy_aligned_out<uint8_t>(site, asim::at(to), asim::at(tensor), DataCopyExtParams(1, elements * sizeof(D), 0, 0, 0));
        asim::mailbox.writes = true;
        return to;
    }

    int number_ = -1;  // in the order of registration, or -1
    int64_t workspace_ = 0, asked_ = 0, got_ = 0;
    bool ahead_ = false, hf32_ = false;
    std::pair<int64_t, int64_t> rooms_[5];  // address and bytes, for A, B, the bias, a tile and scales
};
#endif
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto &MM_CFG = CFG_NORM>
using Matmul = MatmulImpl<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG>;

// Register objects, each with its tiling or without one. On a cube core whose vector cores ask for products: compute until all
// have ended, and return true.
template <class M> inline void asim_register_one(asim::Site site, asim::MatmulServer &server, TPipe *pipe, M &one, const TCubeTiling *tiling) {
    if constexpr (asim::ON_CUBE) {
        asim::marked<asim::CUBE_CALLS>();
        if (tiling) one.Init(tiling, pipe, site);
        server.add(site, one);
    } else if (asim::recorder.request.matmul_room) {
        one.asim_register(site, tiling);
    }
}
inline void asim_register_all(asim::Site, asim::MatmulServer &, TPipe *) {}
template <class M, class... Rest> inline void asim_register_all(asim::Site site, asim::MatmulServer &server, TPipe *pipe, M &one, Rest &&...rest);
template <class M, class Tiling, class... Rest>
inline void asim_register_pair(asim::Site site, asim::MatmulServer &server, TPipe *pipe, M &one, Tiling &&tiling, Rest &&...rest) {
    if constexpr (std::is_convertible_v<Tiling, const TCubeTiling *>) {
        asim_register_one(site, server, pipe, one, tiling);
        asim_register_all(site, server, pipe, rest...);
    } else {
        asim_register_one(site, server, pipe, one, nullptr);
        asim_register_all(site, server, pipe, tiling, rest...);
    }
}
template <class M, class... Rest> inline void asim_register_all(asim::Site site, asim::MatmulServer &server, TPipe *pipe, M &one, Rest &&...rest) {
    if constexpr (sizeof...(Rest) > 0) asim_register_pair(site, server, pipe, one, rest...);
    else asim_register_one(site, server, pipe, one, nullptr);
}
template <bool cube_only, class... Rest> inline bool asim_register(asim::Site site, TPipe *pipe, Rest &&...rest) {
    if constexpr (!asim::ON_CUBE && !cube_only) {
        asim::marked<asim::ASKS_CUBE>();
        if (!asim::recorder.request.sub_blocks)
            asim::refuse(site, "Matmul on a vector core asks a cube core, and this kernel runs on vector cores alone; "
                               "KERNEL_TYPE_MIX_AIC_1_2 and MIX_AIC_1_1 have both");
    }
    asim::MatmulServer server;
    asim_register_all(site, server, pipe, rest...);
    if (!asim::ON_CUBE || !asim::recorder.request.matmul_room) return false;
    server.run(site);
    return true;
}

}  // namespace AscendC
namespace matmul = AscendC;
// A file may define ASCENDC_CUBE_ONLY, as nothing or a number, behind this header: its text is then shorter than its name.
#define ASIM_TEXT_OF(...) #__VA_ARGS__
#define ASIM_TEXT(...) ASIM_TEXT_OF(__VA_ARGS__)
#define REGIST_MATMUL_OBJ(pipe, workspace, ...)                                                                             \
    if (AscendC::asim_register<(sizeof ASIM_TEXT(ASCENDC_CUBE_ONLY) < sizeof "ASCENDC_CUBE_ONLY")>(                          \
            asim::Site::here(), pipe, __VA_ARGS__))                                                                         \
    return
