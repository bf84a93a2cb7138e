"""The table of names against the headers and the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_sim.ascend_c.compiler import HEADERS
from ascend_sim.ascend_c.names import REFUSED, SIMULATED
from tests.support.places import ROOT

NAMES = {name for names in SIMULATED.values() for name in names}


BASIC = """
Abs Add AddDeqRelu AddRelu AddReluCast Adds AllocEventID AllocTensor And AtomicAdd AtomicCas AtomicMax AtomicMin Axpy
BinaryRepeatParams BlockReduceMax BlockReduceMin BlockReduceSum Brcb BrcbRepeatParams CO2Layout Cast CastDeq ClearSpr
Compare CompareScalar Compares Concat Copy CopyRepeatParams CreateVecIndex CrossCoreSetFlag CrossCoreWaitFlag
DataCacheCleanAndInvalid DataCachePreload DataCopy DataCopyCO12DstParams DataCopyEnhancedParams DataCopyExtParams
DataCopyPad DataCopyPadExtParams DataCopyPadParams DataCopyParams DataFormat DataSyncBarrier DeQue Destroy
DisableDmaAtomic Div DumpTensor Duplicate EnQue Exp Extract FetchEventID Fill Fixpipe FixpipeParamsC310
FixpipeParamsV220 FmatrixMode FreeAllEvent FreeTensor FusedMulAdd FusedMulAddRelu Gather GatherMask GatherMaskParams
Gatherb Get GetAccVal GetBlockIdx GetBlockNum GetCmpMask GetCtrlSpr GetDataBlockSizeInBytes GetDataPtr GetDesc GetDim
GetPhyAddr GetProgramCounter
GetReduceMaxMinCount GetShape GetShapeSize GetSize GetSortLen GetSortOffset GetSubBlockIdx GetSubBlockNum
GetSysWorkSpacePtr GetTPipePtr GetTaskRation GetTensorC GetUintDivMagicAndShift GetValue GetWithOffset GlobalTensor
IBSet IBWait Init InitBufPool InitBuffer InitConstValue InitConstValueParams InitSocState Interleave Iterate
IterateAll LeakyRelu ListTensorDesc Ln LoadData LoadData2DParams LoadData2DParamsV2 LoadData2dParams
LoadData2dTransposeParams LoadData3DParamsV2 LoadData3DParamsV2Pro LoadDataWithTranspose LocalTensor Max Maxs Min Mins
Mmad MmadParams MrgSort MrgSort4 MrgSort4Info Mul MulAddDst MulCast Muls Nd2NzParams Not Nz2NdParamsFull Or
PairReduceSum PipeBarrier PopStackBuffer Reciprocal ReduceDataBlock ReduceMax ReduceMin ReducePairElem ReduceRepeat
ReduceSum ReinterpretCast ReleaseEventID Relu RepeatReduceSum Reset ResetMask Rsqrt ScalarCast ScalarCountLeadingZero
ScalarGetCountOfValue ScalarGetSFFValue Scatter Select SetAtomicAdd SetAtomicMax SetAtomicMin SetAtomicNone
SetAtomicType SetBias SetCmpMask SetCtrlSpr SetDeqScale SetFixPipeConfig SetFixpipeNz2ndFlag SetFixpipePreQuantFlag
SetFlag SetFmatrix SetGlobalBuffer SetHF32Mode SetHF32TransMode SetL2CacheHint SetLoadDataBoundary
SetLoadDataPaddingValue SetLoadDataRepeat SetMMLayoutTransform SetMaskCount SetMaskNorm SetNextTaskStart SetOrgShape
SetPadValue SetShapeAddr SetSingleShape SetSize SetTail SetTensorA SetTensorB SetValue SetVectorMask ShapeInfo
ShiftLeft ShiftRight Sort Sort32 Sqrt Sub SubRelu SubReluCast Subs SyncAll TBuf TBufPool TPipe TQue TQueBind TQueSync
TSCM TensorDesc TransDataTo5HD TransDataTo5HDParams Transpose TransposeParamsExt TransposeType Trap Truncate
UnaryRepeatParams WaitFlag WaitPreTaskEnd WholeReduceMax WholeReduceMin WholeReduceSum printf
"""
"""Names of the basic API of dav-2201 (public declarations) and those that public kernels use."""


@pytest.fixture(scope="module")
def words() -> set[str]:
    """Every word of the headers, comments apart."""
    text = "\n".join(path.read_text() for path in HEADERS.rglob("*.h"))
    return set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", text)))


def test_simulated_names_stand_in_the_headers(words: set[str]) -> None:
    assert not NAMES - words


def test_refused_names_do_not(words: set[str]) -> None:
    assert not set(REFUSED) & words


def test_no_name_is_both() -> None:
    assert not NAMES & set(REFUSED)


def test_every_name_of_the_basic_api_is_simulated_or_refused() -> None:
    assert len(BASIC.split()) > 200 and not set(BASIC.split()) - NAMES - set(REFUSED)


def test_every_name_of_the_recorded_calls_is_in_the_table() -> None:
    cases = json.loads(Path(__file__).with_name("words.json").read_text())
    assert not {case["name"] for case in cases} - NAMES


def test_the_page_has_the_tables_of_the_code() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "ascend_c_page.py"), "--check"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
