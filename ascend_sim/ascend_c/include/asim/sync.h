// Flags, barriers, mask and atomic registers, and the number of this block.
#pragma once
#include "asim/tensor.h"

namespace asim {
constexpr int64_t PIPES_OF_EVENT[][2] = {
    {4, 3}, {3, 4}, {3, 2}, {2, 3}, {4, 1}, {1, 4}, {5, 1}, {1, 5}, {2, 1}, {1, 2}, {1, 1}, {5, 3}, {3, 5}, {3, 1}, {4, 2},
    {2, 4}, {1, 3}, {2, 10}, {10, 2}, {5, 4}, {4, 5}, {0, 1}, {1, 0}, {0, 4}, {4, 0}, {0, 5}, {5, 0}, {4, 10}, {10, 4}, {10, 0},
    {2, 0}, {10, 5}, {3, 10}, {10, 3}, {10, 10}};
constexpr int EVENTS = 8;  // ids of a pair of pipes

// Bytes of a memory that a position names; GM stands for what the library takes of the Unified Buffer for itself (rows.py).
inline void allocated(Site site, int64_t start, int64_t bytes, AscendC::TPosition position) {
    Word::allocate_(site, {.dst = start, .size = bytes, .position = position});
}
inline void allocated_for_library(Site site, int64_t start, int64_t bytes) {
    allocated(site, start, bytes, AscendC::TPosition::GM);
}

inline int64_t event_id(Site site, const char *call, int64_t id) {
    if (id < 0 || id >= EVENTS) refuse(site, "%s: event id %lld; allowed are 0 to %d", call, (long long)id, EVENTS - 1);
    return id;
}
constexpr int CROSS_FLAGS = 16;
inline void cross_id(Site site, const char *call, int64_t flag) {
    if (flag < 0 || flag >= CROSS_FLAGS) refuse(site, "%s: flag %lld; allowed are 0 to %d", call, (long long)flag, CROSS_FLAGS - 1);
}
// Pipes of this core; flags of events with other pipes make no words (public API, HardEventAic and HardEventAiv).
constexpr bool has_pipe(int64_t pipe) { return ON_CUBE ? pipe != 1 : pipe != 2 && pipe != 3 && pipe != 10; }
constexpr bool has_event(int64_t source, int64_t destination) { return has_pipe(source) && has_pipe(destination); }
inline void set_flag(Site site, AscendC::HardEvent event, int64_t id) {
    auto pair = PIPES_OF_EVENT[(int)event];
    if (!has_event(pair[0], pair[1])) return;
    if (pair[0] == pair[1]) return Word::pipe_barrier(site, {.pipe = pair[0]});
    Word::set_flag(site, {.source = pair[0], .destination = pair[1], .id = event_id(site, "SetFlag", id)});
}
inline void wait_flag(Site site, AscendC::HardEvent event, int64_t id) {
    auto pair = PIPES_OF_EVENT[(int)event];
    if (!has_event(pair[0], pair[1])) return;
    if (pair[0] == pair[1]) {
        if (pair[0] == 10) Word::pipe_barrier(site, {.pipe = pair[0]});
        return;
    }
    Word::wait_flag(site, {.source = pair[0], .destination = pair[1], .id = event_id(site, "WaitFlag", id)});
}
inline void set_vector_mask(Site site, int64_t high, int64_t low) {
    Word::set_vector_mask(site, {.mask_high = high, .mask_low = low});
}
inline void set_counting(Site site, bool counting) {
    recorder.registers.counting = counting;
    (counting ? Word::set_mask_count : Word::set_mask_norm)(site);
}
inline int64_t low_bits(int64_t count) { return count >= 64 ? -1 : count <= 0 ? 0 : (1ll << count) - 1; }
template <class... T> constexpr int64_t widest() {
    int64_t most = 0;
    ((most = most < (int64_t)sizeof(T) ? (int64_t)sizeof(T) : most), ...);
    return most;
}
// A mask's count of elements, of which the widest is one of T; a repeat has 256 bytes, a mask 128 bits.
template <class... T> inline int64_t elements_of_mask(Site site, int64_t count) {
    constexpr int64_t most = widest<T...>() == 1 ? 128 : 256 / widest<T...>();
    if (!ON_CUBE && (count < 0 || count > most))
        refuse(site, "a mask of %lld elements; allowed are 0 to %lld, those of a repeat", (long long)count, (long long)most);
    return count;
}
inline void mask_of_count(Site site, int64_t count) { set_vector_mask(site, low_bits(count - 64), low_bits(count)); }
// Numbers meet in GM as their sum (0), the larger (1) or the smaller (2); the register holds that above a byte of the format.
template <class T> inline void set_atomic_format(Site site, int64_t operation) {
    recorder.registers.atomic = operation << 8 | format_of<T>();
    recorder.atomic = site;
    Word::set_atomic_format(site, {.format = format_of<T>()});
}
template <class T> inline void set_atomic(Site site, decltype(Word::set_atomic_add) word, int64_t operation) {
    word(site);
    set_atomic_format<T>(site, operation);
}
inline void set_atomic_none(Site site) {
    recorder.registers.atomic = 0;
    Word::set_atomic_none(site);
}
}  // namespace asim

