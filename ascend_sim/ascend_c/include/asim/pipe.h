// TPipe, TQue and TBuf: buffers are handed out from address 0 of each memory in order (those of TSCM from the end of L1), and
// events in the order in which the public API does (scenarios: tests/ascend_c/scenarios).
#pragma once
#include "asim/sync.h"

namespace asim {

struct QueueBuffer {
    int64_t address, bytes;
    bool taken = false;
    int free_event = -1, full_event = -1;  // ids that are held, or -1
};
struct Queue {
    AscendC::HardEvent full, free;
    int first, count;
    bool fixed;  // events of depth 0 belong to the buffers
};
// Sets and waits of a queue. Events of a pipe with itself are barriers, which are the library's: checks do not call them redundant.
inline void own_barrier(Site site, AscendC::HardEvent event) {
    if (PIPES_OF_EVENT[(int)event][0] == PIPES_OF_EVENT[(int)event][1]) Word::own_barrier_(site, {.with_flags = false});
}
inline void set_queue_flag(Site site, AscendC::HardEvent event, int id) { own_barrier(site, event), set_flag(site, event, id); }
inline void wait_queue_flag(Site site, AscendC::HardEvent event, int id) { own_barrier(site, event), wait_flag(site, event, id); }
// Bytes of a memory, from the request.
inline int64_t bytes_of(AscendC::Hardware where) { return recorder.request.buffer_bytes[(int)where - 1]; }
struct Pool {
    static constexpr int MOST_BUFFERS = 64;  // of a TPipe (public documentation of InitBuffer)
    static constexpr int64_t MESSAGES = 128;  // of the end of L1, for the messages of the library (scenarios)
    QueueBuffer buffers[MOST_BUFFERS];
    Queue queues[MOST_BUFFERS];
    int buffer_count = 0, queue_count = 0;
    int64_t used[(int)AscendC::Hardware::MAX] = {}, shared = 0;  // bytes that are taken from the start of each memory, and from the end of L1
    uint8_t events[(int)AscendC::HardEvent::MAX] = {};  // ids that are taken, one bit each

