"""Tables of measured rows."""

from __future__ import annotations

CONV = "chip,op_type,N,Ci,Hi,Wi,Co,Ho,Wo,kh,kw,stride_h,stride_w,pad_h_total,pad_w_total,dtype,block_dim,duration_us"


TWO_ROWS = f"""# made up
{CONV},aicore_time_us,mac_ratio,mte1_ratio
Ascend910B2,Conv2DBackpropInput,2,16,8,8,32,8,8,3,3,1,1,2,2,fp16,4,10.0,8.0,0.5,0.25
Ascend910B2,Conv2DBackpropFilter,2,16,8,8,32,4,4,3,3,2,2,1,1,hf32,4,20.0,,,
"""


HELPERS = """chip,op_type,N,Ci,Hi,Wi,Co,kh,kw,dtype,dtype_out,format_in,format_out,C0,duration_us
ascend910b2,TransData,2,20,6,6,,,,fp32,,NCHW,NC1HWC0,8,10
ascend910b2,TransData,2,20,6,6,,,,fp32,,NC1HWC0,NCHW,16,10
ascend910b2,TransData,,20,,,40,3,3,fp32,,NCHW,FRACTAL_Z,8,10
ascend910b2,TransData,,20,,,40,3,3,fp32,,FRACTAL_Z,NCHW,8,10
ascend910b2,ReduceSum,2,20,36,1,,,,fp32,,,,,10
ascend910b2,Cast,1000,,,,,,,fp32,fp16,,,,10
ascend910b2,MemSet,,20,,,40,3,3,fp32,,,,,10
ascend910b2,Cast,1000,,,,,,,fp32,int64,,,,10
ascend910b2,Softmax,1000,,,,,,,fp32,,,,,10
ascend910b2,FusionOp_Conv2DBackpropInput_ReluGradV2,,,,,,,,fp16,,,,,10
"""


PRODUCTS = """chip,op_type,dtype,dtype_out,batch,M,N,K,trans_a,trans_b,block_dim,baseM,baseN,duration_us
ascend910b2,MatMulV2,fp16,fp32,,64,96,128,0,1,4,32,48,10
ascend910b2,BatchMatMul,bf16,,3,64,96,128,1,0,,,,10
ascend950pr_9589,MatMul,fp32,,,64,96,128,,,,,,10
ascend910a,MatMul,fp16,,,64,96,128,,,,,,10
ascend910b2,MatMul,fp16,,,64,96,128,,,,100,,10
ascend910b2,MatMul,int8,,,64,96,128,,,,,,10
ascend910b2,MatMul,fp16,,,8192,8192,8192,,,,,,10
"""
