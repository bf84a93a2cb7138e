// Messages by which the vector cores of a block ask their cube core for products. Each vector core has a room in the workspace of
// the library: a ring of messages, then tiles that go to or come from its Unified Buffer. Form and cost are assumed: a message
// is scalar stores, and a flag between the two cores stands for the cube core's reading of GM again and again.
#pragma once
#include "asim/matmul_operands.h"
#include "asim/pipe.h"

namespace asim {

inline bool matmuls_served = false;  // this cube core has worked off the messages of its vector cores

struct MatmulMessage {
    static constexpr uint8_t TILE = 1, RESULT = 2, ALL = 4, NOTHING = 8, TILING = 16, END = 32;
    uint8_t asks = 0, object = 0, fresh = 0, replies = 0, has_bias = 0, turned = 0, atomic = 0, sequential = 0;
    uint8_t partial = 0, hf32 = 0, unused[6] = {};
    int64_t a = 0, b = 0, bias = 0, c = 0, scale = 0, scales = 0;
    int32_t m = 0, n = 0, k = 0, org_m = 0, org_n = 0, org_ka = 0, org_kb = 0, org_c = 0, tile = 0, unused_too = 0;
    TCubeTiling tiling;  // only of TILING
    // Numbers of 8 bytes that are sent.
    int64_t length() const {
        return asks & END ? 1 : asks & TILING ? sizeof(MatmulMessage) / 8 : offsetof(MatmulMessage, tiling) / 8;
    }
};
static_assert(sizeof(MatmulMessage) % 8 == 0 && offsetof(MatmulMessage, tiling) % 8 == 0);

struct Mailbox {
    static constexpr int64_t ROOM = 1 << 20, SLOT = 320, SLOTS = 8;  // bytes of a vector core, and of a message
    static constexpr int64_t LINE = 64, CORE = 16;  // bytes that are written back together; flags of the second vector core
    static constexpr int64_t ASKED = 5, READ = 6, DONE = 7;  // flags: by a vector core, and twice by the cube core
    int64_t sent = 0, used = SLOT * SLOTS, owed = 0;  // messages, bytes of the room that are taken, replies to wait for
    bool reads = false, writes = false;                // copies from and to the room that may be under way
    bool unanswered = false;                           // products were asked for since the last reply
    int count = 0;                                     // registered objects
};
static_assert(sizeof(MatmulMessage) <= Mailbox::SLOT);
inline Mailbox mailbox;

inline int64_t room_of(int64_t core) {
    const Request &own = recorder.request;
    return own.matmul_room + (own.block * own.sub_blocks + core) * Mailbox::ROOM;
}
// Bytes of the room of this vector core, for a tile.
inline int64_t taken_room(Site site, int64_t bytes) {
    int64_t start = up(mailbox.used, 512);
    if (start + bytes > Mailbox::ROOM)
        refuse(site, "Matmul: tiles in the Unified Buffer need %lld bytes of the library's workspace; a vector core has %lld",
               (long long)(start + bytes), (long long)Mailbox::ROOM);
    mailbox.used = start + bytes;
    return room_of(recorder.request.sub_block) + start;
}
inline void raise(Site site, int64_t pipe, int64_t flag) {
    Word::own_barrier_(site, {.with_flags = true});
    Word::raise_(site, {.pipe = pipe, .flag = flag});
}
inline void wait_for(Site site, int64_t flag) {
    Word::own_barrier_(site, {.with_flags = true});
    Word::wait_flag_dev(site, {.flag = flag, .mode = 4});
}
inline void clean_lines(Site site, int64_t at, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += Mailbox::LINE) Word::dcci(site, {.dst = at + line, .lines = 0, .side = 2});
}
inline void between(Site site, AscendC::HardEvent event) {
    int64_t id = pool ? pool->first_event(site, event) : 0;
    set_flag(site, event, id);
    wait_flag(site, event, id);
}

