"""Rules that were chosen with measured rows in view and are no costs: rules of kernels, blocks, the chip of some rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accuracy_parts.fitted_on import selected
from ascend_sim.studies.validate.launch import MeasuredRow

STRUCTURE_TEXT = """### What else was chosen with rows in view

No costs, but rules that were read off measured rows or settled by them; rows that are listed here are "structure" in the
tables."""


@dataclass(frozen=True)
class Choice:
    """`what` was chosen for `kernels` in `place` (a file of the sources), with these rows, named as in `fitted_on`."""

    kernels: str
    what: str
    place: str
    rows: tuple[str, ...]


TBE, LIBRARIES = "ops/kernels/grad_weight/tbe/program.py", "configs/libraries.yaml"
DW_910B2 = "910b2_conv_backward.csv: op_type=Conv2DBackpropFilter"
DX_910B2 = "910b2_conv_backward.csv: op_type=Conv2DBackpropInput"
TURNS = "910b2_helpers.csv: op_type=TransData"
CHOICES = (
    Choice(
        "910B, V1 dW, 3-D",
        "one buffer of each operand in L1, so that nothing is loaded ahead (`ONE_AFTER_THE_OTHER`)",
        TBE,
        ("calls.csv: chip=ascend910b2, kernels=TransData TransData MemSet Conv3DBackpropFilter TransData",),
    ),
    Choice(
        "910B, V1 dW, 3-D",
        "0.6 us a block for code that no cache holds: a surrogate, whose mechanism is not known "
        "(`launch.uncached_per_block_us`)",
        "configs/chips/dav-2201.yaml",
        ("calls.csv: chip=ascend910b2, kernels=TransData TransData MemSet Conv3DBackpropFilter TransData",),
    ),
    Choice(
        "910B, whole calls",
        "launches before are the same call, and the inputs of cann-bench's rows are cold (column launches and l2)",
        "configs/measurements/calls.csv",
        ("later/vector_calls.csv: run=cann_bench_vector_910b2",),
    ),
    Choice(
        "kernels of a profile",
        "in which buffers of its size a tensor lies",
        "ascend_sim/studies/validate/profile_order.py",
        tuple(f"steps/alexnet_910b2_{rank}.csv: Type=MatMulV2" for rank in ("rank0", "rank1")),
    ),
    Choice("910B, V1 dW, 32-bit", "L0A and L0B are handed over by flags of their own (`own_flags`)", TBE, (DW_910B2,)),
    Choice("910B, V1 dW", "a step's gradOutput is turned by one load", TBE, (DW_910B2,)),
    Choice("910B, V1 dW", "the Fixpipe's counter runs while it waits at a unit flag", "ascend_sim/isa/sync.py", (DW_910B2,)),
    Choice(
        "910B, dX", "parts of the cores' grid need not divide", "ops/kernels/grad_input/procedures/stand_in.py", (DX_910B2,)
    ),
    Choice(
        "910B, dX, 32-bit",
        "the weights take the slow transposing load, 16 output channels a step",
        "ops/kernels/grad_input/procedures/dav_2201.py",
        (DX_910B2,),
    ),
    Choice(
        "TransData, ReduceSum, MemSet",
        "how many blocks",
        "ops/kernels/vector/common.py",
        (TURNS, "910b2_helpers.csv: op_type=ReduceSum", "910b2_helpers.csv: op_type=MemSet"),
    ),
    Choice("TransData, 32-bit filters", "cut along output channels", "ops/kernels/vector/trans_data_filter.py", (TURNS,)),
    Choice("TransData", "single buffers", "ops/kernels/vector/trans_data.py", (TURNS,)),
    Choice("TransData", "small maps are turned whole", "ops/kernels/vector/trans_data_feature.py", (TURNS,)),
    Choice(
        "ReduceSum",
        "rows are summed by the row reduction of the vector unit",
        "ops/kernels/vector/reduce_sum.py",
        ("910b2_helpers.csv: op_type=ReduceSum",),
    ),
    Choice(
        "first 910, dW",
        "an image a block, 32 blocks for more images than cores (`images_first`), batch 32 among them",
        "ops/kernels/grad_weight/procedures/images_first.py",
        ("910_conv_backward.csv: op_type=Conv2DBackpropFilter",),
    ),
    Choice(
        "first 910, dX",
        "images before anything else (`images_first`), read off 69 rows, most of which are fused and not compared",
        "ops/kernels/grad_input/procedures/images_first.py",
        tuple(
            f"910_conv_backward.csv: op_type={name}"
            for name in (
                "Conv2DBackpropInput",
                "FusionOp_Conv2DBackpropInput_ReluGradV2",
                "FusionOp_Conv2DBackpropInput_AddN_ReluGradV2",
            )
        ),
    ),
    Choice(
        "950, dW",
        "in library 9.0.0 nothing is loaded ahead, turning is slow, a plane has a cost",
        LIBRARIES,
        ("calls.csv: chip=ascend950pr_9579, op_type=npu_conv3d_backward",),
    ),
    Choice(
        "950, dW",
        "the slow turn is a cost of this kernel and not of the path, and MTE1's queue is no shorter",
        LIBRARIES,
        ("calls.csv: chip=ascend950pr_9579, op_type=conv2d, groups=1",),
    ),
    Choice(
        "950, depthwise forward convolutions",
        "0.85 cycles an output pixel of a group, shared by all cores, beside the multiplication: a surrogate, whose mechanism "
        "is not known (`group_pixel_cycles`)",
        LIBRARIES,
        ("calls.csv: chip=ascend950pr_9579, op_type=conv2d, series=depthwise",),
    ),
    Choice(
        "MatMul", "as few cores as finish in as many rounds", "ops/kernels/matmul/tiling.py", ("matmul.csv: chip=ascend910b3",)
    ),
    Choice(
        "products of KernelBench",
        "they begin with what the same product left in the L2; calls of several kernels, whose buffers are not known, do not",
        "configs/measurements/matmul.csv",
        ("matmul.csv: series=KernelBench",),
    ),
    Choice(
        "all of KernelBench's rows",
        "the machine is a 910B4, whose written-back byte costs 1.3 of the 1.3 to 1.6 that its streams allow",
        "configs/measurements/calls.csv",
        ("calls.csv: series=KernelBench", "matmul.csv: series=KernelBench"),
    ),
)


def is_of(rows: Iterable[MeasuredRow], texts: Iterable[str]) -> bool:
    """Return True if one of these rows is among those that the texts name."""
    named = {tuple(row.items()) for text in dict.fromkeys(texts) for row in selected(text)}
    return any(tuple(row.cells.items()) in named for row in rows)


def was_chosen_on(rows: Iterable[MeasuredRow]) -> bool:
    """Return True if something was chosen with one of these rows in view."""
    return is_of(rows, [text for choice in CHOICES for text in choice.rows])


def choices() -> str:
    """The table of the page."""
    lines = ["| kernel | what was chosen | where | rows |", "|---|---|---|---|"]
    lines += [f"| {one.kernels} | {one.what} | `{one.place}` | {'; '.join(one.rows)} |" for one in CHOICES]
    return STRUCTURE_TEXT + "\n\n" + "\n".join(lines)