namespace AscendC {

template <HardEvent event> inline void SetFlag(int32_t id, ASIM_SITE) { asim::set_flag(site, event, id); }
template <HardEvent event> inline void WaitFlag(int32_t id, ASIM_SITE) { asim::wait_flag(site, event, id); }
template <pipe_t pipe> inline void PipeBarrier(ASIM_SITE) {
    if (asim::ON_CUBE && pipe == PIPE_V) return;
    asim::Word::pipe_barrier(site, {.pipe = pipe});
}

inline void SetMaskCount(ASIM_SITE) { asim::set_counting(site, true); }
inline void SetMaskNorm(ASIM_SITE) { asim::set_counting(site, false); }
inline void ResetMask(ASIM_SITE) { asim::set_vector_mask(site, -1, -1); }
template <class T, MaskMode mode = MaskMode::NORMAL> inline void SetVectorMask(uint64_t high, uint64_t low, ASIM_SITE) {
    asim::set_vector_mask(site, high, low);
}
template <class T, MaskMode mode = MaskMode::NORMAL> inline void SetVectorMask(int32_t count, ASIM_SITE) {
    if (mode == MaskMode::COUNTER) asim::set_vector_mask(site, 0, count);
    else asim::mask_of_count(site, asim::elements_of_mask<T>(site, count));
}

template <class T> inline void SetAtomicAdd(ASIM_SITE) { asim::set_atomic<T>(site, asim::Word::set_atomic_add, 0); }
template <class T> inline void SetAtomicMax(ASIM_SITE) { asim::set_atomic<T>(site, asim::Word::set_atomic_max, 1); }
template <class T> inline void SetAtomicMin(ASIM_SITE) { asim::set_atomic<T>(site, asim::Word::set_atomic_min, 2); }
template <class T> inline void SetAtomicType(ASIM_SITE) { asim::set_atomic_format<T>(site, asim::recorder.registers.atomic >> 8); }
inline void SetAtomicNone(ASIM_SITE) { asim::set_atomic_none(site); }

inline int64_t GetSubBlockIdx() { return asim::recorder.request.sub_block; }
inline int64_t GetSubBlockNum() { return asim::recorder.request.sub_blocks > 1 ? asim::recorder.request.sub_blocks : 1; }
inline int64_t GetTaskRation() { return asim::ON_CUBE ? 1 : GetSubBlockNum(); }
inline int64_t GetTaskRatio() { return GetTaskRation(); }
// The address of the flags between cores, which kernels of their own launch get from the host; flags need none here.
inline void SetSyncBaseAddr(uint64_t) {}
// A vector core counts itself among the vector cores of all blocks.
inline int64_t GetBlockIdx() { return asim::recorder.request.block * GetTaskRation() + (asim::ON_CUBE ? 0 : GetSubBlockIdx()); }
inline int64_t GetBlockNum() { return asim::recorder.request.blocks; }
inline int64_t get_block_idx() { return asim::recorder.request.block; }
inline int64_t get_block_num() { return GetBlockNum(); }
inline int64_t get_subblockid() { return GetSubBlockIdx(); }
inline int64_t get_subblockdim() { return GetSubBlockNum(); }

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE = 0, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL = 0, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
template <class T, CacheLine lines, DcciDst target = DcciDst::CACHELINE_OUT>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T> &dst, ASIM_SITE) {
    asim::Word::dcci(site, {.dst = asim::at(dst), .lines = lines, .side = target});
}

// A hint: the line of an element comes to the data cache. And a barrier of the scalar unit's own accesses, which are in order.
template <class T> inline void DataCachePreload(const GlobalTensor<T> &src, const int64_t offset, ASIM_SITE) {
    asim::Word::dc_preload(site, {.src0 = asim::at(src), .offset = offset});
}
enum class MemDsbT : uint8_t { ALL, DDR, UB, SEQ };
template <MemDsbT which> inline void DataSyncBarrier(ASIM_SITE) { asim::Word::dsb(site, {.which = which}); }

