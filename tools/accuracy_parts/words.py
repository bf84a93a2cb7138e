"""Texts of the two pages where no table stands."""

from __future__ import annotations

HEAD = """# Accuracy

For whoever relies on a simulated time: how far off it is, how errors were measured, and where the simulator is known to be
off. `tools/accuracy` writes this page, and the tables behind it into [accuracy-tables.md](accuracy-tables.md)."""


MEASURED = """## How it is measured

**Rows.** `configs/measurements/` holds measured rows with their sources: training steps of AlexNet on a 910B2 and of ResNet-50
on the first 910, matrix products, microbenchmarks and whole calls on A2, A3 and 950PR. A row is one kernel, which runs alone,
or a call, whose kernels run one after the other. Of whole calls the even rows are kept back. Inputs are in the L2 as far as
they fit, unless the source cleared it.

**Inputs of a prediction.** The table above is told nothing, as a user is: sizes and dtype of the row. "told" (`ascend-sim
validate --told block_dim,tiling`) also takes from the row what the measured library had decided.

**In-sample or not.** The tables mark rows of which costs were "fitted", and with which a rule was chosen ("structure"). They
list the [costs](accuracy-tables.md#fitted-costs-and-the-rows-that-fitted-them), the
[choices](accuracy-tables.md#what-else-was-chosen-with-rows-in-view),
[rows whose costs are fitted without them](accuracy-tables.md#rows-left-out-of-a-fit), and errors
[before and after each mechanism](accuracy-tables.md#before-and-after-each-mechanism).

**Figures.** Error of a row: (predicted - measured) / measured. "mean" and "median" are of the sizes of errors, "bias" is the
mean of errors, "rank" is Spearman's correlation over rows (three or more)."""


TABLES = """# Accuracy: the tables

For whoever checks a figure of [accuracy.md](accuracy.md), which defines the columns. `tools/accuracy` writes this page. Times
are us, errors percent; told nothing if not said otherwise."""


BLOCKS = """The blocks of the first 910 follow from a guessed rule, read off these rows
([where it jumps](#blocks-of-the-first-910))."""


UNSEEN = """## Layers of the first 910 without rows

All rows of the first 910 are of ResNet-50. Predictions for nine layers of other kinds (fp16, batch 16, inputs in the L2),
with the 80 % interval, and the longest core over its roofline:

{unseen}"""


NOT_MODELLED = """Not modelled: misses of the instruction cache, dual issue.

No measured row speaks for or against small layers on the 950, and the 910B's older dX with fewer tiles than cores."""


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
  was chosen with them. Off by most are the batched product ({batched} %) and kernels of less than {small_us} us ({small} %).
- **The 950's rows** name version 9.0.0 of the library; as version 2026-08, which loads ahead, they have a mean error of
  {newer} %. Depthwise forward convolutions have a surrogate, {group_pixel} cycles an output pixel of each group beside
  the merged multiplication (`group_pixel_cycles`, fitted on these ten rows: mean error {without_groups} % without it); its
  mechanism is not known, and pipe times of one row would tell."""