inline void post(Site site, const MatmulMessage &message) {
    Mailbox &box = mailbox;
    if (box.sent >= Mailbox::SLOTS) wait_for(site, Mailbox::READ);
    if (box.writes) between(site, AscendC::HardEvent::MTE3_S);
    if (box.reads) between(site, AscendC::HardEvent::MTE2_S);
    int64_t words[sizeof(MatmulMessage) / 8], at = room_of(recorder.request.sub_block) + box.sent % Mailbox::SLOTS * Mailbox::SLOT;
    memcpy(words, &message, sizeof words);
    for (int64_t i = 0; i < message.length(); i++) scalar_store<int64_t>(site, Word::store_gm_, at + 8 * i, words[i]);
    clean_lines(site, at, 8 * message.length());
    raise(site, PIPE_S, Mailbox::ASKED);
    box.reads = box.writes = false;
    box.sent++;
    box.owed += message.replies;
    box.unanswered |= !(message.asks & (MatmulMessage::TILING | MatmulMessage::END));
}
inline void wait_reply(Site site) {
    wait_for(site, Mailbox::DONE);
    if (!--mailbox.owed) mailbox.unanswered = false;
}
// Wait until the cube core has done all that it was asked for.
inline void wait_all(Site site) {
    while (mailbox.owed > 0) wait_reply(site);
    if (!mailbox.unanswered) return;
    MatmulMessage message;
    message.asks = MatmulMessage::NOTHING, message.replies = 1;
    post(site, message);
    wait_reply(site);
}
inline MatmulMessage received(Site site, int64_t core, int64_t number) {
    MatmulMessage message;
    int64_t words[sizeof(MatmulMessage) / 8] = {}, at = room_of(core) + number % Mailbox::SLOTS * Mailbox::SLOT;
    wait_for(site, Mailbox::ASKED + Mailbox::CORE * core);
    Word::message_(site);
    clean_lines(site, at, sizeof message);
    for (int64_t i = 0; i < message.length(); i++) {
        words[i] = scalar_load<int64_t>(site, Word::load_gm_, at + 8 * i);
        memcpy(&message, words, 8 * (i + 1));
    }
    raise(site, PIPE_S, Mailbox::READ + Mailbox::CORE * core);
    return message;
}

// A cube core's registered objects, and the loop that works off the messages of its vector cores in turn.
struct MatmulServer {
    static constexpr int MOST = 16;
    struct Object {
        void *matmul;
        void (*serve)(void *, Site, const MatmulMessage &, int64_t);
        void (*rest)(void *, Site);
        void (*end)(void *, Site);
    };
    Object objects[MOST];
    int count = 0;
    template <class M> void add(Site site, M &matmul) {
        if (count == MOST) refuse(site, "REGIST_MATMUL_OBJ: more than %d objects", MOST);
        objects[count++] = {&matmul,
                            [](void *one, Site at, const MatmulMessage &message, int64_t core) { ((M *)one)->serve(at, message, core); },
                            [](void *one, Site at) { ((M *)one)->rest(at); }, [](void *one, Site at) { ((M *)one)->End(at); }};
    }
    void run(Site site) {
        int64_t cores = recorder.request.sub_blocks, open = (1ll << cores) - 1, next = 0, taken[2] = {}, only = -1, last = -1;
        while (open) {
            Word::any_message_(site, {.cores = only >= 0 ? 1ll << only : open, .first = next, .flag = Mailbox::ASKED, .step = Mailbox::CORE});
            int64_t core = value_of_last_row(site);
            MatmulMessage message = received(site, core, taken[core]++);
            next = (core + 1) % cores;
            if (message.asks & MatmulMessage::END) {
                open &= ~(1ll << core);
                continue;
            }
            if (!(message.asks & MatmulMessage::NOTHING)) {
                if (message.object >= count) refuse(site, "Matmul: object %d is not registered on this cube core", message.object);
                if (last >= 0 && last != message.object) objects[last].rest(objects[last].matmul, site);
                last = message.object;
                objects[last].serve(objects[last].matmul, site, message, core);
            }
            // a tile in L0C waits for its vector core to fetch it
            bool leaves = message.asks & MatmulMessage::RESULT, computes = message.asks & MatmulMessage::TILE;
            only = leaves ? -1 : computes ? core : only;
            if (message.replies) raise(site, PIPE_FIX, Mailbox::DONE + Mailbox::CORE * core);
        }
        for (int i = 0; i < count; i++) objects[i].end(objects[i].matmul, site);
        matmuls_served = true;
    }
};
// The end of a program of a kernel whose vector cores ask for products.
inline void end_messages() {
    if (!recorder.request.matmul_room || matmuls_served) return;
    if (ON_CUBE) return MatmulServer().run(recorder.last);
    wait_all(recorder.last);
    MatmulMessage message;
    message.asks = MatmulMessage::END;
    post(recorder.last, message);
    for (int64_t left = mailbox.sent < Mailbox::SLOTS ? mailbox.sent : Mailbox::SLOTS; left > 0; left--)
        wait_for(recorder.last, Mailbox::READ);
}

}  // namespace asim
