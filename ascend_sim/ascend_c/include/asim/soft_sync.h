// SyncAll with a workspace: every vector core counts in a block of GM and reads the blocks of all.
#pragma once
#include "asim/copy.h"
#include "asim/vector.h"

namespace AscendC {

// The cores join before they read (assumed: in simulated time a copy that polls orders nothing), so that one reading is enough.
template <bool vector_cores_only = true>
inline void SyncAll(const GlobalTensor<int32_t> &gm, const LocalTensor<int32_t> &ub, const int32_t used = 0, ASIM_SITE) {
    static_assert(vector_cores_only, "SyncAll with a workspace joins vector cores; SyncAll<false>() joins both kinds");
    constexpr uint16_t VECTORS = 14, WORDS = 8;  // a flag of the library's own; numbers of a block of 32 bytes
    const int64_t cores = GetBlockNum() * GetTaskRation(), me = GetBlockIdx();
    if (used && used != cores)
        asim::refuse(site, "SyncAll: usedCores %d of %lld cores; all cores of the launch, or 0, are simulated", used, (long long)cores);
    asim::marked<asim::ALL_CORES>();
    asim::Word::own_barrier_(site, {.with_flags = false});
    asim::Word::pipe_barrier(site, {.pipe = PIPE_ALL});
    LocalTensor<int32_t> mine = ub[me * WORDS];
    DataCopy(mine, gm[me * WORDS], WORDS, site);
    asim_between(site, HardEvent::MTE2_S);
    mine.SetValue(0, mine.GetValue(0, site) + 1, site);
    asim_between(site, HardEvent::S_MTE3);
    DataCopy(gm[me * WORDS], mine, WORDS, site);
    asim_between(site, HardEvent::MTE3_MTE2);
    CrossCoreSetFlag<0, PIPE_MTE3>(VECTORS, site);
    CrossCoreWaitFlag<0>(VECTORS, site);
    DataCopy(ub, gm, cores * WORDS, site);
    asim_between(site, HardEvent::MTE2_S);
    for (int64_t core = 0; core < cores; core++) ub[core * WORDS].GetValue(0, site);
    asim_between(site, HardEvent::S_MTE2);
}

}  // namespace AscendC
