"""Tasks of users in plain words, what they type for them, and the network, kernel and model that they have."""

from __future__ import annotations

from dataclasses import dataclass

NETWORK = """
name: small
batch: 2
defaults: {dtype: float16, padding: 1, bias: false}
layers:
  - {name: stem, input: {shape: [2, 3, 16, 16], requires_grad: false}, weight: [16, 3, 3, 3]}
  - {name: body, input: [2, 16, 16, 16], weight: [32, 16, 3, 3], stride: 2}
  - {name: twin, input: [2, 16, 16, 16], weight: [32, 16, 3, 3], stride: 2}
  - {name: head, input: [2, 32, 8, 8], weight: [64, 32, 3, 3]}
"""

KERNEL = """
import numpy as np
import ascend_sim as asim


@asim.kernel_function(core="AIV")
def double(k, x, y):
    row = k.local_tensor(64, "float32", "row")
    loaded, done = k.flag("MTE2", "V", "loaded"), k.flag("V", "MTE3", "done")
    k.gm_to_ub(row, x)
    k.set_flag(loaded)
    k.wait_flag(loaded)
    k.muls(row, row, 2.0)
    k.set_flag(done)
    k.wait_flag(done)
    k.ub_to_gm(y, row)


BLOCKS = 1


def arguments(rng):
    return np.ones(64, np.float32), asim.empty(64, "float32")


def expected(x):
    return 2 * x
"""
PRODUCT = "    k.muls(row, row, 2.0)\n"
"""The line of the kernel that others replace."""
KERNELS = {
    "double": PRODUCT,
    "triple": "    k.muls(row, row, 3.0)\n",
    "near_name": "    k.mulz(row, row, 2.0)\n",
    "wrong_argument": "    k.muls(row, row, factor=2.0)\n",
    "too_large": '    k.local_tensor(100_000, "float32", "large")\n',
    "raises": "    k.muls(row, row, {}['factor'])\n",
    "yields": "    yield k.muls(row, row, 2.0)\n",
}
"""Lines in its place, by the name of the file."""
TORCH = """
import torch
from ascend_sim.torch import compare_training, export_network, simulate

model = torch.nn.Sequential()
model.add_module("stem", torch.nn.Conv2d(3, 16, 3, padding=1))
model.add_module("down", torch.nn.Conv2d(16, 32, 3, stride=2, padding=1))
images = torch.ones(2, 3, 16, 16)
with simulate(model, chip="ascend910b3", mode="timing") as sim:
    model(images).sum().backward()
"""
"""A model of the user's, and its training step on a simulated chip."""


@dataclass(frozen=True)
class UserTask:
    """A question in plain words, where the user types the answer's command, and what the screen must show."""

    kind: str
    question: str
    typed: str
    answer: str
    """A regular expression."""
    code: int = 0

    @property
    def is_command(self) -> bool:
        return self.typed.startswith("ascend-sim ")