    int first_event(Site site, AscendC::HardEvent event) {
        for (int id = 0; id < EVENTS; id++)
            if (!(events[(int)event] >> id & 1)) return id;
        refuse(site, "no event id is left: all %d of this pair of pipes are taken", EVENTS);
    }
    int take_event(Site site, AscendC::HardEvent event) {
        int id = first_event(site, event);
        events[(int)event] |= 1 << id;
        return id;
    }
    int take_queue_event(Site site, AscendC::HardEvent event) {  // of a queue: its row tells checks so
        int id = take_event(site, event);
        auto pair = PIPES_OF_EVENT[(int)event];
        if (pair[0] != pair[1])  // otherwise barriers stand for it
            Word::queue_event_(site, {.source = pair[0], .destination = pair[1], .id = id});
        return id;
    }
    void release_event(AscendC::HardEvent event, int id) { events[(int)event] &= ~(1 << id); }
    // The address of `bytes` in the memory of a position; `behind` counts buffers of the same queue that follow.
    int64_t take(Site site, int64_t bytes, AscendC::TPosition position, int64_t behind = 0) {
        if (bytes <= 0) refuse(site, "InitBuffer: %lld bytes; a buffer has at least 1", (long long)bytes);
        AscendC::Hardware where = hardware_of(position);
        bool from_end = position == AscendC::TPosition::TSCM;
        int64_t size = (bytes + 31) / 32 * 32, total = bytes_of(where), start = used[(int)where];
        if (from_end) start = total - MESSAGES - shared - size * (behind + 1);
        if (start < 0 || start + size > total)
            refuse(site, "InitBuffer: %lld bytes at %lld end at %lld; %s has %lld bytes", (long long)size, (long long)start,
                   (long long)(start + size), name_of(where), (long long)total);
        if (!from_end) used[(int)where] += size;
        allocated(site, start, size, position);
        return start;
    }
    void give_back(Site site) { give_back(site, 0, queue_count); }
    void give_back(Site site, int from, int to) {  // wait until every buffer is free, in the order of queues and buffers
        for (int q = from; q < to; q++)
            for (int b = 0; b < queues[q].count; b++) {
                QueueBuffer &buffer = buffers[queues[q].first + b];
                if (buffer.free_event < 0) continue;
                wait_queue_flag(site, queues[q].free, buffer.free_event);
                release_event(queues[q].free, buffer.free_event);
                buffer.free_event = -1;
            }
    }
};
inline Pool *pool = nullptr;  // that of the TPipe

constexpr AscendC::HardEvent event_between(AscendC::TPosition source, AscendC::TPosition destination, bool full) {
    using P = AscendC::TPosition;
    using H = AscendC::HardEvent;
    using W = AscendC::Hardware;
    if (hardware_of(source) == W::L0C) return full ? H::M_FIX : H::FIX_M;
    if (hardware_of(destination) == W::FIXBUF) return H::FIX_FIX;
    if (hardware_of(source) == W::L1) return full ? H::MTE1_M : H::M_MTE1;
    if (hardware_of(destination) == W::L1) return full ? H::MTE2_MTE1 : H::MTE1_MTE2;
    bool in = source == P::GM || source == P::VECCALC, out = destination == P::GM || destination == P::VECCALC;
    if (source == P::VECIN && destination == P::VECOUT) in = out = true;
    if (in && out) return full ? H::MTE2_MTE3 : H::MTE3_MTE2;
    if (in) return full ? H::MTE2_V : H::V_MTE2;
    return full ? H::V_MTE3 : H::MTE3_V;
}
// Source and destination of the data of a TQue.
constexpr AscendC::TPosition source_of(AscendC::TPosition position) {
    using P = AscendC::TPosition;
    switch (position) {
        case P::A2: return P::A1;
        case P::B2: return P::B1;
        case P::C2: case P::C2PIPE2GM: return P::C1;
        case P::VECOUT: case P::VECCALC: case P::CO1: return position;
        default: return P::GM;
    }
}
constexpr AscendC::TPosition destination_of(AscendC::TPosition position) {
    using P = AscendC::TPosition;
    return position == P::VECOUT ? P::GM : position == P::CO1 ? P::CO2 : position;
}
// Memory of the buffers of a queue: that of its destination, for results that of its source.
constexpr AscendC::TPosition held_in(AscendC::TPosition source, AscendC::TPosition destination) {
    bool result = hardware_of(source) == AscendC::Hardware::L0C || hardware_of(source) == AscendC::Hardware::UB;
    return source == AscendC::TPosition::GM || !result ? destination : source;
}

}  // namespace asim

namespace AscendC {

using TEventID = int32_t;

template <TPosition position = TPosition::LCM> class TBuf {
public:
    template <class T> LocalTensor<T> Get(uint32_t elements) const { return GetWithOffset<T>(elements, 0); }
    template <class T> LocalTensor<T> Get() const { return Get<T>(bytes_ / sizeof(T)); }
    template <class T> LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset) const {
        return LocalTensor<T>(position, address_ + offset, elements).asim_within(address_, address_ + bytes_);
    }

private:
    friend class TPipe;
    template <TPosition other> friend class TBufPool;
    int64_t address_ = 0, bytes_ = 0;
};

