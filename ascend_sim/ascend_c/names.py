"""The names of the public Ascend C API: those that are simulated on dav-2201, and those that are refused, with the reason.

The page docs/ascend-c.md is made of this table (`python tools/ascend_c_page.py`).
"""

from __future__ import annotations

ARCHITECTURES = ("dav-2201",)
"""Architectures on which compiled kernels run: those of 910B and 910_93."""

_TYPES = (
    "TPosition QuePosition HardEvent RoundMode CMPMODE MaskMode ReduceOrder BinaryRepeatParams UnaryRepeatParams "
    "CopyRepeatParams BrcbRepeatParams GatherRepeatParams SELMODE GatherMaskParams DataFormat DataCopyParams DataCopyExtParams "
    "DataCopyPadParams DataCopyPadExtParams DataCopyEnhancedParams"
)
_TENSORS = (
    "GlobalTensor SetGlobalBuffer SetL2CacheHint LocalTensor ReinterpretCast GetSize GetLength SetSize GetPosition GetPhyAddr "
    "ShapeInfo SetShapeInfo GetShapeInfo GetShapeSize"
)
_PIPE = (
    "TPipe TQue TQueBind TBuf Init InitBuffer AllocTensor FreeTensor EnQue DeQue Get GetWithOffset GetTPipePtr FreeAllEvent "
    "LocalMemAllocator PopStackBuffer TQueSync HasTensorInQue HasIdleBuffer VacantInQue GetTensorCountInQue AllocEventID "
    "ReleaseEventID FetchEventID Reset Destroy TBufPool InitBufPool"
)
_SYNC = (
    "SetFlag WaitFlag PipeBarrier SetMaskCount SetMaskNorm SetVectorMask ResetMask SetAtomicAdd SetAtomicMax SetAtomicMin "
    "SetAtomicType SetAtomicNone GetBlockIdx GetBlockNum GetSubBlockIdx GetSubBlockNum GetTaskRation GetTaskRatio SetCtrlSpr "
    "GetCtrlSpr SetSyncBaseAddr SetNextTaskStart WaitPreTaskEnd DisableDmaAtomic InitSocState Trap set_flag wait_flag "
    "pipe_barrier"
)
_COPY = "DataCopy DataCopyPad SetPadValue Copy Nz2NdParamsFull"
_VECTOR = (
    "Add Sub Mul Div Max Min And Or MulAddDst AddRelu SubRelu FusedMulAdd FusedMulAddRelu ShiftLeft ShiftRight Abs Exp Ln "
    "Sqrt Rsqrt Reciprocal Relu Not Adds Muls Maxs Mins LeakyRelu Axpy Duplicate Cast Compare CompareScalar Compares Select "
    "SetCmpMask GetCmpMask "
    "Brcb RepeatReduceSum WholeReduceSum WholeReduceMax WholeReduceMin BlockReduceSum BlockReduceMax BlockReduceMin "
    "PairReduceSum ReduceRepeat ReduceDataBlock "
    "ReducePairElem ReduceSum ReduceMax ReduceMin Gather Gatherb GatherMask CreateVecIndex Transpose TransDataTo5HD "
    "TransDataTo5HDParams SetDeqScale AddReluCast SubReluCast MulCast AddDeqRelu CastDeq CastDequant"
)
_CUBE_CALLS = (
    "Mmad LoadData LoadDataWithTranspose Fixpipe InitConstValue Fill SetFmatrix SetLoadDataBoundary SetLoadDataPaddingValue "
    "SetHF32Mode SetHF32TransMode SetMMLayoutTransform SetMMColumnMajor SetMMRowMajor "
    "SetFixPipeConfig SetFixpipeNz2ndFlag SetFixpipePreQuantFlag TSCM"
)
_CUBE_TYPES = (
    "MmadParams LoadData2DParams LoadData2dParams LoadData2dTransposeParams LoadData3DParamsV2 LoadData3DParamsV2Pro "
    "IsResetLoad3dConfig FmatrixMode InitConstValueParams Nd2NzParams FixpipeParamsV220 FixpipeConfig CO2Layout "
    "DataCopyCO12DstParams QuantMode_t HF32Mode HF32TransMode"
)
_MATMUL = (
    "Matmul MatmulImpl MatmulType TCubeTiling CubeFormat REGIST_MATMUL_OBJ SetTensorA SetTensorB SetBias DisableBias ClearBias "
    "SetQuantScalar SetQuantVector SetOrgShape SetSingleShape SetTail SetHF32 Iterate IterateAll GetTensorC WaitIterateAll "
    "WaitGetTensorC End MatmulConfig GetNormalConfig GetMDLConfig GetMMConfig MatmulConfigMode SetSubBlockIdx "
    "SetUserDefInfo SetSelfDefineData SetWorkspace SetLocalWorkspace"
)
_VALUES = (
    "GetDataBlockSizeInBytes GetVecLen GetUBSizeInBytes GetUserWorkspace SetSysWorkspace GetSysWorkSpacePtr ScalarCast "
    "ScalarCountLeadingZero ScalarGetCountOfValue ScalarGetSFFValue CountBitsCntSameAsSignBit GetUintDivMagicAndShift "
    "ToBfloat16 ToFloat IsSameType Conditional Std DivCeil AlignUp CeilDivision Async EngineType"
)
_ACCESS = "GetValue SetValue DataCacheCleanAndInvalid CacheLine DcciDst DataCachePreload DataSyncBarrier"
_TURNS = "TransposeParamsExt TransposeType"
_LISTS = "ListTensorDesc TensorDesc GetDesc GetDataPtr GetDataObj SetShapeAddr GetDim GetIndex GetShape"
_MACROS = (
    "KERNEL_TASK_TYPE_DEFAULT KERNEL_TASK_TYPE REGISTER_TILING_DEFAULT GET_TILING_DATA GET_TILING_DATA_WITH_STRUCT "
    "GET_TILING_DATA_MEMBER ascendc_assert REGISTER_TILING_FOR_TILINGKEY TILING_KEY_IS TILING_KEY_VAR ASCEND_IS_AIC "
    "ASCEND_IS_AIV __vector__ __cube__ __mix__"
)

