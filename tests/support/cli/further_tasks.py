"""Further tasks of users: another batch, a call of the own kernel, lines of Python with PyTorch, chips."""

from __future__ import annotations

from tests.support.cli.user_tasks import UserTask

FURTHER_TASKS = (
    UserTask(
        "network",
        "one layer at another batch",
        "ascend-sim run net.yaml:body:batch=8 --mode timing",
        r"net\.yaml:body:batch=8  ascend910b3 .* us",
    ),
    UserTask(
        "network",
        "and with its own batch as an option",
        "ascend-sim run net.yaml:body --batch 8",
        r"NETWORK:LAYER:batch=8",
        code=2,
    ),
    UserTask(
        "compare",
        "what does a larger batch change in a layer",
        "ascend-sim compare net.yaml:body net.yaml:body:batch=8",
        r"\* total us .*%(.*\n)+\w+: blocks 2 -> 8",
    ),
    UserTask("refused", "a page without its name", "ascend-sim run by_hand --html", r"for example --html page\.html", code=2),
    UserTask(
        "own kernel",
        "why can I not call it",
        '@ascend_sim.kernel_function(core="AIV")\ndef double(k, x, y): ...\ndouble([1.0], [2.0])',
        r"ascend_sim\.launch\(double, blocks, x, y\)",
        code=2,
    ),
    UserTask(
        "teacher", "a number explained in Python", 'print(ascend_sim.explain("by_hand", element=[0, 0, 1, 2]))', r"18 products"
    ),
    UserTask(
        "torch",
        "are its gradients right",
        "g, x, w = torch.ones(2, 32, 8, 8), torch.ones(2, 16, 16, 16), torch.ones(32, 16, 3, 3)\n"
        "print(ascend_sim.convolution_backward(g, x, w, stride=2, padding=1))",
        r"values: correct",
    ),
    UserTask(
        "torch",
        "what does another chip change in my layer",
        'print(ascend_sim.compare_runs("ascend910b3", "ascend910b4", case=sim["down"].case()))',
        r"\* cube MHz .*%(.*\n)+kernels, us",
    ),
    UserTask(
        "torch",
        "does a larger batch pay",
        'print(ascend_sim.sweep(sim["down"].case(), {"batch": [1, 2]}))',
        r"for each image the\s+shortest is .* batch 2",
    ),
    UserTask(
        "torch",
        "how do two of my layers differ",
        'print(ascend_sim.compare_runs(sim["stem"].run(), sim["down"].run()))',
        r"more: --full",
    ),
    UserTask("torch", "a misspelled option of it", 'simulate(model, chp="ascend910b3")', r"'chp'; did you mean 'chip'", code=2),
    UserTask(
        "torch",
        "HF32 in the whole model",
        'with simulate(model, chip="ascend910b3", mode="timing", cube_math_type=3) as hf:\n'
        "    model(images).sum().backward()\nprint(hf)",
        r"60 % .* down  layout",
    ),
    UserTask(
        "network",
        "does a larger batch pay behind the rest of the step",
        "ascend-sim run net.yaml:body --l2 step --mode timing",
        r"\n +ascend-sim run net\.yaml:body:batch=4 --mode timing --l2 step\n",
    ),
    UserTask(
        "compare",
        "how far apart are the values of HF32",
        'hf = ascend_sim.run_case("fp32_keep", cube_math_type=1)\n'
        'print(ascend_sim.compare_runs(ascend_sim.run_case("fp32_keep"), hf))',
        r"grad_input equal bits with A .* up to 0\.0\d+",
    ),
    UserTask(
        "own kernel", "a kernel to begin with", "ascend-sim init kernel 'my own.py'", r"next: ascend-sim kernel 'my own\.py'"
    ),
    UserTask("refused", "a batch below one", "ascend-sim run net.yaml:body:batch=-1", r"stand :batch=N, .* from 1", code=2),
    UserTask("teacher", "a number of grad_bias", "ascend-sim explain by_hand --bias 1", r"is the sum of gradOutput", code=2),
    UserTask("chips", "how do two chips differ", "ascend-sim chips 910b3 910b4 --compare", r"910b3 +ascend910b4"),
)