TASKS = (
    UserTask("network", "which layer costs most", "ascend-sim run-network net.yaml --jobs 1", r"\d\d %  2 x .* body "),
    UserTask("network", "what do I try next", "ascend-sim run-network net.yaml --jobs 1", r"next: ascend-sim run net"),
    UserTask(
        "network", "which layer converts most layouts", "ascend-sim run-network net.yaml --jobs 1", r"most layout: body  2 x, "
    ),
    UserTask("network", "which layers are equal", "ascend-sim run-network net.yaml --jobs 1 --full", r"twin .* body"),
    UserTask("network", "open one layer", "ascend-sim run net.yaml:body --mode timing", r"net.yaml:body  ascend910b3 .* us"),
    UserTask(
        "network",
        "the best tiling of the worst layer",
        "ascend-sim tile net.yaml:body --kernel dW --limit 4 --jobs 1",
        r"in your call: Conv2DBackpropFilter .* us\. No tiling",
    ),
    UserTask(
        "network",
        "the forward pass alone",
        "ascend-sim run-network net.yaml --forward --jobs 1",
        r"small  forward  batch 2 .* us",
    ),
    UserTask("network", "which networks are there", "ascend-sim networks", r"vit_b_16 "),
    UserTask("torch", "which layer of my model is slowest", "print(sim)", r"60 % .* down  layout"),
    UserTask("torch", "open one layer of my model", 'print(sim["down"].run())', r"grad_weight \d+ %"),
    UserTask(
        "torch",
        "the best tiling of my layer",
        'print(sim["down"].tile("dW", limit=4, jobs=1)[0])',
        r"in your call: Conv2DBackpropFilter",
    ),
    UserTask("torch", "which layer did I misspell", 'print(sim["dwon"])', r"did you mean .*down", code=2),
    UserTask(
        "torch",
        "the layers of my model without its training step",
        'export_network(model, images, path="m.yaml")\nprint(ascend_sim.run_network("m.yaml", jobs=1))',
        r"2 layers, 2 distinct(.*\n)+.*us  down ",
    ),
    UserTask(
        "torch",
        "what does each precision cost my layer",
        'print(ascend_sim.precision(sim["down"].case()))',
        r"hf32: 1\d\.\d bits",
    ),
    UserTask(
        "torch", "where did the time go", "for part, us in sim.report.totals.items():\n    print(part, us)", r"layout \d+"
    ),
    UserTask(
        "precision",
        "is HF32 enough for this layer",
        "ascend-sim precision fp32_keep",
        r"hf32: 12\.7 bits, half the cube cycles",
    ),
    UserTask(
        "precision", "and with a wide range of values", "ascend-sim precision fp32_keep --inputs wide", r"hf32: 12\.9 bits"
    ),
    UserTask("precision", "what does HiFloat8 keep", "ascend-sim precision hifloat8", r"hif8 .* 4\.6 .* correct"),
    UserTask(
        "precision",
        "what becomes of 0.1 in HiFloat8",
        "ascend-sim format hifloat8 --value 0.1",
        r"Result 0 10 100 10 \(0x52\) = 0\.09375",
    ),
    UserTask("precision", "which dtypes are refused", "ascend-sim precision fp32_keep", r"refused with 161002: bf16"),
    UserTask(
        "precision",
        "another chip's precision",
        "ascend-sim precision by_hand --chips ascend910b3,ascend950pr_9589",
        r"ascend950pr_9589 .*hf32 ",
    ),
    UserTask("own kernel", "how long does my kernel take", "ascend-sim kernel double.py", r"double  ascend910b3 .* us"),
    UserTask("own kernel", "is my kernel right", "ascend-sim kernel double.py", r"values: correct"),
    UserTask(
        "own kernel",
        "why is my kernel wrong",
        "ascend-sim kernel triple.py",
        r"y: 64 of 64 wrong; first \[0\]: got 3, expected 2",
        code=1,
    ),
    UserTask(
        "own kernel",
        "does it need this flag",
        "ascend-sim check double.py --disarm loaded",
        r"a flag MTE2 -> V .* would order",
        code=1,
    ),
    UserTask(
        "own kernel",
        "where is the race",
        "ascend-sim kernel double.py --disarm loaded",
        r"RAW: double\.py:\d+ `k\.muls(.*\n)+.*a flag MTE2 -> V",
        code=1,
    ),
    UserTask("own kernel", "is there a mistake in it", "ascend-sim check double.py", r"SUMMARY: 0 errors"),
    UserTask("own kernel", "what is the method's name", "ascend-sim kernel near_name.py", r"mulz.*muls", code=2),
    UserTask(
        "own kernel",
        "what does the method take",
        "ascend-sim kernel wrong_argument.py",
        r"wrong_argument\.py:\d+: .*muls\(",
        code=2,
    ),
    UserTask(
        "own kernel", "does it fit in UB", "ascend-sim kernel too_large.py", r"too_large\.py:\d+: .*400000 bytes of UB", code=2
    ),
    UserTask("own kernel", "where does it raise", "ascend-sim kernel raises.py", r"raises\.py:13: .*KeyError", code=2),
    UserTask(
        "own kernel", "and its check", "ascend-sim check raises.py", r"refused: KeyError: 'factor'\n.*\n.*raises\.py:13", code=2
    ),
    UserTask(
        "own kernel",
        "what holds a shipped kernel up",
        "ascend-sim kernel {docs}/kernels/softmax.py --full",
        r"softmax +softmax +AIV .* vec \d",
    ),
    UserTask(
        "sweep",
        "what if L1 were twice as large",
        "ascend-sim sweep by_hand --vary chip.buffers.L1=524288,1048576 --jobs 1",
        r"tilings unchanged: .*--tile",
    ),
    UserTask(
        "sweep",
        "and with tilings for it",
        "ascend-sim sweep by_hand --vary chip.buffers.L1=524288,1048576 --tile --jobs 1",
        r"tilings: the best that 24 simulations",
    ),
    UserTask(
        "sweep",
        "what does a larger batch cost",
        "ascend-sim sweep by_hand --vary batch=1,4 --jobs 1",
        r"the shortest is .* us with batch 1",
    ),
    UserTask(
        "sweep",
        "time against error",
        "ascend-sim sweep fp32_keep --vary cube_math_type=0,1 --mode full --pareto us,error --jobs 1",
        r"1  \*  .*e-04",
    ),
    UserTask(
        "sweep",
        "which chip is fastest",
        "ascend-sim sweep by_hand --vary chip=ascend910b3,ascend950pr_9589 --jobs 1",
        r"the shortest is .* chip ascend950pr",
    ),
    UserTask(
        "sweep", "which tilings do not fit", "ascend-sim sweep by_hand --vary grad_input.baseM=16,4096 --jobs 1", r"L0A: baseM"
    ),
    UserTask(
        "compare", "what does another chip change", "ascend-sim compare ascend910b3 ascend910b4 --case by_hand", r"total us .*%"
    ),
    UserTask("compare", "what did my tiling change", "ascend-sim compare before after", r"\* grad_input "),
    UserTask(
        "compare", "are the values the same", "ascend-sim compare before after", r"grad_input equal bits with A +- +100\.0 %"
    ),
    UserTask(
        "compare",
        "what changed in my network",
        "ascend-sim compare net_before net_after",
        r"B - A +\+\d\.\d us (.*\n)+body .* layout \+0\.\d",
    ),
    UserTask(
        "compare", "two cases", "ascend-sim compare by_hand document_example_2d", r"\* total us .*%(.*\n)+more: --full \("
    ),
    UserTask(
        "compare", "in Python", 'print(ascend_sim.compare_runs("by_hand", "ascend910b1", case="by_hand"))', r"\* cube MHz .*%"
    ),
    UserTask(
        "validate", "how far are my measured rows", "ascend-sim validate --rows rows.csv --jobs 1", r"Conv2DBackpropFilter"
    ),
    UserTask(
        "validate",
        "with the blocks that ran",
        "ascend-sim validate --rows rows.csv --facts block_dim --jobs 1",
        r"Conv2DBackpropInput +1 +1 +\d",
    ),
    UserTask("validate", "helper kernels", "ascend-sim validate --rows helpers.csv --jobs 1", r"TransData"),
    UserTask(
        "validate", "rows of another chip", "ascend-sim validate --rows rows.csv --chip ascend910b3", r"ascend910b3", code=2
    ),
    UserTask(
        "validate",
        "each row with its interval",
        "ascend-sim validate --rows rows.csv --csv all.csv --jobs 1",
        r"wrote all\.csv",
    ),
    UserTask(
        "refused",
        "a network is no case",
        "ascend-sim run resnet50",
        r"run-network resnet50, or a layer of it, resnet50:conv1",
        code=2,
    ),
    UserTask("refused", "a misspelled network", "ascend-sim run-network resnt50", r"did you mean 'resnet50'", code=2),
    UserTask("refused", "a misspelled layer", "ascend-sim run resnet18:conv2_1", r"did you mean resnet18:conv2_1_a", code=2),
    UserTask("refused", "a family is no chip", "ascend-sim run by_hand --chip 910B", r"its chips: ascend910b1", code=2),
    UserTask(
        "refused",
        "a tiling too large",
        "ascend-sim run by_hand --tiling grad_input.baseM=4096",
        r"262144 > 65536 bytes",
        code=2,
    ),
    UserTask("refused", "which status and rule", "ascend-sim run refused.yaml", r"161002: .*cubeMathType", code=2),
    UserTask(
        "refused", "a status explained", "ascend-sim explain-status refused.yaml", r"status 161002: cubeMathType = 9", code=2
    ),
    UserTask("refused", "a wrong option", "ascend-sim run by_hand --mod timing", r"--mode", code=2),
    UserTask(
        "network",
        "how long is a training step",
        "ascend-sim run-network net.yaml --training --jobs 1",
        r"a training step: \d+\.\d us",
    ),
    UserTask(
        "torch", "what each precision leaves to every layer", "print(sim.precision())", r"down: (.*\n)+.*hf32: 1\d\.\d bits"
    ),
    UserTask(
        "precision",
        "why is this mode refused",
        "ascend-sim explain-status bf16 --cube-math-type 2",
        r"not with BFLOAT16 on 910B(.*\n)+fail +1  cube_math_type",
        code=2,
    ),
    UserTask("precision", "where does float16 overflow", "ascend-sim format float16", r"overflows from +65520"),
    UserTask("teacher", "which numbers make this one", "ascend-sim explain by_hand --element 0,0,1,2", r"18 products"),
    UserTask("own kernel", "does it run on a 310P", "ascend-sim kernel double.py --chip ascend310p3", r"ascend310p3 .* us"),
    UserTask(
        "sweep",
        "what if HBM were twice as fast",
        "ascend-sim sweep by_hand --vary chip.memory.hbm_gb_per_s=1750,3500 --jobs 1",
        r"2 points ran; each takes \d",
    ),
    UserTask(
        "sweep",
        "which chip and which precision",
        "ascend-sim sweep by_hand --vary chip=ascend910b3,ascend910b4 --vary cube_math_type=0,1 --jobs 1",
        r"4 points ran; the shortest is",
    ),
    UserTask("sweep", "a misspelled field", "ascend-sim sweep by_hand --vary bacth=1,2", r"did you mean batch", code=2),
    UserTask("refused", "rows without their option", "ascend-sim validate rows.csv", r"rows\.csv is too much.*--rows", code=2),
    UserTask(
        "refused",
        "a misspelled keyword in Python",
        'ascend_sim.run_case("by_hand", chp="ascend910b4")',
        r"unexpected keyword argument 'chp'; did you mean 'chip'",
        code=2,
    ),
    UserTask(
        "refused",
        "an element outside of its tensor",
        "ascend-sim explain by_hand --element 9,9,9,9",
        r"its shape is \[1, 2, 4, 4\]",
        code=2,
    ),
    UserTask(
        "compare",
        "one kernel on two chips",
        "ascend-sim compare ascend910b3 ascend910b4 --case by_hand --kernel dX",
        r"\ngrad_input\n(.*\n)+. us ",
    ),
    UserTask("compare", "does nothing differ", "ascend-sim compare by_hand by_hand", r"No difference: 10 kernels"),
    UserTask(
        "sweep",
        "only the columns that I want",
        "ascend-sim sweep by_hand --vary batch=1,2 --columns batch,dX_us --jobs 1",
        r"batch +grad_input us\n",
    ),
    UserTask(
        "network",
        "the forward call of one layer",
        "ascend-sim run net.yaml:body:forward --mode timing",
        r"convolution  net\.yaml:body:forward .* us",
    ),
    UserTask("torch", "a case file of my layer", 'print(sim["down"].case())', r"\n  shape: \[2, 16, 16, 16\]\n"),
    UserTask("torch", "how sure is the time", "print(sim)", r"80 %: \d+ to \d+ us"),
    UserTask("torch", "which layer converts most layouts", "print(sim)", r"most layout: down  1 x, "),
    UserTask("own kernel", "why does it run nothing", "ascend-sim kernel yields.py", r"it is a generator", code=2),
    UserTask(
        "precision",
        "is this number halfway",
        "ascend-sim format bfloat16 --value 1.00390625",
        r"a tie between 1\.0 and 1\.0078125",
    ),
    UserTask("refused", "HiFloat8 on a 910B", "ascend-sim run hifloat8 --chip 910b3", r"8-bit tensors run on a 950", code=2),
    UserTask("refused", "a sweep over nothing", "ascend-sim sweep by_hand", r"Missing option '--vary'", code=2),
    UserTask("refused", "a stage that the network has not", "ascend-sim run convnext_tiny:stage9", r"stage4_1", code=2),
    UserTask(
        "validate",
        "is the model any good",
        "ascend-sim validate --rows rows.csv --jobs 1",
        r"^task time off by \d+\.\d % in the mean .*bias -",
    ),
    UserTask("compare", "what takes the time, in Python", 'print(ascend_sim.run_case("by_hand"))', r"grad_weight \d+ %"),
    UserTask("teacher", "a number of grad_weight", "ascend-sim explain by_hand --weight 0,0,1,1", r"16 products"),
)
