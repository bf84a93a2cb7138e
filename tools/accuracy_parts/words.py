"""What the page says where no table stands."""

from __future__ import annotations

HEAD = """# Accuracy: measured kernels and what the simulator says of them

`tools/accuracy` writes this page; `ascend-sim validate --csv rows.csv` prints the first table and writes every single row, each
with the 80 % interval of its predicted time (`predicted_low_us`, `predicted_high_us`; of a call the sums of its kernels').
The numbers are as they come.

**Rows.** `configs/measurements/` holds the rows with their sources: AlexNet training steps on a 910B2 (HF32, with counters
of the pipes; Ascend/msinsight test data), ResNet-50 training steps on the first 910 with 30 cores (fp16, no counters; Wu et
al., HPCC 2022), matrix products (`matmul.csv`) from samples, microbenchmarks and training steps on A2, A3 and 950PR, and
whole calls (`calls.csv`). A row is one kernel, which runs alone, or a call, whose kernels run one after the other; inputs are
in the L2 as far as they fit (`--l2 cold` for the contrary), unless the source of a row cleared it before.

**What the prediction was told.** "told nothing" is what a user gets: sizes and dtype of the row go into the simulator, blocks
and tiling are its own. "told" (`ascend-sim validate --told block_dim,tiling`) also takes from the row what the measured library
had decided: the blocks of convolutions and products, and base block and share of a core where a product's source gives them
(8192^3 samples and others). Every table says which of both it shows. "fitted" says whether costs of the chip were fitted on
rows of the same network or sample ("yes"): then the figure is in-sample, whatever it was told. The costs and their rows are
listed [below](#fitted-costs-and-the-rows-that-fitted-them). "structure" is of rows with which something else was chosen, and
is in-sample as well: what, where and with which rows is listed [beside them](#what-else-was-chosen-with-rows-in-view), from
blocks of the 910B2's vector kernels to the machine of KernelBench's rows. One of them decides a figure: if the V1 3-D kernel
of npu_conv3d_backward did load ahead, its mean error would be {v1_ahead} %. "no" means neither; all kernels were still
written with all rows in view.

**Figures.** Error of a row: (predicted - measured) / measured. mean and median are of the sizes of errors, bias is the mean
of errors, rank is Spearman's correlation over rows (three kernels or more). "kernels" counts distinct ones: {rows_910b2} rows
of the 910B2 are only {kernels_910b2} kernels, its convolutions two shapes. Core and pipe times are means over the launched
cores.

There is no second network with counters, so no leave-one-network-out error can be given for the 910B2; what leaving out a
layer, a batch or a chip says stands below. Kernels and tilings were written with these rows in view, too: figures of new
layers are worse. The calls are the odd rows of their sources; the even ones are kept back.
"""


REMOVED = """## Helps that are gone

**The state of the L2.** Rows of training steps whose inputs were written or read long before used to say so (`stale`, inferred
from the place of the row in its step): the L2 was taken to be full of what other kernels wrote. The simulator has no rule for
it, and no user could have told it. When it went, the mean error of TransData on the 910B2 rose from 13 to 16 percent, and its
AlexNet products, with weights of up to 151 MB, came out faster still."""


BATCH_32 = """The batch 32 rows of the first 910 come from other software (other splits, other fusion): never average them with
the rest.

All rows of the first 910 are of ResNet-50. Layers of other kinds have none here, so no error can be given for them; what is
predicted of nine (told nothing, fp16, batch 16, inputs in the L2, us with its 80 % interval, and the longest core over its
roofline):

{unseen}"""


NOT_MODELLED = """Not modelled anywhere: misses of the instruction cache, dual issue.
Measured L2 misses of tensors left by an earlier phase of a step run at 0.45-0.65 TB/s; write-backs of what other kernels
left explain two thirds of the distance to the 1.45 of long streams, the rest is not known.

dX of the 910B's older kernels has a cut of our own where it has fewer tiles than cores (small batches): most cores, then
least load, as the operator's host tiling of 2022 (inferred). No measured row is of that kind; the library may cut otherwise.

On the 950 no measured kernel says what small layers cost. Where a kernel is split by rows and columns, the vector cores
here take a transfer, with its head of 38 cycles (assumed), for each channel and part of a tile, and dW in NCDHW leaves L0C in
single elements, a 128-byte line each; small 1x1 layers of stride 2 and small dW are nothing but that. The library may move
several channels at once; no instruction that does so is described in the sources here."""