template <TPosition source, TPosition destination, int32_t depth, auto mask = 0> class TQueBind {
    static constexpr HardEvent FULL = asim::event_between(source, destination, true);
    static constexpr HardEvent FREE = asim::event_between(source, destination, false);
    static constexpr TPosition POSITION = asim::held_in(source, destination);
    static constexpr int MOST = 64, DEPTH = depth;

public:
    template <class T> LocalTensor<T> AllocTensor(ASIM_SITE) {
        check(site, "AllocTensor");
        for (int tries = 0; tries < count_; tries++) {
            int index = next_;
            next_ = (next_ + 1) % count_;
            asim::QueueBuffer &buffer = asim::pool->buffers[first_ + index];
            if (buffer.taken) continue;
            buffer.taken = true;
            if (buffer.free_event >= 0) {
                asim::wait_queue_flag(site, FREE, buffer.free_event);
                if (depth) {
                    asim::pool->release_event(FREE, buffer.free_event);
                    buffer.free_event = -1;
                }
            }
            return tensor_of<T>(buffer);
        }
        asim::refuse(site, "AllocTensor: all %d buffers of the queue are in use; FreeTensor gives one back", count_);
    }
    template <class T> void AllocTensor(LocalTensor<T> &tensor, ASIM_SITE) { tensor = AllocTensor<T>(site); }
    template <class T> bool EnQue(const LocalTensor<T> &tensor, ASIM_SITE) { return put<FULL>(site, tensor); }
    template <TPosition from, TPosition to, class T> bool EnQue(const LocalTensor<T> &tensor, ASIM_SITE) {
        return put<event_of<from, to>()>(site, tensor);
    }
    template <class T> LocalTensor<T> DeQue(ASIM_SITE) { return take<T, FULL>(site); }
    template <TPosition from, TPosition to, class T> LocalTensor<T> DeQue(ASIM_SITE) { return take<T, event_of<from, to>()>(site); }
    template <class T> void DeQue(LocalTensor<T> &tensor, ASIM_SITE) { tensor = DeQue<T>(site); }
    template <class T> void FreeTensor(LocalTensor<T> &tensor, ASIM_SITE) {
        int index = index_of(site, "FreeTensor", tensor);
        asim::QueueBuffer &buffer = asim::pool->buffers[first_ + index];
        if (depth) buffer.free_event = asim::pool->take_queue_event(site, FREE);
        asim::set_queue_flag(site, FREE, buffer.free_event);
        buffer.taken = false;
    }
    void FreeAllEvent(ASIM_SITE) {
        check(site, "FreeAllEvent");
        for (int index = 0; index < count_; index++) {
            asim::QueueBuffer &buffer = asim::pool->buffers[first_ + index];
            if (buffer.free_event < 0) continue;
            asim::wait_queue_flag(site, FREE, buffer.free_event);
            asim::pool->release_event(FREE, buffer.free_event);
            buffer.free_event = -1;
        }
    }
    int32_t GetTensorCountInQue() const { return length_; }
    bool HasTensorInQue() const { return length_ > 0; }
    bool VacantInQue() const { return length_ < (depth ? depth : count_); }
    bool HasIdleBuffer() const {
        for (int index = 0; index < count_; index++)
            if (!asim::pool->buffers[first_ + index].taken) return true;
        return false;
    }

private:
    // The event of a tensor that goes from one position to another, where both ends of the queue are in the Unified Buffer.
    template <TPosition from, TPosition to> static constexpr HardEvent event_of() {
        static_assert((from == TPosition::GM && to == TPosition::VECIN) || (from == TPosition::VECOUT && to == TPosition::GM) ||
                          (from == TPosition::VECIN && to == TPosition::VECOUT),
                      "EnQue and DeQue with positions: GM to VECIN, VECOUT to GM and VECIN to VECOUT are simulated");
        return asim::event_between(from, to, true);
    }
    template <class T> static LocalTensor<T> tensor_of(const asim::QueueBuffer &buffer) {
        return LocalTensor<T>(POSITION, buffer.address, buffer.bytes / sizeof(T)).asim_within(buffer.address, buffer.address + buffer.bytes);
    }
    template <HardEvent event, class T> bool put(asim::Site site, const LocalTensor<T> &tensor) {
        int index = index_of(site, "EnQue", tensor);
        if (length_ == (depth ? depth : count_))
            asim::refuse(site, "EnQue: the queue is full, its depth is %d; DeQue takes one out", depth ? depth : count_);
        asim::QueueBuffer &buffer = asim::pool->buffers[first_ + index];
        if (depth) buffer.full_event = asim::pool->take_queue_event(site, event);
        asim::set_queue_flag(site, event, buffer.full_event);
        fifo_[(head_ + length_++) % MOST] = index;
        return true;
    }
    template <class T, HardEvent event> LocalTensor<T> take(asim::Site site) {
        check(site, "DeQue");
        if (!length_) asim::refuse(site, "DeQue: the queue is empty; EnQue puts a tensor in");
        asim::QueueBuffer &buffer = asim::pool->buffers[first_ + fifo_[head_]];
        head_ = (head_ + 1) % MOST;
        length_--;
        asim::wait_queue_flag(site, event, buffer.full_event);
        if (depth) {
            asim::pool->release_event(event, buffer.full_event);
            buffer.full_event = -1;
        }
        return tensor_of<T>(buffer);
    }
    friend class TPipe;
    template <TPosition other> friend class TBufPool;
    void check(asim::Site site, const char *call) const {
        if (!count_) asim::refuse(site, "%s: the queue has no buffers; TPipe.InitBuffer gives it some", call);
    }
    template <class T> int index_of(asim::Site site, const char *call, const LocalTensor<T> &tensor) const {
        check(site, call);
        int64_t address = asim::at(tensor);
        for (int index = 0; index < count_; index++) {
            const asim::QueueBuffer &buffer = asim::pool->buffers[first_ + index];
            if (address < buffer.address || address >= buffer.address + buffer.bytes) continue;
            if (!buffer.taken) asim::refuse(site, "%s: the tensor's buffer is free already; AllocTensor takes it", call);
            return index;
        }
        asim::refuse(site, "%s: the tensor at %s address %lld is not a buffer of this queue", call,
                     asim::hardware_of(POSITION) == Hardware::UB ? "UB" : asim::name_of(asim::hardware_of(POSITION)), (long long)address);
    }
    int first_ = 0, count_ = 0, next_ = 0, head_ = 0, length_ = 0, fifo_[MOST] = {};
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<asim::source_of(position), asim::destination_of(position), depth, mask> {
    static_assert(position != TPosition::CO2 && position != TPosition::GM && position < TPosition::SPM ||
                      position == TPosition::C2PIPE2GM,
                  "a TQue is of A1, A2, B1, B2, C1, C2, CO1, C2PIPE2GM, VECIN, VECOUT or VECCALC");
};
template <TPosition position, int32_t depth = 1, auto mask = 0> using TSCM = TQueBind<position, TPosition::TSCM, depth, mask>;

class TPipe {
public:
    TPipe(asim::Site site = asim::Site::here()) { Init(site); }
    TPipe(const TPipe &) = delete;
    ~TPipe() { Destroy(site_); }
    void Init(ASIM_SITE) {
        site_ = site;
        asim::pool = &pool_;
        current_ = this;
        alive_ = true;
        begin(site);
    }
    void Destroy(ASIM_SITE) {
        if (!alive_) return;
        alive_ = false;
        pool_.give_back(site);
        end_cube(site);
        asim::Word::own_barrier_(site, {.with_flags = false});
        asim::Word::pipe_barrier(site, {.pipe = PIPE_ALL});
    }
    void Reset(ASIM_SITE) {
        pool_.give_back(site);
        end_cube(site);
        pool_ = asim::Pool();
        begin(site);
    }
    template <TPosition position> bool InitBuffer(TBuf<position> &buffer, uint32_t bytes, ASIM_SITE) {
        buffer.address_ = pool_.take(site, bytes, position);
        buffer.bytes_ = (int64_t(bytes) + 31) / 32 * 32;
        return true;
    }
    template <TPosition source, TPosition destination, int32_t depth, auto mask>
    bool InitBuffer(TQueBind<source, destination, depth, mask> &queue, uint8_t count, uint32_t bytes, ASIM_SITE) {
        using Queue = TQueBind<source, destination, depth, mask>;
        init_queue(site, queue, count, bytes, [&](int index) { return pool_.take(site, bytes, Queue::POSITION, count - 1 - index); });
        if (Queue::POSITION == TPosition::TSCM) pool_.shared += count * ((int64_t(bytes) + 31) / 32 * 32);
        return true;
    }
    // A part of a memory that hands out buffers of its own, or the part of another one.
    template <class B> bool InitBufPool(B &part, uint32_t bytes, ASIM_SITE) {
        part.start_ = pool_.take(site, bytes, B::poolPos), part.size_ = bytes, part.pipe_ = this, part.used_ = 0;
        return true;
    }
    template <class B, class C> bool InitBufPool(B &part, uint32_t bytes, C &shared, ASIM_SITE) {
        if (bytes > shared.size_) asim::refuse(site, "InitBufPool: %u bytes; the pool that it shares has %lld", bytes, (long long)shared.size_);
        part.start_ = shared.start_, part.size_ = bytes, part.pipe_ = this, part.used_ = 0;
        return true;
    }
    template <HardEvent event> TEventID AllocEventID(ASIM_SITE) { return pool_.take_event(site, event); }
    template <HardEvent event> void ReleaseEventID(TEventID id, ASIM_SITE) { pool_.release_event(event, id); }
    template <HardEvent event> TEventID FetchEventID(ASIM_SITE) { return pool_.first_event(site, event); }
    TEventID FetchEventID(HardEvent event, ASIM_SITE) { return pool_.first_event(site, event); }

private:
    template <TPosition position> friend class TBufPool;
    // Register the buffers of a queue; `place` gives the address of each.
    template <class Queue, class Place> void init_queue(asim::Site site, Queue &queue, uint8_t count, uint32_t bytes, const Place &place) {
        constexpr bool fixed = Queue::DEPTH == 0;
        if (!count) asim::refuse(site, "InitBuffer: a queue of 0 buffers; it has at least 1");
        if (pool_.buffer_count + count > asim::Pool::MOST_BUFFERS)
            asim::refuse(site, "InitBuffer: buffer number %d; a TPipe has at most %d", pool_.buffer_count + count,
                         asim::Pool::MOST_BUFFERS);
        queue.first_ = pool_.buffer_count;
        queue.count_ = count;
        queue.next_ = queue.head_ = queue.length_ = 0;
        pool_.queues[pool_.queue_count++] = {Queue::FULL, Queue::FREE, queue.first_, count, fixed};
        for (int index = 0; index < count; index++) {
            asim::QueueBuffer &buffer = pool_.buffers[pool_.buffer_count++] = {};
            buffer.address = place(index);
            buffer.bytes = (int64_t(bytes) + 31) / 32 * 32;
            if (fixed) {
                buffer.full_event = pool_.take_queue_event(site, Queue::FULL);
                buffer.free_event = pool_.take_queue_event(site, Queue::FREE);
                asim::set_queue_flag(site, Queue::FREE, buffer.free_event);
            }
        }
    }
    friend TPipe *GetTPipePtr(asim::Site site);
    inline static TPipe *current_ = nullptr;
    static constexpr int OF_CUBE = asim::ON_CUBE ? 3 : 0;  // events from M to MTE1 that the library holds
    void begin(asim::Site site) {
        asim::set_atomic_none(site);
        asim::set_counting(site, false);
        if (!asim::ON_CUBE) return asim::set_vector_mask(site, -1, -1);
        asim::Word::set_l1_3d_size(site, {.l1_3d_size = 0});
        asim::Word::set_padding(site, {.padding = 0});
        for (int id = 0; id < OF_CUBE; id++) {
            pool_.take_queue_event(site, HardEvent::M_MTE1);
            asim::set_flag(site, HardEvent::M_MTE1, id);
        }
    }
    void end_cube(asim::Site site) {
        for (int id = 0; id < OF_CUBE; id++) asim::wait_flag(site, HardEvent::M_MTE1, id);
    }
    asim::Pool pool_;
    asim::Site site_;
    bool alive_ = false;
};
inline TPipe *GetTPipePtr(ASIM_SITE) {
    if (!TPipe::current_) asim::refuse(site, "GetTPipePtr: the kernel has no TPipe yet");
    return TPipe::current_;
}
// All that is left of the Unified Buffer, but for the place of the library's messages at its end (public documentation; its
// size is that of a message of 64 bytes: asc-devkit). What comes after it takes the same bytes.
template <class T, TPosition position> inline bool PopStackBuffer(LocalTensor<T> &rest, ASIM_SITE) {
    constexpr int64_t MESSAGE = 64;
    static_assert(asim::hardware_of(position) == Hardware::UB, "PopStackBuffer: the position lies in the Unified Buffer");
    GetTPipePtr(site);
    int64_t start = asim::pool->used[(int)Hardware::UB], size = asim::bytes_of(Hardware::UB) - MESSAGE - start;
    if (size <= 0) asim::refuse(site, "PopStackBuffer: nothing of the Unified Buffer is left");
    asim::allocated_for_library(site, start, size);
    rest = LocalTensor<T>(position, start, size / sizeof(T)).asim_within(start, start + size);
    return true;
}

// A part of a memory whose buffers are given back together, so that another pool may have it (public documentation of TBufPool).
template <TPosition position> class TBufPool {
public:
    static constexpr TPosition poolPos = position;
    template <TPosition other> bool InitBuffer(TBuf<other> &buffer, uint32_t bytes, ASIM_SITE) {
        buffer.address_ = take(site, bytes), buffer.bytes_ = (int64_t(bytes) + 31) / 32 * 32;
        return true;
    }
    template <TPosition source, TPosition destination, int32_t depth, auto mask>
    bool InitBuffer(TQueBind<source, destination, depth, mask> &queue, uint8_t count, uint32_t bytes, ASIM_SITE) {
        int first = asim::pool->queue_count;
        if (!queues_) first_ = first;
        expect_start(site);
        pipe_->init_queue(site, queue, count, bytes, [&](int) { return take(site, bytes); });
        queues_ = asim::pool->queue_count - first_;
        return true;
    }
    template <class B> bool InitBufPool(B &part, uint32_t bytes, ASIM_SITE) {
        part.start_ = take(site, bytes), part.size_ = bytes, part.pipe_ = pipe_, part.used_ = 0;
        return true;
    }
    template <class B, class C> bool InitBufPool(B &part, uint32_t bytes, C &shared, ASIM_SITE) {
        expect_start(site);
        return pipe_->InitBufPool(part, bytes, shared, site);
    }
    // Wait until every buffer is free, and hand them out anew.
    void Reset(ASIM_SITE) {
        expect_start(site);
        asim::pool->give_back(site, first_, first_ + queues_);
        used_ = queues_ = 0;
    }

private:
    friend class TPipe;
    template <TPosition other> friend class TBufPool;
    void expect_start(asim::Site site) const {
        if (!pipe_) asim::refuse(site, "TBufPool: it has no memory; InitBufPool gives it some");
    }
    int64_t take(asim::Site site, int64_t bytes) {
        expect_start(site);
        int64_t size = (bytes + 31) / 32 * 32;
        if (size <= 0 || used_ + size > size_)
            asim::refuse(site, "InitBuffer: %lld bytes at %lld of a pool; it has %lld bytes", (long long)size, (long long)used_, (long long)size_);
        used_ += size;
        asim::allocated(site, start_ + used_ - size, size, position);
        return start_ + used_ - size;
    }
    TPipe *pipe_ = nullptr;
    int64_t start_ = 0, size_ = 0, used_ = 0;
    int first_ = 0, queues_ = 0;
};

// Buffers without a TPipe: one behind the other from address 0 of a memory.
template <Hardware memory = Hardware::UB> class LocalMemAllocator {
public:
    uint32_t GetCurAddr() const { return used_; }
    template <TPosition position, class T> LocalTensor<T> Alloc(uint32_t elements, ASIM_SITE) {
        static_assert(asim::hardware_of(position) == memory, "LocalMemAllocator: the position lies in another memory");
        int64_t size = ((int64_t)elements * (int64_t)sizeof(T) + 31) / 32 * 32, total = asim::bytes_of(memory);
        if (size <= 0 || used_ + size > total)
            asim::refuse(site, "Alloc: %lld bytes at %lld; %s has %lld bytes", (long long)size, (long long)used_,
                         asim::name_of(memory), (long long)total);
        used_ += size;
        asim::allocated(site, used_ - size, size, position);
        return LocalTensor<T>(position, used_ - size, elements).asim_within(used_ - size, used_);
    }
    template <class T> LocalTensor<T> Alloc(uint32_t elements, ASIM_SITE) { return Alloc<PLACE, T>(elements, site); }
    template <TPosition position, class T, uint32_t elements> LocalTensor<T> Alloc(ASIM_SITE) { return Alloc<position, T>(elements, site); }
    template <class T, uint32_t elements> LocalTensor<T> Alloc(ASIM_SITE) { return Alloc<PLACE, T>(elements, site); }

private:
    static constexpr TPosition PLACE = memory == Hardware::UB    ? TPosition::VECCALC
                                       : memory == Hardware::L1  ? TPosition::A1
                                       : memory == Hardware::L0A ? TPosition::A2
                                       : memory == Hardware::L0B ? TPosition::B2
                                       : memory == Hardware::L0C ? TPosition::CO1
                                       : memory == Hardware::BIAS ? TPosition::C2
                                                                  : TPosition::C2PIPE2GM;
    int64_t used_ = 0;
};

// Flags of a pair of pipes.
template <pipe_t source, pipe_t destination> class TQueSync {
public:
    void SetFlag(TEventID id, ASIM_SITE) { asim::Word::set_flag(site, {.source = source, .destination = destination, .id = asim::event_id(site, "SetFlag", id)}); }
    void WaitFlag(TEventID id, ASIM_SITE) { asim::Word::wait_flag(site, {.source = source, .destination = destination, .id = asim::event_id(site, "WaitFlag", id)}); }
};

}  // namespace AscendC
