// MatmulConfig, with the fields of the public API in their order, and the functions that make one. A Matmul refuses fields that
// would change values or the cores that take part, if they are not simulated; all others change time alone.
#pragma once
#include "asim/types.h"

namespace AscendC {

enum class IterateOrder { ORDER_M = 0, ORDER_N, UNDEF };
enum class ScheduleType { INNER_PRODUCT = 0, OUTER_PRODUCT };
enum class BatchMode { NONE = 0, BATCH_LESS_THAN_L1, BATCH_LARGE_THAN_L1, SINGLE_LARGE_THAN_L1 };
enum class BatchOutMode { SINGLE_BATCH = 0, MULTI_BATCH };
enum class DecompressionMode { DECOMP_NONE = 0 };
enum class MatmulConfigMode { CONFIG_NORM = 0, CONFIG_MDL, CONFIG_SPECIALMDL, CONFIG_IBSHARE };

struct MatmulConfig {
    bool doNorm = false, doBasicBlock = false, doMultiDataLoad = false;
    uint32_t basicM = 0, basicN = 0, basicK = 0;
    bool intrinsicsCheck = false, isNBatch = false, enVecND2NZ = false, doSpecialBasicBlock = false;
    uint32_t doMTE2Preload = 0, singleCoreM = 0, singleCoreN = 0, singleCoreK = 0, stepM = 0, stepN = 0, baseMN = 0, singleCoreMN = 0;
    bool enUnitFlag = true, isPerTensor = false, hasAntiQuantOffset = false, doIBShareNorm = false, doSpecialMDL = false, enableInit = true;
    BatchMode batchMode = BatchMode::NONE;
    bool enableEnd = true, enableGetTensorC = true, enableSetOrgShape = true, enableSetBias = true, enableSetTail = true;
    bool enableQuantVector = true, enableSetDefineData = true;
    uint8_t iterateMode = 0;
    bool enableReuse = true, enableUBReuse = false, enableL1CacheUB = false, intraBlockPartSum = false;
    IterateOrder iterateOrder = IterateOrder::UNDEF;
    ScheduleType scheduleType = ScheduleType::INNER_PRODUCT;
    bool enableDoubleCache = false, isBiasBatch = true, enableStaticPadZeros = false, isPartialOutput = false, enableMixDualMaster = false;
    bool isA2B2Shared = false, isEnableChannelSplit = false, enableKdimReorderLoad = false, isCO1Shared = false;
    uint32_t sharedCO1BufferSize = 65536;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
    bool enableL1BankConflictOptimise = false, enableRelu = false;
    DecompressionMode decompMode = DecompressionMode::DECOMP_NONE;
};

constexpr MatmulConfig GetNormalConfig(bool intrinsicsLimit = false, bool batchLoop = false, bool isVecND2NZ = false,
                                       BatchMode bmmMode = BatchMode::BATCH_LESS_THAN_L1, bool isMsgReuse = true,
                                       IterateOrder order = IterateOrder::UNDEF, ScheduleType schedule = ScheduleType::INNER_PRODUCT,
                                       bool enUnitFlag = true, bool enableMixDualMaster = false,
                                       BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH) {
    MatmulConfig config;
    config.doNorm = true, config.intrinsicsCheck = intrinsicsLimit, config.isNBatch = batchLoop, config.enVecND2NZ = isVecND2NZ;
    config.batchMode = bmmMode, config.enableReuse = isMsgReuse, config.iterateOrder = order, config.scheduleType = schedule;
    config.enUnitFlag = enUnitFlag, config.enableMixDualMaster = enableMixDualMaster, config.bmmOutMode = bmmOutMode;
    return config;
}
constexpr MatmulConfig GetMDLConfig(bool intrinsicsLimit = false, bool batchLoop = false, uint32_t doMTE2Preload = 0, bool isVecND2NZ = false,
                                    bool isPerTensor = false, bool hasAntiQuantOffset = false, bool enUnitFlag = false,
                                    bool isMsgReuse = true, bool enableUBReuse = true, bool enableL1CacheUB = false,
                                    bool enableMixDualMaster = false, bool enableKdimReorderLoad = false,
                                    bool enableL1BankConflictOptimise = false) {
    MatmulConfig config;
    config.doMultiDataLoad = true, config.intrinsicsCheck = intrinsicsLimit, config.isNBatch = batchLoop;
    config.doMTE2Preload = doMTE2Preload, config.enVecND2NZ = isVecND2NZ, config.isPerTensor = isPerTensor;
    config.hasAntiQuantOffset = hasAntiQuantOffset, config.enUnitFlag = enUnitFlag, config.enableReuse = isMsgReuse;
    config.enableUBReuse = enableUBReuse, config.enableL1CacheUB = enableL1CacheUB, config.enableMixDualMaster = enableMixDualMaster;
    config.enableKdimReorderLoad = enableKdimReorderLoad, config.enableL1BankConflictOptimise = enableL1BankConflictOptimise;
    return config;
}
struct MatmulShapeParams { uint32_t singleCoreM, singleCoreN, singleCoreK, basicM, basicN, basicK; };
struct MatmulQuantParams { bool isPerTensor, hasAntiQuantOffset; };
struct MatmulBatchParams {
    bool isNBatch;
    BatchMode batchMode;
    bool isBiasBatch = true;
    BatchOutMode bmmOutMode = BatchOutMode::SINGLE_BATCH;
};
struct MatmulFuncParams {
    bool intrinsicsCheck, enVecND2NZ, enableDoubleCache, enableL1CacheUB;
    uint32_t doMTE2Preload;
    IterateOrder iterateOrder;
    ScheduleType scheduleType;
    bool enableReuse = true, enableUBReuse = false, isPartialOutput = false, isA2B2Shared = false, isEnableChannelSplit = false;
    bool enableKdimReorderLoad = false, enableL1BankConflictOptimise = false, enableRelu = false;
    DecompressionMode decompMode = DecompressionMode::DECOMP_NONE;
};
constexpr void asim_apply(MatmulConfig &c, const MatmulShapeParams &p) {
    c.singleCoreM = p.singleCoreM, c.singleCoreN = p.singleCoreN, c.singleCoreK = p.singleCoreK;
    c.basicM = p.basicM, c.basicN = p.basicN, c.basicK = p.basicK;
}
constexpr void asim_apply(MatmulConfig &c, const MatmulQuantParams &p) {
    c.isPerTensor = p.isPerTensor, c.hasAntiQuantOffset = p.hasAntiQuantOffset;
}
constexpr void asim_apply(MatmulConfig &c, const MatmulBatchParams &p) {
    c.isNBatch = p.isNBatch, c.batchMode = p.batchMode, c.isBiasBatch = p.isBiasBatch, c.bmmOutMode = p.bmmOutMode;
}
constexpr void asim_apply(MatmulConfig &c, const MatmulFuncParams &p) {
    c.intrinsicsCheck = p.intrinsicsCheck, c.enVecND2NZ = p.enVecND2NZ, c.enableDoubleCache = p.enableDoubleCache;
    c.enableL1CacheUB = p.enableL1CacheUB, c.doMTE2Preload = p.doMTE2Preload, c.iterateOrder = p.iterateOrder;
    c.scheduleType = p.scheduleType, c.enableReuse = p.enableReuse, c.enableUBReuse = p.enableUBReuse;
    c.isPartialOutput = p.isPartialOutput, c.isA2B2Shared = p.isA2B2Shared, c.isEnableChannelSplit = p.isEnableChannelSplit;
    c.enableKdimReorderLoad = p.enableKdimReorderLoad, c.enableL1BankConflictOptimise = p.enableL1BankConflictOptimise;
    c.enableRelu = p.enableRelu, c.decompMode = p.decompMode;
}
template <MatmulConfigMode mode, class... P> constexpr MatmulConfig GetMMConfig(P &&...params) {
    MatmulConfig config = mode == MatmulConfigMode::CONFIG_NORM ? GetNormalConfig() : GetMDLConfig();
    config.doSpecialMDL = mode == MatmulConfigMode::CONFIG_SPECIALMDL, config.doIBShareNorm = mode == MatmulConfigMode::CONFIG_IBSHARE;
    (asim_apply(config, params), ...);
    return config;
}
constexpr MatmulConfig CFG_NORM = GetNormalConfig(), CFG_MDL = GetMDLConfig();

// A Matmul of a configuration that can be simulated.
template <const auto &config> struct asim_checked {
    static_assert(!config.isNBatch && config.bmmOutMode == BatchOutMode::SINGLE_BATCH, "Matmul: batches (isNBatch, MULTI_BATCH) are not simulated");
    static_assert(!config.doBasicBlock && !config.doSpecialBasicBlock && !config.doSpecialMDL && !config.doIBShareNorm,
                  "Matmul: CFG_NORM and CFG_MDL are simulated, not basic blocks, SPECIALMDL or IBSHARE");
    static_assert(config.scheduleType == ScheduleType::INNER_PRODUCT && !config.enableKdimReorderLoad && !config.isA2B2Shared &&
                      !config.isCO1Shared && !config.enableMixDualMaster && !config.isPartialOutput && !config.intraBlockPartSum,
                  "Matmul: INNER_PRODUCT is simulated, without shared buffers, two masters, partial output or reordered loads of K");
    static_assert(!config.enableRelu && !config.isEnableChannelSplit && config.decompMode == DecompressionMode::DECOMP_NONE,
                  "Matmul: ReLU, a split of channels and compressed operands (MatmulFuncParams) are not simulated");
    static constexpr bool unit_flag = config.enUnitFlag;
};

}  // namespace AscendC
// Public kernels write these names without their namespace.
using AscendC::BatchMode, AscendC::BatchOutMode, AscendC::CFG_MDL, AscendC::CFG_NORM, AscendC::GetMDLConfig, AscendC::GetMMConfig;
using AscendC::GetNormalConfig, AscendC::IterateOrder, AscendC::MatmulBatchParams, AscendC::MatmulConfig, AscendC::MatmulConfigMode;
using AscendC::MatmulFuncParams, AscendC::MatmulQuantParams, AscendC::MatmulShapeParams, AscendC::ScheduleType;