CALLS_TEXT = """## Whole calls

Told nothing. A row is the sum of a call's kernels. "named" rows say which kernels ran, and each is simulated as that
kernel, in that order, so that their error is that of kernels alone; of "ours" the source names none, and the error is that
of our own plan too. npu_conv3d_backward is the weight gradient of a 3-D convolution as an operator of the graph: both maps
turned, MemSet, the V1 kernel with an fp32 dW, dW turned (910B2); the V2 kernel alone from a cleared L2 (950). A grouped dW
of the 910B2 is turned in two steps, with a MemSet between: the source counts the kernels, and what they work on follows from
the library's TransData from FRACTAL_Z with groups to that without (`trans_data_groups.py`: steps stated, tiling assumed).
"inside" counts the calls whose measured time lies in the predicted interval, the sum of its kernels' ends. No interval is made
of calls of several kernels, so that of these it is a test; sums of ends are wide, and more than 80 % are expected in them.

{table}

Costs of the 950's weight gradient were fitted on its ten rows, and what its kernel does was chosen with them and with the nine
forward ones in view; no cost was fitted on any other of these rows. One rule was inferred from nine of the 910B2: that the
V1 3-D kernel loads nothing ahead. What is plan and what is kernel there (mean of the sizes of errors, bias):

| kernels | mean % | bias % |
|---|---|---|
| aclnnConvolutionBackward's plan: weights turned, Cast, V2 for four of them | {by_plan} |
| the kernels that ran, V1 with two buffers of each operand and a unit flag, as the 2-D kernel | {with_loads_ahead} |
| the kernels that ran, V1 as its schedule says and with nothing loaded ahead | {as_scheduled} |

**What the transposed convolutions say.** KernelBench's rows name their machine "Atlas A2", and their file the 910B2. On a
910B2 the 3-D ones (conv_transpose3d, fp32) would be off by {b2_3d} %, the products that write 1 GB by {b2_large} %. But these
products leave at {rate} TB/s, which is {of_b4} TB/s of a 910B4 and {of_b2}; and the fp32 product of 2048^3 takes 274 us,
where the 910B2 of another source takes 223 (20 cores at 1.65 GHz have 0.76 times the peak of 24 at 1.8). As an Ascend910B4
the same rows are predicted with a median error of {b4_median} % and a bias of {b4_bias} %; no cost was fitted on them, but
the machine was chosen with them. The 3-D transposed ones are within {b4_3d} %: they are bound by memory, which the result
passes three times (out of the cube, into and out of TransData). What stays: the batched product (128 of 128 x 512 x 256,
{batched} %) and kernels of less than {small_us} us ({small} %), because TransData and its launch were fitted on a step of
dynamic shapes.

**What the 950's rows say.** Costs of the weight gradient's kernel are fitted on its ten rows (`configs/libraries.yaml`), so
its figure here is in-sample; each row predicted with a fit on the other nine stands [below](#rows-left-out-of-a-fit). What of
them is a surrogate the file says. That a plane costs something was also seen in an outside check on the ten even rows, which
was known when `plane_cycles` was made: for that choice they are no blind test. The nine forward rows make the same kind of
access to NCDHW and speak against turning as slowly as dW does. Rows of the weight gradient name version 9.0.0 of the library;
as version 2026-08, which loads ahead, the same rows have a mean error of {newer} %. Depthwise forward convolutions multiply
merged groups as the library does (stated), with a tiling of our own (`stand-in` in reports). The two largest are half too
fast, and nothing here tells why.

**What a forward call launches.** The 910B2's conv2d rows count kernels and name no tensors; what they are follows from the
library. They are operators of the graph (op-plugin, npu_conv2d: stated), of which input, weight and result are turned. An fp16
result stays in blocks of channels, because npu_conv2d asks for NC1HWC0 there (stated): so fp16 rows have a TransData fewer.
TransData of 16-bit weights leaves the padding of its target to a MemSet where it is compiled for any shape, that of 32-bit
weights does not (CANN 8.1.RC1, tbe, trans_data_positive_source_ntc: stated). Conv2D takes a bias in fp16 or fp32 (its
documents: stated), so one of bf16 is cast; the bias itself, a few hundred bytes, is not simulated. Grouped weights go from
FRACTAL_Z of all filters to that of merged groups in a step of their own, behind a MemSet (trans_data_groups, steps stated, the
cut over cores inferred): of the depthwise row that step is a third, 32 bytes at a time. That gives the measured number of
every kernel in all eleven rows, and nothing was fitted. What stays is the small ones, a quarter to two fifths too slow in every
dtype: what a launch costs was fitted on a training step, and here one call ran over and over. Which of its kernels is how much
too slow the source does not say: it gives sums.

### Every call

{rows}"""
