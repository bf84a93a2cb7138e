"""Texts of the two pages where no table stands."""

from __future__ import annotations

HEAD = """# Accuracy

For whoever relies on a simulated time: how far off it is, how errors were measured, and where the simulator is known to be
off. `tools/accuracy` writes this page, and the tables behind it into [accuracy-tables.md](accuracy-tables.md)."""


MEASURED = """## How it is measured

**Rows.** `configs/measurements/` holds measured rows with their sources: training steps of AlexNet on a 910B2 and of ResNet-50
on the first 910, matrix products, microbenchmarks and whole calls on A2, A3 and 950PR. A row is one kernel, which runs alone,
or a call, whose kernels run one after the other. Of whole calls the even rows are kept back. Inputs are in the L2 as far as
they fit, unless the source cleared it; AlexNet's products find what [earlier
kernels](accuracy-tables.md#a-training-step-in-its-order) left.

**Inputs of a prediction.** The table above uses only the sizes and dtype of a row, as a user would. "With facts" (`ascend-sim
validate --facts block_dim,tiling`) also takes the measured library's decisions.

**In-sample or not.** The tables mark rows of which costs were "fitted", and with which a rule was chosen ("structure"). They
list the [costs](accuracy-tables.md#fitted-costs-and-the-rows-that-fitted-them), the
[choices](accuracy-tables.md#what-else-was-chosen-with-rows-in-view),
[rows whose costs are fitted without them](accuracy-tables.md#rows-left-out-of-a-fit), and errors
[before and after each mechanism](accuracy-tables.md#before-and-after-each-mechanism).

**Figures.** Error of a row: (predicted - measured) / measured. "mean" and "median" are of the sizes of errors, "bias" is the
mean of errors, "rank" is Spearman's correlation over rows (three or more)."""


TABLES = """# Accuracy: the tables

For whoever checks a figure of [accuracy.md](accuracy.md), which defines the columns. `tools/accuracy` writes this page. Times
are us, errors percent; predictions use sizes only unless stated otherwise."""


BLOCKS = """The blocks of the first 910 follow from a guessed rule, read off these rows
([where it jumps](#blocks-of-the-first-910))."""


UNSEEN = """## Layers of the first 910 without rows

All rows of the first 910 are of ResNet-50. Predictions for nine layers of other kinds (fp16, batch 16, inputs in the L2),
with the 80 % interval, and the longest core over its roofline:

{unseen}"""


NOT_MODELLED = """Not modelled: misses of the instruction cache, dual issue.

No measured row speaks for or against small layers on the 950, the 910B's older dX with fewer tiles than cores, and TransData of
1x1 filters in 32 bits or back from FRACTAL_Z: measured filters are 3x3 to 11x11 ([rows by
kind](accuracy-tables.md#transdata-of-the-910b2-by-kind)), and the vendor's way back always transposes (stated)."""


CALLS_TEXT = """## Whole calls

A row is the sum of a call's kernels; [all rows](accuracy-tables.md#whole-calls). Where the source names the kernels, the error
is that of kernels alone; elsewhere it includes that of our own plan. npu_conv3d_backward is the weight gradient of a 3-D
convolution as an operator of the graph. Costs of the 950's weight gradient were fitted on its ten rows, and its kernel was
chosen with them; that the 910B2's V1 kernel loads nothing ahead was inferred from nine rows:

| kernels | mean % | bias % |
|---|---|---|
| aclnnConvolutionBackward's plan: weights turned, Cast, V2 for four of them | {by_plan} |
| the kernels that ran, V1 with two buffers of each operand and a unit flag, as the 2-D kernel | {with_loads_ahead} |
| the kernels that ran, V1 as its schedule says and with nothing loaded ahead | {as_scheduled} |

- **KernelBench's rows** name their machine "Atlas A2", and their file the 910B2. There the 3-D transposed convolutions would
  be off by {b2_3d} %, the products that write 1 GB by {b2_large} %. These products leave at {rate} TB/s, which is {of_b4}
  TB/s of a 910B4 and {of_b2}. So they count as an Ascend910B4's: median error {b4_median} %, bias {b4_bias} %; the machine
  was chosen with them.
- **The 950's rows** name version 9.0.0 of the library; as version 2026-08, which loads ahead, they have a mean error of
  {newer} %. Depthwise forward convolutions have a surrogate, {group_pixel} cycles an output pixel of each group beside
  the merged multiplication (`group_pixel_cycles`, fitted on these ten rows: mean error {without_groups} % without it); its
  mechanism is not known, and pipe times of one row would tell.
- **The 910B2's V1 kernel** takes 16 us beyond loads and products, however many those are;
  [what was tried](accuracy-tables.md#the-older-3-d-kernel-of-the-910b2)."""


V1_TRIED = """### The older 3-D kernel of the 910B2

Conv3DBackpropFilter, ten calls: what was put beside simulated loads and products, fitted to what the other kernels leave of a
call, and the mean error of a call whose row was left out.

| L1 buffers of an operand | beside them | fitted | left out: mean % |
|---|---|---|---|
| one | a constant | 16.1 us | 8.3 |
| one | blocks (as shipped, at 0.6 us) | 0.72 us | 9.1 |
| one | tiles of dW of a core | 5.3 us | 13.1 |
| one | loads to L1 | 43 ns | 16.2 |
| one | time of the scalar unit | 0.16 of it | 17.3 |
| one | steps (Mmad) | 18 ns | 17.7 |
| two, loads ahead | a constant | 28.9 us | 15.0 |
| two, loads ahead | blocks, gradOutput to L1 | 1.14 us, 6.6 us a MB | 9.3 |
| two, loads ahead | a constant, loads to L1 | 21.1 us, 126 ns | 10.8 |
| two, loads ahead | blocks, time of the scalar unit | 1.14 us, 0.43 of it | 12.7 |
| two, loads ahead | steps (Mmad) | 123 ns | 26.7 |

So no work of the kernel replaces the constant: case 17 leaves 43 us for 11 us of work in 16 blocks, case 19 1,122 us where one
buffer takes 1,293 and two 777. Sums of calls do not tell this kernel from the TransData of dW behind it. Core and pipe times of
case 17 or 9 would decide: time of the scalar unit, of no pipe, or before the core begins."""


TRANS_DATA = """## TransData of the 910B2 by kind

1x1 filters stand in two rows: case 17 of npu_conv3d_backward (64 groups; 3.5 of its 64 us) and KernelBench's 87 (3 -> 64
channels; 1,322 us in all). Warm, 256 -> 128 channels takes 9 us back from FRACTAL_Z in 32 bits, 128 -> 256 takes 35, 2048 ->
2048 takes 184, the other way 313, and 15 in 16 bits, which are moved. A measured call that is not here leaves 11 to 20 us for
the 35: a core makes 1,400 copies of 64 bytes in UB, 38 cycles each, as the vendor's kernel makes them between its two
transpositions (ways 2001 to 2003 of trans_data_negative_target_ntc: stated; none only moves). A measured TransData of such a dW
would decide what they cost."""