_ELEMENTS = (
    "Sigmoid Tanh Erf Sin Cos Floor Ceil Round Trunc Sign Log Log2 Log10 Silu Swish Gelu FasterGelu Power ArithProgression"
)
_ROWS = (
    "SoftMax SimpleSoftMax LayerNorm RmsNorm Sum Mean ReduceMean Broadcast BroadCast SoftMaxTiling LayerNormTiling "
    "RmsNormTiling SoftMaxShapeInfo SumParams MeanParams AscendDequant DequantParams DeQuantMode"
)

SIMULATED: dict[str, tuple[str, ...]] = {
    "tensors": tuple(_TENSORS.split()),
    "buffers and queues": tuple(_PIPE.split()),
    "order, masks, blocks": tuple(_SYNC.split()),
    "copies": tuple(_COPY.split()),
    "vector": tuple(_VECTOR.split()),
    "types and enumerations": tuple(_TYPES.split()),
    "cube": tuple(_CUBE_CALLS.split()),
    "types of the cube": tuple(_CUBE_TYPES.split()),
    "Matmul": tuple(_MATMUL.split()),
    "scalar access to memory": tuple(_ACCESS.split()),
    "flags between cores": ("CrossCoreSetFlag", "CrossCoreWaitFlag", "SyncAll"),
    "functions of elements": tuple(_ELEMENTS.split()),
    "functions of rows": tuple(_ROWS.split()),
    "layouts: Transpose of four axes": tuple(_TURNS.split()),
    "lists of tensors": tuple(_LISTS.split()),
    "macros": tuple(_MACROS.split()),
    "sizes and scalar functions": tuple(_VALUES.split()),
    "printing (to stderr)": ("printf", "PRINTF"),
}
"""Purpose -> names of the API that are simulated."""

ASSUMED = ("functions of elements", "functions of rows", "layouts: Transpose of four axes")
"""Purposes whose calls are compositions of this project: values are right, and time is assumed."""

_SCALAR = "the scalar unit"
_CUBE = "kernels of the cube core"
_OF_MATMUL = "the Matmul library"
_SORT = "sorting"
_CROSS = "one core's flags for another"
_NOT_HERE = "not an operation of dav-2201"
_SLICES = "copies of slices"
_QUANTISED = "quantisation by Fixpipe"
_BUFFERS = "buffers of the library, and their handles"
_CONVERTS = "scales of their own for the elements of a block"
_HALF_BYTES = "numbers of half a byte"
_FUNCTIONS = "functions of the library"
_REFUSED = {
    _SCALAR: ("GetAccVal GetProgramCounter GetReduceMaxMinCount GetArchVersion ClearSpr DumpTensor GetSystemCycle"),
    _CUBE: (
        "LoadData2DParamsV2 FixpipeParamsC310 SetLoadDataRepeat MmadWithSparse "
        "LoadData3DParamsV1 LoadData2dTransposeParamsV2 LoadImageToLocal LoadImageToLocalParams "
        "LoadDataRepeatParam"
    ),
    _OF_MATMUL: ("SetBatchNum IterateBatch IterateNBatch SetAntiQuantScalar SetAntiQuantVector SetSparseIndex GetOffsetC"),
    _SORT: (
        "Sort Sort32 MrgSort MrgSort4 MrgSort4Info MrgSortSrcList Concat Extract GetSortLen GetSortOffset TopK RpSort16 "
        "ProposalConcat ProposalExtract"
    ),
    _CROSS: "IBSet IBWait NotifyNextBlock WaitPreBlock InitDetermineComputeWorkspace",
    _NOT_HERE: ("Subs Divs AtomicAdd AtomicCas AtomicMax AtomicMin Scatter Interleave Truncate"),
    _SLICES: "SliceInfo",
    _QUANTISED: (
        "QF322F16_PRE VQF322F16_PRE QF322BF16_PRE VQF322BF16_PRE QF322F32_PRE VQF322F32_PRE "
        "QF322FP8_PRE VQF322FP8_PRE QF322HIF8_PRE VQF322HIF8_PRE QF322HIF8_PRE_HYBRID VQF322HIF8_PRE_HYBRID QS322BF16_PRE "
        "VQS322BF16_PRE"
    ),
    _BUFFERS: (
        "TBufHandle TBuffAddr GetBufferAddr FreeBuffer SetAddrWithOffset SetBufferLen SetUserTag GetUserTag InitSpmBuffer "
    ),
    _CONVERTS: "VdeqInfo",
    _HALF_BYTES: "int4b_t",
    _FUNCTIONS: (
        "AscendQuant AscendAntiQuant DropOut SoftmaxFlash SoftmaxFlashV2 "
        "SoftmaxGrad LogSoftMax LayerNormGrad BatchNorm DeepNorm GroupNorm "
        "WelfordUpdate SwiGLU GeGLU ReGlu Asin Acos Atan Sinh Cosh "
        "Tan Fmod Frac Xor ClampMax ClampMin CumSum ReduceProd ReduceXorSum "
        "ConfusionTranspose TransData Pad UnPad"
    ),
}

REFUSED: dict[str, str] = {name: why for why, names in _REFUSED.items() for name in names.split()}
"""Name that is refused at compile time -> reason."""