// Flags between cores. The word of a wait has the flag alone: it is of the mode of the core's own sets of that flag; where the
// core sets none, a kernel of cube and vector cores waits for the other kind (mode 2).
template <uint8_t mode, pipe_t pipe> inline void CrossCoreSetFlag(uint16_t flag, ASIM_SITE) {
    static_assert(mode <= 2, "CrossCoreSetFlag: modes 0, 1 and 2 are possible on this architecture");
    if constexpr (mode == 0) asim::marked<asim::ALL_CORES>();
    asim::cross_id(site, "CrossCoreSetFlag", flag);
    asim::recorder.cross_modes[flag] = mode;
    asim::Word::ffts_cross_core_sync(site, {.pipe = pipe, .config = 1 | mode << 4 | flag << 8});
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S> inline void CrossCoreWaitFlag(uint16_t flag, ASIM_SITE) {
    asim::cross_id(site, "CrossCoreWaitFlag", flag);
    int64_t own = asim::recorder.cross_modes[flag], other = asim::recorder.request.sub_blocks ? 2 : mode;
    asim::Word::wait_flag_dev(site, {.flag = flag, .mode = own < 0 ? other : own});
}
// Joins the vector cores, or cube and vector cores: the cube cores then join each other, and tell their vector cores.
template <bool vector_cores_only = true> inline void SyncAll(ASIM_SITE) {
    constexpr uint16_t CUBES = 11, VECTORS_OF_A_BLOCK = 12, CUBE_OF_A_BLOCK = 13, VECTORS = 14;  // of the library's own
    asim::marked<asim::ALL_CORES>();
    asim::Word::own_barrier_(site, {.with_flags = !vector_cores_only});
    asim::Word::pipe_barrier(site, {.pipe = PIPE_ALL});
    if constexpr (vector_cores_only) {
        CrossCoreSetFlag<0, PIPE_MTE3>(VECTORS, site);
        CrossCoreWaitFlag<0>(VECTORS, site);
    } else if constexpr (asim::ON_CUBE) {
        CrossCoreWaitFlag<2>(VECTORS_OF_A_BLOCK, site);
        CrossCoreSetFlag<0, PIPE_FIX>(CUBES, site);
        CrossCoreWaitFlag<0>(CUBES, site);
        CrossCoreSetFlag<2, PIPE_MTE3>(CUBE_OF_A_BLOCK, site);
    } else {
        CrossCoreSetFlag<2, PIPE_MTE3>(VECTORS_OF_A_BLOCK, site);
        CrossCoreWaitFlag<2>(CUBE_OF_A_BLOCK, site);
    }
}

enum class AscendCCoreType : uint8_t { AIC, AIV };
constexpr AscendCCoreType AIC = AscendCCoreType::AIC, AIV = AscendCCoreType::AIV, g_coreType = asim::ON_CUBE ? AIC : AIV;
enum class EngineType : int32_t { AIC = 1, AIV };
template <EngineType engine, auto function, class... T> inline void Async(T &&...arguments) {
    if ((engine == EngineType::AIC) == asim::ON_CUBE) function(std::forward<T>(arguments)...);
}

}  // namespace AscendC

// The flags and barriers of the level below.
inline void set_flag(pipe_t source, pipe_t destination, int32_t id, ASIM_SITE) {
    asim::Word::set_flag(site, {.source = source, .destination = destination, .id = asim::event_id(site, "set_flag", id)});
}
inline void wait_flag(pipe_t source, pipe_t destination, int32_t id, ASIM_SITE) {
    asim::Word::wait_flag(site, {.source = source, .destination = destination, .id = asim::event_id(site, "wait_flag", id)});
}
inline void pipe_barrier(pipe_t pipe, ASIM_SITE) { asim::Word::pipe_barrier(site, {.pipe = pipe}); }

// Waits of a kernel that is launched before the end of the one before it; here each kernel ends before the next begins.
namespace AscendC {
inline void SetNextTaskStart() {}
inline void WaitPreTaskEnd() {}
}  // namespace AscendC

// A kernel's prints go to the standard error of the command.
namespace AscendC {
using ::printf;
template <class T> inline auto asim_printed(T value) {
    if constexpr (asim::is_float<T>) return (double)(float)value;
    else return value;
}
template <class... T> inline void PRINTF(const char *format, T... values) { ::printf(format, asim_printed(values)...); }
}  // namespace AscendC
#define ASCENDC_ASSERT(...)
#define KERNEL_LOG(...)
#define ASSERT(condition)                                                                                                   \
    do {                                                                                                                    \
        if (!(condition)) asim::refuse(asim::Site::here(), "ASSERT(%s) is false", #condition);                              \
    } while (0)

#define assert(condition) ASSERT(condition)
#define ascendc_assert(condition, ...) ASSERT(condition)

#define block_idx AscendC::GetBlockIdx()
#define block_num AscendC::GetBlockNum()
#define ASCEND_IS_AIV constexpr(!asim::ON_CUBE)
#define ASCEND_IS_AIC constexpr(asim::ON_CUBE)
enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIV_1_0, KERNEL_TYPE_MIX_AIC_1_0, KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2
};
#define KERNEL_TASK_TYPE_DEFAULT(kind) asim::marked<asim::TASK_TYPES + (int)(kind)>()
#define KERNEL_TASK_TYPE(key, kind) asim::marked<asim::TASK_TYPES + (int)(kind)>()
